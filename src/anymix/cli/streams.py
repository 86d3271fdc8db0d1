"""`-` for standard input and output, as other commands have it."""

import shutil
import sys
import tempfile
from pathlib import Path

import typer

__all__ = ["STDOUT", "from_stdin", "is_printed", "to_stdout"]

STDOUT = Path("/dev/stdout")
KINDS = {b"PAR1": ".parquet", b"PK": ".xlsx", b"\x1f\x8b": ".csv.gz"}  # by the first bytes


def from_stdin(context: typer.Context, path: Path) -> Path:
    """The path; for `-` that of a file with what standard input has, removed at the end."""
    if str(path) != "-":
        return path
    folder = tempfile.mkdtemp(prefix="anymix-")
    context.call_on_close(lambda: shutil.rmtree(folder, ignore_errors=True))
    first = sys.stdin.buffer.read(4)
    kind = next((kind for mark, kind in KINDS.items() if first.startswith(mark)), ".csv")
    table = Path(folder) / f"standard-input{kind}"
    with table.open("wb") as file:
        file.write(first)
        shutil.copyfileobj(sys.stdin.buffer, file)
    return table


def to_stdout(path: Path | None) -> Path | None:
    """The path; for `-` that of standard output."""
    return STDOUT if path is not None and str(path) == "-" else path


def is_printed(*paths: Path | None) -> bool:
    """Whether a file goes to standard output, so that nothing else may."""
    return STDOUT in paths
