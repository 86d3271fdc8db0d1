"""What a solver may ask of a problem: the one interface of rows here and rows far away.

The losses L_k of min_w max_{λ∈Λ} Φ(w, λ) are seen through an `Oracle`, which answers with sums over
rows: LinearDomains has the rows, Parts asks those who have them. All else of Φ is the `Objective`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.problem.duals import Dual

Array = NDArray[np.float64]

__all__ = ["Conditioned", "Here", "Oracle"]


class Here(Protocol):
    """All that solver and certificate ask about one point w: sums over rows, never the rows."""

    w: Array

    @property
    def losses(self) -> Array:
        """(L_1, …, L_p)."""
        ...

    def gradient(self, mixture: Array) -> Array:
        """∇ Σ λ_k L_k, (D,)."""
        ...

    def jacobian(self) -> Array:
        """Row k is ∇L_k, (p, D)."""
        ...

    def hessian(self, mixture: Array, n_rows: int | None = None) -> Array:
        """∇² Σ λ_k L_k, (D, D); from about n_rows rows where that is cheaper."""
        ...

    def hessian_vector(self, mixture: Array, v: Array) -> Array:
        """∇² Σ λ_k L_k · v, (D,)."""
        ...

    def hessian_diagonal(self, mixture: Array) -> Array:
        """The diagonal of the Hessian, (D,)."""
        ...

    def hessian_blocks(self, mixture: Array, n_rows: int) -> Iterator[Array]:
        """Its diagonal blocks, one a score; from about n_rows rows where that is cheaper."""
        ...

    def moved(self, step: Array, t: float = 1.0, mixture: Array | None = None) -> Here:
        """The same at w + t·step; the mixture is the one whose curvature will be asked for."""
        ...

    def dual(
        self,
        mixture: Array,
        step: Array | None = None,
        scale: float = 1.0,
        spare: float = 0.0,
    ) -> Dual:
        """A line below Σ λ_k L_k, tight near w + step; its error may be up to `spare` too large."""
        ...

    def steepness(self, loss: float) -> float:
        """At least Σ c_i |ℓ'_i| for a mixture whose loss here is so large."""
        ...

    def floor(self, mixture: Array) -> float:
        """A value that Σ λ_k L_k does not undercut anywhere."""
        ...


class Oracle(Protocol):
    """The problem as the solver sees it: rows in memory, clients of a federation, or workers."""

    sizes: Array  # m_k, (p,)

    @property
    def n_domains(self) -> int:
        """Number p of domains."""
        ...

    @property
    def n_parameters(self) -> int:
        """Length D of w."""
        ...

    @property
    def n_scores(self) -> int:
        """K; with K ≥ 2 no loss sees a vector that is added to all K blocks of w."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of rows that the sums are over."""
        ...

    @property
    def reference(self) -> Array:
        """m̄ = m_k/m, the mixture of the rows themselves, (p,)."""
        ...

    @property
    def penalized(self) -> NDArray[np.bool_]:
        """Which entries of w the regulariser sees, (D,)."""
        ...

    @property
    def loss_scale(self) -> float:
        """The unit of gaps, at most 1."""
        ...

    @property
    def reach(self) -> Array:
        """At least max_i |x_ij| of the column of each entry of w, (D,)."""
        ...

    @property
    def rounding(self) -> float:
        """The relative error that a sum over the rows may have."""
        ...

    @property
    def is_smooth(self) -> bool:
        """Whether the losses have curvature."""
        ...

    @property
    def dense_up_to(self) -> int:
        """The largest D for which a Hessian is worth its price in every step."""
        ...

    @property
    def hessian_up_to(self) -> int:
        """The largest D for which a Hessian may be asked for at all."""
        ...

    @property
    def has_blocks(self) -> bool:
        """Whether the blocks of a Hessian are cheap; if not, its diagonal must do."""
        ...

    @property
    def brings_curvature(self) -> bool:
        """Whether a Hessian comes with every answer, so that a Newton step costs no question."""
        ...

    def at(self, w: ArrayLike, mixture: Array | None = None) -> Here:
        """What is known about w; refuses what is no w.

        The mixture is the one whose curvature will be asked for.
        """
        ...

    def merged(self) -> Oracle:
        """The same losses from fewer rows, if that can be had."""
        ...

    def coarse(self) -> Oracle | None:
        """A smaller problem whose solution is a good start; None if that does not pay."""
        ...

    def conditioned(self) -> Conditioned | None:
        """The same problem in numbers that rounding does not spoil; None if it is fine."""
        ...


class Conditioned(Protocol):
    """An inner problem, and how its w and Φ relate to those of the outer one."""

    @property
    def problem(self) -> Oracle:
        """The inner problem."""
        ...

    @property
    def scale(self) -> float:
        """The outer w over the inner one; the losses are in units of its square."""
        ...

    def inward(self, w: Array) -> Array:
        """The inner w of an outer one."""
        ...

    def outward(self, w: Array) -> Array:
        """The outer w of an inner one."""
        ...
