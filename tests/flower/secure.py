"""Secured clients for the tests, faults of theirs, and a spy on what the server receives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flower.clients import app_of, spread, table
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from anymix.flower import LocalGrid, secured
from anymix.flower.wire import pack, unpack

Change = Callable[[dict[str, Any], dict[str, Any]], None]


class Lossy(LocalGrid):
    """Loses the first replies of some clients: `lost` has how many, by partition id and kind.

    `heard` has the kind, the partition id and the arrays of all other replies.
    """

    def __init__(self, *args: Any, lost: dict[tuple[int, str], int] | None = None, **options: Any):
        super().__init__(*args, **options)
        self.lost = dict(lost or {})
        self.heard: list[tuple[str, int, dict[str, Any]]] = []

    def _push(self, message: Message) -> str:
        context = self.contexts.get(message.metadata.dst_node_id)
        message_id = super()._push(message)
        if context is None:
            return message_id
        place = (int(context.node_config["partition-id"]), message.metadata.message_type)
        if self.lost.get(place, 0) > 0:
            self.lost[place] -= 1
            del self._replies[message_id]
            return message_id
        reply = self._replies[message_id]
        if not reply.has_error():
            self.heard.append((place[1], place[0], unpack(reply.content)[0]))
        return message_id


class Changed(ClientApp):
    """An app in which the replies of one client to one kind of message are changed."""

    def __init__(self, app: ClientApp, liar: int, kind: str, change: Change) -> None:
        super().__init__()
        self.app, self.liar, self.kind, self.change = app, liar, kind, change

    def __call__(self, message: Message, context: Context) -> Message:
        reply = self.app(message, context)
        mine = int(context.node_config["partition-id"]) == self.liar
        if mine and message.metadata.message_type == self.kind:
            arrays, settings = unpack(reply.content)
            self.change(arrays, settings)
            return Message(pack(arrays, settings), reply_to=message)
        return reply


def secure_grid(
    n: int = 90, n_clients: int = 5, lost: dict[tuple[int, str], int] | None = None, **options: Any
) -> Lossy:
    """Clients that hold rows of any domain, `options` are those of `secured`."""
    X, y, domains = table(n)
    parts = spread("mixed", domains, n_clients)
    return Lossy(secured(app_of(X, y, domains, parts), **options), len(parts), lost=lost)


def plain_grid(n: int = 90, n_clients: int = 5) -> LocalGrid:
    """The same clients, not secured."""
    X, y, domains = table(n)
    parts = spread("mixed", domains, n_clients)
    return LocalGrid(app_of(X, y, domains, parts), len(parts))


def words(arrays: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The masked numbers of a reply."""
    found: np.ndarray[Any, Any] = arrays["y"].ravel()
    return found
