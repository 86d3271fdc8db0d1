"""The intervals of shares and means, as audits give them."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, binomtest, multinomial, ttest_1samp

from anymix.auditing import audit
from anymix.auditing.intervals import bounded, mean, of_signs
from anymix.auditing.measures import FLOOR


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


DRAWS = 1000


LEVEL = 0.95


def covered(ends: Any, truth: float) -> float:
    return float(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])))


def draws(n: int) -> Any:
    """1000 samples of n rows, each of them a domain."""
    return np.repeat(np.arange(DRAWS), n)


@pytest.mark.parametrize("n", [30, 200])
def test_intervals_of_probabilities_cover(n: int) -> None:
    """q uniform and y ~ q: E log loss = ½, AUC = ∫∫ 2a · 2(1 − b) 1{a > b} = 5/6, E hits = ¾."""
    r = rng(n)
    q = r.random(DRAWS * n)
    y = r.random(DRAWS * n) < q
    found = audit(y, q, draws(n))
    assert covered(found.intervals, 1 / 2) >= LEVEL
    assert LEVEL - 0.02 <= covered(found.metric_intervals["auc"], 5 / 6) <= LEVEL + 0.035
    assert LEVEL - 0.02 <= covered(found.metric_intervals["accuracy"], 3 / 4) <= LEVEL + 0.035
    assert covered(found.metric_intervals["calibration_error"], 0) >= LEVEL - 0.02


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("n", [30, 200])
def test_intervals_of_errors_cover(n: int, confidence: float) -> None:
    error = rng(n).normal(size=DRAWS * n)
    found = audit(np.full(DRAWS * n, 0.5), 0.5 + error, draws(n), confidence=confidence)
    for ends, truth in (
        (found.intervals, 1 / 2),
        (found.metric_intervals["rmse"], 1),
        (found.metric_intervals["mae"], math.sqrt(2 / math.pi)),
    ):
        assert confidence - 0.02 <= covered(ends, truth) <= confidence + 0.03


@pytest.mark.parametrize("n", [30, 200])
def test_intervals_of_skewed_losses_cover_and_are_not_students(n: int) -> None:
    losses = rng(n).exponential(size=DRAWS * n)
    found = audit(None, losses, draws(n))
    assert covered(found.intervals, 1) == pytest.approx(LEVEL, abs=0.02)
    above = np.mean(found.intervals[:, 0] > 1) - np.mean(found.intervals[:, 1] < 1)
    assert (
        abs(above) < 0.02
    )  # misses on both sides alike; Student's t misses below 4 times as often


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5])
@pytest.mark.parametrize("n", [12, 200])
def test_exact_interval_of_a_share_covers_at_least(n: int, share: float) -> None:
    wrong = rng(n).random(DRAWS * n) < share
    found = audit(None, wrong, draws(n))
    assert covered(found.intervals, share) >= LEVEL - 0.02


def test_without_skewness_the_interval_is_students() -> None:
    x = np.concatenate([rng().normal(size=20), -rng().normal(size=20)])
    students = ttest_1samp(x, 0).confidence_interval(0.9)
    students_ends = np.array([students.low, students.high], dtype=np.float64)
    np.testing.assert_allclose(audit(None, x, confidence=0.9).intervals[0], students_ends)


def test_intervals_do_not_depend_on_the_unit_of_a_loss() -> None:
    x = rng().exponential(size=50)
    ends, scaled = audit(None, x).intervals, audit(None, 1e6 * x + 3).intervals
    np.testing.assert_allclose(1e6 * ends + 3, scaled)
    for unit in (1e-250, 1e250):  # their squares are 0 and infinite
        np.testing.assert_allclose(audit(None, unit * x).intervals / unit, ends)


@pytest.mark.parametrize(("wrong", "n"), [(0, 1), (1, 1), (0, 40), (7, 40), (40, 40)])
def test_a_share_has_the_interval_of_clopper_and_pearson(wrong: int, n: int) -> None:
    found = audit([1] * n, [0] * wrong + [1] * (n - wrong))
    exact = binomtest(wrong, n).proportion_ci(0.95)
    np.testing.assert_allclose(found.intervals[0], exact, atol=1e-12)
    np.testing.assert_allclose(
        found.metric_intervals["accuracy"][0], [1 - exact[1], 1 - exact[0]], atol=1e-12
    )
    given = audit(None, [1.0] * wrong + [0.0] * (n - wrong), loss="zero_one")
    np.testing.assert_allclose(given.intervals[0], exact, atol=1e-12)


def test_one_row_has_the_widest_interval() -> None:
    found = audit([1.5, 1, 0], [0.5, 0.9, 0.2], ["a", "b", "b"], loss="absolute")
    np.testing.assert_allclose(found.intervals[0], [0.025, math.inf])  # P(X ≥ 40 E X) ≤ 1/40
    assert found.agnostic_interval[1] == math.inf
    assert audit(None, [3.0], ["a"]).intervals.tolist() == [[-math.inf, math.inf]]


def test_a_perfect_regression_is_no_share() -> None:
    y, d = np.arange(40) * 1000.5, np.repeat(["a", "b"], 20)
    found = audit(y, y, d)
    for ends in (found.intervals, *found.metric_intervals.values()):
        assert ends.tolist() == [[0, math.inf]] * 2
    off_by_one = audit(y, y + (np.arange(40) % 2), d, loss="absolute")  # errors of 0 and 1
    students = ttest_1samp(np.arange(20) % 2, 0).confidence_interval(0.95)
    students_ends = np.array([students.low, students.high], dtype=np.float64)
    np.testing.assert_allclose(off_by_one.intervals[0], students_ends)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 100])
def test_equal_numbers_bound_the_share_of_others(n: int) -> None:
    """As Clopper and Pearson's, at a tail between 0.025 and its half."""
    shares = [binomtest(0, n).proportion_ci(level).high for level in (0.95, 0.9755)]
    for c, least, most in ((0.1, 0.0, 36.0), (-2.0, -3.0, 5.0)):
        found = bounded(np.full(n, c), 0.95, least, most)
        assert found.value == pytest.approx(c)  # 0.1 + 0.1 + 0.1 is not 0.3
        assert shares[0] - 1e-9 <= (found.high - c) / (most - c) <= shares[1] + 1e-9
        without = mean(np.full(n, c), 0.95, least)
        assert (c - without.low) / (c - least) == pytest.approx(shares[0])
        assert least <= found.low <= without.low
        assert without.high == math.inf
    assert mean(np.full(n, 0.1), 0.95)[1:] == (-math.inf, math.inf)


@pytest.mark.parametrize("n", [1, 2, 5, 50])
def test_equal_numbers_cover_where_it_is_hardest(n: int) -> None:
    """All mass is at 0 or 1: with a share of P(1) = μ, a draw sees 1 only in μⁿ of all cases."""
    low = mean(np.ones(n), 0.95, least=0.0).low
    missed = [mu**n for mu in np.linspace(0, 1, 1001) if mu < low]
    assert 0.012 < max(missed) <= 0.025


@pytest.mark.parametrize("n", [5, 20])
def test_a_rare_error_is_allowed_for_where_none_was_seen(n: int) -> None:
    """y happens with q = 0.02, as said: most draws see equal losses, well below the mean H(q)."""
    y = rng(n).random(DRAWS * n) < 0.02
    assert np.mean(~y.reshape(DRAWS, n).any(axis=1)) > 0.6
    found = audit(y, np.full(DRAWS * n, 0.02), draws(n))
    entropy = -0.02 * math.log(0.02) - 0.98 * math.log(0.98)
    assert covered(found.intervals, entropy) >= LEVEL


@pytest.mark.parametrize("n", [1, 2, 3, 10, 50])
def test_bounded_interval_of_rare_losses_covers_by_counting(n: int) -> None:
    """Losses of 0 or 1: the coverage of every share p is a sum over the n + 1 possible draws."""
    k = np.arange(n + 1)
    ends = [bounded((np.arange(n) < i).astype(float), 0.95, 0.0, 1.0)[1:] for i in k]
    low, high = np.array(ends).T
    for p in np.linspace(0.001, 0.999, 199):
        assert binom.pmf(k, n, p)[(low <= p) & (p <= high)].sum() >= 0.95


def test_bounded_interval_is_not_much_wider_than_students() -> None:
    x = rng().beta(2, 2, 500)
    width = 2 * 1.965 * x.std(ddof=1) / math.sqrt(500)
    found = bounded(x, 0.95, 0.0, 1.0)
    assert found.high - found.low < 1.8 * width


CONFIDENT = 1e-6  # says so where it happens to 2 % of the rows


@pytest.mark.parametrize("n", [10, 20, 50])
def test_log_loss_of_a_confident_classifier_is_covered(n: int) -> None:
    y, q = rng(n).random(200 * n) < 0.02, np.full(200 * n, CONFIDENT)
    truth = -0.02 * math.log(CONFIDENT) - 0.98 * math.log1p(-CONFIDENT)
    found = audit(y, q, np.repeat(np.arange(200), n))
    assert covered(found.intervals, truth) >= LEVEL
    assert found.interval_kinds["loss"] == "guaranteed"
    assert found.intervals.max() <= -math.log(FLOOR)


def test_equal_losses_and_nearly_equal_ones_have_the_same_interval() -> None:
    y, jitter = np.zeros(50, dtype=bool), 1e-9 * rng().random(50)
    alike, nearly = audit(y, np.full(50, 0.3)), audit(y, 0.3 + jitter)
    np.testing.assert_allclose(alike.intervals, nearly.intervals, rtol=1e-6)
    assert np.ptp(alike.intervals) > 1
    for x in (0.3, 1e5):  # without a bound there is nothing to say
        for losses in (np.full(50, x), x * (1 + jitter)):
            assert audit(None, losses).intervals.tolist() == [[-math.inf, math.inf]]
    d = np.repeat(["a", "b"], 25)
    for noise in (0 * jitter, jitter):
        off = np.where(d == "a", noise, rng(1).random(50))
        found = audit(np.full(50, 0.5), 0.5 + off, d, loss="absolute")
        np.testing.assert_allclose(found.intervals[0], [0, math.inf], atol=1e-8)
        assert found.intervals[1, 1] < 1


def test_means_have_at_least_students_interval() -> None:
    for seed in range(20):
        x = rng(seed).exponential(size=15)
        students = ttest_1samp(x, 0).confidence_interval(0.95)
        low, high = audit(None, x).intervals[0]
        assert low <= students.low + 1e-12
        assert high >= students.high - 1e-12


@pytest.mark.parametrize("n", [6, 25])
def test_intervals_of_signs_cover_whatever_the_shares(n: int) -> None:
    """By the probability of every sample: each end misses in at most 2.5 %."""
    counts = [(i, j) for i in range(n + 1) for j in range(n + 1 - i)]
    signs = [np.repeat([1.0, -1.0, 0.0], [i, j, n - i - j]) for i, j in counts]
    ends = np.array([of_signs(x, LEVEL)[1:] for x in signs])
    assert np.all((ends[:, 0] < ends[:, 1]) & (np.abs(ends) <= 1).all(axis=1))
    for up, down in ((0.3, 0.3), (0.5, 0.1), (0.02, 0.02), (0.0, 0.2), (0.9, 0.05), (0.6, 0.4)):
        chances = [
            multinomial.pmf([i, j, n - i - j], n, [up, down, 1 - up - down]) for i, j in counts
        ]
        for missed in (ends[:, 0] > up - down, ends[:, 1] < up - down):
            assert np.array(chances)[missed].sum() <= 0.025
