"""The hull of a list of mixtures."""

from __future__ import annotations

import math
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.mixtures.checks import many_mixtures
from anymix.mixtures.geometry import log_grid
from anymix.mixtures.projections import modest_losses, modest_projection
from anymix.mixtures.qp import minimize_on_hull
from anymix.mixtures.sets import ExactSet

Array = NDArray[np.float64]


@final
class Hull(ExactSet):
    """Λ = conv{λ¹, …, λⁿ}: a known list of target populations, the rows of V (n, p).

    The projection is λ = Vᵀθ for the θ ∈ Δ_n with least ½ Σ w (Vᵀθ − v)², by a finite active-set
    method; points may repeat or depend on each other. Radius and skewness are exact: a convex
    function is largest at one of the points. The cover is that of Δ_n at ε/κ, an upper bound, with
    κ = min(1, max_i ‖λⁱ − λ̄‖₁): for Σ d = 0, ‖Vᵀd‖₁ = ‖Σ d_i (λⁱ − λ̄)‖₁ ≤ κ ‖d‖₁.

    Parameters
    ----------
    points : array-like of shape (n, p)
        One mixture in each row; rows may repeat.

    Examples
    --------
    >>> Hull([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]).project([0.0, 1.0, 0.0])
    array([0. , 0.5, 0.5])
    """

    points: Array

    def __init__(self, points: ArrayLike) -> None:
        V = many_mixtures("points", points)
        super().__init__(V.shape[1], points=V)

    @property
    def center(self) -> Array:
        """The mean of the points, (p,)."""
        return np.asarray(self.points.mean(axis=0))

    @property
    def corners(self) -> Array:
        """The points, among which the corners are."""
        return self.points.copy()

    @property
    def is_simplex(self) -> bool:
        """Whether every vertex of Δ_p is one of the points."""
        return bool(np.all(self.points.max(axis=0) == 1))

    def _project(self, v: Array, w: Array | None) -> Array:
        v, w = modest_projection(v, w)
        return self._minimize(w * v, np.zeros((v.size, 0)), w, None)

    def _maximize(self, L: Array) -> Array:
        L = modest_losses(L)
        return np.array(self.points[np.argmax(self.points @ (L - L.max()))])

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        return np.asarray(minimize_on_hull(c, F, D, self.points) @ self.points)

    def _largest_square(self, a: Array) -> float:
        return float(np.max(self.points**2 @ a))

    def _log_cover_size(self, epsilon: float) -> float:
        kappa = min(1.0, float(np.abs(self.points - self.center).sum(axis=1).max()))
        return log_grid(len(self.points), epsilon / kappa if kappa > 0 else math.inf)
