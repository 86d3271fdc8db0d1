"""The one rule that chooses a model, against its definition and on tables with nothing to gain."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from held_out_losses import held_out, shares
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import anymix as ax
from anymix.errors import InputError
from anymix.selection.held_out import HeldOut
from anymix.selection.rule import admissible, check_price, choose, simplest

Array = NDArray[np.float64]

PRICES = (0.0, 0.02, 0.05, 0.3, math.inf)


def by_definition(
    losses: Array,
    a: Array,
    price: float,
    constant: Array | None,
    corners: Array,
    squared: bool,
    fold: NDArray[Any] | None,
) -> int:
    """The place of the model that the rule takes: one line after the other.

    `a` are the shares (p, n), `corners` the corners of Λ; no folds are one.
    """
    m = np.array([np.count_nonzero(row) for row in a]) / np.count_nonzero(a)
    D = np.array([[sum(a[k] * row) for k in range(len(a))] for row in losses])

    def error(v: Array, lam: Array) -> float:
        e = [lam[k] * a[k] * (v - a[k] @ v) / math.sqrt(1 - a[k] @ a[k]) for k in range(len(a))]
        return math.sqrt(sum(np.sum(e, axis=0) ** 2))

    s = [error(losses[0], e) for e in np.eye(len(a))]
    half = np.random.default_rng(0).standard_normal((500, len(a)))
    xi = [*half, *-half]
    V = [np.mean([max(corners @ (row + s * x)) for x in xi]) for row in D]
    root = np.sqrt if squared else np.asarray
    best = 0
    for c in range(1, len(losses)):
        worse = constant is not None and any((D[c] > constant) & (D[0] <= constant))
        if root(m @ D[c]) <= (1 + price) * root(m @ D[0]) and not worse and V[c] < V[best]:
            best = c
    gain, pi = 0.0, np.zeros(len(a))
    for f in [None] if fold is None else np.unique(fold).tolist():
        here = np.ones(a.shape[1], dtype=bool) if f is None else fold == f
        rest = here if f is None else ~here
        means = np.array([row[rest] @ losses[0][rest] / row[rest].sum() for row in a])
        pi_f = np.mean([corners[np.argmax(corners @ (means + s * x))] for x in xi], axis=0)
        gain += sum(pi_f[k] * (a[k] * here) @ (losses[0] - losses[best]) for k in range(len(a)))
        pi += pi_f * a[:, here].sum(axis=1)
    return best if gain > 1.645 * error(losses[0] - losses[best], pi) else 0


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from(PRICES),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_the_choice_is_that_of_its_definition(
    seed: int, price: float, squared: bool, boxed: bool, guessed: bool, folded: bool
) -> None:
    rng = np.random.default_rng(seed)
    p = 2 if boxed else int(rng.integers(2, 4))
    domains = np.append(np.arange(p).repeat(6), rng.integers(0, p, 20))
    effect = rng.normal(size=(4, p)) * [[0.0], [0.3], [0.5], [0.8]]
    common = rng.exponential(size=len(domains))
    noise = 0.2 * rng.normal(size=(4, len(domains)))
    losses = np.maximum(common + effect[:, domains] + noise, 0.0)
    corners = np.array([[0.8, 0.2], [0.3, 0.7]]) if boxed else np.eye(p)
    target = ax.Box([0.3, 0.2], [0.8, 0.7]) if boxed else ax.Simplex(p)
    constant = rng.uniform(0.8, 1.5, size=p) if guessed else None
    fold = np.arange(len(domains)) % 3 if folded else None
    found = held_out(losses, domains, target, constant=constant, squared=squared, fold=fold)
    a = found.average.toarray()
    expected = by_definition(losses, a, price, constant, corners, squared, fold)
    assert choose(found, price) == expected


def two_models(gain: float, spread: float = 0.0, cost: float = 0.0, **options: Any) -> HeldOut:
    """100 rows of domain b gain so much with this spread; those of a pay the cost. A_r is 1."""
    noise = np.tile([-1.0, 1.0], 50)
    a, b = np.full(100, 0.5), np.full(100, 1.5)
    robust = np.concatenate([a + cost, b - gain - spread * noise])
    return held_out([np.concatenate([a, b]), robust], np.repeat(["a", "b"], 100), **options)


@pytest.mark.parametrize(("gain", "chosen"), [(0.164, 0), (0.167, 1), (-0.1, 0)])
def test_a_gain_must_be_sure(gain: float, chosen: int) -> None:
    """Differences of spread 1 have a mean of error 1/√99 = 0.1005; 1.645 of them are 0.1653."""
    assert choose(two_models(gain, spread=1.0)) == chosen


def test_it_is_the_difference_that_must_be_sure_not_the_loss() -> None:
    noise = 3 * np.tile([-1.0, 1.0], 100)
    found = held_out([2 + noise, 1.95 + noise], np.repeat(["a", "b"], 100))
    assert found.spread.min() > 0.29
    assert choose(found) == 1


@pytest.mark.parametrize(("price", "chosen"), [(0.0, 0), (0.049, 0), (0.051, 1), (math.inf, 1)])
def test_others_pay_no_more_than_the_price(price: float, chosen: int) -> None:
    """b gains 0.2 and a pays 0.3: the mean loss of all rows rises from 1 to 1.05."""
    assert choose(two_models(0.2, cost=0.3), price) == chosen


@pytest.mark.parametrize(("price", "chosen"), [(0.024, 0), (0.026, 1)])
def test_of_squared_errors_it_is_the_root_that_pays(price: float, chosen: int) -> None:
    """√1.05 = 1.0247."""
    assert choose(two_models(0.2, cost=0.3, squared=True), price) == chosen


def test_a_free_gain_is_taken_at_price_zero() -> None:
    assert choose(two_models(0.2), 0.0) == 1
    assert choose(two_models(0.2, cost=0.19), 0.0) == 1  # b gains more than a pays
    assert choose(two_models(0.2, cost=0.21), 0.0) == 0


def test_negative_losses_have_a_price_too() -> None:
    """Of a loss of −1 on average, 5 % are 0.05."""
    found = two_models(0.2, cost=0.3)
    shifted = held_out(found.losses - 2, np.repeat(["a", "b"], 100))
    assert (choose(shifted, 0.049), choose(shifted, 0.051)) == (0, 1)


def test_nobody_is_made_worse_off_than_with_a_constant_guess() -> None:
    """a loses 0.5 → 0.8; a constant guess has 0.7 there, and is better than both models in b."""
    assert choose(two_models(0.2, cost=0.3, constant=np.array([0.7, 0.1])), math.inf) == 0
    assert choose(two_models(0.2, cost=0.3, constant=np.array([0.9, 0.1])), math.inf) == 1
    # where the reference is worse than the guess as well, nothing is refused
    assert choose(two_models(0.2, cost=0.3, constant=np.array([0.4, 0.1])), math.inf) == 1


def test_the_reference_is_always_admissible() -> None:
    found = two_models(-1.0, cost=1.0, constant=np.zeros(2))
    assert admissible(found, 0.0).tolist() == [True, False]
    assert choose(held_out(found.losses[:1], np.repeat(["a", "b"], 100))) == 0


def test_the_prior_says_which_mixtures_are_likely() -> None:
    """b, the worst domain, is all but excluded: what it gains is not worth what a pays."""
    found = two_models(0.2, cost=0.15)
    assert choose(found, math.inf) == 1
    prior = ax.DirichletPrior([100.0, 1.0])
    domains = np.repeat(["a", "b"], 100)
    assert choose(held_out(found.losses, domains, prior=prior), math.inf) == 0


def test_domains_of_one_row_decide_nothing_alone() -> None:
    rng = np.random.default_rng(0)
    ordinary = np.append(rng.exponential(size=99), 4.0)
    robust = ordinary - np.append(np.zeros(99), 1.0)
    assert choose(held_out([ordinary, robust], np.repeat(["a", "b"], [99, 1]))) in (0, 1)
    members = np.repeat([[1.0, 0.0], [0.0, 1.0]], [99, 1], axis=0).T
    found = HeldOut(
        np.array([ordinary, robust]), shares(members), ax.Simplex(2), np.zeros(2), np.full(2, 0.5)
    )
    error = found.error(1, np.array([0.0, 1.0]), 0)
    assert error == pytest.approx((ordinary - robust).std(ddof=1))  # one row among all


def test_the_simplest_model_that_is_as_good_as_the_best() -> None:
    """Means of spread 1 in two domains of 50 rows have an error of 1/√98 = 0.101."""
    noise, domains = np.tile([-1.0, 1.0], 50), np.repeat(["a", "b"], 50)
    flat = 0 * noise
    assert simplest(held_out([1.2 + noise, 1.05 + flat, 1.09 + noise, 1 + flat], domains)) == 2
    assert simplest(held_out([1.2 + noise, 1 + flat], domains)) == 1
    assert simplest(held_out([1.05 + noise, 1 + flat], domains)) == 0


@pytest.mark.parametrize("price", [-0.01, math.nan, -math.inf, "5 %", None, True])
def test_a_price_that_is_none_is_refused(price: Any) -> None:
    with pytest.raises(InputError) as caught:
        check_price(price)
    assert caught.value.argument == "price"


def test_prices() -> None:
    assert [check_price(price) for price in (0, 0.05, np.float64(2), math.inf)] == [
        0,
        0.05,
        2,
        math.inf,
    ]


# -- nothing to gain -----------------------------------------------------------------------------


@pytest.mark.parametrize("domains", [2, 4])
def test_a_timid_model_gains_nothing(domains: int) -> None:
    """One law. A timid model's losses differ less, so the largest of many means falls."""
    taken = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        ordinary = rng.exponential(0.5, size=1000)
        timid = 0.52 + 0.3 * (ordinary - 0.5)
        found = held_out([ordinary, timid], np.arange(1000) % domains)
        taken += choose(found)
    assert taken <= 1


def test_luck_among_many_models_is_no_gain() -> None:
    """One law, six models that differ by chance: each mean on all rows costs a little."""
    kept = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        domains = rng.integers(0, 8, size=600)
        ordinary = rng.exponential(size=600)
        shared, own = rng.normal(size=(2, 5, 600))  # robust models of one frontier are alike
        steps = np.linspace(0.1, 0.5, 5)[:, None]
        others = ordinary + steps * (0.9 * shared[:1] + 0.3 * own) + 0.02 * steps
        kept += choose(held_out([ordinary, *others], domains)) == 0
    assert kept >= 190
