"""Reads the losses of rows and adds them up by domain, between two steps of λ.

    S_k = Σ_{i ∈ k} m_i ℓ_i        N_k = Σ_{i ∈ k} m_i        R_k = rows of domain k

m is a mask: 1 for every row where none is given, the tokens that count where rows are sequences.
The sums are float64 whatever the losses are, because float16 ends at 65504 and bfloat16 cannot
count beyond 256. On the CPU they are NumPy's, which takes a third of the time for small batches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from anymix.errors import InputError
from anymix.pytorch.distributed import total

if TYPE_CHECKING:
    from anymix.pytorch.batches import Drawn

__all__ = [
    "Accumulator",
    "RowLosses",
    "check_rows",
    "domain_sums",
    "no_losses",
    "read_rows",
    "refuse_sums",
    "row_weights",
    "weighted_total",
]

Array = NDArray[np.float64]
Sums = Array | Tensor  # (3, p + 1): S, N, R, and a last column for ids that are not 0..p − 1
HALF = (torch.float16, torch.bfloat16)


# -- rows ----------------------------------------------------------------------------------------


class RowLosses(NamedTuple):
    """Checked input of a loss; all but `values` are arrays if the rows are on the CPU."""

    values: Tensor  # (n,): Σ_t m_it ℓ_it, which backpropagates
    exact: Any  # (n,): the same without a graph, each ℓ_it at most the bound
    weight: Any  # (n,): Σ_t m_it; None is 1 for every row
    ids: Any  # (n,): domains, int64


def read_rows(
    losses: Any, domain_ids: Any, mask: Any = None, bound: float | None = None
) -> RowLosses:
    """Losses (n,) or (n, T), ids (n,) and a mask shaped as the losses: one number for each row.

    What is masked may even be NaN; `bound` is what a single loss counts at most in `exact`.
    """
    _check_ids(domain_ids)
    if isinstance(losses, Tensor) and losses.dim() == 2:
        mask = torch.ones_like(losses, dtype=torch.bool) if mask is None else mask
        check_rows(losses[:, :1].flatten() if losses.shape[1] else losses.sum(1), len(domain_ids))
    else:
        check_rows(losses, len(domain_ids))
    if not losses.is_floating_point():
        raise InputError("losses", f"has dtype {losses.dtype}", "give floating-point numbers")
    _check_device("domain_ids", domain_ids, losses)
    values = losses.float() if losses.dtype in HALF else losses
    ids = domain_ids if domain_ids.dtype == torch.int64 else domain_ids.long()
    exact = values.detach() if bound is None else values.detach().clamp(max=bound)
    weight = None
    if mask is not None:
        values, exact, weight = _masked(values, exact, _check_mask(mask, losses))
    if not ids.is_cpu:
        return RowLosses(values, exact, weight, ids)
    n = None if weight is None else weight.numpy()
    return RowLosses(values, exact.numpy(), n, ids.numpy())


def check_rows(losses: Any, n: int, argument: str = "losses") -> Tensor:
    """The losses, if there is one for each of n rows."""
    if isinstance(losses, Tensor) and losses.shape == (n,):
        return losses
    fix = 'give the loss of every row: with torch\'s losses, reduction="none"'
    if not isinstance(losses, Tensor):
        raise InputError(argument, f"is a {type(losses).__name__}", f"give a Tensor; {fix}")
    raise InputError(argument, f"has shape {tuple(losses.shape)} for {n} rows", fix)


def no_losses(ids: Any, mask: Tensor | None) -> Tensor:
    """Losses of 0 for rows that are only to be counted."""
    return torch.zeros_like(ids if mask is None else mask, dtype=torch.float32)


def _masked(values: Tensor, exact: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    counts = mask != 0
    values = torch.where(counts, values, 0) * mask.to(values.dtype)  # 0 · NaN would be NaN
    exact = torch.where(counts, exact, 0).double() * mask.double()
    weight = mask.double()
    if values.dim() == 2:
        values, exact, weight = values.sum(1), exact.sum(1), weight.sum(1)
    return values, exact, weight


def _check_ids(ids: Any) -> None:
    if not isinstance(ids, Tensor):
        raise InputError(
            "domain_ids", f"is a {type(ids).__name__}", "give a Tensor of whole numbers 0, 1, …"
        )
    if ids.dtype != torch.int64 and (
        ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool
    ):
        raise InputError(
            "domain_ids", f"has dtype {ids.dtype}", "give a Tensor of whole numbers 0, 1, …"
        )
    if ids.dim() != 1:
        raise InputError("domain_ids", f"has shape {tuple(ids.shape)}", "give one number a row")


def _check_mask(mask: Any, losses: Tensor) -> Tensor:
    if not isinstance(mask, Tensor) or mask.shape != losses.shape:
        found = f"has shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else "is no Tensor"
        raise InputError("mask", found, f"give the shape of the losses, {tuple(losses.shape)}")
    _check_device("mask", mask, losses)
    return mask


def _check_device(argument: str, tensor: Tensor, losses: Tensor) -> None:
    if tensor.device != losses.device:
        found = f"is on {tensor.device} and losses on {losses.device}"
        raise InputError(argument, found, f"move it: {argument}.to({str(losses.device)!r})")


# -- sums by domain ------------------------------------------------------------------------------


def domain_sums(rows: RowLosses, p: int) -> Sums:
    """S, N and R. On a GPU it waits for nothing: a false id counts in the last column."""
    ids = rows.ids
    if isinstance(ids, Tensor):
        return sums_on_device(rows, torch.where((ids < 0) | (ids >= p), p, ids), p)
    n: Any = ()
    with suppress(ValueError):  # a negative id
        n = np.bincount(ids, minlength=p + 1)
    if len(n) != p + 1:
        ids = np.where((ids < 0) | (ids >= p), p, ids)
        n = np.bincount(ids, minlength=p + 1)
    sums = np.empty((3, p + 1))
    sums[0] = np.bincount(ids, rows.exact, p + 1)  # adds up in float64
    sums[1:] = n
    if rows.weight is not None:
        sums[1] = np.bincount(ids, rows.weight, p + 1)
    return sums


def sums_on_device(rows: RowLosses, ids: Tensor, p: int) -> Tensor:
    """`domain_sums` for ids 0..p, by operations that a GPU queues up."""
    sums = torch.zeros(3, p + 1, dtype=torch.float64, device=ids.device)
    ones = torch.ones(len(ids), dtype=torch.float64, device=ids.device)
    sums[0].index_add_(0, ids, rows.exact.double())
    sums[1].index_add_(0, ids, ones if rows.weight is None else rows.weight)
    sums[2].index_add_(0, ids, ones)
    return sums


def refuse_sums(found: Array, names: Sequence[str]) -> None:
    """An error for sums that λ must not see: false ids, losses not finite, weights < 0."""
    if (
        math.isfinite(np.vdot(found, found))
        and found[2, -1] == 0
        and not np.count_nonzero(found[1] < 0)
    ):
        return  # the squares of finite sums may overflow, so what is refused is looked at again
    if found[2, -1] > 0:
        raise InputError("domain_ids", "has a false number", f"give 0 to {len(names) - 1}")
    if not np.isfinite(found[0]).all():
        k = int(np.flatnonzero(~np.isfinite(found[0]))[0])
        fix = "λ stays as it was; look at the model's output, or take smaller steps"
        raise InputError("losses", f"of domain {names[k]} are not finite", fix)
    if not np.isfinite(found[1]).all() or found[1].min() < 0:
        raise InputError("mask", "has a weight that is not ≥ 0", "give weights ≥ 0")


def row_weights(mixture: Any, n: Any, rows: RowLosses) -> Tensor:
    """c_i = λ_k / n_k, (n,), k the domain of row i; 0 where n_k = 0. n is (p,) or longer.

    Both are arrays if the rows are on the CPU, and tensors if not.
    """
    n = n[: len(mixture)]
    if isinstance(mixture, Tensor):
        return torch.where(n > 0, mixture / n, 0.0)[rows.ids]
    if np.count_nonzero(n) == len(n):  # n.all(), in a tenth of the time
        rate = mixture / n
    else:
        rate = np.divide(mixture, n, out=np.zeros(len(mixture)), where=n > 0)
    return torch.from_numpy(rate.astype(rows.exact.dtype)[rows.ids])


def weighted_total(values: Tensor, c: Tensor) -> Tensor:
    """Σ_i c_i ℓ_i, a scalar that backpropagates; c (n,) in any precision."""
    return torch.dot(values, c if c.dtype == values.dtype else c.to(values.dtype))


# -- between two steps ---------------------------------------------------------------------------


class Accumulator:
    """Sums over the domains since the last step, and how the rows were drawn."""

    def __init__(self, p: int) -> None:
        self.p = p
        self.clear()

    def clear(self) -> None:
        """Forget all, as after a step."""
        self.joined: Sums | None = None  # that all ranks share already; None is 0
        self.own: Sums | None = None  # of this rank alone; None is 0
        self.missed: Array | None = None  # (p,): P(a domain is in no batch), if a sampler is known
        self.drawn: Array | None = None  # (p,): the rows that the sampler drew
        self.announced: Sums | None = None  # (p + 1,): N of all calls, if said beforehand

    @property
    def is_checked(self) -> bool:
        """Whether the sums were looked at when they came: those of all ranks, on the CPU."""
        return self.own is None and isinstance(self.joined, np.ndarray)

    @property
    def inclusion(self) -> Array | None:
        """π (p,), the chance that a domain is in one of the batches; None if not known."""
        return None if self.missed is None else 1 - self.missed

    def add(self, sums: Sums) -> None:
        """Add S, N and R of one call, those of all ranks."""
        self.joined = sums if self.joined is None else self.joined + sums

    def add_own(self, sums: Sums) -> None:
        """Add S, N and R of one call of this rank."""
        self.own = sums if self.own is None else self.own + sums

    def follow(self, drawn: Drawn) -> None:
        """Add how the batch of the last call was drawn."""
        missed = 1 - drawn.inclusion
        self.missed = missed if self.missed is None else self.missed * missed
        counts = drawn.counts.astype(np.float64)
        self.drawn = counts if self.drawn is None else self.drawn + counts

    def take(self, group: Any) -> Array:
        """S, N and R of all ranks, (3, p + 1); the one time that the host waits."""
        sums = self.joined
        if self.own is not None:
            own = total(self.own + 0.0, group)  # a copy: it is added up in place
            sums = own if sums is None else sums + own
        return np.zeros((3, self.p + 1)) if sums is None else _numpy(sums)

    def to(self, device: torch.device) -> None:
        """Move the sums to a device."""
        for name in ("joined", "own", "announced"):
            sums = getattr(self, name)
            setattr(self, name, None if sums is None else _on(device, _numpy(sums)))

    def arrays(self) -> dict[str, ArrayLike]:
        """All of it, for a checkpoint: NaN stands for None."""
        table, unknown = np.zeros((3, self.p + 1)), np.full(self.p, np.nan)
        return {
            "sums": table if self.joined is None else _numpy(self.joined),
            "own_sums": table if self.own is None else _numpy(self.own),
            "missed": unknown if self.missed is None else self.missed,
            "drawn": unknown if self.drawn is None else self.drawn,
        }

    @staticmethod
    def of(arrays: Mapping[str, Array], device: torch.device) -> Accumulator:
        """What `arrays` was taken of."""
        found = Accumulator(len(arrays["missed"]))
        for name, place in (("sums", "joined"), ("own_sums", "own")):
            if arrays[name].any():
                setattr(found, place, _on(device, arrays[name]))
        for name in ("missed", "drawn"):
            if not np.isnan(arrays[name]).any():
                setattr(found, name, arrays[name])
        return found


def _numpy(sums: Sums) -> Array:
    return sums.cpu().numpy() if isinstance(sums, Tensor) else sums


def _on(device: torch.device, sums: Array) -> Sums:
    return sums if device.type == "cpu" else torch.tensor(sums, device=device)
