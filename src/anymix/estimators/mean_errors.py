"""How surely means over rows are known: their standard errors.

A domain's mean Σ_i a_ki v_i over independent rows i, with shares a_ki ≥ 0 that sum to 1, has

    se² = Σ_i a_ki² (v_i − v̄_k)²/(1 − Σ_j a_kj²),     of m equal shares Σ (v_i − v̄)²/(m(m − 1))
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr, stdtrit

Array = NDArray[np.float64]

__all__ = ["Errors", "in_doubt", "mean_error"]

BELOW_ONE = float(ndtr(1.0))  # how often a normal error is at most one standard error


def mean_error(values: Array, average: sparse.csc_array, mixture: Array) -> float:
    """The standard error of Σ_k λ_k Σ_i a_ki v_i for independent rows i.

    se² = Σ_i (Σ_k λ_k a_ki (v_i − v̄_k)/√(1 − Σ_j a_kj²))²: of m equal shares, the usual
    Σ (v_i − v̄)²/(m(m − 1)).

    Parameters
    ----------
    values : ndarray of shape (n,)
        v, a number for each row.
    average : sparse array of shape (p, n)
        The shares a_ki.
    mixture : ndarray of shape (p,)
        λ.

    Returns
    -------
    float
        Infinite if λ rests on a domain of a single row.

    Examples
    --------
    >>> average = sparse.csc_array(np.full((1, 4), 0.25))
    >>> mean_error(np.array([1.0, 2.0, 3.0, 4.0]), average, np.ones(1))  # √(5/3)/2
    0.645...
    """
    return Errors(average).of(values, mixture)


def in_doubt(square: float, fourth: float) -> float:
    """se times the quantile of Student's distribution that is 1 for very many rows.

    The parts of se² = Σ_i e_i² tell as much of it as ν = (Σ e_i²)²/Σ e_i⁴ equal ones, so the
    distribution has ν − 1 degrees of freedom. On the word of a single row nothing is sure.

    Parameters
    ----------
    square : float
        Σ_i e_i².
    fourth : float
        Σ_i e_i⁴.

    Returns
    -------
    float

    Examples
    --------
    >>> in_doubt(1.0, 1.0), round(in_doubt(4.0, 8.0), 2), round(in_doubt(4.0, 4e-6), 2)
    (inf, 3.67, 2.0)
    """
    error = float(np.sqrt(square))
    if not 0 < fourth < np.inf:  # no error, or numbers too small or large for a fourth power
        return error
    freedom = square * square / fourth - 1
    return error * float(stdtrit(freedom, BELOW_ONE)) if freedom > 0.01 else np.inf


class Errors:
    """The standard errors of many means over the same rows, as `mean_error` defines them."""

    def __init__(self, average: sparse.csc_array) -> None:
        self.rows = sparse.csr_array(average)  # (p, n)
        self.transposed = self.rows.T
        squares = np.asarray(self.rows.multiply(self.rows).sum(axis=1)).ravel()
        self.rest = 1 - squares  # 1 − Σ_j a_kj²

    def of(self, values: Array, mixture: Array) -> float:
        """se of Σ_k λ_k Σ_i a_ki v_i."""
        parts = self.parts(values, mixture)
        unit = float(np.max(np.abs(parts), initial=0.0))  # squares of huge numbers overflow
        return unit * float(np.linalg.norm(parts / unit)) if 0 < unit < np.inf else unit

    def by_domain(self, values: Array) -> Array:
        """se of every domain's mean, (p,); 0 for a domain of a single row, which tells nothing."""
        means = self.rows @ values
        k = np.repeat(np.arange(len(means)), np.diff(self.rows.indptr))  # the domain of each entry
        e = self.rows.data * (values[self.rows.indices] - means[k])
        unit = float(np.max(np.abs(e), initial=0.0)) or 1.0  # squares of huge numbers overflow
        squares = np.bincount(k, (e / unit) ** 2, minlength=len(means))
        rest = np.where(self.rest > 1e-12, self.rest, np.inf)
        return np.asarray(unit * np.sqrt(squares / rest))

    def parts(self, values: Array, mixture: Array) -> Array:
        """e_i, what each row adds to the error, (n,)."""
        if np.any((mixture > 0) & (self.rest <= 1e-12)):
            return np.full(len(values), np.inf)
        scale = np.where(mixture > 0, mixture / np.sqrt(np.maximum(self.rest, 1e-12)), 0.0)
        means = self.rows @ values
        return np.asarray(values * (self.transposed @ scale) - self.transposed @ (scale * means))
