"""One pass: items read ahead in a thread, several of them worked on at once, results in order."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from anymix.errors import InputError

__all__ = ["in_order", "number_of_threads"]

A = TypeVar("A")
B = TypeVar("B")

AHEAD = 2  # items that wait to be worked on
PATIENCE = 0.1  # seconds after which a reader looks whether anybody still wants its items


def number_of_threads() -> int:
    """As many as this process may use cores, at most 8: beyond that reading is what takes time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(8, cores or 1)


def in_order(items: Iterable[A], work: Callable[[A], B], threads: int | None = None) -> Iterator[B]:
    """work(item) of every item, in the order of the items; the items are read in a thread."""
    # At most `threads` + 4 items are in memory at any time. Whoever stops early, by an error or by
    # Ctrl-C, ends the reading too.
    threads = number_of_threads() if threads is None else threads
    if threads < 1:
        raise InputError("threads", f"is {threads}", "give 1 or more, or None")
    reader = _Reader(items)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="anymix-pass")
    pending: deque[Future[B]] = deque()
    try:
        with threadpool_limits(1, "blas"):  # chunks are many: a core for each is best
            for item in reader:
                pending.append(pool.submit(work, item))
                del item  # its memory is free as soon as the work is done
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
    finally:
        reader.stop()
        pool.shutdown(wait=False, cancel_futures=True)


class _Reader:
    """An iterator over items that a thread reads ahead; its errors are raised here."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._ready: queue.Queue[tuple[str, Any]] = queue.Queue(AHEAD)
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._read, args=(iter(items),), name="anymix-reader", daemon=True
        )
        self._thread.start()

    def __iter__(self) -> Iterator[Any]:
        while True:
            kind, item = self._ready.get()
            if kind == "error":
                raise item
            if kind == "end":
                return
            yield item
            del item

    def stop(self) -> None:
        """Let the thread end, at the latest when it has read its present item."""
        self._stopped.set()

    def _read(self, items: Iterator[Any]) -> None:
        try:
            for item in items:
                if not self._put("item", item):
                    break
                del item
            self._put("end", None)
        except BaseException as error:  # whatever it is, it belongs to who asked for the items
            self._put("error", error)
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    def _put(self, kind: str, item: Any) -> bool:
        """Whether the item was wanted."""
        while not self._stopped.is_set():
            try:
                self._ready.put((kind, item), timeout=PATIENCE)
                return True
            except queue.Full:
                continue
        return False
