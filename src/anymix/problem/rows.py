"""The one `Rows`: X, y, domains and weights, checked and coded once; parts of them are problems.

A part (a fold, a share held out, a sample) is an index into the same rows, so nothing is read,
checked or coded again when a problem is made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from anymix.errors import InputError
from anymix.problem.arrays import code_type, features, targets, weights
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import Loss
from anymix.problem.membership import Domains, domains_of

Array = NDArray[np.float64]
Part = slice | NDArray[np.intp]  # a stretch of the rows, or their numbers
ALL = slice(None)

__all__ = ["ALL", "Part", "Rows", "constant_losses", "dense_if_small", "take", "weighted_domains"]

SMALL_TABLE = 200_000  # entries of X, zeros included, up to which dense products are faster


@dataclass(frozen=True, eq=False)
class Rows:
    """n checked rows in p domains, of which parts can be taken as problems.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d), or None
        The features; None where they are still to come, or are kept elsewhere.
    y : ndarray of shape (n,)
        Codes of the classes, or numbers.
    classes : ndarray of shape (K,) or None
        The classes that the codes stand for; None in regression.
    domains : OneDomain or ManyDomains
        Which rows are in which domain.
    names : ndarray of shape (p,)
        Names of the domains.
    weight : ndarray of shape (n,) or None
        Weights of the rows; None is 1.
    loss : Loss
        The loss ℓ.
    intercept : bool
        Whether the model has an intercept.

    Examples
    --------
    >>> from anymix.problem.losses import SquaredError
    >>> rows = Rows.read([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0], ["a", "b", "b"], SquaredError())
    >>> rows.names.tolist(), len(rows)
    (['a', 'b'], 3)
    >>> rows.to_fit(np.array([0, 2])).sizes
    array([1., 1.])
    """

    X: Any
    y: NDArray[Any]
    classes: NDArray[Any] | None
    domains: Domains
    names: NDArray[Any]
    weight: Array | None
    loss: Loss
    intercept: bool = True

    @staticmethod
    def read(
        X: Any,
        y: Any,
        domains: Any,
        loss: Loss,
        *,
        classes: NDArray[Any] | None = None,
        sample_weight: ArrayLike | None = None,
        intercept: bool = True,
    ) -> Rows:
        """Check and code everything, once."""
        X = features(X)
        n = X.shape[0]
        if classes is None:
            y, classes = targets(y, n, loss, None)
        else:
            y = y.astype(code_type(len(classes)), copy=False)
        names, members, weight = weighted_domains(domains, sample_weight, n)
        return Rows(X, y, classes, members, names, weight, loss, intercept)

    def __len__(self) -> int:
        return len(self.y)

    def with_features(self, X: Any) -> Rows:
        """The same rows with another X, checked."""
        return replace(self, X=features(X))

    def take(self, part: Part) -> Rows:
        """A part of the rows as rows of their own."""
        return replace(
            self,
            X=None if self.X is None else take(self.X, part),
            y=self.y[part],
            domains=self.domains.take(part),
            weight=None if self.weight is None else self.weight[part],
        )

    def first(self, n: int) -> Rows:
        """The first n rows."""
        return self.take(slice(0, n))

    def mapped(self, f: Callable[[Rows], Rows]) -> Rows:
        """f of these rows; rows on a disk do it when they are read."""
        return f(self)

    def applied(self, f: Callable[[Any], Any], part: Part = ALL) -> Any:
        """f(X) of the rows of a part, f giving a number or more for each row."""
        return f(take(self.X, part))

    def to_fit(self, part: Part = ALL, where: str = "the data") -> LinearDomains:
        """The problem of learning from a part, which needs every domain and every class."""
        part = self._counted(part)
        self.check_classes(part, where)
        problem = self.to_judge(part)
        self._check_sizes(problem.sizes, where)
        return problem

    def to_judge(self, part: Part = ALL) -> LinearDomains:
        """The losses on a part; 0 in a domain that has no row there (its size is 0 too)."""
        part = self._counted(part)
        domains, p = self.domains.take(part), len(self.names)
        order = domains.grouped() if self.classes is not None and len(self.classes) > 2 else None
        if order is not None:  # gradients of K ≥ 3 classes then are one product a domain
            part, domains = np.arange(len(self))[part][order], domains.take(order)
        weight = None if self.weight is None else self.weight[part]
        sizes, average = domains.shares(p, weight)
        return _problem(self, take(self.X, part), self.y[part], sizes, average)

    def row_losses(self, models: Sequence[Array], part: Part = ALL) -> Array:
        """ℓ of every row of a part under each of C models, (C, rows): one product for all."""
        X, y = take(self.X, part), self.y[part]
        blocks = np.stack(models).reshape(len(models), self.n_scores, -1)  # (C, K, d + 1)
        d = X.shape[1]
        z = np.asarray(X @ blocks[..., :d].reshape(-1, d).T)
        if self.intercept:
            z += blocks[..., d].ravel()
        z = z.reshape(len(y), len(models), self.n_scores)
        scores = (z[:, c, 0] if self.n_scores == 1 else z[:, c] for c in range(len(models)))
        return np.array([self.loss.derivatives(s, y, 0)[0] for s in scores])

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def n_scores(self) -> int:
        """1, or K for K ≥ 3 classes."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)

    def sizes(self, part: Part = ALL) -> Array:
        """m (p,): what the weights of the rows in each domain add up to."""
        part = self._counted(part)
        weight = None if self.weight is None else self.weight[part]
        return self.domains.take(part).sizes(len(self.names), weight)

    def check_domains(self, part: Part, where: str) -> None:
        """Refuse a part that has no row of some domain."""
        self._check_sizes(self.sizes(part), where)

    def check_classes(self, part: Part, where: str) -> None:
        """Refuse a part that has no row of some class."""
        if self.classes is None:
            return
        found = np.bincount(self.y[self._counted(part)], minlength=len(self.classes))
        if np.any(found == 0) and np.any(found > 0):
            missing = self.classes.tolist()[int(np.argmin(found))]
            raise InputError(
                "",
                f"class {missing!r} of y has no row (of sample_weight above zero) in {where}",
                "leave the class out, or split the rows otherwise",
            )

    def _counted(self, part: Part) -> Part:
        """The rows of the part whose weight is above 0."""
        if self.weight is None:
            return part
        counts = self.weight[part] > 0
        return part if counts.all() else np.arange(len(self))[part][counts]

    def _check_sizes(self, sizes: Array, where: str) -> None:
        if not np.any(sizes):
            raise InputError("sample_weight", f"is zero for every row of {where}", "give some > 0")
        if np.any(sizes == 0):
            name = self.names.tolist()[int(np.argmin(sizes))]
            raise InputError(
                "domains",
                f"has no row of {name!r} (of weight above 0) in {where}",
                "merge the domain with another, or split the rows otherwise",
            )


def weighted_domains(
    domains: Any, sample_weight: ArrayLike | None, n: int
) -> tuple[NDArray[Any], Domains, Array | None]:
    """Names of the domains, which of n rows are in which, and the weights of the rows, if any."""
    names, members = domains_of(domains, n)
    weight = None if sample_weight is None else weights(sample_weight, n)
    inside = members.inside()
    if not inside.all():
        weight = inside.astype(np.float64) if weight is None else inside * weight
    return names, members, weight


def constant_losses(rows: Rows) -> Array:
    """ℓ of every row for the mean of y, or the shares of the classes, as a guess for all, (n,).

    Examples
    --------
    >>> from anymix.problem.losses import SquaredError
    >>> constant_losses(Rows.read([[0.0], [1.0]], [1.0, 3.0], ["a", "b"], SquaredError()))
    array([0.5, 0.5])
    """
    n = len(rows)
    weight = np.ones(n) if rows.weight is None else rows.weight
    if rows.classes is None:
        z = np.full(n, rows.loss.score_of(float(np.average(rows.y, weights=weight))))
    else:
        counts = np.bincount(rows.y, weight, len(rows.classes))
        logs = np.log(np.maximum(counts / counts.sum(), 1e-300))
        z = np.full(n, logs[1] - logs[0]) if len(logs) == 2 else np.tile(logs, (n, 1))
    return np.asarray(rows.loss.derivatives(z, rows.y, 0)[0])


def _problem(
    rows: Rows, X: Any, y: NDArray[Any], sizes: Array, average: sparse.csc_array
) -> LinearDomains:
    """A LinearDomains of arrays that are checked already."""
    names, loss = rows.names, rows.loss
    return LinearDomains.coded(X, y, rows.classes, names, sizes, average, loss, rows.intercept)


def take(X: Any, part: Part) -> Any:
    """Rows of X; a stretch of half of a CSR matrix or more is not copied."""
    if not isinstance(part, slice):
        return X[part] if sparse.issparse(X) else X.take(part, axis=0)
    if not sparse.issparse(X):
        return X[part]
    start, stop, step = part.indices(X.shape[0])
    if step != 1:
        return X[part]
    ends = X.indptr[start : stop + 1]
    inside = slice(ends[0], ends[-1])
    shape = (stop - start, X.shape[1])
    return sparse.csr_array((X.data[inside], X.indices[inside], ends - ends[0]), shape=shape)


def dense_if_small(X: Any) -> Any:
    """X as a dense array if it is small: of few numbers, dense products are faster."""
    small = X.shape[0] * X.shape[1] <= SMALL_TABLE
    return X.toarray() if small and sparse.issparse(X) else X
