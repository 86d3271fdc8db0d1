"""Which of C models to use: the one rule, for every estimator.

With D, A, s, V and π of `held_out`, all of the same held-out rows, and r = 0 the reference:

    among the c with A_c ≤ (1 + price)·A_r (of the roots, for squared errors) that are on no domain
    worse than a constant guess (by a paired error) where r is not, take the least V_c;
    it replaces r if Σ_k π_k (D_rk − D_ck) exceeds 1.645 paired standard errors, where the π of a
    fold's rows is π_r of the other folds.

The first line is what everybody else may pay, the second what the worst domain must gain: a
one-sided test at 5 %. Rows that look bad by chance do not choose the domain they are judged on;
with the π_r of all rows, 8 % of simulated tables with one law were moved, with this one 4 %.

The same for a threshold: the probability above which to say yes is the one of the best balanced
accuracy in the worst domain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anymix.errors import finite_number
from anymix.selection.held_out import Judged

__all__ = [
    "KEPT",
    "SURE",
    "NothingGained",
    "admissible",
    "check_price",
    "choose",
    "simplest",
    "worst_balanced_threshold",
]

Array = NDArray[np.float64]


SURE = 1.645  # paired standard errors: a one-sided test at 5 %
KEPT = (
    "no other model is significantly better for the worst domain at this price: "
    "the ordinary model is kept"
)


class NothingGained(UserWarning):
    """No other model is significantly better for the worst domain: the reference is kept.

    Examples
    --------
    >>> import warnings
    >>> import anymix as ax
    >>> X, y, d = [[0.0], [1.0]] * 20, [0, 1] * 20, ["a", "a", "b", "b"] * 10
    >>> with warnings.catch_warnings(action="ignore", category=NothingGained):
    ...     model = ax.AgnosticClassifierCV().fit(X, y, domains=d)
    """


def choose(judged: Judged, price: float = 0.05) -> int:
    """The place of the model to use; 0 is the reference."""
    V = np.where(admissible(judged, price), judged.expected, np.inf)
    c = int(np.argmin(V))
    gain, error = judged.gain(c)
    return c if c != 0 and gain > SURE * error else 0


def admissible(judged: Judged, price: float) -> NDArray[np.bool_]:
    """Which models all rows can pay for, and no domain is worse off with than with a constant."""
    A, D = judged.pooled, judged.domain_losses
    part = (1 + price) ** 2 - 1 if judged.squared else price  # of the root
    good = A - A[0] <= (part * abs(A[0]) if A[0] else 0.0)
    if judged.constant is not None:
        excess = D - judged.constant
        good &= ~np.any((excess > judged.constant_errors) & (excess[0] <= 0), axis=1)
    good[0] = True
    return np.asarray(good)


def simplest(judged: Judged) -> int:
    """The first model whose A is within one paired standard error of the least A."""
    A = judged.pooled
    best = int(np.argmin(A))
    near = (c for c in range(best) if A[c] - A[best] <= judged.error(c, judged.reference, best))
    return next(near, best)


def check_price(price: object) -> float:
    """The price as a number ≥ 0, which may be infinite; InputError otherwise."""
    if isinstance(price, float) and price == np.inf:
        return price
    return finite_number("price", price, "give a number ≥ 0, or inf", lambda x: x >= 0)


Index = NDArray[np.intp]


ALL = slice(None)
FEWEST = 10  # rows of each class that a domain must have to count


def worst_balanced_threshold(
    p: Array, positive: NDArray[np.bool_], k: Index, weight: Array, fold: Index
) -> float:
    """The threshold of the best worst balanced accuracy, or ½ where that is not surely better.

    Whether it is better is judged on each fold's rows with the threshold of the others.
    """
    cell = 2 * k + positive
    counts = np.bincount(cell, minlength=2 * (k.max() + 1)).reshape(-1, 2)
    good = np.flatnonzero(counts.min(axis=1) >= FEWEST)
    if not good.size:
        return 0.5

    def balanced(yes: NDArray[np.bool_], rows: NDArray[np.bool_] | slice) -> Array:
        """Of every domain that counts, on some rows."""
        w, right = weight[rows], (yes == positive)[rows]
        sizes = np.bincount(cell[rows], w, counts.size)
        shares = np.bincount(cell[rows], w * right, counts.size) / np.where(sizes > 0, sizes, 1.0)
        return np.asarray(shares.reshape(-1, 2).mean(axis=1)[good])

    tried = np.unique(np.quantile(p, np.linspace(0.01, 0.99, 99)))

    def best(rows: NDArray[np.bool_] | slice) -> float:
        return float(tried[int(np.argmax([balanced(p > t, rows).min() for t in tried]))])

    half = p > 0.5
    other = half.copy()  # each row by the threshold of the other folds
    for f in np.unique(fold):
        here = fold == f
        other[here] = p[here] > best(~here)
    before = balanced(half, ALL)
    worst = good[int(before.argmin())]
    change = (other == positive).astype(float) - (half == positive)
    error = 0.0
    for side in (0, 1):
        rows = cell == 2 * worst + side
        w = weight[rows] / weight[rows].sum()
        error += 0.25 * float(w**2 @ (change[rows] - w @ change[rows]) ** 2)
    gain = float(balanced(other, ALL).min() - before.min())
    return best(ALL) if gain > SURE * np.sqrt(error) else 0.5
