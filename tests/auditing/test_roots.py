"""Roots against those that are known, for functions that are steep, flat, or huge at one end."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from anymix.auditing.roots import crossing

SHAPES: dict[str, Callable[[float], float]] = {
    "saturated": lambda z: math.tanh(z) + 1e-9 * z,
    "flat at the root": lambda z: z**3,
    "huge at one end": lambda z: math.expm1(min(z, 700.0)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_root_is_found_whatever_the_shape(name: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        root, steep = rng.normal() * 10 ** rng.uniform(-3, 3), 10 ** rng.uniform(-3, 3)
        below, above = 10 ** rng.uniform(-2, 2, 2)

        def f(x: float, root: float = root, steep: float = steep) -> float:
            return SHAPES[name](steep * (x - root))

        found = crossing(f, root - below, root + above)
        assert found == pytest.approx(root, rel=1e-12, abs=1e-11)


def test_a_root_at_an_end_is_found_and_one_sign_is_refused() -> None:
    assert crossing(lambda x: x, 0.0, 1.0) == 0
    assert crossing(lambda x: x - 1, 0.0, 1.0) == 1
    with pytest.raises(ValueError, match="one sign at both ends"):
        crossing(lambda x: x * x + 1, -1.0, 1.0)
