"""Convex quadratic programs over a box cut by a few equations, solved exactly by active sets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr
from scipy.linalg.lapack import dpotrf, dpotrs

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]

EPS = float(np.finfo(np.float64).eps)
ROUNDING = 32 * EPS  # a multiplier below this share of its summands is rounding: it is zero
FLAT = 1e-14  # curvature below this share of its summands is rounding: the direction is flat


def minimize_quadratic(
    c: ArrayLike,
    factor: ArrayLike | None = None,
    diagonal: ArrayLike | None = None,
    *,
    lower: ArrayLike,
    upper: ArrayLike,
    rows: ArrayLike,
    totals: ArrayLike,
    start: ArrayLike | None = None,
) -> Array:
    """argmin ½ θᵀ(F Fᵀ + diag D)θ − cᵀθ  subject to  lower ≤ θ ≤ upper,  rows @ θ = totals.

    c (n,), F = factor (n, r) or None, D = diagonal (n,) ≥ 0 or None, bounds (n,) where upper may be
    inf, rows (e, n) with few e, totals (e,). The matrix may be singular; then some minimiser is
    returned. `start` (n,) is a feasible θ to begin from: at the solution one linear system is solved.

    A primal active-set method: θ moves from minimiser to minimiser of faces of the box, downhill,
    so it ends after finitely many of them. Where D > 0 it begins at the solution that a
    Newton method on the dual finds, which moves many bounds at once.

    >>> minimize_quadratic([3.0, 1.0], diagonal=[1.0, 1.0], lower=[0, 0], upper=[1, 1],
    ...                    rows=[[1, 1]], totals=[1])
    array([1., 0.])
    """
    problem = _normalized(c, factor, diagonal, lower, upper, rows, totals)
    theta = None if start is None else problem.clip(np.asarray(start, float))
    if np.all(problem.D > 0) and problem.c.size > problem.F.shape[1]:
        theta = _dual_newton(problem, theta)
    if theta is None or not problem.meets_rows(theta):
        theta = _feasible(problem)
    return _active_set(problem, theta)


@dataclass(frozen=True)
class _Problem:
    """min ½|Fᵀθ|² + ½ Σ D θ² − cᵀθ,  l ≤ θ ≤ u,  Aθ = b."""

    c: Array  # (n,)
    F: Array  # (n, r)
    D: Array  # (n,)
    lower: Array  # (n,)
    upper: Array  # (n,)
    A: Array  # (e, n)
    b: Array  # (e,)

    @cached_property
    def absolute(self) -> tuple[Array, Array]:
        return np.abs(self.F), np.linalg.norm(self.F, axis=1)  # (n, r), (n,)

    def clip(self, theta: Array) -> Array:
        return np.minimum(np.maximum(theta, self.lower), self.upper)

    def meets_rows(self, theta: Array) -> bool:
        sizes = np.abs(self.A) @ np.abs(theta) + np.abs(self.b)
        return bool(np.all(np.abs(self.A @ theta - self.b) <= 1e-9 * sizes))

    def gradient(self, theta: Array) -> Array:
        return self.F @ (theta @ self.F) + self.D * theta - self.c

    def rounding(self, theta: Array) -> Array:
        """A bound on the error of each gradient entry, from the size of its summands."""
        entries, norms = self.absolute
        size = np.abs(theta)
        image = size @ entries
        return ROUNDING * (norms * np.sqrt(image @ image) + self.D * size + np.abs(self.c))

    def curvature(self, d: Array) -> float:
        """dᵀQd, exactly zero where only rounding is left of it."""
        image, size = d @ self.F, np.abs(d) @ self.absolute[0]
        straight = image @ image
        return float(straight * (straight > FLAT * (size @ size)) + self.D @ d**2)


def _normalized(
    c: ArrayLike,
    factor: ArrayLike | None,
    diagonal: ArrayLike | None,
    lower: ArrayLike,
    upper: ArrayLike,
    rows: ArrayLike,
    totals: ArrayLike,
) -> _Problem:
    """The problem with its largest Q_ii and largest |A_ij| of each row scaled to 1."""
    c = np.asarray(c, float)
    n = c.size
    F = np.zeros((n, 0)) if factor is None else np.asarray(factor, float)
    D = np.zeros(n) if diagonal is None else np.asarray(diagonal, float)
    A, b = np.asarray(rows, float).reshape(-1, n), np.asarray(totals, float).reshape(-1)
    scale = float(np.max(np.einsum("ij,ij->i", F, F) + D)) or 1.0
    tall = np.max(np.abs(A), axis=1, initial=0.0)
    tall[tall == 0] = 1.0
    lower, upper = np.asarray(lower, float), np.asarray(upper, float)
    return _Problem(
        c / scale, F / np.sqrt(scale), D / scale, lower, upper, A / tall[:, None], b / tall
    )


def _feasible(problem: _Problem) -> Array:
    """argmin ½|Aθ − b|² within the bounds: the same method, without rows."""
    A, b, n = problem.A, problem.b, problem.c.size
    none = np.zeros((0, n))
    distance = _Problem(b @ A, A.T, np.zeros(n), problem.lower, problem.upper, none, none[:, 0])
    theta = _active_set(distance, problem.clip(np.zeros(n)))
    if not problem.meets_rows(theta):
        raise ValueError(
            "no θ between lower and upper meets rows @ θ = totals: "
            f"the nearest misses by {A @ theta - b}; widen the bounds or change totals"
        )
    return theta


def _active_set(problem: _Problem, theta: Array) -> Array:
    """Minimise over a face, free the entry with the worst multiplier, until none is wrong."""
    theta, free = theta.copy(), _first_face(problem, theta)
    visited: set[int] = set()
    careful = False  # Bland's rule: the first wrong entry, not the worst, cannot cycle
    while True:
        face = _Face(problem, free)
        if not _minimize_on(problem, face, theta, free):
            continue
        z, noise = face.multipliers(theta)
        wrong = np.abs(z) > noise
        wrong &= ~free & np.where(z < 0, theta < problem.upper, theta > problem.lower)
        known = hash(np.where(free, np.nan, theta).tobytes())
        if not wrong.any() or (careful and known in visited):
            return face.on_rows(theta)
        careful |= known in visited
        visited.add(known)
        j = int(np.argmax(wrong if careful else np.where(wrong, np.abs(z), 0.0)))
        d = face.conjugate(j, -np.sign(z[j]))
        curvature = problem.curvature(d)
        free[j] = True
        full = abs(z[j]) / curvature if curvature > 0 else np.inf
        careful &= _move(problem, theta, free, d, full) == 0


def _minimize_on(problem: _Problem, face: _Face, theta: Array, free: Mask) -> bool:
    """Newton's step to the minimiser over the face, again for rounding; False if a bound stops it."""
    for _ in range(3):
        z, noise = face.multipliers(theta)
        if np.all(np.abs(z[face.N]) <= noise[face.N]):
            break
        before = np.count_nonzero(free)
        _move(problem, theta, free, face.newton(z), 1.0)
        if np.count_nonzero(free) < before:
            return False
    return True


def _move(problem: _Problem, theta: Array, free: Mask, d: Array, full: float) -> float:
    """θ ← θ + t d, t ≤ full, up to the first bound; the entry that meets it is no longer free."""
    moving = np.flatnonzero(np.abs(d) > 1e-14 * np.max(np.abs(d)))  # the rest is rounding
    bound = np.where(d > 0, problem.upper, problem.lower)
    reach = (bound[moving] - theta[moving]) / d[moving]
    first = int(np.argmin(reach))
    t = min(full, float(reach[first]))
    if t == np.inf:
        raise ValueError("there is no minimum: the objective falls for ever along a ray")
    theta += t * d
    np.clip(theta, problem.lower, problem.upper, out=theta)
    if t < full:
        i = moving[first]
        theta[i], free[i] = bound[i], False
    return t


def _first_face(problem: _Problem, theta: Array) -> Mask:
    """The entries off their bounds, without those that would make the system singular."""
    room = np.minimum(theta - problem.lower, problem.upper - theta)
    free = room > 0
    basis, _ = _basis(problem.A, np.minimum(room, 1.0) + 1e-9)
    free[basis] = True
    face = _Face(problem, free, solvable=False)
    N, D = face.N, problem.D[face.N]
    if np.all(D > 0):
        return free
    columns = np.vstack([face.U.T, np.diag(np.sqrt(D))[D > 0]])  # (r + e + |N|, |N|)
    norms = np.linalg.norm(columns, axis=0)
    R, order = qr(columns / np.where(norms > 0, norms, 1), mode="r", pivoting=True)
    free[N[order[np.count_nonzero(np.abs(np.diag(R)) > 1e-7) :]]] = False
    return free


def _basis(A: Array, weight: Array) -> tuple[Indices, Array]:
    """B, one entry for each independent row, heavy ones first, and T = A_B⁻¹ A, by elimination."""
    T, pivots, kept = A.copy(), [], []
    for k in range(len(T)):
        pivot = int(np.argmax(np.abs(T[k]) * weight))
        if abs(T[k, pivot]) * weight[pivot] < 1e-12:
            continue
        T[k] /= T[k, pivot]
        others = np.arange(len(T)) != k
        T[others] -= np.outer(T[others, pivot], T[k])
        pivots.append(pivot)
        kept.append(k)
    return np.array(pivots, dtype=np.intp), T[kept]


class _Face:
    """The free entries W = B ∪ N. B, one entry a row, follows N so that Aθ stays b:

    d_B = −T_N d_N,  T = A_B⁻¹ A,   and N sees the matrix  H = D_N + U Uᵀ,  U = [F_N − T_NᵀF_B, T_Nᵀ√D_B].
    """

    def __init__(self, problem: _Problem, free: Mask, solvable: bool = True) -> None:
        self.problem = problem
        self.B, self.T = _basis(problem.A, free.astype(float))
        nonbasic = free.copy()
        nonbasic[self.B] = False
        self.N = np.flatnonzero(nonbasic)
        self.root = np.sqrt(problem.D[self.B])  # (e,)
        self.U = self.reduced(self.N)  # (|N|, r + e)
        self.D = problem.D[self.N]
        if solvable:
            self.woodbury = self.N.size > self.U.shape[1] and bool(np.all(self.D > 0))
            self.factor = self._factor()

    def reduced(self, j: Indices | int) -> Array:
        T = self.T[:, j].T  # (|j|, e)
        F = self.problem.F
        return np.concatenate([F[j] - T @ F[self.B], T * self.root], axis=-1)

    def _factor(self) -> Array:
        if self.woodbury:
            H = self.U.T @ (self.U / self.D[:, None])
            H[np.diag_indices_from(H)] += 1.0
        else:
            H = self.U @ self.U.T
            H[np.diag_indices_from(H)] += self.D
        L, info = dpotrf(H, lower=1)
        if info > 0:
            H[np.diag_indices_from(H)] += 4 * len(H) * EPS * np.trace(H)
            L, info = dpotrf(H, lower=1)
        return L

    def solve(self, h: Array) -> Array:
        """H⁻¹h."""
        if self.N.size == 0:
            return h
        if not self.woodbury:
            return dpotrs(self.factor, h, lower=1)[0]
        h = h / self.D
        return h - self.U @ dpotrs(self.factor, h @ self.U, lower=1)[0] / self.D

    def multipliers(self, theta: Array) -> tuple[Array, Array]:
        """z = g − Tᵀg_B, zero on a minimiser's free entries, and a bound on its rounding."""
        g, noise = self.problem.gradient(theta), self.problem.rounding(theta)
        return g - g[self.B] @ self.T, noise + noise[self.B] @ np.abs(self.T)

    def newton(self, z: Array) -> Array:
        return self._spread(np.zeros(z.size), -self.solve(z[self.N]))

    def conjugate(self, j: int, sign: float) -> Array:
        """The direction that moves entry j by `sign` and keeps the face minimised."""
        d = np.zeros(self.problem.c.size)
        d[j] = sign
        return self._spread(d, -sign * self.solve(self.U @ self.reduced(j)))

    def _spread(self, d: Array, d_N: Array) -> Array:
        d[self.N] = d_N
        d[self.B] = -(self.T @ d)
        return d

    def on_rows(self, theta: Array) -> Array:
        """θ with the rounding of many steps taken out of Aθ = b."""
        A, b = self.problem.A, self.problem.b
        room = np.minimum(theta - self.problem.lower, self.problem.upper - theta)
        B, _ = _basis(A, room)
        if B.size == len(b):
            theta[B] += np.linalg.solve(A[:, B], b - A @ theta)
        return self.problem.clip(theta)


def _dual_newton(problem: _Problem, theta: Array | None) -> Array | None:
    """max over v, y of −½|v|² + bᵀy + Σ_i min_{l≤θ_i≤u} ½D_iθ_i² − s_iθ_i,  s = c − Fv + Aᵀy.

    Concave, smooth and piecewise quadratic in r + e variables; θ_i = clip(s_i / D_i).
    """
    F, D, c, A, b = problem.F, problem.D, problem.c, problem.A, problem.b
    r, e = F.shape[1], len(b)
    E = np.hstack([-F, A.T])  # (n, r + e)
    own = np.concatenate([np.ones(r), np.zeros(e)])
    x = np.zeros(r + e)
    inside = np.ones(c.size, dtype=bool)
    free_theta = c / D
    for _ in range(100):
        W = np.flatnonzero(inside)
        H = (E[W].T / D[W]) @ E[W] + np.diag(own)
        th = problem.clip((c + E @ x) / D) if _ else free_theta
        grad = -own * x - th @ E
        grad[r:] += b
        L, info = dpotrf(H, lower=1)
        if info > 0:
            H = (E.T / D) @ E + np.diag(own)
            L, info = dpotrf(H, lower=1)
            if info > 0:
                return theta
        step = dpotrs(L, grad, lower=1)[0]
        slope = grad @ step
        t = 1.0
        for _k in range(40):
            s = (c + E @ (x + t * step)) / D
            th = problem.clip(s)
            new = -own * (x + t * step) - th @ E
            new[r:] += b
            if new @ step >= -0.5 * slope or not _:
                break
            t /= 2
        x = x + t * step
        now = s == th
        if t == 1 and np.array_equal(now, inside):
            return th
        inside = now
    return theta
