"""scikit-learn estimators: the linear model that is best for the worst mixture of domains.

    min_w max_{λ∈Λ_t}  Σ_k λ_k (L_k(w) − b_k) + γ R(w − a) − μ χ²(λ‖m̄)

Λ_t is Λ itself unless a robustness t < 1 draws it towards the mixture m̄ of the data.
`fit(X, y, domains=d)` solves this to a certified gap; everything else is scikit-learn's contract.

The domains of the rows to predict matter only to a model fitted with `domain_features`; without
them (which warns), or in a domain that was not fitted, the shared part of the model speaks.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data

from anymix.errors import InputError
from anymix.estimators.domain_features import Deviations, Kind, widened
from anymix.estimators.fitting import (
    ADVICE,
    Baseline,
    LinearFit,
    LinearModel,
    OverfitWarning,
    fit_problem,
    overfit_message,
    rare_parts,
)
from anymix.estimators.keywords import NoDomainsWarning, by_name
from anymix.estimators.ordinary import Anchor, anchor_of, given_anchor
from anymix.estimators.reading import (
    class_weights,
    read_classes,
    read_numbers,
    refuse_class_weight,
)
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.objective import Objective
from anymix.problem.far_rows import far_problem
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Loss, regression_loss
from anymix.problem.rows import ALL, Rows
from anymix.solvers.certificates import Certificate
from anymix.solvers.exact import Solution

__all__ = [
    "AgnosticClassifier",
    "AgnosticLinear",
    "AgnosticRegressor",
    "LinearClassifier",
    "LinearRegressor",
    "estimator_of",
    "name_features",
    "without_domain_features",
]

SHARED = (
    "the domain is a feature of this model and was not given, so its shared part predicts: write "
    "domains=..., with None for each row of unknown domain"
)


class LinearClassifier(ClassifierMixin):
    """Predictions from `coef_` (1 or K, d), `intercept_` and `classes_`."""

    coef_: Array
    intercept_: Any
    classes_: Any
    deviations_: Deviations

    def decision_function(self, X: Any, domains: Any = None) -> Array:
        """Scores z: (n,) for two classes, positive for `classes_[1]`; (n, K) for more."""
        return self._model().scores(_checked(self, X, domains), domains)

    def predict(self, X: Any, domains: Any = None) -> NDArray[Any]:
        """The most probable class of every row, (n,)."""
        return self._model().predict(_checked(self, X, domains), domains)

    def predict_proba(self, X: Any, domains: Any = None) -> Array:
        """Probabilities of the classes, (n, K)."""
        return self._model().predict_proba(_checked(self, X, domains), domains)

    def predict_log_proba(self, X: Any, domains: Any = None) -> Array:
        """Logarithms of the probabilities, (n, K), without underflow."""
        return self._model().predict_log_proba(_checked(self, X, domains), domains)

    def score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, domains: Any = None
    ) -> float:
        """The accuracy."""
        said = self.predict(X, domains)
        return float(accuracy_score(y, said, sample_weight=sample_weight))

    def _model(self) -> LinearModel:
        check_is_fitted(self)
        deviations = getattr(self, "deviations_", None)
        return LinearModel(self.coef_, self.intercept_, self.classes_, deviations)


class LinearRegressor(RegressorMixin):
    """Predictions from `coef_` (d,) and `intercept_`: means, as the loss makes them of scores."""

    coef_: Array
    intercept_: Any
    deviations_: Deviations

    def predict(self, X: Any, domains: Any = None) -> Array:
        """⟨w, (x, 1)⟩ of every row, or the mean that it stands for, (n,)."""
        check_is_fitted(self)
        deviations = getattr(self, "deviations_", None)
        intercept = np.array([self.intercept_])
        model = LinearModel(self.coef_[None, :], intercept, None, deviations)
        return self._loss().mean(model.scores(_checked(self, X, domains), domains))

    def score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, domains: Any = None
    ) -> float:
        """The share of the variance that is explained, R², or of the deviance, D²."""
        return self._loss().score(y, self.predict(X, domains), sample_weight)

    def _loss(self) -> Loss:
        raise NotImplementedError


def _checked(estimator: Any, X: Any, domains: Any) -> Any:
    if domains is None and hasattr(estimator, "deviations_"):
        warnings.warn(SHARED, NoDomainsWarning, stacklevel=3)
    return validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=np.float64)


Array = NDArray[np.float64]


class AgnosticLinear(BaseEstimator):
    """What AgnosticClassifier and AgnosticRegressor share: the parameters, and `fit`."""

    n_features_in_: int
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
    __metadata_request__predict = {"domains": True}  # noqa: RUF012
    __metadata_request__predict_proba = {"domains": True}  # noqa: RUF012
    __metadata_request__predict_log_proba = {"domains": True}  # noqa: RUF012
    __metadata_request__decision_function = {"domains": True}  # noqa: RUF012
    __metadata_request__score = {"domains": True}  # noqa: RUF012

    def __init__(
        self,
        mixtures: Mixtures = None,
        gamma: float = 1e-3,
        mu: float = 0.0,
        max_skewness: float | None = None,
        baseline: Baseline = None,
        tol: float = 1e-6,
        *,
        robustness: float = 1.0,
        anchor: Anchor = None,
        domain_features: Kind = None,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: bool = False,
        class_weight: Any = None,
        objective: Objective | None = None,
    ) -> None:
        self.mixtures = mixtures
        self.gamma = gamma
        self.mu = mu
        self.max_skewness = max_skewness
        self.baseline = baseline
        self.tol = tol
        self.robustness = robustness
        self.anchor = anchor
        self.domain_features = domain_features
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose = verbose
        self.class_weight = class_weight
        self.objective = objective

    @by_name
    def fit(self, X: Any, y: Any = None, *, domains: Any = None, sample_weight: Any = None) -> Self:
        """Find w and the worst mixture λ; warn (`OverfitWarning`) when λ rests on few rows.

        Parameters
        ----------
        X : array-like of shape (n, d), or rows that are not in memory
            The features, dense, sparse or a frame; or an array or frame of Dask, a dataset of
            pyarrow or Ray, or a problem of `anymix.partitions`.
        y : array-like of shape (n,), or str
            What to learn; of a frame or dataset that is not in memory, the name of the column.
        domains : array-like of shape (n,) or (n, p), str or None
            Labels, or memberships when a row may be in several domains; None is one domain,
            ordinary training (which warns where it is not said); or the name of the column.
        sample_weight : array-like of shape (n,), str or None
            Weights ≥ 0 of the rows, or the name of their column; None is 1.

        Returns
        -------
        self
        """
        far = far_problem(X, y, domains, sample_weight, self._loss(), self.fit_intercept)
        if far is None:
            rows = widened(self._read(X, y, domains, sample_weight), self.domain_features)
            problem, anchor = rows.to_fit(ALL, "the data"), self._anchor(rows)
        else:
            refuse_class_weight(self.class_weight)
            self._refuse_words()
            name_features(self, far)
            problem, anchor = far, given_anchor(far, self.anchor)
        objective = replace(self._objective(problem), anchor=anchor)
        found = fit_problem(
            problem,
            objective,
            self.baseline,
            start=self._start(problem),
            verbose=self.verbose,
            **self._limits,
        ).with_deviations(self.domain_features, self.n_features_in_)
        self.__dict__.pop("deviations_", None)  # of an earlier fit
        self.__dict__.update(found.attributes())
        message = overfit_message(problem, found.solution, objective)
        if message:
            warnings.warn(f"{message}. {ADVICE}", OverfitWarning, stacklevel=3)
        return self

    @property
    def _limits(self) -> dict[str, Any]:
        return {"tol": self.tol, "max_iter": self.max_iter}

    def _objective(self, problem: LinearDomains) -> Objective:
        """Φ without its anchor and offsets, which may be models of the rows."""
        names = problem.domain_names
        return rare_parts(
            self.objective,
            mixtures=target_mixtures(self.mixtures, self.max_skewness, problem.sizes, names),
            gamma=self.gamma,
            mu=self.mu,
            robustness=self.robustness,
        )

    def _anchor(self, rows: Rows) -> Array | None:
        return anchor_of(rows, self.anchor, rare_parts(self.objective), **self._limits)

    def _refuse_words(self) -> None:
        """What needs rows in memory."""
        without_domain_features(self)
        if isinstance(self.anchor, str):
            found, fix = f"is {self.anchor!r}, which needs rows in memory", "give coefficients"
            raise InputError("anchor", found, fix)

    def _start(self, problem: LinearDomains) -> Solution | None:
        """The earlier solution, if asked for and of the right shape."""
        known: Solution | None = getattr(self, "solution_", None) if self.warm_start else None
        shape = (problem.n_parameters, problem.n_domains)
        return known if known and (known.w.size, known.mixture.size) == shape else None

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        raise NotImplementedError

    def _loss(self) -> Loss:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class AgnosticClassifier(LinearClassifier, AgnosticLinear):
    """min_w max_{λ∈Λ} Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄), L_k the mean log loss.

    Logistic regression (two classes or more) that holds up on every mixture λ ∈ Λ of the domains.

    Parameters
    ----------
    mixtures : MixtureSet, function, str or None
        Λ: a set, a function of the domains' sizes that gives one, words such as "chi2:2.0" as
        `anymix.mixtures.parsing.mixture_set` reads them, or None for any mixture (the simplex).
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
    tol : float
        The certified gap at which the solver stops; above it at the end, a ConvergenceWarning.
    robustness : float
        t from 0 (ordinary training) to 1 (agnostic): guards against (1−t) m̄ + t λ, λ ∈ Λ, so that
        (1−t) times the mean loss of all rows plus t times that of the worst mixture is least.
    anchor : "ordinary", array-like or None
        a in R(w − a): the model that R pulls to. "ordinary" is the one fitted to all rows alike,
        with a γ₀ of its own by cross-validation; or coefficients shaped as `coef_`; None is 0.
    domain_features : "intercept", "slopes" or None
        Whether the domain is a feature: its own intercept, or slopes as well, as penalised
        deviations from a shared part. Give `domains` to `predict` then; rows without one, or of a
        domain that was not fitted, are served by the shared part.
    fit_intercept : bool
        Whether to learn an intercept.
    max_iter : int
        Iterations of the solver at most.
    warm_start : bool
        Begin at the solution of the last `fit`, if the shapes agree.
    verbose : bool
        Show a progress line.
    class_weight : dict, "balanced" or None
        Weights of the rows by their class, which multiply `sample_weight`: one for each class, or
        n/(K n_c) for each of K classes with n_c of n rows ("balanced"); None is 1.
    objective : Objective or None
        The rare parts, such as Objective(norm="plain") or Objective(prior=DirichletPrior(...)); all
        that is a parameter here is left at its default there.

    Attributes
    ----------
    coef_ : ndarray of shape (1, d) or (K, d)
        Coefficients of the features: one row for two classes, one for each of K ≥ 3.
    intercept_ : ndarray of shape (1,) or (K,)
        What is added to the scores; 0 without `fit_intercept`.
    classes_ : ndarray of shape (K,)
        The classes in sorted order, which is that of the columns of `predict_proba`.
    n_features_in_, feature_names_in_ : int and ndarray of shape (d,)
        How many features `fit` has seen, and their names if X was a frame.
    domain_names_ : ndarray of shape (p,)
        The domains, in the order of all attributes that have a number for each: sorted labels,
        or 0, 1, ... for the columns of a table of memberships.
    mixture_ : ndarray of shape (p,)
        The worst mixture λ.
    domain_losses_ : ndarray of shape (p,)
        L_k on the rows fitted.
    baseline_losses_ : ndarray of shape (p,)
        b, what the losses are compared with.
    agnostic_loss_ : float
        max over Λ of Σ λ_k (L_k − b_k).
    certificate_ : Certificate
        Upper and lower value of the objective; `certificate_.gap` is the proof.
    solution_ : Solution
        What the solver found; n_iter_ and history_ are parts of it.
    deviations_ : Deviations
        What the domains' scores differ by, with `domain_features` only: `.intercepts` (p, K) and
        `.slopes(d)` (p, K, d).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> region = np.repeat(["city", "rural"], [900, 100])
    >>> X = rng.normal(size=(1000, 2))
    >>> x = np.where(region == "city", X[:, 0], X[:, 1])     # what matters depends on the region
    >>> y = np.where(x + rng.normal(size=1000) > 0, "yes", "no")
    >>> pooled = AgnosticClassifier().fit(X, y, domains=None)
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
        weight = class_weights(y, self.class_weight, sample_weight)
        return read_classes(self, X, y, domains, weight, self.fit_intercept)

    def _loss(self) -> Loss:
        return CrossEntropy()


class AgnosticRegressor(LinearRegressor, AgnosticLinear):
    """min_w max_{λ∈Λ} Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄), L_k the mean of ℓ(⟨w,x⟩, y).

    Linear regression that holds up on every mixture λ ∈ Λ of the domains.

    Parameters
    ----------
    mixtures : MixtureSet, function, str or None
        Λ: a set, a function of the domains' sizes that gives one, words such as "chi2:2.0" as
        `anymix.mixtures.parsing.mixture_set` reads them, or None for any mixture (the simplex).
    gamma : float
        γ, the weight of R(w); the intercept is free. With alpha of Ridge and m rows of one domain,
        gamma = alpha/m.
    mu : float
        μ, the weight of the χ² penalty that keeps λ near the mixture m̄ of the data.
    max_skewness : float or None
        r ≥ 1, only mixtures with 1 + χ²(λ‖m̄) ≤ r count: λ rests on m/r rows at least.
    baseline : "regret", array-like of shape (p,) or None
        b. None is 0; "regret" takes the loss of the best model for each domain alone, so that a
        noisy domain does not own λ; or numbers in the order of `domain_names_`.
    tol : float
        The certified gap at which the solver stops; above it at the end, a ConvergenceWarning.
    robustness : float
        t from 0 (ordinary training) to 1 (agnostic), as in AgnosticClassifier.
    anchor : "ordinary", array-like or None
        The model that R pulls to: the ordinary one, coefficients (d,), or None for 0.
    domain_features : "intercept", "slopes" or None
        Whether the domain is a feature: its own intercept, or slopes as well, as penalised
        deviations from a shared part. Give `domains` to `predict` then; rows without one, or of a
        domain that was not fitted, are served by the shared part.
    loss : str
        The name of a loss: "squared", ℓ = ½ (z − y)², "huber", which is linear beyond
        |z − y| = delta, or any other of numbers (`anymix.problem.losses.named_losses`).
    delta : float
        Where the Huber loss turns from a square into a line; other losses do not look at it.
    fit_intercept : bool
        Whether to learn an intercept.
    max_iter : int
        Iterations of the solver at most.
    warm_start : bool
        Begin at the solution of the last `fit`, if the shapes agree.
    verbose : bool
        Show a progress line.
    objective : Objective or None
        The rare parts, such as Objective(norm="plain") or Objective(prior=DirichletPrior(...)); all
        that is a parameter here is left at its default there.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        Coefficients of the features.
    intercept_ : float
        What is added to every prediction; 0 without `fit_intercept`.
    mixture_, domain_names_, domain_losses_, certificate_, ... :
        All other attributes are those of AgnosticClassifier.

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
        tol: float = 1e-6,
        *,
        robustness: float = 1.0,
        anchor: Anchor = None,
        domain_features: Kind = None,
        loss: str = "squared",
        delta: float = 1.0,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: bool = False,
        objective: Objective | None = None,
    ) -> None:
        super().__init__(
            mixtures,
            gamma,
            mu,
            max_skewness,
            baseline,
            tol,
            robustness=robustness,
            anchor=anchor,
            domain_features=domain_features,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            warm_start=warm_start,
            verbose=verbose,
            objective=objective,
        )
        self.loss = loss
        self.delta = delta

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        return read_numbers(self, X, y, domains, sample_weight, self.fit_intercept, self._loss())

    def _loss(self) -> Loss:
        return regression_loss(self.loss, delta=self.delta)


def estimator_of(
    found: LinearFit, gamma: float, **parameters: Any
) -> AgnosticClassifier | AgnosticRegressor:
    """The estimator that a fit amounts to, fitted."""
    make: Any = AgnosticRegressor if found.model.classes is None else AgnosticClassifier
    estimator = make(found.mixtures, gamma, **parameters)
    estimator.__dict__.update(found.attributes(), n_features_in_=found.model.coef.shape[1])
    fitted: AgnosticClassifier | AgnosticRegressor = estimator
    return fitted


def without_domain_features(estimator: Any) -> None:
    """Refuse `domain_features` for rows that are not in memory."""
    if estimator.domain_features is not None:
        found = f"is {estimator.domain_features!r}, which needs rows in memory"
        raise InputError("domain_features", found, "give None for rows that are not")


def name_features(estimator: Any, problem: Any) -> None:
    """What scikit-learn's validation sets, for rows that it does not see."""
    estimator.n_features_in_ = problem.n_features
    estimator.__dict__.pop("feature_names_in_", None)
    if problem.feature_names is not None:
        estimator.feature_names_in_ = np.array(problem.feature_names, dtype=object)
