"""x_ij x_ik of rows with few entries: with these at hand, Σ_i h_i x_i x_iᵀ is one short product."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]

__all__ = ["gram_of_products", "products"]

MOST = 2**21  # products, of 12 bytes each
WIDEST = 2000  # columns


def products(X: Any) -> sparse.csc_array | None:
    """x_ij x_ik, j ≤ k, of every row i, at row j d + k, (d², n); None if they are too many.

    They are made once for a table, in the time of about four matrices Σ_i h_i x_i x_iᵀ. From then
    on such a matrix takes a seventh of the time.

    Examples
    --------
    >>> X = sparse.csr_array([[2.0, 0.0, 3.0]])
    >>> products(X).toarray().reshape(3, 3)
    array([[4., 0., 6.],
           [0., 0., 0.],
           [0., 0., 9.]])
    """
    if not sparse.issparse(X) or X.shape[1] > WIDEST:
        return None
    entries = np.diff(X.indptr).astype(np.int64)  # of each row
    counts = entries * (entries + 1) // 2
    if counts.sum() > MOST:
        return None
    X = X if X.has_sorted_indices else X.sorted_indices()
    d = X.shape[1]
    partners = np.repeat(X.indptr[1:], entries) - np.arange(X.nnz)  # itself and those after it
    left = np.repeat(np.arange(X.nnz), partners)
    right = left + np.arange(len(left)) - np.repeat(np.cumsum(partners) - partners, partners)
    place = X.indices[left].astype(np.int32) * np.int32(d) + X.indices[right].astype(np.int32)
    ends = np.append(0, np.cumsum(counts)).astype(np.int32)
    return sparse.csc_array((X.data[left] * X.data[right], place, ends), shape=(d * d, X.shape[0]))


def gram_of_products(made: sparse.csc_array, h: Array) -> Array:
    """Σ_i h_i x_i x_iᵀ, (d, d), for weights h (n,)."""
    d = round(made.shape[0] ** 0.5)
    upper = np.asarray(made @ h).reshape(d, d)
    whole: Array = upper + upper.T
    whole.ravel()[:: d + 1] *= 0.5  # the diagonal was added twice
    return whole
