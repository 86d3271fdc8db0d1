"""Step sizes: a number, or a function of the step number t = 1, 2, …"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

from anymix.errors import InputError

Schedule = float | Callable[[int], float]

__all__ = ["Constant", "Schedule", "as_function"]


def as_function(name: str, step: Schedule) -> Callable[[int], float]:
    """The size of step t as a function of t, every size checked.

    Examples
    --------
    >>> as_function("step_w", lambda t: 1 / t)(4)
    0.25
    """
    if callable(step):
        return lambda t: _size(f"{name}({t})", step(t))
    return Constant(_size(name, step))


@dataclass(frozen=True)
class Constant:
    """The same size at every step.

    Parameters
    ----------
    size : float
        That of all steps.

    Examples
    --------
    >>> Constant(0.5)(7)
    0.5
    """

    size: float

    def __call__(self, t: int) -> float:
        """The size, whatever t is."""
        return self.size


def _size(name: str, step: float) -> float:
    if not (isinstance(step, Real) and 0 <= step < math.inf):
        fix = "give a number ≥ 0, or a function of the step number"
        raise InputError(name, f"is {step!r}", fix)
    return float(step)
