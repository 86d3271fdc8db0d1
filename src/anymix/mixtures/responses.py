"""The best response to a smooth concave prior, on any set: argmax_{λ ∈ conv Λ} ⟨λ, L⟩ − penalty(λ).

Newton's method: each step maximises the quadratic model over Λ, exactly, and is cut short until the
value grows. How far the value found is from the largest is known from its gradient, which is
g = L − ∇penalty: by concavity at most max_{λ' ∈ Λ} ⟨g, λ' − λ⟩.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.mixtures.sets import MixtureSet

Array = NDArray[np.float64]
Curvature = tuple[Array | None, Array | None]  # F and D of the second derivative F Fᵀ + diag D

__all__ = ["newton_response"]

CLOSE = 1e-13  # of the size of losses and penalty: the gap at which to stop
ENOUGH = 1e-6  # and that which is refused
EPS = 1e-16  # of the size: what rounding does to the value
MOST_STEPS = 200


def newton_response(
    mixtures: MixtureSet,
    losses: Array,
    value: Callable[[Array], float],
    gradient: Callable[[Array], Array],
    curvature: Callable[[Array], Curvature],
) -> Array:
    """argmax_{λ ∈ conv Λ} ⟨λ, L⟩ − value(λ), for convex value.

    Parameters
    ----------
    mixtures : MixtureSet
        Λ; the penalty must be finite at its centre.
    losses : ndarray of shape (p,)
        L.
    value, gradient : function
        The penalty at λ, and its derivative, (p,).
    curvature : function
        λ → (F, D), the second derivative as F Fᵀ + diag D; None is 0.

    Returns
    -------
    ndarray of shape (p,)
    """
    lam = mixtures.center

    def gain(at: Array) -> float:
        return float(at @ losses) - value(at)

    def gap(at: Array) -> float:
        g = losses - gradient(at)
        return float(g @ (mixtures.maximize(g) - at))

    best = gain(lam)
    if not np.isfinite(best):
        found = f"is {-value(lam)} at the centre of the mixtures"
        raise InputError("prior", found, "give one that is positive inside of them")
    slope = float(lam @ np.abs(gradient(lam)))
    size = max(float(np.abs(losses).max()), abs(value(lam)), slope)  # 1 may be far above it
    for _ in range(MOST_STEPS):
        g = losses - gradient(lam)
        factor, diagonal = curvature(lam)
        bend = (0 if factor is None else factor @ (factor.T @ lam)) + (
            0 if diagonal is None else diagonal * lam
        )
        step = mixtures.minimize_quadratic(g + bend, factor, diagonal, lam) - lam
        rise = float(g @ step)
        if rise <= CLOSE * size:
            last = np.maximum(lam + step, 0.0)  # the last step doubles the digits
            if np.isfinite(gain(last)) and gap(last) <= ENOUGH * size:
                return last
        t = 1.0
        while not gain(lam + t * step) >= best + 1e-4 * t * rise - EPS * size and t > 1e-14:
            t /= 2
        if t <= 1e-14:
            break
        lam = np.maximum(lam + t * step, 0.0)
        best = gain(lam)
    if not gap(lam) <= ENOUGH * size:
        found = f"has a best response that is {gap(lam):.1e} from the largest value after Newton's"
        raise InputError("prior", found + " steps", "check its gradient, or make it smoother")
    return lam
