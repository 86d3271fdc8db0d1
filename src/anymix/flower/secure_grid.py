"""A grid on which all clients are one, whose answers are their masked sums.

`AgnosticStrategy`, `federated_solve` and `federated_fit` run on it as on any grid: they see one
client that has the rows of all. Whatever they ask it becomes a masked sum over the clients
(`secure_sum`). Clients that do not answer are dealt with here, by the same `Patience` as
everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.flower.fold_questions import join_answers, split_answers
from anymix.flower.fold_questions import unpack as unpack_questions
from anymix.flower.members import Members, MissingClientsError
from anymix.flower.policy import Limits, Patience
from anymix.flower.post import exchange
from anymix.flower.results import Record
from anymix.flower.roster import Roster
from anymix.flower.secure_crowd import Crowd, Terms
from anymix.flower.wire import (
    EVALUATE,
    FIRST,
    FOLDS,
    MOMENTS,
    SOLVE,
    TRAIN,
    WHO,
    Arrays,
    Run,
    Settings,
    pack,
    unavailable,
    unpack,
)
from anymix.problem.part_sums import POWER, Sums

Array = NDArray[np.float64]

__all__ = ["SecureGrid", "cost", "left_out"]

NODE = 1  # the one node that there is
KEY = "all clients"


class SecureGrid(Grid):
    """The sums over the clients of a grid, as one client. See the top of this file.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where the clients are, each of them `secured`.
    secure : Terms
        How sums are made.
    patience : Patience
        What to do about clients that do not answer.
    limits : Limits
        What a client may claim; the clients themselves keep to those of losses and updates.
    domains : sequence of str, optional
        All domains; None takes those that the first clients have.
    timeout : float
        Seconds to wait for the answers of clients.
    solving : bool
        Whether the sums are for the exact solver, which takes no part for the whole.

    Attributes
    ----------
    crowd : Crowd
        The clients.
    sizes : ndarray of shape (p,)
        m_k, the rows of all clients when they were first counted.
    """

    def __init__(
        self,
        grid: Grid,
        secure: Terms,
        patience: Patience,
        limits: Limits,
        domains: Sequence[str] | None,
        timeout: float,
        *,
        solving: bool = False,
    ) -> None:
        self.grid, self.secure, self.limits, self.timeout = grid, secure, limits, timeout
        members = Members(grid, domains, limits, patience.introduction)
        self.crowd = Crowd(members, secure, patience, timeout, solving=solving)
        self.sizes = np.zeros(0)  # m_k, the rows of all clients when they were first counted
        self._replies: dict[str, Message] = {}
        self._ids = count(1)

    @property
    def grain(self) -> float:
        """What rounding may have done to each of the sums."""
        return self.crowd.form.grain(len(self.crowd.roster.members))

    @property
    def keys(self) -> tuple[str, ...]:
        """The clients of the last sum."""
        return tuple(self.crowd.roster.keys)

    @property
    def excluded(self) -> dict[str, str]:
        """The clients that are left out, and why."""
        return self.crowd.members.excluded

    @property
    def records(self) -> list[Record]:
        """What each sum was, and what it cost."""
        return self.crowd.records

    # -- what Flower's Grid asks for -----------------------------------------------------------

    def set_run(self, run: Run) -> None:
        """Set the run that messages belong to."""
        self.grid.set_run(run)

    @property
    def run(self) -> Run:
        """The run that messages belong to."""
        return self.grid.run

    def create_message(self, *args: Any, **options: Any) -> Message:
        """A message, not sent yet."""
        return self.grid.create_message(*args, **options)

    def get_node_ids(self) -> list[int]:
        """The one node."""
        return [NODE]

    def get_nodes(self) -> list[Any]:
        """None: it has no public key of its own."""
        return []

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Have every message answered by all clients together."""
        ids = []
        for message in messages:
            ids.append(f"sum-{next(self._ids)}")
            message.metadata.__dict__["_message_id"] = ids[-1]
            self._replies[ids[-1]] = self._answer(message)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies to these messages, each of which is given only once."""
        return [self._replies.pop(i) for i in message_ids if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send the messages and give the replies."""
        return self.pull_messages(self.push_messages(messages))

    # -- what the one client answers -----------------------------------------------------------

    def _answer(self, message: Message) -> Message:
        kind = message.metadata.message_type
        arrays, settings = unpack(message.content)
        answers = {
            WHO: self._who,
            FIRST: self._first,
            TRAIN: self._train,
            EVALUATE: self._evaluate,
            MOMENTS: self._moments,
            SOLVE: self._solve,
            FOLDS: self._folds,
        }
        if kind not in answers:
            fix = "run it without Secure: it looks at the answers of single clients"
            raise InputError(f"the question {kind!r}", "has no sum for an answer", fix)
        reply = answers[kind](arrays, settings)
        if reply is None:
            return unavailable(message)
        return Message(pack(*reply), reply_to=message)

    def _who(self, arrays: Arrays, settings: Settings) -> tuple[Arrays, Settings]:
        """All clients as one: their domains, the rows of all, and their model."""
        self.sizes = self.crowd.gather(settings)
        one, roster = self.crowd.roster.members[0], self.crowd.roster
        about = {
            "key": KEY,
            "domains": list(roster.domains),
            "n_parameters": one.n_parameters,
            "kind": one.kind,
            "n_scores": one.n_scores,
            "intercept": one.intercept,
        }
        return {"counts": self.sizes}, about

    def _first(self, arrays: Arrays, settings: Settings) -> tuple[Arrays, Settings]:
        """The first weights that any of the clients makes from the seed."""
        for member in self.crowd.roster.members:
            ask = Message(pack(arrays, settings), member.node_id, FIRST)
            reply = exchange(self.grid, [ask], self.timeout).get(member.node_id)
            if reply is not None and not reply.has_error():
                return unpack(reply.content)
        raise MissingClientsError("no client has given the first weights of its module")

    def _train(self, arrays: Arrays, settings: Settings) -> tuple[Arrays, Settings] | None:
        """Σ update, Σ losses and the rows, of all or of those who stand for all."""
        weights, by_domain = settings["weights"].reshape(2, -1), self.secure.by_domain
        limits = {"loss": self.limits.loss, "update": self.limits.update}
        own = {name: limit for name, limit in limits.items() if limit is not None}
        about = {"by_domain": by_domain, "limits": own | self.secure.limits}
        rest = {name: value for name, value in settings.items() if name != "weights"}

        def question(roster: Roster) -> Settings:
            if by_domain:
                return rest
            scale = _ratio(self.sizes, self.crowd.count(roster))
            return rest | {"weights": (weights * scale).ravel()}

        total = self.crowd.total(TRAIN, arrays, question, about)
        if total is None:
            return None
        (losses, counts), asked = total["sums"], np.any(weights != 0, axis=0)
        update = total["update"]
        if by_domain:
            a, b = weights * _ratio(self.sizes, counts)
            update, losses = a @ update, b * losses
        losses = np.maximum(losses, 0.0) if not self.secure.exact else losses
        return {"update": update}, {"sums": np.concatenate([losses, asked * self.sizes])}

    def _evaluate(self, arrays: Arrays, settings: Settings) -> tuple[Arrays, Settings] | None:
        total = self.crowd.total(EVALUATE, arrays, lambda roster: settings, {})
        return None if total is None else ({}, {"sums": total["sums"].ravel()})

    def _moments(self, arrays: Arrays, settings: Settings) -> tuple[Arrays, Settings] | None:
        total = self.crowd.total(MOMENTS, arrays, lambda roster: settings, {})
        return None if total is None else ({"moments": total["moments"]}, {})

    def _solve(self, arrays: Arrays, settings: Settings) -> tuple[Arrays, Settings] | None:
        total = self.crowd.total(SOLVE, arrays, lambda roster: settings, {})
        return None if total is None else (self._as_of_one(total), {})

    def _as_of_one(self, total: Sums) -> Sums:
        """Sums for the exact solver, as one client would have answered."""
        if "kind" in total:
            rows, scores, power = total["kind"]
            K = self.crowd.roster.members[0].n_scores
            n = scores / K  # the clients that have rows
            total["kind"] = np.array([rows, K, 2.0 ** round(power / n)])
        if "powers" in total:  # the sum of the norms is at least the norm of all
            total["powers"] = total["powers"] ** POWER
        return total

    def _folds(self, arrays: Arrays, settings: Settings) -> tuple[Arrays, Settings] | None:
        about, unit = settings["about"], 1.0
        if about == "errors":  # squares and fourth powers of small numbers: in units of their own
            unit = 2.0 ** -np.ceil(np.log2(np.max(arrays["scales"])))
            arrays = {**arrays, "scales": unit * arrays["scales"]}
        total = self.crowd.total(FOLDS, arrays, lambda roster: settings, {})
        if total is None:
            return None
        if about == "errors":
            total["errors"] = total["errors"] / np.array([unit**2, unit**4])
        if about == "sums":
            found = split_answers(total["sums"], unpack_questions(arrays, settings))
            total["sums"] = join_answers([self._as_of_one(sums) for sums in found])
        return total, {}


def cost(grid: Grid, epsilon: float | None) -> Record:
    """What a round adds to its record: the price in privacy, and who is behind a masked sum."""
    record: Record = {} if epsilon is None else {"epsilon": epsilon}
    if isinstance(grid, SecureGrid) and grid.records:
        last = grid.records[-1]
        record |= {name: last[name] for name in ("clients", "missing")}
        record |= {"asked": last["clients"], "attempts": last["attempts"]}
        record |= {"bytes_sent": last["sent"], "bytes_received": last["received"]}
    return record


def left_out(grid: Grid) -> dict[str, str]:
    """The clients behind a masked sum that are left out, and why; none where answers are seen."""
    return grid.excluded if isinstance(grid, SecureGrid) else {}


def _ratio(whole: Array, part: Array) -> Array:
    """By how much those who answered stand for others; 0 where there are none."""
    return np.divide(whole, part, out=np.zeros_like(whole), where=part > 0)
