"""Σ_i h_i (x_i, 1)(x_i, 1)ᵀ over the rows: the matrix of which every Hessian is made."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.problem.row_products import gram_of_products
from anymix.problem.weighted import WeightedRows

Array = NDArray[np.float64]

__all__ = ["gram", "gram_diagonal"]

MOST_KEPT = 2**22  # entries whose squares are kept: a solver asks for several diagonals


def gram(table: WeightedRows, h: Array, made: sparse.csc_array | None = None) -> Array:
    """Σ_i h_i (x_i, 1)(x_i, 1)ᵀ for weights h (n,); quicker where the `products` are made."""
    X, d = table.X, table.n_features
    whole = np.empty((d + table.intercept, d + table.intercept))
    if made is not None:
        whole[:d, :d], column = gram_of_products(made, h), X.T @ h
    elif sparse.issparse(X):
        whole[:d, :d] = (X.T @ X.multiply(h[:, None]).tocsr()).todense()
        column = X.T @ h
    else:
        whole[:d, :d], column = _dense_gram(X, h)
    if table.intercept:
        whole[d, :d] = whole[:d, d] = column
        whole[d, d] = h.sum()
    return whole


def gram_diagonal(table: WeightedRows, h: Array) -> Array:
    """Its diagonal, for weights (n,), or (n, K) of as many blocks, flat."""
    if sparse.issparse(table.X):
        few = table.X.nnz <= MOST_KEPT
        parts = table.squares.T @ h if few else _squares_pulled_back(table.X, h)
    else:
        parts = np.einsum("ij,ij,i...->j...", table.X, table.X, h)
    parts = parts.T.reshape(table.n_scores, -1)
    if table.intercept:
        parts = np.column_stack([parts, h.sum(axis=0).reshape(-1, 1)])
    return parts.ravel()


def _squares_pulled_back(X: Any, h: Array, chunk: int = 8192) -> Array:
    """Σ_i h_i x_i² of CSR rows, (d,) or (d, K), a chunk of rows at a time to keep memory small."""
    total = np.zeros((X.shape[1], *h.shape[1:]))
    for start in range(0, X.shape[0], chunk):
        part = X[start : start + chunk]
        part.data **= 2
        total += part.T @ h[start : start + chunk]
    return total


def _dense_gram(X: Array, h: Array, chunk: int = 1024) -> tuple[Array, Array]:
    """Σ h_i x_i x_iᵀ and Σ h_i x_i in chunks that stay in cache; SᵀS costs half of Xᵀ(hX)."""
    d = X.shape[1]
    total, column = np.zeros((d, d)), np.zeros(d)
    positive = bool(np.all(h >= 0))
    root = np.sqrt(h) if positive else h
    for start in range(0, len(X), chunk):
        block, r = X[start : start + chunk], root[start : start + chunk]
        scaled = block * r[:, None]
        total += scaled.T @ (scaled if positive else block)
        column += scaled.T @ r if positive else scaled.sum(axis=0)
    return total, column
