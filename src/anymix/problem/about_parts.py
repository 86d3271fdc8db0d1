"""What is known about the parts of a problem, and what is not: before and beside their sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anymix.problem.part_sums import Sums

Array = NDArray[np.float64]

__all__ = ["About", "charged"]


@dataclass(frozen=True, eq=False)
class About:
    """What the solver must know about the rows before it asks about any w.

    Parameters
    ----------
    penalized : ndarray of bool, shape (D,)
        Which entries of w the regulariser sees.
    n_scores : int
        1, or K for K ≥ 3 classes.
    room : float
        `Loss.room`, 0 for a loss without curvature.
    n_rows : int
        Rows of all parts.
    reach : ndarray of shape (D,)
        At least max |x_ij| of the column that each entry of w multiplies.
    loss_scale : float
        The unit of gaps, as in LinearDomains.
    """

    penalized: NDArray[np.bool_]
    n_scores: int
    room: float
    n_rows: int
    reach: Array
    loss_scale: float


def charged(total: Sums, grain: float, n_free: int) -> Sums:
    """Sums that may be wrong by the grain, moved to where they prove less.

    Losses are then never too small.

    Examples
    --------
    >>> charged({"losses": np.array([0.5]), "give": np.eye(1), "slope": np.ones(1)}, 0.25, 1)
    {'losses': array([0.75]), 'give': array([[0.75]]), 'slope': array([1.])}
    """
    for name in ("losses", "conjugate", "error", "bend"):
        if name in total:
            total[name] = total[name] + grain
    if "give" in total:
        total["give"] = total["give"] - n_free * grain * np.eye(n_free)
    return total
