"""Sets Λ of target mixtures: `maximize` and `project` are a set's own, all else follows from them.

A mixture λ weighs p domains: λ ≥ 0, Σ λ = 1. The objective is linear in λ, so Λ may be replaced by
its convex hull, and every method works on conv Λ; only covers count the members of Λ itself.
`Point` and `Shrunk` are here because `MixtureSet.shrunk` makes them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError, finite_number
from anymix.mixtures.checks import count, matrix, one_mixture, positive, proportions, vector
from anymix.mixtures.geometry import ENUMERABLE, box_corners, largest_square, log_grid
from anymix.mixtures.projections import kl_box, modest_projection
from anymix.mixtures.qp import minimize_by_members
from anymix.mixtures.qp.quadratic import scaled

Array = NDArray[np.float64]

MANY = 1000  # domains: above, no box is found around a set of one's own


class MixtureSet(ABC):
    """A set Λ of mixtures of p domains: an immutable value that can be compared and pickled.

    A set of your own defines `maximize` and `project` and gives its arguments to this constructor:
    they become attributes, and equality, hash, repr and pickle go by them. Everything else has a
    default that calls these two; override what you know better. Both must be exact, since answers
    are no more exact than they are, and must work on conv Λ.

    Parameters
    ----------
    n_domains : int
        p ≥ 1, the number of domains.
    **arguments : object
        The arguments of the subclass's own constructor, in its order; arrays become read-only.

    Attributes
    ----------
    n_domains : int
        p, the number of domains.

    Examples
    --------
    >>> class Either(MixtureSet):  # mixtures of the first and the last domain
    ...     def __init__(self, n_domains):
    ...         super().__init__(n_domains, n_domains=n_domains)
    ...
    ...     def maximize(self, losses):
    ...         last = self.n_domains - 1
    ...         return np.eye(self.n_domains)[0 if losses[0] >= losses[last] else last]
    ...
    ...     def project(self, v, weights=None):
    ...         if weights is not None:
    ...             return super().project(v, weights)  # by way of `maximize`
    ...         share = np.clip((1 + v[0] - v[-1]) / 2, 0, 1)
    ...         return share * self.maximize([1, 0, 0]) + (1 - share) * self.maximize([0, 0, 1])
    >>> either = Either(3)
    >>> either, either.contains([0.4, 0.2, 0.4]), either.project([0.5, 0.5, 0.0], [1, 1, 3])
    (Either(n_domains=3), False, array([0.875, 0.   , 0.125]))
    """

    n_domains: int
    words: ClassVar[str | None] = None  # as "tv:0.2": its name on the command line and a number
    _arguments: dict[str, Any]

    def __init__(self, n_domains: int, /, **arguments: Any) -> None:
        count("n_domains", n_domains)
        for value in arguments.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        self.__dict__.update(arguments, n_domains=n_domains, _arguments=arguments)

    @classmethod
    def around(cls, sizes: ArrayLike, number: float) -> MixtureSet:
        """The set that its `words` mean: of this size around the mixture of the data.

        Parameters
        ----------
        sizes : array-like of shape (p,)
            Rows of each domain.
        number : float
            The number after the colon.

        Returns
        -------
        MixtureSet
        """
        raise NotImplementedError(f"{cls.__name__} has no words")

    @property
    def center(self) -> Array:
        """A member to start from, (p,): by default the projection of the uniform mixture."""
        return self._project(np.full(self.n_domains, 1 / self.n_domains), None)

    @property
    def radius(self) -> float:
        """R_Λ = max ‖λ‖₂ over Λ; the class says whether it is exact or an upper bound."""
        return math.sqrt(self._largest_square(np.ones(self.n_domains)))

    @property
    def convex_hull(self) -> MixtureSet:
        """conv Λ: the set itself if it is convex, as all but `Vertices` are."""
        return self

    @property
    def box_bounds(self) -> tuple[Array, Array] | None:
        """(lower, upper) if conv Λ is {λ ∈ Δ_p: lower ≤ λ ≤ upper}, None if it is no such box."""
        return None

    @property
    def corners(self) -> Array | None:
        """The corners of conv Λ, (n, p), where they can be listed; None for balls and large boxes.

        A linear or convex function of λ is largest at one of them.
        """
        p, bounds = self.n_domains, self.box_bounds
        if self.is_simplex:
            return np.eye(p)
        if p <= 2:
            return np.array([self._maximize(e) for e in np.eye(p)])
        if bounds is None or (p > ENUMERABLE and not self.is_point):
            return None
        return bounds[0][None] if self.is_point else np.unique(box_corners(*bounds), axis=0)

    @property
    def is_simplex(self) -> bool:
        """Whether conv Λ is all of Δ_p."""
        bounds = self.box_bounds
        return bounds is not None and not bounds[0].any() and bool(bounds[1].min() >= 1)

    @property
    def is_point(self) -> bool:
        """Whether Λ is a single mixture by its bounds."""
        bounds = self.box_bounds
        return bounds is not None and np.array_equal(*bounds)

    @property
    def has_kl_projection(self) -> bool:
        """Whether `kl_project` works: an entropic adversary needs it."""
        return self.box_bounds is not None

    @abstractmethod
    def project(self, v: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """argmin ½ Σ w_k (λ_k − v_k)² over conv Λ, exactly.

        A set of your own may leave weights to `super().project(v, weights)`.

        Parameters
        ----------
        v : array-like of shape (p,)
            The point to project.
        weights : array-like of shape (p,), optional
            w > 0; None is 1 for all.

        Returns
        -------
        ndarray of shape (p,)
        """
        v, ones = vector("v", v, self.n_domains), np.ones(self.n_domains)
        w = ones if weights is None else positive("weights", weights, self.n_domains)
        v, w = modest_projection(v, w)
        return self._minimize(w * v, np.zeros((v.size, 0)), w, None)

    def kl_project(self, logits: ArrayLike) -> Array:
        """log of argmin Σ λ log(λ/w) over conv Λ, where log w = logits.

        Parameters
        ----------
        logits : array-like of shape (p,)
            log w, up to a constant.

        Returns
        -------
        ndarray of shape (p,)
            log λ, in which the smallest λ keep all their digits.
        """
        bounds = self.box_bounds
        if bounds is None:
            raise TypeError(
                f"no exact KL projection onto {type(self).__name__}; use kind='euclidean', or a "
                "set that has one, such as Simplex, Box or TVBall"
            )
        return kl_box(np.asarray(logits, dtype=np.float64), *bounds)

    @abstractmethod
    def maximize(self, losses: ArrayLike) -> Array:
        """A maximiser of ⟨λ, losses⟩ over Λ, exactly.

        Parameters
        ----------
        losses : array-like of shape (p,)
            The loss of each domain.

        Returns
        -------
        ndarray of shape (p,)
        """

    def minimize_quadratic(
        self,
        c: ArrayLike,
        factor: ArrayLike | None = None,
        diagonal: ArrayLike | None = None,
        start: ArrayLike | None = None,
    ) -> Array:
        """argmin ½ λᵀ(F Fᵀ + diag D)λ − cᵀλ over conv Λ.

        Parameters
        ----------
        c : array-like of shape (p,)
            The linear term.
        factor : array-like of shape (p, r), optional
            F; None is 0.
        diagonal : array-like of shape (p,), optional
            D ≥ 0; None is 0.
        start : array-like of shape (p,), optional
            A member of Λ to begin from, if one near the answer is known.

        Returns
        -------
        ndarray of shape (p,)
        """
        p = self.n_domains
        F = np.zeros((p, 0)) if factor is None else matrix("factor", factor, p)
        D = np.zeros(p) if diagonal is None else vector("diagonal", diagonal, p)
        if D.min() < 0:
            raise InputError("diagonal", f"has the entry {D.min()}", "give numbers ≥ 0")
        first = None if start is None else vector("start", start, p)
        linear, F, D = scaled(vector("c", c, p), F, D)
        return self._minimize(linear - linear.max(), F, D, first)  # Σ λ = 1: no constant counts

    def contains(self, mixture: ArrayLike, tol: float = 1e-9) -> bool:
        """Whether the mixture meets every constraint of conv Λ up to `tol`.

        Parameters
        ----------
        mixture : array-like of shape (p,)
            The mixture in question.
        tol : float
            How far off each constraint it may be.
        """
        lam = vector("mixture", mixture, self.n_domains)
        total = abs(lam.sum() - 1) <= tol
        return bool(lam.min() >= -tol and total and self._contains(lam, tol))

    def skewness(self, sizes: ArrayLike) -> float:
        """𝔰(Λ‖m̄) = max Σ λ²/m̄ over Λ; the class says whether it is exact or an upper bound.

        Parameters
        ----------
        sizes : array-like of shape (p,)
            Rows of each domain; m̄ = sizes / Σ sizes.
        """
        return self._largest_square(1 / proportions(sizes, self.n_domains))

    def log_cover_size(self, epsilon: float) -> float:
        """An upper bound on log |Λ_ε|, where every member of Λ has one of Λ_ε ⊂ Λ within ε in ℓ₁.

        Parameters
        ----------
        epsilon : float
            ε ≥ 0, such as 1/√m for m rows.
        """
        fix = "give a number ≥ 0, such as 1/√m"
        return self._log_cover_size(finite_number("epsilon", epsilon, fix, lambda x: x >= 0))

    def shrunk(self, t: float, reference: ArrayLike) -> MixtureSet:
        """{(1−t) m + t λ : λ ∈ Λ}: from ordinary training, t = 0, to all of Λ, t = 1.

        Parameters
        ----------
        t : float
            A number in [0, 1]; 0 gives Point(reference) and 1 the set itself.
        reference : array-like of shape (p,)
            m, the mixture to shrink towards; it need not be in Λ.

        Returns
        -------
        MixtureSet

        Examples
        --------
        >>> from anymix.mixtures import Simplex
        >>> Simplex(2).shrunk(0.5, [0.2, 0.8]).maximize([1.0, 0.0])
        array([0.6, 0.4])
        """
        t = finite_number("t", t, "give a number in [0, 1]", lambda x: 0 <= x <= 1)
        m = one_mixture("reference", reference, self.n_domains)
        if t in (0, 1):
            return self if t == 1 else Point(m)
        return Shrunk(self, t, m)

    # What the methods above work with, on arrays that are checked: the defaults.

    def _project(self, v: Array, w: Array | None) -> Array:
        return self.project(v) if w is None else self.project(v, w)

    def _maximize(self, L: Array) -> Array:
        return self.maximize(L)

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        first = self.center if start is None else self._project(start, None)
        return minimize_by_members(c, F, D, first, self._maximize)

    def _contains(self, lam: Array, tol: float) -> bool:
        """Beyond λ ≥ −tol and |Σ λ − 1| ≤ tol."""
        return bool(np.max(np.abs(lam - self._project(lam, None))) <= tol)

    def _largest_square(self, a: Array) -> float:
        """max Σ a_k λ_k² over Λ, or an upper bound: the radius is a = 1, the skewness a = 1/m̄."""
        return largest_square(a, *self._limits)

    def _log_cover_size(self, epsilon: float) -> float:
        lower, upper = self._limits
        scale = 2 * min(1 - float(lower.sum()), float(upper.sum()) - 1)
        return log_grid(self.n_domains, epsilon / scale if scale > 0 else math.inf)

    @cached_property
    def _limits(self) -> tuple[Array, Array]:
        """The least and the largest λ_k in Λ; 0 and 1 where that would take thousands of maxima."""
        p = self.n_domains
        if p > MANY:
            return np.zeros(p), np.ones(p)
        lower = [self._maximize(-e)[k] for k, e in enumerate(np.eye(p))]
        return np.array(lower), np.array([self._maximize(e)[k] for k, e in enumerate(np.eye(p))])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set {name!r}: mixture sets are immutable; make a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._arguments.values())

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in self._arguments.items())
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MixtureSet):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        values = self._arguments.values()
        arrays = [
            (v.shape, (v + 0.0).tobytes()) if isinstance(v, np.ndarray) else v for v in values
        ]
        return type(self), *arrays


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, separator=", ", threshold=8, edgeitems=3)
    return repr(value)


class ExactSet(MixtureSet):
    """A set of this library: what is given is checked here, and `_project` gets arrays."""

    def project(self, v: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """argmin ½ Σ w_k (λ_k − v_k)² over conv Λ; weights None are 1."""
        v = vector("v", v, self.n_domains)
        w = None if weights is None else positive("weights", weights, self.n_domains)
        return self._project(v, w)

    def maximize(self, losses: ArrayLike) -> Array:
        """A maximiser of ⟨λ, losses⟩ over Λ, exactly."""
        return self._maximize(vector("losses", losses, self.n_domains))

    @abstractmethod
    def _project(self, v: Array, w: Array | None) -> Array: ...

    @abstractmethod
    def _maximize(self, L: Array) -> Array: ...


@final
class Point(ExactSet):
    """Λ = {λ}: standard learning on one mixture; λ = m̄ is standard federated learning.

    Radius and skewness are exact, and the point covers itself.

    Parameters
    ----------
    mixture : array-like of shape (p,)
        λ, numbers ≥ 0 that sum to 1.

    Examples
    --------
    >>> Point([0.25, 0.75]).project([9.0, 0.0])
    array([0.25, 0.75])
    >>> Point([0.25, 0.75]).skewness([1, 3])
    1.0
    """

    mixture: Array

    def __init__(self, mixture: ArrayLike) -> None:
        lam = one_mixture("mixture", mixture)
        super().__init__(lam.size, mixture=lam)

    @property
    def center(self) -> Array:
        """The point, (p,)."""
        return self.mixture.copy()

    @property
    def box_bounds(self) -> tuple[Array, Array]:
        """(λ, λ)."""
        return self.mixture, self.mixture

    def _project(self, v: Array, w: Array | None) -> Array:
        return self.center

    def _maximize(self, L: Array) -> Array:
        return self.center

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        return self.center

    def _contains(self, lam: Array, tol: float) -> bool:
        return bool(np.max(np.abs(lam - self.mixture)) <= tol)

    def _largest_square(self, a: Array) -> float:
        return float(a @ self.mixture**2)

    def _log_cover_size(self, epsilon: float) -> float:
        return 0.0


def data_mixture(sizes: ArrayLike) -> Point:
    """{m̄}, the mixture of the data themselves: Λ of ordinary training."""
    m = np.asarray(sizes, dtype=np.float64)
    return Point(m / m.sum())


@final
class Shrunk(ExactSet):
    """{a + t λ : λ ∈ base}, a = (1−t) m: a smaller copy of a set, moved towards the mixture m.

    Made by `MixtureSet.shrunk`. Every problem is one of the base in λ; the projection, for
    example, is a + t Π((v − a)/t). Radius and skewness are those of a box if the base is one,
    otherwise upper bounds: Σ w (a + tλ)² is summed from the largest value of each of its three
    terms. A cover of the base at ε/t, moved and shrunk with it, is one of this set at ε.

    Parameters
    ----------
    base : MixtureSet
        The set that is shrunk.
    t : float
        0 < t ≤ 1, the size of the copy.
    reference : array-like of shape (p,)
        m, the mixture that it shrinks to.

    Examples
    --------
    >>> from anymix.mixtures import Simplex
    >>> set = Shrunk(Simplex(2), 0.5, [0.2, 0.8])
    >>> set.center, set.project([1.0, 0.0])
    (array([0.35, 0.65]), array([0.6, 0.4]))
    """

    base: MixtureSet
    t: float
    reference: Array

    def __init__(self, base: MixtureSet, t: float, reference: ArrayLike) -> None:
        t = finite_number("t", t, "give a number in (0, 1]", lambda x: 0 < x <= 1)
        m = one_mixture("reference", reference, base.n_domains)
        super().__init__(m.size, base=base, t=t, reference=m)
        self.__dict__["_a"] = (1 - t) * m

    _a: Array

    @property
    def center(self) -> Array:
        """The image of the base's centre, (p,)."""
        return self._image(self.base.center)

    @property
    def convex_hull(self) -> Shrunk:
        """The shrunk hull of the base."""
        return Shrunk(self.base.convex_hull, self.t, self.reference)

    @property
    def box_bounds(self) -> tuple[Array, Array] | None:
        """a + t (lower, upper) of the base."""
        bounds = self.base.box_bounds
        return None if bounds is None else (self._image(bounds[0]), self._image(bounds[1]))

    @property
    def corners(self) -> Array | None:
        """The images of the base's corners."""
        corners = self.base.corners
        return None if corners is None else self._image(corners)

    def _image(self, lam: Array) -> Array:
        return np.asarray(self._a + self.t * lam)

    def _project(self, v: Array, w: Array | None) -> Array:
        if max(float(v.max()), -float(v.min())) <= 1e200 * self.t:
            return self._image(self.base._project((v - self._a) / self.t, w))
        v, w = modest_projection(v, w)  # v/t would overflow
        return self._minimize(w * v, np.zeros((v.size, 0)), w, None)

    def _maximize(self, L: Array) -> Array:
        return self._image(self.base._maximize(L))

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        a, t = self._a, self.t
        c = c - F @ (a @ F) - D * a
        linear, F, D = scaled(c - c.max(), math.sqrt(t) * F, t * D)
        first = None if start is None else (start - a) / t
        return self._image(self.base._minimize(linear, F, D, first))

    def _contains(self, lam: Array, tol: float) -> bool:
        return self.base.contains((lam - self._a) / self.t, tol / self.t)

    def _largest_square(self, a: Array) -> float:
        bounds = self.box_bounds
        if bounds is not None:
            return largest_square(a, *bounds)
        mixed = a * self._a
        linear = float(mixed @ self.base._maximize(mixed))
        square = self.t**2 * self.base._largest_square(a)
        return float(mixed @ self._a) + 2 * self.t * linear + square

    def _log_cover_size(self, epsilon: float) -> float:
        return self.base._log_cover_size(epsilon / self.t)
