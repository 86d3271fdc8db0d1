"""λ on the simplex in O(log p) a step: draw a domain from λ, move an entry, project exactly.

The tree has 8 children a node, whose numbers are recomputed from below after every change, so that
rounding does not pile up; a change of λ as a whole is one number.

It keeps λ_k = a_k − τ ≥ 0. After a move, the projection takes the τ at which Σλ = 1 and raises
every a_k < τ to τ. Raising all that is below x to x concerns only the lowest values, and costs
O(log p) amortised if every node knows its lowest value and the next to lowest ("segment tree
beats"). The entries at 0 are equal and lowest, so they rise together when τ falls.

The totals over time for λ^A are lazy too. With Θ = τ_1 + … + τ_t the total of entry k is
U_k + a_k t − Θ, and a change of a_k by Δ leaves it as it is if U_k falls by Δ t. Now and then all
is brought back to τ = 0 in O(p), before rounding can be felt.
"""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anymix.solvers.compiled.compilation import inline, jit, part
from anymix.solvers.compiled.places import WIDTH, levels, lines
from anymix.solvers.compiled.simplex import project_simplex, two_sum

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

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
