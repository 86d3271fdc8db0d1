"""Parts dealt out to the workers of Dask, to each as many as it has threads for.

Dask puts a part where there is room at the moment, say 9 here and 7 there, and moves tasks while
they wait; then every pass waits for the worker with the most. Here the parts are dealt out in turn,
and a pass is one task for each thread, which has all parts that are there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["dealt", "places", "together", "workers_in_turn"]

TRIES = 3  # Dask may move a task again, for reasons of its own


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
    """What tasks make of parts, kept on workers: in turn, but rows that are on one stay there.

    Parameters
    ----------
    task : function
        Makes the task of the part of a number.
    parts : sequence of dask.delayed.Delayed
        The parts.

    Returns
    -------
    list of dask.delayed.Delayed
        The results of the tasks.
    """
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
    """From now on any worker may make these parts again, and what they are made of.

    When all workers are lost at once, Dask lets a task that is to be done by one of them, even if
    others are allowed, wait for that one for ever.
    """
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
    """The numbers of parts that are on the same worker, a list for each of its threads.

    Parameters
    ----------
    there : sequence of sequence of str
        The workers that have each part. One that is nowhere yet is alone.
    threads : sequence of str
        The workers, each as often as it has threads.

    Examples
    --------
    >>> together([["a"], ["b"], ["a", "b"], [], ["b"], ["b"]], ["a", "b", "b"])
    [[0, 2], [1, 5], [3], [4]]
    """
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
