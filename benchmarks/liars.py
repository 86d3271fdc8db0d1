"""One and three liars of 20 clients on Adult: what they do to the others, and what stops them.

    python benchmarks/federated.py --only liars

losses    a million for the loss of the first domain, whatever it is
updates   ten times the gradient, with the wrong sign
labels    all labels are flipped: a lie that is consistent, and the only one that `federated_solve`
          can be told
The figures are the worst-domain loss of the honest clients' rows, in per cent above the certified
optimum of these rows, after 80 rounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

import anymix as ax
from anymix import datasets
from anymix.flower import (
    AgnosticStrategy,
    Limits,
    LocalGrid,
    Robust,
    client_app,
    federated_solve,
)
from anymix.flower.wire import pack, unpack
from anymix.solvers.optimizers import Adam

N_CLIENTS, ROUNDS = 20, 80
CLIPS = Limits(loss=float(np.log(2)), update=0.3)
DEFENCES: dict[str, dict[str, Any]] = {
    "sum": {},
    "clipped": {"limits": CLIPS},
    "trimmed": {"aggregation": Robust("trimmed")},
    "geometric": {"aggregation": Robust("geometric")},
}


class Lying(ClientApp):
    """The app of all clients, of which the first few change what they send."""

    def __init__(self, app: ClientApp, liars: int, lie: str) -> None:
        super().__init__()
        self.app, self.liars, self.lie = app, liars, lie

    def __call__(self, message: Message, context: Context) -> Message:
        """The answer, or what a liar makes of it."""
        reply = self.app(message, context)
        mine = int(context.node_config["partition-id"]) < self.liars
        if not mine or message.metadata.message_type != "train":
            return reply
        arrays, settings = unpack(reply.content)
        sums = settings["sums"].copy()
        if self.lie == "losses":
            sums[0] = 1e6
        elif self.lie == "updates":
            arrays["update"] = -10 * arrays["update"]
        return Message(pack(arrays, {**settings, "sums": sums}), reply_to=message)


def liars() -> dict[str, Any]:
    data = datasets.load_adult(progress=False)
    X, y, domains = data.X, np.asarray(data.y), np.asarray(data.domains)
    parts = np.array_split(np.random.default_rng(0).permutation(len(y)), N_CLIENTS)
    other = dict(zip(np.unique(y), np.unique(y)[::-1], strict=True))

    def grid_of(n_liars: int, lie: str) -> LocalGrid:
        """The clients, of which the first few lie."""

        def load(context: Context) -> tuple[Any, Any, Any]:
            i = int(context.node_config["partition-id"])
            rows = parts[i]
            flip = lie == "labels" and i < n_liars
            own = np.array([other[label] for label in y[rows]]) if flip else y[rows]
            return X[rows], own, domains[rows]

        app = client_app(load, classes=np.unique(y))
        return LocalGrid(Lying(app, n_liars, lie), N_CLIENTS)

    def train(grid: LocalGrid, **options: Any) -> Any:
        strategy = AgnosticStrategy(
            step_w=0.1,
            step_mixture=0.3,
            server_optimizer=Adam(),
            optimistic=True,
            output="last",
            **options,
        )
        return strategy.start(grid, num_rounds=ROUNDS).w

    found: dict[str, Any] = {}
    for n in (0, 1, 3):
        honest = np.concatenate(parts[n:])
        whole = ax.LinearDomains(X[honest], y[honest], domains[honest])
        best = ax.solve(whole, gamma=1e-4).domain_losses.max()
        for lie in ("losses", "updates", "labels") if n else ("none",):
            row = {}
            for name, options in DEFENCES.items():
                worst = whole.losses(train(grid_of(n, lie), **options)).max()
                row[name] = 100 * (worst / best - 1)
            row["solved"] = float("nan")
            if lie in ("labels", "none"):
                w = federated_solve(grid_of(n, lie), gamma=1e-4).w
                row["solved"] = 100 * (whole.losses(w).max() / best - 1)
            found[f"{n} of {N_CLIENTS}, false {lie}"] = row
    return found
