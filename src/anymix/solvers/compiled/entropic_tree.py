"""Multiplicative weights in O(log p) a step: λ_k = s_k / Σs with s_k = e^{g_k}, in a tree of sums.

The tree has 8 children a node, summed anew from below after every change, so that rounding does
not pile up. The totals over time for λ^A are lazy: with Ψ = Σ_t 1/Σs the total of entry k is
U_k + s_k Ψ, and a change of s_k by Δ leaves it as it is if U_k falls by Δ Ψ. Now and then all is
brought back to Σs = 1 in O(p), before rounding can be felt.
"""

from __future__ import annotations

import math
from copy import deepcopy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anymix.solvers.compiled.compilation import jit, part
from anymix.solvers.compiled.places import WIDTH, levels, lines

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


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
