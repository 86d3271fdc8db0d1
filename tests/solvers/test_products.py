"""A prior that multiplies the loss: the optimum of CVXPY on a grid of mixtures, and its proof."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import expit

import anymix as ax
from anymix.errors import InputError
from anymix.mixtures import LogPrior


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


def product_of(prior: Any, **parts: Any) -> ax.Objective:
    return ax.Objective(prior=prior, multiplicative=True, **parts)


@pytest.mark.parametrize("alpha", [[3.0, 2.0], [1.2, 1.1], [9.0, 4.0]])
@pytest.mark.parametrize("norm", ["squared", "plain"])
def test_the_optimum_is_that_of_cvxpy(alpha: list[float], norm: str) -> None:
    X, y, k = rows()
    prior = ax.DirichletPrior(alpha)
    found = ax.solve(ax.LinearDomains(X, y, k), product_of(prior, gamma=0.05, norm=norm))
    assert found.certificate.gap <= 1e-6
    assert found.objective == pytest.approx(on_a_grid(X, y, k, prior, 0.05, norm), rel=2e-6)


def test_a_flat_prior_is_the_plain_problem() -> None:
    problem = ax.LinearDomains(*rows(3))
    flat = ax.DirichletPrior([1.0, 1.0, 1.0])  # a density of 2 on the simplex
    found = ax.solve(problem, product_of(flat, gamma=0.02))
    plain = ax.solve(problem, gamma=0.01)
    assert found.objective == pytest.approx(2 * plain.objective, abs=1e-5)


def test_a_certificate_holds_far_from_the_optimum() -> None:
    problem, prior = ax.LinearDomains(*rows(3)), ax.DirichletPrior([2.0, 3.0, 1.5])
    best = ax.solve(problem, product_of(prior), tol=1e-7)
    with pytest.warns(UserWarning, match=r"stopped .*1 .*with gap"):
        rough = ax.solve(problem, product_of(prior), tol=1e-7, max_iter=1)
    assert rough.certificate.lower <= best.objective + 1e-7
    assert rough.certificate.upper >= best.certificate.lower - 1e-7
    assert not rough.converged


def test_a_prior_of_one_s_own_on_a_smaller_set() -> None:
    problem = ax.LinearDomains(*rows(3))
    a = np.array([1.0, 2.0, 0.5])
    own = LogPrior(lambda x: float(a @ np.log(x)), lambda x: a / x, 3)
    box = ax.Box([0.1, 0.1, 0.1], [0.5, 0.6, 0.7])
    found = ax.solve(problem, product_of(own, mixtures=box, gamma=0.01))
    assert found.certificate.gap <= 1e-6
    assert box.contains(found.mixture)


def test_a_certificate_of_any_model_and_mixture() -> None:
    problem, prior = ax.LinearDomains(*rows(3)), ax.DirichletPrior([2.0, 3.0, 1.5])
    objective = product_of(prior, gamma=0.01)
    best, rng = ax.solve(problem, objective, tol=1e-8), np.random.default_rng(0)
    for _ in range(20):
        w, lam = rng.normal(size=problem.n_parameters), rng.dirichlet(np.ones(3))
        proof = ax.certify(problem, objective, w, lam)
        assert proof.lower <= best.objective + 1e-8
        losses = problem.losses(w)
        grid = rng.dirichlet(np.ones(3), size=500)
        values = [np.exp(-prior.value(x)) * float(x @ losses) for x in grid]
        assert proof.upper >= max(values) + 0.005 * float(w[:-1] @ w[:-1])
    assert ax.certify(problem, objective, best.w, best.mixture).gap <= 1e-8


def test_an_anchor_and_a_robustness_beside_a_prior_that_multiplies() -> None:
    problem, prior = ax.LinearDomains(*rows(3)), ax.DirichletPrior([2.0, 3.0, 1.5])
    anchor = np.linspace(-1, 1, problem.n_parameters)
    pulled = ax.solve(problem, product_of(prior, gamma=1e4, anchor=anchor), tol=1e-6)
    np.testing.assert_allclose(pulled.w[:-1], anchor[:-1], atol=1e-3)
    halfway = ax.solve(problem, product_of(prior, gamma=0.01, robustness=0.5), tol=1e-6)
    near = ax.Simplex(3).shrunk(0.5, problem.reference)
    smaller = ax.solve(problem, product_of(prior, gamma=0.01, mixtures=near), tol=1e-6)
    assert halfway.objective == pytest.approx(smaller.objective, abs=2e-6)


@pytest.mark.parametrize(
    ("argument", "parts"),
    [
        ("prior", {"prior": None}),
        ("prior", {"prior": ax.Chi2Penalty(0.1, [1, 1])}),
        ("gamma", {"gamma": 0.0}),
        ("offsets", {"offsets": [0.1, 0.2]}),
    ],
)
def test_what_is_no_saddle_point_is_refused(argument: str, parts: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        product_of(**{"prior": ax.DirichletPrior([2.0, 2.0])} | parts)
    assert caught.value.argument == argument


def test_the_stochastic_algorithms_take_no_product() -> None:
    problem = ax.LinearDomains(*rows())
    product = product_of(ax.DirichletPrior([2.0, 2.0]))
    with pytest.raises(InputError) as caught:
        ax.stochastic_afl(problem, product, step_w=0.1, step_mixture=0.1)
    assert caught.value.argument == "multiplicative"
