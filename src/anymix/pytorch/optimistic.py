"""Optimistic steps for any optimiser of PyTorch: 2g_t − g_{t−1} in the place of g_t, g_0 = g_1.

In a game of two players plain gradient steps circle around the solution and optimistic ones spiral
into it. `AgnosticLoss(..., optimistic=True)` does for λ what this does for the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor
from torch.optim import Optimizer

from anymix.errors import InputError

__all__ = ["Optimistic"]


@final
class Optimistic(Optimizer):
    """w ← the optimiser's step along 2g_t − g_{t−1}; g_0 = g_1.

    It is an optimiser itself, with the parameter groups of the one inside, so schedulers and
    GradScaler take it. The gradients are as they were after a step.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        The rule that makes a step of a gradient.

    Examples
    --------
    >>> import torch
    >>> w = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = Optimistic(torch.optim.SGD([w], lr=0.1))
    >>> for gradient in (1.0, 3.0):                          # − 0.1 · 1, then − 0.1 (6 − 1)
    ...     w.grad = torch.tensor([gradient])
    ...     optimizer.step()
    >>> w
    Parameter containing:
    tensor([0.4000], requires_grad=True)
    """

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            found = f"is a {type(optimizer).__name__}"
            raise InputError("optimizer", found, "give an optimiser of torch.optim")
        self.optimizer = optimizer
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self.param_groups = optimizer.param_groups  # the very same, for learning rates
        self._previous: dict[Tensor, Tensor] = {}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; a closure computes the gradients anew first.

        Parameters
        ----------
        closure : function, optional
            Computes the loss and its gradients; it is called once.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        gradients = {p: p.grad for p in self._parameters() if p.grad is not None}
        for p, g in gradients.items():
            p.grad = 2 * g - self._previous.get(p, g)
        try:
            self.optimizer.step()
        finally:
            for p, g in gradients.items():
                p.grad = g
        self._previous |= {p: g.clone() for p, g in gradients.items()}
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The state of the optimiser, and the last gradients."""
        previous = {i: self._previous.get(p) for i, p in enumerate(self._parameters())}
        return {
            "optimizer": self.optimizer.state_dict(),
            "previous": {i: g.clone() for i, g in previous.items() if g is not None},
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken.

        Parameters
        ----------
        state_dict : dict
            What `state_dict` gave.
        """
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self.param_groups = self.optimizer.param_groups
        parameters, previous = self._parameters(), state_dict["previous"]
        self._previous = {parameters[i]: g.to(parameters[i]).clone() for i, g in previous.items()}

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]
