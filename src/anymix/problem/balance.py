"""Slopes that add up to nothing, Σ c_i α_i = 0, as a bound needs where intercepts are free.

A change τ of the intercepts changes the slope ℓ'(z_i) by ℓ''(z_i) τ, about.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from anymix.problem.weighted import WeightedRows

Array = NDArray[np.float64]

__all__ = ["balanced", "bend", "centred"]


def bend(curvature: Array, u: Array) -> Array:
    """ℓ''(z_i) u_i for a change u of the scores; for K scores `curvature` is P (n, K)."""
    if u.ndim == 1:
        return curvature * u
    mean: Array = np.einsum("ik,ik->i", curvature, u)
    return curvature * (u - mean[:, None])


def balanced(alpha: Array, c: Array, curvature: Array) -> Array | None:
    """α ← α + ℓ''τ, in place, with the change τ of the intercepts for Σ c_i α_i = 0."""
    p = curvature
    h = c @ p if p.ndim == 1 else np.diag(c @ p) - p.T @ (c[:, None] * p)
    if not np.any(h):
        return None
    for _ in range(2):  # the second time for rounding
        g = c @ alpha
        shift = -g / h if p.ndim == 1 else -np.linalg.lstsq(h, g)[0]
        if p.ndim == 1:
            alpha = blas.daxpy(p, alpha, a=shift)  # in place, without a copy
        else:
            alpha += bend(p, np.broadcast_to(shift, alpha.shape))
    return alpha


def centred(rows: WeightedRows, scores: Array, c: Array) -> Array:
    """ℓ' after the intercept change that makes Σ c_i ℓ'_i = 0: Newton, O(n) a step.

    What rounding or a kink leaves of the sum goes by mixing the ℓ' of both sides of the root,
    which stays where ℓ* is finite.
    """
    if rows.n_scores > 1:
        return _centred_softmax(rows, scores, c)
    reach = float(np.max(np.abs(scores))) + 50.0 + rows.loss.furthest(rows.y)
    low, high, shift = -reach, reach, 0.0
    sides: dict[bool, tuple[Array, float]] = {}  # g > 0: the last ℓ' and g = Σ c_i ℓ'_i there
    for _ in range(200):
        slope, g, h = _sums(rows, scores + shift, c)
        sides[g > 0] = slope, g
        low, high = (low, shift) if g > 0 else (shift, high)
        rounding = 1e-14 * float(c @ np.abs(slope))
        if abs(g) <= rounding or high - low <= 1e-15 * reach:
            break
        newton = shift - g / h if h > 0 else np.inf
        shift = newton if low < newton < high else 0.5 * (low + high)
    return _mixed(*sides.values())


def _sums(rows: WeightedRows, z: Array, c: Array) -> tuple[Array, float, float]:
    """ℓ', Σ c_i ℓ'_i and Σ c_i ℓ''_i at the scores z."""
    order = 2 if rows.loss.is_smooth else 1
    _, slope, *rest = rows.loss.derivatives(z, rows.y, order)
    return slope, float(c @ slope), float(c @ rest[0]) if rest else 0.0


def _mixed(one: tuple[Array, float], other: tuple[Array, float] | None = None) -> Array:
    """The mix of two slopes, with sums g of opposite signs, that sums to 0."""
    a, g_a = one
    if other is None or g_a == 0:
        return a
    b, g_b = other
    share = g_a / (g_a - g_b)
    return np.clip((1 - share) * a + share * b, np.minimum(a, b), np.maximum(a, b))


def _centred_softmax(rows: WeightedRows, scores: Array, c: Array) -> Array:
    """The K-dimensional case of `centred`: damped Newton on the K intercepts.

    What is left, g = Σ c_i (P_i − onehot_i) / Σ c_i, goes by P ← (1 − θ)(P − g) + θπ with the
    shares π of the classes and the least θ that keeps P ≥ 0.
    """
    total = float(c.sum())
    if total == 0:
        return rows.loss.derivatives(scores, rows.y, 1)[1]
    share = np.bincount(rows.y, weights=c, minlength=rows.n_scores) / total  # π
    z = np.where(share > 0, scores, -np.inf)  # a class without weight gets no probability
    for _ in range(100):
        _, slope, p = rows.loss.derivatives(z, rows.y, 2)
        g = c @ slope / total
        if np.max(np.abs(g)) <= 1e-14:
            break
        h = np.diag(c @ p) - p.T @ (c[:, None] * p)  # singular along (1, …, 1), as is g
        damping = 1e-12 * max(float(np.trace(h)), 1e-100)  # every P may be 0 or 1 far out
        newton = np.linalg.lstsq(h + damping * np.eye(len(g)), total * g)[0]
        z = z - newton * min(1.0, 2.0 / max(float(np.max(np.abs(newton))), 1e-300))
    excess = float(np.max(g / np.where(share > 0, share, np.inf)))  # θ / (1 − θ)
    p = np.maximum(p - g + excess * share, 0.0) / (1 + excess)
    p[np.arange(len(p)), rows.y] -= 1
    return p
