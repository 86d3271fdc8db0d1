"""Several processes: sums over all ranks of a process group.

A rank holds the rows of its own batch. The sums of a domain over all ranks are those of the joined
batch, so every rank that adds them up moves λ in the same way, and nobody has to send λ around.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import Tensor

__all__ = ["is_alone", "n_ranks", "total"]

AVAILABLE = dist.is_available()


def is_alone() -> bool:
    """Whether torch.distributed was not initialised."""
    return not AVAILABLE or dist.group.WORLD is None


def n_ranks(group: Any = None) -> int:
    """How many processes share the work; 1 where torch.distributed was not initialised.

    Parameters
    ----------
    group : torch.distributed.ProcessGroup, optional
        The group to count; None is the default one.
    """
    return 1 if is_alone() else dist.get_world_size(group)


def total(values: Tensor, group: Any = None, ranks: int | None = None) -> Tensor:
    """The sum of a tensor over all ranks, in place; every rank gets the same bits.

    Parameters
    ----------
    values : Tensor
        This rank's part; the shape is the same on every rank.
    group : torch.distributed.ProcessGroup, optional
        The group to add over; None is the default one.
    ranks : int, optional
        How many there are, if the caller knows it already.
    """
    if (n_ranks(group) if ranks is None else ranks) > 1:
        dist.all_reduce(values, group=group)
    return values
