"""Numbers for a logger, from the state of the λ-player."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anymix.mixtures import Adversary
from anymix.pytorch.absence import Estimates

Array = NDArray[np.float64]

__all__ = ["Record"]


@dataclass(frozen=True, eq=False)
class Record:
    """What `AgnosticLoss.record` says.

    Parameters
    ----------
    adversary : Adversary
        λ.
    estimates : Estimates
        The last loss of each domain.
    reference : ndarray of shape (p,)
        b.
    names : sequence of str
        Names of the domains.
    """

    adversary: Adversary
    estimates: Estimates
    reference: Array
    names: Sequence[str]

    def columns(self) -> dict[str, float]:
        """Names and numbers, nothing else: any logger takes them."""
        losses, excess = self.estimates.last, self.estimates.last - self.reference
        found = {"step": float(self.adversary.n_steps)}
        found |= self._each("loss", losses) | self._each("mixture", self.adversary.mixture)
        if self.reference.any():
            found |= self._each("excess", excess)
        known = ~np.isnan(excess)
        worst = int(np.argmax(np.where(known, excess, -np.inf)))
        found["worst_domain"] = float(worst) if known.any() else np.nan
        found["worst_loss"] = float(losses[worst])
        found["agnostic_loss"] = self._agnostic(excess) if known.all() else np.nan
        found["unseen"] = float(self.estimates.unseen.max())
        return found

    def _each(self, word: str, values: Array) -> dict[str, float]:
        return {f"{word}/{name}": float(v) for name, v in zip(self.names, values, strict=True)}

    def _agnostic(self, excess: Array) -> float:
        """max_{λ∈Λ} Σ_k λ_k (L_k − b_k)."""
        return float(self.adversary.mixtures.maximize(excess) @ excess)
