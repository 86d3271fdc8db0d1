"""Unbiased stochastic gradients of L(w, λ) = Σ_k λ_k L_k(w), for w and for λ.

A sampler turns uniform numbers u ∈ [0, 1) into a gradient; how many it takes for one step does not
change from step to step. So a run is a function of one stream of uniforms, whoever computes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.problem.linear import LinearDomains

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

__all__ = [
    "DomainRows",
    "EveryDomain",
    "FullBatch",
    "MixtureSampler",
    "ModelSampler",
    "PerDomain",
    "UniformDomain",
    "Weighted",
    "companion",
]


class DomainRows:
    """The rows of every domain, and how a uniform number picks one of them.

    Row i of domain k has probability a_ki, its share of the domain.

    Parameters
    ----------
    problem : LinearDomains
        Whose rows they are.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> problem = ax.LinearDomains(np.eye(4), [0, 1, 0, 1], ["a", "a", "b", "b"])
    >>> rows = DomainRows(problem)
    >>> rows.pick(np.array([0, 1, 1]), np.array([0.2, 0.2, 0.9])).tolist()
    [0, 2, 3]
    """

    def __init__(self, problem: LinearDomains) -> None:
        shares = problem._by_domain  # (p, n) CSR
        self.problem = problem
        self.starts, self.counts = shares.indptr[:-1], np.diff(shares.indptr)
        self.rows = shares.indices
        equal = 1.0 / np.repeat(self.counts, self.counts)
        # the running sum of the shares, domain k over (k, k + 1]; not needed when all are equal
        same = np.allclose(shares.data, equal, rtol=1e-12, atol=0)  # shares may be tiny
        self.cumulative = None if same else _running(shares)

    def pick(self, domains: Indices, u: Array) -> Indices:
        """A row of each of the given domains, (m,) for u (m,)."""
        starts, counts = self.starts[domains], self.counts[domains]
        if self.cumulative is None:
            place = (u * counts).astype(np.intp)
        else:
            place = np.searchsorted(self.cumulative, domains + u, side="right") - starts
        rows: Indices = self.rows[starts + np.clip(place, 0, counts - 1)]
        return rows

    def losses(self, w: Array, rows: Indices) -> Array:
        """ℓ of the given rows, (m,)."""
        part = self.problem._with_rows(rows, self.problem.average)
        return part.loss.derivatives(part.scores(w), part.y, 0)[0]

    def gradient(self, w: Array, rows: Indices, c: Array) -> Array:
        """Σ_j c_j ∇ℓ of the given rows, (n_parameters,)."""
        part = self.problem._with_rows(rows, self.problem.average)
        slope = part.loss.derivatives(part.scores(w), part.y, 1)[1]
        return part.pull_back(slope * (c if slope.ndim == 1 else c[:, None]))


def _running(shares: Any) -> Array:
    total = np.cumsum(shares.data)
    ends = total[shares.indptr[1:] - 1]
    starts = np.concatenate([[0.0], ends[:-1]])
    domain = np.repeat(np.arange(len(ends)), np.diff(shares.indptr))
    running: Array = (total - starts[domain]) / (ends - starts)[domain] + domain
    return running


class ModelSampler(Protocol):
    """δ_w with E δ_w = ∇_w L(w, λ); write your own with these two methods.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> problem = ax.LinearDomains(np.eye(4), [0, 1, 0, 1], ["a", "a", "b", "b"])
    >>> rows = DomainRows(problem)
    >>> sampler, lam = ax.samplers.PerDomain(), np.array([0.5, 0.5])
    >>> u = np.random.default_rng(0).random(sampler.n_draws(2))
    >>> sampler.model_gradient(rows, np.zeros(5), lam, u).shape
    (5,)
    """

    def n_draws(self, n_domains: int) -> int:
        """Uniform numbers for one gradient."""
        ...

    def model_gradient(self, rows: DomainRows, w: Array, mixture: Array, u: Array) -> Array:
        """δ_w, (n_parameters,), from u (n_draws,)."""
        ...


class MixtureSampler(Protocol):
    """δ_λ with E δ_λ = (L_1(w), …, L_p(w)); write your own with these two methods.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> problem = ax.LinearDomains(np.eye(4), [0, 1, 0, 1], ["a", "a", "b", "b"])
    >>> rows = DomainRows(problem)
    >>> sampler, offsets = ax.samplers.EveryDomain(), np.zeros(2)
    >>> u = np.random.default_rng(0).random(sampler.n_draws(2))
    >>> sampler.mixture_gradient(rows, np.zeros(5), offsets, u).round(4)
    array([0.6931, 0.6931])
    """

    def n_draws(self, n_domains: int) -> int:
        """Uniform numbers for one gradient."""
        ...

    def mixture_gradient(self, rows: DomainRows, w: Array, offsets: Array, u: Array) -> Array:
        """δ_λ less the offsets b, (p,), from u (n_draws,)."""
        ...


@dataclass(frozen=True)
class FullBatch:
    """The gradients themselves, for w and for λ: all rows, no chance.

    Examples
    --------
    >>> FullBatch().n_draws(5)
    0
    """

    def n_draws(self, n_domains: int) -> int:
        """None."""
        return 0

    def model_gradient(self, rows: DomainRows, w: Array, mixture: Array, u: Array) -> Array:
        """∇_w L(w, λ)."""
        return rows.problem.at(w).gradient(mixture)

    def mixture_gradient(self, rows: DomainRows, w: Array, offsets: Array, u: Array) -> Array:
        """(L_k(w) − b_k)."""
        return rows.problem.losses(w) - offsets


@dataclass(frozen=True)
class _RowsOfEach:
    """b rows of every domain."""

    batch_size: int = 1

    def __post_init__(self) -> None:
        _check_batch(self.batch_size)

    def n_draws(self, n_domains: int) -> int:
        """p b."""
        return n_domains * self.batch_size

    def _picked(self, rows: DomainRows, p: int, u: Array) -> tuple[Indices, Indices]:
        """Domains 1, …, 1, 2, …, p, each b times, and the rows of them that u picks."""
        domains = np.repeat(np.arange(p), self.batch_size)
        return domains, rows.pick(domains, u)


@dataclass(frozen=True)
class _RowsOfAny:
    """b times a domain and a row of it."""

    batch_size: int = 1

    def __post_init__(self) -> None:
        _check_batch(self.batch_size)

    def n_draws(self, n_domains: int) -> int:
        """2 b: a domain and a row of it, b times."""
        return 2 * self.batch_size


@dataclass(frozen=True)
class PerDomain(_RowsOfEach):
    """δ_w = Σ_k λ_k · mean of ∇ℓ over b random rows of domain k. Variance ≤ ‖λ‖² σ_I² / b.

    Parameters
    ----------
    batch_size : int, default 1
        b, the rows of every domain that a step looks at.

    Examples
    --------
    >>> PerDomain(3).n_draws(5)
    15
    """

    def model_gradient(self, rows: DomainRows, w: Array, mixture: Array, u: Array) -> Array:
        """Σ_k λ_k · mean of ∇ℓ over the b rows of domain k that u picks."""
        domains, picked = self._picked(rows, len(mixture), u)
        return rows.gradient(w, picked, mixture[domains] / self.batch_size)


@dataclass(frozen=True)
class Weighted(_RowsOfAny):
    """δ_w = mean of ∇ℓ over b draws of a domain K ~ λ and a row of it. Variance (σ_I² + σ_O²)/b.

    `Weighted(batch_size=p)` is the paper's p-Weighted gradient.

    Parameters
    ----------
    batch_size : int, default 1
        b, the rows that a step looks at.

    Examples
    --------
    >>> Weighted(3).n_draws(5)
    6
    """

    def model_gradient(self, rows: DomainRows, w: Array, mixture: Array, u: Array) -> Array:
        """The mean of ∇ℓ over the b rows that u picks, domains by λ."""
        total = np.cumsum(mixture)
        domains = np.searchsorted(total, u[0::2] * total[-1], side="right")  # u < 1, even rounded
        c = np.full(self.batch_size, 1 / self.batch_size)
        return rows.gradient(w, rows.pick(domains, u[1::2]), c)


@dataclass(frozen=True)
class UniformDomain(_RowsOfAny):
    """δ_λ: b times a domain K uniform on 1..p and a row of it; entry K gets p ℓ / b.

    Parameters
    ----------
    batch_size : int, default 1
        b, the rows that a step looks at.

    Examples
    --------
    >>> UniformDomain(3).n_draws(5)
    6
    """

    def mixture_gradient(self, rows: DomainRows, w: Array, offsets: Array, u: Array) -> Array:
        """p (ℓ − b_k) / b at the domains that u picks, 0 elsewhere."""
        p = len(offsets)
        domains = (u[0::2] * p).astype(np.intp)
        excess = rows.losses(w, rows.pick(domains, u[1::2])) - offsets[domains]
        gradient: Array = np.bincount(
            domains, weights=excess * (p / self.batch_size), minlength=p
        ).astype(np.float64)
        return gradient


@dataclass(frozen=True)
class EveryDomain(_RowsOfEach):
    """δ_λ: entry k is the mean ℓ of b random rows of domain k, for every k.

    Parameters
    ----------
    batch_size : int, default 1
        b, the rows of every domain that a step looks at.

    Examples
    --------
    >>> EveryDomain(3).n_draws(5)
    15
    """

    def mixture_gradient(self, rows: DomainRows, w: Array, offsets: Array, u: Array) -> Array:
        """The mean ℓ of the b rows of domain k that u picks, less b_k."""
        _, picked = self._picked(rows, len(offsets), u)
        losses = rows.losses(w, picked)
        means: Array = losses.reshape(len(offsets), -1).mean(axis=1)
        return means - offsets


def companion(sampler: ModelSampler) -> MixtureSampler:
    """The λ-sampler that costs as much as the w-sampler.

    Parameters
    ----------
    sampler : ModelSampler
        How δ_w is drawn.

    Returns
    -------
    MixtureSampler

    Examples
    --------
    >>> companion(PerDomain(4)), companion(Weighted()), companion(FullBatch())
    (EveryDomain(batch_size=4), UniformDomain(batch_size=1), FullBatch())
    """
    if isinstance(sampler, FullBatch):
        return sampler
    if isinstance(sampler, PerDomain):
        return EveryDomain(sampler.batch_size)
    return UniformDomain(getattr(sampler, "batch_size", 1))


def _check_batch(batch_size: int) -> None:
    if not (isinstance(batch_size, Real) and batch_size >= 1 and batch_size % 1 == 0):
        raise InputError("batch_size", f"is {batch_size!r}", "give a whole number ≥ 1")
