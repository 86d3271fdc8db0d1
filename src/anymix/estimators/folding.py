"""Folds of the rows, as scikit-learn people ask for them; every domain is in every part."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from anymix.errors import InputError
from anymix.problem.dealing import Index, Split, deal, sorted_rows
from anymix.problem.rows import ALL, Rows

__all__ = ["FewerFolds", "complete_folds", "folds"]


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
