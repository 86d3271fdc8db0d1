"""What the server does with the answers of a round: it adds them up.

    δ_w = Σ_c update_c,   δ_λ = Σ_c losses_c

`Sum` does just that; `privacy.Privacy` adds clipping and noise, and `robust.Robust` takes the
middle of the answers instead of their sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from anymix.errors import finite_number

Array = NDArray[np.float64]
Here = NDArray[np.bool_]

__all__ = ["Aggregation", "Contribution", "Sum", "rebalance"]


@dataclass(frozen=True)
class Contribution:
    """What one client adds to the sums."""

    update: Array  # (D,), Σ_k A_k times the mean gradient of its rows of k
    losses: Array  # (p,), B_k times their mean loss, 0 where not asked


class Aggregation(Protocol):
    """From the contributions of a round to δ_w and δ_λ."""

    # A and B, (clients, p), are the masses asked for: rows times their weights in δ_w and in δ_λ.
    # `given` is by the row in them; the order of replies must not matter.

    @property
    def exact(self) -> bool:
        """Whether the sums are those of the rows, without noise, and of all who answer."""
        ...

    def enough(self, A: Array, B: Array, here: Here) -> bool:
        """Whether it takes no more than the clients that are here, (clients,)."""
        ...

    def add_up(
        self, given: Mapping[int, Contribution], A: Array, B: Array, step: int
    ) -> tuple[Array, Array] | None:
        """(δ_w, δ_λ) of step number `step`, or None where too little is given."""
        ...

    def price(self, steps: int) -> float | None:
        """ε of so many steps, None without a promise of privacy."""
        ...

    def spent(self, steps: int) -> float | None:
        """The same for the record of a round, found in no time."""
        ...


@dataclass(frozen=True)
class Sum:
    """The sums of all that were asked, or of enough of them.

    Parameters
    ----------
    min_share : float
        The least part of every domain's rows that must answer. Below 1, the clients of a domain
        that did answer stand for the lost ones, and the mixture stays as it is.

    Examples
    --------
    >>> A = np.array([[0.5, 0.0], [0.0, 0.5]])
    >>> given = {0: Contribution(np.ones(1), np.array([0.3, 0.0]))}
    >>> Sum().add_up(given, A, 2 * A, step=1) is None
    True
    >>> given[1] = Contribution(np.ones(1), np.array([0.0, 0.4]))
    >>> Sum().add_up(given, A, 2 * A, step=1)
    (array([2.]), array([0.3, 0.4]))
    """

    min_share: float = 1.0
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        fix = "give a number in (0, 1]"
        finite_number("min_share", self.min_share, fix, lambda share: 0 < share <= 1)

    def enough(self, A: Array, B: Array, here: Here) -> bool:
        """Whether at least min_share of the mass asked for, of every domain, is here."""
        masses = np.stack([A, B])  # (2, clients, p)
        whole, part = masses.sum(axis=1), masses[:, here].sum(axis=1)
        least = self.min_share * whole * (1 - 1e-12)
        return bool(np.all(part >= least) and np.all((part > 0) == (whole > 0)))

    def add_up(
        self, given: Mapping[int, Contribution], A: Array, B: Array, step: int
    ) -> tuple[Array, Array] | None:
        """The sums over all that were asked, or None if too few of them answered."""
        rows = sorted(given)
        if not rows:
            return None
        updates = np.array([given[i].update for i in rows])
        losses = np.array([given[i].losses for i in rows])
        asked = np.flatnonzero(((A > 0) | (B > 0)).any(axis=1))
        if rows == asked.tolist():
            return updates.sum(axis=0), losses.sum(axis=0)
        here = np.isin(np.arange(len(A)), rows)
        f = rebalance(A, here) if self.enough(A, B, here) else None
        if f is None:
            return None
        whole, part = B.sum(axis=0), B[here].sum(axis=0)
        scale = np.divide(whole, part, out=np.ones_like(part), where=part > 0)
        return f @ updates, losses.sum(axis=0) * scale

    def price(self, steps: int) -> float | None:
        """None: a sum promises no privacy."""
        return None

    def spent(self, steps: int) -> float | None:
        """None: a sum promises no privacy."""
        return None


def rebalance(A: Array, here: Here) -> Array | None:
    """Factors f of those that answered with Σ_c f_c A_ck = the mass asked for, or None."""
    # The nearest to 1 in Σ_c |A_c| (f_c − 1)²; of clients of one domain, the mass asked for over
    # the mass that answered. So a lost client makes its domain noisier, not lighter.
    target, rest = A.sum(axis=0), A[here]
    mass = rest.sum(axis=1)
    D = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)
    lack = target - rest.sum(axis=0)
    shift = np.linalg.pinv((rest.T * D) @ rest, hermitian=True) @ lack
    f: Array = 1 + D * (rest @ shift)
    exact = np.allclose(f @ rest, target, rtol=1e-9, atol=1e-12)
    return f if exact and np.all(f >= 0) else None
