"""A linear model seen through its domains: L_k(w) = Σ_i a_ki ℓ(⟨w, (x_i, 1)⟩, y_i), k = 1..p.

a_ki is the share of row i in domain k (weight over the domain's total), so every quantity the
solvers need is a sum over rows: the p losses, their p gradients, and the curvature of a mixture
Σ_k λ_k L_k. The solvers ask for nothing else, so clients that keep their rows can answer as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg import blas

from anymix.problem.arrays import average_shares, features, memberships, refuse_missing, targets
from anymix.problem.floors import UNIT, Sums, floor, rounding_of
from anymix.problem.losses import CrossEntropy, Huber, Loss

Array = NDArray[np.float64]

__all__ = ["Dual", "Evaluation", "LinearDomains", "squared_lengths"]

MOST_DENSE = 3000  # parameters: beyond it no dense Hessian is formed
NEGLIGIBLE = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)  # losses of rows that a proof may leave out


class LinearDomains:
    """L_k(w) = (1/m_k) Σ_{i in domain k} ℓ(⟨w, (x_i, 1)⟩, y_i) for k = 1..p.

    Parameters
    ----------
    X : (n, d) array, data frame or SciPy sparse matrix. Dense float64 rows are not copied.
    y : (n,) labels of any kind (CrossEntropy, Hinge) or numbers (SquaredError, Huber).
    domains : (n,) labels of any kind, one domain a row; or an (n, p) membership matrix, dense or
        sparse, boolean or of weights ≥ 0, which puts a row into several domains (or none).
    loss : the loss ℓ.
    intercept : whether w ends with an intercept, which is never penalised.
    sample_weight : (n,) weights ≥ 0 of the rows.
    classes : all classes there are, when y may lack some of them.

    The parameters `w` are one flat vector: (d + 1,) with the intercept last, or K such blocks one
    after the other for K ≥ 3 classes (`unpack` splits them).

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> problem = LinearDomains(X, ["no", "yes", "no", "yes"], ["a", "a", "b", "b"])
    >>> problem.domain_names.tolist(), problem.sizes.tolist(), problem.n_parameters
    (['a', 'b'], [2.0, 2.0], 2)
    >>> problem.losses([0.0, 0.0]).round(4).tolist()
    [0.6931, 0.6931]
    >>> problem.gradient([0.0, 0.0], [0.5, 0.5]).tolist()
    [-0.25, 0.0]
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        domains: Any,
        loss: Loss | None = None,
        *,
        intercept: bool = True,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.loss = CrossEntropy() if loss is None else loss
        self.intercept = bool(intercept)
        self.X = features(X)
        n = self.X.shape[0]
        if self.X.shape[1] == 0 and not self.intercept:
            raise ValueError("X has no columns and intercept is False; there is nothing to learn")
        self.y, self.classes = targets(y, n, self.loss, classes)
        self.domain_names, membership = memberships(domains, n)
        self.sizes, self.average = average_shares(membership, self.domain_names, sample_weight)
        if self.n_scores > 1:
            self._sort_rows()

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
        """p."""
        return len(self.sizes)

    @property
    def n_scores(self) -> int:
        """Scores of one row: 1, or K for K ≥ 3 classes."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)

    @property
    def n_parameters(self) -> int:
        """Length of w."""
        return self.n_scores * (self.n_features + self.intercept)

    @property
    def reference(self) -> Array:
        """m̄ = m_k / m, the mixture of the data themselves."""
        return self.sizes / float(self.sizes.sum())

    @cached_property
    def loss_scale(self) -> float:
        """The unit in which gaps are measured: the worst loss of a constant, at most 1.

        A constant that fits leaves only the rounding of y, which is no unit; 1e-8 of y is.
        """
        if self.classes is not None:
            return 1.0
        mean = float(self.reference @ (self.average @ self.y)) if self.intercept else 0.0
        value = self.average @ self.loss.derivatives(np.full(self.n_rows, mean), self.y, 0)[0]
        least = 0.5 * (1e-8 * float(np.max(np.abs(self.y)))) ** 2
        return min(1.0, max(float(value.max()), least) or 1.0)

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
        largest = np.zeros(self.n_features)
        if sparse.issparse(self.X):
            np.maximum.at(largest, self.X.indices, np.abs(self.X.data))
        else:
            for start in range(0, self.n_rows, 1024):  # stretches that stay in the cache
                part = np.abs(self.X[start : start + 1024])
                np.maximum(largest, part.max(axis=0), out=largest)
        reach = np.append(largest, np.ones(int(self.intercept)))
        return np.tile(reach, self.n_scores)

    @property
    def rounding(self) -> float:
        """The relative error that a sum over the rows may have."""
        return rounding_of(self.n_rows)

    def unpack(self, w: ArrayLike) -> tuple[Array, Array]:
        """Coefficients (n_scores, d) and intercepts (n_scores,) of the flat vector w."""
        blocks = self._check_w(w).reshape(self.n_scores, -1)
        if self.intercept:
            return blocks[:, :-1], blocks[:, -1]
        return blocks, np.zeros(self.n_scores)

    # -- values at w ---------------------------------------------------------------------------

    def at(self, w: ArrayLike) -> Evaluation:
        """Everything at w; what has been computed once is kept."""
        w = self._check_w(w)
        return Evaluation(self, w, self.scores(w))

    def losses(self, w: ArrayLike) -> Array:
        """(L_1(w), …, L_p(w))."""
        w = self._check_w(w)
        losses: Array = self.average @ self.loss.derivatives(self.scores(w), self.y, 0)[0]
        return losses

    def gradient(self, w: ArrayLike, mixture: ArrayLike) -> Array:
        """∇_w Σ_k λ_k L_k(w)."""
        return self.at(w).gradient(self._check_mixture(mixture))

    def hessian(self, w: ArrayLike, mixture: ArrayLike) -> Array:
        """∇²_w Σ_k λ_k L_k(w), dense (n_parameters, n_parameters)."""
        return self.at(w).hessian(self._check_mixture(mixture))

    def scores(self, w: Array) -> Array:
        """⟨w, (x_i, 1)⟩ of every row: (n,) or (n, K)."""
        coef, shift = self.unpack(w)
        if self.n_scores > 1:
            return np.asarray(self.X @ coef.T) + shift
        z = np.asarray(self.X @ coef[0])
        z += shift[0]
        return z

    def pull_back(self, v: Array) -> Array:
        """Σ_i v_i (x_i, 1) for v (n,), or the K blocks of it for v (n, K), flat."""
        parts = np.asarray(self.X.T @ v).T.reshape(self.n_scores, -1)  # (scores, d)
        if self.intercept:
            parts = np.column_stack([parts, v.sum(axis=0).reshape(-1, 1)])
        return parts.ravel()

    def vanishes(self, u: Array) -> bool:
        """Whether Σ_j u_j x_ij is exactly 0 in every row, for columns with whole coefficients.

        u (d + intercept,) is known up to rounding and, if the intercept is what depends on the
        columns, up to a factor. The coefficients of the columns are rounded to whole numbers, that
        of the intercept is what the first row says. Sums of products with powers of two are exact
        in `math.fsum`.
        """
        u = u[: self.n_features] / min(
            1.0, max(float(np.max(np.abs(u[: self.n_features]), initial=0.0)), 1e-300)
        )
        whole = np.rint(u)
        columns = np.flatnonzero(whole)
        if not columns.size or np.max(np.abs(u - whole)) > 1e-3:
            return False
        if np.max(np.abs(whole), initial=0.0) > 16 or self.n_rows * columns.size > 10**7:
            return False
        X = self.X[:, columns]
        X = X.toarray() if sparse.issparse(X) else X
        terms = [
            math.copysign(2.0**b, k) * x
            for k, x in zip(whole[columns], X.T, strict=True)
            for b in range(5)
            if int(abs(k)) >> b & 1
        ]
        shift = -math.fsum(x[0] for x in terms) if self.intercept else 0.0
        return _adds_up_to_nothing([*terms, np.full(self.n_rows, shift)])

    # -- other views of the same rows ----------------------------------------------------------

    def merged(self) -> LinearDomains:
        """The same losses from fewer rows: equal rows of one domain and target become one.

        Tables of categories shrink many-fold. Returns `self` when a sample of the rows shows
        that there is little to merge.

        >>> import numpy as np
        >>> X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 1000, axis=0)
        >>> problem = LinearDomains(X, X[:, 0] > 0, np.arange(2000) % 2)
        >>> problem.n_rows, problem.merged().n_rows
        (2000, 4)
        """
        rows = np.arange(0, self.n_rows, max(1, self.n_rows // 4096))
        if len(np.unique(self._keys(rows))) > 0.97 * len(rows):
            return self
        _, first, group = np.unique(
            self._keys(np.arange(self.n_rows)), return_index=True, return_inverse=True
        )
        keep = first[group]  # the row that stands for each row
        others = np.flatnonzero(keep != np.arange(self.n_rows))
        for part in np.array_split(others, 1 + len(others) // 8192):
            odd = part[~self._equal(part, keep[part])]  # keys equal by chance
            keep[odd] = odd
        kept, group = np.unique(keep, return_inverse=True)
        coo = self.average.tocoo()
        average = sparse.csc_array(
            (coo.data, (coo.coords[0], group[coo.coords[1]])),
            shape=(self.n_domains, len(kept)),
        )
        return self._with_rows(kept, average)

    def sample(self, fraction: float) -> LinearDomains:
        """About `fraction` of every domain's rows, evenly spaced, at least 30; the same sizes.

        A stand-in whose solution is a good start for the full problem.
        """
        if not 0 < fraction <= 1:
            raise ValueError(f"fraction is {fraction}; give a number in (0, 1]")
        m = np.diff(self._members[0])
        return self._only(self._spaced(np.minimum(m, np.maximum(30, np.ceil(fraction * m)))))

    def _spaced(self, how_many: Array) -> NDArray[np.intp]:
        """how_many[k] evenly spaced rows of every domain k, in the order of the rows."""
        (ends, members), counts = self._members, how_many.astype(np.int64)
        m = np.repeat(np.diff(ends), counts)
        place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.repeat(ends[:-1], counts) + place * m // np.repeat(counts, counts)
        rows = members[places]
        return np.sort(rows) if self._is_partition else np.unique(rows)

    def _only(self, rows: NDArray[np.intp]) -> LinearDomains:
        """These rows standing for all: shares made to sum to 1 again in every domain left."""
        average = self.average[:, rows]
        totals = np.bincount(average.indices, weights=average.data, minlength=self.n_domains)
        average.data /= totals[average.indices]
        return self._with_rows(rows, average)

    def _with_rows(self, rows: NDArray[np.intp], average: sparse.csc_array) -> LinearDomains:
        other = object.__new__(LinearDomains)
        other.loss, other.intercept, other.classes = self.loss, self.intercept, self.classes
        other.domain_names, other.sizes = self.domain_names, self.sizes
        dense = not sparse.issparse(self.X)
        other.X = self.X.take(rows, axis=0) if dense else self.X[rows]  # twice as fast as [rows]
        other.y, other.average = self.y[rows], average
        return other

    def _sort_rows(self) -> None:
        """Put the rows of a domain side by side: K-fold gradients then are one product each."""
        first = self.average.indices[self.average.indptr[:-1]] if self._is_partition else None
        if first is None or bool(np.all(first[1:] >= first[:-1])):
            return
        order = np.argsort(first, kind="stable")
        self.X, self.y = self.X[order], self.y[order]
        self.average = self.average[:, order].tocsc()

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
        piece = sparse.csc_array((self.n_features, end - start))
        piece.data, piece.indices = self.X.data, self.X.indices
        piece.indptr = self.X.indptr[start : end + 1]
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

    def _keys(self, rows: NDArray[np.intp]) -> Array:
        """A random linear function of (row, target, domains): equal rows have equal keys."""
        rng = np.random.default_rng(0)
        X = self.X if len(rows) == self.n_rows else self.X[rows]
        key = np.asarray(X @ rng.normal(size=self.n_features))
        key += rng.normal() * self.y[rows]
        shape = self.average[:, rows]
        shape.data = np.ones_like(shape.data)
        key += np.asarray(shape.T @ rng.normal(size=self.n_domains))
        return key

    def _equal(self, a: NDArray[np.intp], b: NDArray[np.intp]) -> NDArray[np.bool_]:
        same: NDArray[np.bool_] = self.y[a] == self.y[b]
        if sparse.issparse(self.X):
            same &= np.asarray(abs(self.X[a] - self.X[b]).sum(axis=1)).ravel() == 0
        else:
            same &= (self.X[a] == self.X[b]).all(axis=1)
        domains_a, domains_b = self.average[:, a] != 0, self.average[:, b] != 0
        same &= np.asarray((domains_a != domains_b).sum(axis=0)).ravel() == 0
        return same

    # -- checks --------------------------------------------------------------------------------

    def _check_w(self, w: ArrayLike) -> Array:
        w = np.asarray(w, dtype=np.float64)
        if w.shape != (self.n_parameters,):
            blocks = f"{self.n_scores} x " if self.n_scores > 1 else ""
            what = "features + intercept" if self.intercept else "features (intercept=False)"
            raise ValueError(
                f"w has shape {w.shape}; expected ({self.n_parameters},) = {blocks}"
                f"({self.n_features} {what})"
            )
        refuse_missing("w", w, "if a step made them, make it shorter")
        return w

    def _check_mixture(self, mixture: ArrayLike) -> Array:
        lam = np.asarray(mixture, dtype=np.float64)
        if lam.shape != (self.n_domains,):
            raise ValueError(
                f"mixture has shape {lam.shape}; give ({self.n_domains},), a weight per domain"
            )
        refuse_missing("mixture", lam, "give finite weights")
        return lam


class Dual(NamedTuple):
    """Σ λ_k L_k(w') ≥ value + ⟨v', w'⟩ for every w' and some v' with |v'_j − v_j| ≤ error_j."""

    value: float
    v: Array  # (n_parameters,)
    error: Array  # (n_parameters,)


class Evaluation:
    """The losses of a LinearDomains at one w, and on demand their derivatives there."""

    def __init__(self, problem: LinearDomains, w: Array, scores: Array) -> None:
        self.problem, self.w, self.scores = problem, w, scores
        value, self.slope = problem.loss.derivatives(scores, problem.y, 1)
        self.losses: Array = problem.average @ value  # (p,)
        self._step: tuple[Array, Array] | None = None

    @cached_property
    def _curvature(self) -> Array:
        """ℓ'' (n,), or P (n, K); losses that have none say so."""
        return self.problem.loss.derivatives(self.scores, self.problem.y, 2)[2]

    def moved(self, step: Array, t: float = 1.0, mixture: Array | None = None) -> Evaluation:
        """At w + t·step: one pass over X for all t of the same step.

        `mixture` is the one whose curvature will be asked for there, which only helps clients.
        """
        scores = self.scores + _scaled(self._along(step), t)
        return Evaluation(self.problem, self.w + t * step, scores)

    def _along(self, step: Array) -> Array:
        """The change of the scores along a step, kept for the last one asked for."""
        if self._step is None or not np.array_equal(self._step[0], step):  # it may change in place
            self._step = None  # makes room
            self._step = step.copy(), self.problem.scores(step)
        return self._step[1]

    def gradient(self, mixture: Array) -> Array:
        """∇ Σ λ_k L_k, (n_parameters,)."""
        return self.problem.pull_back(_scale_rows(self.slope, self._weights(mixture)))

    def jacobian(self) -> Array:
        """Row k is ∇L_k, (p, n_parameters)."""
        if self.problem.n_scores > 1:
            return np.stack([self._domain_gradient(k) for k in range(self.problem.n_domains)])
        average = self.problem.average
        slope = self.slope
        if not self.problem._is_partition:
            slope = np.repeat(slope, np.diff(average.indptr))
        data = average.data * slope
        weighted = sparse.csc_array((data, average.indices, average.indptr), shape=average.shape)
        jacobian = self._columns(weighted)
        if not self.problem.intercept:
            return jacobian
        return np.column_stack([jacobian, self.problem.average @ self.slope])

    def _columns(self, weighted: sparse.csc_array) -> Array:
        problem = self.problem
        if not sparse.issparse(problem.X):
            return np.asarray(weighted @ problem.X)
        if not problem._is_partition:
            return np.asarray((weighted @ problem.X).todense())
        if problem._runs is None:
            flat = problem._wide.T @ weighted.data
            return np.asarray(flat).reshape(problem.n_domains, problem.n_features)
        columns = np.zeros((problem.n_domains, problem.n_features))
        for k, rows, transposed in problem._runs:
            columns[k] += transposed @ weighted.data[rows]
        return columns

    def _domain_gradient(self, k: int) -> Array:
        problem = self.problem
        part = slice(*problem._by_domain.indptr[k : k + 2])
        shares = problem._by_domain.data[part]
        rows = _as_slice(problem._by_domain.indices[part])
        v = self.slope[rows] * shares[:, None]
        parts = np.asarray(problem.X[rows].T @ v).T
        if problem.intercept:
            parts = np.column_stack([parts, v.sum(axis=0)])
        return parts.ravel()

    def hessian(self, mixture: Array, n_rows: int | None = None) -> Array:
        """∇² Σ λ_k L_k, dense; with n_rows, estimated from about so many rows.

        These are spaced evenly in every domain, λ_k n_rows of them: m rows for D parameters give
        a Hessian that is right to √(D/m).
        """
        here = self._active(mixture) if n_rows is None else self._thinned(mixture, n_rows)
        c, K = here._weights(mixture), here.problem.n_scores
        if K == 1:
            return here._gram(c * here._curvature)
        size = here.problem.n_features + here.problem.intercept
        blocks = np.empty((K, size, K, size))
        for a, b in _pairs(K):
            p_a, p_b = here._curvature[:, a], here._curvature[:, b]
            h = c * p_a * (1 - p_a) if a == b else -c * p_a * p_b
            blocks[a, :, b, :] = blocks[b, :, a, :] = here._gram(h)
        return blocks.reshape(K * size, K * size)

    def hessian_blocks(self, mixture: Array, n_rows: int) -> Iterator[Array]:
        """The diagonal blocks of the Hessian, one a score, estimated from about n_rows rows."""
        here = self._thinned(mixture, n_rows)
        c, h = here._weights(mixture), here._curvature
        if h.ndim == 1:
            yield here._gram(c * h)
            return
        for p in h.T:
            yield here._gram(c * p * (1 - p))

    def _gram(self, h: Array) -> Array:
        """Σ_i h_i (x_i, 1)(x_i, 1)ᵀ."""
        X, d = self.problem.X, self.problem.n_features
        gram = np.empty((d + self.problem.intercept, d + self.problem.intercept))
        if sparse.issparse(X):
            gram[:d, :d] = (X.T @ X.multiply(h[:, None]).tocsr()).todense()
            column = X.T @ h
        else:
            gram[:d, :d], column = _dense_gram(X, h)
        if self.problem.intercept:
            gram[d, :d] = gram[:d, d] = column
            gram[d, d] = h.sum()
        return gram

    def _active(self, mixture: Array) -> Evaluation:
        """The same with only the rows that the mixture weighs, where these are the lesser part."""
        m = np.where(mixture != 0, np.diff(self.problem._members[0]), 0.0)
        lesser = 4 if sparse.issparse(self.problem.X) else 2  # a copy of sparse rows saves less
        if m.sum() == 0 or lesser * m.sum() > self.problem.n_rows:
            return self
        rows = self.problem._spaced(m)  # all of them, without a look at the others
        problem = self.problem._with_rows(rows, self.problem.average[:, rows])
        return Evaluation(problem, self.w, self.scores[rows])

    def _thinned(self, mixture: Array, n_rows: int) -> Evaluation:
        """The same with about n_rows rows that stand for all the mixture weighs."""
        m = np.diff(self.problem._members[0])
        counts = np.minimum(m, np.ceil(n_rows * mixture))
        if 2 * counts.sum() > m[mixture > 0].sum():
            return self._active(mixture)
        rows = self.problem._spaced(counts)
        return Evaluation(self.problem._only(rows), self.w, self.scores[rows])

    def hessian_diagonal(self, mixture: Array) -> Array:
        """The diagonal of the Hessian, (n_parameters,)."""
        X, h = self.problem.X, self._curvature
        h = _scale_rows(h if h.ndim == 1 else h * (1 - h), self._weights(mixture))
        if sparse.issparse(X):
            parts = _squares_pulled_back(X, h)
        else:
            parts = np.einsum("ij,ij,i...->j...", X, X, h)
        parts = parts.T.reshape(self.problem.n_scores, -1)
        if self.problem.intercept:
            parts = np.column_stack([parts, h.sum(axis=0).reshape(-1, 1)])
        return parts.ravel()

    def hessian_vector(self, mixture: Array, v: Array) -> Array:
        """∇² Σ λ_k L_k · v without forming the matrix: two passes over X, or one along a step."""
        active = self._active(mixture)
        if active is not self:
            return active.hessian_vector(mixture, v)
        bent = self._bend(self._along(v))
        return self.problem.pull_back(_scale_rows(bent, self._weights(mixture)))

    def dual(self, mixture: Array, step: Array | None = None, scale: float = 1.0) -> Dual:
        """−Σ c_i ℓ*(α_i) and Σ c_i α_i (x_i, 1) at dual variables α near the gradient here.

        By Fenchel and Young, Σ λ_k L_k(w') ≥ value + ⟨v, w'⟩ for *every* w', whatever α is; α is
        taken where that is tight: ℓ'(z) + ℓ''(z)·scores(step), which is ℓ' after a Newton step, or,
        with no step or outside the domain of ℓ*, ℓ' after the best change of intercept. Both have
        Σ c_i α_i = 0 if there is an intercept, and what rounding leaves of that sum is put on one
        row, so that v and error are 0 there. `scale` shrinks α towards 0.
        """
        active = self._active(mixture)
        if active is not self:
            return active.dual(mixture, step, scale)
        c = self._weights(mixture)
        if step is not None and self.problem.loss.is_smooth:
            alpha = self._bend(self._along(step))
            alpha += self.slope
            alpha = _scaled(self._balanced(alpha, c), scale)
            total, size = self.conjugates(c, alpha)
            if np.isfinite(total):
                return self._dual_at(c, alpha, total, size)
        alpha = _scaled(self._centred_slope(c), scale)
        return self._dual_at(c, alpha, *self.conjugates(c, alpha))

    def _dual_at(self, c: Array, alpha: Array, total: float, size: float) -> Dual:
        """The bound that α proves, Σ c_i ℓ*(α_i) being `total`; what rounding may do is charged."""
        problem = self.problem
        donor = self._donor(c, alpha) if problem.intercept else 0
        given, weight = alpha[donor].copy(), float(c[donor])
        v, error = self.slopes(c, alpha)
        dual = Dual(-total - problem.rounding * size, v, error)
        return self._without_intercepts(dual, donor, given, weight) if problem.intercept else dual

    def slopes(self, c: Array, alpha: Array, *, dual: bool = True) -> tuple[Array, Array]:
        """Σ c_i α_i (x_i, 1) and what rounding may have done to it; c may be written over.

        `dual` says that ℓ* is taken too: for classes at P = α + y, whose rounding moves α as well.
        """
        problem = self.problem
        slope = _weighted_sizes(c, alpha)  # (K,)
        classes = dual and problem.loss.takes_classes
        lost = 4 * problem.n_scores * UNIT * float(c.sum()) * classes
        few = 4_000 if dual else 100_000  # numbers whose sums are worth more digits
        v, rounding = self._pulled_back(c, alpha, few)
        per_score = np.where(slope > 0, rounding * slope + lost, 0.0)
        error = np.repeat(per_score, len(v) // len(slope)) * problem.reach + UNIT * np.abs(v)
        return v, error

    def _pulled_back(self, c: Array, alpha: Array, few: int) -> tuple[Array, float]:
        """Σ c_i α_i (x_i, 1) and its relative error; few numbers are added up with more digits."""
        problem = self.problem
        if problem.n_rows * problem.n_parameters > few:
            return problem.pull_back(_scale_rows(alpha, c)), problem.rounding
        long = np.longdouble
        weighted = (alpha.T.astype(long) * c).reshape(problem.n_scores, -1)  # (K, n)
        X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
        parts = [weighted @ X.astype(long)]
        if problem.intercept:
            parts.append(weighted.sum(axis=1)[:, None])
        v = np.hstack(parts).ravel().astype(np.float64)
        return v, problem.rounding * float(np.finfo(long).eps) / (2 * UNIT)

    def _donor(self, c: Array, alpha: Array, chunk: int = 16384) -> int:
        """The row whose α has the most room to move, c_i times the distance to where ℓ* ends."""
        best, most = 0, -1.0
        for start in range(0, len(c), chunk):
            part = slice(start, start + chunk)
            room = self._room(alpha[part], self.problem.y[part])
            room = np.where(c[part] > 0, c[part] * np.minimum(room, 1e300), 0.0)
            i = int(np.argmax(room))
            best, most = (start + i, float(room[i])) if room[i] > most else (best, most)
        return best

    def _room(self, alpha: Array, y: NDArray[Any]) -> Array:
        """How far each row's α may move: for K scores, the smallest P above 0."""
        if alpha.ndim == 1:
            return self.problem.loss.margin(alpha, y)
        P = alpha + np.eye(alpha.shape[1])[y]
        return np.asarray(np.where(P > 0, P, np.inf).min(axis=1))

    def _without_intercepts(self, dual: Dual, i: int, alpha: Array, c: float) -> Dual:
        """The same bound with v = 0 for the intercepts, exactly: row i takes what is left of them.

        Its α moves by at most r/c, r being |v| + error there; ℓ* is largest at an end of that.
        """
        problem, K = self.problem, self.problem.n_scores
        v, error = dual.v.reshape(K, -1).copy(), dual.error.reshape(K, -1).copy()
        r = np.abs(v[:, -1]) + error[:, -1]  # (K,)
        y = problem.y[i : i + 1]
        p = np.atleast_1d(alpha) + (np.eye(K)[y[0]] if K > 1 else 0.0)
        room = p if K > 1 else self._room(alpha[None], y)
        if not (c > 0 and np.all(2 * r <= c * room)):
            return dual
        if K == 1:
            ends = np.array([alpha + r[0] / c, alpha - r[0] / c, alpha]).ravel()
            up, down, here = problem.loss.conjugate(ends, np.repeat(y, 3))
            charge = c * max(float(up - here), float(down - here), 0.0)
        else:
            some = r > 0  # of these each P stays within half of itself
            charge = float(r[some] @ (np.abs(np.log(p[some])) + 0.7))
        x = problem.X[[i]].toarray()[0] if sparse.issparse(problem.X) else problem.X[i]
        error[:, :-1] += np.outer(r, np.abs(x))
        v[:, -1] = error[:, -1] = 0.0
        return Dual(dual.value - charge, v.ravel(), error.ravel())

    def conjugates(self, c: Array, alpha: Array, chunk: int = 16384) -> tuple[float, float]:
        """Σ c_i ℓ*(α_i) and Σ c_i |ℓ*(α_i)|, in chunks that stay in cache; only rows with c_i > 0.

        The second tells what rounding may have done to the first.
        """
        total = size = 0.0
        for start in range(0, len(c), chunk):
            part = slice(start, start + chunk)
            values = self.problem.loss.conjugate(alpha[part], self.problem.y[part])
            values = np.where(c[part] > 0, values, 0.0)
            total += float(c[part] @ values)
            size += float(c[part] @ np.abs(values))
        return total, size

    def floor(self, mixture: Array) -> float:
        """A value that Σ λ_k L_k(w') does not undercut for any w', penalised by nothing.

        Tight near a minimum, 0 far from it. Where the minimum is at infinity, rows whose loss goes
        to 0 on the way are left out: no loss is below 0.
        """
        if not self.problem.loss.is_smooth or self.problem.n_parameters > MOST_DENSE:
            return 0.0
        for negligible in NEGLIGIBLE:
            value = self._above(mixture, negligible)._floor(mixture)
            if value > 0:
                return value
        loss = self.problem.loss
        return self._floor_beyond_kinks(mixture, loss.delta) if isinstance(loss, Huber) else 0.0

    def _floor_beyond_kinks(self, mixture: Array, delta: float) -> float:
        """The floor where too few rows are curved: slopes of (1 − η)ℓ' may move in all rows.

        −ℓ*((1 − η)α) ≥ −(1 − η)ℓ*(α) by convexity, for ℓ*(0) = 0, and no slope is nearer to ±δ than
        ηδ; the curvature of ℓ* is 1.
        """
        here = self._above(mixture, 0.0)
        problem, c, eta = here.problem, here._weights(mixture), 1e-11
        beyond = np.maximum(np.abs(here.scores - problem.y) - delta, 0.0)
        sums = here._sums(mixture, here._gram(c), eta * delta)
        kinks = math.sqrt(float(c @ beyond**2))
        return (1 - eta) * floor(replace(sums, kinks=kinks)) if problem.n_rows else 0.0

    def _above(self, mixture: Array, loss: float) -> Evaluation:
        """Only the rows that the mixture weighs and whose loss is above a number."""
        value = self.problem.loss.derivatives(self.scores, self.problem.y, 0)[0]
        rows = np.flatnonzero((self._weights(mixture) > 0) & (value > loss))
        problem = self.problem._with_rows(rows, self.problem.average[:, rows])
        return Evaluation(problem, self.w, self.scores[rows])

    def _floor(self, mixture: Array) -> float:
        if self.problem.n_rows == 0:
            return 0.0
        return floor(self._sums(mixture, self.hessian(mixture), self.problem.loss.room))

    def _sums(self, mixture: Array, hessian: Array, room: float) -> Sums:
        problem = self.problem
        gradient, error = self.slopes(self._weights(mixture), self.slope, dual=False)
        return Sums(
            value=float(mixture @ self.losses),
            gradient=gradient,
            error=error,
            hessian=hessian,
            reach=problem.reach,
            length=float(np.abs(self.w) @ problem.reach),
            rounding=problem.rounding,
            room=room,
            n_scores=problem.n_scores,
            vanishes=problem.vanishes,
        )

    def _balanced(self, alpha: Array, c: Array) -> Array:
        """α ← α + ℓ''τ, in place, with the change τ of the intercepts for Σ c_i α_i = 0."""
        if not self.problem.intercept:
            return alpha
        p = self._curvature
        h = c @ p if p.ndim == 1 else np.diag(c @ p) - p.T @ (c[:, None] * p)
        if not np.any(h):
            return self._centred_slope(c)
        for _ in range(2):  # the second time for rounding
            g = c @ alpha
            shift = -g / h if p.ndim == 1 else -np.linalg.lstsq(h, g)[0]
            if p.ndim == 1:
                alpha = blas.daxpy(p, alpha, a=shift)  # in place, without a copy
            else:
                alpha += self._bend(np.broadcast_to(shift, alpha.shape))
        return alpha

    def _centred_slope(self, c: Array) -> Array:
        """ℓ' after the intercept change that makes Σ c_i ℓ'_i = 0: Newton, O(n) a step.

        What rounding or a kink leaves of the sum goes by mixing the ℓ' of both sides of the root,
        which stays where ℓ* is finite.
        """
        problem = self.problem
        if not problem.intercept:
            return self.slope
        if problem.n_scores > 1:
            return _centre_softmax(self, c)
        reach = float(np.max(np.abs(self.scores))) + 50.0 + float(np.max(np.abs(problem.y)))
        low, high, shift = -reach, reach, 0.0
        sides: dict[bool, tuple[Array, float]] = {}  # g > 0: the last ℓ' and g = Σ c_i ℓ'_i there
        for _ in range(200):
            slope, g, h = self._shifted(shift, c)
            sides[g > 0] = slope, g
            low, high = (low, shift) if g > 0 else (shift, high)
            rounding = 1e-14 * float(c @ np.abs(slope))
            if abs(g) <= rounding or high - low <= 1e-15 * reach:
                break
            newton = shift - g / h if h > 0 else np.inf
            shift = newton if low < newton < high else 0.5 * (low + high)
        return _balance(*sides.values())

    def _shifted(self, shift: float, c: Array) -> tuple[Array, float, float]:
        """ℓ', Σ c_i ℓ'_i and Σ c_i ℓ''_i at scores + shift."""
        order = 2 if self.problem.loss.is_smooth else 1
        z = self.scores + shift
        _, slope, *rest = self.problem.loss.derivatives(z, self.problem.y, order)
        return slope, float(c @ slope), float(c @ rest[0]) if rest else 0.0

    def _bend(self, u: Array) -> Array:
        """ℓ''(z_i) u_i for a change u of the scores."""
        if u.ndim == 1:
            return self._curvature * u
        p = self._curvature
        mean: Array = np.einsum("ik,ik->i", p, u)
        return p * (u - mean[:, None])

    def _weights(self, mixture: Array) -> Array:
        """c_i = Σ_k λ_k a_ki, so that Σ_k λ_k L_k = Σ_i c_i ℓ_i."""
        return np.asarray(self.problem.average.T @ mixture)


def _balance(one: tuple[Array, float], other: tuple[Array, float] | None = None) -> Array:
    """The mix of two slopes, with sums g of opposite signs, that sums to 0."""
    a, g_a = one
    if other is None or g_a == 0:
        return a
    b, g_b = other
    share = g_a / (g_a - g_b)
    return np.clip((1 - share) * a + share * b, np.minimum(a, b), np.maximum(a, b))


def _centre_softmax(here: Evaluation, c: Array) -> Array:
    """The K-dimensional case of `_centred_slope`: damped Newton on the K intercepts.

    What is left, g = Σ c_i (P_i − onehot_i) / Σ c_i, goes by P ← (1 − θ)(P − g) + θπ with the
    shares π of the classes and the least θ that keeps P ≥ 0.
    """
    problem, total = here.problem, float(c.sum())
    if total == 0:
        return here.slope
    share = np.bincount(problem.y, weights=c, minlength=problem.n_scores) / total  # π
    z = np.where(share > 0, here.scores, -np.inf)  # a class without weight gets no probability
    for _ in range(100):
        _, slope, p = problem.loss.derivatives(z, problem.y, 2)
        g = c @ slope / total
        if np.max(np.abs(g)) <= 1e-14:
            break
        h = np.diag(c @ p) - p.T @ (c[:, None] * p)  # singular along (1, …, 1), as is g
        damping = 1e-12 * max(float(np.trace(h)), 1e-100)  # every P may be 0 or 1 far out
        newton = np.linalg.lstsq(h + damping * np.eye(len(g)), total * g)[0]
        z = z - newton * min(1.0, 2.0 / max(float(np.max(np.abs(newton))), 1e-300))
    excess = float(np.max(g / np.where(share > 0, share, np.inf)))  # θ / (1 − θ)
    p = np.maximum(p - g + excess * share, 0.0) / (1 + excess)
    p[np.arange(len(p)), problem.y] -= 1
    return p


def _adds_up_to_nothing(terms: list[Array]) -> bool:
    """Whether the terms, (n,) each, add up to exactly 0 in every row.

    Whole numbers below 2⁵³ add up without rounding; otherwise `math.fsum` is exact.
    """
    size = sum(float(np.max(np.abs(x), initial=0.0)) for x in terms)
    total = np.sum(terms, axis=0)
    if size < 2.0**53 and all(bool(np.all(x == np.rint(x))) for x in terms):
        return not np.any(total)
    if np.any(np.abs(total) > 1e-12 * size):
        return False
    return all(math.fsum(row) == 0 for row in zip(*(x.tolist() for x in terms), strict=True))


def _scale_rows(v: Array, c: Array) -> Array:
    """c_i v_i, written over c where that has room."""
    return np.multiply(v, c, out=c) if v.ndim == 1 else v * c[:, None]


def _scaled(v: Array, scale: float) -> Array:
    return v if scale == 1 else scale * v


def _weighted_sizes(c: Array, alpha: Array, chunk: int = 16384) -> Array:
    """Σ c_i |α_i| of each score, (K,)."""
    total = np.zeros(1 if alpha.ndim == 1 else alpha.shape[1])
    for start in range(0, len(c), chunk):
        total += c[start : start + chunk] @ np.abs(alpha[start : start + chunk])
    return total


def _pairs(k: int) -> Iterator[tuple[int, int]]:
    return ((a, b) for a in range(k) for b in range(a, k))


def _as_slice(rows: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    """Consecutive rows as a slice, so that reading them copies nothing."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and np.all(np.diff(rows) == 1):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def _squares_pulled_back(X: Any, h: Array, chunk: int = 8192) -> Array:
    """Σ_i h_i x_i² of CSR rows, (d,) or (d, K), a chunk of rows at a time to keep memory small."""
    total = np.zeros((X.shape[1], *h.shape[1:]))
    for start in range(0, X.shape[0], chunk):
        part = X[start : start + chunk]
        part.data **= 2
        total += part.T @ h[start : start + chunk]
    return total


def _dense_gram(X: Array, h: Array, chunk: int = 1024) -> tuple[Array, Array]:
    """Σ h_i x_i x_iᵀ and Σ h_i x_i in chunks that stay in cache; SᵀS costs half of Xᵀ(hX)."""
    d = X.shape[1]
    gram, column = np.zeros((d, d)), np.zeros(d)
    positive = bool(np.all(h >= 0))
    root = np.sqrt(h) if positive else h
    for start in range(0, len(X), chunk):
        block, r = X[start : start + chunk], root[start : start + chunk]
        scaled = block * r[:, None]
        gram += scaled.T @ (scaled if positive else block)
        column += scaled.T @ r if positive else scaled.sum(axis=0)
    return gram, column


def squared_lengths(problem: LinearDomains) -> Array:
    """‖(x_i, 1)‖² of every row, (n,); without the 1 when there is no intercept."""
    X = problem.X
    squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    return np.asarray(squares, dtype=np.float64) + problem.intercept
