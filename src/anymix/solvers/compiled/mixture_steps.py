"""Steps of λ, as in `adversary.py`: the dense ones, and what the trees are given to move."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from anymix.solvers.compiled.compilation import inline
from anymix.solvers.compiled.records import LISTS, NOTHING, Choice, Dense, Lazy, Rules, Step
from anymix.solvers.compiled.simplex import project_simplex, two_sum

Array = NDArray[np.float64]


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
