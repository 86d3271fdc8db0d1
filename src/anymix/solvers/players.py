"""One step of both players, the same for a run in memory and for a federated one.

    w_t = Π_W(w_{t−1} − γ_w d),   λ_t = Π_Λ(λ_{t−1} + γ_λ δ_λ),   both from the old point,

d being the optimizer's direction for δ_w, or for 2δ_w^t − δ_w^{t−1} when optimistic. The compiled
loops take the same steps in another form, and are tested against this one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.mixtures import Adversary
from anymix.solvers.optimizers import Optimizer

Array = NDArray[np.float64]

__all__ = ["Players", "too_long"]


def too_long(step: str, t: int) -> InputError:
    """The error for numbers that are not finite: `step` is "step_w" or "step_mixture"."""
    found = {
        "step_w": "w or the losses there are not finite",
        "step_mixture": "the move of λ is not finite, or a prior keeps λ from where it is",
    }
    return InputError(step, f"may be too long: in step {t} {found[step]}", "take smaller steps")


@dataclass
class Players:
    """(w_t, λ_t) and the sum of w_1..w_t; λ keeps its own average.

    A step makes new arrays and leaves the old ones as they are, so that who keeps an old w keeps
    its numbers.

    Parameters
    ----------
    w : ndarray of shape (D,)
        The model, first w_0; a start outside of W is brought to its edge.
    adversary : Adversary
        λ, and whether both players are optimistic.
    optimizer : Optimizer
        The rule that makes a direction of δ_w.
    step_w, step_mixture : function
        γ_w and γ_λ of step number t = 1, 2, …
    w_radius : float, optional
        W is the ball of this radius; None is all of R^D.
    responds : bool
        Whether λ goes the part γ_λ of the way to its best response, instead of a step uphill.

    Attributes
    ----------
    t : int
        How many steps were made.
    total : ndarray of shape (D,)
        w_1 + … + w_t.
    previous : ndarray of shape (D,), optional
        δ_w of the last step, for the optimistic one.
    memory : dict of str to ndarray
        What the optimizer remembers.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> lam = ax.Adversary(ax.Simplex(2), step=1.0)
    >>> sgd = ax.optimizers.SGD()
    >>> players = Players(np.zeros(1), lam, sgd, lambda t: 0.5, lambda t: 0.1)
    >>> players.step(np.array([1.0]), np.array([1.0, 0.0]))
    >>> players.w, players.adversary.mixture
    (array([-0.5]), array([0.55, 0.45]))
    """

    w: Array
    adversary: Adversary
    optimizer: Optimizer
    step_w: Callable[[int], float]
    step_mixture: Callable[[int], float]
    w_radius: float | None = None
    responds: bool = False
    t: int = field(default=0, init=False)
    total: Array = field(init=False)
    previous: Array | None = field(default=None, init=False)
    memory: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        self.w = self._project(self.w)
        self.total = np.zeros_like(self.w)
        self.memory = self.optimizer.start(len(self.w))

    @property
    def w_average(self) -> Array:
        """(w_1 + … + w_t)/t, before the first step w_0."""
        return self.total / self.t if self.t else self.w.copy()

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused
    def step(
        self, delta_w: Array, delta_mixture: Array, sizes: tuple[float, float] | None = None
    ) -> None:
        """Both players step from the old point, given δ_w (D,) and δ_λ (p,)."""
        gamma_w, gamma_mixture = self.next_sizes() if sizes is None else sizes
        self.t += 1
        if not (np.isfinite(delta_w).all() and np.isfinite(delta_mixture).all()):
            raise too_long("step_w", self.t)
        direction = delta_w
        if self.adversary.optimistic:
            direction = 2 * delta_w - (delta_w if self.previous is None else self.previous)
            self.previous = delta_w
        direction, self.memory = self.optimizer.direction(direction, self.memory)
        self.w = self._project(self.w - gamma_w * direction)
        self.total = self.total + self.w
        move = self.adversary.respond if self.responds else self.adversary.step
        try:
            move(delta_mixture, gamma_mixture)
        except InputError as error:
            if error.argument != "step":
                raise
            raise too_long("step_mixture", self.t) from error
        if not np.isfinite(self.total).all():  # so is w, then
            raise too_long("step_w", self.t)

    def next_sizes(self) -> tuple[float, float]:
        """γ_w and γ_λ of the next step."""
        return self.step_w(self.t + 1), self.step_mixture(self.t + 1)

    def _project(self, w: Array) -> Array:
        """Π_W."""
        if self.w_radius is None:
            return w
        length = float(np.linalg.norm(w))
        if not math.isfinite(length):  # ‖w‖² may overflow where w does not
            raise too_long("step_w", self.t)
        return w if length <= self.w_radius else w * (self.w_radius / length)

    def copy(self) -> Players:
        """Players at the same point, to go another way from there."""
        other = copy(self)
        other.adversary = copy(self.adversary)  # it makes new arrays at every step, too
        other.memory = {name: value.copy() for name, value in self.memory.items()}
        return other

    def state_dict(self) -> dict[str, Any]:
        """All that moves, as copies: arrays, counts, and dicts of them."""
        return {
            "t": self.t,
            "w": self.w.copy(),
            "total": self.total.copy(),
            "previous": None if self.previous is None else self.previous.copy(),
            "memory": {name: value.copy() for name, value in self.memory.items()},
            "adversary": self.adversary.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken, bit for bit; lists will do for arrays."""
        w = np.array(state["w"], dtype=np.float64)
        if w.shape != self.w.shape:
            found = f"has {w.size} parameters and the model {self.w.size}"
            raise InputError("state", found, "give that of a run of the same problem")
        self.adversary.load_state_dict(state["adversary"])
        self.w, self.total = w, np.array(state["total"], dtype=np.float64)
        previous = state.get("previous")
        self.previous = None if previous is None else np.array(previous, dtype=np.float64)
        kept = state.get("memory", {})  # SGD remembers nothing
        self.memory = {k: np.array(kept[k], dtype=np.float64) for k in self.memory}
        self.t = int(np.asarray(state["t"]))
