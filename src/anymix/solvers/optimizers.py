"""The minimising player's step rules: w ← w − size · (a direction made of the gradients so far).

Each is a value; what it remembers between steps is a dict of arrays of the length of w, so that a
run can be saved and resumed. The formulas are those of torch.optim.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError

Array = NDArray[np.float64]
Memory = dict[str, Array]

__all__ = ["SGD", "Adagrad", "Adam", "Momentum", "Optimizer"]


class Optimizer(Protocol):
    """What a step rule offers; write your own with these two methods.

    Examples
    --------
    >>> class Signs:
    ...     def start(self, n_parameters):
    ...         return {}
    ...
    ...     def direction(self, gradient, memory):
    ...         return np.sign(gradient), memory
    >>> Signs().direction(np.array([3.0, -0.1]), {})[0].tolist()
    [1.0, -1.0]
    """

    def start(self, n_parameters: int) -> Memory:
        """What it remembers before the first step."""
        ...

    def direction(self, gradient: Array, memory: Memory) -> tuple[Array, Memory]:
        """The direction d to subtract, w ← w − size · d, and what to remember next."""
        ...


@dataclass(frozen=True)
class SGD:
    """d = g: the paper's step.

    Examples
    --------
    >>> import numpy as np
    >>> SGD().direction(np.array([1.0, -2.0]), {})[0].tolist()
    [1.0, -2.0]
    """

    def start(self, n_parameters: int) -> Memory:
        """Nothing."""
        return {}

    def direction(self, gradient: Array, memory: Memory) -> tuple[Array, Memory]:
        """d and what to remember, see `Optimizer`."""
        return gradient, memory


@dataclass(frozen=True)
class Momentum:
    """d = v,  v ← β v + g (heavy ball).

    Parameters
    ----------
    beta : float, default 0.9
        How much of the last direction is kept, in [0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> rule = Momentum(beta=0.5)
    >>> d, memory = rule.direction(np.array([1.0]), rule.start(1))
    >>> rule.direction(np.array([1.0]), memory)[0].tolist()
    [1.5]
    """

    beta: float = 0.9

    def __post_init__(self) -> None:
        _in_unit("beta", self.beta)

    def start(self, n_parameters: int) -> Memory:
        """v = 0."""
        return {"v": np.zeros(n_parameters)}

    def direction(self, gradient: Array, memory: Memory) -> tuple[Array, Memory]:
        """d and what to remember, see `Optimizer`."""
        v = self.beta * memory["v"] + gradient
        return v, {"v": v}


@dataclass(frozen=True)
class Adagrad:
    """d = g / (√G + ε),  G ← G + g²,  G = `initial` at first.

    PyTorch starts at 0, so that the first step is as long for a rare feature as for any other;
    TensorFlow starts at 0.1.

    Parameters
    ----------
    epsilon : float, default 1e-10
        A positive number that keeps the quotient finite.
    initial : float, default 0
        The first value of all sums G.

    Examples
    --------
    >>> import numpy as np
    >>> Adagrad().direction(np.array([3.0, -0.1]), Adagrad().start(2))[0].round(6).tolist()
    [1.0, -1.0]
    """

    epsilon: float = 1e-10
    initial: float = 0.0

    def __post_init__(self) -> None:
        _positive("epsilon", self.epsilon)
        if not (isinstance(self.initial, Real) and 0 <= self.initial < math.inf):
            raise InputError("initial", f"is {self.initial!r}", "give a finite number ≥ 0")

    def start(self, n_parameters: int) -> Memory:
        """G = initial."""
        return {"G": np.full(n_parameters, float(self.initial))}

    def direction(self, gradient: Array, memory: Memory) -> tuple[Array, Memory]:
        """d and what to remember, see `Optimizer`."""
        G = memory["G"] + gradient * gradient
        return gradient / (np.sqrt(G) + self.epsilon), {"G": G}


@dataclass(frozen=True)
class Adam:
    """d = m̂ / (√v̂ + ε),  m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²,  ^ = over 1 − βᵗ.

    Parameters
    ----------
    beta1 : float, default 0.9
        How much of the mean m of the gradients is kept at a step, in [0, 1).
    beta2 : float, default 0.999
        How much of the mean v of their squares is kept at a step, in [0, 1).
    epsilon : float, default 1e-8
        A positive number that keeps the quotient finite.

    Examples
    --------
    >>> import numpy as np
    >>> Adam().direction(np.array([3.0, -0.1]), Adam().start(2))[0].round(6).tolist()
    [1.0, -1.0]
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        _in_unit("beta1", self.beta1)
        _in_unit("beta2", self.beta2)
        _positive("epsilon", self.epsilon)

    def start(self, n_parameters: int) -> Memory:
        """m = v = 0, t = 0."""
        return {"m": np.zeros(n_parameters), "v": np.zeros(n_parameters), "t": np.zeros(1)}

    def direction(self, gradient: Array, memory: Memory) -> tuple[Array, Memory]:
        """d and what to remember, see `Optimizer`."""
        t = memory["t"] + 1
        m = self.beta1 * memory["m"] + (1 - self.beta1) * gradient
        v = self.beta2 * memory["v"] + (1 - self.beta2) * gradient * gradient
        root = np.sqrt(v / (1 - self.beta2**t)) + self.epsilon
        return m / (1 - self.beta1**t) / root, {"m": m, "v": v, "t": t}


def _in_unit(name: str, value: float) -> None:
    if not (isinstance(value, Real) and 0 <= value < 1):
        raise InputError(name, f"is {value!r}", "give a number in [0, 1)")


def _positive(name: str, value: float) -> None:
    if not (isinstance(value, Real) and 0 < value < np.inf):
        raise InputError(name, f"is {value!r}", "give a positive number")
