"""Other methods to compare with: each learns from training rows and predicts for test rows.

A method is a function (X, y, domains, X_test, domains_test) -> (n_test,) probabilities of y = 1, or
values. Only MCGrad looks at `domains_test`. To compare another method, add a line to RIVALS.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from sklearn import config_context
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge, RidgeCV
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedKFold, cross_val_predict

Array = NDArray[np.float64]
Strings = NDArray[np.str_]
Method = Callable[[Array, Array, Strings, Array, Strings], Array]

CS = np.logspace(-4, 4, 13)
ALPHAS = np.logspace(-3, 6, 28)
MANY = 10_000  # iterations: as many as a fit may need
DRO_BATCH = 32  # rows of each domain
FLOOR = 1e-6  # probabilities are evaluated as at least this and at most 1 − this


# Balanced weights --------------------------------------------------------------------------------


def domain_weights(d: Strings) -> Array:
    """Weights n / (p n_k), so that each of the p domains counts the same."""
    _, k, sizes = np.unique(d, return_inverse=True, return_counts=True)
    return len(d) / (len(sizes) * sizes[k])


def balanced(kind: str) -> Method:
    """Logistic or ridge regression, its regularisation too, with balanced weights.

    Logistic: least weighted log loss on 5 folds; ridge: least weighted leave-one-out error.
    """

    def classes(X: Array, y: Array, d: Strings, X_test: Array, d_test: Strings) -> Array:
        with config_context(enable_metadata_routing=True):  # so that the score is weighted, too
            score = get_scorer("neg_log_loss").set_score_request(sample_weight=True)
            model = LogisticRegressionCV(
                Cs=CS,
                cv=StratifiedKFold(5, shuffle=True, random_state=0),
                scoring=score,
                max_iter=MANY,
                l1_ratios=(0.0,),
                use_legacy_attributes=False,
            )
            model.fit(X, y, sample_weight=domain_weights(d))
        return np.asarray(model.predict_proba(X_test)[:, 1])

    def numbers(X: Array, y: Array, d: Strings, X_test: Array, d_test: Strings) -> Array:
        model = RidgeCV(ALPHAS).fit(X, y, sample_weight=domain_weights(d))
        return np.asarray(model.predict(X_test))

    return classes if kind == "classification" else numbers


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


# GroupDRO ----------------------------------------------------------------------------------------


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
    """w after every epoch of 50 steps of Adam or more, 200 at most."""
    names, k = np.unique(d, return_inverse=True)
    p, rng = len(names), np.random.default_rng(0)
    rows = [np.flatnonzero(k == j) for j in range(p)]
    n_steps = max(50, len(y) // (DRO_BATCH * p))
    A = np.column_stack([X, np.ones(len(y))])
    decays = np.append(np.full(X.shape[1], decay), 0.0)
    w, first, second, q, step = *np.zeros((3, A.shape[1])), np.full(p, 1 / p), 0
    for _ in range(200):
        batches = np.hstack([rng.choice(r, (n_steps, DRO_BATCH)) for r in rows])
        for batch in batches:
            Z, goal, step = A[batch], y[batch], step + 1
            z = Z @ w
            if kind == "classification":
                losses, slopes = np.logaddexp(0, z) - goal * z, expit(z) - goal
            else:
                losses, slopes = (z - goal) ** 2, 2 * (z - goal)
            q = q * np.exp(0.01 * losses.reshape(p, DRO_BATCH).mean(axis=1))
            q /= q.sum()
            gradient = (slopes * np.repeat(q / DRO_BATCH, DRO_BATCH)) @ Z + decays * w
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            scale = np.sqrt(second / (1 - 0.999**step)) + 1e-8
            w = w - 0.01 * first / (1 - 0.9**step) / scale
        yield w


# MCGrad ------------------------------------------------------------------------------------------


def mcgrad(kind: str) -> Method:
    """The tuned linear model, multicalibrated on its out-of-fold predictions; knows the domain."""

    def fit(X: Array, y: Array, d: Strings, X_test: Array, d_test: Strings) -> Array:
        from mcgrad.methods import MCGrad, RegressionMCGrad

        logging.getLogger("mcgrad").setLevel(logging.ERROR)
        linear = _tuned(kind, X, y)
        features = [f"x{j}" for j in range(X.shape[1])]
        frame, test = (
            pd.DataFrame(rows, columns=features).assign(domain=names)
            for rows, names in ((X, d), (X_test, d_test))
        )
        folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, cells(kind, y, d))
        frame["base"] = cross_val_predict(linear, X, y, cv=list(folds))
        frame["y"], test["base"] = y, linear.predict(X_test)
        columns = {
            "prediction_column_name": "base",
            "categorical_feature_column_names": ["domain"],
            "numerical_feature_column_names": features,
        }
        model = MCGrad() if kind == "classification" else RegressionMCGrad()
        model.fit(df_train=frame, label_column_name="y", **columns)
        return np.asarray(model.predict(df=test, **columns), dtype=np.float64)

    return fit


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

RIVALS: dict[str, Callable[[str], Method]] = {
    "balanced": balanced,
    "groupdro": group_dro,
    "fairlearn": bounded_group_loss,
    "mcgrad": mcgrad,
}
