"""Aggregation that a few false answers cannot lead astray.

Of clients with the same domains, c = 1, …, n, with masses A_c = Σ_k A_ck, the mean gradients
g_c = update_c / A_c are all guesses of one vector. A sum takes their mean, weighted by A_c, which
one liar moves as far as it likes. Here it is, times Σ_c A_c,

    "trimmed"     in every coordinate the mean of the g_c without the least and the greatest t·n
    "geometric"   the geometric median, argmin_g Σ_c A_c ‖g_c − g‖

and the loss of domain k is the weighted median of the mean losses that its clients report. Both
are near the sum where clients are alike, and differ from it where they are not: then the price is
a model that serves the middle ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError, finite_number
from anymix.flower.aggregation import Contribution, Here, Sum

Array = NDArray[np.float64]

__all__ = ["Robust", "geometric_median", "trimmed_mean", "weighted_median"]


@dataclass(frozen=True)
class Robust:
    """The middle of the clients' answers instead of their sum.

    Parameters
    ----------
    updates : {"geometric", "trimmed"}
        How updates of clients with the same domains are brought together.
    trim : float
        With "trimmed", the part of the clients that is left out at either end, in (0, 1/2): more
        than the part of liars that you fear.
    min_share : float
        The least part of every domain's rows that must answer, as in `Sum`.

    Examples
    --------
    >>> A = np.full((5, 1), 0.2)
    >>> honest = Contribution(0.2 * np.ones(2), np.array([0.2 * 0.5]))
    >>> liar = Contribution(-1e6 * np.ones(2), np.array([1e6]))
    >>> given = dict(enumerate([honest, honest, liar, honest, honest]))
    >>> update, losses = Robust("trimmed", trim=0.2).add_up(given, A, A, step=1)
    >>> update.round(9).tolist(), losses.round(9).tolist()
    ([1.0, 1.0], [0.5])
    """

    updates: Literal["trimmed", "geometric"] = "geometric"
    trim: float = 0.2
    min_share: float = 1.0
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.updates not in ("trimmed", "geometric"):
            found = f"is {self.updates!r}"
            raise InputError("updates", found, "give 'trimmed' or 'geometric'")
        finite_number("trim", self.trim, "give a number in (0, 1/2)", lambda t: 0 < t < 0.5)
        Sum(self.min_share)  # complains about a wrong one

    def enough(self, A: Array, B: Array, here: Here) -> bool:
        """Whether at least min_share of the mass asked for, of every domain, is here."""
        return Sum(self.min_share).enough(A, B, here)

    def add_up(
        self, given: Mapping[int, Contribution], A: Array, B: Array, step: int
    ) -> tuple[Array, Array] | None:
        """(δ_w, δ_λ) of the middle of the answers, or None if too few of them came."""
        rows = sorted(given)
        here = np.isin(np.arange(len(A)), rows)
        if not rows or not self.enough(A, B, here):
            return None
        updates = np.array([given[i].update for i in rows])
        losses = np.array([given[i].losses for i in rows])
        return self._update(updates, A, rows), _losses(losses, B, rows)

    def _update(self, updates: Array, A: Array, rows: list[int]) -> Array:
        """Σ over groups of clients with the same domains of their mass times their middle."""
        groups: dict[bytes, list[int]] = {}
        for place, i in enumerate(rows):
            groups.setdefault((A[i] > 0).tobytes(), []).append(place)
        mass, total = A.sum(axis=1), np.zeros(updates.shape[1])
        for kind, places in groups.items():
            own = mass[[rows[place] for place in places]]
            if not own.any():
                continue
            g = updates[places] / own[:, None]
            same = [(row > 0).tobytes() == kind for row in A]
            middle = geometric_median(g, own) if self.updates == "geometric" else self._trimmed(g)
            total += float(mass[same].sum()) * middle  # the lost ones of the group as well
        return total

    def _trimmed(self, g: Array) -> Array:
        return trimmed_mean(g, self.trim)

    def price(self, steps: int) -> float | None:
        """None: no promise of privacy."""
        return None

    def spent(self, steps: int) -> float | None:
        """None: no promise of privacy."""
        return None


def _losses(losses: Array, B: Array, rows: list[int]) -> Array:
    """Of every domain, the mass asked for times the median of the mean losses reported."""
    total = np.zeros(B.shape[1])
    for k in np.flatnonzero(B.sum(axis=0) > 0):
        own = B[rows, k]
        asked = own > 0
        means = losses[asked, k] / own[asked]
        total[k] = B[:, k].sum() * weighted_median(means, own[asked])
    return total


def trimmed_mean(g: Array, trim: float) -> Array:
    """In every column, the mean without the ⌈trim · n⌉ least and greatest ones, or the median."""
    n = len(g)
    cut = min(int(np.ceil(trim * n)), (n - 1) // 2)
    means: Array = np.sort(g, axis=0)[cut : n - cut].mean(axis=0)
    return means


def geometric_median(g: Array, weights: Array, iterations: int = 200) -> Array:
    """argmin_x Σ_c weights_c ‖g_c − x‖, by Weiszfeld's steps, (d,)."""
    x: Array = np.median(g, axis=0)
    scale = float(np.median(np.linalg.norm(g - x, axis=1)))
    for _ in range(iterations if scale > 0 else 0):  # 0: most of them are the same
        away = np.maximum(np.linalg.norm(g - x, axis=1), 1e-12 * scale)
        pull = weights / away
        new: Array = (pull / pull.sum()) @ g
        if np.linalg.norm(new - x) <= 1e-10 * scale:
            return new
        x = new
    return x


def weighted_median(values: Array, weights: Array) -> float:
    """The least value with half of the weight at or below it; halfway if just half is there."""
    order = np.argsort(values, kind="stable")
    v, total = values[order], np.cumsum(weights[order])
    half = total[-1] / 2
    i = int(np.searchsorted(total, half * (1 - 1e-12)))
    exactly = abs(total[i] - half) <= 1e-12 * half and i + 1 < len(v)
    return float((v[i] + v[i + 1]) / 2 if exactly else v[i])
