"""Anchors, models, columns and targets far out: values are those of the w they are given with."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anymix as ax
from anymix.mixtures import DirichletPrior, LogPrior, Simplex, TVBall
from anymix.problem import Loss
from anymix.problem.parts import Parts

Array = NDArray[np.float64]

LINE = np.array([[0.0], [1.0], [2.0], [4.0]])
BEST = 0.0928571428571428571  # ½ of the mean square that the best line leaves of (0, 1, 0, 1)


def line(unit: float = 1.0) -> ax.LinearDomains:
    return ax.LinearDomains(unit * LINE, [0.0, 1.0, 0.0, 1.0], list("aaaa"), ax.SquaredError())


@pytest.mark.parametrize("y", [1e3, 1e6, 1e8])
def test_a_dirichlet_prior_beside_large_targets(y: float) -> None:
    """Row 4 is fitted exactly, so that its target does not matter."""
    X, targets = [[0.0], [0.0], [0.0], [y]], [0.0, 2.0, 1.0, y]
    problem = ax.LinearDomains(X, targets, list("aabb"), ax.SquaredError())
    found = ax.solve(problem, gamma=0.0, prior=DirichletPrior([3.0, 2.0]))
    assert found.converged
    assert found.certificate.lower <= 0.917603
    assert found.objective == pytest.approx(0.9176026, abs=1e-6)


@pytest.mark.parametrize("factor", [1e-30, 1e-12, 1e8])
def test_best_responses_know_no_unit(factor: float) -> None:
    """On sets that are no box, Newton's method stops by the size of losses and prior."""
    prior, losses = DirichletPrior([3.0, 1.5, 2.0]), np.array([0.3, 1.0, -0.5])
    for mixtures in (TVBall([0.5, 0.3, 0.2], 0.2), Simplex(3).shrunk(0.5, [0.2, 0.3, 0.5])):
        best = prior.best_response(mixtures, losses)
        same = prior.times(factor).best_response(mixtures, factor * losses)
        np.testing.assert_allclose(same, best, atol=1e-7)
    c = np.array([0.6, 0.3, 0.1])
    normal = LogPrior(lambda x: -5 * float(np.sum((x - c) ** 2)), lambda x: -10 * (x - c), 3)
    best = normal.best_response(Simplex(3), losses)
    np.testing.assert_allclose(
        normal.times(factor).best_response(Simplex(3), factor * losses), best, atol=1e-7
    )


def test_a_best_response_does_not_end_where_the_prior_is_infinite() -> None:
    prior, ball = DirichletPrior([1.0, 3.0, 3.0, 1.0]).times(1e-13), TVBall([0.25] * 4, 1.0)
    losses = np.array([3.0, 1.0, 2.0, 0.5])
    assert np.isfinite(prior.value(prior.best_response(ball, losses)))


@pytest.mark.parametrize("size", [1e6, 1e10, 1e14])
def test_a_model_far_out_proves_no_more_than_is_true(size: float) -> None:
    for seed in range(20):
        w = size * np.random.default_rng(seed).normal(size=2)
        assert ax.certify(line(), None, w, [1.0], gamma=0.0).lower <= BEST * (1 + 1e-12)


@pytest.mark.parametrize("anchor", [1e6, 1e10, 1e14])
def test_an_anchor_far_out_where_nothing_is_penalised(anchor: float) -> None:
    found = ax.solve(line(), gamma=0.0, anchor=[anchor, 0.0])
    assert found.converged
    assert found.certificate.lower <= BEST * (1 + 1e-12)
    assert found.objective == pytest.approx(BEST, rel=1e-6)
    np.testing.assert_allclose(found.domain_losses, line().losses(found.w), rtol=1e-13)


@pytest.mark.parametrize("gamma", [0.0, 1e-3, 1.0, 10.0])
def test_the_losses_of_a_solution_are_those_of_its_w(gamma: float) -> None:
    with warnings.catch_warnings(action="ignore"):  # at γ > 0 there are not digits enough
        found = ax.solve(line(1e12), gamma=gamma, anchor=[1.0, 0.0])
    np.testing.assert_allclose(found.domain_losses, line(1e12).losses(found.w), rtol=1e-13)
    assert found.objective == pytest.approx(BEST + gamma / 2, rel=1e-9)  # w is about 0
    assert found.certificate.lower <= (BEST + gamma / 2) * (1 + 1e-12)


def columns_far_out(seed: int) -> tuple[ax.LinearDomains, float]:
    """12 rows, one column of 1e9 … 1e13, and γ."""
    rng = np.random.default_rng(seed)
    x, unit = rng.normal(size=12), 10.0 ** rng.integers(9, 14)
    y: Any = x + rng.normal(size=12)
    loss: Loss = [ax.SquaredError(), ax.Huber(1.0), ax.CrossEntropy()][seed % 3]
    if seed % 3 == 2:
        y = np.digitize(y, [[0.0], [-0.5, 0.5]][seed % 2])
    domains = np.arange(12) % (1 + seed % 4)
    gamma = float(rng.choice([0.0, 1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0]))
    return ax.LinearDomains(unit * x[:, None], y, domains, loss), gamma


def check_columns_far_out(seed: int) -> None:
    problem, gamma = columns_far_out(seed)
    with warnings.catch_warnings(action="ignore"):
        anchor = np.ones(problem.n_parameters)
        found = ax.solve(problem, gamma=gamma, anchor=anchor, max_iter=50)
    np.testing.assert_allclose(found.domain_losses, problem.losses(found.w), rtol=1e-9, atol=1e-15)


def test_columns_far_out() -> None:
    for seed in range(40):
        check_columns_far_out(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 760))
def test_many_columns_far_out(seed: int) -> None:
    check_columns_far_out(seed)


def test_another_look_only_where_it_was_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step costs one pass over the rows, unless scores fell so far that rounding shows."""
    problem, calls = line(), list[Array]()
    scores = ax.LinearDomains.scores

    def counted(self: ax.LinearDomains, w: Array) -> Array:
        calls.append(w)
        return scores(self, w)

    monkeypatch.setattr(ax.LinearDomains, "scores", counted)
    near = problem.at([1.0, 1.0])
    for n in range(1, 101):
        near = near.moved(np.array([0.01, 0.0]), 1.0)
        assert len(calls) == 1 + n
    far = problem.at([1e10, 0.0])
    there = far.moved(np.array([-1e10 + 0.3, 0.1]))
    np.testing.assert_array_equal(there.scores, scores(problem, there.w))


# -- a λ that is 0 up to rounding ------------------------------------------------------------------


def one_hard_domain() -> tuple[Array, Any, Any]:
    """Domain "hard" has no features; the other one is easy, and weighs nothing at the optimum."""
    rng, domains = np.random.default_rng(0), np.repeat(["hard", "easy"], 200)
    X = rng.normal(size=(400, 2))
    X[:200] = 0
    y = X[:, 0] + 0.5 * rng.logistic(size=400) > 0
    y[:200] = np.arange(200) % 2
    return X, y, domains


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_domain_that_weighs_next_to_nothing(in_parts: bool) -> None:
    X, y, domains = one_hard_domain()
    halves = [
        ax.LinearDomains(X[i::2], y[i::2], domains[i::2], classes=[False, True]) for i in (0, 1)
    ]
    problem = Parts.of(halves) if in_parts else ax.LinearDomains(X, y, domains)
    found = ax.solve(problem, gamma=0.0)
    assert found.converged
    assert found.certificate.lower == pytest.approx(np.log(2), abs=1e-9)
    proved = ax.certify(problem, Simplex(2), found.w, found.mixture, gamma=0.0)
    assert proved.gap <= 1e-9
    for little in (3e-15, 3e-13):
        proved = ax.certify(problem, Simplex(2), found.w, [little, 1 - little], gamma=0.0)
        assert proved.gap <= 1e-9


# -- other units -----------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["squared", "plain"])
@pytest.mark.parametrize("far", [1e6, 1e9, 1e11])
def test_models_in_a_ball_are_looked_at_in_good_numbers(far: float, norm: str) -> None:
    rng = np.random.default_rng(3)
    X, domains = np.round(64 * rng.normal(size=(60, 2))) / 64, np.arange(60) % 3
    y = np.round(64 * (X[:, 0] + rng.normal(size=60))) / 64
    near = ax.LinearDomains(X, y, domains, ax.SquaredError())
    problem = ax.LinearDomains(X, y + far, domains, ax.SquaredError())
    found = ax.solve(near, gamma=1e-2, norm=norm)
    w = found.w + np.array([0.0, 0.0, far])
    w[2] = np.round(64 * w[2]) / 64  # so that w − far is exact
    here = w - np.array([0.0, 0.0, far])
    known = ax.certify(problem, None, w, found.mixture, gamma=1e-2, norm=norm, w_radius=2 * far)
    exact = ax.certify(near, None, here, found.mixture, gamma=1e-2, norm=norm)
    assert known.upper == pytest.approx(exact.upper, rel=1e-12)
    assert known.lower == pytest.approx(exact.lower, rel=1e-9)


def test_at_the_anchor_of_a_plain_norm_there_is_a_certificate() -> None:
    y = [1e-9, 2e-9, 1e-9]
    problem = ax.LinearDomains([[1.0], [2.0], [4.0]], y, [0, 0, 1], ax.SquaredError())
    known = ax.certify(problem, None, [0.0, 0.0], [0.5, 0.5], gamma=1.0, norm="plain")
    assert 0 <= known.lower <= known.upper


def test_a_gap_below_zero_is_no_rounding_of_tol() -> None:
    """A value that is too high by less than tol used to be taken for the upper one."""
    problem, certificate = line(), ax.solve(line(), gamma=1.0).certificate
    objective = ax.Objective(gamma=1.0).on(problem)
    here = problem.at(ax.solve(problem, gamma=1.0).w)
    assert objective.doubt(here) <= 1e-13
    with pytest.raises(ValueError, match=r"one .*is wrong"):
        ax.solvers.certificates.certificate_at(objective, here, certificate.upper + 1e-9)
