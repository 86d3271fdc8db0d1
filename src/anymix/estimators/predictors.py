"""What fitted linear estimators say of rows: scikit-learn's methods around `LinearModel`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from anymix.estimators.model import LinearModel

Array = NDArray[np.float64]

__all__ = ["LinearClassifier", "LinearRegressor"]


class LinearClassifier(ClassifierMixin):
    """Predictions from `coef_` (1 or K, d), `intercept_` and `classes_`."""

    coef_: Array
    intercept_: Any
    classes_: Any

    def decision_function(self, X: Any) -> Array:
        """Scores z: (n,) for two classes, positive for `classes_[1]`; (n, K) for more."""
        return self._model().scores(_checked(self, X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of every row, (n,)."""
        return self._model().predict(_checked(self, X))

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (n, K)."""
        return self._model().predict_proba(_checked(self, X))

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities, (n, K), without underflow."""
        return self._model().predict_log_proba(_checked(self, X))

    def _model(self) -> LinearModel:
        check_is_fitted(self)
        return LinearModel(self.coef_, self.intercept_, self.classes_)


class LinearRegressor(RegressorMixin):
    """Predictions from `coef_` (d,) and `intercept_`."""

    coef_: Array
    intercept_: Any

    def predict(self, X: Any) -> Array:
        """⟨w, (x, 1)⟩ of every row, (n,)."""
        check_is_fitted(self)
        model = LinearModel(self.coef_[None, :], np.array([self.intercept_]), None)
        return model.scores(_checked(self, X))


def _checked(estimator: Any, X: Any) -> Any:
    return validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=np.float64)
