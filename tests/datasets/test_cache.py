"""The cache: where it is, and what happens to damaged files, full disks and killed processes."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs
import platformdirs.macos
import platformdirs.unix
import platformdirs.windows
import pytest
from data_server import READ, Server, at, files_in, sha256

from anymix import datasets
from anymix.datasets.adult import ADULT
from anymix.datasets.fashion import FASHION
from anymix.datasets.fetching import _keep, read_files


@pytest.mark.parametrize("call", [datasets.path, datasets.fetch, datasets.fetched])
def test_unknown_name(folder: Path, call: Any) -> None:
    with pytest.raises(ValueError, match="'atlantis'"):
        call("atlantis")


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        (None, {"ANYMIX_DATA": "~/here"}, "/home/me/here"),
        (platformdirs.unix.Unix, {"XDG_CACHE_HOME": "/caches"}, "/caches/anymix"),
        (platformdirs.unix.Unix, {"XDG_CACHE_HOME": ""}, "/home/me/.cache/anymix"),
        (platformdirs.macos.MacOS, {}, "/home/me/Library/Caches/anymix"),
        (platformdirs.windows.Windows, {}, "/local/anymix/anymix/Cache"),
    ],
)
def test_cache_folder(
    monkeypatch: pytest.MonkeyPatch, platform: Any, variables: dict[str, str], expected: str
) -> None:
    for name in ("ANYMIX_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (variables | {"HOME": "/home/me"}).items():
        monkeypatch.setenv(name, value)
    if platform is not None:
        monkeypatch.setattr(platformdirs, "PlatformDirs", platform)
    there = {"CSIDL_LOCAL_APPDATA": "/local"}  # what Windows itself would say
    monkeypatch.setattr(platformdirs.windows, "get_win_folder", there.get)
    assert datasets.path("adult") == Path(expected) / "adult"


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "folder"])
def test_damaged_cache_is_fetched_anew(
    server: Server, folder: Path, adult: dict[str, bytes], damage: str
) -> None:
    origin = at(server, adult)
    read_files(origin, progress=False)
    damaged = folder / "adult" / "adult.test"
    good = adult["adult.test"]
    bad = {
        "flip": good[:1000] + bytes([good[1000] ^ 1]) + good[1001:],
        "truncate": good[:-1],
        "empty": b"",
    }
    damaged.unlink()
    if damage == "folder":
        damaged.mkdir()
        with pytest.warns(UserWarning, match="cannot keep data in"):
            assert read_files(origin, progress=False) == adult
        return
    damaged.write_bytes(bad[damage])
    assert not datasets.fetched("adult")
    server.requested.clear()
    assert read_files(origin, progress=False) == adult
    assert server.requested == ["/adult.test"]  # only what was damaged
    assert damaged.read_bytes() == good


def test_files_are_readable_as_the_umask_says(
    server: Server, folder: Path, adult: dict[str, bytes]
) -> None:
    before = os.umask(0o022)
    try:
        read_files(at(server, adult), progress=False)
    finally:
        os.umask(before)
    assert (folder / "adult" / "adult.data").stat().st_mode & 0o777 == 0o644


# A cache that cannot be written to -------------------------------------------------------------


def test_file_in_the_place_of_the_cache(
    server: Server, folder: Path, adult: dict[str, bytes]
) -> None:
    folder.write_text("not a folder")
    with pytest.warns(UserWarning, match=f"cannot keep data in {folder}.*ANYMIX_DATA"):
        assert read_files(at(server, adult), progress=False) == adult
    assert folder.read_text() == "not a folder"
    with pytest.raises(OSError, match=r"cannot keep data .*ANYMIX_DATA"):
        datasets.fetch("adult")


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache that this process may read and not write; root may write anywhere, so be nobody."""
    base = Path(tempfile.mkdtemp())
    (base / "adult").mkdir()
    base.chmod(0o555)
    (base / "adult").chmod(0o555)
    monkeypatch.setenv("ANYMIX_DATA", str(base))
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield base
    os.seteuid(user)
    base.chmod(0o755)
    (base / "adult").chmod(0o755)
    shutil.rmtree(base)


def test_read_only_cache(server: Server, read_only: Path, adult: dict[str, bytes]) -> None:
    origin = at(server, adult)
    for _ in range(2):
        with pytest.warns(UserWarning, match=f"{read_only}.*Permission denied.*ANYMIX_DATA"):
            assert read_files(origin, progress=False) == adult
    assert len(server.requested) == 4
    assert files_in(read_only) == set()


def test_full_disk(folder: Path, adult: dict[str, bytes], server: Server) -> None:
    """A limit on the size of a file fails in the middle of a write, as a full disk does."""
    server.files = dict(adult)
    limited = (
        "import resource, signal, warnings; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited + READ, "adult", server.address],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"cannot keep data in {folder / 'adult'} (File too large)" in done.stderr
    assert files_in(folder) == set()


# Several processes, and killed ones ------------------------------------------------------------


def test_processes_at_once(server: Server, folder: Path, adult: dict[str, bytes]) -> None:
    """All of them fetch (the server answers none before all have asked), none sees half a file."""
    server.files = dict(adult)
    server.stall_at = 1000
    command = [sys.executable, "-c", READ, "adult", server.address]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    while len(server.requested) < 4 and all(p.poll() is None for p in processes):
        time.sleep(0.01)
    server.stall_at = None
    server.released.set()
    seen, running = set(), True
    while running:
        running = any(p.poll() is None for p in processes)
        for file in adult:  # once more after all have ended, so something is seen for certain
            if (path := folder / "adult" / file).exists():
                seen.add(sha256(path.read_bytes()))
    assert [p.communicate()[1] for p in processes] == [""] * 4
    assert [p.returncode for p in processes] == [0] * 4
    assert seen == set(ADULT.sums.values())
    assert files_in(folder) == {"adult/adult.data", "adult/adult.test"}
    assert datasets.fetched("adult")


def test_writers_at_once(folder: Path, adult: dict[str, bytes]) -> None:
    """Each has a part file of its own, so none takes away another's."""
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(_keep, ADULT, adult) for _ in range(40)]:
            done.result()
    assert files_in(folder / "adult") == set(adult)
    assert {file: (folder / "adult" / file).read_bytes() for file in adult} == adult


def test_killed_while_downloading(server: Server, folder: Path, adult: dict[str, bytes]) -> None:
    server.files = dict(adult)
    server.stall_at = 1_000_000
    with subprocess.Popen([sys.executable, "-c", READ, "adult", server.address]) as process:
        while not server.requested and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.1)  # some of the bytes are there
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not folder.exists()
    server.stall_at = None
    assert read_files(at(server, adult), progress=False) == adult


def test_killed_while_writing(server: Server, folder: Path, cache_files: dict[str, bytes]) -> None:
    """Killed by the system in the middle of a file, at its first byte beyond a megabyte."""
    server.files = cache_files
    limited = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL);"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0));"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
    )
    process = subprocess.run([sys.executable, "-c", limited + READ, "fashion", server.address])
    assert process.returncode == -signal.SIGXFSZ
    assert any(folder.rglob("*-*"))  # the part that was written
    for file in (folder / "fashion").glob("[!.]*"):
        assert sha256(file.read_bytes()) == FASHION.sums[file.name]
    origin = replace(FASHION, address=server.address, packing="")
    assert read_files(origin, progress=False) == cache_files
    assert datasets.fetched("fashion")
