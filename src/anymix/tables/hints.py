"""Columns that people would rather hear of: identifiers, and columns that give the target away."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.problem.rows import Rows
from anymix.tables.columns import level_codes, numbers_of

Array = NDArray[np.float64]

__all__ = ["alike_names", "column_hints", "kind_of_target"]

MANY_ROWS = 50  # with fewer, different numbers in all rows are no wonder
ROWS_PER_LEVEL = 5  # with fewer, each level may go with one class by chance


def column_hints(frame: Any, names: Sequence[str], rows: Rows) -> list[str]:
    """What to say of columns to learn from that are identifiers, or tell the target."""
    notes = []
    for name in names:
        if _is_identifier(frame[name]):
            said = "every row has a whole number of its own; if it is an identifier, drop it"
            notes.append(f"{name!r}: {said}")
        elif _tells(name, frame[name], rows):
            said = "tells the target without fail; if it is not known before the target, drop it"
            notes.append(f"{name!r}: {said}")
    return notes


def alike_names(names: Sequence[str]) -> list[str]:
    """A note on each group of domains whose names differ in nothing but spaces and capitals."""
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(map(str, names)):
        groups.setdefault("".join(name.split()).casefold(), []).append(name)
    fix = "differ only by spaces or capitals; if they are one, write them alike"
    return [
        f"the domains {', '.join(map(repr, group))} {fix}"
        for group in groups.values()
        if len(group) > 1
    ]


def _is_identifier(column: Any) -> bool:
    return bool(column.dtype.kind in "iu" and len(column) >= MANY_ROWS and column.is_unique)


def _tells(name: str, column: Any, rows: Rows) -> bool:
    """Whether each value of a column goes with one target."""
    if len(column) < MANY_ROWS:
        return False
    numeric = column.dtype.kind in "iufM"
    if rows.classes is None:
        return numeric and _is_line(numbers_of(name, column), np.asarray(rows.y))
    if numeric and column.nunique() > len(column) / ROWS_PER_LEVEL:
        return _is_split(numbers_of(name, column), rows.y, len(rows.classes))
    codes, levels = level_codes(column)
    pairs = np.unique(codes.astype(np.int64) * len(rows.classes) + rows.y)
    count = len(np.unique(codes))
    return len(pairs) == count and len(levels) > 2 and count <= len(codes) / ROWS_PER_LEVEL


def _is_line(x: Array, y: Array) -> bool:
    """Whether y = a + b x but for rounding."""
    here = ~np.isnan(x)
    if here.sum() < MANY_ROWS or np.ptp(x[here]) == 0 or np.ptp(y[here]) == 0:
        return False
    return bool(abs(np.corrcoef(x[here] / np.abs(x[here]).max(), y[here])[0, 1]) > 1 - 1e-9)


def _is_split(x: Array, y: NDArray[Any], n_classes: int) -> bool:
    """Whether the classes lie in stretches of x that do not meet."""
    here = ~np.isnan(x)
    ends = [
        (x[here & (y == c)].min(), x[here & (y == c)].max())
        for c in range(n_classes)
        if (here & (y == c)).any()
    ]
    ends.sort()
    apart = all(high < low for (_, high), (low, _) in pairwise(ends))
    return len(ends) == n_classes and apart


def kind_of_target(values: Any, name: str, task: str, classes: Any) -> list[str]:
    """What whole numbers were taken for, if that was not said."""
    count = values.nunique()
    if task != "auto" or values.dtype.kind not in "iu" or not 2 < count <= 100:
        return []
    taken, other = ("numbers", "classify") if classes is None else ("classes", "regress")
    return [
        f"{name!r}: {count} different whole numbers, taken for {taken}; to {other} is the other"
        " task"
    ]
