"""Losses ℓ(z, y) of a score z = ⟨w, x⟩ and a target y, with everything the solvers ask of them.

Each loss gives, per example: value ℓ, gradient ∂ℓ/∂z, curvature ∂²ℓ/∂z², and the convex conjugate
ℓ*(α) = sup_z αz − ℓ(z), from which certificates are made; and two constants for the bounds: a
Lipschitz constant and the largest value M, both over scores with |z| ≤ `radius`.

Scores are (n,), or (n, K) for cross-entropy over K ≥ 3 classes; classes are coded 0..K−1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError

Array = NDArray[np.float64]

__all__ = ["CrossEntropy", "Hinge", "Huber", "Loss", "SquaredError"]


def _numbers(name: str, values: ArrayLike) -> Array:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        found = f"has entries that are not numbers ({error})"
        raise InputError(name, found, "give numbers") from None
    bad = ~np.isfinite(numbers)
    if bad.any():
        found = f"has {bad.sum()} entries that are NaN or infinite, the first of them "
        raise InputError(name, found + f"{numbers[bad][0]}", "give finite numbers")
    return numbers


def _pair(scores: ArrayLike, y: ArrayLike, multiclass: bool = False) -> tuple[Array, Array]:
    z, t = _numbers("scores", scores), _numbers("y", y)
    if t.ndim != 1 or z.shape[:1] != t.shape or z.ndim > 1 + multiclass:
        shape = "(n,) or (n, K)" if multiclass else "(n,)"
        found = f"has shape {z.shape} and y has shape {t.shape}"
        raise InputError("scores", found, f"give scores {shape} and y (n,) with the same n")
    return z, t


def _reach(radius: float, target: float = 0.0) -> float:
    """radius + target, the largest |z − y|."""
    for name, value in (("radius", radius), ("target", target)):
        if not value >= 0:
            raise InputError(name, f"is {value}", "give a number ≥ 0")
    return float(radius) + float(target)


@dataclass(frozen=True)
class Loss:
    """What all losses share: three derivatives from one call, `derivatives(z, y, order)`.

    Examples
    --------
    >>> import numpy as np
    >>> z, y = np.array([1.0, 3.0]), np.array([1.0, 1.0])
    >>> value, slope = SquaredError().derivatives(z, y, 1)
    >>> value.tolist(), slope.tolist()
    ([0.0, 2.0], [0.0, 2.0])
    """

    @property
    def is_smooth(self) -> bool:
        """Whether the gradient is continuous, as the exact solver needs."""
        return True

    @property
    def takes_classes(self) -> bool:
        """Whether y is the code of a class, not a number."""
        return False

    @property
    def room(self) -> float:
        """The largest t for which ℓ' + s ℓ'' is in the domain of ℓ* and ℓ* hardly bent, |s| ≤ t."""
        raise NotImplementedError

    def margin(self, alpha: Array, y: NDArray[Any]) -> Array:
        """How far each α may move, up or down, inside the domain of ℓ*: (n,), for one score."""
        raise NotImplementedError

    def derivatives(self, z: Array, y: NDArray[Any], order: int) -> tuple[Array, ...]:
        """(ℓ, ℓ', ℓ'')[: order + 1], sharing the exponentials."""
        raise NotImplementedError

    def value(self, scores: ArrayLike, y: ArrayLike) -> Array:
        """ℓ(z, y) of every example, (n,)."""
        return self.derivatives(*self._read(scores, y), 0)[0]

    def gradient(self, scores: ArrayLike, y: ArrayLike) -> Array:
        """∂ℓ/∂z of every example, of the shape of the scores."""
        return self.derivatives(*self._read(scores, y), 1)[1]

    def curvature(self, scores: ArrayLike, y: ArrayLike) -> Array:
        """∂²ℓ/∂z² of every example: (n,), or (n, K, K) for K ≥ 3 classes."""
        z, t = self._read(scores, y)
        h = self.derivatives(z, t, 2)[2]
        return h if z.ndim == 1 else _softmax_blocks(h)

    def _read(self, scores: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[Any]]:
        return _pair(scores, y)

    def conjugate(self, alpha: Array, y: NDArray[Any]) -> Array:
        """ℓ*(α) of every example, (n,); +inf outside its domain."""
        raise NotImplementedError

    def lipschitz(self, radius: float = math.inf, target: float = 0.0) -> float:
        """sup |∂ℓ/∂z| over |z| ≤ radius and |y| ≤ target."""
        raise NotImplementedError

    def bound(self, radius: float, target: float = 0.0) -> float:
        """M = sup ℓ over |z| ≤ radius and |y| ≤ target."""
        raise NotImplementedError


def _codes(y: Array, n_classes: int) -> NDArray[np.intp]:
    bad = ~np.isin(y, np.arange(n_classes))
    if bad.any():
        fix = f"a loss over {n_classes} classes takes the codes 0..{n_classes - 1} "
        fix += "(LinearDomains codes any labels for you)"
        raise InputError("y", f"has the value {y[bad][0]:g}", fix)
    return y.astype(np.intp)


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """ℓ(z, y) = log(1 + eᶻ) − y z for two classes, log Σ_c e^{z_c} − z_y for K ≥ 3.

    The log loss of logistic regression; stable for scores of any size.

    Examples
    --------
    >>> import numpy as np
    >>> CrossEntropy().value([0.0, 1e4, -1e4], [1, 1, 1]).round(6).tolist()
    [0.693147, 0.0, 10000.0]
    >>> CrossEntropy().gradient([[0.0, 0.0, 0.0, 0.0]], [2]).tolist()
    [[0.25, 0.25, -0.75, 0.25]]
    """

    @property
    def takes_classes(self) -> bool:
        """True: y is the code of a class."""
        return True

    def _read(self, scores: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[Any]]:
        z, t = _pair(scores, y, multiclass=True)
        return z, _codes(t, z.shape[1] if z.ndim == 2 else 2)

    @property
    def room(self) -> float:
        """1/8: P moves by at most a quarter of itself, ℓ*'' = 1/P by a third."""
        return 0.125

    def margin(self, alpha: Array, y: NDArray[Any]) -> Array:
        """min(P, 1 − P) with P = α + y."""
        p: Array = alpha + y
        return np.minimum(p, 1 - p)

    def derivatives(self, z: Array, y: NDArray[Any], order: int) -> tuple[Array, ...]:
        """(ℓ, ℓ', ℓ''); for K ≥ 3 the last is P (n, K), the curvature being diag(P) − PPᵀ."""
        return (_binary if z.ndim == 1 else _softmax)(z, y, order)

    def conjugate(self, alpha: Array, y: NDArray[Any]) -> Array:
        """Σ_c P_c log P_c with P = α + onehot(y) a distribution, else +inf."""
        if alpha.ndim == 1:
            p = alpha + y
            inside = (p >= 0) & (p <= 1)
            return np.where(inside, _p_log_p(p) + _p_log_p(1 - p), np.inf)
        p = alpha.copy()
        p[np.arange(len(y)), y] += 1
        inside = np.all(p >= 0, axis=1) & (np.abs(alpha.sum(axis=1)) <= 1e-9)
        return np.where(inside, _p_log_p(p).sum(axis=1), np.inf)

    def lipschitz(self, radius: float = math.inf, target: float = 0.0, n_classes: int = 2) -> float:
        """1 for two classes; √2 in the Euclidean norm of the K ≥ 3 scores: reached as z → ∞."""
        return 1.0 if n_classes == 2 else math.sqrt(2.0)

    def bound(self, radius: float, target: float = 0.0, n_classes: int = 2) -> float:
        """M = log(1 + e^radius), or log(1 + (K−1) e^{2 radius}) when every |z_c| ≤ radius."""
        if n_classes < 2:
            raise InputError("n_classes", f"is {n_classes}", "give 2 or more")
        worst = _reach(radius) if n_classes == 2 else 2 * _reach(radius) + math.log(n_classes - 1)
        return float(np.logaddexp(0.0, worst))


def _p_log_p(p: Array) -> Array:
    """p log p, 0 at 0 (and below, where it does not count)."""
    return p * np.log(np.maximum(p, np.finfo(np.float64).tiny))


def _binary(z: Array, y: NDArray[Any], order: int, chunk: int = 16384) -> tuple[Array, ...]:
    """log(1 + eᵐ) of m = s z, s = ±1, and its derivatives, chunk by chunk to stay in cache."""
    if len(z) <= chunk:
        return _binary_chunk(z, y, order)
    out = tuple(np.empty_like(z) for _ in range(order + 1))
    for start in range(0, len(z), chunk):
        part = slice(start, start + chunk)
        for whole, piece in zip(out, _binary_chunk(z[part], y[part], order), strict=True):
            whole[part] = piece
    return out


def _binary_chunk(z: Array, y: NDArray[Any], order: int) -> tuple[Array, ...]:
    s = 1.0 - 2.0 * y
    m = s * z
    e = np.exp(-np.abs(m))  # in (0, 1], never overflows
    value = np.log1p(e)
    value += np.maximum(m, 0)
    if order == 0:
        return (value,)
    large = 1 / (1 + e)
    small = e * large  # the smaller of the two probabilities
    return (value, s * np.where(m >= 0, large, small), small * large)[: order + 1]


def _softmax(z: Array, y: NDArray[Any], order: int) -> tuple[Array, ...]:
    rows = np.arange(len(y))
    z_y = z[rows, y]
    top = z.max(axis=1)
    p = np.exp(z - top[:, None])
    total = p.sum(axis=1)
    value = np.log(total) + (top - z_y)
    if order == 0:
        return (value,)
    p /= total[:, None]
    gradient = p.copy()
    gradient[rows, y] -= 1
    return (value, gradient) if order == 1 else (value, gradient, p)


def _softmax_blocks(p: Array) -> Array:
    blocks = -p[:, :, None] * p[:, None, :]
    k = np.arange(p.shape[1])
    blocks[:, k, k] += p
    return blocks


@dataclass(frozen=True)
class SquaredError(Loss):
    """ℓ(z, y) = ½ (z − y)².

    With the half, as in ridge regression's textbook form and as the limit of Huber for δ → ∞:
    `domain_losses` are then half mean squared errors.

    Examples
    --------
    >>> SquaredError().value([1.0, 3.0], [1.0, 1.0]).tolist()
    [0.0, 2.0]
    """

    @property
    def room(self) -> float:
        """Any: ℓ* is finite everywhere, and its curvature is 1."""
        return math.inf

    def margin(self, alpha: Array, y: NDArray[Any]) -> Array:
        """Any: ℓ* is finite everywhere."""
        return np.full(alpha.shape, np.inf)

    def derivatives(self, z: Array, y: NDArray[Any], order: int) -> tuple[Array, ...]:
        """½r², r and 1 with the residual r = z − y."""
        r = z - y
        return (0.5 * r * r, r, np.ones_like(r))[: order + 1]

    def conjugate(self, alpha: Array, y: NDArray[Any]) -> Array:
        """½α² + αy."""
        value: Array = 0.5 * alpha * alpha + alpha * y
        return value

    def lipschitz(self, radius: float = math.inf, target: float = 0.0) -> float:
        """radius + target: the largest |z − y| for |z| ≤ radius, |y| ≤ target."""
        return _reach(radius, target)

    def bound(self, radius: float, target: float = 0.0) -> float:
        """M = ½ (radius + target)²."""
        reach = _reach(radius, target)
        return 0.5 * reach * reach


@dataclass(frozen=True)
class Huber(Loss):
    """ℓ(z, y) = ½ r² for |r| ≤ δ and δ|r| − ½δ² beyond, with r = z − y.

    Squared error near the target, absolute error for outliers.

    Parameters
    ----------
    delta : float, default 1
        The residual beyond which the loss grows linearly.

    Examples
    --------
    >>> Huber(delta=1.0).value([1.5, 4.0], [1.0, 1.0]).tolist()
    [0.125, 2.5]
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        if not (self.delta > 0 and math.isfinite(self.delta)):
            raise InputError("delta", f"is {self.delta}", "give a positive number")

    @property
    def room(self) -> float:
        """1e-9 δ: where there is curvature, |ℓ'| is below δ by as much."""
        return 1e-9 * self.delta

    def margin(self, alpha: Array, y: NDArray[Any]) -> Array:
        """δ − |α|."""
        return self.delta - np.abs(alpha)

    def derivatives(self, z: Array, y: NDArray[Any], order: int) -> tuple[Array, ...]:
        """ℓ, the residual cut at ±δ, and 1 where |r| ≤ δ (1 − 2e-9), which leaves ℓ' `room`."""
        r = z - y
        g = np.clip(r, -self.delta, self.delta)
        bent = np.abs(r) <= self.delta - 2 * self.room
        return (g * (r - 0.5 * g), g, bent.astype(np.float64))[: order + 1]

    def conjugate(self, alpha: Array, y: NDArray[Any]) -> Array:
        """½α² + αy for |α| ≤ δ, else +inf."""
        return np.where(np.abs(alpha) <= self.delta, 0.5 * alpha * alpha + alpha * y, np.inf)

    def lipschitz(self, radius: float = math.inf, target: float = 0.0) -> float:
        """min(δ, radius + target)."""
        return min(self.delta, _reach(radius, target))

    def bound(self, radius: float, target: float = 0.0) -> float:
        """M, the loss at the largest residual radius + target."""
        reach = _reach(radius, target)
        g = min(reach, self.delta)
        return g * (reach - 0.5 * g)


@dataclass(frozen=True)
class Hinge(Loss):
    """ℓ(z, y) = max(0, 1 − s z) with s = 2y − 1 ∈ {−1, +1}: the support vector machine's loss.

    Its gradient is a subgradient at the kink; it has no curvature there, so the exact solver does
    not take it (the stochastic ones do).

    Examples
    --------
    >>> Hinge().value([0.5, 2.0, -1.0], [1, 1, 1]).tolist()
    [0.5, 0.0, 2.0]
    """

    @property
    def is_smooth(self) -> bool:
        """False: the kink at margin 1."""
        return False

    @property
    def takes_classes(self) -> bool:
        """True: y is the code of a class."""
        return True

    def _read(self, scores: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[Any]]:
        z, t = _pair(scores, y)
        return z, _codes(t, 2)

    @property
    def room(self) -> float:
        """0: without curvature no slope can be moved that way."""
        return 0.0

    def margin(self, alpha: Array, y: NDArray[Any]) -> Array:
        """min(β, 1 − β) with β = −sα ∈ [0, 1]."""
        beta = -(2.0 * y - 1.0) * alpha
        return np.minimum(beta, 1 - beta)

    def derivatives(self, z: Array, y: NDArray[Any], order: int) -> tuple[Array, ...]:
        """max(0, 1 − sz) and −s where that is above 0; there is no second derivative."""
        if order > 1:
            raise InputError("", "the hinge loss has no curvature", "use CrossEntropy instead")
        s = 2.0 * y - 1.0
        margin = 1 - s * z
        return (np.maximum(margin, 0), np.where(margin > 0, -s, 0.0))[: order + 1]

    def conjugate(self, alpha: Array, y: NDArray[Any]) -> Array:
        """−β with β = −sα ∈ [0, 1], else +inf."""
        beta = -(2.0 * y - 1.0) * alpha
        return np.where((beta >= 0) & (beta <= 1), -beta, np.inf)

    def lipschitz(self, radius: float = math.inf, target: float = 0.0) -> float:
        """1: no slope is steeper."""
        return 1.0

    def bound(self, radius: float, target: float = 0.0) -> float:
        """M = 1 + radius."""
        return 1.0 + _reach(radius)
