"""A prior on λ of one's own: any log-concave density, by its logarithm and gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.mixtures.checks import generator, vector
from anymix.mixtures.penalties import Penalty
from anymix.mixtures.responses import newton_response
from anymix.mixtures.sets import MixtureSet

Array = NDArray[np.float64]

__all__ = ["LogPrior"]

SEGMENTS = 200  # at which concavity is checked
CLOSE = 1e-5  # relative steps of the differences that stand for second derivatives


@final
class LogPrior(Penalty):
    """−log p(λ) for a log-concave density p: the adversary maximises ⟨λ, L⟩ + log p(λ).

    That p is log-concave is checked at 200 random segments: log p at the middle of one must not be
    below the mean of its ends, or the best mixture would not be unique and the two players would
    have no saddle point. The logistic normal, for one, is not log-concave and is refused.

    Parameters
    ----------
    log_density : function
        λ (p,) → log p(λ), up to a constant; asked for at λ > 0 near the simplex.
    gradient : function
        λ (p,) → its derivative, (p,).
    n_domains : int
        p, the number of domains.
    seed : int
        Chooses the segments.

    Examples
    --------
    >>> from anymix.mixtures import Simplex
    >>> center = np.array([0.7, 0.3])  # "about 70 : 30", as a normal distribution
    >>> prior = LogPrior(lambda x: -5 * np.sum((x - center) ** 2), lambda x: -10 * (x - center), 2)
    >>> prior.best_response(Simplex(2), losses=[0.0, 2.0])
    array([0.6, 0.4])
    """

    is_quadratic = False

    def __init__(
        self,
        log_density: Callable[[Array], float],
        gradient: Callable[[Array], ArrayLike],
        n_domains: int,
        *,
        seed: int = 0,
    ) -> None:
        self.log_density, self.log_gradient, self.n_domains = log_density, gradient, n_domains
        self.factor = 1.0
        self._check(generator("seed", seed))

    def __repr__(self) -> str:
        return f"LogPrior({self.log_density!r}, n_domains={self.n_domains})"

    def value(self, mixture: ArrayLike) -> float:
        """−log p(λ)."""
        lam = vector("mixture", mixture, self.n_domains)
        with np.errstate(all="ignore"):
            return -self.factor * float(self.log_density(lam))

    def gradient(self, mixture: ArrayLike) -> Array:
        """−∇ log p(λ), (p,)."""
        lam = vector("mixture", mixture, self.n_domains)
        with np.errstate(all="ignore"):
            slope = np.asarray(self.log_gradient(lam), dtype=np.float64)
        if slope.shape != (self.n_domains,):
            raise InputError("gradient", f"gives shape {slope.shape}", f"give ({self.n_domains},)")
        return -self.factor * slope

    def hessian(self, mixture: ArrayLike) -> Array:
        """A diagonal that the second derivative is nowhere above, (p,): Σ_j |H_kj|."""
        return np.asarray(np.abs(self._hessian(vector("mixture", mixture))).sum(axis=1))

    def best_response(self, mixtures: MixtureSet, losses: ArrayLike) -> Array:
        """argmax_{λ ∈ conv Λ} ⟨λ, L⟩ + log p(λ), by Newton's method, on any set."""
        if mixtures.n_domains != self.n_domains:
            found = f"has {mixtures.n_domains} domains, but the prior {self.n_domains}"
            raise InputError("mixtures", found, "give them as many")
        L = vector("losses", losses, self.n_domains)
        return newton_response(mixtures, L, self.value, self.gradient, self._curvature)

    def times(self, factor: float) -> LogPrior:
        """−factor · log p(λ)."""
        other = object.__new__(LogPrior)
        other.__dict__.update(self.__dict__, factor=factor * self.factor)
        return other

    def _hessian(self, lam: Array) -> Array:
        """The second derivative, (p, p), by differences of the gradient."""
        lam = np.maximum(lam, 1e-9)
        H = np.empty((self.n_domains, self.n_domains))
        for k, h in enumerate(CLOSE * lam):
            step = np.zeros(self.n_domains)
            step[k] = h
            H[k] = (self.gradient(lam + step) - self.gradient(lam - step)) / (2 * h)
        return (H + H.T) / 2

    def _curvature(self, lam: Array) -> tuple[Array, None]:
        values, vectors = np.linalg.eigh(self._hessian(lam))
        return vectors * np.sqrt(np.maximum(values, 0.0)), None

    def _check(self, rng: np.random.Generator) -> None:
        """Refuse what is not concave, or whose gradient is not its derivative."""
        shapes = rng.choice([0.3, 1.0, 5.0], size=SEGMENTS)
        ends = [rng.dirichlet(np.full(self.n_domains, shape), size=2) for shape in shapes]
        ends = [0.999 * pair + 0.001 / self.n_domains for pair in ends]  # inside
        for a, b in ends:
            self._check_middle(a, b)
        for a, b in ends:
            self._check_slope((a + b) / 2, b - a)

    def _check_middle(self, a: Array, b: Array) -> None:
        low, middle, high = (-self.value(x) for x in (a, (a + b) / 2, b))
        mean = (low + high) / 2
        if not middle >= mean - 1e-9 * (1 + abs(mean)):
            found = (
                f"is not concave: at the middle of {a.round(3)} and {b.round(3)} it is "
                f"{middle:.4g}, below {mean:.4g}, the mean of its ends"
            )
            fix = "give a log-concave density, else there is no best mixture to find"
            raise InputError("log_density", found, fix)

    def _check_slope(self, x: Array, way: Array) -> None:
        t = 1e-5
        slope = float(-self.gradient(x) @ way)
        rise = (self.value(x - t * way) - self.value(x + t * way)) / (2 * t)
        if not abs(slope - rise) <= 1e-4 * (1 + abs(slope) + abs(self.value(x))):
            found = f"is {slope:.6g} along {way.round(3)}, where log_density rises {rise:.6g}"
            raise InputError("gradient", found, "give the derivative of log_density")
