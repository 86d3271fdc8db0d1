"""The guard: losses of rows held out, their standard errors, and which model they recommend."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from clark import expected_worst
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse, stats

import anymix as ax
from anymix.errors import InputError
from anymix.estimators.guarding import HeldOut
from anymix.estimators.mean_errors import mean_error
from anymix.mixtures import MixtureSet

Array = NDArray[np.float64]


def shares(members: Any) -> sparse.csc_array:
    """a_ki of memberships (p, n)."""
    table = np.asarray(members, dtype=np.float64)
    return sparse.csc_array(table / table.sum(axis=1, keepdims=True))


def held_out(
    losses: Any, domains: Any, mixtures: MixtureSet | None = None, b: Any = None
) -> HeldOut:
    """Losses (C, n) of rows in one domain each."""
    members = np.array([np.asarray(domains) == k for k in np.unique(domains)])
    p, sizes = len(members), members.sum(axis=1)
    offsets = np.zeros(p) if b is None else np.asarray(b, dtype=np.float64)
    target = ax.Simplex(p) if mixtures is None else mixtures
    return HeldOut(
        np.asarray(losses, dtype=np.float64), shares(members), target, offsets, sizes / sizes.sum()
    )


# -- values and standard errors ------------------------------------------------------------------


def test_by_hand() -> None:
    """Domain a has the rows 0, 1, 2 and b the rows 3, 4."""
    found = held_out([[1, 2, 3, 5, 7], [2, 2, 2, 4, 4]], list("aaabb"), b=[0.5, 1.0])
    assert found.domain_losses.tolist() == [[2, 6], [2, 4]]
    assert found.worst.tolist() == [[0, 1], [0, 1]]
    assert found.value.tolist() == [5, 3]
    np.testing.assert_allclose(found.pooled, [18 / 5, 14 / 5])
    assert found.error(0, np.array([1.0, 0.0])) == pytest.approx(math.sqrt(1 / 3))  # s² = 1
    assert found.error(0, np.array([0.0, 1.0])) == pytest.approx(1.0)  # s² = 2, m = 2
    half = np.array([0.5, 0.5])
    assert found.error(0, half) == pytest.approx(math.sqrt(1 / 3 + 1) / 2)
    assert found.error(1, half) == 0
    assert found.gain(1) == pytest.approx((2.0, 1.0))  # 5, 7 against 4, 4
    first = np.array([1.0, 0.0])
    assert found.gain(1, 0, first) == pytest.approx((0.0, math.sqrt(1 / 3)))  # 1, 2, 3 and 2, 2, 2
    assert found.gain(0, 1)[0] == -2.0


@given(st.integers(0, 10**6))
def test_the_error_is_the_textbooks(seed: int) -> None:
    """√(Σ_k λ_k² s_k²/m_k), s_k² the variance with m_k − 1, for rows in one domain each."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 5))
    domains = np.repeat(np.arange(p), rng.integers(2, 9, size=p))
    v = rng.normal(size=len(domains)) * 10.0 ** rng.integers(-3, 4)
    mixture = rng.dirichlet(np.ones(p)) * (rng.random(p) < 0.8)
    members = np.array([domains == k for k in range(p)])
    parts = [
        lam * v[rows].std(ddof=1) / math.sqrt(rows.sum())
        for lam, rows in zip(mixture, members, strict=True)
    ]
    assert mean_error(v, shares(members), mixture) == pytest.approx(
        math.hypot(*parts), rel=1e-9, abs=1e-12
    )


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.floats(-5, 5), st.floats(0.01, 100))
def test_a_shift_adds_nothing_and_a_unit_scales(seed: int, shift: float, unit: float) -> None:
    rng = np.random.default_rng(seed)
    members = rng.random((3, 12)) * (rng.random((3, 12)) < 0.6) + np.eye(3, 12) + np.eye(3, 12, 3)
    v, mixture = rng.normal(size=12), rng.dirichlet(np.ones(3))
    error = mean_error(v, shares(members), mixture)
    assert mean_error(shift + unit * v, shares(members), mixture) == pytest.approx(
        unit * error, rel=1e-9, abs=1e-9
    )
    assert mean_error(v, shares(7 * members), mixture) == pytest.approx(
        error
    )  # weights have no unit


def test_overlapping_rows_against_the_bootstrap() -> None:
    """Rows drawn anew, with all their memberships: the spread of the mean is the error."""
    rng = np.random.default_rng(0)
    n = 500
    members = np.array([rng.random(n) < 0.6, rng.random(n) < 0.3, np.ones(n)]) * rng.uniform(
        0.5, 2, n
    )
    v = rng.exponential(size=n) + members[0]
    mixture = np.array([0.5, 0.3, 0.2])
    count = 4000
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=count)  # (count, n), how often each row
    means = (drawn @ (members * v).T) / (drawn @ members.T)  # (count, p)
    spread = float(np.std(means @ mixture))
    error = mean_error(v, shares(members), mixture)
    assert error == pytest.approx(spread, rel=4.5 / math.sqrt(2 * count))  # its own standard error
    apart = math.hypot(
        *(
            mean_error(v, shares(members), lam * e)
            for lam, e in zip(mixture, np.eye(3), strict=True)
        )
    )
    assert apart < 0.8 * spread  # rows in several domains err together


def test_a_domain_of_one_row_has_no_error_to_speak_of() -> None:
    average = shares([[1, 0, 0], [0, 1, 1]])
    v = np.array([1.0, 2.0, 4.0])
    assert mean_error(v, average, np.array([0.0, 1.0])) == pytest.approx(1.0)
    assert mean_error(v, average, np.array([0.1, 0.9])) == math.inf
    found = held_out([[9, 1, 1], [0, 1, 1]], list("abb"))
    assert found.choose("min") == 1
    assert found.choose("guard") == 0  # 9 against 0 may be chance
    assert held_out([[9, 1, 1], [3, 1, 1]], list("abb")).choose("1se") == 0


@settings(max_examples=100)
@given(st.integers(0, 10**6))
def test_values_are_those_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domains = np.append(np.arange(3).repeat(2), rng.integers(0, 3, 14))
    losses, b = rng.exponential(size=(4, 20)), rng.normal(size=3)
    box = ax.Box([0.1, 0.2, 0.0], [0.6, 0.7, 0.5])
    found = held_out(losses, domains, box, b)
    for c in range(4):
        L = np.array([losses[c, domains == k].mean() for k in range(3)])
        corners = [
            np.array([x, y, 1 - x - y])
            for x, y in [(0.6, 0.4), (0.6, 0.2), (0.3, 0.7), (0.1, 0.7), (0.1, 0.4), (0.3, 0.2)]
        ]
        assert found.value[c] == pytest.approx(max(corner @ (L - b) for corner in corners))
        assert found.pooled[c] == pytest.approx(losses[c].mean())


# -- what is to be expected of the worst mixture -------------------------------------------------


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.floats(-100, 100))
def test_what_is_expected_of_two_domains_is_known_in_closed_form(seed: int, power: float) -> None:
    """Within 4.5 standard errors of 1000 draws, whatever the unit of the losses."""
    rng = np.random.default_rng(seed)
    domains = np.append(np.arange(2).repeat(3), rng.integers(0, 2, 30))
    losses = rng.exponential(size=(3, 36)) * 10.0**power
    found = held_out(losses, domains)
    spread = max(found.error(c, e) for c in range(3) for e in np.eye(2))
    V = expected_worst(losses, domains)
    np.testing.assert_allclose(found.expected, V, rtol=1e-12, atol=4.5 * spread / math.sqrt(1000))


@pytest.mark.parametrize("kind", ["simplex", "box", "hull", "chi2", "prior"])
def test_what_is_expected_is_the_mean_over_rows_drawn_anew(kind: str) -> None:
    """Against the bootstrap, for sets with corners and without, and with a prior."""
    rng = np.random.default_rng(1)
    sizes = np.array([150, 80, 60])
    domains = np.repeat(np.arange(3), sizes)
    losses = rng.exponential(size=(2, 290)) + np.array([[0.0], [0.1]]) * (domains == 2)
    sets: dict[str, MixtureSet] = {
        "box": ax.Box([0.1, 0.2, 0.0], [0.6, 0.7, 0.5]),
        "hull": ax.Hull([[0.8, 0.1, 0.1], [0.1, 0.2, 0.7], [0.1, 0.8, 0.1]]),
        "chi2": ax.Chi2Ball(sizes, 1.5),
    }
    found = held_out(losses, domains, sets.get(kind))
    if kind == "prior":
        found = replace(found, prior=ax.DirichletPrior([2.0, 2.0, 2.0]))
    count = 400
    drawn = [
        [losses[0, rng.choice(np.flatnonzero(domains == k), m)].mean() for k, m in enumerate(sizes)]
        for _ in range(count)
    ]
    apart = np.array(drawn) - found.domain_losses[0]  # the same for both models
    values = np.array([found._values_of(L + apart) for L in found.domain_losses])
    error = values.std(axis=1) / math.sqrt(count) + values.std(axis=1) / math.sqrt(200)
    assert np.all(np.abs(found.expected - values.mean(axis=1)) < 4.5 * error)
    assert np.all(found.expected > found.value)  # the largest of what errs is larger


def test_without_noise_what_is_expected_is_what_was_seen() -> None:
    found = held_out([[1.0] * 4 + [2.0] * 4, [1.5] * 8], np.repeat(["a", "b"], 4))
    np.testing.assert_allclose(found.expected, found.value, rtol=1e-12)


def test_the_errors_are_those_of_the_ordinary_model() -> None:
    rng = np.random.default_rng(0)
    members = (rng.random((3, 30)) < 0.6) * rng.uniform(0.5, 2, 30)
    members[2] = np.eye(30)[3]
    losses = rng.exponential(size=(3, 30))
    found = HeldOut(losses, shares(members), ax.Simplex(3), np.zeros(3), np.full(3, 1 / 3))
    errors = [found.error(0, e) for e in np.eye(3)[:2]]
    np.testing.assert_allclose(found.spread, [*errors, 0.0])  # of a single row nothing is known


def test_to_say_little_about_anybody_is_no_gain() -> None:
    """Forty domains with one law. A timid model's losses differ less, and all are larger."""
    taken = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        domains = np.repeat(np.arange(40), 25)
        ordinary = rng.exponential(0.5, size=1000)
        timid = 0.55 + 0.3 * (ordinary - 0.5)
        found = held_out([ordinary, timid], domains)
        assert found.value[1] < found.value[0]  # the largest of forty means falls all the same
        taken += found.choose()
    assert taken <= 2


@pytest.mark.parametrize(("other", "chosen"), [(0.1, 1), (0.45, 0)])
def test_to_burden_a_domain_that_is_nearly_the_worst_gains_nothing(
    other: float, chosen: int
) -> None:
    """b, 0.5, is surely lightened by 0.03 and a burdened by as much: is it b that is worst?"""
    noise = np.tile([-1.0, 1.0], 50)  # a mean has the error 0.1
    ordinary = np.concatenate([other + noise, 0.5 + noise])
    robust = ordinary + np.repeat([0.03, -0.03], 100) + 1e-3 * np.tile(noise, 2)
    found = held_out([ordinary, robust], np.repeat(["a", "b"], 100))
    gain, error = found.gain(1)
    assert gain > 10 * error
    assert found.value[0] - found.value[1] > 0.01  # on these very rows the worst loss falls
    assert found.choose() == chosen
    change, _ = found.change(1)
    assert change == pytest.approx(-0.03 if chosen else -0.0034, abs=2e-3)  # see `mean_of_larger`


# -- the choice ----------------------------------------------------------------------------------


def two_models(gain: float, spread: float) -> HeldOut:
    """100 rows of domain b: the second model gains `gain` with this spread; in a both are alike."""
    noise = np.tile([-1.0, 1.0], 50) * spread
    ordinary = np.concatenate([np.zeros(100), np.full(100, 2.0) + 3 * np.tile([-1.0, 1.0], 50)])
    robust = ordinary - np.concatenate([np.zeros(100), gain + noise])
    return held_out([ordinary, robust], np.repeat(["a", "b"], 100))


@pytest.mark.parametrize(("gain", "chosen"), [(0.099, 0), (0.102, 1), (-0.1, 0)])
def test_the_ordinary_model_is_kept_within_one_error_of_the_difference(
    gain: float, chosen: int
) -> None:
    """The differences have the spread 1: their mean has the error 0.1005 (√(100/99)/10)."""
    found = two_models(gain, spread=1.0)
    assert found.choose("min") == int(gain > 0)
    assert found.choose("guard") == chosen
    assert found.choose() == chosen
    assert found.choose("1se") == 0  # the error of the loss itself is 0.3


def test_it_is_the_difference_that_counts_not_each_loss() -> None:
    """Losses of spread 3 with a steady gain of 0.05: no doubt about the gain."""
    found = two_models(0.05, spread=0.001)
    assert found.choose("guard") == 1
    assert found.error(0, found.worst[0]) > 0.29


def test_of_models_as_good_as_the_best_the_one_of_least_pooled_loss() -> None:
    noise = np.tile([-1.0, 1.0], 50)
    gains = (0.0, 1.0, 0.75, 0.5, 0.76)
    costs = (0.0, 0.9, 0.8, 0.1, 0.7)  # on domain a, which is not the worst
    losses = [
        np.concatenate([np.full(100, cost), 3.0 - gain + noise * (1 - gain)])
        for gain, cost in zip(gains, costs, strict=True)
    ]
    found = held_out(losses, np.repeat(["a", "b"], 100))
    assert found.choose("min") == 1
    errors = [found.error(c, found.worst[c], 1) for c in range(5)]
    assert [gain + error >= 1.0 for gain, error in zip(gains, errors, strict=True)] == [
        False,
        True,
        False,
        False,
        False,
    ]
    assert found.choose("guard") == 1
    noisier = [
        loss + 5 * c * np.concatenate([np.zeros(100), noise]) for c, loss in enumerate(losses)
    ]
    found = held_out([losses[0], losses[1], *noisier[2:]], np.repeat(["a", "b"], 100))
    assert found.choose("guard") == 3  # of 1, 2, 3 and 4, which no one can tell apart any more


def test_the_last_fifth_of_a_gain_is_left_where_it_costs_the_others() -> None:
    """Every difference is sure; the models that keep 0.9 and 0.82 of the gain are cheaper."""
    noise = np.tile([-1e-3, 1e-3], 50)
    gains, costs = (0.0, 1.0, 0.9, 0.82, 0.78), (0.0, 0.9, 0.5, 0.4, 0.1)
    losses = [
        np.concatenate([np.full(100, cost), 3.0 - gain + noise * (1 - gain)])
        for gain, cost in zip(gains, costs, strict=True)
    ]
    found = held_out(losses, np.repeat(["a", "b"], 100))
    assert (found.choose("min"), found.choose("guard")) == (1, 3)
    assert found.choose("guard") != 4  # cheaper still, but more than a fifth is lost


def test_a_gain_of_less_than_a_hundredth_is_none() -> None:
    for gain, chosen in ((0.009, 0), (0.012, 1)):
        losses = [np.full(200, 1.0), np.full(200, 1.0 - gain)]
        assert held_out(losses, np.repeat(["a", "b"], 100)).choose("guard") == chosen


@pytest.mark.parametrize(("rows", "chosen"), [(1, 0), (2, 0), (60, 1)])
def test_what_a_few_rows_say_is_not_sure(rows: int, chosen: int) -> None:
    """The gain of the worst domain is the same, and more than an error, but of few rows or many."""
    gain, noise = np.zeros(100), np.tile([-0.01, 0.01], 50)
    gain[:rows] = 30 / rows
    ordinary = np.concatenate([np.full(100, 0.1), 2.0 + noise])
    robust = np.concatenate([np.full(100, 0.1), 2.0 - gain])
    found = held_out([ordinary, robust], np.repeat(["a", "b"], 100))
    gained, error = found.gain(1)
    assert gained > error
    assert found.choose() == chosen


def test_a_model_for_which_nobody_pays() -> None:
    """The large domain gains, surely; the small, worst one is left alone, or burdened."""
    noise, domains = np.tile([-1.0, 1.0], 200), np.repeat(["large", "small"], [400, 100])

    def losses(gain: float, burden: float, spread: float = 1e-3) -> Array:
        large, small = 1.0 - gain + (0.1 + spread) * noise, 2.0 + burden + 0.1 * noise[:100]
        return np.concatenate([large, small])

    others = [(0.02, 0.0), (0.04, 0.01), (0.03, 0.0), (0.05, 0.0, 3.0), (0.004, 0.0)]
    found = held_out([losses(0, 0, 0), *(losses(*other) for other in others)], domains)
    assert found.choose() == 0
    assert found.free_of_charge(range(1, 6)) == 3
    assert found.free_of_charge([1, 2]) == 1
    for place in (2, 4, 5):  # the worst one pays; not sure; too little
        assert found.free_of_charge([place]) == 0
    assert found.free_of_charge([]) == 0


def test_a_domain_that_is_not_the_worst_may_not_pay_either() -> None:
    noise, domains = np.tile([-0.1, 0.1], 250), np.repeat(["a", "b", "c"], [400, 50, 50])
    ordinary, other = (np.repeat(L, [400, 50, 50]) + noise for L in ([1, 1, 3], [0.8, 1.9, 3]))
    found = held_out([ordinary, other + 1e-3 * noise], domains)
    assert found.pooled[1] < 0.95 * found.pooled[0]
    assert found.free_of_charge([1]) == 0


def test_one_standard_error_rule() -> None:
    """The best model's own error is the limit; the ordinary model first, then the pooled loss."""
    noise = np.tile([-1.0, 1.0], 50)

    def chosen(spread: float) -> int:
        worst, pooled = (0.6, 0.52, 0.53, 0.5), (0.0, 0.2, 0.1, 0.4)
        losses = [
            np.concatenate([np.full(100, a), b + spread * noise])
            for a, b in zip(pooled, worst, strict=True)
        ]
        return held_out(losses, np.repeat(["a", "b"], 100)).choose("1se")

    assert chosen(1.0) == 0  # 0.1 more
    assert chosen(0.4) == 2
    assert chosen(0.25) == 1
    assert chosen(0.1) == 3


@settings(max_examples=100)
@given(st.integers(0, 10**6))
def test_the_choice_is_that_of_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domains = np.append(np.arange(2).repeat(10), rng.integers(0, 2, 20))
    common = rng.exponential(size=40)
    losses = common + rng.normal(size=(5, 1)) * 0.2 + rng.normal(size=(5, 40)) * 0.3
    found = held_out(losses, domains)
    by_domain = np.array([[row[domains == k].mean() for k in range(2)] for row in losses])
    V = expected_worst(losses, domains)
    np.testing.assert_allclose(found.expected, V, atol=0.02)
    V = found.expected  # a mean of draws, so the limits below would not be the same to the digit
    best = int(np.argmin(V))
    assert found.choose("min") == best
    good, near = [], []
    for c in range(5):
        rows = domains == int(np.argmax(by_domain[c]))
        difference = losses[c, rows] - losses[best, rows]
        error = difference.std(ddof=1) / math.sqrt(rows.sum())
        apart = difference - difference.mean()
        if c != best:  # few large differences tell as much as ν equal ones
            nu = np.sum(apart**2) ** 2 / np.sum(apart**4)
            error *= stats.t(nu - 1).ppf(stats.norm.cdf(1))
        small = 0.01 * abs(by_domain[0].max())
        good.append(V[c] - V[best] <= max(error, 0.2 * (V[0] - V[best]), small))
        of_best = losses[best, domains == int(np.argmax(by_domain[best]))]
        near.append(V[c] <= V[best] + of_best.std(ddof=1) / math.sqrt(len(of_best)))
    for rule, fine in (("guard", good), ("1se", near)):
        pooled = [loss.mean() if ok else math.inf for loss, ok in zip(losses, fine, strict=True)]
        assert found.choose(rule) == (0 if fine[0] else int(np.argmin(pooled)))


def test_a_rule_nobody_knows() -> None:
    with pytest.raises(InputError, match="rule is 'best'; give 'guard', 'min' or '1se'"):
        two_models(1.0, 1.0).choose("best")


def test_some_of_the_rows_are_judged_as_if_there_were_no_others() -> None:
    rng = np.random.default_rng(0)
    losses, domain = rng.random((3, 60)), np.arange(60) % 3
    some = rng.random(60) < 0.5

    found = held_out(losses, domain).only(some)
    expected = held_out(losses[:, some], domain[some])
    np.testing.assert_allclose(found.domain_losses, expected.domain_losses)
    assert found.error(1, found.worst[1], 0) == pytest.approx(expected.error(1, found.worst[1], 0))
