"""Mixtures between bounds, and the worst share of a population, which is such a box."""

from __future__ import annotations

import math
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError, finite_number
from anymix.mixtures.checks import count, one_mixture, vector
from anymix.mixtures.geometry import fill, largest_square, log_grid
from anymix.mixtures.projections import project_box, project_simplex
from anymix.mixtures.qp import minimize_on_box
from anymix.mixtures.sets import ExactSet, data_mixture

Array = NDArray[np.float64]


@final
class Simplex(ExactSet):
    """Δ_p = {λ ≥ 0, Σ λ = 1}: any mixture of p domains may come.

    λ_k = max(v_k − τ/w_k, 0) is the projection of v. Radius and skewness are exact: a convex
    function is largest at a vertex. The cover, all multiples of 1/N, is an upper bound.

    Parameters
    ----------
    n_domains : int
        p ≥ 1, the number of domains.

    Examples
    --------
    >>> Simplex(3).project([0.5, 0.75, -1.0])
    array([0.375, 0.625, 0.   ])
    >>> Simplex(3).maximize([0.1, 0.7, 0.2])
    array([0., 1., 0.])
    >>> Simplex(3).skewness([1, 1, 2])
    4.0
    """

    def __init__(self, n_domains: int) -> None:
        p = count("n_domains", n_domains)
        super().__init__(p, n_domains=p)

    @property
    def center(self) -> Array:
        """The uniform mixture, (p,)."""
        return np.full(self.n_domains, 1 / self.n_domains)

    @property
    def box_bounds(self) -> tuple[Array, Array]:
        """0 and 1 for every domain."""
        return np.zeros(self.n_domains), np.ones(self.n_domains)

    def _project(self, v: Array, w: Array | None) -> Array:
        if w is None:
            return project_simplex(v)
        return project_box(v, w, *self.box_bounds)

    def _maximize(self, L: Array) -> Array:
        vertex = np.zeros_like(L)
        vertex[np.argmax(L)] = 1
        return vertex

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        return minimize_on_box(c, F, D, *self.box_bounds, start)

    def _contains(self, lam: Array, tol: float) -> bool:
        return True

    def _largest_square(self, a: Array) -> float:
        return float(a.max())

    def _log_cover_size(self, epsilon: float) -> float:
        return log_grid(self.n_domains, epsilon)


@final
class Vertices(ExactSet):
    """Λ = {δ_1, …, δ_p}: one domain at a time, as in good-intent fairness. Its hull is Δ_p.

    Everything is as for the simplex, except that the p vertices cover themselves: log p for any ε.

    Parameters
    ----------
    n_domains : int
        p ≥ 1, the number of domains.

    Examples
    --------
    >>> Vertices(2).project([0.75, 0.75])
    array([0.5, 0.5])
    >>> math.exp(Vertices(4).log_cover_size(0))
    4.0
    """

    def __init__(self, n_domains: int) -> None:
        p = count("n_domains", n_domains)
        super().__init__(p, n_domains=p)
        self.__dict__["_hull"] = Simplex(p)

    _hull: Simplex

    @property
    def center(self) -> Array:
        """The uniform mixture, which is in the hull, (p,)."""
        return self._hull.center

    @property
    def convex_hull(self) -> Simplex:
        """Δ_p."""
        return self._hull

    @property
    def box_bounds(self) -> tuple[Array, Array]:
        """0 and 1 for every domain: those of the hull."""
        return self._hull.box_bounds

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
class Box(ExactSet):
    """Λ = {λ ∈ Δ_p: lower ≤ λ ≤ upper}: every domain has its least and its largest share.

    λ_k = clip(v_k − τ/w_k, l_k, u_k) is the projection of v, in O(p log p). Radius and skewness are
    exact for p ≤ 12 (every corner is tried), otherwise an upper bound: a square lies below its
    chord on [l, u], and the sum of chords is linear in λ; one entry at most is overrated.
    The cover is that of Δ_p at ε/(2s), s = min(1 − Σ l, Σ u − 1), an upper bound: Λ lies in
    l + (1 − Σ l)Δ_p and in u − (Σ u − 1)Δ_p, and in each cell of a cover of these by ε/2 that
    holds a member of Λ that member covers the cell by ε. It is at ε/(1 − Σ l) if u never binds.

    Parameters
    ----------
    lower : array-like of shape (p,)
        The least share of each domain; below 0 counts as 0.
    upper : array-like of shape (p,)
        The largest share of each domain; above 1, or inf, counts as 1.

    Examples
    --------
    >>> Box([0.1, 0.1, 0.1], [0.6, 1, 1]).project([1.0, 0.0, 0.0])
    array([0.6, 0.2, 0.2])
    >>> Box([0.1, 0.1, 0.1], [0.6, 1, 1]).maximize([3.0, 2.0, 1.0])
    array([0.6, 0.3, 0.1])
    """

    words = "cvar:0.3"
    lower: Array
    upper: Array

    @classmethod
    def around(cls, sizes: ArrayLike, number: float) -> Box:
        """The worst share of the data: `cvar`."""
        return cvar(data_mixture(sizes).mixture, number)

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        lower, upper = _bounds(lower, upper)
        super().__init__(lower.size, lower=lower, upper=upper)

    @property
    def center(self) -> Array:
        """The member nearest to the uniform mixture, (p,)."""
        return self._project(np.full(self.n_domains, 1 / self.n_domains), None)

    @property
    def box_bounds(self) -> tuple[Array, Array]:
        """(lower, upper)."""
        return self.lower, self.upper

    def _project(self, v: Array, w: Array | None) -> Array:
        return project_box(v, np.ones_like(v) if w is None else w, self.lower, self.upper)

    def _maximize(self, L: Array) -> Array:
        return fill(self.lower, self.upper, np.argsort(-L, kind="stable"))

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        return minimize_on_box(c, F, D, self.lower, self.upper, start)

    def _contains(self, lam: Array, tol: float) -> bool:
        return bool(np.all((lam >= self.lower - tol) & (lam <= self.upper + tol)))

    def _largest_square(self, a: Array) -> float:
        return largest_square(a, self.lower, self.upper)

    def _log_cover_size(self, epsilon: float) -> float:
        rest, over = 1 - float(self.lower.sum()), float(self.upper.sum()) - 1
        whole = bool(np.all(self.upper >= self.lower + rest))
        scale = rest if whole else 2 * min(rest, over)
        return log_grid(self.n_domains, epsilon / scale if scale > 0 else math.inf)


def _bounds(lower: ArrayLike, upper: ArrayLike) -> tuple[Array, Array]:
    lower = np.maximum(vector("lower", lower), 0)
    upper = vector("upper", _at_most_1(upper), lower.size)
    if np.any(lower > upper):
        k = int(np.argmax(lower - upper))
        found = f"has {lower[k]} > {upper[k]}, which is upper, at index {k}"
        raise InputError("lower", found, "loosen one of them")
    if lower.sum() > 1 + 1e-12:
        raise InputError("lower", f"sums to {lower.sum()}", "give bounds whose sum is ≤ 1")
    if upper.sum() < 1 - 1e-12:
        raise InputError("upper", f"sums to {upper.sum()}", "give bounds whose sum is ≥ 1")
    return lower, upper


def _at_most_1(upper: ArrayLike) -> ArrayLike:
    """1 for inf, before all else: it is the one number that need not be finite."""
    try:
        return np.minimum(np.asarray(upper, dtype=np.float64), 1)
    except (TypeError, ValueError):
        return upper  # no numbers, as the next check will say


def cvar(reference: ArrayLike, alpha: float) -> Box:
    """{λ ∈ Δ_p: λ ≤ reference/α}: the worst share α of the population, 0 < α ≤ 1.

    max_λ ⟨λ, L⟩ is the conditional value at risk: the mean of L over its worst α-share.

    Parameters
    ----------
    reference : array-like of shape (p,)
        The mixture of the population.
    alpha : float
        α, the share to guard: in (0, 1].

    Returns
    -------
    Box

    Examples
    --------
    >>> cvar([0.25, 0.25, 0.5], 0.5).maximize([3.0, 2.0, 1.0])
    array([0.5, 0.5, 0. ])
    """
    fix = "give a number in (0, 1], the share to guard"
    alpha = finite_number("alpha", alpha, fix, lambda x: 0 < x <= 1)
    reference = one_mixture("reference", reference)
    return Box(np.zeros_like(reference), np.minimum(reference, alpha) / alpha)
