"""The losses at one w, and on demand their derivatives and what they prove.

With z_i = ⟨w, (x_i, 1)⟩ and c_i = Σ_k λ_k a_ki, everything here is a sum over rows:

    L_k = Σ_i a_ki ℓ(z_i),    ∇Σ λ_k L_k = Σ c_i ℓ'(z_i) (x_i, 1),
    ∇²Σ λ_k L_k = Σ c_i ℓ''(z_i) (x_i, 1)(x_i, 1)ᵀ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.problem.balance import balanced, bend, centred
from anymix.problem.duals import Dual, conjugates, proved, scale_rows, slopes
from anymix.problem.floors import Sums, floor
from anymix.problem.weighted import WeightedRows, gram_of_products

Array = NDArray[np.float64]

__all__ = ["MOST_DENSE", "Evaluation", "gram", "gram_diagonal", "vanishes"]

MOST_DENSE = 3000  # parameters: beyond it no dense Hessian is formed
FEW = 16384  # scores of which ℓ'' is kept: it costs nothing beside ℓ', but more room
LOST = 2**10  # scores times rounding, at which they are taken anew
NEGLIGIBLE = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)  # losses of rows that a proof may leave out


class Evaluation:
    """The losses of the rows at one w, and on demand their derivatives there."""

    def __init__(self, table: WeightedRows, w: Array, scores: Array, lost: float = 0.0) -> None:
        self.table, self.w, self.scores = table, w, scores
        self._lost = lost  # Σ max |z| of the points on the way here: their rounding is still in z
        self._step: tuple[Array, Array] | None = None

    @property
    def losses(self) -> Array:
        """(L_1, …, L_p)."""
        return self._first[0]

    @property
    def slope(self) -> Array:
        """ℓ' of every row, (n,) or (n, K)."""
        return self._first[1]

    @cached_property
    def _first(self) -> tuple[Array, Array]:
        """Both of these, on demand: of the rows that stand for others only ℓ'' is wanted."""
        loss, y = self.table.loss, self.table.y
        if loss.is_smooth and self.scores.size <= FEW:
            value, slope, self.curvature = loss.derivatives(self.scores, y, 2)
        else:
            value, slope = loss.derivatives(self.scores, y, 1)
        return self.table.means(value), slope

    @cached_property
    def curvature(self) -> Array:
        """ℓ'' (n,), or P (n, K); losses that have none say so."""
        return self.table.loss.derivatives(self.scores, self.table.y, 2)[2]

    def moved(self, step: Array, t: float = 1.0, mixture: Array | None = None) -> Evaluation:
        """At w + t·step: one pass over X for all t of the same step.

        Where earlier scores were so large that their rounding shows in these, it is another pass.
        `mixture` is the one whose curvature will be asked for there, which only helps clients.
        """
        w, scores = self.w + t * step, self.scores + _scaled(self._along(step), t)
        there = Evaluation(self.table, w, scores, self._lost + self._largest)
        if there._lost <= LOST * there._largest:
            return there
        return Evaluation(self.table, w, self.table.scores(w))

    @cached_property
    def _largest(self) -> float:
        """max |z|."""
        return float(max(self.scores.max(initial=0.0), -self.scores.min(initial=0.0)))

    def _along(self, step: Array) -> Array:
        """The change of the scores along a step, kept for the last one asked for."""
        if self._step is None or not np.array_equal(self._step[0], step):  # it may change in place
            self._step = None  # makes room
            self._step = step.copy(), self.table.scores(step)
        return self._step[1]

    def gradient(self, mixture: Array) -> Array:
        """∇ Σ λ_k L_k, (n_parameters,)."""
        return self.table.pull_back(scale_rows(self.slope, self.weights(mixture)))

    def jacobian(self) -> Array:
        """Row k is ∇L_k, (p, n_parameters); kept, for a path may ask for it again."""
        return self._jacobian

    @cached_property
    def _jacobian(self) -> Array:
        if self.table.n_scores > 1:
            return np.stack([self._domain_gradient(k) for k in range(self.table.n_domains)])
        average = self.table.average
        slope = self.slope
        if not self.table._is_partition:
            slope = np.repeat(slope, np.diff(average.indptr))
        data = average.data * slope
        weighted = copy(average)  # the same places, which SciPy need not check again
        weighted.data = data
        jacobian = self._columns(weighted)
        if not self.table.intercept:
            return jacobian
        return np.column_stack([jacobian, self.table.means(self.slope)])

    def _columns(self, weighted: sparse.csc_array) -> Array:
        table = self.table
        if not sparse.issparse(table.X):
            return np.asarray(weighted @ table.X)
        if not table._is_partition:
            return np.asarray((weighted @ table.X).todense())
        if table._runs is None:
            flat = table._wide.T @ weighted.data
            return np.asarray(flat).reshape(table.n_domains, table.n_features)
        columns = np.zeros((table.n_domains, table.n_features))
        for k, rows, transposed in table._runs:
            v = weighted.data[rows]
            columns[k] += transposed @ v
            if table._split is not None:
                table._split.add_full(columns[k], v, rows)
        return columns

    def _domain_gradient(self, k: int) -> Array:
        table = self.table
        part = slice(*table._by_domain.indptr[k : k + 2])
        shares = table._by_domain.data[part]
        rows = _as_slice(table._by_domain.indices[part])
        v = self.slope[rows] * shares[:, None]
        parts = np.asarray(table.X[rows].T @ v).T
        if table.intercept:
            parts = np.column_stack([parts, v.sum(axis=0)])
        return parts.ravel()

    def hessian(self, mixture: Array, n_rows: int | None = None) -> Array:
        """∇² Σ λ_k L_k, dense; with n_rows, estimated from about so many rows.

        These are spaced evenly in every domain, λ_k n_rows of them: m rows for D parameters give
        a Hessian that is right to √(D/m).
        """
        made = self.table.products  # with these, rows of weight 0 cost next to nothing
        here = self
        if made is None:
            here = self._active(mixture) if n_rows is None else self._thinned(mixture, n_rows)
        c, K = here.weights(mixture), here.table.n_scores
        if K == 1:
            return gram(here.table, c * here.curvature, made)
        size = here.table.n_features + here.table.intercept
        blocks = np.empty((K, size, K, size))
        for a, b in _pairs(K):
            p_a, p_b = here.curvature[:, a], here.curvature[:, b]
            h = c * p_a * (1 - p_a) if a == b else -c * p_a * p_b
            blocks[a, :, b, :] = blocks[b, :, a, :] = gram(here.table, h, made)
        return blocks.reshape(K * size, K * size)

    def hessian_blocks(self, mixture: Array, n_rows: int) -> Iterator[Array]:
        """The diagonal blocks of the Hessian, one a score, estimated from about n_rows rows."""
        here = self._thinned(mixture, n_rows)
        c, h = here.weights(mixture), here.curvature
        if h.ndim == 1:
            return iter([gram(here.table, c * h)])
        return (gram(here.table, c * p * (1 - p)) for p in h.T)

    def _active(self, mixture: Array) -> Evaluation:
        """The same with only the rows that the mixture weighs, where these are the lesser part."""
        m = np.where(mixture != 0, np.diff(self.table._members[0]), 0.0)
        lesser = 4 if sparse.issparse(self.table.X) else 2  # a copy of sparse rows saves less
        if m.sum() == 0 or lesser * m.sum() > self.table.n_rows:
            return self
        rows = self.table._spaced(m)  # all of them, without a look at the others
        table = self.table._with_rows(rows, self.table.average[:, rows])
        return Evaluation(table, self.w, self.scores[rows])

    def _thinned(self, mixture: Array, n_rows: int) -> Evaluation:
        """The same with about n_rows rows that stand for all the mixture weighs."""
        m = np.diff(self.table._members[0])
        counts = np.minimum(m, np.ceil(n_rows * mixture))
        if 2 * counts.sum() > m[mixture > 0].sum():
            return self._active(mixture)
        rows = self.table._spaced(counts)
        return Evaluation(self.table._only(rows), self.w, self.scores[rows])

    def hessian_diagonal(self, mixture: Array) -> Array:
        """The diagonal of the Hessian, (n_parameters,)."""
        h = self.curvature
        h = h if h.ndim == 1 else h * (1 - h)
        return gram_diagonal(self.table, scale_rows(h, self.weights(mixture)))

    def hessian_vector(self, mixture: Array, v: Array) -> Array:
        """∇² Σ λ_k L_k · v without forming the matrix: two passes over X, or one along a step."""
        active = self._active(mixture)
        if active is not self:
            return active.hessian_vector(mixture, v)
        bent = bend(self.curvature, self._along(v))
        return self.table.pull_back(scale_rows(bent, self.weights(mixture)))

    # -- proofs --------------------------------------------------------------------------------

    def dual(
        self,
        mixture: Array,
        step: Array | None = None,
        scale: float = 1.0,
        spare: float = 0.0,
    ) -> Dual:
        """−Σ c_i ℓ*(α_i) and Σ c_i α_i (x_i, 1) at dual variables α near the gradient here.

        Σ λ_k L_k(w') ≥ value + ⟨v, w'⟩ for *every* w', whatever α is (`duals`); α is taken where
        that is tight: ℓ'(z) + ℓ''(z)·scores(step), which is ℓ' after a Newton step, or, with no
        step or outside the domain of ℓ*, ℓ' after the best change of intercept. Both have
        Σ c_i α_i = 0 if there is an intercept, and what rounding leaves of that sum is put on one
        row, so that v and error are 0 there. `scale` shrinks α towards 0. Errors up to `spare`
        need not be known any better.
        """
        active = self._active(mixture)
        if active is not self:
            return active.dual(mixture, step, scale, spare)
        c = self.weights(mixture)
        if step is not None and self.table.loss.is_smooth:
            alpha = _scaled(self._after(step, c), scale)
            total, size = conjugates(self.table, c, alpha)
            if np.isfinite(total):
                return proved(self.table, c, alpha, total, size, spare)
        alpha = _scaled(self._centred_slope(c), scale)
        return proved(self.table, c, alpha, *conjugates(self.table, c, alpha), spare)

    def _after(self, step: Array, c: Array) -> Array:
        """ℓ' + ℓ''·scores(step), with the intercepts that make its sum 0."""
        alpha = bend(self.curvature, self._along(step))
        alpha += self.slope
        if not self.table.intercept:
            return alpha
        found = balanced(alpha, c, self.curvature)
        return self._centred_slope(c) if found is None else found

    def _centred_slope(self, c: Array) -> Array:
        return centred(self.table, self.scores, c) if self.table.intercept else self.slope

    def steepness(self, loss: float) -> float:
        """At least Σ c_i |ℓ'_i| for a mixture whose loss Σ c_i ℓ_i here is so large."""
        return self.table.growth.steepness(loss)

    def floor(self, mixture: Array) -> float:
        """A value that Σ λ_k L_k(w') does not undercut for any w', penalised by nothing.

        Tight near a minimum, 0 far from it. Where the minimum is at infinity, rows whose loss goes
        to 0 on the way are left out: no loss is below 0.
        """
        if not self.table.loss.is_smooth or self.table.n_parameters > MOST_DENSE:
            return 0.0
        for negligible in NEGLIGIBLE:
            value = self._above(mixture, negligible)._floor(mixture)
            if value > 0:
                return value
        kink = self.table.loss.kink
        return self._floor_beyond_kinks(mixture, kink) if kink < math.inf else 0.0

    def _floor_beyond_kinks(self, mixture: Array, delta: float) -> float:
        """The floor where too few rows are curved: slopes of (1 − η)ℓ' may move in all rows.

        −ℓ*((1 − η)α) ≥ −(1 − η)ℓ*(α) by convexity, for ℓ*(0) = 0, and no slope is nearer to ±δ than
        ηδ; the curvature of ℓ* is 1.
        """
        here = self._above(mixture, 0.0)
        table, c, eta = here.table, here.weights(mixture), 1e-11
        beyond = np.maximum(np.abs(here.scores - table.y) - delta, 0.0)
        sums = here._sums(mixture, gram(here.table, c), eta * delta)
        kinks = math.sqrt(float(c @ beyond**2))
        return (1 - eta) * floor(replace(sums, kinks=kinks)) if table.n_rows else 0.0

    def _above(self, mixture: Array, loss: float) -> Evaluation:
        """Only the rows that the mixture weighs and whose loss is above a number."""
        value = self.table.loss.derivatives(self.scores, self.table.y, 0)[0]
        rows = np.flatnonzero((self.weights(mixture) > 0) & (value > loss))
        table = self.table._with_rows(rows, self.table.average[:, rows])
        return Evaluation(table, self.w, self.scores[rows])

    def _floor(self, mixture: Array) -> float:
        if self.table.n_rows == 0:
            return 0.0
        return floor(self._sums(mixture, self.hessian(mixture), self.table.loss.room))

    def _sums(self, mixture: Array, hessian: Array, room: float) -> Sums:
        table = self.table
        gradient, error = slopes(table, self.weights(mixture), self.slope, dual=False)
        return Sums(
            value=float(mixture @ self.losses),
            gradient=gradient,
            error=error,
            hessian=hessian,
            reach=table.reach,
            length=float(np.abs(self.w) @ table.reach) + table.growth.offset,
            rounding=table.rounding,
            room=room,
            growth=table.growth,
            n_scores=table.n_scores,
            vanishes=lambda u: vanishes(table, u),
        )

    def weights(self, mixture: Array) -> Array:
        """c_i = Σ_k λ_k a_ki, so that Σ_k λ_k L_k = Σ_i c_i ℓ_i."""
        return self.table.spread(mixture)


def _scaled(v: Array, scale: float) -> Array:
    return v if scale == 1 else scale * v


def _pairs(k: int) -> Iterator[tuple[int, int]]:
    return ((a, b) for a in range(k) for b in range(a, k))


def _as_slice(rows: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    """Consecutive rows as a slice, so that reading them copies nothing."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and np.all(np.diff(rows) == 1):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


MOST_KEPT = 2**22  # entries whose squares are kept: a solver asks for several diagonals


def gram(table: WeightedRows, h: Array, made: sparse.csc_array | None = None) -> Array:
    """Σ_i h_i (x_i, 1)(x_i, 1)ᵀ for weights h (n,); quicker where the `products` are made."""
    X, d = table.X, table.n_features
    whole = np.empty((d + table.intercept, d + table.intercept))
    if made is not None:
        whole[:d, :d], column = gram_of_products(made, h), X.T @ h
    elif sparse.issparse(X):
        whole[:d, :d] = (X.T @ X.multiply(h[:, None]).tocsr()).todense()
        column = X.T @ h
    else:
        whole[:d, :d], column = _dense_gram(X, h)
    if table.intercept:
        whole[d, :d] = whole[:d, d] = column
        whole[d, d] = h.sum()
    return whole


def gram_diagonal(table: WeightedRows, h: Array) -> Array:
    """Its diagonal, for weights (n,), or (n, K) of as many blocks, flat."""
    if sparse.issparse(table.X):
        few = table.X.nnz <= MOST_KEPT
        parts = table.squares.T @ h if few else _squares_pulled_back(table.X, h)
    else:
        parts = np.einsum("ij,ij,i...->j...", table.X, table.X, h)
    parts = parts.T.reshape(table.n_scores, -1)
    if table.intercept:
        parts = np.column_stack([parts, h.sum(axis=0).reshape(-1, 1)])
    return parts.ravel()


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
    total, column = np.zeros((d, d)), np.zeros(d)
    positive = bool(np.all(h >= 0))
    root = np.sqrt(h) if positive else h
    for start in range(0, len(X), chunk):
        block, r = X[start : start + chunk], root[start : start + chunk]
        scaled = block * r[:, None]
        total += scaled.T @ (scaled if positive else block)
        column += scaled.T @ r if positive else scaled.sum(axis=0)
    return total, column


def vanishes(rows: WeightedRows, u: Array) -> bool:
    """Whether Σ_j u_j x_ij is exactly 0 in every row, for columns with whole coefficients.

    u (d + intercept,) is known up to rounding and, if the intercept is what depends on the
    columns, up to a factor. The coefficients of the columns are rounded to whole numbers, that
    of the intercept is what the first row says. Sums of products with powers of two are exact
    in `math.fsum`.
    """
    u = u[: rows.n_features] / min(
        1.0, max(float(np.max(np.abs(u[: rows.n_features]), initial=0.0)), 1e-300)
    )
    whole = np.rint(u)
    columns = np.flatnonzero(whole)
    if not columns.size or np.max(np.abs(u - whole)) > 1e-3:
        return False
    if np.max(np.abs(whole), initial=0.0) > 16 or rows.n_rows * columns.size > 10**7:
        return False
    X = rows.X[:, columns]
    X = X.toarray() if sparse.issparse(X) else X
    terms = [
        math.copysign(2.0**b, k) * x
        for k, x in zip(whole[columns], X.T, strict=True)
        for b in range(5)
        if int(abs(k)) >> b & 1
    ]
    shift = -math.fsum(x[0] for x in terms) if rows.intercept else 0.0
    return _adds_up_to_nothing([*terms, np.full(rows.n_rows, shift)])


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
