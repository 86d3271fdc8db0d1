"""The intervals, as audits give them."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binom, binomtest, norm, ttest_1samp, ttest_ind
from scipy.stats import t as student

import anymix as ax
from anymix.auditing import audit, betting, compare
from anymix.auditing.betting import lowest_mean
from anymix.auditing.intervals import bounded, mean
from anymix.auditing.measures import FLOOR
from anymix.auditing.scores import auc as auc_interval
from anymix.auditing.scores import calibration


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


def test_auc_is_that_of_all_pairs_with_delongs_and_newcombes_interval() -> None:
    """Newcombe's ends by trying every θ; his variance as Hanley and McNeil's, N for m and n."""
    r = rng(4)
    y, q = np.repeat([1, 0], [15, 25]), np.round(r.random(40), 1)
    q[0] = 0.55  # a fraction whatever the draws
    wins = (q[:15, None] > q[15:]) + 0.5 * (q[:15, None] == q[15:])  # (15, 25)
    auc = wins.mean()
    u, v = wins.mean(axis=1).var(ddof=1) / 15, wins.mean(axis=0).var(ddof=1) / 25
    welch = ttest_ind(wins.mean(axis=1), wins.mean(axis=0), equal_var=False)
    t = student.ppf(0.975, welch.df)
    odds = math.log(auc / (1 - auc)) + np.array([-1, 1]) * t * math.sqrt(u + v) / (auc * (1 - auc))
    theta, N = np.linspace(0, 1, 200_001), 20
    both = theta / (2 - theta) - theta**2 + 2 * theta**2 / (1 + theta) - theta**2
    V = (theta * (1 - theta) + (N - 1) * both) / (15 * 25)
    inside = theta[(auc - theta) ** 2 <= 1.959964**2 * V]
    low, high = 1 / (1 + np.exp(-odds))
    found = audit(y, q)
    assert found.metrics["auc"][0] == pytest.approx(auc)
    expected = [min(low, inside[0]), max(high, inside[-1])]
    np.testing.assert_allclose(found.metric_intervals["auc"][0], expected, atol=1e-5)


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
    """As Clopper and Pearson's, at a tail between 0.025 and its half."""
    shares = [binomtest(0, n).proportion_ci(level).high for level in (0.95, 0.975)]
    for c, least, most in ((0.1, 0.0, 36.0), (-2.0, -3.0, 5.0)):
        found = bounded(np.full(n, c), 0.95, least, most)
        assert found.value == pytest.approx(c)  # 0.1 + 0.1 + 0.1 is not 0.3
        assert shares[0] - 1e-9 <= (c - found.low) / (c - least) <= shares[1] + 1e-9
        assert shares[0] - 1e-9 <= (found.high - c) / (most - c) <= shares[1] + 1e-9
        without = mean(np.full(n, c), 0.95, least)
        assert without.low == pytest.approx(found.low)
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


# Guaranteed bounds ------------------------------------------------------------------------------


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


@pytest.mark.parametrize("n", [1, 2, 3, 10, 50])
def test_bounded_interval_of_rare_losses_covers_by_counting(n: int) -> None:
    """Losses of 0 or 1: the coverage of every share p is a sum over the n + 1 possible draws."""
    k = np.arange(n + 1)
    ends = [bounded((np.arange(n) < i).astype(float), 0.95, 0.0, 1.0)[1:] for i in k]
    low, high = np.array(ends).T
    for p in np.linspace(0.001, 0.999, 199):
        assert binom.pmf(k, n, p)[(low <= p) & (p <= high)].sum() >= 0.95


def test_bounded_interval_covers_rows_of_different_distributions() -> None:
    """Weighted, 10 strata of 5 rows with P(1) from 0 to 1."""
    p, w = np.repeat(np.linspace(0, 1, 10), 5), rng().dirichlet(np.ones(50))
    ends = [
        bounded((rng(seed).random(50) < p).astype(float), 0.95, 0.0, 1.0, w)[1:]
        for seed in range(400)
    ]
    assert covered(np.array(ends), float(w @ p)) >= 0.95


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


@pytest.mark.parametrize("n", [20, 50])
def test_agnostic_log_loss_of_a_confident_classifier_is_covered(n: int) -> None:
    """It says q = 1e-6 (1 + u), u uniform: E log(1 + u) = 2 log 2 − 1."""
    d, ends = np.repeat(np.arange(3), n), []
    truth = -0.02 * (math.log(CONFIDENT) + 2 * math.log(2) - 1) + 0.98 * 1.5 * CONFIDENT
    for seed in range(60):
        y, q = rng(seed).random(3 * n) < 0.02, CONFIDENT * (1 + rng(seed + 60).random(3 * n))
        found = audit(y, q, d, classes=[False, True])
        ends.append(found.agnostic_interval)
    assert covered(np.array(ends), truth) >= LEVEL


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


def test_agnostic_interval_of_losses_that_are_0_or_1_covers() -> None:
    """One in eight domains sees only losses of 1 (P = 0.9): that does not make 1 certain."""
    r, d = rng(10), np.repeat(np.arange(20), 20)
    ends = [
        audit(None, (r.random(400) < 0.9) + 1e-3 * r.random(400), d).agnostic_interval
        for _ in range(50)
    ]
    assert covered(np.array(ends), 0.9005) >= 0.93


# Approximate ones -------------------------------------------------------------------------------


def test_means_have_at_least_students_interval() -> None:
    for seed in range(20):
        x = rng(seed).exponential(size=15)
        students = ttest_1samp(x, 0).confidence_interval(0.95)
        low, high = audit(None, x).intervals[0]
        assert low <= students.low + 1e-12
        assert high >= students.high - 1e-12


@pytest.mark.parametrize("counts", [(10, 100), (100, 10), (3, 100), (5, 50)])
@pytest.mark.parametrize("area", [0.6, 0.8, 0.95])
def test_auc_of_few_against_many_is_covered(counts: tuple[int, int], area: float) -> None:
    m, n = counts
    shift, y = math.sqrt(2) * float(norm.ppf(area)), np.arange(m + n)
    r, ends = rng(m), []
    for _ in range(300):
        q = r.normal(size=m + n) + shift * (y < m)
        ends.append(auc_interval(q, y < m, 0.95)[1:])
    assert covered(np.array(ends), area) >= 0.93


@pytest.mark.parametrize("n", [2, 5, 20, 50])
def test_calibration_error_of_a_confident_classifier_is_covered(n: int) -> None:
    y, q = rng(n).random((400, n)) < 0.05, np.full(n, 0.001)
    ends = [calibration(q, happened, 0.95)[1:] for happened in y]
    assert covered(np.array(ends), 0.049) >= 0.93


def test_a_mixture_of_two_domains_has_welchs_interval() -> None:
    """x̄/2 + ȳ/2 is half the difference of x and −y."""
    half, other = rng().normal(size=10), rng(1).normal(size=6)
    x, y = np.concatenate([half, -half]), 3 * np.concatenate([other, -other]) + 1  # no skewness
    welch = ttest_ind(x, -y, equal_var=False).confidence_interval(0.95)
    found = audit(None, np.concatenate([x, y]), [0] * 20 + [1] * 12, mixtures=ax.Point([0.5, 0.5]))
    np.testing.assert_allclose(found.agnostic_interval, [welch.low / 2, welch.high / 2])


# Narrow sets of mixtures ------------------------------------------------------------------------

P, N = 50, 20
D = np.repeat(np.arange(P), N)
NARROW = {
    "point": ax.Point(np.full(P, 1 / P)),
    "chi2": ax.Chi2Ball(np.full(P, N), 1.01),
    "box": ax.Box(np.full(P, 0.9 / P), np.full(P, 1.1 / P)),
}


@pytest.mark.parametrize("name", NARROW)
def test_interval_of_a_narrow_set_is_nearly_that_of_its_center(name: str) -> None:
    """Not of p = 50 domains at once, which is 12 times as wide; and it covers."""
    means = np.linspace(0.5, 1.5, P)
    truth, widths, ends = float(NARROW[name].maximize(means) @ means), [], []
    for seed in range(60):
        found = audit(None, rng(seed).exponential(means[D]), D, mixtures=NARROW[name])
        ends.append(found.agnostic_interval)
        widths.append(np.ptp(found.agnostic_interval))
    ideal = 2 * 1.96 * math.sqrt(np.mean(means**2) / (P * N))
    assert np.median(widths) < {"point": 1.2}.get(name, 2.0) * ideal
    assert covered(np.array(ends), truth) >= 0.93


@pytest.mark.parametrize(("name", "times"), [("point", 2), ("chi2", 3.2)])
def test_guaranteed_interval_of_a_narrow_set(name: str, times: float) -> None:
    rates, widths, ends = np.linspace(0.05, 0.15, P), [], []
    truth = float(NARROW[name].maximize(rates) @ rates)
    for seed in range(20):
        found = audit(None, rng(seed).random(P * N) < rates[D], D, mixtures=NARROW[name])
        assert found.interval_kinds["agnostic_loss"] == "guaranteed"
        ends.append(found.agnostic_interval)
        widths.append(np.ptp(found.agnostic_interval))
    ideal = 2 * 1.96 * math.sqrt(0.1 * 0.9 / (P * N))
    assert np.median(widths) < times * ideal
    assert covered(np.array(ends), truth) >= 0.95


@pytest.mark.parametrize("mixtures", [ax.Point([0.5, 0.5]), ax.Chi2Ball([30, 30], 1.01)])
def test_domains_that_share_rows_are_not_taken_for_independent(mixtures: Any) -> None:
    """Two domains of the same rows are one domain: no more is known than of it."""
    member, x = np.ones((30, 2), dtype=bool), rng(3).exponential(size=30)
    low, high = audit(None, x, member, mixtures=mixtures).agnostic_interval
    alone = audit(None, x).intervals[0]
    assert low <= alone[0]
    assert high >= alone[1]


def test_guaranteed_ends_stay_within_the_limits_of_the_loss() -> None:
    wrong, d = np.arange(60) % 12 != 0, np.repeat(np.arange(5), 12)
    found = audit(None, wrong, d, mixtures=ax.Chi2Ball(np.full(5, 12), 1.2))
    assert 0 <= found.agnostic_interval[0] < found.agnostic_interval[1] <= 1


# Differences ------------------------------------------------------------------------------------


def test_difference_of_log_losses_of_a_confident_classifier_is_covered() -> None:
    n = 20
    y, d = rng(11).random(200 * n) < 0.02, np.repeat(np.arange(200), n)
    careful, sure = (audit(y, np.full(len(y), q), d) for q in (0.02, CONFIDENT))
    pair = compare(careful, sure)
    truth = 0.02 * math.log(0.02 / CONFIDENT) + 0.98 * math.log(0.98 / (1 - CONFIDENT))
    assert covered(pair.difference_intervals, truth) >= LEVEL
    assert pair.difference_kind == "approximate"


@pytest.mark.parametrize(("n", "least"), [(20, 0.9), (200, 0.93)])
def test_differences_of_log_losses_of_two_sure_models_are_covered_and_narrow(
    n: int, least: float
) -> None:
    """Log-odds 2 s and 2.2 s where s is true: the truth by a sum over a grid of s ~ N(0, 2²)."""
    s = 2 * rng(n).normal(size=500 * n)
    y, d = rng(n + 1).random(len(s)) < expit(s), np.repeat(np.arange(500), n)
    a, b = (audit(y, expit(slope * s), d) for slope in (2.0, 2.2))
    grid = np.linspace(-18, 18, 7201)
    w = norm.pdf(grid, scale=2) * 36 / 7200
    gain = [
        np.logaddexp(0, -sign * 2.2 * grid) - np.logaddexp(0, -2 * sign * grid) for sign in (1, -1)
    ]
    truth = float(w @ (expit(grid) * gain[0] + expit(-grid) * gain[1]))
    found = compare(a, b).difference_intervals
    assert covered(found, truth) >= least
    rows = np.concatenate(b.row_losses) - np.concatenate(a.row_losses)
    assert np.median(np.ptp(found, axis=1)) < 1.2 * 2 * 1.96 * rows.std() / math.sqrt(n)


def test_rows_without_a_spread_have_the_guaranteed_difference_of_log_losses() -> None:
    """Two models that say the same of 50 rows, or 50 rows of which all are alike."""
    y = np.zeros(50, dtype=bool)
    same, other = audit(y, rng().random(50) / 2), audit(y, np.full(50, 0.3))
    bound = -math.log(FLOOR)
    for a, b in ((same, same), (other, audit(y, np.full(50, 0.4)))):
        pair = compare(a, b)
        expected = bounded(b.row_losses[0] - a.row_losses[0], 0.95, -bound, bound)
        np.testing.assert_allclose(pair.difference_intervals[0], expected[1:])
        assert np.ptp(expected[1:]) > 4  # 36 · 4/50 up and down
    low, high = compare(audit(y[:1], [0.3]), audit(y[:1], [0.4])).difference_intervals[0]
    assert -bound <= low < high <= bound
