"""Which rows are in which domain: labels, memberships, or combinations of several columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.errors import InputError
from anymix.problem.arrays import encode, rows_of_domains
from anymix.problem.cells import combined

Rows = NDArray[np.intp]

__all__ = ["check_count", "count", "rows_by_domain"]


def rows_by_domain(domains: Any, features: Any, n: int) -> tuple[dict[Any, Rows], int]:
    """The rows of each domain, and how many combinations of features have no row."""
    if features is None:
        return _parts(np.full(n, "all") if domains is None else domains, n), 0
    if domains is not None:
        found = "and the domains themselves are both given"
        raise InputError("sensitive_features", found, "give one of them")
    columns = _feature_columns(features, n)
    coded = [encode("sensitive_features", column, n) for _, column in columns]
    (names, codes), n_empty = combined(coded, [title for title, _ in columns])
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    return dict(zip(names.tolist(), parts, strict=True)), n_empty


def _parts(domains: Any, n: int) -> dict[Any, Rows]:
    """The rows of each domain; of a domain without any, no mixture has a loss."""
    check_count("domains", domains, n)
    parts = rows_of_domains(domains, n)
    shape = domains.shape if hasattr(domains, "shape") else np.shape(domains)
    is_table = sparse.issparse(domains) or (len(shape) == 2 and shape[1] > 1)
    columns = list(getattr(domains, "columns", range(shape[1]))) if is_table else []
    empty = [name for name in columns if name not in parts]
    if empty:
        found = f"has no row in {', '.join(map(repr, empty[:10]))}"
        raise InputError("domains", found, "leave such a column out, or merge it with another")
    return parts


def _feature_columns(features: Any, n: int) -> list[tuple[str | None, Any]]:
    """Each column of labels, with its title if there is one."""
    if isinstance(features, dict):
        columns = list(features.items())
    else:
        check_count("sensitive_features", features, n)
        columns = _table_columns(features)
    if not columns:
        raise InputError("sensitive_features", "has no columns", "give one or more")
    for _, column in columns:
        check_count("sensitive_features", column, n)
    return columns


def _table_columns(features: Any) -> list[tuple[str | None, Any]]:
    if hasattr(features, "columns"):
        return [(str(name), features[name]) for name in features.columns]
    # as objects: numbers beside strings stay numbers
    table = features if hasattr(features, "shape") else np.array(features, dtype=object)
    if len(table.shape) not in (1, 2):
        found = f"has shape {table.shape}"
        raise InputError("sensitive_features", found, "give one column or more of labels")
    return [(None, c) for c in ([table] if len(table.shape) == 1 else np.asarray(table).T)]


def count(values: Any) -> int:
    """How many rows there are; 0 for what has none, such as a number or a string."""
    if not _is_column(values):
        return 0
    return int(values.shape[0] if hasattr(values, "shape") else len(values))


def _is_column(values: Any) -> bool:
    """Whether it has rows at all; a string is one value."""
    shaped = getattr(values, "shape", True) != ()
    return hasattr(values, "__len__") and shaped and not isinstance(values, str | bytes)


def check_count(name: str, values: Any, n: int) -> None:
    """Refuse anything but n rows."""
    if not _is_column(values):
        raise InputError(name, f"is {values!r}", f"give one entry for each of the {n} rows")
    if count(values) != n:
        found = f"has {count(values)} rows, but {n} were predicted"
        raise InputError(name, found, "give one for each")
