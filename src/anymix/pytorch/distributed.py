"""Several processes: sums over all ranks of a process group.

A rank holds the rows of its own batch. The sums of a domain over all ranks are those of the joined
batch, so every rank that adds them up moves λ in the same way, and nobody has to send λ around.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
import torch.distributed as dist

Values = TypeVar("Values")  # an array, or a tensor

__all__ = ["n_ranks", "total"]

AVAILABLE = dist.is_available()


def n_ranks(group: Any = None) -> int:
    """How many processes share the work; 1 where torch.distributed was not initialised."""
    return 1 if not AVAILABLE or dist.group.WORLD is None else dist.get_world_size(group)


def total(values: Values, group: Any = None, ranks: int | None = None) -> Values:
    """The sum over all ranks, in place; every rank gets the same bits."""
    if (n_ranks(group) if ranks is None else ranks) > 1:
        dist.all_reduce(torch.as_tensor(values), group=group)  # shares the memory of an array
    return values
