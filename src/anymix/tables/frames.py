"""Frames: pandas, which tables need, frames of other libraries, and columns by name."""

from __future__ import annotations

import difflib
from typing import Any

from anymix.errors import InputError

__all__ = ["MANY_LEVELS", "column", "no_column", "pandas", "pandas_frame"]

MANY_LEVELS = 5_000  # a column of more is names or numbers of records, not categories


def pandas() -> Any:
    """The module of that name, which only tables need."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError(
            "reading tables",
            "needs pandas, which is not installed",
            "pip install 'anymix[report]'",
        ) from None
    return pd


def pandas_frame(frame: Any) -> Any:
    """A frame of pandas; one of polars, pyarrow or another library, or of a function, as such."""
    if callable(frame):
        frame = frame()
    if isinstance(frame, pandas().DataFrame):
        return frame
    import narwhals as nw

    try:
        return nw.from_native(frame, eager_only=True).to_pandas()
    except TypeError:
        kind = type(frame).__name__
        raise InputError("frame", f"is a {kind}", "give a frame of pandas or polars") from None


def column(frame: Any, name: str) -> Any:
    """A column of a pandas frame, or an error that names those there are."""
    if name in frame.columns:
        return frame[name]
    path = frame.attrs.get("path", "the table")
    if name in frame.attrs.get("left_out", ()):
        found = f"of {path} has over {MANY_LEVELS:,} different strings"
        raise InputError(f"column {name!r}", found, "group them first, or name another column")
    raise no_column(str(path), name, list(frame.attrs.get("columns", frame.columns)))


def no_column(path: str, name: str, there: list[str]) -> InputError:
    """A table has no such column; what it has."""
    near = difflib.get_close_matches(name, there, 1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "it has " + ", ".join(there[:20])
    return InputError(path, f"has no column {name!r}", hint)
