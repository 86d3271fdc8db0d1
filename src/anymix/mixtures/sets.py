"""Sets Λ of target mixtures: what the learner guards against, as geometry.

A mixture λ weighs p domains: λ ≥ 0, Σ λ = 1. The objective is linear in λ, so Λ may be replaced by
its convex hull, and every method here works on conv Λ; only `Vertices.log_cover_size` counts Λ.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.mixtures.programs import minimize_quadratic, scaled
from anymix.mixtures.projections import project_box, project_simplex, seen_from

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
STEPS = 64  # along the path into a χ² ball; five to ten are usual
FIRST = 5  # of these, secants all of them
ENUMERABLE = 12  # up to this many domains the corners of a box are tried one by one


class MixtureSet(ABC):
    """A set Λ of mixtures of p = `n_domains` domains: an immutable value that can be compared.

    >>> Simplex(2) == Simplex(2), Simplex(2) == Point([0.5, 0.5])
    (True, False)
    """

    n_domains: int
    _arguments: dict[str, Any]  # what the constructor was given, after checks

    @property
    @abstractmethod
    def center(self) -> Array:
        """A member to start from, (p,)."""

    @property
    def radius(self) -> float:
        """R_Λ = max ‖λ‖₂ over Λ; the class says whether it is exact or an upper bound."""
        return math.sqrt(self._largest_square(np.ones(self.n_domains)))

    def project(self, v: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """argmin ½ Σ w_k (λ_k − v_k)² over conv Λ; v (p,), w = weights (p,) > 0, None for all 1."""
        v = _vector("v", v, self.n_domains)
        w = None if weights is None else _positive("weights", weights, self.n_domains)
        return self._project(v, w)

    def maximize(self, losses: ArrayLike) -> Array:
        """A maximiser of ⟨λ, losses⟩ over Λ, exactly; losses (p,)."""
        return self._maximize(_vector("losses", losses, self.n_domains))

    def minimize_quadratic(
        self,
        c: ArrayLike,
        factor: ArrayLike | None = None,
        diagonal: ArrayLike | None = None,
        start: ArrayLike | None = None,
    ) -> Array:
        """argmin ½ λᵀ(F Fᵀ + diag D)λ − cᵀλ over conv Λ; F = factor (p, r), D = diagonal (p,) ≥ 0.

        `start` is a member of Λ to begin from, if one near the answer is known.
        """
        p = self.n_domains
        F = np.zeros((p, 0)) if factor is None else _matrix("factor", factor, p)
        D = np.zeros(p) if diagonal is None else _vector("diagonal", diagonal, p)
        if D.min() < 0:
            raise ValueError(f"diagonal must be ≥ 0, found {D.min()}: the problem is not convex")
        first = None if start is None else _vector("start", start, p)
        linear, F, D = scaled(_vector("c", c, p), F, D)
        return self._minimize(linear - linear.max(), F, D, first)  # Σ λ = 1 sees no constant

    def contains(self, mixture: ArrayLike, tol: float = 1e-9) -> bool:
        """Whether the mixture meets every constraint of conv Λ up to `tol`."""
        lam = _vector("mixture", mixture, self.n_domains)
        total = abs(lam.sum() - 1) <= tol
        return bool(lam.min() >= -tol and total and self._contains(lam, tol))

    def skewness(self, sizes: ArrayLike) -> float:
        """𝔰(Λ‖m̄) = max Σ λ²/m̄ over Λ, m̄ = sizes/Σ sizes; exact or not as the class says."""
        return self._largest_square(1 / _reference(sizes, self.n_domains))

    def log_cover_size(self, epsilon: float) -> float:
        """An upper bound on log |Λ_ε|: members of Λ such that each of Λ has one within ε in ℓ₁."""
        return self._log_cover_size(
            _number("epsilon", epsilon, "≥ 0, such as 1/√m", lambda x: x >= 0)
        )

    @abstractmethod
    def _project(self, v: Array, w: Array | None) -> Array: ...

    @abstractmethod
    def _maximize(self, L: Array) -> Array: ...

    @abstractmethod
    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array: ...

    @abstractmethod
    def _contains(self, lam: Array, tol: float) -> bool:
        """Beyond λ ≥ −tol and |Σ λ − 1| ≤ tol."""

    @abstractmethod
    def _largest_square(self, a: Array) -> float:
        """max Σ a_k λ_k² over Λ, or an upper bound: the radius is a = 1, the skewness a = 1/m̄."""

    @abstractmethod
    def _log_cover_size(self, epsilon: float) -> float: ...

    def _freeze(self, p: int, /, **arguments: Any) -> None:
        for value in arguments.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        self.__dict__.update(arguments, n_domains=p, _arguments=arguments)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set {name!r}: mixture sets are immutable; make a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._arguments.values())

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in self._arguments.items())
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MixtureSet):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        values = self._arguments.values()
        arrays = [
            (v.shape, (v + 0.0).tobytes()) if isinstance(v, np.ndarray) else v for v in values
        ]
        return type(self), *arrays


@final
class Simplex(MixtureSet):
    """Δ_p = {λ ≥ 0, Σ λ = 1}: any mixture of p domains may come.

    λ_k = max(v_k − τ/w_k, 0) is the projection of v. Radius and skewness are exact: a convex
    function is largest at a vertex. The cover is all multiples of 1/N, an upper bound: round Nλ to
    integers of sum N, the s largest fractions up, and the ℓ₁ error is at most 2s(1 − s/p)/N.

    >>> Simplex(3).project([0.5, 0.75, -1.0])
    array([0.375, 0.625, 0.   ])
    >>> Simplex(3).maximize([0.1, 0.7, 0.2])
    array([0., 1., 0.])
    >>> Simplex(3).skewness([1, 1, 2])
    4.0
    """

    def __init__(self, n_domains: int) -> None:
        p = _count(n_domains)
        self._freeze(p, n_domains=p)

    @property
    def center(self) -> Array:
        """The uniform mixture."""
        return np.full(self.n_domains, 1 / self.n_domains)

    def _project(self, v: Array, w: Array | None) -> Array:
        if w is None:
            return project_simplex(v)
        return project_box(v, w, np.zeros_like(v), np.ones_like(v))

    def _maximize(self, L: Array) -> Array:
        vertex = np.zeros_like(L)
        vertex[np.argmax(L)] = 1
        return vertex

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        return _minimize_on_box(c, F, D, np.zeros_like(c), np.ones_like(c), start)

    def _contains(self, lam: Array, tol: float) -> bool:
        return True

    def _largest_square(self, a: Array) -> float:
        return float(a.max())

    def _log_cover_size(self, epsilon: float) -> float:
        return _log_grid(self.n_domains, epsilon)


@final
class Vertices(MixtureSet):
    """Λ = {δ_1, …, δ_p}: one domain at a time, as in good-intent fairness. Its hull is Δ_p.

    All is as for the simplex, but the p vertices cover themselves: log p for every ε.

    >>> Vertices(2).project([0.75, 0.75])
    array([0.5, 0.5])
    >>> math.exp(Vertices(4).log_cover_size(0))
    4.0
    """

    def __init__(self, n_domains: int) -> None:
        p = _count(n_domains)
        self._freeze(p, n_domains=p)

    @cached_property
    def _hull(self) -> Simplex:
        return Simplex(self.n_domains)

    @property
    def center(self) -> Array:
        """The uniform mixture, of the hull."""
        return self._hull.center

    def _project(self, v: Array, w: Array | None) -> Array:
        return self._hull._project(v, w)

    def _maximize(self, L: Array) -> Array:
        return self._hull._maximize(L)

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        return self._hull._minimize(c, F, D, start)

    def _contains(self, lam: Array, tol: float) -> bool:
        return True

    def _largest_square(self, a: Array) -> float:
        return float(a.max())

    def _log_cover_size(self, epsilon: float) -> float:
        return math.log(self.n_domains)


@final
class Point(MixtureSet):
    """Λ = {λ}: standard learning on one mixture; λ = m̄ is standard federated learning.

    Radius and skewness are exact, and the point covers itself.

    >>> Point([0.25, 0.75]).project([9.0, 0.0])
    array([0.25, 0.75])
    >>> Point([0.25, 0.75]).skewness([1, 3])
    1.0
    """

    mixture: Array

    def __init__(self, mixture: ArrayLike) -> None:
        lam = _mixture("mixture", mixture)
        self._freeze(lam.size, mixture=lam)

    @property
    def center(self) -> Array:
        """The point."""
        return self.mixture.copy()

    def _project(self, v: Array, w: Array | None) -> Array:
        return self.center

    def _maximize(self, L: Array) -> Array:
        return self.center

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        return self.center

    def _contains(self, lam: Array, tol: float) -> bool:
        return bool(np.max(np.abs(lam - self.mixture)) <= tol)

    def _largest_square(self, a: Array) -> float:
        return float(a @ self.mixture**2)

    def _log_cover_size(self, epsilon: float) -> float:
        return 0.0


@final
class Hull(MixtureSet):
    """Λ = conv{λ¹, …, λⁿ}: a known list of target populations; points V (n, p), one mixture a row.

    The projection is λ = Vᵀθ for the θ ∈ Δ_n with least ½ Σ w (Vᵀθ − v)², by a finite active-set
    method; points may repeat or depend on each other. Radius and skewness are exact: a convex
    function is largest at one of the points. The cover is that of Δ_n at ε/κ, an upper bound, with
    κ = min(1, max_i ‖λⁱ − λ̄‖₁): for Σ d = 0, ‖Vᵀd‖₁ = ‖Σ d_i (λⁱ − λ̄)‖₁ ≤ κ ‖d‖₁.

    >>> Hull([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]).project([0.0, 1.0, 0.0])
    array([0. , 0.5, 0.5])
    """

    points: Array

    def __init__(self, points: ArrayLike) -> None:
        V = _mixtures("points", points)
        self._freeze(V.shape[1], points=V)

    @property
    def center(self) -> Array:
        """The mean of the points."""
        return np.asarray(self.points.mean(axis=0))

    def _project(self, v: Array, w: Array | None) -> Array:
        v, w = _modest(v, w)
        return self._minimize(w * v, np.zeros((v.size, 0)), w, None)

    def _maximize(self, L: Array) -> Array:
        L = _modest_losses(L)
        return np.array(self.points[np.argmax(self.points @ (L - L.max()))])

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        V, n = self.points, len(self.points)
        factor = np.hstack((V @ F, V * np.sqrt(D)))  # (n, r + p)
        theta = _minimize_on_box(V @ c, factor, np.zeros(n), np.zeros(n), np.ones(n), None)
        for _ in range(8):  # again from λ, where differences keep the digits that V and c hide
            lam = theta @ V
            slope = F @ (lam @ F) + D * lam - c
            slope -= lam @ slope  # a constant, which no difference of mixtures sees
            theta = self._refined(theta, V - lam, slope, F, D)
            if np.max(np.abs(theta @ V - lam)) <= 1e-15:
                break
        return np.asarray(theta @ V)

    @staticmethod
    def _refined(theta: Array, W: Array, slope: Array, F: Array, D: Array) -> Array:
        """θ moved to the minimum that W = V − λ and the slope at λ tell of."""
        theta = theta + minimize_quadratic(
            -(W @ slope),
            np.hstack((W @ F, W * np.sqrt(D))),
            lower=-theta,
            upper=1 - theta,
            rows=np.ones((1, len(W))),
            totals=[0.0],
            start=np.zeros(len(W)),
        )
        return np.where(theta <= 4 * np.finfo(np.float64).eps, 0.0, theta)

    def _contains(self, lam: Array, tol: float) -> bool:
        return bool(np.max(np.abs(lam - self._project(lam, None))) <= tol)

    def _largest_square(self, a: Array) -> float:
        return float(np.max(self.points**2 @ a))

    def _log_cover_size(self, epsilon: float) -> float:
        kappa = min(1.0, float(np.abs(self.points - self.center).sum(axis=1).max()))
        return _log_grid(len(self.points), epsilon / kappa if kappa > 0 else math.inf)


@final
class Box(MixtureSet):
    """Λ = {λ ∈ Δ_p: lower ≤ λ ≤ upper}: capped and floored mixtures; upper may be inf.

    λ_k = clip(v_k − τ/w_k, l_k, u_k) is the projection of v, in O(p log p). Radius and skewness are
    exact for p ≤ 12 (every corner is tried), otherwise an upper bound: a square lies below its
    chord on [l, u], and the sum of chords is linear in λ; one entry at most is overrated.
    The cover is that of Δ_p at ε/(2s), s = min(1 − Σ l, Σ u − 1), an upper bound: Λ lies in
    l + (1 − Σ l)Δ_p and in u − (Σ u − 1)Δ_p, and in each cell of a cover of these by ε/2 that
    holds a member of Λ that member covers the cell by ε. It is at ε/(1 − Σ l) if u never binds.

    >>> Box([0.1, 0.1, 0.1], [0.6, 1, 1]).project([1.0, 0.0, 0.0])
    array([0.6, 0.2, 0.2])
    >>> Box([0.1, 0.1, 0.1], [0.6, 1, 1]).maximize([3.0, 2.0, 1.0])
    array([0.6, 0.3, 0.1])
    """

    lower: Array
    upper: Array

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        lower, upper = _bounds(lower, upper)
        self._freeze(lower.size, lower=lower, upper=upper)

    @property
    def center(self) -> Array:
        """The member nearest to the uniform mixture."""
        return self._project(np.full(self.n_domains, 1 / self.n_domains), None)

    def _project(self, v: Array, w: Array | None) -> Array:
        return project_box(v, np.ones_like(v) if w is None else w, self.lower, self.upper)

    def _maximize(self, L: Array) -> Array:
        return _fill(self.lower, self.upper, np.argsort(-L, kind="stable"))

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        return _minimize_on_box(c, F, D, self.lower, self.upper, start)

    def _contains(self, lam: Array, tol: float) -> bool:
        return bool(np.all((lam >= self.lower - tol) & (lam <= self.upper + tol)))

    def _largest_square(self, a: Array) -> float:
        return _largest_square_on_box(a, self.lower, self.upper)

    def _log_cover_size(self, epsilon: float) -> float:
        rest, over = 1 - float(self.lower.sum()), float(self.upper.sum()) - 1
        whole = bool(np.all(self.upper >= self.lower + rest))
        scale = rest if whole else 2 * min(rest, over)
        return _log_grid(self.n_domains, epsilon / scale if scale > 0 else math.inf)


def cvar(reference: ArrayLike, alpha: float) -> Box:
    """{λ ∈ Δ_p: λ ≤ reference/α}: the worst share α of the population, 0 < α ≤ 1.

    max_λ ⟨λ, L⟩ is the conditional value at risk: the mean of L over its worst α-share.

    >>> cvar([0.25, 0.25, 0.5], 0.5).maximize([3.0, 2.0, 1.0])
    array([0.5, 0.5, 0. ])
    """
    alpha = _number("alpha", alpha, "in (0, 1], the share to guard", lambda x: 0 < x <= 1)
    reference = _mixture("reference", reference)
    return Box(np.zeros_like(reference), np.minimum(reference, alpha) / alpha)


@final
class TVBall(MixtureSet):
    """Λ = {λ ∈ Δ_p: ½ ‖λ − c‖₁ ≤ ρ}, c = center: the target is near c in total variation.

    When the ball binds, λ = c + a − b with two independent projections a ≥ 0 and b ∈ [0, c] of
    mass ρ: they never share an entry at the optimum, so ½ Σ w (λ − v)² splits into
    ½ Σ w (a − (v − c))² and ½ Σ w (b − (c − v))². `maximize` moves mass ρ from the smallest losses
    to the largest. Radius and skewness: at a corner all the mass moved goes to one domain j and
    0 ≤ λ ≤ c elsewhere, so they are box problems, exact for p ≤ 12 and upper bounds otherwise.
    The cover is the least of three upper bounds: 0 for ε ≥ 2ρ (c alone); (p−1) log(1 + 4ρ/ε)
    (disjoint balls of radius ε/2 about members fit into one of radius 2ρ + ε/2); that of Δ_p at ε/2
    (in each cell that holds a member, take it), at ε if Λ is all of Δ_p.

    >>> TVBall([0.5, 0.3, 0.2], 0.25).maximize([1.0, 2.0, 3.0])
    array([0.25, 0.3 , 0.45])
    >>> TVBall([0.5, 0.5], 0.1).project([1.0, 0.0])
    array([0.6, 0.4])
    """

    rho: float

    def __init__(self, center: ArrayLike, rho: float) -> None:
        rho = _number("rho", rho, "≥ 0, the largest total variation", lambda x: x >= 0)
        c = _mixture("center", center)
        self._freeze(c.size, center=c, rho=rho)

    @property
    def _c(self) -> Array:
        c: Array = self._arguments["center"]
        return c

    @property
    def center(self) -> Array:
        """The centre c of the ball."""
        return self._c.copy()

    def _project(self, v: Array, w: Array | None) -> Array:
        c, rho = self._c, self.rho
        free = Simplex(v.size)._project(v, w)
        if rho >= 1 or np.abs(free - c).sum() <= 2 * rho:
            return free
        if rho == 0:
            return self.center
        w = np.ones_like(v) if w is None else w
        above = project_box(v, w, c, c + rho, 1 + rho)  # c + a
        below = project_box(v, w, np.zeros_like(c), c, 1 - rho)  # c − b
        return np.asarray(above + (below - c))

    def _maximize(self, L: Array) -> Array:
        upper = self.center
        upper[np.argmax(L)] += self.rho
        return _fill(np.zeros_like(L), np.minimum(upper, 1), np.argsort(-L, kind="stable"))

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        """λ = z + a − b, θ = (a, b, s): a ≤ 1 − z, b ≤ z, Σa + s = Σb + s = ρ, all ≥ 0.

        Charging D a² + D b² for D (a − b)² is exact: it is no less, and equal where ab = 0, which
        every λ allows.
        """
        z, rho, p = self._c, min(self.rho, 1.0), c.size
        g = c - F @ (z @ F) - D * z
        theta = minimize_quadratic(
            np.concatenate((g, -g, [0.0])),
            np.vstack((F, -F, np.zeros((1, F.shape[1])))),
            np.concatenate((D, D, [0.0])),
            lower=np.zeros(2 * p + 1),
            upper=np.concatenate((1 - z, z, [rho])),
            rows=np.repeat([[1, 0, 1], [0, 1, 1]], [p, p, 1], axis=1),
            totals=[rho, rho],
            start=None if start is None else _moves(start - z, rho),
        )
        return np.asarray(z + theta[:p] - theta[p:-1])

    def _contains(self, lam: Array, tol: float) -> bool:
        return bool(np.abs(lam - self._c).sum() / 2 <= self.rho + tol)

    def _largest_square(self, a: Array) -> float:
        c, moved = self._c, np.minimum(self.rho, 1 - self._c)  # (p,): what can go to each domain
        if c.size > ENUMERABLE:
            return float(np.max(a * (c + moved) ** 2 + _chords_without(a * c, c, 1 - c - moved)))
        pinned = np.diag(c + moved)  # row j: domain j has all it can get
        upper = np.where(pinned > 0, pinned, c)
        return max(_largest_square_on_box(a, *bounds) for bounds in zip(pinned, upper, strict=True))

    def _log_cover_size(self, epsilon: float) -> float:
        p, rho = self.n_domains, self.rho
        if rho >= 1 - self._c.min():
            return _log_grid(p, epsilon)
        return min(_log_packing(p, 2 * rho, epsilon), _log_grid(p, epsilon / 2))


@final
class Chi2Ball(MixtureSet):
    """Λ_r = {λ ∈ conv base: 1 + χ²(λ‖m̄) = Σ λ²/m̄ ≤ r}, m̄ = sizes/Σ sizes: skewness at most r.

    `base` is any mixture set, None is the simplex; r = 1 leaves the point m̄. Each problem is that
    of the base with ½ ν χ²(λ) added, ν ≥ 0 a scalar root: for `project` and `maximize` a weighted
    projection onto the base. Radius and skewness are upper bounds by Σ aλ² ≤ max(a m̄) Σ λ²/m̄,
    its like for λ − m̄, and the base; with the ball's own sizes the skewness is min(r, the base's),
    exact if the base's is, for it takes every value between its least and its largest.
    The cover is the least of two upper bounds: (p−1) log(1 + 4R/ε), R = √(r−1) ≥ ‖λ − m̄‖₁, by
    packing as for `TVBall`, 0 for ε ≥ 2R; that of the base at ε/2, at ε if r leaves all of it.

    >>> Chi2Ball([1, 1, 2], 1.5).maximize([1.0, 0.0, 0.0]).round(6)
    array([0.556186, 0.147938, 0.295876])
    >>> Chi2Ball([1, 3], 1.0).project([1.0, 0.0])
    array([0.25, 0.75])
    """

    sizes: Array
    r: float
    base: MixtureSet

    def __init__(self, sizes: ArrayLike, r: float, base: MixtureSet | None = None) -> None:
        m = _positive("sizes", sizes, None if base is None else base.n_domains).copy()
        r = _number("r", r, "≥ 1, the largest skewness", lambda x: x >= 1)
        self._freeze(m.size, sizes=m, r=r, base=Simplex(m.size) if base is None else base)
        least = 1 + self._chi2(self._least)
        if r < least * (1 - 1e-12):
            raise ValueError(
                f"r must be at least {least:.17g}, the least skewness in base, found {r!r}: "
                "no mixture of base is in the ball; raise r"
            )

    @cached_property
    def _reference(self) -> Array:
        return _reference(self.sizes, self.n_domains)

    @cached_property
    def _least(self) -> Array:
        return self.base._project(self._reference, 1 / self._reference)

    def _chi2(self, lam: Array) -> float:
        return float(np.sum((lam - self._reference) ** 2 / self._reference))

    @property
    def center(self) -> Array:
        """The member of least skewness: m̄ itself if it is in the base."""
        return self._least.copy()

    def _project(self, v: Array, w: Array | None) -> Array:
        m, base = self._reference, self.base
        free = base._project(v, w)
        z, a = _modest(v, w)

        def path(nu: float) -> Array:
            return base._project((a * z + nu) / (a + nu / m), a + nu / m)

        return self._shrink(free, path, lambda lam: a * (lam - z))

    def _maximize(self, L: Array) -> Array:
        m, base = self._reference, self.base
        if L.max() == L.min():
            return self.center
        slope = _modest_losses(L)
        slope = (slope - slope.max()) / (slope.max() - slope.min())

        def path(nu: float) -> Array:
            return base._project(m * (1 + slope / nu), 1 / m)

        return self._shrink(base._maximize(L), path, lambda lam: -slope)

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        m, base = self._reference, self.base

        def path(nu: float) -> Array:
            return base._minimize(c, F, D + nu / m, None)

        def slope(lam: Array) -> Array:
            return F @ (lam @ F) + D * lam - c

        return self._shrink(base._minimize(c, F, D, start), path, slope)

    def _shrink(
        self, free: Array, path: Callable[[float], Array], slope: Callable[[Array], Array]
    ) -> Array:
        """argmin q over the ball, q a convex quadratic with its minimum over the base at `free`.

        λ(ν) = path(ν) minimises q + ½ ν χ² over the base, and χ²(λ(ν)) falls with ν ≥ 0 to its
        least value d₀: ν is the root of χ² = r − 1. `slope` is ∇q.
        """
        t = self.r - 1
        room, rounding = t - self._chi2(self._least), 8 * EPS * (t + math.sqrt(t))
        if room <= rounding:
            return self.center
        if self._chi2(free) <= t + rounding:
            return free
        tol = max(1e-14, rounding / room)
        return _Crossing(self._reference, self._least, room, tol, path, slope).find(free)

    def _contains(self, lam: Array, tol: float) -> bool:
        return self.base._contains(lam, tol) and 1 + self._chi2(lam) <= self.r * (1 + tol)

    def _largest_square(self, a: Array) -> float:
        m = self._reference
        most = float(np.max(a * m))
        off = math.sqrt(a @ m**2) + math.sqrt((self.r - 1) * most)
        return min(self.base._largest_square(a), self.r * most, off**2)

    def _log_cover_size(self, epsilon: float) -> float:
        p, base = self.n_domains, self.base
        conv = Simplex(p) if isinstance(base, Vertices) else base  # vertices cover only themselves
        if self.r >= conv._largest_square(1 / self._reference):
            return conv._log_cover_size(epsilon)
        packing = _log_packing(p, 2 * math.sqrt(self.r - 1), epsilon)
        return min(packing, conv._log_cover_size(epsilon / 2))


@dataclass
class _End:
    """λ = λ(ν) on one side of the sphere, and f there, see `_Crossing`."""

    nu: float
    lam: Array
    f: float


@dataclass
class _Crossing:
    """Where the path λ(ν) = argmin q + ½ ν χ² over a base crosses the sphere χ² = d₀ + room.

    It runs from λ(0), outside, to λ(∞) = least, where χ² is d₀. About as 1/ν² is what χ² has left
    above d₀, so f(ν) = √(room/(χ² − d₀)) − 1 rises through 0 nearly on a line, and secants find
    the root in a few steps.

    Over a very small or a flat base λ(ν) leaps instead: q + ½ ν χ² has the same value at two ends
    a and b of the leap, which gives ν, and all between them are as good. So it is in any case a
    point between the two ends, on the sphere, that is returned.
    """

    m: Array  # χ² = Σ (λ − m)²/m
    least: Array
    room: float
    tol: float
    path: Callable[[float], Array]
    slope: Callable[[Array], Array]

    def find(self, free: Array) -> Array:
        """The point at which the path crosses; `free` is λ(0)."""
        a, b = _End(0.0, free, self._f(free)), _End(math.inf, self.least, math.inf)
        farthest = 2 * self._rise(self.least, free) / self.room  # χ² is within room from here on
        nu, side, poor, best, before = min(self._guess(a, b), farthest), 0, 0, math.inf, a
        for k in range(STEPS):
            if not a.nu < nu < b.nu:
                break
            lam = self.path(nu)
            end = _End(nu, lam, self._f(lam))
            line = k < FIRST or abs(end.f) <= best / 2
            poor += not line
            best = min(best, abs(end.f))
            if end.f < 0:
                b.f *= max(1 - end.f / a.f, 0.1) if side < 0 else 1.0
                before, a, side = a, end, -1
            else:
                a.f *= max(1 - end.f / b.f, 0.1) if side > 0 else 1.0
                b, side = end, 1
            if best <= self.tol or b.nu - a.nu <= 1e-15 * a.nu:
                break
            if b.nu == math.inf:
                nu = self._ahead(before, a, farthest)
            else:
                nu = self._next(0 if line else poor % 4, before, a, b)
        return self._between(a.lam, b.lam)

    def _guess(self, a: _End, b: _End) -> float:
        """ν = |∇q| / |∇ ½χ²| on the sphere: right if q is linear and no bound of the base holds.

        If its bounds keep the base far from m, ν is nearer to that of a leap.
        """
        if self._chi2(self.least) > self.room:
            return self._leap(a, b)
        g = self.slope(self.least)
        g = g - self.m @ g
        return math.sqrt(self.m @ g**2 / self.room)

    def _ahead(self, before: _End, a: _End, farthest: float) -> float:
        """Beyond a, where f is still below 0: past the root of the secant, to be sure of f ≥ 0."""
        rise = a.f - before.f
        step = -1.5 * a.f * (a.nu - before.nu) / rise if rise > 0 else math.inf
        return min(a.nu + min(max(step, a.nu), 1e4 * a.nu), max(farthest, 2 * a.nu))

    def _next(self, turn: int, before: _End, a: _End, b: _End) -> float:
        """A secant of f; where those serve poorly a leap, a secant of χ², a cut in ratio by turns.

        Where bounds of the base end the path at `least` already for some finite ν, it is χ², seen
        from outside, that is nearly linear in ν.
        """
        if turn == 1:
            return self._leap(a, b)
        if turn == 2 and self._fall(before.lam, a.lam) > 0:
            over = self._fall(a.lam, self.least) - self.room
            nu = a.nu + over * (a.nu - before.nu) / self._fall(before.lam, a.lam)
            if a.nu < nu < b.nu:
                return nu
        if turn >= 2:
            return math.sqrt(a.nu * b.nu) if a.nu > 0 else b.nu / 256
        return a.nu - a.f * (b.nu - a.nu) / (b.f - a.f)

    def _leap(self, a: _End, b: _End) -> float:
        """ν at which q + ½ ν χ² is the same at both ends."""
        return 2 * self._rise(b.lam, a.lam) / self._fall(a.lam, b.lam)

    def _between(self, a: Array, b: Array) -> Array:
        """b + s (a − b) on the sphere, 0 ≤ s ≤ 1; b is inside."""
        d = a - b
        inside = max(self.room - self._fall(b, self.least), 0.0)
        square, half = float(d @ (d / self.m)), float((b - self.m) @ (d / self.m))
        root = math.sqrt(half**2 + square * inside)
        if root == 0 or inside == 0:
            return b
        s = inside / (half + root) if half > 0 else (root - half) / square
        return np.asarray(b + min(s, 1.0) * d)

    def _chi2(self, lam: Array) -> float:
        return float(np.sum((lam - self.m) ** 2 / self.m))

    def _rise(self, a: Array, b: Array) -> float:
        """q(a) − q(b) = ⟨∇q((a + b)/2), a − b⟩."""
        g = self.slope((a + b) / 2)
        return float((g - g.max()) @ (a - b))

    def _fall(self, a: Array, b: Array) -> float:
        """χ²(a) − χ²(b)."""
        return float(((a - self.m) + (b - self.m)) / self.m @ (a - b))

    def _f(self, lam: Array) -> float:
        over = max(self._fall(lam, self.least), 1e-12 * self.room)
        return math.sqrt(self.room / over) - 1


# The arithmetic that several sets share.


def _modest_losses(L: Array) -> Array:
    """L over a power of two if it is so large or small that its differences are not safe."""
    power = int(np.frexp(max(float(L.max()), -float(L.min())))[1])
    return np.ldexp(L, -max(power, -1000)) if abs(power) > 900 else L


def _modest(v: Array, w: Array | None) -> tuple[Array, Array]:
    """(v − t/w, 2⁻ᵏ w): the same projection as of v with weights w, and w v no more than 2²⁰⁰.

    t = max w v, so that no digit is lost near the largest, be v as large as it may.
    """
    if w is None:
        w = np.ones_like(v)
    most = int(np.frexp(max(float(v.max()), -float(v.min()), 1.0))[1])
    w = np.ldexp(w, -int(np.frexp(w.max())[1]) - max(most - 200, 0))
    if most < 200:
        v = seen_from(int(np.argmax(w * v)), v, w)
    return v, w


def _minimize_on_box(
    c: Array, F: Array, D: Array, lower: Array, upper: Array, start: Array | None
) -> Array:
    rows = np.ones((1, c.size))
    return minimize_quadratic(
        c, F, D, lower=lower, upper=upper, rows=rows, totals=[1.0], start=start
    )


def _fill(lower: Array, upper: Array, order: NDArray[np.intp]) -> Array:
    """Raise λ from lower to upper in the given order until Σ λ = 1."""
    rises = np.cumsum((upper - lower)[order])
    k = int(np.searchsorted(rises, 1 - lower.sum()))
    lam = lower.copy()
    lam[order[:k]] = upper[order[:k]]
    if k < lam.size:
        j = order[k]
        lam[j] = np.clip(lam[j] + 1 - lam.sum(), lower[j], upper[j])
    return lam


def _moves(moved: Array, rho: float) -> Array:
    """θ = (a, b, s) of λ = center + moved."""
    a, b = np.maximum(moved, 0), np.maximum(-moved, 0)
    return np.concatenate((a, b, [max(rho - a.sum(), 0.0)]))


def _largest_square_on_box(a: Array, lower: Array, upper: Array) -> float:
    """max Σ a λ² over lower ≤ λ ≤ upper, Σ λ = 1: exact for p ≤ 12, else bounded by chords."""
    rest, over = 1 - lower.sum(), upper.sum() - 1
    lower, upper = np.maximum(lower, upper - over), np.minimum(upper, lower + rest)
    if lower.size <= ENUMERABLE:
        return float(np.max(_corners(lower, upper) ** 2 @ a))
    slopes = a * (lower + upper)
    lam = _fill(lower, upper, np.argsort(-slopes, kind="stable"))
    return float(np.sum(a * lower**2 + slopes * (lam - lower)))


def _chords_without(slopes: Array, c: Array, mass: Array) -> Array:
    """max Σ_{k≠j} slopes_k x_k over 0 ≤ x ≤ c, Σ_{k≠j} x_k = mass_j, for every j at once, (p,).

    G(m), the same with j left in, fills the steepest first; without j it is G(m), or
    G(m + c_j) − slopes_j c_j if that is less.
    """
    order = np.argsort(-slopes)
    masses = np.concatenate(([0.0], np.cumsum(c[order])))
    values = np.concatenate(([0.0], np.cumsum((slopes * c)[order])))
    with_j = np.interp(mass + c, masses, values) - slopes * c
    return np.minimum(np.interp(mass, masses, values), with_j)


def _corners(lower: Array, upper: Array) -> Array:
    """All λ with Σ λ = 1 and at most one entry off its bounds, (corners, p)."""
    p = lower.size
    bits = (np.arange(2**p)[:, None] >> np.arange(p)) & 1  # (2^p, p)
    found = []
    for k in range(p):
        lam = np.where(bits[bits[:, k] == 0], upper, lower)
        lam[:, k] = 0
        lam[:, k] = 1 - lam.sum(axis=1)
        fits = (lam[:, k] >= lower[k] - 1e-12) & (lam[:, k] <= upper[k] + 1e-12)
        found.append(lam[fits])
    return np.vstack(found)


def _log_grid(p: int, epsilon: float) -> float:
    """log C(N+p−1, p−1): the mixtures that are multiples of 1/N, an ε-cover of Δ_p."""
    if epsilon >= 2 * (1 - 1 / p):
        return 0.0  # the uniform mixture alone
    if epsilon == 0:
        return math.inf
    N = np.ceil(2 * (p // 2) * ((p + 1) // 2) / p / epsilon)
    return float(np.sum(np.log1p(N / np.arange(1, p))))


def _log_packing(p: int, radius: float, epsilon: float) -> float:
    """log of the most ℓ₁ balls of radius ε/2 in one of radius + ε/2, in dimension p − 1."""
    if epsilon >= radius:
        return 0.0
    return math.inf if epsilon == 0 else (p - 1) * math.log1p(2 * radius / epsilon)


# Checks: every message names the argument, what was found and what to do.


def _array(name: str, value: ArrayLike) -> Array:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, found {value!r}: convert it first") from None


def _finite(name: str, array: Array) -> Array:
    if not math.isfinite(np.vdot(array, array)) and not np.isfinite(array).all():
        k = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(f"{name} must be finite, found {array[tuple(k)]} at index {k}: remove it")
    return array


def _vector(name: str, value: ArrayLike, length: int | None = None) -> Array:
    array = _array(name, value)
    if array.ndim != 1 or array.size == 0 or length not in (None, array.size):
        wanted = "a non-empty vector" if length is None else f"a vector of length {length}"
        raise ValueError(f"{name} must be {wanted}, found shape {array.shape}: one number a domain")
    return _finite(name, array)


def _matrix(name: str, value: ArrayLike, rows: int | None = None) -> Array:
    array = _array(name, value)
    if array.ndim != 2 or rows not in (None, len(array)) or (rows is None and array.size == 0):
        wanted = "a non-empty (n, p) matrix" if rows is None else f"a matrix of {rows} rows"
        raise ValueError(f"{name} must be {wanted}, found shape {array.shape}: stack the rows")
    return _finite(name, array)


def _positive(name: str, value: ArrayLike, length: int | None = None) -> Array:
    array = _vector(name, value, length)
    if array.min() <= 0:
        k = int(np.argmin(array))
        raise ValueError(
            f"{name} must be positive, found {array[k]} at index {k}: drop that domain"
        )
    return array


def _reference(sizes: ArrayLike, length: int) -> Array:
    sizes = _positive("sizes", sizes, length)
    sizes = sizes / sizes.max() if sizes.max() > 1e300 else sizes
    return np.asarray(sizes / sizes.sum())


def _mixture(name: str, value: ArrayLike) -> Array:
    return _normalized(name, _vector(name, value))


def _mixtures(name: str, value: ArrayLike) -> Array:
    return _normalized(name, _matrix(name, value))


def _normalized(name: str, array: Array) -> Array:
    sums = array.sum(axis=-1, keepdims=True)
    worst = sums.flat[np.argmax(np.abs(sums - 1))]
    if array.min() < 0 or abs(worst - 1) > 1e-9:
        raise ValueError(
            f"{name} must be ≥ 0 and sum to 1, found minimum {array.min()} and sum {worst}: "
            "divide by the sum"
        )
    if np.max(np.abs(sums - 1)) <= 64 * EPS:
        return array.copy()  # so that a copy of a copy stays the same
    return np.asarray(array / sums)


def _bounds(lower: ArrayLike, upper: ArrayLike) -> tuple[Array, Array]:
    lower, upper = _vector("lower", lower), np.minimum(_array("upper", upper), 1)
    lower, upper = np.maximum(lower, 0), _vector("upper", upper, lower.size)
    if np.any(lower > upper):
        k = int(np.argmax(lower - upper))
        raise ValueError(
            f"lower must not exceed upper, found {lower[k]} > {upper[k]} at index {k}: loosen one"
        )
    if lower.sum() > 1 + 1e-12 or upper.sum() < 1 - 1e-12:
        raise ValueError(
            f"Σ lower must be ≤ 1 and Σ upper ≥ 1, found {lower.sum()} and {upper.sum()}: "
            "no mixture meets the bounds; loosen them"
        )
    return lower, upper


def _number(name: str, value: float, wanted: str, holds: Callable[[float], bool]) -> float:
    if not (isinstance(value, numbers.Real) and math.isfinite(value) and holds(value)):
        raise ValueError(f"{name} must be a number {wanted}, found {value!r}")
    return float(value)


def _count(n_domains: int) -> int:
    if isinstance(n_domains, bool) or not hasattr(n_domains, "__index__") or n_domains < 1:
        raise ValueError(f"n_domains must be an integer ≥ 1, found {n_domains!r}: count them")
    return int(n_domains)


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, separator=", ", threshold=8, edgeitems=3)
    return repr(value)
