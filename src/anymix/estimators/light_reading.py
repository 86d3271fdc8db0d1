"""All that is given beside X, checked; X itself is for the estimator to judge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from anymix.errors import InputError
from anymix.problem.entries import encode
from anymix.problem.losses import CrossEntropy, SquaredError
from anymix.problem.rows import Rows, weighted_domains

__all__ = ["rows_without_features", "targets_of"]


def targets_of(estimator: Any, y: Any, n: int) -> NDArray[Any]:
    """y as a column of n labels or numbers, by scikit-learn's rules.

    Parameters
    ----------
    estimator : estimator
        Who asks: a classifier or a regressor.
    y : array-like of shape (n,)
        The targets.
    n : int
        How many there must be.

    Returns
    -------
    ndarray of shape (n,)
    """
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
    """Codes or numbers, domains and weights as `Rows` that have no X.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels or numbers.
    classify : bool
        Whether they are labels.
    domains : array-like of shape (n,) or (n, p), or None
        Labels or memberships; None is one domain.
    sample_weight : array-like of shape (n,) or None
        Weights of the rows.

    Returns
    -------
    Rows
    """
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
