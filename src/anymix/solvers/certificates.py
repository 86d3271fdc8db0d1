"""Proofs of optimality: an upper and a valid lower value of the agnostic objective.

min_w max_{λ∈Λ} Φ(w, λ),   Φ(w, λ) = Σ λ_k (L_k(w) − b_k) + γ R(w − a) − μ χ²(λ‖m̄) + log p_Λ(λ).

Upper value: max_λ Φ(ŵ, λ), exact by the set's own geometry. Lower value: a bound on min_w Φ(w, λ̂)
by Fenchel duality (`problem.duals`): no inner problem is solved and no curvature is trusted; poor
dual variables only make the bound looser, never wrong. A Newton step makes them good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf

from anymix.errors import InputError
from anymix.mixtures import MixtureSet, Point
from anymix.mixtures.best_response import newton_response
from anymix.mixtures.parsing import Mixtures
from anymix.objective import Objective, Parts, Phi, objective_of
from anymix.problem.oracle import Here, Oracle

Array = NDArray[np.float64]

__all__ = ["Certificate", "bracket", "certificate_at", "certify"]

AT_ROUNDING = 1e-12  # entries of λ up to it may as well be 0


@dataclass(frozen=True)
class Certificate:
    """lower ≤ min_w max_λ Φ ≤ upper: what the model reaches, and what no model can beat.

    Parameters
    ----------
    upper : float
        What the model reaches: max_λ Φ(w, λ).
    lower : float
        What no model can beat.

    Examples
    --------
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


def sharper_lower(
    problem: Oracle,
    objective: Phi,
    here: Here,
    mixture: Array,
) -> float:
    """The lower value after a Newton step for this mixture: from its dual, or from its end."""
    step = newton_step(objective, here, mixture)
    if objective.gamma > 0:
        return objective.lower(here, mixture, step)
    there = problem.at(here.w + step, mixture)  # not moved: the proof is of the scores of this w
    return objective.lower(there, mixture)


def without_rounding(mixtures: MixtureSet, mixture: Array) -> Array | None:
    """λ with 0 for entries at rounding; None if Λ has no such λ.

    Where nothing penalises w, a domain that weighs next to nothing asks for a w of its own.
    """
    cut = np.where(mixture > AT_ROUNDING, mixture, 0.0)
    if np.count_nonzero(cut) in (0, np.count_nonzero(mixture)):
        return None
    cut /= cut.sum()  # not projected, which would make entries of rounding again
    return cut if mixtures.contains(cut, tol=1e-15) else None


def newton_step(objective: Phi, here: Here, mixture: Array) -> Array:
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
    if not np.all(diagonal):
        hessian = hessian + np.diag(np.where(diagonal == 0, 1.0, 0.0))
        diagonal = np.einsum("ii->i", hessian)
    if not np.all(np.isfinite(diagonal)):
        raise InputError("X", "has entries whose squares overflow", "rescale the features")
    for epsilon in (0.0, 1e-13, 1e-11, 1e-9, 1e-7, 1e-4, 1e-1):
        damped = hessian + np.diag(epsilon * diagonal) if epsilon else hessian
        factor, failed = dpotrf(damped, lower=1)  # LAPACK itself: small ones are asked for often
        if not failed:
            return factor, True
    return np.diag(np.sqrt(np.abs(diagonal))), True  # a matrix of rounding only: its scale is left


def bracket(upper: float, lower: float, slack: float) -> Certificate:
    """The certificate; values that cross by less than rounding may explain, `slack`, are equal."""
    return Certificate(float(upper), float(upper if 0 < lower - upper <= slack else lower))


def certificate_at(objective: Phi, here: Here, lower: float) -> Certificate:
    """What the w looked at reaches, and a lower value."""
    upper = objective.upper(here)
    return bracket(upper, lower, objective.doubt(here) if lower > upper else 0.0)


def certify(
    problem: Oracle,
    mixtures: Objective | Mixtures,
    w: ArrayLike,
    mixture: ArrayLike,
    **parts: Unpack[Parts],
) -> Certificate:
    """lower ≤ min_w max_{λ∈Λ} Φ(w, λ) ≤ upper, from any model w and any mixture in Λ.

    The upper value is what w reaches; the lower one holds for every model, so the gap says how
    much a better one could gain. Valid however far w and the mixture are from optimal.

    Parameters
    ----------
    problem : Oracle
        LinearDomains, or any oracle of the same sums (clients, workers).
    mixtures : Objective, MixtureSet, function, str or None
        Φ; or Λ alone, and the rest by name.
    w : array-like of shape (D,)
        The model.
    mixture : array-like of shape (p,)
        The λ in Λ that proves the lower value.
    **parts : Any
        Parts of an `Objective` by name: gamma (1e-3), mu, norm, prior, ...; not beside one. With
        w_radius the model is compared with models of at most this length only: with γ = 0 there may
        be no best model, and without w_radius the lower value is then tight only near the optimum.

    Returns
    -------
    Certificate
        The two values.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> X, y, d = np.zeros((4, 1)), [1, 1, 0, 1], ["a", "a", "b", "b"]
    >>> problem = ax.LinearDomains(X, y, d)
    >>> ax.certify(problem, ax.Simplex(2), [0.0, 0.0], [0.0, 1.0], gamma=0.0).gap < 1e-9
    True
    """
    objective = objective_of(mixtures, parts)
    phi = replace(objective, multiplicative=False).on(problem)
    lam = np.asarray(mixture, dtype=np.float64)
    if lam.shape != (problem.n_domains,) or not phi.mixtures.contains(lam, tol=1e-8):
        raise InputError("mixture", f"is not in {phi.mixtures!r}", "project it first")
    lam = phi.mixtures.project(lam)  # the proof is for a member, not for one up to rounding
    here = problem.at(w)
    length = float(np.linalg.norm(here.w))
    if phi.w_radius is not None and length > phi.w_radius * (1 + 1e-12):
        found = f"has length {length} but w_radius is {phi.w_radius}"
        raise InputError("w", found, "shorten w first")
    if objective.multiplicative:
        return certificate_of_product(problem, objective, here, lam)
    return _certificate(problem, phi, here, lam)


def certificate_of_product(
    problem: Oracle, objective: Objective, here: Here, mixture: Array
) -> Certificate:
    """The same for max_λ p(λ) Σ_k λ_k L_k(w) + γR(w − a), with p a prior that multiplies.

    At a fixed λ, with π = p(λ), the product is π (Σ_k λ_k L_k + (γ/π) R): π times what is proved of
    an ordinary objective bounds it from below.
    """
    phi = replace(objective, multiplicative=False).on(problem)
    upper = largest_product(phi, here.losses) + phi.regularizer(here.w)
    density = math.exp(-phi.penalty.value(mixture))
    at_mixture = replace(
        objective,
        mixtures=Point(mixture),
        gamma=objective.gamma / density,
        prior=None,
        multiplicative=False,
        robustness=1.0,
    )
    lower = density * _certificate(problem, at_mixture.on(problem), here, mixture).lower
    return bracket(upper, lower, 1e-9 * abs(upper))


def largest_product(phi: Phi, losses: Array) -> float:
    """max_{λ∈Λ} p(λ) ⟨λ, L⟩: the maximum of the concave log p + log ⟨λ, L⟩."""
    prior, mixtures = phi.penalty, phi.mixtures

    def value(lam: Array) -> float:
        mean = float(lam @ losses)
        return prior.value(lam) - math.log(mean) if mean > 0 else math.inf

    def gradient(lam: Array) -> Array:
        return prior.gradient(lam) - losses / float(lam @ losses)

    def curvature(lam: Array) -> tuple[Array, Array]:
        return (losses / float(lam @ losses))[:, None], prior.hessian(lam)

    nothing = np.zeros(len(losses))
    lam = newton_response(mixtures, nothing, value, gradient, curvature)
    g = -gradient(lam)
    left = max(float(g @ (mixtures.maximize(g) - lam)), 0.0)  # by concavity at most so much more
    return math.exp(left - value(lam))


def _certificate(problem: Oracle, phi: Phi, here: Here, mixture: Array) -> Certificate:
    """What the w looked at reaches, and the best lower value that can be had near it."""
    inside = problem.conditioned()
    if inside is None:
        return certificate_at(phi, here, _lower(problem, phi, here, mixture))
    unit, lower = inside.scale * inside.scale, -np.inf
    if phi.w_radius is not None:  # the ball is one of these w, not of the inner ones
        lower = _lower(problem, phi, here, mixture) / unit
    inner, here = phi.inside(inside), inside.problem.at(inside.inward(here.w))
    lower = max(lower, _lower(inside.problem, inner, here, mixture))
    found = certificate_at(inner, here, lower)
    return Certificate(found.upper * unit, found.lower * unit)


def _lower(problem: Oracle, phi: Phi, here: Here, mixture: Array) -> float:
    """The best of the lower values that can be had near w."""
    lower = phi.lower(here, mixture)
    if problem.is_smooth and problem.n_parameters <= problem.hessian_up_to:
        lower = max(lower, sharper_lower(problem, phi, here, mixture))
        cut = without_rounding(phi.mixtures, mixture) if phi.gamma == 0 else None
        if cut is not None:
            lower = max(lower, sharper_lower(problem, phi, here, cut))
    elif problem.is_smooth and phi.gamma > 0:  # far away, no step says nothing of intercepts
        lower = max(lower, phi.lower(here, mixture, np.zeros(len(here.w))))
    return lower
