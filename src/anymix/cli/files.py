"""What a command reads and writes: checked before any work, and written whole or not at all.

`-` is standard input or output, as other commands have it.
"""

import codecs
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import typer

from anymix.errors import InputError
from anymix.files import write_whole

__all__ = [
    "STDOUT",
    "check_inputs",
    "check_outputs",
    "from_stdin",
    "is_installed",
    "is_printed",
    "is_stream",
    "to_stdout",
    "write_output",
]


def is_installed(package: str) -> bool:
    """Whether a package is there to be imported, without importing it."""
    return find_spec(package) is not None


def check_inputs(tables: Sequence[Path | None], encoding: str, mixtures: str = "") -> None:
    """Refuse what is not there, and an encoding that nobody knows, before anything is loaded."""
    for path in tables:
        if path is not None and not path.is_file():
            fix = "give the path of a CSV, TSV, Excel or Parquet file"
            raise InputError(str(path), "is not a file", fix)
    if mixtures.endswith(".json") and not Path(mixtures).is_file():
        raise InputError("--mixtures", f"is {mixtures!r}, which is not a file", "give one of JSON")
    try:
        codecs.lookup(encoding)
    except LookupError:
        found = f"is {encoding!r}, which Python does not know"
        raise InputError("--encoding", found, "try utf-8") from None


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path | None] = ()) -> None:
    """Refuse, before any work, paths that cannot be written, are read as well, or are the same."""
    taken = {path: "is also read" for path in inputs if path is not None and path.exists()}
    for option, path in outputs.items():
        if path is None:
            continue
        _check_output(option, path)
        for other, why in {} if is_stream(path) else taken.items():
            if _same(path, other):
                raise InputError(option, f"is {str(path)!r}, which {why}", "give another path")
        taken[path] = f"{option} names too"
    if outputs.get("--report") is not None and not is_installed("jinja2"):
        raise InputError("the report", "needs jinja2", "pip install 'anymix[report]'")


def _check_output(option: str, path: Path) -> None:
    """Refuse what is no file, and folders that are none or that nothing can be written to."""
    if path.is_dir():
        raise InputError(option, f"is {str(path)!r}, which is a folder", "name a file")
    effective = os.access in os.supports_effective_ids
    if path.exists() and not os.access(path, os.W_OK, effective_ids=effective):
        raise InputError(option, f"is {str(path)!r}, which is read-only", "give another path")
    if is_stream(path):
        return
    folder = Path(os.path.realpath(path)).parent
    while not os.path.lexists(folder):  # it will be made
        folder = folder.parent
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = "it is a file" if folder.is_file() else error.strerror
        found = f"is {str(path)!r}, but nothing can be written to {str(folder)!r} ({reason})"
        raise InputError(option, found, "give another folder") from None


def is_stream(path: Path) -> bool:
    """Whether to write into what is there: a pipe, a device, or where the output goes anyway."""
    if not path.exists():
        return False
    return not path.is_file() or any(_same(path, Path(f"/dev/std{end}")) for end in ("out", "err"))


def _same(a: Path, b: Path) -> bool:
    """Whether two paths are of one file, be it there or not."""
    if a.exists() and b.exists():
        return a.samefile(b)
    return os.path.realpath(a) == os.path.realpath(b)


def write_output(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file whole or not at all; into a pipe or a device, all of it at once."""
    if not is_stream(path):
        write_whole(path, write)
        return
    with tempfile.TemporaryDirectory(prefix="anymix-") as folder:
        part = Path(folder) / path.name
        write(part)
        with part.open("rb") as source, path.open("ab") as sink:
            shutil.copyfileobj(source, sink)


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
