"""Rows that a client keeps out of training, to judge models by.

Which rows they are is fixed by the seed of the run and the key of the client, so that every
message finds the same ones, in whatever process it is answered. Of every domain the same part is
kept out, and nothing of a domain that would have no rows left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]

__all__ = ["split", "take"]


def split(domains: Any, n: int, fraction: float, seed: list[int]) -> tuple[Indices, Indices]:
    """The rows to train with and those to keep out, both in their order.

    Parameters
    ----------
    domains : array-like
        The domain of each row; with a table of memberships the rows are not told apart.
    n : int
        How many rows there are.
    fraction : float
        The part to keep out, rounded down in every domain.
    seed : list of int
        Same seed, same rows.

    Returns
    -------
    train, held : ndarray

    Examples
    --------
    >>> train, held = split(["a", "a", "b", "a", "a", "b"], 6, 0.5, [0])
    >>> train.tolist(), held.tolist()
    ([1, 2, 4], [0, 3, 5])
    """
    rng = np.random.default_rng(seed)
    labels = np.asarray(domains)
    if labels.ndim != 1:
        labels = np.zeros(n, dtype=int)
    _, codes = np.unique(labels, return_inverse=True)
    held = np.zeros(n, dtype=bool)
    for k in range(codes.max(initial=-1) + 1):
        rows = rng.permutation(np.flatnonzero(codes == k))
        held[rows[: int(fraction * len(rows))]] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


def take(table: Any, rows: Indices) -> Any:
    """Some rows of an array, a sparse matrix, a tensor, a frame or a list."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    if hasattr(table, "tocsr"):
        return table.tocsr()[rows]
    return table[rows] if hasattr(table, "shape") else np.asarray(table)[rows]
