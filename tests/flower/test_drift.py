"""Epochs at the clients: corrected for what each one's rows have of their own, by the last sum."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flower.clients import Tampered
from flower.test_local_training import grid as modules
from flwr.app import Context
from numpy.typing import NDArray
from torch import nn

import anymix as ax
from anymix.flower import (
    AgnosticStrategy,
    Judging,
    Limits,
    LocalGrid,
    Privacy,
    Steps,
    Sum,
    Work,
    client_app,
)
from anymix.flower.wire import record_of
from anymix.solvers.samplers import PerDomain

RNG = np.random.default_rng(0)
SLOPES = np.array([[2.0, 1, 0, 0], [0, 1, 2, 0], [-1, 0, 1, 2]])
X = RNG.normal(size=(3, 300, 4))
Y = np.einsum("kij,kj->ki", X, SLOPES) + RNG.logistic(size=(3, 300)) > 0
GAMMA = 1e-3
DOMAINS = np.repeat(["a", "b", "c"], 300)
WHOLE = ax.LinearDomains(X.reshape(-1, 4), Y.ravel(), DOMAINS, intercept=False)


class Net(nn.Module):
    """The linear model of one score, in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1, bias=False, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score: torch.Tensor = self.layer(x)[:, 0]
        return score


def loss(score: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(score, y, reduction="none")


def load(context: Context) -> tuple[Any, Any, Any]:
    """One client for each domain, and their slopes are far apart."""
    k = int(context.node_config["partition-id"])
    return torch.tensor(X[k]), torch.tensor(Y[k], dtype=torch.float64), ["abc"[k]] * 300


def above(w: NDArray[Any]) -> float:
    """How far Φ(w) is above the certified optimum."""
    best = ax.solve(WHOLE, gamma=GAMMA, tol=1e-9).objective
    return float(WHOLE.losses(w).max() + GAMMA / 2 * w @ w - best)


def train(steps: Steps, rounds: int, **options: Any) -> Any:
    strategy = AgnosticStrategy(
        ax.Objective(gamma=GAMMA), steps=steps, judging=Judging(output="last"), **options
    )
    return strategy.start(LocalGrid(client_app(load, Net, loss), 3), num_rounds=rounds)


def test_twenty_steps_a_round_end_at_the_optimum_and_not_beside_it() -> None:
    """1.9e-7 above it when measured; without the correction 8.2e-4, for ever."""
    assert above(train(Steps(0.5, 0.4), 60, work=Work(local_epochs=20)).w) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(("step", "most"), [(0.1, 1e-5), (0.5, 1e-4)])
def test_six_hundred_rounds(step: float, most: float) -> None:
    """1.2e-6 and 1.4e-6 when measured."""
    assert above(train(Steps(step, 0.05), 600, work=Work(local_epochs=20)).w) < most


def by_hand(rounds: int, J: int, s: float, s_mixture: float) -> NDArray[Any]:
    """v ← v − s (g_k(v) − g_k(w') + Σ_j λ'_j g_j(w') + γ v), and the mean of v by λ."""
    eye, w, mixture = np.eye(3), START, np.full(3, 1 / 3)
    correction = np.zeros((3, 4))
    for _ in range(rounds):
        own = np.array([WHOLE.gradient(w, e) for e in eye])
        models = np.zeros((3, 4))
        for k in range(3):
            v = w
            for _ in range(J):
                v = v - s * (WHOLE.gradient(v, eye[k]) + correction[k] + GAMMA * v)
            models[k] = v
        losses, correction = WHOLE.losses(w), mixture @ own - own
        w, mixture = mixture @ models, ax.Simplex(3).project(mixture + s_mixture * losses)
    return w


START = np.array([0.3, -0.2, 0.1, 0.4])


def test_the_correction_is_the_formula() -> None:
    strategy = AgnosticStrategy(
        ax.Objective(gamma=GAMMA),
        steps=Steps(0.3, 0.2),
        work=Work(local_epochs=4),
        judging=Judging(output="last"),
    )
    grid = LocalGrid(client_app(load, Net, loss), 3)
    start = record_of({"layer.weight": START.reshape(1, 4)})
    result = strategy.start(grid, start, num_rounds=5)
    np.testing.assert_allclose(result.w, by_hand(5, 4, 0.3, 0.2), atol=1e-10)


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "steps": Steps(0.3, 0.1),
        "work": Work(PerDomain(8), local_epochs=2),
    }
    path = tmp_path / "run.npz"
    AgnosticStrategy(checkpoint=path, **options).start(modules(), num_rounds=2)
    resumed = AgnosticStrategy(checkpoint=path, **options).start(modules(), num_rounds=4)
    calm = AgnosticStrategy(**options).start(modules(), num_rounds=4)
    assert resumed.w.tobytes() == calm.w.tobytes()


@pytest.mark.parametrize("private", [True, False])
def test_no_plain_sum_goes_out_where_noise_is_promised(private: bool) -> None:
    """Clients would see the sum of the gradients without the noise."""
    noise = Privacy(1.0, 1.0, update_noise=1.0, loss_noise=1.0, seed=0)
    result = train(
        Steps(0.1, 0.1), 3, work=Work(local_epochs=2), aggregation=noise if private else Sum()
    )
    sent = [r["bytes_sent"] for r in result.history]
    grown = [b > a for a, b in pairwise(sent)]
    assert grown == [not private, False]


def test_a_client_cannot_pull_all_others_by_a_long_gradient() -> None:
    def lie(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        arrays["update"] = 1e9 * arrays["update"]

    grid = LocalGrid(Tampered(client_app(load, Net, loss), 1, lie), 3)
    strategy = AgnosticStrategy(
        steps=Steps(0.1, 0.1), work=Work(local_epochs=2), limits=Limits(update=1.0)
    )
    result = strategy.start(grid, num_rounds=3)
    assert np.linalg.norm(result.w) < 3.0
    assert all(r["clipped"] >= 1 for r in result.history)
