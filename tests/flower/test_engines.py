from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict

from anymix.flower.engines import federate, read_overrides, save_result
from anymix.flower.processes import failed, flower_env, free_port, running, wait_for_port

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


def test_results_are_json_for_any_reader(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    found = {"w": [0.1, float("nan")], "deep": {"x": (float("inf"), 1)}, "n": 3}
    save_result(Context(1, 0, {}, RecordDict(), {"out": str(out)}), found)
    expected = {"w": [0.1, None], "deep": {"x": [None, 1]}, "n": 3}
    assert json.loads(out.read_text(), parse_constant=pytest.fail) == expected


def test_save_result_without_a_file() -> None:
    save_result(Context(1, 0, {}, RecordDict(), {"out": ""}), {"w": [1.0]})


def test_a_servers_exception_is_the_callers() -> None:
    with pytest.raises(ValueError, match="the model is on strike"):
        federate(THREE_WAYS, run_config={"fail": "server"})


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"num-rounds": 3},
            r"has 'num-rounds'; this app knows \['fail', 'num-clients', 'out', 'timeout'\]",
        ),
        ({"num-clients": "two"}, "num-clients='two'; this app expects a int"),
        ({"num-clients": 2.5}, r"num-clients=2\.5; this app expects a int"),
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


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["a=1"], {"a": 1}),
        (["a=1 b=2.5", 'c-d = "x y=z"'], {"a": 1, "b": 2.5, "c-d": "x y=z"}),
        (
            ['out="/tmp/some folder/x.json"  on=true'],
            {"out": "/tmp/some folder/x.json", "on": True},
        ),
        ([], {}),
    ],
)
def test_overrides_are_toml_pairs(texts: list[str], values: dict[str, Any]) -> None:
    assert read_overrides(texts) == values


@pytest.mark.parametrize("text", ["a", "a=", "=1", "a=1 a=2", "a=x"])
def test_overrides_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="run-config is"):
        read_overrides([text])


def test_a_process_is_gone_after_its_block(tmp_path: Path) -> None:
    python = Path(sys.executable).name
    sleep = [python, "-c", "import time; time.sleep(100)"]
    with suppress(KeyboardInterrupt), running(sleep, os.environ, tmp_path / "log") as process:
        assert process.poll() is None
        raise KeyboardInterrupt
    assert process.returncode is not None


def test_children_in_sessions_of_their_own_are_stopped_too(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1); time.sleep(100)"
    parent = f"""import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-uc", {stubborn!r}], start_new_session=True,
                         stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(100)"""
    log = tmp_path / "log"
    with running([Path(sys.executable).name, "-c", parent], os.environ, log):
        while not log.read_text().endswith("\n"):
            time.sleep(0.05)
        child = int(log.read_text())
        os.kill(child, 0)
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(child)], capture_output=True).stdout
    assert state.strip()[:1] in (b"", b"Z")


def test_a_command_that_is_not_installed(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="install it with pip"),
        running(["flower-no-such"], os.environ, tmp_path / "log"),
    ):
        pass


def test_a_superlink_that_does_not_start_says_why(tmp_path: Path) -> None:
    log, port = tmp_path / "log", free_port()
    command = ["flower-superlink", "--insecure", "--ssl-port", str(port)]
    with (
        running(command, flower_env(tmp_path), log) as process,
        pytest.raises(ValueError, match=r"failed: .*unrecognized arguments: --ssl-port") as info,
    ):
        wait_for_port(port, process, log)
    assert "usage: flower-superlink" in info.value.__notes__[0]


def test_the_cause_of_a_failed_run_is_told() -> None:
    lines = ["round 1", "Traceback:", "ValueError: too few", "  ^^^", "", "the end", ""]
    error = failed("the run", lines)
    assert str(error) == "the run failed: ValueError: too few"
    assert error.__notes__ == ["round 1\nTraceback:\nValueError: too few\n  ^^^\nthe end"]
    assert str(failed("flwr run", ["no app", ""])) == "flwr run failed: no app"
    assert str(failed("flwr run", [])) == "flwr run failed: it wrote nothing"


def test_free_ports_differ() -> None:
    assert len({free_port() for _ in range(5)}) > 1
