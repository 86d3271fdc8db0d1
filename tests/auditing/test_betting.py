"""The lower bound by betting: the rule written out, fair games, and how often it fails."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anymix.auditing import betting
from anymix.auditing.betting import lowest_mean, lowest_of_mixture


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def wealth(y: Any, nu: float, goal: float, top: float) -> float:
    """W of one order of rows, the formula written out."""
    w, n = 1.0, len(y)
    for t in range(n):
        if w < math.exp(-20):
            return 0.0
        missing = math.log(goal / w)
        h = math.sqrt(missing) if missing >= 0.5 else math.exp(missing - 0.5) / math.sqrt(2)
        past = np.array(y[:t])
        limit = min(top, 4 * past.max()) if t and past.max() > 0 else top
        squares = float(np.sum((past - past.mean()) ** 2)) if t else 0.0
        variance = (limit**2 + squares) / (t + 4)
        bold = math.expm1(missing / (n - t)) / (top - nu) if top > nu else math.inf  # n < 64
        bet = max(math.sqrt(2 / ((n - t) * max(variance, 1e-99))) * h, bold)
        w *= 1 + min(bet, 0.95 / nu) * (y[t] - nu)
        if w >= goal:
            return goal
    return w


@pytest.mark.parametrize(("n", "tail"), [(1, 0.025), (2, 0.1), (7, 0.025), (60, 1e-6)])
def test_the_bound_is_the_least_mean_that_is_not_refuted(n: int, tail: float) -> None:
    goal = 4 / (3 * tail)
    for seed in range(3):
        y = rng(seed).beta(9, 1, n)
        found = lowest_mean(y, tail, 1.0)
        shuffled = y[np.random.default_rng(n).permutation(n)]
        orders = [np.roll(shuffled, -(i * n // 16)) for i in range(16)]

        def refuted(nu: float, orders: Any = orders) -> bool:
            mean = sum(wealth(o, nu, goal, 1.0) for o in orders) / 16
            return mean >= (1 - 1e-9) / tail

        assert 0 < found < y.mean()
        assert refuted(found * (1 - 1e-7))
        assert not refuted(found + 1.1e-3 * (y.mean() - found))


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("n", [1, 3, 8])
def test_the_games_are_fair(n: int, nu: float) -> None:
    """E W over all outcomes of n coins of mean ν is 1, or less where poor gamblers give up."""
    expected = sum(
        math.prod(nu if x else 1 - nu for x in y) * wealth(y, nu, 40.0, 1.0)
        for y in product((0.0, 1.0), repeat=n)
    )
    assert expected <= 1 + 1e-9
    if nu > 0.1:  # no row makes more than the goal at once
        assert expected > 0.5


@given(
    st.lists(st.integers(0, 100).map(lambda i: i / 100), min_size=1, max_size=40),
    st.floats(0.001, 1),
    st.floats(0.001, 1),
    st.sampled_from([2.0, 20.0, 1e6]),
    st.sampled_from([1.0, 36.0]),
)
@settings(max_examples=500, deadline=None)
def test_less_is_won_against_a_larger_mean(
    y: list[float], a: float, b: float, goal: float, top: float
) -> None:
    """So halving finds the bound, and no mean below it is left unrefuted."""
    low, high = sorted((a, b))
    assert wealth(y, low, goal, top) >= wealth(y, high, goal, top) * (1 - 1e-9)


@pytest.mark.parametrize("p", [0.02, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 3, 10])
def test_it_fails_no_more_often_than_it_may_by_counting(n: int, p: float) -> None:
    missed = sum(
        math.prod(p if x else 1 - p for x in y)
        for y in product((0.0, 1.0), repeat=n)
        if lowest_mean(np.array(y), 0.1, 1.0) > p
    )
    assert missed <= 0.1


def test_zeros_units_and_single_rows() -> None:
    assert lowest_mean(np.zeros(5), 0.025, 1.0) == 0
    found = lowest_mean(np.array([1.0]), 0.025, 1.0)  # W = 0.05 + 0.95/ν = 1/tail
    assert found == pytest.approx(0.95 / (40 - 0.05), rel=0.02)
    y = rng().exponential(size=50)
    found = lowest_mean(y, 0.025)
    for unit in (1e-250, 1e250):
        assert lowest_mean(unit * y, 0.025) == pytest.approx(unit * found)


def test_the_order_of_the_rows_hardly_matters() -> None:
    y = 1 - rng(1).random(200)
    found = np.array([y.mean() - lowest_mean(rng(s).permutation(y), 0.05, 1.0) for s in range(40)])
    assert found.std() < 0.06 * found.mean()
    assert y.mean() - lowest_mean(np.sort(y), 0.05, 1.0) < 1.25 * found.mean()


def test_it_is_narrow_where_rows_are_many() -> None:
    """Against the normal deviation that no valid bound can beat by much."""
    for n, slack in ((200, 1.35), (1000, 1.3), (20_000, 1.3)):
        y = 1 - rng(n).random(n)
        assert y.mean() - lowest_mean(y, 0.05, 1.0) < slack * 1.645 / math.sqrt(12 * n)


def test_means_of_several_rows_say_nearly_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    y = rng(2).beta(9, 1, 30_000)
    each = lowest_mean(y, 0.05, 1.0)
    monkeypatch.setattr(betting, "MOST", 8_000)
    together = lowest_mean(y, 0.05, 1.0)
    assert each - together < 0.2 * (y.mean() - each)


def test_a_sample_from_a_mixture_has_its_shares_and_no_row_twice() -> None:
    first, λ = np.array([0, 30, 31, 400]), np.array([0.3, 0.0, 0.7])
    domains = np.repeat([0, 1, 2], np.diff(first))
    lengths, shares = [], []
    for seed in range(400):
        rows = betting._drawn(first, λ, rng(seed))
        assert len(set(rows.tolist())) == len(rows)
        lengths.append(len(rows))
        shares.append(np.bincount(domains[rows[:20]], minlength=3) / 20)  # never exhausted there
    assert np.mean(shares, axis=0) == pytest.approx(λ, abs=0.02)
    assert 75 < np.mean(lengths) < 110  # 30 rows of a domain that has a share of 0.3


def test_bounds_of_a_mixture_cover() -> None:
    λ, means, sizes = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.5, 0.9]), (60, 30, 40)
    missed = 0
    for seed in range(400):
        parts = [(rng(1000 * seed + k).random(n) < means[k]) * 1.0 for k, n in enumerate(sizes)]
        missed += lowest_of_mixture(parts, λ, 0.1, 1.0) > λ @ means
    assert missed / 400 <= 0.1 + 2.5 * math.sqrt(0.09 / 400)
    alone = lowest_of_mixture(parts, np.array([0.0, 1.0, 0.0]), 0.1, 1.0)
    assert alone == pytest.approx(lowest_mean(parts[1], 0.1, 1.0), rel=0.2)


def test_weights_that_go_with_the_rows_cover_too() -> None:
    """Half of the rows count four times as much and are three times as large."""
    missed, found = 0, []
    for seed in range(400):
        r = rng(seed)
        heavy = r.random(80) < 0.5
        y = r.random(80) * np.where(heavy, 1.0, 1 / 3)
        found.append(lowest_mean(y, 0.1, 1.0, np.where(heavy, 4.0, 1.0)))
    truth = (4 * 0.5 + 1 / 6) / 5
    missed = sum(bound > truth for bound in found)
    assert missed / 400 <= 0.1 + 2.5 * math.sqrt(0.09 / 400)
    assert np.mean(found) > 0.25  # the mean without weights
    y = rng(5).random(40)
    assert lowest_mean(y, 0.1, 1.0, np.full(40, 3.0)) == lowest_mean(y, 0.1, 1.0)
