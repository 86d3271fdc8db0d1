"""Upper bounds on a mean of numbers between 0 and M that hold for every distribution.

    P(μ > u) ≤ tail,    μ = Σ wᵢ E xᵢ,    0 ≤ xᵢ ≤ M independent,    wᵢ ≥ 0, Σ wᵢ = 1

Each method gives one u from the rows of a domain. A lower bound is M less the upper bound of M − x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv

from anymix.auditing.betting import BINS, lowest_mean, lowest_means
from anymix.errors import InputError

Array = NDArray[np.float64]

__all__ = [
    "METHODS",
    "bernstein",
    "betting",
    "betting_each",
    "binomial",
    "binomial_share",
    "clopper_pearson",
    "hoeffding",
    "largest_share",
    "least_share",
    "upper",
]

METHODS = ("betting", "bernstein", "hoeffding", "clopper_pearson")
"""The ways to bound a mean that can be asked for by name."""
BET = 0.3  # the part of the tail that the bets may use; the rest is for the binomial tail
LARGE_BET = 0.9  # that for losses far below their limit, where bets always win, such as log losses
STEPS = 45  # halvings: an error of 2⁻⁴⁵


def upper(
    x: Array,
    tail: float,
    most: float,
    method: str = "betting",
    weights: Array | None = None,
    bet: float = BET,
) -> float:
    """An upper bound on Σ wᵢ E xᵢ that is below it with probability ≤ tail, by the method named.

    Parameters
    ----------
    x : ndarray of shape (n,)
        Independent numbers in [0, most], at least one.
    tail : float
        How often the bound may be too low, such as 0.05.
    most : float
        M, what no number can be above.
    method : {"betting", "bernstein", "hoeffding", "clopper_pearson"}
        Which bound.
    weights : ndarray of shape (n,) or None
        The wᵢ ≥ 0, which add up to 1; None is 1/n for each.
    bet : float
        The part of the tail that bets may use, of "betting".

    Returns
    -------
    float
        At most M.

    Examples
    --------
    >>> upper(np.zeros(100), 0.05, 1.0) < upper(np.zeros(100), 0.05, 1.0, "hoeffding")
    True
    """
    if weights is not None and np.ptp(weights) <= 1e-12 * weights.max():
        weights = None  # all alike
    if method == "hoeffding":
        return hoeffding(x, tail, most, weights)
    if method == "betting":
        return betting(x, tail, most, weights, bet)
    if weights is not None:
        found = f"is {method!r}, which is for rows that all weigh the same"
        raise InputError("method", found, "say 'betting' or 'hoeffding'")
    return bernstein(x, tail, most) if method == "bernstein" else clopper_pearson(x, tail, most)


def hoeffding(x: Array, tail: float, most: float, weights: Array | None = None) -> float:
    """Σ wᵢ xᵢ + M √(½ Σ wᵢ² log(1/tail)), Hoeffding's inequality (1963); wᵢ = 1/n if None.

    Parameters
    ----------
    x : ndarray of shape (n,)
        The numbers.
    tail : float
        How often the bound may be too low.
    most : float
        M, what no number can be above.
    weights : ndarray of shape (n,) or None
        The wᵢ, which add up to 1.

    Returns
    -------
    float

    Examples
    --------
    >>> round(hoeffding(np.full(200, 0.25), np.exp(-4), 1.0), 12)  # √(4/400)
    0.35
    """
    square = 1 / len(x) if weights is None else float(weights @ weights)
    return min(most, _average(x, weights) + most * math.sqrt(square * math.log(1 / tail) / 2))


def bernstein(x: Array, tail: float, most: float) -> float:
    """x̄ + √(2 s² log(2/tail)/n) + 7 M log(2/tail)/(3(n − 1)), s² the variance seen.

    Maurer and Pontil, Empirical Bernstein bounds (2009), Theorem 4. Of one row, M.

    Parameters
    ----------
    x : ndarray of shape (n,)
        The numbers.
    tail : float
        How often the bound may be too low.
    most : float
        M, what no number can be above.

    Returns
    -------
    float

    Examples
    --------
    >>> round(bernstein(np.full(8, 0.25), 2 * np.exp(-0.75), 1.0), 12)  # no spread: 7 · 0.75/21
    0.5
    """
    n, log = len(x), math.log(2 / tail)
    if n == 1:
        return most
    spread = math.sqrt(2 * float(np.var(x, ddof=1)) * log / n)
    return min(most, float(np.mean(x)) + spread + 7 * most * log / (3 * (n - 1)))


def clopper_pearson(x: Array, tail: float, most: float = 1.0) -> float:
    """The largest share p with P(Bin(n, p) ≤ k) ≥ tail, times M: exact where x is 0 or M.

    Parameters
    ----------
    x : ndarray of shape (n,)
        Numbers that are 0 or M, the latter k times.
    tail : float
        How often the bound may be too low.
    most : float
        M.

    Returns
    -------
    float

    Examples
    --------
    >>> round(clopper_pearson(np.zeros(2), 0.25), 12)  # (1 − p)² = 0.25
    0.5
    """
    other = x[(x != 0) & (x != most)]
    if len(other):
        found = f"has the loss {other[0]:.4g}, which is neither 0 nor {most:g}"
        raise InputError("losses", found, "say method='betting', which is for all losses")
    return most * float(largest_share(int(np.sum(x == most)), len(x), tail))


def largest_share(k: ArrayLike, n: ArrayLike, tail: ArrayLike) -> Array:
    """The largest p with P(Bin(n, p) ≤ k) ≥ tail, for many k and n at once.

    Parameters
    ----------
    k : array-like of int
        How often it happened.
    n : array-like of int
        In how many rows.
    tail : array-like
        How often each bound may be too low.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> largest_share([0, 2], 2, 0.25)
    array([0.5, 1. ])
    """
    k, n = np.asarray(k), np.asarray(n)
    return np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 1 - np.asarray(tail)), 1.0)


def betting(
    x: Array, tail: float, most: float, weights: Array | None = None, bet: float = BET
) -> float:
    """The smaller of two bounds: bets against each mean at 0.3 tail, a binomial at 0.7 tail.

    The bets (`lowest_mean`) win where the numbers have little spread, as most losses do. Where they
    have as much as there can be, `least_share` is the better one: it is never above Hoeffding's
    bound. One of them fails with probability at most 0.3 tail + 0.7 tail.

    Parameters
    ----------
    x : ndarray of shape (n,)
        The numbers.
    tail : float
        How often the bound may be too low.
    most : float
        M, what no number can be above.
    weights : ndarray of shape (n,) or None
        The wᵢ, which add up to 1.
    bet : float
        The part of the tail for the bets, 0.3.

    Returns
    -------
    float

    Examples
    --------
    >>> round(betting(np.zeros(3), 0.05, 1.0), 4)
    0.6729
    """
    room = most - x
    if weights is None:
        bets = most - lowest_mean(room, bet * tail)
    else:
        bets = _bets(x, bet * tail, most, weights)
    return max(min(bets, binomial(x, (1 - bet) * tail, most, weights)), _average(x, weights))


def betting_each(parts: Sequence[Array], tails: Array, most: float, bet: float = BET) -> Array:
    """`betting` of each part, all at once; those with the same number of rows together.

    Parameters
    ----------
    parts : sequence of ndarray
        The numbers of each part, in [0, most].
    tails : ndarray of shape (m,)
        How often each bound may be too low.
    most : float
        M, what no number can be above.
    bet : float
        The part of the tail for the bets.

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> betting_each([np.zeros(3), np.zeros(30)], np.full(2, 0.05), 1.0).round(4)
    array([0.6729, 0.1057])
    """
    sizes = np.array([len(x) for x in parts])
    averages = np.array([float(np.mean(x)) for x in parts])
    shares = least_share(sizes * (1 - averages / most), sizes, (1 - bet) * tails)
    high = most * (1 - shares)
    for n in np.unique(sizes):
        these = np.flatnonzero(sizes == n)
        if n > 2 * BINS:  # nothing is won by doing several at once
            bets = [lowest_mean(most - parts[k], bet * tails[k]) for k in these.tolist()]
            high[these] = np.minimum(high[these], most - np.array(bets))
            continue
        room = most - np.array([parts[k] for k in these.tolist()])  # (parts, n)
        high[these] = np.minimum(high[these], most - lowest_means(room, bet * tails[these]))
    return np.asarray(np.maximum(high, averages))


def _bets(x: Array, tail: float, most: float, weights: Array) -> float:
    """Bets on weighted rows, in two games of half the tail each.

    Let v = n w. The games are about v (M − x), of mean M − μ, and v_max M − v x, of mean
    v_max M − μ. Unequal weights add spread to either: little to the first where x is near M, and
    little to the second where x is near 0.
    """
    v = len(x) * weights
    top = most * float(v.max())
    first = most - lowest_mean(v * (most - x), tail / 2)
    return min(first, top - lowest_mean(top - v * x, tail / 2))


def binomial(x: Array, tail: float, most: float, weights: Array | None = None) -> float:
    """M less a lower bound on Σ wᵢ E(M − xᵢ), by `least_share`: whatever the spread of x is.

    Divided by the largest weight, the terms wᵢ (M − xᵢ)/M are in [0, 1], and so are 1 − wᵢ xᵢ/M.
    Both sums, and Hoeffding's bound, are about the tail of the same Σ wᵢ xᵢ: the best of the three
    costs nothing.

    Parameters
    ----------
    x : ndarray of shape (n,)
        The numbers.
    tail : float
        How often the bound may be too low.
    most : float
        M, what no number can be above.
    weights : ndarray of shape (n,) or None
        The wᵢ, which add up to 1.

    Returns
    -------
    float

    Examples
    --------
    >>> round(binomial(np.zeros(3), 0.05, 1.0), 4)  # p³ = 0.05
    0.6316
    """
    n, room = len(x), most - x
    if weights is None:
        return most * (1 - float(least_share(room.sum() / most, n, tail)))
    w = weights / weights.max()
    sums = np.array([w @ room, n * most - w @ x]) / most
    top = n * float(weights.max())
    first, second = (top * least_share(sums, n, tail)).tolist()
    plain = hoeffding(x, tail, most, weights)
    return float(min(most * (1 - first), most * (top - second), plain))


def binomial_share(tail: float) -> float:
    """θ = 1.27/√(2 log(1/tail)), at most 0.7: `least_share` at θ tail is no wider than Hoeffding's.

    Hoeffding's bound of n numbers at `tail` is a normal deviation z = √(2 log(1/tail)) away, and
    what is left of its tail falls like 1/z. Tests try tails up to 0.2 and many n.

    Parameters
    ----------
    tail : float
        How often Hoeffding's bound may fail.

    Returns
    -------
    float

    Examples
    --------
    >>> round(binomial_share(np.exp(-8)), 4)  # z = 4
    0.3175
    """
    return min(1 - BET, 1.27 / math.sqrt(2 * math.log(1 / tail)))


def least_share(total: ArrayLike, n: ArrayLike, tail: ArrayLike) -> Array:
    """The p with min_{j<t} E(B − j)₊ / (t − j) = tail, B ~ Bin(n, p): a lower bound on E t/n.

    t is a sum of n independent numbers in [0, 1] of means pᵢ, p their mean. For every convex f,
    E f(t) ≤ E f(B) (Hoeffding, 1963). With f(t) = (t − j)₊, Markov's inequality gives
    P(sum ≥ t) ≤ E(B − j)₊/(t − j), and no other convex f gives less: the bounds of Chernoff,
    Hoeffding and Bentkus (2004) are larger. The best whole j is the first with E[B | B > j] ≥ t.

    Parameters
    ----------
    total : array-like
        t, sums of numbers in [0, 1].
    n : array-like of int
        How many numbers each is the sum of.
    tail : array-like
        How often each bound may be too high.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> round(float(least_share(3, 3, 0.05)), 4)  # E(B − 2)₊ = p³ = 0.05
    0.3684
    """
    t, n, tail = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (total, n, tail)))
    t = np.clip(t, 0, n)
    high = t / n
    low = np.maximum(high - np.sqrt(np.log(1 / tail) / (2 * n)), 0.0)  # Hoeffding's, never above
    first, last = np.zeros_like(t), np.maximum(np.ceil(t) - 1, 0)  # where the best j is
    for _ in range(STEPS):
        p = (low + high) / 2
        j = _best(t, n, p, first, last)
        rare = _above(j, n, p)[1] <= tail * (t - j)
        low, high = np.where(rare, p, low), np.where(rare, high, p)
        first, last = np.where(rare, first, j), np.where(rare, j, last)  # j falls as p grows
    return np.asarray(np.where(t > 0, low, 0.0))


def _best(t: Array, n: Array, p: Array, first: Array, last: Array) -> Array:
    """The first whole j with E[B | B > j] ≥ t, by halving."""
    while np.any(first < last):
        j = np.floor((first + last) / 2)
        above, excess = _above(j, n, p)
        enough = (excess >= (t - j) * above) | (first >= last)  # those found already stay
        first, last = np.where(enough, first, j + 1), np.where(enough, j, last)
    return first


def _above(j: Array, n: Array, p: Array) -> tuple[Array, Array]:
    """P(B > j) and E(B − j)₊ = n p P(Bin(n − 1, p) ≥ j) − j P(B > j)."""
    above = np.asarray(betainc(j + 1, n - j, p), dtype=np.float64)
    one_less = np.where(j > 0, betainc(np.maximum(j, 1), n - j, p), 1.0)
    return above, np.asarray(np.maximum(n * p * one_less - j * above, 0.0), dtype=np.float64)


def _average(x: Array, weights: Array | None) -> float:
    return float(np.mean(x) if weights is None else weights @ x)
