"""Numbers as whole ones, so that masks can be added to them and taken away without a trace.

A number x is the sum Σ_j q_j 2^(48 j) times the resolution, with whole q_j of at most 48 bits: its
limbs, the last of them rounded. Limbs are added modulo 2⁶⁴, each for itself; the sums of up to 2¹⁴
clients fit. So a sum over n clients is wrong by at most n/2 resolutions, whatever its size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError, finite_number

Array = NDArray[np.float64]
Words = NDArray[np.uint64]

__all__ = ["WIDTH", "FixedPoint"]

WIDTH = 48  # bits of a limb
MOST = 2 ** (62 - WIDTH)  # clients whose limbs can be added


@dataclass(frozen=True)
class FixedPoint:
    """Numbers up to `largest` in steps of `resolution`, both rounded to powers of two.

    Parameters
    ----------
    resolution : float
        The step, rounded down.
    largest : float
        The largest number, rounded up.

    Examples
    --------
    >>> form = FixedPoint(2.0**-50, 2.0**30)
    >>> words = form.words(np.array([0.1, -2e8])) + form.words(np.array([0.2, 2e8]))
    >>> form.numbers(words).tolist()
    [0.30000000000000..., 0.0]
    >>> form.n_limbs
    2
    """

    resolution: float
    largest: float

    def __post_init__(self) -> None:
        for name in ("resolution", "largest"):
            finite_number(name, getattr(self, name), "give a positive number", lambda x: x > 0)
        step, top = math.floor(math.log2(self.resolution)), math.ceil(math.log2(self.largest))
        object.__setattr__(self, "resolution", 2.0**step)
        object.__setattr__(self, "largest", 2.0**top)
        if top <= step:
            fix = "give a resolution below the largest number"
            raise InputError("resolution", f"is {self.resolution}", fix)

    @property
    def n_limbs(self) -> int:
        """How many limbs a number has; a bit more than its range, for the sign and the carry."""
        return math.ceil((math.log2(self.largest / self.resolution) + 2) / WIDTH)

    def words(self, values: Array) -> Words:
        """The limbs of some numbers, (limbs, n); InputError if one is too large or none at all."""
        most = float(np.max(np.abs(values), initial=0.0))
        if not most <= self.largest:
            fix = "give Secure a larger `largest`, or scale the columns"
            raise InputError("a sum", f"is {most:g}, beyond {self.largest:g}", fix)
        rest, limbs = values / self.resolution, []
        for j in reversed(range(self.n_limbs)):
            unit = 2.0 ** (WIDTH * j)
            limb = np.rint(rest / unit)
            rest = rest - limb * unit  # exact
            limbs.append(limb.astype(np.int64))
        return np.array(limbs[::-1]).view(np.uint64)

    def numbers(self, words: Words) -> Array:
        """The numbers that such limbs, or sums of them, stand for, (n,)."""
        limbs = words.view(np.int64).copy()
        half = np.int64(1) << np.int64(WIDTH - 1)
        for j in range(len(limbs) - 1):
            carry = (limbs[j] + half) >> np.int64(WIDTH)
            limbs[j] -= carry << np.int64(WIDTH)
            limbs[j + 1] += carry
        total = np.zeros(limbs.shape[1])
        for j in reversed(range(len(limbs))):
            total = total + limbs[j].astype(np.float64) * 2.0 ** (WIDTH * j)
        return total * self.resolution

    def grain(self, n_clients: int) -> float:
        """What rounding may do to the sum over so many clients."""
        return n_clients * self.resolution / 2
