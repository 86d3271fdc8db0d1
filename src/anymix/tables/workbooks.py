"""The first sheet of an Excel file as CSV, so that it is read as any other table is."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from anymix.errors import InputError

__all__ = ["EXCEL", "write_sheet"]

EXCEL = ("xlsx", "xlsm")


def write_sheet(book: Path, out: Path) -> None:
    """Write the first sheet of an Excel file as CSV.

    Parameters
    ----------
    book : Path
        The Excel file.
    out : Path
        The CSV file to write.
    """
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
