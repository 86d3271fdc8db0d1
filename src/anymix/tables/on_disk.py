"""A table on disk made ready to fit: what `preparing.Table` does in memory, in stretches.

Labels, that is targets and domains, are in memory: a few bytes a row, by which rows are dealt out
as fairly as those of any table, and to the same parts. All else is read when it is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.partitions.batches import Batches, scanned
from anymix.partitions.chunks import Chunk
from anymix.partitions.learning import finished, sums_of
from anymix.partitions.prefetch import in_order
from anymix.partitions.streamed import Log
from anymix.problem.rows import ALL, Part, Rows, dense_if_small
from anymix.tables.columns import Features, FrameCells
from anymix.tables.preparing import Table, followed_by
from anymix.tables.spooling import Spool

Places = NDArray[np.int32]

__all__ = ["OnDiskRows", "OnDiskTable"]


@dataclass(frozen=True, eq=False)
class Piece:
    """A spool, and the place of each of its rows among all; −1 for one that does not count."""

    spool: Spool
    places: Places


Stretch = tuple[Piece, slice]


def stretches(pieces: Sequence[Piece]) -> Iterator[Stretch]:
    """All rows of some pieces, a stretch at a time."""
    for piece in pieces:
        for rows in piece.spool.stretches():
            yield piece, rows


class OnDiskTable(Table):
    """A table on disk to fit, and how its models are judged; see `Table`."""

    frame: Any  # a Spool
    test: Any

    def _opened(self, frame: Spool) -> tuple[Spool, list[str]]:
        """The spool, its rows without a target marked; and a note on these."""
        self._log = Log()
        for name in (self.target, *self.domains):
            frame.check(name)
        missing, notes = self._unlabelled(frame.frame([self.target, *self.domains]))
        places = np.cumsum(~missing, dtype=np.int32) - 1
        places[missing] = -1
        self._piece = Piece(frame, places)
        self._pieces = [self._piece]
        return frame, notes

    def _labels(self) -> Any:
        """Target and domains of the rows that count."""
        grouped = [] if self.group is None else [self.group]
        for name in (self.target, *self.domains, *grouped):
            self.frame.check(name)
        frame = self.frame.frame([self.target, *self.domains, *grouped])
        counts = self._piece.places >= 0
        return frame if counts.all() else frame[counts]

    def _check_column(self, name: str) -> None:
        self.frame.check(name)

    def _reorder(self, order: NDArray[np.intp]) -> None:
        """Nothing is moved: the places of the rows are."""
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        old = self._piece.places
        self._piece = Piece(self.frame, np.where(old >= 0, place[old], np.int32(-1)))
        self._pieces = [self._piece]

    def follow_with(self, test: Spool) -> None:
        """Judge on the rows of another table on disk, which come after this one's."""
        labels = test.frame([self.target, *self.domains])
        missing, _ = self._unlabelled(labels)
        places = np.cumsum(~missing, dtype=np.int32) - 1 + np.int32(self.n)
        places[missing] = -1
        self.test, self.has_test = test, True
        self._pieces = [self._piece, Piece(test, places)]
        for c in self.features.columns:
            unseen = Features((c,)).unseen(test.frame([c.name]))
            self.notes += [f"the test file, {note}" for note in unseen]
        merged = set(self.merged)
        self.rows = followed_by(self.rows, labels[~missing], self.target, self.domains, merged)
        held_out = slice(self.n, len(self.rows))
        self.splits, self.judged_on = [(slice(0, self.n), held_out)], "the rows of the test file"

    def _learn(self, part: Part) -> tuple[Features, list[str]]:
        """The features of a part of the rows, in a pass or two."""
        counts = np.zeros(len(self._piece.places) + 1, dtype=bool)
        counts[: self.n][part] = True
        spool, places = self._piece.spool, self._piece.places

        def visit(work: Any, names: Sequence[str] | None = None) -> Iterator[Any]:
            wanted, begun = names or work.names, time.perf_counter()

            def look(rows: slice) -> Any:
                frame = spool.frame(list(wanted), rows)
                frame = frame[counts[places[rows]]]  # the place −1 is that of False
                return work(FrameCells(frame), rows.start) if len(frame) else None

            yield from (f for f in in_order(spool.stretches(), look) if f is not None)
            self._log.add("columns", begun)

        sums: list[Any] = []
        for found in visit(partial(sums_of, self._kinds), self.names):
            for known, new in zip(sums, found, strict=bool(sums)):
                known.add(new)
            sums = sums or found
        dates = [name for name, kind in self._kinds.items() if kind == "date"]
        columns, notes = finished(sums, visit, dates, all_medians=True)
        return Features(columns), notes

    @property
    def _kinds(self) -> dict[str, str]:
        """Whether each column holds numbers, categories or dates."""
        spool = self._piece.spool
        dates = spool.attrs.get("dates", ())
        kinds = {n: "number" if spool.is_number(n) else "category" for n in self.names}
        return kinds | {n: "date" for n in self.names if n in dates}

    def with_numbers(self, features: Features) -> Any:
        """All rows, whose X is made when it is needed."""
        return OnDiskRows(self.rows, self._pieces, features, self._log)

    def let_go(self) -> None:
        """Nothing is in memory."""

    def _hints(self) -> list[str]:
        """Nothing is looked for: it would take more passes."""
        return []

    @property
    def closing_notes(self) -> list[str]:
        """How often the table was read."""
        count = len(self._log.seconds)
        return [f"larger than the memory allowed: read in stretches from disk, {count} passes"]


class InPart:
    """The number that a row at some place has in a part of n rows."""

    def __init__(self, part: Part, n: int) -> None:
        self._start = self._stop = 0
        self._numbers: Places | None = None
        if isinstance(part, slice) and part.step in (None, 1):  # needs no list of all places
            self._start, self._stop, _ = part.indices(n)
            return
        places = np.arange(n, dtype=np.int32)[part]
        self._stop = len(places)
        self._numbers = np.full(n + 1, -1, dtype=np.int32)  # the last is for rows that do not count
        self._numbers[places] = np.arange(len(places), dtype=np.int32)

    def __len__(self) -> int:
        return self._stop - self._start

    def numbers(self, places: Places) -> Places:
        """The number of each place in the part, −1 if it is not in it."""
        if self._numbers is not None:
            return self._numbers[places]
        inside = (places >= self._start) & (places < self._stop)
        return np.where(inside, places - np.int32(self._start), np.int32(-1))


@dataclass(frozen=True, eq=False)
class OnDiskRows:
    """Rows of a table on disk that learners take for `Rows`."""

    labels: Rows
    pieces: Sequence[Piece]
    features: Features
    log: Log
    prepare: Callable[[Rows], Rows] = field(default=lambda rows: rows)

    @property
    def y(self) -> NDArray[Any]:
        """Codes of the classes, or numbers."""
        return self.labels.y

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes; None in regression."""
        return self.labels.classes

    @property
    def domains(self) -> Any:
        """Which rows are in which domain."""
        return self.labels.domains

    @property
    def names(self) -> NDArray[Any]:
        """Names of the domains."""
        return self.labels.names

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        first = partial(self._rows, part=InPart(slice(0, 1), len(self)))
        found = next(f for f in map(first, self._all()) if f is not None)
        return found[0].n_features

    @property
    def n_scores(self) -> int:
        """1, or K for K ≥ 3 classes."""
        return self.labels.n_scores

    @property
    def intercept(self) -> bool:
        """Whether the model has an intercept."""
        return self.labels.intercept

    def __len__(self) -> int:
        return len(self.labels)

    def sizes(self, part: Part = ALL) -> Any:
        """m (p,)."""
        return self.labels.sizes(part)

    def first(self, n: int) -> OnDiskRows:
        """The first n rows."""
        pieces = [Piece(p.spool, np.where(p.places < n, p.places, -1)) for p in self.pieces]
        return replace(self, labels=self.labels.take(slice(0, n)), pieces=pieces)

    def mapped(self, f: Callable[[Rows], Rows]) -> OnDiskRows:
        """The same, with something more done to the rows of every stretch."""
        return replace(self, prepare=lambda rows: f(self.prepare(rows)))

    def _all(self) -> Iterator[Stretch]:
        return stretches(self.pieces)

    def _rows(self, stretch: Stretch, part: InPart) -> tuple[Rows, Places] | None:
        """The rows of a stretch that are in a part, and their numbers in it."""
        piece, rows = stretch
        places = piece.places[rows]
        numbers = part.numbers(places)
        chosen = np.flatnonzero(numbers >= 0)
        if not len(chosen):
            return None
        names = [c.name for c in self.features.columns]
        frame = piece.spool.frame(names, rows)
        frame = frame if len(chosen) == len(places) else frame.iloc[chosen]
        labels = replace(self.labels, y=self.y[places[chosen]])
        labels = replace(labels, domains=self.domains.take(places[chosen]))
        found = labels.with_features(self.features.transform(frame))
        return self.prepare(found), numbers[chosen]

    def _visit(self, part: InPart, work: Callable[[Rows, Places], Any]) -> Iterator[Any]:
        """One pass over a part."""
        begun = time.perf_counter()

        def both(stretch: Stretch) -> Any:
            found = self._rows(stretch, part)
            return None if found is None else work(*found)

        yield from (r for r in in_order(self._all(), both) if r is not None)
        self.log.add("rows", begun)

    def take(self, part: Part) -> Rows:
        """A part of the rows, brought into memory."""
        asked = InPart(part, len(self))
        found = list(self._visit(asked, lambda rows, numbers: (rows.X, numbers)))
        order = np.argsort(np.concatenate([numbers for _, numbers in found]))
        stack: Any = sparse.vstack if sparse.issparse(found[0][0]) else np.vstack
        X = stack([X for X, _ in found])
        X = sparse.csr_array(X)[order] if sparse.issparse(X) else X[order]
        return self.labels.take(part).with_features(dense_if_small(X))

    def applied(self, f: Callable[[Any], Any], part: Part) -> Any:
        """f(X) of the rows of a part, f giving a number or more for each row."""
        asked, result = InPart(part, len(self)), np.empty(0)
        for values, numbers in self._visit(asked, lambda rows, numbers: (f(rows.X), numbers)):
            if not len(result):
                result = np.empty((len(asked), *values.shape[1:]))
            result[numbers] = values
        return result

    def to_fit(self, part: Part = ALL, where: str = "the data") -> Any:
        """The problem of learning from a part, which needs every domain and every class."""
        self.labels.check_classes(part, where)
        self.labels.check_domains(part, where)
        asked, labels = InPart(part, len(self)), self.labels

        def checked(stretch: Stretch) -> Chunk | None:
            found = self._rows(stretch, asked)
            if found is None:
                return None
            rows = found[0]
            return Chunk(rows.X, rows.y, labels.classes, rows.domains, labels.names)

        visit = Batches(self._all, checked, lambda i: f"stretch {i}")
        return scanned(visit, labels.loss, classes=labels.classes, log=self.log)
