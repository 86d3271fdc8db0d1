"""What a page and a picture show: audits of one or more models over the same domains and set Λ.

A model with losses L_k on p domains has the loss Σ_k λ_k L_k at a mixture λ, and its worst case is
max_{λ∈Λ} Σ_k λ_k L_k.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anymix.auditing import Audit
from anymix.auditing.words import metric_title

Array = NDArray[np.float64]

__all__ = ["Measure", "Shown"]


class Measure(NamedTuple):
    """A loss or a metric: its name, and the values and interval ends of every model."""

    name: str  # what to call it, for people
    # (values, intervals) for every model, the values (p,) and their confidence intervals (p, 2)
    found: list[tuple[Array, Array]]
    kind: str  # of the intervals: "exact", "guaranteed" or "approximate"
    told: list[NDArray[np.bool_]]  # (p,) for every model, whether each interval says something


@dataclass(frozen=True)
class Shown:
    """The audits by name, and what they share."""

    audits: dict[str, Audit]  # model name -> its audit

    @property
    def first(self) -> Audit:
        """The audit of the first model; what all share can be read from it."""
        return next(iter(self.audits.values()))

    @cached_property
    def names(self) -> list[str]:
        """The domains' names, as text."""
        return [str(name) for name in self.first.domain_names]

    @property
    def p(self) -> int:
        """The number of domains."""
        return len(self.first.domain_names)

    @property
    def word(self) -> int:
        """The longest word in a name, in letters, at most 18: so wide is the column of names."""
        names = [*self.names, *self.audits]
        return min(18, 1 + max(len(word) for name in names for word in name.split() or [""]))

    @property
    def loss(self) -> str:
        """The name of the loss, for people: half squared errors are shown as RMSE."""
        return self.first.unit_title

    def in_unit(self, loss: Any) -> Any:
        """Losses as they are shown: half squared errors in the target's unit."""
        return self.first.in_unit(loss)

    @property
    def level(self) -> str:
        """The confidence of all intervals, as in "95%"."""
        return f"{100 * self.first.confidence:.4g}%"

    @property
    def sample(self) -> Array:
        """m̄, the domains' shares of the rows (or of their weights), (p,)."""
        sizes = self.first.masses
        return np.asarray(sizes / sizes.sum())

    @property
    def highest_losses(self) -> Array:
        """The largest L_k of any model, (p,)."""
        return np.asarray(np.max([a.domain_losses for a in self.audits.values()], axis=0))

    @cached_property
    def limits(self) -> Array:
        """Least and largest share of every domain in Λ, (p, 2)."""
        maximize, units = self.first.mixtures.maximize, np.eye(self.p)
        return np.array([[maximize(-e) @ e, maximize(e) @ e] for e in units])

    @property
    def whole(self) -> bool:
        """Whether conv Λ is all of Δ_p: it is if every domain alone is a mixture in it."""
        return bool(np.all(self.limits[:, 1] >= 1 - 1e-9))

    def outline(self, n_directions: int = 180) -> Array:
        """The border of conv Λ for p = 3: its extreme points in turn, (n, 3)."""
        angles = np.linspace(0, 2 * np.pi, n_directions, endpoint=False)
        across, up = np.array([-1, 1, 0]) / math.sqrt(2), np.array([-1, -1, 2]) / math.sqrt(6)
        directions = np.outer(np.cos(angles), across) + np.outer(np.sin(angles), up)
        corners = np.array([self.first.mixtures.maximize(d) for d in directions])
        moved = np.abs(corners - np.roll(corners, 1, axis=0)).max(axis=1) > 1e-9
        return corners[moved] if moved.any() else corners[:1]

    def measures(self) -> Iterator[Measure]:
        """The loss, then the metrics that all models have."""
        audits, kinds = list(self.audits.values()), self.first.interval_kinds
        losses = [(a.in_unit(a.domain_losses), a.in_unit(a.intervals)) for a in audits]
        told = [
            np.array([a.tells(x, e) for x, e in zip(a.domain_losses, a.intervals, strict=True)])
            for a in audits
        ]
        yield Measure(self.loss, losses, kinds["loss"], told)
        for name in audits[0].metrics:
            if name == "rmse" and self.first.is_rooted:  # the loss itself, as it is shown
                continue
            if all(name in a.metrics for a in audits):
                found = [(a.metrics[name], a.metric_intervals[name]) for a in audits]
                always = np.ones(self.p, dtype=bool)
                yield Measure(metric_title(name), found, kinds[name], [always] * len(audits))
