"""Why a client does not answer: one of nine constants. The text of its errors stays in its own log.

pandas quotes what it cannot read ("could not convert string to float: 'Anna Meyer'"), and Flower
sends the text of whatever a client's app raises to the server. `discreetly` stands around every
answer of `client_app`, and catches it before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import StrEnum

from flwr.app import Context, Message

from anymix.errors import InputError
from anymix.flower.wire import failure

__all__ = [
    "CannotAnswerError",
    "Mod",
    "Reason",
    "RefusedError",
    "discreetly",
    "in_words",
    "reason_of",
    "refusal",
    "why",
]

log = logging.getLogger("anymix.flower")

Mod = Callable[[Message, Context, Callable[[Message, Context], Message]], Message]


class Reason(StrEnum):
    """All that the server is told of an error."""

    FAILED = "failed"  # any exception
    ROWS = "rows"  # the client has no rows to answer with
    KIND = "kind"  # its model is not of the kind that the question is about
    # what its owner's limits refuse, by the setting that would have to be opened
    LIMIT_KINDS = "limits.kinds"
    LIMIT_QUESTIONS = "limits.questions"
    LIMIT_CURVATURES = "limits.curvatures"
    LIMIT_ROWS = "limits.rows"
    LIMIT_NORM = "limits.norm"
    LIMIT_NOISE = "limits.noise"

    @property
    def is_limit(self) -> bool:
        """Whether asking again would not help."""
        return self.startswith("limits.")


WORDS: dict[str, str] = {
    Reason.FAILED: "an exception, whose text is in that client's own log",
    Reason.ROWS: "it has no rows; more is in that client's own log",
    Reason.KIND: "the question is for models of another kind; more is in that client's own log",
    Reason.LIMIT_KINDS: "its owner's limits do not name this kind of question",
    Reason.LIMIT_QUESTIONS: "as many questions as its owner allows have been asked in all runs",
    Reason.LIMIT_CURVATURES: "second derivatives were asked for as often as its owner allows",
    Reason.LIMIT_ROWS: "a domain has too few rows there for this question",
    Reason.LIMIT_NORM: "the model is longer than its owner allows",
    Reason.LIMIT_NOISE: "it answers with noise, and this question or its ledger is without",
}


class CannotAnswerError(InputError):
    """An error of which the server is told the reason."""

    def __init__(self, reason: Reason, argument: str, found: str, fix: str) -> None:
        super().__init__(argument, found, fix)
        self.reason = reason


def discreetly(
    message: Message, context: Context, answer: Callable[[Message, Context], Message]
) -> Message:
    """Answer, or log what went wrong and tell the server no more than a `Reason`: a Flower mod."""
    try:
        return answer(message, context)
    except Exception as error:
        return failure(reason_of(error, message, context).value, message)


def reason_of(error: Exception, message: Message, context: Context) -> Reason:
    """Log what went wrong, and say of it what the server may know."""
    kind, node_id = message.metadata.message_type, context.node_id
    reason = error.reason if isinstance(error, CannotAnswerError) else Reason.FAILED
    if reason.is_limit:
        log.warning("node %d refuses %r by its limits: %s", node_id, kind, error)
    else:
        log.error("node %d cannot answer %r", node_id, kind, exc_info=error)
    return reason


class RefusedError(InputError):
    """A client's own limits refuse a question; the argument is the setting: "limits.questions"."""

    def __init__(self, refused: Mapping[str, Reason]) -> None:
        key, self.reason = sorted(refused.items())[0]
        setting = self.reason.removeprefix("limits.")
        super().__init__(
            self.reason.value,
            f"of client {key!r} refuses the question: {WORDS[self.reason]}",
            f"ask for less, or have the owners of {sorted(refused)} open `{setting}` in the limits "
            "of their clients",
        )


def refusal(reply: Message) -> Reason | None:
    """The limit that an error reply names, None if it is another error."""
    reason = next((r for r in Reason if r == reply.error.reason), None)
    return reason if reason is not None and reason.is_limit else None


def why(reply: Message) -> str:
    """What an error reply says, in words for whoever runs the server."""
    return in_words(str(reply.error.reason))


def in_words(reason: str) -> str:
    """A reason, in words for whoever runs the server."""
    return WORDS.get(reason, reason)
