"""A SuperLink of one's own, its SuperNodes, and Flower's command line turned to it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anymix.flower.apps import App
from anymix.flower.processes import (
    failed,
    flower_env,
    free_port,
    plain,
    running,
    script,
    wait_for_port,
)

Show = Callable[[str], None]

__all__ = ["Show", "Superlink", "start_node", "start_superlink"]


@dataclass(frozen=True)
class Superlink:
    """A SuperLink that runs, and Flower's command line turned to it.

    Attributes
    ----------
    address : str
        Its host and port.
    folder : Path
        The home of Flower, with the logs of all processes.
    env : dict
        The environment of Flower's commands.
    """

    address: str
    folder: Path
    env: dict[str, str]

    def run(self, arguments: Sequence[str], show: Show = lambda line: None) -> None:
        """Run the command `flwr` with these arguments, and show its lines as they come."""
        process = subprocess.Popen(
            [script("flwr"), *arguments],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines: list[str] = []
        with process:
            try:
                for line in process.stdout or []:
                    lines.append(plain(line))
                    show(lines[-1])
            except BaseException:
                process.terminate()
                raise
        if process.returncode != 0:
            raise failed(f"flwr {arguments[0]}", lines)

    def run_app(self, app: App, show: Show) -> None:
        """Start the app with `flwr run`, and wait until the run is over."""
        overrides = self.folder / "overrides.toml"
        overrides.write_text("".join(f"{k} = {_toml(v)}\n" for k, v in app.overrides.items()))
        lines: list[str] = []

        def keep(line: str) -> None:
            lines.append(line)
            show(line)

        self.run(["run", str(app.folder), "here", "--stream", "-c", str(overrides)], keep)
        if not Path(app.config["out"]).exists():
            raise failed(f"the run of {app.folder}", lines)


def start_superlink(processes: ExitStack, folder: Path, options: list[str]) -> Superlink:
    """A SuperLink on a free port, which stops with the other processes."""
    port = free_port()
    link = Superlink(f"127.0.0.1:{port}", folder, flower_env(folder))
    connection = f'address = "{link.address}"\ninsecure = true\n'
    (folder / "config.toml").write_text(
        '[superlink]\ndefault = "here"\n[superlink.here]\n' + connection
    )
    command = ["flower-superlink", "--insecure", "--disable-runtime-dependency-installation"]
    command += ["--host", "127.0.0.1", "--port", str(port), *options]
    log_file = folder / "superlink.log"
    process = processes.enter_context(running(command, link.env, log_file))
    wait_for_port(port, process, log_file)
    return link


def start_node(
    processes: ExitStack, link: Superlink, app: App, i: int, name: str
) -> subprocess.Popen[bytes]:
    """A SuperNode for client i, which stops with the other processes."""
    config = " ".join(f"{k}={v}" for k, v in app.node_config(i).items())
    command = ["flower-supernode", "--insecure", "--superlink", link.address]
    command += ["--host", "127.0.0.1", "--port", str(free_port()), "--node-config", config]
    return processes.enter_context(running(command, link.env, link.folder / f"{name}.log"))


def _toml(value: Any) -> str:
    return repr(value) if isinstance(value, float) else json.dumps(value)
