"""Chunks of a table put together: numbers, or codes of strings, with room for all rows at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.tables import frames
from anymix.tables.frames import pandas

__all__ = ["MisreadError", "codes_of", "put_together", "whole_or_sorted"]


class MisreadError(Exception):
    """Columns that looked like numbers at first, and must be read again as strings."""

    def __init__(self, *columns: str) -> None:
        super().__init__(*columns)
        self.columns = set(columns)


def put_together(
    path: Path, n: int, chunks: Iterator[Any], keep: set[str], levels: Collection[str] = ()
) -> Any:
    """The chunks as one frame, with room for n rows from the start."""
    columns: dict[str, _Column] = {}
    left_out: set[str] = set()
    for chunk in chunks:
        for name in chunk.columns:
            if name in left_out:
                continue
            found = columns.setdefault(name, _Column(str(name), n))
            found.add(chunk[name])
            if len(found.known) > frames.MANY_LEVELS and name not in keep:
                left_out.add(name)
                del columns[name]
    frame = pandas().DataFrame(
        {c.name: c.finished(c.name in levels) for c in columns.values()}, copy=False
    )
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
            raise MisreadError(self.name)
        self.values[rows] = chunk.to_numpy() if kind in "iuf" else codes_of(chunk, self.known)

    @property
    def is_whole(self) -> bool:
        return self.values is not None and self.values.dtype == np.int64

    def _room(self, kind: str, start: int) -> NDArray[Any]:
        """An array for all rows, in which those before `start` are marked as missing."""
        if kind in "iu" and start == 0:
            return np.zeros(self.n, dtype=np.int64)
        return np.full(self.n, np.nan) if kind in "iuf" else np.full(self.n, -1, np.int32)

    def finished(self, as_levels: bool) -> Any:
        """Numbers as they are; strings as categories, sorted, or as the whole numbers they say."""
        if self.values is None:
            return np.full(self.filled, np.nan)
        values = self.values[: self.filled]
        if values.dtype != np.int32:
            return values
        numbers, levels, place = whole_or_sorted(self.known, as_levels or bool(values.min() < 0))
        if numbers is not None:
            return numbers[values]
        return pandas().Categorical.from_codes(place[values], categories=levels)


def codes_of(chunk: Any, known: dict[str, int]) -> NDArray[np.int32]:
    """The codes of strings, −1 for missing ones; new strings are added to those known."""
    try:
        codes, distinct = pandas().factorize(chunk)
    except TypeError:  # lists, say, which are as good as their text
        codes, distinct = pandas().factorize(chunk.map(str, na_action="ignore"))
    places = [known.setdefault(str(v), len(known)) for v in distinct]
    return np.asarray(np.array([*places, -1], dtype=np.int32)[codes])


def whole_or_sorted(
    known: dict[str, int], has_missing: bool
) -> tuple[NDArray[np.int64] | None, list[str], NDArray[np.int32]]:
    """Whole numbers of the codes, or None; levels, sorted; the place of each code in them."""
    levels = sorted(known)
    place = np.full(len(levels) + 1, -1, dtype=np.int32)
    place[[known[level] for level in levels]] = np.arange(len(levels))
    if has_missing or not all(_is_whole(level) for level in known):
        return None, levels, place
    return np.array([int(level) for level in known]), levels, place


def _is_whole(level: str) -> bool:
    """Whether these are the digits in which Python, too, would write a number of 64 bits."""
    digits = level.removeprefix("-")
    return digits.isdecimal() and len(digits) < 19 and str(int(level)) == level
