"""Radius, skewness and covers: what their formulas say, and what members attain."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from anymix.mixtures import (
    Box,
    Chi2Ball,
    Hull,
    MixtureSet,
    Simplex,
    TVBall,
    Vertices,
)

Array = NDArray[np.float64]
Rng = np.random.Generator


def test_a_narrow_chi2_ball_is_hardly_wider_than_its_middle() -> None:
    """On two domains λ = m̄ ± √((r−1) m₁m₂) (1, −1) are the ends: the largest ‖λ‖ is known.

    The bound exceeds it by no more than the step from m̄, √((r−1) max m̄), which is small.
    """
    m = np.array([0.1, 0.9])
    for over in (1e-12, 1e-6, 1e-3, 0.05):
        ball = Chi2Ball([1, 9], 1 + over)
        step = math.sqrt((ball.r - 1) * m.prod())
        ends = [m + step * np.array([1, -1]), m + step * np.array([-1, 1])]
        attained = max(float(np.linalg.norm(end)) for end in ends)
        middle = float(np.linalg.norm(m))
        assert attained <= ball.radius * (1 + 1e-15)
        assert ball.radius <= middle + math.sqrt((ball.r - 1) * m.max()) + 1e-15
        sizes = np.array([3.0, 1.0])
        attained = max(float(np.sum(end**2 * 4 / sizes)) for end in ends)
        middle = math.sqrt(np.sum(m**2 * 4 / sizes))
        assert attained <= ball.skewness(sizes) * (1 + 1e-15)
        reach = math.sqrt((ball.r - 1) * np.max(m * 4 / sizes))
        assert ball.skewness(sizes) <= (middle + reach) ** 2 + 1e-15


def test_a_wide_chi2_ball_has_the_radius_of_its_skewness() -> None:
    """Σ λ² ≤ max m̄ Σ λ²/m̄ ≤ r max m̄: equal sizes attain it."""
    ball = Chi2Ball([1, 1, 1, 1], 2.0)
    assert ball.radius == pytest.approx(math.sqrt(0.5), rel=1e-15)
    lam = ball.maximize([1.0, 1.0, 0.0, 0.0])
    assert np.linalg.norm(lam) == pytest.approx(math.sqrt(0.5), rel=1e-12)


def test_the_packing_covers_are_what_their_formulas_say() -> None:
    p, epsilon, rho, r = 6, 0.01, 0.004, 1 + 1e-4
    uniform = np.full(p, 1 / p)
    tv = TVBall(uniform, 0.02).log_cover_size(epsilon)
    assert tv == pytest.approx((p - 1) * math.log1p(4 * 0.02 / epsilon), rel=1e-12)
    assert TVBall(uniform, rho).log_cover_size(epsilon) == 0  # ε ≥ 2ρ: the centre alone
    assert TVBall(uniform, 0.00501).log_cover_size(epsilon) > 0
    chi2 = Chi2Ball(np.ones(p), r).log_cover_size(0.005)
    assert chi2 == pytest.approx((p - 1) * math.log1p(4 * 0.01 / 0.005), rel=1e-10)
    assert Chi2Ball(np.ones(p), r).log_cover_size(0.0201) == 0
    assert Chi2Ball(np.ones(p), r).log_cover_size(0.0199) > 0


def test_wide_balls_are_covered_by_the_grid_at_half_the_distance() -> None:
    """In each cell of the grid that holds a member, take it: two in one cell are ε apart."""
    half = Simplex(3).log_cover_size(0.1)
    assert TVBall([0.4, 0.3, 0.3], 0.6).log_cover_size(0.2) == pytest.approx(half, rel=1e-12)
    assert Chi2Ball([1, 1, 1], 2.9).log_cover_size(0.2) == pytest.approx(half, rel=1e-12)
    assert TVBall([0.4, 0.3, 0.3], 0.7).log_cover_size(0.2) == Simplex(3).log_cover_size(0.2)
    assert Chi2Ball([1, 1, 1], 3.0).log_cover_size(0.2) == Simplex(3).log_cover_size(0.2)
    assert Chi2Ball([1, 1, 1], 3.0, Vertices(3)).log_cover_size(0.2) == (
        Simplex(3).log_cover_size(0.2)  # its members are mixtures, not only vertices
    )


def test_covers_of_boxes_and_hulls_scale_with_them() -> None:
    """l + (1 − Σ l) Δ_p is covered by the grid at ε/(1 − Σ l); else at half of that, or of u."""
    grid = Simplex(4).log_cover_size
    assert Box([0.1] * 4, [1] * 4).log_cover_size(0.06) == pytest.approx(grid(0.1), rel=1e-12)
    assert Box([0.1] * 4, [0.5] * 4).log_cover_size(0.12) == pytest.approx(grid(0.1), rel=1e-12)
    assert Box([0.0] * 4, [0.3] * 4).log_cover_size(0.04) == pytest.approx(grid(0.1), rel=1e-9)
    a, b = np.array([0.3, 0.2, 0.3, 0.2]), np.array([0.2, 0.3, 0.2, 0.3])
    assert Hull([a, b]).log_cover_size(0.02) == pytest.approx(
        Simplex(2).log_cover_size(0.1), rel=1e-12
    )  # each is 0.2 from their mean
    assert Hull(np.eye(4)).log_cover_size(0.1) == grid(0.1)  # and never finer than ε


@pytest.mark.parametrize("p", [2, 3, 4, 5, 6])
def test_the_grid_is_as_fine_as_the_worst_rounding_needs(p: int) -> None:
    """If s of p equal fractions s/p go up the ℓ₁ error is 2s(1 − s/p)/N, most for s = ⌊p/2⌋."""
    epsilon = 0.05
    worst = max(2 * s * (1 - s / p) for s in range(p))
    count = math.comb(math.ceil(worst / epsilon - 1e-9) + p - 1, p - 1)
    assert Simplex(p).log_cover_size(epsilon) == pytest.approx(math.log(count), rel=1e-12)


def test_a_few_domains_are_enumerated_and_many_are_bounded() -> None:
    """At p = 12 every corner is tried, exactly; from 13 on chords may overrate one entry."""
    rng = np.random.default_rng(3)
    for p in (12, 13):
        c = rng.dirichlet(np.ones(p))
        box = Box(c * 0.5, c + 0.11)
        attained = max(
            float(np.sum(box.maximize(direction) ** 2)) for direction in rng.normal(size=(3000, p))
        )
        best = float(np.sum(box.maximize(c) ** 2))
        assert box.radius**2 >= max(attained, best) - 1e-15
        if p == 12:
            np.testing.assert_allclose(box.radius**2, max(attained, best), rtol=0.05)


def corners_by_maximizing(mixtures: MixtureSet, rng: Rng) -> Array:
    directions = rng.normal(size=(400, mixtures.n_domains))
    return np.array([mixtures.maximize(direction) for direction in directions])


@pytest.mark.parametrize("seed", range(20))
def test_radius_and_skewness_are_attained_for_few_domains(seed: int) -> None:
    """Random directions find every corner of a small polytope, independently of the formulas."""
    rng = np.random.default_rng(seed)
    p = 3
    c, sizes = rng.dirichlet(np.ones(p)), rng.uniform(1, 10, p)
    m = sizes / sizes.sum()
    for mixtures in (
        Simplex(p),
        Box(c * rng.uniform(0, 1, p), c + rng.uniform(0, 0.5, p)),
        TVBall(c, rng.uniform(0, 0.6)),
        TVBall(np.eye(p)[0], 0.3),
        Hull(rng.dirichlet(np.ones(p), size=4)),
    ):
        found = corners_by_maximizing(mixtures, rng)
        assert mixtures.radius == pytest.approx(np.linalg.norm(found, axis=1).max(), rel=1e-12)
        assert mixtures.skewness(sizes) == pytest.approx((found**2 / m).sum(axis=1).max())


@pytest.mark.parametrize("seed", range(5))
def test_bounds_for_many_domains_are_near_what_is_attained(seed: int) -> None:
    """Beyond 12 domains only one entry, off its bounds, is overrated: by at most a (u−l)²/4."""
    rng = np.random.default_rng(seed)
    p = 20
    c, sizes = rng.dirichlet(np.ones(p)), rng.uniform(1, 10, p)
    m = sizes / sizes.sum()
    box = Box(c * rng.uniform(0, 1, p), c + rng.uniform(0, 0.1, p))
    slack = np.max((box.upper - box.lower) ** 2 / m) / 4
    attained = np.sum(box.maximize((box.lower + box.upper) / m) ** 2 / m)
    assert attained <= box.skewness(sizes) <= attained + slack
    tv = TVBall(c, 0.3)
    by_domain = [
        np.sum(tv.maximize(c / m + 1e6 * np.eye(p)[j]) ** 2 / m) for j in range(p)
    ]  # j first, then by the slope of the chord
    assert max(by_domain) <= tv.skewness(sizes) <= max(by_domain) + np.max(c**2 / m) / 4


def test_simplex_grid_is_a_cover_of_the_stated_size() -> None:
    p, epsilon = 3, 0.3
    N = math.ceil(2 * (p // 2) * ((p + 1) // 2) / p / epsilon)
    counts = [n for n in itertools.product(range(N + 1), repeat=p) if sum(n) == N]
    assert Simplex(p).log_cover_size(epsilon) == pytest.approx(math.log(len(counts)))
    members = np.random.default_rng(0).dirichlet(np.ones(p), size=500)
    nearest = np.abs(members[:, None] - np.array(counts) / N).sum(axis=2).min(axis=1)
    assert nearest.max() <= epsilon


def test_covers_shrink_with_the_set() -> None:
    epsilon = 0.05
    simplex = Simplex(4).log_cover_size(epsilon)
    assert TVBall([0.25] * 4, 0.02).log_cover_size(epsilon) == 0
    assert 0 < TVBall([0.25] * 4, 0.03).log_cover_size(epsilon) < simplex
    assert 0 < Chi2Ball([1] * 4, 1.001).log_cover_size(epsilon) < simplex
    assert 0 < Box([0.2] * 4, [1] * 4).log_cover_size(epsilon) < simplex
    assert 0 < Hull([[0.3, 0.2, 0.3, 0.2], [0.2, 0.3, 0.2, 0.3]]).log_cover_size(epsilon) < simplex
    assert Simplex(4).log_cover_size(1.5) == 0
    assert Simplex(1).log_cover_size(0) == 0
