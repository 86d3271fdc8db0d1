"""Convex quadratic programs over a box cut by a few equations, solved exactly by active sets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr
from scipy.linalg.lapack import dpotrf, dpotrs

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]

EPS, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)
FARTHEST = 200  # 2²⁰⁰ times as large is as good as infinitely large
NOTHING = -(10**6)  # the exponent of 0
ROUNDING = 8 * EPS  # a multiplier below this share of its summands is rounding: it is zero


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
    inf, rows (e, n) with few e, totals (e,). The matrix may be singular; then a minimiser of many
    is returned. `start` (n,) is a feasible θ to begin from.

    A primal active-set method: θ goes downhill from the minimiser over one face of the box to that
    over another, so it ends after finitely many. One entry is freed at a time; where many must
    change, from a cold start or for D > 0, a proximal method with dual Newton steps goes first.

    >>> minimize_quadratic([3.0, 1.0], diagonal=[1.0, 1.0], lower=[0, 0], upper=[1, 1],
    ...                    rows=[[1, 1]], totals=[1])
    array([1., 0.])
    """
    problem = _normalized(c, factor, diagonal, lower, upper, rows, totals)
    theta = None if start is None else problem.clip(_finite("start", start, problem.c.shape))
    if _many_change(problem, theta):
        theta = _proximal(problem, theta)
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
    def sizes(self) -> tuple[Array, Array]:
        return np.abs(self.F), np.sqrt(np.einsum("ij,ij->i", self.F, self.F))  # (n, r), (n,)

    @cached_property
    def squares(self) -> Array:
        """Q_ii, and next to nothing where that is zero."""
        squares = self.sizes[1] ** 2 + self.D
        least = float(np.min(squares, where=squares > 0, initial=1.0))
        return np.maximum(squares, max(1e-3 * least, 1e-30))

    @cached_property
    def units(self) -> Array:
        return np.sqrt(self.squares)

    def clip(self, theta: Array) -> Array:
        return np.minimum(np.maximum(theta, self.lower), self.upper)

    def room(self, theta: Array) -> Array:
        return np.minimum(theta - self.lower, self.upper - theta)

    def meets_rows(self, theta: Array, share: float = 1e-9) -> bool:
        size = np.abs(self.A) @ np.abs(theta) + np.abs(self.b)
        return bool(np.all(np.abs(self.A @ theta - self.b) <= share * size))

    def on_rows(self, theta: Array) -> Array:
        """θ with the rounding of many steps out of Aθ = b: each entry moves as it has room."""
        if self.meets_rows(theta, 2 * EPS):
            return theta
        spread = self.A * np.minimum(self.room(theta), 1.0)  # (e, n)
        y = np.linalg.lstsq(spread @ self.A.T, self.b - self.A @ theta, rcond=None)[0]
        return self.clip(theta + y @ spread)

    def snap(self, theta: Array, noise: Array) -> Array:
        """θ at a bound wherever rounding, of Σθ and of the gradient, cannot tell it from there."""
        reach = np.minimum(4 * EPS * np.max(np.abs(theta)), noise / self.squares)
        theta = np.where(theta - self.lower <= reach, self.lower, theta)
        return np.where(self.upper - theta <= reach, self.upper, theta)

    def gradient(self, theta: Array) -> tuple[Array, Array]:
        """Qθ − c, and a bound on its rounding error from the size of the summands."""
        entries, norms = self.sizes
        size = np.abs(theta)
        image = size @ entries
        size = norms * np.sqrt(image @ image) + self.D * size + np.abs(self.c)
        return self.F @ (theta @ self.F) + self.D * theta - self.c, ROUNDING * size + TINY

    def curvature(self, d: Array) -> float:
        return float(np.sum((d @ self.F) ** 2) + self.D @ d**2)  # dᵀQd


def _normalized(
    c: ArrayLike,
    factor: ArrayLike | None,
    diagonal: ArrayLike | None,
    lower: ArrayLike,
    upper: ArrayLike,
    rows: ArrayLike,
    totals: ArrayLike,
) -> _Problem:
    """The problem with max Q_ii = 1, max |A_ij| = 1 in each row, and no more than n factors."""
    c = np.asarray(c, dtype=np.float64)
    n, e = c.size, len(np.atleast_1d(totals))
    c, A, b = _finite("c", c, (n,)), _finite("rows", rows, (e, n)), _finite("totals", totals, (e,))
    D = np.zeros(n) if diagonal is None else _finite("diagonal", diagonal, (n,))
    F = np.zeros((n, 0)) if factor is None else np.asarray(factor, dtype=np.float64)
    F = _finite("factor", F, (n, F.shape[-1]))
    lower, upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    if lower.shape != (n,) or upper.shape != (n,) or not np.all(lower <= upper):
        raise ValueError(f"lower ≤ upper must hold for {n} entries, got {lower} and {upper}")
    if np.any(D < 0):
        raise ValueError(f"diagonal must be ≥ 0 for a minimum to exist, got {D.min()}")
    c, F, D = scaled(c, F, D)
    if F.shape[1] > n:
        F = np.asarray(np.linalg.qr(F.T, mode="r")).T
    scale = np.max(np.einsum("ij,ij->i", F, F) + D) or np.max(np.abs(c)) or 1.0
    D = np.where(2.0**-FARTHEST * scale > D, 0.0, D)
    tall = np.max(np.abs(A), axis=1, initial=0.0)
    tall[tall == 0] = 1.0
    return _Problem(
        c / scale, F / np.sqrt(scale), D / scale, lower, upper, A / tall[:, None], b / tall
    )


def scaled(c: Array, F: Array, D: Array) -> tuple[Array, Array, Array]:
    """(c, F, D) over powers of two: the same problem, in which no square overflows or is lost.

    The largest entry of F Fᵀ + diag D comes near 1. Where c is more than 2²⁰⁰ times as large it is
    made smaller: only where c is the same does the matrix count, and there it still does.
    """
    k, linear = max(_exponent(F), -(-_exponent(D) // 2)), _exponent(c)
    if k == NOTHING:
        return np.ldexp(c, -max(linear, -1000)), F, D
    if k in (0, 1) and linear <= FARTHEST:
        return c, F, D
    return np.ldexp(c, -max(2 * k, linear - FARTHEST)), np.ldexp(F, -k), np.ldexp(D, -2 * k)


def _exponent(x: Array) -> int:
    """e with |x| < 2ᵉ."""
    most = max(float(x.max(initial=0.0)), -float(x.min(initial=0.0)))
    return int(np.frexp(most)[1]) if most > 0 else NOTHING


def _finite(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite numbers of shape {shape}, got {array}")
    return array


def _many_change(problem: _Problem, theta: Array | None) -> bool:
    """Whether many entries may leave their bounds, and the dual, of r + e variables, is small."""
    few, n = int(problem.F.shape[1] + problem.b.size), problem.c.size
    if theta is None:
        return few < max(n, 100)
    many = np.all(problem.D > 0) or np.count_nonzero(problem.room(theta)) > few
    return few < n and bool(many)


def _feasible(problem: _Problem) -> Array:
    """argmin ½|Aθ − b|² within the bounds: the same method, without rows."""
    A, b, n = problem.A, problem.b, problem.c.size
    none = np.zeros((0, n))
    distance = replace(problem, c=b @ A, F=A.T, D=np.zeros(n), A=none, b=none[:, 0])
    theta = _active_set(distance, problem.clip(np.zeros(n)))
    if not problem.meets_rows(theta):
        raise ValueError(
            "no θ between lower and upper meets rows @ θ = totals: "
            f"the nearest misses by {A @ theta - b}; widen the bounds or change totals"
        )
    return theta


def _active_set(problem: _Problem, theta: Array) -> Array:
    """Minimise over a face, free the entry with the worst multiplier, until none is wrong."""
    theta = problem.on_rows(theta.copy())
    free = _first_face(problem, theta)
    visits: Counter[int] = Counter()
    careful = False  # then Bland's rule, the first wrong entry and not the worst: it cannot cycle
    while True:
        face = _Face(problem, free)
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


def _descend(
    problem: _Problem, face: _Face, theta: Array, free: Mask
) -> tuple[Array, Array] | None:
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


def _move(problem: _Problem, theta: Array, free: Mask, d: Array, full: float) -> float:
    """θ ← θ + t d, t ≤ full, up to the first bound; the entry that meets it is free no more."""
    moving = np.flatnonzero(np.abs(d) > 1e-14 * np.max(np.abs(d)))  # the rest is rounding
    bound = np.where(d > 0, problem.upper, problem.lower)
    reach = (bound[moving] - theta[moving]) / d[moving]
    first = int(np.argmin(reach))
    t = min(full, float(reach[first]))
    if t == np.inf:
        raise ValueError("there is no minimum: the objective falls for ever along a ray")
    theta[:] = problem.clip(theta + t * d)
    if t < full:
        i = moving[first]
        theta[i], free[i] = bound[i], False
    return t


def _first_face(problem: _Problem, theta: Array) -> Mask:
    """The entries off their bounds, without those that would make the system singular."""
    room = problem.room(theta)
    free = room > 0
    free[_basis(problem.A, np.minimum(room, 1.0) + 1e-9)[0]] = True
    face = _Face(problem, free)
    if np.all(face.D > 0):
        return free
    columns = np.vstack([face.U.T, np.diag(np.sqrt(face.D))[face.D > 0]])  # (r + e + |N|, |N|)
    norms = np.linalg.norm(columns, axis=0)
    R, order = qr(columns / np.where(norms > 0, norms, 1), mode="r", pivoting=True)
    free[face.N[order[np.count_nonzero(np.abs(np.diag(R)) > 1e-7) :]]] = False
    return free


def _basis(A: Array, weight: Array) -> tuple[Indices, Array]:
    """B, an entry for each independent row, heavy ones first, and T = A_B⁻¹ A, by elimination."""
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


def _cholesky(H: Array) -> Array:
    """L of H = L Lᵀ, with a touch of the identity added if rounding made H indefinite."""
    L, failed = dpotrf(H, lower=1)
    if failed:
        L, failed = dpotrf(H + len(H) * EPS * np.trace(H) * np.eye(len(H)), lower=1)
    return np.asarray(L)


def _back(L: Array, h: Array) -> Array:
    """(L Lᵀ)⁻¹ h."""
    return np.asarray(dpotrs(L, h, lower=1)[0])


class _Face:
    """The free entries B ∪ N: B, one for each row, follows N so that Aθ stays b.

    d_B = −T_N d_N with T = A_B⁻¹ A, so N sees the matrix
    H = D_N + U Uᵀ,  U = [F_N − T_Nᵀ F_B,  T_Nᵀ √D_B].
    """

    def __init__(self, problem: _Problem, free: Mask) -> None:
        self.problem = problem
        self.B, self.T = _basis(problem.A, free / problem.units)  # (e,), (e, n)
        nonbasic = free.copy()
        nonbasic[self.B] = False
        self.N = np.flatnonzero(nonbasic)
        self.D = problem.D[self.N]
        self.U = self.reduced(self.N)  # (|N|, r + e)
        self.wide = self.N.size > self.U.shape[1] and bool(np.all(self.D > 0))

    def reduced(self, j: Indices | int) -> Array:
        T, F = self.T[:, j].T, self.problem.F
        return np.concatenate([F[j] - T @ F[self.B], T * np.sqrt(self.problem.D[self.B])], axis=-1)

    @cached_property
    def system(self) -> tuple[Array, Array]:
        """U, L with H = L Lᵀ; or, of fewer rows, Q, L with D^-½ U = Q S and I + S Sᵀ = L Lᵀ."""
        if not self.wide:
            return self.U, _cholesky(self.U @ self.U.T + np.diag(self.D))
        Q, S = np.linalg.qr(self.U / np.sqrt(self.D)[:, None])  # (|N|, r + e), (r + e, r + e)
        return Q, _cholesky(S @ S.T + np.eye(len(S)))

    def solve(self, h: Array) -> Array:
        """H⁻¹h; if D > 0 leaves H large, D^-½ (Q (I + S Sᵀ)⁻¹ Qᵀ + I − Q Qᵀ) D^-½ h.

        Woodbury's formula says the same and loses all digits for small D.
        """
        if self.N.size == 0:
            return h
        Q, L = self.system
        if not self.wide:
            return _back(L, h)
        root = np.sqrt(self.D)
        rest = h / root
        part = rest @ Q
        rest = rest - Q @ part
        rest = rest - Q @ (rest @ Q)  # once more, since rounding left some of Q in it
        return (rest + Q @ _back(L, part)) / root

    def multipliers(self, theta: Array) -> tuple[Array, Array]:
        """z = g − Tᵀg_B, zero on N at the face's minimiser, and a bound on its rounding."""
        g, noise = self.problem.gradient(theta)
        return g - g[self.B] @ self.T, noise + noise[self.B] @ np.abs(self.T)

    def newton(self, z: Array) -> Array:
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


def _proximal(problem: _Problem, theta: Array | None) -> Array | None:
    """θ ← argmin objective + ½ Σ P_i (θ_i − θ_i°)², until the same bounds hold twice.

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


def _dual_newton(problem: _Problem, x: Array | None) -> tuple[Array | None, Array]:
    """Newton's method on the dual, θ of its maximum and x, for D > 0; no θ if it is not found."""
    dual = _Dual(problem)
    if x is None:
        x = _back(_cholesky(dual.hessian), dual.total - (problem.c / problem.D) @ dual.E)
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


def _line_search(dual: _Dual, x: Array, step: Array, rise: float) -> float:
    """t that takes a tenth off the rise of the concave dual from x along the step; 0 for none."""
    t, low, high = 1.0, 0.0, np.inf
    for _ in range(16):
        rest = dual.at(x + t * step)[1] @ step
        if np.abs(rest) <= 0.9 * rise:
            return t
        low, high = (t, high) if rest > 0 else (low, t)
        t = 2 * t if high == np.inf else (low + high) / 2
    return 0.0


class _Dual:
    """max over x = (v, y) of −½|v|² + bᵀy + Σ_i min_{l ≤ θ_i ≤ u} ½D_iθ_i² − s_iθ_i.

    s = c − Fv + Aᵀy, so θ = clip(s / D): concave and piecewise quadratic in r + e variables.
    """

    def __init__(self, problem: _Problem) -> None:
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
        inside = self.problem.room(theta) > 0
        E, y = self.E[inside], self.own == 0
        H = (E.T / self.problem.D[inside]) @ E + np.diag(self.own)
        L, flat = dpotrf(H, lower=1)
        if flat:  # too few entries are inside to tell how y acts
            H[np.ix_(y, y)] += 1e-4 * self.hessian[np.ix_(y, y)]
            L = _cholesky(H)
        return _back(L, slope)
