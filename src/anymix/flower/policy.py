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
        When clients do not answer, have left, or a domain has nobody: "wait" waits for them and
        asks them again until the deadline, and then stops; "stop" stops at once, with a
        MissingClientsError; "skip" makes no step in this round, and goes on without who has left.
    deadline : float
        Seconds that "wait" waits in a round, and that the first round waits for clients.
    min_clients : int
        The first round waits for so many: nodes take their time to register.
    max_failures : int
        A client that fails so many times in a row, in one round or in several, is left out from
        then on. One that sends nonsense (NaN, wrong shapes, other counts) is left out at once.
    introduction : float
        Seconds that new clients get to load their rows and say who they are, before the run goes
        on without them. A later answer is taken when it comes.
    grace : float
        Seconds that a round still waits after enough answers have come (`Sum(min_share=0.9)`):
        whoever is later than that is left behind in this round.

    Examples
    --------
    >>> Patience(on_missing="skip", min_clients=10).max_failures
    3
    """

    on_missing: Literal["wait", "skip", "stop"] = "wait"
    deadline: float = 3600.0
    min_clients: int = 1
    max_failures: int = 3
    introduction: float = 30.0
    grace: float = 1.0

    def __post_init__(self) -> None:
        if self.on_missing not in ("wait", "skip", "stop"):
            raise InputError(
                "on_missing", f"is {self.on_missing!r}", "give 'wait', 'skip' or 'stop'"
            )
        for name in ("deadline", "introduction", "grace"):
            finite_number(name, getattr(self, name), "give seconds ≥ 0", lambda s: s >= 0)
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
    domains : int, optional
        A client that names more domains is left out, unless the server names them itself
        (`domains=` of the strategy): each new domain takes λ from the others.
    clients_per_domain : int
        So many clients must have rows of a domain; who has rows of another one is left out. 1
        trusts every client to know its domains; 2 keeps one liar from making any.
    authenticated : bool
        Whether a key belongs for good to the public key of the node that used it first. For a
        SuperLink with --enable-supernode-auth, where a node keeps its public key; elsewhere each
        start of a node makes a new one, and a client could not come back.

    Examples
    --------
    >>> Limits(loss=0.7).domains
    100
    """

    loss: float | None = None
    update: float | None = None
    rows: float | None = None
    domains: int | None = 100
    clients_per_domain: int = 1
    authenticated: bool = False

    def __post_init__(self) -> None:
        for name in ("loss", "update", "rows", "domains"):
            if getattr(self, name) is not None:
                fix = "give a positive number, or None"
                finite_number(name, getattr(self, name), fix, lambda limit: limit > 0)
        count("clients_per_domain", self.clients_per_domain)

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
