"""The rows of a client under a PyTorch module: any model with a loss for every row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from anymix.errors import InputError
from anymix.flower.client_rows import Array, DomainTable, Indices, Shares
from anymix.flower.local_training import LocalTraining
from anymix.pytorch.accumulator import check_rows, weighted_total

__all__ = ["ModuleRows", "first_weights"]


def first_weights(model: Callable[[], nn.Module], seed: int) -> dict[str, NDArray[Any]]:
    """The parameters of a new module, the same on every machine for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        named = model().named_parameters()
        return {name: p.detach().cpu().numpy().copy() for name, p in named if p.requires_grad}


def _refuse_running_means(module: nn.Module) -> None:
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.batchnorm._NormBase) and part.track_running_stats:
            raise InputError(
                "model",
                f"has running means in {name!r}, {part}",
                "take GroupNorm or LayerNorm, or track_running_stats=False",
            )


class ModuleRows:
    """ℓ_i(w) = loss(module(x_i), y_i); w is the trained parameters, one after the other."""

    # Those with requires_grad=False stay as the model function makes them, the same at all clients.
    # Batch norm with running means is refused: they are no parameters, so they would stay with each
    # client, and the server would get a model without them.

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor] | None,
        X: Any,
        y: Any,
        domains: Any,
        local: LocalTraining | None = None,
        chunk: int = 4096,
    ) -> None:
        _refuse_running_means(module)
        self.local = LocalTraining() if local is None else local
        self.module, self.chunk = module.to(self.local.device), chunk
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        if not self.parameters:
            fix = "leave requires_grad=True for those to train"
            raise InputError("model", "has no parameter that may change", fix)
        self.loss = nn.CrossEntropyLoss(reduction="none") if loss is None else loss
        self.X, self.y = _tensor(X), _tensor(y)
        self.table = DomainTable.of(len(self.X), domains)
        self.n_parameters = sum(p.numel() for p in self.parameters)
        self.penalized = True

    @property
    def kind(self) -> str:
        """The names and shapes of the parameters, and what is frozen."""
        named = list(self.module.named_parameters())
        trained = [(name, tuple(p.shape)) for name, p in named if p.requires_grad]
        frozen = hashlib.sha256()
        for _, p in named:
            if not p.requires_grad:
                frozen.update(p.detach().cpu().double().numpy().tobytes())
        n = len(named) - len(trained)
        return str(trained) + (f", frozen {frozen.hexdigest()[:16]}" if n else "")

    @property
    def about(self) -> dict[str, Any]:
        """That it is not linear."""
        return {"n_scores": 0}

    def gradient(
        self, w: NDArray[Any], rows: Indices | None, shares: Shares, a: Array, seed: list[int]
    ) -> tuple[Array, Array]:
        """Σ_i c_i ∇ℓ_i(w) and the ℓ_i(w), chunk by chunk; `seed` is for modules with dropout."""
        self._put(w)
        self.module.zero_grad()
        every = np.arange(len(self.X)) if rows is None else rows
        c = shares.row_weights(a, len(every))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
            losses = [
                self._add(every[i : i + self.chunk], c[i : i + self.chunk])
                for i in range(0, len(every), self.chunk)
            ]
        gradients = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in self.parameters]
        gradient = parameters_to_vector(gradients).double().cpu().numpy()
        return gradient, np.concatenate(losses)

    def _put(self, w: NDArray[Any]) -> None:
        """Give the module these parameters."""
        if w.shape != (self.n_parameters,):
            raise InputError("w", f"has shape {w.shape}", f"give {self.n_parameters} numbers")
        like = self.parameters[0]
        vector = torch.as_tensor(w, dtype=like.dtype).clone().to(like.device)
        vector_to_parameters(vector, self.parameters)

    def _parts(self, v: NDArray[Any]) -> list[Tensor]:
        """A vector in the form of the parameters."""
        pieces = torch.split(torch.as_tensor(v), [p.numel() for p in self.parameters])
        return [piece.view_as(p).to(p) for piece, p in zip(pieces, self.parameters, strict=True)]

    def _losses(self, rows: Any) -> Tensor:
        """The ℓ_j of some rows, on the device and in the precision of this client."""
        device, precision = self.local.device, self.local.precision
        kind = torch.device(device).type
        dtype = None if precision is None else getattr(torch, precision)
        with torch.autocast(kind, dtype=dtype, enabled=precision is not None):
            output = self.module(self.X[rows].to(device))
            return self.loss(output, self.y[rows].to(device))

    def train_locally(
        self,
        w: NDArray[Any],
        c: Array,
        drift: Array | None,
        settings: Mapping[str, Any],
        seed: list[int],
    ) -> Array:
        """w after `local_epochs` passes over the rows, by the client's own optimizer."""
        # The loss is Σ_i c_i ℓ_i / Σ_i c_i + γ/2 ‖w‖²; a batch stands for all rows in proportion.
        # `drift` is taken from each gradient: what those of these rows had of their own before.
        self._put(w)
        gamma, own = settings["gamma"], self._parts(np.zeros_like(w) if drift is None else drift)
        n, config = len(self.X), settings.get("config", {})
        make = self.local.optimizer
        optimizer = (
            torch.optim.SGD(self.parameters, lr=settings["step"])
            if make is None
            else make(self.parameters, config)
        )
        weights = torch.as_tensor(n * c / c.sum(), device=self.local.device)
        size, rng = settings["batch_size"] or n, np.random.default_rng(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
            for _ in range(settings["local_epochs"]):
                order = rng.permutation(n)
                for i in range(0, n, size):
                    rows = torch.as_tensor(order[i : i + size])
                    optimizer.zero_grad()
                    losses = self._losses(rows)
                    total: Tensor = (losses * weights[rows].to(losses.dtype)).mean()
                    total.backward()  # type: ignore[no-untyped-call]
                    for p, d in zip(self.parameters, own, strict=True):
                        change = gamma * p.detach() - d
                        p.grad = change if p.grad is None else p.grad + change
                    optimizer.step()
        vector: Array = parameters_to_vector(self.parameters).detach().double().cpu().numpy()
        return vector

    def losses(self, w: NDArray[Any], chunk: int | None = None) -> Array:
        """The ℓ_i(w) of all rows, as the module is used later: without dropout."""
        self._put(w)
        size = self.chunk if chunk is None else chunk
        was_training = self.module.training
        self.module.eval()
        with torch.no_grad():
            chunks = [self._losses(slice(i, i + size)) for i in range(0, len(self.X), size)]
        self.module.train(was_training)
        values: Array = torch.cat(chunks).double().cpu().numpy()
        return values

    def _add(self, rows: Indices, c: Array) -> Array:
        """Add Σ c_j ∇ℓ_j to the gradients of the parameters; return the ℓ_j."""
        losses = check_rows(self._losses(torch.as_tensor(rows)), len(rows), "loss")
        total: Any = weighted_total(losses, torch.as_tensor(c, device=losses.device))
        total.backward()
        values: Array = losses.detach().double().cpu().numpy()
        return values


def _tensor(values: Any) -> Tensor:
    """Numbers as float32, whole numbers as int64, tensors as they are."""
    if isinstance(values, Tensor):
        return values
    array = np.asarray(values)
    return torch.as_tensor(array, dtype=torch.float32 if array.dtype.kind == "f" else torch.int64)
