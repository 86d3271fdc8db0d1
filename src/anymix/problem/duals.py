"""What dual variables prove about every w at once.

By Fenchel and Young, for any α_i and the weights c_i = Σ_k λ_k a_ki of the rows,

    Σ_k λ_k L_k(w) = Σ c_i ℓ(z_i(w)) ≥ −Σ c_i ℓ*(α_i) + ⟨v, w⟩,    v = Σ c_i α_i (x_i, 1),

and what rounding may have done to these sums is charged. Where w has an intercept, what is left of
v there is put on one row, whose α has the most room.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.problem.floors import UNIT
from anymix.problem.weighted import WeightedRows

Array = NDArray[np.float64]

__all__ = ["Dual", "conjugates", "proved", "scale_rows", "slopes"]


class Dual(NamedTuple):
    """Σ λ_k L_k(w') ≥ value + ⟨v', w'⟩ for every w' and some v' with |v'_j − v_j| ≤ error_j.

    Attributes
    ----------
    value : float
        The height of the line at 0.
    v : ndarray of shape (D,)
        Its slope, as it was computed.
    error : ndarray of shape (D,)
        How far rounding may have moved every entry of the slope.
    """

    value: float
    v: Array
    error: Array


def proved(
    rows: WeightedRows, c: Array, alpha: Array, total: float, size: float, spare: float = 0.0
) -> Dual:
    """The bound that α proves, Σ c_i ℓ*(α_i) being `total`; what rounding may do is charged.

    Errors of the slope up to `spare` need not be known any better.
    """
    donor = _donor(rows, c, alpha) if rows.intercept else 0
    given, weight = alpha[donor].copy(), float(c[donor])
    v, error = slopes(rows, c, alpha, spare=spare)
    dual = Dual(-total - rows.rounding * size, v, error)
    return _without_intercepts(rows, dual, donor, given, weight) if rows.intercept else dual


def slopes(
    rows: WeightedRows, c: Array, alpha: Array, *, dual: bool = True, spare: float = 0.0
) -> tuple[Array, Array]:
    """Σ c_i α_i (x_i, 1) and what rounding may have done to it; c may be written over.

    `dual` says that ℓ* is taken too: for some losses at α + y, whose rounding moves α as well.
    Where a bound of the error by `rows.largest` is at most `spare`, it does, and saves a pass over
    the rows for max_i |x_ij|.
    """
    slope = _weighted_sizes(c, alpha)  # (K,)
    lost = 4 * rows.n_scores * UNIT * float(c.sum()) * (rows.loss.added(rows.y) if dual else 0.0)
    few = 4_000 if dual else 100_000  # numbers whose sums are worth more digits
    roughly = (rows.rounding * float(slope.max()) + lost) * rows.largest <= spare
    v, rounding = _pulled_back(rows, c, alpha, few, find_reach=not roughly)
    per_score = np.where(slope > 0, rounding * slope + lost, 0.0)
    reach = rows.reach_at_most if roughly else rows.reach
    error = np.repeat(per_score, len(v) // len(slope)) * reach + UNIT * np.abs(v)
    return v, error


def _pulled_back(
    rows: WeightedRows, c: Array, alpha: Array, few: int, find_reach: bool
) -> tuple[Array, float]:
    """Σ c_i α_i (x_i, 1) and its relative error; few numbers are added up with more digits."""
    if rows.n_rows * rows.n_parameters > few:
        pull_back = rows.pull_back_for_proof if find_reach else rows.pull_back
        return pull_back(scale_rows(alpha, c)), rows.rounding
    long = np.longdouble
    weighted = (alpha.T.astype(long) * c).reshape(rows.n_scores, -1)  # (K, n)
    X = rows.X.toarray() if sparse.issparse(rows.X) else rows.X
    parts = [weighted @ X.astype(long)]
    if rows.intercept:
        parts.append(weighted.sum(axis=1)[:, None])
    v = np.hstack(parts).ravel().astype(np.float64)
    return v, rows.rounding * float(np.finfo(long).eps) / (2 * UNIT)


def _donor(rows: WeightedRows, c: Array, alpha: Array, chunk: int = 16384) -> int:
    """The row whose α has the most room to move, c_i times the distance to where ℓ* ends."""
    best, most = 0, -1.0
    for start in range(0, len(c), chunk):
        part = slice(start, start + chunk)
        room = _room(rows, alpha[part], rows.y[part])
        room = np.where(c[part] > 0, c[part] * np.minimum(room, 1e300), 0.0)
        i = int(np.argmax(room))
        best, most = (start + i, float(room[i])) if room[i] > most else (best, most)
    return best


def _room(rows: WeightedRows, alpha: Array, y: NDArray[Any]) -> Array:
    """How far each row's α may move: for K scores, the smallest P above 0."""
    if alpha.ndim == 1:
        return rows.loss.margin(alpha, y)
    P = alpha + np.eye(alpha.shape[1])[y]
    return np.asarray(np.where(P > 0, P, np.inf).min(axis=1))


def _without_intercepts(rows: WeightedRows, dual: Dual, i: int, alpha: Array, c: float) -> Dual:
    """The same bound with v = 0 for the intercepts, exactly: row i takes what is left of them.

    Its α moves by at most r/c, r being |v| + error there; ℓ* is largest at an end of that.
    """
    K = rows.n_scores
    v, error = dual.v.reshape(K, -1).copy(), dual.error.reshape(K, -1).copy()
    r = np.abs(v[:, -1]) + error[:, -1]  # (K,)
    y = rows.y[i : i + 1]
    p = np.atleast_1d(alpha) + (np.eye(K)[y[0]] if K > 1 else 0.0)
    room = p if K > 1 else _room(rows, alpha[None], y)
    if not (c > 0 and np.all(2 * r <= c * room)):
        return dual
    if K == 1:
        ends = np.array([alpha + r[0] / c, alpha - r[0] / c, alpha]).ravel()
        up, down, here = rows.loss.conjugate(ends, np.repeat(y, 3))
        charge = c * max(float(up - here), float(down - here), 0.0)
    else:
        some = r > 0  # of these each P stays within half of itself
        charge = float(r[some] @ (np.abs(np.log(p[some])) + 0.7))
    x = rows.X[[i]].toarray()[0] if sparse.issparse(rows.X) else rows.X[i]
    error[:, :-1] += np.outer(r, np.abs(x))
    v[:, -1] = error[:, -1] = 0.0
    return Dual(dual.value - charge, v.ravel(), error.ravel())


def conjugates(
    rows: WeightedRows, c: Array, alpha: Array, chunk: int = 16384
) -> tuple[float, float]:
    """Σ c_i ℓ*(α_i) and what its terms add up to, in chunks that stay in cache; where c_i > 0.

    The second tells what rounding may have done to the first.
    """
    total = size = 0.0
    for start in range(0, len(c), chunk):
        part = slice(start, start + chunk)
        values = rows.loss.conjugate(alpha[part], rows.y[part])
        values = np.where(c[part] > 0, values, 0.0)
        total += float(c[part] @ values)
        size += float(c[part] @ rows.loss.conjugate_size(values, alpha[part], rows.y[part]))
    return total, size


def _weighted_sizes(c: Array, alpha: Array, chunk: int = 16384) -> Array:
    """Σ c_i |α_i| of each score, (K,)."""
    total = np.zeros(1 if alpha.ndim == 1 else alpha.shape[1])
    for start in range(0, len(c), chunk):
        total += c[start : start + chunk] @ np.abs(alpha[start : start + chunk])
    return total


def scale_rows(v: Array, c: Array) -> Array:
    """c_i v_i, written over c where that has room."""
    return np.multiply(v, c, out=c) if v.ndim == 1 else v * c[:, None]
