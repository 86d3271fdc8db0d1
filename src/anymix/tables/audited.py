"""Audits of the predictions, or losses, in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing import Audit, audit
from anymix.errors import InputError
from anymix.mixtures.choosing import Mixtures, target_mixtures
from anymix.problem.cells import combined
from anymix.tables.frames import column, pandas_frame
from anymix.tables.labels import coded_column

__all__ = ["audit_frame"]


def audit_frame(
    frame: Any,
    domains: Sequence[str],
    *,
    target: str | Sequence[str] | None = None,
    prediction: Sequence[str] = (),
    losses: str | None = None,
    against: str | Sequence[str] | None = None,
    loss: str | None = None,
    mixtures: Mixtures = "simplex",
    confidence: float = 0.95,
    classes: Sequence[str] | None = None,
    loss_bound: float | None = None,
    guarantee: float | None = None,
    metrics: Any = None,
    weight: str | None = None,
) -> dict[str, Audit]:
    """Audits of a table's predictions (or losses), by the names of their columns.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    domains : sequence of str
        The columns whose values, or their combinations, are the domains.
    target : str, sequence of str or None
        The column of what is true; of several, each has its own column of predictions.
    prediction : sequence of str
        The column of labels, values or probabilities, or one of probabilities for each class.
    losses : str or None
        The column of each row's loss, instead of target and prediction.
    against : str, sequence of str or None
        Another model's column, or columns; its audit comes first, as the one to compare with.
    loss : str or None
        The name of the loss, as `audit` takes it.
    mixtures : str, MixtureSet, function or None
        Λ, the mixtures to guard against: words such as "chi2:2.0", a set, a function from the
        domains' sizes to one, or None for any mixture.
    confidence : float
        Level of the intervals, such as 0.95.
    classes : sequence of str or None
        Names of the classes, in the order of the columns of probabilities.
    loss_bound : float or None
        What no loss is above, as `audit` takes it.
    guarantee : float or None
        δ of what is guaranteed for every mixture, as `audit` takes it.
    metrics : str, sequence of str, mapping or None
        What else to measure, as `audit` takes it.
    weight : str or None
        The column of what each row counts.

    Returns
    -------
    dict
        Name of the columns → Audit.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"y": [1, 0, 1], "new": [1, 0, 0], "old": [0, 0, 0], "g": list("aab")})
    >>> found = audit_frame(table, ["g"], target="y", prediction=["new"], against="old")
    >>> {name: audit.agnostic_loss for name, audit in found.items()}
    {'old': 1.0, 'new': 1.0}
    """
    targets, others = _listed(target), _listed(against)
    _check_asked(targets, prediction, losses)
    frame = pandas_frame(frame)
    coded = {name: coded_column(frame, name) for name in domains}
    (names, codes), _ = combined(list(coded.values()), list(coded))
    Λ = target_mixtures(mixtures, None, np.bincount(codes).astype(np.float64), names.tolist())
    labels = {name: levels[places] for name, (levels, places) in coded.items()}
    y = None if not targets or losses is not None else _entries(frame, targets)
    models = {"against": others} if others else {}
    models |= {"losses": [losses]} if losses is not None else {"prediction": list(prediction)}
    said = {argument: _entries(frame, columns) for argument, columns in models.items()}
    if any(_is_text(v) for v in (y, *said.values())):  # 1 and 2 beside 3a are labels too
        y, said = _as_text(y), {argument: _as_text(v) for argument, v in said.items()}
    options = {
        "sensitive_features": labels,
        "loss": loss,
        "mixtures": Λ,
        "confidence": confidence,
        "loss_bound": loss_bound,
        "guarantee": guarantee,
        "classes": None if classes is None or y is None else _typed_classes(classes, y),
        "metrics": metrics,
        "sample_weight": None if weight is None else _entries(frame, [weight]),
    }
    if len(targets) > 1:
        y, said = _by_name(y, targets), {k: _by_name(v, targets) for k, v in said.items()}
    return {
        ", ".join(columns): _audited(argument, y, said[argument], options)
        for argument, columns in models.items()
    }


def _check_asked(targets: list[str], prediction: Sequence[str], losses: str | None) -> None:
    if (losses is None) == (not targets or not prediction):
        raise InputError(
            "target, prediction and losses",
            "do not fit",
            "give a target and a prediction, or else losses",
        )


def _listed(names: str | Sequence[str] | None) -> list[str]:
    return [] if names is None else [names] if isinstance(names, str) else list(names)


def _by_name(values: Any, targets: list[str]) -> Any:
    """Columns by the names of the targets, in their order; what does not fit stays as it is."""
    fits = values.ndim == 2 and values.shape[1] == len(targets)
    return dict(zip(targets, map(_own_type, values.T), strict=True)) if fits else values


def _own_type(column: NDArray[Any]) -> NDArray[Any]:
    """A column by itself: whole numbers beside fractions are whole again."""
    if column.dtype.kind == "f" and np.all(column == np.floor(column)):
        return column.astype(np.int64)
    return np.array(column.tolist())


def _audited(argument: str, y: Any, entries: Any, options: dict[str, Any]) -> Audit:
    """The audit of one model; what it refuses is said of the arguments of `audit_frame`."""
    names = {
        "y_true": "target",
        "y_pred": argument,
        "losses": argument,
        "sensitive_features": "domains",
        "sample_weight": "weight",
    }
    try:
        return audit(y, entries, **options)
    except InputError as error:
        name = names.get(error.argument, error.argument)
        raise InputError(name, error.found, error.fix) from error


def _is_text(values: NDArray[Any] | None) -> bool:
    """Whether there are words among the values."""
    if values is None or values.dtype.kind in "biuf":
        return False
    return values.dtype.kind != "O" or any(isinstance(v, str) for v in values.ravel())


def _as_text(values: Any) -> Any:
    """A column of whole numbers as they are written; all else as it is."""
    digits = values is not None and values.ndim == 1 and values.dtype.kind in "iu"
    return values.astype(str) if digits else values


def _typed_classes(classes: Sequence[str], y: NDArray[Any]) -> list[Any]:
    """The classes as numbers, or truth values, where the target's are."""
    if y.dtype.kind == "b" and set(classes) <= {"False", "True"}:
        return [name == "True" for name in classes]
    if y.dtype.kind not in "iuf":
        return list(classes)
    try:
        return [float(name) for name in classes]
    except ValueError as error:
        found = f"are {list(classes)}, but the target's numbers: {error}"
        raise InputError("classes", found, "give numbers too") from None


def _entries(frame: Any, names: Sequence[str]) -> NDArray[Any]:
    """A column, or several side by side, without gaps."""
    for name in names:
        missing = int(column(frame, name).isna().sum())
        if missing:
            found = f"has {missing:,} missing values"
            raise InputError(f"column {name!r}", found, "drop those rows or fill them in")
    values = [np.asarray(frame[name]) for name in names]
    return values[0] if len(values) == 1 else np.column_stack(values)
