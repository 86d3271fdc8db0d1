"""The client's side of personal models, clusters and a choice of models: what stays, and what goes.

A client deals its rows into three parts by its key: those to train on, those that choose α, and
those that are reported on. One with fewer than six rows takes part in training with all of them,
and is served by the shared model alone. It answers

    query.describe   counts of its classes, or sums of its columns and their squares
    query.personal   a shared w  →  sums of losses per domain, of w and of its personal model
    query.choose     K models  →  which has the least loss on its rows, and the gradient there

Its own model h_k and the share α of the shared one are fitted here, kept here between rounds, and
in no reply. They lie in the state of Flower's context, which ends with the run or the process;
with a folder of the client's own they survive both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError, finite_number
from anymix.flower.client import client_app, node_key
from anymix.flower.client_data import Load, number_of
from anymix.flower.client_errors import CannotAnswerError, Reason
from anymix.flower.personal_state import PersonalModel, read_model, save_model
from anymix.flower.wire import Arrays, Settings, pack, unpack
from anymix.mixtures import Point
from anymix.problem.blending import best_blend
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, SquaredError
from anymix.solvers.exact import solve

Array = NDArray[np.float64]
Folder = str | Path | Callable[[Context], str | Path]

__all__ = ["personal_client_app"]

FEWEST = 6  # rows of a client with a model of its own: to train on, to choose by, to report on
DESCRIBE, PERSONAL, CHOOSE = "describe", "personal", "choose"  # as query.describe, ...


@dataclass(frozen=True)
class _Client:
    """One client: its rows, dealt out, and the settings of its own model."""

    load: Load
    loss: Any
    intercept: bool
    classes: Any
    gamma: float
    held_out: float
    z: float
    key: Callable[[Context], str]
    folder: Folder | None

    def parts(self, context: Context) -> tuple[Any, Any, Any]:
        """Row numbers to train on, to choose by, to report on."""
        n = len(self.load(context)[1])
        if n == 0:
            raise CannotAnswerError(Reason.ROWS, "load", "gives no rows", "leave such a client out")
        if n < FEWEST:  # all are to train the shared model on, and it has no other
            none = np.zeros(0, dtype=np.intp)
            return np.arange(n), none, none
        order = np.random.default_rng(number_of(self.key(context))).permutation(n)
        cut = n - max(2, round(self.held_out * n))
        middle = (cut + n) // 2
        return np.sort(order[:cut]), np.sort(order[cut:middle]), np.sort(order[middle:])

    def rows(self, context: Context, part: int) -> tuple[Any, Any, Any]:
        """X, y and domains of a part: 0 to train on, 1 to choose by, 2 to report on."""
        X, y, domains = self.load(context)
        here = self.parts(context)[part]
        taken: Any = [_as_rows(values)[here] for values in (X, y, domains)]
        return taken[0], taken[1], taken[2]

    def problem(self, context: Context, part: int, alone: bool = False) -> LinearDomains:
        """The linear problem of a part; `alone` takes all its rows for one domain."""
        X, y, domains = self.rows(context, part)
        told = np.zeros(len(y)) if alone else domains
        return LinearDomains(X, y, told, self.loss, intercept=self.intercept, classes=self.classes)

    def place(self, context: Context) -> Path | None:
        """The file of this client's own model."""
        if self.folder is None:
            return None
        folder = self.folder(context) if callable(self.folder) else self.folder
        return Path(folder) / f"{number_of(self.key(context)):016x}.npz"

    # -- the answers ---------------------------------------------------------------------------

    def describe(self, context: Context, kind: str) -> tuple[Arrays, Settings]:
        """Sums that clients are clustered by, of the rows to train on."""
        problem = self.problem(context, 0, alone=True)
        n = np.array([float(problem.n_rows)])
        if kind == "labels":
            if problem.classes is None:
                fix = "targets are numbers: give 'moments'"
                raise CannotAnswerError(Reason.KIND, "kind", "is 'labels'", fix)
            y = np.asarray(self.rows(context, 0)[1]).tolist()
            sums = np.array([float(y.count(c)) for c in problem.classes.tolist()])
        else:
            X: Any = problem.X
            X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
            sums = np.concatenate([X.sum(axis=0), (X**2).sum(axis=0)])
        return {"sums": sums, "size": n}, {"length": len(sums)}

    def personal(self, context: Context, w: Array) -> tuple[Arrays, Settings]:
        """Sums of the losses of w and of the personal model, by domain, on rows to report on.

        A client with too few rows for that is served by w alone, and says so.
        """
        if len(self.parts(context)[1]) == 0:
            return self._served_by(w, context)
        chosen = self.problem(context, 1, alone=True)
        _check_length(w, chosen)
        model = read_model(self.place(context), context)
        if model is None or model.own.shape != w.shape:  # of another model, it is fitted anew
            alone = self.problem(context, 0, alone=True)
            own = solve(alone, Point([1.0]), gamma=self.gamma, tol=1e-8).w
            model = PersonalModel(own, own, 1.0, 0, 1)
        kind = self.kind
        alpha = best_blend(_said(chosen, w), _said(chosen, model.own), kind, self.z).alpha
        model = PersonalModel(model.own, w, alpha, model.rounds + 1, model.fits)
        save_model(model, self.place(context), context)
        judged = self.problem(context, 2)
        a, b = _said(judged, w), _said(judged, model.own)
        said = {"shared_loss": a, "personal_loss": alpha * a + (1 - alpha) * b}
        mean = {name: judged.average @ _loss(values, kind) for name, values in said.items()}
        sums = {name: np.asarray(judged.sizes * values) for name, values in mean.items()}
        names = [str(name) for name in judged.domain_names.tolist()]
        return {**sums, "counts": judged.sizes.astype(np.float64)}, {"domains": names}

    def _served_by(self, w: Array, context: Context) -> tuple[Arrays, Settings]:
        """Keep α = 1, the shared model alone; there are no rows to judge it by."""
        kept = read_model(self.place(context), context)
        rounds = 1 if kept is None else kept.rounds + 1
        save_model(PersonalModel(w, w, 1.0, rounds, 0), self.place(context), context)
        nothing = dict.fromkeys(("shared_loss", "personal_loss", "counts"), np.zeros(0))
        return nothing, {"domains": [], "too_small": True}

    def choose(self, context: Context, models: Array) -> tuple[Arrays, Settings]:
        """The model of least loss on the rows to train on, and the sum of the gradients there."""
        problem = self.problem(context, 0, alone=True)
        _check_length(models[0], problem)
        m = float(problem.n_rows)
        losses = np.array([float(problem.losses(w)[0]) for w in models])
        j = int(losses.argmin())
        sums = {
            "update": m * problem.gradient(models[j], np.ones(1)),
            "loss": np.array([m * losses[j]]),
            "size": np.array([m]),
        }
        return sums, {"choice": j}

    @property
    def kind(self) -> str:
        """What α is chosen by."""
        if self.loss is None or isinstance(self.loss, CrossEntropy):
            return "log"
        if isinstance(self.loss, SquaredError):
            return "squared"
        found = f"is {self.loss!r}"
        raise InputError("loss", found, "personal models take CrossEntropy or SquaredError")


def personal_client_app(
    load: Load,
    loss: Any = None,
    *,
    intercept: bool = True,
    classes: ArrayLike | None = None,
    gamma: float = 0.01,
    held_out: float = 0.4,
    z: float = 1.0,
    keep_in: Folder | None = None,
    key: Callable[[Context], str] = node_key,
) -> ClientApp:
    """`client_app` of a linear model, for clients that also have a model of their own.

    What leaves a client, besides what every `client_app` answers: counts of classes or sums of
    columns where `federated_clusters` asks, sums of losses where `federated_personal` does, and the
    number of the model chosen, its loss and gradient where `federated_choice` does. Its own model
    and α never do. A client with fewer than six rows has no model of its own: α is 1, and it tells
    only that.

    Parameters
    ----------
    load : function
        load(context) gives (X, y, domains) of this client, as in `client_app`.
    loss : Loss, optional
        CrossEntropy (default) or SquaredError.
    intercept : bool
        Whether the linear models have one.
    classes : array-like, optional
        All classes; name them when a client may lack one.
    gamma : float
        γ of the client's own model.
    held_out : float
        The share of the rows that nothing is trained on: half of them choose α, the others are
        reported on.
    z : float
        Standard errors that count as nothing in the choice of α, as in `Personalized`.
    keep_in : path-like, function or None
        A folder of the client's own, or context → folder, where its model is kept; None keeps it in
        the state of Flower's context, which a killed process takes with it. Its own model is
        fitted once; without the file it is fitted anew.
    key : function
        key(context) names the client, the same in every run.

    Returns
    -------
    flwr.clientapp.ClientApp

    Examples
    --------
    >>> def load(context):
    ...     return [[0.0], [1.0]] * 20, ["no", "yes"] * 20, ["web"] * 40
    >>> app = personal_client_app(load, classes=["no", "yes"])
    """
    share = finite_number("held_out", held_out, "give one in (0, 1)", lambda x: 0 < x < 1)
    names = None if classes is None else np.asarray(classes)
    client = _Client(load, loss, intercept, names, gamma, share, z, key, keep_in)
    _ = client.kind  # another loss is refused at once
    app = client_app(
        lambda context: client.rows(context, 0),
        loss=loss,
        intercept=intercept,
        classes=classes,
        key=key,
    )

    def reply(message: Message, context: Context, content: tuple[Arrays, Settings]) -> Message:
        arrays, settings = content
        return Message(pack(arrays, {**settings, "key": key(context)}), reply_to=message)

    @app.query(DESCRIBE)
    def describe(message: Message, context: Context) -> Message:
        kind = str(unpack(message.content)[1]["kind"])
        return reply(message, context, client.describe(context, kind))

    @app.query(PERSONAL)
    def personal(message: Message, context: Context) -> Message:
        w = unpack(message.content)[0]["w"]
        return reply(message, context, client.personal(context, w))

    @app.query(CHOOSE)
    def choose(message: Message, context: Context) -> Message:
        models = unpack(message.content)[0]["models"]
        return reply(message, context, client.choose(context, models))

    return app


def _check_length(w: Array, problem: LinearDomains) -> None:
    """The server knows no client's model, so it may send one of another length."""
    D = problem.n_parameters
    if len(w) != D:
        raise CannotAnswerError(Reason.KIND, "w", f"has {len(w)} numbers", f"give {D}")


def _as_rows(values: Any) -> Any:
    return values if hasattr(values, "shape") else np.asarray(values)


def _said(problem: LinearDomains, w: Array) -> Array:
    """The probability of what came true, or the error, of every row."""
    scores = problem.scores(w)
    if isinstance(problem.loss, CrossEntropy):
        return np.exp(-problem.loss.derivatives(scores, problem.y, 0)[0])
    return np.asarray(scores - problem.y, dtype=np.float64)


def _loss(said: Array, kind: str) -> Array:
    return -np.log(np.maximum(said, 1e-300)) if kind == "log" else 0.5 * said**2
