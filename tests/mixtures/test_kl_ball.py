"""Relative entropy around a mixture: its edge, its limits, and solving over it."""

from __future__ import annotations

import math
import time
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from conic import minimax
from hypothesis import example, given
from hypothesis import strategies as st
from mixture_cases import a_vector
from numpy.typing import NDArray
from scipy.special import rel_entr, xlogy

import anymix as ax
from anymix.errors import InputError

Array = NDArray[np.float64]
C = np.array([0.4, 0.3, 0.2, 0.1])
HERE = ax.KLBall(C, 0.1)


def entropy(lam: Array, c: Array) -> float:
    return float(rel_entr(lam, c).sum())


@pytest.mark.parametrize(
    ("reference", "rho", "argument"),
    [
        ([0.5, 0.6], 0.1, "reference"),
        ([1.5, -0.5], 0.1, "reference"),
        ([], 0.1, "reference"),
        ([0.5, 0.5], -1e-9, "rho"),
        ([0.5, 0.5], math.inf, "rho"),
        ([0.5, 0.5], math.nan, "rho"),
        ([0.5, 0.5], "a", "rho"),
    ],
)
def test_what_is_no_ball_is_refused(reference: Any, rho: Any, argument: str) -> None:
    with pytest.raises(InputError) as error:
        ax.KLBall(reference, rho)
    assert error.value.argument == argument


@st.composite
def a_reference(draw: st.DrawFn, p: int) -> Array:
    """With zeros, and with shares down to 1e-300."""
    powers = st.sampled_from([0.0, 1.0, 1e-3, 1e-12, 1e-300]) | st.floats(0.01, 1)
    c = np.array(draw(st.lists(powers, min_size=p, max_size=p).filter(any)))
    return np.asarray(c / c.sum())


@st.composite
def a_kl_case(draw: st.DrawFn) -> tuple[ax.KLBall, Array]:
    p = draw(st.integers(1, 7))
    rho = draw(st.sampled_from([1e-15, 1e-9, 1e-3, 0.1, 1.0, 20.0, 600.0]))
    return ax.KLBall(draw(a_reference(p)), rho), draw(a_vector(p))


@given(a_kl_case(), st.sampled_from([1e-300, 1e-20, 1.0, 1e20, 1e290]))
def test_answers_are_members_of_any_scale(case: tuple[ax.KLBall, Array], scale: float) -> None:
    ball, v = case
    c = ball.reference
    for lam in (
        ball.maximize(scale * v),
        ball.project(scale * v),
        ball.project(scale * v, 1 + np.arange(len(v))),
        np.exp(ball.kl_project(scale * v)),
    ):
        assert lam.sum() == pytest.approx(1, abs=1e-13)
        assert lam.min() >= 0
        assert not lam[c == 0].any()
        assert ball.contains(lam, 1e-12)
        assert entropy(lam, c) <= ball.rho * (1 + 1e-9) + 1e-12


@given(a_kl_case())
def test_it_is_inside_the_ball_of_total_variation(case: tuple[ax.KLBall, Array]) -> None:
    """Pinsker; and bounds of the one are bounds of the other."""
    ball, v = case
    around = ax.TVBall(ball.reference, math.sqrt(ball.rho / 2))
    for lam in (ball.maximize(v), ball.project(v)):
        assert around.contains(lam, 1e-9)
    assert ball.radius == around.radius
    assert ball.skewness(np.arange(1, len(v) + 1)) == around.skewness(np.arange(1, len(v) + 1))


@given(a_kl_case())
@example((ax.KLBall([0.5, 5e-301, 0.5], 20.0), np.array([0.0, 0.0, -1000.0])))  # θ = 1e8
def test_optimal_at_the_edge(case: tuple[ax.KLBall, Array]) -> None:
    """No member is better along the slope; the slope of Σ λd at the answer says which."""
    ball, v = case
    for w in (np.ones(len(v)), 10.0 ** np.arange(len(v))):
        lam = ball.project(v, w)
        g = w * (v - lam)
        assert g @ (ball.maximize(g) - lam) <= 1e-12 * np.max(w * (np.abs(v) + 1))
    lam = ball.maximize(v)
    if entropy(lam, ball.reference) < ball.rho * (1 - 1e-6) - 1e-12:  # not at the edge: a face
        some = ball.reference > 0
        assert v @ lam >= v[some].max() - 1e-12 * np.abs(v).max()


@given(a_kl_case())
def test_the_projection_in_relative_entropy_is_the_nearest_member(
    case: tuple[ax.KLBall, Array],
) -> None:
    """∇ of Σ λ log(λ/w) points to no member: ⟨log λ − log w, z − λ⟩ ≥ 0."""
    ball, logits = case
    some = ball.reference > 0
    log_lam = ball.kl_project(logits)
    assert np.all(np.isneginf(log_lam[~some]))
    lam = np.exp(log_lam)
    slope = np.where(some, log_lam - logits, 0.0)
    rounding = 4 * np.finfo(float).eps * np.abs(logits[some]).max()  # of the slope itself
    for z in (ball.maximize(-slope), ball.center, ball.maximize(logits)):
        near = z[some] @ slope[some] - lam[some] @ slope[some]
        assert near >= -1e-10 * (1 + np.abs(slope).max()) - rounding


def test_nothing_but_the_reference_at_zero() -> None:
    point = ax.KLBall(C, 0.0)
    for lam in (point.center, point.maximize([9, 0, 0, 0]), point.project([0, 0, 9, 0])):
        np.testing.assert_allclose(lam, C, rtol=1e-15)
    assert point.is_point
    assert point.log_cover_size(0) == 0
    assert point.radius == pytest.approx(np.linalg.norm(C))
    assert not point.contains([0.4, 0.3, 0.1, 0.2])


def test_domains_without_a_share_never_come() -> None:
    ball = ax.KLBall([0.5, 0.0, 0.5], 5.0)
    np.testing.assert_array_equal(ball.maximize([0, 9, 1]), [0, 0, 1])
    np.testing.assert_allclose(ball.project([0.0, 9.0, 0.5]), [0.25, 0, 0.75], atol=1e-15)
    assert not ball.contains([0.0, 1.0, 0.0])
    player = ax.Adversary(ball, 0.3, kind="entropic")
    player.step([1.0, 9.0, 0.0])
    assert player.mixture[1] == 0


def test_all_of_the_simplex_when_large() -> None:
    """δ_k is at −log c_k."""
    ball = ax.KLBall(C, math.log(10))
    assert ball.is_simplex
    np.testing.assert_array_equal(ball.maximize([0, 0, 0, 1]), [0, 0, 0, 1])
    less = ax.KLBall(C, math.log(10) - 1e-3)
    assert not less.is_simplex
    assert less.maximize([0, 0, 0, 1])[3] < 1
    np.testing.assert_allclose(less.maximize([1, 1, 0, 0]), [4 / 7, 3 / 7, 0, 0], atol=1e-15)


def test_one_domain() -> None:
    one = ax.KLBall([1.0], 0.3)
    for lam in (one.center, one.maximize([-4.0]), one.project([9.0], [1e-3])):
        np.testing.assert_array_equal(lam, [1.0])


def test_a_narrow_ball_is_that_of_chi2() -> None:
    """Σ λ log(λ/c) ≈ ½ χ²(λ‖c) near c."""
    sizes, L = 100 * C, np.array([1.0, -2.0, 0.5, 3.0])
    for rho in (1e-6, 1e-10):
        narrow, chi2 = ax.KLBall(C, rho), ax.Chi2Ball(sizes, 1 + 2 * rho)
        step = math.sqrt(2 * rho)
        tol = 5 * step**2 + 1e-13
        np.testing.assert_allclose(narrow.maximize(L), chi2.maximize(L), rtol=0, atol=tol)
        np.testing.assert_allclose(narrow.project(L), chi2.project(L), rtol=0, atol=tol)


def test_ten_thousand_domains_are_quick() -> None:
    rng = np.random.default_rng(0)
    p = 10_000
    ball, v = ax.KLBall(rng.dirichlet(np.ones(p)), 0.3), rng.normal(size=p)
    start = time.process_time()
    lam, near = ball.maximize(v), ball.project(v / p)
    assert time.process_time() - start < 2.0  # 0.05 seconds are usual
    assert entropy(lam, ball.reference) == pytest.approx(0.3, rel=1e-10)
    assert entropy(near, ball.reference) == pytest.approx(0.3, rel=1e-10)


def best_value(L: Array, penalty: Any) -> float:
    lam = cp.Variable(4)
    rule = [cp.sum(lam) == 1, cp.sum(cp.kl_div(lam, C)) <= 0.1]
    program = cp.Problem(cp.Maximize(L @ lam - penalty(lam)), rule)
    program.solve(cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(program.value)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_best_responses_are_those_of_cvxpy() -> None:
    sizes, a = np.array([10.0, 20.0, 5.0, 15.0]), np.array([0.5, 1.0, 0.0, 2.0])
    m, chi2, prior = sizes / 50, ax.Chi2Penalty(0.3, sizes), ax.DirichletPrior(1 + a)
    for L in 3 * np.random.default_rng(5).normal(size=(8, 4)):
        wanted = best_value(L, lambda x: 0.3 * cp.sum(cp.multiply(1 / m, cp.square(x - m))))
        found = chi2.best_response(HERE, L)
        assert found @ L - chi2.value(found) == pytest.approx(wanted, abs=1e-8)
        wanted = best_value(L, lambda x: -a @ cp.log(x))
        found = prior.best_response(HERE, L)
        assert found @ L + xlogy(a, found).sum() == pytest.approx(wanted, abs=1e-7)


@pytest.mark.parametrize(
    "objective", [{}, {"mu": 0.2}, {"prior": ax.DirichletPrior([2.0, 1.0, 1.5, 3.0])}]
)
@pytest.mark.parametrize("rho", [1e-4, 0.1, 1.0])
def test_solved_with_a_certificate(objective: dict[str, Any], rho: float) -> None:
    rng = np.random.default_rng(6)
    k = np.repeat(range(4), [100, 60, 30, 50])
    X = rng.normal(size=(240, 3))
    y = (X[np.arange(240), k % 3] + 0.5 * rng.normal(size=240) > 0.2 * k).astype(int)
    ball = ax.KLBall(C, rho)
    found = ax.solve(ax.LinearDomains(X, y, k), ball, gamma=0.01, tol=1e-8, **objective)
    wanted = minimax(X, y, np.eye(4)[k], ball, gamma=0.01, **objective)
    assert found.certificate.gap <= 1e-8
    assert found.objective == pytest.approx(wanted, abs=1e-6)
    assert ball.contains(found.mixture)


@pytest.mark.parametrize("kind", ["euclidean", "entropic"])
def test_players_move_in_it(kind: Any) -> None:
    """To the best member, and the loss of a network moves λ by the same steps."""
    torch = pytest.importorskip("torch")
    from anymix.pytorch import AgnosticLoss

    L = np.array([1.0, 2.0, 3.0, 4.0])
    player, criterion = ax.Adversary(HERE, 0.1, kind=kind), AgnosticLoss(HERE, step=0.1)
    for _ in range(300):
        player.step(L)
        assert HERE.contains(player.mixture, 1e-12)
        criterion(torch.tensor(L, requires_grad=True), torch.arange(4)).backward()
        criterion.step()
        if kind == "euclidean":
            np.testing.assert_allclose(criterion.mixture, player.mixture, rtol=0, atol=1e-9)
    np.testing.assert_allclose(player.mixture, HERE.maximize(L), rtol=0, atol=1e-9)


def test_its_cover_is_made_of_members() -> None:
    """Balls of radius ε/2 around members, in that of total variation; or cells of the grid."""
    ball = ax.KLBall(C, 0.02)
    assert ball.log_cover_size(0.4) == 0  # twice √(ρ/2): the reference alone
    assert ball.log_cover_size(0.01) == pytest.approx(3 * math.log1p(4 * 0.1 / 0.01))
    wide = ax.KLBall(C, 2.3)
    assert wide.log_cover_size(0.2) == ax.Simplex(4).log_cover_size(0.1)
