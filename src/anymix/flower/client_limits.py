"""What a client answers, by its owner's limits: a file on the client's machine, not a message.

Sums over rows do not hide the rows. By what it asks, a server can have them (benchmarks/
rows_from_sums.py), and these rules take each of the ways that are known away, or make it dearer:

    rows        a domain of fewer rows here is neither named nor answered about
    questions   models w asked about in all runs: 61 questions about 60 rows solve for each of them
    curvatures  of these, with second derivatives, and only where every domain that they weigh has
                n ≥ D + curvatures rows here: Q weighted sums of x_i x_iᵀ over n ≤ D + Q/2 − 1 rows
                give each of these rows (Kruskal)
    norm        ‖w · spread‖, in the spreads of the client's own columns; a longer w makes of a sum
                of sigmoids a count of rows on one side, and two of them a row
    kinds       what else may be asked: sums over parts of the rows, of which two differ by a row

A question is paid for in the ledger before the rows are looked at, on the disk: a client that is
killed in between has answered nothing and been paid. It is paid under the name of the data and
under that of the client: neither two nodes over one table nor a table that grows are asked twice as
much.
"""

from __future__ import annotations

import sqlite3
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from flwr.app import Context, Message
from numpy.typing import NDArray

from anymix.errors import InputError, finite_number
from anymix.flower import wire
from anymix.flower.aggregation import count
from anymix.flower.client_errors import CannotAnswerError, Reason, discreetly
from anymix.flower.client_rows import ClientRows, LinearRows
from anymix.flower.noise import Noise
from anymix.flower.wire import FIRST, TRAIN, WHO, Arrays, Settings, pack, unpack
from anymix.problem.part_sums import ABOUT, LOOK, Question

Array = NDArray[np.float64]
Answer = Callable[[Message, Context], Message]

KINDS = ("solve", "train", "parts", "local", "modules")
FIRST_ORDER = frozenset(LOOK + ABOUT)
INTERCEPT = 3  # times `norm`

__all__ = ["Answer", "ClientLimits", "Ledger", "name_of"]


@dataclass(frozen=True)
class Ledger:
    """What was asked and paid for, in a SQLite file that outlives runs, processes and power cuts.

    Parameters
    ----------
    path : path-like
        The file; to begin anew, its owner deletes it.
    """

    path: str | Path

    def pay(self, names: Sequence[str], kind: str, price: Mapping[str, int], noise: str) -> None:
        """Note the price under every name, or refuse: on the disk when this returns.

        Parameters
        ----------
        names : sequence of str
            Under which to pay: nowhere may more be spent than is allowed.
        kind : str
            The message, for the owner to read.
        price : dict
            questions, curvatures; and how many of each are allowed, most_questions and
            most_curvatures.
        noise : str
            What all answers have in common; "" is none.
        """
        with closing(self._open()) as ledger:
            for name in names:
                _check_account(ledger, name, price, noise)
                ledger.execute(
                    "INSERT INTO paid (name, kind, questions, curvatures, noise) "
                    "VALUES (?, ?, ?, ?, ?)",
                    (name, kind, price["questions"], price["curvatures"], noise),
                )
            ledger.execute("COMMIT")

    def spent(self) -> dict[str, tuple[int, int]]:
        """Questions and curvatures by name."""
        if not Path(self.path).exists():
            return {}
        with closing(self._open()) as ledger:
            sums = "SELECT name, SUM(questions), SUM(curvatures) FROM paid GROUP BY name"
            return {name: (q, c) for name, q, c in ledger.execute(sums)}

    def _open(self) -> sqlite3.Connection:
        """The file, closed to others; what follows is kept by a COMMIT, and forgotten without."""
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        ledger = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        ledger.execute("PRAGMA synchronous = FULL")
        ledger.execute("BEGIN IMMEDIATE")
        ledger.execute(
            "CREATE TABLE IF NOT EXISTS paid (name TEXT, at TEXT DEFAULT CURRENT_TIMESTAMP, "
            "kind TEXT, questions INTEGER, curvatures INTEGER, noise TEXT)"
        )
        return ledger


def _check_account(
    ledger: sqlite3.Connection, name: str, price: Mapping[str, int], noise: str
) -> None:
    query = "SELECT questions, curvatures, noise FROM paid WHERE name = ?"
    rows = ledger.execute(query, (name,)).fetchall()
    for i, what in enumerate(("questions", "curvatures")):
        done, allowed = sum(row[i] for row in rows), price[f"most_{what}"]
        if price[what] and done + price[what] > allowed:
            found = f"are {done} of {allowed} in the ledger of {name!r}"
            raise CannotAnswerError(Reason(f"limits.{what}"), what, found, "that is all")
    if {row[2] for row in rows} - {noise}:
        fix = "exact answers, or others with less noise, cannot be taken back: begin a new ledger"
        raise CannotAnswerError(Reason.LIMIT_NOISE, "ledger", "has other answers", fix)


@dataclass(frozen=True)
class _Asked:
    """What a message asks about."""

    kinds: frozenset[str] = frozenset()  # all of these must be allowed
    models: Sequence[Array] = ()  # each (n, D)
    steps: Sequence[Array] = ()  # directions, the same
    questions: int = 0
    second: Sequence[Array] = ()  # per curvature, the weights of the domains in it
    all_rows: bool = False  # or of all rows at once
    scale: float = 1.0

    @property
    def curvatures(self) -> int:
        return len(self.second) + int(self.all_rows)


def _asked(kind: str, arrays: Arrays, settings: Settings) -> _Asked:
    parts = {"parts"} if settings.get("hold_out", [0.0])[0] != 0 else set[str]()  # also if < 0
    match kind:
        case wire.FIRST:
            return _Asked(frozenset({"modules"}))
        case wire.MOMENTS:
            return _Asked(frozenset(parts), questions=1, all_rows=bool(settings["products"]))
        case wire.SOLVE:
            return _of_questions([Question.of_arrays(arrays, settings)], {"solve"})
        case wire.FOLDS:
            return _of_folds(arrays, settings)
        case wire.TRAIN | wire.EVALUATE:
            own = [a.ravel() for name, a in arrays.items() if name not in wire.BEFORE]
            models = [np.concatenate(own), *([settings["beside"]] if "beside" in settings else [])]
            models += [arrays[name] for name in wire.BEFORE[:1] if name in arrays]
            parts |= {"parts"} if settings.get("batch_size", 0) else set()
            parts |= {"train"} | ({"local"} if settings.get("local_epochs", 0) else set())
            return _Asked(frozenset(parts), [m[None] for m in models], questions=len(models))
        case _:  # a question of an app's own
            return _Asked(frozenset({kind}), questions=1)


def _of_questions(questions: Sequence[Question], kinds: set[str]) -> _Asked:
    models = [q.w[None] for q in questions]
    steps = [q.step[None] for q in questions if q.step is not None]
    second = [q.weights for q in questions if not set(q.want) <= FIRST_ORDER]
    scale = max((abs(q.scale) for q in questions), default=1.0)
    return _Asked(frozenset(kinds), models, steps, len(questions), second, scale=scale)


def _of_folds(arrays: Arrays, settings: Settings) -> _Asked:
    from anymix.flower.fold_rows import unpack_questions

    kinds = {"solve", "parts"}
    if settings["about"] == "sums":
        return _of_questions([q for _, q in unpack_questions(arrays, settings)], kinds)
    if settings["about"] == "counts":
        return _Asked(frozenset(kinds), questions=1)
    models = arrays["models"].reshape(-1, arrays["models"].shape[-1])
    return _Asked(frozenset(kinds), [models], questions=len(models))


@dataclass(frozen=True)
class ClientLimits:
    """What a client answers at most, in all runs together, whoever asks.

    It is read from a TOML file that the node's own config names, `limits="/etc/anymix/limits.toml"`
    (see `read`), where no message and no run config reaches. Given to `client_app(limits=...)` it
    holds for nodes that name no file.

    It is a Flower mod too: any app can have `ClientApp(mods=[ClientLimits(...)])`, whatever it
    learns. It then keeps the ledger (one message is one question), lets only the kinds of messages
    pass that `kinds` names, and keeps the text of errors back; rows, spreads and second derivatives
    of another library's app it knows nothing of.

    **It binds apps that the owner has admitted, and no others.** Whoever may submit a run ships the
    code that clients execute, and a foreign app has neither this mod nor any scruples.

    Parameters
    ----------
    ledger : path-like
        The file of what was asked; nodes over the same rows share one.
    rows : int
        The fewest rows of a domain that the client names or answers about.
    questions : int
        How many models it is asked about, in all runs, until the ledger is deleted.
    curvatures : int
        How many of these with second derivatives; and only of domains with so many rows more than
        the model has parameters.
    norm : float
        The longest w, in spreads of this client's columns (and of its targets, if they are
        numbers; of a `Poisson` loss, whose means are exponential, a tenth). The intercept, at the
        mean of the columns, may be three times as long.
    kinds : sequence of str
        What may be asked: "solve", "train"; and if named "parts" (sums over some of the rows:
        folds, batches, rows held out), "local" (steps of the client's own), "modules" (of PyTorch,
        for which no norm is known). And types of messages of other apps, such as "query.mine".
    noise : Noise, optional
        Noise at the client's own sums, the only one of these that is a guarantee.

    Examples
    --------
    >>> limits = ClientLimits("/var/lib/anymix/ledger.db", questions=100)
    >>> limits.rows, limits.curvatures, limits.norm, limits.kinds
    (20, 20, 30.0, ('solve', 'train'))
    """

    ledger: str | Path
    rows: int = 20
    questions: int = 60
    curvatures: int = 20
    norm: float = 30.0
    kinds: Sequence[str] = ("solve", "train")
    noise: Noise | None = field(default=None)

    def __post_init__(self) -> None:
        for name in ("rows", "questions"):
            count(name, getattr(self, name))
        given: Any = self.curvatures
        if not (isinstance(given, int) and given >= 0):
            raise InputError("curvatures", f"is {self.curvatures!r}", "give a whole number ≥ 0")
        finite_number("norm", self.norm, "give a positive number", lambda x: x > 0)
        if isinstance(self.kinds, str) or not all(isinstance(kind, str) for kind in self.kinds):
            raise InputError("kinds", f"is {self.kinds!r}", f"give a list of names, as {KINDS}")

    @staticmethod
    def read(path: str | Path) -> ClientLimits:
        """The limits of a TOML file; what it does not name has the default.

        Parameters
        ----------
        path : path-like
            Of the file. A relative `ledger` is beside it, by default "ledger.db"; `noise` is a
            table with the arguments of `Noise`.

        Returns
        -------
        ClientLimits

        Examples
        --------
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp(), "limits.toml")
        >>> _ = path.write_text("questions = 100\\n[noise]\\nepsilon = 4.0")
        >>> limits = ClientLimits.read(path)
        >>> limits.questions, limits.noise.epsilon, Path(limits.ledger).name
        (100, 4.0, 'ledger.db')
        """
        path = Path(path).absolute()
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        noise = given.pop("noise", None)
        for found, known in ((given, ClientLimits), (noise or {}, Noise)):
            strange = set(found) - {f.name for f in fields(known)}
            if strange:
                fix = f"it may have {sorted(f.name for f in fields(known))}"
                raise InputError(str(path), f"has {sorted(strange)}", fix)
        ledger = path.parent / given.pop("ledger", "ledger.db")
        return ClientLimits(ledger, **given, noise=None if noise is None else Noise(**noise))

    @staticmethod
    def of(context: Context, otherwise: ClientLimits | None = None) -> ClientLimits | None:
        """The limits of the file that the node's config names; without one, those of the app.

        Parameters
        ----------
        context : flwr.app.Context
            Of the client; its run config is not looked at.
        otherwise : ClientLimits, optional
            For nodes that name no file.

        Returns
        -------
        ClientLimits or None
        """
        path = context.node_config.get("limits")
        return otherwise if path is None else ClientLimits.read(str(path))

    def __call__(self, message: Message, context: Context, answer: Answer) -> Message:
        """As a Flower mod, around an app that this library knows nothing of.

        Parameters
        ----------
        message : flwr.app.Message
            The question.
        context : flwr.app.Context
            Of the client; limits in a file of its own take the place of these.
        answer : function
            The app.

        Returns
        -------
        flwr.app.Message
        """

        def within(message: Message, context: Context) -> Message:
            limits, kind = ClientLimits.of(context, self) or self, message.metadata.message_type
            limits._check_kinds({kind}, kind)
            config = context.node_config
            name = f"client {config.get('key', config.get('partition-id', context.node_id))}"
            limits._pay([name], kind, 1, 0, "")
            return answer(message, context)

        return discreetly(message, context, within)

    def guard(
        self,
        message: Message,
        answer: Callable[[], Message],
        load: Callable[[Settings], tuple[ClientRows, Sequence[str]]],
    ) -> Message:
        """The answer of `client_app` to a message, or `CannotAnswerError`.

        Parameters
        ----------
        message : flwr.app.Message
            The question.
        answer : function
            Gives the answer.
        load : function
            From the settings of the message to the rows and the names to pay under.

        Returns
        -------
        flwr.app.Message
        """
        kind = message.metadata.message_type
        if kind == WHO:
            return answer()
        arrays, settings = unpack(message.content)
        asked = _asked(kind, arrays, settings)
        self._check_kinds(asked.kinds, kind)
        if kind == FIRST:
            return answer()  # of a seed, and not of rows
        rows, names = load(settings)
        if not isinstance(rows, LinearRows):
            self._check_kinds({"modules"}, kind)
        if self.noise is not None and not (kind == TRAIN and isinstance(rows, LinearRows)):
            fix = "only training of a linear model is answered with noise"
            raise CannotAnswerError(Reason.LIMIT_NOISE, "noise", "is given", fix)
        # Paid before looking: a refusal by what the rows are tells something of them too.
        noise = "" if self.noise is None else f"{self.noise} of {self.questions}"
        self._pay(names, kind, asked.questions, asked.curvatures, noise)
        if isinstance(rows, LinearRows):
            self._check_rows(rows, asked)
            if self.noise is not None:  # no refusal by the spreads: it would tell them exactly
                w = asked.models[0].ravel().astype(np.float64)
                noisy = self.noise.answer(rows, w, settings, self.questions)
                return Message(pack(*noisy), reply_to=message)
            self._check_norm(rows, asked)
        return answer()

    def _pay(
        self, names: Sequence[str], kind: str, questions: int, curvatures: int, noise: str
    ) -> None:
        price = {"questions": questions, "curvatures": curvatures}
        allowed = {"most_questions": self.questions, "most_curvatures": self.curvatures}
        Ledger(self.ledger).pay(names, kind, price | allowed, noise)

    def _check_kinds(self, kinds: set[str] | frozenset[str], kind: str) -> None:
        missing = sorted(kinds - set(self.kinds))
        if missing:
            found = f"is {list(self.kinds)}, and {kind!r} needs {missing}"
            raise CannotAnswerError(Reason.LIMIT_KINDS, "kinds", found, "open it, or do without")

    def _check_rows(self, rows: LinearRows, asked: _Asked) -> None:
        sizes, needed = rows.table.sizes, rows.n_parameters + self.curvatures
        smallest = [float(np.min(sizes[np.flatnonzero(a)], initial=np.inf)) for a in asked.second]
        if asked.all_rows:
            smallest.append(float(rows.problem.n_rows))
        if smallest and min(smallest) < needed:
            found = f"are {min(smallest):g}, and second derivatives need {needed}"
            raise CannotAnswerError(Reason.LIMIT_ROWS, "rows", found, "ask for gradients")

    def _check_norm(self, rows: LinearRows, asked: _Asked) -> None:
        mean, spread, middle, unit = rows.units
        most = self.norm * unit
        for models, at in [(w, middle) for w in asked.models] + [(s, 0.0) for s in asked.steps]:
            W = models.reshape(-1, models.shape[1] // rows.problem.n_scores)
            slopes, free = W[:, : len(mean)], W[:, len(mean) :].sum(axis=1)
            length = np.linalg.norm(slopes * spread, axis=1)
            level = np.abs(slopes @ mean + free - at)
            # not (≤): a NaN is refused
            if not (np.all(length <= most) and np.all(level <= INTERCEPT * most)):
                found = f"is {np.max(length):g}, its intercept {np.max(level):g}"
                fix = f"{most:g} and {INTERCEPT * most:g} are the longest"
                raise CannotAnswerError(Reason.LIMIT_NORM, "w", found, fix)
        if not asked.scale <= 1:  # it would make a switch of the shortest step
            raise CannotAnswerError(Reason.LIMIT_NORM, "scale", f"is {asked.scale:g}", "1 is most")


def name_of(table: tuple[Any, Any, Any]) -> str:
    """The name of some rows in a ledger, the same wherever they are."""
    return f"rows {joblib.hash(table, hash_name='sha1')}"
