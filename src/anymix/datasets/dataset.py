"""What every loader returns, and how it comes from the columns of a table.

One-hot features, domains, training and test rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anymix.datasets.fetching import Origin, quoted
from anymix.errors import InputError

__all__ = ["Dataset"]

Table = dict[str, NDArray[Any]]  # column name: (n,) strings or float64
Levels = Mapping[str, NDArray[Any] | None]  # column name: its levels, None for a numeric column


@dataclass(frozen=True, eq=False)
class Dataset:
    """m training and m' test examples, each with its label and its domain.

    Attributes
    ----------
    X, X_test : array, CSR matrix or pandas frame of shape (m, d) and (m', d)
        The features, as asked of the loader.
    y, y_test : ndarray of shape (m,) and (m',)
        The labels.
    domains, domains_test : ndarray of shape (m,) and (m',)
        The name of each row's domain.
    feature_names : tuple of str
        The names of the d columns of X.
    name : str
        The name of the data set.
    citation : str
        The paper or page to cite when you use the data.
    licence : str
        Under which terms the data are given.

    Examples
    --------
    >>> data = Dataset(np.eye(2), np.array([0, 1]), np.array(["a", "b"]), np.ones((1, 2)),
    ...                np.array([1]), np.array(["b"]), ("f", "g"), "toy", "made up", "none")
    >>> data
    Dataset(name='toy', licence='none')
    """

    X: Any = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    domains: NDArray[np.str_] = field(repr=False)
    X_test: Any = field(repr=False)
    y_test: NDArray[np.int64] = field(repr=False)
    domains_test: NDArray[np.str_] = field(repr=False)
    feature_names: tuple[str, ...] = field(repr=False)
    name: str
    citation: str = field(repr=False)
    licence: str


@dataclass(frozen=True)
class Domain:
    """A way to split the rows of a table into domains."""

    told_by: tuple[str, ...]  # columns that tell the domain; a loader leaves them out of X
    names: Callable[[Table], NDArray[np.str_]]  # the domain of each row


def by_column(column: str) -> Domain:
    """Every level of the column is a domain."""
    return Domain((column,), lambda table: table[column])


def by_columns(first: Domain, second: Domain) -> Domain:
    """Every pair of a domain of the first kind and one of the second, such as "Female, Black"."""
    told_by = (*first.told_by, *second.told_by)

    def names(table: Table) -> NDArray[np.str_]:
        pairs = zip(first.names(table), second.names(table), strict=True)
        return np.array([f"{a}, {b}" for a, b in pairs])

    return Domain(told_by, names)


def chosen_domain(domains: str, known: Mapping[str, Domain]) -> Domain:
    """The way to split of that name, or an InputError that says which there are."""
    if domains not in tuple(known):  # a tuple, because a dictionary cannot look for a list
        raise InputError("domains", f"is {domains!r}", f"use one of {quoted(list(known))}")
    return known[domains]


def chosen_columns(
    columns: Sequence[str], drop: Sequence[str] | None, domain: Domain, known: Sequence[str]
) -> tuple[str, ...]:
    """The columns that become features: not those in `drop`, or that tell the domain."""
    drop = domain.told_by if drop is None else (drop,) if isinstance(drop, str) else drop
    if unknown := [c for c in drop if c not in known]:
        raise InputError("drop", f"holds {unknown[0]!r}", f"the columns are {quoted(known)}")
    if not (keep := tuple(c for c in columns if c not in drop)):
        raise InputError("drop", "leaves no column", f"leave in at least one of {quoted(columns)}")
    return keep


def refuse_sparse_frame(sparse: bool, as_frame: bool) -> None:
    """Sparse matrices and frames cannot be had at once."""
    if sparse and as_frame:
        raise InputError("sparse", "and as_frame are both True", "ask for one of the two")


def every_fourth_row(table: Table) -> tuple[Table, Table]:
    """Training and test rows of a table that comes without a split: rows 4, 8, 12, ... are test.

    No random numbers: the same rows in every version of every library.
    """
    n = len(next(iter(table.values())))
    is_test = np.arange(n) % 4 == 3
    return {c: v[~is_test] for c, v in table.items()}, {c: v[is_test] for c, v in table.items()}


def assembled(
    origin: Origin,
    train: Table,
    test: Table,
    *,
    keep: Sequence[str],
    domain: Domain,
    target: Callable[[Table], NDArray[np.int64]],
    sparse: bool,
    as_frame: bool,
) -> Dataset:
    """The data set: features as asked for, labels and domains of training and test rows."""
    levels = levels_of(train, keep)
    if as_frame:
        X, X_test = _frame(train, keep), _frame(test, keep)
    else:
        X, X_test = one_hot(train, levels), one_hot(test, levels)
    if sparse:
        X, X_test = sp.csr_matrix(X), sp.csr_matrix(X_test)
    return Dataset(
        X=X,
        y=target(train),
        domains=domain.names(train),
        X_test=X_test,
        y_test=target(test),
        domains_test=domain.names(test),
        feature_names=tuple(keep) if as_frame else one_hot_names(levels),
        name=origin.name,
        citation=origin.citation,
        licence=origin.licence,
    )


def levels_of(table: Table, keep: Sequence[str]) -> dict[str, NDArray[Any] | None]:
    """The levels of each column of strings, None for a numeric one."""
    return {c: None if table[c].dtype.kind == "f" else np.unique(table[c]) for c in keep}


def one_hot(table: Table, levels: Levels) -> NDArray[np.float64]:  # (n, d)
    """X[i, c=v] = 1 if row i has level v in column c, else 0; numeric columns as they are."""
    columns = {c: table[c][:, None] for c in levels}  # (n, 1)
    blocks = [columns[c] if v is None else columns[c] == v for c, v in levels.items()]
    return np.hstack(blocks).astype(np.float64)


def one_hot_names(levels: Levels) -> tuple[str, ...]:
    """The names of the columns of `one_hot`: "age", "sex=Female", "sex=Male", ..."""
    names = ([c] if v is None else [f"{c}={level}" for level in v] for c, v in levels.items())
    return tuple(name for block in names for name in block)


def _frame(table: Table, keep: Sequence[str]) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("as_frame=True needs pandas; run: pip install pandas") from error
    return pd.DataFrame({c: table[c] for c in keep})
