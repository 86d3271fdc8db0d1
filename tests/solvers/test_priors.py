"""A prior on λ: one optimum, by CVXPY, the exact solver, stochastic steps and the estimators."""

from typing import Any

import numpy as np
import pytest
from conic import minimax
from numpy.typing import NDArray
from scipy.special import expit

import anymix as ax
from anymix.mixtures import LogPrior

Array = NDArray[np.float64]
PRIOR = ax.DirichletPrior([3.0, 2.0, 1.5])
SETS: dict[str, Any] = {
    "simplex": ax.Simplex(3),
    "hull": ax.Hull([[0.5, 0.4, 0.1], [0.2, 0.2, 0.6], [0.1, 0.7, 0.2]]),
    "chi2": ax.Chi2Ball([300, 200, 100], 1.1),
    "tv": ax.TVBall([0.3, 0.4, 0.3], 0.1),
}


def rows(n: int = 600) -> tuple[Array, Any, Any]:
    rng = np.random.default_rng(0)
    X, k = rng.normal(size=(n, 3)), np.repeat([0, 1, 2], [n // 2, n // 3, n - n // 2 - n // 3])
    return X, rng.random(n) < expit(X[np.arange(n), k]), k


X, Y, K = rows()
PROBLEM = ax.LinearDomains(X, Y, K)
EXACT = ax.solve(PROBLEM, prior=PRIOR, tol=1e-9)


@pytest.mark.parametrize("name", SETS)
def test_the_objective_is_that_of_cvxpy(name: str) -> None:
    found = ax.solve(PROBLEM, SETS[name], gamma=0.01, prior=PRIOR, tol=1e-9)
    wanted = minimax(X, Y.astype(int), np.eye(3)[K], SETS[name], gamma=0.01, prior=PRIOR)
    assert found.objective == pytest.approx(wanted, abs=1e-6)
    assert found.certificate.gap < 1e-7


def test_a_flat_prior_is_none() -> None:
    flat = ax.DirichletPrior([1.0, 1.0, 1.0])
    none, one = ax.solve(PROBLEM, tol=1e-9), ax.solve(PROBLEM, prior=flat, tol=1e-9)
    assert one.objective == pytest.approx(none.objective - flat.value([0.2, 0.3, 0.5]), abs=1e-8)
    np.testing.assert_allclose(one.w, none.w, atol=1e-6)


def test_a_prior_of_one_s_own_is_the_same_as_the_one_built_in() -> None:
    a = PRIOR.alpha - 1
    own = LogPrior(lambda x: float(a @ np.log(x)), lambda x: a / x, 3)
    found = ax.solve(PROBLEM, prior=own, tol=1e-9)
    constant = PRIOR.value([0.2, 0.3, 0.5]) - own.value([0.2, 0.3, 0.5])
    assert found.objective - constant == pytest.approx(EXACT.objective, abs=1e-8)
    np.testing.assert_allclose(found.w, EXACT.w, atol=1e-6)


def test_a_prior_whose_entries_interact() -> None:
    Q, c = np.array([[5, 2, 0], [2, 6, 1], [0, 1, 4.0]]), np.array([0.2, 0.3, 0.5])
    prior = LogPrior(lambda x: -(x - c) @ Q @ (x - c) / 2, lambda x: -Q @ (x - c), 3)
    found = ax.solve(PROBLEM, prior=prior, tol=1e-8)
    assert found.certificate.gap < 1e-7
    best = prior.best_response(ax.Simplex(3), found.domain_losses)
    np.testing.assert_allclose(best, found.mixture, atol=1e-4)


def test_cross_validation_with_a_prior() -> None:
    """A prior that is sure of the first domain leaves nothing to be robust against."""
    sure = ax.DirichletPrior([400.0, 1.5, 1.5])
    options: dict[str, Any] = {"robustness": (1.0,), "gammas": (0.01,), "price": np.inf}
    model = ax.AgnosticClassifierCV(objective=ax.Objective(prior=sure), **options).fit(
        X, Y, domains=K
    )
    assert model.mixture_[0] > 0.95 or model.robustness_ == 0
    free = ax.AgnosticClassifierCV(**options).fit(X, Y, domains=K)
    value = model.cv_results_["worst_test_loss"]
    assert np.all(value <= free.cv_results_["worst_test_loss"][: len(value)] + 0.05)
    robust = model.frontier_.solutions[-1]
    assert robust.mixture[0] > 0.95
