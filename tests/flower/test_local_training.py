"""The client's side: its own optimizer, device, precision, frozen parameters, epochs, configs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from flower.clients import app_of, grid_of, spread, table
from flwr.app import ConfigRecord
from torch import nn

from anymix.errors import InputError
from anymix.flower import (
    AgnosticStrategy,
    Judging,
    LocalGrid,
    LocalTraining,
    MissingClientsError,
    Steps,
    Work,
    client_app,
)
from anymix.flower.torch_rows import ModuleRows, first_weights
from anymix.solvers.samplers import PerDomain


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))


def half_frozen() -> nn.Module:
    torch.manual_seed(7)
    model = mlp()
    for p in model[0].parameters():  # type: ignore[index]
        p.requires_grad = False
    return model


def grid(model: Any = mlp, local: LocalTraining | None = None, how: str = "parts") -> LocalGrid:
    X, y, domains = table()
    parts = spread(how, domains)
    return LocalGrid(app_of(X, y, domains, parts, model=model, local=local), len(parts))


def by_hand(rounds: int, epochs: int, lr: float) -> Any:
    """One client with all rows, whose Adam makes so many whole-batch steps in each round."""
    X, y, domains = table()
    first = first_weights(mlp, 0)
    model = mlp()
    model.load_state_dict({name: torch.tensor(a) for name, a in first.items()})
    inputs, target = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    _, codes, sizes = np.unique(domains, return_inverse=True, return_counts=True)
    weights = torch.tensor(len(y) / 3 / sizes[codes], dtype=torch.float32)  # λ = 1/3 each
    for _ in range(rounds):
        optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        for _ in range(epochs):
            optimizer.zero_grad()
            losses = nn.functional.cross_entropy(model(inputs), target, reduction="none")
            (weights * losses).mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach().numpy()


def test_epochs_by_the_clients_own_optimizer_against_a_hand_written_loop() -> None:
    """step_w=1 takes the mean of the clients' models: here, of one client with all rows."""
    seen: list[dict[str, Any]] = []

    def adam(parameters: Any, config: Any) -> torch.optim.Optimizer:
        seen.append(dict(config))
        return torch.optim.Adam(parameters, lr=config["lr"])

    X, y, domains = table()
    local = LocalTraining(optimizer=adam)
    app = app_of(X, y, domains, [np.arange(len(y))], model=mlp, local=local)
    strategy = AgnosticStrategy(
        steps=Steps(1.0, 0.0), work=Work(local_epochs=3), judging=Judging(output="last")
    )
    config = ConfigRecord({"lr": 0.05})
    result = strategy.start(LocalGrid(app, 1), num_rounds=2, train_config=config)
    np.testing.assert_allclose(result.w, by_hand(2, 3, 0.05), atol=1e-5)
    assert seen == [{"lr": 0.05}, {"lr": 0.05}]


def test_epochs_learn_on_many_clients() -> None:
    strategy = AgnosticStrategy(
        steps=Steps(1.0, 0.05), work=Work(local_epochs=2, sampler=PerDomain(8))
    )
    config = ConfigRecord({"step": 0.3})
    result = strategy.start(grid(), num_rounds=15, train_config=config)
    losses = [r["agnostic_loss"] for r in result.history]
    assert min(losses) < losses[0] - 0.01
    again = AgnosticStrategy(
        steps=Steps(1.0, 0.05), work=Work(local_epochs=2, sampler=PerDomain(8))
    ).start(grid(), num_rounds=15, train_config=config)
    assert again.w.tobytes() == result.w.tobytes()


def test_an_evaluate_config_is_used_or_refused() -> None:
    strategy = AgnosticStrategy(steps=Steps(0.3, 0.1), judging=Judging(hold_out=0.3, every=1))
    plain = strategy.start(grid(), num_rounds=2)
    small = strategy.start(grid(), num_rounds=2, evaluate_config=ConfigRecord({"chunk": 3}))
    np.testing.assert_allclose(
        [r["held_out_worst"] for r in small.history], [r["held_out_worst"] for r in plain.history]
    )
    with pytest.raises(InputError, match=r"evaluate_config has \['lr'\]"):
        strategy.start(grid(), num_rounds=1, evaluate_config=ConfigRecord({"lr": 1.0}))


def test_frozen_parameters_are_neither_sent_nor_changed() -> None:
    result = AgnosticStrategy(steps=Steps(0.3, 0.1)).start(grid(half_frozen), num_rounds=3)
    assert list(result.arrays) == ["2.weight", "2.bias"]
    assert result.w.shape == (4 * 2 + 2,)
    X, y, domains = table()
    rows = ModuleRows(half_frozen(), None, X, y, domains)
    before = rows.module[0].weight.clone()  # type: ignore[index]
    value, change = rows.losses(result.w_best), np.zeros(10)
    change[3] = 1e-3
    a = np.ones(3) / len(y)
    every = rows.table.draw(np.ones(3, dtype=bool), 0, [0])[1]
    gradient, _ = rows.gradient(result.w_best, None, every, a, [0])
    slope = (rows.losses(result.w_best + change).mean() - value.mean()) / 1e-3
    assert gradient[3] == pytest.approx(slope, abs=1e-3)
    assert torch.equal(before, rows.module[0].weight)  # type: ignore[index]


def test_other_frozen_parameters_are_another_model() -> None:
    X, y, domains = table()

    def other() -> nn.Module:
        model = half_frozen()
        with torch.no_grad():
            model[0].bias += 1  # type: ignore[index]
        return model

    kinds = {ModuleRows(m(), None, X, y, domains).kind for m in (half_frozen, half_frozen, other)}
    assert len(kinds) == 2


def test_frozen_parameters_that_every_client_draws_anew_are_named() -> None:
    (X, y, domains), rng = table(), np.random.default_rng(0)

    def unseeded() -> nn.Module:
        model = half_frozen()
        with torch.no_grad():
            model[0].bias += rng.random()  # type: ignore[index]
        return model

    grid = LocalGrid(client_app(lambda context: (X, y, domains), unseeded), 3)
    with pytest.raises(InputError, match="frozen parameters must be the same numbers"):
        AgnosticStrategy(steps=Steps(step_w=1.0), work=Work(local_epochs=1)).start(
            grid, num_rounds=1
        )


def test_a_model_without_anything_to_train_is_refused() -> None:
    X, y, domains = table()
    model = mlp()
    for p in model.parameters():
        p.requires_grad = False
    with pytest.raises(InputError, match=r"has .*no parameter"):
        ModuleRows(model, None, X, y, domains)


def test_mixed_precision_is_near_and_updates_stay_as_they_are() -> None:
    X, y, domains = table()
    a = np.ones(3) / len(y)
    found = {}
    for precision in (None, "bfloat16"):
        rows = ModuleRows(mlp(), None, X, y, domains, LocalTraining(precision=precision))
        every = rows.table.draw(np.ones(3, dtype=bool), 0, [0])[1]
        w = np.linspace(-1, 1, rows.n_parameters)
        found[precision] = rows.gradient(w, None, every, a, [0])
    for full, mixed in zip(found[None], found["bfloat16"], strict=True):
        assert mixed.dtype == np.float64
        np.testing.assert_allclose(full, mixed, atol=0.03)
        assert np.any(full != mixed)
    with pytest.raises(InputError, match="precision is 'float8'"):
        LocalTraining(precision="float8")


def test_the_device_is_the_clients() -> None:
    """No GPU is needed to see that it is asked for."""
    X, y, domains = table()
    assert LocalTraining().device == "cpu"
    with pytest.raises((AssertionError, RuntimeError, NotImplementedError)):
        ModuleRows(mlp(), None, X, y, domains, LocalTraining(device="no such device"))


def test_epochs_are_for_modules_and_need_a_step() -> None:
    with pytest.raises(InputError, match="local_epochs is 2, without a step_w"):
        AgnosticStrategy(work=Work(local_epochs=2))
    strategy = AgnosticStrategy(steps=Steps(1.0, 0.1), work=Work(local_epochs=2))
    with pytest.raises(MissingClientsError, match=r"client '\d': the question is for models"):
        strategy.start(grid_of(), num_rounds=1)
