"""Rows of a table on disk sorted by domain: which domain each is in, and numbers in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing.stretched import Stretched
from anymix.errors import InputError
from anymix.problem.cells import combined
from anymix.tables.labels import MOST_DOMAINS, coded_column
from anymix.tables.spooling import Spool

__all__ = ["SortedRows", "StretchedDomains"]


class StretchedDomains:
    """The domains of a table on disk, as `domain_codes` has them.

    Parameters
    ----------
    spool : Spool
        The table.
    columns : sequence of str
        The columns that make the domains.

    Attributes
    ----------
    names : ndarray of shape (p,)
        The domains, sorted.
    sizes : ndarray of int, shape (p,)
        The rows of each.
    n_empty : int
        Combinations that have no row.
    """

    def __init__(self, spool: Spool, columns: Sequence[str]) -> None:
        self._spool, self._columns = spool, list(columns)
        self._levels = [self._all_levels(name) for name in columns]
        counts: dict[int, int] = {}
        for rows in spool.stretches():
            cells, times = np.unique(self._cells(rows), return_counts=True)
            for cell, count in zip(cells.tolist(), times.tolist(), strict=True):
                counts[cell] = counts.get(cell, 0) + count
        self._known = np.array(sorted(counts))
        shape = [len(levels) for levels in self._levels]
        each = zip(self._levels, np.unravel_index(self._known, shape), strict=True)
        (self.names, self._place), self.n_empty = combined(list(each), self._columns)
        self.sizes = np.zeros(len(self.names), dtype=np.int64)
        self.sizes[self._place] = [counts[cell] for cell in self._known.tolist()]

    def codes(self, rows: slice) -> NDArray[np.intp]:
        """The place of each row's domain among the names."""
        return np.asarray(self._place[np.searchsorted(self._known, self._cells(rows))])

    def _all_levels(self, name: str) -> NDArray[Any]:
        levels = np.array([])
        for rows in self._spool.stretches():
            here, _ = coded_column(self._spool.frame([name], rows), name)
            levels = np.unique(np.concatenate([levels, here])) if len(levels) else here
            if len(levels) > MOST_DOMAINS:
                found = f"has over {MOST_DOMAINS:,} different values"
                raise InputError(f"column {name!r}", found, "group its values first")
        return levels

    def _cells(self, rows: slice) -> NDArray[np.intp]:
        """A number for the combination of levels that each row has."""
        frame = self._spool.frame(self._columns, rows)
        coded = [coded_column(frame, name) for name in self._columns]
        places = [
            np.searchsorted(levels, here)[codes]
            for levels, (here, codes) in zip(self._levels, coded, strict=True)
        ]
        return np.asarray(np.ravel_multi_index(places, [len(levels) for levels in self._levels]))


class SortedRows:
    """Numbers of rows in files, those of a domain side by side, in the order of the table.

    Parameters
    ----------
    path : str
        What the names of the files begin with.
    sizes : ndarray of int, shape (p,)
        The rows of each domain.
    """

    def __init__(self, path: str, sizes: NDArray[np.int64]) -> None:
        self._path, self._n = path, int(sizes.sum())
        self._next = np.append(0, np.cumsum(sizes))[:-1]  # where the next row of each goes
        self._kinds: dict[str, np.dtype[Any]] = {}

    def add(self, arrays: Mapping[str, NDArray[Any]], codes: NDArray[np.intp]) -> None:
        """The next rows of the table, and their domains."""
        order = np.argsort(codes, kind="stable")
        present, first = np.unique(codes[order], return_index=True)
        bounds = [*first.tolist(), len(order)]
        for name, values in arrays.items():
            kind = self._kinds.setdefault(name, values.dtype)
            ordered = np.ascontiguousarray(values[order], dtype=kind)
            with self._place(name).open("r+b" if self._place(name).exists() else "wb") as file:
                for i, k in enumerate(present.tolist()):
                    file.seek(int(self._next[k]) * kind.itemsize)
                    file.write(ordered[bounds[i] : bounds[i + 1]].tobytes())
        self._next[present] += np.diff(bounds)

    def column(self, name: str) -> Stretched:
        """The numbers of all rows, sorted by domain."""
        kind, place = self._kinds[name], self._place(name)

        def read(start: int, stop: int) -> NDArray[Any]:
            return np.fromfile(place, kind, stop - start, offset=start * kind.itemsize)

        return Stretched(self._n, read)

    def _place(self, name: str) -> Path:
        return Path(f"{self._path}-{list(self._kinds).index(name)}.numbers")
