"""Checks of what a caller gives: numbers, one a domain; mixtures; sizes."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError, finite_vector

Array = NDArray[np.float64]

SUM_ROUNDING = 64 * float(np.finfo(np.float64).eps)


def count(argument: str, value: int) -> int:
    """A whole number ≥ 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError(argument, f"is {value!r}", "give a whole number ≥ 1")
    return int(value)


def generator(argument: str, seed: Any) -> np.random.Generator:
    """The generator that a seed stands for; one is taken as it is."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        fix = "give a whole number ≥ 0, a Generator, or None"
        raise InputError(argument, f"is {seed!r}", fix) from None


def vector(argument: str, values: ArrayLike, n: int | None = None) -> Array:
    """Finite numbers (n,); with n None as many as there are, but at least one."""
    if n is None:
        values = _numbers(argument, values)
        if values.ndim != 1 or values.size == 0:
            raise InputError(argument, f"has shape {values.shape}", "give one number a domain")
        n = values.size
    return finite_vector(argument, values, n)


def matrix(argument: str, values: ArrayLike, n: int | None = None) -> Array:
    """Finite numbers (n, any); with n None as many rows as there are, but at least one entry."""
    array = _numbers(argument, values)
    if array.ndim != 2 or n not in (None, len(array)) or (n is None and array.size == 0):
        rows = "at least one row" if n is None else f"{n} rows"
        raise InputError(argument, f"has shape {array.shape}", f"give a matrix of {rows}")
    finite_vector(argument, array.ravel(), array.size)
    return array


def positive(argument: str, values: ArrayLike, n: int | None = None) -> Array:
    """Numbers > 0, (n,)."""
    array = vector(argument, values, n)
    if array.min() <= 0:
        k = int(np.argmin(array))
        raise InputError(argument, f"has {array[k]} at index {k}", "give numbers > 0")
    return array


def proportions(sizes: ArrayLike, n: int | None = None) -> Array:
    """m̄ = sizes / Σ sizes, (n,)."""
    sizes = positive("sizes", sizes, n)
    sizes = sizes / sizes.max() if sizes.max() > 1e300 else sizes  # Σ must not overflow
    return np.asarray(sizes / sizes.sum())


def one_mixture(argument: str, values: ArrayLike, n: int | None = None) -> Array:
    """λ ≥ 0 with Σ λ = 1, (n,), as a copy."""
    return _normalized(argument, vector(argument, values, n))


def many_mixtures(argument: str, values: ArrayLike) -> Array:
    """A mixture in each row, as a copy."""
    return _normalized(argument, matrix(argument, values))


def _numbers(argument: str, values: ArrayLike) -> Array:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        found = f"is no array of numbers ({error})"
        raise InputError(argument, found, "give numbers only") from None


def _normalized(argument: str, array: Array) -> Array:
    sums = array.sum(axis=-1, keepdims=True)
    worst = sums.flat[np.argmax(np.abs(sums - 1))]
    if array.min() < 0 or abs(worst - 1) > 1e-9:
        found = f"has the minimum {array.min()} and the sum {worst}"
        raise InputError(argument, found, "give numbers ≥ 0 that sum to 1")
    if np.max(np.abs(sums - 1)) <= SUM_ROUNDING:
        return array.copy()  # so that a copy of a copy stays the same
    return np.asarray(array / sums)
