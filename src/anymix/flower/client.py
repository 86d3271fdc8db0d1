"""The client's side: it keeps its rows and answers with sums over them.

A client with the rows i, each a part S_ik of domain k, is sent w and row weights a, b. It returns

    update    Σ_i Σ_k a_k S_ik ∇ℓ_i(w)     with a_k = λ_k/m_k, its part of ∇_w Σ_k λ_k L_k(w)
    losses_k  b_k Σ_i S_ik ℓ_i(w)          with b_k = 1/m_k, its part of L_k(w)
    counts_k  Σ_i S_ik                     where a_k or b_k is not 0

so the server only has to add, whether a client is a domain, a part of one, or holds several.
Sampled batches put other rows S' with E S' = S in the place of S. After epochs of the client's own,
update is (w − v)/s times its mass Σ_k a_k m_k, v being its model then, and the gradient comes too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.flower.client_data import ClientData, Describe, Load, number_of
from anymix.flower.client_errors import CannotAnswerError, Mod, Reason, discreetly, reason_of
from anymix.flower.client_limits import Answer, ClientLimits
from anymix.flower.client_rows import ClientRows
from anymix.flower.local_training import LocalTraining
from anymix.flower.wire import BEFORE, Arrays, Settings, pack, unpack
from anymix.problem import part_sums

if TYPE_CHECKING:
    import torch

__all__ = ["answer", "client_app", "introduce", "node_key"]


def node_key(context: Context) -> str:
    """The client's name in every run: "key" or "partition-id" of its node config."""
    config = context.node_config
    for name in ("key", "partition-id"):
        if name in config:
            return str(config[name])
    raise InputError(
        "the node config",
        f"is {dict(config)}",
        "it needs a 'key' (or a 'partition-id') that stays the same in every run: start the client "
        'with a node config such as key="hospital-7"',
    )


def client_app(
    load: Load,
    model: Callable[[], torch.nn.Module] | None = None,
    loss: Any = None,
    *,
    intercept: bool = True,
    classes: ArrayLike | None = None,
    key: Callable[[Context], str] = node_key,
    keep: bool | int = True,
    describe: Describe | None = None,
    local: LocalTraining | None = None,
    limits: ClientLimits | None = None,
    mods: Sequence[Mod] = (),
) -> ClientApp:
    """The Flower app of clients that learn a linear model or a PyTorch module.

    Parameters
    ----------
    load : function
        load(context) gives (X, y, domains) of this client: rows, targets, and the domain of each
        row, or a table of memberships, as in `LinearDomains`.
    model : function, optional
        Makes the PyTorch module; None is the linear model of `LinearDomains`.
    loss : Loss or function, optional
        Of the linear model, a loss of anymix (CrossEntropy by default); of a module, a function
        (output, y) -> losses of every row, by default torch's CrossEntropyLoss(reduction="none").
    intercept : bool
        Whether the linear model has one.
    classes : array-like, optional
        All classes of the linear model. Name them when a client may lack one.
    key : function
        key(context) names the client, the same in every run.
    keep : bool or int
        Load once and keep the rows in memory, not once a message, as long as the process lives: on
        a deployment every message is a new one, and loads. A number keeps those of so many clients,
        the last ones asked: for thousands of clients in one process.
    describe : function, optional
        describe(context) gives ({domain: rows}, columns) without loading the rows, to answer "who
        are you"; for phones by the thousand, most of which are asked rarely. It must agree with
        `load`, and `classes` must be given.
    local : LocalTraining, optional
        Of a module: the client's own optimizer, its device and its precision. Parameters with
        requires_grad=False are frozen: they are neither sent nor changed.
    limits : ClientLimits, optional
        What clients answer at most, where the node's config names no file of limits of its own,
        `limits="/etc/anymix/limits.toml"`. None and no file: everything.
    mods : sequence of function
        Flower's mods, (message, context, answer) -> message, around every answer; the first is
        outermost. What they raise stays with the client too.

    Returns
    -------
    flwr.clientapp.ClientApp

    Examples
    --------
    >>> def load(context):
    ...     return [[0.0], [1.0]], ["no", "yes"], ["web", "mail"]
    >>> app = client_app(load)
    """
    data = ClientData(load, model, loss, intercept, classes, key, keep, describe, local, limits)

    def within_limits(message: Message, context: Context, answer: Answer) -> Message:
        limits = ClientLimits.of(context, data.limits)
        if limits is None:
            return answer(message, context)

        def rows(settings: Settings) -> tuple[ClientRows, list[str]]:
            kept = data(context, settings)
            return kept.some, [kept.name, f"client {key(context)}"]

        return limits.guard(message, lambda: answer(message, context), rows)

    app = ClientApp(mods=[discreetly, *mods, within_limits])
    _answer_questions(app, data)
    _answer_rounds(app, data)
    return app


def _answer_questions(app: ClientApp, data: ClientData) -> None:
    """What a client is asked besides training: who it is, its first weights, its columns, sums."""

    @app.query()
    def who(message: Message, context: Context) -> Message:
        settings, key = unpack(message.content)[1], data.key(context)
        try:
            if data.describe is None:
                reply = introduce(data(context, settings).train, key)
            else:
                reply = describe_only(*data.described(context, settings), key)
            limits = ClientLimits.of(context, data.limits)
            reply[1]["noisy"] = limits is not None and limits.noise is not None
        except Exception as error:  # who failed is to be known by its key
            reply = {}, {"key": key, "failed": reason_of(error, message, context).value}
        return Message(pack(*reply), reply_to=message)

    @app.query("first")
    def first(message: Message, context: Context) -> Message:
        if data.model is None:
            raise CannotAnswerError(Reason.KIND, "model", "is None", "a linear model starts at 0")
        from anymix.flower.torch_rows import first_weights  # loads PyTorch

        seed = unpack(message.content)[1]["seed"]
        return Message(pack(first_weights(data.model, seed), {}), reply_to=message)

    @app.query("moments")
    def second(message: Message, context: Context) -> Message:
        settings = unpack(message.content)[1]
        rows = data(context, settings).linear
        sums = rows.moments(products=settings["products"])
        return Message(pack({"moments": sums}, {}), reply_to=message)

    @app.query("solve")
    def solve(message: Message, context: Context) -> Message:
        rows = data(context, {}).solvable
        question = part_sums.Question.of_arrays(*unpack(message.content))
        return Message(pack(part_sums.answer(rows.problem, question), {}), reply_to=message)

    @app.query("folds")
    def folds(message: Message, context: Context) -> Message:
        from anymix.flower.fold_rows import answer_about_folds

        rows, number = data(context, {}).solvable, number_of(data.key(context))
        reply = answer_about_folds(rows.problem, number, *unpack(message.content))
        return Message(pack(reply, {}), reply_to=message)


def _answer_rounds(app: ClientApp, data: ClientData) -> None:
    """What a client is asked round by round: to train, and to judge a model."""

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays, settings = unpack(message.content)
        rows = data(context, settings).some
        before = [arrays.pop(name) for name in BEFORE if name in arrays]
        w, told = _vector(arrays), (before[0], before[1]) if before else None
        reply = answer(rows, data.key(context), w, settings, told)
        return Message(pack(*reply), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        arrays, settings = unpack(message.content)
        kept = data(context, settings)
        rows = kept.held if settings["held"] else kept.some
        w, beside = _vector(arrays), settings.get("beside")
        sums = judge(kept.some, rows, w, settings.get("chunk"), beside)
        return Message(pack({}, {"sums": sums}), reply_to=message)


def _vector(arrays: Arrays) -> NDArray[Any]:
    """The arrays of a model as one vector."""
    return np.concatenate([array.ravel() for array in arrays.values()])


def judge(
    rows: ClientRows,
    held: ClientRows | None,
    w: NDArray[Any],
    chunk: int | None = None,
    beside: NDArray[Any] | None = None,
) -> NDArray[np.float64]:
    """Σ ℓ_i(w), Σ 1 of each domain over `held`; beside v also Σ ℓ_i(v), Σ (ℓ_i(w) − ℓ_i(v))²."""
    names = rows.table.names
    n = 2 if beside is None else 4
    sums = dict.fromkeys(names, (0.0,) * n)
    if held is not None:
        table, p = held.table, len(held.table.names)
        every = table.draw(np.ones(p, dtype=bool), 0, [0])[1]
        losses = held.losses(w, chunk)
        found = [every.sums(losses, p), table.sizes]
        if beside is not None:
            other = held.losses(beside.astype(w.dtype), chunk)
            found += [every.sums(other, p), every.sums((losses - other) ** 2, p)]
        sums |= dict(zip(table.names, zip(*found, strict=True), strict=True))
    return np.array([sums[name] for name in names]).reshape(len(names), n).T.ravel()


def introduce(rows: ClientRows | None, key: str) -> tuple[Arrays, Settings]:
    """The reply to "who are you": the key, the domains and their rows, the model."""
    if rows is None:
        nothing = {"domains": [], "n_parameters": 1, "kind": "no rows", "n_scores": 1}
        return {"counts": np.zeros(0)}, {"key": key, **nothing}
    counts = dict(zip(rows.table.names, rows.table.sizes.tolist(), strict=True))
    return describe_only(counts, rows, key)


def describe_only(counts: dict[str, float], model: ClientRows, key: str) -> tuple[Arrays, Settings]:
    """The same reply, of rows that are not there, and any rows under the same model."""
    settings = {
        "key": key,
        "domains": list(counts),
        "n_parameters": model.n_parameters,
        "kind": model.kind,
        **model.about,
    }
    return {"counts": np.array([*counts.values()], dtype=np.float64)}, settings


def answer(
    rows: ClientRows,
    key: str,
    w: NDArray[Any],
    settings: Settings,
    before: tuple[NDArray[Any], NDArray[Any]] | None = None,
) -> tuple[Arrays, Settings]:
    """The reply to "train": the update, and the losses and counts of the client's domains.

    `before` is the model of the round before, and the sum of all clients' gradients there.
    """
    a, b = settings["weights"].reshape(2, -1)
    asked, m = (a != 0) | (b != 0), rows.table.sizes
    mass = float(a @ m)
    epochs = settings["local_epochs"] if mass > 0 else 0
    seed = [settings["seed"], settings["round"], number_of(key), 0]
    chosen, shares = rows.table.draw(asked, 0 if epochs else settings["batch_size"], seed)
    gradient, values = rows.gradient(w, chosen, shares, a, seed)
    update, gamma = gradient, settings["gamma"]
    if gamma > 0:
        update = gradient + mass * gamma * (rows.penalized * w)
    if epochs:
        drift = None  # g_c(w') − Σ_j λ'_j g_j(w')
        if before is not None:
            drift = rows.gradient(before[0], chosen, shares, a, seed)[0] / mass - before[1]
        end = rows.train_locally(w, shares.row_weights(a, len(values)), drift, settings, seed)
        update = mass * (w - end) / settings["step"]
    if settings["corrects"]:
        update = np.concatenate([update, gradient])
    sums = np.concatenate([b * shares.sums(values, len(m)), asked * m])
    return {"update": update.astype(w.dtype, copy=False)}, {"sums": sums}
