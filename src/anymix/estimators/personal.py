"""Personal models: α_k h + (1 − α_k) h_k, the shared model h mixed with each domain's own h_k.

α_k ∈ [0, 1] is the best for rows of the domain that neither model has seen; few rows stay near the
shared model, for they cannot tell (`anymix.problem.blending`).
Probabilities are mixed, as in the paper, or predicted values. Rows of an unknown domain, or of
none, are served by the shared model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import _safe_indexing, check_random_state, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_y,
    _num_samples,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from anymix.errors import InputError, finite_number
from anymix.estimators.domain_features import members_of
from anymix.estimators.keywords import by_name, no_domains
from anymix.problem.blending import Blend, best_blend
from anymix.problem.entries import encode

Array = NDArray[np.float64]

__all__ = ["Mixer", "Personalized", "PersonalizedCV", "as_agreed", "says", "true_column"]


def _has_probabilities(model: Any) -> bool:
    return hasattr(model._shared(), "predict_proba")


class Mixer(MetaEstimatorMixin, BaseEstimator):
    """What a fitted personal model says: `alpha_` and `domain_names_` mix two models."""

    alpha_: Array
    domain_names_: NDArray[Any]
    __metadata_request__fit = {"domains": True}  # noqa: RUF012 - scikit-learn's way to say it
    __metadata_request__predict = {"domains": True}  # noqa: RUF012
    __metadata_request__predict_proba = {"domains": True}  # noqa: RUF012
    __metadata_request__score = {"domains": True}  # noqa: RUF012

    def _shared(self) -> Any:
        """h, fitted."""
        raise NotImplementedError

    def _own(self) -> Mapping[Any, Any]:
        """h_k by domain, fitted."""
        raise NotImplementedError

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, domains: Any = None) -> Array:
        """α_k times the shared model's probabilities plus 1 − α_k times the domain's own, (n, K).

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features.
        domains : array-like of shape (n,) or None
            The domain of each row; missing and unknown ones are served by the shared model.
        """
        check_is_fitted(self, "alpha_")
        return self._mixed(X, domains)

    def predict(self, X: Any, domains: Any = None) -> NDArray[Any]:
        """The most probable class, or the mixed value, of every row, (n,).

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features.
        domains : array-like of shape (n,) or None
            The domain of each row; missing and unknown ones are served by the shared model.
        """
        check_is_fitted(self, "alpha_")
        mixed = self._mixed(X, domains)
        classes = getattr(self._shared(), "classes_", None)
        return mixed if classes is None else np.asarray(classes)[mixed.argmax(axis=1)]

    def score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, domains: Any = None
    ) -> float:
        """The accuracy of a classifier, R² of a regressor."""
        measure = accuracy_score if hasattr(self._shared(), "classes_") else r2_score
        return float(measure(y, self.predict(X, domains), sample_weight=sample_weight))

    def _mixed(self, X: Any, domains: Any) -> Array:
        shared = self._shared()
        (X,) = indexable(X)
        found = says(shared, X, domains, shared)
        if domains is None:
            return found
        members = members_of(domains, self.domain_names_, _num_samples(X)).tocsc()
        for k, (name, alpha) in enumerate(zip(self.domain_names_, self.alpha_, strict=True)):
            rows = members.indices[members.indptr[k] : members.indptr[k + 1]]
            own = _named(self._own(), name)
            if len(rows) and alpha < 1 and own is not None:
                theirs = says(own, _safe_indexing(X, rows), None, shared)
                found[rows] = alpha * found[rows] + (1 - alpha) * theirs
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.agnostic.__sklearn_tags__()
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags


class Personalized(Mixer):
    """α_k h + (1 − α_k) h_k: a shared model mixed with each domain's own.

    Both are fitted already; `fit` chooses α_k by rows that neither has seen, with the log loss of
    classifiers and the squared error of regressors. On those rows, if they are ten or more, the
    mixture is never worse than either.

    Parameters
    ----------
    agnostic : estimator
        h, fitted, with `predict_proba` or `predict`.
    local : dict
        Domain → h_k, fitted, of the same kind; a domain without one is served by h alone.
    z : float
        For domains of fewer than thirty rows, how many standard errors of a paired difference
        count as nothing: α_k is the largest that is no farther from the best. 0 takes the best
        itself, as larger domains do.

    Attributes
    ----------
    alpha_ : ndarray of shape (p,)
        α_k, 1 where h serves alone.
    domain_names_ : ndarray of shape (p,)
        The domains, sorted.
    held_out_losses_ : dict of str to ndarray of shape (p,)
        The mean loss of the "agnostic", "local" and "personal" model on the rows given to `fit`;
        NaN where there is no local model.

    Examples
    --------
    >>> import anymix as ax
    >>> rng = np.random.default_rng(0)
    >>> clinic, X = np.repeat(["a", "b"], 300), rng.normal(size=(600, 1))
    >>> y = np.where(clinic == "a", 1, -1) * X[:, 0] + rng.logistic(size=600) > 0
    >>> fit, rest = np.arange(600) % 2 == 0, np.arange(600) % 2 == 1
    >>> h = ax.AgnosticClassifier().fit(X[fit], y[fit], domains=clinic[fit])
    >>> parts = {name: fit & (clinic == name) for name in "ab"}
    >>> one = lambda m: ax.AgnosticClassifier().fit(X[m], y[m], domains=None)
    >>> own = {name: one(m) for name, m in parts.items()}
    >>> model = Personalized(h, own).fit(X[rest], y[rest], domains=clinic[rest])
    >>> bool(model.alpha_.max() < 0.5)
    True
    >>> model.predict([[2.0], [2.0], [2.0]], domains=["a", "b", "elsewhere"]).shape
    (3,)
    """

    def __init__(self, agnostic: Any, local: Mapping[Any, Any], *, z: float = 1.0) -> None:
        self.agnostic = agnostic
        self.local = local
        self.z = z

    @by_name
    def fit(self, X: Any, y: Any, *, domains: Any) -> Self:
        """Choose α_k by rows that neither model has seen.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features.
        y : array-like of shape (n,)
            What was true.
        domains : array-like of shape (n,)
            The domain, or client, of each row.

        Returns
        -------
        Personalized
        """
        y = column_or_1d(y)
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise InputError("y", "has entries that are missing or infinite", "drop those rows")
        (X,) = indexable(X)
        names, codes = encode("domains", domains, _num_samples(X))
        if len(y) != len(codes):
            raise InputError("y", f"has {len(y)} entries but X has {len(codes)} rows", "give both")
        shared, kind = says(self.agnostic, X, domains, self.agnostic), _kind(self.agnostic)
        a = true_column(shared, y, self.agnostic)
        b = np.full(len(y), np.nan)
        for k, name in enumerate(names.tolist()):
            own, rows = _named(self.local, name), np.flatnonzero(codes == k)
            if own is not None:
                said = says(own, _safe_indexing(X, rows), None, self.agnostic)
                b[rows] = true_column(said, y[rows], self.agnostic)
        self.domain_names_ = names
        self.alpha_, self.held_out_losses_ = blends(a, b, codes, len(names), kind, self.z)
        return self

    def _shared(self) -> Any:
        return self.agnostic

    def _own(self) -> Mapping[Any, Any]:
        return self.local


def blends(
    a: Array, b: Array, codes: NDArray[np.intp], p: int, kind: str, z: float
) -> tuple[Array, dict[str, Array]]:
    """α of each domain by its own rows, and the losses there; NaN in b says: no own model."""
    z = finite_number("z", z, "give a number ≥ 0", lambda x: x >= 0)
    found = []
    for k in range(p):
        mine = codes == k
        if np.isnan(b[mine]).any():
            shared = best_blend(a[mine], a[mine], kind).shared
            found.append(Blend(1.0, shared, shared, np.nan))
        else:
            found.append(best_blend(a[mine], b[mine], kind, z))
    alpha, personal, parent, own = (np.array(values) for values in zip(*found, strict=True))
    return alpha, {"agnostic": parent, "local": own, "personal": personal}


def says(model: Any, X: Any, domains: Any, like: Any) -> Array:
    """Probabilities in the columns of `like.classes_`, (n, K), or values, (n,)."""
    told: dict[str, Any] = {}
    if hasattr(model, "deviations_"):
        told["domains"] = np.full(_num_samples(X), None) if domains is None else domains
    if _kind(like) == "squared":
        return np.array(model.predict(X, **told), dtype=np.float64)
    if not hasattr(model, "predict_proba"):
        found = f"has the model {type(model).__name__} without predict_proba"
        raise InputError("local", found, "give a classifier with probabilities")
    said = np.asarray(model.predict_proba(X, **told), dtype=np.float64)
    classes, mine = like.classes_.tolist(), model.classes_.tolist()
    if mine == classes:
        return said.copy()
    if not set(mine) <= set(classes):
        found = f"has a model of the classes {mine}, but the agnostic one has {classes}"
        raise InputError("local", found, "fit both to the same classes")
    aligned = np.zeros((len(said), len(classes)))
    aligned[:, [classes.index(c) for c in mine]] = said
    return aligned


def true_column(said: Array, y: NDArray[Any], like: Any) -> Array:
    """The probability of what came true, or the error, (n,): what α is chosen by."""
    if said.ndim == 1:
        return np.asarray(said - y, dtype=np.float64)
    place = {c: k for k, c in enumerate(like.classes_.tolist())}
    unknown = set(y.tolist()) - set(place)
    if unknown:
        found = f"has the class {sorted(map(str, unknown))[0]!r}, which the models do not know"
        raise InputError("y", found, f"give some of {list(place)}")
    return said[np.arange(len(y)), [place[v] for v in y.tolist()]]


def as_agreed(model: Any, X: Any, y: Any, domains: Any) -> Any:
    """Fit a model, with the domains if it takes them."""
    return model.fit(X, y, **dict.fromkeys(no_domains(model), domains))


def _kind(model: Any) -> str:
    return "log" if is_classifier(model) or hasattr(model, "predict_proba") else "squared"


def _named(models: Mapping[Any, Any], name: Any) -> Any:
    """The model of a domain; '1' is 1, as people write it."""
    if name in models:
        return models[name]
    return next((model for key, model in models.items() if str(key) == str(name)), None)


Indices = NDArray[np.intp]


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
