"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["write_whole"]

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)  # a disk that is full, a share of it that is used up


def write_whole(
    path: str | os.PathLike[str], write: Callable[[Path], object], *, durable: bool = False
) -> Path:
    """Let `write` make a file beside the path, then put it there in one step.

    Whoever opens the path sees the old file or the whole new one, also when this process is
    killed. Links are followed, the permissions of an old file are kept, missing folders are made.
    Where there is no room left, the error names the path.

    Parameters
    ----------
    path : path-like
        The file to write.
    write : function
        Called with the path of a new, empty place to write to; that file has the same name.
    durable : bool
        Also wait until the file is on the disk, so that a power cut loses neither old nor new.

    Returns
    -------
    Path
        The path given.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_whole(Path(folder) / "a" / "b.txt", lambda new: new.write_text("hello"))
    ...     path.read_text()
    'hello'
    """
    path = Path(path)
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".anymix-", dir=target.parent) as folder:
        new = Path(folder) / path.name
        try:
            write(new)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        if target.exists():
            shutil.copymode(target, new)
        if durable:
            _flush(new)
        os.replace(new, target)
    if durable:
        _flush(target.parent)  # the renaming itself
    return path


def _flush(path: Path) -> None:
    """Wait until the file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
