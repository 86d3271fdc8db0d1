"""What theory promises, as numbers: the step sizes and the rate of Theorem 2.

With ‖w‖ ≤ R_W, ‖λ‖ ≤ R_Λ, gradients of lengths at most G_w and G_λ, and variances of the
stochastic gradients at most σ_w² and σ_λ², T steps of Stochastic-AFL of sizes

    γ_w = 2R_W / √(T(σ_w² + G_w²)),   γ_λ = 2R_Λ / √(T(σ_λ² + G_λ²))

give averages whose expected gap, E[max_λ Φ(w^A, λ)] − min_{‖w‖≤R_W} max_λ Φ(w, λ), is at most

    3R_W √(σ_w² + G_w²) / √T + 3R_Λ √(σ_λ² + G_λ²) / √T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError, finite_number
from anymix.mixtures import Chi2Penalty, MixtureSet
from anymix.mixtures.parsing import Mixtures
from anymix.objective import Objective, Parts, objective_of, refuse_parts
from anymix.problem.linear import LinearDomains, squared_lengths
from anymix.solvers.samplers import (
    EveryDomain,
    FullBatch,
    MixtureSampler,
    ModelSampler,
    PerDomain,
    UniformDomain,
    Weighted,
    companion,
)

Array = NDArray[np.float64]

__all__ = ["Constants", "constants", "convergence", "step_sizes", "steps_needed"]


@dataclass(frozen=True)
class Constants:
    """The numbers in Theorem 2; each is an upper bound over ‖w‖ ≤ R_W and λ ∈ Λ.

    Attributes
    ----------
    R_w, R_mixture : float
        R_W and R_Λ, the largest ‖w‖₂ and ‖λ‖₂.
    G_w, G_mixture : float
        G_w and G_λ, the largest lengths of the full gradients in w and in λ.
    sigma_w, sigma_mixture : float
        σ_w and σ_λ, the largest standard deviations of the stochastic gradients.
    M : float
        The largest loss of a row.

    Examples
    --------
    >>> c = Constants(R_w=5.0, R_mixture=1.0, G_w=3.0, G_mixture=3.0, sigma_w=4.0,
    ...               sigma_mixture=4.0, M=1.0)
    >>> convergence(c, n_steps=400)
    4.5
    """

    R_w: float
    R_mixture: float
    G_w: float
    G_mixture: float
    sigma_w: float
    sigma_mixture: float
    M: float


def step_sizes(constants: Constants, n_steps: int) -> tuple[float, float]:
    """γ_w = 2R_W / √(T(σ_w² + G_w²)) and γ_λ = 2R_Λ / √(T(σ_λ² + G_λ²)): the steps of Theorem 2.

    Parameters
    ----------
    constants : Constants
        R, G and σ of both players, as `constants` finds them.
    n_steps : int
        T, how many steps will be taken.

    Returns
    -------
    tuple of float
        (γ_w, γ_λ). A step is 0 where there is no gradient to follow.

    Examples
    --------
    >>> step_sizes(Constants(5.0, 1.0, 3.0, 3.0, 4.0, 4.0, 1.0), n_steps=100)
    (0.2, 0.04)
    """
    root, c = math.sqrt(_steps(n_steps)), constants
    s_w, s_mixture = _scales(c)
    step_w = 2 * c.R_w / (root * s_w) if s_w > 0 else 0.0  # no gradient: nowhere to go
    return step_w, 2 * c.R_mixture / (root * s_mixture) if s_mixture > 0 else 0.0


def convergence(constants: Constants, n_steps: int) -> float:
    """3R_W √(σ_w² + G_w²)/√T + 3R_Λ √(σ_λ² + G_λ²)/√T: bounds the expected gap of w^A.

    It holds for Stochastic-AFL with the steps of `step_sizes`, the euclidean adversary, plain SGD
    and convex losses.

    Parameters
    ----------
    constants : Constants
        R, G and σ of both players, as `constants` finds them.
    n_steps : int
        T, how many steps are taken.

    Returns
    -------
    float
        How far the worst loss of the average w^A is, in expectation, from the least possible one.

    Examples
    --------
    >>> convergence(Constants(5.0, 1.0, 3.0, 3.0, 4.0, 4.0, 1.0), n_steps=100)
    9.0
    """
    s_w, s_mixture = _scales(constants)
    length = constants.R_w * s_w + constants.R_mixture * s_mixture
    return 3 * length / math.sqrt(_steps(n_steps))


def steps_needed(constants: Constants, gap: float) -> int:
    """T = ⌈(3(R_W √(σ_w² + G_w²) + R_Λ √(σ_λ² + G_λ²))/gap)²⌉: the first with `convergence` ≤ gap.

    Parameters
    ----------
    constants : Constants
        R, G and σ of both players, as `constants` finds them.
    gap : float
        The expected gap that is wanted, > 0.

    Returns
    -------
    int

    Examples
    --------
    >>> c = Constants(5.0, 1.0, 3.0, 3.0, 4.0, 4.0, 1.0)
    >>> steps_needed(c, gap=4.5), convergence(c, n_steps=400)
    (400, 4.5)
    """
    wanted = finite_number("gap", gap, "give a number > 0", lambda x: x > 0)
    steps = max(1, math.ceil((convergence(constants, 1) / wanted) ** 2 * (1 - 1e-12)))
    return steps + (convergence(constants, steps) > wanted * (1 + 1e-12))


def _scales(c: Constants) -> tuple[float, float]:
    """√(σ² + G²) of both players: no stochastic gradient is longer in the mean square."""
    return math.hypot(c.sigma_w, c.G_w), math.hypot(c.sigma_mixture, c.G_mixture)


def _steps(n_steps: int) -> int:
    if not (isinstance(n_steps, Real) and n_steps >= 1 and n_steps % 1 == 0):
        raise InputError("n_steps", f"is {n_steps!r}", "give a whole number ≥ 1")
    return int(n_steps)


def constants(
    problem: LinearDomains,
    mixtures: Objective | Mixtures,
    sampler: ModelSampler | None = None,
    mixture_sampler: MixtureSampler | None = None,
    **parts: Unpack[Parts],
) -> Constants:
    """Proven bounds from the longest row, valid for every ‖w‖ ≤ R_W = w_radius and λ ∈ Λ.

    With |z| ≤ R_W · max‖(x, 1)‖ on the ball, M the largest loss and G = Lipschitz · max‖(x, 1)‖
    the longest gradient ∇ℓ there, and B_k = max(|b_k|, |M − b_k|) ≥ |ℓ − b_k| (M without offsets):

    =======  ==========================================  =======================================
    G_w      G + γR_W, or G + γ for the plain norm       Σ_k λ_k = 1
    G_λ      ‖B‖ + 2μ √((𝔰(Λ‖m̄) − 1)/min m̄)              √p M without offsets and penalty
    σ_w²     0, R_Λ² G²/b, G²/b                          FullBatch, PerDomain (σ_I² ≤ G²),
                                                         Weighted (σ_I² + σ_O² ≤ G²)
    σ_λ²     0, ‖B‖²/b, p‖B‖²/b                          FullBatch, EveryDomain (pM²/b),
                                                         UniformDomain (p²M²/b)
    =======  ==========================================  =======================================

    The bounds are safe, not sharp: a radius much larger than the solution makes the steps short.

    Parameters
    ----------
    problem : LinearDomains
        The rows, of which the longest one counts.
    mixtures : Objective, MixtureSet, function, str or None
        Φ, with the length w_radius that w is kept within; or Λ alone, and the rest by name.
    sampler : PerDomain, Weighted or FullBatch, optional
        What estimates the gradient in w; None is `PerDomain()`, as in `stochastic_afl`.
    mixture_sampler : EveryDomain, UniformDomain or FullBatch, optional
        What estimates the gradient in λ; None is the one that goes with `sampler`.
    **parts : Any
        Parts of an `Objective` by name: w_radius (which is needed), gamma (0 here), mu, norm,
        offsets, anchor; not beside one.

    Returns
    -------
    Constants

    Examples
    --------
    >>> import anymix as ax
    >>> problem = ax.LinearDomains([[3.0]] * 4, [0, 1, 0, 1], ["a", "a", "b", "b"], ax.Hinge(),
    ...                            intercept=False)
    >>> c = constants(problem, ax.Simplex(2), w_radius=2.0)
    >>> c.M, c.G_w, c.sigma_w, c.R_mixture
    (7.0, 3.0, 3.0, 1.0)
    """
    objective = objective_of(mixtures, parts, gamma=0.0)
    refuse_parts(objective, "no bound is known for a prior: leave it out", prior=None)
    R_w = finite_number("w_radius", objective.w_radius, "give a positive number")
    phi = objective.on(problem)
    R_mixture = phi.mixtures.radius
    M, G = _row_bounds(problem, R_w)
    b = phi.offsets
    B = float(np.linalg.norm(np.maximum(np.abs(b), np.abs(M - b))))
    sampler = PerDomain() if sampler is None else sampler
    return Constants(
        R_w=R_w,
        R_mixture=R_mixture,
        G_w=G + phi.shrinkage.longest_gradient(R_w),
        G_mixture=B + _penalty_gradient(phi.mixtures, Chi2Penalty(objective.mu, problem.sizes)),
        sigma_w=G * _model_noise(sampler, R_mixture),
        sigma_mixture=B * _mixture_noise(mixture_sampler or companion(sampler), problem.n_domains),
        M=M,
    )


def _row_bounds(problem: LinearDomains, w_radius: float) -> tuple[float, float]:
    """(M, G): 0 ≤ ℓ ≤ M and ‖∇ℓ‖ ≤ G for every row and every ‖w‖ ≤ w_radius."""
    length = math.sqrt(float(squared_lengths(problem).max()))
    reach = w_radius * length
    target = 0.0 if problem.classes is not None else float(np.abs(problem.y).max())
    loss, K = problem.loss, max(2, problem.n_scores)
    return loss.bound(reach, target, K), loss.lipschitz(reach, target, K) * length


def _penalty_gradient(mixtures: MixtureSet, penalty: Chi2Penalty) -> float:
    """max ‖2μ(λ/m̄ − 1)‖ ≤ 2μ √(χ²/min m̄), as Σ (λ/m̄ − 1)² ≤ Σ (λ − m̄)²/m̄ / min m̄."""
    m = penalty.reference
    chi2 = max(mixtures.skewness(m) - 1, 0.0)
    return 2 * penalty.mu * math.sqrt(chi2 / float(m.min()))


def _model_noise(sampler: ModelSampler, R_mixture: float) -> float:
    """σ_w / G: how much noise the gradient in w has, as a share of its largest length."""
    if isinstance(sampler, FullBatch):
        return 0.0
    if isinstance(sampler, PerDomain):
        return R_mixture / math.sqrt(sampler.batch_size)
    if isinstance(sampler, Weighted):
        return 1 / math.sqrt(sampler.batch_size)
    fix = "bounds are known for PerDomain, Weighted, FullBatch"
    raise InputError("sampler", f"is {sampler!r}", fix)


def _mixture_noise(sampler: MixtureSampler, p: int) -> float:
    """σ_λ / ‖B‖: how much noise the gradient in λ has, as a share of its largest length."""
    if isinstance(sampler, FullBatch):
        return 0.0
    if isinstance(sampler, EveryDomain):
        return 1 / math.sqrt(sampler.batch_size)
    if isinstance(sampler, UniformDomain):
        return math.sqrt(p / sampler.batch_size)
    fix = "bounds are known for EveryDomain, UniformDomain and FullBatch"
    raise InputError("mixture_sampler", f"is {sampler!r}", fix)
