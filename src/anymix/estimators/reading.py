"""What an estimator is given as checked `Rows`: read once, by scikit-learn's rules.

Folds are dealt so that every domain is in every part of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import check_array, check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from anymix.errors import InputError
from anymix.problem.dealing import Index, Split, deal, sorted_rows
from anymix.problem.entries import encode
from anymix.problem.losses import CrossEntropy, Loss, SquaredError
from anymix.problem.rows import ALL, Rows, weighted_domains

__all__ = [
    "FewerFolds",
    "class_weights",
    "complete_folds",
    "folds",
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
    """The weights of the rows times those of their classes."""
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


def folds(rows: Rows, cv: Any, random_state: Any) -> list[Split]:
    """What to fit and what to judge on in each fold; every domain is in both."""
    found = list(_with_every_domain(rows, _splits(rows, cv, check_random_state(random_state))))
    if not found:
        raise InputError("cv", f"is {cv!r}, which has no fold", "give one fold or more")
    return found


def complete_folds(rows: Rows, cv: Any, random_state: Any) -> list[Split]:
    """What to fit and what to judge on, for folds that hold out every row once."""
    rows.check_classes(ALL, "the data")
    splits = _splits(rows, cv, check_random_state(random_state))
    held = np.concatenate([np.empty(0, dtype=np.intp), *(test for _, test in splits)])
    if not np.array_equal(np.sort(held), np.arange(len(rows))):
        raise InputError("cv", "does not hold out every row once", "give folds that do")
    return list(_with_every_domain(rows, splits))


def _splits(rows: Rows, cv: Any, rng: Any) -> list[tuple[Index, Index]]:
    """The numbers of the rows to fit and to judge on, of so many folds or of those given."""
    if isinstance(cv, Integral):
        return list(deal(sorted_rows(rows, rng), _number_of_folds(rows, int(cv))))
    X = np.zeros(len(rows)) if rows.X is None else rows.X
    splitter = check_cv(cv, rows.y, classifier=rows.classes is not None)
    numbers = np.arange(len(rows))
    found = splitter.split(X, rows.y)
    return [(numbers[train], numbers[test]) for train, test in found]  # masks become numbers


def _with_every_domain(rows: Rows, splits: Iterable[Split]) -> Iterator[Split]:
    for number, (train, test) in enumerate(splits, start=1):
        rows.check_domains(train, f"the training part of fold {number}")
        rows.check_domains(test, f"the test part of fold {number}")
        yield train, test


class FewerFolds(UserWarning):
    """The smallest domain has fewer rows than there are to be folds, so there are as many folds."""


def _number_of_folds(rows: Rows, cv: int) -> int:
    """cv, or the rows of the smallest domain if they are fewer; 2 at least."""
    counts = rows.domains.counts(len(rows.names))
    name, least = rows.names.tolist()[int(np.argmin(counts))], int(counts.min())
    if cv < 2:
        raise InputError("cv", f"is {cv}", "give 2 folds or more")
    if least < 2:
        found = (
            f"has a domain, {name!r}, with n_samples={least}, which cannot be held out and fitted"
        )
        raise InputError("domains", found, "merge it with another")
    if least < cv:
        found = f"cv is {cv}, but the smallest domain, {name!r}, has {least} rows"
        warnings.warn(f"{found}: {least} folds are used", FewerFolds, stacklevel=2)
    return min(cv, least)
