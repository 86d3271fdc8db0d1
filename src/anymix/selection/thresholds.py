"""The probability above which to say yes, so that the worst domain's balanced accuracy is best."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anymix.selection.rule import SURE

Array = NDArray[np.float64]
Index = NDArray[np.intp]

__all__ = ["worst_balanced_threshold"]

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
