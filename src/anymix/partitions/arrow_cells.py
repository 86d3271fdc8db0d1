"""Batches of Arrow as cells and as chunks: what Parquet, Dask's frames and Ray's blocks have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.partitions.chunks import Chunk
from anymix.problem.cells import Coded, combined
from anymix.problem.columns import MISSING, days_of, matrix
from anymix.problem.entries import encode
from anymix.problem.membership import OneDomain, small_codes

Array = NDArray[np.float64]

__all__ = ["ArrowCells", "Recipe", "is_date", "is_number", "plain", "titles_of"]


def plain(kind: Any) -> Any:
    """An Arrow type; that of its values, if these are in a dictionary and no words."""
    from pyarrow import types

    if not types.is_dictionary(kind):
        return kind
    value = kind.value_type
    return value if is_number(value) or is_date(value) else kind


def is_number(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers."""
    from pyarrow import types

    kind = plain(kind)
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def is_date(kind: Any) -> bool:
    """Whether an Arrow type is one of dates, with or without the time of day."""
    from pyarrow import types

    kind = plain(kind)
    return bool(types.is_date(kind) or types.is_timestamp(kind))


def titles_of(values: Sequence[Any]) -> list[str]:
    """The names of levels, `(missing)` behind the last; that of 7.0 is '7'."""
    whole = [isinstance(v, float) and v.is_integer() for v in values]
    return [*(str(int(v) if w else v) for v, w in zip(values, whole, strict=True)), MISSING]


@contextmanager
def _refused(name: str, fix: str) -> Iterator[None]:
    """Say of values that Arrow cannot convert which column has them."""
    from pyarrow import ArrowException

    try:
        yield
    except ArrowException as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"column {name!r}", f"cannot be used ({reason})", fix) from error


@dataclass(frozen=True, eq=False)
class ArrowCells:
    """The cells of a batch or table of Arrow."""

    batch: Any

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def column(self, name: str) -> Any:
        """One column in one piece; a dictionary only of words."""
        found = self.batch.column(name)
        whole = found.combine_chunks() if hasattr(found, "combine_chunks") else found
        return whole if plain(whole.type) == whole.type else whole.dictionary_decode()

    def known(self, name: str) -> ArrowCells:
        """The rows that have a value in a column."""
        from pyarrow.compute import invert

        missing = self.column(name).is_null(nan_is_null=True)
        return ArrowCells(self.batch.filter(invert(missing))) if missing.true_count else self

    def numbers(self, name: str) -> Array:
        """A new array of the numbers of a column, NaN where one is missing; dates are days."""
        return np.array(self.as_floats(name), dtype=np.float64)

    def as_floats(self, name: str) -> NDArray[Any]:
        """The same, but perhaps Arrow's own array, and not yet of float64."""
        from pyarrow import float64, types

        column = self.column(name)
        if is_date(column.type):
            return days_of(column.to_pandas(date_as_object=False))
        if not is_number(column.type) or types.is_decimal(column.type):
            with _refused(name, "correct or empty such cells"):
                column = column.cast(float64())
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def levels(self, name: str) -> tuple[NDArray[Any], list[str]]:
        """The place of every row among the levels of a column, the last being `(missing)`."""
        codes, values = self.coded(name)
        return codes, titles_of(values)

    def coded(self, name: str) -> tuple[NDArray[Any], list[Any]]:
        """The place of every row among the values of a column; behind the last if missing."""
        from pyarrow import array, types

        column = self.column(name)
        if types.is_floating(column.type):
            column = array(column.to_numpy(zero_copy_only=False), from_pandas=True)  # NaN is a gap
        if not types.is_dictionary(column.type):
            with _refused(name, "leave it out"):
                column = column.dictionary_encode()
        values = column.dictionary.to_pylist()
        codes = column.indices
        if codes.null_count:
            codes = codes.fill_null(len(values))
        return codes.to_numpy(zero_copy_only=False).astype(np.int64, copy=False), values


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a batch of a table becomes a chunk."""

    target: str
    domains: tuple[str, ...]  # whose combinations are the domains
    weight: str | None
    columns: tuple[Any, ...]  # what was learnt, or names of columns of numbers to take as they are
    takes_classes: bool
    words: frozenset[str] = field(default_factory=frozenset)  # columns of words
    id: str | None = None  # deals rows out to folds

    @property
    def titles(self) -> list[str]:
        """Names of the columns of X."""
        if self.is_plain:
            return list(self.columns)
        return [title for column in self.columns for title in column.titles]

    @property
    def is_plain(self) -> bool:
        """Whether the features are taken as they are."""
        return all(isinstance(column, str) for column in self.columns)

    @property
    def needs(self) -> list[str]:
        """Names of the columns of the table that are read."""
        names = [c if isinstance(c, str) else c.name for c in self.columns]
        more = [self.target, *self.domains, *(n for n in (self.weight, self.id) if n)]
        return list(dict.fromkeys([*names, *more]))

    def chunk(self, batch: Any) -> Chunk | None:
        """The rows of a batch whose target is known; None if there are none."""
        cells = ArrowCells(batch).known(self.target)
        if len(cells) == 0:
            return None
        labels, y = self._target(cells)
        names, codes = self._domains(cells)
        weight = None if self.weight is None else cells.numbers(self.weight)
        if weight is not None and not np.all(weight >= 0):
            found = "has entries that are missing or below 0"
            raise InputError(f"column {self.weight!r}", found, "give weights ≥ 0")
        members = OneDomain(small_codes(codes, len(names)))
        X = self._features(cells)
        if not np.isfinite(X.sum()):
            self._refuse_gaps(X)
        ids = None
        if self.id is not None:
            codes, values = cells.levels(self.id)
            ids = np.array(values)[codes]
        return Chunk(X, y, labels, members, names, weight, ids)

    def _features(self, cells: ArrowCells) -> Any:
        if not self.is_plain:
            return matrix(self.columns, cells)
        X = np.empty((len(cells), len(self.columns)))
        for j, name in enumerate(self.columns):
            X[:, j] = cells.as_floats(name)
        return X

    def _refuse_gaps(self, X: Any) -> None:
        if not self.is_plain:
            raise InputError("X", "has entries whose sum is no number", "scale the columns")
        bad = ~np.isfinite(X)
        for j in np.flatnonzero(bad.any(axis=0)):
            row = int(np.argmax(bad[:, j]))
            found = (
                f"has {int(bad[:, j].sum())} missing or infinite entries, the first in row {row}"
            )
            fix = "fill them in, or take columns='auto', which marks them"
            raise InputError(f"column {self.columns[j]!r}", found, fix)

    def _target(self, cells: ArrowCells) -> tuple[NDArray[Any] | None, NDArray[Any]]:
        if self.takes_classes:
            return self._names(cells, self.target)
        y = cells.numbers(self.target)
        if not np.all(np.isfinite(y)):
            found = "has infinite or missing entries"
            raise InputError(f"column {self.target!r}", found, "correct them")
        return None, y

    def _domains(self, cells: ArrowCells) -> Coded:
        """Names of the domains, and the place of every row among them."""
        if not self.domains:
            return np.array(["all"]), np.zeros(len(cells), dtype=np.intp)
        coded = [self._names(cells, name) for name in self.domains]
        return combined(coded, list(self.domains))[0]

    def _names(self, cells: ArrowCells, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Sorted names and the place of every row among them."""
        column = cells.column(name)
        if name not in self.words and is_number(column.type):
            return encode(name, column.to_numpy(zero_copy_only=False), len(cells))
        if name in self.words:
            codes, titles = cells.levels(name)
            values: Sequence[Any] = titles
        else:
            codes, values = cells.coded(name)
        seen = np.bincount(codes, minlength=len(values)) > 0
        found = np.array([v for v, here in zip(values, seen, strict=True) if here])
        order = np.argsort(found, kind="stable")
        place = np.zeros(len(values), dtype=np.intp)
        place[np.flatnonzero(seen)[order]] = np.arange(len(found))
        return found[order], place[codes]
