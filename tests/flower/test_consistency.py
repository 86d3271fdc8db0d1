"""Clients whose answers contradict each other are named; honest ones never are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flower import solving
from flower.clients import Tampered, app_of
from flower.solving import LOSSES
from hypothesis import given, settings
from hypothesis import strategies as st

import anymix as ax
from anymix.errors import InputError
from anymix.flower import LocalGrid, federated_fit, federated_solve
from anymix.flower.consistency import Statements
from anymix.problem.part_sums import ABOUT, LOOK, PROOF, Question, answer

Sums = dict[str, Any]


def lie(name: str, change: Callable[[Any], Any]) -> Callable[[Sums, Sums], None]:
    """A change of one of the sums, wherever it is told."""

    def told(arrays: Sums, settings: Sums) -> None:
        if name in arrays:
            arrays[name] = change(arrays[name])

    return told


LIES = {
    "losses": lie("losses", lambda told: told + 1e6),
    "half a loss": lie("losses", lambda told: told / 2),
    "gradients": lie("jacobian", lambda told: -10 * told),
}


@pytest.mark.parametrize(
    ("name", "what"), [*(("binary", what) for what in LIES), ("squared", "gradients")]
)
def test_a_client_that_contradicts_itself_is_named(name: str, what: str) -> None:
    rows = solving.table(name)
    grid = solving.grid_of(rows, np.arange(len(rows[1])) % 4, LOSSES[name])
    grid.app = Tampered(grid.app, 2, LIES[what], "query.solve")
    with pytest.raises(InputError, match=r"client '2'.*contradict each other"):
        federated_solve(grid, gamma=1e-2)


def test_so_it_is_in_a_choice_of_models() -> None:
    rng = np.random.default_rng(0)
    X, domains = rng.normal(size=(90, 2)), np.arange(90) % 2
    app = app_of(X, (X[:, 0] > 0).astype(int), domains, np.array_split(np.arange(90), 3))

    def heavy(arrays: Sums, settings: Sums) -> None:
        if "sums" in arrays:
            arrays["sums"] = 3 * arrays["sums"]

    grid = LocalGrid(Tampered(app, 1, heavy, "query.folds"), 3)
    with pytest.raises(InputError, match=r"client '1'.*contradict each other"):
        federated_fit(grid, gammas=[0.1], robustness=[1.0], folds=2)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(LOSSES)),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-3, 1.0, 1e4]),
)
def test_honest_answers_never_contradict_each_other(name: str, seed: int, scale: float) -> None:
    X, y, domains = solving.table(name, n=30)
    rows = ax.LinearDomains(scale * np.asarray(X), y, domains, LOSSES[name])
    said, rng = Statements(), np.random.default_rng(seed)
    c, D, n_free = rng.dirichlet(np.ones(rows.n_domains)), rows.n_parameters, rows.n_scores
    points = [np.zeros(D), *(rng.normal(size=(5, D)) * rng.choice([1e-6, 1.0, 30.0], (5, 1)))]
    for w in points:
        questions = [Question(w, c, LOOK + ABOUT, n_free=n_free)]
        questions.append(Question(w, c, PROOF, 0.1 * rng.normal(size=D), 0.9, n_free))
        for question in questions:
            told = answer(rows, question)
            assert said.contradiction("me", rows.sizes, question, told) is None


def test_a_proof_cannot_leave_less_than_the_losses_told() -> None:
    rows = ax.LinearDomains(*solving.table("squared", n=30), ax.SquaredError())
    said, w, c = Statements(), np.zeros(rows.n_parameters), np.full(3, 0.1)
    look = Question(w, c, LOOK)
    assert said.contradiction("me", rows.sizes, look, answer(rows, look)) is None
    proof = Question(w, c, PROOF, np.ones(rows.n_parameters), 1.0, 1)
    told = answer(rows, proof)
    assert said.contradiction("me", rows.sizes, proof, told) is None
    told["conjugate"] = -1.1 * np.full(2, c @ (rows.losses(w) * rows.sizes))
    assert "a proof would have" in str(said.contradiction("me", rows.sizes, proof, told))
