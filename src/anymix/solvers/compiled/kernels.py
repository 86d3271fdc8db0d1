"""The steps of `stochastic.py` for linear models, compiled: the same uniforms, the same numbers.

A step is read from top to bottom of `advance`; its parts have files of their own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anymix.solvers.compiled.compilation import jit
from anymix.solvers.compiled.draws import add_up, choose
from anymix.solvers.compiled.entropic_tree import Entropic, entropic_step
from anymix.solvers.compiled.euclidean_tree import Euclidean, euclidean_step
from anymix.solvers.compiled.gradients import mixture_entries, model_slopes
from anymix.solvers.compiled.mixture_steps import dense_step, moves, prior_is_finite, remember
from anymix.solvers.compiled.model_steps import collect, lazy_step, plain_step
from anymix.solvers.compiled.prefetch import fetch_ahead
from anymix.solvers.compiled.records import SCALE, Choice, Data, Dense, Lazy, Plain, Rules, Step

Array = NDArray[np.float64]


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
            fetch_ahead(data, ahead, euclidean, entropic)
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
