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
    Path, typer.Option("--app", help="The folder of the Flower app to run.", show_default=False)
]
Engine = Annotated[
    Where,
    typer.Option(
        help="Where the clients run: all in this process (local), in Ray's simulation (ray), or "
        "each as a process of its own (deployment)."
    ),
]
RunConfig = Annotated[
    list[str] | None,
    typer.Option(
        "--run-config",
        "-c",
        help="Settings that differ from the app's own, as pairs such as 'num-clients=4'. Can be "
        "given several times.",
    ),
]


def run_federation(
    folder: Folder,
    engine: Engine = Where.LOCAL,
    run_config: RunConfig = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train one model with clients that keep their rows, by a Flower app.

    Every engine gives the same numbers, so you can try an app in this process first. What the app
    found is printed at the end.

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
