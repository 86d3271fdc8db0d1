"""Personal models with all that belongs to them: the shared one, the own ones, and α by folds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_random_state, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, _num_samples, validate_data

from anymix.errors import InputError
from anymix.estimators.keywords import by_name
from anymix.estimators.personal import Mixer, _kind, as_agreed, blends, says, true_column
from anymix.problem.entries import encode

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

__all__ = ["PersonalizedCV"]


class PersonalizedCV(Mixer):
    """α_k h + (1 − α_k) h_k with h, every h_k and α_k learnt from the same rows.

    Each fold is predicted by models fitted to the others, and these predictions choose α_k; then
    all models are fitted to all rows.

    Parameters
    ----------
    agnostic : estimator
        h before it is fitted; `domains` are passed to its `fit` if that takes them.
    local : estimator or None
        h_k before it is fitted, to the rows of one domain; None takes `agnostic`.
    cv : int
        Folds; each domain's rows are dealt out evenly.
    z : float
        Standard errors that count as nothing, as in `Personalized`.
    random_state : int, RandomState or None
        Deals out the rows.

    Attributes
    ----------
    agnostic_ : estimator
        h, fitted to all rows.
    local_ : dict
        Domain → h_k, fitted to its rows; without those that have too few rows or one class only.
    alpha_, domain_names_, held_out_losses_ :
        As in `Personalized`; the losses are those of the folds.
    classes_ : ndarray of shape (K,)
        The classes, of a classifier.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> clinic, X = np.repeat(["a", "b"], 200), rng.normal(size=(400, 1))
    >>> y = np.where(clinic == "a", 1, -1) * X[:, 0] + rng.logistic(size=400) > 0
    >>> model = PersonalizedCV(LogisticRegression()).fit(X, y, domains=clinic)
    >>> bool(model.score(X, y, domains=clinic) > model.score(X, y) + 0.1)
    True
    """

    def __init__(
        self,
        agnostic: Any,
        local: Any = None,
        *,
        cv: int = 5,
        z: float = 1.0,
        random_state: Any = 0,
    ) -> None:
        self.agnostic = agnostic
        self.local = local
        self.cv = cv
        self.z = z
        self.random_state = random_state

    @by_name
    def fit(self, X: Any, y: Any, *, domains: Any = None) -> Self:
        """Fit all models, and choose α_k by cross-validation.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features.
        y : array-like of shape (n,)
            What to learn.
        domains : array-like of shape (n,) or None
            The domain, or client, of each row; None is one domain.

        Returns
        -------
        PersonalizedCV
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        (X,) = indexable(X)
        y = _check_y(y, y_numeric=_kind(self.agnostic) == "squared")
        validate_data(self, X, y, skip_check_array=True)
        n = _num_samples(X)
        if len(y) != n:
            raise InputError("y", f"has {len(y)} entries but X has {n} rows", "give one a row")
        if _kind(self.agnostic) == "log":
            check_classification_targets(y)
        self.domain_names_, codes = encode(
            "domains", np.zeros(n) if domains is None else domains, n
        )
        labels = None if domains is None else self.domain_names_[codes]
        a, b = self._held_out(X, y, codes, labels)
        self.agnostic_, self.local_ = self._fitted(X, y, codes, labels, np.arange(n))
        classes = getattr(self.agnostic_, "classes_", None)
        if classes is not None:
            self.classes_ = classes
        p, kind = len(self.domain_names_), _kind(self.agnostic)
        self.alpha_, self.held_out_losses_ = blends(a, b, codes, p, kind, self.z)
        return self

    def _held_out(
        self, X: Any, y: NDArray[Any], codes: Indices, labels: Any
    ) -> tuple[Array, Array]:
        """What `true_column` gives for the shared and the own models, by folds."""
        a, b = np.full(len(y), np.nan), np.full(len(y), np.nan)
        for train, test in self._folds(y, codes):
            shared, own = self._fitted(X, y, codes, labels, train)
            told = None if labels is None else labels[test]
            a[test] = true_column(
                says(shared, _safe_indexing(X, test), told, shared), y[test], shared
            )
            for k, name in enumerate(self.domain_names_.tolist()):
                rows = test[codes[test] == k]
                if name in own and len(rows):
                    said = says(own[name], _safe_indexing(X, rows), None, shared)
                    b[rows] = true_column(said, y[rows], shared)
        return a, b

    def _fitted(
        self, X: Any, y: NDArray[Any], codes: Indices, labels: Any, rows: Indices
    ) -> tuple[Any, dict[Any, Any]]:
        """h and the h_k fitted to some rows."""
        told = None if labels is None else labels[rows]
        shared = as_agreed(clone(self.agnostic), _safe_indexing(X, rows), y[rows], told)
        own = {}
        for k, name in enumerate(self.domain_names_.tolist()):
            mine = rows[codes[rows] == k]
            if len(mine) >= 2 and (_kind(self.agnostic) != "log" or len(set(y[mine].tolist())) > 1):
                model = clone(self.agnostic if self.local is None else self.local)
                own[name] = as_agreed(model, _safe_indexing(X, mine), y[mine], None)
        return shared, own

    def _folds(self, y: NDArray[Any], codes: Indices) -> Iterator[tuple[Indices, Indices]]:
        """What to fit and what to predict: rows in random order, sorted by domain, dealt out."""
        cv, n = self.cv, len(y)
        if not isinstance(cv, Integral) or not 2 <= cv <= n:
            found = f"is {cv!r}, and there are n_samples = {n} rows"
            raise InputError("cv", found, "give a whole number from 2 to that")
        order = check_random_state(self.random_state).permutation(n)
        kinds = encode("y", y, n)[1] if _kind(self.agnostic) == "log" else np.zeros(n, dtype=int)
        order = order[np.lexsort((kinds[order], codes[order]))]
        fold = np.empty(n, dtype=int)
        fold[order] = np.arange(n) % int(cv)
        for number in range(int(cv)):
            yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)

    def _shared(self) -> Any:
        return getattr(self, "agnostic_", self.agnostic)

    def _own(self) -> Mapping[Any, Any]:
        return self.local_
