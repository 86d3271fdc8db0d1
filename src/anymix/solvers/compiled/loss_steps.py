"""The loss of rows by domain and the step of λ after it, for the training loop of a user.

    S_k = Σ_{i ∈ k} ℓ_i    n_k = rows of domain k    c_i = λ_k / n_k
    δ_k = S_k / n_k − b_k    λ ← Π_Δ(λ + γ δ)

Both calls return False where they met something out of the usual; λ and all that goes with it are
then as they were. Integers named after numbers are their addresses, which the caller has checked.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.solvers.compiled.addresses import doubles, floats, integers
from anymix.solvers.compiled.compilation import jit, part
from anymix.solvers.compiled.simplex import project_simplex, two_sum

Array = NDArray[np.float64]
BYTES = 8  # of a float64


@jit
def weigh(
    is_double: bool, losses: int, ids: int, n: int, lam: int, p: int, sums: int, weights: int
) -> bool:
    """S, n and n into the rows of `sums` (3, p + 1), and c into `weights` (n,).

    False where an id is not 0..p − 1 or a sum is not finite.
    """
    k, share, table = integers(ids), doubles(lam), doubles(sums)
    if is_double:
        return _weigh(doubles(losses), k, n, share, p, table, doubles(weights))
    return _weigh(floats(losses), k, n, share, p, table, floats(weights))


@part
def _weigh(losses: Any, ids: Any, n: int, lam: Any, p: int, table: Any, weights: Any) -> bool:
    q, r = p + 1, 2 * (p + 1)  # where the second and the third row of the table begin
    for k in range(3 * (p + 1)):
        table[k] = 0.0
    for i in range(n):
        k = ids[i]
        if k < 0 or k >= p:
            return False
        table[k] += losses[i]
        table[q + k] += 1.0
    for k in range(p):
        if not math.isfinite(table[k]):
            return False
        table[r + k] = lam[k] / table[q + k]  # not read where no row came
    for i in range(n):
        weights[i] = table[r + ids[i]]
    for k in range(p):
        table[r + k] = table[q + k]
    return True


@jit
def climb(
    lam: Array,
    total: Array,
    slope: Array,
    t: int,
    sums: int,
    reference: Array,
    size: float,
    means: Array,
    unseen: Array,
    mixture: int,
    average: int,
    n_steps: int,
) -> bool:
    """Step t of λ by the sums: λ, Σ λ, δ, S/n and what is unseen, over the old ones.

    λ, Σ λ / t and t are also written to the last three addresses. False where a domain has no rows
    or a move is not finite.
    """
    p = len(lam)
    table, shown, mean = doubles(sums), doubles(mixture), doubles(average)
    for k in range(p):
        n = table[p + 1 + k]
        if not (n > 0 and math.isfinite(2 * size * (table[k] / n - reference[k]))):
            return False
    lost = doubles(sums + 2 * (p + 1) * BYTES)  # rows are counted no more
    for k in range(p):
        means[k] = table[k] / table[p + 1 + k]
        slope[k] = means[k] - reference[k]
        unseen[k] = 0.0
        lost[k] = two_sum(lam, k, size * slope[k])
    project_simplex(lam, lost, p)
    for k in range(p):
        total[k] += lam[k]
        shown[k], mean[k] = lam[k], total[k] / t
    doubles(n_steps)[0] = t
    return True
