"""Model selection for the worst mixture: a scorer, and a classifier that chooses its γ, μ, r."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer, log_loss, make_scorer
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import MetadataRequest

from anymix.estimators.fitting import alone_solutions, baseline_losses, check_solver
from anymix.estimators.linear import AgnosticClassifier, LinearClassifier
from anymix.mixtures.choosing import Mixtures, target_mixtures
from anymix.problem.arrays import rows_of_domains
from anymix.problem.linear import LinearDomains
from anymix.problem.rows import Rows, read_classes
from anymix.solvers.exact import Solution, solve

Array = NDArray[np.float64]

__all__ = ["AgnosticClassifierCV", "agnostic_scorer"]

Candidate = tuple[float, float, float | None]  # γ, μ, r

GAMMAS = tuple(np.logspace(1, -5, 13).tolist())


def agnostic_scorer(
    metric: str | Callable[..., float] = "accuracy", mixtures: Mixtures = None
) -> AgnosticScorer:
    """min_{λ∈Λ} Σ_k λ_k s_k, s_k the score on domain k: the worst domain's score if Λ is None.

    Parameters
    ----------
    metric : a scorer's name ("accuracy", "neg_log_loss", "r2", ...) or a scorer, as in the
        `scoring` of scikit-learn; greater is better.
    mixtures : Λ, a MixtureSet over the domains scored, or a function of their sizes.

    Give it as `scoring` with scikit-learn's metadata routing, which hands it the domains:

    >>> import numpy as np
    >>> import sklearn
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y, d = np.zeros((8, 1)), [1, 1, 1, 1, 1, 1, 0, 0], list("aaaaaabb")
    >>> model = DummyClassifier(strategy="constant", constant=1)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     plain = cross_val_score(model, X, y, cv=2)
    ...     scorer = agnostic_scorer("accuracy")
    ...     worst = cross_val_score(model, X, y, cv=2, scoring=scorer, params={"domains": d})
    >>> plain.tolist(), worst.tolist()
    ([0.75, 0.75], [0.0, 0.0])
    """
    return AgnosticScorer(metric, mixtures)


class AgnosticScorer:
    """The callable that `agnostic_scorer` makes: scorer(estimator, X, y, domains=...)."""

    def __init__(self, metric: str | Callable[..., float], mixtures: Mixtures) -> None:
        self.metric, self.mixtures = metric, mixtures
        self._scorer: Callable[..., float] = get_scorer(metric)
        self._request = MetadataRequest(owner=self)
        self._request.score.add_request(param="domains", alias=True)

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        domains: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The score on the worst mixture of the domains."""
        if domains is None:
            raise ValueError(
                "agnostic_scorer was given no domains; pass them with "
                "sklearn.set_config(enable_metadata_routing=True) and params={'domains': ...} "
                "(fit(X, y, domains=...) in GridSearchCV)"
            )
        y = np.asarray(y)
        weight = None if sample_weight is None else np.asarray(sample_weight)
        parts = rows_of_domains(domains, len(y))
        scores = np.array([self._score(estimator, X, y, weight, r) for r in parts.values()])
        if not np.all(np.isfinite(scores)):
            k = int(np.argmin(np.isfinite(scores)))
            raise ValueError(
                f"{self.metric!r} is {scores[k]} on domain {list(parts)[k]!r}; choose a metric "
                "that is defined there, or other folds"
            )
        sizes = [float(len(r) if weight is None else weight[r].sum()) for r in parts.values()]
        worst = target_mixtures(self.mixtures, None, np.array(sizes)).maximize(-scores)
        return float(worst @ scores)

    def _score(
        self, estimator: Any, X: Any, y: NDArray[Any], weight: Any, rows: NDArray[np.intp]
    ) -> float:
        options = {} if weight is None else {"sample_weight": weight[rows]}
        return float(self._scorer_of(estimator)(estimator, _take(X, rows), y[rows], **options))

    def _scorer_of(self, estimator: Any) -> Any:
        if self.metric != "neg_log_loss":
            return self._scorer
        return make_scorer(  # a domain may lack a class that the model knows
            log_loss,
            greater_is_better=False,
            response_method="predict_proba",
            labels=estimator.classes_,
        )

    def set_score_request(self, *, domains: Any = True, sample_weight: Any = None) -> Self:
        """Under which name the metadata arrive: True is their own, or another as a string."""
        self._request = MetadataRequest(owner=self)
        self._request.score.add_request(param="domains", alias=domains)
        self._request.score.add_request(param="sample_weight", alias=sample_weight)
        return self

    def get_metadata_routing(self) -> Any:
        """What scikit-learn asks: the metadata this scorer takes."""
        return self._request

    def __repr__(self) -> str:
        return f"agnostic_scorer({self.metric!r}, mixtures={self.mixtures!r})"


def _take(X: Any, rows: NDArray[np.intp]) -> Any:
    """Rows of a pandas frame, or of an array, sparse matrix, polars frame or list."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else [X[i] for i in rows]


class AgnosticClassifierCV(LinearClassifier, BaseEstimator):
    """AgnosticClassifier with γ, μ and r = max_skewness of least cross-validated worst loss.

    (γ, μ, r) minimises max_{λ∈Λ} Σ_k λ_k (L̂_k − b_k), L̂_k the loss on the rows of domain k, each
    under a model fitted without it. Λ is `mixtures` itself for every r: the target does not change.

    Parameters
    ----------
    gammas, mus, skewnesses : the values to try, in all combinations (None in skewnesses: no cap).
        Each path starts at the largest gamma, and each fit at its predecessor's solution. None
        for gammas is 10 ... 1e-5, two a decade; it supposes features of a standard scale.
    cv : number of folds, which deal out the rows of every domain and class evenly, so every domain
        needs that many rows; or a splitter or pairs (train, test) as in scikit-learn.
    rule : "min", or "1se": the strongest regularisation (largest gamma, then mu, then smallest r)
        within one standard error of the least loss.

    The others are those of AgnosticClassifier. With baseline="regret" b_k is, for the choice, the
    least cross-validated loss over gammas of a model for domain k alone.

    Attributes
    ----------
    gamma_, mu_, max_skewness_ : the choice, at `best_index_` of `cv_results_`.
    cv_results_ : columns, for pandas.DataFrame: param_gamma, param_mu, param_max_skewness,
        worst_test_loss, se_test_loss, and test_loss_<domain> (L̂_k) for every domain.

    All attributes of AgnosticClassifier besides, from the fit of the choice to all rows. That fit
    does not warn of overfitting: `cv_results_` has the loss on rows held out.

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
        baseline: str | ArrayLike | None = None,
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
        """Choose (γ, μ, r), then fit all rows with it; arguments as in AgnosticClassifier.fit."""
        check_solver(self.solver)
        if self.rule not in ("min", "1se"):
            raise ValueError(f"rule is {self.rule!r}; give 'min' or '1se'")
        rows = read_classes(self, X, y, domains, sample_weight, self.fit_intercept)
        candidates = self._candidates()
        self._choose(rows, candidates, *self._held_out_losses(rows, candidates))
        self._refit(X, y, domains, sample_weight)
        return self

    def _candidates(self) -> list[Candidate]:
        """All (γ, μ, r) in the order of the paths: γ falls fastest."""
        gammas = sorted(_values("gammas", GAMMAS if self.gammas is None else self.gammas))[::-1]
        grid = product(_values("mus", self.mus), _values("skewnesses", self.skewnesses), gammas)
        return [(gamma, mu, r) for mu, r, gamma in grid]

    def _held_out_losses(
        self, rows: Rows, candidates: list[Candidate]
    ) -> tuple[Array, Array, Array]:
        """L (F, C, p) of C candidates on F folds, the folds' shares (F, p) of the rows, b (p,)."""
        losses, alone, sizes = [], [], []
        for train, test in _folds(rows, self.cv):
            train = train.merged()
            baselines = self._baselines(train, test, candidates)
            losses.append(self._path(train, test, candidates, baselines))
            alone.append([held_out for _, held_out in baselines.values()])  # (gammas, p)
            sizes.append(test.sizes)
        shares = np.array(sizes) / np.sum(sizes, axis=0)
        return np.array(losses), shares, _pool(np.array(alone), shares).min(axis=0)

    def _path(
        self,
        train: LinearDomains,
        test: LinearDomains,
        candidates: list[Candidate],
        baselines: dict[float, tuple[Array, Array]],
    ) -> Array:
        """Losses (C, p) on `test` of the candidates fitted to `train`."""
        losses, largest = [], candidates[0][0]
        solution: Solution | None = None
        for gamma, mu, r in candidates:
            solution = solve(
                train,
                target_mixtures(self.mixtures, r, train.sizes),
                mu=mu,
                offsets=baselines[gamma][0],
                start=None if gamma == largest else solution,
                **self._options(gamma),
            )
            losses.append(test.losses(solution.w))
        return np.array(losses)

    def _baselines(
        self, train: LinearDomains, test: LinearDomains, candidates: list[Candidate]
    ) -> dict[float, tuple[Array, Array]]:
        """For every γ: b as the training sees it, and on the rows held out; (p,) each."""
        gammas = dict.fromkeys(gamma for gamma, _, _ in candidates)
        if not (isinstance(self.baseline, str) and self.baseline == "regret"):
            b = baseline_losses(train, self.baseline, {})
            return dict.fromkeys(gammas, (b, b))
        found, alone = {}, None
        for gamma in gammas:
            alone = alone_solutions(train, self._options(gamma), alone)
            fitted = np.array([s.domain_losses[k] for k, s in enumerate(alone)])
            held_out = np.array([test.losses(s.w)[k] for k, s in enumerate(alone)])
            found[gamma] = fitted, held_out
        return found

    def _options(self, gamma: float) -> dict[str, Any]:
        return {"gamma": gamma, "norm": self.norm, "tol": self.tol, "max_iter": self.max_iter}

    def _choose(
        self, rows: Rows, candidates: list[Candidate], losses: Array, shares: Array, b: Array
    ) -> None:
        mean = _pool(losses, shares)  # (C, p)
        target = target_mixtures(self.mixtures, None, rows.membership @ rows.weight)
        worst = np.array([target.maximize(regret) for regret in mean - b])  # (C, p)
        value = np.einsum("cp,cp->c", worst, mean - b)
        by_fold = np.einsum("cp,fcp->fc", worst, losses - b)
        se = by_fold.std(axis=0, ddof=min(1, len(by_fold) - 1)) / math.sqrt(len(by_fold))
        self.best_index_ = _best(candidates, value, se, self.rule)
        self.gamma_, self.mu_, self.max_skewness_ = candidates[self.best_index_]
        gammas, mus, skewnesses = zip(*candidates, strict=True)
        self.cv_results_: dict[str, Any] = {
            "param_gamma": np.array(gammas),
            "param_mu": np.array(mus),
            "param_max_skewness": np.array(skewnesses, dtype=object),
            "worst_test_loss": value,
            "se_test_loss": se,
            **{f"test_loss_{k}": mean[:, i] for i, k in enumerate(rows.names.tolist())},
        }

    def _refit(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> None:
        best = AgnosticClassifier(
            self.mixtures,
            self.gamma_,
            self.mu_,
            self.max_skewness_,
            self.baseline,
            self.solver,
            self.tol,
            norm=self.norm,
            fit_intercept=self.fit_intercept,
            max_iter=self.max_iter,
            verbose=self.verbose,
        )
        best._fit(X, y, domains, sample_weight)
        for name, value in vars(best).items():
            if name.endswith("_"):
                setattr(self, name, value)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _values(name: str, values: Any) -> list[Any]:
    found = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []
    if not found:
        raise ValueError(f"{name} is {values!r}; give a list of one or more values to try")
    return found


def _folds(rows: Rows, cv: Any) -> Iterator[tuple[LinearDomains, LinearDomains]]:
    """A problem to fit and one to evaluate, for each fold."""
    n = len(rows.y)
    if isinstance(cv, Integral):
        parts = _deal(rows, int(cv))
    else:
        splits = check_cv(cv, rows.y, classifier=True).split(rows.X, rows.y)
        parts = ((_counts(train, n), _counts(test, n)) for train, test in splits)
    for number, (train, test) in enumerate(parts, start=1):
        yield (
            rows.fitted(train, f"the training part of fold {number}"),
            rows.part(test, f"the test part of fold {number}"),
        )


def _counts(indices: Any, n: int) -> Array:
    return np.bincount(np.arange(n)[indices], minlength=n).astype(np.float64)


def _deal(rows: Rows, cv: int) -> Iterator[tuple[Array, Array]]:
    """Rows sorted by domain and class, dealt out in turn to the folds."""
    counts = np.diff(rows.membership.tocsr().indptr)
    if cv < 2 or counts.min() < cv:
        name, least = rows.names.tolist()[int(np.argmin(counts))], counts.min()
        raise ValueError(
            f"cv is {cv} and the smallest domain, {name!r}, has n_samples={least}; every fold "
            "needs a row of every domain: merge it with another, or lower cv (2 at least)"
        )
    order = rows.order()
    fold = np.empty(len(order), dtype=np.intp)
    fold[order] = np.arange(len(order)) % cv
    for k in range(cv):
        yield (fold != k).astype(np.float64), (fold == k).astype(np.float64)


def _pool(losses: Array, shares: Array) -> Array:
    """The mean over all rows held out: losses (F, C, p), the folds' shares (F, p); gives (C, p)."""
    pooled: Array = np.einsum("fcp,fp->cp", losses, shares)
    return pooled


def _best(candidates: list[Candidate], value: Array, se: Array, rule: str) -> int:
    """The least value, or by "1se" the strongest regularisation within se of it."""
    best = int(np.argmin(value))
    if rule == "min":
        return best

    def strength(i: int) -> tuple[float, float, float]:
        gamma, mu, r = candidates[i]
        return gamma, mu, -math.inf if r is None else -r

    return max(np.flatnonzero(value <= value[best] + se[best]).tolist(), key=strength)
