"""How the cells of a table are read: what is missing, and which columns of words are numbers.

A file is read in chunks. `Reading` counts how the words of each column are written; where the bulk
of a column turn out to be numbers or dates, the file is read again, and the odd cells are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anymix.errors import InputError
from anymix.problem.columns import days_of
from anymix.tables.chunks import MisreadError
from anymix.tables.frames import pandas
from anymix.tables.odd_cells import Tally, Written, check_types, odd_in_words

__all__ = ["MISSING", "Reading", "as_dates", "odd_notes", "settled_frame"]

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")


@dataclass(eq=False)
class Reading:
    """What is known of the cells of a table.

    Parameters
    ----------
    na : sequence of str
        More words that stand for a missing value.
    decimal : str or None
        The mark before decimals; None is what the bulk of a column has.
    types : mapping of str to str
        Columns that are known to be "number", "category" or "date".
    labels : collection of str
        Columns that may hold names of classes.
    as_written : collection of str
        Columns whose words are never numbers.
    """

    na: Sequence[str] = ()
    decimal: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    labels: Collection[str] = ()
    as_written: Collection[str] = ()

    def __post_init__(self) -> None:
        check_types(self.types)
        if self.decimal not in (None, ".", ","):
            raise InputError("decimal", f"is {self.decimal!r}", "give a point or a comma")
        self.written: dict[str, Written] = {}
        self.odd: dict[str, Counter[str]] = {}
        self._fresh: set[str] = set()
        self._words: set[str] = set()
        self.levels = {name for name, kind in self.types.items() if kind == "category"}
        self.strings = self.levels | set(self.as_written)

    def missing(self, is_text: bool) -> list[str]:
        """The words of a text file that stand for a missing value."""
        return ["", *self.na] if is_text else [*MISSING, *self.na]

    def settled(self, chunks: Iterator[Any]) -> Iterator[Any]:
        """The chunks, with numbers and dates where the bulk of a column of words are such.

        After the last one, columns that turned out to be numbers or dates raise a MisreadError.
        """
        tallies: dict[str, Tally] = {}
        self.odd = {}
        for chunk in chunks:
            for name in [c for c in chunk.columns if c not in self.strings]:
                cells = chunk[name]
                if cells.dtype.kind == "M":
                    self.written[name] = Written("date", "%Y-%m-%d")
                    chunk[name] = days_of(cells)
                elif name in self.written:
                    chunk[name] = self.values(name, cells)
                elif name not in self._words and _is_words(cells):
                    tally = tallies.setdefault(name, Tally())
                    if not tally.is_hopeless:
                        tally.add(cells)
            yield chunk
        for name, tally in tallies.items():  # none is left to count if the file is read again
            (self._fresh if self.decide(name, tally) else self._words).add(name)
        if self._fresh:
            raise MisreadError(*self._fresh)

    def decide(self, name: str, tally: Tally) -> bool:
        """Whether a column of words is one of numbers or dates after all."""
        kind = self.types.get(name)
        try:
            found = tally.decide(kind, self.decimal, name in self.labels)
        except InputError as error:
            raise InputError(f"column {name!r}", error.found, error.fix) from None
        if found is None or (tally.is_hopeless and kind is None):
            return False
        self.written[name] = found
        return True

    def values(self, name: str, cells: Any) -> Any:
        """The numbers, or days, of a column that is one of these."""
        if not _is_words(cells):
            return cells
        values, odd = self.written[name].values(cells)
        self.odd[name] = self.odd.get(name, Counter()) + odd
        return values

    def again(self, error: MisreadError, known: set[str]) -> set[str]:
        """The columns to read as words from the start; the error, if nothing new is known."""
        new = (error.columns - known) | (error.columns & self._fresh)
        self._fresh = set()
        if not new:
            raise error
        return new

    @property
    def dates(self) -> list[str]:
        """The columns of dates."""
        return [name for name, written in self.written.items() if written.kind == "date"]

    @property
    def notes(self) -> dict[str, str]:
        """What to say of odd cells, by column."""
        found = {n: odd_in_words(n, w, self.odd.get(n, {})) for n, w in self.written.items()}
        return {name: said for name, said in found.items() if said}


def _is_words(cells: Any) -> bool:
    return cells.dtype.kind not in "iufbM"


def settled_frame(frame: Any, reading: Reading) -> Any:
    """A frame whose columns of words are numbers or dates where the bulk of their cells are.

    Parameters
    ----------
    frame : pandas.DataFrame
        The frame, which stays as it is; one of `read_table` is returned itself.
    reading : Reading
        What is known of its cells.

    Returns
    -------
    pandas.DataFrame
        With `attrs["notes"]`, what to say of odd cells by column.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": [1.5, "-", 2, 3.0], "d": ["a", "b", "a", "b"]})
    >>> found = settled_frame(frame, Reading())
    >>> found["x"].tolist(), found.attrs["notes"]
    ([1.5, nan, 2.0, 3.0], {'x': "'x': 1 cell is no number and counts as missing: '-'"})
    """
    if "notes" in frame.attrs and not reading.types:
        return frame
    settled = frame.copy(deep=False)
    kinds = settled.dtypes
    for name in (n for n in settled.columns if kinds[n].kind not in "iufbM"):
        kept = isinstance(kinds[name], pandas().CategoricalDtype) and name not in reading.types
        if kept or name in reading.strings:
            continue
        tally = Tally()
        tally.add(settled[name])
        if reading.decide(name, tally):
            settled[name] = reading.values(name, settled[name])
    for name in reading.dates:
        settled[name] = as_dates(settled[name])
    settled.attrs = {**frame.attrs, "notes": frame.attrs.get("notes", {}) | reading.notes}
    return settled


def odd_notes(frame: Any, names: Collection[str]) -> list[str]:
    """What to say of odd cells in some columns of a frame, or of a table on disk."""
    said: Mapping[str, str] = frame.attrs.get("notes", {})
    return [note for name, note in said.items() if name in names]


def as_dates(days: Any) -> Any:
    """A column of dates, from one of days since 1970."""
    return pandas().to_datetime(days, unit="D")
