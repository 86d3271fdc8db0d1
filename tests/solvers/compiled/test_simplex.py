"""The compiled projection onto the simplex against exact arithmetic, for numbers of any size."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from exact_projection import exact_box, rational, rounded
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from anymix.mixtures.projections import project_simplex as readable
from anymix.solvers.compiled.kernels import project_simplex

Array = NDArray[np.float64]


@numba.njit  # type: ignore[untyped-decorator]
def project(v: Array, lost: Array) -> None:
    project_simplex(v, lost, len(v))


@st.composite
def vectors(draw: st.DrawFn) -> tuple[Array, Array]:
    """v, of all sizes, tied, or tied but for the last bits; and what rounding has taken from it."""
    p = draw(st.integers(1, 9))
    size = draw(st.sampled_from([1e-300, 1e-9, 1.0, 2.0**53, 1e17, 1e100, 1e300]))
    kind = draw(st.sampled_from(["any", "one size", "bits", "ties"]))
    if kind == "any":
        numbers = st.floats(-1e300, 1e300)
    elif kind == "one size":
        numbers = st.floats(-1, 1).map(lambda x: x * size)
    elif kind == "bits":
        numbers = st.integers(-3, 3).map(lambda n: size * (1 + n * 2.0**-52))
    else:
        numbers = st.integers(-2, 2).map(lambda n: n * size)
    v = np.array(draw(st.lists(numbers, min_size=p, max_size=p)))
    part = np.array(draw(st.lists(st.floats(-0.5, 0.5), min_size=p, max_size=p)))
    return v, part * np.spacing(np.abs(v)) * draw(st.sampled_from([0.0, 1.0]))


@given(vectors())
@example((np.array([-4e17, 2e17 - 32]), np.array([0.0, -16.0])))
@example((np.array([1e300, 1e300]), np.array([-7e283, 0.0])))
@settings(max_examples=500)
def test_the_compiled_projection_is_exact(given: tuple[Array, Array]) -> None:
    v, lost = given
    whole = [a + b for a, b in zip(rational(v), rational(lost), strict=True)]
    zero, one = rational(np.zeros(len(v))), rational(np.ones(len(v)))
    exact = rounded(exact_box(whole, one, zero, one))
    found = v.copy()
    project(found, lost)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(), 1, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-13)
    if not lost.any():
        np.testing.assert_allclose(readable(v), exact, rtol=0, atol=1e-13)


@pytest.mark.parametrize("p", [1, 2, 1000, 100_000])
def test_many_numbers_of_any_size(p: int) -> None:
    rng = np.random.default_rng(p)
    for size in (1e-300, 1.0, 1e9, 1e17, 1e300):
        bits: Any = size * (1 + 2.0**-52 * rng.integers(-2, 3, p))
        for numbers in (size * rng.normal(size=p), bits):
            v: Array = np.array(numbers)
            wanted = readable(v)
            project(v, np.zeros(p))
            np.testing.assert_allclose(v, wanted, rtol=0, atol=1e-12)
            np.testing.assert_allclose(v.sum(), 1, rtol=0, atol=1e-11)
