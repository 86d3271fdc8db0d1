"""Hulls: thin ones, repeated points, more points than domains."""

from __future__ import annotations

import numpy as np
import pytest

from anymix.mixtures import (
    Hull,
)


def test_projection_onto_a_thin_hull_is_idempotent() -> None:
    """Points with entries down to 1e-20 lie so near a face that squares cannot tell."""
    for seed in range(400):
        rng = np.random.default_rng(seed)
        p, n = rng.integers(2, 9), rng.integers(2, 10)
        hull = Hull(rng.dirichlet(np.full(p, 0.1), n))
        lam = hull.project(rng.normal(size=p))
        for weights in (None, 10 ** rng.uniform(-2.5, 2.5, p)):
            np.testing.assert_allclose(hull.project(lam, weights), lam, rtol=0, atol=1e-12)


def test_a_hull_contains_its_members_though_points_nearly_repeat() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        points = np.repeat(rng.dirichlet(np.full(8, 0.1), 5), 2, axis=0)
        points = np.abs(points + 1e-8 * rng.normal(size=points.shape))
        hull = Hull(points / points.sum(axis=1, keepdims=True))
        assert hull.contains(rng.dirichlet(np.ones(10)) @ hull.points)


def test_hull_of_repeated_and_dependent_points() -> None:
    """The segment between the first two points; the third repeats one, the fourth is inside."""
    a, b = np.array([0.6, 0.2, 0.2]), np.array([0.0, 0.5, 0.5])
    hull = Hull([a, b, a, (a + b) / 2])
    for t in (0.0, 0.25, 1.0):
        point = t * a + (1 - t) * b
        np.testing.assert_allclose(hull.project(point), point, atol=1e-12)
    assert hull.contains(0.3 * a + 0.7 * b)
    assert not hull.contains([0.3, 0.3, 0.4])
    assert Hull([a]).project([1, 2, 3]) == pytest.approx(a)
    assert Hull([a, a]).log_cover_size(0) == 0


def test_more_points_than_domains() -> None:
    rng = np.random.default_rng(0)
    points = rng.dirichlet(np.ones(3), size=200)
    hull = Hull(points)
    for v in rng.normal(size=(50, 3)):
        lam = hull.project(v)
        assert np.max((points - lam) @ (v - lam)) <= 1e-13
