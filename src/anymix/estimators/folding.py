"""Folds of the rows, as scikit-learn people ask for them; every domain is in every part."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from anymix.errors import InputError
from anymix.problem.dealing import Split, deal, sorted_rows
from anymix.problem.rows import Rows

__all__ = ["folds", "repeated_folds"]


def repeated_folds(rows: Rows, cv: Any, repeats: Any, random_state: Any) -> list[list[Split]]:
    """What to fit and what to judge on, for each fold of each repeat.

    Parameters
    ----------
    rows : Rows
        The rows.
    cv : int, splitter or iterable
        A number of folds, which is dealt out anew in every repeat; or folds, which are taken once.
    repeats : int
        How many repeats, at least 1.
    random_state : int, RandomState or None
        Deals out the rows of the second and later repeats; the first keeps their order.

    Returns
    -------
    list of lists of (part, part)
    """
    if not isinstance(repeats, Integral) or repeats < 1:
        raise InputError("repeats", f"is {repeats!r}", "give a whole number, at least 1")
    rng = check_random_state(random_state)
    count = int(repeats) if isinstance(cv, Integral) else 1
    found = [list(folds(rows, cv, rng if i else None)) for i in range(count)]
    if not found[0]:
        raise InputError("cv", f"is {cv!r}, which has no fold", "give one fold or more")
    return found


def folds(rows: Rows, cv: Any, rng: Any = None) -> Iterator[Split]:
    """What to fit and what to judge on, for each fold; every domain is in both."""
    if isinstance(cv, Integral):
        _check_cv(rows, int(cv))
        splits = deal(sorted_rows(rows, rng), int(cv))
    else:
        classifier = rows.classes is not None
        splits = check_cv(cv, rows.y, classifier=classifier).split(rows.X, rows.y)
    numbers = np.arange(len(rows))
    for number, (train, test) in enumerate(splits, start=1):
        held_out = numbers[test]  # masks become numbers
        rows.check_domains(held_out, f"the test part of fold {number}")
        yield numbers[train], held_out


def _check_cv(rows: Rows, cv: int) -> None:
    counts = rows.domains.counts(len(rows.names))
    if cv < 2 or counts.min() < cv:
        name, least = rows.names.tolist()[int(np.argmin(counts))], counts.min()
        raise InputError(
            "cv",
            f"is {cv} and the smallest domain, {name!r}, has n_samples={least}",
            "every fold needs a row of every domain: merge it with another, or lower cv (2 at "
            "least)",
        )
