"""The worst mixture, and the interval of its loss."""

import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.stats import ttest_ind

import anymix as ax
from anymix.auditing import Audit, audit
from anymix.auditing.agnostic import worst_case


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


p = 5


SIZES = np.array([10.0, 20.0, 30.0, 25.0, 15.0])


REFERENCE = SIZES / SIZES.sum()


POINTS = np.random.default_rng(5).dirichlet(np.ones(p), 4)


LOWER, UPPER = np.full(p, 0.05), np.array([0.1, 0.5, 0.4, 0.3, 0.9])


def linear_program(losses: Any, constraints: Any) -> float:
    mixture = cp.Variable(p)
    simplex = [mixture >= 0, cp.sum(mixture) == 1]
    program = cp.Problem(cp.Maximize(losses @ mixture), simplex + constraints(mixture))
    return float(program.solve(solver=cp.CLARABEL))


def hull(mixture: Any) -> list[Any]:
    theta = cp.Variable(len(POINTS))
    return [theta >= 0, cp.sum(theta) == 1, mixture == POINTS.T @ theta]


SETS: dict[str, tuple[Any, Any]] = {
    "none": (None, lambda m: []),
    "simplex": (ax.Simplex(p), lambda m: []),
    "vertices": (ax.Vertices(p), lambda m: []),
    "point": (ax.Point(POINTS[0]), lambda m: [m == POINTS[0]]),
    "hull": (ax.Hull(POINTS), hull),
    "box": (ax.Box(LOWER, UPPER), lambda m: [m >= LOWER, m <= UPPER]),
    "cvar": (lambda sizes: ax.cvar(sizes / sizes.sum(), 0.4), lambda m: [m <= REFERENCE / 0.4]),
    "tv": (ax.TVBall(REFERENCE, 0.2), lambda m: [cp.norm1(m - REFERENCE) / 2 <= 0.2]),
    "chi2": (
        lambda sizes: ax.Chi2Ball(sizes, 1.5),
        lambda m: [cp.sum_squares(cp.multiply(m, REFERENCE**-0.5)) <= 1.5],
    ),
    "chi2 of a box": (
        ax.Chi2Ball(SIZES, 1.3, base=ax.Box(LOWER, UPPER)),
        lambda m: [
            m >= LOWER,
            m <= UPPER,
            cp.sum_squares(cp.multiply(m, REFERENCE**-0.5)) <= 1.3,
        ],
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_agnostic_loss_is_that_of_a_linear_program(name: str) -> None:
    mixtures, constraints = SETS[name]
    d = np.repeat(np.arange(p), SIZES.astype(int))
    for seed in range(5):
        losses = rng(seed).exponential(size=len(d)) * (1 + d)[::-1]
        found = audit(None, losses, d, mixtures=mixtures)
        means = np.array([losses[d == k].mean() for k in range(p)])
        np.testing.assert_allclose(found.domain_losses, means)
        assert found.agnostic_loss == pytest.approx(linear_program(means, constraints), rel=1e-6)
        assert found.mixtures.contains(found.worst_mixture)
        assert found.pooled_loss == pytest.approx(REFERENCE @ means)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", SETS)
def test_ends_without_limit_count_only_where_a_mixture_has_the_domain(name: str, seed: int) -> None:
    """Nothing is known of two domains; the reference is a program without them."""
    mixtures, constraints = SETS[name]
    alone = rng(seed).permutation(p)[:2]
    target = mixtures(SIZES) if callable(mixtures) else mixtures or ax.Simplex(p)
    ends = 3 * rng(seed).normal(size=p)
    ends[alone] = 0.0
    # -inf of cvxpy: no mixture of the set does without the two
    expected = linear_program(ends, lambda m: [*constraints(m), m[alone] == 0])
    ends[alone] = -math.inf
    assert worst_case(target, ends) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert worst_case(target, -np.where(np.isinf(ends), ends, 0)) == math.inf  # all sets have one


def test_one_row_makes_the_agnostic_interval_infinite() -> None:
    losses, d = np.append(rng().exponential(size=50), 7.0), ["a"] * 50 + ["b"]
    low, high = audit(None, losses, d).agnostic_interval
    assert 0 < low < 1
    assert high == math.inf


def test_a_domain_that_no_mixture_has_does_not_count() -> None:
    losses = np.append(rng().exponential(size=50) + 5, 0.1)
    d = ["a"] * 50 + ["b"]
    alone = audit(None, losses[:50]).intervals[0]
    found = audit(None, losses, d, mixtures=ax.Point([1, 0]))
    np.testing.assert_allclose(found.agnostic_interval, alone)
    found = audit(None, losses, d, mixtures=ax.Point([0.9, 0.1]))
    assert found.agnostic_interval == (-math.inf, math.inf)


@pytest.fixture
def found() -> Audit:
    y, d = [1, 0, 1, 1, 0, 1], ["<b>north</b>", "[red]south", "[red]south"] * 2
    return audit(y, [0.9, 0.4, 0.4, 0.6, 0.7, 0.8], d)


DRAWS = 1000


LEVEL = 0.95


def covered(ends: Any, truth: float) -> float:
    return float(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])))


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


CONFIDENT = 1e-6  # says so where it happens to 2 % of the rows


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


def test_agnostic_interval_of_losses_that_are_0_or_1_covers() -> None:
    """One in eight domains sees only losses of 1 (P = 0.9): that does not make 1 certain."""
    r, d = rng(10), np.repeat(np.arange(20), 20)
    ends = [
        audit(None, (r.random(400) < 0.9) + 1e-3 * r.random(400), d).agnostic_interval
        for _ in range(50)
    ]
    assert covered(np.array(ends), 0.9005) >= 0.93


def test_a_mixture_of_two_domains_has_welchs_interval() -> None:
    """x̄/2 + ȳ/2 is half the difference of x and −y."""
    half, other = rng().normal(size=10), rng(1).normal(size=6)
    x, y = np.concatenate([half, -half]), 3 * np.concatenate([other, -other]) + 1  # no skewness
    welch = ttest_ind(x, -y, equal_var=False).confidence_interval(0.95)
    found = audit(None, np.concatenate([x, y]), [0] * 20 + [1] * 12, mixtures=ax.Point([0.5, 0.5]))
    np.testing.assert_allclose(found.agnostic_interval, [welch.low / 2, welch.high / 2])


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
