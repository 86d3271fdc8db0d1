"""Dask's frames and arrays: their parts stay on the workers, which sum them up.

Dask puts a part where there is room at the moment, say 9 here and 7 there, and moves tasks while
they wait; then every pass waits for the worker with the most. Here each worker gets parts in turn,
and a pass is one task for each thread, which has all parts that are there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from anymix.errors import InputError
from anymix.partitions.clusters import problem_of_arrays, problem_of_tables
from anymix.partitions.streamed import Streamed
from anymix.partitions.table_recipes import Wanted, column_names
from anymix.problem.losses import CrossEntropy, Loss

TRIES = 3  # Dask may move a task again, for reasons of its own

__all__ = ["dealt", "from_dask", "places", "together", "workers_in_turn"]


def workers_in_turn() -> list[str]:
    """The workers in the order in which parts are dealt out: each as often as it has threads."""
    try:
        from distributed import get_client

        threads: dict[str, int] = get_client().nthreads()
    except (ImportError, ValueError):
        return []
    most = max(threads.values(), default=0)
    return [a for turn in range(most) for a, count in threads.items() if turn < count]


def dealt(task: Callable[[int], Any], parts: Sequence[Any]) -> list[Any]:
    """What tasks make of parts, kept on workers: in turn, but rows that are on one stay there."""
    import dask
    from distributed import get_client, wait
    from distributed.client import futures_of

    if any(futures_of(part) for part in parts):
        return list(dask.persist(*map(task, range(len(parts)))))
    turns = workers_in_turn()
    wanted = [turns[i % len(turns)] for i in range(len(parts))]
    kept = list(dask.persist(*(_on(worker, task, i) for i, worker in enumerate(wanted))))
    for _ in range(TRIES):
        wait(futures_of(kept))
        there = places(kept)
        astray = [i for i, held in enumerate(there) if held and wanted[i] not in held]
        moved = dask.persist(*(_on(wanted[i], dask.delayed(_same), kept[i]) for i in astray))
        for i, part in zip(astray, moved, strict=True):
            kept[i] = part
        if not astray:
            break
    get_client().run_on_scheduler(_freed, keys=[f.key for f in futures_of(kept)])
    return kept


def _freed(keys: Sequence[Any], dask_scheduler: Any) -> None:
    """From now on any worker may make these parts again, and what they are made of."""
    # When all workers are lost at once, Dask lets a task that is to be done by one of them, even if
    # others are allowed, wait for that one for ever.
    left = [dask_scheduler.tasks[key] for key in keys if key in dask_scheduler.tasks]
    seen = set(left)
    while left:
        task = left.pop()
        task.worker_restrictions = None
        left += task.dependencies - seen
        seen |= task.dependencies


def _on(worker: str, task: Callable[[Any], Any], given: Any) -> Any:
    """A task that this worker is to do, or another if that one is lost."""
    import dask

    with dask.annotate(workers=[worker], allow_other_workers=True):
        return task(given)


def _same(part: Any) -> Any:
    return part


def places(parts: Sequence[Any]) -> list[tuple[str, ...]]:
    """The workers that have each part; none for one that is not made yet, or lost."""
    from distributed import get_client
    from distributed.client import futures_of

    futures = [futures_of(part) for part in parts]
    known = [f for some in futures for f in some]
    who = get_client().who_has(known) if known else {}
    return [tuple(who.get(some[0].key, ())) if len(some) == 1 else () for some in futures]


def together(there: Sequence[Sequence[str]], threads: Sequence[str]) -> list[list[int]]:
    """The numbers of parts that are on the same worker, a list for each of its threads."""
    groups: dict[Any, list[int]] = defaultdict(list)
    seen: dict[str, int] = defaultdict(int)
    for number, held in enumerate(there):
        if not held:
            groups[number].append(number)
            continue
        worker = min(held)
        turn = seen[worker] % max(1, threads.count(worker))  # 0 threads: it was lost just now
        groups[worker, turn].append(number)
        seen[worker] += 1
    return list(groups.values())


def from_dask(
    data: Any,
    target: Any,
    domain: Any,
    features: Sequence[str] | None = None,
    columns: Any = "auto",
    *,
    loss: Loss | None = None,
    weight: Any = None,
    id: str | None = None,
    intercept: bool = True,
    classes: ArrayLike | None = None,
    dense_up_to: int = 600,
) -> Streamed:
    """L_k(w) = (1/m_k) Σ_{i in domain k} ℓ(⟨w, (x_i, 1)⟩, y_i) over the rows of a cluster.

    With a `distributed.Client` the parts are loaded once and stay on the workers; a pass is one
    small task for each of them. A worker that is lost is Dask's business: it reads its parts again
    elsewhere, and the result is the same to the last bit. Without a client the parts are read anew
    at every pass by this process.

    Parameters
    ----------
    data : dask.dataframe.DataFrame or dask.array.Array
        A frame, or the features (n, d).
    target : str or array
        The column of the frame to predict; with an array, y (n,) of Dask or NumPy.
    domain : str, sequence of str or array
        The column, or columns, of the domains; with an array, labels (n,) or memberships (n, p).
    features : sequence of str, optional
        The columns of a frame to learn from; by default all others.
    columns : "auto", "plain" or sequence of columns
        How those of a frame are encoded, as in `from_parquet`.
    loss : Loss, optional
        The loss ℓ; by default CrossEntropy, or SquaredError for a frame's target of numbers.
    weight : str or array, optional
        The weights of the rows.
    id : str, optional
        The column by which `folds` deals rows out; by default their numbers.
    intercept : bool
        Whether the model has an intercept.
    classes : array-like, optional
        All classes there are; by default those that occur.
    dense_up_to : int
        The largest number of parameters for which a pass brings the curvature along.

    Returns
    -------
    Streamed
        A problem for `ax.solve`, `ax.certify`, `ax.pareto_front` and the estimators.

    Examples
    --------
    >>> import anymix as ax
    >>> import dask.array as da
    >>> rng = np.random.default_rng(0)
    >>> X, d = rng.normal(size=(3000, 2)), rng.choice(["a", "b"], 3000)
    >>> y = (X[:, 0] + rng.normal(size=3000) > 0).astype(int)
    >>> problem = from_dask(da.from_array(X, chunks=(1000, 2)), y, d)
    >>> ax.solve(problem).certificate.gap < 1e-6
    True
    """
    made: dict[str, Any] = {
        "intercept": intercept,
        "classes": classes,
        "dense_up_to": dense_up_to,
    }
    if isinstance(target, str):
        import pyarrow as pa

        domains = column_names(domain)
        wanted = Wanted(target, domains, features, columns, weight, loss, id)
        schema = pa.Schema.from_pandas(data._meta, preserve_index=False)
        return problem_of_tables(Dask(), data.to_delayed(), schema, wanted, **made)
    loss = CrossEntropy() if loss is None else loss
    return problem_of_arrays(Dask(), _blocks(data, target, domain, weight), loss, **made)


def _blocks(X: Any, y: Any, domains: Any, weight: Any) -> list[Any]:
    """The rows of arrays in blocks: delayed tuples (X, y, domains, weight)."""
    import dask
    import dask.array as da

    X, y, domains, weight = map(_as_array, (X, y, domains, weight))
    if not isinstance(X, da.Array) or X.ndim != 2:
        fix = "give a frame or a two-dimensional array of Dask"
        raise InputError("data", f"is a {type(X).__name__}", fix)
    X = X.rechunk({1: -1})
    rows = X.chunks[0]
    if np.isnan(rows).any():
        X = X.compute_chunk_sizes()
        rows = X.chunks[0]
    parts = [X.to_delayed().ravel()]
    for name, values in (("y", y), ("domains", domains), ("weight", weight)):
        if values is None:
            parts.append([None] * len(rows))
            continue
        if not isinstance(values, da.Array):
            values = da.from_array(np.asarray(values), chunks=-1)
        elif np.isnan(values.chunks[0]).any():
            values = values.compute_chunk_sizes()
        if values.shape[0] != X.shape[0]:
            found = f"has {values.shape[0]} rows but X has {X.shape[0]}"
            raise InputError(name, found, "give one for each row")
        whole = dict.fromkeys(range(1, values.ndim), -1)
        parts.append(values.rechunk({0: rows} | whole).to_delayed().ravel())
    together = dask.delayed(lambda *some: some, pure=True)
    return [together(*some) for some in zip(*parts, strict=True)]


def _as_array(values: Any) -> Any:
    """A frame or series of Dask as an array; all else as it is."""
    if not hasattr(values, "to_dask_array"):
        return values
    if values.ndim == 1 and values.dtype.kind not in "iufb":
        values = values.astype(object)  # words of pandas' own type
    return values.to_dask_array(lengths=True)


@dataclass(frozen=True, eq=False)
class Dask:
    """Dask's way to do work: by its workers if there is a client, else by threads here."""

    def run(self, work: Callable[[Any, int], Any], parts: Sequence[Any]) -> list[Any]:
        """work(part, number) of every part, in their order, brought here."""
        import dask

        shared = dask.delayed(work, pure=False)
        turns = workers_in_turn()
        groups = together(places(parts), turns) if turns else [[i] for i in range(len(parts))]
        found = dask.compute(*(_called(shared, [parts[i] for i in g], g) for g in groups))
        results = [result for group in found for result in group]
        numbers = [i for group in groups for i in group]
        return [result for _, result in sorted(zip(numbers, results, strict=True), key=_first)]

    def keep(self, work: Callable[[Any, int], Any], parts: Sequence[Any]) -> list[Any]:
        """The same, but left on the workers; without workers it is done anew at every pass."""
        import dask

        shared, one = dask.delayed(work, pure=False), dask.delayed(_call_one, pure=False)
        if workers_in_turn():
            return dealt(lambda i: one(shared, parts[i], i), parts)
        return [one(shared, part, i) for i, part in enumerate(parts)]


def _first(pair: tuple[int, Any]) -> int:
    return pair[0]


def _called(work: Any, parts: Sequence[Any], numbers: Sequence[int]) -> Any:
    import dask

    return dask.delayed(_call, pure=False)(work, list(parts), list(numbers))


def _call(
    work: Callable[[Any, int], Any], parts: Sequence[Any], numbers: Sequence[int]
) -> list[Any]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):  # a worker has a thread for each of its cores
        return [work(part, number) for part, number in zip(parts, numbers, strict=True)]


def _call_one(work: Callable[[Any, int], Any], part: Any, number: int) -> Any:
    return _call(work, [part], [number])[0]
