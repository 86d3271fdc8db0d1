"""The maximising player: the one place where λ moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError, finite_number
from anymix.mixtures.checks import vector
from anymix.mixtures.penalties import NoPenalty, Penalty
from anymix.mixtures.sets import MixtureSet

Array = NDArray[np.float64]
State = dict[str, Array | int]


@final
class Adversary:
    """Gradient ascent of λ in Λ, with step size γ on the gradients δ_t that it is given.

    euclidean  λ_t = argmin_{λ ∈ Λ} ‖λ − (λ_{t−1} + γ δ_t)‖²                  the paper's step
    entropic   λ_t = argmin_{λ ∈ Λ} KL(λ ‖ λ_{t−1} · e^{γ δ_t})               multiplicative weights

    A penalty is subtracted: δ_t − ∇penalty(λ_{t−1}) takes the place of δ_t. An optimistic
    adversary steps along 2δ_t − δ_{t−1}, with δ_0 = δ_1. `entropic` is for sets with
    `has_kl_projection`, such as Simplex, Box and TVBall; it never leaves λ_k = 0, so the start must
    not have a zero where Λ allows more.

    Parameters
    ----------
    mixtures : MixtureSet
        Λ, the set in which λ moves.
    step : float
        γ ≥ 0, the step size.
    kind : {"euclidean", "entropic"}
        Which of the two steps it takes.
    start : array-like of shape (p,), optional
        λ_0, a member of Λ; None is the centre of Λ.
    penalty : Penalty, optional
        What λ pays; None is nothing.
    optimistic : bool
        Whether each step also foresees the next gradient.

    Examples
    --------
    >>> from anymix.mixtures import Simplex
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
            raise InputError("kind", f"is {kind!r}", "give 'euclidean' or 'entropic'")
        if not isinstance(mixtures, MixtureSet):
            fix = "give a mixture set such as Simplex(3), for three domains"
            raise InputError("mixtures", f"is {mixtures!r}", fix)
        self.mixtures, self.kind = mixtures, kind
        self.penalty = NoPenalty() if penalty is None else penalty
        self._pays = not isinstance(self.penalty, NoPenalty)
        self.step_size, self.optimistic = _size("step", step), optimistic
        self._mixture = _member("start", mixtures.center if start is None else start, mixtures)
        self._logarithm = _logarithm(self._mixture, mixtures) if kind == "entropic" else None
        self._total, self._previous = np.zeros((2, mixtures.n_domains))
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
        """λ ← the next iterate; an error leaves λ as it was.

        Parameters
        ----------
        gradient : array-like of shape (p,)
            δ_t, the loss of each domain or an estimate of it.
        size : float, optional
            A step size for this step in place of γ.
        """
        gamma = self.step_size if size is None else _size("size", size)
        slope = vector("gradient", gradient, self.mixtures.n_domains)
        if not self._pays:
            slope = slope.copy()  # it is remembered, and the caller may write over theirs
        else:
            slope = slope - self.penalty.gradient(self._mixture)
            if not np.isfinite(slope).all():
                found = "has no finite gradient at this λ"
                raise InputError("penalty", found, "start inside Λ, with smaller steps")
        if gamma <= 1 and not self.optimistic:
            move = gamma * slope  # cannot overflow
        else:
            previous = self._previous if self.optimistic and self.n_steps else slope
            with np.errstate(over="ignore"):
                move = gamma * (2 * slope - previous)
            if not np.isfinite(move).all():
                raise InputError("step", "× gradient is no finite number", "take smaller steps")
        if self._logarithm is None:
            mixture = self.mixtures._project(self._mixture + move, None)
        else:
            self._logarithm = self.mixtures.kl_project(self._logarithm + move)
            mixture = np.exp(self._logarithm)
        self._mixture, self._previous = mixture, slope
        self._total = self._total + mixture
        self.n_steps += 1

    def respond(self, gradient: ArrayLike, size: float) -> None:
        """λ ← (1 − s) λ + s argmax_{λ' ∈ conv Λ} ⟨λ', δ_t⟩ − penalty(λ'): no step size in any unit.

        Near the edge of Λ a prior may have no finite gradient; its best response is inside.

        Parameters
        ----------
        gradient : array-like of shape (p,)
            δ_t, the loss of each domain or an estimate of it.
        size : float
            s in [0, 1].
        """
        s = finite_number("size", size, "give a number in [0, 1]", lambda x: 0 <= x <= 1)
        best = self.penalty.best_response(self.mixtures, gradient)
        self._mixture = (1 - s) * self._mixture + s * best
        if self._logarithm is not None:
            with np.errstate(divide="ignore"):
                self._logarithm = np.log(self._mixture)
        self._total = self._total + self._mixture
        self.n_steps += 1

    def state_dict(self) -> State:
        """All that moves, as copies: arrays and a count, for any file format.

        Returns
        -------
        dict of str to ndarray or int
        """
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
        """Continue where `state_dict` was taken, bit for bit.

        Parameters
        ----------
        state : mapping
            What `state_dict` of an adversary of the same kind gave.
        """
        names = {"mixture", "total", "previous", "n_steps"}
        names |= set() if self._logarithm is None else {"logarithm"}
        if set(state) != names:
            fix = f"give {sorted(names)}, those of a {self.kind} adversary"
            raise InputError("state", f"has the names {sorted(state)}", fix)
        p = self.mixtures.n_domains
        mixture = _member("mixture", state["mixture"], self.mixtures)
        total, previous = (vector(k, state[k], p).copy() for k in ("total", "previous"))
        if self._logarithm is not None:
            self._logarithm = _logarithm_of(mixture, state["logarithm"])
        self._mixture, self._total, self._previous = mixture, total, previous
        self.n_steps = int(np.asarray(state["n_steps"]))


def _logarithm_of(mixture: Array, value: ArrayLike) -> Array:
    logarithm = np.array(value, dtype=np.float64)
    if logarithm.shape != mixture.shape or not np.allclose(np.exp(logarithm), mixture):
        raise InputError("logarithm", "is not log(mixture)", "give what state_dict gave")
    return logarithm


def _member(name: str, value: ArrayLike, mixtures: MixtureSet) -> Array:
    mixture = vector(name, value, mixtures.n_domains).copy()
    if not mixtures.contains(mixture):
        raise InputError(name, f"is not in the {type(mixtures).__name__}", "project it first")
    return mixture


def _logarithm(mixture: Array, mixtures: MixtureSet) -> Array:
    """log λ of a start that the entropic step can leave."""
    mixtures.kl_project(np.zeros(mixture.size))  # an error says so if Λ has no such projection
    for k in np.flatnonzero(mixture == 0):
        only = np.zeros(mixture.size)
        only[k] = 1
        if mixtures.maximize(only)[k] > 0:
            found = f"has 0 at index {k}, which an entropic step can never leave"
            raise InputError("start", found, "mix a little of all domains into it")
    with np.errstate(divide="ignore"):
        return np.log(mixture)


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array


def _size(name: str, value: float) -> float:
    return finite_number(name, value, "give a number ≥ 0", lambda x: x >= 0)
