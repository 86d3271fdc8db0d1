"""`anymix federate`: run a Flower app on the engine of your choice."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from anymix.flower.attendance import MissingClientsError
from anymix.flower.running import federate, read_overrides

__all__ = ["app"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Engine(StrEnum):
    """Where the clients run."""

    LOCAL = "local"
    RAY = "ray"
    DEPLOYMENT = "deployment"


@app.command("federate")
def federate_command(
    folder: Annotated[
        Path, typer.Option("--app", help="Folder of the Flower app.", show_default=False)
    ],
    engine: Annotated[
        Engine, typer.Option(help="In this process, in Ray workers, or as real processes.")
    ] = Engine.LOCAL,
    run_config: Annotated[
        list[str] | None,
        typer.Option("--run-config", "-c", help="Overrides of the app's run config, as pairs."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """Run a Flower app over clients that keep their data; the numbers are the same on each engine.

    Example: anymix federate --app examples/federated_adult --engine ray -c 'num-clients=4'
    """
    overrides = read_overrides(run_config or [])
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=quiet,
    ) as bar:
        task = bar.add_task(f"{folder.name} on {engine}", total=None)

        def show(line: str) -> None:
            if line:
                bar.update(task, description=line[:100])

        try:
            result = federate(folder, engine.value, overrides, show=show)
        except MissingClientsError as error:
            raise ValueError(str(error)) from error  # a user's error: one line, no traceback
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    elif not quiet:
        _print(result)


def _print(result: dict[str, Any]) -> None:
    """What the app saved: the domains as a table, numbers and words as lines, no long vectors."""
    console = Console(highlight=False)
    names = result.get("domains", [])
    columns = [k for k, v in result.items() if k != "domains" and _fits(v, len(names))]
    if names and columns:
        table = Table("domain", *columns)
        for k, name in enumerate(names):
            table.add_row(name, *(f"{result[column][k]:.6f}" for column in columns))
        console.print(table)
    for key, value in result.items():
        if isinstance(value, int | float | str):
            console.print(f"{key}: {value}", markup=False)


def _fits(value: Any, p: int) -> bool:
    """Whether the value is one number a domain."""
    return isinstance(value, list) and len(value) == p and all(isinstance(v, float) for v in value)
