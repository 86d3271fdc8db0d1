"""What a part of the rows tells about a point w: sums over its own rows, and no rows.

A part (a client, a worker, a batch of a file) holds rows i, S_ik of domain k each. It is asked
about w, with the weights λ_k/m_k of its own domains, m_k the rows of the domain over *all* parts.
With c_i = Σ_k S_ik λ_k/m_k, D = len(w) and p domains of its own, it can give

    losses      Σ_i S_ik ℓ_i(w) of each domain k                                p numbers
    jacobian    Σ_i S_ik ∇ℓ_i(w) of each domain k                              pD numbers
    curvature   Σ_i c_i ∇²ℓ_i(w), its upper triangle                     D(D+1)/2 numbers
    diagonal    the diagonal of that                                            D numbers
    product     Σ_i c_i ∇²ℓ_i(w) s, for a direction s                           D numbers

and for a proof, with α_i = scale · (ℓ'_i + ℓ''_i ⟨s, (x_i, 1)⟩), moved to where ℓ* is finite,

    conjugate   Σ_i c_i ℓ*(α_i) and the size of its terms                        2 numbers
    slope       Σ_i c_i α_i (x_i, 1)                                            D numbers
    error       what rounding may have done to the slope                        D numbers
    pivot       Σ_i c_i ℓ''_i, which says how `slope` moves with the intercepts  K² numbers
    give        Σ_i c_i h_i, h = 1/ℓ*''(α), by which the α_i may be moved        K² numbers
    bend        Σ_i c_i h_i ℓ*'(α_i)², what moving them costs                    1 number

and once, for the solver to begin with, `penalized`, `kind`, `powers` and `targets`. All of it only
has to be added up. Sums with weights c_i are left out by a part whose weights are all 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.problem.balance import bend
from anymix.problem.duals import conjugates, slopes
from anymix.problem.linear import LinearDomains

Array = NDArray[np.float64]
Shapes = dict[str, tuple[int, ...]]
Sums = dict[str, Array]

__all__ = ["ABOUT", "BY_DOMAIN", "LOOK", "POWER", "PROOF", "Question", "Shapes", "Sums", "answer"]

LOOK = ("losses", "jacobian")
PROOF = ("conjugate", "slope", "error", "pivot", "give", "bend")
ABOUT = ("penalized", "kind", "powers", "targets")
BY_DOMAIN = frozenset(LOOK)  # these have a row for every domain of the part; others are one sum
UNWEIGHTED = frozenset(LOOK + ABOUT)  # these do not look at the mixture
POWER = 8  # (Σ_i |x_ij|⁸)^(1/8) is at least the largest |x_ij|, and comes from a sum


@dataclass(frozen=True)
class Question:
    """What one part is asked.

    Attributes
    ----------
    w : ndarray of shape (D,)
        The point.
    weights : ndarray of shape (p,)
        λ_k/m_k of the part's own domains, in the part's own order.
    want : tuple of str
        The names of the sums to give, see the top of this file.
    step : ndarray of shape (D,), optional
        The direction s of `product`, `conjugate` and `slope`.
    scale : float
        What the α_i of a proof are multiplied by.
    n_free : int
        How many intercepts the model has; the side of `pivot`.
    """

    w: Array
    weights: Array
    want: tuple[str, ...]
    step: Array | None = None
    scale: float = 1.0
    n_free: int = 0

    @property
    def shapes(self) -> Shapes:
        """The form of a good answer: the shape of every array that it must have.

        Examples
        --------
        >>> Question(np.zeros(4), np.array([0.5, 0.5]), ("losses", "jacobian", "curvature")).shapes
        {'losses': (2,), 'jacobian': (2, 4), 'curvature': (10,)}
        """
        p, D, weighs = len(self.weights), len(self.w), bool(np.any(self.weights))
        every: Shapes = {
            "losses": (p,),
            "jacobian": (p, D),
            "curvature": (D * (D + 1) // 2,),
            "diagonal": (D,),
            "product": (D,),
            "conjugate": (2,),
            "slope": (D,),
            "error": (D,),
            "pivot": (self.n_free, self.n_free),
            "give": (self.n_free, self.n_free),
            "bend": (1,),
            "penalized": (D,),
            "kind": (7,),
            "powers": (D,),
            "targets": (2,),
        }
        return {name: every[name] for name in self.want if weighs or name in UNWEIGHTED}

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Its arrays, and the rest as JSON can say it: to send it somewhere."""
        arrays = {"w": self.w, "weights": self.weights}
        if self.step is not None:
            arrays["step"] = self.step
        return arrays, {"want": list(self.want), "scale": self.scale, "n_free": self.n_free}

    @staticmethod
    def of_arrays(arrays: Mapping[str, Array], rest: Mapping[str, Any]) -> Question:
        """The question that `to_arrays` was made of."""
        w, weights, step = arrays["w"], arrays["weights"], arrays.get("step")
        return Question(w, weights, tuple(rest["want"]), step, rest["scale"], rest["n_free"])


def answer(rows: LinearDomains, question: Question) -> Sums:
    """The sums of one part.

    Examples
    --------
    >>> rows = LinearDomains([[0.0], [1.0]], [0, 1], ["a", "b"])
    >>> found = answer(rows, Question(np.zeros(2), np.array([0.5, 0.5]), ("losses", "diagonal")))
    >>> found["losses"].round(4).tolist(), found["diagonal"].tolist()
    ([0.6931, 0.6931], [0.125, 0.25])
    """
    sums = _PartSums(rows, question)
    return {name: getattr(sums, name)() for name in question.shapes}


class _PartSums:
    """The sums at one w, each a method of its name."""

    def __init__(self, rows: LinearDomains, question: Question) -> None:
        self.rows, self.question, self.here = rows, question, rows.at(question.w)
        self.mixture = question.weights * rows.sizes  # then row i weighs c_i = Σ_k S_ik λ_k/m_k

    def losses(self) -> Array:
        return self.here.losses * self.rows.sizes

    def jacobian(self) -> Array:
        return self.here.jacobian() * self.rows.sizes[:, None]

    def curvature(self) -> Array:
        return self.here.hessian(self.mixture)[np.triu_indices(self.rows.n_parameters)]

    def diagonal(self) -> Array:
        return self.here.hessian_diagonal(self.mixture)

    def product(self) -> Array:
        return self.here.hessian_vector(self.mixture, self._step)

    # -- of a proof ----------------------------------------------------------------------------

    def conjugate(self) -> Array:
        return np.array(conjugates(self.rows, self._c, self._alpha))

    def slope(self) -> Array:
        return self._slopes[0]

    def error(self) -> Array:
        return self._slopes[1]

    @cached_property
    def _slopes(self) -> tuple[Array, Array]:
        return slopes(self.rows, self._c.copy(), self._alpha)

    def pivot(self) -> Array:
        return self._by_intercepts(self.here.curvature)

    def give(self) -> Array:
        return self._by_intercepts(self._moving[0])

    def bend(self) -> Array:
        h, slope = self._moving
        if h.ndim == 1:
            return np.array([self._c @ (h * slope**2)])
        mean = np.einsum("ik,ik->i", h, slope)
        return np.array([self._c @ np.einsum("ik,ik->i", h, (slope - mean[:, None]) ** 2)])

    @cached_property
    def _moving(self) -> tuple[Array, Array]:
        """h = 1/ℓ*'' and ℓ*' at α; for K scores, P and log P."""
        return self.rows.loss.conjugate_slopes(self._alpha, self.rows.y)

    def _by_intercepts(self, p: Array) -> Array:
        """Σ c_i h_i, or for K scores Σ c_i (diag P_i − P_i P_iᵀ)."""
        if self.question.n_free == 0:
            return np.zeros((0, 0))
        c = self._c
        return np.atleast_2d(c @ p if p.ndim == 1 else np.diag(c @ p) - p.T @ (c[:, None] * p))

    @cached_property
    def _c(self) -> Array:
        return self.here.weights(self.mixture)

    @cached_property
    def _alpha(self) -> Array:
        alpha = self.here.slope + bend(self.here.curvature, self.rows.scores(self._step))
        return self.rows.loss.inside(self.question.scale * alpha, self.rows.y)

    @property
    def _step(self) -> Array:
        if self.question.step is None:
            raise InputError(
                "question", f"wants {self.question.want} without a step", "give the direction"
            )
        return self.question.step

    # -- once ----------------------------------------------------------------------------------

    def penalized(self) -> Array:
        """1 for every entry of w that the regulariser sees."""
        return self.rows.penalized.astype(np.float64)

    def kind(self) -> Array:
        """The rows; K, `of_residual`, `room`, `linear`, `offset`, alike in all parts; `square` − 1.

        Of the last the sum is at least the largest.
        """
        rows, loss, growth = self.rows, self.rows.loss, self.rows.growth
        alike = rows.n_scores, loss.of_residual, min(loss.room, 1e300), growth.linear, growth.offset
        return np.array([rows.n_rows, *alike, growth.square - 1], dtype=np.float64)

    def powers(self) -> Array:
        """Σ_i |x_ij|⁸ of the column of every entry of w, over the rows that count."""
        rows, counts = self.rows, (self._counts > 0).astype(np.float64)
        powers = np.append((abs(rows.X) ** POWER).T @ counts, [counts.sum()] * rows.intercept)
        return np.tile(powers, rows.n_scores)

    def targets(self) -> Array:
        """Σ_i s_i y_i and Σ_i s_i where y are numbers; zeros for classes."""
        if self.rows.classes is not None:
            return np.zeros(2)
        return np.array([float(self._counts @ self.rows.y), float(self._counts.sum())])

    @cached_property
    def _counts(self) -> Array:
        return np.asarray(self.rows.average.T @ self.rows.sizes)
