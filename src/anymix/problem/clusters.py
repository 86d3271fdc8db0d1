"""Clusters of clients: the K centres c and labels with the least Σᵢ wᵢ D(xᵢ, c_label(i)).

D is a Bregman divergence, so the best centre of a cluster is the weighted mean of its rows, and
putting every row to its nearest centre and every centre to its mean by turns lowers the sum until
nothing moves (Banerjee, Merugu, Dhillon and Ghosh, 2005). NumPy only, so that a server of a
federation can do it as well as an estimator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from anymix.mixtures import Simplex
from anymix.problem.divergences import Divergence

Array = NDArray[np.float64]

FEW_STARTS = 200  # up to so many sets of K rows, each is tried as a start
Labels = NDArray[np.intp]

__all__ = [
    "Clusters",
    "best_clusters",
    "clusters_from",
    "impurities",
    "shares_of",
]


@dataclass(frozen=True, eq=False)
class Clusters:
    """Rows put into K clusters."""

    labels: Labels  # (n,) cluster of each row, 0 to K − 1
    centers: Array  # (K, d) weighted mean of the rows of each
    history: tuple[float, ...]  # Σᵢ wᵢ D(xᵢ, c_label(i)) after every turn

    @property
    def objective(self) -> float:
        """Σᵢ wᵢ D(xᵢ, c_label(i))."""
        return self.history[-1]


def best_clusters(
    X: Array,
    weights: Array,
    n_clusters: int,
    divergence: Divergence,
    rng: np.random.Generator,
    n_init: int = 10,
    max_iter: int = 300,
) -> Clusters:
    """The best of several runs from random seeds; of few rows, from every K of them."""
    if n_clusters == 1:
        starts = [X[:1]]
    elif math.comb(len(X), n_clusters) <= FEW_STARTS:
        starts = [X[list(rows)] for rows in combinations(range(len(X)), n_clusters)]
    else:
        starts = [seeds(X, weights, n_clusters, divergence, rng) for _ in range(n_init)]
    runs = (clusters_from(start, X, weights, divergence, max_iter) for start in starts)
    return _in_order(min(runs, key=lambda run: run.objective), weights)


def seeds(
    X: Array, weights: Array, n_clusters: int, divergence: Divergence, rng: np.random.Generator
) -> Array:
    """K rows to begin from, (K, d), each drawn in proportion to wᵢ times D to the nearest."""
    mean = weights @ X / weights.sum()
    chance, centers = weights, np.empty((0, X.shape[1]))
    near = np.full(len(X), np.inf)
    for _ in range(n_clusters):
        total = np.cumsum(chance if chance.sum() > 0 else weights)  # all rows may be alike
        i = min(int(np.searchsorted(total, rng.random() * total[-1], side="right")), len(X) - 1)
        center = divergence.seed(X[i], mean)
        near = np.minimum(near, divergence.between(X, center[None])[:, 0])
        centers, chance = np.vstack([centers, center]), weights * near
    return centers


def clusters_from(
    centers: Array, X: Array, weights: Array, divergence: Divergence, max_iter: int = 300
) -> Clusters:
    """The clusters that the turns lead to from these centres."""
    labels = divergence.nearest(X, centers)
    found = _centered(labels, len(centers), X, weights, divergence, ())
    for _ in range(max_iter - 1):
        nearest = divergence.nearest(X, found.centers)
        if np.array_equal(nearest, found.labels):
            return found
        following = _centered(nearest, len(centers), X, weights, divergence, found.history)
        if following.objective >= found.objective:  # only ties and rounding are left
            return found
        found = following
    return found


def _centered(
    labels: Labels,
    n_clusters: int,
    X: Array,
    weights: Array,
    divergence: Divergence,
    history: tuple[float, ...],
) -> Clusters:
    """Centres in the means of their rows; an empty cluster takes the row that is worst served."""
    labels = labels.copy()
    while True:
        centers = _means(labels, n_clusters, X, weights)
        filled = np.bincount(labels, minlength=n_clusters)
        cost = weights * divergence.each(X, centers[labels])
        if filled.all():
            return Clusters(labels, centers, (*history, float(cost.sum())))
        movable = np.where(filled[labels] > 1, cost, -1.0)
        labels[int(movable.argmax())] = int(np.flatnonzero(filled == 0)[0])


def _means(labels: Labels, n_clusters: int, X: Array, weights: Array) -> Array:
    """The weighted mean of the rows of each cluster, (K, d); 0 for an empty one."""
    shares = np.zeros((n_clusters, len(X)))
    shares[labels, np.arange(len(X))] = weights
    total = shares.sum(axis=1, keepdims=True)
    return np.asarray(shares @ X / np.where(total > 0, total, 1.0))


def _in_order(found: Clusters, weights: Array) -> Clusters:
    """The same with the heaviest cluster first, so that neither seeds nor order of rows show."""
    total = np.bincount(found.labels, weights)
    order = np.lexsort((*found.centers.T[::-1], -total))
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    return Clusters(place[found.labels], found.centers[order], found.history)


# How good they are as domains -------------------------------------------------------------------


def impurities(found: Clusters, X: Array, sizes: Array, divergence: Divergence) -> Array:
    """How far the clients of each cluster are from its mean in ℓ₁, at most, (K,).

    By Pinsker's inequality, ℓ₁(D_i, D_k) ≤ √(2 KL). But a client's statistics of m_i rows are off
    by chance: if its n clients do not differ at all, Σ 2 m_i KL_i is about χ² with f = (n − 1) d
    degrees of freedom, d the number of free entries. What is within three standard deviations of
    that, f + 3 √(2f), is taken off.
    """
    free = int(np.sum(np.ptp(X, axis=0) > 0)) - int(divergence.is_share)
    values = np.zeros(len(found.centers))
    for k in range(len(values)):
        mine = found.labels == k
        center = np.broadcast_to(found.centers[k], X[mine].shape)
        kl = divergence.each(X[mine], center) / divergence.per_kl
        f = max(free, 1) * (int(mine.sum()) - 1)
        excess = 2 * float(sizes[mine] @ kl) - (f + 3 * math.sqrt(2 * f))
        values[k] = min(2.0, math.sqrt(max(excess, 0.0) / float(sizes[mine].sum())))
    return values


# A client that is a mixture of domains ----------------------------------------------------------


def shares_of(x: Array, centers: Array, divergence: Divergence) -> Array:
    """argmin_{a ∈ Δ_K} D(x, Σ_k a_k c_k): the mixture of domains that is most like a client, (K,).

    Newton's method with quadratic programs over the simplex, each step cut short until D falls.
    """
    simplex = Simplex(len(centers))
    a = simplex.center

    def value(shares: Array) -> float:
        return float(divergence.between(x[None], (shares @ centers)[None])[0, 0])

    now = value(a)
    for _ in range(100):
        m = a @ centers
        h = divergence.curvature(m)
        slope = -centers @ (h * (x - m))
        root = centers * np.sqrt(_bend(x, m, h, divergence))
        target = simplex.minimize_quadratic(root @ (root.T @ a) - slope, root, None, a)
        step, gain = target - a, float(slope @ (a - target))
        if gain <= 1e-14 * max(now, 1e-300):
            break
        t = 1.0
        while value(a + t * step) > now - 1e-4 * t * gain and t > 1e-12:
            t /= 2
        a = simplex.project(a + t * step)
        now, before = value(a), now
        if now >= before * (1 - 1e-15):
            break
    return a


def _bend(x: Array, m: Array, h: Array, divergence: Divergence) -> Array:
    """The second derivative of D(x, ·) at m, or the part of it that is never negative."""
    return (
        h * x / np.where(m > 0, m, 1.0) if divergence.least == 0 and not divergence.open_end else h
    )
