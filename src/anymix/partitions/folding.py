"""Rows that are read in chunks, dealt out to folds by a hash: no second copy of them is made.

A row's fold is that of its number, or of its id where ids are given, so that all rows of a person
are in one fold. Every pass deals them out alike.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.partitions.chunks import Chunk
from anymix.partitions.scanning import Glance, Scan, glance, row_hash
from anymix.partitions.streamed import Streamed, Visit

__all__ = ["folds"]


def folds(problem: Streamed, count: int = 5, seed: int = 0) -> list[tuple[Streamed, Streamed]]:
    """For each fold the problem of all other rows, to fit, and that of its own, to judge on.

    One pass for all folds together; their problems read the same rows, and count passes with
    `problem`.

    Parameters
    ----------
    problem : Streamed
        The rows.
    count : int
        The number of folds.
    seed : int
        Deals the rows out otherwise.

    Returns
    -------
    list of (Streamed, Streamed)

    Examples
    --------
    >>> import anymix as ax
    >>> from anymix.partitions import from_batches
    >>> rng = np.random.default_rng(0)
    >>> X, d = rng.normal(size=(4000, 2)), rng.choice(["a", "b"], 4000)
    >>> y = (X[:, 0] + rng.normal(size=4000) > 0).astype(int)
    >>> problem = from_batches(lambda: ((X[i::4], y[i::4], d[i::4]) for i in range(4)))
    >>> losses = [held.losses(ax.solve(fit).w) for fit, held in folds(problem, 2)]
    >>> bool(np.mean(losses) < 0.6)
    True
    """
    if count % 1 or not 2 <= count <= problem.n_rows:
        raise InputError("count", f"is {count}", f"give 2 to {problem.n_rows}, the number of rows")
    deal = Deal(count, seed)
    scans = [Scan(problem.loss, problem.classes) for _ in range(2 * count)]
    begun = time.perf_counter()
    for found in problem._visit(_Glances(deal)):
        for scan, one in zip(scans, found, strict=True):
            scan.add(one)
    problem._log.add("folds", begun)
    made = [_part(problem, deal, scans[i], i // 2, i % 2 == 1) for i in range(2 * count)]
    return list(zip(made[0::2], made[1::2], strict=True))


def _part(problem: Streamed, deal: Deal, scan: Scan, fold: int, held: bool) -> Streamed:
    there = scan.names[scan.sizes > 0].tolist() if scan.n_rows else []
    missing = [name for name in problem.domain_names.tolist() if name not in there]
    if missing:
        found = f"has no row of {missing[0]!r} {'in' if held else 'outside of'} fold {fold}"
        raise InputError("domains", found, "merge the domain with another, or take fewer folds")
    scan.check()
    visit = _Chosen(problem._visit, deal, fold, held)
    return Streamed(visit, scan, problem._coder, problem._log, problem.dense_up_to)


@dataclass(frozen=True)
class Deal:
    """Which fold a row is in."""

    count: int
    seed: int

    def folds(self, chunk: Chunk, number: int) -> NDArray[np.intp]:
        """The fold of every row of a chunk."""
        if chunk.ids is None:
            keys = row_hash(np.arange(len(chunk)) + (number << 32), self.seed)
        else:
            keys = row_hash(_numbers(chunk.ids), self.seed)
        return np.asarray(keys % np.uint64(self.count), dtype=np.intp)

    def taken(self, chunk: Chunk | None, number: int, fold: int, held: bool) -> Chunk | None:
        """The rows of a fold, or all others; None if there are none."""
        if chunk is None:
            return None
        rows = np.flatnonzero((self.folds(chunk, number) == fold) == held)
        return chunk.take(rows) if len(rows) else None


def _numbers(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """A number for every id, the same in every process."""
    if ids.dtype.kind in "iu":
        return ids.astype(np.uint64)
    names, codes = np.unique(ids.astype(str), return_inverse=True)
    found = [zlib.crc32(name.encode()) for name in names.tolist()]
    return np.array(found, dtype=np.uint64)[codes]


@dataclass(frozen=True, eq=False)
class _Glances:
    """The glances at all folds of a chunk, the rows to fit and those held out in turn."""

    deal: Deal

    def __call__(self, chunk: Chunk | None, number: int) -> list[Glance | None]:
        parts = (
            self.deal.taken(chunk, number, fold, held)
            for fold in range(self.deal.count)
            for held in (False, True)
        )
        return [
            None if part is None else glance(part, number << 32, merging=False, n_parts=2)
            for part in parts
        ]


@dataclass(frozen=True, eq=False)
class _Chosen:
    """A pass over the rows of a fold, or over all others."""

    visit: Visit
    deal: Deal
    fold: int
    held: bool

    def __call__(self, work: Callable[[Chunk | None, int], Any]) -> Iterator[Any]:
        return self.visit(_OfChosen(work, self.deal, self.fold, self.held))


@dataclass(frozen=True, eq=False)
class _OfChosen:
    work: Callable[[Chunk | None, int], Any]
    deal: Deal
    fold: int
    held: bool

    def __call__(self, chunk: Chunk | None, number: int) -> Any:
        return self.work(self.deal.taken(chunk, number, self.fold, self.held), number)
