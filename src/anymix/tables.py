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
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["column", "pandas", "read_table"]

CHUNK = 20_000  # rows read at a time
MANY_LEVELS = 5_000  # a column of more is names or numbers of records, not categories


def read_table(path: str | Path, *, encoding: str = "utf-8", keep: Sequence[str] = ()) -> Any:
    """A CSV, TSV or Parquet file, gzipped or not, as a pandas frame of numbers and categories.

    A column is numbers if all its entries are; empty cells, NA, NaN, null and ? are missing.
    Columns of more than 5,000 different strings are left out unless `keep` names them; their names
    are in `frame.attrs["left_out"]`. Read in pieces: the memory needed is that of the result.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "people.csv"
    ...     _ = file.write_text("age,city\\n31,Oslo\\n?,Rome\\n")
    ...     frame = read_table(file)
    >>> frame["age"].tolist(), frame["city"].tolist()
    ([31.0, nan], ['Oslo', 'Rome'])
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} is not a file; give the path of a CSV, TSV or Parquet file")
    strings: set[str] = set()
    while True:
        try:
            return _frame(path, *_source(path, encoding, strings), keep)
        except _MixedError as error:  # seen late: read that column as strings from the start
            strings.add(str(error))


class _MixedError(Exception):
    """A column whose chunks are of two types."""


def pandas() -> Any:
    """The module of that name, which is not needed but for tables."""
    try:
        import pandas as pd
    except ImportError:
        raise ValueError(
            "reading tables needs pandas, which is not installed; pip install 'anymix[report]'"
        ) from None
    return pd


def _source(path: Path, encoding: str, strings: set[str]) -> tuple[int, Iterator[Any]]:
    """Number of rows, and the rows in chunks."""
    kind = "".join(path.suffixes[-2:]).lower().removesuffix(".gz").split(".")[-1]
    if kind in ("parquet", "pq"):
        return _parquet_rows(path), _parquet_chunks(path)
    if kind not in ("csv", "tsv", "tab", "txt"):
        raise ValueError(
            f"{path} is of no known kind; files that end in .csv, .tsv, .txt (each also with .gz) "
            "or .parquet can be read"
        )
    separator, n = _check_lines(path, encoding)
    return n, _text_chunks(path, separator, encoding, strings)


def _parquet_rows(path: Path) -> int:
    with _parquet(path) as file:
        n = int(file.metadata.num_rows)
    if n == 0:
        raise ValueError(f"{path} has columns but no rows; add some")
    return n


def _parquet_chunks(path: Path) -> Iterator[Any]:
    with _parquet(path) as file:
        for batch in file.iter_batches(batch_size=CHUNK):
            yield batch.to_pandas()


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import ArrowInvalid  # type: ignore[import-untyped]
        from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]
    except ImportError:
        raise ValueError(f"{path} is Parquet, which needs pyarrow; pip install pyarrow") from None
    try:
        with ParquetFile(path) as file:
            yield file
    except (ArrowInvalid, OSError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is no Parquet file ({reason}); write it anew") from None


def _text_chunks(path: Path, separator: str, encoding: str, strings: set[str]) -> Iterator[Any]:
    yield from pandas().read_csv(
        path,
        sep=separator,
        chunksize=CHUNK,
        dtype=dict.fromkeys(strings, str),
        na_values=["?"],
        skipinitialspace=True,
        low_memory=False,  # else one chunk may have several types
        encoding="utf-8-sig" if encoding == "utf-8" else encoding,
    )


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
    except LookupError:
        raise ValueError(
            f"encoding is {encoding!r}, which Python does not know; try utf-8"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is a damaged gzip file ({error}); compress it anew") from None


def _check_lines(path: Path, encoding: str) -> tuple[str, int]:
    """The separator and the number of rows.

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
            return separator, _check_rows(path, lines)
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {lines.line_num}: {error}; look for a quote that is not closed, or "
                "for a file that is no text"
            ) from None


def _check_rows(path: Path, lines: Any) -> int:
    names = next(lines)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"{path} has two columns named {twice[0]!r}; rename one of them")
    width, n = len(names), 0
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


def _frame(path: Path, n: int, chunks: Iterator[Any], keep: Sequence[str]) -> Any:
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
        self.whole = True

    def add(self, chunk: Any) -> None:
        rows = slice(self.filled, self.filled + len(chunk))
        self.filled = rows.stop
        if chunk.isna().all():
            return
        numeric = chunk.dtype.kind in "iuf"
        if self.values is None:
            self.values = np.full(self.n, np.nan) if numeric else np.full(self.n, -1, np.int32)
        if numeric != (self.values.dtype.kind == "f"):
            raise _MixedError(self.name)
        self.values[rows] = chunk.to_numpy(np.float64) if numeric else self._codes(chunk)
        self.whole &= chunk.dtype.kind in "iu"

    def _codes(self, chunk: Any) -> NDArray[np.int32]:
        codes, distinct = pandas().factorize(chunk)
        places = [self.known.setdefault(str(v), len(self.known)) for v in distinct]
        return np.asarray(np.array([*places, -1], dtype=np.int32)[codes])

    def finished(self) -> Any:
        """Whole numbers as such; strings as categories, sorted."""
        if self.values is None:
            return np.full(self.filled, np.nan)
        values = self.values[: self.filled]
        if values.dtype.kind == "f":
            some_missing = not self.whole or bool(np.isnan(values).any())
            return values if some_missing else values.astype(np.int64)
        levels = sorted(self.known)
        place = np.full(len(levels) + 1, -1, dtype=np.int32)
        place[[self.known[level] for level in levels]] = np.arange(len(levels))
        return pandas().Categorical.from_codes(place[values], categories=levels)


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
