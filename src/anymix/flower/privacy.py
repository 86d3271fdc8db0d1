"""Differential privacy of a client: what it sends is clipped, and the sums get Gaussian noise.

A round releases  Σ_c clip(update_c, C_w) + N(0, (z_w C_w)²)
and               Σ_c clip(losses_c, C_l) + N(0, (z_l C_l)²),
together one Gaussian mechanism with noise multiplier z = 1/√(1/z_w² + 1/z_l²). λ and w are made of
the noisy sums alone, so T rounds cost what T such mechanisms cost.

What the (ε, δ) says: whether a client sent its sums or zeros makes little difference to all models
and mixtures of the run. Its numbers of rows m_kc, and who is there, count as public, and so do the
counters in the history. The server adds the noise and sees the replies before it, so this is a
promise about whoever sees the models, and none about the server.
No discount is taken for rounds that ask only some of the clients, and no client may stand in for a
lost one, which would count for more than its clip: everyone asked must answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from anymix.errors import finite_number
from anymix.flower.aggregation import Contribution, Here, Sum, shortened

Array = NDArray[np.float64]

__all__ = ["Privacy", "gaussian_epsilon"]


@dataclass(frozen=True)
class Privacy:
    """A sum with clipping and noise around it, and what a run of it costs in privacy.

    The server adds the noise and sees the replies before it: ε is a promise to clients about
    whoever sees the models, and none about the server.

    Parameters
    ----------
    update_clip : float
        C_w, the longest update of one client. A client's update is its part of the gradient, so
        with n like clients of gradients up to G take about G/n.
    loss_clip : float
        C_l, the longest vector of one client's parts of L_1, …, L_p.
    update_noise, loss_noise : float
        z_w and z_l, noise in units of the clips.
    delta : float
        δ of the report, below 1/clients.
    seed : int, optional
        Of the noise. None draws it from the operating system: a published seed undoes the noise.

    Examples
    --------
    >>> Privacy(1.0, 1.0, update_noise=2.0, loss_noise=2.0).noise_multiplier
    1.414...
    >>> from anymix.flower import AgnosticStrategy, Steps
    >>> private = Privacy(0.1, 0.1, update_noise=10.0, loss_noise=10.0)
    >>> strategy = AgnosticStrategy(steps=Steps(0.1, 0.01), aggregation=private)
    """

    update_clip: float
    loss_clip: float
    update_noise: float
    loss_noise: float
    delta: float = 1e-5
    seed: int | None = None
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("update_clip", "loss_clip", "update_noise", "loss_noise"):
            finite_number(name, getattr(self, name), "give a positive number", lambda x: x > 0)
        fix = "give a number in (0, 1), below 1/clients"
        finite_number("delta", self.delta, fix, lambda x: 0 < x < 1)

    @property
    def noise_multiplier(self) -> float:
        """z of the two releases of a round taken together."""
        return 1 / math.hypot(1 / self.update_noise, 1 / self.loss_noise)

    def enough(self, A: Array, B: Array, here: Here) -> bool:
        """Whether all that were asked are here."""
        return Sum().enough(A, B, here)

    def add_up(
        self, given: Mapping[int, Contribution], A: Array, B: Array, step: int
    ) -> tuple[Array, Array] | None:
        """(δ_w, δ_λ) as they are released: of clipped contributions, with noise."""
        sums = Sum().add_up({i: self.clip(one) for i, one in given.items()}, A, B, step)
        return None if sums is None else self.add_noise(*sums, step)

    def clip(self, given: Contribution) -> Contribution:
        """A client's contribution, at most as long as promised."""
        update = shortened(given.update, self.update_clip)
        return Contribution(update, shortened(given.losses, self.loss_clip))

    def add_noise(self, update: Array, losses: Array, step: int) -> tuple[Array, Array]:
        """The sums as they are released in this step."""
        rng = np.random.default_rng(None if self.seed is None else [self.seed, step])
        return (
            update + rng.normal(scale=self.update_noise * self.update_clip, size=update.shape),
            losses + rng.normal(scale=self.loss_noise * self.loss_clip, size=losses.shape),
        )

    def price(self, steps: int) -> float | None:
        """The ε that so many steps have spent in all."""
        return self.epsilon(steps)

    def spent(self, steps: int) -> float | None:
        """The same by the closed form: T such mechanisms are one of noise multiplier z/√T."""
        return (
            gaussian_epsilon(self.noise_multiplier / math.sqrt(steps), self.delta) if steps else 0.0
        )

    def epsilon(self, rounds: int) -> float:
        """ε of so many rounds at δ, by the accountant of dp-accounting (extra `privacy`).

        Parameters
        ----------
        rounds : int
            How many rounds released their sums; a skipped round releases nothing.

        Returns
        -------
        float

        Examples
        --------
        >>> privacy = Privacy(1.0, 1.0, update_noise=20.0, loss_noise=20.0)
        >>> privacy.epsilon(0), privacy.epsilon(10) < privacy.epsilon(100)
        (0.0, True)
        """
        if rounds == 0:
            return 0.0
        import dp_accounting
        from dp_accounting.pld import PLDAccountant

        accountant = PLDAccountant()
        accountant.compose(dp_accounting.GaussianDpEvent(self.noise_multiplier), rounds)
        return float(accountant.get_epsilon(self.delta))


def gaussian_epsilon(z: float, delta: float) -> float:
    """The ε with Φ(1/(2z) − εz) − e^ε Φ(−1/(2z) − εz) = δ, of one Gaussian mechanism."""
    # Exact (Balle and Wang, Improving the Gaussian mechanism for differential privacy, 2018), and
    # quick, where an accountant takes up to seconds.

    def excess(epsilon: float) -> float:
        a, b = 1 / (2 * z) - epsilon * z, -1 / (2 * z) - epsilon * z
        gone = float(log_ndtr(a))  # in logarithms: e^ε may be beyond all numbers
        rest = -math.expm1(min(epsilon + float(log_ndtr(b)) - gone, 0.0))
        return gone + math.log(rest) - math.log(delta) if rest > 0 else -math.inf

    if excess(0.0) <= 0:
        return 0.0
    above = 1.0
    while excess(above) > 0:
        above *= 2
    least = 0.0
    for _ in range(200):  # bisection, for the excess may be −∞ on one side
        middle = (least + above) / 2
        least, above = (middle, above) if excess(middle) > 0 else (least, middle)
    return above
