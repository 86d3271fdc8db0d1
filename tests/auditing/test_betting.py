"""The lower bound by betting."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anymix.auditing import betting
from anymix.auditing.betting import lowest_mean, lowest_means
from anymix.auditing.intervals import bounded, bounded_each


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def wealth(y: Any, nu: float) -> Fraction:
    """W(ν) in exact rationals, the sums of the docstring written out."""
    n = len(y)
    rest = [
        Fraction(min(1.0, 0.5**j * math.sqrt(n))) for j in range(1, math.ceil(math.log2(n)) + 1)
    ]
    weights = [Fraction(1, 2), *(w / sum(rest) / 2 for w in rest)] if n > 1 else [Fraction(1)]
    shares = [Fraction(v) / Fraction(nu) for v in y]
    games = [
        math.prod(1 + Fraction(1, 2**j) * (s - 1) for s in shares) for j in range(len(weights))
    ]
    return sum((w * game for w, game in zip(weights, games, strict=True)), Fraction(0))


@pytest.mark.parametrize("n", [1, 2, 3, 10, 60])
@pytest.mark.parametrize("tail", [0.025, 1e-6])
def test_lowest_mean_is_where_the_wealth_is_one_over_the_tail(n: int, tail: float) -> None:
    for seed in range(3):
        y = rng(seed).exponential(size=n) + 0.001
        found = lowest_mean(y, tail)
        assert float(wealth(y, found) * Fraction(tail)) == pytest.approx(1, rel=1e-8)
        assert found < y.mean()


def test_lowest_mean_of_zeros_and_others() -> None:
    assert lowest_mean(np.zeros(5), 0.025) == 0
    rare = np.zeros(10_000)
    rare[7] = 3.0
    found = lowest_mean(rare, 0.025)
    assert 0 < found < 3e-4 * 0.025  # one row alone tells as much as Markov's inequality
    for unit in (1e-250, 1e250):
        assert lowest_mean(unit * rare, 0.025) == pytest.approx(unit * found)


@given(
    st.lists(st.floats(0, 10), min_size=1, max_size=30),
    st.integers(0, 29),
    st.floats(0.01, 5),
    st.randoms(),
)
@settings(max_examples=300, deadline=None)
def test_lowest_mean_rises_with_every_row_and_knows_no_order(
    y: list[float], i: int, more: float, random: Any
) -> None:
    found = lowest_mean(np.array(y), 0.025)
    assert 0 <= found <= np.mean(y)
    shuffled = random.sample(y, len(y))
    assert lowest_mean(np.array(shuffled), 0.025) == pytest.approx(found, rel=1e-8, abs=1e-300)
    y[i % len(y)] += more
    assert lowest_mean(np.array(y), 0.025) >= found * (1 - 1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_many_rows_in_bins_give_hardly_less_and_never_more(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = 36 * rng(seed).beta(0.1, 5, 20_000)
    for y in (x, 36 - x):
        in_bins = lowest_mean(y, 0.025)
        monkeypatch.setattr(betting, "BINS", len(y))
        exact = lowest_mean(y, 0.025)
        monkeypatch.undo()
        assert in_bins <= exact * (1 + 1e-9)
        assert exact - in_bins <= 0.01 * (y.mean() - exact)


@pytest.mark.parametrize("n", [1, 2, 10, 60])
@pytest.mark.parametrize("tail", [0.025, 1e-6])
def test_lowest_means_are_where_the_wealth_is_one_over_the_tail(n: int, tail: float) -> None:
    y = rng().exponential(size=(4, n)) ** 3 * np.array([[1.0], [1e-200], [1e200], [0.0]])
    found = lowest_means(y, tail)
    assert found[3] == 0
    for row, bound in zip(y[:3], found, strict=False):
        assert float(wealth(row, bound) * Fraction(tail)) == pytest.approx(1, rel=1e-8)


def test_many_at_once_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = [rng(k).random(n) ** 9 for k, n in enumerate([1, 2, 2, 3, 7, 7, 7, 7, 40, 3000])]
    parts = [*draws, np.zeros(5), np.ones(5), np.arange(7) / 6, np.repeat([0.0, 1.0], [6, 1])]
    one_by_one = [bounded(x, 0.95, 0.0, 1.0) for x in parts]
    for at_once in (betting.AT_ONCE, 10):
        monkeypatch.setattr(betting, "AT_ONCE", at_once)
        found = np.array(bounded_each(parts, 0.95, 0.0, 1.0))
        assert found == pytest.approx(np.array(one_by_one), rel=1e-11, abs=1e-15)
