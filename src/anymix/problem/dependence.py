"""Whether columns depend on each other exactly: Σ_j u_j x_ij = 0 in every row, without rounding."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.problem.weighted import WeightedRows

Array = NDArray[np.float64]

__all__ = ["vanishes"]


def vanishes(rows: WeightedRows, u: Array) -> bool:
    """Whether Σ_j u_j x_ij is exactly 0 in every row, for columns with whole coefficients.

    u (d + intercept,) is known up to rounding and, if the intercept is what depends on the
    columns, up to a factor. The coefficients of the columns are rounded to whole numbers, that
    of the intercept is what the first row says. Sums of products with powers of two are exact
    in `math.fsum`.
    """
    u = u[: rows.n_features] / min(
        1.0, max(float(np.max(np.abs(u[: rows.n_features]), initial=0.0)), 1e-300)
    )
    whole = np.rint(u)
    columns = np.flatnonzero(whole)
    if not columns.size or np.max(np.abs(u - whole)) > 1e-3:
        return False
    if np.max(np.abs(whole), initial=0.0) > 16 or rows.n_rows * columns.size > 10**7:
        return False
    X = rows.X[:, columns]
    X = X.toarray() if sparse.issparse(X) else X
    terms = [
        math.copysign(2.0**b, k) * x
        for k, x in zip(whole[columns], X.T, strict=True)
        for b in range(5)
        if int(abs(k)) >> b & 1
    ]
    shift = -math.fsum(x[0] for x in terms) if rows.intercept else 0.0
    return _adds_up_to_nothing([*terms, np.full(rows.n_rows, shift)])


def _adds_up_to_nothing(terms: list[Array]) -> bool:
    """Whether the terms, (n,) each, add up to exactly 0 in every row.

    Whole numbers below 2⁵³ add up without rounding; otherwise `math.fsum` is exact.
    """
    size = sum(float(np.max(np.abs(x), initial=0.0)) for x in terms)
    total = np.sum(terms, axis=0)
    if size < 2.0**53 and all(bool(np.all(x == np.rint(x))) for x in terms):
        return not np.any(total)
    if np.any(np.abs(total) > 1e-12 * size):
        return False
    return all(math.fsum(row) == 0 for row in zip(*(x.tolist() for x in terms), strict=True))
