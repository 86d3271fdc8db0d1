"""A proximal method with Newton steps on the dual: it changes many active bounds at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf

from anymix.mixtures.qp.quadratic import Problem, cholesky, solve_cholesky

Array = NDArray[np.float64]


def proximal(problem: Problem, theta: Array | None) -> Array | None:
    """θ ← argmin objective + ½ Σ P_i (θ_i − θ_i°)², until the same bounds hold twice in a row.

    D + P > 0 makes the dual smooth. Only the bounds are wanted from here, so P may be large.
    """
    D = problem.D
    P = np.maximum(0.1 * problem.squares - D, 0.0)
    theta = problem.clip(np.zeros(D.size)) if theta is None else theta
    x, sides = None, np.zeros(0)
    for _ in range(30):
        near = replace(problem, c=problem.c + P * theta, D=D + P)
        theta, x = _dual_newton(near, x)
        if theta is None:
            return None
        before, sides = sides, np.sign(theta - problem.lower) + (theta >= problem.upper)
        if np.array_equal(sides, before):
            break
    return theta


def _dual_newton(problem: Problem, x: Array | None) -> tuple[Array | None, Array]:
    """Newton's method on the dual, θ of its maximum and x, for D > 0; no θ if it is not found."""
    dual = Dual(problem)
    if x is None:
        x = solve_cholesky(cholesky(dual.hessian), dual.total - (problem.c / problem.D) @ dual.E)
    for _ in range(60):
        theta, slope, size = dual.at(x)
        if np.all(np.abs(slope) <= 1e-12 * size):
            return theta, x
        step = dual.newton(theta, slope)
        t = _line_search(dual, x, step, float(slope @ step))
        if t == 0:  # rounding hides the way up: the active-set method does without
            break
        x = x + t * step
    return None, x


def _line_search(dual: Dual, x: Array, step: Array, rise: float) -> float:
    """t that takes a tenth off the rise of the concave dual from x along the step; 0 for none."""
    t, low, high = 1.0, 0.0, np.inf
    for _ in range(16):
        rest = dual.at(x + t * step)[1] @ step
        if np.abs(rest) <= 0.9 * rise:
            return t
        low, high = (t, high) if rest > 0 else (low, t)
        t = 2 * t if high == np.inf else (low + high) / 2
    return 0.0


class Dual:
    """max over x = (v, y) of −½|v|² + bᵀy + Σ_i min_{l ≤ θ_i ≤ u} ½D_iθ_i² − s_iθ_i.

    s = c − Fv + Aᵀy, so θ = clip(s / D): concave and piecewise quadratic in r + e variables.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        r, e = problem.F.shape[1], problem.b.size
        self.E = np.hstack([-problem.F, problem.A.T])  # (n, r + e)
        self.own = np.repeat([1.0, 0.0], [r, e])
        self.total = np.concatenate([np.zeros(r), problem.b])
        self.hessian = (self.E.T / problem.D) @ self.E + np.diag(self.own)  # were no bound active

    def at(self, x: Array) -> tuple[Array, Array, Array]:
        """θ, the slope of the dual at x, and the size of its summands."""
        theta = self.problem.clip((self.problem.c + self.E @ x) / self.problem.D)
        size = np.abs(self.total) + np.abs(x) + np.abs(theta) @ np.abs(self.E)
        return theta, self.total - self.own * x - theta @ self.E, size

    def newton(self, theta: Array, slope: Array) -> Array:
        """The step of x to the maximum of the quadratic piece at θ."""
        inside = self.problem.room(theta) > 0
        E, y = self.E[inside], self.own == 0
        H = (E.T / self.problem.D[inside]) @ E + np.diag(self.own)
        L, flat = dpotrf(H, lower=1)
        if flat:  # too few entries are inside to tell how y acts
            H[np.ix_(y, y)] += 1e-4 * self.hessian[np.ix_(y, y)]
            L = cholesky(H)
        return solve_cholesky(L, slope)
