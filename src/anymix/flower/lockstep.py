"""Many solvers side by side, whose questions go out together: one round answers all of them.

A solver asks, waits for the answer, and asks again. When every solver that has not ended waits, the
questions of all go out at once. So a hundred models take as many rounds as the slowest of them, and
each gets the very answers that it would get alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any

__all__ = ["Ask", "side_by_side"]

Ask = Callable[[Any], Any]


class _Stopped(BaseException):
    """Tells a solver that another one has failed."""


def side_by_side(tasks: Sequence[Callable[[Ask], Any]], answer: Callable[[Any], Any]) -> list[Any]:
    """What the tasks return, in their order; each is a function that is given a way to ask.

    Parameters
    ----------
    tasks : sequence of function
        task(ask) calls ask(question) as often as it likes.
    answer : function
        A list of questions, in the order of the tasks that wait → the list of their answers.

    Returns
    -------
    list
        An error of a task, or of `answer`, is raised here, when all tasks have stopped.

    Examples
    --------
    >>> def count_to(n):
    ...     return lambda ask: [ask(i) for i in range(n)]
    >>> def answer(questions):
    ...     print("asked", questions)
    ...     return [10 * q for q in questions]
    >>> side_by_side([count_to(1), count_to(3)], answer)
    asked [0, 0]
    asked [1]
    asked [2]
    [[0], [0, 10, 20]]
    """
    news: SimpleQueue[tuple[int, str, Any]] = SimpleQueue()
    answers: list[SimpleQueue[Any]] = [SimpleQueue() for _ in tasks]
    threads = [
        Thread(target=_work, args=(i, task, news, answers[i]), daemon=True)
        for i, task in enumerate(tasks)
    ]
    for thread in threads:
        thread.start()
    try:
        return _serve(len(tasks), news, answers, answer)
    finally:
        for queue in answers:
            queue.put(_Stopped())
        for thread in threads:
            thread.join()


def _work(
    i: int,
    task: Callable[[Ask], Any],
    news: SimpleQueue[tuple[int, str, Any]],
    answers: SimpleQueue[Any],
) -> None:
    """Run one task; its questions, its end and its failure are news."""

    def ask(question: Any) -> Any:
        news.put((i, "question", question))
        found = answers.get()
        if isinstance(found, _Stopped):
            raise found
        return found

    try:
        news.put((i, "end", task(ask)))
    except _Stopped:
        return
    except BaseException as error:
        news.put((i, "failure", error))


def _serve(
    n: int,
    news: SimpleQueue[tuple[int, str, Any]],
    answers: list[SimpleQueue[Any]],
    answer: Callable[[Any], Any],
) -> list[Any]:
    """Answer whenever all that are left wait, until none is left."""
    ended: dict[int, Any] = {}
    asked: dict[int, Any] = {}
    failed: dict[int, BaseException] = {}
    while len(ended) + len(failed) < n:
        i, kind, what = news.get()
        {"question": asked, "end": ended, "failure": failed}[kind][i] = what
        if len(ended) + len(failed) + len(asked) < n:
            continue
        if failed:
            raise failed[min(failed)]  # the same one in every run
        order = sorted(asked)
        if order:
            for j, found in zip(order, answer([asked[j] for j in order]), strict=True):
                answers[j].put(found)
            asked.clear()
    if failed:
        raise failed[min(failed)]
    return [ended[j] for j in range(n)]
