"""Tables for the exact solver, at one place or spread over clients."""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import Context, Message
from numpy.typing import NDArray

from anymix.flower import LocalGrid, client_app
from anymix.flower.client_parts import Clients
from anymix.flower.wire import SOLVE, unpack
from anymix.problem.losses import CrossEntropy, Huber, SquaredError
from anymix.problem.parts import Parts

Array = NDArray[np.float64]
Table = tuple[Array, Any, Any]

LOSSES = {
    "binary": CrossEntropy(),
    "three": CrossEntropy(),
    "squared": SquaredError(),
    "huber": Huber(0.5),
}


def table(name: str = "binary", n: int = 90, p: int = 3) -> Table:
    rng = np.random.default_rng(5)
    X, domains = rng.normal(size=(n, 3)), np.arange(n) % p
    y: Any = X[:, 0] * (1 + 0.5 * domains) + rng.logistic(size=n)
    if name == "binary":
        y = np.where(y > 0, "yes", "no")
    elif name == "three":
        y = np.digitize(y, [-1.0, 1.0])
    return X, y, np.array(["c", "a", "b"])[domains]


def grid_of(
    rows: Table, place: Any, loss: Any = None, kind: type[LocalGrid] = LocalGrid, seed: int = 0
) -> Any:
    """Row i lives at client place[i]."""
    X, y, domains = rows

    def load(context: Context) -> Table:
        mine = place == context.node_config["partition-id"]
        return X[mine], y[mine], domains[mine]

    classes = np.unique(y) if isinstance(loss, CrossEntropy | None) else None
    app = client_app(load, loss=loss, classes=classes)
    return kind(app, nodes=int(np.max(place)) + 1, seed=seed)


def spread(rows: Table, how: str) -> NDArray[np.int64]:
    n = len(rows[1])
    match how:
        case "a client is a domain":
            return np.unique(rows[2], return_inverse=True)[1]
        case "a domain is many clients":
            return np.unique(rows[2], return_inverse=True)[1] + 3 * (np.arange(n) % 2)
        case "a client holds several domains":
            return np.arange(n) % 7
        case _:
            return np.zeros(n, dtype=np.int64)


def parts_of(grid: LocalGrid, mixture: Any) -> tuple[Parts, Clients]:
    clients = Clients(grid)
    return clients.problem(np.asarray(mixture)), clients


class Spy(LocalGrid):
    """Keeps the arrays of every message and its reply."""

    def __init__(self, *a: Any, **k: Any) -> None:
        super().__init__(*a, **k)
        self.heard: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def _answer(self, message: Message, context: Context) -> Message:
        reply = super()._answer(message, context)
        if message.metadata.message_type == SOLVE:
            self.heard.append((unpack(message.content)[0], unpack(reply.content)[0]))
        return reply
