"""One fit, every mixture: a predictor f_λ for any λ, its worst mixture, and λ from unlabelled rows.

    f_λ(x) = Σ_k (λ_k/m̄_k) Q(k|x) h_k(x) / Σ_k (λ_k/m̄_k) Q(k|x)

h_k predicts for domain k, Q(k|x) is a domain classifier, m̄ the shares of the domains in the data.
If both are exact, f_λ is the Bayes predictor of the mixture λ for log loss and squared error
(distribution-weighted combination: Mansour, Mohri, Rostamizadeh 2008; Cortes et al. 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anymix.mixtures import MixtureSet

Array = NDArray[np.float64]

__all__ = ["MixtureEstimate", "combine", "estimate_mixture", "smoothed_worst"]

STEPS = 50  # of the fixed point
PRIOR_ROWS = 10.0  # what the data's own mixture counts for beside unlabelled rows


def combine(Q: Array, experts: Iterable[Array], ratio: Array) -> Array:
    """f_λ of every row, without an array of all experts."""
    total: Array | None = None
    for share, h in zip((Q * ratio).T, experts, strict=True):
        part = share[:, None] * h if h.ndim == 2 else share * h
        total = part if total is None else total + part
    assert total is not None
    whole = Q @ ratio
    return total / (whole[:, None] if total.ndim == 2 else whole)


def smoothed_worst(
    losses_at: Callable[[Array], Array],
    chances: Callable[[Array], Array],
    reference: Array,
    t: Array,
) -> tuple[Array, float]:
    """π for each place t of the dial: how likely each domain is the worst of f_{(1−t) m̄ + t π}.

        π_i = π_{i−1} + (P(π_{i−1}) − π_{i−1})/i,   i = 1..50,   π_0 = m̄,
        P(π) = E_ξ argmax over Λ of ⟨λ, D + s∘ξ⟩,   D the domain losses of f_{(1−t) m̄ + t π}

    Averaging makes a fixed point of what would alternate between domains.
    """
    t = t[:, None]
    pi = np.tile(reference, (len(t), 1))
    for i in range(1, STEPS + 1):
        D = losses_at((1 - t) * reference + t * pi)
        step = (np.array([chances(each) for each in D]) - pi) / i
        pi = pi + step
    return pi, float(np.abs(step).max())


@dataclass(frozen=True, eq=False)
class MixtureEstimate:
    """The mixture of a place, from its unlabelled rows."""

    mixture: Array  # (p,) λ̂, in the order of the model's `domain_names_`
    gap: float  # how far its objective is from the largest value over Λ, at most


def estimate_mixture(
    Q: Array,
    reference: Array,
    mixtures: MixtureSet,
    tol: float = 1e-6,
    most_steps: int = 5000,
) -> MixtureEstimate:
    """The λ ∈ Λ under which unlabelled rows are most likely, drawn a little to m̄.

        λ̂ = argmax over Λ of (1/n) Σ_i log Σ_k (λ_k/m̄_k) Q(k|x_i) + (10/n) Σ_k m̄_k log λ_k

    The objective is concave; with g its gradient, max over Λ of ⟨λ − λ̂, g⟩ bounds what is missing.
    """
    n, G = len(Q), Q / reference
    prior = PRIOR_ROWS * reference
    lam, simplex = reference, mixtures.is_simplex
    if not simplex:
        # a point inside Λ, so that λ_k is 0 only where Λ says so; there it has no prior
        reach = np.array([mixtures.maximize(row) for row in np.eye(len(reference))])
        lam = 0.5 * mixtures.project(reference) + 0.5 * reach.mean(axis=0)
        prior = np.where(reach.max(axis=0) > 0, prior, 0.0)
    for _ in range(most_steps):
        fit = G / (G @ lam)[:, None]
        inverse = np.divide(1.0, lam, out=np.zeros_like(lam), where=(prior > 0) & (lam > 0))
        g = (fit.sum(axis=0) + prior * inverse) / n
        gap = float(g.max() - lam @ g) if simplex else float((mixtures.maximize(g) - lam) @ g)
        if gap <= tol:
            break
        if simplex:  # an EM step: still a mixture, and never less likely
            lam = lam * g
            lam = lam / lam.sum()
        else:
            lam = _newton(G, prior, mixtures, lam, g, fit, inverse)
    return MixtureEstimate(lam, max(gap, 0.0))


def _newton(
    G: Array, prior: Array, mixtures: MixtureSet, lam: Array, g: Array, fit: Array, inverse: Array
) -> Array:
    """The best mixture of the objective's quadratic model, or as far that way as it helps."""
    n, p = G.shape
    H = fit.T @ fit / n + 1e-12 * np.eye(p)
    D = prior * inverse**2 / n
    target = mixtures.minimize_quadratic(g + H @ lam + D * lam, np.linalg.cholesky(H), D)

    def value(lam: Array) -> float:
        with np.errstate(divide="ignore"):
            log = np.log(np.where(prior > 0, lam, 1.0))
            return float((np.log(G @ lam).sum() + prior @ log) / n)

    here, way, step = value(lam), target - lam, 1.0
    while step > 1e-10 and not value(lam + step * way) >= here + 1e-4 * step * float(g @ way):
        step /= 2
    return np.asarray(lam + step * way)
