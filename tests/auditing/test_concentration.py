"""Bounds on one mean: by hand, by counting all outcomes, and against a grid."""

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from anymix.auditing.betting import lowest_mean
from anymix.auditing.concentration import (
    BET,
    betting,
    betting_each,
    binomial_share,
    clopper_pearson,
    hoeffding,
    least_share,
    upper,
)
from anymix.errors import InputError


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("n", "k"), [(1, 0), (3, 3), (20, 0), (20, 7), (300, 150)])
def test_clopper_pearson_is_that_of_scipy(n: int, k: int) -> None:
    x = np.where(np.arange(n) < k, 2.0, 0.0)
    ours = clopper_pearson(x, 0.05, 2.0)
    exact = binomtest(k, n).proportion_ci(0.9, "exact").high  # 0.05 on each side
    assert ours == pytest.approx(2 * exact, abs=1e-9)


def brute_tail(t: float, n: int, p: float) -> float:
    """min_a E(B − a)₊/(t − a) on a fine grid of real a, by sums over all outcomes."""
    k = np.arange(n + 1)
    weight = binom.pmf(k, n, p)
    a = np.append(np.linspace(-1, t - 1e-6, 4000), np.arange(math.ceil(t)))[:, None]
    return float(np.min(np.maximum(k - a, 0) @ weight / (t - a[:, 0])))


@pytest.mark.parametrize(("t", "n"), [(3.0, 3), (2.4, 5), (7.9, 12), (0.3, 4), (25.5, 40)])
@pytest.mark.parametrize("tail", [0.2, 0.03, 1e-4])
def test_least_share_against_a_grid(t: float, n: int, tail: float) -> None:
    p = float(least_share(t, n, tail))
    assert brute_tail(t, n, p) == pytest.approx(tail, rel=1e-3)
    assert brute_tail(t, n, min(p * 1.02, 1.0)) > tail


def test_least_share_covers_all_binomials() -> None:
    """The sums of n shares with the largest tails are binomial; count all their outcomes."""
    for n in (1, 2, 5, 20):
        k = np.arange(n + 1.0)
        low = least_share(k, n, 0.1)
        for p in np.linspace(0.01, 0.99, 99):
            assert binom.pmf(k, n, p)[low > p].sum() <= 0.1


@pytest.mark.parametrize("tail", [0.2, 0.1, 0.05, 0.02, 0.005, 1e-5])
def test_betting_is_never_wider_than_hoeffding_with_an_even_share(tail: float) -> None:
    """Also with 0.6 of a tail ≤ 0.02, which is what each of many domains keeps at least."""
    kept = 0.6 if tail <= 0.02 else 1.0
    for n in (1, 2, 3, 5, 20, 100, 1000):
        for share in np.linspace(0, 1, 21):
            t = np.minimum(share * n + np.array([0.0, 0.4]), n)
            theirs = np.maximum(t / n - np.sqrt(math.log(1 / tail) / (2 * n)), 0)
            for part in (kept * (1 - BET), binomial_share(tail)):
                assert np.all(least_share(t, n, part * tail) >= theirs - 1e-12)


def grid_bound(y: np.ndarray, tail: float) -> float:
    """The ν where the wealth is 1/tail, by narrowing a grid; the formula written out anew."""
    n = len(y)
    shares = [0.5**j for j in range(1 + math.ceil(math.log2(n)))]
    weights = [min(1.0, b * math.sqrt(n)) for b in shares]
    weights[0] = sum(weights[1:])
    low, high = 1e-9, float(y.mean())
    while high - low > 1e-9:
        grid = np.linspace(low, high, 11)
        rich = [
            max(
                math.log(w) + float(np.sum(np.log(np.maximum(1 - b + b * y / v, 1e-300))))
                for b, w in zip(shares, weights, strict=True)
            )
            > 600
            or sum(w * np.prod(1 - b + b * y / v) for b, w in zip(shares, weights, strict=True))
            >= sum(weights) / tail
            for v in grid
        ]
        last = max(i for i, yes in enumerate(rich) if yes)
        low, high = grid[last], grid[min(last + 1, 10)]
    return float(low)


@pytest.mark.parametrize("n", [5, 30, 200])
def test_bets_agree_with_a_grid(n: int) -> None:
    for seed in range(3):
        y = rng(seed).beta(2, 1, n)
        for tail in (0.1, 0.01):
            assert lowest_mean(y, tail) == pytest.approx(grid_bound(y, tail), abs=1e-6)


def test_betting_each_is_betting_of_each() -> None:
    x = rng(1).beta(0.5, 3, (7, 40))
    parts, tails = [*x, x[0, :11], np.zeros(5), np.ones(3), x.ravel()], np.linspace(0.01, 0.1, 11)
    one_by_one = [betting(row, tail, 1.0) for row, tail in zip(parts, tails, strict=True)]
    np.testing.assert_allclose(betting_each(parts, tails, 1.0), one_by_one, rtol=1e-9)


@pytest.mark.parametrize("method", ["betting", "bernstein", "hoeffding"])
@pytest.mark.parametrize("n", [2, 10, 60])
def test_every_method_covers_errors_by_counting(method: str, n: int) -> None:
    k = np.arange(n + 1)
    high = np.array([upper((np.arange(n) < i).astype(float), 0.1, 1.0, method) for i in k])
    for p in np.linspace(0.005, 0.995, 100):
        assert binom.pmf(k, n, p)[high < p].sum() <= 0.1


def test_weights_that_are_alike_change_nothing_and_others_cover() -> None:
    x = rng(2).beta(1, 4, 50)
    assert upper(x, 0.05, 1.0, weights=np.full(50, 0.02)) == upper(x, 0.05, 1.0)
    w = np.where(np.arange(60) < 20, 3.0, 1.0)
    w /= w.sum()
    means = np.where(np.arange(60) < 20, 0.3, 0.05)
    draws = rng(3).random((400, 60)) < means
    for method in ("betting", "hoeffding"):
        high = [upper(row.astype(float), 0.1, 1.0, method, w) for row in draws]
        assert np.mean(np.array(high) < w @ means) <= 0.1 + 2 * math.sqrt(0.09 / 400)
        assert np.mean(high) < 0.45
    with pytest.raises(InputError, match="method is 'bernstein', which is for rows"):
        upper(x, 0.05, 1.0, "bernstein", np.arange(1.0, 51) / 1275)


def test_bounds_stay_between_the_mean_and_the_largest_loss() -> None:
    for method in ("betting", "bernstein", "hoeffding"):
        for x in (np.ones(3), np.zeros(3), np.array([0.2]), rng().random(40)):
            assert x.mean() <= upper(x, 0.01, 1.0, method) <= 1
    assert hoeffding(np.zeros(2), 1e-9, 1.0) == 1


def test_clopper_pearson_refuses_what_is_neither_0_nor_1() -> None:
    with pytest.raises(InputError, match=r"losses has the loss 0\.5, which is neither 0 nor 1"):
        clopper_pearson(np.array([0.0, 0.5]), 0.05)
