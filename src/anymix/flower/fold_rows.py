"""The client's side of a choice of models: its rows in folds, and sums over them.

Row i is held out by fold f(i), which the seed and the client's key fix: every message finds the
same folds, in whatever process it is answered. A client tells

    counts     of every fold, Σ_i S_ik over the rows that it fits, and over those that it holds out
    sums       `part_sums`, over the rows that a fold fits
    losses     Σ_i S_ik v_ci of the rows that each fold holds out,  v_ci = ℓ_i(w_{c, f(i)})
    errors     Σ_i (Σ_k s_k S_ik (v_i − v̄_k))², v that of a model, or the difference of two

so that the server can judge every model by rows that it has not seen, and knows how surely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.flower.wire import Arrays, Settings
from anymix.problem import part_sums
from anymix.problem.linear import LinearDomains
from anymix.problem.part_sums import Question, Sums
from anymix.problem.rows import take

Array = NDArray[np.float64]
About = tuple[int, Question]  # the number of a fold, and what is asked about the rows that it fits
Indices = NDArray[np.intp]
WHOLE = -1  # the number of the fold that fits all rows

__all__ = [
    "WHOLE",
    "About",
    "FoldedRows",
    "answer_about_folds",
    "fold_numbers",
    "join_answers",
    "n_numbers",
    "pack_questions",
    "split_answers",
    "unpack_questions",
]


def pack_questions(questions: Sequence[About]) -> tuple[Arrays, Settings]:
    """The questions as one vector, and the rest as JSON can say it."""
    # Fifty questions with names of their own would take Flower longer than the sums take a client.
    numbers, forms = [], []
    for number, question in questions:
        arrays, rest = question.to_arrays()
        forms.append([number, {name: a.size for name, a in arrays.items()}, rest])
        numbers += list(arrays.values())
    return {"numbers": np.concatenate(numbers)}, {"questions": forms}


def unpack_questions(arrays: Arrays, settings: Settings) -> list[About]:
    """The questions that `pack_questions` was given."""
    numbers, begin, found = arrays["numbers"], 0, []
    for number, sizes, rest in settings["questions"]:
        own: dict[str, Any] = {}
        for name, size in sizes.items():
            own[name] = numbers[begin : begin + size]
            begin += size
        found.append((int(number), Question.of_arrays(own, rest)))
    return found


def join_answers(answers: Sequence[Sums]) -> Array:
    """The answers to all questions as one vector."""
    return np.concatenate([np.zeros(0), *(a.ravel() for sums in answers for a in sums.values())])


def n_numbers(questions: Sequence[About]) -> int:
    """How long that vector must be."""
    shapes = [shape for _, question in questions for shape in question.shapes.values()]
    return int(sum(np.prod(shape, dtype=int) for shape in shapes))


def split_answers(numbers: Array, questions: Sequence[About]) -> list[Sums]:
    """The answer to each question, from the vector of all."""
    begin, found = 0, []
    for _, question in questions:
        sums: Sums = {}
        for name, shape in question.shapes.items():
            size = int(np.prod(shape, dtype=int))
            sums[name] = numbers[begin : begin + size].reshape(shape)
            begin += size
        found.append(sums)
    return found


def fold_numbers(domains: Indices, classes: Indices, folds: int, seed: list[int]) -> Indices:
    """The fold that holds out each row: rows alike in domain and class are dealt out in turn."""
    # With which fold the dealing begins is random: clients of one row each would hold it out in the
    # same.
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.permutation(len(domains)), classes, domains))
    found = np.empty(len(domains), dtype=np.intp)
    found[order] = (np.arange(len(domains)) + rng.integers(folds)) % folds
    return found


@dataclass(frozen=True, eq=False)
class FoldedRows:
    """The rows of a client, dealt out to folds."""

    problem: LinearDomains
    number: int
    folds: int
    seed: int

    @cached_property
    def shares(self) -> sparse.csc_array:
        """S, transposed: (p, n)."""
        sizes = sparse.diags_array(self.problem.sizes)
        return sparse.csc_array(sizes @ self.problem.average)

    @cached_property
    def held_by(self) -> Indices:
        """The fold that holds out each row, (n,)."""
        S, problem = self.shares, self.problem
        n, inside = S.shape[1], np.diff(S.indptr) > 0
        domains, classes = np.full(n, -1), np.zeros(n, dtype=np.intp)
        domains[inside] = S.indices[S.indptr[:-1][inside]]  # of several, the first
        if problem.classes is not None:
            classes = problem.y.astype(np.intp)
        return fold_numbers(domains, classes, self.folds, [self.seed, self.number, 2])

    def counts(self) -> Arrays:
        """Of every domain, what each fold fits and holds out, and Σ S²; and sums of the targets."""
        problem, S = self.problem, self.shares
        held = [self.held_by == f for f in range(self.folds)]
        classes, numbers = np.zeros(2), np.zeros(2)
        if problem.classes is None:
            numbers = np.array([float(np.sum(problem.y)), float(len(problem.y))])
        else:
            classes = np.bincount(problem.y, minlength=len(problem.classes)).astype(np.float64)
        return {
            "fitted": np.array([S @ (~rows).astype(np.float64) for rows in held]),
            "held": np.array([S @ rows.astype(np.float64) for rows in held]),
            "squares": np.asarray(S.multiply(S).sum(axis=1), dtype=np.float64).ravel(),
            "totals": np.concatenate([classes, numbers]),
            "squared": np.array([float(problem.loss.is_quadratic)]),
        }

    def fitted(self, number: int) -> LinearDomains:
        """The rows that a fold fits, without the domains of which it has none."""
        problem = self.problem
        if number == WHOLE:
            return problem
        rows = np.flatnonzero(self.held_by != number)
        S = self.shares[:, rows]
        sizes = np.asarray(S.sum(axis=1)).ravel()
        here = np.flatnonzero(sizes > 0)
        average = sparse.csc_array(sparse.diags_array(1 / sizes[here]) @ S.tocsr()[here])
        X, y, names = take(problem.X, rows), problem.y[rows], problem.domain_names[here]
        return LinearDomains.coded(
            X, y, problem.classes, names, sizes[here], average, problem.loss, problem.intercept
        )

    def sums(self, questions: list[About]) -> Array:
        """The answers to questions about folds, one after the other."""
        fitted = {number: self.fitted(number) for number in {number for number, _ in questions}}
        return join_answers([part_sums.answer(fitted[number], q) for number, q in questions])

    def row_losses(self, models: Array) -> Array:
        """v, (C, n), of models (folds, C, D)."""
        problem = self.problem
        found = np.zeros((models.shape[1], problem.n_rows))
        for number, own in enumerate(models):
            rows = np.flatnonzero(self.held_by == number)
            part = problem._with_rows(rows, problem.average[:, rows])
            for c, w in enumerate(own):
                found[c, rows] = part.loss.derivatives(part.scores(w), part.y, 0)[0]
        return found

    def with_guess(self, models: Array, guess: Array) -> Array:
        """v of the models, and then of a constant guess, a mean or scores: (C + 1, n)."""
        problem = self.problem
        if problem.classes is None:
            guess = np.array([problem.loss.score_of(float(guess[0]))])
        z = np.tile(guess, (problem.n_rows, 1))
        constant = problem.loss.derivatives(z if len(guess) > 1 else z[:, 0], problem.y, 0)[0]
        return np.concatenate([self.row_losses(models), constant[None]])

    def losses(self, models: Array, guess: Array) -> Array:
        """Σ_i S_ik v_ci of the rows of each fold, (folds, C + 1, p)."""
        v, held = self.with_guess(models, guess), [self.held_by == f for f in range(self.folds)]
        return np.array([(self.shares[:, rows] @ v[:, rows].T).T for rows in held])

    def errors(
        self, models: Array, guess: Array, pairs: Array, scales: Array, means: Array
    ) -> Array:
        """Σ_i e_i², (T,), e_i = Σ_k s_k S_ik (v_i − v̄_k), v = v_c − v_o; C is the guess, −1: 0."""
        v = np.concatenate([self.with_guess(models, guess), np.zeros((1, self.problem.n_rows))])
        first, second = pairs.astype(np.intp).T
        values = v[first] - v[second]  # (T, n)
        S = self.shares.T  # (n, p)
        parts = values * (S @ scales.T).T - (S @ (scales * means).T).T
        return np.asarray(np.sum(parts**2, axis=1))


def answer_about_folds(
    problem: LinearDomains, number: int, arrays: Arrays, settings: Settings
) -> Arrays:
    """The reply to a question about folds."""
    rows = FoldedRows(problem, number, *(settings[k] for k in ("folds", "seed")))
    match settings["about"]:
        case "counts":
            return rows.counts()
        case "sums":
            return {"sums": rows.sums(unpack_questions(arrays, settings))}
        case "losses":
            return {"losses": rows.losses(**arrays)}
        case _:
            return {"errors": rows.errors(**arrays)}
