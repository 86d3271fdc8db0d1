"""DomainBatches: what is in a batch, shards, epochs, workers and resuming."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

import anymix as ax
from anymix.errors import InputError
from anymix.pytorch import AgnosticLoss, DomainBatches, PerDomain, Proportional, Weighted
from anymix.pytorch.batches import Walk, of_all

IDS = np.repeat(np.arange(3), [40, 10, 3])


def criterion() -> AgnosticLoss:
    return AgnosticLoss(ax.Simplex(3), step=0.1)


def makers() -> list[Any]:
    return [PerDomain, Proportional, lambda: Weighted([0.5, 0.3, 0.2])]


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    b=st.integers(1, 12),
    ranks=st.integers(1, 3),
    seed=st.integers(0, 9),
)
@settings(max_examples=100)
def test_ranks_share_a_batch_without_overlap(
    sizes: list[int], b: int, ranks: int, seed: int
) -> None:
    """Joined they are the batch of one rank; in an epoch of Proportional every row comes once."""
    ids = np.repeat(np.arange(len(sizes)), sizes)
    if b * ranks > len(ids):
        return
    shards = [DomainBatches(ids, b, Proportional(), seed, r, ranks) for r in range(ranks)]
    alone = DomainBatches(ids, b * ranks, Proportional(), seed)
    parts = list(zip(*shards, strict=True))
    for part, whole in zip(parts, alone, strict=False):
        assert sorted(row for rows in part for row in rows) == sorted(whole)
    rows = [row for part in parts for rank in part for row in rank]
    assert len(set(rows)) == len(rows) >= len(ids) - (ranks - 1)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("b", [6, 7, 8])
def test_every_domain_has_the_same_rows_in_a_batch_and_goes_through_all_of_its_own(
    b: int, ranks: int
) -> None:
    shards = [DomainBatches(IDS, b, PerDomain(), 3, r, ranks) for r in range(ranks)]
    total = np.zeros(3)
    seen: list[list[int]] = [[], [], []]
    for parts in zip(*shards, strict=True):
        counts = np.array([np.bincount(IDS[part], minlength=3) for part in parts])
        assert np.ptp(counts.sum(axis=0)) <= 1
        total += counts.sum(axis=0)
        for row in (row for part in parts for row in part):
            seen[IDS[row]].append(row)
    assert np.ptp(total) <= 1
    for k in range(3):
        assert np.ptp(np.bincount(seen[k], minlength=53)[k == IDS]) <= 1


def test_passes_have_orders_of_their_own_and_can_be_entered_anywhere() -> None:
    walk = Walk(IDS, 3, seed=1)
    first, second = (walk.take(np.full(3, c), np.array([40, 0, 0])) for c in (0, 40))
    assert sorted(first) == sorted(second) == list(range(40))
    assert first.tolist() != second.tolist()
    late = Walk(IDS, 3, seed=1).take(np.array([45, 0, 0]), np.array([35, 0, 0]))
    assert late.tolist() == second[5:].tolist()
    other = Walk(IDS, 3, seed=2).take(np.zeros(3, int), np.array([40, 0, 0]))
    assert other.tolist() != first.tolist()


def test_orders_are_uniform() -> None:
    """Of 3 rows every one of the 6 orders comes equally often, in 6000 passes."""
    walk = Walk(np.zeros(3, int), 1, seed=0)
    rows = walk.take(np.zeros(1, int), np.array([18_000])).reshape(-1, 3)
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert len(counts) == 6
    assert ((counts - 1000) ** 2 / 1000).sum() < 25  # χ² with 5 degrees: P < 1.4e-4


def test_weighted_draws_by_lambda_as_it_is_now() -> None:
    loss = criterion()
    draw = Weighted(loss).draw(np.array([40, 10, 3]), 100_000, 0, 0, None)
    np.testing.assert_allclose(draw.counts / 1e5, [1 / 3] * 3, atol=0.01)
    loss.adversary.step([0.0, 0.0, 100.0], 1.0)
    draw = Weighted(loss, uniform=0.3).draw(np.array([40, 10, 3]), 100_000, 0, 0, None)
    np.testing.assert_allclose(draw.expected / 1e5, [0.1, 0.1, 0.8], rtol=1e-12)
    np.testing.assert_allclose(draw.counts / 1e5, [0.1, 0.1, 0.8], atol=0.01)


def test_chances_of_a_random_subset_are_those_of_the_hypergeometric_distribution() -> None:
    from scipy.stats import hypergeom

    drawn = of_all(np.array([40, 10, 3]), np.array([30, 15, 5]))
    expected = [1 - hypergeom(53, m, 50).pmf(0) for m in (40, 10, 3)]
    np.testing.assert_allclose(drawn.inclusion, expected, rtol=1e-9)
    drawn = of_all(np.array([40, 10, 3]), np.array([5, 1, 0]))
    expected = [1 - hypergeom(53, m, 6).pmf(0) for m in (40, 10, 3)]
    np.testing.assert_allclose(drawn.inclusion, expected, rtol=1e-9)


@pytest.mark.parametrize("make", makers())
@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_epoch_is_the_rest_of_it_even_if_workers_fetch_ahead(
    make: Any, workers: int
) -> None:
    data = TensorDataset(torch.arange(53))

    def loader(batches: DomainBatches) -> DataLoader[Any]:
        return DataLoader(data, batch_sampler=batches, num_workers=workers)

    def rows_of(batches: DomainBatches) -> list[list[int]]:
        return [rows.tolist() for (rows,) in loader(batches)]

    whole = DomainBatches(IDS, 6, make(), seed=5)
    expected = [rows_of(whole), rows_of(whole)]
    assert expected[0] != expected[1]
    half = DomainBatches(IDS, 6, make(), seed=5)
    rows_of(half)
    for n, (rows,) in enumerate(loader(half), start=1):
        assert rows.tolist() == expected[1][n - 1]
        if n == 4:
            state = json.loads(json.dumps(half.state_dict(consumed=4)))
            break
    later = DomainBatches(IDS, 6, make(), seed=5)
    later.load_state_dict(state)
    assert rows_of(later) == expected[1][4:]
    assert rows_of(later) == rows_of(whole)  # and the epoch after it


def test_batches_drawn_ahead_by_an_older_lambda_are_drawn_again_as_they_were() -> None:
    def steps(loss: AgnosticLoss, batches: DomainBatches, n: int) -> list[list[int]]:
        found = []
        ahead, fetched = iter(batches), list[list[int]]()
        for _ in range(3):
            fetched.append(next(ahead))  # as a loader with workers does
        for _ in range(n):
            rows = fetched.pop(0)
            found.append(rows)
            loss(torch.tensor(1.0 + IDS[rows]).requires_grad_(), torch.tensor(IDS[rows]))
            loss.step()
            fetched += [row for row in [next(ahead, None)] if row is not None]
        return found

    loss = AgnosticLoss(ax.Simplex(3), step=0.05)
    expected = steps(loss, DomainBatches(IDS, 6, Weighted(loss)), 8)
    first = AgnosticLoss(ax.Simplex(3), step=0.05)
    batches = DomainBatches(IDS, 6, Weighted(first))
    assert steps(first, batches, 3) == expected[:3]
    second = AgnosticLoss(ax.Simplex(3), step=0.05)
    resumed = DomainBatches(IDS, 6, Weighted(second))
    second.load_state_dict(first.state_dict())
    resumed.load_state_dict(batches.state_dict())
    assert steps(second, resumed, 5) == expected[3:]
    assert torch.equal(second.mixture, loss.mixture)


def test_a_state_at_the_end_of_an_epoch_begins_the_next() -> None:
    whole, later = (DomainBatches(IDS, 6, seed=5) for _ in range(2))
    list(whole)
    later.load_state_dict(whole.state_dict())
    assert list(later) == list(whole)
    assert later.epoch == 1


def test_set_epoch_is_that_of_distributed_sampler() -> None:
    first, second = (DomainBatches(IDS, 6, Proportional()) for _ in range(2))
    list(first)
    second.set_epoch(1)
    assert list(second) == list(first)


@pytest.mark.parametrize(
    ("domains", "options", "words"),
    [
        ([0.5, 1.0], {}, "domains has shape"),
        ([0, -1], {}, "domains holds -1"),
        ([0, 3], {"n_domains": 2}, "domains holds 3"),
        ([], {}, "domains has shape"),
        ([0, 1], {"batch_size": 0}, "batch_size is 0"),
        ([0, 1], {"batch_size": 3, "drop_last": True}, "batch_size .*too large"),
        ([0, 1], {"rank": 2, "world_size": 2}, "rank is 2 of 2"),
        ([0, 1], {"seed": -1}, "seed is -1"),
    ],
)
def test_refusals(domains: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        DomainBatches(domains, **({"batch_size": 1} | options))


def test_refusals_while_drawing() -> None:
    with pytest.raises(InputError, match=r"batch_size is 2 .*3"):
        next(iter(DomainBatches(IDS, 2)))
    for sampler in (PerDomain(), Weighted([1, 1, 1])):
        with pytest.raises(InputError, match="no row of domain 1"):
            DomainBatches([0, 0, 2], 3, sampler)
    assert sorted(next(iter(DomainBatches([0, 0, 2], 3, Proportional())))) == [0, 1, 2]
    with pytest.raises(InputError, match="uniform is 0"):
        Weighted([1, 1], uniform=0)
    with pytest.raises(InputError, match=r"have .*3 .*2"):
        AgnosticLoss(ax.Simplex(2), 0.1).follow(DomainBatches(IDS, 6))
    batches = DomainBatches(IDS, 6)
    with pytest.raises(InputError, match="has the seed 1"):
        batches.load_state_dict(DomainBatches(IDS, 6, seed=1).state_dict())
    with pytest.raises(InputError, match="consumed is 2 after 0"):
        batches.state_dict(consumed=2)


@pytest.mark.parametrize("seed", [0, 5, 2**63 - 1])
def test_weighted_draws_are_those_of_a_new_generator(seed: int) -> None:
    """Whatever was drawn before: batch t depends on the seed, t and q alone."""
    weighted, q = Weighted([0.2, 0.3, 0.5]), np.array([0.2, 0.3, 0.5])
    for t in (7, 0, 10**6, 1):
        bits = np.random.Philox(key=[seed, 0], counter=[0, 0, t, 0])
        expected = np.random.Generator(bits).multinomial(100, q)
        np.testing.assert_array_equal(
            weighted.draw(np.full(3, 9), 100, t, seed, None).counts, expected
        )
