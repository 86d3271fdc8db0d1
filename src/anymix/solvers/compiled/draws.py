"""Which rows a step is about, as in `samplers.py`: the same uniforms choose the same rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anymix.solvers.compiled.compilation import inline
from anymix.solvers.compiled.entropic_tree import Entropic, entropic_draw
from anymix.solvers.compiled.euclidean_tree import Euclidean, euclidean_draw
from anymix.solvers.compiled.records import Choice, Data, Dense, Rules

Array = NDArray[np.float64]


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
