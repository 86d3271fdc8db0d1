"""Active sets: from the minimiser over one face of the box to that over another, downhill."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgeqp3

from anymix.errors import InputError
from anymix.mixtures.qp.quadratic import Problem, cholesky, solve_cholesky

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]


def active_set(problem: Problem, theta: Array) -> Array:
    """Minimise over a face, free the entry with the worst multiplier, until none is wrong."""
    theta = problem.on_rows(theta.copy())
    face, free = _first_face(problem, theta)
    visits: Counter[int] = Counter()
    careful = False  # then Bland's rule, the first wrong entry and not the worst: it cannot cycle
    while True:
        if not np.array_equal(face.free, free):
            face = Face(problem, free)
        settled = _descend(problem, face, theta, free)
        if settled is None:
            continue
        z, noise = settled
        wrong = ~free & np.where(z < 0, theta < problem.upper, theta > problem.lower)
        wrong &= np.abs(z) > noise
        here = hash(np.where(free, np.nan, theta).tobytes())
        visits[here] += 1
        if not wrong.any() or visits[here] > 2:  # a third visit, and only rounding is left to gain
            return problem.on_rows(problem.snap(theta, noise))
        careful |= visits[here] > 1
        j = int(np.argmax(wrong if careful else np.where(wrong, np.abs(z), 0.0)))
        d = face.conjugate(j, -np.sign(z[j]))
        curvature = problem.curvature(d)
        full = float(abs(z[j])) / curvature if curvature > 0 else np.inf  # inf: a flat direction
        free[j] = True
        careful &= _move(problem, theta, free, d, full) == 0


def _descend(problem: Problem, face: Face, theta: Array, free: Mask) -> tuple[Array, Array] | None:
    """θ ← the minimiser over the face; its multipliers, or None where a bound came first."""
    worst = np.inf
    while True:
        z, noise = face.multipliers(theta)
        relative = np.max(np.abs(z[face.N]) / noise[face.N], initial=0.0)
        if relative <= 1 or relative > worst / 2:
            return z, noise
        worst = relative
        _move(problem, theta, free, face.newton(z), 1.0)
        if not (free[face.N].all() and free[face.B].all()):
            return None


def _move(problem: Problem, theta: Array, free: Mask, d: Array, full: float) -> float:
    """θ ← θ + t d, t ≤ full, up to the first bound; the entry that meets it is free no more."""
    moving = np.flatnonzero(np.abs(d) > 1e-14 * np.max(np.abs(d)))  # the rest is rounding
    bound = np.where(d > 0, problem.upper, problem.lower)
    reach = (bound[moving] - theta[moving]) / d[moving]
    first = int(np.argmin(reach))
    t = min(full, float(reach[first]))
    if t == np.inf:
        raise InputError("", "there is no minimum along a ray", "bound θ from above")
    theta[:] = problem.clip(theta + t * d)
    if t < full:
        i = moving[first]
        theta[i], free[i] = bound[i], False
    return t


def _first_face(problem: Problem, theta: Array) -> tuple[Face, Mask]:
    """The face of the entries off their bounds, but of those that would make H singular; and these.

    The mask changes from then on, the face does not.
    """
    room = problem.room(theta)
    free = room > 0
    free[_basis(problem.A, np.minimum(room, 1.0) + 1e-9)[0]] = True
    face = Face(problem, free)
    if face.N.size == 0 or np.all(face.D > 0):
        return face, free
    columns = np.vstack([face.U.T, np.diag(np.sqrt(face.D))[face.D > 0]])  # (r + e + |N|, |N|)
    norms = np.linalg.norm(columns, axis=0)
    sizes, order = _pivoted(columns / np.where(norms > 0, norms, 1))
    free[face.N[order[np.count_nonzero(sizes > 1e-7) :]]] = False
    return face, free


def _pivoted(columns: Array) -> tuple[Array, Indices]:
    """|R_ii| of the QR decomposition with pivots, and the order of the columns.

    LAPACK itself, for that is all of the decomposition that is needed.
    """
    n = columns.shape[1]
    R, order, *_ = dgeqp3(columns, lwork=2 * n + 64 * (n + 1))  # room to work in blocks
    return np.abs(np.diag(R)), order - 1


def _basis(A: Array, weight: Array) -> tuple[Indices, Array]:
    """B, an entry for each independent row, heavy ones first, and T = A_B⁻¹ A, by elimination."""
    if len(A) == 1:  # Σθ = 1, the most common one
        j = int(np.argmax(np.abs(A[0]) * weight))
        if A[0, j] != 0 and weight[j] != 0:
            return np.array([j], dtype=np.intp), A / A[0, j]
    T, pivots, kept = A.copy(), [], []
    for k in range(len(T)):
        pivot = int(np.argmax(np.abs(T[k]) * weight))
        if T[k, pivot] == 0 or weight[pivot] == 0:
            continue
        T[k] /= T[k, pivot]
        for i in set(range(len(T))) - {k}:
            change = T[i, pivot] * T[k]
            T[i] -= change
            T[i][np.abs(T[i]) <= 1e-14 * np.abs(change)] = 0.0  # rounding must not become a pivot
        pivots.append(pivot)
        kept.append(k)
    return np.array(pivots, dtype=np.intp), T[kept]


class Face:
    """The free entries B ∪ N: B, one for each row, follows N so that Aθ stays b.

    d_B = −T_N d_N with T = A_B⁻¹ A, so N sees the matrix
    H = D_N + U Uᵀ,  U = [F_N − T_Nᵀ F_B,  T_Nᵀ √D_B].
    """

    def __init__(self, problem: Problem, free: Mask) -> None:
        self.problem, self.free = problem, free.copy()
        self.B, self.T = _basis(problem.A, free / problem.units)  # (e,), (e, n)
        nonbasic = free.copy()
        nonbasic[self.B] = False
        self.N = np.flatnonzero(nonbasic)
        self.D = problem.D[self.N]
        self.U = self.reduced(self.N)  # (|N|, r + e)
        self.wide = self.N.size > self.U.shape[1] and bool(np.all(self.D > 0))

    def reduced(self, j: Indices | int) -> Array:
        """The rows j of U."""
        T, F = self.T[:, j].T, self.problem.F
        return np.concatenate([F[j] - T @ F[self.B], T * np.sqrt(self.problem.D[self.B])], axis=-1)

    @cached_property
    def system(self) -> tuple[Array, Array]:
        """U, L with H = L Lᵀ; or, of fewer rows, Q, L with D^-½ U = Q S and I + S Sᵀ = L Lᵀ."""
        if not self.wide:
            return self.U, cholesky(self.U @ self.U.T + np.diag(self.D))
        Q, S = np.linalg.qr(self.U / np.sqrt(self.D)[:, None])  # (|N|, r + e), (r + e, r + e)
        return Q, cholesky(S @ S.T + np.eye(len(S)))

    def solve(self, h: Array) -> Array:
        """H⁻¹h; if D > 0 leaves H large, D^-½ (Q (I + S Sᵀ)⁻¹ Qᵀ + I − Q Qᵀ) D^-½ h.

        Woodbury's formula says the same and loses all digits for small D.
        """
        if self.N.size == 0:
            return h
        Q, L = self.system
        if not self.wide:
            return solve_cholesky(L, h)
        root = np.sqrt(self.D)
        rest = h / root
        part = rest @ Q
        rest = rest - Q @ part
        rest = rest - Q @ (rest @ Q)  # once more, since rounding left some of Q in it
        return (rest + Q @ solve_cholesky(L, part)) / root

    def multipliers(self, theta: Array) -> tuple[Array, Array]:
        """z = g − Tᵀg_B, zero on N at the face's minimiser, and a bound on its rounding."""
        g, noise = self.problem.gradient(theta)
        return g - g[self.B] @ self.T, noise + noise[self.B] @ np.abs(self.T)

    def newton(self, z: Array) -> Array:
        """The direction to the minimiser over the face."""
        return self._complete(np.zeros(z.size), -self.solve(z[self.N]))

    def conjugate(self, j: int, sign: float) -> Array:
        """The direction that moves entry j by `sign` and keeps the face minimised."""
        d = np.zeros(self.problem.c.size)
        d[j] = sign
        return self._complete(d, -sign * self.solve(self.U @ self.reduced(j)))

    def _complete(self, d: Array, d_N: Array) -> Array:
        d[self.N] = d_N
        d[self.B] = -(self.T @ d)
        return d
