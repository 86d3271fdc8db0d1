"""The server's side of a choice of models: problems of folds, and losses on held-out rows.

The clients deal their rows out to folds (`fold_rows`); the server knows how many rows of each
domain a fold fits, and asks for sums over them. So a fold is a problem as any other, in parts.
Solvers run side by side: when all wait for an answer, the questions of all go out in one round. A
hundred models take as many rounds as the slowest, each with the answers that it would get alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.flower.client_parts import Clients
from anymix.flower.exchange import Answer, Question
from anymix.flower.fold_rows import WHOLE, About, n_numbers, pack_questions, split_answers
from anymix.flower.wire import FOLDS, Arrays, Settings, pack
from anymix.mixtures import MixtureSet, Penalty
from anymix.problem import part_sums
from anymix.problem.part_sums import Shapes
from anymix.problem.parts import Parts
from anymix.selection.held_out import Judged

Ask = Callable[[Any], Any]
Array = NDArray[np.float64]
Asked = tuple[int, Sequence[part_sums.Question]]  # a fold, and a question to each of its clients

__all__ = ["Ask", "ClientsHeldOut", "FoldedClients", "side_by_side"]


class _Stopped(BaseException):
    """Tells a solver that another one has failed."""


def side_by_side(tasks: Sequence[Callable[[Ask], Any]], answer: Callable[[Any], Any]) -> list[Any]:
    """What each task(ask) returns; ask(question) waits until `answer` has those of all."""
    news: SimpleQueue[tuple[int, str, Any]] = SimpleQueue()
    answers: list[SimpleQueue[Any]] = [SimpleQueue() for _ in tasks]
    threads = [
        Thread(target=_work, args=(i, task, news, answers[i]), daemon=True)
        for i, task in enumerate(tasks)
    ]
    for thread in threads:
        thread.start()
    try:
        return _serve(len(tasks), news, answers, answer)
    finally:
        for queue in answers:
            queue.put(_Stopped())
        for thread in threads:
            thread.join()


def _work(
    i: int,
    task: Callable[[Ask], Any],
    news: SimpleQueue[tuple[int, str, Any]],
    answers: SimpleQueue[Any],
) -> None:
    """Run one task; its questions, its end and its failure are news."""

    def ask(question: Any) -> Any:
        news.put((i, "question", question))
        found = answers.get()
        if isinstance(found, _Stopped):
            raise found
        return found

    try:
        news.put((i, "end", task(ask)))
    except _Stopped:
        return
    except BaseException as error:
        news.put((i, "failure", error))


def _serve(
    n: int,
    news: SimpleQueue[tuple[int, str, Any]],
    answers: list[SimpleQueue[Any]],
    answer: Callable[[Any], Any],
) -> list[Any]:
    """Answer whenever all that are left wait, until none is left."""
    ended: dict[int, Any] = {}
    asked: dict[int, Any] = {}
    failed: dict[int, BaseException] = {}
    while len(ended) + len(failed) < n:
        i, kind, what = news.get()
        {"question": asked, "end": ended, "failure": failed}[kind][i] = what
        if len(ended) + len(failed) + len(asked) < n:
            continue
        if failed:
            raise failed[min(failed)]  # the same one in every run
        order = sorted(asked)
        if order:
            for j, found in zip(order, answer([asked[j] for j in order]), strict=True):
                answers[j].put(found)
            asked.clear()
    if failed:
        raise failed[min(failed)]
    return [ended[j] for j in range(n)]


class FoldedClients:
    """Clients whose rows are in folds."""

    def __init__(self, clients: Clients, folds: int, seed: int) -> None:
        self.clients, self.roster, self.n = clients, clients.roster, folds
        self._settings = {"folds": folds, "seed": seed}
        self.sizes = np.zeros((self.n, len(self.roster.domains)))  # of what each fold fits
        self.held, self.squares = self.sizes.copy(), np.zeros(self.sizes.shape[1])
        self._fitted, totals = [], []  # of each client: what of its domains each fold fits
        answers = self._counts()
        for place, answer in zip(self.roster.places, answers, strict=True):
            self.sizes[:, place] += answer["fitted"]
            self.held[:, place] += answer["held"]
            self.squares[place] += answer["squares"] / self.roster.sizes[place] ** 2
            self._fitted.append(answer["fitted"])
            totals.append(answer["totals"])
        self._check()
        self.guess = _constant_guess(np.sum(totals, axis=0))
        self.squared = all(answer["squared"][0] == 1 for answer in answers)

    def _counts(self) -> list[Answer]:
        content = pack({}, {**self._settings, "about": "counts"})
        questions = {}
        for member in self.roster.members:
            p, classes = len(member.domains), max(2, member.n_scores)
            shapes: Shapes = {"fitted": (self.n, p), "held": (self.n, p)}
            shapes |= {"squares": (p,), "totals": (classes + 2,), "squared": (1,)}
            questions[member.key] = Question(content, shapes)
        answers = self.clients.round(FOLDS, questions)
        return [answers[key] for key in self.roster.keys]

    def _check(self) -> None:
        """Every domain must be in what a fold fits, and in what it holds out."""
        least = np.minimum(self.sizes, self.held).min(axis=0)
        if np.any(least == 0):
            k = int(np.argmin(np.where(least == 0, self.roster.sizes, np.inf)))
            name = self.roster.domains[k]
            raise InputError(
                "folds",
                f"is {self._settings['folds']}, and the {self.roster.sizes[k]:g} rows of domain "
                f"{name!r} are not in all of them",
                "merge it with another, or lower folds",
            )

    def problem(
        self, number: int, ask: Callable[[Asked], Any], center: Array | None = None
    ) -> Parts:
        """The problem of what a fold fits, WHOLE for all rows; `ask` sends the questions."""
        clients = self._clients_of(number)
        places = [self._places(i, number) for i in clients]
        sizes = self.roster.sizes if number == WHOLE else self.sizes[number]
        D = self.roster.members[0].n_parameters
        return Parts(lambda questions: ask((number, questions)), places, sizes, D, center)

    def _clients_of(self, number: int) -> list[int]:
        """Who has rows that the fold fits."""
        every = range(len(self._fitted))
        return [i for i in every if number == WHOLE or np.any(self._fitted[i][number] > 0)]

    def _places(self, i: int, number: int) -> NDArray[np.intp]:
        """The domains of those rows."""
        place = self.roster.places[i]
        return place if number == WHOLE else place[self._fitted[i][number] > 0]

    def answer(self, asked: Sequence[Asked]) -> list[list[part_sums.Sums]]:
        """One round for questions about several folds; the answers of each one's clients."""
        own: list[list[About]] = [[] for _ in self.roster.members]
        for number, questions in asked:
            for i, question in zip(self._clients_of(number), questions, strict=True):
                own[i].append((number, question))
        sent = {}
        for i, (key, abouts) in enumerate(zip(self.roster.keys, own, strict=True)):
            if abouts:
                arrays, settings = pack_questions(abouts)
                content = pack(arrays, {**self._settings, "about": "sums", **settings})
                check = partial(self._doubt, i, abouts)
                sent[key] = Question(content, {"sums": (n_numbers(abouts),)}, check)
        answers = self.clients.round(FOLDS, sent)
        found = [
            iter(split_answers(answers[key]["sums"], abouts) if abouts else [])
            for key, abouts in zip(self.roster.keys, own, strict=True)
        ]
        return [[next(found[i]) for i in self._clients_of(number)] for number, _ in asked]

    def _doubt(self, i: int, asked: Sequence[About], answer: Answer) -> str | None:
        """What is wrong with the answer of a client about several folds."""
        found = zip(asked, split_answers(answer["sums"], asked), strict=True)
        doubts = (
            self.clients.doubt((i, number), self._sizes(i, number), question, sums)
            for (number, question), sums in found
        )
        return next(filter(None, doubts), None)

    def _sizes(self, i: int, number: int) -> Array:
        """How many rows of each of these domains a fold fits."""
        if number == WHOLE:
            return self.roster.members[i].counts
        fitted: Array = self._fitted[i][number]
        return fitted[fitted > 0]

    def losses(self, models: Array) -> Array:
        """D of models (folds, C, D) on what each fold holds out, and a guess's, (F, C + 1, p)."""
        C = models.shape[1]
        total = np.zeros((self.n, C + 1, len(self.roster.domains)))
        arrays = {"models": models, "guess": self.guess}
        places = self.roster.places
        shapes: list[Shapes] = [{"losses": (self.n, C + 1, len(place))} for place in places]
        answers = self._ask_each("losses", [arrays] * len(shapes), shapes)
        for place, answer in zip(places, answers, strict=True):
            total[..., place] += answer["losses"]
        return total / self.held[:, None]

    def errors(self, models: Array, pairs: Array, mixtures: Array, means: Array) -> Array:
        """The standard errors of Σ_k λ_k (v̄_ck − v̄_ok), (T,), as `Errors` defines them."""
        scales = mixtures / np.sqrt(1 - self.squares) / self.roster.sizes  # m_k ≥ 2: `_check`
        arrays = [
            {
                "models": models,
                "guess": self.guess,
                "pairs": pairs,
                "scales": scales[:, at],
                "means": means[:, at],
            }
            for at in self.roster.places
        ]
        shapes: list[Shapes] = [{"errors": (len(pairs),)}] * len(arrays)
        answers = self._ask_each("errors", arrays, shapes)
        return np.asarray(np.sqrt(np.sum([a["errors"] for a in answers], axis=0)))

    def _ask_each(
        self, about: str, arrays: Sequence[Arrays], shapes: Sequence[Shapes]
    ) -> list[Answer]:
        settings: Settings = {**self._settings, "about": about}
        keys = self.roster.keys
        asked = {
            key: Question(pack(own, settings), shape)
            for key, own, shape in zip(keys, arrays, shapes, strict=True)
        }
        answers = self.clients.round(FOLDS, asked)
        return [answers[key] for key in keys]


def _constant_guess(totals: Array) -> Array:
    """The mean target, or the scores of the shares of the classes, for all rows alike."""
    counts, (total, n) = totals[:-2], totals[-2:]
    if n > 0:
        return np.array([total / n])
    logs = np.log(np.maximum(counts / counts.sum(), 1e-300))
    return np.array([logs[1] - logs[0]]) if len(logs) == 2 else logs


@dataclass(frozen=True, eq=False)
class ClientsHeldOut(Judged):
    """The losses of C models on rows that clients hold out, known by their sums."""

    folded: FoldedClients
    models: Array  # (folds, C, D), the ordinary one first
    fold_losses: Array  # (folds, C, p), D of what each fold holds out
    mixtures: MixtureSet
    offsets: Array
    reference: Array
    constant: Array | None = None
    prior: Penalty | None = None
    squared: bool = False
    _known: dict[tuple[int, int, bytes], float] = field(default_factory=dict)

    @cached_property
    def by_fold(self) -> tuple[Array, Array]:
        """As `Judged` says, from the clients' sums."""
        return self.fold_losses, self.folded.held / self.folded.roster.sizes

    @cached_property
    def domain_losses(self) -> Array:
        """D, (C, p)."""
        D, a = self.by_fold
        return np.asarray((a[:, None] * D).sum(axis=0))

    @cached_property
    def spread(self) -> Array:
        """As `Judged` says; asks the clients once."""
        domains = np.eye(self.domain_losses.shape[1])
        self._ask([(0, e, None) for e in domains])
        return np.array([self.error(0, e) for e in domains])

    @cached_property
    def constant_errors(self) -> Array:
        """As `Judged` says, where a model may be worse than a constant guess; 0 elsewhere."""
        found = np.zeros_like(self.domain_losses)
        if self.constant is not None:
            excess = self.domain_losses - self.constant
            doubtful = np.argwhere((excess > 0) & (excess[0] <= 0))
            domains, guess = np.eye(self.domain_losses.shape[1]), len(self.domain_losses)
            if len(doubtful):
                self._ask([(c, domains[k], guess) for c, k in doubtful.tolist()])
            for c, k in doubtful.tolist():
                found[c, k] = self.error(c, domains[k], guess)
        return found

    def error(self, c: int, mixture: Array, other: int | None = None) -> float:
        """As `Judged` says; asks the clients where `look` has not done so."""
        key = _key(c, mixture, other)
        if key not in self._known:
            self._ask([(c, mixture, other)])
        return self._known[key]

    def look(self) -> None:
        """Ask in one round, after that of `spread`, for the errors of a choice and its table."""
        every = range(len(self.domain_losses))
        wanted: list[tuple[int, Array, int | None]] = []
        for mixture in (self.worst, [self.reference] * len(every)):
            wanted += [(c, mixture[c], None) for c in every]
        wanted += [(c, self.judged_at, 0) for c in every]
        self._ask(wanted)

    def _ask(self, wanted: Sequence[tuple[int, Array, int | None]]) -> None:
        pairs = np.array([(c, -1 if o is None else o) for c, _, o in wanted], dtype=np.float64)
        mixtures = np.array([mixture for _, mixture, _ in wanted])
        none = np.zeros(self.domain_losses.shape[1])
        every = [*self.domain_losses, none if self.constant is None else self.constant]
        means = np.array([every[c] - (none if o is None else every[o]) for c, _, o in wanted])
        found = self.folded.errors(self.models, pairs, mixtures, means)
        for (c, mixture, o), error in zip(wanted, found.tolist(), strict=True):
            self._known[_key(c, mixture, o)] = error


def _key(c: int, mixture: Array, other: int | None) -> tuple[int, int, bytes]:
    return c, -1 if other is None else other, np.ascontiguousarray(mixture).tobytes()
