"""X w = S w + D E w_F: columns F that most rows fill make a block D, the rest S stays sparse.

A product with a block takes a sixth of the time of one with as many entries of a sparse matrix.
Columns that are equal, such as marks of cells that are missing together, are one in D: E adds up
what w says of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]

__all__ = ["FullColumns", "split_columns"]

FULL = 0.4  # a column is full if so large a part of the rows fills it
LEAST, MOST = 2**14, 2**22  # entries of X: fewer are not worth it, more would take much memory


class FullColumns:
    """Sparse rows with their full columns apart.

    Parameters
    ----------
    places : ndarray of shape (f,)
        F, the places of the full columns.
    block : ndarray of shape (n, g)
        D, these columns, of equal ones the first.
    twins : ndarray of shape (f,)
        E: which column of D each of F is.
    rest : csr_array of shape (n, d)
        S, the other columns, in their own places.

    Examples
    --------
    >>> X = sparse.csr_array(np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 4.0]]))
    >>> split = split_columns(X, least=1)
    >>> split.places, split.times(np.array([1.0, 10.0]))
    (array([0]), array([ 1.,  2., 43.]))
    """

    def __init__(
        self,
        places: NDArray[np.intp],
        block: Array,
        twins: NDArray[np.intp],
        rest: sparse.csr_array,
    ) -> None:
        self.places, self.block, self.twins, self.rest = places, block, twins, rest

    def times(self, w: Array) -> Array:
        """X w, (n,)."""
        together = np.bincount(self.twins, w[self.places], minlength=self.block.shape[1])  # E w_F
        return np.asarray(self.rest @ w + self.block @ together)

    def pulled_back(self, v: Array) -> Array:
        """Xᵀv, (d,)."""
        found = np.asarray(self.rest.T @ v)
        self.add_full(found, v, slice(None))
        return found

    def add_full(self, found: Array, v: Array, rows: slice) -> None:
        """Add what some rows give to the full columns of Xᵀv, in place."""
        found[self.places] += (v @ self.block[rows])[self.twins]


def split_columns(X: Any, least: int = LEAST, most: int = MOST) -> FullColumns | None:
    """The full columns of sparse rows apart; None where that is not worth it.

    Parameters
    ----------
    X : csr_array of shape (n, d)
        The rows.
    least, most : int
        How many entries X must have, and may have.

    Returns
    -------
    FullColumns or None
    """
    if not least <= X.nnz <= most:
        return None
    counts = np.bincount(X.indices, minlength=X.shape[1])
    is_full = counts >= FULL * X.shape[0]
    if 2 * counts[is_full].sum() < X.nnz:
        return None
    places = np.flatnonzero(is_full)
    keep = ~is_full[X.indices]
    ends = np.append(0, np.cumsum(keep))[X.indptr].astype(X.indptr.dtype)
    rest = sparse.csr_array((X.data[keep], X.indices[keep], ends), shape=X.shape)
    block, twins = _without_twins(X[:, places].toarray())
    return FullColumns(places, block, twins, rest)


def _without_twins(block: Array) -> tuple[Array, NDArray[np.intp]]:
    """The different columns, (n, g), and which of them each column is, (f,)."""
    known: dict[bytes, int] = {}
    twins = np.array([known.setdefault(column.tobytes(), len(known)) for column in block.T])
    first = np.unique(twins, return_index=True)[1]
    return block[:, first], twins
