"""InputError keeps its parts, also through pickling; the checks refuse what is no finite number."""

import math
import pickle
from typing import Any

import numpy as np
import pytest

from anymix.errors import InputError, finite_number, finite_vector


def test_an_error_reads_as_one_line_and_keeps_its_parts_when_pickled() -> None:
    error = pickle.loads(pickle.dumps(InputError("X", "has no rows", "give at least one")))
    assert str(error) == "X has no rows; give at least one"
    assert (error.argument, error.found, error.fix) == ("X", "has no rows", "give at least one")
    assert isinstance(error, ValueError)


def test_without_an_argument_the_line_starts_with_what_was_found() -> None:
    assert str(InputError("", "there are no rows", "give some")) == "there are no rows; give some"


@pytest.mark.parametrize("value", [math.nan, math.inf, "3", None, True, [1.0], 1j])
def test_what_is_no_finite_number_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=r"gamma is .*; give a number"):
        finite_number("gamma", value, "give a number")


def test_numbers_that_are_not_allowed_are_refused() -> None:
    with pytest.raises(InputError, match="gamma is -1; give a number ≥ 0"):
        finite_number("gamma", -1, "give a number ≥ 0", lambda x: x >= 0)
    assert finite_number("gamma", np.float32(0.5), "give a number") == 0.5


@pytest.mark.parametrize("values", [[1.0], [[1.0, 2.0]], [1.0, math.nan], ["a", "b"], [1.0, None]])
def test_what_is_no_vector_of_the_length_is_refused(values: Any) -> None:
    with pytest.raises(InputError, match="sizes"):
        finite_vector("sizes", values, 2)
