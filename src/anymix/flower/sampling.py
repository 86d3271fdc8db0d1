"""Which clients are asked, and how much each counts: unbiased for w and for λ.

Client c holds the part q_kc = m_kc/m_k of domain k. A round gives it the masses A_ck and B_ck with

    E Σ_c A_ck (mean of ∇ℓ over its rows of k) = λ_k ∇L_k     i.e.  E A_ck = λ_k q_kc
    E Σ_c B_ck (mean of ℓ over its rows of k)  = L_k          i.e.  E B_ck = q_kc
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anymix.samplers import ModelSampler, Weighted

Array = NDArray[np.float64]

__all__ = ["masses"]


def masses(
    counts: Array,
    mixture: Array,
    sampler: ModelSampler,
    clients_per_round: int | None,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """(A, B), each (clients, p), from the rows m_kc of every client, `counts` (clients, p).

    All clients: A = λ q, B = q. Some: `clients_per_round // p` draws of a client in every domain.
    Weighted: `clients_per_round` (p if None) draws of a domain by λ and a client of it, for w, and
    as many of a domain uniformly, for λ: the λ-gradient sees domains that λ neglects.

    >>> counts = np.array([[3.0, 0.0], [1.0, 4.0]])
    >>> A, B = masses(counts, np.array([0.5, 0.5]), Weighted(), 100, np.random.default_rng(0))
    >>> float(A.sum()), float(B.sum())
    (1.0, 2.0)
    """
    q, p = counts / counts.sum(axis=0), counts.shape[1]
    if isinstance(sampler, Weighted):
        n = clients_per_round or p
        by_mixture = rng.multinomial(n, mixture / mixture.sum())
        uniform = rng.multinomial(n, np.full(p, 1 / p))
        return _draws(by_mixture, q, rng) / n, _draws(uniform, q, rng) * (p / n)
    if clients_per_round is None:
        return mixture * q, q
    n = clients_per_round // p
    if n == 0:
        raise ValueError(
            f"clients_per_round is {clients_per_round} for {p} domains; give {p} or more, one "
            "for every domain, or take sampler=Weighted()"
        )
    share = _draws(np.full(p, n), q, rng) / n
    return mixture * share, share


def _draws(n: NDArray[np.int64], q: Array, rng: np.random.Generator) -> Array:
    """How often each client is drawn, (clients, p): n_k draws by the shares q[:, k]."""
    columns = [rng.multinomial(n[k], q[:, k]) for k in range(len(n))]
    return np.column_stack(columns).astype(np.float64)
