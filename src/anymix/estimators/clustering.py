"""Domains from data: clients whose distributions are alike become one domain.

    min over labels and centres c of  Σᵢ wᵢ D(xᵢ, c_label(i)),    D a Bregman divergence

Few large and pure domains can be promised more than many small ones (Section 6 of the paper), so
clients are a poor choice of domains where they are many. `describe_clients` makes the statistics
xᵢ, and `BregmanClusters` the domains.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from anymix.bounds.domain_advice import clusters_by_bound
from anymix.errors import InputError
from anymix.problem.clusters import (
    Clusters,
    best_clusters,
    clusters_from,
    shares_of,
)
from anymix.problem.divergences import DIVERGENCES, Divergence, divergence_of

Array = NDArray[np.float64]

__all__ = ["BregmanClusters"]


class BregmanClusters(ClusterMixin, BaseEstimator):
    """min Σᵢ wᵢ D(xᵢ, c_label(i)) over K centres c: clients that are alike, in hard clusters.

    Turns of nearest centres and means from several random seeds, as K-means, for any Bregman
    divergence D (Banerjee, Merugu, Dhillon and Ghosh, 2005). The sum never grows from turn to turn.

    Parameters
    ----------
    n_clusters : int or "bound"
        K. "bound" takes the K for which the agnostic learning bound of the worst cluster is least:
        max_k ℓ₁_k + √(log(K/δ)/(2 m_k)), ℓ₁_k how unlike its clients are beyond chance and m_k its
        rows, δ = 0.05; the sizes of the clients must be the sample_weight then. K = 1 says that no
        domains can be advised: the clients differ too little for their rows.
    divergence : str
        "kl" for histograms (rows are divided by their sums), "i_divergence" for counts,
        "itakura_saito" for spectra and variances (> 0), "euclidean" or "mahalanobis" for statistics
        that may have any sign.
    random_state : int, RandomState or None
        Chooses the seeds.
    n_init : int
        How many seeds are tried.
    max_iter : int
        Turns at most from each seed.
    init : array-like of shape (K, d) or None
        Centres to begin from, instead of random seeds.
    precision : array-like of shape (d, d) or None
        A of "mahalanobis", the inverse covariance; None takes that of the rows given.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        The cluster of each row; 0 is the heaviest.
    cluster_centers_ : ndarray of shape (K, d)
        The weighted mean of the rows of each.
    objective_ : float
        Σᵢ wᵢ D(xᵢ, c_label(i)).
    history_ : list of float
        The same after every turn, of which there are n_iter_.
    n_clusters_ : int
        K.
    bounds_ : ndarray of shape (tried,)
        With "bound": the bound for K = 1, 2, …

    Examples
    --------
    >>> from anymix.estimators import describe_clients
    >>> clients = ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    >>> words = ["hi", "hi", "hi", "yo"] + ["yo"] * 4 + ["yo", "yo", "yo", "hi"]
    >>> found = describe_clients(clients, labels=words)
    >>> clusters = BregmanClusters(2).fit(found.statistics, sample_weight=found.sizes)
    >>> dict(zip(found.names.tolist(), clusters.labels_.tolist()))
    {'a': 1, 'b': 0, 'c': 0}
    """

    def __init__(
        self,
        n_clusters: int | str = 8,
        divergence: str = "kl",
        random_state: Any = 0,
        *,
        n_init: int = 10,
        max_iter: int = 300,
        init: ArrayLike | None = None,
        precision: ArrayLike | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.divergence = divergence
        self.random_state = random_state
        self.n_init = n_init
        self.max_iter = max_iter
        self.init = init
        self.precision = precision

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : array-like of shape (n, d)
            A row of statistics for each client.
        y : None
            Not looked at.
        sample_weight : array-like of shape (n,) or None
            w > 0, such as the number of rows of each client; None is 1 for each.

        Returns
        -------
        BregmanClusters
        """
        raw = validate_data(self, X, dtype=np.float64)
        weights = _check_sample_weight(sample_weight, raw, dtype=np.float64)
        kept = np.flatnonzero(weights > 0)
        if weights.min() < 0 or not len(kept):
            raise InputError("sample_weight", f"has the entry {weights.min():g}", "give some > 0")
        D = self._set_metric(raw[kept], weights[kept])
        rows = self._rows(raw)
        found = self._found(rows[kept], weights[kept], D, sample_weight is not None)
        self.labels_ = np.empty(len(raw), dtype=np.intp)
        self.labels_[kept] = found.labels
        lost = np.flatnonzero(weights == 0)
        if len(lost):
            self.labels_[lost] = D.nearest(rows[lost], found.centers)
        self._centers = found.centers
        share = D.read(raw) if D.is_share else raw
        mine = self.labels_ == np.arange(len(found.centers))[:, None]  # (K, n)
        self.cluster_centers_ = np.array([np.average(share[k], 0, weights[k]) for k in mine])
        self.n_clusters_ = len(found.centers)
        self.objective_, self.history_ = found.objective, list(found.history)
        self.n_iter_ = len(found.history)
        return self

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The cluster whose centre is nearest, for clients that need not have been fitted.

        Parameters
        ----------
        X : array-like of shape (n, d)
            A row of statistics for each client.

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self)
        rows = self._rows(validate_data(self, X, dtype=np.float64, reset=False))
        return divergence_of(self.divergence).nearest(rows, self._centers)

    def memberships(self, X: Any) -> Array:
        """argmin_{a ∈ Δ_K} D(x, Σ_k a_k c_k): each client as a mixture of the clusters, (n, K).

        Parameters
        ----------
        X : array-like of shape (n, d)
            A row of statistics for each client. Repeated for each client's rows, the result is a
            table of memberships that `LinearDomains` and the estimators take as `domains`.

        Returns
        -------
        ndarray of shape (n, K)
        """
        check_is_fitted(self)
        rows = self._rows(validate_data(self, X, dtype=np.float64, reset=False))
        D = divergence_of(self.divergence)
        return np.array([shares_of(x, self._centers, D) for x in rows])

    def _set_metric(self, X: Array, weights: Array) -> Divergence:
        """The divergence; for distances, the origin and unit in which rows are measured."""
        D = divergence_of(self.divergence)
        self._origin = self._root = None
        if D is DIVERGENCES["euclidean"]:  # both distances; no digits are lost far from 0
            self._origin = weights @ X / weights.sum()
        if self.divergence == "mahalanobis":
            self._root = _root(_precision(self.precision, X, weights))
        return D

    def _rows(self, X: Array) -> Array:
        X = divergence_of(self.divergence).read(X)
        X = X if self._origin is None else X - self._origin
        return X if self._root is None else X @ self._root

    def _found(self, rows: Array, weights: Array, D: Divergence, weighted: bool) -> Clusters:
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        if isinstance(self.n_clusters, str):
            return self._by_bound(rows, weights, D, weighted, rng)
        K = self.n_clusters
        whole: Any = K
        if not isinstance(whole, int | np.integer) or not 1 <= K <= len(rows):
            found = f"is {K!r}, and there are n_samples = {len(rows)} clients"
            raise InputError("n_clusters", found, "give a whole number from 1 to that, or 'bound'")
        if self.init is None:
            return best_clusters(rows, weights, int(K), D, rng, self.n_init, self.max_iter)
        centers = np.asarray(self.init, dtype=np.float64)
        if centers.shape != (K, rows.shape[1]):
            fix = f"give ({K}, {rows.shape[1]}), a row for each cluster"
            raise InputError("init", f"has shape {centers.shape}", fix)
        return clusters_from(self._rows(centers), rows, weights, D, self.max_iter)

    def _by_bound(
        self, rows: Array, weights: Array, D: Divergence, weighted: bool, rng: np.random.Generator
    ) -> Clusters:
        if self.n_clusters != "bound":
            fix = "give a whole number or 'bound'"
            raise InputError("n_clusters", f"is {self.n_clusters!r}", fix)
        if not weighted:
            lacks = "is needed for n_clusters='bound', which weighs rows against purity"
            raise InputError("sample_weight", lacks, "give the number of rows of each client")
        if self.divergence == "mahalanobis" and self.precision is None:
            lacks = "is needed for n_clusters='bound' with this divergence"
            raise InputError("precision", lacks, "give the inverse covariance of single rows")
        found, self.bounds_ = clusters_by_bound(rows, weights, D, rng, self.n_init, self.max_iter)
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.divergence in ("kl", "i_divergence", "itakura_saito")
        return tags


def _precision(given: ArrayLike | None, X: Array, weights: Array) -> Array:
    """A, (d, d): the one given, or the inverse covariance of the rows where they vary at all."""
    d = X.shape[1]
    if given is None:
        centered = X - weights @ X / weights.sum()
        covariance = (weights * centered.T) @ centered / weights.sum()
        return np.asarray(np.linalg.pinv(covariance, rcond=1e-10, hermitian=True))
    A = np.asarray(given, dtype=np.float64)
    if A.shape != (d, d) or not np.allclose(A, A.T):
        found = f"has shape {A.shape}" if A.shape != (d, d) else "is not symmetric"
        raise InputError("precision", found, f"give a symmetric matrix, ({d}, {d})")
    return A


def _root(A: Array) -> Array:
    """B with B Bᵀ = A, (d, d)."""
    values, vectors = np.linalg.eigh(A)
    if values.min() < -1e-10 * max(values.max(), 0.0) or values.max() < 0:
        raise InputError("precision", f"has the eigenvalue {values.min():g}", "give one ≥ 0")
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
