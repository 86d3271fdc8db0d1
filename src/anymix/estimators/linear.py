"""scikit-learn estimators: the linear model that is best for the worst mixture of domains.

    min_w max_{λ∈Λ}  Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄)

`fit(X, y, domains=d)` solves this to a certified gap; everything else is scikit-learn's contract.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from anymix.errors import InputError, finite_number
from anymix.estimators.baselines import Baseline
from anymix.estimators.fitting import LinearFit, Settings, fit_problem
from anymix.estimators.overfitting import ADVICE, OverfitWarning, overfit_message
from anymix.estimators.predictors import LinearClassifier, LinearRegressor
from anymix.estimators.reading import read_classes, read_numbers, regression_loss
from anymix.mixtures.choosing import Mixtures
from anymix.mixtures.penalties import DirichletPrior
from anymix.mixtures.sets import MixtureSet
from anymix.problem.dealing import hold_out, sorted_rows
from anymix.problem.linear import LinearDomains
from anymix.problem.rows import ALL, Part, Rows
from anymix.solvers.certificates import Certificate
from anymix.solvers.exact import Solution, solve
from anymix.solvers.staged import Schedule, train

Array = NDArray[np.float64]

__all__ = ["AgnosticClassifier", "AgnosticRegressor", "estimator_of"]


class _AgnosticLinear(BaseEstimator):
    """What both estimators share: parameters and fit."""

    coef_: Array
    intercept_: Any  # (scores,), or a number in regression
    mixture_: Array
    domain_names_: NDArray[Any]
    domain_losses_: Array
    baseline_losses_: Array
    agnostic_loss_: float
    certificate_: Certificate
    n_iter_: int
    history_: list[dict[str, Any]]
    solution_: Solution
    __metadata_request__fit = {"domains": True}  # noqa: RUF012 - scikit-learn's way to say it

    def __init__(
        self,
        mixtures: Mixtures = None,
        gamma: float = 1e-3,
        mu: float = 0.0,
        max_skewness: float | None = None,
        baseline: Baseline = None,
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
        """Find w and the worst mixture λ; warn (`OverfitWarning`) when λ rests on few rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features, dense, sparse or a frame.
        y : array-like of shape (n,)
            What to learn.
        domains : array-like of shape (n,) or (n, p), or None
            Labels, or memberships when a row may be in several domains; None is one domain,
            ordinary training.
        sample_weight : array-like of shape (n,) or None
            Weights ≥ 0 of the rows; None is 1.

        Returns
        -------
        self
        """
        rows = self._read(X, y, domains, sample_weight)
        fitted, held = self._parts(rows)
        problem = rows.to_fit(fitted, "the data" if held is None else "the rows fitted")
        if held is not None:
            rows.check_domains(held, "the rows held out")
        solver = self._solver()
        found = fit_problem(problem, self._settings(), start=self._start(problem), solver=solver)
        self.__dict__.update(found.attributes())
        w = found.solution.w
        self.validation_losses_ = None if held is None else rows.to_judge(held).losses(w)
        message = overfit_message(problem, found.solution, self.gamma, self.norm)
        if message:
            warnings.warn(f"{message}. {ADVICE}", OverfitWarning, stacklevel=2)
        return self

    def _parts(self, rows: Rows) -> tuple[Part, Part | None]:
        """The rows to fit, and those to hold out, which are a share of every domain and class."""
        if self.validation_fraction is None:
            return ALL, None
        fix = "give None or one inside (0, 1)"
        share = finite_number(
            "validation_fraction", self.validation_fraction, fix, lambda x: 0 < x < 1
        )
        return hold_out(sorted_rows(rows, check_random_state(self.random_state)), share)

    def _settings(self) -> Settings:
        return Settings(
            self.mixtures,
            self.gamma,
            self.mu,
            self.max_skewness,
            self.baseline,
            self.norm,
            self.prior,
            self.tol,
            self.max_iter,
            self.verbose,
        )

    def _solver(self) -> Any:
        """`solve`, or one of the paper's algorithms in stages."""
        if self.solver == "exact":
            return solve
        if self.solver not in ("stochastic", "optimistic"):
            fix = "give 'exact', 'stochastic' or 'optimistic'"
            raise InputError("solver", f"is {self.solver!r}", fix)
        if self.prior is not None:
            raise InputError("solver", f"is {self.solver!r}, which takes no prior", "use 'exact'")
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        last = self.solver == "optimistic"
        return partial(_train, optimistic=last, schedule=self.schedule, seed=seed)

    def _start(self, problem: LinearDomains) -> Solution | None:
        """The earlier solution, if asked for and of the right shape."""
        known: Solution | None = getattr(self, "solution_", None) if self.warm_start else None
        shape = (problem.n_parameters, problem.n_domains)
        return known if known and (known.w.size, known.mixture.size) == shape else None

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _train(
    problem: LinearDomains, mixtures: MixtureSet, *, prior: None = None, **options: Any
) -> Solution:
    """`train` with the arguments of `solve`; there is no prior."""
    return train(problem, mixtures, **options)


class AgnosticClassifier(LinearClassifier, _AgnosticLinear):
    """min_w max_{λ∈Λ} Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄), L_k the mean log loss.

    Logistic regression (two classes or more) that holds up on every mixture λ ∈ Λ of the domains.

    Parameters
    ----------
    mixtures : MixtureSet, function, str or None
        Λ: a set, a function of the domains' sizes that gives one, words such as "chi2:2.0" as
        `anymix.mixtures.choosing.mixture_set` reads them, or None for any mixture (the simplex).
    gamma : float
        Weight of R(w); the intercept is free. With C of LogisticRegression and m rows of one
        domain, gamma = 1/(C m).
    mu : float
        Weight of the χ² penalty that keeps λ near the mixture m̄ of the data.
    max_skewness : float or None
        r ≥ 1, only mixtures with 1 + χ²(λ‖m̄) ≤ r count: λ rests on m/r rows at least.
    baseline : "regret", array-like of shape (p,) or None
        b. None is 0; "regret" takes the loss of the best model for each domain alone (with the
        same gamma), so that a noisy domain does not own λ; or numbers in the order of
        `domain_names_`.
    solver : str
        "exact"; or "stochastic" and "optimistic", the paper's algorithms in stages of growing
        length (see `anymix.solvers.staged`), for very many rows or domains and a tol of 1e-2 or
        1e-3.
    tol : float
        The certified gap at which the solver stops; above it at the end, a ConvergenceWarning.
    schedule : "theory" or float
        Step sizes of the stochastic solvers; a number c is c/√T in a stage of T steps.
    norm : str
        R(w) is ½‖w‖² ("squared") or ‖w‖ ("plain").
    prior : DirichletPrior or None
        A prior on λ, instead of mu.
    fit_intercept : bool
        Whether to learn an intercept.
    max_iter : int
        Iterations of the solver at most; passes over the rows for the stochastic ones.
    warm_start : bool
        Begin at the solution of the last `fit`, if the shapes agree.
    validation_fraction : float or None
        Share of rows to hold out, evenly from every domain and class; `validation_losses_` are
        the losses there (None without).
    random_state : int, RandomState or None
        Chooses the rows held out, and those that stochastic steps look at.
    verbose : bool
        Show a progress line.

    Attributes
    ----------
    coef_, intercept_, classes_ : ndarray
        As in scikit-learn, and so are n_features_in_ and feature_names_in_.
    mixture_ : ndarray of shape (p,)
        The worst mixture λ, domains in the order of `domain_names_`.
    domain_losses_, validation_losses_ : ndarray of shape (p,)
        L_k on the rows fitted and on those held out.
    baseline_losses_ : ndarray of shape (p,)
        b.
    agnostic_loss_ : float
        max over Λ of Σ λ_k (L_k − b_k).
    certificate_ : Certificate
        Upper and lower value of the objective; `certificate_.gap` is the proof.
    solution_ : Solution
        What the solver found; n_iter_ and history_ are parts of it.

    Examples
    --------
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
        return read_classes(self, X, y, domains, sample_weight, self.fit_intercept)


class AgnosticRegressor(LinearRegressor, _AgnosticLinear):
    """min_w max_{λ∈Λ} Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄), L_k the mean of ℓ(⟨w,x⟩, y).

    The parameters not listed and the attributes are those of AgnosticClassifier; `coef_` is (d,)
    and `intercept_` a number. With alpha of Ridge and m rows of one domain, gamma = alpha/m.

    Parameters
    ----------
    loss : str
        "squared", ℓ = ½ (z − y)², or "huber", which is linear beyond |z − y| = delta.
    delta : float
        Of the Huber loss.

    Examples
    --------
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
        baseline: Baseline = None,
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

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        loss = regression_loss(self.loss, self.delta)
        return read_numbers(self, X, y, domains, sample_weight, self.fit_intercept, loss)


def estimator_of(found: LinearFit, gamma: float) -> AgnosticClassifier | AgnosticRegressor:
    """The estimator that a fit with squared error or log loss amounts to, fitted.

    Parameters
    ----------
    found : LinearFit
        What was fitted.
    gamma : float
        The weight of ½‖w‖² that it was fitted with.

    Returns
    -------
    AgnosticClassifier or AgnosticRegressor

    Examples
    --------
    >>> problem = LinearDomains([[0.0], [1.0]] * 4, [0, 1] * 4, ["a", "a", "b", "b"] * 2)
    >>> estimator_of(fit_problem(problem, Settings(gamma=0.1)), 0.1).predict([[0.0], [1.0]])
    array([0, 1])
    """
    make: Any = AgnosticRegressor if found.model.classes is None else AgnosticClassifier
    estimator = make(found.mixtures, gamma)
    estimator.__dict__.update(found.attributes(), n_features_in_=found.model.coef.shape[1])
    estimator.validation_losses_ = None
    fitted: AgnosticClassifier | AgnosticRegressor = estimator
    return fitted
