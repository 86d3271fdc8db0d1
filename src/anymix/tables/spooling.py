"""A table that does not fit into memory: its columns in files of plain numbers, read in stretches.

A file is read once, by the same readers as `read_table`, so that every cell is taken for what it is
there. Numbers become files of numbers, words become files of codes; after that a stretch of rows
costs no more than its bytes.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.tables import frames
from anymix.tables.chunks import MisreadError, codes_of, whole_or_sorted
from anymix.tables.files import Source, opened_table, read_table
from anymix.tables.frames import pandas
from anymix.tables.memory import fits
from anymix.tables.reading import Reading

__all__ = ["Spool", "read_or_spool", "spooled"]

STRETCH = 32_768  # rows that are read together


def spooled(
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
    folder: str | Path | None = None,
) -> Spool:
    """A CSV, TSV or Parquet file as a table on disk; the arguments are those of `read_table`."""
    reading = Reading(na, decimal, types or {}, {*keep}, {*text, *strings})
    source = opened_table(Path(path), encoding, drop) if source is None else source
    source.check(reading.types)
    known = set(reading.strings)
    while True:
        spool = Spool(source, folder, {*keep, *text, *strings})
        try:
            chunks = reading.settled(source.chunks(known, text, only, reading))
            spool.fill(chunks, reading.levels)
        except MisreadError as error:  # read those columns as strings from the start
            spool.close()
            known |= reading.again(error, known)
        except BaseException:
            spool.close()
            raise
        else:
            spool.attrs |= {"notes": reading.notes, "dates": reading.dates}
            spool.attrs["left_out"] += source.twins
            return spool


def read_or_spool(
    path: str | Path, *, memory: int | None = None, encoding: str = "utf-8", **options: Any
) -> Any:
    """A frame if the table fits into memory comfortably, else a Spool."""
    source = opened_table(Path(path), encoding, options.get("drop", ()))
    read = read_table if fits(source, memory, options.get("only")) else spooled
    return read(path, encoding=encoding, source=source, **options)


class Spool:
    """The columns of a table in files of a temporary folder."""

    def __init__(self, source: Source, folder: str | Path | None, keep: set[str]) -> None:
        self._keep, self.n = keep, 0
        self._folder = tempfile.TemporaryDirectory(prefix="anymix-", dir=folder)
        self._columns: dict[str, _Column] = {}
        names = source.names
        self.attrs: dict[str, Any] = {"path": str(source.path), "left_out": [], "columns": names}

    def fill(self, chunks: Iterator[Any], levels: Collection[str] = ()) -> None:
        """Take in all rows; words of some columns stay levels, though all may be numbers."""
        left_out: set[str] = set()
        with _room(self._folder.name):
            for chunk in chunks:
                for name in (c for c in chunk.columns if c not in left_out):
                    column = self._columns.get(name)
                    if column is None:
                        place = Path(self._folder.name) / f"{len(self._columns)}.column"
                        column = self._columns[name] = _Column(str(name), place, self.n)
                    column.add(chunk[name])
                    if len(column.known) > frames.MANY_LEVELS and name not in self._keep:
                        left_out.add(name)
                        column.place.unlink(missing_ok=True)
                self.n += len(chunk)
        for name in left_out:
            del self._columns[name]
        for column in self._columns.values():
            column.finish(column.name in levels)
        self.attrs["left_out"] = sorted(left_out)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    def __len__(self) -> int:
        return self.n

    def check(self, name: str) -> None:
        """Refuse a name that is not that of a column."""
        if name not in self._columns:
            frames.column(self, name)

    def is_number(self, name: str) -> bool:
        """Whether a column holds numbers."""
        return self._columns[name].levels is None

    def frame(self, names: Sequence[str], rows: slice = slice(None)) -> Any:
        """A stretch of rows of some columns, as a frame of pandas."""
        start, stop, _ = rows.indices(self.n)
        found = {n: self._columns[n].read(start, stop) for n in names if n in self._columns}
        frame = pandas().DataFrame(found, copy=False)
        frame.attrs = self.attrs
        return frame

    def stretches(self) -> Iterator[slice]:
        """All rows, a stretch at a time."""
        for start in range(0, self.n, STRETCH):
            yield slice(start, min(self.n, start + STRETCH))

    def close(self) -> None:
        """Remove the files."""
        self._folder.cleanup()


@contextmanager
def _room(folder: str) -> Iterator[None]:
    """Say plainly that a disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        fix = "free some, or name another folder with TMPDIR"
        raise InputError(folder, "has no room left for the columns of the table", fix) from error


class _Column:
    """A column in a file: numbers, or codes of strings with −1 for missing ones."""

    def __init__(self, name: str, place: Path, missing: int) -> None:
        self.name, self.place = name, place
        self.filled = missing  # rows before, of which nothing was known
        self.kind: Any = None  # known when the first value is there
        self.known: dict[str, int] = {}
        self.levels: Any = None
        self._codes: NDArray[np.int32] | None = None
        self._numbers: NDArray[np.int64] | None = None

    def add(self, chunk: Any) -> None:
        """The next rows."""
        empty, kind = bool(chunk.isna().all()), chunk.dtype.kind
        if kind == "u" and not empty and chunk.max() >= 2**63:
            chunk, kind = chunk.astype(np.float64), "f"
        is_number = kind in "iuf"
        if empty:
            self._add_missing(len(chunk))
            return
        if self.kind is None:
            whole = kind in "iu" and self.filled == 0
            self.kind = (np.int64 if whole else np.float64) if is_number else np.int32
            missing, self.filled = self.filled, 0
            self._add_missing(missing)
        elif self.kind == np.int64 and kind == "f":
            self._as_floats()
        if is_number == (self.kind == np.int32):
            raise MisreadError(self.name)
        self._write(chunk.to_numpy() if is_number else codes_of(chunk, self.known))

    def _add_missing(self, count: int) -> None:
        if self.kind is None:
            self.filled += count
            return
        if self.kind == np.int64 and count:
            self._as_floats()
        self._write(np.full(count, -1 if self.kind == np.int32 else np.nan))

    def _write(self, values: NDArray[Any]) -> None:
        self.filled += len(values)
        with self.place.open("ab") as file:
            file.write(np.ascontiguousarray(values, dtype=self.kind).tobytes())

    def _as_floats(self) -> None:
        """Whole numbers as floats, which can say that one is missing."""
        old, self.kind = self.place.with_suffix(".old"), np.float64
        if self.place.exists():
            self.place.rename(old)
            with old.open("rb") as source, self.place.open("ab") as sink:
                while block := source.read(2**20):
                    sink.write(np.frombuffer(block, np.int64).astype(np.float64).tobytes())
            old.unlink()

    def finish(self, as_levels: bool) -> None:
        """When all rows are there: words as sorted levels, or as the whole numbers they say."""
        if self.kind != np.int32:
            return
        has_missing = as_levels or any(
            (self._raw(i, i + 2**20) < 0).any() for i in range(0, self.filled, 2**20)
        )
        self._numbers, self.levels, self._codes = whole_or_sorted(self.known, has_missing)

    def _raw(self, start: int, stop: int) -> NDArray[Any]:
        size = np.dtype(self.kind).itemsize
        count = max(0, min(stop, self.filled) - start)
        return np.fromfile(self.place, self.kind, count, offset=start * size)

    def read(self, start: int, stop: int) -> Any:
        """A stretch of rows, as a column of a frame."""
        if self.kind is None:
            return np.full(stop - start, np.nan)
        values = self._raw(start, stop)
        if self._numbers is not None:
            return self._numbers[values]
        if self._codes is not None:
            return pandas().Categorical.from_codes(self._codes[values], categories=self.levels)
        return values
