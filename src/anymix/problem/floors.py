"""What no w can undercut where nothing penalises w: a proof that rounding cannot spoil.

With f(w) = Σ c_i ℓ(z_i), slopes α_i = ℓ'(z_i), curvatures h_i = ℓ''(z_i), rows x̃_i = (x_i, 1), and

    g = Σ c_i α_i x̃_i,    M = Σ c_i h_i x̃_i x̃_iᵀ,    s = M⁻¹g,    t = max_i |⟨x̃_i, s⟩|,

the slopes α_i − h_i ⟨x̃_i, s⟩ add up to 0 over the rows, so by Fenchel duality they prove

    min f ≥ f(w) − 0.7 ⟨g, s⟩    while no slope leaves the domain of ℓ*: t ≤ `Loss.room`.

(For squared errors this is Newton's ½⟨g, s⟩; 0.7 covers the change of ℓ*'' on the way.) The
numbers g and M come with rounding errors, which are bounded here; where M is not known well enough
to tell whether it is regular, there is no proof. Columns that depend on others are left out first,
and only if they do so exactly: a column that differs from a sum of others by rounding alone may
still serve a model with huge weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigvalsh, lapack

from anymix.problem.losses import Growth

Array = NDArray[np.float64]

__all__ = ["UNIT", "Sums", "absorbed", "floor", "rounding_of"]

UNIT = float(np.finfo(np.float64).eps) / 2  # of rounding
LEAST = 1e-290  # numbers below it may have lost digits to underflow


def rounding_of(n_rows: float) -> float:
    """The relative error that a sum over so many rows may have: (2√n + 16) u.

    Errors of a sum grow like √n (Higham and Mary, A new approach to probabilistic rounding error
    analysis, 2019), and adding up in blocks, as is done here, makes them smaller still.
    """
    return (2 * math.sqrt(n_rows) + 16) * UNIT


@dataclass(frozen=True)
class Sums:
    """All that the proof needs to know about w, as sums over the rows that count.

    Parameters
    ----------
    value : float
        f(w) = Σ c_i ℓ_i.
    gradient, error : ndarray of shape (D,)
        g, and what rounding may have done to it.
    hessian : ndarray of shape (D, D)
        M; for K scores, K x K blocks.
    reach : ndarray of shape (D,)
        At least max_i |x̃_ij| of the column of each entry of w.
    length : float
        Σ_j |w_j| reach_j + `Growth.offset`, a bound of the scores: what they lose to rounding.
    rounding : float
        The relative error that a sum over the rows may have.
    room : float
        How far slopes may move, as a multiple of the curvature: see `Loss.room`.
    n_scores : int
        K; with K ≥ 2 no loss sees a vector that is added to all K blocks of w.
    vanishes : function
        (D / K,) -> bool, whether Σ_j u_j x̃_ij is exactly 0 in every row that counts.
    growth : Growth
        How steep the losses may be.
    kinks : float
        √Σ c_i (ℓ*'(α_i) − z_i)²: 0, but for losses that are linear far out.
    """

    value: float
    gradient: Array
    error: Array
    hessian: Array
    reach: Array
    length: float
    rounding: float
    room: float
    n_scores: int
    vanishes: Callable[[Array], bool]
    growth: Growth
    kinks: float = 0.0


def floor(sums: Sums) -> float:
    """A value ≥ 0 that f(w') does not undercut for any w'; 0 where there is no proof of more."""
    kept = _independent(sums)
    if kept is None:
        return 0.0
    slope = sums.growth.steepness(sums.value)  # Σ c_i |α_i| is at most this
    moved = _move(sums, kept) if kept.size else (0.0, 0.0)
    if moved is None or moved[1] > sums.room:
        return 0.0
    energy = moved[0]
    scores = (len(sums.reach) + 2) * UNIT * sums.length  # what rounding does to a score
    lost = (sums.rounding + 64 * UNIT) * sums.value + scores * slope
    lost += (scores + sums.kinks) * math.sqrt(energy)
    return max(0.0, sums.value - 0.7 * energy - lost)


def _move(sums: Sums, kept: NDArray[np.intp]) -> tuple[float, float] | None:
    """Bounds of ⟨g, M⁻¹g⟩ and max_i |⟨x̃_i, M⁻¹g⟩| over the columns kept.

    In the unit of its diagonal, M is S, known up to `rounding` in every entry: |Σ c h x_j x_k| is
    at most the root of the product of two entries of the diagonal.
    """
    diagonal = np.diag(sums.hessian)[kept]
    if not np.all(diagonal > LEAST):  # of K classes, one may have no curvature left
        return None
    scale = np.sqrt(diagonal)
    S = sums.hessian[np.ix_(kept, kept)] / np.outer(scale, scale)
    doubt = len(kept) * sums.rounding
    least = float(eigvalsh(S, subset_by_index=(0, 0))[0]) - doubt
    if least <= doubt:
        return None
    g, reach = sums.gradient[kept] / scale, sums.reach[kept] / scale
    y = cho_solve(cho_factor(S, lower=True), g)
    rest = float(np.linalg.norm(g - S @ y)) + doubt * float(np.linalg.norm(y))
    rest += float(np.linalg.norm(sums.error[kept] / scale))
    energy = (math.sqrt(max(float(y @ S @ y), 0.0)) + rest / math.sqrt(least)) ** 2
    furthest = float(reach @ np.abs(y)) + float(np.linalg.norm(reach)) * rest / least
    return energy * (1 + 1e-6), furthest


def _independent(sums: Sums) -> NDArray[np.intp] | None:
    """Entries of w that are enough to reach all scores; None if that cannot be told.

    Of K blocks the last is not needed, and in each block neither are columns that are exactly 0,
    nor those that are exactly a sum of others.
    """
    K, size = sums.n_scores, len(sums.gradient) // sums.n_scores
    blocks = sums.hessian.reshape(K, size, K, size)
    gram = np.einsum("ajak->jk", blocks)
    present = np.flatnonzero(sums.reach[:size] > 0)
    diagonal = np.diag(gram)[present]
    if not np.all(np.isfinite(gram)) or np.any(diagonal <= 0):
        return None  # slopes without curvature
    if present.size:
        scale = np.sqrt(diagonal)
        S = gram[np.ix_(present, present)] / np.outer(scale, scale)
        tol = 8 * len(present) * sums.rounding
        _, order, rank, _ = lapack.dpstrf(S, tol=tol, lower=1)
        order = present[order - 1]
        for j in order[rank:]:
            if not sums.vanishes(_combination(gram, order[:rank], j, size)):
                return None
        present = np.sort(order[:rank])
    return np.concatenate([block * size + present for block in range(max(1, K - 1))])


def _combination(gram: Array, kept: NDArray[np.intp], j: int, size: int) -> Array:
    """u with u_j = 1 and, if column j is a sum of others with whole coefficients, Σ u_k x_k = 0."""
    u = np.zeros(size)
    scale = np.sqrt(np.diag(gram))
    S = gram[np.ix_(kept, kept)] / np.outer(scale[kept], scale[kept])
    share = np.linalg.lstsq(S, gram[kept, j] / (scale[kept] * scale[j]))[0]
    u[kept] = -share * scale[j] / scale[kept]
    u[j] = 1.0
    return u


def absorbed(
    v: Array,
    error: Array,
    give: Array,
    free: NDArray[np.bool_],
    reach: Array,
    rounding: float,
    room: float,
    bend: float,
) -> tuple[float, Array, Array] | None:
    """What it costs to make v exactly 0 where w is free: (charge, v, error), or None if it cannot.

    v = Σ c_i α_i x̃_i. With h_i = 1/ℓ*''(α_i), `give` M = Σ c_i h_i on the free entries, where x̃
    is 1, and r what is left of v there, the α move by h_i s, s = M⁻¹r. That changes Σ c_i ℓ*(α_i)
    by at most √(`bend` ⟨r, s⟩) + ⟨r, s⟩, `bend` being Σ c_i h_i ℓ*'(α_i)², and the other entries of
    v by at most reach_j √(m ⟨r, s⟩), m ≥ 1 and at least the largest entry of the diagonal of M.
    """
    r = np.where(free, np.abs(v) + error, 0.0)
    left = np.flatnonzero(r)
    if not left.size:
        return 0.0, v, error
    few = left[: max(1, len(left) - 1)]  # of K intercepts one is implied
    place = np.searchsorted(np.flatnonzero(free), few)
    M = give[np.ix_(place, place)]
    diagonal = np.diag(M)
    if not np.all(diagonal > 0):
        return None
    scale = np.sqrt(diagonal)
    least = float(eigvalsh(M / np.outer(scale, scale))[0]) - 2 * len(few) * rounding
    if least <= 0:
        return None
    size = float(np.linalg.norm(r[few] / scale))
    energy = size**2 / least
    if math.sqrt(float(np.sum(1 / diagonal))) * size / least > room:
        return None
    most = max(1.0, float(np.max(np.diag(give))))
    others = np.where(free, 0.0, reach * math.sqrt(most * energy) * 1.01)
    charge = math.sqrt(bend * energy) + energy
    return charge, np.where(free, 0.0, v), np.where(free, 0.0, error + others)
