"""The largest value of a convex function over Λ, which is at a corner.

Where the corners can be listed (the simplex, hulls, boxes of up to twelve domains, any set of two
domains), all of them are tried, and the maximum is global. Elsewhere (χ² balls) it is climbed from
many starts, and what is found is a lower value of the maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anymix.mixtures import MixtureSet

Array = NDArray[np.float64]

__all__ = ["Largest", "largest_at"]

STARTS = 8  # domains, and random directions, from whose corners a climb starts
STEP = 1e-6  # of differences


class Largest(NamedTuple):
    """A mixture, the value there, and whether no other has a larger one."""

    mixture: Array
    value: float
    is_global: bool


def largest_at(f: Callable[[Array], float], target: MixtureSet) -> Largest:
    """max f over Λ for a convex f."""
    corners = target.corners
    if corners is not None:
        values = [f(c) for c in corners]
        k = int(np.argmax(values))
        return Largest(corners[k], values[k], True)
    towards = np.random.default_rng(0).normal(size=(STARTS, target.n_domains))
    towards = np.vstack((np.eye(target.n_domains)[:STARTS], towards))
    starts = [target.center, *(target.maximize(v) for v in towards)]
    found = [_climb(f, target, start) for start in starts]
    best = max(found, key=lambda pair: pair[1])
    return Largest(*best, False)


def _climb(f: Callable[[Array], float], target: MixtureSet, start: Array) -> tuple[Array, float]:
    """λ ← argmax over Λ of the tangent at λ, which lies below f: f never falls."""
    lam, value = start, f(start)
    for _ in range(100):
        slope = np.array([(f(lam + STEP * e) - value) / STEP for e in np.eye(lam.size)])
        other = target.maximize(slope)
        higher = f(other)
        if higher <= value + 1e-12 * abs(value):
            break
        lam, value = other, higher
    return lam, value
