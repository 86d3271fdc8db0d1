"""Audits of a table on disk: losses are put on disk too, sorted by domain, and read in chunks.

Sums, means, extremes and counts are those of all rows, to rounding. What needs all rows side by
side, the AUC and the search for segments, is done on rows drawn at random, and a note says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing import Audit
from anymix.auditing.audits import assembled, level
from anymix.auditing.intervals import Estimate
from anymix.auditing.measures import RootMeanSquare, Score, Share, UnboundedLoss
from anymix.auditing.metrics import asked_measures, other_than_rates
from anymix.auditing.predictions import Predictions, read_predictions
from anymix.auditing.scores import calibration
from anymix.auditing.stretched import Run, Stretched
from anymix.errors import InputError
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.problem.cells import combined
from anymix.tables.audited import Given, in_arguments
from anymix.tables.frames import pandas
from anymix.tables.labels import MOST_DOMAINS, coded_column
from anymix.tables.spooling import Spool, room

DRAWN = 100_000  # rows that are drawn of more, where all would have to be sorted
MOST_LABELS = 1_000  # different values of a column that are looked at to tell what it is

__all__ = ["AuditOnDisk", "SortedRows", "StretchedDomains", "audit_spool", "drawn_rows"]


class StretchedDomains:
    """The domains of a table on disk, as `domain_codes` has them."""

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
    """Numbers of rows in files, those of a domain side by side, in the order of the table."""

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


@dataclass(frozen=True, eq=False)
class AuditOnDisk:
    """Audits, and the files that they read from."""

    audits: dict[str, Audit]
    witness: Any
    notes: list[str]
    folder: Any

    def close(self) -> None:
        """Remove the files."""
        self.folder.cleanup()


def audit_spool(
    spool: Spool,
    domains: Sequence[str],
    *,
    loss: str | None = None,
    mixtures: Mixtures = "simplex",
    confidence: float = 0.95,
    loss_bound: float | None = None,
    guarantee: float | None = None,
    metrics: Any = None,
    weight: str | None = None,
    **columns: Any,
) -> AuditOnDisk:
    """`audit_frame` of a table on disk, in memory that does not grow with its rows."""
    # Weights, several targets and metrics other than rates are for tables that fit into memory.
    confidence = level(confidence)
    given = Given.of(**columns)
    _check_small(metrics=other_than_rates(metrics), weight=weight, target=len(given.targets) > 1)
    for name in (*domains, *given.columns):
        spool.check(name)
    _check_gaps(spool, given.columns)
    witness, places = _witness(spool, given.columns), StretchedDomains(spool, domains)
    Λ = target_mixtures(mixtures, None, places.sizes.astype(np.float64), places.names.tolist())
    ends = np.append(0, np.cumsum(places.sizes)).tolist()
    parts = {name: Run(*ends[k : k + 2]) for k, name in enumerate(places.names.tolist())}
    folder = tempfile.TemporaryDirectory(prefix="anymix-")
    audits = {}
    try:
        with room(folder.name):
            stores = _written(spool, given, loss, metrics, witness, places, folder.name)
        for argument, (read, store) in stores.items():
            with in_arguments(argument):
                audits[", ".join(given.models[argument])] = assembled(
                    _on_disk(read, store),
                    parts,
                    Run(0, len(spool)),
                    Λ,
                    confidence=confidence,
                    loss_bound=loss_bound,
                    guarantee=guarantee,
                    n_empty_cells=places.n_empty,
                )
    except BaseException:
        folder.cleanup()
        raise
    return AuditOnDisk(audits, witness, _notes(audits, places.sizes), folder)


def _check_small(**asked: Any) -> None:
    """What is asked for must not need all rows in memory."""
    for name, value in asked.items():
        if value:
            found = "is given, but the table is larger than the memory allowed"
            fixes = {"target": "name one target only", "metrics": "ask for 'rates' only"}
            fix = fixes.get(name, "leave it out")
            raise InputError(name, found, f"{fix}, or allow more memory")


def _notes(audits: dict[str, Audit], sizes: NDArray[np.int64]) -> list[str]:
    notes = ["larger than the memory allowed: read in stretches from disk"]
    if sizes.sum() > DRAWN and any("auc" in found.metrics for found in audits.values()):
        notes.append(f"auc: where there are more than {DRAWN:,} rows, of so many drawn at random")
    return notes


def drawn_rows(spool: Spool, count: int = DRAWN) -> Any:
    """A frame of about so many rows, drawn at random; of all if there are no more."""
    places = _drawn(len(spool), count)
    frames = []
    for rows in spool.stretches():
        first, last = np.searchsorted(places, (rows.start, rows.stop))
        frames.append(spool.frame(spool.columns, rows).iloc[places[first:last] - rows.start])
    frame = pandas().concat(frames, ignore_index=True)
    frame.attrs = spool.attrs
    return frame


def _drawn(n: int, count: int) -> NDArray[np.intp]:
    """About `count` of n places, sorted; all if there are no more."""
    if n <= count:
        return np.arange(n)
    return np.unique(np.random.default_rng(0).integers(n, size=count))


def _check_gaps(spool: Spool, names: Sequence[str]) -> None:
    for name in names:
        frames = (spool.frame([name], rows) for rows in spool.stretches())
        missing = sum(int(frame[name].isna().sum()) for frame in frames)
        if missing:
            odd = spool.attrs.get("notes", {}).get(name, "")
            found = f"has {missing:,} missing values" + (f" ({odd})" if odd else "")
            raise InputError(f"column {name!r}", found, "drop those rows or fill them in")


def _witness(spool: Spool, names: Sequence[str]) -> Any:
    """Rows by which every stretch is read like the whole: all labels, and the ends of numbers."""
    kept: list[Any] = []
    seen: dict[str, set[Any]] = {name: set() for name in names}
    ends: dict[tuple[str, str], tuple[float, Any]] = {}
    for rows in spool.stretches():
        frame = spool.frame(names, rows)
        for name in names:
            values = frame[name]
            whole = values.dtype.kind != "f" or bool((values % 1 == 0).all())
            if whole and len(seen[name]) <= MOST_LABELS:
                new = values.drop_duplicates()
                new = new[~new.isin(seen[name])][:MOST_LABELS]
                seen[name] |= set(new.tolist())
                kept.append(frame.loc[new.index])
            if values.dtype.kind in "iuf":
                _keep_ends(ends, name, values, frame)
    witness = pandas().concat([*kept, *(row for _, row in ends.values())], ignore_index=True)
    witness.attrs = spool.attrs
    return witness


def _keep_ends(ends: dict[Any, Any], name: str, values: Any, frame: Any) -> None:
    """The rows of the least and the largest number, and of one with a fraction."""
    x = values.to_numpy(dtype=np.float64)
    for what, key in (("least", x), ("largest", -x), ("fraction", -(x % 1 != 0).astype(float))):
        i = int(np.argmin(key))
        if (name, what) not in ends or key[i] < ends[name, what][0]:
            ends[name, what] = float(key[i]), frame.iloc[i : i + 1]


def _written(
    spool: Spool,
    given: Given,
    loss: str | None,
    metrics: Any,
    witness: Any,
    places: StretchedDomains,
    folder: str,
) -> dict[str, tuple[Predictions, SortedRows]]:
    """For each model what its columns are, and its numbers row by row on disk."""
    found: dict[str, tuple[Predictions, SortedRows]] = {}
    for rows in spool.stretches():
        frame = spool.frame(given.columns, rows)
        both = pandas().concat([witness, frame], ignore_index=True)
        both.attrs = spool.attrs
        y, said, known = given.entries(both)
        codes = places.codes(rows)
        for argument in said:
            with _at(rows), in_arguments(argument):
                read = read_predictions(y, said[argument], loss, known, np.arange(len(both)))
                read.measures.update(asked_measures(metrics, read, y, said[argument], None))
            if argument not in found:
                found[argument] = read, SortedRows(f"{folder}/{argument}", places.sizes)
            arrays = {name: values[len(witness) :] for name, values in _arrays(read).items()}
            found[argument][1].add(arrays, codes)
    return found


class _at:  # noqa: N801 - reads as a word in `with`
    """Says of a refusal in which rows it was."""

    def __init__(self, rows: slice) -> None:
        self.rows = rows

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, InputError):
            found = f"{error.found} (in rows {self.rows.start:,} to {self.rows.stop:,})"
            raise InputError(error.argument, found, error.fix) from error


def _arrays(read: Predictions) -> dict[str, NDArray[Any]]:
    """What is needed of each row, by name."""
    found: dict[str, NDArray[Any]] = {"loss": read.row_losses}
    for name, measure in read.measures.items():
        found |= {f"{name}.{part}": values for part, values in _parts(measure)}
    return found | {f"{name}.row": values for name, values in read.row_metrics.items()}


def _parts(measure: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    if isinstance(measure, RootMeanSquare):
        yield from _parts(measure.half_squares)
    elif isinstance(measure, Share):
        yield "hits", measure.hits
        if measure.among is not None:
            yield "among", measure.among
    elif isinstance(measure, Score):
        yield from (("q", measure.q), ("happened", measure.happened))
    else:
        yield "losses", measure.losses


def _on_disk(read: Predictions, store: SortedRows) -> Predictions:
    """The predictions of all rows, whose numbers are on disk."""
    measures = {name: _measure(name, m, store) for name, m in read.measures.items()}
    metrics = {name: store.column(f"{name}.row") for name in read.row_metrics}
    row_losses: Any = store.column("loss")  # stands where an array does
    whole: Any = read._replace(row_losses=row_losses, measures=measures, answers=None)
    found: Predictions = whole._replace(row_metrics=metrics)
    return found


def _measure(name: str, measure: Any, store: SortedRows) -> Any:
    if isinstance(measure, RootMeanSquare):
        return RootMeanSquare(_measure(name, measure.half_squares, store))
    if isinstance(measure, Share):
        among = None if measure.among is None else store.column(f"{name}.among")
        return Share(store.column(f"{name}.hits"), among)  # type: ignore[arg-type]
    if isinstance(measure, Score):
        q, happened = store.column(f"{name}.q"), store.column(f"{name}.happened")
        kind: Any = Score if measure.interval is calibration else _DrawnScore
        return kind(measure.interval, q, happened)
    x: Any = store.column(f"{name}.losses")
    smallest = measure.least if measure.least > -np.inf else float(x.min())
    return UnboundedLoss(x, measure.least, smallest, float(np.mean(np.abs(x))))


@dataclass(frozen=True, eq=False)
class _DrawnScore:
    """A score that has to sort its rows: of some of them, drawn at random, where they are many."""

    interval: Any
    q: Any
    happened: Any
    kind = "approximate"

    def of(self, rows: Run, confidence: float) -> Estimate:
        """The number of these rows, with its interval."""
        places = _drawn(len(rows), DRAWN)
        q, happened = (np.asarray(values[rows][places]) for values in (self.q, self.happened))
        found: Estimate = self.interval(q, happened, confidence)
        return found

    def of_each(self, parts: Sequence[Run], confidence: float) -> list[Estimate]:
        """The same of several runs."""
        return [self.of(rows, confidence) for rows in parts]
