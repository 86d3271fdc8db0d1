"""Which of three ways bounds max_{λ∈Λ} Σ_k λ_k L_k most tightly, before any loss is seen.

    union      u_k for every domain at level δ_k, Σ δ_k ≤ δ:         max_Λ ⟨λ, u⟩
    corners    u_c for every corner c of Λ at level δ/N:             max_c u_c
    center     u of the centre c, and how far Λ is from it:          see `Bounded`

All three hold for every λ ∈ Λ at once. The way, and the δ_k, depend on Λ and on the numbers of rows
alone: a choice that saw the losses would have to pay for it. Corners and centre do pay: they leave
a part of δ to a plain union, which is better where losses are near their limit (`Bounded._capped`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing.concentration import BET
from anymix.mixtures import MixtureSet

Array = NDArray[np.float64]

__all__ = ["choose_way", "split", "spread"]

MOST_CORNERS = 64  # beyond it the bound of every corner takes too long
EVEN = 0.6  # the part of δ that every domain gets an equal share of, whatever its size
LARGE = 0.02  # with more than this for each domain, an equal share for all: little is to be gained
ROUNDS = 40
USUAL = 0.2  # the standard deviation of a usual loss, for M = 1


def split(sizes: Array, target: MixtureSet, delta: float) -> Array:
    """δ_k with Σ δ_k = δ that make max_Λ Σ λ_k √(log(1/δ_k)/m_k) small.

    Small domains decide how wide the bound of a worst mixture is, so they get more of δ. At the
    least value the worst λ has λ_k ∝ δ_k √(m_k log(1/δ_k)); this is played, the mean of the worst
    λ so far against the δ that fit it. Each domain keeps 0.6 δ/p: it may be the worst one.

    Parameters
    ----------
    sizes : ndarray of shape (p,)
        m_k, the rows of each domain.
    target : MixtureSet
        Λ.
    delta : float
        δ, how often all may fail.

    Returns
    -------
    ndarray of shape (p,)

    Examples
    --------
    >>> from anymix.mixtures import Simplex
    >>> split(np.array([10.0, 1000.0]), Simplex(2), 0.02).round(4)
    array([0.014, 0.006])
    """
    p = len(sizes)
    even = np.full(p, EVEN * delta / p)
    if delta / p > LARGE or (target.is_simplex and np.ptp(sizes) == 0):
        return np.full(p, delta / p)
    mixture, deltas = target.center, np.full(p, delta / p)
    for t in range(ROUNDS):
        worst = target.maximize(np.sqrt(np.log(1 / deltas) / sizes))
        mixture += (worst - mixture) / (t + 2)
        fitting = mixture / np.sqrt(sizes * np.log(1 / deltas))
        deltas = even + (1 - EVEN) * delta * fitting / fitting.sum()
    return np.asarray(deltas)


def spread(target: MixtureSet) -> float:
    """ρ = √(max_Λ χ²(λ‖c)), how far Λ reaches from its centre c."""
    return math.sqrt(max(target.skewness(np.maximum(target.center, 1e-12)) - 1, 0.0))


def choose_way(
    sizes: Array, target: MixtureSet, delta: float, *, disjoint: bool, spare: float = 0.0
) -> str:
    """The way that would be narrowest by Bernstein's inequality, if all losses had a usual spread.

    Without a spare part of δ, corners and centre are taken only where Hoeffding's inequality alone
    makes them narrower than the union of all domains at δ/p each: no value is above that one.

    Parameters
    ----------
    sizes : ndarray of shape (p,)
        m_k, the rows of each domain.
    target : MixtureSet
        Λ.
    delta : float
        δ, how often the bound may fail.
    disjoint : bool
        Whether no row is in two domains; otherwise only the union holds.
    spare : float
        The part of δ that corners and centre must leave to a second bound, in [0, 1).

    Returns
    -------
    {"union", "corners", "center"}

    Examples
    --------
    >>> from anymix.mixtures import Chi2Ball, Point, Simplex
    >>> sizes = np.full(20, 50.0)
    >>> for target in (Simplex(20), Point(sizes / 1000), Chi2Ball(sizes, 1.01)):
    ...     print(choose_way(sizes, target, 0.05, disjoint=True))
    union
    corners
    center
    """
    if not disjoint:
        return "union"
    ways = {"union": _union, "corners": _at_corners, "center": _around_center}
    left = {"union": delta, "corners": (1 - spare) * delta, "center": (1 - spare) * delta}
    tried = [way for way in ways if way == "union" or spare or _is_safe(way, sizes, target, delta)]
    return min(tried, key=lambda way: ways[way](_bernstein, sizes, target, left[way]))


def _is_safe(way: str, sizes: Array, target: MixtureSet, delta: float) -> bool:
    """Whether the way is below Σ λ_k √(log(p/δ)/(2 m_k)), by Hoeffding's inequality alone."""
    even = np.sqrt(math.log(len(sizes) / delta) / (2 * sizes))
    if way == "center":
        least = float(target.maximize(-even) @ even)
        return _around_center(_hoeffding, sizes, target, delta) <= least
    corners = target.corners
    if corners is None or len(corners) > MOST_CORNERS:
        return False
    log = math.log(len(corners) / delta)
    return bool(np.all(_hoeffding(corners**2 @ (1 / sizes), 0.0, log) <= corners @ even))


# Widths -----------------------------------------------------------------------------------------

Width = Callable[[Array | float, Array | float, Array | float], Any]


def _hoeffding(squares: Any, largest: Any, log: Any) -> Any:
    """√(½ Σ w² log), for M = 1 and rows that weigh w."""
    return np.sqrt((log - math.log(1 - BET)) * squares / 2)


def _bernstein(squares: Any, largest: Any, log: Any) -> Any:
    """σ √(2 Σ w² log) + w_max log/3 for a usual σ."""
    log = log - math.log(BET)
    return USUAL * np.sqrt(2 * log * squares) + largest * log / 3


def _union(width: Width, sizes: Array, target: MixtureSet, delta: float) -> float:
    """max_Λ Σ λ_k width_k."""
    ends = width(1 / sizes, 1 / sizes, np.log(1 / split(sizes, target, delta)))
    return float(target.maximize(ends) @ ends)


def _at_corners(width: Width, sizes: Array, target: MixtureSet, delta: float) -> float:
    """The largest width of a corner at δ/N; two games are played where rows weigh differently."""
    corners = target.corners
    if corners is None or len(corners) > MOST_CORNERS:
        return math.inf
    log = math.log(2 * len(corners) / delta)
    return float(np.max(width(corners**2 @ (1 / sizes), np.max(corners / sizes, axis=1), log)))


def _around_center(width: Width, sizes: Array, target: MixtureSet, delta: float) -> float:
    """The width of the centre at δ/2, and ρ times how far all domains may be off at δ/2."""
    c, p = target.center, len(sizes)
    if c.min() <= 0:
        return math.inf
    middle = width(float(c**2 @ (1 / sizes)), float(np.max(c / sizes)), math.log(4 / delta))
    off = width(1 / sizes, 1 / sizes, math.log(4 * p / delta))
    return float(middle + spread(target) * math.sqrt(c @ off**2))
