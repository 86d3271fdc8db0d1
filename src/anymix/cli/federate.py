"""`anymix federate`: a Flower app over clients that keep their data."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from anymix.cli.options import Json, Names, Quiet, in_options
from anymix.cli.output import print_json, steps
from anymix.errors import InputError

__all__ = ["run_federation"]

OPTIONS: Names = {
    "app": ("--app", None),
    "engine": ("--engine", None),
    "run-config": ("--run-config", None),
}


class Where(StrEnum):
    """Where the clients run."""

    LOCAL = "local"
    RAY = "ray"
    DEPLOYMENT = "deployment"


Folder = Annotated[
    Path, typer.Option("--app", help="Folder of the Flower app.", show_default=False)
]
Engine = Annotated[Where, typer.Option(help="In this process, in Ray, or as real processes.")]
RunConfig = Annotated[
    list[str] | None,
    typer.Option("--run-config", "-c", help="Overrides of the app's run config, as pairs."),
]


def run_federation(
    folder: Folder,
    engine: Engine = Where.LOCAL,
    run_config: RunConfig = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a Flower app over clients that keep their data; the numbers are the same on each engine.

    Examples:

    - anymix federate --app examples/federated_keyboard

    - anymix federate --app examples/federated_adult --engine ray -c 'num-clients=4' --json
    """
    try:
        from anymix.flower import MissingClientsError
        from anymix.flower.engines import federate, read_overrides
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("anymix"):  # a fault of ours, not a missing package
            raise
        raise InputError("federate", "needs Flower", "pip install 'anymix[flower]'") from None
    shown = not (quiet or as_json)
    with steps(shown) as step, in_options(OPTIONS):
        step(f"{folder.name} on {engine}")
        try:
            result = federate(
                folder,
                engine.value,
                read_overrides(run_config or []),
                show=lambda line: step(line[:100]) if line else None,
            )
        except MissingClientsError as error:
            raise ConnectionError(str(error)) from error  # one line, no traceback
    if as_json:
        print_json(result)
    if shown:
        _print_run(result)


def _print_run(result: dict[str, Any]) -> None:
    """What the app saved: the domains as a table, numbers and words as lines, no long vectors."""
    console = Console(highlight=False)
    names = result.get("domains", [])
    columns = {k: v for k, v in result.items() if k != "domains" and _one_each(v, len(names))}
    if columns:
        table = Table("domain", *columns)
        for name, *values in zip(names, *columns.values(), strict=True):
            table.add_row(Text(str(name)), *(f"{value:.6f}" for value in values))
        console.print(table)
    for key, value in result.items():
        if isinstance(value, int | float | str):
            console.print(f"{key}: {value}", markup=False)


def _one_each(value: Any, p: int) -> bool:
    """Whether the value is one number for each of p domains."""
    numbers = isinstance(value, list) and all(isinstance(v, float) for v in value)
    return numbers and len(value) == p > 0
