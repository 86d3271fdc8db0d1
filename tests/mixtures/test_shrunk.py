"""Shrunk sets: the line from one mixture to a set. The laws of all sets are in test_sets.py."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from anymix.mixtures import (
    Adversary,
    Box,
    Chi2Ball,
    DirichletPrior,
    Hull,
    MixtureSet,
    Point,
    Simplex,
    TVBall,
    Vertices,
)

Array = NDArray[np.float64]
M = np.array([0.2, 0.3, 0.5])
BASES: list[MixtureSet] = [
    Simplex(3),
    Vertices(3),
    Point([0.1, 0.6, 0.3]),
    Box([0.1, 0, 0], [0.6, 1, 1]),
    Hull([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.2, 0.2, 0.6]]),
    TVBall([0.5, 0.3, 0.2], 0.25),
    Chi2Ball([1, 2, 3], 1.5),
]


@pytest.mark.parametrize("base", BASES, ids=repr)
def test_the_ends_are_the_reference_and_the_set_itself(base: MixtureSet) -> None:
    assert base.shrunk(0, M) == Point(M)
    assert base.shrunk(1, M) is base


@pytest.mark.parametrize("base", BASES, ids=repr)
@pytest.mark.parametrize("t", [1e-6, 0.3, 0.9])
def test_the_members_are_the_images_of_members(base: MixtureSet, t: float) -> None:
    rng, shrunk = np.random.default_rng(0), base.shrunk(t, M)
    for v in rng.normal(size=(20, 3)):
        member, outside = base.project(v), np.array([-1e-3, 0.5, 0.501]) + 1e-3 * v
        assert shrunk.contains((1 - t) * M + t * member, 1e-8 * t)
        inside = base.contains(outside / outside.sum(), 1e-8)
        assert shrunk.contains((1 - t) * M + t * outside / outside.sum(), 1e-8 * t) == inside
        np.testing.assert_allclose(shrunk.maximize(v) @ v, (1 - t) * M @ v + t * best(base, v))


def best(base: MixtureSet, v: Array) -> float:
    return float(base.maximize(v) @ v)


@pytest.mark.parametrize("t", [0.01, 0.5, 0.99])
def test_a_shrunk_simplex_is_a_box(t: float) -> None:
    """{(1−t) m + t λ} = {λ ≥ (1−t) m}: every answer is that of the box, to rounding."""
    shrunk, box = Simplex(3).shrunk(t, M), Box((1 - t) * M, np.ones(3))
    rng = np.random.default_rng(0)
    for v in rng.normal(size=(20, 3)):
        w, F = rng.uniform(0.1, 10, 3), rng.normal(size=(3, 2))
        for one, other in (
            (shrunk.project(v), box.project(v)),
            (shrunk.project(v, w), box.project(v, w)),
            (shrunk.maximize(v), box.maximize(v)),
            (shrunk.minimize_quadratic(v, F, w), box.minimize_quadratic(v, F, w)),
            (shrunk.kl_project(v), box.kl_project(v)),
            (
                DirichletPrior([2, 1, 3]).best_response(shrunk, v),
                DirichletPrior([2, 1, 3]).best_response(box, v),
            ),
        ):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    assert shrunk.radius == pytest.approx(box.radius, rel=1e-14)
    assert shrunk.skewness([3, 1, 1]) == pytest.approx(box.skewness([3, 1, 1]), rel=1e-14)
    assert shrunk.log_cover_size(0.01) == pytest.approx(box.log_cover_size(0.01), rel=0.02)


def test_radius_and_skewness_of_a_shrunk_hull_are_near_those_of_its_points() -> None:
    """An upper bound, and exact where one point is largest in all three terms."""
    points = np.array([[0.8, 0.1, 0.1], [0.4, 0.3, 0.3]])
    for t in (0.2, 0.7):
        for sizes in ([1, 1, 1], [1, 2, 3]):
            exact = Hull((1 - t) * M + t * points).skewness(sizes)
            bound = Hull(points).shrunk(t, M).skewness(sizes)
            assert exact * (1 - 1e-14) <= bound <= 1.08 * exact
        flat = np.full(3, 1 / 3)
        exact = Hull((1 - t) * flat + t * points).radius
        assert Hull(points).shrunk(t, flat).radius == pytest.approx(exact, rel=1e-14)


def test_a_cover_shrinks_with_the_set() -> None:
    assert Simplex(3).shrunk(0.25, M).log_cover_size(0.05) == Simplex(3).log_cover_size(0.2)
    vertices = Vertices(3).shrunk(0.25, M)
    assert vertices.log_cover_size(0) == math.log(3)
    assert vertices.convex_hull.log_cover_size(0) == math.inf
    assert Chi2Ball([2, 3, 5], 9.0, vertices).log_cover_size(0.05) == (
        Simplex(3).log_cover_size(0.2)  # all of the hull, not only its corners
    )


@pytest.mark.parametrize("base", BASES, ids=repr)
def test_a_tiny_copy_takes_the_largest_numbers(base: MixtureSet) -> None:
    """v/t would overflow; the projection is that of the largest entry and moves no digit of m."""
    shrunk = base.shrunk(1e-12, M)
    for v in ([1.7e308, -1.7e308, 0.0], [1e300, 0.9e300, -1e300]):
        lam = shrunk.project(v)
        assert shrunk.contains(lam, 1e-15)
        assert lam @ np.array(v) == pytest.approx(shrunk.maximize(v) @ np.array(v), rel=1e-12)
        np.testing.assert_allclose(lam, M, rtol=0, atol=2e-12)


def test_shrinking_twice() -> None:
    twice, once = Simplex(3).shrunk(0.5, M).shrunk(0.4, M), Simplex(3).shrunk(0.2, M)
    for v in np.random.default_rng(0).normal(size=(10, 3)):
        np.testing.assert_allclose(twice.project(v), once.project(v), rtol=0, atol=1e-14)


def test_an_entropic_adversary_moves_in_a_shrunk_simplex() -> None:
    adversary = Adversary(Simplex(2).shrunk(0.5, [0.2, 0.8]), 1.0, kind="entropic")
    for _ in range(50):
        adversary.step([1.0, 0.0])
    np.testing.assert_allclose(adversary.mixture, [0.6, 0.4])


# What a set says about itself.


@pytest.mark.parametrize(
    ("mixtures", "is_simplex", "is_point", "has_kl_projection"),
    [
        (Simplex(3), True, False, True),
        (Vertices(3), True, False, True),
        (Simplex(1), True, False, True),
        (Point(M), False, True, True),
        (Box([0, 0, 0], [1, 1, 1]), True, False, True),
        (Box([0, 0, 0], [1, 1, 0.9]), False, False, True),
        (Box(M, M), False, True, True),
        (Hull(np.eye(3)), True, False, False),
        (Hull([M]), False, False, False),
        (TVBall(M, 0.8), True, False, True),
        (TVBall(M, 0.79), False, False, True),
        (Chi2Ball([2, 3, 5], 5.000001), True, False, False),
        (Chi2Ball([2, 3, 5], 4.9), False, False, False),
        (Chi2Ball([2, 3, 5], 9.0, Box([0, 0, 0], [1, 1, 0.9])), False, False, False),
        (Simplex(3).shrunk(0.5, M), False, False, True),
        (Point(M).shrunk(0.5, [1, 0, 0]), False, True, True),
        (TVBall(M, 0.1).shrunk(0.5, M), False, False, False),
    ],
    ids=repr,
)
def test_a_set_says_what_it_is(
    mixtures: MixtureSet, is_simplex: bool, is_point: bool, has_kl_projection: bool
) -> None:
    assert mixtures.is_simplex is is_simplex
    assert mixtures.is_point is is_point
    assert mixtures.has_kl_projection is has_kl_projection
    vertices = [mixtures.contains(vertex, 1e-12) for vertex in np.eye(mixtures.n_domains)]
    assert all(vertices) is is_simplex
    if has_kl_projection:
        assert mixtures.contains(np.exp(mixtures.kl_project(np.arange(mixtures.n_domains))))
    else:
        with pytest.raises(
            TypeError, match=f"no exact KL projection onto {type(mixtures).__name__}"
        ):
            mixtures.kl_project(np.zeros(mixtures.n_domains))


@pytest.mark.parametrize("base", [b for b in BASES if b.box_bounds is not None], ids=repr)
def test_the_bounds_are_those_of_the_hull(base: MixtureSet) -> None:
    bounds = base.box_bounds
    assert bounds is not None
    for v in np.random.default_rng(0).normal(size=(20, 3)):
        np.testing.assert_allclose(base.project(v), Box(*bounds).project(v), rtol=0, atol=1e-15)
