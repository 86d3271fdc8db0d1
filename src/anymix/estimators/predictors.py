"""What fitted linear estimators say of rows: scikit-learn's methods around `LinearModel`.

The domains of the rows matter only to a model fitted with `domain_features`; without them (which
warns), or in a domain that was not fitted, the shared part of the model speaks.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data

from anymix.estimators.domain_features import Deviations
from anymix.estimators.keywords import NoDomainsWarning
from anymix.estimators.model import LinearModel
from anymix.problem.losses import Loss

Array = NDArray[np.float64]
SHARED = (
    "the domain is a feature of this model and was not given, so its shared part predicts: write "
    "domains=..., with None for each row of unknown domain"
)

__all__ = ["LinearClassifier", "LinearRegressor"]


class LinearClassifier(ClassifierMixin):
    """Predictions from `coef_` (1 or K, d), `intercept_` and `classes_`."""

    coef_: Array
    intercept_: Any
    classes_: Any
    deviations_: Deviations

    def decision_function(self, X: Any, domains: Any = None) -> Array:
        """Scores z: (n,) for two classes, positive for `classes_[1]`; (n, K) for more."""
        return self._model().scores(_checked(self, X, domains), domains)

    def predict(self, X: Any, domains: Any = None) -> NDArray[Any]:
        """The most probable class of every row, (n,)."""
        return self._model().predict(_checked(self, X, domains), domains)

    def predict_proba(self, X: Any, domains: Any = None) -> Array:
        """Probabilities of the classes, (n, K)."""
        return self._model().predict_proba(_checked(self, X, domains), domains)

    def predict_log_proba(self, X: Any, domains: Any = None) -> Array:
        """Logarithms of the probabilities, (n, K), without underflow."""
        return self._model().predict_log_proba(_checked(self, X, domains), domains)

    def score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, domains: Any = None
    ) -> float:
        """The accuracy."""
        said = self.predict(X, domains)
        return float(accuracy_score(y, said, sample_weight=sample_weight))

    def _model(self) -> LinearModel:
        check_is_fitted(self)
        deviations = getattr(self, "deviations_", None)
        return LinearModel(self.coef_, self.intercept_, self.classes_, deviations)


class LinearRegressor(RegressorMixin):
    """Predictions from `coef_` (d,) and `intercept_`: means, as the loss makes them of scores."""

    coef_: Array
    intercept_: Any
    deviations_: Deviations

    def predict(self, X: Any, domains: Any = None) -> Array:
        """⟨w, (x, 1)⟩ of every row, or the mean that it stands for, (n,)."""
        check_is_fitted(self)
        deviations = getattr(self, "deviations_", None)
        intercept = np.array([self.intercept_])
        model = LinearModel(self.coef_[None, :], intercept, None, deviations)
        return self._loss().mean(model.scores(_checked(self, X, domains), domains))

    def score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, domains: Any = None
    ) -> float:
        """The share of the variance that is explained, R², or of the deviance, D²."""
        return self._loss().score(y, self.predict(X, domains), sample_weight)

    def _loss(self) -> Loss:
        raise NotImplementedError


def _checked(estimator: Any, X: Any, domains: Any) -> Any:
    if domains is None and hasattr(estimator, "deviations_"):
        warnings.warn(SHARED, NoDomainsWarning, stacklevel=3)
    return validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=np.float64)
