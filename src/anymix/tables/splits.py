"""Which rows to fit and which to judge on: folds, a share held out, or a table of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.problem.dealing import Split, deal, deal_groups, hold_out, sorted_rows
from anymix.problem.rows import Rows
from anymix.tables.hints import alike_names

Index = NDArray[np.intp]

__all__ = ["ROWS_TO_FOLD", "Plan", "check_splits", "plan"]

ROWS_TO_FOLD = 20_000  # up to here every row is held out once, beyond it a quarter of them
WHOLE = "; rows of one group are never in two parts"
TOO_FEW = "too few rows to learn from some and to judge on others"


@dataclass(frozen=True, eq=False)
class Plan:
    """How the models are judged: parts to fit and to judge on, as places in `order`."""

    order: Index  # one part held out comes last: none is copied
    splits: list[Split]
    judged_on: str


def plan(
    rows: Rows, evaluation: float | np.integer[Any] | None, groups: NDArray[Any] | None = None
) -> Plan:
    """Which rows to fit and which to judge on, with a fair share of every domain and class."""
    n = len(rows)
    if evaluation is None:
        evaluation = 5 if n <= ROWS_TO_FOLD else 0.25
    order = sorted_rows(rows, np.random.default_rng(0))
    if isinstance(evaluation, int | np.integer):
        if not 2 <= evaluation <= n:
            fix = f"give 2 to {n}, the number of rows"
            raise InputError("evaluation", f"is {evaluation}", fix)
        folds = int(evaluation)
        said = f"all rows, in {folds} parts, each predicted by models that had not seen it"
        if groups is None:
            return Plan(order, list(deal(np.arange(n), folds)), said)
        return Plan(np.arange(n), list(deal_groups(rows, groups, folds)), said + WHOLE)
    if not 0 < evaluation < 1:
        raise InputError("evaluation", f"is {evaluation}", "give a share inside (0, 1)")
    if groups is None:
        fit, held = hold_out(order, evaluation)
    else:
        fit, held = deal_groups(rows, groups, max(2, round(1 / evaluation)))[0]
    splits: list[Split] = [(slice(0, len(fit)), slice(len(fit), n))]
    said = f"{len(held):,} rows that the models had not seen" + WHOLE * (groups is not None)
    return Plan(np.concatenate([fit, held]), splits, said)


def check_splits(rows: Rows, splits: Sequence[Split]) -> None:
    """Refuse parts to fit that lack a domain or class, parts held out that all lack a domain."""
    domain = rows.domains.key()
    judged_on = np.concatenate([domain[part] for _, part in splits])
    for codes in (*(domain[part] for part, _ in splits), judged_on):
        for name in _missing(codes, rows.names):
            fix = "raise it, say to 30, to put small domains together, or leave these rows out"
            alike = [note for note in alike_names(rows.names.tolist()) if repr(name) in note]
            fix = "; ".join([fix, *alike])
            raise InputError("min_rows", f"is too low: domain {name!r} has {TOO_FEW}", fix)
    if rows.classes is None:
        return
    for part, _ in splits:
        for name in _missing(rows.y[part], rows.classes):
            fix = "put rare classes together in the table, or leave these rows out"
            if all(str(c).lstrip("-").isdigit() for c in rows.classes):
                fix += "; if these are numbers, not classes, the task is to regress"
            raise InputError("target", f"has the class {name!r} with {TOO_FEW}", fix)


def _missing(codes: NDArray[Any], names: NDArray[Any]) -> list[str]:
    """The names whose code is not there."""
    return [str(name) for name in names[np.bincount(codes, minlength=len(names)) == 0]]
