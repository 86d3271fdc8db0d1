"""The problem whose parts give losses and gradients, and no second derivatives.

Each look at a w_t gives a line below the losses of any mixture, Σ λ_k L_k(w) ≥ a_t + ⟨v_t, w⟩, and
with θ_t ≥ 0, Σ θ_t = 1, so is Σ θ_t a_t + ⟨Σ θ_t v_t, w⟩. The best of these is the proof:

    min_w Σ λ_k L_k(w) + γR(w) ≥ max_θ  Σ θ_t a_t + min_w ⟨Σ θ_t v_t, w⟩ + γR(w).

An intercept b is free, so r = Σ θ_t v_t must be 0 there, and is so but for rounding. Where
Σ λ_k L_k + γR is at most what is reached already, the lines themselves bound b, |b| ≤ B, and
|r| B is charged. Steps are L-BFGS's, over the curvature that the columns' own products suggest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from anymix.mixtures import Simplex
from anymix.problem.duals import Dual
from anymix.problem.floors import UNIT
from anymix.problem.parts import Ask, Look, Parts
from anymix.problem.regularizers import Regularizer

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

CURVATURE = 1 / 16  # of a classifier that gives the truth the probability 0.93; see `coordinates`
NARROW = 1e5  # times as dear as the penalised entries of v are its free ones, which must be 0

__all__ = ["GradientLook", "GradientParts"]


class GradientParts(Parts):
    """L_1(w), …, L_p(w) over the rows of all parts, which tell no second derivatives.

    Parameters
    ----------
    ask : function
        As for `Parts`.
    places : sequence of ndarray
        As for `Parts`.
    sizes : ndarray of shape (p,)
        m_k.
    n_parameters : int
        D.
    center : ndarray of shape (p,)
        The mixture to begin with.

    Attributes
    ----------
    shrinkage : Regularizer
        γR, of which proofs are; the caller sets it.
    gram : ndarray of shape (columns, columns), optional
        (1/n) Σ x_i x_iᵀ with the intercept's 1, or about that: it makes steps good, and no more.
    looks : list of GradientLook
        All that is known.
    """

    has_blocks = True
    shrinkage: Regularizer
    gram: Array | None = None

    def __init__(
        self, ask: Ask, places: Sequence[Indices], sizes: Array, n_parameters: int, center: Array
    ) -> None:
        self.looks: list[GradientLook] = []
        super().__init__(ask, places, sizes, n_parameters, center, dense_up_to=0)
        if (first := self._first) is not None:
            sums = {"losses": first.losses * sizes, "jacobian": first.jacobian() * sizes[:, None]}
            self.looks.append(GradientLook(self, first.w, first.mixture, sums))

    @property
    def _known(self) -> list[Look]:
        return [*self.looks]

    def look(self, w: Array, mixture: Array) -> Look:
        """Ask about w."""
        look = GradientLook(self, w, mixture, self.ask(w, self._look, mixture))
        self.looks.append(look)
        return look

    def blocks(self) -> Iterator[Array]:
        """About the diagonal blocks of a Hessian."""
        columns = self.n_parameters // self.n_scores
        gram = np.diag(self.reach[:columns] ** 2) if self.gram is None else self.gram
        classes = 1e-6 < self._room < 1e6  # of numbers, ℓ'' is 1
        return (gram * (CURVATURE if classes else 1.0) for _ in range(self.n_scores))


class GradientLook(Look):
    """The sums of all parts at one w."""

    parts: GradientParts

    def hessian_blocks(self, mixture: Array, n_rows: int) -> Iterator[Array]:
        """Those of the columns' products."""
        return self.parts.blocks()

    def floor(self, mixture: Array) -> float:
        """No loss is below 0; more takes second derivatives, or γ > 0."""
        return 0.0

    def dual(
        self,
        mixture: Array,
        step: Array | None = None,
        scale: float = 1.0,
        spare: float = 0.0,
    ) -> Dual:
        """The line below Σ λ_k L_k that, of all made of those known, proves most here."""
        parts, shrinkage = self.parts, self.parts.shrinkage
        lines = [look._tangent(mixture, scale) for look in parts.looks]
        values, V = np.array([line.value for line in lines]), np.array([line.v for line in lines])
        E = np.array([line.error for line in lines])
        free = ~parts.penalized
        F = np.where(free, NARROW, 1 / np.sqrt(max(shrinkage.ridge(self.w), 1e-300))) * V
        heights = values + V @ np.where(free, 0.0, shrinkage.origin)
        theta = Simplex(len(lines)).minimize_quadratic(heights, F)
        rounding = (len(lines) + 2) * UNIT
        v, error = theta @ V, theta @ E + rounding * (theta @ np.abs(V))
        value = float(theta @ values) - rounding * float(theta @ np.abs(values))
        most = self._most_free(mixture, values, V, E)
        if most is None:
            return Dual(value, v, error)
        value -= float((np.abs(v) + error)[free] @ most)
        return Dual(value, np.where(free, 0.0, v), np.where(free, 0.0, error))

    def _most_free(self, mixture: Array, values: Array, V: Array, E: Array) -> Array | None:
        """How large intercepts can be where Φ is at most what it is here; None is no bound."""
        parts, shrinkage = self.parts, self.parts.shrinkage
        free, K = ~parts.penalized, parts.n_scores
        if not free.any():
            return np.zeros(0)
        at_most = 1.01 * (float(mixture @ self.losses) + shrinkage.value(self.w))
        gamma = shrinkage.gamma
        radius = np.sqrt(2 * at_most / gamma) if shrinkage.is_quadratic else at_most / gamma
        radius += float(np.linalg.norm(shrinkage.origin))
        room = at_most - values + radius * np.linalg.norm((np.abs(V) + E)[:, ~free], axis=1)
        slopes = V[:, free]
        seen = np.abs(slopes).max(axis=1) > 1e-6  # beside which E is nothing
        same, zero = (None, None) if K == 1 else (np.ones((1, K)), np.zeros(1))  # `Oracle.n_scores`
        most = []
        for k in range(K):
            ends = [
                linprog(-sign * np.eye(K)[k], slopes[seen], room[seen], same, zero, (None, None))
                for sign in (1, -1)
            ]
            if any(end.fun is None or end.status != 0 for end in ends):
                return None
            most.append(1.01 * max(-(end.fun or 0.0) for end in ends))
        return np.maximum(most, 0.0)
