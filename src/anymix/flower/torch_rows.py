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

__all__ = ["ModuleRows", "first_weights"]


def first_weights(model: Callable[[], nn.Module], seed: int) -> dict[str, NDArray[Any]]:
    """The parameters of a new module, the same on every machine for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parameters = model().named_parameters()
        return {name: p.detach().cpu().numpy().copy() for name, p in parameters}


def _refuse_running_means(module: nn.Module) -> None:
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.batchnorm._NormBase) and part.track_running_stats:
            raise InputError(
                "model",
                f"has running means in {name!r}, {part}",
                "take GroupNorm or LayerNorm, or track_running_stats=False",
            )


class ModuleRows:
    """ℓ_i(w) = loss(module(x_i), y_i); w is all parameters of the module, one after the other.

    Batch norm with running means is refused: they are no parameters, so they would stay with each
    client, and the server would get a model without them.

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
        _refuse_running_means(module)
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

    def losses(self, w: NDArray[Any]) -> Array:
        """The ℓ_i(w) of all rows, as the module is used later: without dropout."""
        parameters = list(self.module.parameters())
        vector_to_parameters(torch.as_tensor(w, dtype=parameters[0].dtype).clone(), parameters)
        was_training = self.module.training
        self.module.eval()
        with torch.no_grad():
            chunks = [
                self.loss(self.module(self.X[i : i + self.chunk]), self.y[i : i + self.chunk])
                for i in range(0, len(self.X), self.chunk)
            ]
        self.module.train(was_training)
        values: Array = torch.cat(chunks).double().numpy()
        return values

    def _add(self, rows: Indices, c: Array) -> Array:
        """Add Σ c_j ∇ℓ_j to the gradients of the parameters; return the ℓ_j."""
        place = torch.as_tensor(rows)
        losses = self.loss(self.module(self.X[place]), self.y[place])
        if losses.shape != (len(rows),):
            raise InputError(
                "loss",
                f"gave shape {tuple(losses.shape)} for {len(rows)} rows",
                'it must give the loss of every row: with torch\'s losses, reduction="none"',
            )
        (losses * torch.as_tensor(c, dtype=losses.dtype)).sum().backward()
        values: Array = losses.detach().double().numpy()
        return values


def _tensor(values: Any) -> Tensor:
    """Numbers as float32, whole numbers as int64, tensors as they are."""
    if isinstance(values, Tensor):
        return values
    array = np.asarray(values)
    return torch.as_tensor(array, dtype=torch.float32 if array.dtype.kind == "f" else torch.int64)
