"""What the server does with the answers of a round: wait for them, cut them to limits, add them up.

    δ_w = Σ_c update_c,   δ_λ = Σ_c losses_c

`Sum` adds; `privacy.Privacy` adds clipping and noise, and `robust.Robust` takes the middle of the
answers instead of their sum. `Patience` is for clients that are slow, `Limits` for those that lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError, finite_number

Array = NDArray[np.float64]
Here = NDArray[np.bool_]

__all__ = ["Aggregation", "Contribution", "Limits", "Patience", "Sum", "count", "rebalance"]


@dataclass(frozen=True)
class Contribution:
    """What one client adds to the sums."""

    update: Array  # (D,), Σ_k A_k times the mean gradient of its rows of k; (2D,) with epochs
    losses: Array  # (p,), B_k times their mean loss, 0 where not asked


class Aggregation(Protocol):
    """From the contributions of a round to δ_w and δ_λ."""

    # A and B, (clients, p), are the masses asked for: rows times their weights in δ_w and in δ_λ.
    # `given` is by the row in them; the order of replies must not matter.

    @property
    def exact(self) -> bool:
        """Whether the sums are those of the rows, without noise, and of all who answer."""
        ...

    def enough(self, A: Array, B: Array, here: Here) -> bool:
        """Whether it takes no more than the clients that are here, (clients,)."""
        ...

    def add_up(
        self, given: Mapping[int, Contribution], A: Array, B: Array, step: int
    ) -> tuple[Array, Array] | None:
        """(δ_w, δ_λ) of step number `step`, or None where too little is given."""
        ...

    def price(self, steps: int) -> float | None:
        """ε of so many steps, None without a promise of privacy."""
        ...

    def spent(self, steps: int) -> float | None:
        """The same for the record of a round, found in no time."""
        ...


@dataclass(frozen=True)
class Sum:
    """The sums of all that were asked, or of enough of them.

    Parameters
    ----------
    min_share : float
        The least part of every domain's rows that must answer. Below 1, the clients of a domain
        that did answer stand for the lost ones, and the mixture stays as it is.

    Examples
    --------
    >>> A = np.array([[0.5, 0.0], [0.0, 0.5]])
    >>> given = {0: Contribution(np.ones(1), np.array([0.3, 0.0]))}
    >>> Sum().add_up(given, A, 2 * A, step=1) is None
    True
    >>> given[1] = Contribution(np.ones(1), np.array([0.0, 0.4]))
    >>> Sum().add_up(given, A, 2 * A, step=1)
    (array([2.]), array([0.3, 0.4]))
    """

    min_share: float = 1.0
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        fix = "give a number in (0, 1]"
        finite_number("min_share", self.min_share, fix, lambda share: 0 < share <= 1)

    def enough(self, A: Array, B: Array, here: Here) -> bool:
        """Whether at least min_share of the mass asked for, of every domain, is here."""
        masses = np.stack([A, B])  # (2, clients, p)
        whole, part = masses.sum(axis=1), masses[:, here].sum(axis=1)
        least = self.min_share * whole * (1 - 1e-12)
        return bool(np.all(part >= least) and np.all((part > 0) == (whole > 0)))

    def add_up(
        self, given: Mapping[int, Contribution], A: Array, B: Array, step: int
    ) -> tuple[Array, Array] | None:
        """The sums over all that were asked, or None if too few of them answered."""
        rows = sorted(given)
        if not rows:
            return None
        updates = np.array([given[i].update for i in rows])
        losses = np.array([given[i].losses for i in rows])
        asked = np.flatnonzero(((A > 0) | (B > 0)).any(axis=1))
        if rows == asked.tolist():
            return updates.sum(axis=0), losses.sum(axis=0)
        here = np.isin(np.arange(len(A)), rows)
        f = rebalance(A, here) if self.enough(A, B, here) else None
        if f is None:
            return None
        whole, part = B.sum(axis=0), B[here].sum(axis=0)
        scale = np.divide(whole, part, out=np.ones_like(part), where=part > 0)
        return f @ updates, losses.sum(axis=0) * scale

    def price(self, steps: int) -> float | None:
        """None: a sum promises no privacy."""
        return None

    def spent(self, steps: int) -> float | None:
        """None: a sum promises no privacy."""
        return None


def rebalance(A: Array, here: Here) -> Array | None:
    """Factors f of those that answered with Σ_c f_c A_ck = the mass asked for, or None."""
    # The nearest to 1 in Σ_c |A_c| (f_c − 1)²; of clients of one domain, the mass asked for over
    # the mass that answered. So a lost client makes its domain noisier, not lighter.
    target, rest = A.sum(axis=0), A[here]
    mass = rest.sum(axis=1)
    D = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)
    lack = target - rest.sum(axis=0)
    shift = np.linalg.pinv((rest.T * D) @ rest, hermitian=True) @ lack
    f: Array = 1 + D * (rest @ shift)
    exact = np.allclose(f @ rest, target, rtol=1e-9, atol=1e-12)
    return f if exact and np.all(f >= 0) else None


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
        G; a client's update is shortened to G times its mass. It limits what a false update does,
        but does not undo it.
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

    def cut(self, given: Contribution, A: Array, B: Array, vectors: int = 1) -> Contribution:
        """The contribution of a client with the masses A and B (p,), within the limits.

        The same object where nothing had to be cut. `vectors` is how many the update is made of.
        """
        update, losses = given.update, given.losses
        if self.loss is not None:
            losses = np.clip(losses, 0.0, self.loss * B)
        if self.update is not None:
            parts = np.split(update, vectors)
            update = np.concatenate([shortened(v, self.update * float(A.sum())) for v in parts])
        same = np.array_equal(update, given.update) and np.array_equal(losses, given.losses)
        return given if same else Contribution(update, losses)


def shortened(v: Array, length: float) -> Array:
    """v, or the vector of this length in its direction where v is longer."""
    norm = float(np.linalg.norm(v))
    return v if norm <= length else v * (length / norm)
