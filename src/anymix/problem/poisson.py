"""The loss of counts: half the Poisson deviance, with means μ = eᶻ.

    ℓ(z, y) = y log(y/μ) − (y − μ),    ℓ' = μ − y,    ℓ'' = μ,
    ℓ*(α) = p log p − p + y − y log y,    p = α + y ≥ 0.

Rows with y = 0 have ℓ = μ, least at z = −∞. ℓ'' has no bound, so what proofs know of other losses,
ℓ'² ≤ 2ℓ, is here |ℓ'| ≤ 2ℓ + √(2yℓ), which follows from ℓ ≥ (y − μ)² / (2 max(y, μ)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import kl_div

from anymix.errors import InputError
from anymix.problem.losses import Growth, Loss, Scalar

Array = NDArray[np.float64]

__all__ = ["Poisson"]

FAR = 100.0  # beyond it ℓ goes on along its tangent: no mean is 10⁴³, and nothing overflows
MOST, LEAST = 1e15, 1e-100  # counts beyond one do not differ by 1; ratios to the other overflow


@dataclass(frozen=True)
class Poisson(Loss):
    """ℓ(z, y) = y log(y/μ) − (y − μ) with the mean μ = eᶻ of counts y ≥ 0: half their deviance.

    With the half, as `PoissonRegressor` of scikit-learn has it, and as squared error has it here.
    For rates, y is count/exposure and `sample_weight` the exposure.

    Examples
    --------
    >>> import numpy as np
    >>> Poisson().value([0.0, np.log(2.0), 1e3], [0.0, 2.0, 0.0]).round(3).tolist()[:2]
    [1.0, 0.0]
    >>> Poisson().gradient([0.0, np.log(2.0)], [3.0, 2.0]).round(3).tolist()
    [-2.0, 0.0]
    """

    name: ClassVar[str] = "poisson"
    title: ClassVar[str] = "half Poisson deviance"

    # -- targets and predictions ---------------------------------------------------------------

    def check_targets(self, y: Array) -> None:
        """Refuse numbers below 0, counts that no longer differ by 1, and rates of nothing."""
        low, high = float(np.min(y, initial=0.0)), float(np.max(y, initial=0.0))
        least = float(np.min(y, where=y > 0, initial=1.0))
        if least < LEAST:
            raise InputError("y", f"has the value {least:g}", "give 0 in its place")
        if low < 0:
            raise InputError("y", f"has the value {low:g}", "give counts or rates, all ≥ 0")
        if high > MOST:
            raise InputError("y", f"has the value {high:g}", f"divide it by {high:.0e}")

    def mean(self, z: Array) -> Array:
        """μ = eᶻ."""
        return np.exp(np.minimum(z, FAR))

    def score_of(self, mean: float) -> float:
        """log μ; of 0 far below all others."""
        return math.log(mean) if mean > 0 else -FAR

    def furthest(self, y: NDArray[Any]) -> float:
        """max |log y| of the y > 0."""
        return float(np.max(np.abs(np.log(y[y > 0])), initial=0.0))

    def of_means(self, mean: Array, y: Array) -> Array:
        """The loss of predictions μ > 0 (or 0, where y is 0)."""
        self.check_targets(y)
        losses = np.asarray(kl_div(y, mean), dtype=np.float64)
        if not np.all(np.isfinite(losses)):
            worst = float(mean[~np.isfinite(losses)][0])
            found = f"has the mean {worst:g}, which a count has no finite deviance from"
            raise InputError("y_pred", found, "give means above 0")
        return losses

    def score(self, y: ArrayLike, mean: Array, sample_weight: ArrayLike | None) -> float:
        """The share D² of the deviance that is explained, as in `PoissonRegressor`."""
        from sklearn.metrics import d2_tweedie_score  # takes long to load

        return float(d2_tweedie_score(y, mean, sample_weight=sample_weight, power=1))

    # -- sizes that proofs need ----------------------------------------------------------------

    def growth(self, y: NDArray[Any]) -> Growth:
        """|ℓ'| ≤ 2ℓ + √(2yℓ); no |log y| of a double is above 745."""
        return Growth(2.0, max(1.0, float(np.max(y, initial=0.0))), 750.0)

    def added(self, y: NDArray[Any]) -> float:
        """max y: ℓ* is taken at p = α + y."""
        return float(np.max(y, initial=0.0))

    @property
    def room(self) -> float:
        """1/4: p moves by at most a quarter of itself, ℓ*'' = 1/p by a third."""
        return 0.25

    def margin(self, alpha: Array, y: NDArray[Any]) -> Array:
        """p, the way down."""
        return np.asarray(alpha + y)

    # -- values --------------------------------------------------------------------------------

    @property
    def scalar(self) -> Scalar:
        """ℓ and ℓ'."""
        return Scalar(_value, _slope)

    def derivatives(self, z: Array, y: NDArray[Any], order: int) -> tuple[Array, ...]:
        """μ − y − yδ with δ = z − log y, μ − y and μ; where μ is near y, by e^δ − 1."""
        near = np.minimum(z, FAR)
        mu = np.exp(near)
        delta = near - np.log(np.where(y > 0, y, 1.0))
        is_near = (np.abs(delta) < 1) & (y > 0)
        rise = np.expm1(np.where(is_near, delta, 0.0))
        slope = np.where(is_near, y * rise, mu - y)
        value = np.where(is_near, y * np.maximum(rise - delta, 0.0), slope - y * delta)
        value += slope * (z - near)  # the tangent
        return (value, slope, mu)[: order + 1]

    def conjugate(self, alpha: Array, y: NDArray[Any]) -> Array:
        """α log y + p log(p/y) − α, or p log p − p where y = 0; +inf where p < 0 or p > e^FAR."""
        p, log_y, log_ratio = self._logs(alpha, y)
        value = alpha * log_y + p * log_ratio - alpha
        return np.where((p >= 0) & (p <= math.exp(FAR)), value, np.inf)

    def conjugate_size(self, value: Array, alpha: Array, y: NDArray[Any]) -> Array:
        """|α log y| + |p log(p/y)| + |α|: they cancel near α = 0."""
        p, log_y, log_ratio = self._logs(alpha, y)
        return np.abs(alpha * log_y) + np.abs(p * log_ratio) + np.abs(alpha)

    @staticmethod
    def _logs(alpha: Array, y: NDArray[Any]) -> tuple[Array, Array, Array]:
        """p, log y and log(p/y), with 1 in place of y = 0."""
        p, unit = alpha + y, np.where(y > 0, y, 1.0)
        tiny = float(np.finfo(np.float64).tiny)
        t = alpha / unit
        near = np.log1p(np.clip(t, -0.5, 0.5))  # where p is near y it has more digits
        far = np.log(np.maximum(p, tiny) / unit)
        return p, np.log(unit), np.where((y > 0) & (np.abs(t) <= 0.5), near, far)

    def conjugate_slopes(self, alpha: Array, y: NDArray[Any]) -> tuple[Array, Array]:
        """p and log p."""
        p = np.maximum(alpha + y, 0.0)
        return p, np.log(np.maximum(p, 1e-300))

    def inside(self, alpha: Array, y: NDArray[Any]) -> Array:
        """p from 0 to e^FAR."""
        return np.clip(alpha, -y, math.exp(FAR) / 2)

    # -- for the bounds ------------------------------------------------------------------------

    def lipschitz(self, radius: float = math.inf, target: float = 0.0, n_classes: int = 2) -> float:
        """max(e^radius, target): μ − y with one of them 0."""
        _check(radius, target)
        return max(math.exp(min(radius, FAR)), target)

    def bound(self, radius: float, target: float = 0.0, n_classes: int = 2) -> float:
        """M, at an end of the scores and of the targets, for ℓ is convex in both."""
        _check(radius, target)
        z = np.array([radius, radius, -radius, -radius])
        return float(self.derivatives(z, np.array([0.0, target, 0.0, target]), 0)[0].max())


def _check(radius: float, target: float) -> None:
    for name, value in (("radius", radius), ("target", target)):
        if not value >= 0:
            raise InputError(name, f"is {value}", "give a number ≥ 0")


def _value(z: float, y: float, _: float) -> float:
    near = min(z, FAR)
    delta = near - math.log(y) if y > 0 else math.inf
    if abs(delta) < 1:
        rise = math.expm1(delta)
        return y * max(rise - delta, 0.0) + y * rise * (z - near)
    slope = math.exp(near) - y
    return slope - (y * delta if y > 0 else 0.0) + slope * (z - near)


def _slope(z: float, y: float, _: float) -> float:
    near = min(z, FAR)
    delta = near - math.log(y) if y > 0 else math.inf
    return y * math.expm1(delta) if abs(delta) < 1 else math.exp(near) - y
