"""The same problem in numbers of moderate size, so that no square overflows or is lost.

All factors are powers of two: they change no digit.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from anymix.mixtures.projections import seen_from

Array = NDArray[np.float64]

FARTHEST = 200  # 2²⁰⁰ times as large is as good as infinitely large
NOTHING = -(10**6)  # the exponent of 0


def modest_losses(L: Array) -> Array:
    """L over a power of two if it is so large or small that its differences are not safe."""
    power = int(np.frexp(max(float(L.max()), -float(L.min())))[1])
    return np.ldexp(L, -max(power, -1000)) if abs(power) > 900 else L


def modest_projection(v: Array, w: Array | None) -> tuple[Array, Array]:
    """(v − t/w, 2⁻ᵏ w): the same projection as of v with weights w, and w v no more than 2²⁰⁰.

    t = max w v, so that no digit is lost near the largest entry, however large v is.
    """
    if w is None:
        w = np.ones_like(v)
    most = int(np.frexp(max(float(v.max()), -float(v.min()), 1.0))[1])
    w = np.ldexp(w, -int(np.frexp(w.max())[1]) - max(most - FARTHEST, 0))
    if most < FARTHEST:
        v = seen_from(int(np.argmax(w * v)), v, w)
    return v, w


def scaled(c: Array, F: Array, D: Array) -> tuple[Array, Array, Array]:
    """(c, F, D) of ½ θᵀ(F Fᵀ + diag D)θ − cᵀθ over powers of two: the minimum stays where it is.

    The largest entry of F Fᵀ + diag D comes near 1. Where c is more than 2²⁰⁰ times as large it is
    made smaller: the matrix decides only between entries with the same c, and it still does.
    """
    k, linear = max(_exponent(F), -(-_exponent(D) // 2)), _exponent(c)
    if k == NOTHING:
        return np.ldexp(c, -max(linear, -1000)), F, D
    if k in (0, 1) and linear <= FARTHEST:
        return c, F, D
    return np.ldexp(c, -max(2 * k, linear - FARTHEST)), np.ldexp(F, -k), np.ldexp(D, -2 * k)


def _exponent(x: Array) -> int:
    """e with |x| < 2ᵉ."""
    most = float(np.abs(x).max(initial=0.0))
    return math.frexp(most)[1] if most > 0 else NOTHING
