"""Coordinates in which all columns of a linear model look alike, whatever their units are.

With the mean m_j and the spread s_j of every column over the rows of the clients,

    ⟨w, (x, 1)⟩ = Σ_j v_j (x_j − m_j)/s_j + v_0,   w_j = v_j/s_j,   w_0 = v_0 − Σ_j w_j m_j

is the same model. Steps are taken in v: a step of one size then does for age in years and for
income in cents. The gradient there is that of w, pulled back by the same linear map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

__all__ = ["Coordinates", "moments"]


def moments(columns: Array) -> Array:
    """Σ 1, Σ x_j and Σ x_j² of the columns of a table, (3, columns): sums that only need adding."""
    n = np.full(columns.shape[1], float(columns.shape[0]))
    return np.array([n, columns.sum(axis=0), (columns * columns).sum(axis=0)])


@dataclass(frozen=True)
class Coordinates:
    """w = to_w(v), for a model of one or more blocks of as many entries as there are columns.

    Attributes
    ----------
    mean, spread : ndarray of shape (columns,)
        m_j (0 where the model has no intercept) and s_j > 0; of the intercept, 0 and 1.

    Examples
    --------
    >>> table = np.array([[100.0, 1.0], [300.0, 1.0]])
    >>> new = Coordinates.of([moments(table)])
    >>> new.mean.tolist(), new.spread.tolist()
    ([200.0, 0.0], [100.0, 1.0])
    >>> (table @ new.to_w(np.array([1.0, 0.5]))).tolist()
    [-0.5, 1.5]
    """

    mean: Array
    spread: Array

    @staticmethod
    def of(parts: Iterable[Array]) -> Coordinates:
        """From the moments of some clients; a column of ones, if any, is the intercept."""
        n, x, xx = sum(parts)  # type: ignore[misc]
        mean, square = x / n, xx / n
        spread = np.sqrt(np.maximum(square - mean * mean, 0.0))
        constant = spread <= 1e-6 * np.sqrt(square)
        has_intercept = bool(constant[-1] and mean[-1] == 1.0)
        if not has_intercept:  # nothing can take up a shift
            mean, spread = np.zeros_like(mean), np.sqrt(square)
        else:
            mean = np.where(constant, 0.0, mean)
            spread = np.where(constant, np.sqrt(square), spread)
        return Coordinates(mean, np.where(spread > 0, spread, 1.0))

    @staticmethod
    def load(state: Mapping[str, Array]) -> Coordinates:
        """As `state_dict` gave them."""
        return Coordinates(state["mean"], state["spread"])

    def state_dict(self) -> dict[str, Array]:
        """The arrays, for a file."""
        return {"mean": self.mean, "spread": self.spread}

    def to_w(self, v: Array) -> Array:
        """The model in the units of the columns, (D,)."""
        w = v.reshape(-1, len(self.spread)) / self.spread
        w[:, -1] -= w @ self.mean
        return w.ravel()

    def to_v(self, w: Array) -> Array:
        """The model in these coordinates, (D,): the inverse of `to_w`."""
        v = w.reshape(-1, len(self.spread)).copy()
        v[:, -1] += v @ self.mean
        return (v * self.spread).ravel()

    def pull_back(self, gradient: Array) -> Array:
        """The gradient by v of what has this gradient by w, (D,)."""
        g = gradient.reshape(-1, len(self.spread))
        return ((g - np.outer(g[:, -1], self.mean)) / self.spread).ravel()
