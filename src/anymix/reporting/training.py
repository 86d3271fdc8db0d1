"""The curves of a training: upper and lower value, and the mixture λ, by iteration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from anymix.errors import InputError
from anymix.reporting.arguments import checked_mixture

__all__ = ["training_curves"]

MOST_POINTS = 400  # of a curve
MOST_CURVES = 7  # of λ; the other domains are summed up

Record = Mapping[str, Any]


def training_curves(history: Any, names: list[str]) -> dict[str, Any]:
    """The curves of a history, from at most 400 of its records."""
    records = _records(history)
    return {
        "values": _values(_thinned([r for r in records if "upper" in r])),
        "shares": _shares(_thinned([r for r in records if "mixture" in r]), names),
    }


def _records(history: Any) -> list[Record]:
    fix = "give records, such as Solution.history"
    if history is not None and not isinstance(history, Iterable):
        raise InputError("history", f"is {history!r}", fix)
    records = [] if history is None else list(history)
    for i, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InputError(f"history[{i}]", f"is {record!r}", fix)
        if not {"iteration", "step"} & set(record) or not {"upper", "mixture"} & set(record):
            raise InputError(
                f"history[{i}]",
                f"has the keys {sorted(record)}",
                "give 'iteration' or 'step', and 'upper' with 'lower', or 'mixture'",
            )
    return records


def _thinned(records: list[Record]) -> list[Record]:
    keep = np.unique(np.linspace(0, len(records) - 1, MOST_POINTS).astype(int))
    return [records[i] for i in keep] if len(records) > MOST_POINTS else records


def _step(record: Record) -> int:
    return int(record["iteration"] if "iteration" in record else record["step"])


def _values(records: list[Record]) -> dict[str, Any] | None:
    if not records:
        return None
    return {
        "step": [_step(r) for r in records],
        "upper": [r["upper"] for r in records],
        "lower": [r.get("lower") for r in records],
    }


def _shares(records: list[Record], names: list[str]) -> dict[str, Any] | None:
    if not records:
        return None
    path = np.array([checked_mixture(r["mixture"], len(names)) for r in records])  # (t, p)
    order = np.argsort(-path.max(axis=0), kind="stable")
    few = order if len(names) <= MOST_CURVES else order[: MOST_CURVES - 1]
    series = [{"name": names[k], "values": path[:, k]} for k in few]
    if len(few) < len(names):
        rest = 1 - path[:, few].sum(axis=1)
        series.append({"name": f"the other {len(names) - len(few)}", "values": rest})
    return {"step": [_step(r) for r in records], "series": series}
