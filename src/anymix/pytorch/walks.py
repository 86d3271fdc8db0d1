"""The rows of each domain in random order, pass after pass, from any place on.

Row number c of domain k is at place c mod m_k of pass c div m_k; each pass has an order of its own.
An order is a sort by hashes of (seed, domain, pass, place), so it can be made again for any pass
without going through those before, and for many domains at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Bits = NDArray[np.uint64]

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
        self._passes = np.full(p, -1, dtype=np.int64)
        self._seed = np.uint64(seed % 2**64)

    def take(self, position: Counts, counts: Counts) -> Counts:
        """The next counts[k] rows of every domain k, of which position[k] are used up; by domain.

        Parameters
        ----------
        position, counts : ndarray of shape (p,)
            Rows used up and rows asked for.
        """
        position, left = position.copy(), counts.copy()
        found, owners = [], []
        while left.any():
            asked = np.flatnonzero(left)
            m, at = self.sizes[asked], position[asked]
            self._shuffle(asked, at // m)
            n = np.minimum(left[asked], m - at % m)
            ends = np.cumsum(n)
            steps = np.arange(ends[-1]) - np.repeat(ends - n, n)
            found.append(self._order[np.repeat(self._starts[asked] + at % m, n) + steps])
            owners.append(np.repeat(asked, n))
            position[asked] += n
            left[asked] -= n
        rows = np.concatenate(found)
        return rows if len(found) == 1 else rows[np.argsort(np.concatenate(owners), kind="stable")]

    def _shuffle(self, domains: Counts, passes: Counts) -> None:
        """Make the orders of these passes, where they are not there already."""
        other = self._passes[domains] != passes
        if not other.any():
            return
        k, number = domains[other], passes[other]
        self._passes[k] = number
        m = self.sizes[k]
        ends = np.cumsum(m)
        step = np.arange(ends[-1]) - np.repeat(ends - m, m)
        place = np.repeat(self._starts[k], m) + step
        with np.errstate(over="ignore"):
            key = _mixed(_mixed(k.astype(np.uint64) ^ self._seed) + number.astype(np.uint64))
            bits = _mixed(np.repeat(key, m) + step.astype(np.uint64))
        # One sort for all: the domain in the first bits, the hash in the others (48 or so).
        width = np.uint64(len(k).bit_length())
        first = np.repeat(np.arange(len(k), dtype=np.uint64), m) << (np.uint64(64) - width)
        self._order[place] = self._rows[place[np.argsort(first | bits >> width)]]


def _mixed(x: Bits) -> Bits:
    """SplitMix64: every bit of the result depends on every bit of x."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
