"""The steps of `stochastic.py` for linear models, compiled: the same uniforms, the same numbers.

Codes instead of objects, arrays that change in place instead of values. Who does not play is None
and is not compiled. There are two ways to keep w, and three to keep λ:

Plain  w itself, O(d) a step: any step rule, any number of scores.
Lazy   w = s v, for SGD and one score: a step on rows x_j of CSR data costs O(their entries).
       v ← v − (η/s) Σ c_j x_j moves, s ← (1 − ηγ) s shrinks, and Π_W scales s by way of ‖v‖², kept
       up to date. With S = s_1 + … + s_t the total Σ w_t is S v − drag, if every change Δ of v adds
       S Δ to drag. Before s is small all is folded back to s = 1, S = 0. The intercept, last in w,
       is apart: it does not shrink.

Dense  λ itself, O(p) a step; or one of the trees of `trees`, O(log p) a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from anymix.solvers.compiled.compilation import fast, inline, jit, part
from anymix.solvers.compiled.trees import (
    Entropic,
    Euclidean,
    entropic_draw,
    entropic_step,
    euclidean_draw,
    euclidean_step,
    project_simplex,
    two_sum,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Numbers = NDArray[np.uint32]

LOG, HUBER, HINGE, SOFTMAX = 0, 1, 2, 3  # losses; the squared error is Huber's with δ = ∞
SGD, MOMENTUM, ADAGRAD, ADAM = 0, 1, 2, 3
SCALE, SUM, SQUARE, SINCE = 0, 1, 2, 3  # places in Lazy.numbers
NOTHING, LISTS, VECTORS = 0, 1, 2  # what is known of the last step


class Rules(NamedTuple):
    """What is played, as numbers."""

    loss: int
    huber: float  # its δ
    weighted: bool  # or per domain
    batch: int
    uniform: bool  # or every domain
    mixture_batch: int
    optimizer: int
    beta1: float
    beta2: float
    epsilon: float
    gamma: float
    mu: float
    radius: float  # inf for none
    optimistic: bool
    entropic: bool
    fixed: bool  # λ does not move


class Data(NamedTuple):
    """The rows, read only. Dense rows lie one after the other and have no columns and ends."""

    values: Array
    columns: Numbers
    ends: Integers  # (n + 1,)
    y: Array  # (n,)
    domain_ends: Integers  # (p + 1,)
    domain_rows: Numbers  # row numbers, domain by domain
    shares: Array  # their running sum, domain k over (k, k + 1]; empty if all are equal
    offsets: Array  # (p,)
    d: int
    intercept: bool


class Choice(NamedTuple):
    """The rows that a step is about."""

    rows: Integers  # (n_w,): of δ_w
    mixture_rows: Integers  # (n_λ,): of δ_λ
    domains: Integers  # (2 m,): of the entries of δ_λ, then of those of the last step


class Step(NamedTuple):
    """The gradients: δ_w as slopes of rows, δ_λ as m entries (p of them for every domain)."""

    slopes: Array  # (n_w, K): c_j ℓ'
    entries: Array  # (2 m,): of this step, then of the last
    moves: Array  # (2 m,), scratch
    scores: Array  # (K,), scratch
    past: Integers  # (1,): what is known of the last step, if optimistic


class Lazy(NamedTuple):
    """w = s v."""

    v: Array  # (P,)
    total: Array
    drag: Array
    numbers: Array  # (4,): s, S, ‖v‖², steps since s was 1
    last_rows: Integers  # (n_w,)
    last_slopes: Array  # (n_w, 1)
    previous: Array  # (P,): δ_w before the first step of a resumed run


class Plain(NamedTuple):
    """w, and what its step rule remembers."""

    w: Array  # (P,)
    total: Array
    previous: Array  # δ_w of the last step
    gradient: Array  # scratch
    first: Array
    second: Array
    time: Array  # (1,)


class Dense(NamedTuple):
    """λ, (p,)."""

    mixture: Array
    logarithm: Array
    running: Array  # sum of λ; during a step, what rounding has taken from λ
    total: Array
    gradient: Array
    previous: Array  # δ_λ of the last step
    reference: Array  # m̄


@jit
def advance(
    rules: Rules,
    data: Data,
    chosen: Choice,
    ahead: Choice,
    step: Step,
    lazy: Lazy | None,
    plain: Plain | None,
    dense: Dense | None,
    euclidean: Euclidean | None,
    entropic: Entropic | None,
    uniforms: Array,
    sizes_w: Array,
    sizes_mixture: Array,
) -> int:
    """A step for every row of uniforms; the number of steps taken before a number was not finite.

    δ_w and δ_λ are those of the old (w, λ).
    """
    look = len(chosen.rows) + len(chosen.mixture_rows) <= 256
    for t in range(len(uniforms)):
        if dense is not None:
            add_up(rules, dense)
        choose(rules, data, chosen, dense, euclidean, entropic, uniforms[t])
        if look and t + 1 < len(uniforms):  # the next rows, if λ stays: let them come to the cache
            choose(rules, data, ahead, dense, euclidean, entropic, uniforms[t + 1])
            fetch_rows(data, ahead.rows)
            fetch_rows(data, ahead.mixture_rows)
            if euclidean is not None:
                fetch_places(euclidean.first, euclidean.low, euclidean.drag, ahead.domains)
                fetch_nodes(euclidean, ahead.domains)
            if entropic is not None:
                fetch_places(entropic.first, entropic.weight, entropic.drag, ahead.domains)
        if lazy is not None:
            w, scale = lazy.v, lazy.numbers[SCALE]
        if plain is not None:
            w, scale = plain.w, 1.0
        finite = model_slopes(rules, data, chosen, step, dense, w, scale)
        finite &= mixture_entries(rules, data, chosen, step, w, scale, sizes_mixture[t])
        if not finite:
            return t
        if lazy is not None:
            lazy_step(rules, data, chosen, step, lazy, sizes_w[t])
        if plain is not None:
            collect(rules, data, chosen, step, plain)
            plain_step(rules, step, plain, sizes_w[t])
        if dense is not None:
            dense_step(rules, chosen, step, dense, sizes_mixture[t])
        if euclidean is not None:
            n = moves(step, sizes_mixture[t])
            euclidean_step(euclidean, chosen.domains, step.moves, n)
        if entropic is not None:
            n = moves(step, sizes_mixture[t])
            entropic_step(entropic, chosen.domains, step.moves, n)
        if rules.optimistic:
            remember(chosen, step, lazy, dense)
    return len(uniforms)


# -- which rows, as in samplers.py -------------------------------------------------------------


@inline
def choose(
    rules: Rules,
    data: Data,
    chosen: Choice,
    dense: Dense | None,
    euclidean: Euclidean | None,
    entropic: Entropic | None,
    u: Array,
) -> None:
    """The rows that the uniforms u choose: first those of δ_w, then those of δ_λ."""
    n, p, used = len(chosen.rows), len(data.offsets), 0
    for j in range(n):
        k = j // rules.batch
        if rules.weighted:
            if dense is not None:
                k = place(dense, u[used])
            if euclidean is not None:
                k = euclidean_draw(euclidean, u[used])
            if entropic is not None:
                k = entropic_draw(entropic, u[used])
            used += 1
        chosen.rows[j] = pick(data, k, u[used])
        used += 1
    for j in range(len(chosen.mixture_rows)):
        k = j // rules.mixture_batch
        if rules.uniform:
            k = min(int(u[used] * p), p - 1)
            chosen.domains[j] = k
            used += 1
        chosen.mixture_rows[j] = pick(data, k, u[used])
        used += 1


@inline
def pick(data: Data, k: int, u: float) -> int:
    """The row of domain k at the place u among the running sum of its shares."""
    start, stop = data.domain_ends[k], data.domain_ends[k + 1]
    if len(data.shares) == 0:
        return int(data.domain_rows[min(start + int(u * (stop - start)), stop - 1)])
    low, high, target = start, stop - 1, k + u
    while low < high:  # the first above the target
        middle = (low + high) // 2
        if data.shares[middle] > target:
            high = middle
        else:
            low = middle + 1
    return int(data.domain_rows[low])


@inline
def add_up(rules: Rules, dense: Dense) -> None:
    """λ_1 + … + λ_k for every k, to draw from."""
    if rules.weighted and not rules.fixed:
        total = 0.0
        for k in range(len(dense.mixture)):
            total += dense.mixture[k]
            dense.running[k] = total


@inline
def place(dense: Dense, u: float) -> int:
    """The first k with λ_1 + … + λ_k > u Σλ."""
    low, high = 0, len(dense.running) - 1
    target = u * dense.running[high]
    while low < high:
        middle = (low + high) // 2
        if dense.running[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low


@inline
def fetch_rows(data: Data, rows: Integers) -> None:
    """Let these rows come to the cache: they lie anywhere, and waiting costs more than a step."""
    for i in rows:
        fetch(data.y, i)
        start, stop = i * data.d, (i + 1) * data.d
        if len(data.ends) > 0:
            start, stop = data.ends[i], data.ends[i + 1]
            for e in range(start, stop, 16):
                fetch(data.columns, e)
        for e in range(start, stop, 8):
            fetch(data.values, e)


@inline
def fetch_places(first: Integers, values: Array, drag: Array, domains: Integers) -> None:
    """The same for the entries that δ_λ will move in a large tree, and for the nodes above them."""
    if len(first) > 5:  # a small one is in the cache
        for j in range(len(domains) // 2):
            for level in range(3):
                place = first[level] + (domains[j] >> 3 * (level + 1) << 3)
                fetch(values, place)
                fetch(values, place + 7)
            fetch(drag, domains[j])


@inline
def fetch_nodes(tree: Euclidean, domains: Integers) -> None:
    """The same for what these nodes know."""
    if len(tree.first) > 5:
        for j in range(len(domains) // 2):
            for level in range(1, 3):
                place = tree.first[level] + (domains[j] >> 3 * (level + 1) << 3)
                fetch(tree.drag, place)
                fetch(tree.drag, place + 7)
                for c in range(0, 9, 2):
                    fetch(tree.node, 4 * (place - tree.first[1] + c))


def _fetch(context: Any, array: Any, place: Any) -> Any:
    """Start to load array[place] into the cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(prefetch, [address, number(0), number(3), number(1)])  # to read, soon, data
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


fetch = cast(Callable[[NDArray[Any], int], None], intrinsic(_fetch))


# -- their losses and slopes, as in losses.py --------------------------------------------------


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


# -- w, as in optimizers.py --------------------------------------------------------------------


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
def plain_step(rules: Rules, step: Step, plain: Plain, size: float) -> None:
    """w ← Π_W(w − size · direction)."""
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
    shrink = rules.radius / math.sqrt(square) if square > rules.radius**2 else 1.0
    for j in range(len(w)):
        w[j] *= shrink
        plain.total[j] += w[j]


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
) -> None:
    """The same for SGD, with w = s v."""
    numbers, past, shrink = lazy.numbers, step.past[0], 1 - size * rules.gamma
    numbers[SINCE] += 1
    if numbers[SCALE] * shrink < 2**-10 or numbers[SINCE] > max(4096, 8 * data.d):
        fold(data, lazy, shrink)
    else:
        numbers[SCALE] *= shrink
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
    if rules.radius < math.inf:
        keep_inside(rules.radius, data, lazy)
    numbers[SUM] += numbers[SCALE]
    if data.intercept:
        lazy.total[data.d] += lazy.v[data.d]


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
def keep_inside(radius: float, data: Data, lazy: Lazy) -> None:
    """w ← Π_W(w)."""
    square = lazy.numbers[SCALE] ** 2 * lazy.numbers[SQUARE]
    if data.intercept:
        square += lazy.v[data.d] ** 2
    if square > radius * radius:
        shrink = radius / math.sqrt(square)
        lazy.numbers[SCALE] *= shrink
        if data.intercept:
            lazy.v[data.d] *= shrink


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


# -- λ, as in adversary.py ---------------------------------------------------------------------


@inline
def moves(step: Step, size: float) -> int:
    """size · δ_λ, or size · (2 δ_λ less its last value); the number of entries."""
    m = len(step.entries) // 2
    for j in range(m):
        c = size if step.past[0] == NOTHING else 2 * size
        step.moves[j], step.moves[m + j] = c * step.entries[j], -size * step.entries[m + j]
    return m if step.past[0] == NOTHING else 2 * m


@inline
def dense_step(rules: Rules, chosen: Choice, step: Step, dense: Dense, size: float) -> None:
    """λ ← Π_Λ(λ + size · δ_λ), with 2 δ_λ less its last value for δ_λ if optimistic."""
    lam, log, delta, past = dense.mixture, dense.logarithm, dense.gradient, step.past[0]
    if rules.fixed:
        return
    for k in range(len(lam)):
        delta[k] = -2 * rules.mu * (lam[k] / dense.reference[k] - 1)
    for j in range(len(step.entries) // 2):
        delta[chosen.domains[j]] += step.entries[j]
    for k in range(len(lam)):
        move = size * (delta[k] if past == NOTHING else 2 * delta[k] - dense.previous[k])
        if rules.entropic:
            log[k] += move
        else:
            dense.running[k] = two_sum(lam, k, move)
    if rules.entropic:
        log_softmax(log, lam)
    else:
        project_simplex(lam, dense.running, len(lam))
    for k in range(len(lam)):
        dense.total[k] += lam[k]


@inline
def log_softmax(logits: Array, out: Array) -> None:
    """logits ← log λ, out ← λ ∝ e^{logits}."""
    top, total = logits[0], 0.0
    for k in range(1, len(logits)):
        top = max(top, logits[k])
    for k in range(len(logits)):
        out[k] = math.exp(logits[k] - top)
        total += out[k]
    shift = top + math.log(total)
    for k in range(len(logits)):
        out[k] /= total
        logits[k] -= shift


@inline
def remember(chosen: Choice, step: Step, lazy: Lazy | None, dense: Dense | None) -> None:
    """The gradients of this step are those of the last."""
    step.past[0] = LISTS
    m = len(step.entries) // 2
    for j in range(m):
        chosen.domains[m + j], step.entries[m + j] = chosen.domains[j], step.entries[j]
    if lazy is not None:
        for j in range(len(chosen.rows)):
            lazy.last_rows[j], lazy.last_slopes[j, 0] = chosen.rows[j], step.slopes[j, 0]
    if dense is not None:
        for k in range(len(dense.previous)):
            dense.previous[k] = dense.gradient[k]
