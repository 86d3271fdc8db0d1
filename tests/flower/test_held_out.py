"""Rows that clients keep out of training, to judge models by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flower.clients import app_of, grid_of, spread, table
from sklearn.datasets import load_digits

import anymix as ax
from anymix.errors import InputError
from anymix.flower import AgnosticStrategy, LocalGrid
from anymix.flower.client_data import number_of
from anymix.flower.held_out import split, take


def rows_of_all(fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """Which rows of the table clients train with and hold out, worked out here."""
    _, _, domains = table()
    train, held = [], []
    for i, part in enumerate(spread("parts", domains)):
        mine, others = split(domains[part], len(part), fraction, [seed, number_of(str(i)), 1])
        train += part[mine].tolist()
        held += part[others].tolist()
    return sorted(train), sorted(held)


def test_training_sees_the_other_rows_only() -> None:
    X, y, domains = table()
    train, held = rows_of_all(0.3, seed=5)
    assert sorted(train + held) == list(range(len(y)))
    result = AgnosticStrategy(
        step_w=0.3, step_mixture=0.1, hold_out=0.3, evaluate_every=2, seed=5
    ).start(grid_of("parts"), num_rounds=4)
    run = ax.stochastic_afl(
        ax.LinearDomains(X[train], y[train], domains[train]),
        sampler=ax.samplers.FullBatch(),
        step_w=0.3,
        step_mixture=0.1,
    )
    iterates = [next(run) for _ in range(4)]
    np.testing.assert_allclose(result.w, iterates[-1].w, atol=1e-12)
    rest = ax.LinearDomains(X[held], y[held], domains[held])
    for number in (2, 4):
        expected = rest.losses(iterates[number - 1].w)
        found = result.history[number - 1]["held_out_losses"]
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert "held_out_losses" not in result.history[0]


def test_a_part_of_every_domain_is_held_out() -> None:
    domains = np.array(["a"] * 20 + ["b"] * 7 + ["c"])
    train, held = split(domains, 28, 0.25, [1])
    names, counts = np.unique(domains[held], return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {"a": 5, "b": 1}
    assert set(domains[train]) == {"a", "b", "c"}
    again = split(domains, 28, 0.25, [1])
    assert again[0].tolist() == train.tolist()
    assert split(domains, 28, 0.25, [2])[1].tolist() != held.tolist()
    memberships = np.ones((8, 3)) / 3
    assert len(split(memberships, 8, 0.25, [0])[1]) == 2


def test_any_table_can_be_parted() -> None:
    pd = pytest.importorskip("pandas")
    from scipy import sparse

    rows, X = np.array([2, 0]), np.arange(6.0).reshape(3, 2)
    for values in (X, X.tolist(), pd.DataFrame(X), sparse.csc_array(X)):
        found = take(values, rows)
        dense = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
        np.testing.assert_array_equal(dense, X[rows])


def overfitting(**options: Any) -> tuple[Any, Any]:
    """Forty columns of noise and few rows: the longer one trains, the worse on new rows."""
    rng = np.random.default_rng(0)
    n = 240
    X, domains = rng.normal(size=(n, 40)), np.arange(n) % 2
    y = (X[:, 0] * (1 + domains) + rng.logistic(size=n) > 0).astype(int)
    parts = np.array_split(np.arange(200), 4)
    test = ax.LinearDomains(X[200:], y[200:], domains[200:])
    grid = LocalGrid(app_of(X, y, domains, parts), 4)
    strategy = AgnosticStrategy(step_w=1.0, step_mixture=0.1, **options)
    return strategy.start(grid, num_rounds=300), test


def test_the_best_model_on_rows_held_out_is_kept_and_the_run_stops() -> None:
    plain, test = overfitting()
    careful, _ = overfitting(hold_out=0.25, evaluate_every=5, stop_after=6)
    assert len(careful.history) < 300
    judged = {r["round"]: r["held_out_worst"] for r in careful.history if "held_out_worst" in r}
    first_of_last_six = sorted(judged)[-6]
    assert min(judged.values()) == min(v for t, v in judged.items() if t < first_of_last_six)
    assert test.losses(careful.w_best).max() < test.losses(plain.w_best).max()


def test_a_stopped_run_and_its_best_model_survive_a_restart(tmp_path: Path) -> None:
    options: dict[str, Any] = {"hold_out": 0.3, "evaluate_every": 2, "seed": 1}
    path = tmp_path / "run.npz"
    AgnosticStrategy(checkpoint=path, **options).start(grid_of("parts"), num_rounds=5)
    resumed = AgnosticStrategy(checkpoint=path, **options).start(grid_of("parts"), num_rounds=9)
    calm = AgnosticStrategy(**options).start(grid_of("parts"), num_rounds=9)
    assert resumed.w_best.tobytes() == calm.w_best.tobytes()
    assert [r.get("held_out_worst") for r in resumed.history] == [
        r.get("held_out_worst") for r in calm.history
    ]


def test_stopping_needs_rows_held_out() -> None:
    with pytest.raises(InputError, match=r"stop_after is 3; give hold_out=0.2 too"):
        AgnosticStrategy(stop_after=3)
    with pytest.raises(InputError, match=r"hold_out is 1\.0"):
        AgnosticStrategy(hold_out=1.0)


def digits_run(agnostic: bool, rounds: int, **options: Any) -> tuple[float, float]:
    """Worst-domain losses on training and test rows of an MLP on few digits, FedAvg or agnostic."""
    import torch
    from torch import nn

    data = load_digits()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(data.target))
    X, y = (data.data[order] / 16).astype(np.float32), data.target[order]
    domains = np.digitize(y, [3, 7])
    wrong = (rng.random(len(y)) < 0.2) & (np.arange(len(y)) < 150)
    y = np.where(wrong, rng.integers(10, size=len(y)), y)  # so that one can learn too much
    train, test = slice(0, 150), slice(150, None)
    parts = np.array_split(np.arange(150), 5)

    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    grid = LocalGrid(app_of(X, y, domains, parts, model=mlp), 5)
    mixtures = None if agnostic else (lambda sizes: ax.Point(sizes / sizes.sum()))
    result = AgnosticStrategy(mixtures, seed=0, **options).start(grid, num_rounds=rounds)
    module = mlp()
    state = {name: torch.tensor(a.numpy()) for name, a in result.arrays.items()}
    module.load_state_dict(state)
    with torch.no_grad():
        losses = nn.functional.cross_entropy(
            module(torch.tensor(X)), torch.tensor(y), reduction="none"
        ).numpy()

    def worst(rows: slice) -> float:
        return max(float(losses[rows][domains[rows] == k].mean()) for k in range(3))

    return worst(train), worst(test)


@pytest.mark.slow
def test_an_mlp_trained_agnostically_is_no_worse_on_test_rows() -> None:
    """Measured: .87 for FedAvg, .89 chosen by the training rows, .78 by rows held out."""
    average = digits_run(False, 200, output="last")
    by_training_rows = digits_run(True, 200)
    agnostic = digits_run(True, 200, hold_out=0.2, evaluate_every=5)
    assert by_training_rows[0] <= average[0]
    assert by_training_rows[1] > average[1]
    assert agnostic[1] <= average[1]
