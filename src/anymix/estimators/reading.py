"""What an estimator is given as checked `Rows`: read once, by scikit-learn's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from anymix.errors import InputError
from anymix.problem.entries import encode
from anymix.problem.losses import CrossEntropy, Huber, Loss, SquaredError
from anymix.problem.rows import Rows

__all__ = ["read_classes", "read_numbers", "regression_loss"]


def read_classes(
    estimator: Any,
    X: Any,
    y: Any,
    domains: Any,
    sample_weight: ArrayLike | None = None,
    intercept: bool = True,
) -> Rows:
    """Checked input of a classifier.

    Parameters
    ----------
    estimator : estimator
        Whose `n_features_in_` and `feature_names_in_` are set.
    X : array-like of shape (n, d)
        The features.
    y : array-like of shape (n,)
        The labels.
    domains : array-like of shape (n,) or (n, p), or None
        Labels or memberships; None is one domain.
    sample_weight : array-like of shape (n,) or None
        Weights of the rows.
    intercept : bool
        Whether the model has an intercept.

    Returns
    -------
    Rows
    """
    X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=np.float64)
    check_classification_targets(y)
    classes, codes = encode("y", y, len(y))
    if len(classes) < 2:
        found = f"has only one class, {classes.tolist()[0]!r}"
        raise InputError("y", found, "give two or more")
    options: dict[str, Any] = {"sample_weight": sample_weight, "intercept": intercept}
    return Rows.read(X, codes, domains, CrossEntropy(), classes=classes, **options)


def read_numbers(
    estimator: Any,
    X: Any,
    y: Any,
    domains: Any,
    sample_weight: ArrayLike | None,
    intercept: bool,
    loss: Loss,
) -> Rows:
    """Checked input of a regressor: X and y are numbers, and the loss is given."""
    X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
    return Rows.read(X, y, domains, loss, sample_weight=sample_weight, intercept=intercept)


def regression_loss(loss: str, delta: float) -> Loss:
    """The loss of that name: "squared", or "huber" with its delta."""
    if loss not in ("squared", "huber"):
        raise InputError("loss", f"is {loss!r}", "give 'squared' or 'huber'")
    return SquaredError() if loss == "squared" else Huber(delta)
