"""Rows for the tests, spread over clients in several ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

import anymix as ax
from anymix.flower import LocalGrid, client_app
from anymix.flower.roster import Holdings
from anymix.flower.wire import pack, unpack


def table(n: int = 90, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows of three domains of different sizes and slopes."""
    rng = np.random.default_rng(seed)
    domains = rng.choice(["chat", "mail", "web"], n, p=[0.5, 0.3, 0.2])
    domains[:3] = ["chat", "mail", "web"]
    X = rng.normal(size=(n, 2))
    slope = np.where(domains == "chat", 1.0, np.where(domains == "mail", -1.0, 0.3))
    y = (slope * X[:, 0] + 0.5 * X[:, 1] + rng.logistic(size=n) > 0).astype(int)
    return X, y, domains


def spread(
    how: str, domains: NDArray[Any], n_clients: int = 5, seed: int = 1
) -> list[NDArray[np.intp]]:
    """The rows of every client, who holds a domain, a part of one, or rows of any ("mixed")."""
    rng = np.random.default_rng(seed)
    names = np.unique(domains)
    if how == "domain":
        owner = np.searchsorted(names, domains)
    elif how == "parts":
        owner = 2 * np.searchsorted(names, domains) + rng.integers(0, 2, len(domains))
    else:
        owner = rng.integers(0, n_clients, len(domains))
    return [rows for i in range(owner.max() + 1) if len(rows := np.flatnonzero(owner == i))]


def app_of(
    X: NDArray[Any], y: NDArray[Any], domains: Any, parts: list[NDArray[np.intp]], **options: Any
) -> ClientApp:
    def load(context: Context) -> tuple[Any, Any, Any]:
        rows = parts[int(context.node_config["partition-id"])]
        return X[rows], y[rows], domains[rows]

    if not isinstance(options.get("loss"), ax.SquaredError | ax.Huber) and "model" not in options:
        options.setdefault("classes", np.unique(y))
    return client_app(load, **options)


def grid_of(how: str = "mixed", n: int = 90, seed: int = 0, **options: Any) -> LocalGrid:
    X, y, domains = table(n)
    parts = spread(how, domains)
    return LocalGrid(app_of(X, y, domains, parts, **options), len(parts), seed=seed)


class FaultyGrid(LocalGrid):
    """A grid on which replies to "train" get lost: `lost` has (partition id, round), each once."""

    def __init__(self, app: ClientApp, nodes: int, lost: set[tuple[int, int]], **options: Any):
        super().__init__(app, nodes, **options)
        self.lost = set(lost)

    def _push(self, message: Message) -> str:
        message_id = super()._push(message)
        context = self.contexts.get(message.metadata.dst_node_id)
        if message.metadata.message_type == "train" and context is not None:
            place = (int(context.node_config["partition-id"]), int(message.metadata.group_id))
            if place in self.lost:
                self.lost.discard(place)
                del self._replies[message_id]
        return message_id


class Tampered(ClientApp):
    """An app in which one client's replies to "train" are changed."""

    def __init__(
        self,
        app: ClientApp,
        liar: int,
        change: Callable[[dict[str, Any], dict[str, Any]], None],
        kind: str = "train",
    ) -> None:
        super().__init__()
        self.app, self.liar, self.change, self.kind = app, liar, change, kind

    def __call__(self, message: Message, context: Context) -> Message:
        reply = self.app(message, context)
        mine = int(context.node_config["partition-id"]) == self.liar
        if mine and message.metadata.message_type == self.kind:
            arrays, settings = unpack(reply.content)
            settings = {k: v.copy() if hasattr(v, "copy") else v for k, v in settings.items()}
            self.change(arrays, settings)
            return Message(pack(arrays, settings), reply_to=message)
        return reply


def holdings_of(counts: NDArray[Any]) -> Holdings:
    """Who has how many rows of what, from a table (clients, p)."""
    clients, domains = np.nonzero(counts)
    n_clients, p = counts.shape
    return Holdings(clients, domains, counts[clients, domains], (n_clients, p))
