"""Checked rows of the scikit-learn estimators, and parts of them to fit and to hold out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from anymix.problem.arrays import encode, memberships, numbers
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Loss

Array = NDArray[np.float64]

__all__ = ["Rows", "read_classes"]


@dataclass(frozen=True)
class Rows:
    """Checked input: n rows in p domains, of which parts can be taken."""

    X: Any  # (n, d), dense or CSR
    y: NDArray[Any]  # (n,), codes of the classes or numbers
    classes: NDArray[Any] | None
    membership: Any  # (p, n), CSC
    names: NDArray[Any]  # (p,), of the domains
    weight: Array  # (n,)
    loss: Loss
    intercept: bool

    @staticmethod
    def of(
        X: Any,
        y: NDArray[Any],
        classes: NDArray[Any] | None,
        domains: Any,
        sample_weight: ArrayLike | None,
        loss: Loss,
        intercept: bool,
    ) -> Rows:
        """Read the domains (None is one of all rows) and the weights (None is 1)."""
        n = X.shape[0]
        names, membership = memberships(np.full(n, "all") if domains is None else domains, n)
        weight = 1.0 if sample_weight is None else numbers("sample_weight", sample_weight, n)
        weight = weight * (np.diff(membership.indptr) > 0)  # a row in no domain does not count
        return Rows(X, y, classes, membership, names, weight, loss, intercept)

    def part(self, times: Array | float = 1.0, where: str = "the data") -> LinearDomains:
        """The problem in which row i occurs times_i times; rows of weight 0 are left out."""
        weight = self.weight * times
        self._check(weight, where)
        rows: Any = slice(None) if np.all(weight) else np.flatnonzero(weight)
        return LinearDomains(
            self.X[rows],
            self.y[rows],
            self.membership[:, rows].T,
            self.loss,
            intercept=self.intercept,
            sample_weight=weight[rows],
            classes=None if self.classes is None else np.arange(len(self.classes)),
        )

    def _check(self, weight: Array, where: str) -> None:
        """Every domain needs a row."""
        if not np.any(weight):
            raise ValueError(f"sample_weight is zero for every row of {where}; give some > 0")
        sizes = self.membership @ weight
        if np.any(sizes == 0):
            k = int(np.argmin(sizes))
            raise ValueError(
                f"domains has no row of {self.names.tolist()[k]!r} (of weight above 0) in {where}; "
                "merge the domain with another, or split the rows otherwise"
            )

    def split(
        self, fraction: float | None, random_state: Any
    ) -> tuple[LinearDomains, LinearDomains | None]:
        """A part to fit and a part to hold out, which takes its share of every domain and class."""
        if fraction is None:
            return self.fitted(), None
        if not 0 < fraction < 1:
            raise ValueError(f"validation_fraction is {fraction}; give None or one inside (0, 1)")
        order = self.order(check_random_state(random_state))
        ends = np.floor(np.arange(len(order) + 1) * fraction)
        held = np.empty(len(order))
        held[order] = np.diff(ends)  # 1 for every 1/fraction-th row
        return self.fitted(1 - held, "the rows fitted"), self.part(held, "the rows held out")

    def fitted(self, times: Array | float = 1.0, where: str = "the data") -> LinearDomains:
        """A part to learn from: it needs every class too."""
        if self.classes is not None:
            totals = np.bincount(self.y, self.weight * times, minlength=len(self.classes))
            if np.any(totals == 0) and np.any(totals > 0):
                missing = self.classes.tolist()[int(np.argmin(totals))]
                raise ValueError(
                    f"class {missing!r} of y has no row (of sample_weight above zero) in {where}; "
                    "leave the class out, or split the rows otherwise"
                )
        return self.part(times, where)

    def order(self, rng: np.random.RandomState | None = None) -> NDArray[np.intp]:
        """The rows sorted by domain, then class: whoever takes every j-th of them is stratified.

        Rows alike in both are shuffled, or without `rng` keep their order.
        """
        n = len(self.y)
        turn = np.arange(n) if rng is None else rng.permutation(n)
        classes = np.zeros(n) if self.classes is None else self.y
        key = self.membership.T @ np.random.default_rng(0).uniform(size=len(self.names))
        return np.lexsort((turn, classes, key))


def read_classes(
    estimator: Any,
    X: Any,
    y: Any,
    domains: Any,
    sample_weight: ArrayLike | None,
    intercept: bool,
) -> Rows:
    """Checked input of a classifier."""
    X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=np.float64)
    check_classification_targets(y)
    classes, codes = encode("y", y, len(y))
    if len(classes) < 2:
        raise ValueError(f"y has only one class, {classes.tolist()[0]!r}; give two or more")
    return Rows.of(X, codes, classes, domains, sample_weight, CrossEntropy(), intercept)
