"""Parquet files, one or thousands, as a problem for the solvers: row groups are the chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any

from numpy.typing import ArrayLike

from anymix.errors import InputError
from anymix.partitions.arrow_cells import ArrowCells
from anymix.partitions.batches import Batches, Kept, scanned
from anymix.partitions.chunks import named
from anymix.partitions.prefetch import in_order
from anymix.partitions.streamed import Log, Streamed
from anymix.partitions.table_recipes import Wanted, column_names, recipe_of
from anymix.problem.losses import Loss

__all__ = ["from_parquet"]

BATCH = 65_536  # rows that are worked on together
KEPT = 400_000_000  # bytes: two million rows of 20 numbers


def from_parquet(
    source: Any,
    target: str,
    domain: str | Sequence[str] | None,
    features: Sequence[str] | None = None,
    columns: Any = "auto",
    *,
    loss: Loss | None = None,
    weight: str | None = None,
    id: str | None = None,
    filter: Any = None,
    filesystem: Any = None,
    partitioning: Any = "hive",
    intercept: bool = True,
    classes: ArrayLike | None = None,
    threads: int | None = None,
    batch_rows: int = BATCH,
    keep: int = KEPT,
    dense_up_to: int = 600,
) -> Streamed:
    """L_k(w) = (1/m_k) Σ_{i in domain k} ℓ(⟨w, (x_i, 1)⟩, y_i) over the rows of Parquet files.

    Columns are encoded as `anymix fit` does it: numbers are standardised, categories become 0/1
    columns, missing values are marked. What is needed for that is learnt in one pass (in two where
    numbers are missing in a column of more than 65,536, for its median). Rows without a target are
    left out.

    Parameters
    ----------
    source : path-like, list of path-like or pyarrow.dataset.Dataset
        A file, a folder, several files, or a dataset.
    target : str
        The column to predict: classes if it holds words or up to ten whole numbers.
    domain : str, sequence of str or None
        The column whose values are the domains; of several, their combinations; None is one
        domain. A partition of the folder, as in `region=north/`, is a column too.
    features : sequence of str, optional
        The columns to learn from; by default all others.
    columns : "auto", "plain" or sequence of columns
        "plain" takes numbers as they are. What an earlier problem has learnt, its `columns`, may be
        given, for rows that are to be judged.
    loss : Loss, optional
        The loss ℓ; by default CrossEntropy for classes, SquaredError for numbers.
    weight : str, optional
        The column of the rows' weights.
    id : str, optional
        The column by which `folds` deals rows out; by default their numbers.
    filter : pyarrow.dataset.Expression, optional
        Which rows count.
    filesystem : pyarrow.fs.FileSystem, optional
        Where the paths are, if not on this machine.
    partitioning : str or pyarrow.dataset.Partitioning
        How folders name columns, as `pyarrow.dataset.dataset` takes it.
    intercept : bool
        Whether the model has an intercept.
    classes : array-like, optional
        All classes there are; by default those that occur.
    threads : int, optional
        How many chunks are summed at once; None is one for each core.
    batch_rows : int
        How many rows are worked on together, at most.
    keep : int
        Rows that take no more than so many bytes as numbers are kept in memory once they were
        read; 0 keeps none.
    dense_up_to : int
        The largest number of parameters for which a pass brings the curvature along.

    Returns
    -------
    Streamed
        Its `feature_names` are those of the columns of X, `columns` is what was learnt of them, and
        `notes` say what was left out.

    Examples
    --------
    >>> import tempfile
    >>> import anymix as ax
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> rng = np.random.default_rng(0)
    >>> table = pa.table({
    ...     "age": rng.normal(40, 10, 2000),
    ...     "city": rng.choice(["Oslo", "Rome"], 2000),
    ...     "region": rng.choice(["north", "south"], 2000),
    ...     "bought": rng.integers(2, size=2000),
    ... })
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(table, folder + "/people.parquet", row_group_size=500)
    ...     problem = from_parquet(folder, target="bought", domain="region")
    ...     solution = ax.solve(problem)
    >>> problem.feature_names, solution.certificate.gap < 1e-6
    (['age', 'city=Oslo', 'city=Rome'], True)
    """
    numbers: Any = (("keep", keep, 0), ("batch_rows", batch_rows, 1))
    for name, value, least in numbers:
        if not isinstance(value, int) or value < least:
            raise InputError(name, f"is {value!r}", f"give a whole number ≥ {least}")
    data = _dataset(source, filesystem, partitioning)
    _check_files(data, filter)
    domains = column_names(domain)
    wanted = Wanted(target, domains, features, columns, weight, loss, id)
    files, log = _Files(data, filter, batch_rows), Log()

    def visit(work: Callable[[Any, int], Any], names: Sequence[str]) -> Iterable[Any]:
        return files.visit(work, names, threads)

    recipe, found_loss, notes = recipe_of(wanted, data.schema, visit, log)
    fits = 8 * data.count_rows() * len(recipe.titles) <= keep
    kept = Kept(files.check) if fits else None
    batches = Batches(lambda: files.read(recipe.needs), recipe.chunk, files.where, threads, kept)
    problem = scanned(
        batches,
        found_loss,
        intercept=intercept,
        classes=classes,
        log=log,
        dense_up_to=dense_up_to,
    )
    problem.feature_names, problem.columns, problem.notes = recipe.titles, recipe.columns, notes
    return problem


def _dataset(source: Any, filesystem: Any, partitioning: Any) -> Any:
    try:
        from pyarrow import ArrowInvalid
        from pyarrow import dataset as ds
    except ImportError:
        fix = "pip install 'anymix[parquet]'"
        raise InputError("from_parquet", "needs pyarrow", fix) from None
    if isinstance(source, ds.Dataset):
        return source
    many = isinstance(source, list | tuple)
    paths = [_path(p) for p in source] if many else _path(source)
    options = {"format": "parquet", "filesystem": filesystem, "partitioning": partitioning}
    try:
        found = ds.dataset(paths, **options)
    except (ArrowInvalid, OSError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise InputError("source", f"cannot be read ({reason})", "give Parquet files") from None
    if not found.files:
        raise InputError("source", f"has no Parquet file ({source})", "give another folder")
    return found


def _check_files(data: Any, filter: Any) -> None:
    from pyarrow import ArrowInvalid

    try:
        first = next(iter(data.get_fragments(filter=filter)), None)
    except (ArrowInvalid, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        fix = "give an expression such as pyarrow.dataset.field('age') > 17"
        raise InputError("filter", f"cannot be used ({reason})", fix) from None
    if first is not None and not hasattr(first, "path"):
        raise InputError("source", "is a dataset without files", "give one of files")


def _path(source: Any) -> str:
    if not isinstance(source, str | PathLike):
        fix = "give a path, a list of paths, or a dataset of pyarrow"
        raise InputError("source", f"is a {type(source).__name__}", fix)
    return fspath(source)


@dataclass(eq=False)
class _Files:
    """The files of a dataset, read row group by row group, and what they were like at first."""

    data: Any
    filter: Any
    batch_rows: int
    places: list[str] = field(default_factory=list)  # file and row group of every chunk
    states: dict[str, Any] = field(default_factory=dict)  # file: size and time of the last change

    def where(self, number: int) -> str:
        """What to call a chunk."""
        return self.places[number] if number < len(self.places) else f"chunk {number}"

    def read(self, names: Sequence[str]) -> Iterator[Any]:
        """All batches from the first on."""
        number = 0
        for fragment in self.data.get_fragments(filter=self.filter):
            self._check(fragment)
            for place, group in self._groups(fragment):
                for batch in self._batches(group, names, place):
                    if number == len(self.places):
                        self.places.append(place)
                    number += 1
                    yield batch
            self._check(fragment)

    def check(self) -> None:
        """Refuse files that are no longer what they were."""
        for fragment in self.data.get_fragments(filter=self.filter):
            self._check(fragment)

    def _groups(self, fragment: Any) -> list[tuple[str, Any]]:
        """Row groups and what to call them; of CSV and other files there is one."""
        if not hasattr(fragment, "split_by_row_group"):
            return [(fragment.path, fragment)]
        with _faults(fragment.path):
            found: list[Any] = fragment.split_by_row_group(schema=self.data.schema)
        return [(f"{fragment.path}, row group {group.row_groups[0].id}", group) for group in found]

    def _batches(self, group: Any, names: Sequence[str], place: str) -> Iterator[Any]:
        options = {"schema": self.data.schema, "columns": list(names), "filter": self.filter}
        few = {"batch_size": self.batch_rows, "batch_readahead": 2, "fragment_readahead": 1}
        with _faults(place, lambda: self._others(group, names)):
            yield from group.to_batches(**options, **few)

    def _others(self, group: Any, names: Sequence[str]) -> str:
        """The columns that are of another type in the first file, in words."""
        here, first = group.physical_schema, self.data.schema
        both = [name for name in names if name in here.names and name in first.names]
        pairs = {name: (here.field(name).type, first.field(name).type) for name in both}
        said = [
            f"{n!r} holds {a} here, but {b} in the first" for n, (a, b) in pairs.items() if a != b
        ]
        return f"column {', '.join(said)}; " if said else ""

    def _check(self, fragment: Any) -> None:
        """Refuse a file that is no longer what it was."""
        with _faults(fragment.path):
            info = fragment.filesystem.get_file_info(fragment.path)
        state = info.size, info.mtime
        if self.states.setdefault(fragment.path, state) != state:
            fix = "leave it alone until the end, or work on a copy"
            raise InputError(fragment.path, "was changed while it was being read", fix)

    def visit(
        self, work: Callable[[Any, int], Any], names: Sequence[str], threads: int | None
    ) -> Iterator[Any]:
        """One pass over the cells of some columns."""

        def both(item: tuple[int, Any]) -> Any:
            number, batch = item
            with named(self.where(number)):
                return work(ArrowCells(batch), number << 32)

        yield from in_order(enumerate(self.read(names)), both, threads)


class _faults:  # noqa: N801 - reads as a word in `with`
    """Says of a fault of Arrow, or of the disk, where it was, and what may be the reason."""

    def __init__(self, place: str, hint: Callable[[], str] = str) -> None:
        self.place, self.hint = place, hint

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        from pyarrow import ArrowException

        if isinstance(error, ArrowException | OSError):
            hint, reason = self.hint(), " ".join(str(error).split())[:200]
            fix = "if the file was changed or cut, write it anew and start again"
            fix = "write all files with the same types" if hint else fix
            raise InputError(self.place, f"cannot be read ({hint}{reason})", fix) from error
