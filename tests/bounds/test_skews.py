"""Skewness and its like, by hand, in exact rationals and against Liu's quantity."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anymix as ax
from anymix.bounds import chi2, effective_sample_size, liu, skewness, worst_skewness
from anymix.errors import InputError


def test_by_hand_for_one_two_and_three_domains() -> None:
    assert skewness([1.0], [7]) == 1
    assert skewness([0.5, 0.5], [10, 30]) == pytest.approx(4 / 3)  # ¼/¼ + ¼/¾
    assert skewness([0.5, 0.25, 0.25], [1, 1, 2]) == pytest.approx(1 + 0.25 + 0.125)
    assert chi2([0.5, 0.25, 0.25], [1, 1, 2]) == pytest.approx(0.375)
    assert effective_sample_size([0.5, 0.25, 0.25], [10, 10, 20]) == pytest.approx(40 / 1.375)


def test_the_mixture_of_the_data_has_skewness_1() -> None:
    sizes = np.array([3.0, 14.0, 15.0, 92.0])
    assert skewness(sizes / sizes.sum(), sizes) == pytest.approx(1, abs=1e-14)
    assert ax.Point(sizes / sizes.sum()).skewness(sizes) == pytest.approx(1, abs=1e-14)
    assert worst_skewness("data", sizes) == pytest.approx(1, abs=1e-14)
    assert effective_sample_size(sizes / sizes.sum(), sizes) == pytest.approx(sizes.sum())


def test_all_mixtures_have_that_of_the_smallest_domain() -> None:
    assert worst_skewness(None, [2, 6, 12]) == 10  # m max_k 1/m_k, not max_k 1/m_k
    assert worst_skewness("chi2:1.5", [2, 6, 12]) == pytest.approx(1.5)


inputs = st.lists(
    st.tuples(st.integers(1, 1000), st.integers(0, 1000)), min_size=1, max_size=8
).filter(lambda pairs: sum(w for _, w in pairs) > 0)


@settings(max_examples=300, deadline=None)
@given(inputs)
def test_never_above_liu_nor_the_sum_over_domains(pairs: list[tuple[int, int]]) -> None:
    """In exact rationals: squares of both sides, and the code beside them."""
    sizes = [m for m, _ in pairs]
    weight = sum(w for _, w in pairs)
    lam = [Fraction(w, weight) for _, w in pairs]
    total = sum(sizes)
    ours = sum((x * x / m for x, m in zip(lam, sizes, strict=True)), Fraction(0))  # 𝔰/m
    theirs = total * max(x / m for x, m in zip(lam, sizes, strict=True)) ** 2  # Liu's, squared
    assert ours <= theirs
    shares = [float(x) for x in lam]
    assert skewness(shares, sizes) == pytest.approx(float(ours * total))
    assert liu(shares, sizes) == pytest.approx(math.sqrt(theirs))
    root = math.sqrt(skewness(shares, sizes) / total)
    assert root <= sum(x / math.sqrt(m) for x, m in zip(shares, sizes, strict=True)) + 1e-12


def test_the_papers_example_tends_to_1_and_to_0() -> None:
    ours, theirs = [], []
    for m in (10**2, 10**4, 10**6, 10**8):
        lam, sizes = [m**-0.5, 1 - m**-0.5], [1, m - 1]
        ours.append(math.sqrt(skewness(lam, sizes) / m))
        theirs.append(liu(lam, sizes))
    np.testing.assert_allclose(theirs, 1, rtol=1e-12)
    assert np.all(np.diff(ours) < 0)
    assert ours[-1] == pytest.approx(math.sqrt(2) * 1e-4, rel=1e-3)


@pytest.mark.parametrize("sizes", [[0, 3], [-1, 3], [math.nan, 3], [math.inf, 3], []])
def test_sizes_that_cannot_be_are_refused(sizes: list[float]) -> None:
    with pytest.raises(InputError, match="sizes"):
        skewness([0.5, 0.5], sizes)


def test_no_mixture_is_refused() -> None:
    with pytest.raises(InputError, match=r"mixture has the minimum 0\.4 and the sum 0\.9"):
        skewness([0.5, 0.4], [1, 2])
