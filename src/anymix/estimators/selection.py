"""Estimators that choose t, γ, μ and r by what rows held out say, the ordinary model among them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike

from anymix.estimators.baselines import Baseline
from anymix.estimators.domain_features import Kind
from anymix.estimators.ordinary import Anchor
from anymix.estimators.predictors import LinearClassifier, LinearRegressor
from anymix.estimators.reading import class_weights, read_classes, read_numbers
from anymix.estimators.searching import ROBUSTNESS
from anymix.estimators.selecting import AgnosticSelecting
from anymix.mixtures import Penalty
from anymix.mixtures.choosing import Mixtures
from anymix.problem.losses import CrossEntropy, Loss, regression_loss
from anymix.problem.rows import Rows

__all__ = ["AgnosticClassifierCV", "AgnosticRegressorCV"]


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
    norm : str
        R(w) is ½‖w‖² ("squared") or ‖w‖ ("plain").
    fit_intercept : bool
        Whether to learn an intercept.
    max_iter : int
        Iterations of a fit at most.
    random_state : int, RandomState or None
        Deals the rows to the folds, and draws those that choose where there are very many.
    verbose : bool
        Show a progress line.
    prior : Penalty or None
        A prior on λ, such as a `DirichletPrior`, for the fits and for judging them; with mus at 0.
    class_weight : dict, "balanced" or None
        Weights of the rows by their class, which multiply `sample_weight`: one for each class, or
        n/(K n_c) for each of K classes with n_c of n rows ("balanced"); None is 1.
    n_jobs : int or None
        How many processes share the folds (-1: as many as there are cores); None is 1, or what
        `joblib.parallel_config` says. The result is the same.

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
    norm : str
        R(w) is ½‖w‖² ("squared") or ‖w‖ ("plain").
    fit_intercept : bool
        Whether to learn an intercept.
    max_iter : int
        Iterations of a fit at most.
    random_state : int, RandomState or None
        Deals the rows to the folds, and draws those that choose where there are very many.
    verbose : bool
        Show a progress line.
    prior : Penalty or None
        A prior on λ, such as a `DirichletPrior`, for the fits and for judging them; with mus at 0.
    n_jobs : int or None
        How many processes share the folds (-1: as many as there are cores); None is 1, or what
        `joblib.parallel_config` says. The result is the same.

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
        norm: str = "squared",
        fit_intercept: bool = True,
        max_iter: int = 1000,
        random_state: Any = 0,
        verbose: bool = False,
        prior: Penalty | None = None,
        n_jobs: int | None = None,
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
            norm=norm,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            random_state=random_state,
            verbose=verbose,
            prior=prior,
            n_jobs=n_jobs,
        )
        self.loss = loss
        self.delta = delta

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        return read_numbers(self, X, y, domains, sample_weight, self.fit_intercept, self._loss())

    def _loss(self) -> Loss:
        return regression_loss(self.loss, delta=self.delta)
