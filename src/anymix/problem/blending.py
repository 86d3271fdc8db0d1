"""One number between two models: α ∈ [0, 1] on α h + (1 − α) h_k, by rows that neither has seen.

    min_{0 ≤ α ≤ 1} f(α) = mean of ℓ(α aᵢ + (1 − α) bᵢ)

"log": a and b are the probabilities that the two models gave to what came true, ℓ(m) = −log m.
"squared": a and b are their errors, ℓ(m) = ½ m². Both are convex in α, so the least is found
exactly. h is the shared model, h_k the own model of a domain or client (Section 6 of the paper).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from anymix.errors import InputError

Array = NDArray[np.float64]

__all__ = ["FEWEST_ROWS", "Blend", "best_blend", "least_alpha"]

FEWEST_ROWS = 10
"""Rows of a domain; fewer do not tell enough to leave the shared model."""
FEW_ROWS = 30  # up to here the shared model gets the benefit of the doubt
GRID = 400  # points at which the last α that is as good as the best is looked for


class Blend(NamedTuple):
    """What was chosen, and the mean loss on the rows it was chosen by."""

    alpha: float  # share α of the shared model
    loss: float  # f(α)
    shared: float  # f(1)
    own: float  # f(0)


def best_blend(a: Array, b: Array, kind: str, z: float = 1.0) -> Blend:
    """The α of least loss; of few rows the largest that they cannot tell from it.

    With α* the minimiser of f: α* itself from thirty rows on. Below that, the largest α ≥ α* for
    which f(α) − f(α*) is at most z standard errors of the paired differences ℓᵢ(α) − ℓᵢ(α*), and
    f(α) ≤ min(f(0), f(1)), which is near the shared model. Below ten rows it is the shared model,
    α = 1.
    """
    shared, own = _value(a, b, kind, 1.0), _value(a, b, kind, 0.0)
    if len(a) < FEWEST_ROWS:
        return Blend(1.0, shared, shared, own)
    least = least_alpha(a, b, kind)
    sure = z == 0 or least == 1.0 or len(a) >= FEW_ROWS
    alpha = least if sure else _shrunk(a, b, kind, z, least, min(shared, own))
    return Blend(alpha, _value(a, b, kind, alpha), shared, own)


def least_alpha(a: Array, b: Array, kind: str) -> float:
    """argmin_{0 ≤ α ≤ 1} of the mean of ℓ(α a + (1 − α) b); the largest where it is not unique."""
    if kind not in ("log", "squared"):
        raise InputError("kind", f"is {kind!r}", "give 'log' or 'squared'")
    d = a - b
    if kind == "squared":
        square = float(d @ d)
        return 1.0 if square == 0 else float(np.clip(-(b @ d) / square, 0.0, 1.0))
    told = (a > 0) | (b > 0)  # what both hold impossible says nothing of α
    a, b, d = a[told], b[told], d[told]

    def slope(alpha: float) -> float:
        """f'(α) up to the factor n, which grows with α."""
        return -float(np.sum(d / (alpha * a + (1 - alpha) * b)))

    low, high = (1e-12 if np.any(b == 0) else 0.0), (1 - 1e-12 if np.any(a == 0) else 1.0)
    if slope(high) <= 0:
        return 1.0
    return 0.0 if slope(low) >= 0 else float(brentq(slope, low, high, xtol=1e-14, rtol=1e-14))


def _losses(a: Array, b: Array, kind: str, alpha: float) -> Array:
    m = alpha * a + (1 - alpha) * b
    if kind == "squared":
        return np.asarray(0.5 * m**2)
    with np.errstate(divide="ignore"):
        return -np.log(m)


def _value(a: Array, b: Array, kind: str, alpha: float) -> float:
    return float(np.mean(_losses(a, b, kind, alpha)))


def _shrunk(a: Array, b: Array, kind: str, z: float, least: float, limit: float) -> float:
    """The largest α ≥ α* that rows cannot tell from α*, and that is no worse than either model."""
    best = _losses(a, b, kind, least)

    def is_as_good(alpha: float) -> bool:
        more = _losses(a, b, kind, alpha) - best
        if not np.isfinite(more).all() or float(np.mean(best + more)) > limit:
            return False
        return bool(more.mean() <= z * more.std(ddof=1) / np.sqrt(len(more)))

    grid = np.linspace(least, 1.0, GRID)
    last = next((k for k in range(GRID - 1, 0, -1) if is_as_good(float(grid[k]))), 0)
    if last == GRID - 1:
        return 1.0
    low, high = float(grid[last]), float(grid[last + 1])
    if high - low > 0 and not is_as_good(low + 1e-9 * (high - low)):
        return low  # what is left would be rounding
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if is_as_good(middle) else (low, middle)
    return low
