"""Which clients are asked, and how much each of their rows counts: unbiased for w and for λ.

Client c holds m_kc of the m_k rows of domain k, each of which gets the weights a_ck and b_ck, with

    E Σ_c a_ck (sum of ∇ℓ over its rows of k) = λ_k ∇L_k     i.e.  E a_ck = λ_k/m_k
    E Σ_c b_ck (sum of ℓ over its rows of k)  = L_k          i.e.  E b_ck = 1/m_k
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.flower.holdings import Holdings
from anymix.solvers.samplers import ModelSampler, Weighted

Array = NDArray[np.float64]

__all__ = ["entry_weights", "row_weights"]


def row_weights(
    counts: Array,
    mixture: Array,
    sampler: ModelSampler,
    clients_per_round: int | None,
    seed: Sequence[int],
) -> tuple[Array, Array]:
    """(a, b), each (clients, p), from the rows m_kc of every client, `counts` (clients, p).

    All clients: a = λ/m, b = 1/m. Some: `clients_per_round // p` draws of a client in every domain,
    by its rows. Weighted: `clients_per_round` (p if None) draws of a domain by λ and a client of
    it, for w, and as many of a domain uniformly, for λ, which so sees domains that it neglects.

    Parameters
    ----------
    counts : ndarray of shape (clients, p)
        m_kc, the rows of every client.
    mixture : ndarray of shape (p,)
        λ, the mixture at the beginning of the round.
    sampler : ModelSampler
        Weighted draws domains by λ; with all others the clients of every domain are drawn.
    clients_per_round : int, optional
        How many clients are asked; None is all of them, or p draws for Weighted.
    seed : sequence of int
        Same seed, same draws.

    Returns
    -------
    a, b : ndarray of shape (clients, p)
        The weights of a row, 0 where nobody is asked.

    Examples
    --------
    >>> from anymix.solvers.samplers import FullBatch
    >>> counts = np.array([[3.0, 0.0], [1.0, 4.0]])
    >>> a, b = row_weights(counts, np.array([0.2, 0.8]), FullBatch(), None, seed=[0])
    >>> a.tolist(), b.tolist()
    ([[0.05, 0.0], [0.05, 0.2]], [[0.25, 0.0], [0.25, 0.25]])
    >>> a, b = row_weights(counts, np.array([0.2, 0.8]), Weighted(), 100, seed=[0])
    >>> float((a * counts).sum().round(9)), float((b * counts).sum().round(9))
    (1.0, 2.0)
    """
    held = Holdings.of(counts)
    a, b = entry_weights(held, mixture, sampler, clients_per_round, seed)
    return held.table(a), held.table(b)


def entry_weights(
    held: Holdings,
    mixture: Array,
    sampler: ModelSampler,
    clients_per_round: int | None,
    seed: Sequence[int],
) -> tuple[Array, Array]:
    """(a, b) of every entry of the holdings; the rest of the table is 0. See `row_weights`."""
    m, p, k = held.sizes, held.shape[1], held.domains
    weighted = isinstance(sampler, Weighted)
    if clients_per_round is None and not weighted:
        return (mixture / m)[k], (1 / m)[k]
    n, rng = clients_per_round or p, np.random.default_rng(seed)
    if weighted:
        by_mixture = rng.multinomial(n, mixture / mixture.sum())
        uniform = rng.multinomial(n, np.full(p, 1 / p))
        a, b = (_draws(drawn, held, rng) for drawn in (by_mixture, uniform))
        return a / held.m / n, b / held.m * (p / n)
    if n < p:
        fix = f"give {p} or more, one for every domain, or take sampler=Weighted()"
        raise InputError("clients_per_round", f"is {n} for {p} domains", fix)
    share = _draws(np.full(p, n // p), held, rng) / (n // p) / held.m
    return mixture[k] * share, share


def _draws(n: NDArray[np.int64], held: Holdings, rng: np.random.Generator) -> Array:
    """How often each entry is drawn: n_k draws of a client of domain k, by its rows."""
    drawn = np.zeros(len(held.m))
    for k in np.flatnonzero(n):
        who = held.by_domain[k]
        drawn[who] = rng.multinomial(n[k], held.m[who] / held.m[who].sum())
    return drawn
