"""`anymix data`: which data sets there are, where, and how they are fetched."""

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import fail, run

from anymix import datasets
from anymix.cli import main
from anymix.datasets.catalogue import ORIGINS
from anymix.datasets.fashion import FASHION


def test_data_that_cannot_be_had_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ANYMIX_DATA", str(tmp_path / "file"))  # no folder can be made there
    monkeypatch.setattr(sys, "argv", ["anymix", "data", "fetch", "adult"])
    with pytest.raises(SystemExit, match="1"):
        main()
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "Traceback" not in error


def test_unknown_data_set_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["anymix", "data", "path", "atlantis"])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().err == (
        "error: name is 'atlantis'; the data sets are 'adult', 'compas', 'fashion', 'german'\n"
    )


def test_list_and_path_follow_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = datasets.fetch("adult", progress=False)
    assert run("data", "path", "adult") == f"{here}\n"
    assert json.loads(run("data", "list", "--json"))["adult"] == {
        "fetched": True,
        "path": str(here),
    }
    monkeypatch.setenv("ANYMIX_DATA", str(tmp_path))
    assert run("data", "path", "adult") == f"{tmp_path / 'adult'}\n"
    listed = [line.split() for line in run("data", "list").splitlines()]
    assert listed == [[n, "not", "fetched", str(tmp_path / n)] for n in datasets.available()]
    assert not (tmp_path / "adult").exists()  # looking makes no folders


def test_fetch_says_where_it_put_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(datasets.fetch("adult", progress=False), tmp_path / "adult")
    monkeypatch.setenv("ANYMIX_DATA", str(tmp_path))
    assert run("data", "fetch", "adult") == f"adult: {tmp_path / 'adult'}\n"
    assert run("data", "fetch", "adult", "--quiet") == ""


@pytest.fixture
def apt_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The address of Fashion-MNIST refuses; a file is there as soon as apt-get is run."""
    called = tmp_path / "called"
    (tmp_path / "apt-get").write_text(f"#!/bin/sh\ntouch {called}\nexit 1\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("ANYMIX_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("ANYMIX_ALLOW_APT", raising=False)
    monkeypatch.setitem(ORIGINS, "fashion", replace(FASHION, address="http://127.0.0.1:9/"))
    return called


def test_apt_get_is_run_only_if_allowed(
    apt_calls: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = fail(monkeypatch, capsys, "data", "fetch", "fashion")
    assert code == 1
    assert error.count("\n") == 1
    assert error.endswith("run: anymix data fetch fashion --allow-apt\n")
    assert not apt_calls.exists()
    code, error = fail(monkeypatch, capsys, "data", "fetch", "fashion", "--allow-apt")
    assert code == 1
    assert "(apt-get download): exit code 1" in error
    assert apt_calls.exists()
