"""What the calls of a loss have brought since the last step of λ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from anymix.pytorch.distributed import total

if TYPE_CHECKING:
    from anymix.pytorch.drawing import Drawn

Array = NDArray[np.float64]

__all__ = ["UnderWay"]


class UnderWay:
    """Sums over the domains since the last step, and how the rows were drawn.

    Parameters
    ----------
    p : int
        How many domains there are.

    Attributes
    ----------
    joined : Tensor of shape (3, p + 1) or None
        Sums that all ranks share already; None is 0.
    own : Tensor of shape (3, p + 1) or None
        Sums of this rank alone; None is 0.
    missed : ndarray of shape (p,) or None
        P(a domain is in none of the batches); None where no sampler is followed.
    drawn : ndarray of shape (p,) or None
        The rows that the sampler drew.
    announced : Tensor of shape (p + 1,) or None
        N of all calls until the next step, if it was said beforehand.
    """

    def __init__(self, p: int) -> None:
        self.p = p
        self.clear()

    def clear(self) -> None:
        """Forget all, as after a step."""
        self.joined: Tensor | None = None
        self.own: Tensor | None = None
        self.missed: Array | None = None
        self.drawn: Array | None = None
        self.announced: Tensor | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come or was announced since the last step."""
        return self.joined is None and self.own is None and self.announced is None

    @property
    def is_checked(self) -> bool:
        """Whether the sums were looked at when they came: those of all ranks, on the CPU."""
        return self.own is None and self.joined is not None and self.joined.device.type == "cpu"

    @property
    def inclusion(self) -> Array | None:
        """π (p,), the chance that a domain is in one of the batches; None if not known."""
        return None if self.missed is None else 1 - self.missed

    def add(self, sums: Tensor, joined: bool) -> None:
        """Add S, N and R of one call; `joined` if they are those of all ranks."""
        name = "joined" if joined else "own"
        before = getattr(self, name)
        setattr(self, name, sums if before is None else before + sums)

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
            own = total(self.own.clone(), group)
            sums = own if sums is None else sums + own
        return np.zeros((3, self.p + 1)) if sums is None else sums.cpu().numpy()

    def to(self, device: torch.device) -> None:
        """Move the sums to a device."""
        self.joined = None if self.joined is None else self.joined.to(device)
        self.own = None if self.own is None else self.own.to(device)
        self.announced = None if self.announced is None else self.announced.to(device)

    def arrays(self) -> dict[str, ArrayLike]:
        """All of it, for a checkpoint: NaN stands for None."""
        table, unknown = np.zeros((3, self.p + 1)), np.full(self.p, np.nan)
        return {
            "sums": table if self.joined is None else self.joined.cpu().numpy(),
            "own_sums": table if self.own is None else self.own.cpu().numpy(),
            "missed": unknown if self.missed is None else self.missed,
            "drawn": unknown if self.drawn is None else self.drawn,
        }

    @staticmethod
    def of(arrays: Mapping[str, Array], device: torch.device) -> UnderWay:
        """What `arrays` was taken of."""
        found = UnderWay(len(arrays["missed"]))
        for name, place in (("sums", "joined"), ("own_sums", "own")):
            if arrays[name].any():
                setattr(found, place, torch.tensor(arrays[name], device=device))
        for name in ("missed", "drawn"):
            if not np.isnan(arrays[name]).any():
                setattr(found, name, arrays[name])
        return found
