"""Estimators that choose their γ, μ and r = max_skewness by cross-validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import check_cv

from anymix.errors import InputError
from anymix.estimators.baselines import Baseline
from anymix.estimators.fitting import Settings, fit_problem
from anymix.estimators.predictors import LinearClassifier, LinearRegressor
from anymix.estimators.reading import read_classes, read_numbers, regression_loss
from anymix.estimators.searching import Candidate, Found, Path, search
from anymix.mixtures.choosing import Mixtures
from anymix.problem.dealing import Split, deal, sorted_rows
from anymix.problem.rows import Rows

Array = NDArray[np.float64]

__all__ = ["AgnosticClassifierCV", "AgnosticRegressorCV"]

GAMMAS = tuple(np.logspace(1, -5, 13).tolist())


class _Selecting(BaseEstimator):
    """What both estimators share: parameters, the search and the fit of the choice."""

    coef_: Array
    intercept_: Any
    baseline_losses_: Array
    mixture_: Array
    __metadata_request__fit = {"domains": True}  # noqa: RUF012 - scikit-learn's way to say it

    def __init__(
        self,
        gammas: Iterable[float] | None = None,
        mus: Iterable[float] = (0.0,),
        skewnesses: Iterable[float | None] = (None,),
        cv: Any = 5,
        rule: str = "min",
        *,
        mixtures: Mixtures = None,
        baseline: Baseline = None,
        solver: str = "exact",
        tol: float = 1e-6,
        norm: str = "squared",
        fit_intercept: bool = True,
        max_iter: int = 1000,
        verbose: bool = False,
    ) -> None:
        self.gammas = gammas
        self.mus = mus
        self.skewnesses = skewnesses
        self.cv = cv
        self.rule = rule
        self.mixtures = mixtures
        self.baseline = baseline
        self.solver = solver
        self.tol = tol
        self.norm = norm
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, domains: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Choose (γ, μ, r), then fit all rows with it.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features, dense, sparse or a frame.
        y : array-like of shape (n,)
            What to learn.
        domains : array-like of shape (n,) or (n, p), or None
            Labels, or memberships when a row may be in several domains; None is one domain.
        sample_weight : array-like of shape (n,) or None
            Weights ≥ 0 of the rows; None is 1.

        Returns
        -------
        self
        """
        self._check()
        rows = self._read(X, y, domains, sample_weight)
        path = Path(
            self._candidates(), self.mixtures, self.baseline, self.norm, self.tol, self.max_iter
        )
        found = search(rows, _folds(rows, self.cv), [path])[0]
        self._keep(found, rows.names)
        start = found.solutions[self.best_index_]
        best = fit_problem(rows.to_fit(), self._settings(), start=start)
        self.__dict__.update(best.attributes(), validation_losses_=None)
        return self

    def _check(self) -> None:
        if self.solver in ("stochastic", "optimistic"):
            fix = "paths over gamma are exact: give 'exact'"
            raise InputError("solver", f"is {self.solver!r}", fix)
        if self.solver != "exact":
            raise InputError("solver", f"is {self.solver!r}", "give 'exact'")
        if self.rule not in ("min", "1se"):
            raise InputError("rule", f"is {self.rule!r}", "give 'min' or '1se'")

    def _candidates(self) -> list[Candidate]:
        """All (γ, μ, r) in the order of the paths: γ falls fastest."""
        gammas = sorted(_values("gammas", GAMMAS if self.gammas is None else self.gammas))[::-1]
        grid = product(_values("mus", self.mus), _values("skewnesses", self.skewnesses), gammas)
        return [(gamma, mu, r) for mu, r, gamma in grid]

    def _keep(self, found: Found, names: NDArray[Any]) -> None:
        """The choice, and the table of all candidates."""
        self.best_index_ = found.best(self.rule)
        self.gamma_, self.mu_, self.max_skewness_ = found.candidates[self.best_index_]
        gammas, mus, skewnesses = zip(*found.candidates, strict=True)
        self.cv_results_: dict[str, Any] = {
            "param_gamma": np.array(gammas),
            "param_mu": np.array(mus),
            "param_max_skewness": np.array(skewnesses, dtype=object),
            "worst_test_loss": found.value,
            "se_test_loss": found.error,
            **{f"test_loss_{k}": found.losses[:, i] for i, k in enumerate(names.tolist())},
        }

    def _settings(self) -> Settings:
        return Settings(
            self.mixtures,
            self.gamma_,
            self.mu_,
            self.max_skewness_,
            self.baseline,
            self.norm,
            tol=self.tol,
            max_iter=self.max_iter,
            verbose=self.verbose,
        )

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class AgnosticClassifierCV(LinearClassifier, _Selecting):
    """AgnosticClassifier with γ, μ and r = max_skewness of least cross-validated worst loss.

    (γ, μ, r) minimises max_{λ∈Λ} Σ_k λ_k (L̂_k − b_k), L̂_k the loss on the rows of domain k, each
    under a model fitted without it. Λ is `mixtures` itself for every r: the target does not change.

    Parameters
    ----------
    gammas : iterable of float or None
        Values to try. Each path starts at the largest, and each fit at its predecessor's
        solution. None is 10 ... 1e-5, two a decade, which supposes features of a standard scale.
    mus : iterable of float
        Values of mu to try, in all combinations with the others.
    skewnesses : iterable of float or None
        Values of max_skewness to try; None among them is no cap.
    cv : int, splitter or iterable
        Number of folds, which deal out the rows of every domain and class evenly, so every domain
        needs that many rows; or a splitter or pairs (train, test) as in scikit-learn.
    rule : str
        "min", or "1se": the strongest regularisation (largest gamma, then mu, then smallest r)
        within one standard error of the least loss.
    mixtures : MixtureSet, function, str or None
        Λ, the mixtures to guard against: a set, a function of the domains' sizes that gives one,
        words such as "chi2:2.0", or None for any mixture (the simplex).
    baseline : "regret", array-like of shape (p,) or None
        b. None is 0; "regret" compares each domain with the best model for it alone, which for the
        choice is that of the least cross-validated loss over gammas; or p numbers.
    solver : str
        "exact", the only one that can follow a path of gammas.
    tol : float
        The certified gap at which a fit stops; above it at the end, a ConvergenceWarning.
    norm : str
        R(w) is ½‖w‖² ("squared") or ‖w‖ ("plain").
    fit_intercept : bool
        Whether to learn an intercept.
    max_iter : int
        Iterations of a fit at most.
    verbose : bool
        Show a progress line.

    Attributes
    ----------
    gamma_, mu_, max_skewness_ : float
        The choice, at `best_index_` of `cv_results_`.
    cv_results_ : dict
        Columns for pandas.DataFrame: param_gamma, param_mu, param_max_skewness, worst_test_loss,
        se_test_loss, and test_loss_<domain> (L̂_k) for every domain.
    coef_, mixture_, certificate_, ... :
        All attributes of AgnosticClassifier, from the fit of the choice to all rows. That fit does
        not warn of overfitting: `cv_results_` has the loss on rows held out.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> region = np.repeat(["city", "rural"], [900, 60])
    >>> X = rng.normal(size=(960, 20))
    >>> x = np.where(region == "city", X[:, 0], X[:, 1])
    >>> y = 2 * x + rng.normal(size=960) > 0
    >>> model = AgnosticClassifierCV(gammas=[1.0, 0.1, 0.01, 0.001]).fit(X, y, domains=region)
    >>> model.gamma_
    0.1
    >>> model.cv_results_["worst_test_loss"].round(2)
    array([0.65, 0.6 , 0.62, 0.63])
    """

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        return read_classes(self, X, y, domains, sample_weight, self.fit_intercept)


class AgnosticRegressorCV(LinearRegressor, _Selecting):
    """AgnosticRegressor with γ, μ and r = max_skewness of least cross-validated worst loss.

    (γ, μ, r) minimises max_{λ∈Λ} Σ_k λ_k (L̂_k − b_k), L̂_k the loss on the rows of domain k, each
    under a model fitted without it, just as in AgnosticClassifierCV.

    Parameters
    ----------
    gammas : iterable of float or None
        Values to try; None is 10 ... 1e-5, two a decade, which supposes features of a standard
        scale.
    mus : iterable of float
        Values of mu to try, in all combinations with the others.
    skewnesses : iterable of float or None
        Values of max_skewness to try; None among them is no cap.
    cv : int, splitter or iterable
        Number of folds, which deal out the rows of every domain evenly, so every domain needs that
        many rows; or a splitter or pairs (train, test) as in scikit-learn.
    rule : str
        "min", or "1se": the strongest regularisation (largest gamma, then mu, then smallest r)
        within one standard error of the least loss.
    loss : str
        "squared", ℓ = ½ (z − y)², or "huber", which is linear beyond |z − y| = delta.
    delta : float
        Where the Huber loss turns from a square into a line; the squared loss does not look at it.
    mixtures : MixtureSet, function, str or None
        Λ, the mixtures to guard against: a set, a function of the domains' sizes that gives one,
        words such as "chi2:2.0", or None for any mixture (the simplex).
    baseline : "regret", array-like of shape (p,) or None
        b. None is 0; "regret" compares each domain with the best model for it alone, which for the
        choice is that of the least cross-validated loss over gammas; or p numbers.
    solver : str
        "exact", the only one that can follow a path of gammas.
    tol : float
        The certified gap at which a fit stops; above it at the end, a ConvergenceWarning.
    norm : str
        R(w) is ½‖w‖² ("squared") or ‖w‖ ("plain").
    fit_intercept : bool
        Whether to learn an intercept.
    max_iter : int
        Iterations of a fit at most.
    verbose : bool
        Show a progress line.

    Attributes
    ----------
    gamma_, mu_, max_skewness_ : float
        The choice, at `best_index_` of `cv_results_`.
    cv_results_ : dict
        Columns for pandas.DataFrame, as those of AgnosticClassifierCV.
    coef_, intercept_, mixture_, certificate_, ... :
        All attributes of AgnosticRegressor, from the fit of the choice to all rows.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> shop = np.repeat(["a", "b"], [300, 40])
    >>> X = rng.normal(size=(340, 8))
    >>> y = np.where(shop == "a", X[:, 0], X[:, 1]) + rng.normal(size=340)
    >>> AgnosticRegressorCV([1.0, 0.1, 0.01]).fit(X, y, domains=shop).gamma_
    0.1
    """

    def __init__(
        self,
        gammas: Iterable[float] | None = None,
        mus: Iterable[float] = (0.0,),
        skewnesses: Iterable[float | None] = (None,),
        cv: Any = 5,
        rule: str = "min",
        *,
        loss: str = "squared",
        delta: float = 1.0,
        mixtures: Mixtures = None,
        baseline: Baseline = None,
        solver: str = "exact",
        tol: float = 1e-6,
        norm: str = "squared",
        fit_intercept: bool = True,
        max_iter: int = 1000,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            gammas,
            mus,
            skewnesses,
            cv,
            rule,
            mixtures=mixtures,
            baseline=baseline,
            solver=solver,
            tol=tol,
            norm=norm,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            verbose=verbose,
        )
        self.loss = loss
        self.delta = delta

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        loss = regression_loss(self.loss, self.delta)
        return read_numbers(self, X, y, domains, sample_weight, self.fit_intercept, loss)


def _values(name: str, values: Any) -> list[Any]:
    found = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []
    if not found:
        raise InputError(name, f"is {values!r}", "give a list of one or more values to try")
    return found


def _folds(rows: Rows, cv: Any) -> Iterator[Split]:
    """What to fit and what to judge on, for each fold; every domain is in both."""
    if isinstance(cv, Integral):
        _check_cv(rows, int(cv))
        splits = deal(sorted_rows(rows), int(cv))
    else:
        classifier = rows.classes is not None
        splits = check_cv(cv, rows.y, classifier=classifier).split(rows.X, rows.y)
    numbers = np.arange(len(rows))
    for number, (train, test) in enumerate(splits, start=1):
        held_out = numbers[test]  # masks become numbers
        rows.check_domains(held_out, f"the test part of fold {number}")
        yield numbers[train], held_out


def _check_cv(rows: Rows, cv: int) -> None:
    counts = rows.domains.counts(len(rows.names))
    if cv < 2 or counts.min() < cv:
        name, least = rows.names.tolist()[int(np.argmin(counts))], counts.min()
        raise InputError(
            "cv",
            f"is {cv} and the smallest domain, {name!r}, has n_samples={least}",
            "every fold needs a row of every domain: merge it with another, or lower cv (2 at "
            "least)",
        )
