"""Many clients, of which few are asked: what is not asked costs next to nothing."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from flower.clients import holdings_of
from flwr.app import Array, ArrayRecord, Context
from numpy.typing import NDArray

import anymix as ax
from anymix.errors import InputError
from anymix.flower import (
    AgnosticStrategy,
    Judging,
    LocalGrid,
    Steps,
    Work,
    client_app,
    training_run,
)
from anymix.flower.client_rows import LinearRows
from anymix.flower.members import Members
from anymix.flower.roster import Member, Roster
from anymix.flower.training_round import row_weights
from anymix.flower.training_run import ModelArrays
from anymix.solvers.samplers import FullBatch, PerDomain, Weighted


def phones(n: int, p: int, rows: int = 6, **options: Any) -> tuple[LocalGrid, list[int]]:
    """Clients of two domains each, and who has loaded its rows."""
    loaded: list[int] = []

    def names(i: int) -> list[str]:
        return [f"domain {(7 * i + j) % p:04}" for j in range(2)]

    def load(context: Context) -> tuple[Any, Any, Any]:
        i = int(context.node_config["partition-id"])
        loaded.append(i)
        rng = np.random.default_rng(i)
        return rng.normal(size=(rows, 3)), np.arange(rows) % 2, np.repeat(names(i), rows // 2)

    def describe(context: Context) -> tuple[dict[str, int], int]:
        counts = dict.fromkeys(names(int(context.node_config["partition-id"])), rows // 2)
        return counts, 3

    if options.pop("described", True):
        options["describe"] = describe
    return LocalGrid(client_app(load, classes=[0, 1], **options), n), loaded


def test_the_first_round_does_not_load_everybody() -> None:
    grid, loaded = phones(300, 20)
    strategy = AgnosticStrategy(
        steps=Steps(0.1, 0.01),
        work=Work(sampler=Weighted(2), clients_per_round=4),
        judging=Judging(output="last"),
    )
    strategy.start(grid, num_rounds=3)
    assert 0 < len(set(loaded)) <= 3 * 8


@pytest.mark.parametrize("hold_out", [0.0, 0.34])
def test_a_description_is_as_good_as_the_rows(hold_out: float) -> None:
    """The same members, whether they loaded or not, and the same run."""
    rosters, results = [], []
    for described in (True, False):
        grid, _ = phones(12, 5, described=described)
        rosters.append(Members(grid, settings={"hold_out": [hold_out, 0]}).look())
        strategy = AgnosticStrategy(steps=Steps(0.3, 0.1), judging=Judging(hold_out=hold_out))
        results.append(strategy.start(grid, num_rounds=3))
    one, two = rosters
    assert one.domains == two.domains
    np.testing.assert_array_equal(one.counts, two.counts)
    assert [(m.kind, m.n_parameters) for m in one.members] == [
        (m.kind, m.n_parameters) for m in two.members
    ]
    assert results[0].w.tobytes() == results[1].w.tobytes()


def test_rows_of_so_many_clients_are_kept() -> None:
    """Six clients, asked who they are, and about their rows in three rounds and of the result."""
    times = {}
    for keep in (True, 6, 3, False):
        grid, loaded = phones(6, 4, described=False, keep=keep)
        AgnosticStrategy(steps=Steps(0.1, 0.1), judging=Judging(output="last")).start(
            grid, num_rounds=3
        )
        times[keep] = len(loaded)
    assert (times[True], times[6], times[False]) == (6, 6, 30)
    assert 6 < times[3] <= 30


def many(n: int, p: int) -> Roster:
    domains = [f"{k:04}" for k in range(p)]
    return Roster.of(
        [
            Member(f"{i:05}", i, (domains[7 * i % p], domains[(7 * i + 1) % p]), np.ones(2), 3, "")
            for i in range(n)
        ],
        domains,
    )


def test_a_round_takes_memory_for_those_asked() -> None:
    """3,000 clients of 500 domains: a table of all would be 12 MB, and there were six of them."""
    roster, mixture = many(3000, 500), np.full(500, 1 / 500)
    assert roster.sizes.sum() == 6000
    tracemalloc.start()
    a, b = row_weights(roster.holdings, mixture, Weighted(), 20, [0])
    asked = np.unique(roster.holdings.clients[(a > 0) | (b > 0)])
    roster.holdings.rows(asked, a)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(asked) <= 40
    assert peak < 4e6


def dense_weights(counts: NDArray[Any], mixture: Any, sampler: Any, n: int, seed: Any) -> Any:
    """The weights as the formulas say, on the whole table."""
    m, p, rng = counts.sum(axis=0), counts.shape[1], np.random.default_rng(seed)
    each = np.where(counts > 0, 1 / np.maximum(counts, 1e-300), 0.0)

    def draws(times: Any) -> Any:
        columns = []
        for k in range(p):
            column, who = np.zeros(len(counts)), counts[:, k] > 0
            if times[k]:
                column[who] = rng.multinomial(times[k], counts[who, k] / counts[who, k].sum())
            columns.append(column)
        return np.column_stack(columns)

    if isinstance(sampler, Weighted):
        by_mixture = rng.multinomial(n, mixture / mixture.sum())
        uniform = rng.multinomial(n, np.full(p, 1 / p))
        return draws(by_mixture) * each / n, draws(uniform) * each * (p / n)
    share = draws(np.full(p, n // p)) / (n // p)
    return mixture * share * each, share * each / 1.0 + 0 * m


@pytest.mark.parametrize("sampler", [FullBatch(), PerDomain(3), Weighted(3)])
def test_without_the_zeros_the_weights_are_the_same(sampler: Any) -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, size=(9, 4)).astype(float)
    counts[0] = 1.0
    mixture = rng.dirichlet(np.ones(4))
    for seed in range(20):
        held = holdings_of(counts)
        found = [held.table(v) for v in row_weights(held, mixture, sampler, 8, [seed])]
        np.testing.assert_allclose(found, dense_weights(counts, mixture, sampler, 8, [seed]))


def test_holdings_are_the_table() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, size=(7, 5)).astype(float)
    held = holdings_of(counts)
    np.testing.assert_array_equal(held.table(held.m), counts)
    np.testing.assert_array_equal(held.sizes, counts.sum(axis=0))
    some = np.array([1, 4, 6])
    np.testing.assert_array_equal(held.rows(some, held.m), counts[some])
    for k, entries in enumerate(held.by_domain):
        assert held.clients[entries].tolist() == np.flatnonzero(counts[:, k]).tolist()


def test_fewer_clients_than_domains_says_what_to_choose() -> None:
    grid, _ = phones(40, 10)
    strategy = AgnosticStrategy(steps=Steps(0.1, 0.1), work=Work(clients_per_round=5))
    with pytest.raises(InputError, match=r"is 5 for 10 domains; give 10 .*Weighted"):
        strategy.start(grid, num_rounds=1)


def test_a_model_too_large_for_a_message_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_run, "MOST_BYTES", 1000)
    record = ArrayRecord({"w": Array(np.zeros(200))})
    with pytest.raises(InputError, match="float32 or float16"):
        ModelArrays(record, 200)


def test_a_client_that_is_asked_about_all_rows_keeps_little_beside_them() -> None:
    n = 20_000
    problem = ax.LinearDomains(np.zeros((n, 1)), np.arange(n) % 2, np.arange(n) % 3)
    tracemalloc.start()
    try:
        rows = LinearRows(problem)
        rows.table.draw(np.ones(3, dtype=bool), 0, [0])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 16 * n  # a number and a place of every row; the row's domain is the problem's own
