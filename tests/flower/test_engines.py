from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from anymix.flower.engines import federate

THREE_WAYS = Path(__file__).parent / "three_ways"


def copy_app(folder: Path, *changes: tuple[str, str, str]) -> Path:
    """The app with some text replaced, (file, old, new)."""
    modules = [f"three_ways/{name}.py" for name in ("__init__", "client_app", "server_app")]
    for file in ("pyproject.toml", *modules):
        text = (THREE_WAYS / file).read_text()
        for where, old, new in changes:
            if where == file:
                assert old in text
                text = text.replace(old, new)
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    return folder


def test_local_engine_runs_the_app_and_shows_its_log() -> None:
    lines: list[str] = []
    result = federate(THREE_WAYS, "local", show=lines.append)
    assert result["gap"] <= 1e-6
    assert len(result["w"]) == 5
    for name in ("per-domain", "weighted"):
        assert sum(result[name]["mixture"]) == pytest.approx(1.0)
        assert len(result[name]["w"]) == 5
    assert result["per-domain"]["w"] != result["weighted"]["w"]
    assert [line for line in lines if line.startswith("round 1: 2 answers")]
    assert lines[-1].startswith("result: ")


def test_runs_do_not_see_each_other() -> None:
    first = federate(THREE_WAYS)
    more = federate(THREE_WAYS, "local", {"num-clients": 3})
    assert federate(THREE_WAYS) == first
    assert more["w"] != first["w"]
    log = logging.getLogger("anymix.flower")
    assert (log.handlers, log.level, log.propagate) == ([], logging.NOTSET, True)
    assert log.parent is logging.getLogger()


def test_apps_of_the_same_name_in_two_folders(tmp_path: Path) -> None:
    other = copy_app(tmp_path, ("three_ways/client_app.py", "rng(client)", "rng(client + 7)"))
    first = federate(THREE_WAYS)
    assert federate(other) != first
    assert federate(THREE_WAYS) == first
    assert str(other) not in sys.path


def test_result_goes_to_the_file_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "my result.json"
    result = federate(THREE_WAYS, run_config={"out": str(out)})
    assert json.loads(out.read_text()) == result


def test_a_servers_exception_is_the_callers() -> None:
    with pytest.raises(ValueError, match="model is on strike"):
        federate(THREE_WAYS, run_config={"fail": "server"})


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"num-rounds": 3},
            "has 'num-rounds'.*'fail', 'num-clients', 'out'",
        ),
        ({"num-clients": "two"}, "num-clients='two'"),
        ({"num-clients": 2.5}, r"num-clients=2\.5"),
    ],
)
def test_a_run_config_that_the_app_does_not_know(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        federate(THREE_WAYS, run_config=config)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("pyproject.toml", "[tool.flwr.app.components]", "[x]"), "not of a Flower app"),
        (("pyproject.toml", "num-clients", "clients"), "has no 'num-clients'"),
        (("pyproject.toml", "server_app:app", "server_app:main"), "no ServerApp and ClientApp"),
        (("three_ways/server_app.py", "save_result(context, result)", "pass"), "saved no result"),
    ],
)
def test_a_folder_that_is_no_such_app(
    tmp_path: Path, change: tuple[str, str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        federate(copy_app(tmp_path, change))


def test_a_folder_without_an_app(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no pyproject\.toml"):
        federate(tmp_path)
