"""Coordinates in which all directions of a linear model look alike, whatever its columns are.

Let m and C be the mean and the covariance of the columns over the rows of the clients. Near its
solution the problem has about the curvature

    H = C/16 + γ I,   1/16 = q (1 − q) of a classifier that gives the truth q = 0.93,

and with D = diag H, and the correlations R = D^(−½) H D^(−½),

    ⟨w, (x, 1)⟩ = ⟨A v, x − m⟩ + v_0,   A = D^(−½) R^(−½),   w = A v,   w_0 = v_0 − ⟨w, m⟩

is the same model, and Aᵀ H A = I. Steps are taken in v: a step of one size then does for age in
years and for income in cents (D), for columns that nearly repeat each other (R), and for those so
small that the penalty holds them (γ). With many columns R counts as I, so that no products of
columns are needed. The gradient by v is that by w, pulled back by the same linear map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

Array = NDArray[np.float64]

__all__ = ["MOST_PRODUCTS", "Coordinates", "gram_of", "moments", "n_moments", "wrong_moments"]

CURVATURE = 1 / 16
LEAST = 1e-6  # an eigenvalue of R: directions with less are not stretched further
ABSURD = 1e100  # beyond, products of sums would be no numbers
MOST_PRODUCTS = 200  # columns; their products are 0.16 MB then


def n_moments(columns: int, products: bool) -> int:
    """How many numbers `moments` gives."""
    return columns * (columns + 5) // 2 if products else 3 * columns


def wrong_moments(sums: Array, columns: int) -> str | None:
    """What shows that these are the `moments` of no table, or None."""
    n, _, second = np.split(sums, [columns, 2 * columns])
    square = second if len(second) == columns else second[_diagonal(columns)]
    if np.any(n <= 0) or np.any(square < 0) or np.any(np.abs(sums) > ABSURD):
        return "its sums of columns are those of no rows"
    return None


def moments(table: Any, products: bool = False) -> Array:
    """Σ 1, Σ x_j and Σ x_j² of the columns; with products Σ x_i x_j, i ≤ j, for the squares."""
    n, columns = table.shape
    if products:
        with threadpool_limits(1, "blas"):  # the same bits wherever the client runs
            matrix = table.T @ table
        matrix = matrix.toarray() if sparse.issparse(table) else matrix
        second = matrix[np.triu_indices(columns)]
    else:
        second = (table.multiply(table) if sparse.issparse(table) else table * table).sum(axis=0)
    sums = [np.full(columns, float(n)), np.ravel(table.sum(axis=0)), np.ravel(second)]
    return np.concatenate(sums)


def gram_of(sums: Array, columns: int) -> Array:
    """(1/n) Σ x_i x_iᵀ from the `moments`, or its diagonal if they are without products."""
    n, _, second = np.split(sums, [columns, 2 * columns])
    return np.diag(second / n) if len(second) == columns else _symmetric(second, columns) / n[0]


@dataclass(frozen=True)
class Coordinates:
    """w = to_w(v), for a model of one or more blocks of as many entries as there are columns."""

    mean: Array  # m_j; 0 of the intercept and of constant columns
    A: Array  # A, or its diagonal where it has nothing else

    @staticmethod
    def of(parts: Iterable[Array], columns: int, gamma: float = 0.0) -> Coordinates:
        """From the `moments` of some clients; a column of ones, if any, is the intercept."""
        n, x, second = np.split(np.asarray(sum(parts)), [columns, 2 * columns])
        mean, second, products = x / n, second / n[0], len(second) > columns
        square = second[_diagonal(columns)] if products else second
        spread = np.sqrt(np.maximum(square - mean * mean, 0.0))
        constant = spread <= 1e-6 * np.sqrt(square)
        has_intercept = bool(constant[-1] and mean[-1] == 1.0)
        if not has_intercept:  # nothing can take up a shift
            mean, constant = np.zeros_like(mean), square == 0
        variance = np.where(constant, square, square - mean * mean)
        H = CURVATURE * variance + gamma * (np.arange(columns) < columns - has_intercept)
        A = 1 / np.sqrt(np.where(H > 0, H, 1.0))  # D^(−½)
        if products:
            R = CURVATURE * (_symmetric(second, columns) - np.outer(mean, mean)) * np.outer(A, A)
            R[constant] = R[:, constant] = 0.0  # the intercept has what they share with others
            np.fill_diagonal(R, 1.0)
            moves = ~constant  # where m is large beside the spread, C is a small difference
            rounding = 1e-14 * float(np.max(square[moves] / variance[moves], initial=0.0))
            A = A[:, None] * _inverse_root(R, max(LEAST, rounding))
        return Coordinates(np.where(constant, 0.0, mean), A)

    @staticmethod
    def load(state: Mapping[str, Array]) -> Coordinates:
        """As `state_dict` gave them."""
        return Coordinates(state["mean"], state["A"])

    def state_dict(self) -> dict[str, Array]:
        """The arrays, for a file."""
        return {"mean": self.mean, "A": self.A}

    def to_w(self, v: Array) -> Array:
        """The model in the units of the columns, (D,)."""
        v = v.reshape(-1, len(self.mean))
        w = v * self.A if self.A.ndim == 1 else v @ self.A.T
        w[:, -1] -= w @ self.mean
        return w.ravel()

    def to_v(self, w: Array) -> Array:
        """The model in these coordinates, (D,): the inverse of `to_w`."""
        w = w.reshape(-1, len(self.mean)).copy()
        w[:, -1] += w @ self.mean
        v = w / self.A if self.A.ndim == 1 else np.linalg.solve(self.A, w.T).T
        return np.asarray(v.ravel(), dtype=np.float64)

    def pull_back(self, gradient: Array) -> Array:
        """The gradient by v of what has this gradient by w, (D,)."""
        g = gradient.reshape(-1, len(self.mean))
        g = g - np.outer(g[:, -1], self.mean)
        return (g * self.A if self.A.ndim == 1 else g @ self.A).ravel()


def _diagonal(columns: int) -> NDArray[np.intp]:
    """Where the x_j² are among the x_i x_j, i ≤ j."""
    j = np.arange(columns)
    return j * columns - j * (j - 1) // 2


def _symmetric(triangle: Array, columns: int) -> Array:
    """The matrix of which this is the upper triangle, row by row."""
    matrix = np.zeros((columns, columns))
    matrix[np.triu_indices(columns)] = triangle
    return matrix + np.triu(matrix, 1).T


def _inverse_root(R: Array, least: float) -> Array:
    """R^(−½), of eigenvalues that are no less than `least`."""
    with threadpool_limits(1, "blas"):  # the same bits wherever the server runs
        e, U = np.linalg.eigh(R)
        return np.asarray((U / np.sqrt(np.maximum(e, least))) @ U.T)
