"""`anymix predict`: a saved model and a table in, predictions out."""

import gzip
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from anymix.cli.files import (
    check_inputs,
    check_outputs,
    is_installed,
    is_stream,
    to_stdout,
    write_output,
)
from anymix.cli.options import (
    OTHER_ENCODING,
    Decimal,
    Encoding,
    File,
    Memory,
    Na,
    Names,
    Quiet,
    Types,
    cells,
    in_options,
)
from anymix.cli.output import steps
from anymix.errors import InputError

__all__ = ["predict_file"]

OPTIONS: Names = {
    "decimal": ("--decimal", None),
    "encoding": ("--encoding", OTHER_ENCODING),
    "keep": ("--keep", None),
    "memory": ("--memory", None),
    "types": ("--types", None),
}

Model = Annotated[
    Path, typer.Argument(help="A model that `anymix fit --out` saved, from a source you trust.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        callback=to_stdout,
        help="Write a .csv, .tsv (each also as .gz) or .parquet file; without it, or with -, CSV "
        "is printed.",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(help="Column of the table to copy beside the predictions; may be repeated."),
]


def predict_file(
    model: Model,
    table: File,
    out: Out = None,
    keep: Keep = None,
    encoding: Encoding = "utf-8",
    memory: Memory = None,
    na: Na = None,
    decimal: Decimal = None,
    types: Types = None,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table with a saved model.

    The columns are `prediction` and, for classes, `probability of ...` for each of them.

    Examples:

    - anymix predict model.joblib new.csv --out predictions.csv --keep id

    - anymix predict model.joblib new.csv | head
    """
    check_outputs({"--out": out}, [model, table])
    save = _saver(out)
    if not model.is_file():
        raise InputError(str(model), "is not there", "give a model that `anymix fit --out` saved")
    check_inputs([table], encoding)
    reading = {"encoding": encoding, **cells(na, decimal, types)}
    with ExitStack() as spools, in_options(OPTIONS, [model, table]):
        with steps(not quiet) as step:
            step(f"reading {table}")
            parts, notes = _predicted(model, table, reading, keep or [], memory, spools)
            first = next(parts)
        for note in [] if quiet else notes:
            typer.echo(f"note: {note}", err=True)
        frames = chain([first], parts)
        if out is None:
            save(frames, sys.stdout)
        else:
            write_output(out, lambda path: save(frames, path))


def _predicted(
    path: Path,
    table: Path,
    reading: dict[str, Any],
    copied: Sequence[str],
    memory: str | None,
    spools: ExitStack,
) -> tuple[Iterator[Any], list[str]]:
    """The predictions with the columns to copy, in one frame or more, and notes."""
    from anymix.tables.files import read_table
    from anymix.tables.memory import bytes_of
    from anymix.tables.models import load_model
    from anymix.tables.predicting import notes_on, predict_table, predicted_stretches
    from anymix.tables.spooling import read_or_spool, spooled

    model, limit = load_model(path), None if memory is None else bytes_of(memory)
    features, levels = model.columns, model.categories
    twice = bool(set(copied) & set(features))  # to be learnt from, and to be copied as written
    text = [] if twice else copied
    levels = [*levels, *(model.domains if model.takes_domain(model.domains) else ())]
    kinds = {name: kind for name, kind in model.features.types.items() if name not in text}
    reading["types"] = kinds | reading["types"]
    used: Any = {"keep": features, "strings": levels, "text": text}
    frame = read_or_spool(table, memory=limit, **used, **reading)
    if not hasattr(frame, "stretches"):
        as_written = {"encoding": reading["encoding"], "text": copied}
        kept = read_table(table, **as_written) if twice else frame
        found, notes = predict_table(model, frame, copied, kept)
        return iter([found]), notes
    spools.callback(frame.close)
    for name in (*features, *copied):
        frame.check(name)
    if twice:
        beside = spooled(table, encoding=reading["encoding"], text=copied, only=copied)
        spools.callback(beside.close)
    else:
        beside = frame
    return predicted_stretches(model, frame, copied, beside), notes_on(model, frame)


def _saver(out: Path | None) -> Callable[[Iterable[Any], Any], None]:
    """How to write frames to a file (or stream), one after the other: as the file's name says."""
    name = "" if out is None else out.name.lower()
    zipped = name.endswith(".gz")
    kind = name.removesuffix(".gz").rpartition(".")[2]
    if kind in ("parquet", "pq") and not zipped:
        if not is_installed("pyarrow"):
            found = "is to be Parquet, which needs pyarrow"
            raise InputError(str(out), found, "pip install pyarrow")
        return _save_parquet
    if kind not in ("csv", "tsv", "tab"):
        if out is not None and not is_stream(out):
            fix = "give a name that ends in .csv, .tsv (each also with .gz) or .parquet"
            raise InputError("--out", f"is {str(out)!r}", fix)
        kind, zipped = "csv", False
    return partial(_save_text, mark="," if kind == "csv" else "\t", zipped=zipped)


def _save_parquet(frames: Iterable[Any], path: Any) -> None:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    writer = None
    for frame in frames:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        writer = ParquetWriter(path, table.schema) if writer is None else writer
        writer.write_table(table.cast(writer.schema))
    if writer is not None:
        writer.close()


def _save_text(frames: Iterable[Any], sink: Any, mark: str, zipped: bool) -> None:
    with ExitStack() as files:
        if isinstance(sink, Path):
            raw = files.enter_context(sink.open("wb"))
            whole: Any = raw if not zipped else gzip.GzipFile("", "wb", fileobj=raw, mtime=0)
            files.callback(whole.close)
            sink = files.enter_context(io.TextIOWrapper(whole, encoding="utf-8", newline=""))
        for number, frame in enumerate(frames):
            frame.to_csv(sink, index=False, sep=mark, header=number == 0)
