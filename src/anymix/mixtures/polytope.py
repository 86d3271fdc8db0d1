"""Mixtures that meet linear inequalities."""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.mixtures.checks import matrix, vector
from anymix.mixtures.projections import modest_losses, modest_projection
from anymix.mixtures.qp import minimize_quadratic
from anymix.mixtures.sets import ExactSet

Array = NDArray[np.float64]

ROUNDING = 64 * float(np.finfo(np.float64).eps)  # of a row's total


@final
class Polytope(ExactSet):
    """Λ = {λ ∈ Δ_p: Aλ ≤ b}: shares that meet a few linear inequalities.

    All is found by the active-set method in λ and the slack s ≥ 0 of Aλ + s = b: by linear programs
    and by quadratic ones. Radius, skewness and cover are upper bounds, those of the box around Λ,
    whose ends are 2p maxima; above 1000 domains, those of the simplex.

    Parameters
    ----------
    A : array-like of shape (m, p)
        An inequality in each row.
    b : array-like of shape (m,)
        What its left side may be at most.

    Examples
    --------
    >>> city_and_town = [[1.0, 1.0, 0.0, 0.0]]  # at most 60 percent are from the first two
    >>> Polytope(city_and_town, [0.6]).maximize([4.0, 3.0, 2.0, 1.0])
    array([0.6, 0. , 0.4, 0. ])
    >>> Polytope(city_and_town, [0.6]).project([1.0, 0.0, 0.0, 0.0]).round(6)
    array([0.6, 0. , 0.2, 0.2])
    """

    A: Array
    b: Array

    def __init__(self, A: ArrayLike, b: ArrayLike) -> None:
        A = matrix("A", A).copy()
        b = vector("b", b, len(A)).copy()
        super().__init__(A.shape[1], A=A, b=b)
        try:
            self.center  # noqa: B018
        except InputError:
            raise InputError("b", "leaves no mixture", "raise some of its entries") from None

    @property
    def center(self) -> Array:
        """The member nearest to the uniform mixture, (p,)."""
        return self._center.copy()

    @cached_property
    def _center(self) -> Array:
        p = self.n_domains
        return self._from(None, np.full(p, 1 / p), np.zeros((p, 0)), np.ones(p))

    @cached_property
    def _system(self) -> tuple[Array, Array]:
        """The rows that can bind, moved to [0, 1], which Σ λ = 1 allows, and their totals."""
        power = int(np.frexp(max(np.abs(self.A).max(), np.abs(self.b).max()))[1])
        A, b = np.ldexp(self.A, -power), np.ldexp(self.b, -power)
        low, width = A.min(axis=1), np.ptp(A, axis=1)
        rows = (A - low[:, None]) / np.where(width > 0, width, 1)[:, None]
        totals = (b - low) / np.where(width > 0, width, 1)
        totals[np.abs(totals) <= ROUNDING] = 0.0  # what holds with equality holds up to rounding
        binds = np.where(width > 0, totals < 1, totals < 0)
        return rows[binds], totals[binds]

    def _project(self, v: Array, w: Array | None) -> Array:
        v, w = modest_projection(v, w)
        return self._minimize(w * v, np.zeros((v.size, 0)), w, None)

    def _maximize(self, L: Array) -> Array:
        L, p = modest_losses(L), L.size
        return self._minimize(L - L.max(), np.zeros((p, 0)), np.zeros(p), None)

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        return self._from(self._center if start is None else start, c, F, D)

    def _from(self, start: Array | None, c: Array, F: Array, D: Array) -> Array:
        rows, totals = self._system
        m, p = rows.shape
        theta = minimize_quadratic(
            np.concatenate((c, np.zeros(m))),
            np.vstack((F, np.zeros((m, F.shape[1])))),
            np.concatenate((D, np.zeros(m))),
            lower=np.zeros(p + m),
            upper=np.concatenate((np.ones(p), np.maximum(totals, 0.0))),
            rows=np.block([[np.ones((1, p)), np.zeros((1, m))], [rows, np.eye(m)]]),
            totals=np.append(1.0, totals),
            start=None if start is None else np.append(start, totals - rows @ start),
        )
        return np.asarray(theta[:p])

    def _contains(self, lam: Array, tol: float) -> bool:
        rows, totals = self._system
        return bool(np.all(rows @ lam <= totals + tol))
