"""The one way to ask clients: send a question to each, take the replies, ask again, give up.

Every reply is accounted for: it is an answer of the form that the question declares, an error that
the client raised, or nonsense. Who sent none is missing, and so is a client that was killed, for
which the SuperLink may reply that it is not available. The caller decides who is asked again, and
what to do when answers are missing in the end.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.flower.client_errors import Reason, refusal, why
from anymix.flower.wire import MessageError, is_unavailable, n_bytes, unpack

Answer = dict[str, NDArray[np.float64]]
Shapes = Mapping[str, tuple[int, ...]]
log = logging.getLogger("anymix.flower")

__all__ = ["Answer", "Post", "Question", "Round", "read_answer"]


class Post:
    """Messages that were sent, and the replies as they come, late ones too."""

    # Flower's own `send_and_receive` looks only every three seconds, and forgets what comes later.

    def __init__(self, grid: Grid) -> None:
        self.grid, self.waiting, self.dropped = grid, dict[str, int](), 0

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages; one that the grid does not take is as good as lost."""
        messages = list(messages)
        ids = list(self.grid.push_messages(messages)) if messages else []
        for message, message_id in zip(messages, ids, strict=False):
            if message_id:
                self.waiting[message_id] = message.metadata.dst_node_id

    def take(self) -> list[tuple[int, Message]]:
        """The replies that are here, each with the node asked: a server may reply in its name."""
        replies = []
        for reply in self.grid.pull_messages(sorted(self.waiting)) if self.waiting else []:
            node_id = self.waiting.pop(reply.metadata.reply_to_message_id, None)
            if node_id is None:
                self.dropped += 1
            else:
                replies.append((node_id, reply))
        return replies

    def listen(
        self,
        timeout: float,
        hear: Callable[[int, Message], None],
        done: Callable[[], bool] = lambda: False,
        poll: float = 0.02,
    ) -> None:
        """Give the replies to `hear` as they come, until all are here, `done` or the timeout."""
        end = time.monotonic() + timeout
        while True:
            for node_id, reply in self.take():
                hear(node_id, reply)
            rest = end - time.monotonic()
            if not self.waiting or rest <= 0 or done():
                return
            time.sleep(min(poll, rest))
            poll = min(1.5 * poll, 0.5)  # a fast network is asked often, a slow one not too often


def nothing_else(answer: Answer) -> str | None:
    """No further condition on an answer."""


@dataclass(frozen=True)
class Question:
    """What one client is asked, and the form of a good answer."""

    content: RecordDict
    shapes: Shapes  # all arrays of a good answer, of finite numbers
    check: Callable[[Answer], str | None] = nothing_else  # what else is wrong, or None


def read_answer(content: RecordDict, question: Question) -> Answer:
    """The arrays of a reply, as float64; MessageError says what is wrong with it."""
    arrays, settings = unpack(content)
    found: dict[str, Any] = {**settings, **arrays}
    shapes = {name: getattr(value, "shape", value) for name, value in found.items()}
    if shapes != question.shapes:
        raise MessageError(f"it sent {shapes} instead of {dict(question.shapes)}")
    for name, array in found.items():
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise MessageError(f"its {name} are not all finite numbers")
    answer = {name: array.astype(np.float64, copy=False) for name, array in found.items()}
    wrong = question.check(answer)
    if wrong is not None:
        raise MessageError(wrong)
    return answer


class Round:
    """Questions to clients, by key, and what came of them."""

    def __init__(
        self,
        kind: str,
        questions: Mapping[str, Question],
        nodes: Mapping[str, int],
        group: str = "",
    ) -> None:
        self.kind, self.questions, self.group = kind, questions, group
        self.nodes = {key: nodes[key] for key in questions}
        self.answers: dict[str, Answer] = {}
        self.failed: dict[str, str] = {}
        self.rejected: dict[str, str] = {}
        self.errors: Counter[str] = Counter()
        self.refused: dict[str, Reason] = {}  # by limits of the clients: they are not asked again
        self.asked = self.sent = self.received = self.dropped = 0
        self._expected: set[str] = set()  # whose reply to the last message is not here
        self._keys: dict[int, str] = {}  # of the nodes that were asked
        self._told: set[tuple[str, str]] = set()  # failures that the log has
        self._began = time.monotonic()

    @property
    def missing(self) -> set[str]:
        """Who sent nothing at all."""
        return set(self.questions) - set(self.answers) - set(self.failed) - set(self.rejected)

    @property
    def unanswered(self) -> list[str]:
        """Who gave no good answer yet."""
        return [key for key in self.questions if key not in self.answers]

    @property
    def seconds(self) -> float:
        """How long the round has taken."""
        return time.monotonic() - self._began

    def ask(
        self,
        grid: Grid,
        timeout: float,
        again: Callable[[Round], Iterable[str]] = lambda asked: (),
        enough: Callable[[Round], bool] = lambda asked: False,
    ) -> None:
        """Send the questions and take the replies; those that `again` names are asked once more."""
        # An answer to an earlier message of this round counts when it comes late.
        keys, post, pause = list(self.questions), Post(grid), 0.05

        def done() -> bool:
            return not self._expected or enough(self)

        while keys:
            post.send(self.messages(keys))
            post.listen(timeout, lambda node_id, reply: self.take(reply, node_id), done)
            over = enough(self) or bool(self.refused)
            keys = list(again(self)) if self.unanswered and not over else []
            if keys:
                time.sleep(pause)
                pause = min(2 * pause, 5.0)
        self.dropped += post.dropped

    def messages(self, keys: Iterable[str] | None = None) -> list[Message]:
        """The messages to these clients, None for all; what they said before is forgotten."""
        keys = list(self.questions) if keys is None else list(keys)
        for key in keys:
            self.failed.pop(key, None)
            self.rejected.pop(key, None)
            self._keys[self.nodes[key]] = key
            self._expected.add(key)
        contents = [self.questions[key].content for key in keys]
        self.asked, self.sent = self.asked + len(keys), self.sent + sum(map(n_bytes, contents))
        return [
            Message(content, self.nodes[key], self.kind, group_id=self.group)
            for key, content in zip(keys, contents, strict=True)
        ]

    def take(self, reply: Message, node_id: int | None = None) -> None:
        """Put a reply to the answers, the failures or the nonsense; the first answer counts."""
        node_id = reply.metadata.src_node_id if node_id is None else node_id
        key = self._keys.get(node_id)
        if key is None or key in self.answers or key in self.rejected:
            self.dropped += 1  # nobody we asked, or a second reply
            return
        self._expected.discard(key)
        self.failed.pop(key, None)
        if is_unavailable(reply):
            log.warning("client %r does not answer: %s", key, reply.error.reason)
            return
        if reply.has_error():
            self.failed[key] = what = why(reply)
            reason = refusal(reply)
            if reason is not None:
                self.refused[key] = reason
            self.errors[key] += 1
            if (key, what) not in self._told:
                self._told.add((key, what))
                log.warning("client %r failed: %s", key, what)
            return
        self.received += n_bytes(reply.content)
        try:
            self.answers[key] = read_answer(reply.content, self.questions[key])
        except MessageError as error:
            self.rejected[key] = str(error)
