"""Secure aggregation: the server sees sums over all clients, and nothing of a single one.

    δ_w = Σ_c update_c,   δ_λ = Σ_c losses_c,   m_k = Σ_c m_kc

are found from answers that are masked, each of which by itself looks like random numbers (see
`masking`). `Secure` wraps the aggregation that is wanted: `Secure(Sum(min_share=0.9))`, or
`Secure(Privacy(...))`, whose noise the clients then add themselves. The clients' apps are wrapped
too, by `secured`: they answer in no other way.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.errors import InputError, finite_number
from anymix.flower.aggregation import Contribution, Here, S, Sum
from anymix.flower.fixed_point import FixedPoint
from anymix.flower.policy import Limits, Patience
from anymix.flower.privacy import Privacy
from anymix.flower.secure_grid import SecureGrid

Array = NDArray[np.float64]

__all__ = ["Secure"]

# Wider in solving, where sums of squares of columns travel, in whatever units these are.
TRAINING = (2.0**-50, 2.0**30)
SOLVING = (2.0**-80, 2.0**60)


@dataclass(frozen=True)
class Secure:
    """A sum whose parts the server cannot read.

    Parameters
    ----------
    inner : Sum or Privacy
        What is done with the sum. Sum(min_share=s) goes on with the others as soon as s of the
        clients of every domain answer. With Privacy each client clips what it sends and adds a part
        of the noise, so that the parts of `threshold` honest clients make up the noise promised.
    threshold : float
        The part of the clients whose shares are needed to read the sum, above 1/2. So many must be
        there to the end, and fewer than that may work together with the server.
    by_domain : bool
        Ask for the gradient of every domain, and weigh them at the server: clients then learn
        neither λ nor the sizes of domains, for p times the numbers. With one local step only.
    resolution, largest : float, optional
        Numbers travel in steps of `resolution` up to `largest`; a sum over n clients is wrong by
        at most n/2 steps. None is 2⁻⁵⁰ and 2³⁰ in training, 2⁻⁸⁰ and 2⁶⁰ in solving. A large
        module needs half the bytes with 2⁻³² and 2¹².

    Examples
    --------
    >>> from anymix.flower import AgnosticStrategy, LocalGrid, client_app, secured
    >>> def load(context):
    ...     rng = np.random.default_rng(context.node_config["partition-id"])
    ...     X = rng.normal(size=(40, 1))
    ...     return X, X[:, 0] > rng.logistic(size=40), rng.choice(["east", "west"], 40)
    >>> grid = LocalGrid(secured(client_app(load, classes=[False, True])), nodes=3)
    >>> strategy = AgnosticStrategy(aggregation=Secure(), gamma=1e-2)
    >>> result = strategy.start(grid, num_rounds=20)
    >>> result.history[0]["clients"], result.domains
    (3, ('east', 'west'))
    """

    inner: Sum | Privacy = field(default_factory=Sum)
    threshold: float = 2 / 3
    by_domain: bool = False
    resolution: float | None = None
    largest: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Sum | Privacy):
            fix = "give Sum(...) or Privacy(...): what looks at single answers cannot be secure"
            raise InputError("inner", f"is {self.inner!r}", fix)
        fix = "give a number in (1/2, 1]"
        finite_number("threshold", self.threshold, fix, lambda t: 0.5 < t <= 1)
        if self.by_domain and isinstance(self.inner, Privacy):
            fix = "give by_domain=False: noise is for the weighted sum of the gradients"
            raise InputError("by_domain", "is True with Privacy", fix)
        self.form(solving=False), self.form(solving=True)  # complain now

    @property
    def exact(self) -> bool:
        """Whether the sums are those of the rows, without noise."""
        return self.inner.exact

    def form(self, *, solving: bool) -> FixedPoint:
        """How numbers travel."""
        resolution, largest = SOLVING if solving else TRAINING
        return FixedPoint(self.resolution or resolution, self.largest or largest)

    def needed(self, n_clients: int) -> int:
        """How many of so many clients must give their shares."""
        return max(2, math.ceil(self.threshold * n_clients - 1e-9))

    @property
    def limits(self) -> dict[str, float]:
        """What each client does to its part before it is masked, with Privacy."""
        return {} if isinstance(self.inner, Sum) else self.inner.terms

    @property
    def min_share(self) -> float:
        """The part of the clients of each domain that will do."""
        return self.inner.min_share if isinstance(self.inner, Sum) else 1.0

    # -- as an aggregation, of one client that is all clients ------------------------------------

    def prepare(self, strategy: S, grid: Grid, timeout: float) -> tuple[S, Grid]:
        """The run as it is on a grid on which all clients are one."""
        this, inside = cast(Any, strategy), cast(Any, copy.copy(strategy))
        if this.clients_per_round is not None:
            fix = "ask all of them: the sum over few clients says more about each"
            raise InputError("clients_per_round", f"is {this.clients_per_round}", fix)
        if self.by_domain and (this.local_steps > 1 or this.local_epochs):
            fix = "take one local step, or by_domain=False"
            raise InputError("by_domain", "is True with local steps", fix)
        inside.limits = Limits(domains=None)
        inside.patience = replace(this.patience, min_clients=1, max_failures=10**9)
        over = self.over(grid, this.patience, this.limits, this.domains, timeout)
        return inside, over

    def over(
        self,
        grid: Grid,
        patience: Patience,
        limits: Limits,
        domains: Sequence[str] | None,
        timeout: float,
        *,
        solving: bool = False,
    ) -> SecureGrid:
        """A grid on which all clients are one, whose answers are their sums."""
        if limits.rows is not None:
            fix = "leave it out: nobody sees how many rows a client has"
            raise InputError("rows", f"is {limits.rows}", fix)
        return SecureGrid(grid, self, patience, limits, domains, timeout, solving=solving)

    def enough(self, A: Array, B: Array, here: Here) -> bool:
        """Whether the sum is here."""
        return Sum().enough(A, B, here)

    def add_up(
        self, given: Mapping[int, Contribution], A: Array, B: Array, step: int
    ) -> tuple[Array, Array] | None:
        """(δ_w, δ_λ): the sum as it is."""
        return Sum().add_up(given, A, B, step)

    def price(self, steps: int) -> float | None:
        """ε of so many steps, if at least `threshold` of the clients are honest."""
        return self.inner.price(steps)

    def spent(self, steps: int) -> float | None:
        """The same, for the record of a round."""
        return self.inner.spent(steps)
