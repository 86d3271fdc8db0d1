"""Flower's own processes: started quiet and offline, stopped with all that they started."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGKILL, SIGTERM

__all__ = ["failed", "flower_env", "free_port", "plain", "running", "script", "wait_for_port"]


def flower_env(home: Path) -> dict[str, str]:
    """The environment in which Flower's commands stay quiet, offline and deterministic."""
    return {
        **os.environ,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",  # it would fetch what is here already
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OPENBLAS_NUM_THREADS": "1",  # threads change the rounding
        "OMP_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


@contextmanager
def running(
    command: Sequence[str], env: Mapping[str, str], log_file: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Flower's, in a session of its own, stopped at the end with all its children."""
    with log_file.open("wb") as output:
        process = subprocess.Popen(
            [script(command[0]), *command[1:]],
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us: we stop the others in order
        )
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, and whoever it started, in sessions of their own; then make them."""
    family = _descendants(process.pid)
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(15)
    for signal in (SIGTERM, SIGKILL):
        for pid in family & set(_parents()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal)
        end = time.monotonic() + 5
        while family & set(_parents()) and time.monotonic() < end:
            time.sleep(0.1)
    process.kill()
    process.wait()


def _descendants(pid: int) -> set[int]:
    parents, found = _parents(), {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def _parents() -> dict[int, int]:
    """The parent of every process that has not ended."""
    table = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, check=True)
    rows = [line.split() for line in table.stdout.decode().splitlines()]
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}


def script(name: str) -> str:
    """The path of a command that Flower installed beside this Python."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise ValueError(f"{path} is missing; install it with pip install 'anymix[flower]'")
    return str(path)


def wait_for_port(
    port: int, process: subprocess.Popen[bytes], log_file: Path, timeout: float = 120.0
) -> None:
    """Until somebody listens there."""
    end = time.monotonic() + timeout
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    lines = log_file.read_text(errors="replace").splitlines()
    raise failed(f"the SuperLink on port {port}", [plain(line) for line in lines])


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as connection:
        connection.bind(("127.0.0.1", 0))
        return int(connection.getsockname()[1])


def failed(what: str, lines: Sequence[str]) -> ValueError:
    """An error with the line that tells the cause; its note has the lines around."""
    told = [line for line in lines if line.strip()]
    named = [line for line in told if re.match(r"[\w.]*(Error|Exception)\b", line)]
    error = ValueError(f"{what} failed: {[*told, *named][-1] if told else 'it wrote nothing'}")
    error.add_note("\n".join(told[-20:]))
    return error


def plain(line: str) -> str:
    """Without colours and the name of the level."""
    return re.sub(r"^INFO\s*:\s*", "", re.sub(r"\x1b\[\d*m", "", line)).rstrip()
