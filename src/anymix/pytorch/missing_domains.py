"""The gradient for λ when a batch lacks domains: δ_k for every k, never 0 for want of rows.

e_k is the last estimate of L_k, made before the rows of this step were drawn.

    unbiased   δ_k = e_k + [k was drawn] (mean_k − e_k) / π_k,   π_k = P(k is drawn)   E δ_k = L_k
    keep       δ_k = mean_k, and e_k where domain k was not drawn

Both give mean_k where a domain is drawn for certain. A domain that was never seen has no e_k yet.
"keep" then gives it the mean of the others under λ, which leaves its share about where it is;
"unbiased" may take any number that does not depend on the draw, and takes the mean of the e_j.
"""

from __future__ import annotations

import math
import warnings
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError

Array = NDArray[np.float64]
Absent = Literal["auto", "unbiased", "keep"]

__all__ = ["Absent", "Estimates", "UnseenDomain"]


class UnseenDomain(UserWarning):
    """A domain has not been in any batch for many steps, so its share rests on an old loss.

    Examples
    --------
    >>> issubclass(UnseenDomain, UserWarning)
    True
    """


class Estimates:
    """The last estimate e_k of each domain's loss, and how long ago it was made."""

    def __init__(self, p: int, absent: Absent = "auto", patience: int = 1000) -> None:
        if absent not in ("auto", "unbiased", "keep"):
            raise InputError("absent", f"is {absent!r}", "give 'auto', 'unbiased' or 'keep'")
        self.absent, self.patience = absent, patience
        self.last, self.unseen = np.full(p, np.nan), np.zeros(p)
        self._warned = False

    def gradient(self, means: Array, mixture: Array, inclusion: Array | None = None) -> Array:
        """δ (p,), and e brought up to date.

        `means` (p,) is NaN where a domain was not drawn, `mixture` is λ, for "keep", and
        `inclusion` is π > 0, if it is known.
        """
        if self.absent == "unbiased" and inclusion is None:
            fix = "call follow(batches) with the DomainBatches that draws the rows, or take 'keep'"
            raise InputError("absent", "is 'unbiased' but no sampler is known", fix)
        all_seen = not math.isnan(np.vdot(means, means))
        if all_seen and (inclusion is None or (inclusion == 1).all()):
            self.last, self.unseen = means, np.zeros(len(means))
            return means
        seen = ~np.isnan(means)
        if self.absent == "keep" or inclusion is None:
            delta = _kept(means, seen, mixture, self.last)
        else:
            delta = _unbiased(means, seen, inclusion, self.last)
        self.last = np.where(seen, means, self.last)
        self.unseen = np.where(seen, 0.0, self.unseen + 1)
        if not self._warned and self.unseen.max() >= self.patience:
            self._warn()
        return delta

    def _warn(self) -> None:
        self._warned = True
        late = np.flatnonzero(self.unseen >= self.patience)
        message = (
            f"domain {late[0]} was in no batch for {self.patience} steps; its share rests on an "
            "old loss; draw batches with DomainBatches, or leave the domain out"
        )
        warnings.warn(message, UnseenDomain, stacklevel=4)


def _kept(means: Array, seen: NDArray[np.bool_], mixture: Array, last: Array) -> Array:
    delta = np.where(seen, means, last)
    known = ~np.isnan(delta)
    if known.all():
        return delta
    mass = mixture[known].sum()
    of_others = mixture[known] @ delta[known] / mass if mass > 0 else delta[known].mean()
    return np.where(known, delta, of_others)


def _unbiased(means: Array, seen: NDArray[np.bool_], inclusion: Array, last: Array) -> Array:
    known = ~np.isnan(last)
    before = np.where(known, last, last[known].mean() if known.any() else 0.0)
    with np.errstate(invalid="ignore"):  # means are NaN where nothing was seen
        return np.where(seen, before + (means - before) / inclusion, before)
