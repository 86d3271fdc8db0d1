"""Steps without step sizes: the path does not depend on any unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anymix.solvers.untuned import Untuned


def path(gradients: Any, worst: float) -> Any:
    rule = Untuned(worst)
    memory, steps = rule.start(len(gradients[0])), []
    for g in gradients:
        d, memory = rule.direction(np.asarray(g), memory)
        steps.append(d)
    return np.array(steps)


numbers = st.floats(-10, 10).filter(lambda x: x == 0 or abs(x) > 1e-3)


@given(
    st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=8),
    st.floats(-3, 3),
)
def test_the_unit_of_the_loss_does_not_matter(gradients: Any, exponent: float) -> None:
    """Loss and gradients times c: the same steps."""
    c = 10.0**exponent
    a = path(gradients, 1.0)
    b = path([[c * x for x in g] for g in gradients], c)
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-12)


@given(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=8))
def test_the_unit_of_w_only_scales_the_steps(gradients: Any) -> None:
    """w times c is gradients over c: steps c times as long, as w is."""
    a = path(gradients, 1.0)
    b = path([[x / 7 for x in g] for g in gradients], 1.0)
    np.testing.assert_allclose(7 * a, b, rtol=1e-6, atol=1e-12)


def test_by_hand() -> None:
    """s_1 = 0.3·2/4 = 0.15; the second gradient is the first: cosine 1, s_2 = s_1 e^0.5."""
    steps = path([[1.0, -3.0], [1.0, -3.0], [-1.0, 3.0]], worst=2.0)
    np.testing.assert_allclose(steps[0], [0.15, -0.15])
    np.testing.assert_allclose(steps[1], 0.15 * np.exp(0.5) * np.array([1, -1]) / np.sqrt(2))
    back = 0.15 / np.sqrt(3)
    np.testing.assert_allclose(steps[2], [-back, back])


def test_a_gradient_of_zero_moves_nothing_and_breaks_nothing() -> None:
    steps = path([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]], worst=1.0)
    assert np.isfinite(steps).all()
    assert steps[0].tolist() == steps[2].tolist() == [0.0, 0.0]
    assert steps[1][0] == pytest.approx(0.3)


def test_steps_of_the_mixture() -> None:
    rule = Untuned()
    assert rule.mixture_step(np.array([2.0, 2.0])) == 0.0  # no domain is worse than another
    first = rule.mixture_step(np.array([0.0, 2.0]))
    assert first == pytest.approx(0.25 / np.sqrt(2))
    assert rule.mixture_step(np.array([5.0, 7.0])) == pytest.approx(0.25 / 2)
    again = Untuned()
    again.load_state_dict(rule.state_dict())
    assert again.mixture_step(np.ones(2)) == rule.mixture_step(np.ones(2))
