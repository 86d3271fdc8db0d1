"""What an estimator is given as checked `Rows`: read once, by scikit-learn's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils import check_array
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from anymix.errors import InputError
from anymix.problem.entries import encode
from anymix.problem.losses import CrossEntropy, Loss, SquaredError
from anymix.problem.rows import Rows, weighted_domains

__all__ = [
    "class_weights",
    "read_classes",
    "read_numbers",
    "refuse_class_weight",
    "rows_without_features",
    "targets_of",
]


def read_classes(
    estimator: Any,
    X: Any,
    y: Any,
    domains: Any,
    sample_weight: ArrayLike | None = None,
    intercept: bool = True,
) -> Rows:
    """Checked input of a classifier."""
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


def targets_of(estimator: Any, y: Any, n: int) -> NDArray[Any]:
    """y as a column of n labels or numbers, by scikit-learn's rules."""
    if y is None:
        found = "requires y to be passed, but the target y is None"  # scikit-learn's own words
        raise InputError(type(estimator).__name__, found, "give the targets")
    column: NDArray[Any] = column_or_1d(y, warn=True)
    if len(column) != n:
        found = f"has {len(column)} entries, and X {n} rows"
        raise InputError("y", found, "give one for every row")
    kind = None if is_classifier(estimator) else "numeric"
    options: dict[str, Any] = {"ensure_2d": False, "input_name": "y", "dtype": kind}
    column = check_array(column, estimator=estimator, **options)
    if is_classifier(estimator):
        check_classification_targets(column)
    return column


def rows_without_features(
    y: NDArray[Any], classify: bool, domains: Any, sample_weight: ArrayLike | None
) -> Rows:
    """Codes or numbers, domains and weights as `Rows` that have no X."""
    n = len(y)
    names, members, weight = weighted_domains(domains, sample_weight, n)
    if not classify:
        numbers = np.asarray(y, dtype=np.float64)
        return Rows(None, numbers, None, members, names, weight, SquaredError())
    classes, codes = encode("y", y, n)
    if len(classes) < 2:
        found = f"has only one class, {classes.tolist()[0]!r}"
        raise InputError("y", found, "give two or more")
    return Rows(None, codes, classes, members, names, weight, CrossEntropy())
