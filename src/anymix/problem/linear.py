"""A linear model seen through its domains: L_k(w) = Σ_i a_ki ℓ(⟨w, (x_i, 1)⟩, y_i), k = 1..p.

a_ki is the share of row i in domain k (weight over the domain's total), so every quantity the
solvers need is a sum over rows: the p losses, their p gradients, and the curvature of a mixture
Σ_k λ_k L_k. The solvers ask for nothing else, so clients that keep their rows can answer as well.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from anymix.errors import InputError, finite_number
from anymix.problem.arrays import average_shares, bounded_features, memberships, targets
from anymix.problem.conditioning import Shifted, offsets_and_scale
from anymix.problem.evaluation import MOST_DENSE, Evaluation
from anymix.problem.losses import CrossEntropy, Loss
from anymix.problem.weighted import WeightedRows

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

__all__ = ["Evaluation", "LinearDomains", "merge", "squared_lengths"]


class LinearDomains(WeightedRows):
    """L_k(w) = (1/m_k) Σ_{i in domain k} ℓ(⟨w, (x_i, 1)⟩, y_i) for k = 1..p.

    The parameters `w` are one flat vector: (d + 1,) with the intercept last, or K such blocks one
    after the other for K ≥ 3 classes (`unpack` splits them).

    Parameters
    ----------
    X : array-like of shape (n, d)
        The features: an array, a data frame or a SciPy sparse matrix. Dense float64 rows are not
        copied.
    y : array-like of shape (n,)
        Labels of any kind or numbers, as the loss has it.
    domains : array-like of shape (n,) or (n, p)
        Labels of any kind, one domain a row; or a membership matrix, dense or sparse, boolean or
        of weights ≥ 0, which puts a row into several domains (or none).
    loss : Loss, optional
        The loss ℓ; CrossEntropy by default.
    intercept : bool, default True
        Whether w ends with an intercept, which is never penalised.
    sample_weight : array-like of shape (n,), optional
        Weights ≥ 0 of the rows; 1 by default.
    classes : array-like of shape (K,), optional
        All classes there are, when y may lack some of them.

    Attributes
    ----------
    domain_names : ndarray of shape (p,)
        The labels of the domains, sorted.
    sizes : ndarray of shape (p,)
        m_k, what the weights of the rows of each domain add up to.
    average : csc_array of shape (p, n)
        The shares a_ki.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> problem = LinearDomains(X, ["no", "yes", "no", "yes"], ["a", "a", "b", "b"])
    >>> problem.domain_names.tolist(), problem.sizes.tolist(), problem.n_parameters
    (['a', 'b'], [2.0, 2.0], 2)
    >>> problem.losses([0.0, 0.0]).round(4).tolist()
    [0.6931, 0.6931]
    >>> problem.gradient([0.0, 0.0], [0.5, 0.5]).tolist()
    [-0.25, 0.0]
    """

    dense_up_to = 600  # beyond it a Hessian costs more than the passes over X that it saves
    hessian_up_to = MOST_DENSE
    brings_curvature = False

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        domains: Any,
        loss: Loss | None = None,
        *,
        intercept: bool = True,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        loss = CrossEntropy() if loss is None else loss
        if not isinstance(loss, Loss):
            raise InputError("loss", f"is {loss!r}", "give a loss such as SquaredError() or None")
        X, largest = bounded_features(X)
        n = X.shape[0]
        if X.shape[1] == 0 and not intercept:
            raise InputError(
                "X", "has no columns and intercept is False", "there is nothing to learn"
            )
        codes, found = targets(y, n, loss, classes)
        names, membership = memberships(domains, n)
        sizes, average = average_shares(membership, names, sample_weight)
        self._set(X, codes, found, names, sizes, average, loss, bool(intercept))
        self.largest = largest
        if self.n_scores > 1:
            self._sort_rows()

    @classmethod
    def coded(
        cls,
        X: Any,
        y: NDArray[Any],
        classes: NDArray[Any] | None,
        domain_names: NDArray[Any],
        sizes: Array,
        average: sparse.csc_array,
        loss: Loss,
        intercept: bool = True,
    ) -> LinearDomains:
        """The problem of rows that are checked and coded already; only their shapes are checked.

        Parameters
        ----------
        X : ndarray or csr_array of shape (n, d)
            The features.
        y : ndarray of shape (n,)
            Codes 0..K−1 of the classes, or numbers.
        classes : ndarray of shape (K,) or None
            What the codes stand for; None in regression.
        domain_names, sizes : ndarray of shape (p,)
            The domains, and what the weights of their rows add up to.
        average : csc_array of shape (p, n)
            The shares a_ki, which add up to 1 in every domain that has rows.
        loss : Loss
            The loss ℓ.
        intercept : bool, default True
            Whether w ends with an intercept.

        Returns
        -------
        LinearDomains
            Nothing is copied, and the rows stay in their order.
        """
        n, p = X.shape[0], len(domain_names)
        for name, found, shape in (
            ("y", y.shape, (n,)),
            ("sizes", sizes.shape, (p,)),
            ("average", average.shape, (p, n)),
        ):
            if found != shape:
                raise InputError(name, f"has shape {found}", f"give {shape}")
        problem = cls.__new__(cls)
        problem._set(X, y, classes, domain_names, sizes, average, loss, intercept)
        return problem

    def _set(
        self,
        X: Any,
        y: NDArray[Any],
        classes: NDArray[Any] | None,
        domain_names: NDArray[Any],
        sizes: Array,
        average: sparse.csc_array,
        loss: Loss,
        intercept: bool,
    ) -> None:
        n_scores = 1 if classes is None or len(classes) == 2 else len(classes)
        super().__init__(X, y, average, loss, intercept, n_scores)
        self.classes, self.domain_names, self.sizes = classes, domain_names, sizes
        self._is_merged = False
        self.row_counts: Array | None = None  # of merged rows, how many each of them was

    # -- sizes ---------------------------------------------------------------------------------

    @property
    def reference(self) -> Array:
        """m̄ = m_k / m, the mixture of the data themselves, (p,)."""
        return self.sizes / float(self.sizes.sum())

    def row_shares(self, mixture: Array) -> Array:
        """Σ_i a_ki c_i of every domain k, c_i the weight of row i: one over its number of rows.

        λ_k/m_k where each row is in one domain; a merged row counts as the rows that it was.
        """
        c = self.average.T @ mixture
        shares: Array = self.average @ (c if self.row_counts is None else c / self.row_counts)
        return shares

    @property
    def has_blocks(self) -> bool:
        """Whether blocks of the Hessian are cheap: not for sparse rows, nor for many columns."""
        return not sparse.issparse(self.X) and self.n_features <= MOST_DENSE

    @property
    def is_smooth(self) -> bool:
        """Whether the loss has curvature, as the exact solver needs."""
        return self.loss.is_smooth

    @cached_property
    def loss_scale(self) -> float:
        """The unit in which gaps are measured: the worst loss of a constant, at most 1.

        A constant that fits leaves only the rounding of y, which is no unit; 1e-8 of y is.
        """
        if not self.loss.of_residual:
            return 1.0
        mean = float(self.reference @ (self.average @ self.y)) if self.intercept else 0.0
        value = self.average @ self.loss.derivatives(np.full(self.n_rows, mean), self.y, 0)[0]
        least = 0.5 * (1e-8 * float(np.max(np.abs(self.y)))) ** 2
        return min(1.0, max(float(value.max()), least) or 1.0)

    # -- values at w ---------------------------------------------------------------------------

    def at(self, w: ArrayLike, mixture: Array | None = None) -> Evaluation:
        """Everything at w; what has been computed once is kept.

        `mixture` is the one whose curvature will be asked for, which only helps far away rows.
        """
        w = self._check_w(w)
        return Evaluation(self, w, self.scores(w))

    def losses(self, w: ArrayLike) -> Array:
        """(L_1(w), …, L_p(w))."""
        w = self._check_w(w)
        losses: Array = self.average @ self.loss.derivatives(self.scores(w), self.y, 0)[0]
        return losses

    def gradient(self, w: ArrayLike, mixture: ArrayLike) -> Array:
        """∇_w Σ_k λ_k L_k(w)."""
        return self.at(w).gradient(self._check_mixture(mixture))

    def hessian(self, w: ArrayLike, mixture: ArrayLike) -> Array:
        """∇²_w Σ_k λ_k L_k(w), dense (n_parameters, n_parameters)."""
        return self.at(w).hessian(self._check_mixture(mixture))

    # -- other views of the same rows ----------------------------------------------------------

    def merged(self) -> LinearDomains:
        """The same losses from fewer rows: equal rows of one domain and target become one.

        Tables of categories shrink many-fold. Returns `self` when a sample of the rows shows
        that there is little to merge, or when this has been done already.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 1000, axis=0)
        >>> problem = LinearDomains(X, X[:, 0] > 0, np.arange(2000) % 2)
        >>> problem.n_rows, problem.merged().n_rows
        (2000, 4)
        """
        found = None if self._is_merged else merge(self)
        merged = self
        if found is not None:
            kept, average, counts = found
            merged = self._with_rows(kept, average)
            merged.row_counts = counts
        merged._is_merged = True
        return merged

    def sample(self, fraction: float) -> LinearDomains:
        """About `fraction` of every domain's rows, evenly spaced, at least 30; the same sizes.

        A stand-in whose solution is a good start for the full problem.

        Parameters
        ----------
        fraction : float
            A number in (0, 1].

        Returns
        -------
        LinearDomains
            With at least 30 rows of every domain that has as many.
        """
        finite_number("fraction", fraction, "give a number in (0, 1]", lambda x: 0 < x <= 1)
        m = np.diff(self._members[0])
        return self._only(self._spaced(np.minimum(m, np.maximum(30, np.ceil(fraction * m)))))

    def coarse(self) -> LinearDomains | None:
        """A sample whose solution is a good start; None where there are few rows anyway."""
        if self.n_rows <= max(4000, 40 * self.n_features):
            return None
        few = self.sample(0.07)
        return few if few.n_rows < 0.5 * self.n_rows else None

    def conditioned(self) -> Shifted | None:
        """The problem with offsets taken off and targets of moderate size; None if it is so."""
        moves = self.loss.of_residual
        found = offsets_and_scale(self.X, self.y, moves, self.intercept)
        if found is None:
            return None
        shift, target, scale = found
        X = self.X - shift if np.any(shift) else self.X
        y = (self.y - target) / scale if moves else self.y
        loss = self.loss.in_units(scale)
        return Shifted(self._like(X, y, self.average, loss), shift, target, scale)

    def _only(self, rows: Indices) -> LinearDomains:
        return self._with_rows(rows, self._shares_of(rows))

    def _with_rows(self, rows: Indices, average: sparse.csc_array) -> LinearDomains:
        X, y = self._taken(rows)
        other = self._like(X, y, average, self.loss)
        other.largest = self.largest
        return other

    def _like(
        self, X: Any, y: NDArray[Any], average: sparse.csc_array, loss: Loss
    ) -> LinearDomains:
        other = LinearDomains.__new__(LinearDomains)
        other._set(X, y, self.classes, self.domain_names, self.sizes, average, loss, self.intercept)
        return other

    def _sort_rows(self) -> None:
        """Put the rows of a domain side by side: K-fold gradients then are one product each."""
        first = self.average.indices[self.average.indptr[:-1]] if self._is_partition else None
        if first is None or bool(np.all(first[1:] >= first[:-1])):
            return
        order = np.argsort(first, kind="stable")
        self.X, self.y = self.X[order], self.y[order]
        self.average = self.average[:, order].tocsc()


def squared_lengths(problem: LinearDomains) -> Array:
    """‖(x_i, 1)‖² of every row, (n,); without the 1 when there is no intercept."""
    X = problem.X
    squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    return np.asarray(squares, dtype=np.float64) + problem.intercept


def merge(table: WeightedRows) -> tuple[Indices, sparse.csc_array, Array] | None:
    """The rows to keep, the shares that they stand for, and how many rows each of them was."""
    n = table.n_rows
    rows = np.arange(0, n, max(1, n // 4096))
    if len(np.unique(_keys(table, rows))) > 0.97 * len(rows):
        return None
    keys = _keys(table, np.arange(n))
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    keep = first[group]  # the row that stands for each row
    others = np.flatnonzero(keep != np.arange(n))
    for part in np.array_split(others, 1 + len(others) // 8192):
        odd = part[~_equal(table, part, keep[part])]  # keys equal by chance
        keep[odd] = odd
    kept, group = np.unique(keep, return_inverse=True)
    coo = table.average.tocoo()
    places = coo.coords[0], group[coo.coords[1]]
    average = sparse.csc_array((coo.data, places), shape=(table.n_domains, len(kept)))
    return kept, average, _counts(table, group)


def _counts(table: WeightedRows, group: Indices) -> Array:
    """(Σ c)²/Σ c² over the rows of each group, c their shares: their number, if all weigh alike."""
    c = np.asarray(table.average.sum(axis=0)).ravel()
    squares = np.bincount(group, c * c)
    return np.divide(np.bincount(group, c) ** 2, squares, np.ones(len(squares)), where=squares > 0)


def _keys(table: WeightedRows, rows: Indices) -> Array:
    """A random linear function of (row, target, domains): equal rows have equal keys."""
    rng = np.random.default_rng(0)
    X = table.X if len(rows) == table.n_rows else table.X[rows]
    key = np.asarray(X @ rng.normal(size=table.n_features))
    key += rng.normal() * table.y[rows]
    shape = table.average[:, rows]
    shape.data = np.ones_like(shape.data)
    key += np.asarray(shape.T @ rng.normal(size=table.n_domains))
    return key


def _equal(table: WeightedRows, a: Indices, b: Indices) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = table.y[a] == table.y[b]
    if sparse.issparse(table.X):
        same &= np.asarray(abs(table.X[a] - table.X[b]).sum(axis=1)).ravel() == 0
    else:
        same &= (table.X[a] == table.X[b]).all(axis=1)
    domains_a, domains_b = table.average[:, a] != 0, table.average[:, b] != 0
    same &= np.asarray((domains_a != domains_b).sum(axis=0)).ravel() == 0
    return same
