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
        help="If the server of Fashion-MNIST does not answer, let apt-get download the Debian "
        "package that holds it. Nothing is installed.",
    ),
]


def list_data(as_json: Json = False) -> None:
    """List the data sets, whether they are on this computer, and in which folder.

    Examples:

    - anymix data list

    - anymix data list --json
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
    names: Annotated[
        list[str] | None, typer.Argument(help="Which data sets to download; all if none is named.")
    ] = None,
    allow_apt: AllowApt = False,
    quiet: Quiet = False,
) -> None:
    """Download data sets, check that they are whole, and keep them for later.

    Examples:

    - anymix data fetch adult

    - anymix data fetch fashion --allow-apt
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


def print_path(
    name: Annotated[str, typer.Argument(help="The name of the data set, such as adult.")],
) -> None:
    """Print the folder in which a data set is kept, whether it is there yet or not.

    Examples:

    - anymix data path adult

    - ls $(anymix data path adult)
    """
    from anymix import datasets

    typer.echo(datasets.path(name))
