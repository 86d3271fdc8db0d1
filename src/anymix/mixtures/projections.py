"""Projections onto the simplex and onto boxes cut by Σ λ = total: one multiplier τ, found exactly.

Both minimise ½ Σ w_k (λ_k − v_k)², and both are λ_k = clip(v_k − τ/w_k, l_k, u_k) for the one τ
at which Σ λ = total. These functions trust their arguments; the sets in `mixtures` check them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SMALL = 4096  # below this many numbers a sort costs no more than a few passes
FEW = 64  # up to this many kinks are tried at once
SAMPLE = 1024  # entries enough to know where the middle is
COUNTS = np.arange(1.0, SMALL + 1)
ONES = np.ones(SMALL)
EPS = float(np.finfo(np.float64).eps)
ROUNDING = 64 * EPS  # of a sum of up to 10⁶ numbers
FAR = 1e150  # sums and products of two up to this size cannot overflow
FARTHEST = 200  # 2²⁰⁰ times as large is as good as infinitely large
MODEST = 64.0  # up to this size v costs λ no digit above the 14th


def project_simplex(v: Array) -> Array:
    """argmin ½ ‖λ − v‖²  over  λ ≥ 0, Σ λ = 1.

    >>> project_simplex(np.array([0.5, 0.75, -1.0]))
    array([0.375, 0.625, 0.   ])
    """
    if v.size <= FEW and np.vdot(v, v) <= 4.0:  # a short step from inside Δ mostly ends inside
        lam = v - (_sum(v) - 1.0) / v.size
        if not np.count_nonzero(lam < 0):
            return lam
    if v.size <= SMALL:
        u = _descending(v)
        top = u[0]  # v − top is exact near the top, where λ lives: |v| may be 1e9
        if float(top) - float(u[-1]) > FAR:
            u, v = _raised(u, top), _raised(v, top)
        return _descend(v - top, _threshold(u - top))
    top = v.max()
    part = _descending(v[:: max(16, -(-v.size // SMALL))])
    if float(top) - float(part[-1]) > FAR:
        part = _raised(part, top)
    bound = -1.0  # λ ≤ 1, so τ ≥ −1; and τ of a part is at most τ of the whole
    if part[0] > top - 1.0:  # else it says no more, and next to large numbers 1 is lost
        bound = max(bound, _threshold(part - top))
    mask = v > np.nextafter(top + bound, -np.inf)
    if 2 * np.count_nonzero(mask) > v.size:
        z = v - top
        return _descend(z, max(bound, (np.add.reduce(z) - 1) / z.size))
    lam = np.zeros(v.size)
    kept = np.flatnonzero(mask)
    z = v[kept] - top
    lam[kept] = _descend(z, _threshold(_descending(z)) if z.size <= SMALL else bound)
    return lam


def _raised(v: Array, top: float) -> Array:
    """v with all that is far below its largest entry raised, which keeps v − top and sums finite.

    λ is zero wherever v ≤ top − 1, so nothing else changes.
    """
    return np.asarray(np.maximum(v, top - max(2.0, 2.0 * EPS * abs(top))))


def _descend(z: Array, tau: float) -> Array:
    """λ = max(z − τ, 0) with Σ λ = 1, by Newton steps from τ or below; overwrites z ≤ 0.

    A step never passes the root and is exact on the right support (Michelot, 1986); Σ λ − 1 times
    the size of the support falls at least fourfold, so the steps are few. Subtracting them one by
    one leaves z as small as λ: nothing is lost to the rounding of τ.
    """
    lam = np.empty(z.size)
    for _ in range(64):
        z -= tau
        np.maximum(z, 0.0, out=lam)
        excess = _sum(lam) - 1.0
        if abs(excess) <= ROUNDING:
            break
        tau = excess / np.count_nonzero(lam)
    return lam


def _sum(x: Array) -> float:
    """Σ x: for short x the dot product takes half the time."""
    return float(x.dot(ONES[: x.size]) if x.size <= SMALL else np.add.reduce(x))


def _descending(v: Array) -> Array:
    u = v.copy()
    u.sort()
    return u[::-1]


def _threshold(u: Array) -> float:
    """τ = (Σ_S u − 1)/|S|, S the k first of falling u with u_k > (their sum − 1)/k.

    One probe tells whether S ends before 64 or, if u is so flat that it cannot, after ¾ of u.
    """
    low, high, base = 0, u.size, -1.0  # S ends between low and high, and base = Σ u[:low] − 1
    if high > 64:
        flat = 64 * (u[0] - u[64]) <= 1
        k = 3 * high // 4 if flat else 64
        total = _sum(u[:k]) - 1.0
        if k * u[k - 1] > total:
            low, base = k, total
        else:
            high = k
    u = u[low:high]
    sums = np.add.accumulate(u)
    sums += base
    k = int(np.count_nonzero(u * COUNTS[low:high] > sums))
    return float(sums[k - 1] if k else base) / (low + k)


def project_box(v: Array, w: Array, lower: Array, upper: Array, total: float = 1.0) -> Array:
    """argmin ½ Σ w_k (λ_k − v_k)²  over  lower ≤ λ ≤ upper, Σ λ = total.

    Exact to rounding for v and w of any size: where v is large it is first moved, v − t/w, to
    where the entries off their bounds are of the size of λ (see `_centred`). A second pass then
    finds the part of τ that rounding took from the first.

    >>> v, w, zeros = np.array([1.0, 0.0, 0.0]), np.array([1.0, 1.0, 3.0]), np.zeros(3)
    >>> project_box(v, w, zeros, np.array([0.6, 1.0, 1.0]))
    array([0.6, 0.3, 0.1])
    """
    zero = 0.0
    if not (_within(v, MODEST) and _within(w, FAR) and w.min() > 1 / FAR):
        w, zero = _unit(w), 16 * EPS * total
        v = _centred(v, w, lower, upper, total, zero)
    for _ in range(4):
        v = v - _multiplier(v, w, lower, upper, total, zero) / w
        lam = _clipped(v.copy(), lower, upper)
        missing = total - float(lam.sum())
        if abs(missing) <= ROUNDING * total:
            return lam
    room = upper - lam if missing > 0 else lam - lower  # Σ λ = total comes before all else
    return np.asarray(np.clip(lam + missing * room / (room.sum() or 1.0), lower, upper))


def _within(x: Array, size: float) -> bool:
    """|x| ≤ size; the sum of squares says so for less, if they are few."""
    return bool(np.vdot(x, x) <= size**2) or max(float(x.max()), -float(x.min())) <= size


def _clipped(x: Array, lower: Array, upper: Array) -> Array:
    """clip(x, l, u), written over x: for short x it takes half the time of np.clip."""
    np.maximum(x, lower, out=x)
    return np.minimum(x, upper, out=x)


def _unit(w: Array) -> Array:
    """w over a power of two, so that the largest is in [½, 1): a common factor means nothing."""
    return np.asarray(np.maximum(np.ldexp(w, -np.frexp(w.max())[1]), 2.0**-300))


def _centred(v: Array, w: Array, lower: Array, upper: Array, total: float, zero: float) -> Array:
    """v − t/w, which has the same projection, with t = w_j v_j so near to τ that no digit is lost.

    λ = clip(v − τ/w) is off its bounds only where w v is within w of τ. Filling λ in the order of
    w v finds an entry j within max w of τ; seen from there τ is known to 16 digits, which finds a
    nearer one. The lightest entry near τ ends it: there |v − t/w| ≤ 2 for all that are near.
    """
    j = _crossing(v, w, upper - lower, total - float(lower.sum()))
    for _ in range(64):
        z = seen_from(j, v, w)
        tau = _multiplier(z, w, lower, upper, total, zero)
        off = np.maximum(w * (z - upper) - tau, tau - w * (z - lower))  # ≤ 0: between its bounds
        near = np.flatnonzero(off <= max(0.0, float(off.min())) + 8 * EPS * abs(tau))
        if np.max(np.abs(z[near])) <= MODEST:
            break
        j = int(near[np.argmin(w[near])])
    return z


def _crossing(v: Array, w: Array, rises: Array, rest: float) -> int:
    """The entry at which λ, raised from its lower bounds in the order of falling w v, has its sum.

    Equal products are told apart by what rounding took from them.
    """
    (a, e), (b, f) = np.frexp(v), np.frexp(w)
    low = _product(a, b)[1]
    order = np.lexsort((-np.ldexp(low, e + f), -(v * w)))
    k = int(np.searchsorted(np.add.accumulate(rises[order]), rest))
    return int(order[min(k, v.size - 1)])


def seen_from(j: int, v: Array, w: Array) -> Array:
    """v_k − w_j v_j / w_k = (w_k v_k − w_j v_j) / w_k, without cancellation; at most 1e200.

    Mantissas and exponents apart, both products are exact as a sum of two numbers, and they are
    brought to the exponent of the larger before they are subtracted.
    """
    (a, e), (b, f) = np.frexp(v), np.frexp(w)
    high, low = _product(a, b)
    e = np.where(a == 0, -5000, e + f)  # 0 has no exponent of its own
    most = np.maximum(e, e[j])
    own, other = np.maximum(e - most, -1000), np.maximum(e[j] - most, -1000)
    s = np.ldexp(high, own) - np.ldexp(high[j], other)  # exact where the two nearly cancel
    s += np.ldexp(low, own) - np.ldexp(low[j], other)
    z = np.ldexp(s / b, np.clip(most - f, -1000, 700))
    return np.asarray(np.clip(z, -1e200, 1e200))


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """a b = high + low, exactly, for ½ ≤ |a|, |b| < 1 (Dekker, 1971)."""
    high = a * b
    a1, b1 = _half(a), _half(b)
    a2, b2 = a - a1, b - b1
    return high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2


def _half(a: Array) -> Array:
    """The first 26 of the 53 bits of a."""
    big = 134217729.0 * a  # 2²⁷ + 1
    return np.asarray(big - (big - a))


def _multiplier(z: Array, w: Array, lower: Array, upper: Array, total: float, zero: float) -> float:
    """τ with Σ clip(z − τ/w, l, u) = total; where it is so, up to `zero`, on a stretch, the least.

    The sum falls with τ and is linear between its 2p kinks: halve their number until τ is known
    to lie between two neighbours. An entry whose kinks are both behind is settled, at l, at u or
    on its slope, and leaves; so the work is a small multiple of p.
    """
    leaves, lands = w * (z - upper), w * (z - lower)  # the kinks: τ where λ leaves u, meets l
    left, right = -math.inf, math.inf
    fixed, slope = -total, 0.0  # settled entries add up to fixed − slope τ
    while z.size:
        kinks = _pivots(leaves, lands, left, right)
        at = kinks[:, None]  # (kinks, 1) against (entries,)
        lam = np.where(at < lands, _clipped(z - at / w, lower, upper), lower)
        excess = lam.sum(axis=1) + fixed - slope * kinks
        below = excess > (np.where(kinks > 0, zero, -zero) if zero else 0.0)
        right = min(right, kinks.min(where=~below, initial=right))
        left = max(left, kinks.max(where=below & (kinks < right), initial=left))
        at_l, at_u = lands <= left, leaves >= right
        free = (leaves <= left) & (lands >= right)
        fixed += lower[at_l].sum() + upper[at_u].sum() + z[free].sum()
        slope += float((1 / w[free]).sum())
        rest = ~(at_l | at_u | free)
        z, w, lower, upper = z[rest], w[rest], lower[rest], upper[rest]
        leaves, lands = leaves[rest], lands[rest]
    if slope > 0:
        return float(min(max(fixed / slope, left), right))
    return float(right if right < math.inf else left)


def _pivots(leaves: Array, lands: Array, left: float, right: float) -> Array:
    """The kinks between left and right if they are few, otherwise the median of a sample."""
    for every in (1 + leaves.size // SAMPLE, 1):
        kinks = np.concatenate((leaves[::every], lands[::every]))
        kinks = kinks[(left < kinks) & (kinks < right)]
        if kinks.size:
            break
    few = every == 1 and kinks.size <= FEW
    return kinks if few else np.partition(kinks, kinks.size // 2)[kinks.size // 2, None]


def modest_losses(L: Array) -> Array:
    """L over a power of two if it is so large or small that its differences are not safe."""
    power = int(np.frexp(max(float(L.max()), -float(L.min())))[1])
    return np.ldexp(L, -max(power, -1000)) if abs(power) > 900 else L


def modest_projection(v: Array, w: Array | None) -> tuple[Array, Array]:
    """(v − t/w, 2⁻ᵏ w): the same projection as of v with weights w, and w v no more than 2²⁰⁰.

    t = max w v, so that no digit is lost near the largest entry, however large v is.
    """
    if w is None:
        w = np.ones_like(v)
    most = int(np.frexp(max(float(v.max()), -float(v.min()), 1.0))[1])
    w = np.ldexp(w, -int(np.frexp(w.max())[1]) - max(most - FARTHEST, 0))
    if most < FARTHEST:
        v = seen_from(int(np.argmax(w * v)), v, w)
    return v, w


def kl_box(logits: Array, lower: Array, upper: Array, total: float = 1.0) -> Array:
    """log of argmin Σ λ log(λ/w) over lower ≤ λ ≤ upper, Σ λ = total: log clip(w e^{−ζ}, l, u).

    Σ λ falls with ζ; between two neighbours of its 2p kinks ζ has a closed form.
    """
    with np.errstate(divide="ignore"):
        log_lower, log_upper = np.log(lower), np.log(upper)
    if np.array_equal(lower, upper):
        return log_lower
    if not lower.any() and upper.min() >= total:  # no bound can hold
        return np.asarray(_log_softmax(logits) + np.log(total))
    near = _drawn_together(logits, log_lower, log_upper)
    leaves = np.full_like(logits, -np.inf)  # the kinks: ζ where λ leaves u and where it meets l
    np.subtract(near, log_upper, out=leaves, where=upper > 0)
    meets = np.full_like(logits, np.inf)
    np.subtract(near, log_lower, out=meets, where=lower > 0)
    kinks = np.sort(np.concatenate([leaves, meets]))
    kinks = kinks[np.isfinite(kinks)]
    low, high = -1, kinks.size
    while high - low > 1:
        middle = (low + high) // 2
        sums = np.exp(np.clip(near - kinks[middle], log_lower, log_upper)).sum()
        low, high = (middle, high) if sums >= total else (low, middle)
    left = kinks[low] if low >= 0 else -np.inf
    right = kinks[high] if high < kinks.size else np.inf
    free = (leaves <= left) & (right <= meets) & (upper > 0)
    result = np.where(meets <= left, log_lower, log_upper)
    if free.any():
        rest = max(total - np.exp(result[~free]).sum(), 1e-300)  # log 0 would never go away
        inner = _log_softmax(logits[free]) + np.log(rest)
        result[free] = np.clip(inner, log_lower[free], log_upper[free])
    return result


def _drawn_together(logits: Array, log_lower: Array, log_upper: Array) -> Array:
    """Logits in the same order, near 0, and no two neighbours further apart than it takes to tell.

    Next to a logit of 1e17 rounding would lose log u − log l, the width from kink to kink of an
    entry. But entries whose logits differ by more than a width and 800 do not see each other: at
    the kinks of one the other is at a bound, or e⁻⁸⁰⁰ = 0. How much more they differ is no matter.
    """
    used = log_upper > -np.inf
    v = logits[used]
    if v.max() - v.min() <= 1e6:
        return np.asarray(logits - v.max())
    order, near = np.argsort(v), logits.copy()
    width = log_upper.max() - log_lower.min(where=log_lower > -np.inf, initial=0.0)
    gaps = np.minimum(np.diff(v[order]), 800 + width)
    v[order] = np.append(0.0, np.cumsum(gaps))
    near[used] = v
    return near


def kl_ball(logits: Array, center: Array, rho: float) -> Array:
    """The same over Δ_p and ½‖λ − c‖₁ ≤ ρ.

    Where the ball binds, mass ρ is above c and mass ρ below: λ = max(c, w/A) and λ = min(c, w/B).
    """
    softmax = _log_softmax(logits)
    if rho >= 1 or np.abs(np.exp(softmax) - center).sum() <= 2 * rho:
        return softmax
    above = kl_box(softmax, center, center + rho, 1 + rho)
    below = kl_box(softmax, np.zeros_like(center), center, 1 - rho)
    with np.errstate(divide="ignore"):
        return np.where(below < np.log(center), below, above)


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
