"""The folder that keeps the data sets' files: verified when read, written whole or not at all.

The folder is platformdirs' for caches, unless ANYMIX_DATA names another. Checking and writing are
ours, not pooch's: the checksums are of the unpacked bytes, whatever packed them; a cache that
cannot be written to must still give the data; and several processes may fill one cache at once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from anymix.datasets.origins import Origin
from anymix.files import write_whole

__all__ = ["cached", "folder_of", "genuine", "keep", "make_folder"]

STALE = 3600.0  # seconds after which a half-written file must be of a killed process


def folder_of(origin: Origin) -> Path:
    """The folder of a data set's files, there or not yet."""
    return _cache_folder() / origin.name


def _cache_folder() -> Path:
    if chosen := os.environ.get("ANYMIX_DATA"):
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("anymix", appauthor=False, opinion=False)


def cached(origin: Origin) -> tuple[dict[str, bytes], list[str]]:
    """The genuine files of a data set in the cache, and what is wrong with the others.

    Parameters
    ----------
    origin : Origin
        The data set.

    Returns
    -------
    found : dict of str to bytes
        The files whose checksums are right.
    faults : list of str
        For every other file, its path and what is wrong.
    """
    found, faults, folder = {}, [], folder_of(origin)
    for file, expected in origin.sums.items():
        try:
            found[file] = genuine(file, (folder / file).read_bytes(), expected)
        except OSError as error:
            faults.append(f"{folder / file}: {error.strerror or error}")
    return found, faults


def genuine(file: str, data: bytes, expected: str) -> bytes:
    """The data itself if its sha256 is the expected one, otherwise an OSError.

    Examples
    --------
    >>> genuine("a.txt", b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    b''
    """
    if (actual := hashlib.sha256(data).hexdigest()) != expected:
        raise OSError(f"{file} is damaged or another file: sha256 {actual}, not {expected}")
    return data


def make_folder(folder: Path) -> None:
    """Make the folder, or say in an OSError which variable names another."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def keep(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files, each whole or not at all, and remove what killed processes left behind.

    Parameters
    ----------
    folder : Path
        Where to write; made if there is something to write.
    files : mapping of str to bytes
        The contents of the files, by their names.
    """
    for file, data in files.items():
        make_folder(folder)
        try:
            write_whole(folder / file, partial(Path.write_bytes, data=data))
        except OSError as error:
            raise _unwritable(folder, error) from error
    _sweep(folder)


def _unwritable(folder: Path, error: OSError) -> OSError:
    return OSError(
        f"cannot keep data in {folder} ({error.strerror}); "
        "set ANYMIX_DATA to a folder that you can write to"
    )


def _sweep(folder: Path) -> None:
    """Remove the folders in which `write_whole` was killed; those of others at work are young."""
    for place in folder.glob(".anymix-*"):
        try:
            old = time.time() - place.stat().st_mtime > STALE
        except OSError:  # another process has just finished with it
            continue
        if old:
            shutil.rmtree(place, ignore_errors=True)
