from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anymix.errors import InputError
from anymix.flower.fixed_point import FixedPoint
from anymix.flower.masking import (
    join,
    new_key,
    new_secret,
    open_share,
    pair_secret,
    public_key,
    seal_share,
    split,
)

FORM = FixedPoint(2.0**-50, 2.0**30)
numbers = st.lists(
    st.floats(min_value=-(2.0**30), max_value=2.0**30, allow_nan=False), min_size=1, max_size=8
)


@given(st.lists(st.tuples(*[st.floats(-1e9, 1e9)] * 2), min_size=1, max_size=12))
def test_sums_of_words_are_sums_of_numbers(values: list[tuple[float, float]]) -> None:
    from fractions import Fraction

    table = np.array(values)
    total = sum((FORM.words(row) for row in table), np.zeros((2, 2), np.uint64))
    exact = [float(sum(map(Fraction, column))) for column in table.T.tolist()]
    error = np.abs(FORM.numbers(total) - exact)
    assert np.all(error <= FORM.grain(len(values)) + 2.0**-52 * np.abs(exact))


@given(numbers)
def test_there_and_back(values: list[float]) -> None:
    x = np.array(values)
    wide = FixedPoint(2.0**-80, 2.0**60)
    back = FORM.numbers(FORM.words(x))
    assert np.all(np.abs(back - x) <= 2.0**-51 + 2.0**-53 * np.abs(x))
    back = wide.numbers(wide.words(x))
    assert np.all(np.abs(back - x) <= 2.0**-81)  # as good as a float
    assert wide.n_limbs == 3


@pytest.mark.parametrize("value", [2.0**30 + 1, -(2.0**31), np.nan, np.inf])
def test_what_does_not_fit_is_an_error(value: float) -> None:
    with pytest.raises(InputError, match="a sum is"):
        FORM.words(np.array([0.0, value]))


@pytest.mark.parametrize(("threshold", "n"), [(2, 3), (4, 6), (34, 50)])
def test_enough_shares_give_the_secret_and_fewer_do_not(threshold: int, n: int) -> None:
    secret = new_secret()
    shares = dict(enumerate(split(secret, threshold, n), start=1))
    rng = np.random.default_rng(0)
    for _ in range(3):
        some = rng.permutation(n)[:threshold] + 1
        assert join({int(i): shares[int(i)] for i in some}) == secret
        few = some[:-1]
        assert join({int(i): shares[int(i)] for i in few}) != secret


def test_fewer_shares_say_nothing_for_any_secret_fits_them() -> None:
    """With t − 1 shares and any other secret there is a polynomial through all of them."""
    a, b = (new_secret() for _ in range(2))
    first = split(a, 2, 2)[0]
    other = {0: b, 1: first}  # the line through (0, b) and (1, share)
    values = {i: int.from_bytes(v, "big") for i, v in other.items()}
    prime = 2**255 - 19
    third = (values[0] + 3 * (values[1] - values[0])) % prime
    assert join({1: first, 3: third.to_bytes(32, "big")}) == b


def test_a_share_is_read_by_one_client_for_one_question_only() -> None:
    a, b, c = (new_key() for _ in range(3))
    secret, share = pair_secret(a, public_key(b)), b"s" * 32
    sealed = seal_share(share, secret, "a", b"question")
    assert open_share(sealed, pair_secret(b, public_key(a)), "a", b"question") == share
    assert open_share(sealed, secret, "a", b"another") is None
    assert open_share(sealed, secret, "b", b"question") is None
    assert open_share(sealed, pair_secret(c, public_key(a)), "a", b"question") is None
    assert share not in sealed
