"""Boxes, and the worst share of a population."""

from __future__ import annotations

import numpy as np
import pytest

from anymix.mixtures import (
    Box,
    cvar,
)


def test_box_with_equal_bounds_and_without_upper_bounds() -> None:
    fixed = Box([0.25, 0.5, 0.0], [0.25, 0.5, np.inf])
    np.testing.assert_allclose(fixed.project([9, -9, 0]), [0.25, 0.5, 0.25])
    np.testing.assert_allclose(fixed.maximize([1, 2, 3]), [0.25, 0.5, 0.25])
    np.testing.assert_array_equal(fixed.upper, [0.25, 0.5, 1])
    assert Box([-1, 0], [5, np.inf]) == Box([0, 0], [1, 1])
    assert Box([0.5, 0.5], [1, 1]).log_cover_size(0) == 0


def test_cvar_is_the_mean_of_the_worst_share() -> None:
    """Ten equally likely losses 1..10: the worst 25 % are 10, 9 and half of 8."""
    tail = cvar(np.full(10, 0.1), 0.25)
    losses = np.arange(1, 11)
    assert tail.maximize(losses) @ losses == pytest.approx((10 + 9 + 8 / 2) / 2.5)
    assert cvar([0.3, 0.7], 1) == Box([0, 0], [0.3, 0.7])
    np.testing.assert_array_equal(cvar([0.3, 0.7], 1e-300).upper, [1, 1])
