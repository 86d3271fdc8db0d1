"""Domains and targets of a table: columns of labels, each coded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.problem.cells import Coded, combined
from anymix.problem.entries import encode
from anymix.tables.columns import OTHER, level_codes, numbers_of
from anymix.tables.frames import column

Array = NDArray[np.float64]

__all__ = ["coded_column", "domain_codes", "merge_small", "places_among", "target_column"]

MOST_DOMAINS = 1_000
ENOUGH = 5  # rows for one in each fold


def domain_codes(frame: Any, columns: Sequence[str]) -> Coded:
    """The domains' names, sorted, and the domain of every row."""
    return combined([coded_column(frame, name) for name in columns], list(columns))[0]


def coded_column(frame: Any, name: str) -> Coded:
    """Sorted names and codes of a column; whole numbers stay numbers, a gap is '(missing)'."""
    values = column(frame, name)
    distinct = values.nunique()
    if distinct > MOST_DOMAINS:
        raise InputError(
            f"column {name!r}",
            f"has {distinct:,} different values",
            f"a domain or class column has at most {MOST_DOMAINS:,}: group its values first",
        )
    if values.dtype.kind in "iu" and not values.isna().any() and values.max() < 2**63:
        return encode(name, values.to_numpy(dtype=np.int64), len(values))
    codes, levels = level_codes(values)
    names = sorted({levels[k] for k in np.unique(codes)})
    place = {level: k for k, level in enumerate(names)}
    return np.array(names), np.array([place.get(level, -1) for level in levels])[codes]


def merge_small(domains: Coded, min_rows: int) -> tuple[Coded, list[str]]:
    """Domains below `min_rows` rows put together as '(other)', and their names."""
    # Where '(other)' has fewer than 5 rows still, too few to learn from some and judge on others,
    # the next smallest domains join it.
    names, codes = domains
    counts = np.bincount(codes, minlength=len(names))
    small = counts < min_rows
    if not small.any():
        return domains, []
    for k in np.argsort(counts, kind="stable"):
        if counts[small].sum() >= min(min_rows, ENOUGH):
            break
        small[k] = True
    titles = [OTHER if few else str(name) for name, few in zip(names.tolist(), small, strict=True)]
    kept = sorted(set(titles))
    place = {title: k for k, title in enumerate(kept)}
    merged = np.array([place[title] for title in titles])[codes]
    return (np.array(kept), merged), [str(name) for name in names[small].tolist()]


def target_column(frame: Any, name: str, task: str) -> tuple[NDArray[Any] | None, NDArray[Any]]:
    """Classes and codes, or None and numbers; "auto": strings, ≤ 10 integers are classes."""
    values = column(frame, name)
    if values.dtype.kind == "M":
        fix = "name a target of numbers or classes"
        raise InputError(f"column {name!r}", "holds dates", fix)
    numeric, distinct = values.dtype.kind in "iuf", values.nunique()
    if distinct < 2:
        raise InputError(
            f"column {name!r}",
            f"is constant ({values.iloc[0]}): there is nothing to learn",
            "name another target",
        )
    if task == "auto":
        few = not numeric or (distinct <= 10 and bool((values % 1 == 0).all()))
        task = "classify" if few else "regress"
    if task == "classify":
        return coded_column(frame, name)
    if not numeric:
        found = f"has strings such as {str(values.iloc[0])!r}"
        raise InputError(f"column {name!r}", found, "regression needs numbers")
    return None, numbers_of(name, values)


def places_among(what: str, coded: Coded, names: NDArray[Any]) -> NDArray[np.intp]:
    """The place of each row's label among the names of the table that is fitted."""
    place = {str(name): k for k, name in enumerate(names.tolist())}
    theirs, codes = coded
    unknown = [str(name) for name in theirs.tolist() if str(name) not in place]
    if unknown:
        raise InputError(
            f"{what} {unknown[0]!r}",
            "is only in the test file",
            "add rows of it to the table that is fitted, or leave it out of the test file",
        )
    return np.array([place[str(name)] for name in theirs.tolist()], dtype=np.intp)[codes]
