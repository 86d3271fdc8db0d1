"""The rows of a client under a PyTorch module: any model with a loss for every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from anymix.errors import InputError
from anymix.flower.client_rows import Array, DomainTable, Indices, Shares
from anymix.pytorch.sums import check_rows, weighted_total

__all__ = ["ModuleRows"]


class ModuleRows:
    """ℓ_i(w) = loss(module(x_i), y_i); w is all parameters of the module, one after the other.

    Buffers (running means of batch norm) stay with the client.

    Parameters
    ----------
    module : torch.nn.Module
        The model, whose parameters are overwritten by those that the server sends.
    loss : function, optional
        (output, y) -> losses of every row.
    X, y : array-like or Tensor
        The rows and their targets.
    domains : array-like
        The domain of each row, or a table of memberships.
    chunk : int
        How many rows are computed at once.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor] | None,
        X: Any,
        y: Any,
        domains: Any,
        chunk: int = 4096,
    ) -> None:
        self.module, self.chunk = module, chunk
        self.loss = nn.CrossEntropyLoss(reduction="none") if loss is None else loss
        self.X, self.y = _tensor(X), _tensor(y)
        self.table = DomainTable.of(len(self.X), domains)
        self.n_parameters = sum(p.numel() for p in module.parameters())
        self.penalized = True

    @property
    def kind(self) -> str:
        """The names and shapes of the parameters."""
        return str([(name, tuple(p.shape)) for name, p in self.module.named_parameters()])

    def gradient(
        self, w: NDArray[Any], rows: Indices | None, shares: Shares, a: Array, seed: list[int]
    ) -> tuple[Array, Array]:
        """Σ_i c_i ∇ℓ_i(w) and the ℓ_i(w), chunk by chunk; `seed` is for modules with dropout."""
        if w.shape != (self.n_parameters,):
            raise InputError("w", f"has shape {w.shape}", f"give {self.n_parameters} numbers")
        parameters = list(self.module.parameters())
        vector_to_parameters(torch.as_tensor(w, dtype=parameters[0].dtype).clone(), parameters)
        self.module.zero_grad()
        every = np.arange(len(self.X)) if rows is None else rows
        c = shares.row_weights(a, len(every))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
            losses = [
                self._add(every[i : i + self.chunk], c[i : i + self.chunk])
                for i in range(0, len(every), self.chunk)
            ]
        gradients = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in parameters]
        gradient = parameters_to_vector(gradients).double().numpy()
        return gradient, np.concatenate(losses)

    def _add(self, rows: Indices, c: Array) -> Array:
        """Add Σ c_j ∇ℓ_j to the gradients of the parameters; return the ℓ_j."""
        place = torch.as_tensor(rows)
        found = self.loss(self.module(self.X[place]), self.y[place])
        losses = check_rows(found, len(rows), "loss")
        total: Any = weighted_total(losses, torch.as_tensor(c))
        total.backward()
        values: Array = losses.detach().double().numpy()
        return values


def _tensor(values: Any) -> Tensor:
    """Numbers as float32, whole numbers as int64, tensors as they are."""
    if isinstance(values, Tensor):
        return values
    array = np.asarray(values)
    return torch.as_tensor(array, dtype=torch.float32 if array.dtype.kind == "f" else torch.int64)
