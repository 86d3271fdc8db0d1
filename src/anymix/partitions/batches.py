"""Batches that a function reads anew for every pass, as a problem for the solvers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from anymix.errors import InputError
from anymix.partitions.chunks import Chunk, named, read_chunk
from anymix.partitions.prefetch import in_order
from anymix.partitions.scanning import Scan, glance
from anymix.partitions.streamed import Coder, Log, Streamed
from anymix.problem.entries import encode
from anymix.problem.losses import CrossEntropy, Loss

__all__ = ["Batches", "Kept", "from_batches", "scanned"]


@dataclass(eq=False)
class Kept:
    """Chunks that are kept in memory once they were read."""

    check: Callable[[], None]
    chunks: list[Chunk | None] = field(default_factory=list)
    has_all: bool = False

    def take(self, chunks: list[Chunk | None]) -> None:
        """All of them, after a whole pass."""
        self.chunks, self.has_all = chunks, True


@dataclass(frozen=True, eq=False)
class Batches:
    """A pass in this process: chunks are read ahead in a thread, and summed by all cores."""

    read: Callable[[], Iterable[Any]]
    checked: Callable[[Any], Chunk | None]
    where: Callable[[int], str]
    threads: int | None = None
    kept: Kept | None = None

    def __call__(self, work: Callable[[Chunk | None, int], Any]) -> Iterator[Any]:
        """What `work` gives for each chunk and its number, in order."""
        kept = self.kept
        if kept is not None and kept.has_all:
            kept.check()
            again = enumerate(kept.chunks)
            yield from in_order(again, lambda item: work(item[1], item[0]), self.threads)
            return
        found: dict[int, Chunk | None] = {}

        def both(item: tuple[int, Any]) -> Any:
            number, raw = item
            with named(self.where(number)):
                chunk = self.checked(raw)
                if kept is not None:
                    found[number] = chunk
                return work(chunk, number)

        yield from in_order(self._items(), both, self.threads)
        if kept is not None:
            kept.take([found[number] for number in range(len(found))])

    def _items(self) -> Iterator[tuple[int, Any]]:
        number = -1
        for number, raw in enumerate(self.read()):
            yield number, raw
        if number < 0:
            fix = "give a function that makes a new iterator, from the first row, at every call"
            raise InputError("make_iterator", "gives no chunk", fix)


def from_batches(
    make_iterator: Callable[[], Iterable[Any]],
    loss: Loss | None = None,
    *,
    intercept: bool = True,
    classes: ArrayLike | None = None,
    threads: int | None = None,
    dense_up_to: int = 600,
) -> Streamed:
    """L_k(w) = (1/m_k) Σ_{i in domain k} ℓ(⟨w, (x_i, 1)⟩, y_i) over rows that come in batches.

    The function is called once for every pass; a pass for the sizes and a sample now, later one
    for every step of the solver. Memory: a few chunks, the sample (8 MB), and pD + D² numbers,
    however many rows there are.

    Parameters
    ----------
    make_iterator : function
        () -> an iterator of chunks (X, y, domains[, weight[, ids]]), from the first row on: X
        (n, d) dense or sparse, y (n,), domains (n,) or (n, p), weight (n,) or None, ids (n,) by
        which `folds` deals rows out. The same rows in the same order at every call.
    loss : Loss, optional
        The loss ℓ; CrossEntropy by default.
    intercept : bool
        Whether the model has an intercept.
    classes : array-like, optional
        All classes there are; by default those that occur.
    threads : int, optional
        How many chunks are summed at once; None is one for each core.
    dense_up_to : int
        The largest number of parameters D for which a pass brings the curvature along.

    Returns
    -------
    Streamed
        A problem for `ax.solve`, `ax.certify`, `ax.pareto_front` and the estimators.

    Examples
    --------
    >>> import anymix as ax
    >>> rng = np.random.default_rng(0)
    >>> X, d = rng.normal(size=(9000, 2)), rng.choice(["a", "b"], 9000)
    >>> y = (X[:, 0] + np.where(d == "a", 1, -1) * X[:, 1] > rng.normal(size=9000)).astype(int)
    >>> def chunks():
    ...     for i in range(0, 9000, 1000):
    ...         yield X[i : i + 1000], y[i : i + 1000], d[i : i + 1000]
    >>> problem = from_batches(chunks)
    >>> solution = ax.solve(problem)
    >>> whole = ax.solve(ax.LinearDomains(X, y, d))
    >>> abs(solution.objective - whole.objective) < 2e-6, problem.n_passes <= 8
    (True, True)
    """
    loss = CrossEntropy() if loss is None else loss
    if not callable(make_iterator):
        found, fix = f"is a {type(make_iterator).__name__}", "give a function without arguments"
        raise InputError("make_iterator", found, fix)

    def checked(raw: Any) -> Chunk | None:
        return read_chunk(raw, loss)

    visit = Batches(make_iterator, checked, lambda i: f"chunk {i}", threads)
    return scanned(visit, loss, intercept=intercept, classes=classes, dense_up_to=dense_up_to)


def scanned(
    visit: Batches,
    loss: Loss,
    *,
    intercept: bool = True,
    classes: ArrayLike | None = None,
    log: Log | None = None,
    dense_up_to: int = 600,
) -> Streamed:
    """The problem after its first pass."""
    log = Log() if log is None else log
    known = None if classes is None else encode("classes", classes, np.size(classes))[0]
    scan, begun = Scan(loss, known), time.perf_counter()

    def look(chunk: Chunk | None, number: int) -> Any:
        return None if chunk is None else glance(chunk, number << 32, scan.is_merging)

    for number, found in enumerate(visit(look)):
        with named(visit.where(number)):
            scan.add(found)
    scan.check()
    log.add("sizes and a sample", begun)
    coder = Coder(scan.classes, scan.names, loss, bool(intercept))
    return Streamed(visit, scan, coder, log, dense_up_to)
