"""The maximising player: the one place where λ moves."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Literal, Protocol, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.mixtures.sets import Box, MixtureSet, Point, Simplex, TVBall, Vertices

Array = NDArray[np.float64]
State = dict[str, Array | int]


class Penalty(Protocol):
    """What the adversary pays for λ: only the gradient matters for its steps.

    Examples
    --------
    >>> import anymix as ax
    >>> ax.Chi2Penalty(1.0, sizes=[1, 1]).gradient([0.5, 0.5])
    array([0., 0.])
    """

    def gradient(self, mixture: ArrayLike) -> Array:
        """The gradient of the penalty at λ, (p,)."""
        ...


@final
class Adversary:
    """Gradient ascent of λ in Λ, with step size γ on the gradients δ_t that it is given.

    euclidean  λ_t = argmin_{λ ∈ Λ} ‖λ − (λ_{t−1} + γ δ_t)‖²                  the paper's step
    entropic   λ_t = argmin_{λ ∈ Λ} KL(λ ‖ λ_{t−1} · e^{γ δ_t})               multiplicative weights

    A penalty is subtracted: δ_t − ∇penalty(λ_{t−1}) takes the place of δ_t. An optimistic
    adversary steps along 2δ_t − δ_{t−1}, with δ_0 = δ_1. `entropic` is for Simplex, Vertices, Box,
    TVBall and Point, whose KL projections are exact; it never leaves λ_k = 0, so the start must not
    have a zero where Λ allows more.

    A step makes new arrays and leaves the old ones as they are.

    Parameters
    ----------
    mixtures : MixtureSet
        Λ, where λ lives.
    step : float
        γ, the size of a step unless `step` is given another.
    kind : {"euclidean", "entropic"}
        Which of the two steps is taken.
    start : array-like of shape (p,), optional
        λ_0, by default the center of Λ.
    penalty : Penalty, optional
        What λ pays; its gradient at the old λ is taken off δ_t.
    optimistic : bool, default False
        Whether to step along 2δ_t − δ_{t−1}.

    Examples
    --------
    >>> adversary = Adversary(Simplex(2), step=0.1)
    >>> adversary.step([1.0, 0.0])
    >>> adversary.mixture
    array([0.55, 0.45])
    >>> adversary.step([1.0, 0.0])
    >>> adversary.mixture, adversary.average
    (array([0.6, 0.4]), array([0.575, 0.425]))
    """

    def __init__(
        self,
        mixtures: MixtureSet,
        step: float,
        *,
        kind: Literal["euclidean", "entropic"] = "euclidean",
        start: ArrayLike | None = None,
        penalty: Penalty | None = None,
        optimistic: bool = False,
    ) -> None:
        if kind not in ("euclidean", "entropic"):
            raise InputError("kind", f"is {kind!r}", "it must be 'euclidean' or 'entropic'")
        self.mixtures, self.kind, self.penalty = mixtures, kind, penalty
        self.step_size, self.optimistic = _size("step", step), optimistic
        self._mixture = _member("start", mixtures.center if start is None else start, mixtures)
        self._logarithm = _logarithm(self._mixture, mixtures) if kind == "entropic" else None
        self._total = self._previous = np.zeros(mixtures.n_domains)
        self.n_steps = 0

    @property
    def mixture(self) -> Array:
        """λ_T, (p,), read-only; no later step changes it."""
        return _frozen(self._mixture)

    @property
    def average(self) -> Array:
        """λ^A = (λ_1 + … + λ_T)/T, (p,), read-only: as the paper's algorithm, without λ_0.

        Before the first step it is λ_0.
        """
        return _frozen(self._total / self.n_steps) if self.n_steps else self.mixture

    def step(self, gradient: ArrayLike, size: float | None = None) -> None:
        """λ ← the next iterate. An error leaves λ as it was.

        Parameters
        ----------
        gradient : array-like of shape (p,)
            δ, most often the losses of the domains.
        size : float, optional
            It takes the place of γ for this step.
        """
        gamma = self.step_size if size is None else _size("size", size)
        slope = _vector("gradient", gradient, self.mixtures.n_domains).copy()
        if self.penalty is not None:
            slope = _vector("penalty.gradient", slope - self.penalty.gradient(self._mixture))
        previous = self._previous if self.optimistic and self.n_steps else slope
        with np.errstate(over="ignore"):
            move = _vector("size × gradient", gamma * (2 * slope - previous))
        if self._logarithm is None:
            mixture = self.mixtures.project(self._mixture + move)
        else:
            self._logarithm = _kl_project(self.mixtures, self._logarithm + move)
            mixture = np.exp(self._logarithm)
        self._mixture, self._previous = mixture, slope
        self._total = self._total + mixture
        self.n_steps += 1

    def state_dict(self) -> State:
        """All that moves, as copies: arrays and a count, for any file format."""
        state: State = {
            "mixture": self._mixture.copy(),
            "total": self._total.copy(),
            "previous": self._previous.copy(),
            "n_steps": self.n_steps,
        }
        if self._logarithm is not None:
            state["logarithm"] = self._logarithm.copy()
        return state

    def load_state_dict(self, state: Mapping[str, ArrayLike]) -> None:
        """Continue where `state_dict` was taken, bit for bit."""
        names = {"mixture", "total", "previous", "n_steps"}
        names |= set() if self._logarithm is None else {"logarithm"}
        if set(state) != names:
            fix = f"that of a {self.kind} adversary must have {sorted(names)}"
            raise InputError("state", f"has {sorted(state)}", fix)
        p = self.mixtures.n_domains
        mixture = _member("mixture", state["mixture"], self.mixtures)
        total, previous = (_vector(k, state[k], p).copy() for k in ("total", "previous"))
        if self._logarithm is not None:
            self._logarithm = _logarithm_of(mixture, state["logarithm"])
        self._mixture, self._total, self._previous = mixture, total, previous
        self.n_steps = int(np.asarray(state["n_steps"]))


def _logarithm_of(mixture: Array, value: ArrayLike) -> Array:
    logarithm = np.array(value, dtype=np.float64)
    if logarithm.shape != mixture.shape or not np.allclose(np.exp(logarithm), mixture):
        fix = f"it must be log(mixture) = log({mixture})"
        raise InputError("logarithm", f"is {logarithm}", fix)
    return logarithm


def _member(name: str, value: ArrayLike, mixtures: MixtureSet) -> Array:
    mixture = _vector(name, value, mixtures.n_domains).copy()
    if not mixtures.contains(mixture):
        raise InputError(name, f"is {mixture}, but must be in {mixtures}", "project it first")
    return mixture


def _logarithm(mixture: Array, mixtures: MixtureSet) -> Array:
    """log λ of a start that the entropic step can leave."""
    stuck = (mixture == 0) & (_upper(mixtures) > 0)
    if stuck.any():
        raise InputError(
            "start",
            f"must not be 0 for an entropic adversary, found 0 at {np.flatnonzero(stuck)}, where "
            "it would stay for ever",
            "mix a little of all domains into it",
        )
    with np.errstate(divide="ignore"):
        return np.log(mixture)


def _upper(mixtures: MixtureSet) -> Array:
    """The largest λ_k in Λ, for each k."""
    if isinstance(mixtures, Simplex | Vertices):
        return np.ones(mixtures.n_domains)
    if isinstance(mixtures, Box):
        return mixtures.upper
    if isinstance(mixtures, TVBall):
        return np.minimum(mixtures.center + mixtures.rho, 1.0)
    if isinstance(mixtures, Point):
        return mixtures.center
    raise TypeError(
        f"no exact KL projection onto {type(mixtures).__name__}: use kind='euclidean', or one of "
        "Simplex, Vertices, Box, TVBall and Point"
    )


def _kl_project(mixtures: MixtureSet, logits: Array) -> Array:
    """log of argmin_{λ ∈ Λ} Σ λ log(λ/w), w = exp(logits)."""
    if isinstance(mixtures, Point):
        with np.errstate(divide="ignore"):
            return np.log(mixtures.center)
    if isinstance(mixtures, Box):
        return _kl_box(logits, mixtures.lower, mixtures.upper, 1.0)
    softmax = _log_softmax(logits)
    if isinstance(mixtures, TVBall):
        return _kl_ball(softmax, mixtures.center, mixtures.rho)
    return softmax


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def _kl_ball(softmax: Array, center: Array, rho: float) -> Array:
    """The same over ½‖λ − c‖₁ ≤ ρ.

    Where the ball binds, mass ρ is above c and mass ρ below: λ = max(c, w/A) and λ = min(c, w/B).
    """
    if rho >= 1 or np.abs(np.exp(softmax) - center).sum() <= 2 * rho:
        return softmax
    above = _kl_box(softmax, center, center + rho, 1 + rho)
    below = _kl_box(softmax, np.zeros_like(center), center, 1 - rho)
    with np.errstate(divide="ignore"):
        return np.where(below < np.log(center), below, above)


def _kl_box(logits: Array, lower: Array, upper: Array, total: float) -> Array:
    """The same over lower ≤ λ ≤ upper, Σλ = total: log clip(w e^{−ζ}, l, u).

    Σλ falls with ζ; between two neighbours of its 2p kinks ζ has a closed form.
    """
    with np.errstate(divide="ignore"):
        log_lower, log_upper = np.log(lower), np.log(upper)
    leaves = np.full_like(logits, -np.inf)  # the kinks: ζ where λ leaves u and where it meets l
    np.subtract(logits, log_upper, out=leaves, where=upper > 0)
    meets = np.full_like(logits, np.inf)
    np.subtract(logits, log_lower, out=meets, where=lower > 0)
    kinks = np.sort(np.concatenate([leaves, meets]))
    kinks = kinks[np.isfinite(kinks)]
    low, high = -1, kinks.size
    while high - low > 1:
        middle = (low + high) // 2
        sums = np.exp(np.clip(logits - kinks[middle], log_lower, log_upper)).sum()
        low, high = (middle, high) if sums >= total else (low, middle)
    left = kinks[low] if low >= 0 else -np.inf
    right = kinks[high] if high < kinks.size else np.inf
    free = (leaves <= left) & (right <= meets) & (upper > 0)
    result = np.where(meets <= left, log_lower, log_upper)
    if free.any():
        rest = max(total - np.exp(result[~free]).sum(), 1e-300)  # log 0 would be for ever
        inner = _log_softmax(logits[free]) + np.log(rest)
        result[free] = np.clip(inner, log_lower[free], log_upper[free])
    return result


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array


def _size(name: str, value: float) -> float:
    if not (isinstance(value, Real) and 0 <= value < np.inf):
        raise InputError(name, f"is {value!r}", "it must be a finite number ≥ 0")
    return float(value)


def _vector(name: str, value: ArrayLike, length: int | None = None) -> Array:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(name, f"is {value!r}", "it must be numbers") from None
    if length is not None and array.shape != (length,):
        fix = f"it must be {length} numbers, one per domain"
        raise InputError(name, f"has shape {array.shape}", fix)
    if not np.all(np.isfinite(array)):
        raise InputError(name, f"is {array}", "it must be finite; λ is unchanged")
    return array
