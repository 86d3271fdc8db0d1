from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from flower.clients import app_of, spread, table
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from torch import nn

import anymix as ax
from anymix.flower import AgnosticStrategy, LocalGrid, Steps, Work, client_app
from anymix.flower.client import answer, node_key
from anymix.flower.client_rows import DomainTable, LinearRows
from anymix.flower.torch_rows import ModuleRows
from anymix.flower.wire import TRAIN, pack
from anymix.solvers.samplers import FullBatch, PerDomain

STEPS: dict[str, Any] = {"steps": Steps(0.3, 0.1)}
TRAINING: dict[str, Any] = {
    "seed": 0,
    "round": 1,
    "batch_size": 0,
    "local_epochs": 0,
    "corrects": False,
    "step": 0.1,
    "gamma": 0.0,
}


def linear() -> tuple[LinearRows, ax.LinearDomains]:
    problem = ax.LinearDomains(*table())
    return LinearRows(problem), problem


def test_an_answer_is_sums_over_the_rows_of_the_domains_asked_for() -> None:
    rows, _ = linear()
    X, y, domains = table()
    w, a, b = np.array([0.3, -0.2, 0.5]), np.array([0.2, 0.0, 0.1]), np.array([0.0, 0.0, 2.0])
    arrays, settings = answer(rows, "7", w, {**TRAINING, "weights": np.concatenate([a, b])})
    z = X @ w[:2] + w[2]
    losses = np.log1p(np.exp(z)) - y * z
    slope = 1 / (1 + np.exp(-z)) - y
    row_weight = a[np.searchsorted(["chat", "mail", "web"], domains)]
    update = (row_weight * slope) @ np.column_stack([X, np.ones(len(X))])
    np.testing.assert_allclose(arrays["update"], update, rtol=1e-12)
    web = domains == "web"
    expected = [0, 0, 2 * losses[web].sum(), (domains == "chat").sum(), 0, web.sum()]
    np.testing.assert_allclose(settings["sums"], expected, rtol=1e-12)


def test_batches_are_unbiased_and_of_the_domains_asked_for() -> None:
    S = np.random.default_rng(0).random((30, 2))
    domains = DomainTable.of(30, S)
    asked = np.array([True, False])
    counts = np.zeros(30)
    for seed in range(3000):
        rows, shares = domains.draw(asked, 4, [seed])
        assert rows is not None
        assert set(shares.domains) == {0}
        assert shares.shares.sum() == pytest.approx(domains.sizes[0])
        counts += np.bincount(rows, weights=shares.shares, minlength=30)
    error = np.sqrt(domains.sizes[0] * S[:, 0] / 4 / 3000)  # of the mean of Poisson-like counts
    assert np.abs((counts / 3000 - S[:, 0]) / error).max() < 4.5


def test_batches_depend_on_the_key_the_round_and_the_seed_only() -> None:
    rows, _ = linear()
    weights = np.concatenate([np.full(3, 0.1), np.zeros(3)])

    def update(key: str, **options: Any) -> bytes:
        settings = {**TRAINING, "batch_size": 2, "weights": weights, **options}
        return answer(rows, key, np.zeros(3), settings)[0]["update"].tobytes()

    assert update("7") == update("7")
    others = [update("8"), update("7", seed=1), update("7", round=2)]
    assert len({update("7"), *others}) == 4


class Net(nn.Module):
    """Logistic regression with the parameters of the linear model, one score."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score: torch.Tensor = self.layer(x.double())[:, 0]
        return score


def bce(score: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(score, y.double(), reduction="none")


@pytest.mark.parametrize("sampler", [FullBatch(), PerDomain(3)])
def test_a_module_gives_the_numbers_of_the_linear_model(sampler: Any) -> None:
    X, y, domains = table()
    X = X.astype(np.float32).astype(np.float64)  # a module sees float32
    parts = spread("mixed", domains)
    start = ArrayRecord({"weight": Array(np.zeros((1, 2))), "bias": Array(np.zeros(1))})
    results = []
    for options in ({}, {"model": Net, "loss": bce}):
        grid = LocalGrid(app_of(X, y, domains, parts, **options), len(parts))
        strategy = AgnosticStrategy(work=Work(sampler=sampler), **STEPS)
        results.append(strategy.start(grid, start, num_rounds=10))
    np.testing.assert_allclose(results[0].w, results[1].w, atol=1e-9)
    np.testing.assert_allclose(results[0].mixture, results[1].mixture, atol=1e-9)


def test_a_deep_module_in_float32_learns() -> None:
    X, y, domains = table(300)
    parts = spread("mixed", domains)

    def model() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))

    record = ArrayRecord(dict(model().named_parameters()))

    def train() -> Any:
        grid = LocalGrid(app_of(X, y, domains, parts, model=model), len(parts))
        strategy = AgnosticStrategy(ax.Point([0.5, 0.3, 0.2]), steps=Steps(1.0, 0.0))
        return strategy.start(grid, record, num_rounds=20)

    result = train()
    losses = [record["agnostic_loss"] for record in result.history]
    assert np.mean(losses[-5:]) < losses[0] - 0.05
    assert {name: a.dtype for name, a in result.arrays.items()} == dict.fromkeys(record, "float32")
    model().load_state_dict(result.arrays.to_torch_state_dict())  # fits
    np.testing.assert_array_equal(result.w, train().w)  # dropout draws from the run's seed


def test_a_module_works_through_its_rows_in_chunks() -> None:
    X, y, domains = table()
    weights = np.concatenate([np.full(3, 0.1), np.ones(3)])
    replies = [
        answer(
            ModuleRows(Net(), bce, X, y, domains, chunk=chunk),
            "0",
            np.array([0.1, 0.2, 0.3]),
            {**TRAINING, "weights": weights},
        )
        for chunk in (7, 4096)
    ]
    np.testing.assert_allclose(replies[0][0]["update"], replies[1][0]["update"], rtol=1e-12)
    np.testing.assert_allclose(replies[0][1]["sums"], replies[1][1]["sums"], rtol=1e-12)


def context(**node_config: Any) -> Context:
    return Context(1, 2, node_config, RecordDict(), {})


def test_a_client_is_known_by_its_key_or_partition() -> None:
    assert node_key(context(**{"partition-id": 3})) == "3"
    assert node_key(context(key="north", **{"partition-id": 3})) == "north"
    with pytest.raises(ValueError, match="needs a 'key'"):
        node_key(context(color="red"))


def test_keys_of_the_users_own() -> None:
    X, y, domains = table()
    parts = spread("mixed", domains)
    app = app_of(X, y, domains, parts, key=lambda c: f"site {c.node_config['partition-id']}")
    strategy = AgnosticStrategy(**STEPS)
    strategy.start(LocalGrid(app, 5), num_rounds=1)
    assert [m.key for m in strategy._run.now.roster.members] == [f"site {i}" for i in range(5)]


@pytest.mark.parametrize(("keep", "loads"), [(True, 2), (False, 12)])
def test_rows_are_loaded_once_if_kept(keep: bool, loads: int) -> None:
    count = 0

    def load(context: Context) -> Any:
        nonlocal count
        count += 1
        return [[0.0], [1.0]], [0, 1], ["a", "b"]

    AgnosticStrategy(**STEPS).start(LocalGrid(client_app(load, keep=keep), 2), num_rounds=3)
    assert count == loads


def log_of(caplog: pytest.LogCaptureFixture, app: Any, **settings: Any) -> str:
    """What the client's log says of a question that it cannot answer."""
    grid = LocalGrid(app, 1)
    content = pack({"w": settings.pop("w")}, {**TRAINING, **settings})
    caplog.clear()
    [reply] = grid.send_and_receive([Message(content, grid.get_node_ids()[0], TRAIN)])
    assert reply.has_error()
    return caplog.text


def test_mistakes_are_in_the_clients_log_by_name(caplog: pytest.LogCaptureFixture) -> None:
    ask = partial(log_of, caplog)
    X, y, domains = table()
    parts = [np.arange(90)]
    weights = np.ones(6)
    assert "w has shape (5,)" in ask(app_of(X, y, domains, parts), w=np.zeros(5), weights=weights)
    module = app_of(X, y, domains, parts, model=Net, loss=bce)
    assert "w has shape (5,)" in ask(module, w=np.zeros(5), weights=weights)
    mean = app_of(X, y, domains, parts, model=Net, loss=lambda z, t: bce(z, t).mean())
    assert 'reduction="none"' in ask(mean, w=np.zeros(3), weights=weights)


def test_one_class_only_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    def load(context: Context) -> Any:
        return [[0.0], [1.0]], [1, 1], ["a", "b"]

    text = log_of(caplog, client_app(load), w=np.zeros(2), weights=np.ones(4))
    assert "classes=" in text


def test_a_first_step_by_hand() -> None:
    """One row a client: w_1 = −γ_w Σ λ_k (σ(0) − y) x, λ_1 = λ_0, for the losses are equal."""
    X, y, domains = np.array([[1.0], [3.0]]), np.array([1, 0]), np.array(["a", "b"])
    grid = LocalGrid(app_of(X, y, domains, [np.array([0]), np.array([1])], intercept=False), 2)
    result = AgnosticStrategy(steps=Steps(0.1, 0.1)).start(grid, num_rounds=1)
    assert result.w == pytest.approx([-0.1 * (0.5 * -0.5 * 1.0 + 0.5 * 0.5 * 3.0)])
    assert result.mixture.tolist() == [0.5, 0.5]
    central = ax.stochastic_afl(
        ax.LinearDomains(X, y, domains, intercept=False),
        sampler=FullBatch(),
        step_w=0.1,
        step_mixture=0.1,
    )
    assert result.w == pytest.approx(next(islice(central, 1)).w)
