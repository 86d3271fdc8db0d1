"""The one way to refuse input: an error that names the argument, what was found, and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["InputError", "finite_number", "finite_vector", "need_extra"]


class InputError(ValueError):
    """Input that cannot be used. Reads as one line: "<argument> <found>; <fix>".

    The parts are kept apart, so that a caller with other names for the arguments, such as the
    command with its options, can say the same thing in its own words.

    Parameters
    ----------
    argument : str
        The name of the argument at fault; "" where the fault is not that of one argument.
    found : str
        What was found, such as "is -1" or "has 3 missing entries".
    fix : str
        What to do, such as "give a number ≥ 0".

    Examples
    --------
    >>> error = InputError("gamma", "is -1", "give a number ≥ 0")
    >>> print(error)
    gamma is -1; give a number ≥ 0
    >>> error.argument, error.found, error.fix
    ('gamma', 'is -1', 'give a number ≥ 0')
    """

    def __init__(self, argument: str, found: str, fix: str) -> None:
        super().__init__(argument, found, fix)
        self.argument, self.found, self.fix = argument, found, fix

    def __str__(self) -> str:
        return f"{self.argument} {self.found}; {self.fix}".lstrip()


def finite_number(
    argument: str, value: Any, fix: str, allowed: Callable[[float], bool] = lambda x: True
) -> float:
    """A finite number that is allowed, as float; otherwise an InputError with this fix.

    Parameters
    ----------
    argument : str
        The name to put into the error.
    value : object
        What the caller was given.
    fix : str
        What to do instead, such as "give a number ≥ 0".
    allowed : function
        float -> bool, whether the number will do.

    Returns
    -------
    float

    Examples
    --------
    >>> finite_number("mu", 2, "give a number ≥ 0", lambda x: x >= 0)
    2.0
    """
    real = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not (real and math.isfinite(value) and allowed(float(value))):
        raise InputError(argument, f"is {value!r}", fix)
    return float(value)


def finite_vector(argument: str, values: ArrayLike, n: int) -> NDArray[np.float64]:
    """n finite numbers as a float64 array of shape (n,); otherwise an InputError.

    Parameters
    ----------
    argument : str
        The name to put into the error.
    values : array-like
        What the caller was given.
    n : int
        How many numbers there must be.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> finite_vector("sizes", [1, 2], 2)
    array([1., 2.])
    """
    try:
        v = np.asarray(values)
        if v.dtype != np.float64:
            v = v.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(argument, f"is no list of numbers ({error})", f"give {n}") from None
    if v.shape != (n,):
        raise InputError(argument, f"has shape {v.shape}", f"give {n} numbers, ({n},)")
    if not (math.isfinite(np.vdot(v, v)) or np.isfinite(v).all()):  # Σ v² may overflow
        bad = v[~np.isfinite(v)][0]
        raise InputError(argument, f"has the entry {bad}", "give finite numbers")
    return v


def need_extra(extra: str, module: str) -> None:
    """Load a module that an extra installs; where it is missing, the error names the extra.

    Parameters
    ----------
    extra : str
        The name of the extra.
    module : str
        The package that it installs.

    Examples
    --------
    >>> need_extra("torch", "no_such_package")
    Traceback (most recent call last):
    ModuleNotFoundError: no_such_package is not installed; pip install 'anymix[torch]'
    """
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:  # it is there, but something that it needs is not
            raise
        said = f"{module} is not installed; pip install 'anymix[{extra}]'"
        raise ModuleNotFoundError(said, name=module) from None
