"""A fitted linear model: scores z = ⟨w, (x, 1)⟩, and what they say of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax

from anymix.estimators.domain_features import Deviations, members_of

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
    deviations : Deviations or None
        What the scores of each domain differ by, if the domain is a feature.

    Examples
    --------
    >>> model = LinearModel(np.array([[1.0]]), np.array([0.0]), np.array(["no", "yes"]))
    >>> model.predict(np.array([[2.0], [-1.0]])).tolist()
    ['yes', 'no']
    """

    coef: Array
    intercept: Array
    classes: NDArray[Any] | None
    deviations: Deviations | None = None

    @property
    def uses_domain(self) -> bool:
        """Whether the domain is a feature."""
        return self.deviations is not None

    @property
    def domain_names(self) -> NDArray[Any] | None:
        """The domains, if they are features."""
        return None if self.deviations is None else self.deviations.names

    def scores(self, X: Any, domains: Any = None) -> Array:
        """z: (n,), positive for the second of two classes; (n, K) for K ≥ 3 classes."""
        z: Array = np.asarray(X @ self.coef.T) + self.intercept
        if self.deviations is not None and domains is not None:
            members = members_of(domains, self.deviations.names, X.shape[0])
            z = z + self.deviations.scores(X, members)
        return z[:, 0] if len(self.coef) == 1 else z

    def predict(self, X: Any, domains: Any = None) -> NDArray[Any]:
        """The value or the most probable class of every row, (n,)."""
        z = self.scores(X, domains)
        if self.classes is None:
            return z
        best = (z > 0).astype(np.intp) if z.ndim == 1 else np.argmax(z, axis=1)
        return np.asarray(self.classes[best])

    def predict_proba(self, X: Any, domains: Any = None) -> Array:
        """Probabilities of the classes, (n, K)."""
        z = self.scores(X, domains)
        if z.ndim == 1:
            return np.column_stack([expit(-z), expit(z)])
        return np.asarray(softmax(z, axis=1))

    def predict_log_proba(self, X: Any, domains: Any = None) -> Array:
        """Logarithms of the probabilities, (n, K), without underflow."""
        z = self.scores(X, domains)
        if z.ndim == 1:
            return np.column_stack([log_expit(-z), log_expit(z)])
        return np.asarray(log_softmax(z, axis=1))
