"""Which of three ways bounds max_{λ∈Λ} Σ_k λ_k L_k most tightly, before any loss is seen.

    union      u_k for every domain at level δ_k, Σ δ_k ≤ δ:         max_Λ ⟨λ, u⟩
    corners    u_c for every corner c of Λ at level δ/N:             max_c u_c
    center     u of the centre c, and how far Λ is from it:          see `Bounded`

All three hold for every λ ∈ Λ at once. The way, and the δ_k, depend on Λ and on the numbers of rows
alone: a choice that saw the losses would have to pay for it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from anymix.mixtures import MixtureSet

Array = NDArray[np.float64]

__all__ = ["choose_way", "split", "spread"]

MOST_CORNERS = 64  # beyond it the bound of every corner takes too long
EVEN = 0.6  # the part of δ that every domain gets an equal share of, whatever its size
LARGE = 0.02  # with more than this for each domain, an equal share for all: little is to be gained
ROUNDS = 40


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


def choose_way(sizes: Array, target: MixtureSet, delta: float, *, disjoint: bool) -> str:
    """The way that would be narrowest if the losses of all rows had the same spread.

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
    ends = np.sqrt(np.log(1 / split(sizes, target, delta)) / sizes)
    widths = {"union": float(target.maximize(ends) @ ends)}
    if not disjoint:
        return "union"
    corners, c, p = target.corners, target.center, len(sizes)
    if corners is not None and len(corners) <= MOST_CORNERS:
        log = math.log(len(corners) / delta)
        widths["corners"] = math.sqrt(log * float(np.max(corners**2 @ (1 / sizes))))
    if c.min() > 0:
        middle = math.sqrt(math.log(2 / delta) * float(c**2 @ (1 / sizes)))
        off = math.sqrt(math.log(4 * p / delta) * float(c @ (1 / sizes)))
        widths["center"] = middle + spread(target) * off
    return min(widths, key=lambda way: widths[way])
