"""The client's side: it keeps its rows and answers with sums over them.

A client with the rows i, each a part S_ik of domain k, is sent w and row weights a, b. It returns

    update    Σ_i Σ_k a_k S_ik ∇ℓ_i(w)     with a_k = λ_k/m_k, its part of ∇_w Σ_k λ_k L_k(w)
    losses_k  b_k Σ_i S_ik ℓ_i(w)          with b_k = 1/m_k, its part of L_k(w)
    counts_k  Σ_i S_ik                     where a_k or b_k is not 0

so the server only has to add, whether a client is a domain, a part of one, or holds several.
Sampled batches put other rows S' with E S' = S in the place of S; local steps add up the updates on
the way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from numpy.typing import ArrayLike, NDArray

from anymix.flower.wire import Arrays, Settings, pack, unpack
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import SquaredError
from anymix.solvers.samplers import DomainRows

if TYPE_CHECKING:
    import torch

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Load = Callable[[Context], tuple[Any, Any, Any]]

__all__ = ["client_app", "node_key"]


def node_key(context: Context) -> str:
    """The name by which a client is known in every run: "key" or "partition-id" of its config.

    Node ids are random; partition ids are given by Flower's simulation, keys by whoever starts a
    SuperNode (--node-config 'key="hospital-7"').
    """
    config = context.node_config
    for name in ("key", "partition-id"):
        if name in config:
            return str(config[name])
    raise ValueError(
        f"the node config is {dict(config)}; it needs a 'key' (or a 'partition-id') that stays the "
        "same in every run: start the client with --node-config 'key=\"…\"'"
    )


def client_app(
    load: Load,
    model: Callable[[], torch.nn.Module] | None = None,
    loss: Any = None,
    *,
    intercept: bool = True,
    classes: ArrayLike | None = None,
    key: Callable[[Context], str] = node_key,
    keep: bool = True,
) -> ClientApp:
    """The Flower app of clients that learn a linear model or a PyTorch module.

    Parameters
    ----------
    load : load(context) gives (X, y, domains) of this client: rows, targets, and the domain of
        each row, or a table of memberships, as in `LinearDomains`.
    model : None is the linear model of `LinearDomains`; else a function that makes the module.
    loss : of the linear model, a loss of anymix (CrossEntropy by default); of a module, a function
        (output, y) -> losses of every row, by default torch's CrossEntropyLoss(reduction="none").
    intercept, classes : of the linear model. Name the classes when a client may lack one.
    key : key(context) names the client, the same in every run.
    keep : load once and keep the rows in memory, not once a message.

    >>> def load(context):
    ...     return [[0.0], [1.0]], ["no", "yes"], ["web", "mail"]
    >>> app = client_app(load)
    """
    app, loaded = ClientApp(), dict[tuple[int, int], ClientRows]()

    def rows_of(context: Context) -> ClientRows:
        place = (context.run_id, context.node_id)
        if place in loaded:
            return loaded[place]
        X, y, domains = load(context)
        rows: ClientRows
        if model is None:
            rows = LinearRows(
                LinearDomains(X, y, domains, loss, intercept=intercept, classes=classes)
            )
        else:
            from anymix.flower.torch_rows import ModuleRows

            rows = ModuleRows(model(), loss, X, y, domains)
        if keep:
            loaded[place] = rows
        return rows

    @app.query()
    def who(message: Message, context: Context) -> Message:
        arrays, settings = introduce(rows_of(context), key(context))
        return Message(pack(arrays, settings), reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays, settings = unpack(message.content)
        w = np.concatenate([array.ravel() for array in arrays.values()])
        reply = answer(rows_of(context), key(context), w, settings)
        return Message(pack(*reply), reply_to=message)

    @app.query("solve")
    def solve(message: Message, context: Context) -> Message:
        from anymix.flower import sums

        rows = rows_of(context)
        if not isinstance(rows, LinearRows):
            raise ValueError("federated_solve is for the linear model; train this one instead")
        arrays, settings = unpack(message.content)
        return Message(pack(sums.answer(rows.problem, arrays, settings), {}), reply_to=message)

    return app


@dataclass(frozen=True)
class Parts:
    """S as its entries: row `rows[e]` counts `shares[e]` in domain `domains[e]`."""

    domains: Indices
    rows: Indices
    shares: Array

    def row_weights(self, a: Array, n: int) -> Array:
        """c_i = Σ_k a_k S_ik, (n,)."""
        weights = self.shares * a[self.domains]
        return np.bincount(self.rows, weights=weights, minlength=n).astype(np.float64)

    def sums(self, values: Array, p: int) -> Array:
        """Σ_i S_ik v_i, (p,)."""
        weights = self.shares * values[self.rows]
        return np.bincount(self.domains, weights=weights, minlength=p).astype(np.float64)


class DomainTable:
    """Which rows belong to which domain, and the sums m_k of that."""

    def __init__(self, problem: LinearDomains) -> None:
        self.names = [str(name) for name in problem.domain_names.tolist()]
        self.sizes = problem.sizes
        entries = problem.average.tocoo()
        domains, rows = entries.coords
        self.all_parts = Parts(domains, rows, entries.data * self.sizes[domains])
        self._rows = DomainRows(problem)

    @staticmethod
    def of(n: int, domains: Any) -> DomainTable:
        """Without a linear model."""
        return DomainTable(LinearDomains(np.empty((n, 0)), np.zeros(n), domains, SquaredError()))

    def draw(
        self, asked: NDArray[np.bool_], batch_size: int, seed: list[int]
    ) -> tuple[Indices | None, Parts]:
        """Rows to look at, None for all, and their S: batch_size of every domain asked for.

        A drawn row of domain k stands for m_k / batch_size of its rows; batch_size 0 is all rows.
        """
        if batch_size == 0:
            return None, self.all_parts
        domains = np.repeat(np.flatnonzero(asked), batch_size)
        chosen = self._rows.pick(domains, np.random.default_rng(seed).random(len(domains)))
        shares = self.sizes[domains] / batch_size
        return chosen, Parts(domains, np.arange(len(domains)), shares)


class ClientRows(Protocol):
    """The rows of one client, under one model."""

    table: DomainTable
    n_parameters: int
    penalized: Any  # (n_parameters,) or True: which entries of w the regulariser sees

    @property
    def kind(self) -> str:
        """What all clients must agree on."""
        ...

    def gradient(
        self, w: NDArray[Any], rows: Indices | None, parts: Parts, a: Array, seed: list[int]
    ) -> tuple[Array, Array]:
        """Σ_i c_i ∇ℓ_i(w), c_i = Σ_k a_k S_ik, and the ℓ_i(w) of the rows; None is all of them."""
        ...


class LinearRows:
    """The rows of a linear model."""

    def __init__(self, problem: LinearDomains) -> None:
        self.problem, self.table = problem, DomainTable(problem)
        self.n_parameters, self.penalized = problem.n_parameters, problem.penalized

    @property
    def kind(self) -> str:
        """The loss, the columns and the classes."""
        problem = self.problem
        classes = None if problem.classes is None else problem.classes.tolist()
        return (
            f"{problem.loss} of {problem.n_features} columns, intercept {problem.intercept}, "
            + (f"classes {classes}")
        )

    def gradient(
        self, w: NDArray[Any], rows: Indices | None, parts: Parts, a: Array, seed: list[int]
    ) -> tuple[Array, Array]:
        """As in ClientRows."""
        part = self.problem
        if rows is not None:
            part = part._with_rows(rows, part.average)
        value, slope = part.loss.derivatives(part.scores(part._check_w(w)), part.y, 1)
        c = parts.row_weights(a, len(value))
        return part.pull_back(slope * (c if slope.ndim == 1 else c[:, None])), value


def introduce(rows: ClientRows, key: str) -> tuple[Arrays, Settings]:
    """The reply to "who are you"."""
    settings = {
        "key": key,
        "domains": rows.table.names,
        "n_parameters": rows.n_parameters,
        "kind": rows.kind,
    }
    return {"counts": rows.table.sizes}, settings


def answer(
    rows: ClientRows, key: str, w: NDArray[Any], settings: Settings
) -> tuple[Arrays, Settings]:
    """The reply to "train": the update, and the losses and counts of the client's domains.

    With several local steps w_1, w_2, … of size s on the client's own mean Σ_k a_k S_ik ∇ℓ_i / A,
    A = Σ_k a_k m_k, the update is the sum of the gradients on the way, A (w_0 − w_J)/s: added up
    over the clients and multiplied by s, it is w_0 less the mean of their models.
    """
    a, b = settings["weights"].reshape(2, -1)
    asked, m = (a != 0) | (b != 0), rows.table.sizes
    mass, start = float(a @ m), w
    update = losses = np.zeros(0)
    for j in range(settings["local_steps"] if mass > 0 else 1):
        seed = [settings["seed"], settings["round"], number_of(key), j]
        chosen, parts = rows.table.draw(asked, settings["batch_size"], seed)
        gradient, values = rows.gradient(w, chosen, parts, a, seed)
        if settings["gamma"] > 0:
            gradient += mass * settings["gamma"] * (rows.penalized * w)
        if j == 0:
            losses, update = b * parts.sums(values, len(m)), gradient
        else:
            update = update + gradient
        if mass > 0:
            w = start - (settings["step"] / mass) * update
    sums = np.concatenate([losses, asked * m])
    return {"update": update.astype(start.dtype, copy=False)}, {"sums": sums}


def number_of(key: str) -> int:
    """A number for the key, the same on every machine (Python's own hash is not)."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
