"""What must be right from the start: the rows, the first weights, losses that make sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flower.clients import Tampered, app_of, grid_of, spread, table
from flwr.app import Array, ArrayRecord, Context
from torch import nn

import anymix as ax
from anymix.errors import InputError
from anymix.flower import (
    AgnosticStrategy,
    Judging,
    LocalGrid,
    MissingClientsError,
    Patience,
    Steps,
    client_app,
    federated_solve,
)

STEPS: dict[str, Any] = {"steps": Steps(0.3, 0.1)}


def test_one_app_on_two_grids_has_the_rows_of_each() -> None:
    """Rows were kept by run and node id, which all grids in one process shared."""
    X, y, domains = table()

    def load(context: Context) -> tuple[Any, Any, Any]:
        n, i = int(context.run_config["parts"]), int(context.node_config["partition-id"])
        return X[i::n], y[i::n], domains[i::n]

    app = client_app(load, classes=[0, 1])
    whole = ax.solve(ax.LinearDomains(X, y, domains))
    for n in (4, 2, 3, 4):
        grid = LocalGrid(app, n, run_config={"parts": n})
        solution = federated_solve(grid)
        assert solution.sizes.sum() == len(y)
        assert solution.objective == pytest.approx(whole.objective, abs=1e-6)


def test_new_data_under_the_same_settings_are_seen_by_a_new_grid() -> None:
    y = np.array([0, 1, 1, 1])
    app = client_app(lambda context: (np.zeros((4, 1)), y, ["a"] * 4), classes=[0, 1])
    first = federated_solve(LocalGrid(app, 1), gamma=0.0)
    y[:] = [0, 0, 0, 1]
    second = federated_solve(LocalGrid(app, 1), gamma=0.0)
    assert first.w[-1] == pytest.approx(-second.w[-1], abs=1e-3)


def test_rows_are_loaded_once_in_a_run() -> None:
    times = 0

    def load(context: Context) -> tuple[Any, Any, Any]:
        nonlocal times
        times += 1
        return table()

    app = client_app(load, classes=[0, 1])
    AgnosticStrategy(**STEPS).start(LocalGrid(app, 2), num_rounds=5)
    assert times == 2


# -- first weights -------------------------------------------------------------------------------


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))


def module_grid(model: Any = mlp) -> LocalGrid:
    X, y, domains = table()
    parts = spread("parts", domains)
    return LocalGrid(app_of(X, y, domains, parts, model=model), len(parts))


def test_a_module_starts_at_its_own_weights_and_learns() -> None:
    """At 0 all its gradients but the last bias's are 0, for ever."""
    strategy = AgnosticStrategy(steps=Steps(0.5, 0.05), seed=3)
    result = strategy.start(module_grid(), num_rounds=40)
    losses = [r["agnostic_loss"] for r in result.history]
    assert min(losses) < losses[0] - 0.01
    torch.manual_seed(3)
    own = [p.detach().numpy() for p in mlp().parameters()]
    first: list[Any] = []
    AgnosticStrategy(steps=Steps(0.0, 0.0), seed=3).start(
        module_grid(), num_rounds=1, evaluate_fn=lambda t, a: first.append(a)
    )
    assert list(first[0]) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    for array, parameter in zip(first[0].values(), own, strict=True):
        np.testing.assert_array_equal(array.numpy(), parameter)


def test_first_weights_that_are_given_are_taken() -> None:
    zeros = {name: np.zeros(p.shape, "f4") for name, p in mlp().named_parameters()}
    record = ArrayRecord({name: Array(a) for name, a in zeros.items()})
    result = AgnosticStrategy(steps=Steps(0.0, 0.0)).start(module_grid(), record, 1)
    assert not np.any(result.w)


def test_a_module_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    options: dict[str, Any] = {"steps": Steps(0.5, 0.05)}
    AgnosticStrategy(checkpoint=path, **options).start(module_grid(), num_rounds=2)
    resumed = AgnosticStrategy(checkpoint=path, **options).start(module_grid(), num_rounds=4)
    calm = AgnosticStrategy(**options).start(module_grid(), num_rounds=4)
    assert resumed.w.tobytes() == calm.w.tobytes()
    assert list(resumed.arrays) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_running_means_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    """They are no parameters: they stayed with the clients, and the server's model had none."""

    def normed() -> nn.Module:
        return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))

    strategy = AgnosticStrategy(patience=Patience(deadline=0.2), **STEPS)
    with pytest.raises(MissingClientsError):
        strategy.start(module_grid(normed), num_rounds=1)
    assert "running means in '1'" in caplog.text

    def plain() -> nn.Module:
        norm = nn.BatchNorm1d(8, track_running_stats=False)
        return nn.Sequential(nn.Linear(2, 8), norm, nn.Linear(8, 2))

    AgnosticStrategy(**STEPS).start(module_grid(plain), num_rounds=1)


# -- losses --------------------------------------------------------------------------------------


def test_a_run_that_diverges_says_so_and_gives_no_model() -> None:
    """Squared loss and a long step: the loss was 1e40 after forty rounds, without a word."""
    X, y, domains = table()
    parts = spread("parts", domains)
    app = app_of(3 * X, y, domains, parts, loss=ax.SquaredError())
    strategy = AgnosticStrategy(steps=Steps(1.0, 0.1))
    with pytest.raises(InputError, match=r"step_w makes the run diverge: the loss of .*shorter"):
        strategy.start(LocalGrid(app, len(parts)), num_rounds=40)
    strategy = AgnosticStrategy(steps=Steps(0.02, 0.1))
    assert np.isfinite(strategy.start(LocalGrid(app, len(parts)), num_rounds=40).w).all()


@pytest.mark.parametrize("output", ["last", "average"])
@pytest.mark.parametrize("step", [1e3, 1e170])  # whose losses are huge, or no numbers
def test_a_last_step_that_is_too_long_gives_no_model_either(output: Any, step: float) -> None:
    """No round comes after it, whose losses would tell: the model was returned without a word."""
    X, y, domains = table()
    parts = spread("parts", domains)
    grid = LocalGrid(app_of(3 * X, y, domains, parts, loss=ax.SquaredError()), len(parts))
    strategy = AgnosticStrategy(steps=Steps(step, 0.1), judging=Judging(output=output))
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(InputError, match=r"step_w .*diverge: .* result"),
    ):
        strategy.start(grid, num_rounds=1)
    best = AgnosticStrategy(steps=Steps(1e3, 0.1)).start(grid, num_rounds=1)
    assert not best.w_best.any()  # the start is the best one


def test_a_client_alone_is_not_blamed_for_a_long_step() -> None:
    X, y, domains = table()
    app = app_of(X, y, domains, [np.arange(len(y))], loss=ax.SquaredError())
    strategy = AgnosticStrategy(steps=Steps(1e200, 0.1))
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(InputError, match=r"step_w .* in round 2 .* shorter"),
    ):
        strategy.start(LocalGrid(app, 1), num_rounds=3)


@pytest.mark.parametrize(("value", "told"), [(-1.0, "negative"), (1e200, "absurd")])
def test_losses_that_make_no_sense_are_rejected(value: float, told: str) -> None:
    def lie(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        settings["sums"][0] = value

    grid = grid_of("parts")
    grid.app = Tampered(grid.app, 2, lie)
    result = AgnosticStrategy(**STEPS).start(grid, num_rounds=3)
    assert told in result.excluded["2"]


def test_a_module_may_have_losses_below_zero() -> None:
    """A density can be above 1; only the losses of the linear model are never negative."""
    X, y, domains = table()
    parts = spread("parts", domains)

    def below(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output, target, reduction="none") - 5.0

    app = app_of(X, y, domains, parts, model=mlp, loss=below)
    result = AgnosticStrategy(**STEPS).start(LocalGrid(app, len(parts)), num_rounds=3)
    assert result.excluded == {}
    assert result.history[-1]["agnostic_loss"] < 0
