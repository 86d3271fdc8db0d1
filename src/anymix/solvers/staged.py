"""Stochastic training without tuning: stages of growing length, up to a certified gap.

A stage is a run of `stochastic_afl` or `optimistic_afl`: T steps of constant size from the averages
of the stage before, which was half as long. The sizes are those of Theorem 2, and for the entropic
adversary those of multiplicative weights,

    γ_w = 2R / √(T E‖δ_w‖²)     γ_λ = 2R_Λ / √(T E‖δ_λ‖²)   or   √(2 log p / (T E Σ_k λ_k δ_λk²)),

with the expectations where the stage begins for their upper bounds, the length of w for R, and at
most 1/curvature: beyond it a single row throws w about. The mean loss where the stage begins is
taken off all that λ sees: with Σλ = 1 this moves no solution, only noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.mixtures import MixtureSet, Penalty
from anymix.problem.linear import Evaluation, LinearDomains, squared_lengths
from anymix.problem.losses import CrossEntropy
from anymix.solvers.certificates import Certificate, Objective, bracket, certify
from anymix.solvers.exact import Record, Solution
from anymix.solvers.samplers import Weighted
from anymix.solvers.stochastic import not_compiled, optimistic_afl, stochastic_afl

Array = NDArray[np.float64]
Schedule = str | float
""""theory", or a number c for step sizes c/√T."""

__all__ = ["Schedule", "train"]

TINY = 1e-300  # for 0 in a denominator
TO_CLOSE_IT = "raise max_iter or tol, scale the features, or take the exact solver"


def train(
    problem: LinearDomains,
    mixtures: MixtureSet | None = None,
    gamma: float = 1e-3,
    mu: float = 0.0,
    norm: str = "squared",
    offsets: ArrayLike | None = None,
    tol: float = 1e-3,
    *,
    optimistic: bool = False,
    schedule: Schedule = "theory",
    start: Solution | None = None,
    max_iter: int = 1000,
    seed: int = 0,
    verbose: bool = False,
    prior: Penalty | None = None,
) -> Solution:
    """min_w max_{λ∈Λ} Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄), by stochastic steps.

    A gap above tol at the end raises a ConvergenceWarning that names it.

    Parameters
    ----------
    problem : LinearDomains
        The rows, the domains and the loss.
    mixtures : MixtureSet, optional
        Λ, by default the simplex of all mixtures.
    gamma : float, default 1e-3
        The weight γ of the regulariser R(w).
    mu : float, default 0
        The weight μ of the penalty χ²(λ‖m̄).
    norm : {"squared", "plain"}
        R(w) is ½‖w‖² or ‖w‖, see `solve`.
    offsets : array-like of shape (p,), optional
        The b_k that are taken off the losses; 0 by default.
    tol : float, default 1e-3
        Stop when the certified gap is at most tol (times the loss of the best constant model where
        that is below 1).
    optimistic : bool, default False
        Take the last iterates of `optimistic_afl`, not the averages of `stochastic_afl`.
    schedule : "theory" or float
        "theory" is the sizes above; a number c is c/√T for both sizes.
    start : Solution, optional
        An earlier one to begin with.
    max_iter : int, default 1000
        Passes over the rows at most, those that w and those that λ looks at together.
    seed : int, default 0
        Same seed, same numbers.
    verbose : bool, default False
        Print a line for every look at the gap.
    prior : Penalty, optional
        A prior on λ instead of mu: a `DirichletPrior`, or a `LogPrior` of `anymix.mixtures`.

    Returns
    -------
    Solution
        The best model and the best proof that were found.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> rng = np.random.default_rng(0)
    >>> X, d = rng.normal(size=(900, 2)), np.repeat(["a", "b", "c"], 300)
    >>> y = X[:, 0] * np.where(d == "a", 2.0, 0.5) + rng.normal(size=900) > 0
    >>> problem = ax.LinearDomains(X, y, d)
    >>> solution = train(problem, tol=0.01)
    >>> solution.converged, abs(solution.objective - ax.solve(problem).objective) < 0.01
    (True, True)
    """
    _check(schedule, tol, max_iter)
    objective = Objective.of(problem, mixtures, gamma, mu, norm, offsets, prior)
    problem = problem.merged()
    stages = _Stages(problem, objective, optimistic, schedule, max_iter, seed)
    tol, price, paid = tol * problem.loss_scale, _price_of_a_proof(problem), 0.0
    best = _Best(problem, objective)
    for passes, w, mixture in stages.points(start):
        if passes == 0 or passes - paid >= price or passes >= max_iter:
            paid = passes
            best.try_(passes, w, mixture)
            if verbose:
                print(f"{passes:.4g} passes: {best.certificate}")
            if best.certificate.gap <= tol:
                break
    solution = best.solution(tol)
    if not solution.converged:
        from anymix.solvers.gap_warning import warn_of_gap  # loads scikit-learn

        warn_of_gap(f"{solution.n_iter} passes", solution.certificate.gap, tol, TO_CLOSE_IT)
    return solution


def _check(schedule: Schedule, tol: float, max_iter: int) -> None:
    if schedule != "theory" and not (isinstance(schedule, Real) and 0 < schedule < math.inf):
        raise InputError("schedule", f"is {schedule!r}", "give 'theory' or a positive number")
    if not (isinstance(tol, Real) and 0 < tol < math.inf):
        raise InputError("tol", f"is {tol!r}", "give a positive number such as 1e-3")
    if not (isinstance(max_iter, Real) and max_iter >= 1):
        raise InputError("max_iter", f"is {max_iter!r}", "give at least 1")


def _price_of_a_proof(problem: LinearDomains) -> float:
    """What a certificate costs in passes, about: the Hessian of d parameters, d/16."""
    return problem.n_parameters / 16 if problem.n_parameters <= 3000 else 1.0


@dataclass
class _Best:
    """The best model and the best proof so far; they need not be of the same moment."""

    problem: LinearDomains
    objective: Objective
    certificate: Certificate = Certificate(math.inf, -math.inf)  # noqa: RUF009 - a frozen value
    history: list[Record] = field(default_factory=list)

    def try_(self, passes: float, w: Array, mixture: Array) -> None:
        """Keep w or λ, if better than what is there."""
        o, known = self.objective, self.certificate
        found = certify(
            self.problem,
            o.mixtures,
            w,
            mixture,
            o.gamma,
            o.mu,
            norm=o.norm,
            offsets=o.offsets,
            prior=_prior(o),
        )
        if found.upper < known.upper:
            self.w, self.losses = w, self.problem.losses(w)
        if found.lower > known.lower:
            self.mixture = mixture
        upper, lower = min(found.upper, known.upper), max(found.lower, known.lower)
        known = bracket(upper, lower, 1e-10 * abs(upper))
        self.certificate = known
        self.history.append(
            {
                "iteration": passes,
                "upper": known.upper,
                "lower": known.lower,
                "gap": known.gap,
                "worst_domain": int(np.argmax(self.losses)),
                "mixture": self.mixture.tolist(),
            }
        )

    def solution(self, tol: float) -> Solution:
        return Solution(
            w=self.w,
            mixture=self.mixture,
            domain_losses=self.losses,
            objective=self.certificate.upper,
            certificate=self.certificate,
            n_iter=max(1, math.ceil(self.history[-1]["iteration"])),
            history=self.history,
            converged=self.certificate.gap <= tol,
        )


@dataclass(frozen=True)
class _Stages:
    """Runs from average to average."""

    problem: LinearDomains
    objective: Objective
    optimistic: bool
    schedule: Schedule
    max_iter: float
    seed: int

    @property
    def entropic(self) -> bool:
        """Multiplicative weights, where their projections are exact."""
        return self.objective.mixtures.has_kl_projection

    def batch(self, length: float) -> int:
        """Rows of a draw: 1 where steps are compiled, or so many that NumPy is no slower.

        Last iterates are as noisy as their steps, so for them a longer stage has larger batches.
        """
        compiled = not_compiled(self.objective) is None
        least = 1 if compiled else math.ceil(self.problem.n_rows / 1000)
        growth = math.ceil(length * min(1.0, self.problem.n_rows / 2000))  # 1000 steps are left
        return least * growth if self.optimistic else least

    def points(self, start: Solution | None) -> Iterator[tuple[float, Array, Array]]:
        """(passes so far, w, λ): the start, then midway and at the end of 1, 2, 4, … passes."""
        o = self.objective
        algorithm = optimistic_afl if self.optimistic else stochastic_afl
        w = np.zeros(self.problem.n_parameters) if start is None else start.w
        lam = o.mixtures.center if start is None else o.mixtures.project(start.mixture)
        passes, length, stage = 0.0, 1.0, 0
        if start is not None:
            yield passes, w, lam
        while passes < self.max_iter:
            length = min(length, self.max_iter - passes)
            batch, lam = self.batch(length), self._inside(lam)
            half = math.ceil(length * self.problem.n_rows / (4 * batch))  # two batches a step
            offsets = o.offsets + lam @ (self.problem.losses(w) - o.offsets)
            step_w, step_mixture = self.sizes(w, lam, offsets, 2 * half, batch)
            run = algorithm(
                self.problem,
                o.mixtures,
                step_w=step_w,
                step_mixture=step_mixture,
                sampler=Weighted(batch),
                adversary="entropic" if self.entropic else "euclidean",
                gamma=o.gamma,
                norm=o.norm,
                mu=o.mu,
                prior=_prior(o),
                offsets=offsets,
                start=w,
                start_mixture=lam,
                seed=np.random.default_rng([self.seed, stage]),
                every=half,
            )
            for now in islice(run, 2):
                passes += length / 2
                last = now.w, now.mixture
                yield passes, *(last if self.optimistic else (now.w_average, now.mixture_average))
            w, lam = now.w_average, now.mixture_average
            length, stage = 2 * length, stage + 1

    def _inside(self, lam: Array) -> Array:
        """λ, or a little of all domains in it where multiplicative weights would be stuck at 0."""
        center = self.objective.mixtures.center
        if self.entropic and np.any((lam < 1e-12) & (center > 0)):
            return 0.99 * lam + 0.01 * center
        return lam

    def sizes(self, w: Array, lam: Array, b: Array, T: int, batch: int) -> tuple[float, float]:
        """γ_w and γ_λ for T steps from (w, λ), λ seeing ℓ − b; thirds of them if optimistic."""
        if not isinstance(self.schedule, str):
            return self.schedule / math.sqrt(T), self.schedule / math.sqrt(T)
        here, lengths = self.problem.at(w), squared_lengths(self.problem)
        slopes = here.slope.reshape(self.problem.n_rows, -1)
        squares = self.problem.average @ (np.einsum("is,is->i", slopes, slopes) * lengths)
        c = 1 / 3 if self.optimistic else 1.0
        step_w = min(
            c * self._size_w(here, lam, squares, batch) / math.sqrt(T),
            c / max(_curvature(self.problem) * float(lengths.max()) + self.objective.gamma, TINY),
        )
        step_mixture = min(
            c * self._size_mixture(here, lam, b, batch) / math.sqrt(T),
            c / max(float(self._bend(lam).max()), TINY),
        )
        if self.optimistic:  # or the two players throw each other about
            step_mixture = min(step_mixture, 0.25 / max(step_w * float(squares.max()), TINY))
        return step_w, step_mixture

    def _bend(self, lam: Array) -> Array:
        """How fast the penalty's slope changes along a step: λ ∇², if steps multiply λ."""
        penalty = self.objective.penalty
        bend = penalty.hessian(lam)
        return bend if penalty.is_quadratic or not self.entropic else bend * lam

    def _size_w(self, here: Evaluation, lam: Array, squares: Array, batch: int) -> float:
        """2R / √E‖δ_w‖², squares being E_k‖∇ℓ‖²."""
        gradient = here.gradient(lam)
        slope = float(np.linalg.norm(gradient + self.objective.regularizer_gradient(here.w)))
        noise = max(float(lam @ squares - gradient @ gradient), 0.0)
        root = math.sqrt(noise / batch + slope**2)
        reach = float(lam @ here.losses) / max(slope, math.sqrt(noise) / 10, TINY)
        return 2 * max(float(np.linalg.norm(here.w)), reach) / max(root, TINY)

    def _size_mixture(self, here: Evaluation, lam: Array, b: Array, batch: int) -> float:
        """√(2 log p / E Σ_k λ_k δ_k²), or 2R_Λ / √E‖δ‖²."""
        o, p, problem, L = self.objective, self.problem.n_domains, self.problem, here.losses
        values = problem.loss.derivatives(here.scores, problem.y, 0)[0]
        second = np.maximum(problem.average @ values**2 - 2 * b * L + b**2, 0)  # E_k(ℓ − b_k)²
        squares = p * second / batch + (1 - 1 / batch) * (L - b) ** 2 + o.penalty.gradient(lam) ** 2
        if self.entropic:
            return math.sqrt(2 * math.log(p) / max(float(lam @ squares), TINY))
        return 2 * o.mixtures.radius / max(math.sqrt(float(squares.sum())), TINY)


def _prior(objective: Objective) -> Penalty | None:
    """The prior, which takes the place of μ χ²."""
    return None if objective.penalty.is_quadratic else objective.penalty


def _curvature(problem: LinearDomains) -> float:
    """The largest ∂²ℓ/∂z²."""
    if isinstance(problem.loss, CrossEntropy):
        return 0.25 if problem.n_scores == 1 else 0.5
    return 1.0 if problem.loss.is_smooth else 0.0
