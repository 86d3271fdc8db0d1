"""One fit: the settings, the solver, and what was found, without scikit-learn.

    min_w max_{λ∈Λ_t}  Σ_k λ_k (L_k(w) − b_k) + γ R(w − a) − μ χ²(λ‖m̄)

Λ_t = {(1−t) m̄ + t λ : λ ∈ Λ} goes from ordinary training, t = 0, to all of Λ, t = 1. The
estimators and the tables fit through `fit_problem`; `LinearFit.attributes` is the one place that
says which attributes a fitted estimator has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import finite_number
from anymix.estimators.baselines import Baseline, baseline_losses
from anymix.estimators.domain_features import Deviations, Kind
from anymix.estimators.model import LinearModel
from anymix.mixtures import MixtureSet, Penalty
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.problem.linear import LinearDomains
from anymix.problem.objective import checked_set
from anymix.solvers.exact import Solution, solve
from anymix.solvers.sqp import Waypoint

Array = NDArray[np.float64]

__all__ = ["LinearFit", "Settings", "between", "fit_problem"]


@dataclass(frozen=True)
class Settings:
    """What is to be solved; the names are the parameters of `AgnosticClassifier`."""

    mixtures: Mixtures = None
    gamma: float = 1e-3
    mu: float = 0.0
    max_skewness: float | None = None
    baseline: Baseline = None
    norm: str = "squared"
    prior: Penalty | None = None
    tol: float = 1e-6
    max_iter: int = 1000
    verbose: bool = False
    robustness: float = 1.0
    anchor: Array | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of `solve` that do not depend on Λ."""
        return {name: getattr(self, name) for name in ("gamma", "norm", "tol", "max_iter")}


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fitted model, with Λ and b that it was fitted for, and the solver's proof.

    Parameters
    ----------
    model : LinearModel
        The model, which predicts.
    solution : Solution
        w, λ and the certificate, as the solver gave them.
    mixtures : MixtureSet
        Λ, the mixtures to guard against (all of it, whatever t).
    baseline : ndarray of shape (p,)
        b, what the losses were compared with.
    domain_names : ndarray of shape (p,)
        Names of the domains.
    """

    model: LinearModel
    solution: Solution
    mixtures: MixtureSet
    baseline: Array
    domain_names: NDArray[Any]

    @staticmethod
    def of(
        problem: LinearDomains, solution: Solution, mixtures: MixtureSet, baseline: Array
    ) -> LinearFit:
        """The fit of a problem's solution, with w taken apart into coefficients and intercept."""
        coef, intercept = problem.unpack(solution.w)
        if problem.n_scores > 1:  # no loss sees a common shift of the K scores: leave none
            coef, intercept = coef - coef.mean(axis=0), intercept - intercept.mean()
        model = LinearModel(coef, intercept, problem.classes)
        return LinearFit(model, solution, mixtures, baseline, problem.domain_names)

    def with_deviations(self, kind: Kind, d: int) -> LinearFit:
        """The same fit, with the coefficients of a wider X taken apart (`domain_features`).

        Parameters
        ----------
        kind : str or None
            "intercept" or "slopes"; None changes nothing.
        d : int
            How many of the columns fitted are features; the others are of the domains.

        Returns
        -------
        LinearFit
        """
        if kind is None:
            return self
        coef = self.model.coef
        deviations = Deviations(kind, coef[:, d:], self.domain_names)
        return replace(self, model=replace(self.model, coef=coef[:, :d], deviations=deviations))

    @property
    def agnostic_loss(self) -> float:
        """max_{λ∈Λ} Σ_k λ_k (L_k − b_k)."""
        regret = self.solution.domain_losses - self.baseline
        return float(self.mixtures.maximize(regret) @ regret)

    def attributes(self) -> dict[str, Any]:
        """What a fitted AgnosticClassifier or AgnosticRegressor knows, by name."""
        model, solution = self.model, self.solution
        regression = model.classes is None
        found: dict[str, Any] = {
            "coef_": model.coef[0] if regression else model.coef,
            "intercept_": float(model.intercept[0]) if regression else model.intercept,
            "mixture_": solution.mixture,
            "domain_names_": self.domain_names,
            "domain_losses_": solution.domain_losses,
            "baseline_losses_": self.baseline,
            "agnostic_loss_": self.agnostic_loss,
            "certificate_": solution.certificate,
            "n_iter_": solution.n_iter,
            "history_": solution.history,
            "solution_": solution,
        }
        if model.deviations is not None:
            found["deviations_"] = model.deviations
        return found if regression else found | {"classes_": model.classes}


def fit_problem(
    problem: LinearDomains,
    settings: Settings,
    *,
    start: Solution | Waypoint | None = None,
    solver: Callable[..., Solution] = solve,
) -> LinearFit:
    """Solve the problem as the settings say.

    Parameters
    ----------
    problem : LinearDomains
        The rows to learn from.
    settings : Settings
        Λ, γ, μ, b and the rest.
    start : Solution, Waypoint or None
        An earlier model to begin at; None leaves the start to the solver.
    solver : function
        `solve`, or another with its arguments.

    Returns
    -------
    LinearFit

    Examples
    --------
    >>> problem = LinearDomains([[0.0]] * 4, [1, 1, 0, 1], ["a", "a", "b", "b"])
    >>> found = fit_problem(problem, Settings(gamma=0.0))
    >>> found.domain_names.tolist(), round(found.agnostic_loss, 4)
    (['a', 'b'], 0.6931)
    """
    if solver is solve:
        problem = problem.merged()  # once for all solutions; steps at random rows need them all
    offsets = baseline_losses(problem, settings.baseline, settings.options)
    sizes, names = problem.sizes, problem.domain_names
    mixtures = target_mixtures(settings.mixtures, settings.max_skewness, sizes, names)
    solution = solver(
        problem,
        between(mixtures, settings.robustness, sizes),
        mu=settings.mu,
        offsets=offsets,
        prior=settings.prior,
        anchor=settings.anchor,
        start=start,
        verbose=settings.verbose,
        **settings.options,
    )
    return LinearFit.of(problem, solution, mixtures, offsets)


def between(mixtures: MixtureSet, robustness: float, sizes: Array) -> MixtureSet:
    """Λ_t = {(1−t) m̄ + t λ : λ ∈ Λ}, t the robustness.

    Parameters
    ----------
    mixtures : MixtureSet
        Λ.
    robustness : float
        t in [0, 1]: 0 is ordinary training, 1 is Λ itself.
    sizes : ndarray of shape (p,)
        Rows of each domain.

    Returns
    -------
    MixtureSet

    Examples
    --------
    >>> from anymix.mixtures import Simplex
    >>> between(Simplex(2), 0.0, np.array([10.0, 30.0]))
    Point(mixture=[0.25, 0.75])
    """
    fix = "give a number from 0 (ordinary) to 1 (agnostic)"
    t = finite_number("robustness", robustness, fix, lambda x: 0 <= x <= 1)
    return checked_set(mixtures, len(sizes)).shrunk(t, sizes / sizes.sum())
