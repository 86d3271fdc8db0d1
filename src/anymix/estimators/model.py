"""A fitted linear model: scores z = ⟨w, (x, 1)⟩, and what they say of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax

Array = NDArray[np.float64]

__all__ = ["LinearModel"]


@dataclass(frozen=True, eq=False)
class LinearModel:
    """z = X coefᵀ + intercept: a value, the log odds of two classes, or the scores of K ≥ 3.

    Parameters
    ----------
    coef : ndarray of shape (1, d) or (K, d)
        Coefficients of the features.
    intercept : ndarray of shape (1,) or (K,)
        What is added to each score.
    classes : ndarray of shape (2,) or (K,), or None
        The classes; None in regression.

    Examples
    --------
    >>> model = LinearModel(np.array([[1.0]]), np.array([0.0]), np.array(["no", "yes"]))
    >>> model.predict(np.array([[2.0], [-1.0]])).tolist()
    ['yes', 'no']
    """

    coef: Array
    intercept: Array
    classes: NDArray[Any] | None

    def scores(self, X: Any) -> Array:
        """z: (n,), positive for the second of two classes; (n, K) for K ≥ 3 classes."""
        z: Array = np.asarray(X @ self.coef.T) + self.intercept
        return z[:, 0] if len(self.coef) == 1 else z

    def predict(self, X: Any) -> NDArray[Any]:
        """The value or the most probable class of every row, (n,)."""
        z = self.scores(X)
        if self.classes is None:
            return z
        best = (z > 0).astype(np.intp) if z.ndim == 1 else np.argmax(z, axis=1)
        return np.asarray(self.classes[best])

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (n, K)."""
        z = self.scores(X)
        if z.ndim == 1:
            return np.column_stack([expit(-z), expit(z)])
        return np.asarray(softmax(z, axis=1))

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities, (n, K), without underflow."""
        z = self.scores(X)
        if z.ndim == 1:
            return np.column_stack([log_expit(-z), log_expit(z)])
        return np.asarray(log_softmax(z, axis=1))
