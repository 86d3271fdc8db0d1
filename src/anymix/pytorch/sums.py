"""Losses of rows, and their sums over the rows of each domain.

    S_k = Σ_{i ∈ k} m_i ℓ_i        N_k = Σ_{i ∈ k} m_i        R_k = rows of domain k

m is a mask: 1 for every row where none is given, the tokens that count where rows are sequences.
The sums are float64 whatever the losses are, because float16 ends at 65504 and bfloat16 cannot
count beyond 256.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anymix.errors import InputError

__all__ = [
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
HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class RowLosses:
    """Checked input of a loss.

    Parameters
    ----------
    values : Tensor of shape (n,)
        Σ_t m_it ℓ_it of each row, which backpropagates.
    exact : Tensor of shape (n,)
        The same without a graph, each ℓ_it at most `bound`; to be added up in float64.
    weight : Tensor of shape (n,) or None
        Σ_t m_it; None is 1 for every row.
    ids : Tensor of shape (n,)
        The domain of each row, int64.
    """

    values: Tensor
    exact: Tensor
    weight: Tensor | None
    ids: Tensor


def check_rows(losses: Any, n: int, argument: str = "losses") -> Tensor:
    """The losses, if there is one for each of n rows.

    Parameters
    ----------
    losses : Tensor
        What a loss function gave.
    n : int
        How many rows it was given.
    argument : str
        The name to put into the error.
    """
    fix = 'give the loss of every row: with torch\'s losses, reduction="none"'
    if not isinstance(losses, Tensor):
        raise InputError(argument, f"is a {type(losses).__name__}", f"give a Tensor; {fix}")
    if losses.shape != (n,):
        raise InputError(argument, f"has shape {tuple(losses.shape)} for {n} rows", fix)
    return losses


def read_rows(
    losses: Any, domain_ids: Any, mask: Any = None, bound: float | None = None
) -> RowLosses:
    """Losses (n,) or (n, T), ids (n,) and a mask shaped as the losses: one number for each row.

    Parameters
    ----------
    losses : Tensor of shape (n,) or (n, T)
        The loss of every row, or of every token of every row.
    domain_ids : Tensor of shape (n,)
        The domain of every row, whole numbers.
    mask : Tensor, optional
        Which losses count: booleans, or weights ≥ 0. What is masked may even be NaN.
    bound : float, optional
        What a single loss counts at most in `exact`.
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
    if mask is None:
        return RowLosses(values, exact, None, ids)
    return _masked(values, exact, _check_mask(mask, losses), ids)


def no_losses(ids: Any, mask: Tensor | None) -> Tensor:
    """Losses of 0 for rows that are only to be counted.

    Parameters
    ----------
    ids : Tensor of shape (n,)
        The domain of every row.
    mask : Tensor or None
        Which losses will count, if not all.
    """
    return torch.zeros_like(ids if mask is None else mask, dtype=torch.float32)


def _masked(values: Tensor, exact: Tensor, mask: Tensor, ids: Tensor) -> RowLosses:
    counts = mask != 0
    values = torch.where(counts, values, 0) * mask.to(values.dtype)
    exact = torch.where(counts, exact, 0).double() * mask.double()
    weight = mask.double()
    if values.dim() == 2:
        values, exact, weight = values.sum(1), exact.sum(1), weight.sum(1)
    return RowLosses(values, exact, weight, ids)


def _check_ids(ids: Any) -> None:
    whole = isinstance(ids, Tensor) and not (ids.is_floating_point() or ids.is_complex())
    if not whole or ids.dtype == torch.bool:
        found = (
            f"has dtype {ids.dtype}" if isinstance(ids, Tensor) else f"is a {type(ids).__name__}"
        )
        raise InputError("domain_ids", found, "give a Tensor of whole numbers 0, 1, …")
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


def domain_sums(rows: RowLosses, p: int) -> Tensor:
    """S, N and R, (3, p + 1) in float64; the last column is for ids that are not 0..p − 1.

    It waits for nothing: on a GPU a false id is found when somebody reads the last column.

    Parameters
    ----------
    rows : RowLosses
        The rows.
    p : int
        How many domains there are.
    """
    if rows.ids.device.type == "cpu":
        return torch.from_numpy(_sums_in_numpy(rows, p))
    ids = torch.where((rows.ids < 0) | (rows.ids >= p), p, rows.ids)
    return sums_on_device(rows, ids, p)


def sums_on_device(rows: RowLosses, ids: Tensor, p: int) -> Tensor:
    """`domain_sums` for ids 0..p, by operations that a GPU queues up.

    Parameters
    ----------
    rows : RowLosses
        The rows.
    ids : Tensor of shape (n,)
        Their domains, p where the number is false.
    p : int
        How many domains there are.
    """
    sums = torch.zeros(3, p + 1, dtype=torch.float64, device=ids.device)
    ones = torch.ones(len(ids), dtype=torch.float64, device=ids.device)
    sums[0].index_add_(0, ids, rows.exact.double())
    sums[1].index_add_(0, ids, ones if rows.weight is None else rows.weight)
    sums[2].index_add_(0, ids, ones)
    return sums


def _sums_in_numpy(rows: RowLosses, p: int) -> Array:
    """The same on the CPU, in a third of the time for small batches."""
    ids = rows.ids.numpy()
    if len(ids) and not (ids.min() >= 0 and ids.max() < p):
        ids = np.where((ids < 0) | (ids >= p), p, ids)
    sums = np.empty((3, p + 1))
    sums[0] = np.bincount(ids, rows.exact.numpy(), p + 1)  # adds up in float64
    sums[2] = np.bincount(ids, minlength=p + 1)
    sums[1] = sums[2] if rows.weight is None else np.bincount(ids, rows.weight.numpy(), p + 1)
    return sums


def refuse_sums(found: Array, names: Sequence[str]) -> None:
    """An error for sums that λ must not be told of: false ids, losses not finite, weights < 0.

    Parameters
    ----------
    found : ndarray of shape (3, p + 1)
        S, N and R.
    names : sequence of str
        The names of the domains, for the error.
    """
    if math.isfinite(found.sum()) and found[2, -1] == 0 and found[1].min() >= 0:
        return
    if found[2, -1] > 0:
        raise InputError("domain_ids", "has a false number", f"give 0 to {len(names) - 1}")
    if not np.isfinite(found[0]).all():
        k = int(np.flatnonzero(~np.isfinite(found[0]))[0])
        fix = "λ stays as it was; look at the model's output, or take smaller steps"
        raise InputError("losses", f"of domain {names[k]} are not finite", fix)
    if not np.isfinite(found[1]).all() or found[1].min() < 0:
        raise InputError("mask", "has a weight that is not ≥ 0", "give weights ≥ 0")


def row_weights(mixture: Tensor, n: Tensor, ids: Tensor) -> Tensor:
    """c_i = λ_k / n_k, k the domain of row i, (n,) in float64; 0 where n_k = 0.

    Parameters
    ----------
    mixture : Tensor of shape (p,)
        λ.
    n : Tensor of shape (p,) or longer
        Rows or tokens of each domain.
    ids : Tensor of shape (n,)
        The domain of each row.
    """
    n = n[: len(mixture)]
    if ids.device.type == "cpu":  # the same, a third of the time for small batches
        counts, lam = n.numpy(), mixture.numpy()
        rate = np.divide(lam, counts, out=np.zeros(len(lam)), where=counts > 0)
        return torch.from_numpy(rate[ids.numpy()])
    return torch.where(n > 0, mixture / n, 0.0)[ids]


def weighted_total(values: Tensor, c: Tensor) -> Tensor:
    """Σ_i c_i ℓ_i, a scalar that backpropagates; c (n,) in any precision.

    Parameters
    ----------
    values : Tensor of shape (n,)
        ℓ.
    c : Tensor of shape (n,)
        The weights.
    """
    return torch.dot(values, c.to(values.dtype))
