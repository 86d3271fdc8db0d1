"""The ordinary model: what scikit-learn trains, with the γ₀ of least loss on rows held out."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from regions import labels_data, numbers_data
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss

import anymix as ax
from anymix.estimators.ordinary import GAMMAS, choose_ordinary, least_between, ordinary_model
from anymix.estimators.reading import read_classes, read_numbers
from anymix.problem.dealing import deal, sorted_rows
from anymix.problem.losses import SquaredError
from anymix.problem.rows import Rows

Array = NDArray[np.float64]
GRID = GAMMAS[::2]


def logistic(gamma: float, n: float) -> LogisticRegression:
    return LogisticRegression(C=1 / (gamma * n), tol=1e-10, max_iter=10_000)


def folds(rows: Rows, count: int) -> list[tuple[Any, Any]]:
    return list(deal(sorted_rows(rows), count))


@pytest.mark.parametrize("seed", range(3))
def test_gamma_is_that_of_brute_force_and_the_model_is_scikit_learns(seed: int) -> None:
    X, y, domains = labels_data(seed, n_large=90, d=12)
    rows = read_classes(ax.AgnosticClassifier(), X, y, domains)
    losses = np.zeros(len(GRID))
    for i, gamma in enumerate(GRID):
        for train, test in folds(rows, 5):
            peer = logistic(gamma, len(train)).fit(X[train], y[train])
            losses[i] += len(test) * log_loss(y[test], peer.predict_proba(X[test]))
    best = GRID[int(np.argmin(losses))]
    gamma, solution = ordinary_model(rows, ax.Objective(), gammas=GRID, tol=1e-10)
    assert gamma == best
    assert 1 > best > GRID[-1]  # not at an end, or any rule would find it
    peer = logistic(gamma, len(y)).fit(X, y)
    np.testing.assert_allclose(solution.w[:-1], peer.coef_[0], atol=1e-5)
    assert solution.w[-1] == pytest.approx(peer.intercept_[0], abs=1e-5)


def test_the_default_gamma_is_the_least_of_a_parabola_through_scikit_learns_losses() -> None:
    X, y, domains = labels_data(1, n_large=90, d=12)
    rows = read_classes(ax.AgnosticClassifier(), X, y, domains)
    splits = list(deal(sorted_rows(rows, np.random.default_rng(1)), 4))

    def loss(gamma: float) -> float:
        total = 0.0
        for train, test in splits:
            peer = logistic(gamma, len(train)).fit(X[train], y[train])
            total += len(test) * log_loss(y[test], peer.predict_proba(X[test]))
        return total

    losses = [loss(gamma) for gamma in GAMMAS]
    best = int(np.argmin(losses))
    three = slice(best - 1, best + 2)
    a, b, _ = np.polyfit(np.log(GAMMAS[three]), losses[three], 2)
    found = choose_ordinary(rows, splits, None, ax.Objective(), tol=1e-9)
    assert found.gamma == pytest.approx(np.exp(-b / (2 * a)), rel=2e-3)
    assert found.gamma not in GAMMAS
    assert loss(found.gamma) < losses[best]
    for (train, _), model in zip(splits, found.solutions, strict=True):
        peer = logistic(found.gamma, len(train)).fit(X[train], y[train])
        np.testing.assert_allclose(model.w[:-1], peer.coef_[0], atol=1e-3)


@given(
    st.lists(st.floats(-12, 3), min_size=3, max_size=9, unique_by=lambda x: round(x, 1)),
    st.lists(st.floats(0, 1), min_size=9, max_size=9),
)
def test_least_between_stays_nearer_to_the_best_than_to_its_neighbours(
    logs: list[float], losses: list[float]
) -> None:
    gammas = np.exp(sorted(logs, reverse=True))
    values = np.array(losses[: len(logs)])
    best = int(np.argmin(values))
    found = least_between(gammas, values)
    if best in (0, len(gammas) - 1):
        assert found == gammas[best]
        return
    low, high = (np.sqrt(gammas[best] * gammas[best + i]) for i in (1, -1))
    assert low * (1 - 0.01) <= found <= high * (1 + 0.01)  # three digits


def test_least_between_finds_the_bottom_of_any_parabola_in_log_gamma() -> None:
    for bottom in np.logspace(-4.4, -0.6, 7):
        found = least_between(GAMMAS, 3 + 0.2 * (np.log(GAMMAS) - np.log(bottom)) ** 2)
        assert found == pytest.approx(bottom, rel=0.006)
    assert least_between(GAMMAS, np.ones(len(GAMMAS))) == GAMMAS[0]


def test_the_ordinary_model_of_the_classifier_is_logistic_regression() -> None:
    X, y, domains = labels_data()
    model = ax.AgnosticClassifierCV().fit(X, y, domains=domains)
    peer = logistic(model.ordinary_.gamma, len(y)).fit(X, y)
    assert model.cv_results_["param_gamma"][0] == model.ordinary_.gamma
    np.testing.assert_allclose(model.ordinary_.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(model.ordinary_.intercept_, peer.intercept_, atol=1e-4)
    np.testing.assert_allclose(model.ordinary_.predict_proba(X), peer.predict_proba(X), atol=1e-4)
    one = ax.AgnosticClassifierCV().fit(
        X, y, domains=None
    )  # a single domain, the same folds but for their order
    peer = logistic(one.gamma_, len(y)).fit(X, y)
    np.testing.assert_allclose(one.coef_, peer.coef_, atol=1e-4)


def test_the_ordinary_model_of_the_regressor_is_ridge_regression() -> None:
    X, y, domains = numbers_data()
    model = ax.AgnosticRegressorCV().fit(X, y, domains=domains)
    peer = Ridge(alpha=model.ordinary_.gamma * len(y)).fit(X, y)
    np.testing.assert_allclose(model.ordinary_.coef_, peer.coef_, atol=1e-4)
    rows = read_numbers(ax.AgnosticRegressor(), X, y, domains, None, True, SquaredError())
    losses = np.zeros(len(GAMMAS))
    for i, gamma in enumerate(GAMMAS):
        for train, test in deal(sorted_rows(rows, np.random.RandomState(0)), 5):
            fold = Ridge(alpha=gamma * len(train)).fit(X[train], y[train])
            losses[i] += np.sum((fold.predict(X[test]) - y[test]) ** 2)
    assert model.ordinary_.gamma == pytest.approx(least_between(GAMMAS, losses), rel=0.02)


def judged(X: Array, y: NDArray[Any], rows: Rows, weight: Array, counted: Array) -> Array:
    """Losses of GRID in three folds, fitted with one weight of the rows and judged with another."""
    total = np.zeros(len(GRID))
    for i, gamma in enumerate(GRID):
        for train, test in folds(rows, 3):
            peer = logistic(gamma, weight[train].sum())
            peer.fit(X[train], y[train], sample_weight=weight[train])
            P = peer.predict_proba(X[test])
            total[i] += np.sum(
                counted[test] * -np.log(P[np.arange(len(test)), (y[test] == "yes") * 1])
            )
    return total


def test_a_row_in_two_domains_counts_twice_when_fitted_and_when_judged() -> None:
    rng = np.random.default_rng(3)
    X, y, _ = labels_data(3, n_large=60, n_small=60, d=8)
    loud = X[:, 1] > 0  # noisy rows, which are in four domains and ask for a larger γ
    y = np.where(loud & (rng.random(len(y)) < 0.5), "yes", y)
    table = np.column_stack([np.ones(len(y)), loud, loud, loud])
    weight = rng.integers(1, 3, size=len(y)).astype(float)
    rows = read_classes(ax.AgnosticClassifier(), X, y, table, weight)
    counted = weight * table.sum(axis=1)
    fitted = judged(X, y, rows, counted, counted)
    found = choose_ordinary(rows, folds(rows, 3), GRID, ax.Objective(), tol=1e-8)
    assert found.gamma == GRID[int(np.argmin(fitted))]
    once = judged(X, y, rows, counted, weight)
    assert np.argmin(once) != np.argmin(fitted)  # to count rows once would choose another
    assert len(found.solutions) == 3
