"""Which of C models to use: the one rule, for every estimator.

With D, A, s, V and π of `held_out`, all of the same held-out rows, and r = 0 the reference:

    among the c with A_c ≤ (1 + price)·A_r (of the roots, for squared errors) that are on no domain
    worse than a constant guess (by a paired error) where r is not, take the least V_c;
    it replaces r if Σ_k π_k (D_rk − D_ck) exceeds 1.645 paired standard errors, where the π of a
    fold's rows is π_r of the other folds.

The first line is what everybody else may pay, the second what the worst domain must gain: a
one-sided test at 5 %. Rows that look bad by chance do not choose the domain they are judged on;
with the π_r of all rows, 8 % of simulated tables with one law were moved, with this one 4 %.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anymix.errors import finite_number
from anymix.selection.held_out import Judged

Array = NDArray[np.float64]

__all__ = ["KEPT", "SURE", "NothingGained", "admissible", "check_price", "choose", "simplest"]

SURE = 1.645  # paired standard errors: a one-sided test at 5 %
KEPT = (
    "no other model is significantly better for the worst domain at this price: "
    "the ordinary model is kept"
)


class NothingGained(UserWarning):
    """No other model is significantly better for the worst domain: the reference is kept.

    Examples
    --------
    >>> import warnings
    >>> import anymix as ax
    >>> X, y, d = [[0.0], [1.0]] * 20, [0, 1] * 20, ["a", "a", "b", "b"] * 10
    >>> with warnings.catch_warnings(action="ignore", category=NothingGained):
    ...     model = ax.AgnosticClassifierCV().fit(X, y, domains=d)
    """


def choose(judged: Judged, price: float = 0.05) -> int:
    """The place of the model to use; 0 is the reference.

    Parameters
    ----------
    judged : Judged
        The losses of the candidates on held-out rows.
    price : float
        The part by which the mean loss of all rows may rise: 0 asks for free gains only, inf is
        the purely agnostic choice.

    Returns
    -------
    int

    Examples
    --------
    >>> from scipy import sparse
    >>> from anymix.mixtures import Simplex
    >>> from anymix.selection.held_out import HeldOut
    >>> average = sparse.csc_array(np.kron(np.eye(2), np.full((1, 4), 0.25)))
    >>> losses = np.array([[1, 1, 1, 1, 4, 4, 5, 5.0], [1.2, 1.2, 1.2, 1.2, 4, 4, 4.5, 4.5]])
    >>> found = HeldOut(losses, average, Simplex(2), np.zeros(2), np.array([0.9, 0.1]))
    >>> choose(found), choose(found, price=0.2)   # A is 1.35 and 1.505; V falls by 0.25 ± 0.14
    (0, 1)
    """
    V = np.where(admissible(judged, price), judged.expected, np.inf)
    c = int(np.argmin(V))
    gain, error = judged.gain(c)
    return c if c != 0 and gain > SURE * error else 0


def admissible(judged: Judged, price: float) -> NDArray[np.bool_]:
    """Which models all rows can pay for, and no domain is worse off with than with a constant."""
    A, D = judged.pooled, judged.domain_losses
    part = (1 + price) ** 2 - 1 if judged.squared else price  # of the root
    good = A - A[0] <= (part * abs(A[0]) if A[0] else 0.0)
    if judged.constant is not None:
        excess = D - judged.constant
        good &= ~np.any((excess > judged.constant_errors) & (excess[0] <= 0), axis=1)
    good[0] = True
    return np.asarray(good)


def simplest(judged: Judged) -> int:
    """The first model whose A is within one paired standard error of the least A."""
    A = judged.pooled
    best = int(np.argmin(A))
    near = (c for c in range(best) if A[c] - A[best] <= judged.error(c, judged.reference, best))
    return next(near, best)


def check_price(price: object) -> float:
    """The price as a number ≥ 0, which may be infinite; InputError otherwise."""
    if isinstance(price, float) and price == np.inf:
        return price
    return finite_number("price", price, "give a number ≥ 0, or inf", lambda x: x >= 0)
