"""The same losses from fewer rows: equal rows of one domain and target become one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.problem.weighted import WeightedRows

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

__all__ = ["merge"]


def merge(table: WeightedRows) -> tuple[Indices, sparse.csc_array, Array] | None:
    """The rows to keep, the shares that they stand for, and how many rows each of them was.

    Parameters
    ----------
    table : WeightedRows
        All rows.

    Returns
    -------
    tuple of ndarray, csc_array and ndarray, or None
        None where a sample of the rows shows that there is little to merge.
    """
    n = table.n_rows
    rows = np.arange(0, n, max(1, n // 4096))
    if len(np.unique(_keys(table, rows))) > 0.97 * len(rows):
        return None
    keys = _keys(table, np.arange(n))
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    keep = first[group]  # the row that stands for each row
    others = np.flatnonzero(keep != np.arange(n))
    for part in np.array_split(others, 1 + len(others) // 8192):
        odd = part[~_equal(table, part, keep[part])]  # keys equal by chance
        keep[odd] = odd
    kept, group = np.unique(keep, return_inverse=True)
    coo = table.average.tocoo()
    places = coo.coords[0], group[coo.coords[1]]
    average = sparse.csc_array((coo.data, places), shape=(table.n_domains, len(kept)))
    return kept, average, _counts(table, group)


def _counts(table: WeightedRows, group: Indices) -> Array:
    """(Σ c)²/Σ c² over the rows of each group, c their shares: their number, if all weigh alike."""
    c = np.asarray(table.average.sum(axis=0)).ravel()
    squares = np.bincount(group, c * c)
    return np.divide(np.bincount(group, c) ** 2, squares, np.ones(len(squares)), where=squares > 0)


def _keys(table: WeightedRows, rows: Indices) -> Array:
    """A random linear function of (row, target, domains): equal rows have equal keys."""
    rng = np.random.default_rng(0)
    X = table.X if len(rows) == table.n_rows else table.X[rows]
    key = np.asarray(X @ rng.normal(size=table.n_features))
    key += rng.normal() * table.y[rows]
    shape = table.average[:, rows]
    shape.data = np.ones_like(shape.data)
    key += np.asarray(shape.T @ rng.normal(size=table.n_domains))
    return key


def _equal(table: WeightedRows, a: Indices, b: Indices) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = table.y[a] == table.y[b]
    if sparse.issparse(table.X):
        same &= np.asarray(abs(table.X[a] - table.X[b]).sum(axis=1)).ravel() == 0
    else:
        same &= (table.X[a] == table.X[b]).all(axis=1)
    domains_a, domains_b = table.average[:, a] != 0, table.average[:, b] != 0
    same &= np.asarray((domains_a != domains_b).sum(axis=0)).ravel() == 0
    return same
