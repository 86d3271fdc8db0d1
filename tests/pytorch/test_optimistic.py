"""Optimistic: 2g_t − g_{t−1} for any optimiser."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from anymix.errors import InputError
from anymix.pytorch import Optimistic


@pytest.mark.parametrize(
    "make",
    [
        lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
        lambda ps: torch.optim.Adam(ps, lr=0.1),
        lambda ps: torch.optim.Adagrad(ps, lr=0.1),
    ],
)
def test_it_is_the_optimiser_with_other_gradients(make: Any) -> None:
    gradients = torch.randn(6, 3, generator=torch.manual_seed(0))
    a, b = (nn.Parameter(torch.ones(3)) for _ in range(2))
    ours, inside = Optimistic(make([a])), make([b])
    previous = gradients[0]
    for g in gradients:
        a.grad, b.grad = g.clone(), 2 * g - previous
        ours.step()
        inside.step()
        previous = g
        assert torch.equal(a.grad, g)  # as the caller left it
        assert torch.equal(a, b)


def test_last_iterates_spiral_in_where_plain_ones_leave() -> None:
    """min_x max_y x y, by gradient steps of both."""
    lengths = []
    for wrap in (lambda o: o, Optimistic):
        x, y = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
        optimizer: Any = wrap(torch.optim.SGD([x, y], lr=0.1))
        for _ in range(500):
            optimizer.zero_grad()
            game: Any = (x * y).sum()
            game.backward()
            assert y.grad is not None
            y.grad.neg_()
            optimizer.step()
        lengths.append(torch.cat([x, y]).norm().item())
    assert lengths[0] > 5
    assert lengths[1] < 0.15


def test_state_scheduler_scaler_and_closure() -> None:
    w = nn.Parameter(torch.ones(2))
    optimizer = Optimistic(torch.optim.Adam([w], lr=0.1))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss: Any = (w**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure) == 2.0
    schedule.step()
    assert optimizer.optimizer.param_groups[0]["lr"] == 0.05
    other = nn.Parameter(w.detach().clone())
    later = Optimistic(torch.optim.Adam([other], lr=9.0))
    later.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for p, o in ((w, optimizer), (other, later)):
        p.grad = torch.tensor([1.0, -3.0])
        o.step()
    assert torch.equal(w, other)
    scaler = torch.amp.GradScaler("cpu")
    loss: Any = scaler.scale((w**2).sum())
    loss.backward()
    scaler.step(optimizer)
    scaler.update()


def test_a_parameter_without_gradient_is_left_alone() -> None:
    w, idle = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = Optimistic(torch.optim.SGD([w, idle], lr=0.1))
    w.grad = torch.ones(1)
    optimizer.step()
    assert idle.grad is None
    assert idle.item() == 1
    with pytest.raises(InputError, match="optimizer is a Linear"):
        Optimistic(nn.Linear(1, 1))  # type: ignore[arg-type]
