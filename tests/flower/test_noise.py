"""Noise that the client owns: what it costs, what it hides, and what is left to learn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flower.limited import Curious, D, Table, hospitals, limits_in, part
from flwr.app import ArrayRecord
from numpy.typing import NDArray
from scipy.special import expit

import anymix as ax
from anymix.errors import InputError
from anymix.flower import AgnosticStrategy, Noise, Patience, federated_solve
from anymix.flower.client_errors import CannotAnswerError, RefusedError
from anymix.flower.client_limits import Ledger
from anymix.flower.client_rows import LinearRows
from anymix.flower.noise import UNIT
from anymix.flower.wire import EVALUATE, MOMENTS, SOLVE, TRAIN
from anymix.problem.part_sums import Question

Array = NDArray[np.float64]
GAMMA = 1e-2


def asked(weights: Any = (0.02, 0.01, 0.005, 1.0, 1.0, 1.0), **changed: Any) -> dict[str, Any]:
    usual = {"seed": 0, "round": 1, "batch_size": 0, "local_epochs": 0, "step": 1.0, "gamma": 0.0}
    usual["corrects"] = False
    return {**usual, "weights": np.array(weights), **changed}


def rows_of(rows: Table) -> LinearRows:
    return LinearRows(ax.LinearDomains(*rows, classes=[0, 1]))


# -- the price --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "questions"), [(4.0, 1e-5, 60), (8.0, 1e-5, 20), (0.5, 1e-6, 1)]
)
def test_a_whole_ledger_costs_what_was_promised(
    epsilon: float, delta: float, questions: int
) -> None:
    noise = Noise(epsilon, delta)
    assert noise.spent(questions, questions) == pytest.approx(epsilon, abs=1e-3)
    assert noise.spent(questions, 2 * questions) < epsilon


def test_the_ledger_has_what_the_accountant_is_asked(tmp_path: Path) -> None:
    limits = limits_in(tmp_path, questions=5, noise=Noise(2.0))
    server = Curious(hospitals(2, limits))
    while not server.refusals:
        server.ask(TRAIN, {"w": np.zeros(D)}, asked())
    assert server.refusals == {"limits.questions"}
    [(questions, _)] = set(Ledger(limits.ledger).spent().values())
    assert Noise(2.0).spent(questions, 5) == pytest.approx(2.0, abs=1e-3)


# -- the sums ---------------------------------------------------------------------------------


def test_the_sums_without_noise_are_those_of_clipped_rows() -> None:
    X, y, d = part(0, 6)
    w, a, clip = np.random.default_rng(0).normal(size=D) / 5, np.array([1.0, 0.5, 0.25]), 1.5
    sums = Noise(1.0, loss_clip=0.5)._sums(rows_of((X, y, d)), w, a, clip) / UNIT
    Z, k = np.c_[X, np.ones(len(X))], np.unique(d, return_inverse=True)[1]
    z = Z @ w
    G = (expit(z) - y)[:, None] * Z
    length = np.linalg.norm(G, axis=1)
    assert 0 < np.mean(length > clip) < 1  # some are clipped, and some are not
    G = G / np.maximum(length, clip)[:, None] * a[k][:, None]
    losses = np.minimum(np.logaddexp(0, z) - y * z, 0.5) / 0.5
    assert 0 < np.mean(losses == 1) < 1
    assert np.abs(sums[:D] - G.sum(axis=0)).max() < len(X) * 1.1 / UNIT
    assert np.abs(sums[D:] - np.bincount(k, losses)).max() < len(X) * 1.1 / UNIT


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_no_row_moves_the_sums_further_than_the_noise_covers(scale: float) -> None:
    X, y, d = part(0, 6)
    noise, w, a = Noise(1.0, loss_clip=0.1), np.ones(D), np.ones(3)
    whole = noise._sums(rows_of((scale * X, y, d)), w, a, 1.0)
    for i in range(0, len(y), 7):
        kept = np.arange(len(y)) != i
        less = noise._sums(rows_of((scale * X[kept], y[kept], d[kept])), w, a, 1.0)
        moved = [int(v) for v in whole - less]  # Python's integers: exact
        assert sum(v * v for v in moved) <= 2 * UNIT**2


def test_the_noise_is_as_large_as_it_says() -> None:
    rows, noise = rows_of(part(0, 6)), Noise(4.0, row_clip=2.0, loss_clip=3.0)
    w, many = np.zeros(D), 400
    replies = [noise.answer(rows, w, asked(), 60) for _ in range(many)]
    updates = np.array([r[0]["update"] for r in replies])
    losses = np.array([r[1]["sums"][:3] for r in replies])
    deviation = math.sqrt(2) * noise.multiplier(60)
    exact = noise._sums(rows, w, np.array([1.0, 0.5, 0.25]), 2.0) / UNIT
    for values, unit, mean in (
        (updates, 2.0 * 0.02, exact[:D]),
        (losses, 3.0, exact[D:]),
    ):
        found = values / unit
        assert np.std(found - mean) == pytest.approx(deviation, rel=0.1)
        error = 5 * deviation / math.sqrt(many)
        assert np.abs(found.mean(axis=0) - mean).max() < error
        steps = found * UNIT
        assert np.abs(steps - np.round(steps)).max() < 1e-3  # whole numbers, of no float


def test_the_same_question_gets_other_noise(tmp_path: Path) -> None:
    server = Curious(hospitals(2, limits_in(tmp_path, noise=Noise(4.0))))
    first, second = (server.ask(TRAIN, {"w": np.zeros(D)}, asked()) for _ in range(2))
    assert first is not None
    assert second is not None
    assert not np.array_equal(first[0]["update"], second[0]["update"])


# -- what a message cannot do -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "arrays", "settings", "refusal"),
    [
        (EVALUATE, {"w": np.zeros(D)}, {"held": False}, "limits.noise"),
        (MOMENTS, {}, {"products": False}, "limits.noise"),
        (SOLVE, *Question(np.zeros(D), np.ones(3), ("losses",)).to_arrays(), "limits.noise"),
        (TRAIN, {"w": np.zeros(D)}, asked(batch_size=1), "limits.kinds"),
        (TRAIN, {"w": np.full(D, np.nan)}, asked(), "failed"),
        (TRAIN, {"w": np.zeros(D)}, asked(np.full(6, np.nan)), "failed"),
        (TRAIN, {"w": np.zeros(D)}, asked(-np.ones(6)), "failed"),
    ],
    ids=["losses", "columns", "solve", "a batch", "no w", "no weights", "negative weights"],
)
def test_nothing_goes_out_without_noise(
    kind: str, arrays: Any, settings: Any, refusal: str, tmp_path: Path
) -> None:
    server = Curious(hospitals(2, limits_in(tmp_path, noise=Noise(4.0))))
    assert server.ask(kind, arrays, settings) is None
    assert server.refusals == {refusal}


def test_a_message_does_not_change_the_noise(tmp_path: Path) -> None:
    server = Curious(hospitals(2, limits_in(tmp_path, noise=Noise(4.0))))
    loud = {"noise": 0.0, "epsilon": 1e9, "update_noise": 0.0, "seed": 0, "questions": 10**9}
    found = server.ask(TRAIN, {"w": np.zeros(D)}, asked(**loud))
    assert found is not None
    losses, counts = found[0]["sums"].reshape(2, 3)
    assert np.abs(losses - np.log(2) * counts).max() > 0.1 * Noise(4.0).multiplier(60)


@pytest.mark.parametrize("length", [1e3, 1e160, 1e308])
def test_no_model_is_refused_by_what_the_rows_are(length: float, tmp_path: Path) -> None:
    """A limit in the client's own spreads would tell them, without noise."""
    server = Curious(hospitals(2, limits_in(tmp_path, noise=Noise(4.0))))
    found = server.ask(TRAIN, {"w": np.full(D, length)}, asked())
    assert found is not None
    assert all(np.isfinite(a["update"]).all() and np.isfinite(a["sums"]).all() for a in found)


def test_exact_answers_and_noisy_ones_are_not_given_of_one_ledger(tmp_path: Path) -> None:
    federated_solve(hospitals(2, limits_in(tmp_path)), gamma=0.1, tol=1e-2)
    for noise in (Noise(4.0), Noise(8.0)):
        server = Curious(hospitals(2, limits_in(tmp_path, noise=noise)))
        assert server.ask(TRAIN, {"w": np.zeros(D)}, asked()) is None
        assert server.refusals == {"limits.noise"}


def test_a_solver_is_told_which_limit_it_is(tmp_path: Path) -> None:
    with pytest.raises(RefusedError) as raised:
        federated_solve(hospitals(2, limits_in(tmp_path, noise=Noise(4.0))))
    assert raised.value.argument == "limits.noise"


def test_rows_of_several_domains_have_no_clip() -> None:
    X, y, _ = part(0, 6)
    rows = rows_of((X, y, np.full((len(y), 2), 0.5)))
    with pytest.raises(InputError) as raised:
        Noise(1.0)._sums(rows, np.zeros(D), np.ones(2), 1.0)
    assert raised.value.argument == "domains"
    assert not isinstance(raised.value, CannotAnswerError)


@pytest.mark.parametrize(
    ("name", "value"),
    [("epsilon", 0.0), ("delta", 0.0), ("delta", 1.0), ("row_clip", -1.0), ("loss_clip", np.inf)],
)
def test_numbers_that_promise_nothing(name: str, value: float) -> None:
    with pytest.raises(InputError) as raised:
        Noise(**{"epsilon": 1.0, name: value})
    assert raised.value.argument == name


def test_it_takes_sparse_rows_and_several_classes() -> None:
    from scipy import sparse

    X, _, d = part(0, 6)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    W = np.random.default_rng(0).normal(size=3 * D) / 5
    dense, thin = (
        LinearRows(ax.LinearDomains(table, y, d, classes=[0, 1, 2]))
        for table in (X, sparse.csr_array(X))
    )
    found, same = (Noise(1.0)._sums(rows, W, np.ones(3), 1.0) for rows in (dense, thin))
    assert np.abs(found - same).max() <= len(X)
    exact, _ = dense.gradient(W, *dense.table.draw(np.ones(3, bool), 0, [0]), np.ones(3), [0])
    free = Noise(1.0)._sums(dense, W, np.ones(3), 1e3)[: 3 * D] / UNIT * 1e3
    assert np.abs(free - exact).max() < len(X) * 1e3 / UNIT


# -- what can be learnt -------------------------------------------------------------------------


def ward(i: int, n: int = 2000) -> Table:
    """Three domains whose slopes differ, and 20 columns."""
    rng = np.random.default_rng(i)
    k = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    slopes = np.random.default_rng(99).normal(size=(3, 20)) * 0.7
    X = rng.normal(size=(n, 20))
    y = np.einsum("ij,ij->i", X, slopes[k]) + rng.logistic(size=n) > 0
    return X, y.astype(int), np.array(["a", "b", "c"])[k]


def excess(parts: list[Table], epsilon: float, folder: Path, seeds: int) -> Array:
    """By how much models are worse than the best there is; every run draws noise of its own."""
    X, y, d = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    problem = ax.LinearDomains(X, y, d)
    best = ax.solve(problem, gamma=GAMMA).objective
    found = []
    for seed in range(seeds):
        limits = limits_in(folder / str(seed), noise=Noise(epsilon))
        grid = hospitals(len(parts), limits, parts)
        strategy = AgnosticStrategy(
            ax.Objective(gamma=GAMMA), patience=Patience("stop", min_clients=len(parts))
        )
        w = strategy.start(grid, num_rounds=60).w_best
        found.append(problem.losses(w).max() + GAMMA / 2 * np.sum(w[:-1] ** 2) - best)
        assert {q for q, _ in Ledger(limits.ledger).spent().values()} == {60}
    return np.array(found)


def test_small_clients_learn_something(tmp_path: Path) -> None:
    parts = [part(i, 6) for i in range(6)]
    assert np.mean(excess(parts, 8.0, tmp_path, seeds=2)) < 0.06


@pytest.mark.slow
def test_six_clients_of_95_rows(tmp_path: Path) -> None:
    parts = [part(i, 6) for i in range(6)]
    assert np.mean(excess(parts, 8.0, tmp_path, seeds=20)) < 0.045


@pytest.mark.parametrize("seeds", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_ten_clients_of_2000_rows(seeds: int, tmp_path: Path) -> None:
    assert np.mean(excess([ward(i) for i in range(10)], 4.0, tmp_path, seeds)) < 0.01


def test_a_run_with_noise_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    limits = limits_in(tmp_path, noise=Noise(8.0))
    grid = hospitals(3, limits)
    for rounds in (3, 6):
        strategy = AgnosticStrategy(ax.Objective(gamma=GAMMA), checkpoint=tmp_path / "run")
        result = strategy.start(grid, num_rounds=rounds)
    assert result.output == "average"
    assert len(result.history) == 6
    assert 0 < np.linalg.norm(result.w_best) < 30


def test_the_result_weighs_late_models_more(tmp_path: Path) -> None:
    models: list[Array] = []

    def keep(number: int, arrays: ArrayRecord) -> None:
        models.append(arrays["w"].numpy())

    grid = hospitals(2, limits_in(tmp_path, noise=Noise(8.0)))
    result = AgnosticStrategy(ax.Objective(gamma=GAMMA)).start(grid, num_rounds=5, evaluate_fn=keep)
    late = np.average(models, axis=0, weights=np.arange(1, 6))
    assert np.allclose(result.w_best, late, atol=1e-12)
