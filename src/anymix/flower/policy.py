"""How a run treats its clients: patience with those that are slow, limits for those that lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError, finite_number
from anymix.flower.aggregation import Contribution

Array = NDArray[np.float64]

__all__ = ["Limits", "Patience", "count"]


def count(argument: str, value: Any) -> int:
    """A whole number, at least 1; otherwise an InputError."""
    if not (isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1):
        raise InputError(argument, f"is {value!r}", "give a whole number ≥ 1")
    return int(value)


@dataclass(frozen=True)
class Patience:
    """What to do about clients that do not answer. No loss is ever made up.

    Parameters
    ----------
    on_missing : {"wait", "skip", "stop"}
        When clients do not answer, or a domain has nobody: "wait" asks them again until the
        deadline and then stops, "skip" makes no step in this round, "stop" raises
        MissingClientsError.
    deadline : float
        Seconds that "wait" waits in a round, and that the first round waits for clients.
    min_clients : int
        The first round waits for so many: nodes take their time to register.
    max_failures : int
        A client that fails so many rounds in a row is left out from then on. One that sends
        nonsense (NaN, wrong shapes, other counts) is left out at once.

    Examples
    --------
    >>> Patience(on_missing="skip", min_clients=10)
    Patience(on_missing='skip', deadline=3600.0, min_clients=10, max_failures=3)
    """

    on_missing: Literal["wait", "skip", "stop"] = "wait"
    deadline: float = 3600.0
    min_clients: int = 1
    max_failures: int = 3

    def __post_init__(self) -> None:
        if self.on_missing not in ("wait", "skip", "stop"):
            raise InputError(
                "on_missing", f"is {self.on_missing!r}", "give 'wait', 'skip' or 'stop'"
            )
        finite_number("deadline", self.deadline, "give seconds ≥ 0", lambda s: s >= 0)
        count("min_clients", self.min_clients)
        count("max_failures", self.max_failures)


@dataclass(frozen=True)
class Limits:
    """What a client may claim at most; None is no limit. Give them wherever a client may lie.

    Parameters
    ----------
    loss : float, optional
        M; a client's mean loss of a domain is cut to 0..M. One that reports a huge loss owns λ
        otherwise. The loss of guessing is a good M, log 2 for two classes: on Adult, one liar among
        20 then makes the worst domain of the others 1.6 % worse, 5 % with M = 1, 17 % with M = 2,
        and 123 % without. It cuts honest losses too.
    update : float, optional
        G; a client's update is shortened to G times its mass (and local steps). It limits what a
        false update does, but does not undo it.
    rows : float, optional
        A client that claims more rows is left out: a false count would own its domain.

    Examples
    --------
    >>> Limits(loss=0.7)
    Limits(loss=0.7, update=None, rows=None)
    """

    loss: float | None = None
    update: float | None = None
    rows: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                fix = "give a positive number, or None"
                finite_number(name, value, fix, lambda limit: limit > 0)

    def cut(self, given: Contribution, A: Array, B: Array, local_steps: int) -> Contribution:
        """The contribution of a client with the masses A and B (p,), within the limits.

        The same object where nothing had to be cut.
        """
        update, losses = given.update, given.losses
        if self.loss is not None:
            losses = np.clip(losses, 0.0, self.loss * B)
        if self.update is not None:
            update = shortened(update, self.update * float(A.sum()) * local_steps)
        changed = update is not given.update or not np.array_equal(losses, given.losses)
        return Contribution(update, losses) if changed else given


def shortened(v: Array, length: float) -> Array:
    """v, or the vector of this length in its direction where v is longer."""
    norm = float(np.linalg.norm(v))
    return v if norm <= length else v * (length / norm)
