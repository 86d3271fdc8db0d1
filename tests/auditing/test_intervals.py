"""The intervals, as audits give them."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, ttest_1samp

import anymix as ax
from anymix.auditing.audits import audit
from anymix.auditing.intervals import mean


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
    assert covered(found.intervals, 1 / 2) == pytest.approx(LEVEL, abs=0.02)
    assert covered(found.metric_intervals["auc"], 5 / 6) == pytest.approx(LEVEL, abs=0.02)
    assert LEVEL - 0.02 <= covered(found.metric_intervals["accuracy"], 3 / 4) <= LEVEL + 0.035
    assert covered(found.metric_intervals["calibration_error"], 0) >= LEVEL - 0.02


@pytest.mark.parametrize("n", [30, 200])
def test_interval_of_a_large_calibration_error_covers(n: int) -> None:
    """The model says q/2 where q happens: the error is E q/2 = ¼, the same sign in every bin."""
    r = rng(n)
    q = r.random(DRAWS * n)
    found = audit(r.random(DRAWS * n) < q, q / 2, draws(n))
    assert covered(found.metric_intervals["calibration_error"], 1 / 4) >= LEVEL - 0.02
    narrow = found.metric_intervals["calibration_error"][:, 1] - found.metrics["calibration_error"]
    assert narrow.max() < 4 / math.sqrt(n)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("n", [30, 200])
def test_intervals_of_errors_cover(n: int, confidence: float) -> None:
    error = rng(n).normal(size=DRAWS * n)
    found = audit(np.full(DRAWS * n, 0.5), 0.5 + error, draws(n), confidence=confidence)
    assert covered(found.intervals, 1 / 2) == pytest.approx(confidence, abs=0.02)
    assert covered(found.metric_intervals["rmse"], 1) == pytest.approx(confidence, abs=0.02)
    mae = covered(found.metric_intervals["mae"], math.sqrt(2 / math.pi))
    assert mae == pytest.approx(confidence, abs=0.02)


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


def test_interval_of_the_agnostic_loss_covers_at_least() -> None:
    r, means, d = rng(8), np.array([1.0, 0.95, 0.9, 0.2]), np.repeat(np.arange(4), 40)
    box = ax.Box([0.0] * 4, [0.6] * 4)
    truth, ends = 0.6 * 1.0 + 0.4 * 0.95, []
    for _ in range(DRAWS):
        ends.append(audit(None, r.exponential(means[d]), d, mixtures=box).agnostic_interval)
    assert covered(np.array(ends), truth) >= LEVEL - 0.01


def test_interval_of_the_agnostic_loss_allows_for_the_choice_among_many_domains() -> None:
    """Twenty domains alike: the largest of their lower ends is too high unless all are lowered."""
    r, d = rng(9), np.repeat(np.arange(20), 40)
    ends = [audit(None, r.exponential(size=len(d)), d).agnostic_interval for _ in range(200)]
    assert covered(np.array(ends), 1.0) >= 0.9


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


def test_delong_variance_by_all_pairs() -> None:
    r = rng(4)
    y, q = np.repeat([1, 0], [15, 25]), np.round(r.random(40), 1)
    q[0] = 0.55  # a fraction whatever the draws
    wins = (q[:15, None] > q[15:]) + 0.5 * (q[:15, None] == q[15:])  # (15, 25)
    auc = wins.mean()
    s = math.sqrt(wins.mean(axis=1).var(ddof=1) / 15 + wins.mean(axis=0).var(ddof=1) / 25)
    odds = math.log(auc / (1 - auc)) + np.array([-1, 1]) * 1.959964 * s / (auc * (1 - auc))
    found = audit(y, q).metric_intervals["auc"][0]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-odds)), rtol=1e-6)


def test_perfect_auc_is_not_certain() -> None:
    """7 pairs in order by chance: 0.025 = AUC⁷."""
    found = audit([1] * 7 + [0] * 20, [0.9] * 7 + [0.1] * 20)
    np.testing.assert_allclose(found.metric_intervals["auc"], [[0.025 ** (1 / 7), 1]])
    found = audit([0] * 7 + [1] * 20, [0.9] * 7 + [0.1] * 20)
    np.testing.assert_allclose(found.metric_intervals["auc"], [[0, 1 - 0.025 ** (1 / 7)]])


def test_auc_of_one_positive_is_unknown_and_of_none_undefined() -> None:
    q = [0.2, 0.4, 0.6, 0.3]
    found = audit([0, 1, 0, 0], q)
    assert found.metrics["auc"][0] == pytest.approx(2 / 3)
    assert found.metric_intervals["auc"].tolist() == [[0, 1]]
    assert np.isnan(audit([0, 0, 0, 0], q).metrics["auc"]).all()


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
    others = binomtest(0, n).proportion_ci(0.95).high
    for c, least, most in ((0.1, 0.0, 36.0), (0.1, 0.0, math.inf), (-2.0, -math.inf, 5.0)):
        found = mean(np.full(n, c), 0.95, least, most)  # 0.1 + 0.1 + 0.1 is not 0.3
        assert found.value == c
        assert found.low == pytest.approx(c - others * (c - least))
        assert found.high == pytest.approx(c + others * (most - c))


@pytest.mark.parametrize("n", [1, 2, 5, 50])
def test_equal_numbers_cover_where_it_is_hardest(n: int) -> None:
    """All mass is at 0 or 1: with a share of P(1) = μ, a draw sees 1 only in μⁿ of all cases."""
    low = mean(np.ones(n), 0.95, least=0.0).low
    missed = [mu**n for mu in np.linspace(0, 1, 1001) if mu < low]
    assert 0.02 < max(missed) <= 0.025


@pytest.mark.parametrize("n", [5, 20])
def test_a_rare_error_is_allowed_for_where_none_was_seen(n: int) -> None:
    """y happens with q = 0.02, as said: most draws see equal losses, well below the mean H(q)."""
    y = rng(n).random(DRAWS * n) < 0.02
    assert np.mean(~y.reshape(DRAWS, n).any(axis=1)) > 0.6
    found = audit(y, np.full(DRAWS * n, 0.02), draws(n))
    entropy = -0.02 * math.log(0.02) - 0.98 * math.log(0.98)
    assert covered(found.intervals, entropy) >= LEVEL
