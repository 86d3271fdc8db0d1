"""Exact quadratic programs. No library serves: solve needs singular F Fᵀ, warm starts, all digits.

min ½ θᵀ(F Fᵀ + diag D)θ − cᵀθ over a box cut by few equations. DAQP, quadprog and Clarabel solve
such programs too, but want a regular matrix, start anew each time, or stop at about eight digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.mixtures.projections import FARTHEST
from anymix.mixtures.qp.active_sets import active_set
from anymix.mixtures.qp.dual_newton import proximal
from anymix.mixtures.qp.quadratic import EPS, Problem, scaled

Array = NDArray[np.float64]

MOST_MEMBERS = 1000  # ten to thirty are usual
FEW = 60  # factors: to make n of them takes longer than to work with them


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

    The matrix may be singular; then one of many minimisers is returned.

    A primal active-set method: θ goes downhill from the minimiser over one face of the box to that
    over another, so it ends after finitely many. One entry is freed at a time; where many must
    change, from a cold start or for D > 0, a proximal method with dual Newton steps goes first.
    """
    problem = _normalized(*_checked(c, factor, diagonal, lower, upper, rows, totals))
    return _minimize(problem, None if start is None else _finite("start", start, problem.c.shape))


def minimize_on_box(
    c: Array, F: Array, D: Array, lower: Array, upper: Array, start: Array | None
) -> Array:
    """The same over lower ≤ θ ≤ upper, Σ θ = 1, for numbers that are checked already."""
    problem = _normalized(c, F, D, lower, upper, np.ones((1, c.size)), np.ones(1))
    return _minimize(problem, start)


def minimize_on_hull(c: Array, F: Array, D: Array, V: Array) -> Array:
    """θ ∈ Δ_n of the λ = Vᵀθ with least ½ λᵀ(F Fᵀ + diag D)λ − cᵀλ; V (n, p)."""
    n = len(V)
    factor = np.hstack((V @ F, V * np.sqrt(D)))  # (n, r + p)
    theta = minimize_on_box(V @ c, factor, np.zeros(n), np.zeros(n), np.ones(n), None)
    for _ in range(8):  # again from λ, where differences keep the digits that V and c hide
        lam = theta @ V
        slope = F @ (lam @ F) + D * lam - c
        slope -= lam @ slope  # a constant, which no difference of mixtures sees
        W = V - lam
        theta = theta + minimize_quadratic(
            -(W @ slope),
            np.hstack((W @ F, W * np.sqrt(D))),
            lower=-theta,
            upper=1 - theta,
            rows=np.ones((1, n)),
            totals=[0.0],
            start=np.zeros(n),
        )
        theta = np.where(theta <= 4 * EPS, 0.0, theta)
        if np.max(np.abs(theta @ V - lam)) <= 1e-15:
            break
    return theta


def minimize_by_members(
    c: Array, F: Array, D: Array, first: Array, maximize: Callable[[Array], Array]
) -> Array:
    """The same over any convex set that can be maximised over, from its member `first`.

    λ is best in the hull of the members seen; the one that is best along the slope at λ joins them,
    until it gains nothing. On a polytope that ends at its corners; elsewhere gaps fall quickly.
    """
    V, lam = first[None], first
    size = float(np.abs(c).max() + np.max(np.abs(F) @ np.abs(F).sum(axis=0) + D, initial=0.0))
    for _ in range(MOST_MEMBERS):
        theta = minimize_on_hull(c, F, D, V)
        if theta[-1] == 0:  # the newest member is of no use: only rounding is left
            break
        V, lam = V[theta > 0], theta @ V
        g = c - F @ (lam @ F) - D * lam
        member = maximize(g - g.max())
        if g @ (member - lam) <= 4 * EPS * size:
            break
        V = np.vstack((V, member))
    return lam


def _minimize(problem: Problem, start: Array | None) -> Array:
    first = None if start is None else problem.clip(start)
    theta = proximal(problem, first) if _many_change(problem, first) else first
    if theta is None or not problem.meets_rows(theta):
        theta = first if first is not None and problem.meets_rows(first) else _feasible(problem)
    return active_set(problem, theta)


def _checked(
    c: ArrayLike,
    factor: ArrayLike | None,
    diagonal: ArrayLike | None,
    lower: ArrayLike,
    upper: ArrayLike,
    rows: ArrayLike,
    totals: ArrayLike,
) -> tuple[Array, Array, Array, Array, Array, Array, Array]:
    """All as arrays that fit together; anything else is refused."""
    c = np.asarray(c, dtype=np.float64)
    n, e = c.size, len(np.atleast_1d(totals))
    c, A, b = _finite("c", c, (n,)), _finite("rows", rows, (e, n)), _finite("totals", totals, (e,))
    D = np.zeros(n) if diagonal is None else _finite("diagonal", diagonal, (n,))
    F = np.zeros((n, 0)) if factor is None else np.asarray(factor, dtype=np.float64)
    F = _finite("factor", F, (n, F.shape[-1]))
    lower, upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    if lower.shape != (n,) or upper.shape != (n,) or not np.all(lower <= upper):
        raise InputError("lower", "is not always ≤ upper", f"give {n} of each with lower ≤ upper")
    if np.any(D < 0):
        raise InputError("diagonal", f"has the entry {D.min()}", "give numbers ≥ 0")
    return c, F, D, lower, upper, A, b


def _normalized(
    c: Array, F: Array, D: Array, lower: Array, upper: Array, A: Array, b: Array
) -> Problem:
    """The problem with max Q_ii = 1, max |A_ij| = 1 in each row, and few factors, or at most n."""
    c, F, D = scaled(c, F, D)
    n = c.size
    if F.shape[1] > max(n, FEW):
        F = np.asarray(np.linalg.qr(F.T, mode="r")).T
    scale = np.max(np.einsum("ij,ij->i", F, F) + D) or np.max(np.abs(c)) or 1.0
    D = np.where(2.0**-FARTHEST * scale > D, 0.0, D)
    tall = np.max(np.abs(A), axis=1, initial=0.0)
    tall[tall == 0] = 1.0
    return Problem(
        c / scale, F / np.sqrt(scale), D / scale, lower, upper, A / tall[:, None], b / tall
    )


def _finite(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape or not (
        math.isfinite(np.vdot(array, array)) or np.isfinite(array).all()
    ):
        raise InputError(
            name, f"of shape {array.shape} cannot be used", f"give finite numbers of shape {shape}"
        )
    return array


def _many_change(problem: Problem, theta: Array | None) -> bool:
    """Whether many entries may leave their bounds, and the dual, of r + e variables, is small."""
    few, n = int(problem.F.shape[1] + problem.b.size), problem.c.size
    if theta is None:
        return few < max(n, 100)
    many = np.all(problem.D > 0) or np.count_nonzero(problem.room(theta)) > few
    return few < n and bool(many)


def _feasible(problem: Problem) -> Array:
    """argmin ½|Aθ − b|² within the bounds: the same method, without rows."""
    A, b, n = problem.A, problem.b, problem.c.size
    none = np.zeros((0, n))
    distance = replace(problem, c=b @ A, F=A.T, D=np.zeros(n), A=none, b=none[:, 0])
    theta = active_set(distance, problem.clip(np.zeros(n)))
    if not problem.meets_rows(theta):
        found = (
            f"is missed by {np.abs(A @ theta - b).max()} by the nearest θ between lower and upper"
        )
        raise InputError("totals", found, "widen the bounds or change totals")
    return theta
