"""How the cells of a table are read: what is missing, and which columns of words are numbers.

One `#N/A`, a "Total" row or decimal commas make words of a column of numbers. So the cells are
counted by how they are written; where nine in ten are numbers, or dates, the column is one of
these, the other cells are missing, and a note lists them. A file is read in chunks; where a column
turns out to be of numbers or dates, the file is read again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.problem.columns import days_of
from anymix.tables.chunks import MisreadError
from anymix.tables.frames import pandas

Array = NDArray[np.float64]
KINDS = ("number", "category", "date")
NOTHING = "#n/a #na #null! #value! #div/0! #ref! #name? n/a na n.a. <na> nan none null nil missing"
SIGNS = "unknown - -- --- – — . .. ... ?"
BLANKS = frozenset(["", "not available", "no data", *NOTHING.split(), *SIGNS.split()])
POINT = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
COMMA = re.compile(r"[-+]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+")
DIGIT = re.compile(r"\d")
CODE = re.compile(r"[-+]?0\d+")  # 0150 is no number that people would add up
DATES = {  # how a date is written: what it looks like, up to the time of day
    "%Y-%m-%d": re.compile(r"\d{4}-\d{1,2}-\d{1,2}"),
    "%Y/%m/%d": re.compile(r"\d{4}/\d{1,2}/\d{1,2}"),
    "%d.%m.%Y": re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}"),
    "%m/%d/%Y": re.compile(r"(?:0?[1-9]|1[0-2])/\d{1,2}/\d{4}"),
    "%d/%m/%Y": re.compile(r"\d{1,2}/(?:0?[1-9]|1[0-2])/\d{4}"),
}
TIME = re.compile(r"[T ]\d{1,2}:\d{2}.*")
BULK = 9  # numbers for one odd cell
FEW = 10  # different numbers that may as well be names of classes
MANY_WORDS = 20_000  # cells after which a column of words is given up
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")

__all__ = [
    "KINDS",
    "MISSING",
    "Reading",
    "Tally",
    "Written",
    "as_dates",
    "check_types",
    "odd_in_words",
    "odd_notes",
    "settled_frame",
]


@dataclass(frozen=True)
class Written:
    """How the cells of a column are written."""

    kind: str  # "number" or "date"
    style: str  # the mark before decimals, or the format of a date
    unsure: bool = False  # might be dates of another format

    def values(self, column: Any) -> tuple[Array, Counter[str]]:
        """Numbers, or days since 1970, NaN where there is none; and the cells that are odd."""
        codes, distinct = pandas().factorize(column)
        texts = [str(cell).strip() for cell in distinct]
        found = np.append(self._read(texts), np.nan)
        odd = np.flatnonzero(np.isnan(found[:-1]))
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        return found[codes], Counter({texts[k]: int(counts[k]) for k in odd})

    def _read(self, texts: list[str]) -> Array:
        if self.kind == "number":
            return np.array([self._number(text) for text in texts], dtype=np.float64)
        days = [TIME.sub("", text) for text in texts]
        dates = pandas().to_datetime(
            pandas().Series(days, dtype=object), format=self.style, errors="coerce"
        )
        return days_of(dates)

    def _number(self, text: str) -> float:
        if not is_number(text, self.style):
            return np.nan
        thousands, mark = (".", ",") if self.style == "," else (",", ".")
        return float(text.replace(thousands, "").replace(mark, "."))


def is_number(text: str, style: str) -> bool:
    """Whether a cell is a number with this mark before its decimals."""
    if POINT.fullmatch(text):
        return style == "." or "." not in text
    look = COMMA if style == "," else THOUSANDS
    return "," in text and look.fullmatch(text) is not None


@dataclass
class Tally:
    """How many cells of a column can be read in which way."""

    ways: Counter[str] = field(default_factory=Counter)  # cells that a style can read
    cells: int = 0  # that say something
    blanks: int = 0
    numbers: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    is_code: bool = False

    def add(self, column: Any) -> None:
        """Count the cells of some rows; those that are missing do not count."""
        counts = column.value_counts(dropna=True, sort=False)
        for cell, count in zip(counts.index.tolist(), counts.tolist(), strict=True):
            text = str(cell).strip()
            if text.casefold() in BLANKS:
                self.blanks += count
            else:
                self._count(text, count)

    def _count(self, text: str, count: int) -> None:
        if count:
            self.cells += count
            for style in self._styles(text):
                self.ways[style] += count

    def _styles(self, text: str) -> list[str]:
        """The styles that can read a cell."""
        has_digits = DIGIT.search(text) is not None
        styles = [style for style in ".," if has_digits and is_number(text, style)]
        if styles:
            self.is_code |= CODE.fullmatch(text) is not None
            if len(self.numbers) <= FEW:
                self.numbers.add(text)
            return styles
        if len(self.words) < 3:
            self.words.add(text)
        if not has_digits:
            return []
        day = TIME.sub("", text)
        return [style for style, look in DATES.items() if look.fullmatch(day)]

    @property
    def is_hopeless(self) -> bool:
        """Whether there are so many words that nothing else will come of it."""
        return self.cells > MANY_WORDS and max(self.ways.values(), default=0) < self.cells / 2

    def decide(
        self, kind: str | None = None, decimal: str | None = None, is_label: bool = False
    ) -> Written | None:
        """What the column is by the bulk of its cells; None for levels."""
        number, date = self._number(decimal), self._date()
        if kind is not None:
            return self._mostly(number if kind == "number" else date)
        if self._is_bulk(date):
            return date
        odd = self.cells > self.ways[number.style]
        named = self.is_code or (is_label and odd and len(self.numbers) <= FEW)
        return number if self._is_bulk(number) and not named else None

    def _mostly(self, found: Written) -> Written:
        """The same, unless most cells are something else."""
        if 2 * self.ways[found.style] < self.cells:
            words = ", ".join(sorted(self.words))
            raise InputError("", f"is to hold {found.kind}s, but has {words}", "correct such cells")
        return found

    def _is_bulk(self, found: Written) -> bool:
        count = self.ways[found.style]
        return count >= max(1, BULK * (self.cells - count), self.blanks)

    def _number(self, decimal: str | None) -> Written:
        by_comma = self.ways[","] > self.ways["."]
        return Written("number", decimal or ("," if by_comma else "."))

    def _date(self) -> Written:
        best = max(DATES, key=lambda style: self.ways[style])
        same = [style for style in DATES if self.ways[style] == self.ways[best]]
        return Written("date", best, len(same) > 1)


def odd_in_words(name: str, written: Written, odd: Mapping[str, int]) -> str:
    """What to say of a column whose cells were read so."""
    said = []
    if written.style == ",":
        said.append("numbers with a decimal comma")
    if written.unsure:
        said.append("dates read as month/day/year, though day/month/year would do too")
    if odd:
        count = sum(odd.values())
        cells = f"{count:,} cells are no {written.kind}s and count"
        if count == 1:
            cells = f"1 cell is no {written.kind} and counts"
        said.append(f"{cells} as missing: {_shown(odd)}")
    return f"{name!r}: {'; '.join(said)}" if said else ""


def _shown(odd: Mapping[str, int]) -> str:
    """The commonest odd cells, and how often each occurs."""
    order = sorted(odd, key=lambda text: (-odd[text], text))
    shown = [repr(text) + (f" ({odd[text]:,})" if odd[text] > 1 else "") for text in order[:5]]
    rest = len(order) - len(shown)
    return ", ".join(shown) + (f" and {rest} other words" if rest else "")


def check_types(types: Mapping[str, str]) -> None:
    """Refuse a kind of column that there is not."""
    for name, kind in types.items():
        if kind not in KINDS:
            found = f"says that {name!r} is a {kind!r}"
            raise InputError("types", found, f"give {', '.join(KINDS[:-1])} or {KINDS[-1]}")


@dataclass(eq=False)
class Reading:
    """What is known of the cells of a table."""

    na: Sequence[str] = ()  # more words for a missing value
    decimal: str | None = None  # None: what the bulk has
    types: Mapping[str, str] = field(default_factory=dict)
    labels: Collection[str] = ()  # may hold names of classes
    as_written: Collection[str] = ()  # words that are never numbers

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
        """The chunks, with numbers and dates where the bulk of a column of words are such."""
        # After the last one, columns that turned out to be numbers or dates raise a MisreadError.
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
    """A frame whose columns of words are numbers or dates where the bulk of their cells are."""
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
