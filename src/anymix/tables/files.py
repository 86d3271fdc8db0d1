"""Tables as people have them: a CSV, TSV or Parquet file as a frame of numbers and categories.

Read in pieces, so that the memory needed is that of the result. Every fault of a file is an
InputError of one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from anymix.errors import InputError
from anymix.tables.chunks import MisreadError, put_together
from anymix.tables.frames import pandas
from anymix.tables.lines import Layout, check_lines, refuse_twins

__all__ = ["Source", "opened_table", "read_table"]

CHUNK = 20_000  # rows read at a time
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")


def read_table(
    path: str | Path,
    *,
    encoding: str = "utf-8",
    keep: Sequence[str] = (),
    text: Sequence[str] = (),
    strings: Sequence[str] = (),
    only: Sequence[str] | None = None,
    source: Source | None = None,
) -> Any:
    """A CSV, TSV or Parquet file, gzipped or not, as a pandas frame of numbers and categories.

    A column is numbers if all its entries are (whole ones of up to 64 bits); in text files, empty
    cells, NA, N/A, NaN, null and ? are missing. Columns of more than 5,000 different strings are
    left out unless they are named here; the names of those left out are in
    `frame.attrs["left_out"]`. Read in pieces: the memory needed is that of the result.

    Parameters
    ----------
    path : path-like
        The file; its name says what it is.
    encoding : str
        The name of the encoding of its text.
    keep : sequence of str
        Columns to keep, however many different strings they have.
    text : sequence of str
        Columns to take as written; only an empty cell is missing there. Whole numbers in plain
        digits and without a gap are numbers still.
    strings : sequence of str
        Columns where 01 is not 1; otherwise as `text`.
    only : sequence of str, optional
        The columns to read; by default all.
    source : Source, optional
        The same file, if `opened_table` has looked at it already.

    Returns
    -------
    pandas.DataFrame

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "people.csv"
    ...     _ = file.write_text("age,city,zip\\n31,Oslo,0150\\n?,Rome,NA\\n")
    ...     frame = read_table(file, text=["zip"])
    >>> frame["age"].tolist(), frame["city"].tolist(), frame["zip"].tolist()
    ([31.0, nan], ['Oslo', 'Rome'], ['0150', 'NA'])
    """
    named, known = {*keep, *text, *strings}, {*text, *strings}
    source = opened_table(Path(path), encoding) if source is None else source
    while True:
        chunks = source.chunks(known, text, only)
        try:
            frame = put_together(source.path, source.n, chunks, named)
            frame.attrs["columns"] = source.names
            return frame
        except MisreadError as error:  # read those columns as strings from the start
            if error.columns <= known:
                raise
            known |= error.columns


@dataclass(frozen=True, eq=False)
class Source:
    """A file whose form is known, before it is read.

    Parameters
    ----------
    path : Path
        The file.
    n : int
        Its number of rows.
    names : list of str
        Its columns.
    chunks : function
        (strings, text, only) -> an iterator over frames of some rows each: columns to read as
        strings, columns where only an empty cell is missing, and the columns to read, or None.
    """

    path: Path
    n: int
    names: list[str]
    chunks: Callable[[set[str], Sequence[str], Sequence[str] | None], Iterator[Any]]


def opened_table(path: Path, encoding: str = "utf-8") -> Source:
    """Look at a file, and refuse what is no table.

    Parameters
    ----------
    path : Path
        The file; its name says what it is.
    encoding : str
        The name of the encoding of its text.

    Returns
    -------
    Source
    """
    if not path.is_file():
        fix = "give the path of a CSV, TSV or Parquet file"
        raise InputError(str(path), "is not a file", fix)
    if _kind(path) == "parquet":
        n, names = _parquet_rows(path)
        return Source(path, n, names, partial(_parquet_chunks, path))
    layout = check_lines(path, encoding)
    return Source(path, layout.n, layout.names, partial(_text_chunks, path, layout, encoding))


def _kind(path: Path) -> str:
    kind = "".join(path.suffixes[-2:]).lower().removesuffix(".gz").split(".")[-1]
    if kind in ("parquet", "pq"):
        return "parquet"
    if kind not in ("csv", "tsv", "tab", "txt"):
        fix = "files that end in .csv, .tsv, .txt (each also with .gz) or .parquet can be read"
        raise InputError(str(path), "is of no known kind", fix)
    return "text"


# Parquet --------------------------------------------------------------------------------------


def _parquet_rows(path: Path) -> tuple[int, list[str]]:
    with _parquet(path) as file:
        n, names = int(file.metadata.num_rows), list(file.schema_arrow.names)
        refuse_twins(path, names)
    if n == 0:
        raise InputError(str(path), "has columns but no rows", "add some")
    return n, names


def _parquet_chunks(
    path: Path, strings: set[str], text: Sequence[str] = (), only: Sequence[str] | None = None
) -> Iterator[Any]:
    """Frames with every column of the file, a pandas index included if it has a name."""
    from pyarrow import float64, string, types

    def plain(values: Any, name: str) -> Any:
        digits = types.is_integer(values.type) or types.is_decimal(values.type)
        if digits and name in strings:
            return values.cast(string())  # exactly
        return values.cast(float64()) if types.is_decimal(values.type) else values

    with _parquet(path) as file:
        there = file.schema_arrow.names
        columns = None if only is None else [name for name in there if name in only]
        for batch in file.iter_batches(batch_size=CHUNK, columns=columns):
            for i, name in enumerate(batch.schema.names):
                batch = batch.set_column(i, name, plain(batch.column(i), name))
            chunk = batch.to_pandas(ignore_metadata=True)
            yield chunk.drop(columns=[c for c in chunk if str(c).startswith("__index_level_")])


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import ParquetFile
    except ImportError:
        found, fix = "is Parquet, which needs pyarrow", "pip install pyarrow"
        raise InputError(str(path), found, fix) from None
    try:
        with ParquetFile(path) as file:
            yield file
    except (ArrowInvalid, OSError) as error:
        reason = " ".join(str(error).split())
        raise InputError(str(path), f"is no Parquet file ({reason})", "write it anew") from None


# Text -----------------------------------------------------------------------------------------


def _text_chunks(
    path: Path,
    layout: Layout,
    encoding: str,
    strings: set[str],
    text: Sequence[str],
    only: Sequence[str] | None = None,
) -> Iterator[Any]:
    with pandas().read_csv(
        path,
        sep=layout.separator,
        chunksize=CHUNK,
        dtype=dict.fromkeys(strings, str),
        keep_default_na=False,
        na_values={name: [""] if name in text else MISSING for name in layout.names},
        skipinitialspace=True,
        usecols=None if only is None else lambda name: name in only,
        low_memory=False,  # else one chunk may have several types
        encoding="utf-8-sig" if encoding == "utf-8" else encoding,
    ) as reader:
        for chunk in reader:
            misread = [c for c in chunk.columns if c not in strings and _is_misread(chunk[c])]
            if misread:
                raise MisreadError(*misread)
            yield chunk


def _is_misread(values: Any) -> bool:
    """Truth values, whose spelling is lost, and whole numbers beyond 64 bits."""
    if values.dtype.kind in "iuf":
        return False
    distinct = values.dropna().unique()
    return any(not isinstance(v, str) or v in MISSING for v in distinct)
