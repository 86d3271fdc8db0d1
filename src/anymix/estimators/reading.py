"""What an estimator is given as checked `Rows`: read once, by scikit-learn's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from anymix.errors import InputError
from anymix.problem.entries import encode
from anymix.problem.losses import CrossEntropy, Loss
from anymix.problem.rows import Rows

__all__ = [
    "class_weights",
    "read_classes",
    "read_numbers",
    "refuse_class_weight",
]


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


def class_weights(y: Any, class_weight: Any, sample_weight: Any) -> Any:
    """The weights of the rows times those of their classes.

    Parameters
    ----------
    y : array-like of shape (n,)
        The classes of the rows.
    class_weight : dict, "balanced" or None
        Weights of the classes.
    sample_weight : array-like of shape (n,) or None
        Weights of the rows.

    Returns
    -------
    array-like of shape (n,) or None

    Examples
    --------
    >>> class_weights(["a", "a", "b"], {"a": 2.0, "b": 1.0}, [1, 2, 3])
    array([2., 4., 3.])
    """
    if class_weight is None:
        return sample_weight
    try:
        by_class = compute_sample_weight(class_weight, y)
    except ValueError as error:
        fix = "give a weight for each class, or 'balanced'"
        raise InputError("class_weight", f"is {class_weight!r} ({error})", fix) from None
    return by_class if sample_weight is None else by_class * np.asarray(sample_weight, np.float64)


def refuse_class_weight(class_weight: Any) -> None:
    """Refuse weights of classes for rows that are not in memory."""
    if class_weight is not None:
        found = f"is {class_weight!r}, but the rows are not in memory"
        raise InputError("class_weight", found, "give sample_weight instead")


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
