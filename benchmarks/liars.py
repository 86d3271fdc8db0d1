"""One and three liars of 20 clients on Adult: what they do to the others, and what stops them.

    python benchmarks/federated.py --only liars     training, for 80 rounds
    python benchmarks/federated.py --only solving   federated_solve

losses    a million for the loss of the first domain, whatever it is
updates   ten times the gradient, with the wrong sign
labels    all labels are flipped: a lie that agrees with itself
heavy     (solving) the same, and all sums are a hundred times what they are
rows      (solving) the same, and so is the number of rows that the liar says it has
The figures are the worst-domain loss of the honest clients' rows, in per cent above the certified
optimum of these rows. `federated_solve` names a client whose answers contradict each other; it is
then left out, and the rest is solved again: `named` has how many, `honest` how many of them did
not lie, and `gap` is the certificate's, which speaks of the rows as they were told.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

import anymix as ax
from anymix import datasets
from anymix.errors import InputError
from anymix.flower import (
    AgnosticStrategy,
    Judging,
    Limits,
    LocalGrid,
    Robust,
    Steps,
    client_app,
    federated_solve,
)
from anymix.flower.wire import SOLVE, WHO, Arrays, Settings, pack, unpack
from anymix.problem.part_sums import ABOUT
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
        reply, kind = self.app(message, context), message.metadata.message_type
        mine = int(context.node_config["partition-id"]) < self.liars
        if not mine or kind not in ("train", SOLVE, WHO) or reply.has_error():
            return reply
        arrays, settings = unpack(reply.content)
        if kind == WHO:
            arrays["counts"] = (100 if self.lie == "rows" else 1) * arrays["counts"]
            return Message(pack(arrays, settings), reply_to=message)
        changed = (self._training if kind == "train" else self._solving)(arrays, settings)
        return Message(pack(*changed), reply_to=message)

    def _training(self, arrays: Arrays, settings: Settings) -> tuple[Arrays, Settings]:
        sums = settings["sums"].copy()
        if self.lie == "losses":
            sums[0] = 1e6
        elif self.lie == "updates":
            arrays["update"] = -10 * arrays["update"]
        return arrays, {**settings, "sums": sums}

    def _solving(self, arrays: Arrays, settings: Settings) -> tuple[Arrays, Settings]:
        if self.lie == "losses" and "losses" in arrays:
            arrays["losses"][0] = 1e6
        elif self.lie == "updates" and "jacobian" in arrays:
            arrays["jacobian"] = -10 * arrays["jacobian"]
        elif self.lie in ("heavy", "rows"):
            arrays = {k: v if k in ABOUT else 100 * v for k, v in arrays.items()}
        return arrays, settings


class Adult:
    """The rows of Adult, dealt out to clients, of which the first few lie."""

    def __init__(self) -> None:
        data = datasets.load_adult(progress=False)
        self.X, self.y, self.domains = data.X, np.asarray(data.y), np.asarray(data.domains)
        order = np.random.default_rng(0).permutation(len(self.y))
        self.parts = np.array_split(order, N_CLIENTS)

    def grid(self, n_liars: int, lie: str) -> LocalGrid:
        """The clients."""
        names = np.unique(self.y)
        other = dict(zip(names, names[::-1], strict=True))

        def load(context: Context) -> tuple[Any, Any, Any]:
            i = int(context.node_config["partition-id"])
            rows = self.parts[i]
            own = self.y[rows]
            if lie in ("labels", "heavy", "rows") and i < n_liars:
                own = np.array([other[label] for label in own])
            return self.X[rows], own, self.domains[rows]

        return LocalGrid(Lying(client_app(load, classes=names), n_liars, lie), N_CLIENTS)

    def harm(self, n_liars: int) -> Callable[[Any], float]:
        """w -> how much worse it is for the honest rows than their optimum, in per cent."""
        rows = np.concatenate(self.parts[n_liars:])
        honest = ax.LinearDomains(self.X[rows], self.y[rows], self.domains[rows])
        best = ax.solve(honest, gamma=1e-4).domain_losses.max()
        return lambda w: float(100 * (honest.losses(w).max() / best - 1))


def liars() -> dict[str, Any]:
    data, found = Adult(), dict[str, Any]()

    def train(grid: LocalGrid, **options: Any) -> Any:
        strategy = AgnosticStrategy(
            steps=Steps(0.1, 0.3, optimizer=Adam(), optimistic=True),
            judging=Judging(output="last"),
            **options,
        )
        return strategy.start(grid, num_rounds=ROUNDS).w

    for n in (0, 1, 3):
        harm = data.harm(n)
        for lie in ("losses", "updates", "labels") if n else ("none",):
            found[f"{n} of {N_CLIENTS}, false {lie}"] = {
                name: harm(train(data.grid(n, lie), **options))
                for name, options in DEFENCES.items()
            }
    return found


def solving() -> dict[str, Any]:
    data, found = Adult(), dict[str, Any]()
    for n in (0, 1, 3):
        harm = data.harm(n)
        for lie in ("losses", "updates", "heavy", "labels", "rows") if n else ("none",):
            grid, named = data.grid(n, lie), list[int]()
            while True:
                try:
                    solution = federated_solve(grid, gamma=1e-4)
                    break
                except InputError as error:
                    named.append(int(re.findall(r"client '(\d+)'", str(error))[0]))
                    nodes = {c.node_config["partition-id"]: i for i, c in grid.contexts.items()}
                    grid.leave(nodes[named[-1]])
            found[f"{n} of {N_CLIENTS}, false {lie}"] = {
                "named": len(named),
                "honest": sum(i >= n for i in named),
                "harm": harm(solution.w),
                "gap": solution.certificate.gap,
            }
    return found
