"""Is `AgnosticEnsemble` better for the worst domain on new rows than what people do with trees?

    python benchmarks/ensemble.py                 # 5 splits of Adult, two kinds of domains
    python benchmarks/ensemble.py --splits 2 --domains education

Every split learns from 6000 rows of Adult (all features but those that tell the domain) and is
judged on the other 42,842. A row of a table is a method: its log loss in its worst domain, how much
that differs from the plain model's (mean ± standard error over the splits, paired), its mean loss
on all rows, its seconds and how often it was fitted. `fairlearn` is its exponentiated gradient with
a bound on every group's loss, as low as it can get; it is left out where it is not installed. Its
model is random, and its loss the expected one.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import OrdinalEncoder

from anymix import datasets
from anymix.estimators import AgnosticEnsemble, NothingGained

try:
    from fairlearn.reductions import BoundedGroupLoss, ExponentiatedGradient
except ImportError:
    ExponentiatedGradient = None

Array = NDArray[np.float64]
Learnt = tuple[Callable[[Array, NDArray[Any]], Array], int]  # (X, y) -> losses; number of fits

ROWS = 6000
FLOOR = 1e-6
HIDDEN = {"sex-race": ["sex", "race"], "education": ["education", "education-num"]}


def load(domains: str) -> tuple[Array, NDArray[np.bool_], NDArray[Any], NDArray[Any]]:
    """X with categories as numbers, which columns these are, y, and the domains."""
    data = datasets.load_adult(features="all", drop=(), as_frame=True)
    import pandas as pd

    X = pd.concat([data.X, data.X_test], ignore_index=True)
    y = np.concatenate([data.y, data.y_test])
    by = X["sex"] + ", " + X["race"] if domains == "sex-race" else X["education"]
    X = X.drop(columns=HIDDEN[domains])
    categorical = ~np.array([pd.api.types.is_numeric_dtype(kind) for kind in X.dtypes])
    names = X.columns[categorical]
    X[names] = OrdinalEncoder().fit_transform(X[names])
    return X.to_numpy(float), categorical, y, by.to_numpy(dtype=str)


def log_loss(y: NDArray[Any], probability: Array) -> Array:
    return -np.log(np.clip(np.where(y == 1, probability, 1 - probability), FLOOR, 1))


class LogLoss:
    """What fairlearn asks of a loss."""

    min_val, max_val, min, max = 0.0, 1.0, 0.0, -np.log(FLOOR)

    def eval(self, y: Any, probability: Any) -> Any:
        """The loss of each row."""
        return log_loss(np.asarray(y), np.asarray(probability))


class Probability(BaseEstimator):
    """A classifier that predicts the probability of class 1, as fairlearn's losses need it."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Probability:
        """The classifier's own fit."""
        self.fitted_ = clone(self.model).fit(X, y, sample_weight=sample_weight)
        return self

    def predict(self, X: Any) -> Array:
        """The probability of class 1, (n,)."""
        return np.asarray(self.fitted_.predict_proba(X)[:, 1])


def plain(model: Any, X: Array, y: NDArray[Any], d: NDArray[Any]) -> Learnt:
    found = clone(model).fit(X, y)
    return lambda Z, t: log_loss(t, found.predict_proba(Z)[:, 1]), 1


def bagged(model: Any, X: Array, y: NDArray[Any], d: NDArray[Any]) -> Learnt:
    """Five plain models, each without a fifth of the rows, averaged: what averaging alone does."""
    turn = np.random.default_rng(0).permutation(len(y)) % 5
    found = [clone(model).fit(X[turn != k], y[turn != k]) for k in range(5)]
    return lambda Z, t: log_loss(t, np.mean([m.predict_proba(Z)[:, 1] for m in found], axis=0)), 5


def balanced(model: Any, X: Array, y: NDArray[Any], d: NDArray[Any]) -> Learnt:
    """Every domain has the same total weight."""
    _, codes, sizes = np.unique(d, return_inverse=True, return_counts=True)
    weight = len(d) / len(sizes) / sizes[codes]
    found = clone(model).fit(X, y, sample_weight=weight)
    return lambda Z, t: log_loss(t, found.predict_proba(Z)[:, 1]), 1


def agnostic(combine: str) -> Any:
    def learn(model: Any, X: Array, y: NDArray[Any], d: NDArray[Any]) -> Learnt:
        found = AgnosticEnsemble(model, combine=combine)
        with warnings.catch_warnings(action="ignore", category=NothingGained):
            found.fit(X, y, domains=d)
        print(f"    {combine}: candidate {found.best_index_} of {len(found.frontier_.robustness)}")
        return lambda Z, t: log_loss(t, found.predict_proba(Z)[:, 1]), found.n_fits_

    return learn


def fairlearn(model: Any, X: Array, y: NDArray[Any], d: NDArray[Any]) -> Learnt:
    bound = BoundedGroupLoss(LogLoss(), upper_bound=0.0)
    found = ExponentiatedGradient(Probability(model), bound, eps=0.01)
    found.fit(X, y, sensitive_features=d)
    q = np.asarray(found.weights_)

    def losses(Z: Array, t: NDArray[Any]) -> Array:
        used = [j for j in range(len(q)) if q[j] > 0]
        return sum(q[j] * log_loss(t, found.predictors_[j].predict(Z)) for j in used)

    return losses, found.n_oracle_calls_


METHODS: dict[str, Any] = {
    "plain": plain,
    "plain, five averaged": bagged,
    "balanced weights": balanced,
    "AgnosticEnsemble": agnostic("auto"),
    'AgnosticEnsemble(combine="single")': agnostic("single"),
    'AgnosticEnsemble(combine="average")': agnostic("average"),
    "fairlearn": fairlearn,
}


def measure(domains: str, options: dict[str, Any], splits: int, chosen: list[str]) -> None:
    X, categorical, y, d = load(domains)
    model = HistGradientBoostingClassifier(
        categorical_features=categorical, random_state=0, **options
    )
    names, codes = np.unique(d, return_inverse=True)
    methods = {k: m for k, m in METHODS.items() if k in ["plain", *chosen]}
    if ExponentiatedGradient is None and methods.pop("fairlearn", None):
        print("fairlearn is not installed")
    found: dict[str, list[Any]] = {name: [] for name in methods}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(y))
        fit, new = order[:ROWS], order[ROWS:]
        for name, learn in methods.items():
            start = time.perf_counter()
            losses, fits = learn(model, X[fit], y[fit], d[fit])
            seconds = time.perf_counter() - start
            row = losses(X[new], y[new])
            by = np.bincount(codes[new], row) / np.bincount(codes[new])
            found[name].append((by.max(), row.mean(), seconds, fits))
            print(f"    {name}: {by.max():.4f} in {names[by.argmax()]}", flush=True)
    show(f"Adult by {domains}, {options or 'defaults'}, {splits} splits", found)


def show(title: str, found: dict[str, list[Any]]) -> None:
    print(f"\n{title}\n\n| method | worst domain | − plain | all rows | seconds | fits |")
    print("|---|---|---|---|---|---|")
    base = np.array(found["plain"])[:, 0]
    for name, rows in found.items():
        worst, pooled, seconds, fits = np.array(rows, dtype=float).T
        change = worst - base
        error = change.std(ddof=1) / np.sqrt(len(change))
        print(
            f"| {name} | {worst.mean():.4f} | {change.mean():+.4f} ± {error:.4f} | "
            f"{pooled.mean():.4f} | {seconds.mean():.1f} | {fits.mean():.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--domains", nargs="*", default=list(HIDDEN))
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--early-stopping", action="store_true")
    arguments = parser.parse_args()
    options = {"early_stopping": True} if arguments.early_stopping else {}
    for domains in arguments.domains:
        measure(domains, options, arguments.splits, arguments.methods)


if __name__ == "__main__":
    main()
