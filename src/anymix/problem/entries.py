"""Columns of entries: numbers, or labels as codes of their sorted values; gaps are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError

Array = NDArray[np.float64]

__all__ = ["column_of", "encode", "floats", "numbers", "refuse_missing"]


def floats(name: str, table: Any, fix: str) -> Array:
    """A dense table as float64, not copied if it is one; dates and strings are no numbers."""
    try:
        types = table.dtypes if hasattr(table, "dtypes") else [np.asarray(table).dtype]
        strange = [str(t) for t in types if getattr(t, "kind", "f") in "cmMSTUV"]
        if strange:
            raise TypeError(f"but of type {strange[0]}")
        return np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(name, f"has entries that are not numbers ({error})", fix) from None


def refuse_missing(name: str, values: NDArray[Any], fix: str = "drop or fill in the rows") -> None:
    """Refuse NaN and infinity."""
    bad = ~np.isfinite(values)
    if bad.any():
        found = f"has {bad.sum()} missing or infinite entries, the first of them {values[bad][0]}"
        raise InputError(name, found, fix)


def column_of(name: str, values: Any, n: int) -> NDArray[Any]:
    """A column of n entries of any kind, (n,)."""
    try:
        column = np.asarray(values)
    except ValueError as error:
        raise InputError(name, f"is not a column ({error})", f"give ({n},)") from None
    if column.dtype.kind in "US" and not hasattr(values, "dtype"):
        column = np.asarray(values, dtype=object)  # else NumPy makes NaN the string 'nan'
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.shape != (n,):
        found = f"has shape {column.shape} but X has {n} rows"
        raise InputError(name, found, f"give ({n},)")
    if column.dtype.kind in "fcmM":
        refuse_missing(name, column)
    return column


def numbers(name: str, values: Any, n: int) -> Array:
    """n finite numbers, (n,)."""
    numbers = floats(name, column_of(name, values, n), "convert them")
    refuse_missing(name, numbers)
    return numbers


def encode(name: str, values: Any, n: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Sorted distinct values and the place of every entry among them.

    >>> names, codes = encode("domains", ["b", "a", "b"], 3)
    >>> names.tolist(), codes.tolist()
    (['a', 'b'], [1, 0, 1])
    """
    column = column_of(name, values, n)
    low, high = (column.min(), column.max()) if column.dtype.kind in "iu" else (0, 2**63)
    if int(high) - int(low) < 4 * n + 1000 and high < 2**63:  # few enough to count, without a sort
        offset = column.astype(np.int64) - int(low)
        seen = np.bincount(offset) > 0
        names = np.flatnonzero(seen) + int(low)
        return names.astype(column.dtype), (np.cumsum(seen) - 1)[offset]
    if column.dtype.kind in "OUST":
        return _encode_objects(name, column)
    names, codes = np.unique(column, return_inverse=True)
    return names, codes


def _encode_objects(name: str, column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    entries = column.tolist()
    try:
        distinct = set(entries)
    except TypeError as error:
        raise InputError(name, f"has {error} entries", "give numbers or strings") from None
    missing = [v for v in distinct if _is_missing(v)]
    if missing:
        found = f"has missing entries ({missing[0]})"
        raise InputError(name, found, "drop those rows or name them, say 'unknown'")
    try:
        names = sorted(distinct)
    except TypeError:
        kinds = sorted({type(v).__name__ for v in distinct})
        found = f"mixes {' and '.join(kinds)}"
        raise InputError(name, found, "convert all to one type") from None
    place = {v: k for k, v in enumerate(names)}
    codes = np.fromiter((place[v] for v in entries), dtype=np.intp, count=len(entries))
    if isinstance(names[0], tuple):
        return np.fromiter(names, dtype=object), codes
    return np.array(names, dtype=column.dtype if column.dtype.kind == "U" else None), codes


def _is_missing(v: Any) -> bool:
    """None, NaN, NaT, or pandas' NA, whose comparisons have no truth value."""
    try:
        return v is None or bool(v != v)
    except TypeError:
        return True
