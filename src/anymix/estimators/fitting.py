"""One fit: the objective, the solver, and what was found, without scikit-learn.

    min_w max_{λ∈Λ_t}  Σ_k λ_k (L_k(w) − b_k) + γ R(w − a) − μ χ²(λ‖m̄)

Λ_t = {(1−t) m̄ + t λ : λ ∈ Λ} goes from ordinary training, t = 0, to all of Λ, t = 1. The
estimators and the tables fit through `fit_problem`; `LinearFit.attributes` is the one place that
says which attributes a fitted estimator has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.estimators.baselines import Baseline, baseline_losses
from anymix.estimators.domain_features import Deviations, Kind
from anymix.estimators.model import LinearModel
from anymix.mixtures import MixtureSet
from anymix.objective import Objective, refuse_parts
from anymix.problem.linear import LinearDomains
from anymix.solvers.exact import Solution, solve
from anymix.solvers.sqp import Waypoint

Array = NDArray[np.float64]

__all__ = ["LinearFit", "fit_problem", "rare_parts"]


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
        """The same fit, with the coefficients of a wider X taken apart (`domain_features`)."""
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
    objective: Objective,
    baseline: Baseline = None,
    *,
    start: Solution | Waypoint | None = None,
    verbose: bool = False,
    **limits: Any,
) -> LinearFit:
    """Solve the problem, with the offsets that the baseline says; limits are tol and max_iter.

    Examples
    --------
    >>> problem = LinearDomains([[0.0]] * 4, [1, 1, 0, 1], ["a", "a", "b", "b"])
    >>> found = fit_problem(problem, Objective(gamma=0.0))
    >>> found.domain_names.tolist(), round(found.agnostic_loss, 4)
    (['a', 'b'], 0.6931)
    """
    problem = problem.merged()  # once for all solutions
    Λ = objective.target(problem.sizes, problem.domain_names)  # all of it, whatever t is
    b = baseline_losses(problem, baseline, objective, **limits)
    whole = replace(objective, mixtures=Λ, offsets=None if baseline is None else b)
    solution = solve(problem, whole, start=start, verbose=verbose, **limits)
    return LinearFit.of(problem, solution, Λ, b)


def rare_parts(objective: Any, **parts: Any) -> Objective:
    """The Objective given to an estimator, with the parts that are parameters of the estimator."""
    if not (objective is None or isinstance(objective, Objective)):
        raise InputError("objective", f"is {objective!r}", "give an Objective or None")
    rare = Objective() if objective is None else objective
    refuse_parts(
        rare,
        "give it to the estimator, which has a parameter for it",
        mixtures=None,
        gamma=1e-3,
        mu=0.0,
        offsets=None,
        anchor=None,
        robustness=1.0,
    )
    refuse_parts(rare, "leave it out: the exact solver takes no ball", w_radius=None)
    return replace(rare, **parts)
