"""Estimators that choose t, γ, μ and r by what rows held out say, the ordinary model among them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from anymix.errors import InputError
from anymix.estimators.choices import Choice, choose
from anymix.estimators.domain_features import Kind, widened
from anymix.estimators.fitting import Baseline, rare_parts
from anymix.estimators.keywords import by_name
from anymix.estimators.linear import (
    LinearClassifier,
    LinearRegressor,
    estimator_of,
    name_features,
    without_domain_features,
)
from anymix.estimators.ordinary import Anchor
from anymix.estimators.reading import (
    class_weights,
    folds,
    read_classes,
    read_numbers,
    refuse_class_weight,
)
from anymix.estimators.searching import ROBUST_GAMMAS, ROBUSTNESS, Candidate, Plan, candidates_of
from anymix.mixtures.parsing import Mixtures
from anymix.objective import Objective, refuse_parts
from anymix.problem.dealing import ROWS_TO_CHOOSE, rows_to_choose
from anymix.problem.far_rows import far_problem
from anymix.problem.losses import CrossEntropy, Loss, regression_loss
from anymix.problem.rows import Rows
from anymix.selection.rule import KEPT, NothingGained, check_price
from anymix.solvers.frontier import Frontier

Array = NDArray[np.float64]

__all__ = ["AgnosticClassifierCV", "AgnosticRegressorCV", "NothingGained"]

SHARED = (
    "baseline",
    "tol",
    "domain_features",
    "fit_intercept",
    "max_iter",
    "objective",
    "loss",
    "delta",
)


class AgnosticSelecting(BaseEstimator):
    """What AgnosticClassifierCV and AgnosticRegressorCV share."""

    n_features_in_: int
    coef_: Array
    intercept_: Any
    baseline_losses_: Array
    mixture_: Array
    __metadata_request__fit = {"domains": True}  # noqa: RUF012 - scikit-learn's way to say it
    __metadata_request__predict = {"domains": True}  # noqa: RUF012
    __metadata_request__predict_proba = {"domains": True}  # noqa: RUF012
    __metadata_request__predict_log_proba = {"domains": True}  # noqa: RUF012
    __metadata_request__decision_function = {"domains": True}  # noqa: RUF012
    __metadata_request__score = {"domains": True}  # noqa: RUF012

    def __init__(
        self,
        gammas: Iterable[float] | None = None,
        mus: Iterable[float] = (0.0,),
        skewnesses: Iterable[float | None] = (None,),
        cv: Any = 5,
        price: float = 0.05,
        *,
        mixtures: Mixtures = None,
        baseline: Baseline = None,
        robustness: Iterable[float] = ROBUSTNESS,
        anchor: Anchor = "ordinary",
        domain_features: Kind = None,
        tol: float = 1e-6,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        random_state: Any = 0,
        class_weight: Any = None,
        n_jobs: int | None = None,
        objective: Objective | None = None,
    ) -> None:
        self.gammas = gammas
        self.mus = mus
        self.skewnesses = skewnesses
        self.cv = cv
        self.price = price
        self.mixtures = mixtures
        self.baseline = baseline
        self.robustness = robustness
        self.anchor = anchor
        self.domain_features = domain_features
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.random_state = random_state
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.objective = objective

    @by_name
    def fit(self, X: Any, y: Any = None, *, domains: Any = None, sample_weight: Any = None) -> Self:
        """Choose (t, γ, μ, r), then fit all rows with it; warn if that is the ordinary model.

        Of more than 20,000 rows, or of rows that are not in memory, a sample chooses, and all are
        fitted.

        Parameters
        ----------
        X : array-like of shape (n, d), or rows that are not in memory
            The features, dense, sparse or a frame; or an array or frame of Dask, a dataset of
            pyarrow or Ray, or a problem of `anymix.partitions`.
        y : array-like of shape (n,), or str
            What to learn; of a frame or dataset that is not in memory, the name of the column.
        domains : array-like of shape (n,) or (n, p), str or None
            Labels, or memberships when a row may be in several domains; None is one domain; or
            the name of the column.
        sample_weight : array-like of shape (n,), str or None
            Weights ≥ 0 of the rows, or the name of their column; None is 1.

        Returns
        -------
        self
        """
        check_price(self.price)
        rng = check_random_state(self.random_state)
        far = far_problem(X, y, domains, sample_weight, self._loss(), self.fit_intercept)
        if far is None:
            read = self._counted(self._read(X, y, domains, sample_weight))
            rows, whole = widened(read, self.domain_features), None
            if isinstance(self.cv, Integral) and len(rows) > ROWS_TO_CHOOSE:
                whole = rows.to_fit()
                _, rows = rows_to_choose(rows, rng)
        else:
            refuse_class_weight(self.class_weight)
            without_domain_features(self)
            name_features(self, far)
            rows, whole = sample_of(far), far
        splits = folds(rows, self.cv, rng)
        choice = choose(rows, splits, self._plan(rows), self.price, whole)
        self._keep(choice, rows.names)
        if choice.is_ordinary and len(choice.found.candidates) > 1:
            warnings.warn(KEPT, NothingGained, stacklevel=3)
        return self

    def _counted(self, rows: Rows) -> Rows:
        """The rows of weight above 0, so that others take no place in a fold; splits count all."""
        if rows.weight is None or not isinstance(self.cv, Integral) or np.all(rows.weight > 0):
            return rows
        found = rows.take(np.flatnonzero(rows.weight > 0))
        counts = found.domains.counts(len(rows.names))
        if np.any(counts == 0):
            name = rows.names.tolist()[int(np.argmin(counts))]
            fix = "give some of them a weight above 0, or leave the domain out"
            raise InputError("sample_weight", f"is zero for all rows of {name!r}", fix)
        return found

    def _plan(self, rows: Rows) -> Plan:
        """The candidates; with one domain there is none but the ordinary model."""
        gammas = None if self.gammas is None else _values("gammas", self.gammas)
        grid = (_values(name, getattr(self, name)) for name in ("mus", "skewnesses"))
        bold = [t for t in _values("robustness", self.robustness) if t != 0]
        candidates = candidates_of(
            bold, gammas or ROBUST_GAMMAS, *grid, to_zero=isinstance(self.anchor, str)
        )
        objective = rare_parts(self.objective, mixtures=self.mixtures)
        fix = "leave it out: rows held out are judged by Σ_k λ_k L_k alone"
        refuse_parts(objective, fix, multiplicative=False)
        return Plan(
            candidates if len(rows.names) > 1 else [],
            objective,
            self.baseline,
            self.anchor,
            gammas,
            self.tol,
            self.max_iter,
            self.n_jobs,
        )

    def _keep(self, choice: Choice, names: NDArray[Any]) -> None:
        """The choice, the models, and the table of all candidates."""
        found, held = choice.found, choice.found.held_out
        self.best_index_ = choice.index
        self.robustness_, self.gamma_, self.mu_, self.max_skewness_, _ = choice.candidate
        self.frontier_: Frontier = choice.frontier
        ordinary, chosen = (
            fit.with_deviations(self.domain_features, self.n_features_in_)
            for fit in (choice.ordinary, choice.fit)
        )
        shared = {name: value for name, value in self.get_params().items() if name in SHARED}
        gamma = found.candidates[0].gamma
        self.ordinary_ = estimator_of(ordinary, gamma, robustness=0.0, **shared)
        if hasattr(self, "feature_names_in_"):
            self.ordinary_.feature_names_in_ = self.feature_names_in_
        self.__dict__.pop("deviations_", None)  # of an earlier fit
        self.__dict__.update(chosen.attributes())
        columns = zip(Candidate._fields, zip(*found.candidates, strict=True), strict=True)
        self.cv_results_: dict[str, Any] = {
            **{f"param_{name}": _column(values) for name, values in columns},
            "worst_test_loss": held.value,
            "expected_worst_test_loss": held.expected,
            "se_test_loss": np.array([held.error(c, lam) for c, lam in enumerate(held.worst)]),
            "pooled_test_loss": held.pooled,
            **{f"test_loss_{k}": held.domain_losses[:, i] for i, k in enumerate(names.tolist())},
        }

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        raise NotImplementedError

    def _loss(self) -> Loss:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class AgnosticClassifierCV(LinearClassifier, AgnosticSelecting):
    """The classifier that rows held out recommend: an ordinary one, or one for the worst mixture.

    Candidates are the ordinary model, fitted to all rows alike (a row of several domains counts
    once in each), and solutions of

        min_w max_{λ∈Λ_t}  Σ_k λ_k (L_k(w) − b_k) + γ R(w − a) − μ χ²(λ‖m̄),

    Λ_t = {(1−t) m̄ + t λ : λ ∈ Λ}, for all t, γ, μ and r = max_skewness to be tried. Each is judged
    by V = E max_{λ∈Λ} Σ_k λ_k (L̂_k − b_k), L̂_k its loss on the rows of domain k under models fitted
    without them; E is over the errors of the ordinary model's means, because which domain is worst
    is known only as surely as the means are.
    Of the models that all rows can pay for, and that are on no domain worse than a constant guess
    where the ordinary one is not, the least V is taken if it is significantly less than the
    ordinary model's (one-sided, 5 %). Otherwise the ordinary model is kept, with a `NothingGained`
    warning. Above 20,000 rows a sample of so many chooses (unless `cv` is a splitter, or rows are
    in several domains), and the choice is fitted to all rows.

    Parameters
    ----------
    gammas : iterable of float or None
        Values of γ to try; each fit starts at its predecessor's solution. None is 10 ... 0.01, one
        a decade, which supposes features of a standard scale. The ordinary model has a γ₀ of its
        own, among these values or (None) between 1 and 1e-5.
    mus : iterable of float
        Values of mu to try, in all combinations with the others.
    skewnesses : iterable of float or None
        Values of max_skewness to try; None among them is no cap.
    cv : int, splitter or iterable
        Number of folds, which deal out the rows of every domain and class evenly, fewer if the
        smallest domain has fewer rows (2 at least); or a splitter or pairs (train, test) as in
        scikit-learn.
    price : float
        The part by which the mean loss of all rows may rise (of its root, for squared errors) for
        the sake of the worst domain: 0 asks for free gains only, inf looks at no one else.
    mixtures : MixtureSet, function, str or None
        Λ, the mixtures to guard against: a set, a function of the domains' sizes that gives one,
        words such as "chi2:2.0", or None for any mixture (the simplex).
    baseline : "regret", array-like of shape (p,) or None
        b. None is 0; "regret" compares each domain with the best model for it alone, which for the
        choice is that of the least cross-validated loss over gammas; or p numbers.
    robustness : iterable of float
        Values of t in (0, 1] to try; t = 0, the ordinary model, always is. (1.0,) with
        anchor=None and price=np.inf is the purely agnostic learner with a tuned γ.
    anchor : "ordinary", array-like or None
        a, the model that R pulls to: the ordinary one, coefficients given, or None for 0. With
        "ordinary" the largest t is tried with a pull to 0, too.
    domain_features : "intercept", "slopes" or None
        Whether the domain is a feature: its own intercept, or slopes as well, as penalised
        deviations from a shared part. Give `domains` to `predict` then; rows without one, or of a
        domain that was not fitted, are served by the shared part.
    tol : float
        The certified gap at which a fit stops; above it at the end, a ConvergenceWarning.
    fit_intercept : bool
        Whether to learn an intercept.
    max_iter : int
        Iterations of a fit at most.
    random_state : int, RandomState or None
        Deals the rows to the folds, and draws those that choose where there are very many.
    class_weight : dict, "balanced" or None
        Weights of the rows by their class, which multiply `sample_weight`: one for each class, or
        n/(K n_c) for each of K classes with n_c of n rows ("balanced"); None is 1.
    n_jobs : int or None
        How many processes share the folds (-1: as many as there are cores); None is 1, or what
        `joblib.parallel_config` says. The result is the same.
    objective : Objective or None
        The rare parts, such as Objective(norm="plain") or Objective(prior=DirichletPrior(...)), for
        the fits and for judging them; all that is a parameter here is left at its default there.

    Attributes
    ----------
    robustness_, gamma_, mu_, max_skewness_ : float
        The choice, at `best_index_` of `cv_results_`; t = 0, at 0, is the ordinary model.
    cv_results_ : dict
        Columns for pandas.DataFrame: param_robustness, param_gamma, param_mu, param_max_skewness,
        param_to_zero (whether R pulls to 0), worst_test_loss (of the worst mixture of these very
        rows), expected_worst_test_loss (V), se_test_loss, pooled_test_loss (of all rows), and
        test_loss_<domain> (L̂_k) for every domain. The first row is the ordinary model.
    frontier_ : Frontier
        For each t the best model: its losses on the rows fitted and on rows held out.
    ordinary_ : AgnosticClassifier
        The ordinary model, fitted to all rows.
    coef_, mixture_, certificate_, ... :
        All attributes of AgnosticClassifier, from the fit of the choice to all rows. That fit does
        not warn of overfitting: `cv_results_` has the loss on rows held out.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> region = np.repeat(["city", "rural"], [900, 60])
    >>> X = rng.normal(size=(960, 20))
    >>> x = np.where(region == "city", X[:, 0], X[:, 1])     # what matters depends on the region
    >>> y = 2 * x + rng.normal(size=960) > 0
    >>> model = AgnosticClassifierCV().fit(X, y, domains=region)
    >>> model.robustness_, model.gamma_
    (0.75, 1.0)
    >>> front = model.frontier_
    >>> front.robustness, front.held_out.worst.round(2), front.held_out.pooled.round(2)
    (array([0.  , 0.25, 0.5 , 0.75, 1.  ]), ...)
    """

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        weight = class_weights(y, self.class_weight, sample_weight)
        return read_classes(self, X, y, domains, weight, self.fit_intercept)

    def _loss(self) -> Loss:
        return CrossEntropy()


class AgnosticRegressorCV(LinearRegressor, AgnosticSelecting):
    """The regressor that rows held out recommend: an ordinary one, or one for the worst mixture.

    Candidates and choice are those of AgnosticClassifierCV, with a loss of numbers.

    Parameters
    ----------
    gammas : iterable of float or None
        Values of γ to try; each fit starts at its predecessor's solution. None is 10 ... 0.01, one
        a decade, which supposes features of a standard scale. The ordinary model has a γ₀ of its
        own, among these values or (None) between 1 and 1e-5.
    mus : iterable of float
        Values of mu to try, in all combinations with the others.
    skewnesses : iterable of float or None
        Values of max_skewness to try; None among them is no cap.
    cv : int, splitter or iterable
        Number of folds, which deal out the rows of every domain and class evenly, fewer if the
        smallest domain has fewer rows (2 at least); or a splitter or pairs (train, test) as in
        scikit-learn.
    price : float
        The part by which the mean loss of all rows may rise (of its root, for squared errors) for
        the sake of the worst domain: 0 asks for free gains only, inf looks at no one else.
    loss : str
        The name of a loss: "squared", ℓ = ½ (z − y)², "huber", which is linear beyond
        |z − y| = delta, or any other of numbers (`anymix.problem.losses.named_losses`).
    delta : float
        Where the Huber loss turns from a square into a line; other losses do not look at it.
    mixtures : MixtureSet, function, str or None
        Λ, the mixtures to guard against: a set, a function of the domains' sizes that gives one,
        words such as "chi2:2.0", or None for any mixture (the simplex).
    baseline : "regret", array-like of shape (p,) or None
        b. None is 0; "regret" compares each domain with the best model for it alone, which for the
        choice is that of the least cross-validated loss over gammas; or p numbers.
    robustness : iterable of float
        Values of t in (0, 1] to try; t = 0, the ordinary model, always is. (1.0,) with
        anchor=None and price=np.inf is the purely agnostic learner with a tuned γ.
    anchor : "ordinary", array-like or None
        a, the model that R pulls to: the ordinary one, coefficients given, or None for 0. With
        "ordinary" the largest t is tried with a pull to 0, too.
    domain_features : "intercept", "slopes" or None
        Whether the domain is a feature: its own intercept, or slopes as well, as penalised
        deviations from a shared part. Give `domains` to `predict` then; rows without one, or of a
        domain that was not fitted, are served by the shared part.
    tol : float
        The certified gap at which a fit stops; above it at the end, a ConvergenceWarning.
    fit_intercept : bool
        Whether to learn an intercept.
    max_iter : int
        Iterations of a fit at most.
    random_state : int, RandomState or None
        Deals the rows to the folds, and draws those that choose where there are very many.
    n_jobs : int or None
        How many processes share the folds (-1: as many as there are cores); None is 1, or what
        `joblib.parallel_config` says. The result is the same.
    objective : Objective or None
        The rare parts, such as Objective(norm="plain") or Objective(prior=DirichletPrior(...)), for
        the fits and for judging them; all that is a parameter here is left at its default there.

    Attributes
    ----------
    robustness_, gamma_, mu_, max_skewness_ : float
        The choice, at `best_index_` of `cv_results_`; t = 0, at 0, is the ordinary model.
    cv_results_, frontier_, ordinary_ : dict, Frontier and AgnosticRegressor
        As those of AgnosticClassifierCV.
    coef_, intercept_, mixture_, certificate_, ... :
        All attributes of AgnosticRegressor, from the fit of the choice to all rows.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> shop = np.repeat(["a", "b"], [300, 40])
    >>> X = rng.normal(size=(340, 8))
    >>> y = np.where(shop == "a", X[:, 0], X[:, 1]) + rng.normal(size=340)
    >>> model = AgnosticRegressorCV().fit(X, y, domains=shop)
    >>> model.robustness_ > 0                                # the ordinary model was not kept
    True
    >>> front = model.frontier_
    >>> front.robustness, front.held_out.worst.round(1)      # what t does for the small shop
    (array([0.  , 0.25, 0.5 , 0.75, 1.  ]), array([1.1, 1. , 1. , 0.9, 0.9]))
    """

    def __init__(
        self,
        gammas: Iterable[float] | None = None,
        mus: Iterable[float] = (0.0,),
        skewnesses: Iterable[float | None] = (None,),
        cv: Any = 5,
        price: float = 0.05,
        *,
        loss: str = "squared",
        delta: float = 1.0,
        mixtures: Mixtures = None,
        baseline: Baseline = None,
        robustness: Iterable[float] = ROBUSTNESS,
        anchor: Anchor = "ordinary",
        domain_features: Kind = None,
        tol: float = 1e-6,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        random_state: Any = 0,
        n_jobs: int | None = None,
        objective: Objective | None = None,
    ) -> None:
        super().__init__(
            gammas,
            mus,
            skewnesses,
            cv,
            price,
            mixtures=mixtures,
            baseline=baseline,
            robustness=robustness,
            anchor=anchor,
            domain_features=domain_features,
            tol=tol,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            random_state=random_state,
            n_jobs=n_jobs,
            objective=objective,
        )
        self.loss = loss
        self.delta = delta

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        return read_numbers(self, X, y, domains, sample_weight, self.fit_intercept, self._loss())

    def _loss(self) -> Loss:
        return regression_loss(self.loss, delta=self.delta)


def sample_of(problem: Any) -> Rows:
    """About 20,000 rows of a problem that is not in memory, by which to choose."""
    _, rows = rows_to_choose(problem.sampled_rows, np.random.default_rng(0))
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    share = problem.sizes / problem.sizes.sum() / rows.sizes()  # small domains have more rows here
    return replace(rows, weight=len(rows) * weight * share[rows.domains.key()])


def _column(values: Iterable[Any]) -> NDArray[Any]:
    """A column of numbers; of objects, if None is among them."""
    found = list(values)
    return np.array(found, dtype=object if None in found else None)


def _values(name: str, values: Any) -> list[Any]:
    found = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []
    if not found:
        raise InputError(name, f"is {values!r}", "give a list of one or more values to try")
    return found
