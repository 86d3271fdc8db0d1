"""The choice among what one fit offers: every step against its definition in slow loops."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from out_of_fold_rows import drawn, with_experts

import anymix as ax
from anymix.selection.held_out import HeldOut, chances
from anymix.selection.one_fit import (
    DIAL,
    Decision,
    OutOfFold,
    adapting_pays,
    cross_fitted,
    decide,
    name_of,
)
from anymix.selection.rule import choose

Array = NDArray[np.float64]

some_rows = st.builds(
    drawn,
    st.integers(0, 10**6),
    p=st.integers(2, 4),
    families=st.integers(1, 2),
    squared=st.booleans(),
    weighted=st.booleans(),
)


def loss(data: OutOfFold, value: float, i: int) -> float:
    if data.y is None:
        return -math.log(min(max(value, 1e-6), 1.0))
    return float((value - data.y[i]) ** 2)


def means(data: OutOfFold, values: Any) -> tuple[Array, float]:
    """D and A of predictions, row by row."""
    total, weight = np.zeros(len(data.expert)), np.zeros(len(data.expert))
    for i, value in enumerate(values):
        total[data.k[i]] += data.weight[i] * loss(data, value, i)
        weight[data.k[i]] += data.weight[i]
    return total / weight, float(total.sum() / weight.sum())


def mixed(data: OutOfFold, w: float, lam: Array) -> Array:
    """f_λ(x_i) = Σ_k (λ_k/m̄_k) Q(k|x_i) h_k(x_i) / Σ_k (λ_k/m̄_k) Q(k|x_i), term by term.

    Domains that share an expert have one h, and their part of its Q.
    """
    found = []
    for i in range(len(data.k)):
        above = below = 0.0
        for k, e in enumerate(data.expert):
            together = data.shares[data.expert == e].sum()
            q = data.Q[i, e] * data.shares[k] / together
            h = data.experts[0, i, e]
            if len(data.experts) == 2:
                h = (1 - w) * h + w * data.experts[1, i, e]
            above += lam[k] / data.shares[k] * q * h
            below += lam[k] / data.shares[k] * q
        found.append(above / below)
    return np.array(found)


# -- the steps -----------------------------------------------------------------------------------


@settings(max_examples=25)
@given(some_rows)
def test_the_blend_has_the_best_weight(data: OutOfFold) -> None:
    decision = decide(data, ax.Simplex(len(data.expert)), 0.05)
    if len(data.families) == 1:
        assert (decision.w, decision.w_domain) == (0, 0)
        return
    i = np.arange(len(data.k))
    own = data.experts[:, i, data.k]
    for w, (first, second) in ((decision.w, data.plain), (decision.w_domain, own)):
        grid = [
            np.average(data.losses((1 - v) * first + v * second), weights=data.weight)
            for v in np.linspace(0, 1, 201)
        ]
        here = np.average(data.losses((1 - w) * first + w * second), weights=data.weight)
        assert here <= min(grid) + 1e-5 * (1 + abs(min(grid)))


def test_a_family_that_brings_nothing_has_no_weight() -> None:
    data = drawn(0)
    assert data.y is not None
    sure = replace(data, plain=np.array([data.y, data.y + 1]))
    assert decide(sure, ax.Simplex(3), 0.05).w == 0
    assert decide(replace(sure, plain=sure.plain[::-1]), ax.Simplex(3), 0.05).w == 1


@settings(max_examples=25)
@given(some_rows)
def test_the_reference_is_the_simplest_within_one_error(data: OutOfFold) -> None:
    decision = decide(data, ax.Simplex(len(data.expert)), 0.05)
    candidates = dict(zip(data.families, data.plain, strict=True))
    if len(data.families) == 2:
        candidates["blend"] = (1 - decision.w) * data.plain[0] + decision.w * data.plain[1]
    A = {name: means(data, values)[1] for name, values in candidates.items()}
    best = min(A, key=A.__getitem__)
    share = np.bincount(data.k, data.weight)[data.k]
    for name, values in candidates.items():
        apart = data.losses(values) - data.losses(candidates[best])
        D = np.array([np.average(apart[data.k == k], weights=data.weight[data.k == k])
                      for k in range(len(data.expert))])  # fmt: skip
        error = 0.0
        for k in range(len(data.expert)):
            a = (data.weight / share)[data.k == k]
            m = np.bincount(data.k, data.weight)[k] / data.weight.sum()
            error += m**2 * np.sum(a**2 * (apart[data.k == k] - D[k]) ** 2) / (1 - a @ a)
        if A[name] - A[best] <= math.sqrt(error) or name == best:
            assert decision.reference == name
            break


@pytest.mark.parametrize("target", ["simplex", "box", "cvar", "hull", "point"])
@pytest.mark.parametrize("seed", range(3))
def test_pi_is_that_of_its_definition(target: str, seed: int) -> None:
    """50 averages of P(π) from π = m̄, with f_λ in slow loops."""
    data = drawn(seed, n=40, weighted=seed == 1, squared=seed != 2)
    m = data.shares
    mixtures: Any = {
        "simplex": ax.Simplex(3),
        "box": ax.Box([0.1, 0.1, 0.1], [0.7, 0.8, 0.6]),
        "cvar": ax.cvar(m, 0.4),
        "hull": ax.Hull([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.2, 0.6, 0.2]]),
        "point": ax.Point([0.2, 0.3, 0.5]),
    }[target]
    decision = decide(data, mixtures, math.inf)
    reference = decision.predictions(data)[decision.reference]
    average, _ = data.averages
    judged = HeldOut(data.losses(reference)[None], average, mixtures, np.zeros(3), m)
    assert list(decision.pi) == list(DIAL) == [1 / 16, 1 / 8, 1 / 4, 1 / 2]
    for t in (1 / 16, 1 / 2):
        pi, values = m, []
        for _ in range(50):
            D, _ = means(data, mixed(data, decision.w_domain, (1 - t) * m + t * pi))
            values.append(chances(mixtures, D, judged.spread))
            pi = np.mean(values, axis=0)
        np.testing.assert_allclose(decision.pi[t], pi, atol=1e-9)
        np.testing.assert_allclose(decision.mixture(t), (1 - t) * m + t * pi, atol=1e-9)
    np.testing.assert_array_equal(decision.mixture(0.0), m)


@settings(max_examples=25)
@given(some_rows, st.sampled_from([0.0, 0.05, math.inf]))
def test_the_candidates_and_the_choice_are_those_of_their_definition(
    data: OutOfFold, price: float
) -> None:
    p = len(data.expert)
    decision = decide(data, ax.Simplex(p), price)
    found = decision.predictions(data)
    names = list(data.families) + ["blend"] * (len(data.families) == 2)
    dial = [name_of(t) for t in DIAL]
    assert list(found) == [*names, *dial, *(f"{name} with domain" for name in names)]
    expected = [found[decision.reference]]
    for t in DIAL:
        expected.append(mixed(data, decision.w_domain, decision.mixture(t)))
        np.testing.assert_allclose(found[name_of(t)], expected[-1], rtol=1e-9)
    own = np.array([[h[i, k] for i, k in enumerate(data.k)] for h in data.experts])
    for name, values in zip(data.families, own, strict=True):
        np.testing.assert_array_equal(found[f"{name} with domain"], values)
    if len(names) == 3:
        w = decision.w_domain
        np.testing.assert_allclose(
            found["blend with domain"], (1 - w) * own[0] + w * own[1], atol=1e-12
        )
    average, m = data.averages
    held = HeldOut(
        np.array([data.losses(values) for values in expected]),
        average,
        ax.Simplex(p),
        np.zeros(p),
        m,
        np.asarray(average @ data.losses(data.constant)),
        squared=data.y is not None,
        constant_rows=data.losses(data.constant),
        fold=data.fold,
    )
    assert decision.t == (0.0, *DIAL)[choose(held, price)]
    assert decision.chosen == (name_of(decision.t) if decision.t else decision.reference)


def test_names_of_places() -> None:
    assert [name_of(t) for t in DIAL] == ["t=1/16", "t=1/8", "t=1/4", "t=1/2"]


def test_one_domain_has_no_dial() -> None:
    data = drawn(0, p=1)
    one = replace(data, experts=np.zeros((2, 120, 0)), Q=np.ones((120, 1)))
    decision = decide(one, ax.Simplex(1), 0.05)
    assert (decision.pi, decision.t, decision.change) == ({}, 0, 0)
    assert list(decision.predictions(one)) == ["first", "second", "blend"]


def test_a_probability_of_zero_is_judged_as_one_in_a_million() -> None:
    data = drawn(0, squared=False)
    assert data.losses(np.array([0.0, 1e-9, 1.0])).tolist() == pytest.approx(
        [math.log(1e6), math.log(1e6), 0.0]
    )


# -- shared experts, missing domains -------------------------------------------------------------


@pytest.mark.parametrize("squared", [True, False])
def test_domains_that_share_an_expert(squared: bool) -> None:
    """Domains 1, 2 and 3 share expert 1."""
    data = drawn(3, p=4, n_experts=2, squared=squared, weighted=True)
    m = data.shares
    lam = np.array([0.1, 0.2, 0.3, 0.4])
    assert data.by_expert(lam).tolist() == pytest.approx([0.1 / m[0], 0.9 / (1 - m[0])])
    Q = data.domain_probabilities(data.Q)
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    np.testing.assert_allclose(Q[:, 2], data.Q[:, 1] * m[2] / (1 - m[0]))
    decision = decide(data, ax.Simplex(4), math.inf)
    found = decision.predictions(data)
    for t in DIAL:
        slow = mixed(data, decision.w_domain, decision.mixture(t))
        np.testing.assert_allclose(found[name_of(t)], slow, rtol=1e-9)
    own = data.experts[0, np.arange(120), data.expert[data.k]]
    np.testing.assert_array_equal(found["first with domain"], own)


def test_a_domain_without_rows_counts_as_all_rows() -> None:
    data = drawn(1, weighted=True)
    rest = data.take(data.k != 1)
    average, m = rest.averages
    values = np.random.default_rng(0).normal(size=len(rest.k))
    D = np.asarray(average @ values)
    assert m[1] == 0
    assert D[1] == pytest.approx(np.average(values, weights=rest.weight))
    assert D[0] == pytest.approx(np.average(values[rest.k == 0], weights=rest.weight[rest.k == 0]))
    np.testing.assert_array_equal(rest.shares, data.shares)  # f_λ divides by what it was fitted to


# -- each row's choice is made without its fold --------------------------------------------------


@pytest.mark.parametrize("squared", [True, False])
def test_cross_fitting_by_hand(squared: bool) -> None:
    data = drawn(5, squared=squared)
    found = cross_fitted(data, ax.Simplex(3), 0.05)
    assert list(found)[-2:] == ["reference", "recommended"]
    for f in range(4):
        here = data.fold == f
        decision = decide(data.take(~here), ax.Simplex(3), 0.05)
        said = decision.predictions(data.take(here))
        for name, values in said.items():
            np.testing.assert_array_equal(found[name][here], values)
        np.testing.assert_array_equal(found["reference"][here], said[decision.reference])
        np.testing.assert_array_equal(found["recommended"][here], said[decision.chosen])


@pytest.mark.parametrize("seed", range(4))
def test_the_labels_of_a_fold_do_not_move_what_is_applied_to_it(seed: int) -> None:
    data = with_experts(drawn(seed), 0.3)
    assert data.y is not None
    here = data.fold == 1
    y = np.where(here, -5 * data.y + 3, data.y)
    before = cross_fitted(data, ax.Simplex(3), 0.05)
    after = cross_fitted(replace(data, y=y), ax.Simplex(3), 0.05)
    moved = 0.0
    for name in before:
        np.testing.assert_array_equal(before[name][here], after[name][here])
        moved += np.abs(before[name][~here] - after[name][~here]).max()
    assert moved > 0  # the others' choices do look at it


def test_what_is_reported_is_worse_than_what_was_chosen_on_the_same_rows() -> None:
    """Blends and dials chosen with the rows themselves flatter: on average over tables."""
    optimism = []
    for seed in range(10):
        data = drawn(seed, n=40)
        decision = decide(data, ax.Simplex(3), 0.05)
        inside = decision.predictions(data)["blend with domain"]
        outside = cross_fitted(data, ax.Simplex(3), 0.05)["blend with domain"]
        optimism.append(means(data, outside)[1] - means(data, inside)[1])
    assert np.mean(optimism) > 0


# -- unlabelled rows -----------------------------------------------------------------------------


def probabilities(k: NDArray[np.intp], right: float, rng: np.random.Generator) -> Array:
    """Q of a domain classifier that is right about its rows: one sign of x, with this chance."""
    sign = np.where(rng.random(len(k)) < right, k, 1 - k)
    likelihood = np.where(np.eye(2)[sign] == 1, right, 1 - right)
    Q = np.array([0.75, 0.25]) * likelihood
    return np.asarray(Q / Q.sum(axis=1, keepdims=True))


def told(quality: float, sharp: bool, n: int = 400) -> tuple[OutOfFold, Decision]:
    """Two domains; experts that err `quality` times as much in their own, and much elsewhere."""
    rng = np.random.default_rng(0)
    k = np.arange(n) % 4 // 3  # ¾ and ¼
    y = rng.normal(size=n)
    own = quality * rng.normal(size=(n, 1))
    far = 3.0 * rng.choice([-1, 1], size=(n, 1))
    experts = y[:, None] + np.where(np.eye(2)[k] == 1, own, far)
    Q = probabilities(k, 0.98 if sharp else 0.5, rng)
    data = OutOfFold(
        ["one"],
        (y + rng.normal(size=n))[None],
        experts[None],
        Q,
        np.arange(2),
        k,
        np.ones(n),
        np.zeros(n),
        y,
        np.arange(n) % 5,
        np.array([0.75, 0.25]),
    )
    return data, decide(data, ax.Simplex(2), 0.05)


@pytest.mark.parametrize(
    ("quality", "sharp", "pays"),
    [(0.3, True, True), (1.0, False, False), (2.0, True, False), (0.3, False, False)],
)
def test_it_adapts_where_simulated_places_gain(quality: float, sharp: bool, pays: bool) -> None:
    """Good experts help only where unlabelled rows tell the place."""
    data, decision = told(quality, sharp)
    rng = np.random.default_rng(0)
    assert adapting_pays(data, decision, ax.Simplex(2), 0.05, 50, rng) is pays


def test_the_price_limits_adapting() -> None:
    """The large domain's expert is worse than the plain model, the small one's far better."""
    data, _ = told(0.1, True)
    assert data.y is not None
    large = data.k == 0
    noise = 2.6 * np.random.default_rng(1).normal(size=len(large))
    experts = data.experts.copy()
    experts[0, large, 0] = (data.y + noise)[large]
    plain = data.plain + np.where(large, 0, 3.0)
    dear = replace(data, plain=plain, experts=experts, constant=np.full(len(large), 9.0))
    decision = decide(dear, ax.Simplex(2), 0.05)
    found = [
        adapting_pays(dear, decision, ax.Simplex(2), price, 50, np.random.default_rng(0))
        for price in (0.0, math.inf)
    ]
    assert found == [False, True]


def test_a_place_has_as_many_rows_as_were_given() -> None:
    """Of one row the mixture is not known, so far experts still count."""
    data, decision = told(0.8, True)
    Q = probabilities(data.k, 0.95, np.random.default_rng(1))
    vague = replace(data, Q=Q)
    decision = decide(vague, ax.Simplex(2), 0.05)
    few, many = (
        adapting_pays(vague, decision, ax.Simplex(2), 0.05, n, np.random.default_rng(0))
        for n in (1, 300)
    )
    assert (few, many) == (False, True)
