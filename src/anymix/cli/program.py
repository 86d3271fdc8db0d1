"""The program: its commands, and how it ends."""

import os
import sys
from typing import Annotated

import typer

import anymix
from anymix.cli.audit import audit_file
from anymix.cli.bound import bound_file
from anymix.cli.cluster import cluster_file
from anymix.cli.data import fetch_data, list_data, print_path
from anymix.cli.demo import show_demo
from anymix.cli.federate import run_federation
from anymix.cli.fit import fit_file
from anymix.cli.predict import predict_file

__all__ = ["app", "main"]

app = typer.Typer(
    name="anymix",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("demo")(show_demo)
app.command("fit")(fit_file)
app.command("predict")(predict_file)
app.command("audit")(audit_file)
app.command("bound")(bound_file)
app.command("cluster")(cluster_file)
app.command("federate")(run_federation)

data = typer.Typer(
    no_args_is_help=True,
    help="Download the data sets of the examples, and see where they are kept.",
)
data.command("list")(list_data)
data.command("fetch")(fetch_data)
data.command("path")(print_path)
app.add_typer(data, name="data")


def main() -> None:
    """Run the command; a user's error is one line and exit code 1, never a traceback."""
    try:
        app()
    except BrokenPipeError:  # the reader, say `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError) as error:
        line = " ".join(str(error).split())
        typer.secho(f"error: {line}", fg="red", err=True)
        sys.exit(1)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"anymix {anymix.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """One model that holds up on any mixture of your clients."""
