"""The rows of each domain in random order, pass after pass, from any place on.

Row number c of domain k is at place c mod m_k of pass c div m_k; each pass has an order of its own.
It comes from a generator that counts (Philox), set to (seed, domain, pass), so it can be made again
for any pass without going through those before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]

__all__ = ["Walk"]


class Walk:
    """Where the next rows of each domain are.

    Parameters
    ----------
    ids : ndarray of shape (n,)
        The domain of each row.
    p : int
        How many domains there are.
    seed : int
        Where the orders come from.

    Examples
    --------
    >>> walk = Walk(np.array([0, 1, 0, 1]), 2, seed=0)
    >>> rows = walk.take(np.array([0, 0]), np.array([2, 4]))      # a pass of 0, two passes of 1
    >>> sorted(rows[:2].tolist()), sorted(rows[2:].tolist())
    ([0, 2], [1, 1, 3, 3])
    """

    def __init__(self, ids: Counts, p: int, seed: int) -> None:
        self.sizes: Counts = np.bincount(ids, minlength=p).astype(np.int64)
        self._starts = np.cumsum(self.sizes) - self.sizes
        self._rows: Counts = np.argsort(ids, kind="stable").astype(np.int64)
        self._order = self._rows.copy()
        self._begin = np.full(p, -1, dtype=np.int64)  # of the pass whose order is there: its first
        self._end = np.full(p, -1, dtype=np.int64)  # row number, and one more than its last
        self._seed = seed

    def take(self, position: Counts, counts: Counts) -> Counts:
        """The next counts[k] rows of every domain k, of which position[k] are used up; by domain.

        Parameters
        ----------
        position, counts : ndarray of shape (p,)
            Rows used up and rows asked for.
        """
        if (position >= self._begin).all() and (position + counts <= self._end).all():
            return self._order[_ranges(self._starts + position - self._begin, counts)]
        found: list[Counts] = []
        owners = []
        asked = counts.nonzero()[0]
        at, left = position[asked], counts[asked]
        while len(asked):
            self._shuffle(asked, at)
            n = np.minimum(left, self._end[asked] - at)
            found.append(self._order[_ranges((self._starts - self._begin)[asked] + at, n)])
            owners.append(asked.repeat(n))
            more = (n < left).nonzero()[0]
            asked, at, left = asked[more], (at + n)[more], (left - n)[more]
        if not found:
            return np.zeros(0, dtype=np.int64)
        rows: Counts = np.concatenate(found)[np.argsort(np.concatenate(owners), kind="stable")]
        return rows

    def _shuffle(self, domains: Counts, at: Counts) -> None:
        """Make the orders of the passes that hold row numbers `at`, where they are not there."""
        other = (at < self._begin[domains]) | (at >= self._end[domains])
        for k, c in zip(domains[other].tolist(), at[other].tolist(), strict=True):
            m, number = int(self.sizes[k]), c // int(self.sizes[k])
            place = slice(self._starts[k], self._starts[k] + m)
            bits = np.random.Philox(key=[self._seed, 1], counter=[0, 0, k, number])
            self._order[place] = np.random.Generator(bits).permutation(self._rows[place])
            self._begin[k], self._end[k] = number * m, (number + 1) * m


def _ranges(first: Counts, n: Counts) -> Counts:
    """The n[k] whole numbers from first[k] on, for every k."""
    numbers: Counts = (first - n.cumsum() + n).repeat(n) + np.arange(n.sum())
    return numbers
