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

import psutil

from anymix.errors import InputError

__all__ = [
    "RunFailedError",
    "failed",
    "family_of",
    "flower_env",
    "free_port",
    "plain",
    "running",
    "script",
    "wait_for_port",
]


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


def family_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """All that it has started, and they have started, in whatever sessions."""
    with suppress(psutil.NoSuchProcess):
        return list(psutil.Process(process.pid).children(recursive=True))
    return []


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, and then whoever it started; then make them."""
    family = family_of(process)
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(15)
    for end in (psutil.Process.terminate, psutil.Process.kill):
        for member in filter(_runs, family):
            with suppress(psutil.NoSuchProcess):
                end(member)
        deadline = time.monotonic() + 5
        while any(map(_runs, family)) and time.monotonic() < deadline:
            time.sleep(0.1)
    process.kill()
    process.wait()


def _runs(member: psutil.Process) -> bool:
    """Whether it still runs; one that has ended may stay in the table until somebody asks."""
    try:
        return bool(member.is_running() and member.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def script(name: str) -> str:
    """The path of a command that Flower installed beside this Python."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise InputError(str(path), "is missing", "install it with pip install 'anymix[flower]'")
    return str(path)


def wait_for_port(
    port: int, process: subprocess.Popen[bytes], log_file: Path, timeout: float = 120.0
) -> None:
    """Wait until somebody listens at the port; an error if the process ends or time runs out."""
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


class RunFailedError(ValueError):
    """A process of Flower's ended with an error; says what it wrote last."""


def failed(what: str, lines: Sequence[str]) -> RunFailedError:
    """An error with the line that tells the cause; its note has the lines around."""
    told = [line for line in lines if line.strip()]
    named = [line for line in told if re.match(r"[\w.]*(Error|Exception)\b", line)]
    error = RunFailedError(f"{what} failed: {[*told, *named][-1] if told else 'it wrote nothing'}")
    error.add_note("\n".join(told[-20:]))
    return error


def plain(line: str) -> str:
    """A line of Flower's log without its colours and without the word INFO at its start."""
    return re.sub(r"^INFO\s*:\s*", "", re.sub(r"\x1b\[\d*m", "", line)).rstrip()
