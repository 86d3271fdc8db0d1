"""A frontier of any size, made of plain numbers: there is no model behind it."""

from typing import Any

import numpy as np

from anymix.solvers.frontier import Frontier, FrontierLosses


def a_front(
    T: int = 5,
    names: Any = ("a", "b"),
    *,
    chosen: int | None = None,
    error: float | None = 0.02,
    apart: float = 0.03,
    gamma: float = 0.01,
) -> Frontier:
    """From t = 0 on, all rows lose more and the worst mixture less.

    Rows held out lose `apart` more than rows fitted; without an error nothing is held out.
    """
    t = np.linspace(0, 1, T)
    fitted = FrontierLosses(np.zeros((T, len(names))), 0.7 - 0.25 * t**0.5, 0.3 + 0.15 * t**2)
    held = None
    if error is not None:
        errors = np.full(T, error), np.full(T, error / 4)
        losses = fitted.domains, fitted.worst + apart, fitted.pooled + apart / 2
        held = FrontierLosses(*losses, *errors)
    gammas = np.full(T, gamma)
    return Frontier(t, gammas, np.array(names, dtype=object), (), fitted, held, chosen)
