"""Online News Popularity: is an article shared 1,400 times or more? 39,644 articles of a site."""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anymix.datasets.dataset import Dataset
from anymix.datasets.origins import Origin
from anymix.datasets.sources import read_files
from anymix.errors import InputError

Array = NDArray[np.float64]

__all__ = ["NEWS", "load_news"]

_ZIP, _INSIDE = "OnlineNewsPopularity.zip", "OnlineNewsPopularity/OnlineNewsPopularity.csv"
POPULAR = 1400  # shares
_CHANNEL = "data_channel_is_"
_DOMAINS = {  # by the column that marks them; the two smallest channels are one domain
    "lifestyle": "lifestyle or social media",
    "entertainment": "entertainment",
    "bus": "business",
    "socmed": "lifestyle or social media",
    "tech": "technology",
    "world": "world",
}
_UNUSED = ("url", "timedelta")  # not known when the article is published
_TARGET = "shares"


def _no_package(files: Sequence[str], scratch: Path, allow_apt: bool) -> dict[str, bytes]:
    raise OSError("no package holds it")


NEWS = Origin(
    name="news",
    citation="K. Fernandes, P. Vinagre and P. Cortez. A proactive intelligent decision support "
    "system for predicting the popularity of online news. EPIA 2015. UCI Machine Learning "
    "Repository, doi:10.24432/C5NS3V.",
    licence="CC BY 4.0",
    sums={_ZIP: "dba2ae526f62ccef6f2f8efb53b0268319f4d0d2719bb98d88958cfe31d58a22"},
    address="https://archive.ics.uci.edu/ml/machine-learning-databases/00332/",
    packing="",
    package="",
    from_package=_no_package,
)


def load_news(
    file: str | os.PathLike[str] | None = None, *, seed: int = 0, progress: bool = True
) -> Dataset:
    """Online News Popularity: is an article shared 1,400 times or more? 39,644 articles.

    The six channel columns are no features: they are the domain. Lifestyle and social media, the
    two smallest, are one domain, and articles of no channel are "other". `url` and `timedelta`,
    which tell nothing about an article, are not read. The features are as they are; scale them.

    Parameters
    ----------
    file : path-like, optional
        OnlineNewsPopularity.csv or the zip file with it, if you have it; checked by its columns.
        None takes it from the cache or from its address at UCI; no package registry holds it.
    seed : int
        Which fifth of the articles is for the test: the last one of this permutation.
    progress : bool
        Show a progress bar on a terminal while fetching.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> load_news("articles.txt")
    Traceback (most recent call last):
        ...
    anymix.errors.InputError: file is 'articles.txt', which cannot be read (...); ...
    """
    data = read_files(NEWS, progress=progress)[_ZIP] if file is None else _own(file)
    names, values = _table(_unpacked(data), "file" if file is not None else _ZIP)
    marks = [_CHANNEL + column for column in _DOMAINS]
    features = [n for n in names if n not in (*marks, *_UNUSED, _TARGET)]
    X = values[:, [names.index(n) for n in features]]
    y = (values[:, names.index(_TARGET)] >= POPULAR).astype(np.int64)
    domains = _domains(values[:, [names.index(n) for n in marks]])
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [len(y) - len(y) // 5])
    return Dataset(
        X=X[train],
        y=y[train],
        domains=domains[train],
        X_test=X[test],
        y_test=y[test],
        domains_test=domains[test],
        feature_names=tuple(features),
        name=NEWS.name,
        citation=NEWS.citation,
        licence=NEWS.licence,
    )


def _own(file: str | os.PathLike[str]) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        found = f"is {os.fspath(file)!r}, which cannot be read ({error.strerror})"
        raise InputError(
            "file", found, f"give the path of OnlineNewsPopularity.csv or {_ZIP}"
        ) from None


def _unpacked(data: bytes) -> bytes:
    """The CSV file itself; a zip file is looked into."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        inside = [name for name in archive.namelist() if name.endswith(Path(_INSIDE).name)]
        if not inside:
            raise InputError("file", "is a zip file of something else", f"it should hold {_INSIDE}")
        return archive.read(inside[0])


def _table(data: bytes, argument: str) -> tuple[list[str], Array]:
    """Names and numbers (n, columns), `url` left out."""
    reader = csv.reader(io.StringIO(data.decode("utf-8", errors="replace"), newline=""))
    names = [name.strip() for name in next(reader, [])]
    needed = (*_UNUSED, *(_CHANNEL + column for column in _DOMAINS), _TARGET)
    if missing := [name for name in needed if name not in names]:
        found = f"has no column {missing[0]!r}"
        raise InputError(argument, found, "give OnlineNewsPopularity.csv as UCI has it")
    try:
        rows = [[float(entry) for entry in row[1:]] for row in reader if row]
        values = np.array(rows, dtype=np.float64).reshape(len(rows), len(names) - 1)
    except ValueError as error:
        raise InputError(argument, f"has a bad row ({error})", "give it as UCI has it") from None
    if not len(values) or not np.isfinite(values).all():
        found = "has no rows" if not len(values) else "has an entry that is not finite"
        raise InputError(argument, found, "give it as UCI has it")
    return names[1:], values


def _domains(marks: Array) -> NDArray[np.str_]:
    """The domain of each article by its marks (n, 6); the first one counts."""
    titles = np.array([*_DOMAINS.values(), "other"])
    place = np.where(marks.any(axis=1), marks.argmax(axis=1), len(_DOMAINS))
    found: NDArray[np.str_] = titles[place]
    return found
