"""Options that several commands have, and refusals in their words.

The library refuses an argument with an `InputError(argument, found, fix)`. A command has a table
{argument: (option, fix)} and says "<option> <found>; <fix>", where None keeps the library's fix. No
text is rewritten: what the library found is printed as it says it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from anymix.errors import InputError

__all__ = [
    "OTHER_ENCODING",
    "TABLE_NAMES",
    "Encoding",
    "File",
    "Json",
    "Memory",
    "Mixtures",
    "Names",
    "Quiet",
    "Report",
    "in_options",
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
File = Annotated[Path, typer.Argument(help="CSV, TSV or Parquet; CSV and TSV also as .gz.")]
Encoding = Annotated[str, typer.Option(help="Of the text in the files.")]
Report = Annotated[Path | None, typer.Option(dir_okay=False, help="Write this HTML page.")]
Mixtures = Annotated[
    str,
    typer.Option(
        help="Mixtures to guard against: simplex (any), data (the table's own), chi2:2.0, "
        "cvar:0.3, tv:0.2, or a .json file of mixtures or limits."
    ),
]

Memory = Annotated[
    str | None,
    typer.Option(
        help="Read the table in stretches if it needs more, as in 2GB.",
        show_default="half of what is free",
    ),
]

OTHER_ENCODING = "name that of the file, as in --encoding latin-1, or convert the file"

Names = dict[str, tuple[str, str | None]]  # argument: option, and what to do if other than said
TABLE_NAMES: Names = {  # of every command that reads a table
    "domains": ("--domain", None),
    "encoding": ("--encoding", OTHER_ENCODING),
    "mixtures": ("--mixtures", None),
    "target": ("--target", None),
}


@contextmanager
def in_options(names: Names, files: Sequence[Path | None] = ()) -> Iterator[None]:
    """Say refusals of the library's arguments in terms of a command's options.

    Parameters
    ----------
    names : dict of str to (str, str or None)
        For each argument its option, and what to do; None for what the library says.
    files : sequence of Path
        Files whose names are left as they are, should one be called like an argument.

    Examples
    --------
    >>> with in_options({"mu": ("--penalty", None)}):
    ...     raise InputError("mu", "is -1", "give a number ≥ 0")
    Traceback (most recent call last):
        ...
    anymix.errors.InputError: --penalty is -1; give a number ≥ 0
    """
    try:
        yield
    except InputError as error:
        known = {} if error.argument in map(str, files) else names
        option, fix = known.get(error.argument, (error.argument, None))
        raise InputError(option, error.found, fix or error.fix) from error
