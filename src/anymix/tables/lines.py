"""A look at all lines of a text file before it is parsed: separator, columns, number of rows.

What pandas would silently repair is refused here: rows too short, two columns of one name. The
separators are counted in whole blocks of bytes; only a file in which that finds something odd is
parsed line by line, which takes ten times as long and can name the line.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError

__all__ = ["Layout", "check_lines", "opened", "refuse_twins"]

BLOCK = 2**20  # bytes looked at at a time
NEWLINE, RETURN, QUOTE, SPACE = b'\n\r" '


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out."""

    separator: str
    names: list[str]
    n: int  # rows without the header
    twins: list[str] = field(default_factory=list)  # names that several columns have, not needed

    @property
    def skipped(self) -> set[str]:
        """What pandas calls the columns of these names: name, name.1, name.2 and so on."""
        counts = {name: self.names.count(name) for name in self.twins}
        return {f"{n}.{i}" if i else n for n, count in counts.items() for i in range(count)}


def check_lines(path: Path, encoding: str, drop: Sequence[str] = ()) -> Layout:
    """The separator, the columns and the number of rows."""
    with opened(path, encoding) as file:
        first = file.readline()
        if not first.strip():
            fix = "give a table whose first line names the columns"
            raise InputError(str(path), "is empty", fix)
        separator = max(",;\t|", key=first.count)
        file.seek(0)
        lines = csv.reader(file, delimiter=separator, skipinitialspace=True)
        try:
            names = [name or f"Unnamed: {i}" for i, name in enumerate(next(lines))]  # as pandas
            twins = refuse_twins(path, names, drop)
            n = _count_in_blocks(path, encoding, separator, len(names))
            if n is None:
                n = _count_line_by_line(path, lines, len(names))
        except csv.Error as error:
            raise InputError(
                f"{path}, line {lines.line_num}:",
                str(error),
                "look for a quote that is not closed, or for a file that is no text",
            ) from None
    if n == 0:
        raise InputError(str(path), "has a header but no rows", "add some")
    return Layout(separator, names, n, twins)


@contextmanager
def opened(path: Path, encoding: str) -> Iterator[IO[str]]:
    """The open file; faults of its bytes become one line."""
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    try:
        with _open(path, "rt", encoding=codec, newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x}: {error.reason}"
        raise _other_encoding(path, encoding, byte) from None
    except UnicodeError as error:
        raise _other_encoding(path, encoding, str(error)) from None
    except LookupError:
        found = f"is {encoding!r}, which Python does not know"
        raise InputError("encoding", found, "try utf-8") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        found = f"is a damaged gzip file ({error})"
        raise InputError(str(path), found, "compress it anew") from None


def _other_encoding(path: Path, encoding: str, why: str) -> InputError:
    found = f"is {encoding!r}, but {path} is not {encoding.upper()} ({why})"
    return InputError("encoding", found, "pass its encoding, say latin-1, or convert it")


def _open(path: Path, mode: str, **options: Any) -> Any:
    made: Any = gzip.open if path.suffix.lower() == ".gz" else open
    return made(path, mode, **options)


def refuse_twins(path: Path, names: list[str], drop: Sequence[str] = ()) -> list[str]:
    """Refuse two columns of one name, unless they are to be dropped; the names of those."""
    twice = sorted({name for name in names if names.count(name) > 1})
    kept = [name for name in twice if name not in drop]
    if kept:
        found, fix = f"has two columns named {kept[0]!r}", "rename one of them, or drop both"
        raise InputError(str(path), found, fix)
    return twice


def _count_line_by_line(path: Path, lines: Any, width: int) -> int:
    """The rows that a reader of CSV has, after the header; one of another width is refused."""
    n = 0
    for row in lines:
        if len(row) != width and row:
            raise InputError(
                f"{path}, line {lines.line_num}:",
                f"{len(row)} fields, but the header has {width}",
                "correct the line, or quote fields that hold the separator",
            )
        n += bool(row)
    return n


# Blocks of bytes ------------------------------------------------------------------------------


def _count_in_blocks(path: Path, encoding: str, separator: str, width: int) -> int | None:
    """The rows after the header, if every line plainly has `width` fields; None if one may not."""
    # Works where a byte below 128 is always the ASCII character. All bytes are decoded as well, so
    # that those of another encoding are found.
    name = codecs.lookup(encoding).name
    if not name.startswith(("utf-8", "ascii", "iso8859", "cp125")):
        return None
    decoder = codecs.getincrementaldecoder(name)()
    n, rest = -1, b""  # the header is a line too
    with _open(path, "rb") as file:
        while block := file.read(BLOCK):
            decoder.decode(block)
            counted = _count_block(rest + block, ord(separator), width)
            if counted is None or len(counted[1]) > BLOCK:  # a quote that is not closed, likely
                return None
            lines, rest = counted
            n += lines
    decoder.decode(b"", final=True)
    if rest:
        counted = _count_block(rest + b"\n", ord(separator), width)
        if counted is None or counted[1]:  # a quote that is not closed
            return None
        n += counted[0]
    return n


def _count_block(block: bytes, separator: int, width: int) -> tuple[int, bytes] | None:
    """Lines that are not blank, and the bytes after the last; None if a line looks odd."""
    b = np.frombuffer(block, dtype=np.uint8)
    outside = _outside_quotes(b, block, separator)
    if outside is None or b"\0" in block or not _ends_are_plain(b, block):
        return None
    ends = np.flatnonzero((b == NEWLINE) & outside)
    if len(ends) == 0:
        return 0, block
    marks = np.flatnonzero((b == separator) & outside)
    counts = np.diff(np.searchsorted(marks, ends), prepend=0)
    lengths = np.diff(ends, prepend=-1) - 1
    blank = (lengths == 0) | ((lengths == 1) & (b[ends - 1] == RETURN))
    if np.any(counts[~blank] != width - 1):
        return None
    return int(np.sum(~blank)), block[int(ends[-1]) + 1 :]


def _ends_are_plain(b: NDArray[np.uint8], block: bytes) -> bool:
    """Whether each carriage return is followed by a newline, or is the last byte."""
    if b"\r" not in block:
        return True
    after = np.flatnonzero(b[:-1] == RETURN) + 1
    return bool(np.all(b[after] == NEWLINE))


def _outside_quotes(
    b: NDArray[np.uint8], block: bytes, separator: int
) -> NDArray[np.bool_] | np.bool_ | None:
    """Which bytes are in no quoted field; None if a quote stands where none opens or closes one."""
    # A quote opens at the start of a field and closes at its end; a doubled one closes and opens.
    if b'"' not in block:
        return np.bool_(True)
    is_quote = b == QUOTE
    places = np.flatnonzero(is_quote)
    earlier, before = (np.append((NEWLINE, NEWLINE), b)[places[0::2] + i] for i in (0, 1))
    after = np.append(b, NEWLINE)[places[1::2] + 1]
    starts = np.where(before == SPACE, earlier, before)  # one space before a field is left out
    opens, closes = (separator, NEWLINE, QUOTE), (separator, NEWLINE, RETURN, QUOTE)
    if not (np.isin(starts, opens).all() and np.isin(after, closes).all()):
        return None
    return np.asarray(np.cumsum(is_quote) % 2 == 0)
