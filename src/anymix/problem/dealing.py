"""Rows dealt out to parts: folds, a share held out, a sample; fair to every domain and class.

All of them sort the rows by domain, then by class, and take every j-th.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anymix.problem.membership import OneDomain
from anymix.problem.rows import ALL, Part, Rows

Index = NDArray[np.intp]
Split = tuple[Part, Part]  # to fit, to judge on

BLOCK = 2**16  # rows that are counted at a time
LEAST = 1000  # rows of a domain or class in a sample: the worst domain may be a small one
ROWS_TO_CHOOSE = 20_000  # rows by which models are chosen, about

__all__ = [
    "ROWS_TO_CHOOSE",
    "Index",
    "Split",
    "deal",
    "deal_groups",
    "hold_out",
    "rows_to_choose",
    "sample",
    "sorted_rows",
]


class Shuffler(Protocol):
    """A generator of random numbers, of NumPy's new kind or the old."""

    def permutation(self, n: int, /) -> Any:
        """The numbers 0, ..., n − 1 in a random order."""


def sorted_rows(rows: Rows, rng: Shuffler | None = None, part: Part = ALL) -> Index:
    """Sorted by domain, then class, so that every j-th of these has a share of each."""
    n = len(np.empty(len(rows), dtype=bool)[part])
    turns = np.arange(n) if rng is None else _inverse(rng.permutation(n))
    chosen = turns if part is ALL else np.arange(len(rows))[part][turns]
    keys = [rows.domains.take(chosen).key()]
    if rows.classes is not None:
        keys.insert(0, rows.y[chosen])
    return np.asarray(chosen[np.lexsort(keys)], dtype=np.intp)


def _inverse(turn: Index) -> NDArray[np.integer[Any]]:
    """The order in which rows come whose turns are these: argsort without sorting, in half bytes.

    Millions of rows are shuffled here, of which little else is in memory.
    """
    kind: Any = np.int32 if len(turn) < 2**31 else np.int64
    order: NDArray[np.integer[Any]] = np.empty(len(turn), dtype=kind)
    order[turn] = np.arange(len(turn), dtype=kind)
    return order


def deal(order: Index, folds: int) -> Iterator[tuple[Index, Index]]:
    """Rows dealt out in turn: the k-th part is what fold k holds out."""
    turn = np.arange(len(order)) % folds
    return ((order[turn != k], order[turn == k]) for k in range(folds))


def deal_groups(
    rows: Rows, groups: NDArray[Any], folds: int, rng: Shuffler | None = None
) -> list[tuple[Index, Index]]:
    """The same for whole groups, such as all rows of a patient: one is never in two parts.

    The largest groups are dealt out first, each to the part that has least of its domains and
    classes.
    """
    _, code = np.unique(groups, return_inverse=True)
    key = np.asarray(rows.domains.key()).astype(np.int64)
    strata = key if rows.classes is None else key * len(rows.classes) + rows.y
    _, stratum = np.unique(strata, return_inverse=True)
    counts = np.zeros((code.max() + 1, stratum.max() + 1))
    np.add.at(counts, (code, stratum), 1.0)
    counts /= counts.sum(axis=0)  # the share of each stratum that a group has
    turn = np.arange(len(counts)) if rng is None else rng.permutation(len(counts))
    order = np.lexsort((turn, -np.bincount(code)))
    full, part = np.zeros((folds, counts.shape[1])), np.empty(len(counts), dtype=np.intp)
    for g in order:
        part[g] = np.argmin(full @ counts[g] + 1e-6 * full.sum(axis=1))
        full[part[g]] += counts[g]
    where = part[code]
    return [(np.flatnonzero(where != k), np.flatnonzero(where == k)) for k in range(folds)]


def hold_out(order: Index, share: float) -> tuple[Index, Index]:
    """The rows to fit, and every 1/share-th row to hold out."""
    held = np.zeros(len(order), dtype=bool)
    for start in range(0, len(order), BLOCK):  # numbers of all rows at once would take much room
        turns = np.arange(start, min(start + BLOCK, len(order)) + 1)
        held[start : start + BLOCK] = np.diff(np.floor(turns * share)) > 0
    return order[~held], order[held]


def sample(rows: Rows, count: int, rng: Shuffler, part: Part = ALL) -> Index:
    """About `count` of the rows, evenly from every domain and class; 1,000 of each if there are."""
    order = sorted_rows(rows, rng, part)
    key = rows.domains.take(order).key()
    picked = [_spaced(key == k, count / len(order)) for k in np.unique(key)]
    if rows.classes is not None:  # rare ones are not to be missed
        y = rows.y[order]
        picked += [_spaced(y == c, 0.0) for c in range(len(rows.classes))]
    return order[np.unique(np.concatenate(picked))]


def rows_to_choose(rows: Rows, rng: Shuffler, part: Part = ALL) -> tuple[Index, Rows]:
    """A sample of about 20,000 rows, weighted to stand for all: more would choose no better model.

    Every domain and class has at least 1,000 rows in it, if there are so many. The weights give
    the rows of a domain and class the share that they have among all. Rows of several domains are
    all taken.
    """
    every = np.arange(len(rows))[part]
    if len(every) <= ROWS_TO_CHOOSE or not isinstance(rows.domains, OneDomain):
        numbers = sorted_rows(rows, rng, part)
        return numbers, rows.take(numbers)
    numbers = sample(rows, ROWS_TO_CHOOSE, rng, part)
    stratum = rows.domains.key().astype(np.int64)
    if rows.classes is not None:
        stratum = stratum * len(rows.classes) + rows.y
    few, own = rows.take(numbers), stratum[numbers]
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    of_all = np.bincount(stratum[every], weight[every])
    of_few = np.bincount(own, weight[numbers])
    scale = of_few.sum() / of_all.sum()
    return numbers, replace(few, weight=weight[numbers] * scale * of_all[own] / of_few[own])


def _spaced(these: NDArray[np.bool_], share: float) -> Index:
    """A share of these places, evenly spaced, 1,000 at least if there are so many."""
    places = np.flatnonzero(these)
    count = min(len(places), max(LEAST, math.ceil(share * len(places))))
    return places[np.arange(count) * len(places) // max(count, 1)]
