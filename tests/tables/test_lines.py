"""Lines counted in blocks of bytes: the same answer as a reader of CSV gives, or none."""

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anymix.tables import lines
from anymix.tables.lines import _count_block, _count_in_blocks, check_lines


def by_reader(text: str, width: int) -> int | None:
    """Rows after the header, None if one has another width or the text is no CSV."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True))
    except csv.Error:
        return None
    return sum(map(bool, rows)) - 1 if all(len(row) == width for row in rows if row) else None


# Pieces of files: words, separators, ends of lines, quotes in and out of place.
PIECES = ["a", "1", " ", ",", ",", "\n", "\r\n", '"', '""', '"x,y"', '"x\ny"', "ü", "\r", ";"]


@settings(max_examples=1000)
@given(st.lists(st.sampled_from(PIECES), max_size=30), st.integers(1, 9))
def test_a_count_is_that_of_the_reader(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], block: int
) -> None:
    text = "a,b\n" + "".join(pieces)
    file = tmp_path_factory.getbasetemp() / "t.csv"
    file.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", 8 * block)
        found = _count_in_blocks(file, "utf-8", ",", 2)
    if found is not None:
        assert found == by_reader(text, 2)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n3,4\n",
        "a,b\r\n1,2\r\n3,4",
        'a,b\n"x, y",2\n"said ""no""","two\nlines"\n',
        "a,b\n\n1,2\n\r\n3,4\n\n",
        "ä,b\nö,ü\n1,2\n",
        'a, b\n "x, y", "z"\n3, 4\n',
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_plain_files_are_not_parsed_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str
) -> None:
    monkeypatch.setattr(lines, "_count_line_by_line", None)
    opened: Any = gzip.open if name.endswith(".gz") else open
    with opened(tmp_path / name, "wb") as file:
        file.write(text.encode())
    found = check_lines(tmp_path / name, "utf-8")
    assert (found.n, found.separator) == (2, ",")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ('a,b\n5" pipe,2\n6" pipe,3\n', "utf-8"),  # inches, not quotes
        ("a,b\n1,2\n3,4\n", "utf-16"),
        ('a,b\n"x" ,2\n3,4\n', "utf-8"),
        ('a,b\n"x,y",2\na  "x",4\n', "utf-8"),  # a quote within a field
        ("a,b\r1,2\r3,4\r", "utf-8"),
    ],
)
def test_odd_files_are_counted_line_by_line(tmp_path: Path, text: str, encoding: str) -> None:
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    assert _count_in_blocks(tmp_path / "t.csv", encoding, ",", 2) is None
    assert check_lines(tmp_path / "t.csv", encoding).n == 2


def test_an_open_quote_does_not_fill_the_memory(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'a,b\n1,"2\n' + b"x,y\n" * 600_000)
    assert _count_in_blocks(tmp_path / "t.csv", "utf-8", ",", 2) is None
    assert _count_block(b'1,"2\n3,4\n', ord(","), 2) == (0, b'1,"2\n3,4\n')
