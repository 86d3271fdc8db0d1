"""Convex quadratic programs over a box cut by a few equations, solved exactly by active sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lu_factor, lu_solve, qr

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

EPS = float(np.finfo(np.float64).eps)
FLAT = 1e-14  # curvature below this share of its summands is rounding: the direction is flat
ROUNDING = 32 * EPS  # a multiplier below this share of its summands is rounding: it is zero


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
    inf, rows (e, n) with few e. The matrix may be singular. `start` is a feasible θ to begin from;
    begun at the solution, the method ends after one linear system.

    >>> minimize_quadratic([3.0, 1.0], diagonal=[1.0, 1.0], lower=[0, 0], upper=[1, 1],
    ...                    rows=[[1, 1]], totals=[1.0])
    array([1., 0.])
    """
    problem = _normalized(c, factor, diagonal, lower, upper, rows, totals)
    theta = None if start is None else np.clip(np.asarray(start, float), problem.lower, problem.upper)
    if theta is None or problem.off_rows(theta):
        theta = _feasible(problem)
    return _active_set(problem, theta)


@dataclass(frozen=True)
class _Problem:
    """min ½|Fᵀθ|² + ½ Σ D θ² − cᵀθ, l ≤ θ ≤ u, Aθ = b, scaled so that the largest Q_ii and |A_ij| are 1."""

    c: Array  # (n,)
    F: Array  # (n, r)
    D: Array  # (n,)
    lower: Array  # (n,)
    upper: Array  # (n,)
    A: Array  # (e, n)
    b: Array  # (e,)

    def gradient(self, theta: Array) -> Array:
        return self.F @ (theta @ self.F) + self.D * theta - self.c

    def rounding(self, theta: Array) -> Array:
        """A bound on the rounding error of each gradient entry, from the size of its summands."""
        absolute = np.abs(theta)
        images = np.linalg.norm(absolute @ np.abs(self.F))
        sizes = np.linalg.norm(self.F, axis=1) * images + self.D * absolute + np.abs(self.c)
        return np.asarray(ROUNDING * sizes)

    def off_rows(self, theta: Array) -> bool:
        sizes = np.abs(self.A) @ np.abs(theta) + np.abs(self.b)
        return bool(np.any(np.abs(self.A @ theta - self.b) > 1e-9 * sizes))


def _normalized(
    c: ArrayLike,
    factor: ArrayLike | None,
    diagonal: ArrayLike | None,
    lower: ArrayLike,
    upper: ArrayLike,
    rows: ArrayLike,
    totals: ArrayLike,
) -> _Problem:
    c = np.asarray(c, float)
    n = c.size
    F = np.zeros((n, 0)) if factor is None else np.asarray(factor, float)
    D = np.zeros(n) if diagonal is None else np.asarray(diagonal, float)
    A, b = np.asarray(rows, float).reshape(-1, n), np.asarray(totals, float).reshape(-1)
    curvature = float(np.max(np.sum(F**2, axis=1) + D)) or 1.0
    height = np.max(np.abs(A), axis=1, initial=0.0)
    height[height == 0] = 1.0
    return _Problem(
        c / curvature,
        F / np.sqrt(curvature),
        D / curvature,
        np.asarray(lower, float),
        np.asarray(upper, float),
        A / height[:, None],
        b / height,
    )


def _feasible(problem: _Problem) -> Array:
    """argmin ½|Aθ − b|² over the bounds: the same method, without rows."""
    A, b, n = problem.A, problem.b, problem.c.size
    lower, upper = problem.lower, problem.upper
    theta = np.clip(np.zeros(n), lower, upper)
    theta = _active_set(
        _Problem(b @ A, A.T.copy(), np.zeros(n), lower, upper, np.zeros((0, n)), np.zeros(0)), theta
    )
    if problem.off_rows(theta):
        raise ValueError(
            f"no θ within the bounds meets rows @ θ = totals: the nearest is off by {A @ theta - b}; "
            "widen the bounds or change totals"
        )
    return theta


def _active_set(problem: _Problem, theta: Array) -> Array:
    """Minimise over the free entries, then free the entry with the worst multiplier, until none is wrong."""
    A, b, lower, upper = problem.A, problem.b, problem.lower, problem.upper
    theta = theta.copy()
    free = _independent(problem, theta)
    visited: set[bytes] = set()
    stalled = False
    while True:
        system = _System(problem, free)
        gradient = problem.gradient(theta)
        d, y = system.solve(-gradient[free], b - A @ theta)
        length, blocked = _longest(theta, d, free, lower, upper, 1.0)
        theta[free] += length * d[free]
        if blocked is not None:
            _fix(theta, free, blocked, d, lower, upper)
            continue
        gradient = problem.gradient(theta)
        z = gradient + y @ A
        noise = problem.rounding(theta)
        noise += np.max(noise[free], initial=0.0)
        wrong = ~free & (((z < -noise) & (theta < upper)) | ((z > noise) & (theta > lower)))
        key = free.tobytes() + np.where(free, 0.0, theta).tobytes()
        if not wrong.any() or (stalled and key in visited):
            break
        stalled = stalled or key in visited
        visited.add(key)
        entering = int(np.argmax(wrong) if stalled else np.argmax(np.where(wrong, np.abs(z), -1)))
        d = system.conjugate(entering, -np.sign(z[entering]))
        curvature = np.sum((d @ problem.F) ** 2) + np.sum(problem.D * d**2)
        summands = np.sum((np.abs(d) @ np.abs(problem.F)) ** 2) + np.sum(problem.D * d**2)
        full = abs(z[entering]) / curvature if curvature > FLAT * summands else np.inf
        free[entering] = True
        length, blocked = _longest(theta, d, free, lower, upper, full)
        if length == np.inf:
            raise ValueError("the objective has no minimum: it falls for ever along a ray")
        theta[free] += length * d[free]
        stalled = stalled and length == 0
        if blocked is not None:
            _fix(theta, free, blocked, d, lower, upper)
    return np.clip(theta, lower, upper)


def _independent(problem: _Problem, theta: Array) -> Mask:
    """The entries to free first: those off their bounds, less any that makes the system singular."""
    A, F, D = problem.A, problem.F, problem.D
    n = theta.size
    room = np.minimum(theta - problem.lower, problem.upper - theta)
    free = np.zeros(n, dtype=bool)
    if A.shape[0]:
        # the rows first: one entry each, with as much room as possible
        weight = np.minimum(room, 1.0) + 1e-6
        r, order = qr(A * weight, mode="r", pivoting=True, check_finite=False)
        free[order[: np.sum(np.abs(np.diag(r)) > 1e-12)]] = True
    inside = np.flatnonzero((room > 0) | free)
    if np.all(D[inside] > 0) or inside.size == free.sum():
        free[inside] = True
        return free
    weight = np.where(free[inside], 1e3, 1.0)
    columns = np.vstack([F[inside].T, np.diag(np.sqrt(D[inside]))[D[inside] > 0], A[:, inside]])
    norms = np.linalg.norm(columns, axis=0)
    columns = columns * (weight / np.where(norms > 0, norms, 1.0))
    r, order = qr(columns, mode="r", pivoting=True, check_finite=False)
    rank = int(np.sum(np.abs(np.diag(r)) > 1e-7))
    free[inside[order[:rank]]] = True
    return free


class _System:
    """[Q_W A_Wᵀ; A_W 0] for the free entries W."""

    def __init__(self, problem: _Problem, free: Mask) -> None:
        self.problem, self.W = problem, np.flatnonzero(free)
        F, A = problem.F[self.W], problem.A[:, self.W]
        m, e = self.W.size, A.shape[0]
        K = np.zeros((m + e, m + e))
        K[:m, :m] = F @ F.T
        K[np.arange(m), np.arange(m)] += problem.D[self.W]
        K[:m, m:] = A.T
        K[m:, :m] = A
        self.factors = lu_factor(K, check_finite=False) if m + e else None

    def solve(self, top: Array, bottom: Array) -> tuple[Array, Array]:
        n, m = self.problem.c.size, self.W.size
        d = np.zeros(n)
        if self.factors is None:
            return d, bottom
        x = lu_solve(self.factors, np.concatenate([top, bottom]), check_finite=False)
        d[self.W] = x[:m]
        return d, x[m:]

    def conjugate(self, j: int, sign: float) -> Array:
        """The direction that moves entry j by `sign` and keeps W a minimiser."""
        F, A = self.problem.F, self.problem.A
        d, _ = self.solve(-sign * (F[self.W] @ F[j]), -sign * A[:, j])
        d[j] = sign
        return d


def _longest(
    theta: Array, d: Array, free: Mask, lower: Array, upper: Array, full: float
) -> tuple[float, int | None]:
    """The longest step along d up to `full`, and the entry whose bound stops it, if any."""
    small = 1e-14 * np.max(np.abs(d), initial=0.0)
    W = np.flatnonzero(free & (np.abs(d) > small))
    if W.size == 0:
        return full, None
    reach = np.where(d[W] > 0, upper[W] - theta[W], theta[W] - lower[W]) / np.abs(d[W])
    k = int(np.argmin(reach))
    return (full, None) if reach[k] >= full else (float(max(reach[k], 0.0)), int(W[k]))


def _fix(theta: Array, free: Mask, i: int, d: Array, lower: Array, upper: Array) -> None:
    theta[i] = upper[i] if d[i] > 0 else lower[i]
    free[i] = False
