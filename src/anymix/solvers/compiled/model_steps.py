"""Steps of w, as in `optimizers.py`: Plain keeps w itself, Lazy keeps w = s v."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from anymix.solvers.compiled.compilation import fast, inline, part
from anymix.solvers.compiled.records import (
    ADAGRAD,
    LISTS,
    MOMENTUM,
    NOTHING,
    SCALE,
    SGD,
    SINCE,
    SQUARE,
    SUM,
    VECTORS,
    Choice,
    Data,
    Lazy,
    Plain,
    Rules,
    Step,
)

Array = NDArray[np.float64]


@inline
def collect(rules: Rules, data: Data, chosen: Choice, step: Step, plain: Plain) -> None:
    """The vector δ_w, with the regulariser."""
    g, d, D = plain.gradient, data.d, data.d + data.intercept
    for c in range(len(step.scores)):
        for j in range(c * D, c * D + d):
            g[j] = rules.gamma * plain.w[j]
        if data.intercept:
            g[c * D + d] = 0
        for j in range(len(chosen.rows)):
            add(data, chosen.rows[j], step.slopes[j, c], g, c * D)
            if data.intercept:
                g[c * D + d] += step.slopes[j, c]


@fast
def add(data: Data, i: int, c: float, w: Array, at: int) -> None:
    """w ← w + c x_i for the block of w that begins at a place."""
    if len(data.ends) == 0:
        row, block = data.values[i * data.d : (i + 1) * data.d], w[at : at + data.d]
        for j in range(data.d):
            block[j] += c * row[j]
    else:
        for e in range(data.ends[i], data.ends[i + 1]):
            w[at + data.columns[e]] += c * data.values[e]


@inline
def plain_step(rules: Rules, step: Step, plain: Plain, size: float) -> bool:
    """w ← Π_W(w − size · direction); whether w and its average are finite."""
    w, t, square = plain.w, plain.time[0] + 1, 0.0
    plain.time[0] = t
    unbias1, unbias2 = 1 - rules.beta1**t, 1 - rules.beta2**t
    for j in range(len(w)):
        g = plain.gradient[j]
        if rules.optimistic:
            g = g if step.past[0] == NOTHING else 2 * g - plain.previous[j]
            plain.previous[j] = plain.gradient[j]
        w[j] -= size * direction(rules, plain, j, g, unbias1, unbias2)
        square += w[j] * w[j]
    finite = math.isfinite(square)
    if rules.radius < math.inf and not finite:
        return False
    shrink = rules.radius / math.sqrt(square) if square > rules.radius**2 else 1.0
    for j in range(len(w)):
        w[j] *= shrink
        plain.total[j] += w[j]
    if not finite:  # beyond 1e154 every number has to be looked at
        finite = True
        for j in range(len(w)):
            finite &= math.isfinite(plain.total[j])  # so is w_j, then
    return finite


@inline
def direction(
    rules: Rules, plain: Plain, j: int, g: float, unbias1: float, unbias2: float
) -> float:
    """Entry j of what the step rule makes of g."""
    first, second = plain.first, plain.second
    if rules.optimizer == SGD:
        return g
    if rules.optimizer == MOMENTUM:
        first[j] = rules.beta1 * first[j] + g
        return float(first[j])
    if rules.optimizer == ADAGRAD:
        first[j] += g * g
        return g / (math.sqrt(first[j]) + rules.epsilon)
    first[j] = rules.beta1 * first[j] + (1 - rules.beta1) * g
    second[j] = rules.beta2 * second[j] + (1 - rules.beta2) * g * g
    return float(first[j] / unbias1 / (math.sqrt(second[j] / unbias2) + rules.epsilon))


@inline
def lazy_step(
    rules: Rules, data: Data, chosen: Choice, step: Step, lazy: Lazy, size: float
) -> bool:
    """The same for SGD, with w = s v."""
    numbers, past, shrink = lazy.numbers, step.past[0], 1 - size * rules.gamma
    numbers[SINCE] += 1
    if numbers[SCALE] * shrink < 2**-10 or numbers[SINCE] > max(4096, 8 * data.d):
        fold(data, lazy, shrink)
    else:
        numbers[SCALE] *= shrink
    reach = 0.0
    for j in range(len(chosen.rows)):
        reach += 2 * abs(step.slopes[j, 0]) + abs(lazy.last_slopes[j, 0])
    if size * reach * data.longest > 1024 * rules.radius:  # S v − drag would lose Σ w so far
        fold(data, lazy, 1.0)
    for j in range(len(chosen.rows)):
        c = size if past == NOTHING else 2 * size
        take(data, lazy, chosen.rows[j], -c * step.slopes[j, 0])
    if past == LISTS:
        for j in range(len(chosen.rows)):
            take(data, lazy, lazy.last_rows[j], size * lazy.last_slopes[j, 0])
    elif past == VECTORS:
        fold(data, lazy, 1.0)
        for j in range(len(lazy.v)):
            lazy.v[j] += size * lazy.previous[j]
        fold(data, lazy, 1.0)
    if rules.radius < math.inf and not keep_inside(rules.radius, data, lazy):
        return False
    numbers[SUM] += numbers[SCALE]
    finite = True
    if data.intercept:
        lazy.total[data.d] += lazy.v[data.d]
        finite = math.isfinite(lazy.total[data.d])
    if not math.isfinite(numbers[SQUARE]):  # beyond 1e154 every number has to be looked at
        for j in range(data.d):
            finite &= math.isfinite(lazy.total[j] + (numbers[SUM] * lazy.v[j] - lazy.drag[j]))
    return finite


@inline
def take(data: Data, lazy: Lazy, i: int, c: float) -> None:
    """w ← w + c x_i."""
    numbers = lazy.numbers
    numbers[SQUARE] += add_lazily(data, i, c / numbers[SCALE], numbers[SUM], lazy.v, lazy.drag)
    if data.intercept:
        lazy.v[data.d] += c


@fast
def add_lazily(data: Data, i: int, c: float, S: float, v: Array, drag: Array) -> float:
    """v ← v + c x_i, drag ← drag + S c x_i; the change of ‖v‖²."""
    change = 0.0
    if len(data.ends) == 0:
        row = data.values[i * data.d : (i + 1) * data.d]
        for j in range(data.d):
            move = c * row[j]
            change += move * (2 * v[j] + move)
            v[j] += move
            drag[j] += S * move
    else:
        for e in range(data.ends[i], data.ends[i + 1]):
            j, move = data.columns[e], c * data.values[e]
            change += move * (2 * v[j] + move)
            v[j] += move
            drag[j] += S * move
    return change


@inline
def keep_inside(radius: float, data: Data, lazy: Lazy) -> bool:
    """w ← Π_W(w); whether ‖w‖² is finite."""
    square = lazy.numbers[SCALE] ** 2 * lazy.numbers[SQUARE]
    if data.intercept:
        square += lazy.v[data.d] ** 2
    if not math.isfinite(square):
        return False
    if square > radius * radius:
        shrink = radius / math.sqrt(square)
        lazy.numbers[SCALE] *= shrink
        if data.intercept:
            lazy.v[data.d] *= shrink
    return True


@part
def fold(data: Data, lazy: Lazy, shrink: float) -> None:
    """s = 1 and S = 0 for the same total, and w times `shrink`; ‖v‖² anew."""
    numbers, v, square = lazy.numbers, lazy.v, 0.0
    for j in range(data.d):
        lazy.total[j] += numbers[SUM] * v[j] - lazy.drag[j]
        lazy.drag[j] = 0
        v[j] *= numbers[SCALE] * shrink
        square += v[j] * v[j]
    numbers[SCALE], numbers[SUM], numbers[SQUARE], numbers[SINCE] = 1.0, 0.0, square, 0.0
