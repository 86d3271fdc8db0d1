"""Run a Flower app on the engine of your choice, with the same numbers on each.

    local        server and clients in this process, on a LocalGrid: the fastest to start
    ray          Flower's simulation, clients in Ray workers: for more rows than one process takes
    deployment   a SuperLink and a SuperNode for every client: real processes, talking over sockets

The app is a folder with a pyproject.toml, just as `flwr run` takes it. Two keys of its run config
are used here: `num-clients`, and `out`, the file to which the server app writes by `save_result`.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from threadpoolctl import threadpool_limits

from anymix.errors import InputError
from anymix.flower.apps import App, Config, read_overrides, save_result, show_log
from anymix.flower.local import LocalGrid
from anymix.flower.superlink import Show, start_node, start_superlink

Engine = Literal["local", "ray", "deployment"]
"""Where clients run: in this process, in Ray, or as processes of their own."""

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

    Parameters
    ----------
    app : path-like
        The folder of a Flower app, with its pyproject.toml.
    engine : {"local", "ray", "deployment"}
        Where the clients run: in this process, in Ray, or as real processes.
    run_config : dict, optional
        Overrides entries of the app's own run config.
    show : function
        Called with every line of its log.

    Returns
    -------
    dict
        What the server app passed to `save_result`.

    Examples
    --------
    >>> federate("examples/federated_keyboard", "cluster")
    Traceback (most recent call last):
        ...
    anymix.errors.InputError: engine is 'cluster'; give 'local', 'ray' or 'deployment'
    """
    if engine not in get_args(Engine):
        raise InputError("engine", f"is {engine!r}", "give 'local', 'ray' or 'deployment'")
    with tempfile.TemporaryDirectory(prefix="anymix-") as folder:
        out = Path(folder) / "result.json"
        job = App.read(Path(app), {"out": str(out), **(run_config or {})})
        {"local": _local, "ray": _ray, "deployment": _deployment}[engine](job, Path(folder), show)
        out = Path(job.config["out"])
        if not out.exists():
            raise InputError(
                f"the app in {job.folder}",
                "saved no result",
                "its server app ends with anymix.flower.engines.save_result(context, {...})",
            )
        result: Config = json.loads(out.read_text())
        return result


# -- in this process -------------------------------------------------------------------------------


def _local(job: App, folder: Path, show: Show) -> None:
    server, client = job.load(job.server), job.load(job.client)
    if not (isinstance(server, ServerApp) and isinstance(client, ClientApp)):
        raise InputError(
            f"{job.server} and {job.client}",
            "are no ServerApp and ClientApp",
            f"name them in {job.folder / 'pyproject.toml'}",
        )
    nodes = [job.node_config(i) for i in range(job.n_clients)]
    grid = LocalGrid(client, nodes, run_config=job.config)
    context = Context(1, 0, {}, RecordDict(), dict(job.config))
    with _heard(show), threadpool_limits(1):  # as in the other engines: threads change the rounding
        server(grid, context)


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


def _ray(job: App, folder: Path, show: Show) -> None:
    with ExitStack() as processes:
        flower = start_superlink(processes, folder, ["--simulation"])
        cpus = ["--client-resources-num-cpus", "1", "--init-args-num-cpus", str(os.cpu_count())]
        nodes = ["--num-supernodes", str(job.n_clients)]
        flower.run(["federation", "simulation-config", "@none/default", "here", *nodes, *cpus])
        flower.run_app(job, show)


def _deployment(job: App, folder: Path, show: Show) -> None:
    with ExitStack() as processes:
        flower = start_superlink(processes, folder, [])
        for i in range(job.n_clients):
            start_node(processes, flower, job, i, f"supernode{i}")
        flower.run_app(job, show)
