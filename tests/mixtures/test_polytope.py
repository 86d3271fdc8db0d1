"""Polytopes: what is refused, what scale and order may not change, and solving over them."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from conic import minimax
from numpy.typing import NDArray
from scipy.special import xlogy

import anymix as ax
from anymix.errors import InputError

Array = NDArray[np.float64]
A = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, -1.0, 2.0, 0.5], [-1.0, 0.0, 0.0, 1.0]])
B = np.array([0.6, 0.3, 0.1])
HERE = ax.Polytope(A, B)


@pytest.mark.parametrize(
    ("rows", "totals", "argument"),
    [
        ([[1.0, 1.0]], [0.5], "b"),  # Σ λ ≤ ½
        ([[1.0, 0.0], [0.0, 1.0]], [0.4, 0.5], "b"),
        ([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], [0.3, -0.4], "b"),
        ([[2.0, 3.0]], [1.0], "b"),
        ([[1e300, 2e300]], [0.9e300], "b"),
        ([[1.0, 0.0], [-1.0, 0.0]], [0.3, -0.3 - 1e-8], "b"),
        ([[1.0]], [0.9], "b"),
        ([[1.0, 0.0]], [1.0, 2.0], "b"),
        ([[1.0, 0.0]], [np.inf], "b"),
        ([1.0, 0.0], [1.0], "A"),
        ([[np.nan, 0.0]], [1.0], "A"),
        (np.zeros((0, 2)), [], "A"),
    ],
)
def test_what_leaves_no_mixture_is_refused(rows: Any, totals: Any, argument: str) -> None:
    with pytest.raises(InputError) as error:
        ax.Polytope(rows, totals)
    assert error.value.argument == argument


def test_equalities_hold_up_to_rounding() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = int(rng.integers(2, 8))
        row, c = rng.normal(size=(1, p)), rng.dirichlet(np.ones(p))
        line = ax.Polytope(np.vstack((row, -row)), np.append(row @ c, -(row @ c)))
        for lam in (
            line.center,
            line.maximize(rng.normal(size=p)),
            line.project(rng.normal(size=p)),
        ):
            assert row @ lam == pytest.approx(row @ c, abs=1e-13)


def test_a_total_that_rounding_took_from_its_row_is_not_below_it() -> None:
    """The last bit of b may be lost where it is A times a mixture; more than bits is a fault."""
    for b in (1.9999999999999998, 2.0, 2.0000000000000004):
        corner = ax.Polytope([[2.0, 3.0, 3.0], [3.0, 0.0, 1.0]], [b, 3.0])
        np.testing.assert_allclose(corner.center, [1, 0, 0], rtol=0, atol=1e-14)
    with pytest.raises(InputError):
        ax.Polytope([[2.0, 3.0, 3.0]], [2.0 - 1e-12])


def test_a_vertex_alone_and_one_domain() -> None:
    corner = ax.Polytope([[1.0, 2.0, 3.0]], [1.0])
    for lam in (corner.center, corner.maximize([0, 5, 9]), corner.project([-9.0, 3, 3])):
        np.testing.assert_allclose(lam, [1, 0, 0], rtol=0, atol=1e-15)
    assert corner.radius == pytest.approx(1.0)
    one = ax.Polytope([[3.0]], [3.0])
    for lam in (one.center, one.maximize([-2.0]), one.project([7.0], [1e-9])):
        np.testing.assert_array_equal(lam, [1.0])
    assert one.contains([1.0])
    assert one.log_cover_size(0.1) == 0


def test_a_box_is_a_polytope() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        p = int(rng.integers(2, 7))
        c = rng.dirichlet(np.ones(p))
        lower, upper = c * rng.uniform(0, 1, p), np.minimum(c + rng.uniform(0, 0.4, p), 1)
        box = ax.Box(lower, upper)
        same = ax.Polytope(np.vstack((np.eye(p), -np.eye(p))), np.append(upper, -lower))
        v, w = rng.normal(size=p), 10 ** rng.uniform(-2, 2, p)
        np.testing.assert_allclose(same.project(v), box.project(v), rtol=0, atol=1e-13)
        np.testing.assert_allclose(same.project(v, w), box.project(v, w), rtol=0, atol=1e-12)
        assert same.maximize(v) @ v == pytest.approx(box.maximize(v) @ v, abs=1e-13)
        assert same.radius >= box.radius - 1e-12


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e9, 1e300])
def test_scale_and_shift_of_a_row_mean_nothing(scale: float) -> None:
    """Σ λ = 1, so a row may be moved by a constant, and its total with it."""
    again = ax.Polytope(scale * A, scale * B)
    shift = np.array([1.0, -3.0, 7.0])
    moved = ax.Polytope(A + shift[:, None], B + shift)
    for v in np.random.default_rng(2).normal(size=(20, 4)):
        for other in (again, moved):
            np.testing.assert_allclose(other.project(v), HERE.project(v), rtol=0, atol=1e-13)
            assert other.maximize(v) @ v == pytest.approx(HERE.maximize(v) @ v, abs=1e-13)


@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1e20, 1e300])
def test_losses_of_any_size(scale: float) -> None:
    for v in np.random.default_rng(3).normal(size=(20, 4)):
        assert HERE.maximize(scale * v) @ v == pytest.approx(HERE.maximize(v) @ v, abs=1e-13)
        far = HERE.project(scale * v)
        assert HERE.contains(far, 1e-12)
        wanted = HERE.maximize(v) if scale > 1 else HERE.project(np.zeros(4))
        assert far @ v == pytest.approx(wanted @ v, abs=1e-12)


def test_many_domains() -> None:
    rng = np.random.default_rng(4)
    p = 400
    rows, c = rng.normal(size=(10, p)), rng.dirichlet(np.ones(p))
    wide = ax.Polytope(rows, rows @ c + 0.01)
    v = rng.normal(size=p)
    for lam in (wide.maximize(v), wide.project(v / 50)):
        assert wide.contains(lam, 1e-12)
    lam = wide.project(v / 50)
    g = v / 50 - lam
    assert g @ (wide.maximize(g) - lam) <= 1e-12


def best_value(lam: Any, L: Array, penalty: Any) -> float:
    rule = [cp.sum(lam) == 1, lam >= 0, A @ lam <= B]
    program = cp.Problem(cp.Maximize(L @ lam - penalty), rule)
    program.solve(cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(program.value)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_best_responses_are_those_of_cvxpy() -> None:
    sizes, alpha = np.array([10.0, 20.0, 5.0, 15.0]), np.array([1.5, 2.0, 1.0, 3.0])
    m, chi2, prior = sizes / 50, ax.Chi2Penalty(0.3, sizes), ax.DirichletPrior(alpha)
    for L in 3 * np.random.default_rng(5).normal(size=(8, 4)):
        lam = cp.Variable(4)
        wanted = best_value(lam, L, 0.3 * cp.sum(cp.multiply(1 / m, cp.square(lam - m))))
        found = chi2.best_response(HERE, L)
        assert found @ L - chi2.value(found) == pytest.approx(wanted, abs=1e-8)
        wanted = best_value(lam, L, -(alpha - 1) @ cp.log(lam))
        found = prior.best_response(HERE, L)
        assert found @ L + xlogy(alpha - 1, found).sum() == pytest.approx(wanted, abs=1e-7)


def problem() -> tuple[Array, Any, Any]:
    rng = np.random.default_rng(6)
    k = np.repeat(range(4), [100, 60, 30, 50])
    X = rng.normal(size=(240, 3))
    return X, (X[np.arange(240), k % 3] + 0.5 * rng.normal(size=240) > 0.2 * k).astype(int), k


@pytest.mark.parametrize(
    "objective", [{}, {"mu": 0.2}, {"prior": ax.DirichletPrior([2.0, 1.0, 1.5, 3.0])}]
)
def test_solved_with_a_certificate(objective: dict[str, Any]) -> None:
    X, y, k = problem()
    found = ax.solve(ax.LinearDomains(X, y, k), HERE, gamma=0.01, tol=1e-8, **objective)
    wanted = minimax(X, y, np.eye(4)[k], HERE, gamma=0.01, **objective)
    assert found.certificate.gap <= 1e-8
    assert found.objective == pytest.approx(wanted, abs=1e-7)
    assert HERE.contains(found.mixture)


def test_players_move_in_it() -> None:
    """To the best corner, and the loss of a network moves λ by the same steps."""
    torch = pytest.importorskip("torch")
    from anymix.pytorch import AgnosticLoss

    L = np.array([1.0, 2.0, 3.0, 4.0])
    player, criterion = ax.Adversary(HERE, 0.1), AgnosticLoss(HERE, step=0.1)
    for _ in range(300):
        player.step(L)
        assert HERE.contains(player.mixture, 1e-12)
        criterion(torch.tensor(L, requires_grad=True), torch.arange(4)).backward()
        criterion.step()
        np.testing.assert_allclose(criterion.mixture, player.mixture, rtol=0, atol=1e-9)
    np.testing.assert_allclose(player.mixture, HERE.maximize(L), rtol=0, atol=1e-9)
