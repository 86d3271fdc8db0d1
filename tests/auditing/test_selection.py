"""Differences at the mixture that the same rows have found to be the worst."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

import anymix as ax
from anymix.auditing import Comparison, audit, compare
from anymix.auditing.intervals import bounded, mean, of_signs
from anymix.auditing.selection import Paired, at_worst, selected

ALPHA = 0.05


def pair_of(a: Any, b: Any, **more: Any) -> Comparison:
    """Losses of p domains, (p, n)."""
    domains = np.repeat(np.arange(len(a)), len(a[0]))
    first, second = (audit(None, np.ravel(x), domains, **more) for x in (a, b))
    return compare(first, second)


def drawn_again(pair: Comparison, a: Any, b: Any) -> Comparison:
    """The same domains with other losses; their own intervals are not asked for."""
    found = []
    for audited, x in ((pair.a, a), (pair.b, b)):
        L = x.mean(axis=1)
        λ = audited.mixtures.maximize(L)
        found.append(replace(audited, row_losses=tuple(x), domain_losses=L, worst_mixture=λ))
    return compare(found[0], found[1])


@pytest.mark.parametrize("mixtures", [None, "cvar:0.3", "chi2:1.5"])
def test_a_gain_is_seldom_sure_where_there_is_none(mixtures: Any) -> None:
    """As if λ had been chosen beforehand: 16, 37 and 31 % of the draws."""
    rng, sure, draws = np.random.default_rng(0), 0, 300
    form = pair_of(*np.ones((2, 20, 50)), mixtures=mixtures)
    for _ in range(draws):
        sure += drawn_again(form, *rng.normal(size=(2, 20, 50)) ** 2).is_sure_gain
    assert sure <= 0.025 * draws + 3 * np.sqrt(0.025 * 0.975 * draws)


def test_the_few_domains_that_can_have_been_chosen_count() -> None:
    """The worst of 1000 domains is one of ten, where b is a constant guess; elsewhere ρ = 0."""
    rng, sure, draws = np.random.default_rng(9), 0, 150
    form = pair_of(*np.ones((2, 1000, 20)))
    for _ in range(draws):
        a = rng.normal(size=(1000, 20))
        b = a + rng.normal(size=(1000, 20))
        a[:10], b[:10] = a[:10] + 3, 3
        sure += drawn_again(form, a, b).is_sure_gain
    assert sure <= 0.025 * draws + 3 * np.sqrt(0.025 * draws)


def test_a_gain_that_is_there_is_found() -> None:
    """Of two models that are much alike, a fifth of the spread of a loss."""
    rng, sure, form = np.random.default_rng(1), 0, pair_of(*np.ones((2, 10, 100)))
    for _ in range(100):
        z, own = rng.normal(size=(10, 100)), rng.normal(size=(2, 10, 100))
        a, b = ((np.sqrt(0.9) * z + np.sqrt(0.1) * x) ** 2 for x in own)
        sure += drawn_again(form, a, b - 0.2 * np.sqrt(2)).is_sure_gain
    assert sure >= 75  # 58 with Bonferroni's level


@pytest.mark.parametrize(("N", "ρ"), [(2, 0.3), (20, 0.3), (20, 0.7), (20, 0.99)])
def test_the_level_of_one_of_many(N: int, ρ: float) -> None:
    """The chosen one has the largest Z; it must not be off by more than q in 2.5 % of all draws."""
    rng = np.random.default_rng(2)
    q = -ndtri((1 - selected([ρ**2] * N, 1 - ALPHA)) / 2)
    Z, W = rng.normal(size=(200_000, N)).max(axis=1), rng.normal(size=200_000)
    missed = float(np.mean(ρ * Z + np.sqrt(1 - ρ**2) * W > q))
    assert 0.85 * ALPHA / 2 <= missed <= ALPHA / 2 + 3 * np.sqrt(0.025 / 200_000)


@pytest.mark.parametrize("ρ", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(
    "target",
    [
        ax.Box([0.0] * 10, [0.3] * 10),
        ax.Chi2Ball(np.arange(1, 11) * 5.0, 1.2),
        ax.Point([0.1] * 10),
    ],
    ids=["box", "chi2", "point"],
)
def test_the_interval_of_a_mixture_covers_however_it_was_chosen(target: Any, ρ: float) -> None:
    """Models alike: their difference is −ρ ℓ_a + √(1 − ρ²) noise."""
    rng, missed, draws, n = np.random.default_rng(3), np.zeros(2), 400, 30
    for _ in range(draws):
        own = rng.normal(size=(2, 10, n)) * np.linspace(0.5, 2, 10)[:, None]
        d = list(-ρ * own[0] + np.sqrt(1 - ρ**2) * own[1])
        λ = target.maximize(own[0].mean(axis=1))
        pairs = Paired(d, None, (-np.inf, np.inf), False, 1.0)
        _, low, high = at_worst(pairs, list(own[0]), λ, target, 1 - ALPHA, disjoint=True)
        missed += high < 0, low > 0
    assert np.all(missed <= 0.025 * draws + 3 * np.sqrt(0.025 * draws))
    if target.is_point or ρ == 0:
        assert missed.sum() >= 0.05 * draws - 3 * np.sqrt(0.05 * draws)  # and not too wide


def test_one_mixture_has_the_interval_of_a_mean() -> None:
    a, b = np.random.default_rng(4).exponential(size=(2, 1, 40))
    assert pair_of(a, b).worst_difference == pytest.approx(mean((b - a)[0], 0.95))


def test_0_1_losses_and_domains_that_share_rows_allow_for_every_domain() -> None:
    rng, each = np.random.default_rng(5), 1 - ALPHA / 4
    a, b = rng.random((2, 4, 60)) < [[[0.3]], [[0.2]]]
    pair = pair_of(a, b, loss="zero_one")
    k = int(np.argmax(a.mean(axis=1)))
    d = b.astype(float) - a
    assert pair.worst_difference == pytest.approx(of_signs(d[k], each))
    assert pair.worst_difference[1:] == pytest.approx(tuple(pair.joint_intervals[k]))
    half = pair_of(a, b, loss="zero_one", mixtures=ax.Box(np.zeros(4), np.full(4, 0.4)))
    λ = half.a.worst_mixture
    assert half.worst_difference[1:] == pytest.approx(tuple(λ @ half.joint_intervals))
    x, z = rng.exponential(size=(2, 100))
    member = np.column_stack([np.arange(100) < 60, np.arange(100) > 40])
    both = compare(audit(None, x, member), audit(None, z, member))
    k = int(np.argmax(both.a.domain_losses))
    expected = mean((z - x)[member[:, k]], 1 - ALPHA / 2)
    assert both.worst_difference == pytest.approx(expected)


def test_shares_of_wrong_labels_may_differ_by_half() -> None:
    """Even if no row of these does: the interval is that of numbers in [−1, 1]."""
    y, said = {"x": [0, 1] * 20, "y": [0, 1] * 20}, {"x": [0, 1] * 20, "y": [0, 1] * 20}
    pair = compare(audit(y, said), audit(y, {name: [1, 1] * 20 for name in said}))
    d = pair.b.row_losses[0] - pair.a.row_losses[0]
    assert set(d.tolist()) == {0, 1}
    assert pair.difference_intervals[0] == pytest.approx(bounded(d, 0.95, -1, 1)[1:])
    assert pair.worst_difference == pytest.approx(bounded(d, 0.95, -1, 1))


def test_near_one_mixture_the_differences_of_all_rows_count() -> None:
    a, b = np.random.default_rng(6).random((2, 30, 40)) < [[[0.3]], [[0.1]]]
    near = pair_of(a, b, loss="zero_one", mixtures="chi2:1.01")
    value, low, high = near.worst_difference
    assert low < value < high < 0
    assert high - low < np.ptp(near.a.worst_mixture @ near.joint_intervals) / 2


def test_a_difference_is_told_on_the_side_of_0_where_it_is() -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        y, d = rng.normal(size=300), np.repeat(np.arange(3), 100)
        said = [y + s * rng.normal(size=300) for s in (1, 0.8)]
        pair = compare(audit(y, said[0], d), audit(y, said[1], d))
        k = int(np.argmax(pair.a.domain_losses))
        roots = [np.sqrt(np.mean((z - y)[d == k] ** 2)) for z in said]
        assert pair.told_difference[0] == pytest.approx(roots[1] - roots[0])
        assert np.sign(pair.told_difference).tolist() == np.sign(pair.worst_difference).tolist()
        assert pair.is_sure_gain == (pair.told_difference[2] < 0)


def test_rows_without_a_spread_tell_nothing() -> None:
    a = np.ones((3, 10))
    assert pair_of(a, a).worst_difference == (0, -np.inf, np.inf)
    pair = pair_of(a, a, mixtures="cvar:0.5")
    assert pair.worst_difference == (0, -np.inf, np.inf)
    one = audit(None, [1.0, 2, 3, 9], ["a", "a", "a", "b"])
    assert np.isinf(compare(one, one).worst_difference[1:]).all()


def test_intervals_of_all_domains_hold_at_once() -> None:
    rng, missed, form = np.random.default_rng(8), 0, pair_of(*np.ones((2, 20, 40)))
    for _ in range(300):
        low, high = drawn_again(form, *rng.normal(size=(2, 20, 40))).joint_intervals.T
        missed += bool(np.any((low > 0) | (high < 0)))
    assert missed <= 0.05 * 300 + 3 * np.sqrt(0.05 * 300)
