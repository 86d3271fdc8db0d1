"""Numbers and sentences as people read them."""

import math

import numpy as np
import pytest

from anymix.auditing.words import few_rows, mixture_in_words, narrow, plain, short, signed, span


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0.0000"),
        (0.12345, "0.1235"),
        (-12.5, "-12.50"),
        (0.00004, "4e-05"),
        (0.00005, "0.0001"),
        (999.94, "999.9"),
        (12345.678, "12,346"),
        (1e16, "1e+16"),
        (math.inf, "inf"),
        (math.nan, "-"),
    ],
)
def test_a_number_is_short_in_any_unit(value: float, said: str) -> None:
    assert short(value) == said


def test_differences_have_a_sign_and_intervals_two_ends() -> None:
    assert (signed(0.5), signed(0.0), signed(-0.5)) == ("+0.5000", "+0.0000", "-0.5000")
    assert span((0.1, math.inf)) == "0.1000 to inf"
    assert narrow((0.1, 0.25)) == "0.100–0.250"


def test_json_has_no_numbers_that_are_not_finite() -> None:
    numbers = [plain(v) for v in (np.int64(3), 0.5, math.inf, math.nan)]
    assert numbers == [3, 0.5, None, None]
    assert type(numbers[0]) is int


def test_a_mixture_names_its_three_largest_shares() -> None:
    assert mixture_in_words(np.array([0.3, 0.7]), ["a", 2]) == "70% '2', 30% 'a'"
    assert mixture_in_words(np.array([0.0, 1.0]), ["a", "b"]) == "100% 'b'"
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    assert mixture_in_words(shares, list("abcd")) == "40% 'd', 30% 'c', 20% 'b' and 10% others"


def test_at_most_ten_small_domains_are_named() -> None:
    assert list(few_rows(["a", "b"], np.array([30, 31]))) == []
    assert list(few_rows(["a", "b"], np.array([29, 31]))) == [
        "Few rows, so little is known: 'a' (29)."
    ]
    (sentence,) = few_rows(range(12), np.ones(12, dtype=int))
    assert sentence.endswith("'8' (1), '9' (1) and 2 more.")
