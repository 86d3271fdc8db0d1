"""Parts that stay on the workers of a cluster: one small task a part and pass.

What a cluster must do is `Cluster.run`: call a function with each part, where that is, and bring
back what it gives. A part is never moved; what comes back is a few numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from anymix.errors import InputError
from anymix.partitions.arrow_cells import ArrowCells, Recipe, is_number
from anymix.partitions.chunks import Chunk, named, read_chunk
from anymix.partitions.learning import SAMPLE
from anymix.partitions.scanning import Glance, glance, scan_of
from anymix.partitions.streamed import Coder, Log, Streamed
from anymix.partitions.table_recipes import Wanted, recipe_of
from anymix.problem.entries import encode
from anymix.problem.losses import Loss

__all__ = ["Cluster", "problem_of_arrays", "problem_of_tables"]


class Cluster(Protocol):
    """Where the parts are."""

    def run(self, work: Callable[[Any, int], Any], parts: Sequence[Any]) -> list[Any]:
        """work(part, number) of every part, in their order, brought here."""
        ...

    def keep(self, work: Callable[[Any, int], Any], parts: Sequence[Any]) -> list[Any]:
        """The same, but left where it was made: handles for `run`."""
        ...


@dataclass(frozen=True, eq=False)
class _OfArrays:
    """A chunk of the arrays of a part."""

    loss: Loss

    def __call__(self, raw: Any, number: int) -> Chunk | None:
        with named(f"part {number}"):
            return read_chunk(tuple(raw), self.loss)


@dataclass(frozen=True, eq=False)
class _OfTable:
    """A chunk of the table of a part."""

    recipe: Recipe
    schema: Any

    def __call__(self, table: Any, number: int) -> Chunk | None:
        with named(f"part {number}"):
            return self.recipe.chunk(arrow_table(table, self.recipe.needs, self.schema))


@dataclass(frozen=True, eq=False)
class _OfCells:
    """What some work gives for the cells of a part."""

    work: Callable[[ArrowCells, int], Any]
    names: tuple[str, ...]
    schema: Any

    def __call__(self, table: Any, number: int) -> Any:
        with named(f"part {number}"):
            cells = ArrowCells(arrow_table(table, self.names, self.schema))
            return self.work(cells, number << 32)


@dataclass(frozen=True, eq=False)
class _OfChunk:
    """What some work gives for a chunk."""

    work: Callable[[Chunk | None, int], Any]

    def __call__(self, chunk: Chunk | None, number: int) -> Any:
        with named(f"part {number}"):
            return self.work(chunk, number)


@dataclass(frozen=True, eq=False)
class _Glancing:
    """The first look at a chunk."""

    n_parts: int

    def __call__(self, chunk: Chunk | None, number: int) -> Glance | None:
        if chunk is None:
            return None
        return glance(chunk, number << 32, merging=True, n_parts=self.n_parts)


def arrow_table(table: Any, names: Sequence[str], schema: Any) -> Any:
    """Some columns of a table of Arrow, or of a frame of pandas as one of Arrow."""
    # A column without any value, and one of whole numbers that has fractions in other parts, are of
    # the schema's type; a table without rows may lack columns.
    import pyarrow as pa

    if not isinstance(table, pa.Table | pa.RecordBatch):
        table = pa.Table.from_pandas(table, preserve_index=False)
    if table.num_rows == 0:
        return schema.empty_table().select(list(names))
    for name in names:
        if name not in table.schema.names:
            raise InputError(f"column {name!r}", "is missing", "give all parts the same columns")
    table = table.select(list(names))
    for i, name in enumerate(names):
        here, wanted = table.schema.field(i).type, schema.field(name).type
        if here != wanted and (pa.types.is_null(here) or (is_number(here) and is_number(wanted))):
            table = table.set_column(i, name, table.column(i).cast(wanted))
    return table


@dataclass(frozen=True, eq=False)
class _Parts:
    """A pass over the chunks that are kept on the workers."""

    cluster: Cluster
    chunks: Sequence[Any]

    def __call__(self, work: Callable[[Chunk | None, int], Any]) -> Iterator[Any]:
        return iter(self.cluster.run(_OfChunk(work), self.chunks))


def problem_of_arrays(
    cluster: Cluster,
    parts: Sequence[Any],
    loss: Loss,
    *,
    intercept: bool = True,
    classes: ArrayLike | None = None,
    dense_up_to: int = 600,
) -> Streamed:
    """The problem whose parts are tuples (X, y, domains, weight) on workers."""
    made: dict[str, Any] = {"intercept": intercept, "classes": classes, "dense_up_to": dense_up_to}
    return _scanned(cluster, cluster.keep(_OfArrays(loss), parts), loss, Log(), **made)


def problem_of_tables(
    cluster: Cluster,
    parts: Sequence[Any],
    schema: Any,
    wanted: Wanted,
    *,
    intercept: bool = True,
    classes: ArrayLike | None = None,
    dense_up_to: int = 600,
) -> Streamed:
    """The problem whose parts are tables on workers."""
    log = Log()

    def visit(work: Callable[[Any, int], Any], names: Sequence[str]) -> list[Any]:
        return cluster.run(_OfCells(work, tuple(names), schema), parts)

    limit = max(1_000, 4 * SAMPLE // max(1, len(parts)))  # all answers are here at once
    recipe, loss, notes = recipe_of(wanted, schema, visit, log, limit)
    made: dict[str, Any] = {"intercept": intercept, "classes": classes, "dense_up_to": dense_up_to}
    problem = _scanned(cluster, cluster.keep(_OfTable(recipe, schema), parts), loss, log, **made)
    problem.feature_names, problem.columns, problem.notes = recipe.titles, recipe.columns, notes
    return problem


def _scanned(
    cluster: Cluster,
    chunks: Sequence[Any],
    loss: Loss,
    log: Log,
    *,
    intercept: bool,
    classes: ArrayLike | None,
    dense_up_to: int,
) -> Streamed:
    if not chunks:
        raise InputError("", "there are no parts", "give some rows")
    begun = time.perf_counter()
    known = None if classes is None else encode("classes", classes, np.size(classes))[0]
    scan = scan_of(cluster.run(_OfChunk(_Glancing(len(chunks))), chunks), loss, known)
    log.add("sizes and a sample", begun)
    coder = Coder(scan.classes, scan.names, loss, bool(intercept))
    return Streamed(_Parts(cluster, chunks), scan, coder, log, dense_up_to)
