"""A domain that a batch lacks: never 0, never made up, unbiased where the chances are known."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import anymix as ax
from anymix.errors import InputError
from anymix.pytorch import AgnosticLoss, DomainBatches, PerDomain, Proportional, Weighted
from anymix.pytorch.missing_domains import Estimates

SIZES = [40, 10, 3]
IDS = np.repeat(np.arange(3), SIZES)
LOSSES = torch.tensor(np.random.default_rng(0).exponential(size=53) + 2 * IDS)
MEANS = np.array([LOSSES[k == IDS].mean() for k in range(3)])
LAM = np.array([0.2, 0.3, 0.5])


def draws(sampler: Any, n: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Of n batches: the loss, the gradient δ_λ, and which domains were there."""
    criterion = AgnosticLoss(ax.Point(LAM), step=0.0, absent="unbiased")
    batches = DomainBatches(IDS, 6, sampler)
    criterion.follow(batches)
    deltas, seen = [], []

    def gradient(means: Any, mixture: Any, inclusion: Any) -> Any:
        known = Estimates(3, "unbiased")
        known.last = np.array([1.0, 5.0, 0.5])  # any numbers known beforehand
        deltas.append(known.gradient(means, mixture, inclusion))
        seen.append(~np.isnan(means))
        return deltas[-1]

    monkeyed: Any = criterion._estimates
    monkeyed.gradient = gradient
    values: list[float] = []
    while len(values) < n:
        for batch in batches:
            losses, ids = LOSSES[batch].requires_grad_(), torch.tensor(IDS[batch])
            values.append(criterion(losses, ids).item())
            criterion.step()
    return np.array(values), np.array(deltas), np.array(seen)


@pytest.mark.parametrize(
    ("sampler", "n"),
    [
        (Weighted([0.6, 0.3, 0.1]), 10_000),
        (Proportional(), 2000),
        (PerDomain(), 500),
        pytest.param(Proportional(), 10_000, marks=pytest.mark.slow),
        pytest.param(PerDomain(), 10_000, marks=pytest.mark.slow),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else str(value),
)
def test_both_gradients_are_unbiased_over_many_draws(sampler: Any, n: int) -> None:
    values, deltas, seen = draws(sampler, n)
    if not isinstance(sampler, PerDomain):
        assert (seen.mean(axis=0) < 1).any()  # some batches lack a domain
    for found, expected in ((values, LAM @ MEANS), *zip(deltas.T, MEANS, strict=True)):
        error = found.std() / np.sqrt(len(found))
        assert abs(found.mean() - expected) <= 4.5 * error + 1e-12
    assert (deltas != 0).all()


def test_a_loss_of_zero_for_an_absent_domain_would_fail_the_same_check() -> None:
    """group_DRO, WILDS, SpuCo and nanotron's DoReMi count a domain without rows as loss 0."""
    _, _, seen = draws(Proportional(), 1000)
    theirs = np.where(seen, MEANS, 0.0)  # with the true means, even
    error = theirs.std(axis=0) / np.sqrt(len(theirs))
    assert abs(theirs.mean(axis=0) - MEANS)[2] > 20 * error[2]


def test_the_last_loss_is_kept_where_no_chances_are_known() -> None:
    """With theirs, the hardest domain loses its weight in every batch that it is missing from."""
    criterion = AgnosticLoss(ax.Simplex(2), step=0.1, adversary="entropic")
    both, one = torch.tensor([0, 1]), torch.tensor([0])
    criterion(torch.tensor([1.0, 3.0], requires_grad=True), both)
    criterion.step()
    before = criterion.mixture[1].item()
    criterion(torch.tensor([1.0], requires_grad=True), one)
    criterion.step()
    assert criterion.mixture[1].item() > before
    theirs = criterion.adversary.state_dict()["mixture"] * np.exp(0.1 * np.array([1.0, 0.0]))
    assert theirs[1] / theirs.sum() < criterion.mixture[1].item()  # what group_DRO would do
    assert criterion.record()["unseen"] == 1
    assert criterion.record()["loss/1"] == 3


@pytest.mark.parametrize("kind", ["euclidean", "entropic"])
def test_a_domain_never_seen_neither_wins_nor_loses(kind: Any) -> None:
    criterion = AgnosticLoss(ax.Simplex(3), step=0.1, adversary=kind)
    for _ in range(5):
        criterion(torch.tensor([2.0, 2.0], requires_grad=True), torch.tensor([0, 1]))
        criterion.step()
    assert criterion.mixture.tolist() == pytest.approx([1 / 3] * 3)


def test_inclusion_is_that_of_all_calls_before_the_step() -> None:
    criterion = AgnosticLoss(ax.Point(LAM), step=0.0)
    batches = DomainBatches(IDS, 6, Weighted([0.6, 0.3, 0.1]))
    criterion.follow(batches)
    for _, batch in zip(range(2), batches, strict=False):
        criterion(LOSSES[batch].requires_grad_(), torch.tensor(IDS[batch]))
    expected = 1 - (1 - np.array([0.6, 0.3, 0.1])) ** 12
    found = criterion._accumulator.inclusion
    assert found is not None
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_announced_calls_follow_the_sampler_too() -> None:
    criterion = AgnosticLoss(ax.Simplex(3), step=0.1)
    batches = DomainBatches(IDS, 6, Weighted(criterion))
    for _ in range(2):
        parts = [rows for _, rows in zip(range(2), batches, strict=False)]
        ids = [torch.tensor(IDS[rows]) for rows in parts]
        criterion.expect(*ids)
        for rows, domain in zip(parts, ids, strict=True):
            criterion(LOSSES[rows].requires_grad_(), domain)
        assert not batches._ahead
        criterion.step()
    assert int(criterion.n_steps) == 2


def test_unbiased_needs_a_sampler() -> None:
    criterion = AgnosticLoss(ax.Simplex(2), step=0.1, absent="unbiased")
    criterion(torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([0, 1]))
    with pytest.raises(InputError, match="no sampler is known"):
        criterion.step()


def test_a_batch_that_was_not_drawn_is_noticed() -> None:
    criterion = AgnosticLoss(ax.Simplex(3), step=0.1)
    batches = DomainBatches(IDS, 6)
    criterion.follow(batches)
    next(iter(batches))
    criterion(torch.ones(6, requires_grad=True), torch.tensor([0, 0, 0, 0, 0, 1]))
    with pytest.raises(InputError, match="not those of the batches"):
        criterion.step()
    with pytest.raises(InputError, match="more than the batches"):
        criterion(torch.ones(1, requires_grad=True), torch.tensor([0]))
