"""How many clusters of clients there should be: as many as the bound of the worst one advises.

    max_k ℓ₁_k + √(log(K/δ)/(2 m_k))

is what the bounds add to the loss of the worst of K domains. ℓ₁_k is the impurity of cluster k, by
which a client of its own may differ from it; the root is the confidence term of its m_k rows. More
clusters are purer and smaller. K = 1 has no mixture to protect against: no domains can be advised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anymix.bounds.domain_advice import advise_domains
from anymix.problem.clusters import Clusters, best_clusters, impurities
from anymix.problem.divergences import Divergence

Array = NDArray[np.float64]

__all__ = ["clusters_by_bound"]

MOST_BY_BOUND = 20  # clusters that are tried


def clusters_by_bound(
    X: Array,
    sizes: Array,
    divergence: Divergence,
    rng: np.random.Generator,
    n_init: int = 10,
    max_iter: int = 300,
) -> tuple[Clusters, Array]:
    """The best clusters of the K = 1, 2, … whose bound is least, and the bounds of all K."""
    tried = [
        best_clusters(X, sizes, K, divergence, rng, n_init, max_iter)
        for K in range(1, min(len(X), MOST_BY_BOUND) + 1)
    ]
    rows = [np.asarray(np.bincount(c.labels, sizes), dtype=np.float64) for c in tried]
    bounds = [
        advise_domains(m, impurities(c, X, sizes, divergence)).before
        for c, m in zip(tried, rows, strict=True)
    ]
    return tried[int(np.argmin(bounds))], np.array(bounds)
