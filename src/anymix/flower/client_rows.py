"""The rows of a client, and which of them belong to which domain.

Row i is a part S_ik of domain k: 1 or 0 where a row has one domain, any weight ≥ 0 in general.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.flower.client_errors import CannotAnswerError, Reason
from anymix.flower.coordinates import moments
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import SquaredError
from anymix.problem.poisson import Poisson
from anymix.solvers.samplers import DomainRows

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

__all__ = ["ClientRows", "DomainTable", "LinearRows", "Shares"]


@dataclass(frozen=True)
class Shares:
    """S as its entries: row `rows[e]` counts `shares[e]` in domain `domains[e]`."""

    domains: NDArray[np.integer[Any]]
    rows: NDArray[np.integer[Any]]
    shares: Array

    def row_weights(self, a: Array, n: int) -> Array:
        """c_i = Σ_k a_k S_ik, (n,)."""
        weights = self.shares * a[self.domains]
        return np.bincount(self.rows, weights=weights, minlength=n).astype(np.float64)

    def sums(self, values: Array, p: int) -> Array:
        """Σ_i S_ik v_i, (p,): of each domain, the sum of a value of its rows."""
        weights = self.shares * values[self.rows]
        return np.bincount(self.domains, weights=weights, minlength=p).astype(np.float64)


class DomainTable:
    """Which rows belong to which domain, and the sums m_k of that."""

    def __init__(self, problem: LinearDomains) -> None:
        self.names = [str(name) for name in problem.domain_names.tolist()]
        self.sizes = problem.sizes
        average = problem.average
        domains = average.indices  # shared with the problem: thousands of clients may be here
        rows = np.repeat(np.arange(problem.n_rows, dtype=domains.dtype), np.diff(average.indptr))
        self._all = Shares(domains, rows, average.data * self.sizes[domains])
        self._problem = problem

    @cached_property
    def _rows(self) -> DomainRows:
        """The rows by domain, which only batches need."""
        return DomainRows(self._problem)

    @staticmethod
    def of(n: int, domains: Any) -> DomainTable:
        """The table of n rows that any model may be fitted to: domains alone, without features."""
        return DomainTable(LinearDomains(np.empty((n, 0)), np.zeros(n), domains, SquaredError()))

    def draw(
        self, asked: NDArray[np.bool_], batch_size: int, seed: list[int]
    ) -> tuple[Indices | None, Shares]:
        """Rows to look at, None for all, and their S: batch_size (0 is all) of every domain."""
        # A drawn row of domain k stands for m_k / batch_size of its rows.
        if batch_size == 0:
            return None, self._all
        domains = np.repeat(np.flatnonzero(asked), batch_size)
        chosen = self._rows.pick(domains, np.random.default_rng(seed).random(len(domains)))
        shares = self.sizes[domains] / batch_size
        return chosen, Shares(domains, np.arange(len(domains)), shares)


class ClientRows(Protocol):
    """The rows of one client, under one model."""

    table: DomainTable
    n_parameters: int
    penalized: Any  # (n_parameters,) or True: which entries of w the regulariser sees

    @property
    def kind(self) -> str:
        """What all clients must agree on, in words: loss, columns, classes."""
        ...

    @property
    def about(self) -> dict[str, Any]:
        """What the server must know of the model, for JSON."""
        ...

    def gradient(
        self, w: NDArray[Any], rows: Indices | None, shares: Shares, a: Array, seed: list[int]
    ) -> tuple[Array, Array]:
        """Σ_i c_i ∇ℓ_i(w), c_i = Σ_k a_k S_ik, and the ℓ_i(w) of the rows; None is all of them."""
        ...

    def losses(self, w: NDArray[Any], chunk: int | None = None) -> Array:
        """The ℓ_i(w) of all rows, so many of them at once."""
        ...

    def train_locally(
        self,
        w: NDArray[Any],
        c: Array,
        drift: Array | None,
        settings: Mapping[str, Any],
        seed: list[int],
    ) -> Array:
        """w after passes of the client's own over its rows, weighted by c; drift is their error."""
        ...


class LinearRows:
    """The rows of a client, to be fitted by a linear model."""

    def __init__(self, problem: LinearDomains) -> None:
        self.problem, self.table = problem, DomainTable(problem)
        self.n_parameters, self.penalized = problem.n_parameters, problem.penalized

    @property
    def kind(self) -> str:
        """The loss, the columns and the classes."""
        problem = self.problem
        classes = None if problem.classes is None else problem.classes.tolist()
        return (
            f"{problem.loss} of {problem.n_features} columns, intercept {problem.intercept}, "
            f"classes {classes}"
        )

    @property
    def about(self) -> dict[str, Any]:
        """The blocks of w, whether each ends with an intercept, the loss and the classes."""
        problem = self.problem
        classes = None if problem.classes is None else problem.classes.tolist()
        return {
            "n_scores": problem.n_scores,
            "intercept": bool(problem.intercept),
            "loss": str(problem.loss),
            "classes": classes,
        }

    def gradient(
        self, w: NDArray[Any], rows: Indices | None, shares: Shares, a: Array, seed: list[int]
    ) -> tuple[Array, Array]:
        """Σ_i c_i ∇ℓ_i(w) as one product with X, and the losses ℓ_i(w)."""
        part = self.problem
        if rows is not None:
            part = part._with_rows(rows, part.average)
        value, slope = part.loss.derivatives(part.scores(part._check_w(w)), part.y, 1)
        c = shares.row_weights(a, len(value))
        return part.pull_back(slope * (c if slope.ndim == 1 else c[:, None])), value

    def train_locally(
        self,
        w: NDArray[Any],
        c: Array,
        drift: Array | None,
        settings: Mapping[str, Any],
        seed: list[int],
    ) -> Array:
        """Refused: one gradient a round is enough for a linear model."""
        found, fix = "is given for a linear model", "leave it out: one gradient a round is enough"
        raise CannotAnswerError(Reason.KIND, "local_epochs", found, fix)

    def losses(self, w: NDArray[Any], chunk: int | None = None) -> Array:
        """The ℓ_i(w) of all rows."""
        part = self.problem
        value: Array = part.loss.derivatives(part.scores(part._check_w(w)), part.y, 0)[0]
        return value

    @cached_property
    def units(self) -> tuple[Array, Array, float, float]:
        """Means and spreads of the columns; the middle and the unit of the scores."""
        problem, y = self.problem, self.problem.y
        n, x, squares = np.split(self.moments(), 3)
        mean = (x / n)[: problem.n_features]
        spread = np.sqrt(np.maximum((squares / n)[: problem.n_features] - mean * mean, 0.0))
        if problem.classes is not None:
            return mean, spread, 0.0, 1.0
        if isinstance(problem.loss, Poisson):  # e^z: a tenth as long a w lets one row outweigh all
            return mean, spread, float(np.log(np.mean(y) or 1.0)), 0.1
        unit = max(float(np.std(y)), getattr(problem.loss, "delta", 0.0))
        return mean, spread, float(np.mean(y)), unit or 1.0

    def moments(self, products: bool = False) -> Array:
        """Those of all columns, that of the intercept last, see `coordinates.moments`."""
        X = self.problem.X
        if self.problem.intercept:
            ones = np.ones((X.shape[0], 1))
            X = sparse.hstack([X, ones], "csr") if sparse.issparse(X) else np.hstack([X, ones])
        return moments(X, products)
