"""Where a continuous function crosses zero. SciPy has more such methods, but loads in 0.2 s."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

__all__ = ["crossing"]


def crossing(f: Callable[[float], float], low: float, high: float, width: float = 1e-12) -> float:
    """A point of [low, high] where f changes its sign, right to about `width`.

    Ridders' method (1979): every round halves the bracket at least, and soon doubles the digits.

    Parameters
    ----------
    f : function
        Continuous, and not of one sign at both ends.
    low, high : float
        The bracket.
    width : float
        How little the last two guesses differ, or a few times the spacing of floats there.

    Returns
    -------
    float

    Examples
    --------
    >>> round(crossing(lambda x: x * x - 2, 0.0, 2.0), 12)
    1.414213562373
    """
    at_low, at_high, last = f(low), f(high), math.inf
    if at_low and at_high and (at_low > 0) == (at_high > 0):
        raise ValueError(f"f has one sign at both ends, {low} and {high}")
    while at_low and at_high:
        middle = 0.5 * (low + high)
        at_middle = f(middle)
        ratio = math.hypot(at_middle, math.sqrt(abs(at_low)) * math.sqrt(abs(at_high)))
        toward = math.copysign(middle - low, at_low)
        x = middle + toward * at_middle / ratio
        near = width + 4e-16 * abs(x)
        if high - low <= near:
            return x
        found = [(low, at_low), (middle, at_middle), (x, f(x)), (high, at_high)]
        if abs(x - last) <= near:  # two guesses that agree may both be wrong
            found += [(z, f(z)) for z in (x - near, x + near) if low < z < high]
        last, ends = x, sorted(found)
        for (a, at_a), (b, at_b) in itertools.pairwise(ends):
            if (at_a > 0) != (at_b > 0):
                low, at_low, high, at_high = a, at_a, b, at_b
                break
    return high if at_low else low
