"""Φ, made once and handed on whole.

min_w max_{λ∈Λ_t} Φ(w, λ),   Φ(w, λ) = Σ λ_k (L_k(w) − b_k) + γ R(w − a) − μ χ²(λ‖m̄) + log p_Λ(λ).

An `Objective` holds all of Φ but its losses, in a user's words; its form is checked when it is
made. `objective.on(problem)` checks the sizes and gives the `Phi` that solvers compute with: Λ_t,
the regulariser, the penalty on λ, the offsets b; and two values, what w reaches (`upper`) and what
no w can undercut (`lower`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields, replace
from itertools import chain
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError, finite_number, finite_vector
from anymix.mixtures import Chi2Penalty, MixtureSet, Penalty
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.mixtures.penalties import NoPenalty
from anymix.problem.oracle import Conditioned, Here, Oracle
from anymix.problem.regularizers import KINDS, Regularizer, regularizer_of

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
NEARLY = (1 - 1e-13, 1 - 1e-11, 1 - 1e-9)  # by which slopes are shrunk to give them room

__all__ = ["Objective", "Parts", "Phi", "objective_of", "parts_in", "refuse_parts"]


class Parts(TypedDict, total=False):
    """The fields of an `Objective` as loose keywords of a function, all but its mixtures."""

    gamma: float
    mu: float
    norm: str
    prior: Penalty | None
    multiplicative: bool
    offsets: ArrayLike | None
    anchor: ArrayLike | None
    robustness: float
    w_radius: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Objective:
    """Φ(w, λ) without its losses: the mixtures to guard against, and what w and λ pay.

    Φ(w, λ) = Σ_k λ_k (L_k(w) − b_k) + γ R(w − a) − μ χ²(λ‖m̄) + log p(λ)

    Parameters
    ----------
    mixtures : MixtureSet, function, str or None
        Λ: a set, a function of the domains' sizes that gives one, words such as "chi2:2.0", or None
        for any mixture (the simplex).
    gamma : float
        γ ≥ 0, the weight of R; the intercept is free.
    mu : float
        μ ≥ 0, the weight of the χ² penalty that keeps λ near the mixture m̄ of the data.
    norm : {"squared", "plain"}
        R(w) is ½‖w‖² or ‖w‖.
    prior : Penalty, optional
        −log p, a prior on λ instead of mu: a `DirichletPrior`, or a `LogPrior` of
        `anymix.mixtures`.
    multiplicative : bool
        Whether p multiplies the loss, p(λ) Σ_k λ_k L_k(w) + γ R(w − a), instead of adding its
        logarithm. Only `solve`, `certify` and estimators take it.
    offsets : array-like of shape (p,), optional
        b; with b_k the least loss of domain k alone the solution is minimax regret. None is 0.
    anchor : array-like of shape (D,), optional
        a, a model towards which R pulls, such as the ordinary one; its intercepts do not matter.
        None is 0.
    robustness : float
        t from 0 (ordinary training) to 1 (agnostic): Λ_t = {(1−t) m̄ + t λ : λ ∈ Λ} takes the place
        of Λ.
    w_radius : float, optional
        Only models with ‖w‖ ≤ w_radius count; None is all. `solve` takes none.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> problem = ax.LinearDomains(np.zeros((4, 1)), [1, 1, 0, 1], ["a", "a", "b", "b"])
    >>> objective = ax.Objective(ax.Simplex(2), gamma=0.1)
    >>> ax.solve(problem, objective).domain_losses.round(3).tolist()
    [0.693, 0.693]
    >>> from dataclasses import replace
    >>> ordinary = replace(objective, robustness=0.0)
    >>> ax.solve(problem, ordinary).domain_losses.round(3).tolist()
    [0.288, 0.837]
    """

    mixtures: Mixtures = None
    gamma: float = 1e-3
    mu: float = 0.0
    _: KW_ONLY
    norm: str = "squared"
    prior: Penalty | None = None
    multiplicative: bool = False
    offsets: ArrayLike | None = None
    anchor: ArrayLike | None = None
    robustness: float = 1.0
    w_radius: float | None = None

    def __post_init__(self) -> None:
        Λ: Any = self.mixtures
        if not (Λ is None or isinstance(Λ, MixtureSet | str) or callable(Λ)):
            fix = "give a mixture set such as Simplex(3), a function of the sizes, words, or None"
            raise InputError("mixtures", f"is {Λ!r}", fix)
        for name in ("gamma", "mu"):
            self._set_number(name, "give a finite number ≥ 0", lambda x: x >= 0)
        fix = "give a number from 0 (ordinary) to 1 (agnostic)"
        self._set_number("robustness", fix, lambda t: 0 <= t <= 1)
        if self.w_radius is not None:
            fix = "give a positive number, or None for all models"
            self._set_number("w_radius", fix, lambda r: r > 0)
        if self.norm not in KINDS:
            found = f"is {self.norm!r}"
            raise InputError("norm", found, "give 'squared' (½‖w‖²) or 'plain' (‖w‖)")
        for name in ("offsets", "anchor"):
            if (given := getattr(self, name)) is not None:
                length = len(given) if hasattr(given, "__len__") else 1
                vector = finite_vector(name, given, length).copy()
                vector.setflags(write=False)
                object.__setattr__(self, name, vector)
        self._check_prior()

    def _set_number(self, name: str, fix: str, allowed: Callable[[float], bool]) -> None:
        object.__setattr__(self, name, finite_number(name, getattr(self, name), fix, allowed))

    def _check_prior(self) -> None:
        prior: Any = self.prior
        if not (prior is None or isinstance(prior, Penalty)):
            fix = "give a penalty on λ, such as DirichletPrior(...), or None"
            raise InputError("prior", f"is {prior!r}", fix)
        if prior is not None and self.mu > 0:
            raise InputError("mu", "is given beside a prior", "penalise λ by one of them")
        if not self.multiplicative:
            return
        if prior is None or prior.is_quadratic:  # log-concavity is what makes a saddle point
            fix = "give −log p as a DirichletPrior or a LogPrior, which say that p is log-concave"
            raise InputError("prior", f"is {prior!r}", fix)
        if not self.gamma > 0:
            raise InputError("gamma", f"is {self.gamma!r}", "give a number > 0")
        if self.offsets is not None:
            found = "is given beside a prior that multiplies the loss"
            raise InputError("offsets", found, "leave it out: the product needs losses ≥ 0")

    def __repr__(self) -> str:
        named = ((f.name, getattr(self, f.name), f.default) for f in fields(self))
        said = [f"{name}={value!r}" for name, value, usual in named if repr(value) != repr(usual)]
        return f"Objective({', '.join(said)})"

    def target(self, sizes: Array, names: Any = None) -> MixtureSet:
        """Λ over domains of these sizes (and names, which a file of mixtures needs), t aside."""
        return target_mixtures(self.mixtures, None, sizes, names)

    def shrunk(self, sizes: Array, names: Any = None) -> MixtureSet:
        """Λ_t over domains of these sizes."""
        return self.target(sizes, names).shrunk(self.robustness, sizes / sizes.sum())

    def on(self, problem: Oracle) -> Phi:
        """Φ of this problem, all sizes checked.

        Parameters
        ----------
        problem : Oracle
            The losses, such as a `LinearDomains`.

        Returns
        -------
        Phi
        """
        if self.multiplicative:
            found = "is True, a product that is not concave in λ"
            raise InputError("multiplicative", found, "give False here; `solve` takes it")
        p, sizes = problem.n_domains, problem.sizes
        return Phi(
            mixtures=self.shrunk(sizes, getattr(problem, "domain_names", None)),
            shrinkage=regularizer_of(self.norm, self.gamma, problem.penalized, self.anchor),
            penalty=self.penalty(sizes),
            offsets=np.zeros(p) if self.offsets is None else self._offsets(p),
            w_radius=self.w_radius,
            rounding=problem.rounding,
            reach=lambda: problem.reach,  # a pass over all rows, made only if asked for
        )

    def penalty(self, sizes: ArrayLike) -> Penalty:
        """What λ pays where the domains have these sizes: μ χ², the prior, or nothing."""
        if self.prior is not None:
            return self.prior
        return Chi2Penalty(self.mu, sizes) if self.mu > 0 else NoPenalty()

    def _offsets(self, p: int) -> Array:
        b = np.asarray(self.offsets)
        if b.shape != (p,):
            found = f"has shape {b.shape}"
            raise InputError("offsets", found, f"give {p} finite numbers, one a domain")
        return b


def objective_of(mixtures: Objective | Mixtures, parts: Parts, gamma: float = 1e-3) -> Objective:
    """The Objective given, or one made of Λ and loose keywords; gamma is their default."""
    if not isinstance(mixtures, Objective):
        made: Parts = {"gamma": gamma, **parts}
        return Objective(mixtures, **made)
    for name in parts:
        raise InputError(name, "is given beside an Objective", "make it a part of the Objective")
    return mixtures


def parts_in(options: dict[str, Any]) -> Parts:
    """The parts of an Objective among options, taken out of them."""
    found: Any = {name: options.pop(name) for name in Parts.__annotations__ if name in options}
    return cast(Parts, found)


def refuse_parts(objective: Objective, fix: str, **usual: Any) -> None:
    """Refuse parts that cannot be seen or are said elsewhere: all that differ from these."""
    for name, value in usual.items():
        given = getattr(objective, name)
        if given is not value and not np.array_equal(given, value):
            raise InputError(name, f"is {given!r} in the Objective", fix)


@dataclass(frozen=True)
class Phi:
    """Φ(w, λ) of one problem, without its losses: what `Objective.on` gives."""

    mixtures: MixtureSet  # Λ_t
    shrinkage: Regularizer  # γR(w − a)
    penalty: Penalty  # what λ pays: μ χ²(λ‖m̄), −log p(λ), or nothing
    offsets: Array  # b, (p,)
    w_radius: float | None = None
    rounding: float = 0.0  # the relative error of a sum over the rows
    reach: Callable[[], Array] = lambda: np.zeros(1)  # as in Oracle

    def inside(self, inner: Conditioned) -> Phi:
        """Φ of the inner problem, which is this one over scale²."""
        unit = inner.scale * inner.scale
        return replace(
            self,
            shrinkage=self.shrinkage.in_units(inner.scale),
            penalty=self.penalty.times(1 / unit),
            offsets=self.offsets / unit,
            w_radius=None,  # the ball is one of the outer w
            rounding=inner.problem.rounding,
            reach=lambda: inner.problem.reach,
        )

    def smoothed(self, error: float) -> Phi:
        """Φ with derivatives everywhere, off by about so much."""
        return replace(self, shrinkage=self.shrinkage.smoothed(error))

    @property
    def gamma(self) -> float:
        """The weight γ of the regulariser."""
        return self.shrinkage.gamma

    @property
    def norm(self) -> str:
        """The name of the regulariser, as `solve` takes it."""
        return self.shrinkage.name

    @property
    def mu(self) -> float:
        """The weight μ of the χ² penalty; 0 where λ pays nothing, or by a prior."""
        return self.penalty.mu

    # -- the maximising player -----------------------------------------------------------------

    def best_response(self, losses: Array) -> Array:
        """argmax_{λ∈Λ} Σ λ_k (L_k − b_k) − penalty(λ), exact."""
        return self.penalty.best_response(self.mixtures, losses - self.offsets)

    def mixture_value(self, losses: Array, mixture: Array) -> float:
        """Σ λ_k (L_k − b_k) − penalty(λ)."""
        return float(mixture @ (losses - self.offsets)) - self.penalty.value(mixture)

    def worst_value(self, losses: Array) -> float:
        """max over λ of `mixture_value`."""
        return self.mixture_value(losses, self.best_response(losses))

    # -- the regulariser -----------------------------------------------------------------------

    def regularizer(self, w: Array) -> float:
        """γR(w − a)."""
        return self.shrinkage.value(w)

    def regularizer_gradient(self, w: Array) -> Array:
        """γ∇R(w − a), (D,)."""
        return self.shrinkage.gradient(w)

    def add_regularizer_hessian(self, w: Array, hessian: Array) -> None:
        """hessian += γ∇²R(w − a)."""
        self.shrinkage.add_hessian(w, hessian)

    # -- the two values ------------------------------------------------------------------------

    def resolution(self, here: Here, upper: float, tol: float = 0.0) -> float:
        """How well rounding lets Φ be known at w, up to 1e-10 of it: gaps below mean nothing.

        At least tol: no gap below that is asked for.
        """
        slope, size = here.steepness(float(here.losses.max())), abs(upper)
        if tol >= 1e-10 * size:
            return tol
        known = self.rounding * (size + slope * float(np.abs(here.w) @ self.reach()))
        return max(tol, min(1e-13 * size + 4 * known, 1e-10 * size))

    def doubt(self, here: Here) -> float:
        """What rounding may have done to `upper`."""
        lam, largest = self.best_response(here.losses), float(here.losses.max())
        size = largest + self._size_of_nothing(lam) + self.regularizer(here.w)
        scores = float(np.abs(here.w) @ self.reach())
        return 4 * self.rounding * (size + here.steepness(largest) * scores)

    def upper(self, here: Here) -> float:
        """max_λ Φ(w, λ)."""
        return self.worst_value(here.losses) + self.regularizer(here.w)

    def lower(
        self,
        here: Here,
        mixture: Array,
        step: Array | None = None,
        spare: float = 0.0,
    ) -> float:
        """A value that Φ(w, mixture) does not undercut for any w (or any ‖w‖ ≤ w_radius).

        With γ = 0 and no w_radius it is tight near a minimum only, and elsewhere says Φ ≥ 0.
        For γ > 0 it may be lower by about `spare` than what could be proved, if that is cheaper.
        """
        bound, w_radius = 0.0, self.w_radius  # every loss is ≥ 0, and so is R
        if w_radius is not None:
            dual = here.dual(mixture, step)
            longest = float(np.linalg.norm(np.abs(dual.v) + dual.error))
            bound = max(bound, dual.value - w_radius * longest)
            bound = max(bound, self._tangent(here, mixture, w_radius))
        if self.gamma > 0:
            bound = max(bound, self._penalized_lower(here, mixture, step, spare))
        else:
            bound = max(bound, here.floor(mixture))
        return bound + self._value_of_nothing(mixture) - 4 * EPS * bound

    def _value_of_nothing(self, mixture: Array) -> float:
        """What λ gains where all losses are 0, less what rounding may have added."""
        value = self.mixture_value(np.zeros(len(mixture)), mixture)
        return value - 8 * EPS * self._size_of_nothing(mixture)

    def _size_of_nothing(self, mixture: Array) -> float:
        """The size of its terms, and what λ's own rounding does to the penalty."""
        some = np.flatnonzero(mixture)
        slope = float(mixture[some] @ np.abs(self.penalty.gradient(mixture)[some]))
        return float(mixture @ np.abs(self.offsets)) + abs(self.penalty.value(mixture)) + slope

    def _penalized_lower(
        self, here: Here, mixture: Array, step: Array | None, spare: float
    ) -> float:
        """The same for γ > 0 from the dual, shrunk where there is no bound for it as it is.

        R may ask for a shorter v. And far out every slope is at the end of what ℓ* takes, so that
        none can take up what rounding leaves of the intercepts: a little inside there is room.
        """
        slack = self.shrinkage.slack(here.w, spare)
        dual = here.dual(mixture, step, 1.0, slack)
        bound = self.shrinkage.least(dual)
        for scale in chain(self.shrinkage.scales(dual), () if bound > -math.inf else NEARLY):
            shrunk = self.shrinkage.least(here.dual(mixture, step, scale, slack))
            if shrunk > -math.inf:
                return max(bound, shrunk)
        return bound

    def _tangent(self, here: Here, mixture: Array, w_radius: float) -> float:
        """min over ‖u‖ ≤ w_radius of Σ λ_k L_k + γR made linear at w: tight if the ball binds."""
        r = self.regularizer_gradient(here.w)
        g, loss = here.gradient(mixture) + r, float(mixture @ here.losses)
        value = loss + self.regularizer(here.w)
        slope = here.steepness(loss) * self.reach()
        error = self.rounding * (slope + np.abs(g) + np.abs(r))
        value -= self.rounding * value + 2 * float(error @ np.abs(here.w))
        return value - float(g @ here.w) - w_radius * float(np.linalg.norm(np.abs(g) + error))
