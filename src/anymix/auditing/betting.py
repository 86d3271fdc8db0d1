"""A lower bound on the mean of numbers y in [0, top] that holds for every distribution.

    W_t = W_{t−1} (1 + b (y_t − ν)),      with L = log(G/W_{t−1}) and r = n − t + 1 rows to come
    b = min(max(√(2/(r s²)) h(L), (e^(L/r) − 1)/(top − ν)), 0.95/ν)

W is the wealth of a gambler who bets against the hypothesis that the mean is at most ν. Bets depend
on the past only, so W is then a supermartingale, E W ≤ 1, and P(W ≥ 1/tail) ≤ tail (Markov). The
bound is the least ν that is not refuted. The gambler aims at the goal G, stops there, and bets what
would be best if the rest of the rows had the variance s² seen so far (STaR-Bets, Voráček and
Orabona 2025), but in the last 63 rows at least what reaches G if all to come are at the top.

W falls as ν grows, so halving finds the bound. Proof for one row: let h(L) = √L for L ≥ ½, below it
e^(L − ½)/√2; then h' ≤ h, and W b does not fall as W grows. With b ν ≤ 1, more wealth before a row
is more after it, for either of the two bets, and whoever has reached G stays there. Given W,
b (y − ν) falls as ν grows.

Which rows come first is luck. So up to 500 rows are read in 16 orders that do not depend on them,
each towards G = 4/(3 tail). The mean of the 16 wealths refutes like one alone; it takes 12 that
reach G. Up to 10,000 rows are read in 4 orders, and more only once, shuffled, with G = 1/tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

__all__ = ["lowest_mean", "lowest_of_mixture"]

ENOUGH = 0.75  # the part of the orders that must reach the goal
MOST = 2**18  # games; of more rows, means of several are bet on
CAP = 0.95
PRECISE = 1e-3  # of the distance between mean and bound


def lowest_mean(
    y: Array, tail: float, top: float = math.inf, weights: Array | None = None
) -> float:
    """A lower bound on the mean of independent, identically distributed rows.

    Rows of weight w are kept with probability w/max w, differently in each order: those kept are
    draws from the weighted distribution, of which the bound then is.
    """
    n = len(y)
    rng = np.random.default_rng(n)
    order = rng.permutation(n)
    if weights is None or np.ptp(weights) <= 1e-12 * weights.max():
        x = _games(y[order])  # one shuffle, read from several places on
        starts = _orders(n) * len(x) // len(_orders(n))
        return _lowest(np.concatenate((x, x)), starts, starts + len(x), tail, top)
    chance = weights / weights.max()
    kept = [np.roll(order, -i)[rng.random(n) < np.roll(chance[order], -i)] for i in _orders(n)]
    return _lowest_of(y, kept, tail, top)


def lowest_of_mixture(
    parts: Sequence[Array], mixture: Array, tail: float, top: float = math.inf
) -> float:
    """A lower bound on Σ_k λ_k E y_k for one mixture λ, from rows of every domain with λ_k > 0.

    A domain is drawn with probability λ_k and its next row is taken, until the domain drawn has no
    row left: these rows are independent draws from the mixture. Each order draws anew.
    """
    first = np.cumsum([0] + [len(x) for x in parts])
    rng = np.random.default_rng(int(first[-1]))
    drawn = [_drawn(first, mixture, rng) for _ in _orders(int(first[-1]))]
    return _lowest_of(np.concatenate(list(parts)), drawn, tail, top)


def _orders(n: int) -> Rows:
    """Fewer for many rows: the bound is then near the mean, whatever comes first."""
    return np.arange(16 if n <= 500 else 4 if n <= 10_000 else 1)


def _drawn(first: Rows, mixture: Array, rng: np.random.Generator) -> Rows:
    """Rows of a sample from the mixture, which ends where the domain drawn has no row left."""
    sizes, n = np.diff(first), int(first[-1])
    domain = rng.choice(len(sizes), n, p=mixture)
    rows, end = np.empty(n, dtype=np.intp), n
    for k in np.flatnonzero(mixture):
        turns = np.flatnonzero(domain == k)
        if len(turns) > sizes[k]:
            end = min(end, int(turns[sizes[k]]))
        turns = turns[: sizes[k]]
        rows[turns] = first[k] + rng.permutation(sizes[k])[: len(turns)]
    return rows[:end]


def _games(x: Array) -> Array:
    """The rows, or where there are very many the means of so many in a row."""
    each = -(-len(x) // MOST)
    return x if each <= 1 else x[: len(x) // each * each].reshape(-1, each).mean(axis=1)


def _lowest_of(y: Array, orders: Sequence[Rows], tail: float, top: float) -> float:
    games = [_games(y[rows]) for rows in orders]
    ends = np.cumsum([0] + [len(x) for x in games])
    return _lowest(np.concatenate(games), ends[:-1], ends[1:], tail, top)


def _lowest(x: Array, starts: Rows, stops: Rows, tail: float, top: float) -> float:
    """The least mean that the games x[start:stop] together do not refute."""
    pairs = zip(starts.tolist(), stops.tolist(), strict=True)
    high = max(float(np.mean(x[a:b])) if b > a else 0.0 for a, b in pairs)
    if high <= 0:
        return 0.0
    usual = math.sqrt(2 * math.log(1 / tail) * float(np.var(x / high)) / max(stops - starts))
    found = _compiled()(x / high, starts, stops, tail, top / high, ENOUGH, usual, PRECISE)
    return high * float(found)


def _least_not_refuted(
    x: Array,
    starts: Rows,
    stops: Rows,
    tail: float,
    top: float,
    enough: float,
    usual: float,
    precise: float,
) -> float:
    """The ν in [0, 1] at which the mean wealth is 1/tail, from below; about 1 − usual."""
    orders = len(starts)
    goal = -math.log(tail if orders == 1 else enough * tail)
    low, high, step = 0.0, 1.0, max(usual, 1e-9) / 2
    while high - low > precise * (1 - low) and high > 1e-15:
        ν = (low + high) / 2
        if low == 0 and step < 1:  # first downwards in steps that double
            ν, step = 1 - step, 2 * step
        wealth = 0.0
        for s in range(orders):
            most = wealth + math.exp(goal) * (orders - s)
            if wealth * tail >= orders or most * tail < orders * (1 - 1e-9):
                break  # decided
            start, n = starts[s], stops[s] - starts[s]
            log_w, mean, squares, largest = 0.0, 0.0, 0.0, 0.0
            for t in range(n):
                y, L, r = x[start + t], goal - log_w, n - t
                h2 = L if L >= 0.5 else math.exp(2 * L - 1) / 2
                # s² counts four tosses of a coin first; where the limit is far, a coin of less
                coin = min(top, 4 * largest) if largest > 0 else top
                b = math.sqrt(2 * h2 * (t + 4) / (r * (coin * coin + squares)))
                if r < 64:
                    b = max(b, math.expm1(L / r) / (top - ν))
                b = min(b, CAP / ν)  # one row of 0 must not be ruin
                log_w += math.log(max(1 + b * (y - ν), 0.0))
                if log_w >= goal:
                    log_w = goal
                    break
                if log_w < -20:
                    log_w = -math.inf  # gives up: counts as nothing
                    break
                off = y - mean
                mean += off / (t + 1)
                squares += off * (y - mean)
                largest = max(largest, y)
            wealth += math.exp(log_w)
        if wealth * tail >= orders * (1 - 1e-12):
            low = ν
        else:
            high = ν
    return low


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., float]:
    """Lazy: an audit of labels needs no Numba. Kept on disk where that can be written."""
    from numba import njit

    options = {"nogil": True, "error_model": "numpy"}
    try:
        return cast("Callable[..., float]", njit(_least_not_refuted, cache=True, **options))
    except RuntimeError:  # no folder to write to
        return cast("Callable[..., float]", njit(_least_not_refuted, **options))
