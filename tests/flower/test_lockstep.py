"""Solvers side by side: questions in step, errors of one are errors of all, no thread is left."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import anymix as ax
from anymix.flower.folded_clients import side_by_side
from anymix.problem.part_sums import answer
from anymix.problem.parts import Parts


def test_each_gets_the_answers_that_it_would_get_alone() -> None:
    rng = np.random.default_rng(0)
    X, y, d = rng.normal(size=(80, 2)), rng.integers(0, 2, 80), np.arange(80) % 2
    whole = ax.LinearDomains(X, y, d)
    rounds = []

    def solving(gamma: float) -> Any:
        def task(ask: Any) -> Any:
            place = [np.arange(2)]
            return ax.solve(Parts(ask, place, whole.sizes, 3), gamma=gamma)

        return task

    def answers(asked: Any) -> Any:
        rounds.append(len(asked))
        return [[answer(whole, question) for question in questions] for questions in asked]

    found = side_by_side([solving(gamma) for gamma in (1.0, 0.1, 0.01)], answers)
    alone = [ax.solve(Parts.of([whole]), gamma=gamma) for gamma in (1.0, 0.1, 0.01)]
    assert [s.w.tolist() for s in found] == [s.w.tolist() for s in alone]
    assert rounds[0] == 3
    assert rounds == sorted(rounds, reverse=True)


def test_an_error_of_one_ends_all() -> None:
    def fails(ask: Any) -> None:
        ask(1)
        raise ValueError("no")

    before = threading.active_count()
    with pytest.raises(ValueError, match="no"):
        side_by_side([fails, lambda ask: [ask(i) for i in range(5)]], lambda asked: asked)
    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda ask: ask(1)] * 3, lambda asked: [1 // 0])
    assert threading.active_count() == before
    assert side_by_side([], lambda asked: asked) == []
