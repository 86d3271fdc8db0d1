"""The first pass: which classes and domains there are, how large, and a fair sample of the rows.

All that is known of the rows without any w: enough for the solver to begin near the solution, and,
where a table has few distinct rows, these rows with their counts instead of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.errors import InputError
from anymix.partitions.chunks import Chunk, concatenated, place_among, union
from anymix.problem.losses import Loss

Array = NDArray[np.float64]
Names = NDArray[Any]

__all__ = ["Glance", "Scan", "glance", "row_hash", "sample_size", "scan_of"]

SAMPLE = 1_000_000  # numbers in the sample of rows: 8 MB
FEW = 100_000  # distinct rows that are taken for the whole table
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class Glance:
    """What is to be known of one chunk."""

    n_rows: int
    n_features: int
    is_sparse: bool
    fingerprint: tuple[int, ...]  # by which a later pass tells whether the chunk is the same
    labels: Names | None
    names: Names
    sizes: Array  # m_k
    moments: Array  # Σ s_i y_i and Σ s_i y_i² of each domain
    low: Array  # of every column of X, and of y at last
    high: Array
    sample: Chunk
    keys: NDArray[np.uint64]  # random; the rows with the least are kept
    distinct: Chunk | None  # all rows, each once, weighed; None if many


def row_hash(numbers: NDArray[Any], salt: int = 0) -> NDArray[np.uint64]:
    """A random number for every row number (splitmix64): the same at every pass, in any order."""
    with np.errstate(over="ignore"):
        z = (numbers.astype(np.uint64) + np.uint64(1 + salt)) * GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def glance(chunk: Chunk, start: int, merging: bool, n_parts: int = 1) -> Glance:
    """Look at one chunk."""
    n, d = chunk.X.shape
    sizes, average = chunk.domains.shares(len(chunk.names), chunk.weight)
    moments = np.zeros((2, len(sizes)))
    if chunk.labels is None:
        moments[:] = [sizes * (average @ chunk.y), sizes * (average @ chunk.y**2)]
    low, high = _limits(chunk)
    keys = row_hash(np.arange(start, start + n))
    count = sample_size(d)
    picked = _least(chunk, keys, count if n_parts == 1 else max(200, 2 * count // n_parts))
    return Glance(
        n,
        d,
        sparse.issparse(chunk.X),
        chunk.fingerprint,
        chunk.labels,
        chunk.names,
        sizes,
        moments,
        low,
        high,
        chunk.take(picked),
        keys[picked],
        _distinct(chunk) if merging else None,
    )


def sample_size(d: int) -> int:
    """How many rows of d numbers the sample has at most."""
    return int(np.clip(SAMPLE // (d + 1), 1_000, 200_000))


def _limits(chunk: Chunk) -> tuple[Array, Array]:
    X = chunk.X
    if sparse.issparse(X):
        low, high = (np.asarray(f(axis=0).todense()).ravel() for f in (X.min, X.max))
    else:
        low, high = _ends(X)
    y = chunk.y if chunk.labels is None else np.zeros(1)
    return np.append(low, y.min()), np.append(high, y.max())


def _ends(X: Array, width: int = 1024) -> tuple[Array, Array]:
    """The least and the largest of every column: NumPy is quick over long rows only."""
    n, d = X.shape
    few = max(1, min(n, width // max(1, d)))
    long = X[: n - n % few].reshape(-1, few * d)
    rest = X[n - n % few :]
    low, high = (np.vstack([f(long, axis=0).reshape(few, d), rest]) for f in (np.min, np.max))
    return low.min(axis=0), high.max(axis=0)


def _least(chunk: Chunk, keys: NDArray[np.uint64], count: int) -> NDArray[np.intp]:
    """The rows of least keys, as many of each domain: the worst domain may be a small one."""
    if len(keys) <= count:
        return np.arange(len(keys))
    groups = np.unique(chunk.domains.key(), return_inverse=True)[1]
    order = np.lexsort((keys, groups))
    counts = np.bincount(groups)
    rank = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(order[rank < _quota(counts, count)])


def _quota(counts: NDArray[np.intp], total: int) -> int:
    """The largest q with Σ min(counts, q) ≤ total: what small domains leave, others take."""
    sizes = np.sort(counts)
    taken = np.append(0, np.cumsum(sizes))[:-1]  # by all smaller ones
    quotas = (total - taken) // np.arange(len(sizes), 0, -1)
    enough = quotas <= sizes
    return int(max(1, quotas[np.argmax(enough)] if enough.any() else sizes[-1]))


def _distinct(chunk: Chunk) -> Chunk | None:
    """Each row once, weighed by how often it occurs; None if rows weigh or nearly all differ."""
    _, average = chunk.domains.shares(len(chunk.names), None)
    if chunk.weight is not None or not bool(np.all(np.diff(average.indptr) == 1)):
        return None
    few = np.arange(0, len(chunk), max(1, len(chunk) // 2048))
    counted = replace(chunk, weight=np.ones(len(chunk)))
    if len(few) > 256:
        found = added_up(counted.take(few))
        if found is None or len(found) > 0.9 * len(few):
            return None
    found = added_up(counted)
    return found if found is not None and len(found) <= FEW else None


def added_up(rows: Chunk) -> Chunk | None:
    """Equal rows of one domain and target made one, their weights added up; None if that fails."""
    assert rows.weight is not None
    rng = np.random.default_rng(0)
    key = np.asarray(rows.X @ rng.normal(size=rows.X.shape[1]))
    key = key + rng.normal() * rows.y + rng.normal() * rows.domains.key()
    _, kept, group = np.unique(key, return_index=True, return_inverse=True)
    found = rows.take(kept)
    again = found.take(group)
    equal = np.array_equal(again.y, rows.y)
    equal &= np.array_equal(again.domains.key(), rows.domains.key())
    if sparse.issparse(rows.X):
        equal &= abs(again.X - rows.X).sum() == 0
    else:
        equal &= np.array_equal(again.X, rows.X)
    weight = np.bincount(group, rows.weight).astype(np.float64)
    return replace(found, weight=weight) if equal else None


class Scan:
    """What all chunks together have: glances are added in order, and only totals are kept."""

    def __init__(self, loss: Loss, classes: Names | None = None) -> None:
        self.loss, self._given = loss, classes
        self.n_rows, self.n_features = 0, -1
        self.is_sparse = False
        self.fingerprints: list[tuple[int, ...]] = []
        self._labels: list[Names] = []
        self._names: list[Names] = []
        self._sums: list[Array] = []  # sizes and moments, (3, names)
        self.low = self.high = np.zeros(0)
        self._samples: list[Glance] = []
        self._distinct: list[Chunk] | None = []

    @property
    def is_merging(self) -> bool:
        """Whether equal rows may still be worth looking for."""
        return self._distinct is not None

    def add(self, found: Glance | None) -> None:
        """The next chunk; None for one without rows."""
        if found is None:
            self.fingerprints.append(())
            return
        if self.n_features < 0:
            self.n_features, self.low, self.high = found.n_features, found.low, found.high
        if found.n_features != self.n_features:
            what = f"has {found.n_features} columns, but the chunks before have {self.n_features}"
            raise InputError("X", what, "give the same columns in every chunk")
        self.is_sparse |= found.is_sparse
        self.n_rows += found.n_rows
        self.fingerprints.append(found.fingerprint)
        self.low, self.high = np.minimum(self.low, found.low), np.maximum(self.high, found.high)
        if found.labels is not None:
            self._labels = [union("y", [*self._labels, found.labels])]
        self._add_sums(found.names, np.vstack([found.sizes, found.moments]))
        self._samples.append(found)
        if sum(len(g.keys) for g in self._samples) > 2 * sample_size(self.n_features):
            self._samples = [self._sampled()]
        self._add_distinct(found.distinct)

    def _add_sums(self, names: Names, sums: Array) -> None:
        known = union("domains", [*self._names, names])
        total = np.zeros((3, len(known)))
        for some, value in zip([*self._names, names], [*self._sums, sums], strict=True):
            total[:, place_among("domains", some, known)] += value
        self._names, self._sums = [known], [total]

    def _sampled(self) -> Glance:
        """All samples as one, cut to size."""
        glances = self._samples
        rows = concatenated([g.sample for g in glances])
        keys = np.concatenate([g.keys for g in glances])
        picked = _least(rows, keys, sample_size(self.n_features))
        return replace(glances[0], sample=rows.take(picked), keys=keys[picked])

    def _add_distinct(self, rows: Chunk | None) -> None:
        if self._distinct is None:
            return
        if rows is None:
            self._distinct = None
            return
        self._distinct.append(rows)
        if sum(map(len, self._distinct)) > 2 * FEW:
            whole = self._whole()
            self._distinct = None if whole is None or len(whole) > FEW else [whole]

    def _whole(self) -> Chunk | None:
        """All distinct rows seen so far."""
        assert self._distinct is not None
        return added_up(concatenated(self._distinct))

    # -- when all chunks are there ---------------------------------------------------------------

    def check(self) -> None:
        """Refuse a table that has no rows, one class only, or a domain without weight."""
        if self.n_rows == 0:
            raise InputError("", "there are no rows in any chunk", "give some")
        if self._labels and len(self.classes) < 2:  # type: ignore[arg-type]
            found = f"has one class only ({self._labels[0].tolist()[0]!r})"
            raise InputError("y", found, "a classifier needs two or more")
        if not self._labels:
            self.loss.check_targets(np.array([self.low[-1], self.high[-1]]))
        if np.any(self.sizes <= 0):
            empty = self.names.tolist()[int(np.argmin(self.sizes))]
            found = f"has no row of weight above 0 in {empty!r}"
            raise InputError("domains", found, "leave the domain out or merge it with another")

    @property
    def classes(self) -> Names | None:
        """The classes, sorted; None in regression."""
        if not self._labels:
            return None
        if self._given is None:
            return self._labels[0]
        lacking = [name for name in self._labels[0].tolist() if name not in self._given.tolist()]
        if lacking:
            raise InputError("classes", f"lacks {lacking[0]!r}, which y has", "give all there are")
        return self._given

    @property
    def names(self) -> Names:
        """The domains, sorted."""
        return self._names[0]

    @property
    def sizes(self) -> Array:
        """m_k, (p,)."""
        return np.asarray(self._sums[0][0])

    @property
    def reach(self) -> Array:
        """max |x_ij| of every column, (d,)."""
        return np.asarray(np.maximum(np.abs(self.low), np.abs(self.high))[:-1])

    @property
    def sample(self) -> Chunk:
        """A fair sample of the rows."""
        self._samples = [self._sampled()]
        return self._samples[0].sample

    @property
    def distinct(self) -> Chunk | None:
        """All rows, each once and weighed by how often it occurs; None if there are many."""
        if not self._distinct:
            return None
        whole = self._whole()
        few = whole is not None and len(whole) <= min(FEW, 0.5 * self.n_rows)
        return whole if few else None

    @property
    def loss_scale(self) -> float:
        """The worst loss of a constant, at most 1, as in LinearDomains; about that if no square."""
        if not self.loss.of_residual:
            return 1.0
        m, first, second = self._sums[0]
        mean = float(first.sum() / m.sum())
        losses = 0.5 * np.maximum(second - 2 * mean * first + mean * mean * m, 0.0) / m
        if not self.loss.is_quadratic:  # whose sums are known
            rows = self.sample
            z = np.full(len(rows), mean)
            _, average = rows.domains.shares(len(rows.names), rows.weight)
            losses = average @ self.loss.derivatives(z, rows.y, 0)[0]
        furthest = float(max(abs(self.low[-1]), abs(self.high[-1])))
        least = 0.5 * (1e-8 * furthest) ** 2
        return min(1.0, max(float(losses.max()), least) or 1.0)


def scan_of(glances: Sequence[Glance | None], loss: Loss, classes: Names | None) -> Scan:
    """The scan of chunks whose glances are all here."""
    scan = Scan(loss, classes)
    for found in glances:
        scan.add(found)
    scan.check()
    return scan
