"""The probability above which to say yes, so that the worst domain's balanced accuracy is best."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anymix.selection.rule import SURE

Array = NDArray[np.float64]

__all__ = ["worst_balanced_threshold"]

FEWEST = 10  # rows of each class that a domain must have to count


def worst_balanced_threshold(
    p: Array, positive: NDArray[np.bool_], k: NDArray[np.intp], weight: Array
) -> float:
    """The threshold of the best worst balanced accuracy, or ½ where that is not surely better.

    Parameters
    ----------
    p : ndarray of shape (n,)
        Held-out probabilities of the positive class.
    positive : ndarray of bool, shape (n,)
        Whether it came.
    k : ndarray of shape (n,)
        The domain of each row; those with few rows of a class do not count.
    weight : ndarray of shape (n,)
        The weight of each row.

    Returns
    -------
    float

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> positive = rng.random(2000) < 0.1
    >>> p = np.clip(0.1 + 0.1 * positive + 0.02 * rng.normal(size=2000), 0, 1)
    >>> round(worst_balanced_threshold(p, positive, np.zeros(2000, dtype=int), np.ones(2000)), 2)
    0.15
    """
    cell = 2 * k + positive
    counts = np.bincount(cell, minlength=2 * (k.max() + 1)).reshape(-1, 2)
    good = np.flatnonzero(counts.min(axis=1) >= FEWEST)
    if not good.size:
        return 0.5
    sizes = np.bincount(cell, weight, counts.size)

    def balanced(threshold: float) -> Array:
        """Of every domain that counts."""
        hits = np.bincount(cell, weight * ((p > threshold) == positive), counts.size)
        return np.asarray((hits / np.maximum(sizes, 1e-300)).reshape(-1, 2).mean(axis=1)[good])

    tried = np.unique(np.quantile(p, np.linspace(0.01, 0.99, 99)))
    best = float(tried[int(np.argmax([balanced(t).min() for t in tried]))])
    half = balanced(0.5)
    worst = good[int(half.argmin())]
    change = ((p > best) == positive).astype(float) - ((p > 0.5) == positive)
    error = 0.0
    for side in (0, 1):
        rows = cell == 2 * worst + side
        w = weight[rows] / weight[rows].sum()
        error += 0.25 * float(w**2 @ (change[rows] - w @ change[rows]) ** 2)
    gain = float(balanced(best).min() - half.min())
    return best if gain > SURE * np.sqrt(error) else 0.5
