"""Known faults of public worst-group losses: what they do is written down here, and fails."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor

import anymix as ax
from anymix.pytorch import AgnosticLoss

STEP = 0.3
BOTH = torch.tensor([0, 1])


class Theirs:
    """The update that group_DRO, WILDS, SpuCo and DomainBed share, with their faults as options."""

    def __init__(self, p: int, divide_again: bool = False) -> None:
        self.q, self.p, self.divide_again = torch.ones(p).double() / p, p, divide_again

    def __call__(self, losses: Tensor, ids: Tensor) -> Tensor:
        counts = torch.bincount(ids, minlength=self.p)
        sums = torch.zeros(self.p).double().index_add(0, ids, losses.double())
        means = sums / counts.clamp(min=1)  # an absent group has the loss 0
        q = self.q * torch.exp(STEP * means.detach())  # at every forward
        self.q = q / q.sum()
        loss = means @ self.q
        return loss / self.p if self.divide_again else loss

    def state_dict(self) -> dict[str, Tensor]:
        return {}  # q is an attribute, not a buffer

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        assert not state


def ours(p: int = 2) -> AgnosticLoss:
    return AgnosticLoss(ax.Simplex(p), step=STEP, adversary="entropic")


def values(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


def test_an_absent_domain_keeps_its_weight() -> None:
    """The hard domain 1 is in one batch of ten. Theirs forgets it, ours gives it all the weight."""
    theirs, criterion = Theirs(2), ours()
    for step in range(200):
        losses, ids = (values(1.0, 2.0), BOTH) if step % 10 == 0 else (values(1.0), BOTH[:1])
        theirs(losses, ids)
        criterion(losses, ids)
        criterion.step()
    assert criterion.mixture[1] > 0.99
    assert theirs.q[1] < 0.01


def test_lambda_is_in_the_state() -> None:
    for criterion, is_kept in ((Theirs(2), False), (ours(), True)):
        for _ in range(5):
            criterion(values(1.0, 2.0), BOTH)
            if isinstance(criterion, AgnosticLoss):
                criterion.step()
        fresh = Theirs(2) if isinstance(criterion, Theirs) else ours()
        fresh.load_state_dict(copy.deepcopy(criterion.state_dict()))
        before, after = (
            c.mixture if isinstance(c, AgnosticLoss) else c.q for c in (criterion, fresh)
        )
        assert torch.equal(before, after) is is_kept


def test_lambda_moves_once_a_step_however_many_micro_batches() -> None:
    losses, ids = values(1.0, 2.0, 3.0, 0.5), torch.tensor([0, 1, 1, 0])
    found = []
    for parts in ([slice(0, 4)], [slice(0, 2), slice(2, 4)]):
        theirs, criterion = Theirs(2), ours()
        for part in parts:
            theirs(losses[part], ids[part])
            criterion(losses[part], ids[part])
        criterion.step()
        found.append((theirs.q, criterion.mixture))
    (their_one, our_one), (their_two, our_two) = found
    torch.testing.assert_close(our_one, our_two, rtol=0, atol=1e-15)
    assert (their_one - their_two).abs().max() > 0.05


def test_nothing_is_divided_twice() -> None:
    """DomainBed#36 and doremi#9, #33: equal losses of 2 are a loss of 2, for any p, B and T."""
    for p in (2, 5):
        ids = torch.arange(3 * p) % p
        assert ours(p)(values(*[2.0] * 3 * p), ids).item() == pytest.approx(2)
        assert Theirs(p, divide_again=True)(values(*[2.0] * 3 * p), ids).item() != pytest.approx(2)
    tokens = torch.full((6, 7), 2.0, requires_grad=True)
    mask = torch.rand(6, 7, generator=torch.manual_seed(0)) > 0.5
    assert ours(2)(tokens, torch.arange(6) % 2, mask).item() == pytest.approx(2)


def test_the_model_and_lambda_step_from_the_same_point() -> None:
    """Theirs weighs the model's loss with a λ that has seen this batch; the paper's does not."""
    criterion, theirs = ours(), Theirs(2)
    losses = values(1.0, 3.0)
    assert criterion(losses, BOTH).item() == pytest.approx(2.0)
    criterion.step()
    assert theirs(losses, BOTH).item() > 2.1
    np.testing.assert_allclose(criterion.mixture, theirs.q, rtol=1e-12)  # after it, the same λ
