"""Why a client cannot answer: one of three constants. The text of its errors stays in its own log.

pandas quotes what it cannot read ("could not convert string to float: 'Anna Meyer'"), and Flower
sends the text of whatever a client's app raises to the server. `discreetly` stands around every
answer of `client_app`, and catches it before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum

from flwr.app import Context, Message

from anymix.errors import InputError
from anymix.flower.wire import failure

__all__ = ["CannotAnswerError", "Mod", "Reason", "discreetly", "in_words", "reason_of", "why"]

log = logging.getLogger("anymix.flower")

Mod = Callable[[Message, Context, Callable[[Message, Context], Message]], Message]


class Reason(StrEnum):
    """All that the server is told of an error."""

    FAILED = "failed"  # any exception
    ROWS = "rows"  # the client has no rows to answer with
    KIND = "kind"  # its model is not of the kind that the question is about


WORDS: dict[str, str] = {
    Reason.FAILED: "an exception, whose text is in that client's own log",
    Reason.ROWS: "it has no rows; more is in that client's own log",
    Reason.KIND: "the question is for models of another kind; more is in that client's own log",
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
    log.error("node %d cannot answer %r", node_id, kind, exc_info=error)
    return error.reason if isinstance(error, CannotAnswerError) else Reason.FAILED


def why(reply: Message) -> str:
    """What an error reply says, in words for whoever runs the server."""
    return in_words(str(reply.error.reason))


def in_words(reason: str) -> str:
    """A reason, in words for whoever runs the server."""
    return WORDS.get(reason, reason)
