"""Priors of one's own: best responses are the best, and what is not concave is refused."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.mixtures import (
    Box,
    Chi2Ball,
    DirichletPrior,
    Hull,
    LogPrior,
    MixtureSet,
    Simplex,
    TVBall,
)
from anymix.mixtures.best_response import water_fill

Array = NDArray[np.float64]
SETS: list[MixtureSet] = [
    Simplex(3),
    Box([0.1, 0.0, 0.2], [0.6, 0.5, 0.9]),
    Hull([[0.5, 0.5, 0.0], [0.2, 0.2, 0.6], [0.1, 0.7, 0.2]]),
    Chi2Ball([5, 3, 2], 1.2),
    TVBall([0.5, 0.3, 0.2], 0.1),
]


def gap(prior: Any, mixtures: MixtureSet, losses: Array, lam: Array) -> float:
    """At most so far from the largest value, by concavity."""
    g = losses - prior.gradient(lam)
    return float(g @ (mixtures.maximize(g) - lam))


def dirichlet(alpha: Array) -> LogPrior:
    return LogPrior(lambda x: float((alpha - 1) @ np.log(x)), lambda x: (alpha - 1) / x, len(alpha))


def normal(center: Array, Q: Array) -> LogPrior:
    return LogPrior(
        lambda x: -float((x - center) @ Q @ (x - center)) / 2, lambda x: -Q @ (x - center), 3
    )


@pytest.mark.parametrize("mixtures", SETS, ids=lambda s: type(s).__name__)
def test_the_best_response_is_the_best(mixtures: MixtureSet) -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        losses, alpha = rng.normal(size=3) * 10 ** rng.uniform(-2, 1), 1 + rng.uniform(0.01, 5, 3)
        A = rng.normal(size=(3, 3))
        priors = DirichletPrior(alpha), dirichlet(alpha), normal(rng.dirichlet(np.ones(3)), A @ A.T)
        for prior in priors:
            lam = prior.best_response(mixtures, losses)
            assert mixtures.contains(lam)
            assert gap(prior, mixtures, losses, lam) <= 1e-7 * (1 + abs(float(lam @ losses)))


def test_newton_s_steps_find_what_water_filling_finds() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        alpha, losses = 1 + rng.uniform(0.1, 3, size=3), rng.normal(size=3) * 3
        lam = dirichlet(alpha).best_response(Simplex(3), losses)
        exact = water_fill(alpha - 1, losses, np.zeros(3), np.ones(3))
        np.testing.assert_allclose(lam, exact, atol=1e-6)


def test_a_normal_prior_is_the_quadratic_program_of_cvxpy() -> None:
    rng = np.random.default_rng(2)
    for mixtures in (Simplex(3), Box([0.1, 0, 0.2], [0.6, 0.5, 0.9])):
        A, c, losses = rng.normal(size=(3, 3)), rng.dirichlet(np.ones(3)), rng.normal(size=3)
        x = cp.Variable(3)
        low, high = mixtures.box_bounds or (np.zeros(3), np.ones(3))
        value = losses @ x - cp.sum_squares(A @ (x - c)) / 2
        program = cp.Problem(cp.Maximize(value), [cp.sum(x) == 1, x >= low, x <= high])
        best = program.solve(solver="CLARABEL")
        prior = normal(c, A.T @ A)
        lam = prior.best_response(mixtures, losses)
        assert losses @ lam - prior.value(lam) == pytest.approx(best, abs=1e-7)


def test_what_is_not_log_concave_is_refused_and_says_where() -> None:
    with pytest.raises(InputError, match=r"log_density .*not concave") as caught:
        LogPrior(lambda x: float(x @ x), lambda x: 2 * x, 3)
    assert "give a log-concave density" in str(caught.value)

    def logistic_normal(x: Array) -> float:
        eta = np.log(x[:-1] / x[-1])
        return float(-eta @ eta / 2 - np.log(x).sum())

    with pytest.raises(InputError, match="not concave"):
        LogPrior(logistic_normal, lambda x: np.zeros(3), 3)
    with pytest.raises(InputError, match=r"gradient is .* along"):
        LogPrior(lambda x: -float(x @ x), lambda x: -x, 3)
    with pytest.raises(InputError, match=r"gradient gives shape \(2,\); give \(3,\)"):
        LogPrior(lambda x: -float(x @ x), lambda x: np.zeros(2), 3)
    with pytest.raises(InputError, match=r"mixtures has 2 .*3"):
        normal(np.full(3, 1 / 3), np.eye(3)).best_response(Simplex(2), [0, 0])


def test_a_multiple_is_a_multiple() -> None:
    prior = normal(np.array([0.2, 0.3, 0.5]), np.diag([1.0, 2.0, 3.0]))
    x = np.array([0.5, 0.25, 0.25])
    twice = prior.times(2.0).times(1.5)
    assert twice.value(x) == pytest.approx(3 * prior.value(x))
    np.testing.assert_allclose(twice.gradient(x), 3 * prior.gradient(x))
    np.testing.assert_allclose(prior.hessian(x), [1, 2, 3], rtol=1e-6)
