"""scikit-learn estimators: the linear model that is best for the worst mixture of domains.

    min_w max_{λ∈Λ_t}  Σ_k λ_k (L_k(w) − b_k) + γ R(w − a) − μ χ²(λ‖m̄)

Λ_t is Λ itself unless a robustness t < 1 draws it towards the mixture m̄ of the data.
`fit(X, y, domains=d)` solves this to a certified gap; everything else is scikit-learn's contract.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from anymix.estimators.baselines import Baseline
from anymix.estimators.domain_features import Kind
from anymix.estimators.fitting import LinearFit
from anymix.estimators.ordinary import Anchor
from anymix.estimators.predictors import LinearClassifier, LinearRegressor
from anymix.estimators.reading import class_weights, read_classes, read_numbers
from anymix.estimators.training import AgnosticLinear
from anymix.mixtures import Penalty
from anymix.mixtures.choosing import Mixtures
from anymix.problem.losses import CrossEntropy, Loss, regression_loss
from anymix.problem.rows import Rows

__all__ = ["AgnosticClassifier", "AgnosticRegressor", "estimator_of"]


class AgnosticClassifier(LinearClassifier, AgnosticLinear):
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
    norm : str
        R(w) is ½‖w‖² ("squared") or ‖w‖ ("plain").
    prior : Penalty or None
        A prior on λ instead of mu: a `DirichletPrior`, or a `LogPrior` of `anymix.mixtures`.
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
        `anymix.mixtures.choosing.mixture_set` reads them, or None for any mixture (the simplex).
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
    norm : str
        R(w) is ½‖w‖² ("squared") or ‖w‖ ("plain").
    prior : Penalty or None
        A prior on λ instead of mu: a `DirichletPrior`, or a `LogPrior` of `anymix.mixtures`.
    fit_intercept : bool
        Whether to learn an intercept.
    max_iter : int
        Iterations of the solver at most.
    warm_start : bool
        Begin at the solution of the last `fit`, if the shapes agree.
    verbose : bool
        Show a progress line.

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
        norm: str = "squared",
        prior: Penalty | None = None,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: bool = False,
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
            norm=norm,
            prior=prior,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            warm_start=warm_start,
            verbose=verbose,
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
    """The estimator that a fit amounts to, fitted.

    Parameters
    ----------
    found : LinearFit
        What was fitted.
    gamma : float
        The weight of R(w) that it was fitted with.
    **parameters
        The other parameters of the estimator that were not left at their defaults.

    Returns
    -------
    AgnosticClassifier or AgnosticRegressor

    Examples
    --------
    >>> from anymix.estimators.fitting import Settings, fit_problem
    >>> from anymix.problem.linear import LinearDomains
    >>> problem = LinearDomains([[0.0], [1.0]] * 4, [0, 1] * 4, ["a", "a", "b", "b"] * 2)
    >>> estimator_of(fit_problem(problem, Settings(gamma=0.1)), 0.1).predict([[0.0], [1.0]])
    array([0, 1])
    """
    make: Any = AgnosticRegressor if found.model.classes is None else AgnosticClassifier
    estimator = make(found.mixtures, gamma, **parameters)
    estimator.__dict__.update(found.attributes(), n_features_in_=found.model.coef.shape[1])
    fitted: AgnosticClassifier | AgnosticRegressor = estimator
    return fitted
