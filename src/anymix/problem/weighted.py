"""Rows (x_i, 1) with targets y_i and their shares a_ki in p domains: what all sums are taken over.

Scores ⟨w, (x_i, 1)⟩, their transpose Σ_i v_i (x_i, 1), and which rows a domain has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from anymix.errors import InputError
from anymix.problem.arrays import refuse_missing
from anymix.problem.floors import rounding_of
from anymix.problem.losses import Growth, Loss

__all__ = ["FullColumns", "WeightedRows", "gram_of_products", "products", "split_columns"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


class WeightedRows:
    """n rows of d features, with a target each and a share in every domain.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        The features, checked already.
    y : ndarray of shape (n,)
        The codes of the classes, or numbers.
    average : csc_array of shape (p, n)
        a_ki, the weight of row i in domain k over the domain's total.
    loss : Loss
        The loss ℓ.
    intercept : bool
        Whether w ends with an intercept, which multiplies 1.
    n_scores : int
        Scores of one row: 1, or K for K ≥ 3 classes.

    Attributes
    ----------
    largest : float
        At least every |x_ij|, if that is known without a look at all rows; else infinite.
    """

    def __init__(
        self,
        X: Any,
        y: NDArray[Any],
        average: sparse.csc_array,
        loss: Loss,
        intercept: bool,
        n_scores: int,
    ) -> None:
        self.X, self.y, self.average = X, y, average
        self.loss, self.intercept, self.n_scores = loss, intercept, n_scores
        self.largest = math.inf

    # -- sizes ---------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Number of stored rows (after merging, fewer than the examples they stand for)."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def n_domains(self) -> int:
        """Number p of domains."""
        return int(self.average.shape[0])

    @property
    def n_parameters(self) -> int:
        """Length of w."""
        return self.n_scores * (self.n_features + self.intercept)

    @cached_property
    def penalized(self) -> NDArray[np.bool_]:
        """Which entries of w the regulariser sees: all but the intercepts, (n_parameters,)."""
        mask = np.ones((self.n_scores, self.n_features + self.intercept), dtype=bool)
        if self.intercept:
            mask[:, -1] = False
        return mask.ravel()

    @cached_property
    def reach(self) -> Array:
        """max_i |x_ij| of the column that each entry of w multiplies, (n_parameters,)."""
        largest = np.zeros(self.n_features)  # stays so if a proof has left no row
        if sparse.issparse(self.X):
            for start in range(0, self.X.nnz, 2**18):  # no copy of all entries
                some = slice(start, start + 2**18)
                np.maximum.at(largest, self.X.indices[some], np.abs(self.X.data[some]))
        else:
            for rows in _stretches(self.X):
                np.maximum(largest, _largest(self.X[rows]), out=largest)
        return self._with_intercepts(largest)

    @property
    def reach_at_most(self) -> Array:
        """At least `reach`, by `largest`: often far more, but it costs no pass over the rows."""
        return self._with_intercepts(np.full(self.n_features, self.largest))

    def _with_intercepts(self, largest: Array) -> Array:
        return np.tile(np.append(largest, np.ones(int(self.intercept))), self.n_scores)

    @property
    def rounding(self) -> float:
        """The relative error that a sum over the rows may have."""
        return rounding_of(self.n_rows)

    @cached_property
    def growth(self) -> Growth:
        """How steep the losses of these rows may be."""
        return self.loss.growth(self.y)

    def unpack(self, w: ArrayLike) -> tuple[Array, Array]:
        """Coefficients (n_scores, d) and intercepts (n_scores,) of the flat vector w."""
        blocks = self._check_w(w).reshape(self.n_scores, -1)
        if self.intercept:
            return blocks[:, :-1], blocks[:, -1]
        return blocks, np.zeros(self.n_scores)

    def scores(self, w: Array) -> Array:
        """⟨w, (x_i, 1)⟩ of every row: (n,) or (n, K)."""
        coef, shift = self.unpack(w)
        if self.n_scores > 1:
            return np.asarray(self.X @ coef.T) + shift
        split = self._known_split
        z: Array = np.asarray(self.X @ coef[0]) if split is None else split.times(coef[0])
        z += shift[0]
        return z

    def pull_back(self, v: Array) -> Array:
        """Σ_i v_i (x_i, 1) for v (n,), or the K blocks of it for v (n, K), flat."""
        split = self._known_split if self.n_scores == 1 else None
        pulled = np.asarray(self.X.T @ v).T if split is None else split.pulled_back(v)
        parts = pulled.reshape(self.n_scores, -1)  # (scores, d)
        if self.intercept:
            parts = np.column_stack([parts, v.sum(axis=0).reshape(-1, 1)])
        return parts.ravel()

    def means(self, v: Array) -> Array:
        """Σ_i a_ki v_i of every domain k, (p,)."""
        average = self.average
        if not self._is_partition:
            return np.asarray(average @ v)
        # the sums that SciPy makes, in the same order, without its long way there
        sums = np.bincount(average.indices, average.data * v, minlength=self.n_domains)
        return np.asarray(sums, dtype=np.float64)

    def spread(self, mixture: Array) -> Array:
        """c_i = Σ_k λ_k a_ki of every row, (n,)."""
        if not self._is_partition:
            return np.asarray(self._transposed_average @ mixture)
        return np.asarray(self.average.data * mixture[self.average.indices])

    def pull_back_for_proof(self, v: Array) -> Array:
        """The same, and `reach` on the way if it is not known yet: rows are fetched only once."""
        if "reach" in self.__dict__ or sparse.issparse(self.X):
            return self.pull_back(v)
        parts, largest = np.zeros((self.n_features, self.n_scores)), np.zeros(self.n_features)
        v = v.reshape(self.n_rows, -1)
        for rows in _stretches(self.X):
            X = self.X[rows]
            parts += X.T @ v[rows]
            np.maximum(largest, _largest(X), out=largest)
        self.reach = self._with_intercepts(largest)
        blocks = parts.T
        if self.intercept:
            blocks = np.column_stack([blocks, v.sum(axis=0)])
        return blocks.ravel()

    @cached_property
    def products(self) -> sparse.csc_array | None:
        """x_ij x_ik of every row where they are few; worth making for many Hessians only."""
        return products(self.X)

    @cached_property
    def squares(self) -> Any:
        """x_ij² of sparse rows, at the same places."""
        X = self.X
        return sparse.csr_array((X.data**2, X.indices, X.indptr), shape=X.shape, copy=False)

    @cached_property
    def _split(self) -> FullColumns | None:
        """The full columns of sparse rows apart; worth making for many products only."""
        return split_columns(self.X)

    @property
    def _known_split(self) -> FullColumns | None:
        """The same if it is made already."""
        known: FullColumns | None = vars(self).get("_split")
        return known

    # -- which rows ----------------------------------------------------------------------------

    def _with_rows(self, rows: Indices, average: sparse.csc_array) -> WeightedRows:
        """Some of the rows, with shares of their own."""
        X, y = self._taken(rows)
        some = WeightedRows(X, y, average, self.loss, self.intercept, self.n_scores)
        some.largest = self.largest
        return some

    def _taken(self, rows: Indices) -> tuple[Any, NDArray[Any]]:
        dense = not sparse.issparse(self.X)
        X = self.X.take(rows, axis=0) if dense else self.X[rows]  # twice as fast as [rows]
        return X, self.y[rows]

    def _spaced(self, how_many: Array) -> Indices:
        """how_many[k] evenly spaced rows of every domain k, in the order of the rows."""
        (ends, members), counts = self._members, how_many.astype(np.int64)
        m = np.repeat(np.diff(ends), counts)
        place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.repeat(ends[:-1], counts) + place * m // np.repeat(counts, counts)
        rows = members[places]
        return np.sort(rows) if self._is_partition else np.unique(rows)

    def _only(self, rows: Indices) -> WeightedRows:
        """These rows standing for all."""
        return self._with_rows(rows, self._shares_of(rows))

    def _shares_of(self, rows: Indices) -> sparse.csc_array:
        """The shares of some rows, made to sum to 1 again in every domain left."""
        average = self.average[:, rows]
        totals = np.bincount(average.indices, weights=average.data, minlength=self.n_domains)
        average.data /= totals[average.indices]
        return average

    @cached_property
    def _transposed_average(self) -> sparse.csr_array:
        """The shares as (n, p), the same numbers; kept, for SciPy is slow to make it each time."""
        return self.average.T

    @cached_property
    def _is_partition(self) -> bool:
        return bool(np.all(np.diff(self.average.indptr) == 1))

    @cached_property
    def _by_domain(self) -> sparse.csr_array:
        """The shares a_ki, domain by domain; rows of weight 0 left out."""
        return self._shares()

    @cached_property
    def _members(self) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
        """`ends` and `rows`: those of domain k, of weight above 0, are rows[ends[k] : ends[k + 1]].

        Without the shares, which most uses can do without: n numbers are worth saving.
        """
        shares = self._shares()
        return shares.indptr, shares.indices

    def _shares(self) -> sparse.csr_array:
        csr = self.average.tocsr()
        csr.eliminate_zeros()
        return csr

    @cached_property
    def _runs(self) -> list[tuple[int, slice, sparse.csc_array]] | None:
        """(k, rows, X_rowsᵀ) of each stretch of rows of one domain; None if there are too many.

        SciPy's own slices would be copies; these look into X, at the entries where its rows begin.
        Full columns are left out where they are apart.
        """
        k = self.average.indices
        starts = np.append(0, np.flatnonzero(np.diff(k)) + 1)
        if len(starts) > 1 and 4 * len(starts) * (self.n_features + 1000) > self.X.nnz:
            return None
        ends = np.append(starts[1:], self.n_rows)
        return [
            (int(k[start]), slice(start, end), self._transposed(start, end))
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]

    def _transposed(self, start: int, end: int) -> sparse.csc_array:
        X = self.X if self._split is None else self._split.rest
        piece = sparse.csc_array((self.n_features, end - start))
        piece.data, piece.indices = X.data, X.indices
        piece.indptr = X.indptr[start : end + 1]
        return piece

    @cached_property
    def _wide(self) -> sparse.csr_array:
        """X with column j of a row of domain k moved to k d + j: its pull-back is the Jacobian."""
        shape = (self.n_rows, self.n_domains * self.n_features)
        kind = np.int32 if max(shape[1], self.X.nnz) < 2**31 else np.int64
        columns = np.repeat(
            self.average.indices.astype(kind) * kind(self.n_features), np.diff(self.X.indptr)
        )
        columns += self.X.indices.astype(kind, copy=False)
        return sparse.csr_array((self.X.data, columns, self.X.indptr.astype(kind)), shape=shape)

    # -- checks --------------------------------------------------------------------------------

    def _check_w(self, w: ArrayLike) -> Array:
        w = np.asarray(w, dtype=np.float64)
        if w.shape != (self.n_parameters,):
            blocks = f"{self.n_scores} x " if self.n_scores > 1 else ""
            what = "features + intercept" if self.intercept else "features (intercept=False)"
            fix = f"expected ({self.n_parameters},) = {blocks}({self.n_features} {what})"
            raise InputError("w", f"has shape {w.shape}", fix)
        refuse_missing("w", w, "if a step made them, make it shorter")
        return w

    def _check_mixture(self, mixture: ArrayLike) -> Array:
        lam = np.asarray(mixture, dtype=np.float64)
        if lam.shape != (self.n_domains,):
            fix = f"give ({self.n_domains},), a weight per domain"
            raise InputError("mixture", f"has shape {lam.shape}", fix)
        refuse_missing("mixture", lam, "give finite weights")
        return lam


def _stretches(X: Array, width: int = 1024, size: int = 2**16) -> Iterator[slice]:
    """Rows that fit into the cache together, a multiple of those that `_largest` makes one of."""
    n, d = X.shape
    few = max(1, width // max(1, d))
    step = few * max(1, size // max(1, few * d))
    return (slice(start, start + step) for start in range(0, n, step))


def _largest(X: Array, width: int = 1024) -> Array:
    """max_i |x_ij| of every column, (d,).

    NumPy is quick over long rows only, so a few short rows are looked at as one long row.
    """
    n, d = X.shape
    few = max(1, width // max(1, d))
    if n % few or not n:
        return np.asarray(np.abs(X).max(axis=0, initial=0.0))
    long = X.reshape(n // few, few * d)
    largest = np.maximum(long.max(axis=0), -long.min(axis=0))
    return np.asarray(largest.reshape(few, d).max(axis=0))


FULL = 0.4  # a column is full if so large a part of the rows fills it
LEAST, MOST_PRODUCTS = (
    2**14,
    2**22,
)  # entries of X: fewer are not worth it, more would take much memory


class FullColumns:
    """Sparse rows with their full columns apart.

    Parameters
    ----------
    places : ndarray of shape (f,)
        F, the places of the full columns.
    block : ndarray of shape (n, g)
        D, these columns, of equal ones the first.
    twins : ndarray of shape (f,)
        E: which column of D each of F is.
    rest : csr_array of shape (n, d)
        S, the other columns, in their own places.

    Examples
    --------
    >>> X = sparse.csr_array(np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 4.0]]))
    >>> split = split_columns(X, least=1)
    >>> split.places, split.times(np.array([1.0, 10.0]))
    (array([0]), array([ 1.,  2., 43.]))
    """

    def __init__(
        self,
        places: NDArray[np.intp],
        block: Array,
        twins: NDArray[np.intp],
        rest: sparse.csr_array,
    ) -> None:
        self.places, self.block, self.twins, self.rest = places, block, twins, rest

    def times(self, w: Array) -> Array:
        """X w, (n,)."""
        together = np.bincount(self.twins, w[self.places], minlength=self.block.shape[1])  # E w_F
        return np.asarray(self.rest @ w + self.block @ together)

    def pulled_back(self, v: Array) -> Array:
        """Xᵀv, (d,)."""
        found = np.asarray(self.rest.T @ v)
        self.add_full(found, v, slice(None))
        return found

    def add_full(self, found: Array, v: Array, rows: slice) -> None:
        """Add what some rows give to the full columns of Xᵀv, in place."""
        found[self.places] += (v @ self.block[rows])[self.twins]


def split_columns(X: Any, least: int = LEAST, most: int = MOST_PRODUCTS) -> FullColumns | None:
    """The full columns of sparse rows apart; None where that is not worth it."""
    if not least <= X.nnz <= most:
        return None
    counts = np.bincount(X.indices, minlength=X.shape[1])
    is_full = counts >= FULL * X.shape[0]
    if 2 * counts[is_full].sum() < X.nnz:
        return None
    places = np.flatnonzero(is_full)
    keep = ~is_full[X.indices]
    ends = np.append(0, np.cumsum(keep))[X.indptr].astype(X.indptr.dtype)
    rest = sparse.csr_array((X.data[keep], X.indices[keep], ends), shape=X.shape)
    block, twins = _without_twins(X[:, places].toarray())
    return FullColumns(places, block, twins, rest)


def _without_twins(block: Array) -> tuple[Array, NDArray[np.intp]]:
    """The different columns, (n, g), and which of them each column is, (f,)."""
    known: dict[bytes, int] = {}
    twins = np.array([known.setdefault(column.tobytes(), len(known)) for column in block.T])
    first = np.unique(twins, return_index=True)[1]
    return block[:, first], twins


MOST_PRODUCTS = 2**21  # of 12 bytes each
WIDEST = 2000  # columns


def products(X: Any) -> sparse.csc_array | None:
    """x_ij x_ik, j ≤ k, of every row i, at row j d + k, (d², n); None if they are too many.

    They are made once for a table, in the time of about four matrices Σ_i h_i x_i x_iᵀ. From then
    on such a matrix takes a seventh of the time.
    """
    if not sparse.issparse(X) or X.shape[1] > WIDEST:
        return None
    entries = np.diff(X.indptr).astype(np.int64)  # of each row
    counts = entries * (entries + 1) // 2
    if counts.sum() > MOST_PRODUCTS:
        return None
    X = X if X.has_sorted_indices else X.sorted_indices()
    d = X.shape[1]
    partners = np.repeat(X.indptr[1:], entries) - np.arange(X.nnz)  # itself and those after it
    left = np.repeat(np.arange(X.nnz), partners)
    right = left + np.arange(len(left)) - np.repeat(np.cumsum(partners) - partners, partners)
    place = X.indices[left].astype(np.int32) * np.int32(d) + X.indices[right].astype(np.int32)
    ends = np.append(0, np.cumsum(counts)).astype(np.int32)
    return sparse.csc_array((X.data[left] * X.data[right], place, ends), shape=(d * d, X.shape[0]))


def gram_of_products(made: sparse.csc_array, h: Array) -> Array:
    """Σ_i h_i x_i x_iᵀ, (d, d), for weights h (n,)."""
    d = round(made.shape[0] ** 0.5)
    upper = np.asarray(made @ h).reshape(d, d)
    whole: Array = upper + upper.T
    whole.ravel()[:: d + 1] *= 0.5  # the diagonal was added twice
    return whole
