"""`anymix predict`: a saved model and a table in, predictions out."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from anymix.cli.files import check_inputs, check_outputs, is_installed, is_stream, write_output
from anymix.cli.options import OTHER_ENCODING, Encoding, File, Names, Quiet, in_options
from anymix.cli.output import steps
from anymix.errors import InputError

__all__ = ["predict_file"]

OPTIONS: Names = {"encoding": ("--encoding", OTHER_ENCODING), "keep": ("--keep", None)}

Model = Annotated[Path, typer.Argument(help="Model of `anymix fit`, from a source you trust.")]
Out = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        help="Write this .csv, .tsv (each also as .gz) or .parquet; otherwise CSV is printed.",
    ),
]
Keep = Annotated[list[str] | None, typer.Option(help="Column of the table to copy.")]


def predict_file(
    model: Model,
    table: File,
    out: Out = None,
    keep: Keep = None,
    encoding: Encoding = "utf-8",
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
    with steps(not quiet) as step, in_options(OPTIONS, [model, table]):
        step(f"reading {table}")
        predictions, notes = _predicted(model, table, encoding, keep or [])
    for note in [] if quiet else notes:
        typer.echo(f"note: {note}", err=True)
    if out is None:
        save(predictions, sys.stdout)
    else:
        write_output(out, lambda path: save(predictions, path))


def _predicted(
    path: Path, table: Path, encoding: str, copied: Sequence[str]
) -> tuple[Any, list[str]]:
    """The predictions with the columns to copy, and notes."""
    from anymix.tables import load_model, predict_table, read_table

    model = load_model(path)
    features, levels = model.columns, model.categories
    twice = bool(set(copied) & set(features))  # to be learnt from, and to be copied as written
    text = [] if twice else copied
    levels = [*levels, *(model.domains if model.uses_domain else ())]
    frame = read_table(table, encoding=encoding, keep=features, strings=levels, text=text)
    kept = read_table(table, encoding=encoding, text=copied) if twice else frame
    return predict_table(model, frame, copied, kept)


def _saver(out: Path | None) -> Callable[[Any, Any], object]:
    """How to write a frame to a file (or stream): as the name of the file says."""
    name = "" if out is None else out.name.lower()
    zipped = {"method": "gzip", "mtime": 0} if name.endswith(".gz") else None
    kind = name.removesuffix(".gz").rpartition(".")[2]
    if kind in ("parquet", "pq") and not zipped:
        if not is_installed("pyarrow"):
            found = "is to be Parquet, which needs pyarrow"
            raise InputError(str(out), found, "pip install pyarrow")
        return lambda frame, path: frame.to_parquet(path, engine="pyarrow", index=False)
    if kind not in ("csv", "tsv", "tab"):
        if out is not None and not is_stream(out):
            fix = "give a name that ends in .csv, .tsv (each also with .gz) or .parquet"
            raise InputError("--out", f"is {str(out)!r}", fix)
        kind, zipped = "csv", None
    mark = "," if kind == "csv" else "\t"
    return lambda frame, path: frame.to_csv(path, index=False, sep=mark, compression=zipped)
