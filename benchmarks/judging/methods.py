"""Methods to be judged: each learns from training rows and answers for test rows.

A method is a function (X, y, domains, X_test, domains_test) -> (n_test,) probabilities of y = 1, or
values. Only a method that takes the domain as a feature may look at `domains_test`. To judge
another method, add a line to CLASSIFIERS or REGRESSORS. A method whose package is missing raises
ImportError and its row says "not installed".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge, RidgeCV
from sklearn.metrics import get_scorer
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

import anymix as ax
from anymix.estimators import NothingGained

Array = NDArray[np.float64]
Strings = NDArray[np.str_]
Method = Callable[[Array, Array, Strings, Array, Strings], Array]

# What the default of version 0.1 was: γ alone, by the least worst loss of 5 folds.
GAMMAS_01 = np.logspace(1, -5, 13)
RULE_01: dict[str, Any] = {"price": np.inf, "robustness": (1.0,), "anchor": None}
CS = np.logspace(-4, 4, 13)
ALPHAS = np.logspace(-3, 6, 28)
HALF_A_STEP = 10 ** (1 / 3), 10 ** (1 / 6)  # of these two, to see what another grid does
MANY = 10_000  # iterations: as many as a fit may need
FLOOR = 1e-6  # probabilities are at least this and at most 1 − this when they are judged


# Features and weights ----------------------------------------------------------------------------


def with_domain(method: Method) -> Method:
    """The method with the domain as further features, one-hot."""

    def fit(X: Array, y: Array, d: Strings, X_test: Array, d_test: Strings) -> Array:
        names = np.unique(d)
        more, more_test = ((labels[:, None] == names) for labels in (d, d_test))
        return method(np.hstack([X, more]), y, d, np.hstack([X_test, more_test]), d_test)

    return fit


def balanced(d: Strings) -> Array:
    """Weights n / (p n_k), so that every one of the p domains counts the same."""
    _, k, sizes = np.unique(d, return_inverse=True, return_counts=True)
    return len(d) / (len(sizes) * sizes[k])


def equal(d: Strings) -> Array:
    """Weights 1."""
    return np.ones(len(d))


# The floor, linear models, trees -----------------------------------------------------------------


def constant(X: Array, y: Array, d: Strings, X_test: Array, d_test: Strings) -> Array:
    """The mean of y for every row."""
    return np.full(len(X_test), y.mean())


def logistic(weights: Callable[[Strings], Array], Cs: Array = CS) -> Method:
    """Logistic regression with the regularisation of least weighted log loss in 5 folds."""

    def fit(X: Array, y: Array, d: Strings, X_test: Array, d_test: Strings) -> Array:
        with config_context(enable_metadata_routing=True):  # so that the score is weighted, too
            score = get_scorer("neg_log_loss").set_score_request(sample_weight=True)
            folds = StratifiedKFold(5, shuffle=True, random_state=0)
            model = LogisticRegressionCV(
                Cs=Cs,
                cv=folds,
                scoring=score,
                max_iter=MANY,
                l1_ratios=(0.0,),
                use_legacy_attributes=False,
            )
            model.fit(X, y, sample_weight=weights(d))
        return probabilities(model, X_test)

    return fit


def ridge(weights: Callable[[Strings], Array], alphas: Array = ALPHAS) -> Method:
    """Ridge regression with the regularisation of least weighted error, rows left out singly."""

    def fit(X: Array, y: Array, d: Strings, X_test: Array, d_test: Strings) -> Array:
        return values(RidgeCV(alphas).fit(X, y, sample_weight=weights(d)), X_test)

    return fit


def boosted(kind: str, make: Callable[..., Any], weights: Callable[[Strings], Array]) -> Method:
    """Boosted trees with the number of leaves of least weighted loss in 5 folds."""
    predict = probabilities if kind == "classification" else values

    def fit(X: Array, y: Array, d: Strings, X_test: Array, d_test: Strings) -> Array:
        w = weights(d)
        trees = _tuned_trees(kind, make, X, y, w)
        return predict(trees.fit(X, y, sample_weight=w), X_test)

    return fit


def robust_trees(kind: str, make: Callable[..., Any]) -> Method:
    """AgnosticEnsemble of the same trees, with the leaves of the plain ones."""
    predict = probabilities if kind == "classification" else values

    def fit(X: Array, y: Array, d: Strings, X_test: Array, d_test: Strings) -> Array:
        model = ax.AgnosticEnsemble(_tuned_trees(kind, make, X, y, np.ones(len(y))))
        with warnings.catch_warnings(action="ignore", category=NothingGained):
            model.fit(X, y, domains=d)
        return predict(model, X_test)

    return fit


def _tuned_trees(kind: str, make: Callable[..., Any], X: Array, y: Array, w: Array) -> Any:
    """Trees, not fitted yet: each is the last when a tenth of the rows, held out, got no better."""
    answer = "predict_proba" if kind == "classification" else "predict"
    loss = log_loss if kind == "classification" else squared_error
    deal = StratifiedKFold if kind == "classification" else KFold
    folds = deal(5, shuffle=True, random_state=0)
    settled = {"learning_rate": 0.05, "max_iter": 1000, "early_stopping": True}
    found: list[tuple[float, Any]] = []
    for leaves in (3, 8, 31):
        trees = make(max_leaf_nodes=leaves, random_state=0, **settled)
        p = cross_val_predict(trees, X, y, cv=folds, method=answer, params={"sample_weight": w})
        p = p[:, 1] if kind == "classification" else p
        found.append((float(w @ loss(y, p)), trees))
    return min(found, key=lambda one: one[0])[1]


def probabilities(model: Any, X: Array, *domains: Strings) -> Array:
    """Of y = 1."""
    return np.asarray(model.predict_proba(X, *domains))[:, 1]


def values(model: Any, X: Array, *domains: Strings) -> Array:
    """What the model predicts."""
    return np.asarray(model.predict(X, *domains), dtype=np.float64)


# anymix ------------------------------------------------------------------------------------------


def agnostic(make: Callable[[], Any], answer: Callable[..., Array]) -> Method:
    """An estimator of anymix with its own way to choose its settings."""

    def fit(X: Array, y: Array, d: Strings, X_test: Array, d_test: Strings) -> Array:
        model = make()
        with warnings.catch_warnings(action="ignore", category=NothingGained):
            model.fit(X, y, domains=d)
        return answer(model, X_test, *([d_test] if model.domain_features else []))

    return fit


def agnostic_01(search: Any, make: Any, answer: Callable[..., Array]) -> Method:
    """γ of the least worst loss on the very rows of 5 folds, as version 0.1 chose it."""

    def fit(X: Array, y: Array, d: Strings, X_test: Array, d_test: Strings) -> Array:
        with warnings.catch_warnings(action="ignore"):  # of what it did, nothing was said
            tried = search(GAMMAS_01, **RULE_01).fit(X, y, domains=d)
            best = 1 + int(np.argmin(tried.cv_results_["worst_test_loss"][1:]))
            gamma = float(tried.cv_results_["param_gamma"][best])
            return answer(make(gamma=gamma).fit(X, y, domains=d), X_test)

    return fit


# Bounded group loss, with fairlearn --------------------------------------------------------------


class _LogLoss:
    """What fairlearn asks of a loss: its values, and between which they are."""

    min, max = 0.0, -np.log(FLOOR)

    def eval(self, y: Any, p: Any) -> Any:
        return log_loss(np.asarray(y), np.asarray(p))


class _Probabilities(LogisticRegression):  # type: ignore[misc]
    """Logistic regression whose predictions are probabilities, to be judged by the log loss."""

    def predict(self, X: Any) -> Any:
        return self.predict_proba(X)[:, 1]


class _Values(Ridge):  # type: ignore[misc]
    """Ridge regression; fairlearn hands it the target as a frame or a column."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        return super().fit(X, np.ravel(y), sample_weight=sample_weight)


def bounded_group_loss(kind: str) -> Method:
    """Least mean loss such that no domain's exceeds ζ: a mixture of models, by fairlearn.

    ζ is that of 4 between the ordinary model's pooled and worst loss on a fifth of the rows, held
    out, of which the model without them has the least worst loss there. Regularisation as tuned
    for the ordinary model.
    """

    def fit(X: Array, y: Array, d: Strings, X_test: Array, d_test: Strings) -> Array:
        loss = log_loss if kind == "classification" else squared_error
        fold, held = hold_out(cells(kind, y, d))
        model = _tuned(kind, X[fold], y[fold])
        first = domain_means(loss(y[held], model.predict(X[held])), d[held])
        pooled = loss(y[held], model.predict(X[held])).mean()
        worst = {}
        for zeta in np.linspace(pooled, first.max(), 5)[:-1]:
            p = _mixture(model, kind, X[fold], y[fold], d[fold], float(zeta), X[held])
            worst[zeta] = domain_means(loss(y[held], p), d[held]).max()
        best = float(min(worst, key=lambda zeta: worst[zeta]))
        return _mixture(_tuned(kind, X, y), kind, X, y, d, best, X_test)

    return fit


def _tuned(kind: str, X: Array, y: Array) -> Any:
    """The ordinary model with its regularisation, as an estimator that fairlearn can refit."""
    if kind == "regression":
        return _Values(RidgeCV(ALPHAS).fit(X, y).alpha_).fit(X, y)
    model = LogisticRegressionCV(
        Cs=CS, scoring="neg_log_loss", max_iter=MANY, l1_ratios=(0.0,), use_legacy_attributes=False
    )
    return _Probabilities(C=float(model.fit(X, y).C_), max_iter=MANY).fit(X, y)


def _mixture(
    model: Any, kind: str, X: Array, y: Array, d: Strings, zeta: float, X_test: Array
) -> Array:
    """Mean prediction of the models that the exponentiated gradient mixes, by their weights."""
    from fairlearn.reductions import BoundedGroupLoss, ExponentiatedGradient, SquareLoss

    loss = _LogLoss() if kind == "classification" else SquareLoss(float(y.min()), float(y.max()))
    reduction = ExponentiatedGradient(
        model, BoundedGroupLoss(loss, upper_bound=zeta), eps=0.01, max_iter=50
    )
    with warnings.catch_warnings():  # it uses what later versions of pandas will not have
        warnings.filterwarnings("ignore", module=r"fairlearn\.")
        reduction.fit(X, y, sensitive_features=d)
    used = [(w, m) for w, m in zip(reduction.weights_, reduction.predictors_, strict=True) if w]
    return np.asarray(np.sum([w * np.asarray(m.predict(X_test)) for w, m in used], axis=0))


# GroupDRO, with torch ----------------------------------------------------------------------------


def group_dro(kind: str) -> Method:
    """Sagawa et al. 2020 with a linear model: q_k ∝ q_k exp(η L_k) and a step of w on Σ q_k L_k.

    Batches have as many rows of each domain. A fifth of the rows is held out; w is that of the
    epoch and the weight decay with the least loss of the worst domain there.
    """

    def fit(X: Array, y: Array, d: Strings, X_test: Array, d_test: Strings) -> Array:
        fold, held = hold_out(cells(kind, y, d))
        loss = log_loss if kind == "classification" else squared_error
        found: list[tuple[float, Array]] = []
        for decay in (0.0, 1e-3, 1e-2, 1e-1):
            best, w, since = np.inf, np.zeros(X.shape[1] + 1), 0
            for candidate in _dro_epochs(kind, X[fold], y[fold], d[fold], decay):
                answers = _linear(kind, X[held], candidate)
                worst = float(domain_means(loss(y[held], answers), d[held]).max())
                best, w, since = (worst, candidate, 0) if worst < best else (best, w, since + 1)
                if since == 20:
                    break
            found.append((best, w))
        return _linear(kind, X_test, min(found, key=lambda one: one[0])[1])

    return fit


def _linear(kind: str, X: Array, w: Array) -> Array:
    z = np.asarray(X @ w[:-1] + w[-1])
    return 1 / (1 + np.exp(-np.clip(z, -50, 50))) if kind == "classification" else z


def _dro_epochs(kind: str, X: Array, y: Array, d: Strings, decay: float) -> Iterator[Array]:
    """w after every epoch of 50 steps or more, 200 at most."""
    import torch
    from torch.nn import functional

    per_domain, eta, n_epochs = 32, 0.01, 200
    names, k = np.unique(d, return_inverse=True)
    rows = [np.flatnonzero(k == i) for i in range(len(names))]
    rng = np.random.default_rng(0)
    features, target = torch.tensor(X), torch.tensor(y)
    w = torch.zeros(X.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    q = torch.full((len(names),), 1 / len(names), dtype=torch.float64)
    optimizer = torch.optim.Adam([w], lr=0.01)
    for _ in range(n_epochs):
        for _ in range(max(50, len(y) // (per_domain * len(names)))):
            batch = np.concatenate([rng.choice(r, per_domain) for r in rows])
            z = features[batch] @ w[:-1] + w[-1]
            goal = target[batch]
            losses = (
                functional.binary_cross_entropy_with_logits(z, goal, reduction="none")
                if kind == "classification"
                else (z - goal) ** 2
            )
            of_domain = losses.reshape(len(names), per_domain).mean(dim=1)
            q = q * torch.exp(eta * of_domain.detach())
            q = q / q.sum()
            optimizer.zero_grad()
            (q @ of_domain + decay / 2 * (w[:-1] ** 2).sum()).backward()
            optimizer.step()
        yield w.detach().numpy().copy()


# Losses and rows held out ------------------------------------------------------------------------


def log_loss(y: Array, p: Array) -> Array:
    """−log of the probability of what happened, for every row."""
    p = np.clip(p, FLOOR, 1 - FLOOR)
    return -np.where(y == 1, np.log(p), np.log1p(-p))


def squared_error(y: Array, values: Array) -> Array:
    """(y − value)² for every row; y has variance 1 on the training rows."""
    return (y - values) ** 2


def domain_means(losses: Array, d: Strings) -> Array:
    """The mean loss of every domain that has a row, in the order of their names."""
    _, k = np.unique(d, return_inverse=True)
    return np.bincount(k, losses) / np.bincount(k)


def cells(kind: str, y: Array, d: Strings) -> NDArray[np.intp]:
    """The number of each row's domain, or of its domain and class."""
    label = np.char.add(d, y.astype(str)) if kind == "classification" else d
    return np.unique(label, return_inverse=True)[1]


def hold_out(cell: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to learn from, and a fifth of the rows of every cell, rounded down, held out."""
    rng = np.random.default_rng(0)
    held = np.zeros(len(cell), dtype=bool)
    for k in np.unique(cell):
        rows = rng.permutation(np.flatnonzero(cell == k))
        held[rows[: len(rows) // 5]] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


# The methods -------------------------------------------------------------------------------------

ORDINARY = "ordinary"  # what every other method is compared with
CLASSIFIERS: dict[str, Method] = {
    "constant": constant,
    ORDINARY: logistic(equal),
    "ordinary, another grid": logistic(equal, CS * HALF_A_STEP[0]),
    "ordinary, with domain": with_domain(logistic(equal)),
    "balanced": logistic(balanced),
    "anymix": agnostic(ax.AgnosticClassifierCV, probabilities),
    "anymix, with domain": agnostic(
        lambda: ax.AgnosticClassifierCV(domain_features="intercept"), probabilities
    ),
    "anymix 0.1": agnostic_01(ax.AgnosticClassifierCV, ax.AgnosticClassifier, probabilities),
    "group DRO": group_dro("classification"),
    "fairlearn": bounded_group_loss("classification"),
    "trees": boosted("classification", HistGradientBoostingClassifier, equal),
    "trees, balanced": boosted("classification", HistGradientBoostingClassifier, balanced),
    "trees, anymix": robust_trees("classification", HistGradientBoostingClassifier),
}
REGRESSORS: dict[str, Method] = {
    "constant": constant,
    ORDINARY: ridge(equal),
    "ordinary, another grid": ridge(equal, ALPHAS * HALF_A_STEP[1]),
    "ordinary, with domain": with_domain(ridge(equal)),
    "balanced": ridge(balanced),
    "anymix": agnostic(ax.AgnosticRegressorCV, values),
    "anymix, with domain": agnostic(
        lambda: ax.AgnosticRegressorCV(domain_features="intercept"), values
    ),
    "anymix 0.1": agnostic_01(ax.AgnosticRegressorCV, ax.AgnosticRegressor, values),
    "group DRO": group_dro("regression"),
    "fairlearn": bounded_group_loss("regression"),
    "trees": boosted("regression", HistGradientBoostingRegressor, equal),
    "trees, balanced": boosted("regression", HistGradientBoostingRegressor, balanced),
    "trees, anymix": robust_trees("regression", HistGradientBoostingRegressor),
}
METHODS: dict[str, dict[str, Method]] = {"classification": CLASSIFIERS, "regression": REGRESSORS}
