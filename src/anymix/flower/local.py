"""A Flower grid in one process: for simulations, tests and the first look at a federation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from anymix.flower.wire import Run, failure, give_identity, through_the_wire

__all__ = ["LocalGrid"]

_run_ids = count(1)  # two grids are two runs: what a client keeps of one is not of the other


class LocalGrid(Grid):
    """Clients in this process, answering one after the other.

    Every message is serialised and read again on its way there and back, so that no array is
    shared: what works here works over a network.

    Parameters
    ----------
    app : flwr.clientapp.ClientApp
        The clients' app, for example of `client_app`.
    nodes : int or sequence of dict
        How many clients, or the node config of each. Given a number, client i gets the config of
        Flower's simulation, {"partition-id": i, "num-partitions": nodes}.
    run_config : dict, optional
        The run config that every client sees.
    seed : int
        Of the node ids, which are random as everywhere in Flower.

    Attributes
    ----------
    bytes : int
        What went over the wire so far.
    contexts : dict of int to Context
        The clients that are there, by node id; `join` and `leave` change them during a run.

    Examples
    --------
    >>> import anymix as ax
    >>> from anymix.flower import AgnosticStrategy, Steps, client_app
    >>> def load(context):
    ...     here = context.node_config["partition-id"]
    ...     return [[0.0], [0.0]], [1, here], ["east", "west"]
    >>> grid = LocalGrid(client_app(load, classes=[0, 1]), nodes=2)
    >>> strategy = AgnosticStrategy(ax.Simplex(2), steps=Steps(0.5, 0.5))
    >>> result = strategy.start(grid, num_rounds=200)
    >>> result.history[-1]["agnostic_loss"]
    0.693...
    """

    def __init__(
        self,
        app: ClientApp,
        nodes: int | Sequence[Mapping[str, Any]],
        *,
        run_config: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        give_identity()
        self.app, self.bytes = app, 0
        self._run = Run.create_empty(run_id=next(_run_ids))
        self._run_config = dict(run_config or {})
        self._rng = np.random.default_rng(seed)
        self._replies: dict[str, Message] = {}
        self._n_messages = 0
        self.contexts: dict[int, Context] = {}
        if isinstance(nodes, int):
            nodes = [{"partition-id": i, "num-partitions": nodes} for i in range(nodes)]
        for config in nodes:
            self.join(config)

    def join(self, config: Mapping[str, Any]) -> int:
        """A new client with this node config; returns its node id."""
        node_id = int(self._rng.integers(1, 2**62))
        self.contexts[node_id] = Context(
            self._run.run_id, node_id, dict(config), RecordDict(), dict(self._run_config)
        )
        return node_id

    def leave(self, node_id: int) -> None:
        """Take a client off the grid; it does not come back under this node id."""
        del self.contexts[node_id]

    # -- what Flower's Grid asks for -----------------------------------------------------------

    def set_run(self, run: Run) -> None:
        """Set the run that messages belong to from now on."""
        self._run = run

    @property
    def run(self) -> Run:
        """The run that messages belong to."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """A message with this content, not sent yet."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        """The node ids of the clients that are there."""
        return sorted(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Have every message answered; one to a client that is gone is not."""
        return [self._push(message) for message in messages]

    def _push(self, message: Message) -> str:
        self._n_messages += 1
        message_id = f"message-{self._n_messages}"
        message.metadata.__dict__["_message_id"] = message_id  # as the SuperLink does
        arrived, size = through_the_wire(message)
        self.bytes += size
        context = self.contexts.get(message.metadata.dst_node_id)
        if context is not None:
            reply, size = through_the_wire(self._answer(arrived, context))
            self.bytes += size
            self._replies[message_id] = reply
        return message_id

    def _answer(self, message: Message, context: Context) -> Message:
        try:
            return self.app(message, context)
        except Exception as error:  # as Flower's engines do; `client_app` lets none come so far
            return failure(f"{type(error).__name__}: {error}", message)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies to these messages, each of which is given only once."""
        return [self._replies.pop(i) for i in message_ids if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send the messages and give the replies, which are all there at once: no need to wait."""
        return self.pull_messages(self.push_messages(messages))
