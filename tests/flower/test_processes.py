"""Processes are stopped with all that they started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from anymix.flower.processes import failed, flower_env, free_port, running, wait_for_port


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
        pytest.raises(ValueError, match=r"failed: .*unrecognized .*--ssl-port") as info,
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
