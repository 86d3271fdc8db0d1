"""The simplex: any mixture may come. And its vertices: any single domain."""

from __future__ import annotations

import math
from typing import final

import numpy as np
from numpy.typing import NDArray

from anymix.mixtures.checks import count
from anymix.mixtures.covers import log_grid
from anymix.mixtures.programs import minimize_on_box
from anymix.mixtures.projections import project_box, project_simplex
from anymix.mixtures.sets import MixtureSet

Array = NDArray[np.float64]


@final
class Simplex(MixtureSet):
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
        self._freeze(p, n_domains=p)

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
class Vertices(MixtureSet):
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
        self._freeze(p, n_domains=p)
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
