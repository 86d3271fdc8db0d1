"""The kinds of models that `AnyMixClassifier` is made of: linear, boosted trees, or the user's own.

Each is tuned and judged by folds, without the domain and with it. With the domain, rows can be
asked as if they were of any domain e: a linear model has an intercept per domain, or penalised
slopes; trees have the domain as a category; other estimators get it as one-hot columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from anymix.estimators.cross_fitting import predictions, weight_argument
from anymix.estimators.keywords import no_domains
from anymix.estimators.ordinary import choose_ordinary
from anymix.objective import Objective
from anymix.problem.losses import CrossEntropy, SquaredError
from anymix.problem.rows import Rows
from anymix.solvers.exact import solve

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Splits = Sequence[tuple[Index, Index]]  # to fit, to judge on
Asker = Callable[[int], Array]  # e -> predictions, as if the rows were of domain e

__all__ = ["DomainClassifier", "Learner", "Linear", "Own", "Sample", "Trees", "truth"]

LEAVES = (4, 16)  # of a tree; by the first two folds
MOST_SLOPES = 160  # numbers of domains times features up to which slopes per domain are tried
SLOPES = 0.3  # the scale of their columns: a slope's deviation is penalised 11 times as much
C = 0.03  # of the domain classifier


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows to fit: features, codes of classes or numbers, weights, and each row's expert."""

    X: Any  # (n, d) features
    scaled: Any  # (n, d) same on a common scale
    y: NDArray[Any]  # (n,) codes of the classes, or numbers
    classes: NDArray[Any] | None  # (K,) 0, ..., K − 1
    weight: Array | None  # (n,) weights of the rows
    e: Index  # (n,) number of each row's expert
    n_experts: int  # E

    def take(self, rows: Index) -> Sample:
        """The same of some rows."""
        return replace(
            self,
            X=self.X[rows],
            scaled=self.scaled[rows],
            y=self.y[rows],
            weight=None if self.weight is None else self.weight[rows],
            e=self.e[rows],
        )


class Learner(Protocol):
    """A kind of model. Settings are what `tune` found, in whatever form."""

    name: str

    def tune(self, rows: Sample, splits: Splits) -> tuple[Array, Any]:
        """Predictions (n,) of each row by models fitted without its fold, and settings."""

    def tune_experts(self, rows: Sample, splits: Splits, settings: Any) -> tuple[Array, Any]:
        """The same (n, E) with the domain as a feature, given the settings without it."""

    def fit(self, rows: Sample, settings: Any) -> Callable[[Any, Any], Array]:
        """A model: (X, scaled X) -> values (n,) or probabilities (n, K)."""

    def fit_experts(self, rows: Sample, settings: Any) -> Callable[[Any, Any], Asker]:
        """A model with the domain: (X, scaled X) -> what to ask for each expert."""


def truth(predicted: Array, y: NDArray[Any]) -> Array:
    """Of probabilities (n, K) that of the class that came; values (n,) as they are."""
    return predicted if predicted.ndim == 1 else predicted[np.arange(len(y)), y]


# Linear -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """Scores ⟨w, x⟩ + b of flat w, and with the domain ⟨w + v_e, x⟩ + b + b_e."""

    w: Array
    n_scores: int
    is_classifier: bool
    n_experts: int = 0

    def __call__(self, X: Any, scaled: Any) -> Array:
        """Predictions without the domain."""
        W = self.w.reshape(self.n_scores, -1)
        return self._linked(np.asarray(scaled @ W[:, :-1].T) + W[:, -1])

    def asker(self, X: Any, scaled: Any) -> Asker:
        """Predictions as of each domain: the shared part is computed once."""
        W, d, E = self.w.reshape(self.n_scores, -1), scaled.shape[1], self.n_experts
        shared = np.asarray(scaled @ W[:, :d].T) + W[:, -1]

        def ask(e: int) -> Array:
            z = shared + W[:, d + e]
            if W.shape[1] > d + E + 1:
                start = d + E + e * d
                z = z + SLOPES * np.asarray(scaled @ W[:, start : start + d].T)
            return self._linked(z)

        return ask

    def _linked(self, z: Array) -> Array:
        if not self.is_classifier:
            return z[:, 0]
        if self.n_scores > 1:
            return np.asarray(softmax(z, axis=1))
        p = expit(z[:, 0])
        return np.column_stack([1 - p, p])


class Linear:
    """Logistic or ridge regression with γ₀ of least held-out loss, by this library's solver."""

    name = "linear"
    tol = 1e-4

    def tune(self, rows: Sample, splits: Splits) -> tuple[Array, float]:
        """γ₀ from a wide grid."""
        given = self._rows(rows, None)
        with threadpool_limits(1, "blas"):  # many small products: threads wait for each other
            found = choose_ordinary(given, splits, None, Objective(), tol=self.tol)
        said = np.zeros(len(rows.y))
        for (_, test), point in zip(splits, found.solutions, strict=True):
            model = self._predictor(point.w, rows)
            said[test] = truth(model(None, rows.scaled[test]), rows.y[test])
        return said, found.gamma * len(rows.y)

    def tune_experts(
        self, rows: Sample, splits: Splits, settings: float
    ) -> tuple[Array, tuple[str, float]]:
        """Intercepts per domain; slopes too where they are few and better out of fold."""
        said, gamma = self._tuned(rows, splits, "intercept", None)
        best = said, ("intercept", gamma * len(rows.y))
        if rows.n_experts * rows.X.shape[1] > MOST_SLOPES:
            return best
        other, gamma = self._tuned(rows, splits, "slopes", [10 * gamma, 3 * gamma, gamma])
        own = np.arange(len(rows.y)), rows.e
        if _mean_loss(other[own], rows) < _mean_loss(said[own], rows):
            best = other, ("slopes", gamma * len(rows.y))
        return best

    def _tuned(
        self, rows: Sample, splits: Splits, kind: str, gammas: list[float] | None
    ) -> tuple[Array, float]:
        """Predictions (n, E) without each row's fold, and γ₀."""
        with threadpool_limits(1, "blas"):
            given = self._rows(rows, kind)
            found = choose_ordinary(given, splits, gammas, Objective(), tol=self.tol)
        said = np.zeros((len(rows.y), rows.n_experts))
        for (_, test), point in zip(splits, found.solutions, strict=True):
            ask = self._predictor(point.w, rows, True).asker(None, rows.scaled[test])
            for e in range(rows.n_experts):
                said[test, e] = truth(ask(e), rows.y[test])
        return said, found.gamma

    def fit(self, rows: Sample, settings: float) -> LinearPredictor:
        """At γ₀ times the rows it was chosen for, over the rows there are."""
        return self._predictor(self._solved(self._rows(rows, None), settings), rows)

    def fit_experts(self, rows: Sample, settings: tuple[str, float]) -> Callable[[Any, Any], Asker]:
        """With intercepts or slopes per domain."""
        kind, total = settings
        return self._predictor(self._solved(self._rows(rows, kind), total), rows, True).asker

    def _solved(self, given: Rows, total: float) -> Array:
        with threadpool_limits(1, "blas"):
            ordinary = Objective("data", total / len(given))
            return solve(given.to_fit().merged(), ordinary, tol=self.tol).w

    def _predictor(self, w: Array, rows: Sample, domains: bool = False) -> LinearPredictor:
        n_scores = 1 if rows.classes is None or len(rows.classes) == 2 else len(rows.classes)
        E = rows.n_experts if domains else 0
        return LinearPredictor(w, n_scores, rows.classes is not None, E)

    def _rows(self, rows: Sample, kind: str | None) -> Rows:
        """As the solver takes them: one domain, and columns for the domain."""
        X = rows.scaled
        if kind is not None:
            blocks = [X, _one_hot(rows.e, rows.n_experts, sparse.issparse(X))]
            if kind == "slopes":
                blocks += [_kept(X, SLOPES * (rows.e == e)) for e in range(rows.n_experts)]
            X = sparse.hstack(blocks, format="csr") if sparse.issparse(X) else np.hstack(blocks)
        loss = SquaredError() if rows.classes is None else CrossEntropy()
        options: dict[str, Any] = {"classes": rows.classes, "sample_weight": rows.weight}
        return Rows.read(X, rows.y, None, loss, **options)


def _kept(X: Any, factor: Array) -> Any:
    """The rows of X times numbers."""
    return sparse.diags_array(factor) @ X if sparse.issparse(X) else X * factor[:, None]


def _one_hot(e: Index, E: int, thin: bool) -> Any:
    ones = sparse.csr_array((np.ones(len(e)), e, np.arange(len(e) + 1)), shape=(len(e), E))
    return ones if thin else ones.toarray()


# Any estimator, boosted trees -------------------------------------------------------------------


class Own:
    """A scikit-learn estimator; with the domain as further one-hot columns."""

    def __init__(self, estimator: Any, name: str, n_jobs: int | None = None) -> None:
        self.estimator, self.name, self.n_jobs = estimator, name, n_jobs

    def tune(self, rows: Sample, splits: Splits) -> tuple[Array, Any]:
        """Nothing to tune: what the estimator does itself."""
        return self._held_out(rows, splits, None), None

    def tune_experts(self, rows: Sample, splits: Splits, settings: Any) -> tuple[Array, Any]:
        """The same settings."""

        def asked(train: Index, test: Index) -> Array:
            ask = self.fit_experts(rows.take(train), settings)(rows.X[test], None)
            y = rows.y[test]
            return np.column_stack([truth(ask(e), y) for e in range(rows.n_experts)])

        said = np.zeros((len(rows.y), rows.n_experts))
        found = Parallel(self.n_jobs)(delayed(asked)(*split) for split in splits)
        for (_, test), values in zip(splits, found, strict=True):
            said[test] = values
        return said, settings

    def fit(self, rows: Sample, settings: Any) -> Callable[[Any, Any], Array]:
        """A clone fitted to all of these rows."""
        return _Plain(self._fitted(rows.X, rows, settings), rows.classes)

    def fit_experts(self, rows: Sample, settings: Any) -> Callable[[Any, Any], Asker]:
        """A clone fitted with the domain."""
        X, change = self._widened(rows.X, rows.e, rows.n_experts)
        return _Asked(self._fitted(X, rows, settings, True), rows.classes, change, rows.n_experts)

    def _held_out(self, rows: Sample, splits: Splits, settings: Any) -> Array:
        def predicted(train: Index, test: Index) -> Array:
            return truth(self.fit(rows.take(train), settings)(rows.X[test], None), rows.y[test])

        said = np.zeros(len(rows.y))
        found = Parallel(self.n_jobs)(delayed(predicted)(*split) for split in splits)
        for (_, test), values in zip(splits, found, strict=True):
            said[test] = values
        return said

    def _widened(self, X: Any, e: Index, E: int) -> tuple[Any, str]:
        block = _one_hot(e, E, sparse.issparse(X))
        if sparse.issparse(X):
            return sparse.hstack([X, block], format="csr"), "one-hot"
        return np.hstack([X, block]), "one-hot"

    def _fitted(self, X: Any, rows: Sample, settings: Any, widened: bool = False) -> Any:
        weight = {} if rows.weight is None else {weight_argument(self.estimator): rows.weight}
        with config_context(enable_metadata_routing=False):  # the name says which step it is for
            return clone(self.estimator).fit(X, rows.y, **weight, **no_domains(self.estimator))


@dataclass(frozen=True, eq=False)
class _Plain:
    """Predictions of a fitted estimator."""

    model: Any
    classes: NDArray[Any] | None

    def __call__(self, X: Any, scaled: Any) -> Array:
        return predictions(self.model, X, self.classes)


@dataclass(frozen=True, eq=False)
class _Asked:
    """Predictions of an estimator that was fitted with columns for the domain."""

    model: Any
    classes: NDArray[Any] | None
    change: str
    n_experts: int

    def __call__(self, X: Any, scaled: Any) -> Asker:
        n, d = X.shape
        width = 1 if self.change == "code" else self.n_experts
        wide = None if sparse.issparse(X) else np.hstack([X, np.zeros((n, width))])

        def ask(e: int) -> Array:
            if wide is None:
                block = _one_hot(np.full(n, e), self.n_experts, True)
                return predictions(
                    self.model, sparse.hstack([X, block], format="csr"), self.classes
                )
            if self.change == "code":
                wide[:, d] = e
            else:
                wide[:, d:] = 0.0
                wide[:, d + e] = 1.0
            return predictions(self.model, wide, self.classes)

        return ask


class Trees(Own):
    """Gradient boosting with 4 or 16 leaves a tree; the domain as a category."""

    def __init__(self, is_classifier: bool, random_state: int, n_jobs: int | None = None) -> None:
        make = HistGradientBoostingClassifier if is_classifier else HistGradientBoostingRegressor
        trees = make(learning_rate=0.1, max_iter=200, random_state=random_state)
        super().__init__(trees, "trees", n_jobs)

    def tune(self, rows: Sample, splits: Splits) -> tuple[Array, int]:
        """The leaves of least loss on two folds, and those folds' predictions, kept."""
        first, rest = splits[:2], splits[2:]
        found = []
        for leaves in LEAVES:
            said = self._held_out(rows, first, leaves)
            held = np.concatenate([test for _, test in first])
            found.append((_mean_loss(said[held], rows.take(held)), leaves, said))
        _, leaves, said = min(found, key=lambda one: one[0])
        return said + self._held_out(rows, rest, leaves), leaves

    def _widened(self, X: Any, e: Index, E: int) -> tuple[Any, str]:
        return np.column_stack([X, e]), "code"

    def _fitted(self, X: Any, rows: Sample, settings: int, widened: bool = False) -> Any:
        # stopping needs a tenth of the rows, one of each class, and two of each class in all
        n = len(rows.y)
        counts = [n] if rows.classes is None else np.unique(rows.y, return_counts=True)[1]
        stops = n >= max(50, 10 * len(counts)) and min(counts) >= 2
        model = clone(self.estimator).set_params(
            max_leaf_nodes=settings,
            early_stopping=stops,
            max_iter=200 if stops else 50,
            categorical_features=[X.shape[1] - 1] if widened else None,
        )
        weight = None if rows.weight is None else rows.weight / rows.weight.mean()
        if rows.classes is not None:
            return model.fit(X, rows.y, sample_weight=weight)
        spread = float(np.std(rows.y)) or 1.0  # it stops by differences of 1e-7
        return _Spread(model.fit(X, rows.y / spread, sample_weight=weight), spread)


@dataclass(frozen=True, eq=False)
class _Spread:
    """Predictions of a model of y divided by a number."""

    model: Any
    spread: float

    def predict(self, X: Any) -> Array:
        """Values (n,)."""
        return np.asarray(self.spread * self.model.predict(X))


def _mean_loss(said: Array, rows: Sample) -> float:
    squares = rows.classes is None
    losses = (said - rows.y) ** 2 if squares else -np.log(np.clip(said, 1e-6, 1.0))
    return float(np.average(losses, weights=rows.weight))


# The domain classifier --------------------------------------------------------------------------


class DomainClassifier:
    """Q(e|x), a multinomial logistic regression on features of a common scale."""

    def __init__(self) -> None:
        self.model: LogisticRegression | None = None

    def tune(self, rows: Sample, splits: Splits) -> Array:
        """Q (n, E) of each row by a classifier fitted without its fold."""
        found = np.zeros((len(rows.y), rows.n_experts))
        for train, test in splits:
            found[test] = self.fit(rows.take(train))(rows.scaled[test])
        return found

    def fit(self, rows: Sample) -> DomainClassifier:
        """Fitted to these rows, from where the last fit ended if it had the same domains."""
        self.n_experts, self.seen = rows.n_experts, np.unique(rows.e)
        if self.model is None or not np.array_equal(getattr(self.model, "classes_", ()), self.seen):
            self.model = LogisticRegression(C=C, max_iter=60, tol=1e-3, warm_start=True)
        if len(self.seen) == 1:
            return self
        weight = None if rows.weight is None else rows.weight / rows.weight.mean()
        with warnings.catch_warnings():  # a rough classifier serves as well
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            self.model.fit(rows.scaled, rows.e, sample_weight=weight)
        return self

    def __call__(self, scaled: Any) -> Array:
        """Q (n, E); never 0, so that no mixture leaves a row without an expert."""
        found = np.zeros((scaled.shape[0], self.n_experts))
        if len(self.seen) == 1:
            found[:, self.seen] = 1.0
        else:
            assert self.model is not None
            found[:, self.seen] = self.model.predict_proba(scaled)
        return np.clip(found, 1e-9, 1.0)
