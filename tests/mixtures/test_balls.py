"""Balls in total variation and in χ², from a point to the whole base."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mixture_cases import (
    least_skewness,
)

from anymix.mixtures import (
    Box,
    Chi2Ball,
    Hull,
    MixtureSet,
    Point,
    Simplex,
    TVBall,
)


@pytest.mark.parametrize("center", [[0.5, 0.3, 0.2], [1, 0, 0], [0.5, 0.5, 0]])
def test_tv_ball_from_a_point_to_the_simplex(center: list[float]) -> None:
    rng = np.random.default_rng(0)
    c, simplex = np.array(center), Simplex(3)
    for v in rng.normal(size=(20, 3)):
        np.testing.assert_array_equal(TVBall(c, 0).project(v), c)
        np.testing.assert_allclose(TVBall(c, 0).maximize(v), c, rtol=0, atol=1e-15)
        for rho in (1, 1.0, 2.5):
            np.testing.assert_allclose(TVBall(c, rho).project(v), simplex.project(v))
            np.testing.assert_allclose(TVBall(c, rho).maximize(v), simplex.maximize(v))
    assert TVBall(c, 0).radius == pytest.approx(np.linalg.norm(c))
    assert TVBall(c, 1).radius == 1
    assert TVBall(c, 1).log_cover_size(0.1) == simplex.log_cover_size(0.1)
    assert TVBall(c, 0).log_cover_size(0) == 0


def test_tv_ball_moves_mass_from_the_smallest_losses_to_the_largest() -> None:
    ball = TVBall([0.1, 0.2, 0.3, 0.4], 0.25)
    np.testing.assert_allclose(ball.maximize([1, 2, 4, 3]), [0, 0.05, 0.55, 0.4])


def test_chi2_ball_on_two_equal_domains() -> None:
    """1 + χ² = 2(λ₁² + λ₂²) ≤ r is |λ₁ − ½| ≤ ½√(r − 1)."""
    for r in (1.0, 1 + 1e-12, 1.01, 1.5, 2.0):
        top = 0.5 + 0.5 * math.sqrt(r - 1)
        ball = Chi2Ball([7, 7], r)
        np.testing.assert_allclose(ball.maximize([3, 1]), [top, 1 - top], rtol=0, atol=1e-12)
        np.testing.assert_allclose(ball.project([9, -4]), [top, 1 - top], rtol=0, atol=1e-12)
        assert ball.radius == pytest.approx(math.hypot(top, 1 - top))
        assert ball.skewness([3, 3]) == pytest.approx(r)


def test_chi2_ball_so_large_that_it_is_the_base() -> None:
    rng = np.random.default_rng(0)
    base = Box([0.1, 0, 0], [0.5, 0.6, 1])
    ball = Chi2Ball([1, 2, 3], 1e6, base)
    for v in rng.normal(size=(20, 3)):
        np.testing.assert_array_equal(ball.project(v), base.project(v))
        np.testing.assert_array_equal(ball.maximize(v), base.maximize(v))
    assert ball.skewness([1, 2, 3]) == base.skewness([1, 2, 3])
    assert ball.log_cover_size(0.1) == base.log_cover_size(0.1)


@pytest.mark.parametrize(
    "base",
    [
        Simplex(3),
        Box([0.4, 0.1, 0], [0.8, 0.4, 0.2]),
        TVBall([0.7, 0.3, 0], 0.1),
        Hull([[0.9, 0.1, 0], [0.5, 0.5, 0], [0.4, 0.3, 0.3]]),
        Point([0.2, 0.2, 0.6]),
        Chi2Ball([3, 1, 1], 1.05),
    ],
)
def test_chi2_ball_of_the_least_radius_is_one_point(base: MixtureSet) -> None:
    sizes = np.array([1, 2, 5])
    least = least_skewness(sizes, base)
    ball = Chi2Ball(sizes, least, base)
    for answer in (
        ball.project([3, -2, 1]),
        ball.project([1, 2, 3], [1e3, 1, 1e-3]),
        ball.maximize([5, 1, 0]),
        ball.minimize_quadratic([1, 0, 0], [[1], [2], [3]]),
    ):
        assert ball.contains(answer, 1e-12)
        np.testing.assert_allclose(answer, ball.center, rtol=0, atol=1e-7)
    if least > 1:
        with pytest.raises(ValueError, match=r"r .*least skewness"):
            Chi2Ball(sizes, 1 + 0.9 * (least - 1), base)


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e9, 1e300])
def test_chi2_maximiser_with_ties_at_every_scale(scale: float) -> None:
    """Equal sizes, two equal maxima: symmetry and the sphere give λ = (a, a, b, b), a > b."""
    ball = Chi2Ball([1, 1, 1, 1], 1.25)
    a = 0.25 + 0.25 * math.sqrt(0.25)
    answer = ball.maximize(scale * np.array([2.0, 2.0, 1.0, 1.0]))
    np.testing.assert_allclose(answer, [a, a, 0.5 - a, 0.5 - a], rtol=1e-12)
    np.testing.assert_array_equal(ball.maximize(np.full(4, scale)), ball.center)
    np.testing.assert_array_equal(ball.minimize_quadratic(np.full(4, scale)), ball.center)
    # the ball reaches the face of the two maxima: any member of it is a maximiser
    wide = Chi2Ball([1, 1, 1, 1], 2.5).maximize(scale * np.array([2.0, 2.0, 1.0, 0.0]))
    assert wide[:2].sum() == pytest.approx(1, rel=1e-12)


def test_chi2_of_chi2() -> None:
    """The same sizes twice: the smaller ball counts."""
    sizes, v = [1, 2, 3], [2.0, 0.5, -1.0]
    small, large = Chi2Ball(sizes, 1.2), Chi2Ball(sizes, 1.7)
    for nested in (Chi2Ball(sizes, 1.2, large), Chi2Ball(sizes, 1.7, small)):
        np.testing.assert_allclose(nested.project(v), small.project(v), rtol=0, atol=1e-12)
        np.testing.assert_allclose(nested.maximize(v), small.maximize(v), rtol=0, atol=1e-12)
