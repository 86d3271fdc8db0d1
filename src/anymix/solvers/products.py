"""A prior that multiplies the loss:  min_w max_{λ∈Λ} p(λ) · L(w, λ) + γ R(w).

The product need not be concave in λ, not even where p is (p = 2 λ_1 and L = (1, 0) give 2 λ_1²).
But for a log-concave p and losses ≥ 0 its logarithm log p(λ) + log L(w, λ) is, so the two players
have a saddle point (w*, λ*) all the same (Sion, On general minimax theorems, 1958). There, with
v = L(w*, λ*) and π = p(λ*), λ* also maximises L(w*, λ) + v log p(λ), and w* also minimises
L(w, λ*) + (γ/π) R(w): it is the saddle point of an additive prior, v log p, with γ/π for γ. So
`solve` finds it, once v and π are known; they are found by turns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError, finite_number
from anymix.mixtures import MixtureSet, Penalty, Point
from anymix.mixtures.best_response import newton_response
from anymix.problem.objective import Objective, Oracle, checked_set
from anymix.solvers.certificates import bracket, certify
from anymix.solvers.exact import Record, Solution, solve

Array = NDArray[np.float64]

__all__ = ["solve_multiplicative"]


def solve_multiplicative(
    problem: Oracle,
    prior: Penalty,
    mixtures: MixtureSet | None = None,
    gamma: float = 1e-3,
    norm: str = "squared",
    tol: float = 1e-6,
    *,
    max_iter: int = 50,
) -> Solution:
    """min_w max_{λ∈Λ} p(λ) Σ_k λ_k L_k(w) + γ R(w), with a certificate.

    Parameters
    ----------
    problem : Oracle
        The losses, such as a `LinearDomains`.
    prior : Penalty
        −log p: a `DirichletPrior`, or a `LogPrior` of `anymix.mixtures`, whose constant matters
        here. It must be log-concave, as both are.
    mixtures : MixtureSet or None
        Λ; None is the simplex.
    gamma : float
        γ > 0, the weight of R(w).
    norm : str
        R(w) is ½‖w‖² ("squared") or ‖w‖ ("plain").
    tol : float
        The gap of the certificate at which to stop.
    max_iter : int
        Turns at most, each a call of `solve`.

    Returns
    -------
    Solution
        Its objective is that of the product.

    Examples
    --------
    >>> import anymix as ax
    >>> problem = ax.LinearDomains([[0.0], [1.0]] * 4, [0, 1] * 4, ["a", "a", "b", "b"] * 2)
    >>> solution = solve_multiplicative(problem, ax.DirichletPrior([3.0, 2.0]))
    >>> solution.mixture.round(3), solution.certificate.gap < 1e-6
    (array([0.667, 0.333]), True)
    """
    Λ = checked_set(mixtures, problem.n_domains)
    given: Any = prior
    if not isinstance(given, Penalty) or given.is_quadratic:
        fix = "give −log p as a DirichletPrior or a LogPrior, which say that p is log-concave"
        raise InputError("prior", f"is {prior!r}", fix)
    gamma = finite_number("gamma", gamma, "give a number > 0", lambda x: x > 0)
    plain = Objective.of(problem, Λ, gamma, 0.0, norm, None, None)
    lam = prior.best_response(Λ, np.zeros(problem.n_domains))
    losses = problem.at(np.zeros(problem.n_parameters)).losses
    v, pi = float(lam @ losses), math.exp(-prior.value(lam))
    upper, lower, history = math.inf, -math.inf, list[Record]()
    w, mixture, best = np.zeros(problem.n_parameters), lam, losses
    for number in range(1, max_iter + 1):
        scaled = prior.times(max(v, 1e-12))
        inner = min(tol / pi, 1e-6) / 10
        found = solve(problem, Λ, gamma / pi, norm=norm, prior=scaled, tol=inner)
        value = _largest_product(prior, Λ, found.domain_losses)
        if value + plain.regularizer(found.w) < upper:
            upper, w, best = value + plain.regularizer(found.w), found.w, found.domain_losses
        pi = math.exp(-prior.value(found.mixture))
        here = Point(found.mixture)
        under = pi * certify(problem, here, found.w, found.mixture, gamma / pi, norm=norm).lower
        if under > lower:
            lower, mixture = under, found.mixture
        history.append(_record(number, upper, lower, best, mixture))
        if upper - lower <= tol:
            break
        v = math.sqrt(v * float(found.mixture @ found.domain_losses))  # halfway, or it may swing
    known = bracket(upper, lower, 1e-9 * abs(upper))
    if known.gap > tol:
        from anymix.solvers.gap_warning import warn_of_gap  # loads scikit-learn

        warn_of_gap(f"{len(history)} turns", known.gap, tol, "raise max_iter or tol, or gamma")
    return Solution(w, mixture, best, upper, known, len(history), history, known.gap <= tol)


def _largest_product(prior: Penalty, mixtures: MixtureSet, losses: Array) -> float:
    """max_{λ∈Λ} p(λ) ⟨λ, L⟩: the maximum of the concave log p + log ⟨λ, L⟩."""

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


def _record(number: int, upper: float, lower: float, losses: Array, mixture: Array) -> Record:
    return {
        "iteration": number,
        "upper": upper,
        "lower": lower,
        "gap": upper - lower,
        "worst_domain": int(np.argmax(losses)),
        "mixture": mixture.tolist(),
    }
