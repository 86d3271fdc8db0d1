"""`anymix data`: which data sets there are, where they are kept, and how to fetch them."""

from typing import Annotated

import typer

from anymix.cli.options import Json, Quiet
from anymix.cli.output import print_json

__all__ = ["fetch_data", "list_data", "print_path"]

AllowApt = Annotated[
    bool,
    typer.Option(
        "--allow-apt",
        help="If the address of Fashion-MNIST does not answer, let apt-get download (not install) "
        "the Debian package that holds it.",
    ),
]


def list_data(as_json: Json = False) -> None:
    """Which data sets there are, and whether the cache holds them.

    Example: `anymix data list --json`.
    """
    from anymix import datasets

    found = {name: datasets.fetched(name) for name in datasets.available()}
    if as_json:
        print_json(
            {n: {"fetched": here, "path": str(datasets.path(n))} for n, here in found.items()}
        )
        return
    for name, here in found.items():
        typer.echo(f"{name:10} {'fetched' if here else 'not fetched':12} {datasets.path(name)}")


def fetch_data(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; all by default.")] = None,
    allow_apt: AllowApt = False,
    quiet: Quiet = False,
) -> None:
    """Fetch data sets into the cache and verify them.

    Examples: `anymix data fetch`, `anymix data fetch adult`, `anymix data fetch fashion
    --allow-apt`.
    """
    from anymix import datasets

    faults = []
    for name in names or datasets.available():
        try:
            folder = datasets.fetch(name, progress=not quiet, allow_apt=allow_apt or None)
        except datasets.PermissionNeededError as error:
            command = f"anymix data fetch {name} --allow-apt"
            faults.append(f"{error}. To let apt-get download it, run: {command}")
        except OSError as error:  # the others may still be had
            faults.append(str(error))
        else:
            if not quiet:
                typer.echo(f"{name}: {folder}")
    if faults:
        raise OSError(". ".join(faults))


def print_path(name: Annotated[str, typer.Argument(help="The data set.")]) -> None:
    """Print the folder that holds a data set, or would.

    Example: `ls $(anymix data path adult)`.
    """
    from anymix import datasets

    typer.echo(datasets.path(name))
