"""Tables as people have them: a CSV, TSV or Parquet file as a frame of numbers and categories.

Read in pieces, so that the memory needed is that of the result. Every fault of a file is a
ValueError of one line.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["column", "pandas", "read_table"]

CHUNK = 20_000  # rows read at a time
MANY_LEVELS = 5_000  # a column of more is names or numbers of records, not categories
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")


def read_table(
    path: str | Path,
    *,
    encoding: str = "utf-8",
    keep: Sequence[str] = (),
    text: Sequence[str] = (),
    strings: Sequence[str] = (),
) -> Any:
    """A CSV, TSV or Parquet file, gzipped or not, as a pandas frame of numbers and categories.

    A column is numbers if all its entries are (whole ones of up to 64 bits); in text files, empty
    cells, NA, N/A, NaN, null and ? are missing. Columns of more than 5,000 different strings are
    left out unless they are named here; the names of those left out are in
    `frame.attrs["left_out"]`. In columns of `strings` 01 is not 1. Those of `text` are taken as
    written, and only an empty cell is missing there. In both, whole numbers in plain digits and
    without a gap are numbers still. Read in pieces: the memory needed is that of the result.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "people.csv"
    ...     _ = file.write_text("age,city,zip\\n31,Oslo,0150\\n?,Rome,NA\\n")
    ...     frame = read_table(file, text=["zip"])
    >>> frame["age"].tolist(), frame["city"].tolist(), frame["zip"].tolist()
    ([31.0, nan], ['Oslo', 'Rome'], ['0150', 'NA'])
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} is not a file; give the path of a CSV, TSV or Parquet file")
    named, known = {*keep, *text, *strings}, {*text, *strings}
    if _kind(path) == "parquet":
        return _frame(path, _parquet_rows(path), _parquet_chunks(path, known), named)
    layout = _check_lines(path, encoding)
    while True:
        try:
            return _frame(path, layout.n, _text_chunks(path, layout, encoding, known, text), named)
        except _MisreadError as error:  # read those columns as strings from the start
            if error.columns <= known:
                raise
            known |= error.columns


class _MisreadError(Exception):
    """Columns that are to be read as strings after all."""

    def __init__(self, *columns: str) -> None:
        super().__init__(*columns)
        self.columns = set(columns)


@dataclass(frozen=True)
class _Layout:
    """What a look at all lines of a text file tells."""

    separator: str
    names: list[str]
    n: int  # rows


def pandas() -> Any:
    """The module of that name, which is not needed but for tables."""
    try:
        import pandas as pd
    except ImportError:
        raise ValueError(
            "reading tables needs pandas, which is not installed; pip install 'anymix[report]'"
        ) from None
    return pd


def _kind(path: Path) -> str:
    kind = "".join(path.suffixes[-2:]).lower().removesuffix(".gz").split(".")[-1]
    if kind in ("parquet", "pq"):
        return "parquet"
    if kind not in ("csv", "tsv", "tab", "txt"):
        raise ValueError(
            f"{path} is of no known kind; files that end in .csv, .tsv, .txt (each also with .gz) "
            "or .parquet can be read"
        )
    return "text"


def _parquet_rows(path: Path) -> int:
    with _parquet(path) as file:
        n = int(file.metadata.num_rows)
        _refuse_twins(path, file.schema_arrow.names)
    if n == 0:
        raise ValueError(f"{path} has columns but no rows; add some")
    return n


def _parquet_chunks(path: Path, strings: set[str]) -> Iterator[Any]:
    """Frames with every column of the file, a pandas index included if it has a name."""
    from pyarrow import float64, string, types  # type: ignore[import-untyped]

    def plain(values: Any, name: str) -> Any:
        digits = types.is_integer(values.type) or types.is_decimal(values.type)
        if digits and name in strings:
            return values.cast(string())  # exactly
        return values.cast(float64()) if types.is_decimal(values.type) else values

    with _parquet(path) as file:
        for batch in file.iter_batches(batch_size=CHUNK):
            for i, name in enumerate(batch.schema.names):
                batch = batch.set_column(i, name, plain(batch.column(i), name))
            chunk = batch.to_pandas(ignore_metadata=True)
            yield chunk.drop(columns=[c for c in chunk if str(c).startswith("__index_level_")])


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]
    except ImportError:
        raise ValueError(f"{path} is Parquet, which needs pyarrow; pip install pyarrow") from None
    try:
        with ParquetFile(path) as file:
            yield file
    except (ArrowInvalid, OSError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is no Parquet file ({reason}); write it anew") from None


def _text_chunks(
    path: Path, layout: _Layout, encoding: str, strings: set[str], text: Sequence[str]
) -> Iterator[Any]:
    with pandas().read_csv(
        path,
        sep=layout.separator,
        chunksize=CHUNK,
        dtype=dict.fromkeys(strings, str),
        keep_default_na=False,
        na_values={name: [""] if name in text else MISSING for name in layout.names},
        skipinitialspace=True,
        low_memory=False,  # else one chunk may have several types
        encoding="utf-8-sig" if encoding == "utf-8" else encoding,
    ) as reader:
        for chunk in reader:
            misread = [c for c in chunk.columns if c not in strings and _is_misread(chunk[c])]
            if misread:
                raise _MisreadError(*misread)
            yield chunk


def _is_misread(values: Any) -> bool:
    """Truth values, whose spelling is lost, and whole numbers beyond 64 bits."""
    if values.dtype.kind in "iuf":
        return False
    distinct = values.dropna().unique()
    return any(not isinstance(v, str) or v in MISSING for v in distinct)


@contextmanager
def _text(path: Path, encoding: str) -> Iterator[IO[str]]:
    """The open file; faults of its bytes become one line."""
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    try:
        opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
        with opened(path, "rt", encoding=codec, newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not {encoding.upper()} (byte 0x{error.object[error.start]:02x}: "
            f"{error.reason}); pass its encoding, say --encoding latin-1, or convert it"
        ) from None
    except UnicodeError as error:
        raise ValueError(f"{path} is not {encoding.upper()} ({error}); pass its encoding") from None
    except LookupError:
        raise ValueError(
            f"encoding is {encoding!r}, which Python does not know; try utf-8"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is a damaged gzip file ({error}); compress it anew") from None


def _check_lines(path: Path, encoding: str) -> _Layout:
    """The separator, the columns and the number of rows.

    Refuses what pandas would silently repair: rows too short, two columns of one name.
    """
    with _text(path, encoding) as file:
        first = file.readline()
        if not first.strip():
            raise ValueError(f"{path} is empty; give a table whose first line names the columns")
        separator = max(",;\t|", key=first.count)
        file.seek(0)
        lines = csv.reader(file, delimiter=separator, skipinitialspace=True)
        try:
            names = [name or f"Unnamed: {i}" for i, name in enumerate(next(lines))]  # as pandas
            _refuse_twins(path, names)
            return _Layout(separator, names, _check_rows(path, lines, len(names)))
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {lines.line_num}: {error}; look for a quote that is not closed, or "
                "for a file that is no text"
            ) from None


def _refuse_twins(path: Path, names: list[str]) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"{path} has two columns named {twice[0]!r}; rename one of them")


def _check_rows(path: Path, lines: Any, width: int) -> int:
    n = 0
    for row in lines:
        if len(row) != width and row:
            raise ValueError(
                f"{path}, line {lines.line_num}: {len(row)} fields, but the header has {width}; "
                "correct the line, or quote fields that hold the separator"
            )
        n += bool(row)
    if n == 0:
        raise ValueError(f"{path} has a header but no rows; add some")
    return n


def _frame(path: Path, n: int, chunks: Iterator[Any], keep: set[str]) -> Any:
    """The chunks as one frame, with room for n rows from the start."""
    columns: dict[str, _Column] = {}
    left_out: set[str] = set()
    for chunk in chunks:
        for name in chunk.columns:
            if name in left_out:
                continue
            found = columns.setdefault(name, _Column(str(name), n))
            found.add(chunk[name])
            if len(found.known) > MANY_LEVELS and name not in keep:
                left_out.add(name)
                del columns[name]
    frame = pandas().DataFrame({c.name: c.finished() for c in columns.values()}, copy=False)
    frame.attrs = {"path": str(path), "left_out": sorted(left_out)}
    return frame


class _Column:
    """A column while its chunks come: numbers, or codes of strings with −1 for missing ones."""

    def __init__(self, name: str, n: int) -> None:
        self.name, self.n, self.filled = name, n, 0
        self.values: NDArray[Any] | None = None  # made when the first value tells the type
        self.known: dict[str, int] = {}

    def add(self, chunk: Any) -> None:
        rows = slice(self.filled, self.filled + len(chunk))
        self.filled = rows.stop
        empty, kind = bool(chunk.isna().all()), chunk.dtype.kind
        if kind == "u" and not empty and chunk.max() >= 2**63:
            chunk, kind = chunk.astype(np.float64), "f"
        if self.values is None and not empty:
            self.values = self._room(kind, rows.start)
        elif self.is_whole and (empty or kind == "f"):
            self.values = np.asarray(self.values, np.float64)  # which can say that one is missing
            self.values[rows.start :] = np.nan
        if self.values is None or empty:
            return
        if (kind in "iuf") == (self.values.dtype == np.int32):
            raise _MisreadError(self.name)
        self.values[rows] = chunk.to_numpy() if kind in "iuf" else self._codes(chunk)

    @property
    def is_whole(self) -> bool:
        return self.values is not None and self.values.dtype == np.int64

    def _room(self, kind: str, start: int) -> NDArray[Any]:
        """For all rows; those before `start` are missing."""
        if kind in "iu" and start == 0:
            return np.zeros(self.n, dtype=np.int64)
        return np.full(self.n, np.nan) if kind in "iuf" else np.full(self.n, -1, np.int32)

    def _codes(self, chunk: Any) -> NDArray[np.int32]:
        try:
            codes, distinct = pandas().factorize(chunk)
        except TypeError:  # lists, say, which are as good as their text
            codes, distinct = pandas().factorize(chunk.map(str, na_action="ignore"))
        places = [self.known.setdefault(str(v), len(self.known)) for v in distinct]
        return np.asarray(np.array([*places, -1], dtype=np.int32)[codes])

    def finished(self) -> Any:
        """Numbers as they are; strings as categories, sorted, or as the whole numbers they say."""
        if self.values is None:
            return np.full(self.filled, np.nan)
        values = self.values[: self.filled]
        if values.dtype != np.int32:
            return values
        if all(_is_whole(level) for level in self.known) and values.min() >= 0:
            return np.array([int(level) for level in self.known])[values]
        levels = sorted(self.known)
        place = np.full(len(levels) + 1, -1, dtype=np.int32)
        place[[self.known[level] for level in levels]] = np.arange(len(levels))
        return pandas().Categorical.from_codes(place[values], categories=levels)


def _is_whole(level: str) -> bool:
    """Whether these are the digits in which Python, too, would write a number of 64 bits."""
    digits = level.removeprefix("-")
    return digits.isdecimal() and len(digits) < 19 and str(int(level)) == level


def column(frame: Any, name: str) -> Any:
    """A column of the frame, or an error that names those there are."""
    if name in frame.columns:
        return frame[name]
    path = frame.attrs.get("path", "the table")
    if name in frame.attrs.get("left_out", ()):
        raise ValueError(f"column {name!r} of {path} has over {MANY_LEVELS:,} different strings")
    near = difflib.get_close_matches(name, list(frame.columns), 1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "it has " + ", ".join(frame.columns[:20])
    raise ValueError(f"{path} has no column {name!r}; {hint}")
