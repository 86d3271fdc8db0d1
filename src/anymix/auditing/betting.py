"""A lower bound on a mean that holds for every distribution, won by betting against it.

    W(ν) = Σ_b w_b ∏ᵢ (1 − b + b yᵢ/ν),    the bound is the ν with W(ν) = 1/tail

After Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting (2023).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from anymix.auditing.roots import crossing

Array = NDArray[np.float64]

__all__ = ["BINS", "lowest_mean", "lowest_means", "lowest_ratio"]

BINS = 1024
"""More rows than twice this are summed up in so many bins."""
AT_ONCE = 2**18  # numbers of many short columns that are worked on together


def lowest_mean(y: Array, tail: float) -> float:
    """A lower bound on the mean ν of independent y ≥ 0 that is above it with probability ≤ tail.

        W(ν) = Σ_b w_b ∏ᵢ (1 − b + b yᵢ/ν),    the bound is the ν with W(ν) = 1/tail

    W is the wealth of a gambler who bets the share b of it, row after row, that yᵢ is above ν, in
    the mean over some shares b. If ν is the mean of all E yᵢ, these games are fair or worse: by the
    inequality of the means, E W = Σ_b w_b ∏ᵢ (1 − b + b E yᵢ/ν) ≤ Σ_b w_b 1ⁿ = 1, so by Markov
    P(W(ν) ≥ 1/tail) ≤ tail. W falls as ν grows, so this is the probability that the bound is ≥ ν.

    Nothing depends on the order of the rows, which need not have the same distribution, and there
    is no upper limit of y. The best share b is 1 where all y are alike, and where n is large about
    √(2 log(1/tail)/n) ν/σ: hence the shares 1, ½, ¼, … up to 1/n, half of the weight on the first.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Independent numbers ≥ 0, at least one.
    tail : float
        How often the bound may be too high, such as 0.025.

    Returns
    -------
    float

    Examples
    --------
    >>> lowest_mean(np.array([4.0]), 0.025)  # one row: Markov's inequality, 4 · 0.025
    0.1
    >>> round(lowest_mean(np.array([1.0, 2.0, 3.0, 2.0] * 25), 0.025), 2)
    1.8
    """
    average = float(np.mean(y))
    if average <= 0:
        return 0.0
    values, counts = _in_bins(y / average)
    return average * lowest_ratio(values, counts, *_bets(len(y)), tail)


def lowest_ratio(values: Array, counts: Array, b: Array, w: Array, tail: float) -> float:
    """The bound of `lowest_mean` for y/ȳ, from how often each of its values occurs.

    If the bets b and their weights w do not depend on the number of rows, the bounds after 1, 2, …
    rows hold all at once: W is then a martingale, and Ville's inequality takes Markov's place.

    Parameters
    ----------
    values : ndarray of shape (m,)
        The values of y/ȳ, ≥ 0, of mean 1.
    counts : ndarray of shape (m,)
        How often each occurs, > 0; n in all.
    b : ndarray of shape (j,)
        The shares that are bet, 1 ≥ b > 0, the smallest one last.
    w : ndarray of shape (j,)
        Their weights, which add up to 1.
    tail : float
        How often the bound may be too high.

    Returns
    -------
    float
        In [0, 1].

    Examples
    --------
    >>> one = np.ones(1)
    >>> round(lowest_ratio(one, one, one, one, 0.025), 12)
    0.025
    """
    n = float(counts.sum())
    bets, lost = np.multiply.outer(b, values), b[:, None]

    def log_wealth(s: float) -> float:
        """log(W tail) at ν = e^s · average."""
        growth = np.log1p(bets * math.exp(-s) - lost) @ counts
        top = float(growth.max())
        return top + math.log(float(w @ np.exp(growth - top)) * tail)

    # here the largest y alone makes the least bet rich enough, even if all others are 0
    rich = math.log(w[-1] * b[-1] * float(values.max())) - 1
    start = math.log(tail) + rich + (n - 1) * (math.log1p(-b[-1]) if n > 1 else 0.0)
    with np.errstate(divide="ignore"):  # the bet b = 1 loses all where y = 0
        return math.exp(crossing(log_wealth, start, 0.0))


def lowest_means(y: Array, tail: float | Array) -> Array:
    """`lowest_mean` of each row of y, all at once: for many short ones that is far quicker.

    In s = log(ν/average) the wealth log W is convex and falls, so Newton's steps from the left
    never pass the root.

    Parameters
    ----------
    y : ndarray of shape (m, n)
        Numbers ≥ 0.
    tail : float or ndarray of shape (m,)
        How often each bound may be too high, such as 0.025.

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> lowest_means(np.array([[4.0], [0.0], [8.0]]), 0.025)
    array([0.1, 0. , 0.2])
    """
    m, n = y.shape
    tails = np.broadcast_to(np.asarray(tail, dtype=np.float64), (m,))
    if n > 2 * BINS:
        return np.array([lowest_mean(row, t) for row, t in zip(y, tails.tolist(), strict=True)])
    b, w = _bets(n)
    average = y.mean(axis=1)
    s = np.full(m, -math.inf)
    todo = np.flatnonzero(average > 0)
    for some in np.array_split(todo, 1 + todo.size * len(b) * n // AT_ONCE):
        s[some] = _roots(y[some] / average[some, None], b, w, tails[some])
    return np.asarray(average * np.exp(s))


def _roots(values: Array, b: Array, w: Array, tail: Array) -> Array:
    """The s with W tail = 1 for each row of values, (m,), by Newton's method."""
    rich = w[-1] * b[-1] * (1 - b[-1]) ** (values.shape[1] - 1) * values.max(axis=1)
    s = np.asarray(np.log(tail * rich) - 1)
    moving = np.arange(len(s))
    for _ in range(100):
        step = _newton_step(s[moving], values[moving], b, w, tail[moving])
        s[moving] += step
        moving = moving[step > 1e-13]
        if not moving.size:
            break
    return s


def _newton_step(s: Array, values: Array, b: Array, w: Array, tail: Array) -> Array:
    """−f/f' for f = log(W tail); all (m,)."""
    games = (values * np.exp(-s)[:, None])[:, None, :] * b[:, None]  # (m, bets, n)
    changes = games - b[:, None]
    with np.errstate(divide="ignore"):  # the bet b = 1 loses all where y = 0
        growth = np.log1p(changes).sum(axis=2)
    changes += 1
    shares = np.divide(games, changes, out=np.zeros_like(games), where=changes > 0).sum(axis=2)
    top = growth.max(axis=1)
    wealth = w * np.exp(growth - top[:, None])  # (m, bets)
    total = wealth.sum(axis=1)
    f = top + np.log(total * tail)
    return np.asarray(f * total / np.einsum("mb,mb->m", wealth, shares))


@lru_cache(maxsize=1024)
def _bets(n: int) -> tuple[Array, Array]:
    """The shares b = 1, ½, ¼, … ≤ 1/n and their weights; those far below 1/√n count little."""
    b = np.ldexp(1.0, -np.arange(1 + math.ceil(math.log2(n))))
    w = np.minimum(1.0, b * math.sqrt(n))
    w[0] = w[1:].sum() if n > 1 else 1.0
    return b, np.asarray(w / w.sum())


def _in_bins(y: Array) -> tuple[Array, Array]:
    """Values and how often each is counted, at most 1024 of them where there are many rows.

    Each y between two neighbouring values v < v' counts as (v' − y)/(v' − v) times v and the rest
    times v': the mean stays, and no sum of a concave function grows, such as the log of a game.
    """
    low, high = float(y.min()), float(y.max())
    if low == high:
        return np.full(1, low), np.full(1, float(len(y)))
    if len(y) <= 2 * BINS:
        return y, np.ones(len(y))
    place = (y - low) * ((BINS - 1) / (high - low))
    left = np.minimum(place.astype(np.intp), BINS - 2)
    part = place - left
    counts = np.bincount(left, 1 - part, BINS) + np.bincount(left + 1, part, BINS)
    seen = counts > 0
    return np.linspace(low, high, BINS)[seen], np.asarray(counts[seen], dtype=np.float64)
