"""Φ, and what a solver may ask of a problem: the one interface of rows here and rows far away.

min_w max_{λ∈Λ} Φ(w, λ),   Φ(w, λ) = Σ λ_k (L_k(w) − b_k) + γ R(w − a) − μ χ²(λ‖m̄) + log p_Λ(λ).

The solvers see the losses L_k through an `Oracle`, which answers with sums over rows: LinearDomains
has the rows, Parts asks those who have them. All else of Φ is the `Objective`: the set Λ, the
regulariser, the penalty on λ, the offsets b; and two values, what w reaches (`upper`) and what no
w can undercut (`lower`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError, finite_number
from anymix.mixtures import MixtureSet, Simplex
from anymix.mixtures.penalties import Penalty, penalty_on_mixtures
from anymix.problem.duals import Dual
from anymix.problem.regularizers import Regularizer, regularizer_of

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
NEARLY = (1 - 1e-13, 1 - 1e-11, 1 - 1e-9)  # by which slopes are shrunk to give them room

__all__ = ["Conditioned", "Here", "Objective", "Oracle", "checked_set"]


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


@dataclass(frozen=True)
class Objective:
    """Φ(w, λ) without its losses.

    Parameters
    ----------
    mixtures : MixtureSet
        The set Λ.
    shrinkage : Regularizer
        γR(w − a).
    penalty : Penalty
        What λ pays: μ χ²(λ‖m̄), −log p_Λ(λ), or nothing.
    offsets : ndarray of shape (p,)
        The b_k.
    rounding : float
        The relative error of a sum over the rows.
    reach : function
        () -> ndarray of shape (D,), as in Oracle: asked for only where it matters, for it takes a
        pass over all rows.
    """

    mixtures: MixtureSet
    shrinkage: Regularizer
    penalty: Penalty
    offsets: Array
    rounding: float = 0.0
    reach: Callable[[], Array] = lambda: np.zeros(1)

    @staticmethod
    def of(
        problem: Oracle,
        mixtures: MixtureSet | None,
        gamma: float,
        mu: float,
        norm: str,
        offsets: ArrayLike | None,
        prior: Penalty | None,
        anchor: ArrayLike | None = None,
    ) -> Objective:
        """The checked objective of a problem; the arguments are those of `solve`."""
        mixtures = checked_set(mixtures, problem.n_domains)
        gamma = finite_number("gamma", gamma, "give a finite number ≥ 0", lambda x: x >= 0)
        shrinkage = regularizer_of(norm, gamma, problem.penalized, anchor)
        penalty = penalty_on_mixtures(mu, problem.sizes, prior)
        b = _checked_offsets(offsets, problem.n_domains)
        reach = lambda: problem.reach  # noqa: E731 - a pass over all rows, made only if asked for
        return Objective(mixtures, shrinkage, penalty, b, problem.rounding, reach)

    def inside(self, inner: Conditioned) -> Objective:
        """Φ of the inner problem, which is this one over scale²."""
        unit = inner.scale * inner.scale
        return replace(
            self,
            shrinkage=self.shrinkage.in_units(inner.scale),
            penalty=self.penalty.times(1 / unit),
            offsets=self.offsets / unit,
            rounding=inner.problem.rounding,
            reach=lambda: inner.problem.reach,
        )

    def smoothed(self, error: float) -> Objective:
        """Φ with derivatives everywhere, off by about so much."""
        return replace(self, shrinkage=self.shrinkage.smoothed(error))

    @property
    def gamma(self) -> float:
        """The weight γ of the regulariser."""
        return self.shrinkage.gamma

    @property
    def norm(self) -> str:
        """The name of the regulariser, as `solve` takes it."""
        return self.shrinkage.name

    @property
    def mu(self) -> float:
        """The weight μ of the χ² penalty; 0 where λ pays nothing, or by a prior."""
        return self.penalty.mu

    # -- the maximising player -----------------------------------------------------------------

    def best_response(self, losses: Array) -> Array:
        """argmax_{λ∈Λ} Σ λ_k (L_k − b_k) − penalty(λ), exact."""
        return self.penalty.best_response(self.mixtures, losses - self.offsets)

    def mixture_value(self, losses: Array, mixture: Array) -> float:
        """Σ λ_k (L_k − b_k) − penalty(λ)."""
        return float(mixture @ (losses - self.offsets)) - self.penalty.value(mixture)

    def worst_value(self, losses: Array) -> float:
        """max over λ of `mixture_value`."""
        return self.mixture_value(losses, self.best_response(losses))

    # -- the regulariser -----------------------------------------------------------------------

    def regularizer(self, w: Array) -> float:
        """γR(w − a)."""
        return self.shrinkage.value(w)

    def regularizer_gradient(self, w: Array) -> Array:
        """γ∇R(w − a), (D,)."""
        return self.shrinkage.gradient(w)

    def add_regularizer_hessian(self, w: Array, hessian: Array) -> None:
        """hessian += γ∇²R(w − a)."""
        self.shrinkage.add_hessian(w, hessian)

    # -- the two values ------------------------------------------------------------------------

    def resolution(self, here: Here, upper: float, tol: float = 0.0) -> float:
        """How well rounding lets Φ be known at w, up to 1e-10 of it: gaps below mean nothing.

        At least tol: no gap below that is asked for.
        """
        slope, size = here.steepness(float(here.losses.max())), abs(upper)
        if tol >= 1e-10 * size:
            return tol
        known = self.rounding * (size + slope * float(np.abs(here.w) @ self.reach()))
        return max(tol, min(1e-13 * size + 4 * known, 1e-10 * size))

    def doubt(self, here: Here) -> float:
        """What rounding may have done to `upper`."""
        lam, largest = self.best_response(here.losses), float(here.losses.max())
        size = largest + self._size_of_nothing(lam) + self.regularizer(here.w)
        scores = float(np.abs(here.w) @ self.reach())
        return 4 * self.rounding * (size + here.steepness(largest) * scores)

    def upper(self, here: Here) -> float:
        """max_λ Φ(w, λ)."""
        return self.worst_value(here.losses) + self.regularizer(here.w)

    def lower(
        self,
        here: Here,
        mixture: Array,
        step: Array | None = None,
        w_radius: float | None = None,
        spare: float = 0.0,
    ) -> float:
        """A value that Φ(w, mixture) does not undercut for any w (or any ‖w‖ ≤ w_radius).

        With γ = 0 and no w_radius it is tight near a minimum only, and elsewhere says Φ ≥ 0.
        For γ > 0 it may be lower by about `spare` than what could be proved, if that is cheaper.
        """
        bound = 0.0  # every loss is ≥ 0, and so is R
        if w_radius is not None:
            dual = here.dual(mixture, step)
            longest = float(np.linalg.norm(np.abs(dual.v) + dual.error))
            bound = max(bound, dual.value - w_radius * longest)
            bound = max(bound, self._tangent(here, mixture, w_radius))
        if self.gamma > 0:
            bound = max(bound, self._penalized_lower(here, mixture, step, spare))
        else:
            bound = max(bound, here.floor(mixture))
        return bound + self._value_of_nothing(mixture) - 4 * EPS * bound

    def _value_of_nothing(self, mixture: Array) -> float:
        """What λ gains where all losses are 0, less what rounding may have added."""
        value = self.mixture_value(np.zeros(len(mixture)), mixture)
        return value - 8 * EPS * self._size_of_nothing(mixture)

    def _size_of_nothing(self, mixture: Array) -> float:
        """The size of its terms, and what λ's own rounding does to the penalty."""
        some = np.flatnonzero(mixture)
        slope = float(mixture[some] @ np.abs(self.penalty.gradient(mixture)[some]))
        return float(mixture @ np.abs(self.offsets)) + abs(self.penalty.value(mixture)) + slope

    def _penalized_lower(
        self, here: Here, mixture: Array, step: Array | None, spare: float
    ) -> float:
        """The same for γ > 0 from the dual, shrunk where there is no bound for it as it is.

        R may ask for a shorter v. And far out every slope is at the end of what ℓ* takes, so that
        none can take up what rounding leaves of the intercepts: a little inside there is room.
        """
        slack = self.shrinkage.slack(here.w, spare)
        dual = here.dual(mixture, step, 1.0, slack)
        bound = self.shrinkage.least(dual)
        for scale in chain(self.shrinkage.scales(dual), () if bound > -math.inf else NEARLY):
            shrunk = self.shrinkage.least(here.dual(mixture, step, scale, slack))
            if shrunk > -math.inf:
                return max(bound, shrunk)
        return bound

    def _tangent(self, here: Here, mixture: Array, w_radius: float) -> float:
        """min over ‖u‖ ≤ w_radius of Σ λ_k L_k + γR made linear at w: tight if the ball binds."""
        r = self.regularizer_gradient(here.w)
        g, loss = here.gradient(mixture) + r, float(mixture @ here.losses)
        value = loss + self.regularizer(here.w)
        slope = here.steepness(loss) * self.reach()
        error = self.rounding * (slope + np.abs(g) + np.abs(r))
        value -= self.rounding * value + 2 * float(error @ np.abs(here.w))
        return value - float(g @ here.w) - w_radius * float(np.linalg.norm(np.abs(g) + error))


def checked_set(mixtures: MixtureSet | None, p: int) -> MixtureSet:
    """Λ over p domains: the set given, or the simplex for None; anything else is refused."""
    if mixtures is None:
        return Simplex(p)
    if not isinstance(mixtures, MixtureSet):
        fix = f"give a mixture set such as Simplex({p}) or None"
        raise InputError("mixtures", f"is {mixtures!r}", fix)
    if mixtures.n_domains != p:
        found = f"is over {mixtures.n_domains} domains but the data have {p}"
        raise InputError("mixtures", found, "build the set with the data's number of domains")
    return mixtures


def _checked_offsets(offsets: ArrayLike | None, p: int) -> Array:
    b = np.zeros(p) if offsets is None else np.asarray(offsets)
    if b.shape != (p,) or b.dtype.kind not in "fiub" or not np.all(np.isfinite(b)):
        found = f"is {b} of shape {b.shape}"
        raise InputError("offsets", found, f"give {p} finite numbers, one a domain")
    return b.astype(np.float64)
