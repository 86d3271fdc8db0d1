"""scikit-learn estimators: the linear model that is best for the worst mixture of domains.

    min_w max_{λ∈Λ}  Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄)

`fit(X, y, domains=d)` solves this to a certified gap; everything else is scikit-learn's contract.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from anymix.estimators.fitting import OverfitWarning, baseline_losses, check_solver, overfit_message
from anymix.mixtures.choosing import Mixtures, target_mixtures
from anymix.mixtures.penalties import DirichletPrior
from anymix.mixtures.sets import MixtureSet
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import Huber, SquaredError
from anymix.problem.rows import Rows, read_classes
from anymix.solvers.exact import Solution, solve
from anymix.solvers.staged import Schedule, train

Array = NDArray[np.float64]

__all__ = ["AgnosticClassifier", "AgnosticRegressor", "LinearClassifier", "OverfitWarning"]


class _AgnosticLinear(BaseEstimator):
    """What both estimators share: parameters and fit."""

    coef_: Array
    intercept_: Any  # (scores,), or a number in regression
    __metadata_request__fit = {"domains": True}  # noqa: RUF012 - scikit-learn's way to say it

    def __init__(
        self,
        mixtures: Mixtures = None,
        gamma: float = 1e-3,
        mu: float = 0.0,
        max_skewness: float | None = None,
        baseline: str | ArrayLike | None = None,
        solver: str = "exact",
        tol: float = 1e-6,
        *,
        schedule: Schedule = "theory",
        norm: str = "squared",
        prior: DirichletPrior | None = None,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        warm_start: bool = False,
        validation_fraction: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.mixtures = mixtures
        self.gamma = gamma
        self.mu = mu
        self.max_skewness = max_skewness
        self.baseline = baseline
        self.solver = solver
        self.tol = tol
        self.schedule = schedule
        self.norm = norm
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, domains: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Find w and the worst mixture λ.

        `domains`: (n,) labels, or (n, p) memberships when a row may be in several domains; None is
        one domain, ordinary training. Warns (`OverfitWarning`) when λ rests on few rows.
        """
        problem = self._fit(X, y, domains, sample_weight)
        names, solution = self.domain_names_, self.solution_
        message = overfit_message(problem, names, solution, self.gamma, self.norm)
        if message:
            warnings.warn(message, OverfitWarning, stacklevel=2)
        return self

    def _fit(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> LinearDomains:
        """`fit` without the warning; the problem that was solved."""
        check_solver(self.solver, path=False)
        rows = self._read(X, y, domains, sample_weight)
        problem, held_out = rows.split(self.validation_fraction, self.random_state)
        offsets = baseline_losses(problem, self.baseline, self._options())
        mixtures = target_mixtures(self.mixtures, self.max_skewness, problem.sizes)
        solution = self._solve(
            problem,
            mixtures,
            mu=self.mu,
            offsets=offsets,
            start=self._start(problem),
            verbose=self.verbose,
            **self._options(),
        )
        self._keep(problem, solution)
        self.domain_names_ = rows.names
        self.baseline_losses_ = offsets
        regret = solution.domain_losses - offsets
        self.agnostic_loss_ = float(mixtures.maximize(regret) @ regret)
        self.validation_losses_ = None if held_out is None else held_out.losses(solution.w)
        return problem

    def _solve(self, problem: LinearDomains, mixtures: MixtureSet, **options: Any) -> Solution:
        if self.solver == "exact":
            return solve(problem, mixtures, prior=self.prior, **options)
        if self.prior is not None:
            raise ValueError(f"solver is {self.solver!r}, which takes no prior; use 'exact'")
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        last = self.solver == "optimistic"
        return train(
            problem, mixtures, optimistic=last, schedule=self.schedule, seed=seed, **options
        )

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("gamma", "norm", "tol", "max_iter")}

    def _start(self, problem: LinearDomains) -> Solution | None:
        """The earlier solution, if asked for and of the right shape."""
        known: Solution | None = getattr(self, "solution_", None) if self.warm_start else None
        shape = (problem.n_parameters, problem.n_domains)
        return known if known and (known.w.size, known.mixture.size) == shape else None

    def _keep(self, problem: LinearDomains, solution: Solution) -> None:
        self.coef_, self.intercept_ = problem.unpack(solution.w)  # (scores, d), (scores,)
        self.mixture_ = solution.mixture
        self.domain_losses_ = solution.domain_losses
        self.certificate_ = solution.certificate
        self.n_iter_ = solution.n_iter
        self.history_ = solution.history
        self.solution_ = solution

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearClassifier(ClassifierMixin):
    """Predictions from `coef_` (1 or K, d), `intercept_` and `classes_`."""

    coef_: Array
    intercept_: Any
    classes_: Any

    def decision_function(self, X: Any) -> Array:
        """Scores z: (n,) for two classes, positive for `classes_[1]`; (n, K) for more."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        scores: Array = np.asarray(X @ self.coef_.T) + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of every row, (n,)."""
        z = self.decision_function(X)
        best = (z > 0).astype(np.intp) if z.ndim == 1 else np.argmax(z, axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (n, K)."""
        z = self.decision_function(X)
        if z.ndim == 1:
            return np.column_stack([expit(-z), expit(z)])
        return np.asarray(softmax(z, axis=1))

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities, (n, K), without underflow."""
        z = self.decision_function(X)
        if z.ndim == 1:
            return np.column_stack([log_expit(-z), log_expit(z)])
        return np.asarray(log_softmax(z, axis=1))


class AgnosticClassifier(LinearClassifier, _AgnosticLinear):
    """min_w max_{λ∈Λ} Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄), L_k the mean log loss.

    Logistic regression (two classes or more) that holds up on every mixture λ ∈ Λ of the domains.

    Parameters
    ----------
    mixtures : Λ: a MixtureSet, a function of the domains' sizes that gives one, or None for any
        mixture (the simplex).
    gamma, norm : weight of R(w) = ½‖w‖² ("squared") or ‖w‖ ("plain"); the intercept is free.
        With C of LogisticRegression and m rows of one domain, gamma = 1/(C m).
    mu : weight of the χ² penalty that keeps λ near the mixture m̄ of the data.
    max_skewness : r ≥ 1, only mixtures with 1 + χ²(λ‖m̄) ≤ r count: λ rests on m/r rows at least.
    baseline : b. None is 0; "regret" takes the loss of the best model for each domain alone (with
        the same gamma), so that a noisy domain does not own λ; or numbers (p,) in the order of
        `domain_names_`.
    solver : "exact"; or "stochastic" and "optimistic", the paper's algorithms in stages of growing
        length (see `anymix.solvers.staged`), for very many rows or domains and a tol of 1e-2 or
        1e-3.
    tol : the certified gap at which the solver stops; above it at the end, a ConvergenceWarning.
    schedule : step sizes of the stochastic solvers, "theory" or c for c/√T in a stage of T steps.
    prior : a DirichletPrior on λ, instead of mu.
    fit_intercept : whether to learn an intercept.
    max_iter : iterations of the solver at most; passes over the rows for the stochastic ones.
    warm_start : begin at the solution of the last `fit`, if the shapes agree.
    validation_fraction : share of rows to hold out, evenly from every domain and class;
        `validation_losses_` are the losses there (None without).
    random_state : chooses the rows held out, and those that stochastic steps look at.
    verbose : show a progress line.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_ : as in scikit-learn.
    mixture_ : the worst mixture λ (p,), domains in the order of `domain_names_`.
    domain_losses_, validation_losses_ : L_k on the rows fitted and held out, (p,).
    baseline_losses_ : b (p,).
    agnostic_loss_ : max over Λ of Σ λ_k (L_k − b_k).
    certificate_ : upper and lower value of the objective; `certificate_.gap` is the proof.
    n_iter_, history_, solution_ : of the solver.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> region = np.repeat(["city", "rural"], [900, 100])
    >>> X = rng.normal(size=(1000, 2))
    >>> x = np.where(region == "city", X[:, 0], X[:, 1])     # what matters depends on the region
    >>> y = np.where(x + rng.normal(size=1000) > 0, "yes", "no")
    >>> pooled = AgnosticClassifier().fit(X, y)
    >>> robust = AgnosticClassifier().fit(X, y, domains=region)
    >>> rural = region == "rural"
    >>> pooled.score(X[rural], y[rural]).__round__(1), robust.score(X[rural], y[rural]).__round__(1)
    (0.5, 0.7)
    >>> dict(zip(robust.domain_names_.tolist(), robust.domain_losses_.round(2).tolist()))
    {'city': 0.61, 'rural': 0.61}
    >>> robust.certificate_.gap < 1e-6
    True
    """

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        rows = read_classes(self, X, y, domains, sample_weight, self.fit_intercept)
        self.classes_ = rows.classes
        return rows

    def _keep(self, problem: LinearDomains, solution: Solution) -> None:
        super()._keep(problem, solution)
        if len(self.classes_) > 2:  # no loss sees a common shift of the K scores: leave none
            self.coef_ = self.coef_ - self.coef_.mean(axis=0)
            self.intercept_ = self.intercept_ - self.intercept_.mean()


class AgnosticRegressor(RegressorMixin, _AgnosticLinear):
    """min_w max_{λ∈Λ} Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄), L_k the mean of ℓ(⟨w,x⟩, y).

    Parameters
    ----------
    loss : "squared", ℓ = ½ (z − y)², or "huber", which is linear beyond |z − y| = delta.
    delta : of the Huber loss.

    The other parameters and the attributes are those of AgnosticClassifier; `coef_` is (d,) and
    `intercept_` a number. With alpha of Ridge and m rows of one domain, gamma = alpha/m.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [0.0], [1.0], [2.0]])
    >>> y = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    >>> shop = ["a", "a", "a", "b", "b", "b"]
    >>> many_of_a = [9, 9, 9, 1, 1, 1]                            # midway, whatever the sizes:
    >>> model = AgnosticRegressor(gamma=0.0).fit(X, y, domains=shop, sample_weight=many_of_a)
    >>> model.predict([[1.0]]).round(3), model.domain_losses_.round(3)
    (array([0.5]), array([0.125, 0.125]))
    """

    def __init__(
        self,
        mixtures: Mixtures = None,
        gamma: float = 1e-3,
        mu: float = 0.0,
        max_skewness: float | None = None,
        baseline: str | ArrayLike | None = None,
        solver: str = "exact",
        tol: float = 1e-6,
        *,
        loss: str = "squared",
        delta: float = 1.0,
        schedule: Schedule = "theory",
        norm: str = "squared",
        prior: DirichletPrior | None = None,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        warm_start: bool = False,
        validation_fraction: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            mixtures,
            gamma,
            mu,
            max_skewness,
            baseline,
            solver,
            tol,
            schedule=schedule,
            norm=norm,
            prior=prior,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            warm_start=warm_start,
            validation_fraction=validation_fraction,
            random_state=random_state,
            verbose=verbose,
        )
        self.loss = loss
        self.delta = delta

    def predict(self, X: Any) -> Array:
        """⟨w, (x, 1)⟩ of every row, (n,)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        z: Array = np.asarray(X @ self.coef_) + self.intercept_
        return z

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        if self.loss not in ("squared", "huber"):
            raise ValueError(f"loss is {self.loss!r}; give 'squared' or 'huber'")
        loss = SquaredError() if self.loss == "squared" else Huber(self.delta)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        return Rows.of(X, y, None, domains, sample_weight, loss, self.fit_intercept)

    def _keep(self, problem: LinearDomains, solution: Solution) -> None:
        super()._keep(problem, solution)
        self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
