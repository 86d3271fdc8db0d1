"""The two players on the server, w and λ: their steps, their averages, and their state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.mixtures import Adversary
from anymix.solvers.optimizers import Optimizer

Array = NDArray[np.float64]

__all__ = ["Players"]


@dataclass
class Players:
    """(w_t, λ_t) and the sum of w_1..w_t; λ keeps its own average.

    w_t = Π_W(w_{t−1} − γ_w d),  λ_t = Π_Λ(λ_{t−1} + γ_λ δ_λ),  d the optimizer's direction for δ_w,
    or for 2δ_w^t − δ_w^{t−1} when optimistic.

    Attributes
    ----------
    w : ndarray of shape (D,)
        The model, first w_0.
    adversary : Adversary
        λ, and whether both players are optimistic.
    optimizer : Optimizer
        The rule that makes a direction of δ_w.
    step_w, step_mixture : function
        γ_w and γ_λ of step number t = 1, 2, …
    w_radius : float, optional
        W is the ball of this radius; None is all of R^D.
    t : int
        How many steps were made.
    previous : ndarray of shape (D,), optional
        δ_w of the last step, for the optimistic one.
    """

    w: Array
    adversary: Adversary
    optimizer: Optimizer
    step_w: Callable[[int], float]
    step_mixture: Callable[[int], float]
    w_radius: float | None = None
    t: int = 0
    previous: Array | None = None
    total: Array = field(init=False)
    memory: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        self.w = self._project(self.w)
        self.total = np.zeros_like(self.w)
        self.memory = self.optimizer.start(len(self.w))

    @property
    def w_average(self) -> Array:
        """(w_1 + … + w_t)/t, before the first step w_0."""
        return self.total / self.t if self.t else self.w.copy()

    def step(self, delta_w: Array, delta_mixture: Array) -> None:
        """Both players step from the old point."""
        self.t += 1
        direction = delta_w
        if self.adversary.optimistic:
            direction = 2 * delta_w - (delta_w if self.previous is None else self.previous)
            self.previous = delta_w
        direction, self.memory = self.optimizer.direction(direction, self.memory)
        self.w = self._project(self.w - self.step_w(self.t) * direction)
        self.adversary.step(delta_mixture, self.step_mixture(self.t))
        self.total = self.total + self.w

    def _project(self, w: Array) -> Array:
        """The point of W nearest to w: w itself, or shortened to the length w_radius."""
        length = float(np.linalg.norm(w))
        if self.w_radius is None or length <= self.w_radius:
            return w
        return w * (self.w_radius / length)

    def state(self) -> dict[str, NDArray[Any]]:
        """All that moves, as arrays."""
        state = {"w": self.w, "total": self.total, "t": np.array(self.t)}
        state |= {f"memory/{k}": v for k, v in self.memory.items()}
        state |= {f"adversary/{k}": np.asarray(v) for k, v in self.adversary.state_dict().items()}
        return state if self.previous is None else state | {"previous": self.previous}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue where `state` was taken, bit for bit."""
        if state["w"].shape != self.w.shape:
            found = f"has {state['w'].size} parameters, the clients' model {self.w.size}"
            raise InputError("checkpoint", found, "give another file")
        self.w, self.total, self.previous = state["w"], state["total"], state.get("previous")
        self.t = int(state["t"])
        self.memory = {k: state[f"memory/{k}"] for k in self.memory}
        own = {k.partition("/")[2]: v for k, v in state.items() if k.startswith("adversary/")}
        self.adversary.load_state_dict(own)
