"""Options that several commands have, and refusals in their words.

The library refuses an argument with an `InputError(argument, found, fix)`. A command has a table
{argument: (option, fix)} and says "<option> <found>; <fix>", where None keeps the library's fix. No
text is rewritten: what the library found is printed as it says it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from anymix.cli.files import from_stdin, to_stdout
from anymix.errors import InputError

__all__ = [
    "OTHER_ENCODING",
    "TABLE_NAMES",
    "Decimal",
    "Encoding",
    "File",
    "Json",
    "Memory",
    "Mixtures",
    "Na",
    "Names",
    "Quiet",
    "Report",
    "Types",
    "cells",
    "in_options",
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
File = Annotated[
    Path,
    typer.Argument(
        callback=from_stdin,
        help="The table: a .csv, .tsv (each also as .gz), .xlsx or .parquet file; - is standard "
        "input.",
    ),
]
Encoding = Annotated[
    str, typer.Option(help="How letters are stored in text files, such as utf-8 or latin-1.")
]
Report = Annotated[
    Path | None,
    typer.Option(dir_okay=False, callback=to_stdout, help="Write an HTML page here; - prints it."),
]
Na = Annotated[
    list[str] | None,
    typer.Option(
        help="A word that stands for a missing value, such as 'refused'; may be repeated."
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="The mark before decimals, . or ,", show_default="as most cells of a column"),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        help="What a column holds, as in zip=category, price=number or born=date; may be repeated.",
        show_default="as most of its cells",
    ),
]
Mixtures = Annotated[
    str,
    typer.Option(
        help="Which mixtures of the domains to guard against: simplex (any at all), data (the "
        "table's own), chi2:2.0, cvar:0.3 or tv:0.2 (those near it), or a .json file of mixtures "
        "or limits."
    ),
]

Memory = Annotated[
    str | None,
    typer.Option(
        help="How much memory may be used, as in 2GB; a larger table is read piece by piece.",
        show_default="half of what is free",
    ),
]

OTHER_ENCODING = "name that of the file, as in --encoding latin-1, or convert the file"

Names = dict[str, tuple[str, str | None]]  # argument: option, and what to do if other than said
TABLE_NAMES: Names = {  # of every command that reads a table
    "domains": ("--domain", None),
    "decimal": ("--decimal", None),
    "encoding": ("--encoding", OTHER_ENCODING),
    "mixtures": ("--mixtures", None),
    "target": ("--target", None),
    "types": ("--types", None),
}


def cells(na: list[str] | None, decimal: str | None, types: list[str] | None) -> dict[str, Any]:
    """How cells are read, as `read_table` takes it."""
    found = {}
    for text in types or []:
        name, mark, kind = text.rpartition("=")
        if not (name and mark):
            raise InputError("--types", f"is {text!r}", "give it as in price=number")
        found[name] = kind
    return {"na": na or [], "decimal": decimal, "types": found}


@contextmanager
def in_options(names: Names, files: Sequence[Path | None] = ()) -> Iterator[None]:
    """Say refusals of the library's arguments in terms of a command's options."""
    try:
        yield
    except InputError as error:
        known = {} if error.argument in map(str, files) else names
        option, fix = known.get(error.argument, (error.argument, None))
        raise InputError(option, error.found, fix or error.fix) from error
