"""Mixtures near a given one in total variation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import finite_number
from anymix.mixtures.boxes import Simplex
from anymix.mixtures.checks import one_mixture
from anymix.mixtures.geometry import (
    ENUMERABLE,
    box_corners,
    chords_without,
    fill,
    largest_square,
    log_grid,
    log_packing,
)
from anymix.mixtures.projections import kl_ball, project_box
from anymix.mixtures.qp import minimize_quadratic
from anymix.mixtures.sets import ExactSet, data_mixture

Array = NDArray[np.float64]


@final
class TVBall(ExactSet):
    """Λ = {λ ∈ Δ_p: ½ ‖λ − c‖₁ ≤ ρ}: the target is near c in total variation.

    When the ball binds, λ = c + a − b with two independent projections a ≥ 0 and b ∈ [0, c] of
    mass ρ: they never share an entry at the optimum, so ½ Σ w (λ − v)² splits into
    ½ Σ w (a − (v − c))² and ½ Σ w (b − (c − v))². `maximize` moves mass ρ from the smallest losses
    to the largest. Radius and skewness: at a corner all the mass moved goes to one domain j and
    0 ≤ λ ≤ c elsewhere, so they are box problems, exact for p ≤ 12 and upper bounds otherwise.
    The cover is the least of three upper bounds: 0 for ε ≥ 2ρ (c alone); (p−1) log(1 + 4ρ/ε)
    (disjoint balls of radius ε/2 about members fit into one of radius 2ρ + ε/2); that of Δ_p at ε/2
    (in each cell that holds a member, take it), at ε if Λ is all of Δ_p.

    Parameters
    ----------
    center : array-like of shape (p,)
        c, the mixture in the middle.
    rho : float
        ρ ≥ 0, the largest total variation from it.

    Examples
    --------
    >>> TVBall([0.5, 0.3, 0.2], 0.25).maximize([1.0, 2.0, 3.0])
    array([0.25, 0.3 , 0.45])
    >>> TVBall([0.5, 0.5], 0.1).project([1.0, 0.0])
    array([0.6, 0.4])
    """

    words = "tv:0.2"
    rho: float

    @classmethod
    def around(cls, sizes: ArrayLike, number: float) -> TVBall:
        """All within ρ = number of the mixture of the data."""
        return cls(data_mixture(sizes).mixture, number)

    def __init__(self, center: ArrayLike, rho: float) -> None:
        fix = "give a number ≥ 0, the largest total variation"
        rho = finite_number("rho", rho, fix, lambda x: x >= 0)
        c = one_mixture("center", center)
        super().__init__(c.size, center=c, rho=rho)

    @property
    def _c(self) -> Array:
        c: Array = self._arguments["center"]
        return c

    @property
    def center(self) -> Array:
        """The centre c of the ball, (p,)."""
        return self._c.copy()

    @property
    def is_simplex(self) -> bool:
        """Whether ρ reaches every vertex of Δ_p."""
        return bool(self.rho >= 1 - self._c.min())

    @property
    def corners(self) -> Array | None:
        """Those of p boxes, for up to twelve domains."""
        if self.is_simplex or not 2 < self.n_domains <= ENUMERABLE:
            return super().corners
        return np.unique(np.vstack([box_corners(*bounds) for bounds in self._boxes()]), axis=0)

    @property
    def has_kl_projection(self) -> bool:
        """True: two boxes give it."""
        return True

    def kl_project(self, logits: ArrayLike) -> Array:
        """log of argmin Σ λ log(λ/w) over the ball, where log w = logits."""
        return kl_ball(np.asarray(logits, dtype=np.float64), self._c, self.rho)

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
        return fill(np.zeros_like(L), np.minimum(upper, 1), np.argsort(-L, kind="stable"))

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
            return float(np.max(a * (c + moved) ** 2 + chords_without(a * c, c, 1 - c - moved)))
        return max(largest_square(a, *bounds) for bounds in self._boxes())

    def _boxes(self) -> Iterator[tuple[Array, Array]]:
        """For each j the corners at which domain j has all it can get are those of a box."""
        c, moved = self._c, np.minimum(self.rho, 1 - self._c)
        pinned = np.diag(c + moved)
        return zip(pinned, np.where(pinned > 0, pinned, c), strict=True)

    def _log_cover_size(self, epsilon: float) -> float:
        p, rho = self.n_domains, self.rho
        if self.is_simplex:
            return log_grid(p, epsilon)
        return min(log_packing(p, 2 * rho, epsilon), log_grid(p, epsilon / 2))


def _moves(moved: Array, rho: float) -> Array:
    """θ = (a, b, s) of λ = center + moved."""
    a, b = np.maximum(moved, 0), np.maximum(-moved, 0)
    return np.concatenate((a, b, [max(rho - a.sum(), 0.0)]))
