"""The projection onto the simplex in O(p), with all digits that sums of floats can keep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anymix.solvers.compiled.compilation import fast, inline, part

Array = NDArray[np.float64]


@inline
def two_sum(v: Array, k: int, x: float) -> float:
    """v_k ← v_k + x; returns what rounding has taken from the sum, exactly (Knuth)."""
    before, v[k] = v[k], v[k] + x
    added = v[k] - before
    return float((before - (v[k] - added)) + (x - added))


@part
def project_simplex(v: Array, lost: Array, p: int) -> None:
    """v ← max(v + lost − τ, 0) with Σ = 1, for p finite numbers and what their rounding has lost.

    Those under τ leave and τ rises, until none leaves (Michelot, 1986). At a tie, rounding may let
    some come back and leave again for ever; so the loop goes on only while fewer are left.
    """
    top = largest(v, p)
    for k in range(p):
        v[k] = (v[k] - top) + lost[k]  # no digit is lost near the top, where λ lives
    top = largest(v, p)  # not 0: of numbers beyond 2⁵³ rounding takes more than 1
    for k in range(p):
        v[k] -= top
    n, tau = p + 1, max((sum_all(v, p) - 1) / p, -1.0)  # the largest v is 0 and λ ≤ 1, so τ ≥ −1
    total, n_above = lower(v, p, tau)  # τ < 0, so the largest stays above it and n_above ≥ 1
    while n_above < n:
        n = n_above
        total, n_above = lower(v, p, (total - 1) / n)
    tau = (total - 1) / n_above  # what rounding has left
    for k in range(p):
        v[k] = max(v[k] - tau, 0.0)


@inline
def largest(v: Array, p: int) -> float:
    """The largest of p numbers."""
    top = v[0]
    for k in range(1, p):
        top = max(top, v[k])
    return float(top)


@fast
def sum_all(v: Array, p: int) -> float:
    """The sum of p numbers."""
    total = 0.0
    for k in range(p):
        total += v[k]
    return total


@fast
def lower(v: Array, p: int, tau: float) -> tuple[float, int]:
    """v ← v − τ; the sum and the number of those above 0."""
    total, n = 0.0, 0
    for k in range(p):
        v[k] -= tau
        above = v[k] > 0
        total += v[k] if above else 0.0  # not `if above:`, which takes five times as long
        n += above
    return total, n
