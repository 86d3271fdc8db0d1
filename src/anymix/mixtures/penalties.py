"""Penalties on λ: what the adversary pays for a mixture that is far-fetched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy

from anymix.errors import InputError, finite_number
from anymix.mixtures.checks import proportions, vector
from anymix.mixtures.responses import newton_response
from anymix.mixtures.sets import MixtureSet
from anymix.mixtures.water_filling import water_fill

Array = NDArray[np.float64]


class Penalty(ABC):
    """A convex function of λ that the adversary pays: it maximises ⟨λ, L⟩ − penalty(λ).

    All penalties answer the same questions, so whoever has one need not ask which it is; where
    there is none, `NoPenalty` stands in for it.

    Examples
    --------
    >>> from anymix.mixtures import Simplex
    >>> penalties = NoPenalty(), Chi2Penalty(0.5, sizes=[1, 3]), DirichletPrior([2.0, 2.0])
    >>> [penalty.gradient([0.5, 0.5]).round(3).tolist() for penalty in penalties]
    [[0.0, 0.0], [1.0, -0.333], [-2.0, -2.0]]
    """

    is_quadratic: bool = True  # then the second derivative is the same everywhere
    mu: float = 0.0  # how much χ² there is in it

    @abstractmethod
    def value(self, mixture: ArrayLike) -> float:
        """The penalty at a mixture.

        Parameters
        ----------
        mixture : array-like of shape (p,)
            λ, where it is asked for.
        """

    @abstractmethod
    def gradient(self, mixture: ArrayLike) -> Array:
        """The derivative at a mixture, (p,).

        Parameters
        ----------
        mixture : array-like of shape (p,)
            λ, where it is asked for.
        """

    @abstractmethod
    def hessian(self, mixture: ArrayLike) -> Array:
        """The diagonal of the second derivative at a mixture, (p,); the rest of it is zero.

        Parameters
        ----------
        mixture : array-like of shape (p,)
            λ, where it is asked for.
        """

    @abstractmethod
    def best_response(self, mixtures: MixtureSet, losses: ArrayLike) -> Array:
        """argmax_{λ ∈ conv Λ} ⟨λ, L⟩ − penalty(λ), exact.

        Parameters
        ----------
        mixtures : MixtureSet
            Λ, the mixtures to choose from.
        losses : array-like of shape (p,)
            L, the loss of each domain.

        Returns
        -------
        ndarray of shape (p,)
        """

    @abstractmethod
    def times(self, factor: float) -> Penalty:
        """factor · penalty: for losses that are measured in another unit.

        Parameters
        ----------
        factor : float
            A number ≥ 0.
        """


@final
class NoPenalty(Penalty):
    """0: the adversary may choose any mixture of Λ for free.

    Examples
    --------
    >>> from anymix.mixtures import Simplex
    >>> NoPenalty().best_response(Simplex(2), losses=[1.0, 0.0])
    array([1., 0.])
    """

    def __repr__(self) -> str:
        return "NoPenalty()"

    def value(self, mixture: ArrayLike) -> float:
        """0."""
        return 0.0

    def gradient(self, mixture: ArrayLike) -> Array:
        """0, (p,)."""
        return np.zeros_like(vector("mixture", mixture))

    def hessian(self, mixture: ArrayLike) -> Array:
        """0, (p,)."""
        return np.zeros_like(vector("mixture", mixture))

    def best_response(self, mixtures: MixtureSet, losses: ArrayLike) -> Array:
        """argmax_{λ ∈ Λ} ⟨λ, L⟩."""
        return mixtures.maximize(losses)

    def times(self, factor: float) -> NoPenalty:
        """The same: 0 times any factor is 0."""
        return self


@final
class Chi2Penalty(Penalty):
    """μ χ²(λ‖m̄) = μ (Σ λ²/m̄ − 1), m̄ = sizes / Σ sizes (p,), μ ≥ 0.

    The adversary maximises ⟨λ, L⟩ − μ χ²(λ‖m̄). The derivative of −μχ² is −2μ(λ/m̄ − 1); the paper
    writes γ for μ there and drops the constant, which no projection onto mixtures can see.

    Parameters
    ----------
    mu : float
        μ ≥ 0, the weight of the penalty; 0 is none.
    sizes : array-like of shape (p,)
        Rows of each domain, > 0.

    Examples
    --------
    >>> from anymix.mixtures import Simplex
    >>> penalty = Chi2Penalty(0.5, sizes=[1, 3])
    >>> penalty.value([0.25, 0.75]), penalty.value([1.0, 0.0])
    (0.0, 1.5)
    >>> penalty.gradient([1.0, 0.0])
    array([ 3., -1.])
    >>> penalty.best_response(Simplex(2), losses=[1.0, 0.0])
    array([0.4375, 0.5625])
    """

    def __init__(self, mu: float, sizes: ArrayLike) -> None:
        fix = "give a number ≥ 0, where 0 is no penalty"
        self.mu: float = finite_number("mu", mu, fix, lambda x: x >= 0)
        self.reference: Array = proportions(sizes)
        self.reference.setflags(write=False)

    def __repr__(self) -> str:
        return f"Chi2Penalty(mu={self.mu}, sizes={self.reference.tolist()})"

    def value(self, mixture: ArrayLike) -> float:
        """μ Σ (λ − m̄)²/m̄, which is μ (Σ λ²/m̄ − 1) for Σλ = 1 and keeps its digits near m̄."""
        lam = vector("mixture", mixture, self.reference.size)
        return float(self.mu * np.sum((lam - self.reference) ** 2 / self.reference))

    def gradient(self, mixture: ArrayLike) -> Array:
        """2μ (λ/m̄ − 1), (p,)."""
        lam = vector("mixture", mixture, self.reference.size)
        return np.asarray(2 * self.mu * (lam / self.reference - 1))

    def hessian(self, mixture: ArrayLike) -> Array:
        """2μ/m̄, (p,), at every mixture."""
        return np.asarray(2 * self.mu / self.reference)

    def best_response(self, mixtures: MixtureSet, losses: ArrayLike) -> Array:
        """argmax_{λ ∈ conv Λ} ⟨λ, L⟩ − μ χ²(λ‖m̄): the projection of m̄(1 + L/2μ) with weights 1/m̄.

        Exact for every set; μ = 0 is `mixtures.maximize`.
        """
        m, L = self.reference, _losses(losses, mixtures, self.reference.size)
        mu = self.mu
        if np.abs(L).max() > 1e300:  # differences of L may not overflow
            mu, L = mu / 4, L / 4
        L = L - L.max()  # Σλ = 1: a constant in L changes nothing
        if mu <= 1e-150 * np.ptp(L):  # L/μ would be too large to square
            return mixtures.maximize(L)
        return mixtures.project(m * (1 + L / (2 * mu)), weights=1 / m)

    def times(self, factor: float) -> Chi2Penalty:
        """The same with factor · μ."""
        return Chi2Penalty(factor * self.mu, self.reference)


@final
class DirichletPrior(Penalty):
    """−log p(λ) = −Σ (α−1) log λ + Σ log Γ(α) − log Γ(Σα): a Dirichlet prior, α (p,) ≥ 1.

    The adversary maximises ⟨λ, L⟩ + log p(λ), concave because α ≥ 1; α = 1 is a flat prior.

    Parameters
    ----------
    alpha : array-like of shape (p,)
        α ≥ 1, one number a domain; below 1 the best response would not be unique.

    Examples
    --------
    >>> from anymix.mixtures import Simplex
    >>> prior = DirichletPrior([2.0, 2.0])
    >>> prior.gradient([0.5, 0.5])
    array([-2., -2.])
    >>> prior.best_response(Simplex(2), losses=[0.0, 0.0])
    array([0.5, 0.5])
    >>> prior.best_response(Simplex(2), losses=[1.5, 0.0]).round(6)
    array([0.666667, 0.333333])
    """

    is_quadratic = False

    def __init__(self, alpha: ArrayLike) -> None:
        self.alpha: Array = vector("alpha", alpha).copy()
        if np.any(self.alpha < 1):
            raise InputError("alpha", f"has the entry {self.alpha.min()}", "give numbers ≥ 1")
        self.alpha.setflags(write=False)
        self.factor = 1.0
        self._constant = float(np.sum(gammaln(self.alpha)) - gammaln(self.alpha.sum()))

    def __repr__(self) -> str:
        times = "" if self.factor == 1 else f".times({self.factor})"
        return f"DirichletPrior(alpha={self.alpha.tolist()}){times}"

    @property
    def exponent(self) -> Array:
        """factor · (α − 1), what log λ is multiplied by, (p,): 1 + it would lose its digits."""
        return self.factor * (self.alpha - 1)

    def value(self, mixture: ArrayLike) -> float:
        """−log p(λ); inf where λ_k = 0 for some α_k > 1."""
        lam = vector("mixture", mixture, self.alpha.size)
        return float(self.factor * self._constant - np.sum(xlogy(self.exponent, lam)))

    def gradient(self, mixture: ArrayLike) -> Array:
        """−(α−1)/λ, (p,); 0 where α = 1."""
        return -self._over(vector("mixture", mixture, self.alpha.size))

    def hessian(self, mixture: ArrayLike) -> Array:
        """(α−1)/λ², (p,); 0 where α = 1."""
        return self._over(vector("mixture", mixture, self.alpha.size) ** 2)

    def _over(self, divisor: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.alpha > 1, self.exponent / divisor, 0.0)

    def best_response(self, mixtures: MixtureSet, losses: ArrayLike) -> Array:
        """argmax_{λ ∈ conv Λ} ⟨λ, L⟩ + log p(λ).

        Between bounds, λ_k = clip((α_k−1)/(τ−L_k), l_k, u_k) with the τ at which Σλ = 1. Entries
        with α_k = 1 are linear: those with L_k = τ share what is left. On other sets, by Newton's
        method.
        """
        L, bounds = _losses(losses, mixtures, self.alpha.size), mixtures.box_bounds
        if bounds is None:
            bend = lambda lam: (None, self.hessian(lam))  # noqa: E731
            return newton_response(mixtures, L, self.value, self.gradient, bend)
        return water_fill(self.exponent, L, *bounds)

    def times(self, factor: float) -> DirichletPrior:
        """−factor · log p(λ): the same α, and the factor beside it."""
        multiple = DirichletPrior(self.alpha)
        multiple.factor = factor * self.factor
        return multiple


def _losses(losses: ArrayLike, mixtures: MixtureSet, length: int) -> Array:
    if mixtures.n_domains != length:
        found = f"has {mixtures.n_domains} domains, but the penalty {length}"
        raise InputError("mixtures", found, "give them as many")
    return vector("losses", losses, length)
