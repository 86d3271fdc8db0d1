"""Each trap of Flower, and each mistake of other implementations, as a test of this one."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import numpy as np
import pytest
from flower.clients import app_of, grid_of, spread, table
from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import Strategy

import anymix as ax
from anymix.flower import (
    AgnosticStrategy,
    LocalGrid,
    MissingClientsError,
    Patience,
    Steps,
    Sum,
    Work,
)
from anymix.solvers.samplers import FullBatch, Weighted

SIZES: dict[str, Any] = {"step_w": 0.3, "step_mixture": 0.3}
STEPS: dict[str, Any] = {"steps": Steps(**SIZES)}


class Slow(LocalGrid):
    """Of the clients, one more registers with every look."""

    looks = 0

    def get_node_ids(self) -> list[int]:
        self.looks += 1
        return super().get_node_ids()[: self.looks]


def slow_grid() -> Slow:
    X, y, domains = table()
    parts = spread("parts", domains)
    return Slow(app_of(X, y, domains, parts), len(parts))


def test_the_first_round_waits_for_all_that_were_announced() -> None:
    result = AgnosticStrategy(patience=Patience(min_clients=6), **STEPS).start(
        slow_grid(), num_rounds=2
    )
    assert [r["asked"] for r in result.history] == [6, 6]
    still = AgnosticStrategy(**STEPS).start(grid_of("parts"), num_rounds=2)
    np.testing.assert_array_equal(result.w, still.w)


def test_waiting_for_clients_ends() -> None:
    strategy = AgnosticStrategy(patience=Patience(min_clients=7, deadline=0.3), **STEPS)
    with pytest.raises(MissingClientsError, match="6 of 7 clients came"):
        strategy.start(grid_of("parts"), num_rounds=1)


@pytest.mark.parametrize("sampler", [FullBatch(), Weighted(2)])
def test_global_random_numbers_are_left_alone(sampler: Any) -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index] # noqa: NPY002
    first = AgnosticStrategy(work=Work(sampler=sampler), **STEPS).start(grid_of(), num_rounds=2)
    assert before == (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index] # noqa: NPY002
    random.seed(2)
    np.random.seed(2)  # noqa: NPY002
    second = AgnosticStrategy(work=Work(sampler=sampler), **STEPS).start(grid_of(), num_rounds=2)
    np.testing.assert_array_equal(first.w, second.w)


def test_it_is_a_strategy_with_a_loop_of_its_own() -> None:
    """Flower's loop begins at round 1 whatever happened before."""
    assert issubclass(AgnosticStrategy, Strategy)
    assert AgnosticStrategy.start is not Strategy.start


def test_survivors_do_not_change_the_mixture() -> None:
    """FedAvg would give a domain that lost a client the weight of its other clients only."""
    X, y = np.eye(4), np.array([1, 0, 1, 0])
    domains = np.array(["a", "a", "b", "b"])
    parts = [np.array([i]) for i in range(4)]
    app = app_of(X, y, domains, parts, intercept=False)

    class Losing(LocalGrid):
        def _push(self, message: Any) -> str:
            message_id = super()._push(message)
            here = self.contexts[message.metadata.dst_node_id].node_config["partition-id"]
            if here == 0 and message.metadata.message_type == "train":
                del self._replies[message_id]
            return message_id

    strategy = AgnosticStrategy(
        ax.Point([0.5, 0.5]),
        steps=Steps(1.0, 0.0),
        aggregation=Sum(min_share=0.5),
        patience=Patience("skip"),
    )
    result = strategy.start(Losing(app, 4), num_rounds=1, timeout=0.05)
    np.testing.assert_allclose(np.abs(result.w), [0, 0.25, 0.125, 0.125])  # domain a: 0.5 in all


def test_the_mixture_stays_in_its_set_in_every_round() -> None:
    """A simplex projection with an off-by-one left it by up to 0.88."""
    for mixtures in (
        ax.Simplex(3),
        ax.Box([0.1, 0, 0], [0.5, 0.6, 0.9]),
        ax.cvar([0.5, 0.3, 0.2], 0.5),
    ):
        strategy = AgnosticStrategy(mixtures, steps=Steps(0.5, 3.0))
        result = strategy.start(grid_of(), num_rounds=15)
        for record in result.history:
            assert mixtures.contains(np.array(record["mixture"]), tol=1e-12)
        assert mixtures.contains(result.mixture_average, tol=1e-12)


def test_the_mixture_weighs_the_updates() -> None:
    """An aggregation that reads λ and then ignores it would give the same model twice."""
    models = []
    X, y, domains = table()
    for k, name in enumerate(["chat", "mail", "web"]):
        strategy = AgnosticStrategy(ax.Point(np.eye(3)[k]), steps=Steps(1.0, 0.0))
        result = strategy.start(grid_of("mixed"), num_rounds=1)
        rows = domains == name
        alone = ax.LinearDomains(X[rows], y[rows], domains[rows]).gradient(np.zeros(3), [1.0])
        np.testing.assert_allclose(result.w, -alone, atol=1e-12)
        models.append(result.w)
    assert not np.allclose(models[0], models[1])


def test_every_client_moves_the_mixture() -> None:
    """A loss vector reset inside the loop over clients would show the last client only."""
    X = np.zeros((4, 1))
    y = np.array([2.0, 4.0, 0.0, 0.0])  # ½y²: 2 and 8 in domain a, 0 in b
    domains = np.array(["a", "a", "b", "b"])
    parts = [np.array([i]) for i in range(4)]
    grid = LocalGrid(app_of(X, y, domains, parts, loss=ax.SquaredError()), 4)
    result = AgnosticStrategy(steps=Steps(0.0, 0.01)).start(grid, num_rounds=1)
    assert result.history[0]["domain_losses"] == pytest.approx([5.0, 0.0])
    np.testing.assert_allclose(result.mixture, [0.525, 0.475])


@pytest.mark.parametrize("seed", range(5))
def test_the_mixture_is_indexed_by_domain_not_by_reply(seed: int) -> None:
    """Node ids, and with them the order of replies, differ; λ does not."""
    result = AgnosticStrategy(**STEPS).start(grid_of("domain", seed=seed), num_rounds=4)
    still = AgnosticStrategy(**STEPS).start(grid_of("domain", seed=99), num_rounds=4)
    assert result.domains == ("chat", "mail", "web")
    assert result.mixture.tobytes() == still.mixture.tobytes()
    assert result.w.tobytes() == still.w.tobytes()


def test_named_domains_give_their_order() -> None:
    strategy = AgnosticStrategy(
        domains=["web", "mail", "chat"], patience=Patience(deadline=1.0), **STEPS
    )
    turned = strategy.start(grid_of(), num_rounds=4)
    sorted_ = AgnosticStrategy(**STEPS).start(grid_of(), num_rounds=4)
    np.testing.assert_allclose(turned.mixture, sorted_.mixture[::-1], atol=1e-12)
    np.testing.assert_allclose(turned.w, sorted_.w, atol=1e-12)


def test_domains_named_by_numbers() -> None:
    """A client sorts 2 before 10, the names on the wire sort otherwise."""
    X, y, names = table()
    domains = np.select([names == "chat", names == "mail"], [2, 10], 7)
    parts = spread("mixed", names)
    grid = LocalGrid(app_of(X, y, domains, parts), len(parts))
    result = AgnosticStrategy(patience=Patience(deadline=1.0), **STEPS).start(grid, num_rounds=4)
    central = next(
        islice(
            ax.stochastic_afl(ax.LinearDomains(X, y, domains), sampler=FullBatch(), **SIZES), 3, 4
        )
    )
    assert result.domains == ("10", "2", "7")
    np.testing.assert_allclose(result.mixture, central.mixture[[2, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(result.w, central.w, atol=1e-12)


def test_earlier_iterates_are_not_overwritten() -> None:
    seen: list[Any] = []

    def look(number: int, arrays: Any) -> None:
        seen.append((strategy._run.players.w, strategy._run.players.adversary.mixture))
        copies.append(tuple(v.copy() for v in seen[-1]))

    copies: list[Any] = []
    strategy = AgnosticStrategy(**STEPS)
    result = strategy.start(grid_of(), num_rounds=5, evaluate_fn=look)
    for kept, copy in zip(seen, copies, strict=True):
        for a, b in zip(kept, copy, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(result.w_average, np.mean([w for w, _ in copies], axis=0))
    np.testing.assert_allclose(result.mixture_average, np.mean([m for _, m in copies], axis=0))


@pytest.mark.parametrize("n_clients", [1, 4, 9])
def test_the_regulariser_counts_once_however_many_clients(n_clients: int) -> None:
    """With rows of zeros only the regulariser moves w: (1 − γ_w γ) each step."""
    X, y = np.zeros((9, 2)), np.arange(9) % 2
    domains = np.array(["a", "b", "c"] * 3)
    parts = np.array_split(np.arange(9), n_clients)
    grid = LocalGrid(app_of(X, y, domains, parts, intercept=False), n_clients)
    start = ArrayRecord({"w": Array(np.array([1.0, -2.0]))})
    strategy = AgnosticStrategy(ax.Objective(gamma=0.4), steps=Steps(0.5, 0.1))
    result = strategy.start(grid, start, num_rounds=2)
    np.testing.assert_allclose(result.w, 0.8**2 * np.array([1.0, -2.0]))
