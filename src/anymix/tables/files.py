"""Tables as people have them: CSV, TSV, Excel or Parquet files as frames of numbers and categories.

Read in pieces, so that the memory needed is that of the result. Every fault of a file is an
InputError of one line. The first sheet of an Excel file is made a CSV file first.
"""

from __future__ import annotations

import csv
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.tables.chunks import MisreadError, put_together
from anymix.tables.frames import no_column, pandas
from anymix.tables.lines import Layout, check_lines, refuse_twins
from anymix.tables.reading import Reading, as_dates

EXCEL = ("xlsx", "xlsm")
CHUNK = 20_000  # rows read at a time

__all__ = ["EXCEL", "Source", "drawn_rows", "opened_table", "read_table", "write_sheet"]


def write_sheet(book: Path, out: Path) -> None:
    """Write the first sheet of an Excel file as CSV."""
    with out.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(_rows(book))


def _rows(book: Path) -> Iterator[list[str]]:
    """The rows of the first sheet that have a value, as wide as its first."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        found, fix = "is an Excel file, which needs openpyxl", "pip install 'anymix[excel]'"
        raise InputError(str(book), found, fix) from None
    try:
        opened = load_workbook(book, read_only=True, data_only=True)
    except Exception as error:  # whatever a file of another kind makes of the reader
        fix = "save it anew as .xlsx or .csv"
        raise InputError(str(book), "is no Excel file that can be read", fix) from error
    try:
        width = 0
        for row in opened.worksheets[0].iter_rows(values_only=True):
            cells = [_text(value) for value in row]
            width = width or _width(cells)
            if any(cells[:width]):
                yield [*cells[:width], *[""] * (width - len(cells))]
    finally:
        opened.close()


def _width(cells: list[str]) -> int:
    """The number of cells up to the last that is not empty."""
    return max((k + 1 for k, cell in enumerate(cells) if cell), default=0)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return repr(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def read_table(
    path: str | Path,
    *,
    encoding: str = "utf-8",
    keep: Sequence[str] = (),
    text: Sequence[str] = (),
    strings: Sequence[str] = (),
    only: Sequence[str] | None = None,
    na: Sequence[str] = (),
    decimal: str | None = None,
    types: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    source: Source | None = None,
    rows: NDArray[np.intp] | None = None,
) -> Any:
    """A CSV, TSV, Excel or Parquet file as a pandas frame of numbers, categories and dates.

    Text may be gzipped; of an Excel file the first sheet is read. A column is numbers, or dates, if
    nine in ten of its cells are; the others, such as `n/a`, `-` or the word Total, are missing
    then, and `frame.attrs["notes"]` tells which they were. In text files, empty cells, NA, N/A,
    NaN, null and ? are missing anyway. Columns of more than 5,000 different strings are left out
    unless they are named here; the names of those left out are in `frame.attrs["left_out"]`. Read
    in pieces: the memory needed is that of the result.

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
    na : sequence of str
        More words that stand for a missing value.
    decimal : str or None
        The mark before decimals, "." or ","; None is what the bulk of a column has.
    types : mapping of str to str, optional
        Columns that are known to be "number", "category" or "date".
    drop : sequence of str
        Columns that are not needed: two of them may have the same name.
    source : Source, optional
        The same file, if `opened_table` has looked at it already.
    rows : ndarray of int, optional
        The places of the rows to keep, sorted; what a column is, all rows decide. By default all.

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
    reading = Reading(na, decimal, types or {}, {*keep}, known)
    source = opened_table(Path(path), encoding, drop) if source is None else source
    source.check(reading.types)
    known |= reading.strings
    while True:
        chunks = reading.settled(source.chunks(known, text, only, reading))
        n = source.n if rows is None else len(rows)
        chunks = chunks if rows is None else _only(chunks, rows)
        try:
            frame = put_together(source.path, n, chunks, named, reading.levels)
        except MisreadError as error:  # read those columns as strings from the start
            known |= reading.again(error, known)
            continue
        for name in reading.dates:
            frame[name] = as_dates(frame[name])
        frame.attrs |= {"columns": source.names, "notes": reading.notes}
        frame.attrs["left_out"] += source.twins
        return frame


def drawn_rows(n: int, count: int) -> NDArray[np.intp]:
    """The places of so many of n rows, sorted; of all if there are no more."""
    if n <= count:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, count, replace=False))


def _only(chunks: Iterator[Any], places: NDArray[np.intp]) -> Iterator[Any]:
    """Of each chunk the rows at these places of the table."""
    start = 0
    for chunk in chunks:
        first, last = np.searchsorted(places, (start, start + len(chunk)))
        if last > first:  # a chunk without rows would look like one of missing values
            yield chunk.iloc[places[first:last] - start]
        start += len(chunk)


@dataclass(frozen=True, eq=False)
class Source:
    """A file whose form is known, before it is read."""

    path: Path
    n: int  # rows
    names: list[str]
    # (strings, text, only, reading) -> frames of some rows each
    chunks: Callable[..., Iterator[Any]]
    twins: list[str] = field(default_factory=list)  # names of several columns, not read

    def check(self, names: Iterable[str]) -> None:
        """Refuse a name that is not that of a column."""
        for name in set(names) - set(self.names):
            raise no_column(str(self.path), name, self.names)


def opened_table(path: Path, encoding: str = "utf-8", drop: Sequence[str] = ()) -> Source:
    """Look at a file, and refuse what is no table."""
    if not path.is_file():
        fix = "give the path of a CSV, TSV, Excel or Parquet file"
        raise InputError(str(path), "is not a file", fix)
    kind = _kind(path)
    if kind == "parquet":
        n, names = _parquet_rows(path)
        return Source(path, n, names, partial(_parquet_chunks, path))
    if kind == "excel":
        return _opened_sheet(path, drop)
    layout = check_lines(path, encoding, drop)
    chunks = partial(_text_chunks, path, layout, encoding)
    return Source(path, layout.n, layout.names, chunks, layout.twins)


def _opened_sheet(book: Path, drop: Sequence[str]) -> Source:
    """The first sheet of an Excel file, put into a file of text that goes with the Source."""
    folder = tempfile.mkdtemp(prefix="anymix-")
    try:
        sheet = Path(folder) / f"{book.name}.csv"
        write_sheet(book, sheet)
        found = opened_table(sheet, drop=drop)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, InputError):
            named = error.argument.replace(f"{sheet}", str(book))
            raise InputError(named, error.found, error.fix) from None
        raise
    source = replace(found, path=book)
    weakref.finalize(source, shutil.rmtree, folder, ignore_errors=True)
    return source


def _kind(path: Path) -> str:
    kind = "".join(path.suffixes[-2:]).lower().removesuffix(".gz").split(".")[-1]
    if kind in ("parquet", "pq"):
        return "parquet"
    if kind in EXCEL:
        return "excel"
    if kind not in ("csv", "tsv", "tab", "txt"):
        fix = (
            "files that end in .csv, .tsv, .txt (each also with .gz), .xlsx or .parquet can be read"
        )
        raise InputError(str(path), "is of no known kind", fix)
    return "text"


def _parquet_rows(path: Path) -> tuple[int, list[str]]:
    with _parquet(path) as file:
        n, names = int(file.metadata.num_rows), list(file.schema_arrow.names)
        refuse_twins(path, names)
    if n == 0:
        raise InputError(str(path), "has columns but no rows", "add some")
    return n, names


def _parquet_chunks(
    path: Path,
    strings: set[str],
    text: Sequence[str] = (),
    only: Sequence[str] | None = None,
    reading: Reading | None = None,
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
            chunk = chunk.drop(columns=[c for c in chunk if str(c).startswith("__index_level_")])
            yield chunk.replace(list(reading.na), None) if reading and reading.na else chunk


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


def _text_chunks(
    path: Path,
    layout: Layout,
    encoding: str,
    strings: set[str],
    text: Sequence[str],
    only: Sequence[str] | None = None,
    reading: Reading | None = None,
) -> Iterator[Any]:
    reading = reading or Reading()
    with pandas().read_csv(
        path,
        sep=layout.separator,
        chunksize=CHUNK,
        dtype=dict.fromkeys(strings, str),
        keep_default_na=False,
        na_values={name: reading.missing(name in text) for name in layout.names},
        skipinitialspace=True,
        usecols=lambda name: name not in layout.skipped and (only is None or name in only),
        low_memory=False,  # else one chunk may have several types
        encoding="utf-8-sig" if encoding == "utf-8" else encoding,
    ) as reader:
        for chunk in reader:
            misread = [
                c for c in chunk.columns if c not in strings and _is_misread(chunk[c], reading)
            ]
            if misread:
                raise MisreadError(*misread)
            yield chunk


def _is_misread(values: Any, reading: Reading) -> bool:
    """Truth values, whose spelling is lost, and whole numbers beyond 64 bits."""
    if values.dtype.kind in "iuf":
        return False
    distinct = values.dropna().unique()
    missing = reading.missing(False)
    return any(not isinstance(v, str) or v in missing for v in distinct)
