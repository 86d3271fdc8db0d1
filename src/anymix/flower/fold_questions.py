"""Many questions about folds in one message, and their answers in one reply.

A message of fifty questions with names of their own would take Flower longer than the sums take the
client, so the numbers of all questions are one vector, and those of all answers too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.flower.wire import Arrays, Settings
from anymix.problem.part_sums import Question, Sums

Array = NDArray[np.float64]
About = tuple[int, Question]  # the number of a fold, and what is asked about the rows that it fits

__all__ = ["About", "join_answers", "n_numbers", "pack_questions", "split_answers", "unpack"]


def pack_questions(questions: Sequence[About]) -> tuple[Arrays, Settings]:
    """The questions as one vector, and the rest as JSON can say it.

    Examples
    --------
    >>> first = Question(np.zeros(2), np.array([0.5]), ("losses",))
    >>> second = Question(np.ones(2), np.array([0.1, 0.2]), ("product",), step=np.ones(2))
    >>> found = unpack(*pack_questions([(3, first), (0, second)]))
    >>> [(number, q.want, q.weights.tolist()) for number, q in found]
    [(3, ('losses',), [0.5]), (0, ('product',), [0.1, 0.2])]
    """
    numbers, forms = [], []
    for number, question in questions:
        arrays, rest = question.to_arrays()
        forms.append([number, {name: a.size for name, a in arrays.items()}, rest])
        numbers += list(arrays.values())
    return {"numbers": np.concatenate(numbers)}, {"questions": forms}


def unpack(arrays: Arrays, settings: Settings) -> list[About]:
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
