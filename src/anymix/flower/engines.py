"""Run a Flower app on the engine of your choice, with the same numbers on each.

    local        server and clients in this process, on a LocalGrid: the fastest to start
    ray          Flower's simulation, clients in Ray workers: for more rows than one process takes
    deployment   a SuperLink and a SuperNode for every client: real processes, talking over sockets

The app is a folder with a pyproject.toml, just as `flwr run` takes it. Two keys of its run config
are used here: `num-clients`, and `out`, the file to which the server app writes by `save_result`.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from threadpoolctl import threadpool_limits

from anymix.flower.local import LocalGrid
from anymix.flower.processes import (
    failed,
    flower_env,
    free_port,
    plain,
    running,
    script,
    wait_for_port,
)

Config = dict[str, Any]
Engine = Literal["local", "ray", "deployment"]
Show = Callable[[str], None]

__all__ = ["Engine", "federate", "read_overrides", "save_result", "show_log"]

log = logging.getLogger("anymix.flower")


def federate(
    app: str | Path,
    engine: Engine = "local",
    run_config: Mapping[str, Any] | None = None,
    *,
    show: Show = lambda line: None,
) -> Config:
    """Run the app in folder `app` and give what its server saved; nothing is left running.

    `run_config` overrides entries of the app's own; `show` is called with every line of its log.

    >>> federate("examples/federated_keyboard", "cluster")
    Traceback (most recent call last):
        ...
    ValueError: engine is 'cluster'; give 'local', 'ray' or 'deployment'
    """
    if engine not in get_args(Engine):
        raise ValueError(f"engine is {engine!r}; give 'local', 'ray' or 'deployment'")
    with tempfile.TemporaryDirectory(prefix="anymix-") as folder:
        out = Path(folder) / "result.json"
        job = _Job.read(Path(app), {"out": str(out), **(run_config or {})})
        {"local": _local, "ray": _ray, "deployment": _deployment}[engine](job, Path(folder), show)
        out = Path(job.config["out"])
        if not out.exists():
            raise ValueError(
                f"the app in {job.folder} saved no result; its server app ends with "
                "anymix.flower.engines.save_result(context, {...})"
            )
        result: Config = json.loads(out.read_text())
        return result


def save_result(context: Context, result: Mapping[str, Any]) -> None:
    """Write what a run found as JSON to the file that its run config names in `out`, if any.

    Infinite numbers and NaN, for which JSON has no word, become null.
    """
    out = context.run_config.get("out")
    if out:
        Path(str(out)).write_text(json.dumps(_finite(result), indent=2, allow_nan=False))
    numbers = {key: value for key, value in result.items() if not key.startswith("w")}
    log.info("result: %s", numbers)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show_log() -> None:
    """Let what this library logs appear in Flower's own log, round by round."""
    log.parent = logging.getLogger("flwr")
    log.setLevel(logging.INFO)


def read_overrides(texts: Sequence[str]) -> Config:
    """Run configs as `flwr run` takes them, pairs with TOML values.

    >>> read_overrides(['num-rounds=3 sampler="weighted"', "step-w=0.5"])
    {'num-rounds': 3, 'sampler': 'weighted', 'step-w': 0.5}
    """
    pair = r"""[\w-]+\s*=\s*("(\\.|[^"])*"|'[^']*'|\S+)"""
    lines = "\n".join(re.sub(pair, r"\g<0>\n", text) for text in texts)
    try:
        return tomllib.loads(lines)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(
            f"run-config is {' '.join(texts)!r} ({error}); give pairs such as "
            "'num-rounds=3 sampler=\"weighted\"'"
        ) from None


@dataclass(frozen=True)
class _Job:
    """An app and its run config."""

    folder: Path
    server: str  # package.module:object
    client: str
    config: Config
    overrides: Config

    @staticmethod
    def read(folder: Path, overrides: Config) -> _Job:
        file = folder / "pyproject.toml"
        if not file.is_file():
            raise ValueError(
                f"app is {str(folder)!r}, which has no pyproject.toml; give its folder"
            )
        try:
            about = tomllib.loads(file.read_text())["tool"]["flwr"]["app"]
            parts, config = about["components"], about["config"]
            server, client = parts["serverapp"], parts["clientapp"]
        except (KeyError, tomllib.TOMLDecodeError) as error:
            raise ValueError(f"{file} is not of a Flower app with a run config ({error})") from None
        for key in ("num-clients", "out"):
            if key not in config:
                raise ValueError(f"{file} has no {key!r} in [tool.flwr.app.config]; add it")
        for key, value in overrides.items():
            if key not in config:
                raise ValueError(f"run-config has {key!r}; this app knows {sorted(config)}")
            if not isinstance(value, type(config[key])) and not (
                isinstance(value, int) and isinstance(config[key], float)
            ):
                kind = type(config[key]).__name__
                raise ValueError(f"run-config has {key}={value!r}; this app expects a {kind}")
        return _Job(folder.resolve(), server, client, {**config, **overrides}, overrides)

    @property
    def n_clients(self) -> int:
        return int(self.config["num-clients"])

    def node_config(self, i: int) -> Config:
        """What Flower's simulation tells client i, so that all engines tell it."""
        return {"partition-id": i, "num-partitions": self.n_clients}


# -- in this process -------------------------------------------------------------------------------


def _local(job: _Job, folder: Path, show: Show) -> None:
    server, client = _load(job.folder, job.server), _load(job.folder, job.client)
    if not (isinstance(server, ServerApp) and isinstance(client, ClientApp)):
        raise ValueError(f"{job.server} and {job.client} are no ServerApp and ClientApp")
    nodes = [job.node_config(i) for i in range(job.n_clients)]
    grid = LocalGrid(client, nodes, run_config=job.config)
    context = Context(1, 0, {}, RecordDict(), dict(job.config))
    with _heard(show), threadpool_limits(1):  # as in the other engines: threads change the rounding
        server(grid, context)


def _load(folder: Path, reference: str) -> Any:
    """The object that "package.module:object" names, from this folder and no other."""
    module, _, name = reference.partition(":")
    package = module.partition(".")[0]
    if (folder / package).exists():
        for other in [m for m in sys.modules if m.partition(".")[0] == package]:
            if folder not in Path(getattr(sys.modules[other], "__file__", None) or "").parents:
                del sys.modules[other]
    sys.path.insert(0, str(folder))
    try:
        return getattr(importlib.import_module(module), name)
    finally:
        sys.path.remove(str(folder))


@contextmanager
def _heard(show: Show) -> Iterator[None]:
    """Give what the library logs to `show`, and to nobody else."""
    handler = logging.Handler()
    handler.emit = lambda record: show(record.getMessage())  # type: ignore[method-assign]
    before = log.level, log.propagate, log.parent
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate, log.parent = before[1:]  # the app may have called show_log


# -- in processes of Flower's own ------------------------------------------------------------------


def _ray(job: _Job, folder: Path, show: Show) -> None:
    with ExitStack() as processes:
        flower = _start_superlink(processes, folder, ["--simulation"])
        cpus = ["--client-resources-num-cpus", "1", "--init-args-num-cpus", str(os.cpu_count())]
        nodes = ["--num-supernodes", str(job.n_clients)]
        flower.run(["federation", "simulation-config", "@none/default", "here", *nodes, *cpus])
        flower.run_app(job, show)


def _deployment(job: _Job, folder: Path, show: Show) -> None:
    with ExitStack() as processes:
        flower = _start_superlink(processes, folder, [])
        for i in range(job.n_clients):
            start_node(processes, flower, job, i, f"supernode{i}")
        flower.run_app(job, show)


def start_node(
    processes: ExitStack, flower: _Flower, job: _Job, i: int, name: str
) -> subprocess.Popen[bytes]:
    """A SuperNode for client i, which stops with the other processes."""
    config = " ".join(f"{k}={v}" for k, v in job.node_config(i).items())
    command = ["flower-supernode", "--insecure", "--superlink", flower.address]
    command += ["--host", "127.0.0.1", "--port", str(free_port()), "--node-config", config]
    return processes.enter_context(running(command, flower.env, flower.folder / f"{name}.log"))


@dataclass(frozen=True)
class _Flower:
    """A SuperLink, and Flower's command line turned to it."""

    address: str
    folder: Path
    env: dict[str, str]

    def run(self, arguments: Sequence[str], show: Show = lambda line: None) -> None:
        """`flwr` with these arguments."""
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

    def run_app(self, job: _Job, show: Show) -> None:
        """`flwr run`, until the run is over."""
        overrides = self.folder / "overrides.toml"
        overrides.write_text("".join(f"{k} = {_toml(v)}\n" for k, v in job.overrides.items()))
        lines: list[str] = []

        def keep(line: str) -> None:
            lines.append(line)
            show(line)

        self.run(["run", str(job.folder), "here", "--stream", "-c", str(overrides)], keep)
        if not Path(job.config["out"]).exists():
            raise failed(f"the run of {job.folder}", lines)


def _start_superlink(processes: ExitStack, folder: Path, options: list[str]) -> _Flower:
    port = free_port()
    flower = _Flower(f"127.0.0.1:{port}", folder, flower_env(folder))
    connection = f'address = "{flower.address}"\ninsecure = true\n'
    (folder / "config.toml").write_text(
        '[superlink]\ndefault = "here"\n[superlink.here]\n' + connection
    )
    command = ["flower-superlink", "--insecure", "--disable-runtime-dependency-installation"]
    command += ["--host", "127.0.0.1", "--port", str(port), *options]
    log_file = folder / "superlink.log"
    process = processes.enter_context(running(command, flower.env, log_file))
    wait_for_port(port, process, log_file)
    return flower


def _toml(value: Any) -> str:
    return repr(value) if isinstance(value, float) else json.dumps(value)
