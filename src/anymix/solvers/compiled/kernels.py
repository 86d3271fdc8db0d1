"""The steps of `stochastic.py` for linear models, compiled: the same uniforms, the same numbers.

All compiled code but the losses is in this file, for Numba keeps it on disk (`cache=True`) until
*this file* changes: a callee elsewhere could change unseen. Losses are called by their addresses.
A step is read from top to bottom of `advance`, at the end; before it come the arrays that it works
on, then its parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Numbers = NDArray[np.uint32]
Function = TypeVar("Function", bound=Callable[..., Any])

# Nothing is allocated in compiled code, so references need not be counted (`_nrt`): that would take
# longer than the steps. `nogil`: other threads run meanwhile.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False, "cache": True}
WITHIN: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def jit(function: Function) -> Function:
    """Compiled at the first call."""
    return cast(Function, numba.njit(**OPTIONS)(function))


def part(function: Function) -> Function:
    """As `jit`, for functions that only compiled ones call."""
    return cast(Function, numba.njit(**OPTIONS, **WITHIN)(function))


def inline(function: Function) -> Function:
    """As `part`, copied to where it is called."""
    return cast(Function, numba.njit(**OPTIONS, **WITHIN, forceinline=True)(function))


def fast(function: Function) -> Function:
    """As `inline`, and numbers may be added up in any order."""
    rounding = {"reassoc", "contract", "nsz"}
    made = numba.njit(**OPTIONS, **WITHIN, forceinline=True, fastmath=rounding)(function)
    return cast(Function, made)


# -- what the kernels work on ----------------------------------------------------------------------
#
# What the kernels work on: codes instead of objects, arrays that change in place.
#
# There are two ways to keep w, and three to keep λ. Who does not play is None and is not compiled.
#
# Plain  w itself, O(d) a step: any step rule, any number of scores.
# Lazy   w = s v, for SGD and one score: a step on rows x_j of CSR data costs O(their entries).
#        v ← v − (η/s) Σ c_j x_j moves, s ← (1 − ηγ) s shrinks, and Π_W scales s by way of ‖v‖²,
#        kept
#        up to date. With S = s_1 + … + s_t the total Σ w_t is S v − drag, if every change Δ of v
#        adds
#        S Δ to drag. Before s is small all is folded back to s = 1, S = 0. The intercept, last in
#        w,
#        is apart: it does not shrink.
#
# Dense  λ itself, O(p) a step; or `Euclidean` or `Entropic`, trees with O(log p) a step.

SGD, MOMENTUM, ADAGRAD, ADAM = 0, 1, 2, 3
SCALE, SUM, SQUARE, SINCE = 0, 1, 2, 3  # places in Lazy.numbers
NOTHING, LISTS, VECTORS = 0, 1, 2  # what is known of the last step


class Rules(NamedTuple):
    """What is played, as numbers."""

    value: int  # the address of ℓ(z, y, parameter) of one score
    slope: int  # and that of ℓ'
    parameter: float
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
    longest: float  # no row is longer, if w has to stay in a ball


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
    prior: Array  # α − 1 of a Dirichlet prior; empty without one


# -- the projection onto the simplex ---------------------------------------------------------------
#
# The projection onto the simplex in O(p), with all digits that sums of floats can keep.


@inline
def two_sum(v: Array, k: int, x: float) -> float:
    """v_k ← v_k + x; returns what rounding has taken from the sum, exactly (Knuth)."""
    before, v[k] = v[k], v[k] + x
    added = v[k] - before
    return float((before - (v[k] - added)) + (x - added))


@part
def project_simplex(v: Array, lost: Array, p: int) -> None:
    """v ← max(v + lost − τ, 0) with Σ = 1, for p finite numbers and what their rounding has lost.

    Those under τ leave and τ rises, until none leaves (Michelot, 1986). At a tie, rounding may let
    some come back and leave again for ever; so the loop goes on only while fewer are left.
    """
    top = largest(v, p)
    for k in range(p):
        v[k] = (v[k] - top) + lost[k]  # no digit is lost near the top, where λ lives
    top = largest(v, p)  # not 0: of numbers beyond 2⁵³ rounding takes more than 1
    for k in range(p):
        v[k] -= top
    n, tau = p + 1, max((sum_all(v, p) - 1) / p, -1.0)  # the largest v is 0 and λ ≤ 1, so τ ≥ −1
    total, n_above = lower(v, p, tau)  # τ < 0, so the largest stays above it and n_above ≥ 1
    while n_above < n:
        n = n_above
        total, n_above = lower(v, p, (total - 1) / n)
    tau = (total - 1) / n_above  # what rounding has left
    for k in range(p):
        v[k] = max(v[k] - tau, 0.0)


@inline
def largest(v: Array, p: int) -> float:
    """The largest of p numbers."""
    top = v[0]
    for k in range(1, p):
        top = max(top, v[k])
    return float(top)


@fast
def sum_all(v: Array, p: int) -> float:
    """The sum of p numbers."""
    total = 0.0
    for k in range(p):
        total += v[k]
    return total


@fast
def lower(v: Array, p: int, tau: float) -> tuple[float, int]:
    """v ← v − τ; the sum and the number of those above 0."""
    total, n = 0.0, 0
    for k in range(p):
        v[k] -= tau
        above = v[k] > 0
        total += v[k] if above else 0.0  # not `if above:`, which takes five times as long
        n += above
    return total, n


# -- trees of 8 children a node --------------------------------------------------------------------

WIDTH = 8  # children of a node


def lines(n: int) -> Array:
    """n zeros from the start of a cache line of 64 bytes, which 8 children fill."""
    room = np.zeros(n + 7)
    start = -(room.ctypes.data // 8) % 8
    return room[start : start + n]


def levels(p: int) -> Integers:
    """0, p, …: level 0 is the entries, the last one the root."""
    sizes = [p, -(-p // WIDTH)]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // WIDTH))
    return np.cumsum([0, *sizes], dtype=np.int64)


# -- λ by euclidean steps in a tree ----------------------------------------------------------------
#
# λ on the simplex in O(log p) a step: draw a domain from λ, move an entry, project exactly.
#
# The tree has 8 children a node, whose numbers are recomputed from below after every change, so
# that
# rounding does not pile up; a change of λ as a whole is one number.
#
# It keeps λ_k = a_k − τ ≥ 0. After a move, the projection takes the τ at which Σλ = 1 and raises
# every a_k < τ to τ. Raising all that is below x to x concerns only the lowest values, and costs
# O(log p) amortised if every node knows its lowest value and the next to lowest ("segment tree
# beats"). The entries at 0 are equal and lowest, so they rise together when τ falls.
#
# The totals over time for λ^A are lazy too. With Θ = τ_1 + … + τ_t the total of entry k is
# U_k + a_k t − Θ, and a change of a_k by Δ leaves it as it is if U_k falls by Δ t. Now and then all
# is brought back to τ = 0 in O(p), before rounding can be felt.

N_LOW, NEXT, REST, N_REST = 0, 1, 2, 3  # columns of Euclidean.node
TAU, THETA, TIME, LOST = 0, 1, 2, 3  # places in Euclidean.clock


class Euclidean(NamedTuple):
    """λ_k = a_k − τ.

    Places 0..p−1 are the entries, after them the nodes, level by level, the root last.
    """

    low: Array  # (p + nodes,): a_k, or the lowest under a node
    drag: Array  # (p + nodes,): U_k, or what is to be added to the U of the lowest
    node: Array  # (nodes, 4): how many are lowest, the next to lowest, sum and number of the rest
    first: Integers  # (levels + 1,): the first place of a level
    clock: Array  # (4,): τ, Θ, t, and what rounding has taken from τ
    total: Array  # (p,): Σλ up to the last time that τ was 0
    stack: Integers  # scratch


def euclidean(mixture: Array, total: Array) -> Euclidean:
    """The tree of λ = mixture (p,), with total = Σλ so far."""
    p, first = len(mixture), levels(len(mixture))
    low, drag = lines(first[-1]), lines(first[-1])
    low[:p] = mixture
    node, stack = lines(4 * (first[-1] - p)), np.zeros((WIDTH * len(first), 2), dtype=np.int64)
    tree = Euclidean(low, drag, node.reshape(-1, 4), first, np.zeros(4), total.copy(), stack)
    gather_all(tree)
    return tree


def euclidean_read(tree: Euclidean) -> tuple[Array, Array]:
    """λ and Σλ over all steps; the tree stays as it is."""
    copy: Euclidean = deepcopy(tree)
    euclidean_rebase(copy)
    return copy.low[: len(copy.total)], copy.total


@part
def mass(tree: Euclidean, i: int, low: float) -> float:
    """Σλ under place i, whose lowest are `low`."""
    tau, i = tree.clock[TAU], i - tree.first[1]
    if i < 0:
        return float(low - tau)
    rest = tree.node[i, REST] - tau * tree.node[i, N_REST]
    return float(tree.node[i, N_LOW] * (low - tau) + rest)


@jit
def euclidean_draw(tree: Euclidean, u: float) -> int:
    """The first k with λ_1 + … + λ_k > u Σλ."""
    first, i = tree.first, len(tree.low) - 1
    floor = tree.low[i]
    target = u * mass(tree, i, floor)
    for level in range(len(first) - 2, 0, -1):
        start = first[level - 1] + WIDTH * (i - first[level])
        i = start
        for c in range(start, min(start + WIDTH, first[level])):
            m = mass(tree, c, max(tree.low[c], floor))
            if m > 0:
                i = c
                if target < m:
                    break
                target -= m
        floor = max(floor, tree.low[i])
    return i


@jit
def euclidean_step(tree: Euclidean, domains: Integers, moves: Array, n: int) -> None:
    """λ ← Π(λ + moves), the moves being n numbers at the given domains."""
    reach = 0.0
    for j in range(n):
        reach += abs(moves[j])
    if n > 1 and reach > 64:
        _long_step(tree, domains, moves, n)
        return
    for j in range(n):
        delta = moves[j] if n > 1 else min(max(moves[j], -2.0), 2.0)  # beyond, λ_k = 0 or 1 anyway
        _move(tree, domains[j], delta)
    _project(tree)
    tau = tree.clock[TAU]
    tree.clock[THETA] += tau
    tree.clock[TIME] += 1
    # The larger τ, the fewer digits are left for λ_k = a_k − τ. So begin again at τ = 0 before it
    # is large, and as often as costs next to nothing a step.
    far = abs(tau) * max(16.0, tree.node[len(tree.node) - 1, N_REST]) > 4096
    if far or tree.clock[TIME] > 64 + 8 * len(tree.total):
        euclidean_rebase(tree)
        _project(tree)  # Σλ = 1 again: each λ is as good as τ, but the sum of many may not be


@part
def _move(tree: Euclidean, k: int, delta: float) -> None:
    """a_k ← a_k + δ."""
    top = len(tree.first) - 2
    for level in range(top, 0, -1):
        _push(tree, level, k >> 3 * level)
    tree.low[k] += delta
    tree.drag[k] -= delta * tree.clock[TIME]
    for level in range(1, top + 1):
        _gather(tree, level, k >> 3 * level)


@inline
def _project(tree: Euclidean) -> None:
    """The τ with Σ max(a − τ, 0) = 1, and what rounding has taken; all a below τ are raised to it.

    A turn either finds τ or makes the lowest equal to the next to lowest. At most p values differ,
    so p turns are enough.
    """
    p, root, tau, lost = tree.first[1], len(tree.node) - 1, 0.0, 0.0
    for _ in range(p):
        low, following = tree.low[p + root], tree.node[root, NEXT]
        rest, n_rest = tree.node[root, REST], tree.node[root, N_REST]
        below = ((rest - n_rest * low) - 1) / p  # τ less the lowest, if all are in
        if below <= 0:
            tau = low + below
            lost = below - (tau - low)
            break
        tau = max((rest - 1) / n_rest, low)  # the lowest are out
        if tau < following - 2e-15 * abs(following):  # clearly: at a tie τ is mostly rounding
            _raise(tree, tau)
            break
        _raise(tree, following)  # the next to lowest join them
    tree.clock[TAU], tree.clock[LOST] = tau, lost


@part
def _raise(tree: Euclidean, x: float) -> None:
    """a ← max(a, x); x is not below the lowest. Enters a node at most once."""
    first, stack = tree.first, tree.stack
    root, n = len(tree.low) - 1, 0
    if x < tree.node[root - first[1], NEXT]:
        _lift(tree, root, x)
    else:
        stack[0, 0], stack[0, 1], n = root, len(first) - 2, 1
    while n > 0:
        i, level = stack[n - 1, 0], stack[n - 1, 1]
        if level < 0:  # back from below
            _gather(tree, -level, i - first[-level])
            n -= 1
            continue
        _push(tree, level, i - first[level])
        stack[n - 1, 1] = -level
        start = first[level - 1] + WIDTH * (i - first[level])
        for c in range(start, min(start + WIDTH, first[level])):
            if tree.low[c] < x:
                if level == 1 or x < tree.node[c - first[1], NEXT]:
                    _lift(tree, c, x)
                else:
                    stack[n, 0], stack[n, 1], n = c, level - 1, n + 1


@part
def _lift(tree: Euclidean, i: int, x: float) -> None:
    """The lowest under place i become x."""
    tree.drag[i] -= (x - tree.low[i]) * tree.clock[TIME]
    tree.low[i] = x


@part
def _push(tree: Euclidean, level: int, j: int) -> None:
    """Tell the children of node j of a level what it was told."""
    i, start = tree.first[level] + j, tree.first[level - 1] + WIDTH * j
    low, drag = tree.low[i], tree.drag[i]
    tree.drag[i] = 0
    for c in range(start, min(start + WIDTH, tree.first[level])):
        if tree.low[c] < low:
            tree.low[c] = low
            tree.drag[c] += drag


@part
def _gather(tree: Euclidean, level: int, j: int) -> None:
    """What node j of a level knows, from its children."""
    p, start = tree.first[1], tree.first[level - 1] + WIDTH * j
    stop = min(start + WIDTH, tree.first[level])
    low = tree.low[start]
    for c in range(start + 1, stop):
        low = min(low, tree.low[c])
    n_low, following, rest, n_rest = 0.0, np.inf, 0.0, 0.0
    for c in range(start, stop):
        a, n = tree.low[c], 1.0
        if level > 1:
            n = tree.node[c - p, N_LOW]
            rest += tree.node[c - p, REST]
            n_rest += tree.node[c - p, N_REST]
            following = min(following, tree.node[c - p, NEXT])
        if a > low:
            rest += n * a
            n_rest += n
            following = min(following, a)
        else:
            n_low += n
    i = tree.first[level] + j
    tree.low[i], tree.drag[i] = low, 0.0
    tree.node[i - p, N_LOW], tree.node[i - p, NEXT] = n_low, following
    tree.node[i - p, REST], tree.node[i - p, N_REST] = rest, n_rest


@jit
def gather_all(tree: Euclidean) -> None:
    """What all nodes know, from the entries."""
    for level in range(1, len(tree.first) - 1):
        for j in range(tree.first[level + 1] - tree.first[level]):
            _gather(tree, level, j)


@jit
def euclidean_rebase(tree: Euclidean) -> None:
    """τ = Θ = t = 0 for the same λ and Σλ."""
    tau, theta, time = tree.clock[TAU], tree.clock[THETA], tree.clock[TIME]
    for level in range(len(tree.first) - 2, 0, -1):
        for j in range(tree.first[level + 1] - tree.first[level]):
            _push(tree, level, j)
    for k in range(len(tree.total)):
        tree.total[k] += tree.drag[k] + (tree.low[k] * time - theta)
        tree.low[k] = (tree.low[k] - tau) - tree.clock[LOST]
        tree.drag[k] = 0
    tree.clock[:] = 0
    gather_all(tree)


@part
def _long_step(tree: Euclidean, domains: Integers, moves: Array, n: int) -> None:
    """The same step in O(p): moves that are large next to 1 would take digits from τ."""
    p = len(tree.total)
    euclidean_rebase(tree)
    for j in range(n):
        tree.drag[domains[j]] += two_sum(tree.low, domains[j], moves[j])
    project_simplex(tree.low, tree.drag, p)
    for k in range(p):
        tree.total[k] += tree.low[k]
        tree.drag[k] = 0
    gather_all(tree)


# -- λ by multiplicative weights in a tree ---------------------------------------------------------
#
# Multiplicative weights in O(log p) a step: λ_k = s_k / Σs with s_k = e^{g_k}, in a tree of sums.
#
# The tree has 8 children a node, summed anew from below after every change, so that rounding does
# not pile up. The totals over time for λ^A are lazy: with Ψ = Σ_t 1/Σs the total of entry k is
# U_k + s_k Ψ, and a change of s_k by Δ leaves it as it is if U_k falls by Δ Ψ. Now and then all is
# brought back to Σs = 1 in O(p), before rounding can be felt.


class Entropic(NamedTuple):
    """λ_k = s_k / Σs, in the same places."""

    weight: Array  # (p + nodes,): s_k, or their sum under a node
    log: Array  # (p,): g_k
    drag: Array  # (p,): U_k
    first: Integers  # (levels + 1,)
    psi: Array  # (1,)
    total: Array  # (p,): Σλ up to the last time that Σs was 1


def entropic(logarithm: Array, total: Array) -> Entropic:
    """The tree of λ = exp(logarithm) (p,), with total = Σλ so far."""
    p, first = len(logarithm), levels(len(logarithm))
    weight, drag = lines(first[-1]), np.zeros(p)
    tree = Entropic(weight, logarithm.copy(), drag, first, np.zeros(1), total.copy())
    entropic_rebase(tree)
    return tree


def entropic_read(tree: Entropic) -> tuple[Array, Array, Array]:
    """λ, log λ and Σλ over all steps; the tree stays as it is."""
    copy: Entropic = deepcopy(tree)
    entropic_rebase(copy)
    return copy.weight[: len(copy.log)], copy.log, copy.total


@jit
def entropic_draw(tree: Entropic, u: float) -> int:
    """The first k with λ_1 + … + λ_k > u Σλ."""
    first, i = tree.first, len(tree.weight) - 1
    target = u * tree.weight[i]
    for level in range(len(first) - 2, 0, -1):
        start = first[level - 1] + WIDTH * (i - first[level])
        i = start
        for c in range(start, min(start + WIDTH, first[level])):
            s = tree.weight[c]
            if s > 0:
                i = c
                if target < s:
                    break
                target -= s
    return i


@jit
def entropic_step(tree: Entropic, domains: Integers, moves: Array, n: int) -> None:
    """λ ← λ e^{moves} / Σ, the moves being n numbers at the given domains."""
    root, largest = len(tree.weight) - 1, 0.0
    for j in range(n):
        k = domains[j]
        tree.log[k] += moves[j]
        largest = max(largest, tree.log[k])
    if largest < 2:
        for j in range(n):
            _reweigh(tree, domains[j])
    if largest >= 2 or not 0.125 < tree.weight[root] < 8:
        entropic_rebase(tree)
    tree.psi[0] += 1 / tree.weight[root]


@part
def _reweigh(tree: Entropic, k: int) -> None:
    """s_k ← e^{g_k}."""
    s = math.exp(tree.log[k])
    tree.drag[k] -= (s - tree.weight[k]) * tree.psi[0]
    tree.weight[k] = s
    for level in range(1, len(tree.first) - 1):
        _sum(tree, level, k >> 3 * level)


@part
def _sum(tree: Entropic, level: int, j: int) -> None:
    """Node j of a level, from its children."""
    start = tree.first[level - 1] + WIDTH * j
    s = 0.0
    for c in range(start, min(start + WIDTH, tree.first[level])):
        s += tree.weight[c]
    tree.weight[tree.first[level] + j] = s


@jit
def entropic_rebase(tree: Entropic) -> None:
    """Σs = 1 and Ψ = 0 for the same Σλ; s follows g where it has not yet."""
    p, top, Z = len(tree.log), tree.log[0], 0.0
    for k in range(p):
        tree.total[k] += tree.drag[k] + tree.weight[k] * tree.psi[0]
        top = max(top, tree.log[k])
    for k in range(p):
        Z += math.exp(tree.log[k] - top)
    shift = math.log(Z)
    for k in range(p):
        tree.log[k] = (tree.log[k] - top) - shift  # next to a large top, top + shift would be top
        tree.weight[k], tree.drag[k] = math.exp(tree.log[k]), 0.0
    for level in range(1, len(tree.first) - 1):
        for j in range(tree.first[level + 1] - tree.first[level]):
            _sum(tree, level, j)
    tree.psi[0] = 0


# -- which rows a step is about --------------------------------------------------------------------
#
# Which rows a step is about, as in `samplers.py`: the same uniforms choose the same rows.


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
    return int(data.domain_rows[first_above(data.shares, start, stop - 1, k + u)])


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
    last = len(dense.running) - 1
    return first_above(dense.running, 0, last, u * dense.running[last])


@inline
def first_above(running: Array, low: int, high: int, target: float) -> int:
    """The first place from `low` on where a rising sequence is above the target; `high` if none."""
    while low < high:
        middle = (low + high) // 2
        if running[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low


# -- prefetch ------------------------------------------------------------------------------------
#
# Rows lie anywhere in memory. Waiting for those of PerDomain or of CSR data takes longer than the
# step: without these lines steps take 1.4 to 2.5 times as long.


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


@inline
def fetch_rows(data: Data, rows: Integers) -> None:
    """Start to load these rows into the cache."""
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


# -- gradients -------------------------------------------------------------------------------------
#
# δ_w as slopes of rows and δ_λ as entries. The loss of one score and its slope are called by their
# addresses: each is compiled apart and kept with the file of its loss.


def _call(context: Any, address: Any, z: Any, y: Any, parameter: Any) -> Any:
    """The function (z, y, parameter) -> float at an address, which raises nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, place = ir.DoubleType(), ir.IntType(8).as_pointer()
        inputs = [number.as_pointer(), place.as_pointer(), number, number, number]
        kind = ir.FunctionType(ir.IntType(32), inputs).as_pointer()
        result, nothing = cgutils.alloca_once(builder, number), ir.Constant(inputs[1], None)
        builder.call(builder.inttoptr(arguments[0], kind), [result, nothing, *arguments[1:]])
        return builder.load(result)

    return types.float64(types.int64, types.float64, types.float64, types.float64), generate


call = cast(Callable[[int, float, float, float], float], intrinsic(_call))


@cache  # keeps the machine code alive
def address(function: Callable[[float, float, float], float]) -> int:
    """Where the machine code of a function (z, y, parameter) -> float is, as `call` calls it."""
    compiled: Any = jit(function)
    numbers = (types.float64,) * 3
    compiled.compile(numbers)
    found = compiled.overloads[numbers]
    return int(found.library.get_pointer_to_function(found.fndesc.mangled_name))


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
        if len(step.scores) > 1:
            softmax(step.scores, int(data.y[i]))
        else:
            step.scores[0] = call(rules.slope, step.scores[0], data.y[i], rules.parameter)
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
            if len(step.scores) > 1:
                total += softmax(step.scores, int(data.y[i]))
            else:
                total += call(rules.value, step.scores[0], data.y[i], rules.parameter)
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


# -- steps of w ------------------------------------------------------------------------------------
#
# Steps of w, as in `optimizers.py`: Plain keeps w itself, Lazy keeps w = s v.


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


# -- steps of λ ------------------------------------------------------------------------------------
#
# Steps of λ, as in `adversary.py`: the dense ones, and what the trees are given to move.


@inline
def moves(step: Step, size: float) -> int:
    """size · δ_λ, or size · (2 δ_λ less its last value); the number of entries."""
    m = len(step.entries) // 2
    for j in range(m):
        e = step.entries[j] if step.past[0] == NOTHING else 2 * step.entries[j]
        step.moves[j], step.moves[m + j] = size * e, -size * step.entries[m + j]
    return m if step.past[0] == NOTHING else 2 * m


@inline
def dense_step(rules: Rules, chosen: Choice, step: Step, dense: Dense, size: float) -> None:
    """λ ← Π_Λ(λ + size · δ_λ), with 2 δ_λ less its last value for δ_λ if optimistic."""
    lam, log, delta, past = dense.mixture, dense.logarithm, dense.gradient, step.past[0]
    if rules.fixed:
        return
    for k in range(len(lam)):
        delta[k] = -2 * rules.mu * (lam[k] / dense.reference[k] - 1)
    for k in range(len(dense.prior)):
        if dense.prior[k] > 0:
            delta[k] += dense.prior[k] / lam[k]
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
def prior_is_finite(dense: Dense, size: float) -> bool:
    """Whether a step along the prior's slope (α − 1)/λ is: no λ_k may be 0 where α_k > 1."""
    for k in range(len(dense.prior)):
        if dense.prior[k] > 0:
            if dense.mixture[k] == 0.0:
                return False
            if not math.isfinite(2 * size * (dense.prior[k] / dense.mixture[k])):
                return False
    return True


@inline
def log_softmax(logits: Array, out: Array) -> None:
    """logits ← log λ, out ← λ ∝ e^{logits}."""
    top, total = logits[0], 0.0
    for k in range(1, len(logits)):
        top = max(top, logits[k])
    for k in range(len(logits)):
        out[k] = math.exp(logits[k] - top)
        total += out[k]
    shift = math.log(total)
    for k in range(len(logits)):
        out[k] /= total
        logits[k] = (logits[k] - top) - shift  # not − (top + shift): next to a large top it is lost


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


# -- a step ----------------------------------------------------------------------------------------


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
    """A step along δ_w and δ_λ, both at the old (w, λ), for every row of uniforms.

    Returns the number of steps before a number was not finite.
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
            if entropic is not None:
                fetch_places(entropic.first, entropic.weight, entropic.drag, ahead.domains)
        if lazy is not None:
            w, scale = lazy.v, lazy.numbers[SCALE]
        if plain is not None:
            w, scale = plain.w, 1.0
        finite = model_slopes(rules, data, chosen, step, dense, w, scale)
        finite &= mixture_entries(rules, data, chosen, step, w, scale, sizes_mixture[t])
        if not finite or (dense is not None and not prior_is_finite(dense, sizes_mixture[t])):
            return t
        if lazy is not None:
            finite = lazy_step(rules, data, chosen, step, lazy, sizes_w[t])
        if plain is not None:
            collect(rules, data, chosen, step, plain)
            finite = plain_step(rules, step, plain, sizes_w[t])
        if not finite:
            return t
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
