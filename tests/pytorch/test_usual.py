"""The usual case, in compiled code, against the general way: the same numbers, errors and state."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anymix as ax
from anymix.errors import InputError
from anymix.pytorch import AgnosticLoss

N, STEPS = 40, 9


def both(p: int, **options: Any) -> tuple[AgnosticLoss, AgnosticLoss]:
    """A loss that may take the usual way, and one that never does."""
    usual, general = (AgnosticLoss(ax.Simplex(p), 0.2, **options) for _ in range(2))
    general._is_usual = False
    return usual, general


def batch(p: int, seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Losses and domains, each of which has a row where there are enough rows."""
    rng = torch.Generator().manual_seed(seed)
    losses = torch.rand(N, generator=rng, dtype=dtype) * torch.arange(1, N + 1)
    ids = torch.randint(p, (N,), generator=rng)
    ids[: min(p, N)] = torch.arange(min(p, N))
    return losses.requires_grad_(), ids


def assert_same_state(usual: AgnosticLoss, general: AgnosticLoss) -> None:
    for name in ("mixture", "average"):  # state_dict makes them anew, so they are read before it
        torch.testing.assert_close(getattr(usual, name), getattr(general, name), rtol=0, atol=1e-12)
    one, other = usual.state_dict(), general.state_dict()
    assert set(one) == set(other)
    for name in one:
        torch.testing.assert_close(
            one[name], other[name], rtol=0, atol=1e-12, equal_nan=True, msg=name
        )


def call(criterion: AgnosticLoss, losses: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The scalar and its gradient."""
    scalar = criterion(losses, ids)
    return scalar.detach(), torch.autograd.grad(scalar, losses)[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [1, 2, 10, 41])  # the last lacks domains in every batch
@pytest.mark.parametrize("options", [{}, {"reference": True}], ids=["plain", "reference"])
def test_both_ways_follow_one_trajectory(
    p: int, dtype: torch.dtype, options: dict[str, Any]
) -> None:
    given = {"reference": torch.linspace(-1, 3, p)} if options else {}
    usual, general = both(p, **given)
    for t in range(STEPS):
        losses, ids = batch(p, t, dtype)
        found, expected = call(usual, losses, ids), call(general, losses, ids)
        assert usual._under_way.joined is usual._table  # it was the usual way
        assert general._under_way.joined is not general._table
        rounding = torch.finfo(dtype).eps * 8
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == dtype
            torch.testing.assert_close(one, other, rtol=rounding, atol=rounding)
        usual.step()
        general.step()
        assert usual.record() == pytest.approx(general.record(), abs=1e-12, nan_ok=True)
        assert_same_state(usual, general)
    assert p == 1 or usual.mixture.max() > 1.1 / p  # λ has moved


def test_ways_may_change_from_step_to_step() -> None:
    """One call, several calls, a mask, a missing domain: the state is one and the same."""
    usual, general = both(4)
    for t in range(STEPS):
        losses, ids = batch(4, t)
        for criterion in (usual, general):
            if t % 4 == 0:
                criterion(losses, ids)
            elif t % 4 == 1:
                criterion(losses[:15], ids[:15])
                criterion(losses[15:], ids[15:])
            elif t % 4 == 2:
                criterion(losses, ids, mask=losses.detach() > 3)
            else:
                criterion(losses[ids != 1], ids[ids != 1])
            criterion.step()
        assert_same_state(usual, general)


@pytest.mark.parametrize("made", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_a_copy_has_numbers_of_its_own(made: Callable[[AgnosticLoss], AgnosticLoss]) -> None:
    usual, general = both(3)
    losses, ids = batch(3, 0)
    seen = usual.adversary.mixture
    usual(losses, ids)
    other = made(usual)  # in mid-step
    before = seen.copy(), usual.mixture.clone(), usual.average.clone()
    other.step()
    assert torch.equal(usual.mixture, before[1])
    assert torch.equal(usual.average, before[2])
    general(losses, ids)
    general.step()
    usual.step()
    assert_same_state(usual, general)
    assert_same_state(other, general)
    assert seen.tolist() == before[0].tolist()  # what somebody has read stays


UNUSUAL: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "int32": lambda x, k: (x, k.int()),
    "half": lambda x, k: (x.half(), k),
    "gaps": lambda x, k: (x[::2], k[::2]),
    "strides": lambda x, k: (x.repeat_interleave(2)[::2], k),
    "backwards": lambda x, k: (x.flip(0), k.flip(0)),
    "empty": lambda x, k: (torch.cat([x, x[:0]]), torch.cat([k, k[:0]])),
    "one": lambda x, k: (x[:1], k[:1]),
    "parameter": lambda x, k: (torch.nn.Parameter(x.detach()), k),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_rows_are_read_all_the_same(name: str) -> None:
    usual, general = both(3)
    losses, ids = UNUSUAL[name](*batch(3, 0))
    assert torch.equal(usual(losses, ids), general(losses, ids))
    usual.step()
    general.step()
    assert_same_state(usual, general)


def _nan(losses: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    return torch.where(torch.arange(N) == 5, torch.nan, losses), ids


FAULTS: dict[str, Callable[[Tensor, Tensor], tuple[Any, Any]]] = {
    "nan": _nan,
    "infinite": lambda x, k: (x / 0, k),
    "large id": lambda x, k: (x, torch.where(k == 2, 3, k)),
    "negative id": lambda x, k: (x, k - 1),
    "more ids": lambda x, k: (x, torch.cat([k, k])),
    "fewer ids": lambda x, k: (x, k[:3]),
    "a matrix of ids": lambda x, k: (x, k[:, None]),
    "a scalar": lambda x, k: (x.mean(), k),
    "lists": lambda x, k: (x.tolist(), k.tolist()),
    "whole numbers": lambda x, k: (k, k),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_the_same_error_and_leaves_lambda(name: str) -> None:
    usual, general = both(3)
    for criterion in (usual, general):
        criterion(*batch(3, 0))
        criterion.step()
    before = copy.deepcopy(usual.state_dict())
    words = []
    for criterion in (usual, general):
        with pytest.raises(InputError) as error:
            criterion(*FAULTS[name](*batch(3, 1)))
        words.append(str(error.value))
    assert words[0] == words[1]
    torch.testing.assert_close(usual.state_dict(), before, rtol=0, atol=0, equal_nan=True)
    for criterion in (usual, general):  # and all can go on
        criterion(*batch(3, 2))
        criterion.step()
    assert_same_state(usual, general)


def test_a_step_without_rows_is_an_error_in_both_ways() -> None:
    for criterion in both(3):
        with pytest.raises(InputError, match="no rows"):
            criterion.step()


def test_a_step_that_is_too_large_is_the_same_error() -> None:
    words = []
    for criterion in both(3):
        criterion(torch.tensor([1e308, 0.0, 0.0], dtype=torch.float64), torch.arange(3))
        criterion._step_size = lambda t: 1e30
        with pytest.raises(InputError) as error:
            criterion.step()
        words.append(str(error.value))
        assert criterion.mixture.tolist() == [1 / 3] * 3
    assert words[0] == words[1]


@pytest.mark.parametrize("name", ["mixture", "average", "n_steps"])
def test_a_buffer_of_another_kind_is_not_written_by_address(name: str) -> None:
    """Eight bytes a number would not fit into four."""
    usual, general = both(3)
    for criterion in (usual, general):
        criterion._buffers[name] = criterion.get_buffer(name).float()
        criterion(*batch(3, 0))
        criterion.step()
        assert criterion.get_buffer(name).dtype == torch.float32
    torch.testing.assert_close(usual.get_buffer(name), general.get_buffer(name), rtol=0, atol=0)


@pytest.mark.parametrize(
    "options",
    [{"optimistic": True}, {"adversary": "entropic"}, {"mu": 0.1, "sizes": [1, 2, 3]},
     {"prior": ax.DirichletPrior([2, 2, 2])}],
)  # fmt: skip
def test_other_steps_are_not_taken_for_usual(options: dict[str, Any]) -> None:
    assert not AgnosticLoss(ax.Simplex(3), 0.1, **options)._is_usual
    assert not AgnosticLoss(ax.Box([0.2] * 3, [0.6] * 3), 0.1)._is_usual
    assert AgnosticLoss(ax.Simplex(3), 0.1)._is_usual


def test_loss_bound_counts_in_both_ways() -> None:
    usual, general = both(3, loss_bound=2.0)
    for criterion in (usual, general):
        criterion(*batch(3, 0))
        criterion.step()
    assert_same_state(usual, general)
    assert max(usual._estimates.last) <= 2
