"""Projections for many domains and at extreme scales, and their optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixture_cases import (
    a_box,
    a_mixture,
    a_vector,
    assert_box_kkt,
    least_skewness,
    some_weights,
)

from anymix.mixtures import (
    Box,
    Chi2Ball,
    Simplex,
    TVBall,
)
from anymix.mixtures.projections import project_box


@given(st.data())
def test_weighted_box_and_simplex_projections_meet_kkt(data: st.DataObject) -> None:
    p = data.draw(st.integers(1, 12))
    v, w, box = data.draw(a_vector(p)), data.draw(some_weights(p, 9)), data.draw(a_box(p))
    assert_box_kkt(box.project(v, w), v, w, box.lower, box.upper)
    assert_box_kkt(Simplex(p).project(v, w), v, w, np.zeros(p), np.full(p, np.inf))
    assert_box_kkt(Simplex(p).project(v), v, np.ones(p), np.zeros(p), np.full(p, np.inf))


@given(st.data())
def test_weighted_tv_projection_meets_kkt(data: st.DataObject) -> None:
    """g = w(v − λ) is α where λ > c, β ≤ α where 0 < λ < c, between them at c; α = β inside."""
    p = data.draw(st.integers(1, 12))
    v, w, c = data.draw(a_vector(p)), data.draw(some_weights(p, 9)), data.draw(a_mixture(p))
    rho = data.draw(st.sampled_from([1e-6, 0.05, 0.3, 0.9, 1.0]))
    lam = TVBall(c, rho).project(v, w)
    assert np.abs(lam - c).sum() / 2 <= rho + 1e-14
    ulp = 4e-15 * (np.abs(v) + 1)
    g, e = w * (v - lam), 25 * ulp * w
    near = np.abs(lam - c) <= ulp
    up, down = (lam > c) & ~near, (lam < c) & ~near
    alpha_from = np.max(g - e, where=up | near, initial=-np.inf)
    alpha_to = np.min(g + e, where=up, initial=np.inf)
    beta_from = np.max(g - e, where=down, initial=-np.inf)
    beta_to = np.min(g + e, where=(down & (lam > ulp)) | (near & (c > ulp)), initial=np.inf)
    assert alpha_from <= alpha_to
    assert beta_from <= beta_to
    assert beta_from <= alpha_to
    if np.abs(lam - c).sum() / 2 < rho - 1e-12:
        assert max(alpha_from, beta_from) <= min(alpha_to, beta_to)


# Many domains and extreme scales.

SCALES = [1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e9]


@pytest.mark.parametrize("p", [1, 2, 63, 64, 65, 100, 1000, 4096, 4097, 10_000])
@pytest.mark.parametrize("scale", SCALES)
def test_projections_at_all_sizes_and_scales(p: int, scale: float) -> None:
    rng = np.random.default_rng(p)
    c = rng.dirichlet(np.ones(p))
    box = Box(c * rng.uniform(0, 1, p), c + rng.uniform(0, 2 / p, p))
    for v in (scale * rng.normal(size=p), scale * rng.uniform(size=p), c + scale * rng.normal()):
        for w in (np.ones(p), 10 ** rng.uniform(-9, 9, p)):
            for mixtures, upper in ((Simplex(p), np.full(p, np.inf)), (box, box.upper)):
                lam = mixtures.project(v, w)
                lower = box.lower if mixtures is box else np.zeros(p)
                assert mixtures.contains(lam, 1e-12)
                assert_box_kkt(lam, v, w, lower, upper)
        lam = Simplex(p).project(v)
        assert Simplex(p).contains(lam, 1e-12)
        assert_box_kkt(lam, v, np.ones(p), np.zeros(p), np.full(p, np.inf))
        np.testing.assert_allclose(Simplex(p).project(lam), lam, rtol=0, atol=1e-14)


@pytest.mark.parametrize("p", [1000, 10_000])
def test_balls_over_many_domains(p: int) -> None:
    rng = np.random.default_rng(p)
    c, sizes = rng.dirichlet(np.ones(p)), rng.integers(1, 1000, p)
    box = Box(np.zeros(p), np.full(p, 3 / p))
    for mixtures in (
        TVBall(c, 0.2),
        Chi2Ball(sizes, 1.5),
        Chi2Ball(sizes, least_skewness(sizes, box) * 1.1, box),
    ):
        for v in (rng.normal(size=p) / p, rng.normal(size=p), 1e9 * rng.normal(size=p)):
            lam = mixtures.project(v)
            g = v - lam
            assert mixtures.contains(lam, 1e-12)
            assert mixtures.contains(mixtures.maximize(v), 1e-12)
            assert g @ (mixtures.maximize(g) - lam) <= 1e-11 * (np.abs(v).max() + 1)
        assert mixtures.radius <= 1
        assert np.sum(mixtures.maximize(1 / sizes) ** 2 / sizes) * sizes.sum() <= (
            mixtures.skewness(sizes) * (1 + 1e-9)
        )


def test_a_million_domains() -> None:
    rng = np.random.default_rng(0)
    p = 10**6
    for v in (rng.normal(size=p), rng.normal(size=p) / p, 1e9 + rng.uniform(size=p)):
        lam = Simplex(p).project(v)
        assert Simplex(p).contains(lam, 1e-12)
        assert_box_kkt(lam, v, np.ones(p), np.zeros(p), np.full(p, np.inf))
    w = 10 ** rng.uniform(-9, 9, p)
    box = Box(np.zeros(p), np.full(p, 4 / p))
    lam = box.project(v, w)
    assert box.contains(lam, 1e-12)
    assert_box_kkt(lam, v, w, box.lower, box.upper)


def test_one_large_entry_above_a_million_equal_ones() -> None:
    """τ is rounded once but subtracted a million times: the sum must not feel it."""
    v = np.full(10**6, -0.5)
    v[0] = 0.1
    lam = Simplex(v.size).project(v)
    assert abs(lam.sum() - 1) <= 1e-12
    assert lam[0] - lam[1] == pytest.approx(0.6, rel=1e-12)


@pytest.mark.parametrize("k", range(1, 9))
def test_simplex_projection_has_no_off_by_one_in_the_cumulative_sum(k: int) -> None:
    """Known λ of every support size: v = λ + τ on the support and no more than τ elsewhere.

    Dividing the sum of the k largest entries by k − 1 or k + 1, or adding one entry too many,
    as seen elsewhere, leaves the simplex by up to 0.88.
    """
    lam = np.zeros(8)
    lam[:k] = np.arange(1, k + 1) / (k * (k + 1) / 2)
    for tau in (-3.0, -0.125, 0.0, 0.25, 7.0):
        v = lam + tau
        v[k:] -= np.arange(8 - k) / 4  # the first of them exactly at τ
        for order in (np.arange(8), np.arange(8)[::-1], np.random.default_rng(k).permutation(8)):
            np.testing.assert_allclose(Simplex(8).project(v[order]), lam[order], atol=1e-15)


def test_the_bound_that_drops_entries_early_keeps_the_support() -> None:
    """The fast path for p > 4096 looks at every 16th entry first: put the support anywhere."""
    rng = np.random.default_rng(0)
    for k in (1, 3, 100, 3000):
        lam = np.zeros(10_000)
        lam[rng.choice(10_000, k, replace=False)] = rng.dirichlet(np.ones(k))
        v = np.where(lam > 0, lam, -rng.uniform(size=10_000) * (rng.random() < 0.5))
        np.testing.assert_allclose(Simplex(10_000).project(v + 5.0), lam, atol=1e-14)


def test_a_far_majority_does_not_blur_the_few_that_count() -> None:
    """Only two entries count, and the fast path's sample sees neither: no digit may be lost."""
    v = np.full(10_000, -1e9)
    v[[5, 77]] = 0.3, 0.1
    lam = Simplex(10_000).project(v)
    np.testing.assert_allclose(lam[[5, 77]], [0.6, 0.4], rtol=1e-15)
    assert np.count_nonzero(lam) == 2


def test_values_so_large_that_bounds_are_below_their_rounding() -> None:
    v = np.array([1e17, 1e17, 1e17, 0.0])
    lam = project_box(v, np.ones(4), np.zeros(4), np.full(4, 0.4))
    np.testing.assert_allclose(lam, [1 / 3, 1 / 3, 1 / 3, 0])


def test_bounds_that_leap_in_the_rounding_of_large_values() -> None:
    """Each bound is far below the rounding of v: λ leaps from u to l as τ passes w v."""
    v, w, u = np.array(
        [
            [15549972769779448, 5.7366255144032925, 0.13446546993558262],
            [17149764206999554, 10.402985074626866, 0.10078623372042148],
            [40954660792834768, 4.35625, 0.24756395680110568],
            [14974047852380212, 11.914529914529913, 0.10671238375417595],
            [1.7393143292054396, 9.071583514099784, 0.292291308390159],
            [15187353377342892, 5.873595505617978, 0.06328000971125237],
            [1.6609202570941843, 7.375661375661375, 0.05490063768730282],
        ]
    ).T
    lam = project_box(v, w, np.zeros(7), u, 0.4596756576703804)
    assert lam.sum() == pytest.approx(0.4596756576703804, rel=1e-12)
