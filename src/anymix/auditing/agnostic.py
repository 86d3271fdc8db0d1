"""The interval of the agnostic loss, max_{λ∈Λ} Σ_k λ_k L_k, which is about all domains at once."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtri

from anymix.auditing.bounded import corners_of, spread
from anymix.auditing.measures import KnownLoss, UnboundedLoss
from anymix.mixtures import MixtureSet

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

__all__ = ["agnostic_interval", "worst_case"]

ONE_MIXTURE = 1e-5  # a set Λ with √χ²(λ‖center) below it is taken for the center alone


def agnostic_interval(
    loss: KnownLoss | UnboundedLoss,
    parts: list[Rows],
    target: MixtureSet,
    losses: Array,
    confidence: float,
    *,
    disjoint: bool,
) -> tuple[tuple[float, float], str]:
    """An interval of max_{λ∈Λ} ⟨λ, L⟩ and its kind; α = 1 − confidence is the chance to miss.

    Where the loss has a known limit, both ends are those of `held_out` at α/2 each. Otherwise:

    - Λ is one mixture c: the interval of ⟨c, L⟩, a weighted mean of all rows.
    - Any Λ: the lower end is max_Λ ⟨λ, l⟩, l_k the lower ends of all domains at level 1 − α/p.
      The upper end needs no union (see `bounded`): it is the largest upper end of a corner of Λ
      at level 1 − α, or max_Λ ⟨λ, u⟩ like the lower one where there are too many corners.
    - Λ is narrow, disjoint domains: `_around_center`.

    Which of them is done depends on Λ and the sizes of the domains, not on the losses. Domains that
    share rows are not independent of each other, so of these a mean over domains is not used.
    """
    center, alpha = target.center, 1 - confidence
    ρ = spread(target)
    if ρ <= ONE_MIXTURE and center.max() >= 1 - 1e-9:  # of a single domain
        return loss.of(parts[int(np.argmax(center))], confidence)[1:], loss.kind
    if isinstance(loss, KnownLoss):
        sides = loss.in_domains(parts, disjoint=disjoint).agnostic(target, alpha / 2)
        return (sides.low, sides.high), "guaranteed"
    if ρ <= ONE_MIXTURE and disjoint:
        return loss.mixed(parts, center, confidence)[1:], loss.kind
    sizes = np.array([len(rows) for rows in parts])
    if disjoint and center.min() > 0 and _is_narrow(target, ρ, sizes, alpha):
        return _around_center(loss, parts, target, losses, ρ, alpha), loss.kind
    low, high = loss.ends(parts, 1 - alpha / len(parts)).T
    corners = corners_of(target)
    if corners is None or not (disjoint or target.is_simplex):
        return (worst_case(target, low), worst_case(target, high)), loss.kind
    if target.is_simplex:
        largest = float(loss.ends(parts, confidence)[:, 1].max())
    else:
        largest = max(loss.mixed(parts, c, confidence).high for c in corners)
    return (worst_case(target, low), largest), loss.kind


def _is_narrow(target: MixtureSet, ρ: float, sizes: NDArray[np.int64], alpha: float) -> bool:
    """Whether `_around_center` would be the shorter one if all losses were normal and alike."""
    c, p, variances = target.center, len(sizes), 1 / sizes
    z, z_all = (float(ndtri(1 - alpha / tails)) for tails in (4, 2 * p))
    off = math.sqrt(chdtri(p, alpha / 2) / p)
    around = z * math.sqrt(c**2 @ variances) + ρ * off * math.sqrt(c @ variances)
    ends = np.sqrt(variances)
    return around < z_all * float(target.maximize(ends) @ ends)


def _around_center(
    loss: UnboundedLoss,
    parts: list[Rows],
    target: MixtureSet,
    losses: Array,
    ρ: float,
    alpha: float,
) -> tuple[float, float]:
    """As `Bounded` does it, with approximate bounds of ⟨c, L⟩ and √(Σ c_k D_k²), D = L − L̂."""
    c = target.center
    middle = loss.mixed(parts, c, 1 - alpha / 2)
    shift = float((target.maximize(losses) - c) @ losses)
    reach = ρ * loss.distance(parts, c, 1 - alpha / 2)
    return middle.low + max(0.0, shift - reach), middle.high + shift + reach


def worst_case(target: MixtureSet, ends: Array) -> float:
    """max_{λ∈Λ} ⟨λ, ends⟩ with 0·∞ = 0: greater ends, greater maximum, so intervals carry over.

    An end of ∞ counts if some mixture has the domain, one of −∞ only if every mixture has it.
    """
    unknown = np.isinf(ends)
    if not unknown.any():
        return float(target.maximize(ends) @ ends)
    if ends.max() == math.inf and target.maximize(unknown) @ unknown > 1e-9:
        return math.inf
    # Every mixture without the unknown domains gives a lower end. A high price on these finds the
    # best of such mixtures, or one with an unknown domain if there is no other.
    low, width = (0.0, 1.0) if unknown.all() else (ends[~unknown].min(), np.ptp(ends[~unknown]))
    best = target.maximize(np.where(unknown, -1e6, (ends - low) / (width or 1.0)))
    return -math.inf if best @ unknown > 1e-9 else float(best @ np.where(unknown, 0.0, ends))
