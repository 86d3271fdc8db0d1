"""Losses ℓ(z, y) of a score z = ⟨w, x⟩ and a target y, with everything that depends on them.

A loss is one class, and no other file knows it by name: a subclass of `Loss` that is imported has
solver, certificate, compiled steps, estimators and audits.

- The solvers need `derivatives`: value ℓ, gradient ∂ℓ/∂z and curvature ∂²ℓ/∂z².
- Certificates need the convex conjugate ℓ*(α) = sup_z αz − ℓ(z) with its slopes and domain, and how
  large slopes (`growth`) and rounding may be.
- `name` is what estimators and audits call it, `mean` what it predicts, `scalar` its compiled form.
- The bounds need a Lipschitz constant and the largest value M, over scores with |z| ≤ `radius`.

Scores are (n,), or (n, K) for cross-entropy over K ≥ 3 classes; classes are coded 0..K−1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError

Array = NDArray[np.float64]

__all__ = [
    "CrossEntropy",
    "Growth",
    "Hinge",
    "Huber",
    "Loss",
    "Scalar",
    "SquaredError",
    "named_losses",
    "regression_loss",
]


class Growth(NamedTuple):
    """Σ c_i |ℓ'_i| ≤ linear L + √(2 square L) where L = Σ c_i ℓ_i and Σ c_i = 1.

    `offset` is what a score is compared with: its rounding is added to that of |z|.
    """

    linear: float = 0.0
    square: float = 1.0  # ℓ'² ≤ 2ℓ: no curvature is above 1
    offset: float = 0.0

    def steepness(self, loss: float) -> float:
        """The bound of Σ c_i |ℓ'_i|."""
        size = max(loss, 0.0)
        return self.linear * size + math.sqrt(2 * self.square * size)


class Scalar(NamedTuple):
    """ℓ and ℓ' of one score as functions (z, y, parameter) -> float that Numba compiles."""

    value: Callable[[float, float, float], float]
    slope: Callable[[float, float, float], float]
    parameter: float = 0.0


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

    Attributes
    ----------
    name : str
        What `loss="..."` of estimators and audits calls it; empty for none.
    title : str
        The same for people.
    takes_classes : bool
        Whether y is the code of a class, not a number.
    most_classes : int or None
        How many there may be.
    is_smooth : bool
        Whether the gradient is continuous, as the exact solver needs.
    is_quadratic : bool
        Whether ℓ = ½ (z − y)², whose root people read.
    of_residual : bool
        Whether ℓ is a function of z − y, so that y may be shifted, and scaled with `in_units`.
    kink : float
        The residual from which on such a loss is linear.

    Examples
    --------
    >>> import numpy as np
    >>> z, y = np.array([1.0, 3.0]), np.array([1.0, 1.0])
    >>> value, slope = SquaredError().derivatives(z, y, 1)
    >>> value.tolist(), slope.tolist()
    ([0.0, 2.0], [0.0, 2.0])
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = "loss"
    takes_classes: ClassVar[bool] = False
    most_classes: ClassVar[int | None] = None
    is_smooth: ClassVar[bool] = True
    is_quadratic: ClassVar[bool] = False
    of_residual: ClassVar[bool] = False

    # -- targets and predictions ---------------------------------------------------------------

    def check_targets(self, y: Array) -> None:
        """Refuse numbers that cannot be targets."""

    def in_units(self, scale: float) -> Loss:
        """The loss of z/scale and y/scale that is this one over scale²; of residuals only."""
        return self

    def mean(self, z: Array) -> Array:
        """The prediction that a score stands for."""
        return z

    def score_of(self, mean: float) -> float:
        """The score that stands for a prediction."""
        return mean

    def furthest(self, y: NDArray[Any]) -> float:
        """The largest |z| at which the loss of a row is least, if not at infinity."""
        return float(np.max(np.abs(y), initial=0.0))

    def of_means(self, mean: Array, y: Array) -> Array:
        """The loss of predictions, (n,), in place of scores."""
        return self.derivatives(mean, y, 0)[0]

    def score(self, y: ArrayLike, mean: Array, sample_weight: ArrayLike | None) -> float:
        """What `score` of a regressor says of its predictions: R²."""
        from sklearn.metrics import r2_score  # takes long to load

        return float(r2_score(y, mean, sample_weight=sample_weight))

    # -- sizes that proofs need ----------------------------------------------------------------

    @property
    def kink(self) -> float:
        """Infinite, but for losses of a residual that are linear far out."""
        return math.inf

    def growth(self, y: NDArray[Any]) -> Growth:
        """How steep the loss of rows with these targets may be."""
        return Growth()

    def added(self, y: NDArray[Any]) -> float:
        """The largest number that ℓ* adds to α, whose rounding moves α."""
        return 0.0

    @property
    def room(self) -> float:
        """The largest t for which ℓ' + s ℓ'' is in the domain of ℓ* for all |s| ≤ t.

        And where ℓ*'' has not grown by more than 1.4 on the way.
        """
        raise NotImplementedError

    def margin(self, alpha: Array, y: NDArray[Any]) -> Array:
        """How far each α may move, up or down, inside the domain of ℓ*: (n,), for one score."""
        raise NotImplementedError

    # -- values --------------------------------------------------------------------------------

    @property
    def scalar(self) -> Scalar | None:
        """ℓ and ℓ' for compiled code; None where there is only the readable loop."""
        return None

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

    def conjugate_size(self, value: Array, alpha: Array, y: NDArray[Any]) -> Array:
        """The size of the terms of ℓ*(α) = value, which tells its rounding."""
        return np.abs(value)

    def conjugate_slopes(self, alpha: Array, y: NDArray[Any]) -> tuple[Array, Array]:
        """1/ℓ*''(α) and ℓ*'(α), 0 where α cannot be moved; for K scores, P and log P."""
        raise NotImplementedError

    def inside(self, alpha: Array, y: NDArray[Any]) -> Array:
        """α, moved to where ℓ* is finite and has room around it."""
        return alpha

    # -- for the bounds ------------------------------------------------------------------------

    def lipschitz(self, radius: float = math.inf, target: float = 0.0, n_classes: int = 2) -> float:
        """sup |∂ℓ/∂z| over |z| ≤ radius and |y| ≤ target."""
        raise NotImplementedError

    def bound(self, radius: float, target: float = 0.0, n_classes: int = 2) -> float:
        """M = sup ℓ over |z| ≤ radius and |y| ≤ target."""
        raise NotImplementedError


def named_losses(numbers: bool | None = None) -> dict[str, type[Loss]]:
    """The losses that have a name; of numbers only, or of classes only, if asked for.

    Examples
    --------
    >>> list(named_losses(numbers=False))
    ['log', 'hinge']
    """
    return {
        loss.name: loss
        for loss in Loss.__subclasses__()
        if loss.name and (numbers is None or numbers != loss.takes_classes)
    }


def regression_loss(name: str, **parameters: float) -> Loss:
    """The loss of numbers of that name, with those of the parameters that it has.

    Examples
    --------
    >>> regression_loss("squared", delta=2.0), regression_loss("huber", delta=2.0)
    (SquaredError(), Huber(delta=2.0))
    """
    known = named_losses(numbers=True)
    if name not in known:
        raise InputError("loss", f"is {name!r}", f"give one of {', '.join(map(repr, known))}")
    loss = known[name]
    return loss(**{f.name: parameters[f.name] for f in fields(loss) if f.name in parameters})


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

    name: ClassVar[str] = "log"
    title: ClassVar[str] = "log loss"
    takes_classes: ClassVar[bool] = True

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

    def added(self, y: NDArray[Any]) -> float:
        """1: ℓ* is taken at P = α + onehot(y)."""
        return 1.0

    @property
    def scalar(self) -> Scalar:
        """Of two classes."""
        return Scalar(_log_value, _log_slope)

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

    def conjugate_slopes(self, alpha: Array, y: NDArray[Any]) -> tuple[Array, Array]:
        """P (1 − P) and log P − log(1 − P), or P and log P."""
        P = alpha + (y if alpha.ndim == 1 else np.eye(alpha.shape[1])[y])
        inside = np.clip(P, 1e-300, 1.0)
        if alpha.ndim == 2:
            return P, np.log(inside)
        return P * (1 - P), np.log(inside) - np.log1p(-np.minimum(inside, 1 - 1e-16))

    def inside(self, alpha: Array, y: NDArray[Any]) -> Array:
        """P made a distribution."""
        if alpha.ndim == 1:
            return np.clip(alpha, -y, 1 - y)
        target = np.eye(alpha.shape[1])[y]
        p = alpha + target
        p[p < 1e-12] = 0.0  # a class that no row has goes to 0 for ever: there it has arrived
        p /= p.sum(axis=1, keepdims=True)
        moved: Array = p - target
        return moved

    def lipschitz(self, radius: float = math.inf, target: float = 0.0, n_classes: int = 2) -> float:
        """1 for two classes; √2 in the Euclidean norm of the K ≥ 3 scores: reached as z → ∞."""
        return 1.0 if n_classes == 2 else math.sqrt(2.0)

    def bound(self, radius: float, target: float = 0.0, n_classes: int = 2) -> float:
        """M = log(1 + e^radius), or log(1 + (K−1) e^{2 radius}) when every |z_c| ≤ radius."""
        if n_classes < 2:
            raise InputError("n_classes", f"is {n_classes}", "give 2 or more")
        worst = _reach(radius) if n_classes == 2 else 2 * _reach(radius) + math.log(n_classes - 1)
        return float(np.logaddexp(0.0, worst))


def _log_value(z: float, y: float, _: float) -> float:
    m = z if y < 0.5 else -z
    return math.log1p(math.exp(-abs(m))) + max(m, 0.0)


def _log_slope(z: float, y: float, _: float) -> float:
    m = z if y < 0.5 else -z
    e = math.exp(-abs(m))
    p = (1.0 if m >= 0 else e) / (1 + e)
    return p if y < 0.5 else -p


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

    name: ClassVar[str] = "squared"
    title: ClassVar[str] = "half squared error"
    is_quadratic: ClassVar[bool] = True
    of_residual: ClassVar[bool] = True

    @property
    def scalar(self) -> Scalar:
        """½r² and r."""
        return Scalar(_square_value, _square_slope)

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

    def conjugate_slopes(self, alpha: Array, y: NDArray[Any]) -> tuple[Array, Array]:
        """1 and α + y."""
        return np.ones_like(alpha), alpha + y

    def lipschitz(self, radius: float = math.inf, target: float = 0.0, n_classes: int = 2) -> float:
        """radius + target: the largest |z − y| for |z| ≤ radius, |y| ≤ target."""
        return _reach(radius, target)

    def bound(self, radius: float, target: float = 0.0, n_classes: int = 2) -> float:
        """M = ½ (radius + target)²."""
        reach = _reach(radius, target)
        return 0.5 * reach * reach


def _square_value(z: float, y: float, _: float) -> float:
    return 0.5 * (z - y) * (z - y)


def _square_slope(z: float, y: float, _: float) -> float:
    return z - y


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

    name: ClassVar[str] = "huber"
    title: ClassVar[str] = "Huber loss"
    of_residual: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (self.delta > 0 and math.isfinite(self.delta)):
            raise InputError("delta", f"is {self.delta}", "give a positive number")

    def in_units(self, scale: float) -> Self:
        """With δ/scale."""
        return type(self)(self.delta / scale)

    @property
    def kink(self) -> float:
        """δ."""
        return self.delta

    @property
    def scalar(self) -> Scalar:
        """With δ."""
        return Scalar(_huber_value, _huber_slope, self.delta)

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

    def conjugate_slopes(self, alpha: Array, y: NDArray[Any]) -> tuple[Array, Array]:
        """1, or 0 at the ends, and α + y."""
        return (np.abs(alpha) <= self.delta - self.room).astype(np.float64), alpha + y

    def inside(self, alpha: Array, y: NDArray[Any]) -> Array:
        """Within ±δ."""
        most = self.delta - self.room
        return np.where(np.abs(alpha) > self.delta, np.clip(alpha, -most, most), alpha)

    def lipschitz(self, radius: float = math.inf, target: float = 0.0, n_classes: int = 2) -> float:
        """min(δ, radius + target)."""
        return min(self.delta, _reach(radius, target))

    def bound(self, radius: float, target: float = 0.0, n_classes: int = 2) -> float:
        """M, the loss at the largest residual radius + target."""
        reach = _reach(radius, target)
        g = min(reach, self.delta)
        return g * (reach - 0.5 * g)


def _huber_value(z: float, y: float, delta: float) -> float:
    r = z - y
    g = min(max(r, -delta), delta)
    return g * (r - 0.5 * g)


def _huber_slope(z: float, y: float, delta: float) -> float:
    return min(max(z - y, -delta), delta)


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

    name: ClassVar[str] = "hinge"
    title: ClassVar[str] = "hinge loss"
    takes_classes: ClassVar[bool] = True
    most_classes: ClassVar[int | None] = 2
    is_smooth: ClassVar[bool] = False  # the kink at margin 1

    def added(self, y: NDArray[Any]) -> float:
        """1, as for cross-entropy."""
        return 1.0

    @property
    def scalar(self) -> Scalar:
        """The subgradient 0 at the kink."""
        return Scalar(_hinge_value, _hinge_slope)

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

    def lipschitz(self, radius: float = math.inf, target: float = 0.0, n_classes: int = 2) -> float:
        """1: no slope is steeper."""
        return 1.0

    def bound(self, radius: float, target: float = 0.0, n_classes: int = 2) -> float:
        """M = 1 + radius."""
        return 1.0 + _reach(radius)


def _hinge_value(z: float, y: float, _: float) -> float:
    return max(1 - (2 * y - 1) * z, 0.0)


def _hinge_slope(z: float, y: float, _: float) -> float:
    s = 2 * y - 1
    return -s if 1 - s * z > 0 else 0.0
