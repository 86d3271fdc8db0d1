"""Proofs of optimality: an upper and a valid lower value of the agnostic objective.

min_w max_{λ∈Λ} Φ(w, λ),   Φ(w, λ) = Σ λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄) + log p_Λ(λ).

Upper value: max_λ Φ(ŵ, λ), exact by the set's own geometry. Lower value: a bound on min_w Φ(w, λ̂)
by Fenchel duality. For any dual variables α_i, with c_i = Σ_k λ_k a_ki the weight of row i,

    Σ c_i ℓ(z_i(w)) ≥ −Σ c_i ℓ*(α_i) + ⟨v, w⟩,   v = Σ c_i α_i (x_i, 1),   for every w,

and the minimum over w of ⟨v, w⟩ + γ R(w) is known in closed form. No inner problem is solved and no
curvature is trusted: a poor α only makes the bound looser, never wrong.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from anymix.mixtures.penalties import Chi2Penalty, DirichletPrior
from anymix.mixtures.sets import MixtureSet, Simplex
from anymix.problem.duals import Dual
from anymix.problem.linear import LinearDomains
from anymix.solvers.conditioning import conditioned

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)

__all__ = ["Certificate", "Objective", "certify"]


class Here(Protocol):
    """All that solver and certificate ask about one point w: sums over rows, never the rows."""

    w: Array
    losses: Array

    def gradient(self, mixture: Array) -> Array: ...
    def jacobian(self) -> Array: ...
    def hessian(self, mixture: Array, n_rows: int | None = None) -> Array: ...
    def moved(self, step: Array, t: float = 1.0, mixture: Array | None = None) -> Here: ...
    def dual(self, mixture: Array, step: Array | None = None, scale: float = 1.0) -> Dual: ...
    def floor(self, mixture: Array) -> float: ...


class Oracle(Protocol):
    """The problem as the solver sees it: local rows, clients of a federation, or workers."""

    sizes: Array

    @property
    def n_domains(self) -> int: ...
    @property
    def n_parameters(self) -> int: ...
    @property
    def penalized(self) -> NDArray[np.bool_]: ...
    @property
    def loss_scale(self) -> float: ...
    @property
    def reach(self) -> Array: ...  # at least max_i |x_ij| of each parameter's column
    @property
    def rounding(self) -> float: ...  # relative error that a sum over the rows may have
    def at(self, w: ArrayLike) -> Here: ...


@dataclass(frozen=True)
class Certificate:
    """lower ≤ min_w max_λ Φ ≤ upper: what the model reaches, and what no model can beat.

    >>> print(Certificate(upper=0.693148, lower=0.693147))
    agnostic objective 0.693148, no model below 0.693147 (gap 1.0e-06)
    """

    upper: float
    lower: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ValueError(
                f"lower is {self.lower!r} and upper {self.upper!r}; no model can be better than "
                "what none can beat: one of the two is wrong"
            )

    @property
    def gap(self) -> float:
        """upper − lower."""
        return self.upper - self.lower

    def __str__(self) -> str:
        return (
            f"agnostic objective {self.upper:.6g}, no model below {self.lower:.6g} "
            f"(gap {self.gap:.1e})"
        )


@dataclass(frozen=True)
class Objective:
    """Φ(w, λ) without its losses: the set Λ, the regulariser γR, the penalty on λ, the offsets."""

    mixtures: MixtureSet
    sizes: Array
    penalized: NDArray[np.bool_]
    gamma: float
    mu: float
    norm: str
    offsets: Array
    prior: DirichletPrior | None = None
    rounding: float = 0.0  # relative error of a sum over the rows
    reach: Array = field(default_factory=lambda: np.zeros(1))  # (D,), as in Oracle
    smoothing: float = 0.0  # of the plain norm: √(‖w‖² + smoothing²)
    chi2: Chi2Penalty = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "chi2", Chi2Penalty(self.mu, self.sizes))

    @staticmethod
    def of(
        problem: Oracle,
        mixtures: MixtureSet | None,
        gamma: float,
        mu: float,
        norm: str,
        offsets: ArrayLike | None,
        prior: DirichletPrior | None,
    ) -> Objective:
        """The checked objective of a problem."""
        p = problem.n_domains
        mixtures = Simplex(p) if mixtures is None else mixtures
        if not isinstance(mixtures, MixtureSet):
            raise ValueError(
                f"mixtures is {mixtures!r}; give a mixture set such as Simplex({p}) or None"
            )
        if mixtures.n_domains != p:
            raise ValueError(
                f"mixtures is over {mixtures.n_domains} domains but the data have {p}; "
                "build the set with the data's number of domains"
            )
        for name, value in (("gamma", gamma), ("mu", mu)):
            if not (isinstance(value, Real) and math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value!r}; give a finite number ≥ 0")
        if norm not in ("squared", "plain"):
            raise ValueError(f"norm is {norm!r}; give 'squared' (½‖w‖²) or 'plain' (‖w‖)")
        if prior is not None and mu > 0:
            raise ValueError("mu and prior are both given; penalise λ by one of them")
        b = np.zeros(p) if offsets is None else np.asarray(offsets)
        if b.shape != (p,) or b.dtype.kind not in "fiub" or not np.all(np.isfinite(b)):
            raise ValueError(
                f"offsets is {b} of shape {b.shape}; give {p} finite numbers, one a domain"
            )
        sizes, penalized = problem.sizes, problem.penalized
        b, gamma, mu = b.astype(np.float64), float(gamma), float(mu)
        known = problem.rounding, problem.reach
        return Objective(mixtures, sizes, penalized, gamma, mu, norm, b, prior, *known)

    # -- the maximising player -----------------------------------------------------------------

    def best_response(self, losses: Array) -> Array:
        """argmax_{λ∈Λ} Σ λ_k (L_k − b_k) − penalty(λ), exact."""
        if self.prior is not None:
            return self.prior.best_response(self.mixtures, losses - self.offsets)
        return self.chi2.best_response(self.mixtures, losses - self.offsets)

    def mixture_value(self, losses: Array, mixture: Array) -> float:
        """Σ λ_k (L_k − b_k) − penalty(λ)."""
        value = float(mixture @ (losses - self.offsets)) - self.chi2.value(mixture)
        return value if self.prior is None else value - self.prior.value(mixture)

    def worst_value(self, losses: Array) -> float:
        """max over λ of `mixture_value`."""
        return self.mixture_value(losses, self.best_response(losses))

    # -- the regulariser -----------------------------------------------------------------------

    def regularizer(self, w: Array) -> float:
        """γ R(w)."""
        u = w[self.penalized]
        if self.norm == "squared":
            return 0.5 * self.gamma * float(u @ u)
        return self.gamma * float(np.linalg.norm(u))

    def regularizer_gradient(self, w: Array) -> Array:
        """γ ∇R(w); of √(‖w‖² + smoothing²) for the plain norm."""
        u = np.where(self.penalized, w, 0.0)
        return self.gamma * (u if self.norm == "squared" else u / self._length(u))

    def add_regularizer_hessian(self, w: Array, hessian: Array) -> None:
        """hessian += γ ∇²R(w)."""
        weight, u = self.gamma, np.where(self.penalized, w, 0.0)
        if self.norm == "plain":
            weight /= self._length(u)
            u = u / self._length(u)
            hessian -= weight * np.outer(u, u)
        diagonal = np.einsum("ii->i", hessian)
        diagonal[self.penalized] += weight

    def _length(self, u: Array) -> float:
        return max(math.hypot(float(np.linalg.norm(u)), self.smoothing), 1e-300)

    def resolution(self, here: Here, upper: float) -> float:
        """How well rounding lets Φ be known at w, up to 1e-10 of it: gaps below mean nothing."""
        slope, size = math.sqrt(2 * max(float(here.losses.max()), 0.0)), abs(upper)
        known = self.rounding * (size + slope * float(np.abs(here.w) @ self.reach))
        return min(1e-13 * size + 4 * known, 1e-10 * size)

    # -- the two values ------------------------------------------------------------------------

    def upper(self, here: Here) -> float:
        """max_λ Φ(w, λ)."""
        return self.worst_value(here.losses) + self.regularizer(here.w)

    def lower(
        self,
        here: Here,
        mixture: Array,
        step: Array | None = None,
        w_radius: float | None = None,
    ) -> float:
        """A value that Φ(w, mixture) does not undercut for any w (or any ‖w‖ ≤ w_radius).

        With γ = 0 and no w_radius it is tight near a minimum only, and elsewhere says Φ ≥ 0.
        """
        bound = 0.0  # every loss is ≥ 0, and so is R
        if w_radius is not None:
            dual = here.dual(mixture, step)
            longest = float(np.linalg.norm(np.abs(dual.v) + dual.error))
            bound = max(bound, dual.value - w_radius * longest)
            bound = max(bound, self._tangent(here, mixture, w_radius))
        if self.gamma > 0:
            bound = max(bound, self._penalized_lower(here, mixture, step))
        else:
            bound = max(bound, here.floor(mixture))
        return bound + self._value_of_nothing(mixture) - 4 * EPS * bound

    def _value_of_nothing(self, mixture: Array) -> float:
        """What λ gains where all losses are 0, less what rounding may have added."""
        value = self.mixture_value(np.zeros(len(mixture)), mixture)
        size = float(mixture @ np.abs(self.offsets)) + abs(value)
        return value - 8 * EPS * size

    def _penalized_lower(self, here: Here, mixture: Array, step: Array | None) -> float:
        """The same for γ > 0 from the dual; ‖w‖ needs ‖v‖ ≤ γ, in spite of rounding."""
        dual = here.dual(mixture, step)
        bound = self._least(dual)
        if self.norm == "plain" and self._length_of(dual) > self.gamma:
            v, error = (np.linalg.norm(a[self.penalized]) for a in (dual.v, dual.error))
            shrink = max(self.gamma - float(error), 0.0) / float(v)
            for slack in (1e-15, 1e-12, 1e-9, 1e-6, 1e-3):
                dual = here.dual(mixture, step, (1 - slack) * shrink)
                shrunk = self._least(dual)
                if shrunk > -math.inf:
                    return max(bound, shrunk)
        return bound

    def _least(self, dual: Dual) -> float:
        """value + min over w of ⟨v, w⟩ + γ R(w), for the worst v within its error.

        −∞ if anything is left of v where w is not penalised: there w could go on for ever.
        """
        free = ~self.penalized
        if np.any(dual.v[free]) or np.any(dual.error[free]):
            return -math.inf
        length = self._length_of(dual)
        if self.norm == "squared":
            return dual.value - length**2 / (2 * self.gamma) * (1 + 1e-14)
        return dual.value if length <= self.gamma else -math.inf

    def _length_of(self, dual: Dual) -> float:
        return float(np.linalg.norm((np.abs(dual.v) + dual.error)[self.penalized]))

    def _tangent(self, here: Here, mixture: Array, w_radius: float) -> float:
        """min over ‖u‖ ≤ w_radius of Σ λ_k L_k + γR made linear at w: tight if the ball binds."""
        g = here.gradient(mixture) + self.regularizer_gradient(here.w)
        loss = float(mixture @ here.losses)
        value = loss + self.regularizer(here.w)
        error = self.rounding * (math.sqrt(2 * max(loss, 0.0)) * self.reach + np.abs(g))
        value -= self.rounding * value + 2 * float(error @ np.abs(here.w))
        return value - float(g @ here.w) - w_radius * float(np.linalg.norm(np.abs(g) + error))


def sharper_lower(
    objective: Objective, here: Here, mixture: Array, w_radius: float | None = None
) -> float:
    """The lower value after a Newton step for this mixture: from its dual, or from its end."""
    step = newton_step(objective, here, mixture)
    if objective.gamma > 0:
        return objective.lower(here, mixture, step, w_radius)
    return objective.lower(here.moved(step, 1.0, mixture), mixture, None, w_radius)


def newton_step(objective: Objective, here: Here, mixture: Array) -> Array:
    """−∇²Φ⁻¹∇Φ at (w, λ), refined so that its residual is at rounding level."""
    hessian = here.hessian(mixture)
    objective.add_regularizer_hessian(here.w, hessian)
    gradient = here.gradient(mixture) + objective.regularizer_gradient(here.w)
    solve = damped_solver(hessian)
    step = np.zeros_like(gradient)
    for _ in range(5):
        better = step - solve(gradient + hessian @ step)
        if not np.all(np.isfinite(better)):  # far out, where no curvature is left
            break
        step = better
    return step


def damped_solver(hessian: Array) -> Any:
    """x ↦ (H + ε diag H)⁻¹ x with the least ε ≥ 0 that makes the matrix positive definite."""
    factor = damped_cholesky(hessian)
    return lambda x: cho_solve(factor, x, check_finite=False)


def damped_cholesky(hessian: Array) -> tuple[Array, bool]:
    """Lower Cholesky factor of H + ε diag H, ε growing from 0 until it exists.

    A zero on the diagonal belongs to a row of zeros, which any positive number there leaves alone.
    """
    diagonal = np.einsum("ii->i", hessian)
    hessian = hessian + np.diag(np.where(diagonal == 0, 1.0, 0.0))
    diagonal = np.einsum("ii->i", hessian).copy()
    if not np.all(np.isfinite(diagonal)):
        raise ValueError("X has entries whose squares overflow; rescale the features")
    for epsilon in (0.0, 1e-13, 1e-11, 1e-9, 1e-7, 1e-4, 1e-1):
        with suppress(np.linalg.LinAlgError):
            return cho_factor(hessian + np.diag(epsilon * diagonal), lower=True, check_finite=False)
    return np.diag(np.sqrt(np.abs(diagonal))), True  # a matrix of rounding only: its scale is left


def bracket(upper: float, lower: float, slack: float) -> Certificate:
    """The certificate; values that cross by less than rounding may explain, `slack`, are equal."""
    return Certificate(float(upper), float(upper if 0 < lower - upper <= slack else lower))


def certify(
    problem: Oracle,
    mixtures: MixtureSet | None,
    w: ArrayLike,
    mixture: ArrayLike,
    gamma: float = 1e-3,
    mu: float = 0.0,
    *,
    norm: str = "squared",
    offsets: ArrayLike | None = None,
    prior: DirichletPrior | None = None,
    w_radius: float | None = None,
) -> Certificate:
    """lower ≤ min_w max_{λ∈Λ} Φ(w, λ) ≤ upper, from any model w and any mixture in Λ.

    The upper value is what w reaches; the lower one holds for every model, so the gap says how
    much a better one could gain. Valid however far w and the mixture are from optimal.

    With γ = 0 there may be no best model; give `w_radius` to compare with models of that length
    only, or expect the lower value to be tight only close to the optimum.

    >>> import numpy as np
    >>> import anymix as ax
    >>> X, y, d = np.zeros((4, 1)), [1, 1, 0, 1], ["a", "a", "b", "b"]
    >>> problem = ax.LinearDomains(X, y, d)
    >>> ax.certify(problem, ax.Simplex(2), [0.0, 0.0], [0.0, 1.0], gamma=0.0).gap < 1e-9
    True
    """
    objective = Objective.of(problem, mixtures, gamma, mu, norm, offsets, prior)
    lam = np.asarray(mixture, dtype=np.float64)
    if lam.shape != (problem.n_domains,) or not objective.mixtures.contains(lam, tol=1e-8):
        raise ValueError(f"mixture is not in {objective.mixtures!r}; project it first")
    lam = objective.mixtures.project(lam)  # the proof is for a member, not for one up to rounding
    inside = conditioned(problem) if w_radius is None else None
    if inside is None:
        return _certificate(problem, objective, problem.at(w), lam, w_radius)
    o, w = objective, problem.at(w).w
    options = inside.options(o.gamma, o.mu, o.norm, o.offsets, o.prior)
    inner = Objective.of(inside.problem, o.mixtures, *options)
    here = inside.problem.at(inside.inward(w))
    found = _certificate(inside.problem, inner, here, lam, None)
    return Certificate(found.upper * inside.unit, found.lower * inside.unit)


def _certificate(
    problem: Oracle, objective: Objective, here: Here, mixture: Array, w_radius: float | None
) -> Certificate:
    if w_radius is not None and not (isinstance(w_radius, Real) and w_radius >= 0):
        raise ValueError(f"w_radius is {w_radius!r}; give a number ≥ 0, or None for all models")
    if w_radius is not None and np.linalg.norm(here.w) > w_radius * (1 + 1e-12):
        raise ValueError(
            f"w has length {np.linalg.norm(here.w)} but w_radius is {w_radius}; shorten w first"
        )
    lower = objective.lower(here, mixture, None, w_radius)
    smooth = not isinstance(problem, LinearDomains) or problem.loss.is_smooth
    if smooth and problem.n_parameters <= 3000:
        lower = max(lower, sharper_lower(objective, here, mixture, w_radius))
    upper = objective.upper(here)
    return bracket(upper, lower, objective.resolution(here, upper))
