"""A prior that multiplies the loss: the optimum of CVXPY on a grid of mixtures, and its proof."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import expit

import anymix as ax
from anymix.errors import InputError
from anymix.mixtures import LogPrior
from anymix.solvers import solve_multiplicative


def rows(p: int = 2, n: int = 120) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(p)
    X, k = rng.normal(size=(n, 2)), np.arange(n) % p
    return X, rng.random(n) < expit(2 * X[np.arange(n), k % 2] + k), k


def on_a_grid(X: Any, y: Any, k: Any, prior: Any, gamma: float, norm: str = "squared") -> float:
    """min_w max over 2,001 mixtures of p(λ) ⟨λ, L(w)⟩ + γ R(w), as a conic program."""
    w, b, L = cp.Variable(2), cp.Variable(), cp.Variable(2)
    z = cp.multiply(np.where(y, -1.0, 1.0), X @ w + b)
    first = np.linspace(1e-6, 1 - 1e-6, 2001)
    mixtures = np.column_stack([first, 1 - first])
    theta = np.exp([-prior.value(lam) for lam in mixtures])[:, None] * mixtures
    bounds = [L[j] >= cp.sum(cp.logistic(z[k == j])) / float(np.sum(k == j)) for j in range(2)]
    R = cp.sum_squares(w) / 2 if norm == "squared" else cp.norm(w)
    program = cp.Problem(cp.Minimize(cp.max(theta @ L) + gamma * R), bounds)
    return float(program.solve(solver="CLARABEL"))


@pytest.mark.parametrize("alpha", [[3.0, 2.0], [1.2, 1.1], [9.0, 4.0]])
@pytest.mark.parametrize("norm", ["squared", "plain"])
def test_the_optimum_is_that_of_cvxpy(alpha: list[float], norm: str) -> None:
    X, y, k = rows()
    prior = ax.DirichletPrior(alpha)
    found = solve_multiplicative(ax.LinearDomains(X, y, k), prior, gamma=0.05, norm=norm)
    assert found.certificate.gap <= 1e-6
    assert found.objective == pytest.approx(on_a_grid(X, y, k, prior, 0.05, norm), rel=2e-6)


def test_a_flat_prior_is_the_plain_problem() -> None:
    problem = ax.LinearDomains(*rows(3))
    flat = ax.DirichletPrior([1.0, 1.0, 1.0])  # a density of 2 on the simplex
    found = solve_multiplicative(problem, flat, gamma=0.02)
    plain = ax.solve(problem, gamma=0.01)
    assert found.objective == pytest.approx(2 * plain.objective, abs=1e-5)


def test_a_certificate_holds_far_from_the_optimum() -> None:
    problem, prior = ax.LinearDomains(*rows(3)), ax.DirichletPrior([2.0, 3.0, 1.5])
    best = solve_multiplicative(problem, prior, tol=1e-7)
    with pytest.warns(UserWarning, match="stopped after 1 turns with gap"):
        rough = solve_multiplicative(problem, prior, tol=1e-7, max_iter=1)
    assert rough.certificate.lower <= best.objective + 1e-7
    assert rough.certificate.upper >= best.certificate.lower - 1e-7
    assert not rough.converged


def test_a_prior_of_one_s_own_on_a_smaller_set() -> None:
    problem = ax.LinearDomains(*rows(3))
    a = np.array([1.0, 2.0, 0.5])
    own = LogPrior(lambda x: float(a @ np.log(x)), lambda x: a / x, 3)
    box = ax.Box([0.1, 0.1, 0.1], [0.5, 0.6, 0.7])
    found = solve_multiplicative(problem, own, box, gamma=0.01)
    assert found.certificate.gap <= 1e-6
    assert box.contains(found.mixture)


def test_what_is_no_log_concave_prior_is_refused() -> None:
    problem = ax.LinearDomains(*rows())
    with pytest.raises(InputError, match="which say that p is log-concave"):
        solve_multiplicative(problem, ax.Chi2Penalty(0.1, [1, 1]))
    with pytest.raises(InputError, match=r"gamma is 0.0; give a number > 0"):
        solve_multiplicative(problem, ax.DirichletPrior([2.0, 2.0]), gamma=0.0)
