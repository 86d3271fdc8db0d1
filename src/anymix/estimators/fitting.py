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
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, log_softmax, softmax

from anymix.errors import InputError
from anymix.estimators.domain_features import Deviations, Kind, members_of
from anymix.mixtures import MixtureSet, Point
from anymix.objective import Objective, refuse_parts
from anymix.problem.entries import numbers
from anymix.problem.linear import LinearDomains
from anymix.solvers.exact import Solution, solve
from anymix.solvers.sqp import Waypoint

__all__ = [
    "ADVICE",
    "Baseline",
    "LinearFit",
    "LinearModel",
    "OverfitWarning",
    "alone_solutions",
    "baseline_losses",
    "fit_problem",
    "is_regret",
    "overfit_message",
    "rare_parts",
]


@dataclass(frozen=True, eq=False)
class LinearModel:
    """z = X coefᵀ + intercept: a value, the log odds of two classes, or the scores of K ≥ 3."""

    coef: Array  # (1, d) or (K, d): coefficients of the features
    intercept: Array  # (1,) or (K,): what is added to each score
    classes: NDArray[Any] | None  # (2,) or (K,); None of values
    # what the scores of each domain differ by, if the domain is a feature
    deviations: Deviations | None = None

    @property
    def uses_domain(self) -> bool:
        """Whether the domain is a feature."""
        return self.deviations is not None

    @property
    def domain_names(self) -> NDArray[Any] | None:
        """The domains, if they are features."""
        return None if self.deviations is None else self.deviations.names

    def scores(self, X: Any, domains: Any = None) -> Array:
        """z: (n,), positive for the second of two classes; (n, K) for K ≥ 3 classes."""
        z: Array = np.asarray(X @ self.coef.T) + self.intercept
        if self.deviations is not None and domains is not None:
            members = members_of(domains, self.deviations.names, X.shape[0])
            z = z + self.deviations.scores(X, members)
        return z[:, 0] if len(self.coef) == 1 else z

    def predict(self, X: Any, domains: Any = None) -> NDArray[Any]:
        """The value or the most probable class of every row, (n,)."""
        z = self.scores(X, domains)
        if self.classes is None:
            return z
        best = (z > 0).astype(np.intp) if z.ndim == 1 else np.argmax(z, axis=1)
        return np.asarray(self.classes[best])

    def predict_proba(self, X: Any, domains: Any = None) -> Array:
        """Probabilities of the classes, (n, K)."""
        z = self.scores(X, domains)
        if z.ndim == 1:
            return np.column_stack([expit(-z), expit(z)])
        return np.asarray(softmax(z, axis=1))

    def predict_log_proba(self, X: Any, domains: Any = None) -> Array:
        """Logarithms of the probabilities, (n, K), without underflow."""
        z = self.scores(X, domains)
        if z.ndim == 1:
            return np.column_stack([log_expit(-z), log_expit(z)])
        return np.asarray(log_softmax(z, axis=1))


Baseline = str | ArrayLike | None


def is_regret(baseline: Baseline) -> bool:
    """Whether the losses are to be compared with those of models for one domain alone."""
    return isinstance(baseline, str) and baseline == "regret"


def baseline_losses(
    problem: LinearDomains, baseline: Baseline, objective: Objective, **limits: Any
) -> Array:
    """b (p,): zeros, the losses of the best model for each domain alone, or as given."""
    p = problem.n_domains
    if baseline is None:
        return np.zeros(p)
    if is_regret(baseline):
        alone = alone_solutions(problem, objective, **limits)
        return np.array([alone[k].domain_losses[k] for k in range(p)])
    if isinstance(baseline, str):
        raise InputError("baseline", f"is {baseline!r}", f"give None, 'regret' or {p} numbers")
    shape = np.asarray(baseline, dtype=object).shape
    if shape not in ((p,), (p, 1)):
        found = f"has shape {shape}, and there are {p} domains"
        raise InputError("baseline", found, f"give None, 'regret' or {p} numbers")
    return numbers("baseline", baseline, p)


def alone_solutions(
    problem: LinearDomains,
    objective: Objective,
    starts: list[Solution] | None = None,
    **limits: Any,
) -> list[Solution]:
    """argmin_w L_k(w) + γ R(w) for k = 1..p, each from its own start or from its predecessor.

    Equal rows should be merged, for each of them is looked at p times.
    """
    found: list[Solution] = []
    for k, vertex in enumerate(np.eye(problem.n_domains)):
        start = starts[k] if starts else (found[-1] if found else None)
        alone = Objective(Point(vertex), objective.gamma, norm=objective.norm)
        found.append(solve(problem, alone, start=start, **limits))
    return found


Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fitted model, with Λ and b that it was fitted for, and the solver's proof."""

    model: LinearModel  # model, which predicts
    solution: Solution  # w, λ and the certificate, as the solver gave them
    mixtures: MixtureSet  # Λ, the mixtures to guard against (all of it, whatever t)
    baseline: Array  # (p,) b, what the losses were compared with
    domain_names: NDArray[Any]  # (p,) names of the domains

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
    """Solve the problem, with the offsets that the baseline says; limits are tol and max_iter."""
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


ROWS_PER_PARAMETER = 20  # below it a fit warns
ADVICE = (  # in the words of the estimators; tables and the command have other arguments
    "Raise gamma, lower max_skewness or merge small domains; AgnosticClassifierCV and "
    "AgnosticRegressorCV choose by the loss on rows held out"
)


class OverfitWarning(UserWarning):
    """The worst mixture rests on few rows for the size of the model: expect a larger loss there.

    Examples
    --------
    >>> import warnings
    >>> import anymix as ax
    >>> X, y, d = [[0.0], [1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1, 0], ["a", "a", "a", "a", "b"]
    >>> with warnings.catch_warnings(action="ignore", category=OverfitWarning):
    ...     model = ax.AgnosticClassifier().fit(X, y, domains=d)
    """


def overfit_message(problem: Any, solution: Solution, objective: Objective) -> str | None:
    """What to warn of, if λ puts much weight on a domain of few rows for the size of the model.

    With w fitted to Σ_k λ_k L_k, L_k on new rows exceeds L_k on those fitted by about
    parameters/rows_k, rows_k = m_k/λ_k (in the spirit of Akaike; for the log loss, and in units of
    the noise's variance for squared error). Below 20 rows a parameter, an excess of 0.05, a fit
    warns, unless λ makes the rows few by less than a third: ordinary training does not warn either.

    parameters = Σ_j H_jj/(H_jj + γ), those that γ leaves free, H the curvature of Σ_k λ_k L_k at w:
    at least the usual tr H(H + γI)⁻¹, for by Schur and Horn a concave function's sum over the
    diagonal is at least that over the eigenvalues.
    """
    shares, pooled = (problem.row_shares(lam) for lam in (solution.mixture, problem.reference))
    k = int(np.argmax(shares))
    rows = float(1 / shares[k])
    if rows >= ROWS_PER_PARAMETER * problem.n_parameters or shares[k] < 1.5 * pooled.max():
        return None
    parameters = _free_parameters(problem, solution, objective)
    if rows >= ROWS_PER_PARAMETER * parameters:
        return None
    name, size = problem.domain_names.tolist()[k], problem.sizes[k]
    return (
        f"the worst mixture gives the weight {solution.mixture[k]:.2g} to domain {name!r} with "
        f"{size:.0f} rows, few for {parameters:.0f} free parameters: expect a larger loss on new "
        "rows there"
    )


def _free_parameters(problem: Any, solution: Solution, objective: Objective) -> float:
    """Σ_j H_jj/(H_jj + γ_j); the K blocks of K ≥ 3 classes have one block's freedom too many."""
    w, seen = solution.w, problem.penalized
    h = problem.at(w).hessian_diagonal(solution.mixture)
    length = float(np.linalg.norm(w[seen])) if objective.norm == "plain" else 1.0
    ridge = np.where(seen, objective.gamma / max(length, 1e-300), 0.0)
    free = float(np.sum(h[h > 0] / (h + ridge)[h > 0]))
    K = problem.n_scores
    return free if K == 1 else min(free, problem.n_parameters * (K - 1) / K)
