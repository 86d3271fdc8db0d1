"""The game between a few models and a set of mixtures, against other ways to solve it."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

import anymix as ax
from anymix.errors import InputError
from anymix.estimators.held_out_game import game_value

Array = NDArray[np.float64]

tables = st.tuples(st.integers(1, 6), st.integers(2, 5), st.integers(0, 10**6)).map(
    lambda c: np.random.default_rng(c[2]).normal(size=c[:2]).round(2)
)


def value_by_the_mixtures(L: Array, lower: Array, upper: Array) -> float:
    """max_{λ,v} v with v ≤ Σ_k λ_k L_ck for every c: the other side's linear program."""
    C, p = L.shape
    found: Any = linprog(
        np.append(np.zeros(p), -1.0),
        A_ub=np.hstack([-L, np.ones((C, 1))]),
        b_ub=np.zeros(C),
        A_eq=np.append(np.ones(p), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[*zip(lower, upper, strict=True), (None, None)],
    )
    return float(-found.fun)


@settings(max_examples=40)
@given(tables)
def test_the_value_is_that_of_the_linear_program_over_mixtures(L: Array) -> None:
    p = L.shape[1]
    reference = np.arange(1.0, p + 1) / np.arange(1.0, p + 1).sum()
    box = ax.cvar(reference, 0.6)
    for target, bounds in (
        (ax.Simplex(p), (np.zeros(p), np.ones(p))),
        (box, box.box_bounds),
        (ax.Simplex(p).shrunk(0.5, reference), (0.5 * reference, 0.5 * reference + 0.5)),
    ):
        game = game_value(L, target)
        assert game.upper == pytest.approx(value_by_the_mixtures(L, *bounds), abs=1e-7)
        assert -1e-9 <= game.upper - game.lower <= 1e-6
        assert target.contains(game.mixture, tol=1e-8)
        assert game.weights.min() >= 0
        assert game.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1e200])
def test_the_unit_of_the_losses_does_not_matter(unit: float) -> None:
    L = np.array([[1.0, 3.0], [4.0, 2.0]])
    game = game_value(unit * L, ax.Simplex(2))
    assert game.upper == pytest.approx(2.5 * unit, rel=1e-6)
    assert game.lower == pytest.approx(2.5 * unit, rel=1e-6)
    np.testing.assert_allclose(game.mixture, [0.25, 0.75], atol=1e-6)


@settings(max_examples=20)
@given(tables)
def test_both_values_are_what_the_strategies_reach_in_a_round_set(L: Array) -> None:
    ball = ax.Chi2Ball(np.arange(1.0, L.shape[1] + 1), 1.5)
    game = game_value(L, ball)
    mean = game.weights @ L
    assert game.upper == pytest.approx(ball.maximize(mean) @ mean, abs=1e-12)
    assert game.lower == pytest.approx((L @ game.mixture).min(), abs=1e-12)
    assert ball.contains(game.mixture, tol=1e-8)
    assert -1e-9 <= game.upper - game.lower <= 1e-6


def test_the_mixture_is_the_best_of_a_fine_grid() -> None:
    L = np.array([[0.2, 0.9, 0.5], [0.7, 0.3, 0.6], [0.6, 0.6, 0.35], [0.9, 0.1, 0.9]])
    grid = [(a, b, 60 - a - b) for a, b in product(range(61), repeat=2) if a + b <= 60]
    worst: Any = (np.array(grid) / 60 @ L.T).min(axis=1)
    game = game_value(L, ax.Simplex(3))
    assert worst.max() <= game.lower + 1e-9
    assert game.lower - worst.max() < 0.01  # the grid's spacing times the spread of the losses
    assert np.abs(np.array(grid[int(worst.argmax())]) / 60 - game.mixture).max() < 0.05


def test_one_model_and_one_mixture() -> None:
    L = [[1.0, 3.0]]
    assert game_value(L, ax.Simplex(2)).lower == pytest.approx(3.0)
    assert game_value(L, ax.Point([0.5, 0.5])).upper == pytest.approx(2.0)


@pytest.mark.parametrize("losses", [[1.0, 2.0], [[1.0]], [[1.0, np.nan]]])
def test_a_table_that_does_not_fit_is_refused(losses: Any) -> None:
    with pytest.raises(InputError, match=r"finite numbers.*row of 2"):
        game_value(losses, ax.Simplex(2))
