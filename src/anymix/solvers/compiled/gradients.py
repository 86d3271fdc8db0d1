"""δ_w as slopes of rows and δ_λ as entries: the losses of `losses.py` and their slopes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from anymix.solvers.compiled.compilation import fast, inline
from anymix.solvers.compiled.records import HINGE, LOG, SOFTMAX, Choice, Data, Dense, Rules, Step

Array = NDArray[np.float64]


@inline
def model_slopes(
    rules: Rules,
    data: Data,
    chosen: Choice,
    step: Step,
    dense: Dense | None,
    w: Array,
    scale: float,
) -> bool:
    """The slopes of δ_w; whether all are finite."""
    b, finite = rules.batch, True
    for j in range(len(chosen.rows)):
        i, c = chosen.rows[j], 1 / b
        if dense is not None and not rules.weighted:
            c = dense.mixture[j // b] / b
        scores(data, step, w, scale, i)
        if rules.loss == SOFTMAX:
            softmax(step.scores, int(data.y[i]))
        else:
            step.scores[0] = slope(rules, step.scores[0], data.y[i])
        for a in range(len(step.scores)):
            step.slopes[j, a] = c * step.scores[a]
            finite &= math.isfinite(step.slopes[j, a])
    return finite


@inline
def mixture_entries(
    rules: Rules, data: Data, chosen: Choice, step: Step, w: Array, scale: float, size: float
) -> bool:
    """The entries of δ_λ, less the offsets; whether a step of this size is finite."""
    m, b, reach = len(step.entries) // 2, rules.mixture_batch, 0.0
    rows_each, c = (1, len(data.offsets) / b) if rules.uniform else (b, 1.0)
    for j in range(m):
        total = 0.0
        for r in range(j * rows_each, (j + 1) * rows_each):
            i = chosen.mixture_rows[r]
            scores(data, step, w, scale, i)
            if rules.loss == SOFTMAX:
                total += softmax(step.scores, int(data.y[i]))
            else:
                total += value(rules, step.scores[0], data.y[i])
        step.entries[j] = (total / rows_each - data.offsets[chosen.domains[j]]) * c
        reach += size * (2 * abs(step.entries[j]) + abs(step.entries[m + j]))
    return math.isfinite(reach)  # so is any sum of moves


@inline
def scores(data: Data, step: Step, w: Array, scale: float, i: int) -> None:
    """⟨w, (x_i, 1)⟩, or K such."""
    d, D = data.d, data.d + data.intercept
    for c in range(len(step.scores)):
        z = scale * dot(data, i, w, c * D)
        step.scores[c] = z + w[c * D + d] if data.intercept else z


@fast
def dot(data: Data, i: int, w: Array, at: int) -> float:
    """⟨w, x_i⟩ for the block of w that begins at a place."""
    z = 0.0
    if len(data.ends) == 0:
        row, block = data.values[i * data.d : (i + 1) * data.d], w[at : at + data.d]
        for j in range(data.d):
            z += row[j] * block[j]
    else:
        for e in range(data.ends[i], data.ends[i + 1]):
            z += data.values[e] * w[at + data.columns[e]]
    return z


@inline
def value(rules: Rules, z: float, y: float) -> float:
    """ℓ(z, y) of one score."""
    if rules.loss == LOG:
        m = z if y < 0.5 else -z
        return math.log1p(math.exp(-abs(m))) + max(m, 0.0)
    if rules.loss == HINGE:
        return max(1 - (2 * y - 1) * z, 0.0)
    r = z - y
    g = min(max(r, -rules.huber), rules.huber)
    return g * (r - 0.5 * g)


@inline
def slope(rules: Rules, z: float, y: float) -> float:
    """ℓ'(z, y) of one score."""
    if rules.loss == LOG:
        m = z if y < 0.5 else -z
        e = math.exp(-abs(m))
        p = (1.0 if m >= 0 else e) / (1 + e)
        return p if y < 0.5 else -p
    if rules.loss == HINGE:
        s = 2 * y - 1
        return -s if 1 - s * z > 0 else 0.0
    return min(max(z - y, -rules.huber), rules.huber)


@inline
def softmax(z: Array, y: int) -> float:
    """ℓ of the scores z, which become ℓ'."""
    top, z_y, total = z[0], z[y], 0.0
    for c in range(1, len(z)):
        top = max(top, z[c])
    for c in range(len(z)):
        z[c] = math.exp(z[c] - top)
        total += z[c]
    for c in range(len(z)):
        z[c] /= total
    z[y] -= 1
    return float(math.log(total) + (top - z_y))
