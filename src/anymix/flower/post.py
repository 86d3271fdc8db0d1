"""Messages on their way: sent, waited for, and taken when their replies come, late ones too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from flwr.app import Message
from flwr.serverapp import Grid

__all__ = ["Post"]


class Post:
    """Messages that were sent, and the replies to them as they come.

    Flower's own `send_and_receive` looks only every three seconds, and forgets what comes later.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where the nodes are.

    Attributes
    ----------
    waiting : dict of str to int
        The messages without a reply yet, and the nodes that they went to.
    dropped : int
        Replies that nobody waited for: second ones, and replies to messages of others.
    """

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
        """The replies that are here now, each with the node that was asked.

        The sender may be another: where a node is gone, the server between replies in its name.
        """
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
        """Give the replies to `hear` as they come, until all are here or `done` says so.

        Parameters
        ----------
        timeout : float
            Seconds to wait at most; 0 looks once.
        hear : function
            Called with the node that was asked and its reply.
        done : function
            Whether to wait no longer.
        poll : float
            Seconds until the second look; later looks are further apart.
        """
        end = time.monotonic() + timeout
        while True:
            for node_id, reply in self.take():
                hear(node_id, reply)
            rest = end - time.monotonic()
            if not self.waiting or rest <= 0 or done():
                return
            time.sleep(min(poll, rest))
            poll = min(1.5 * poll, 0.5)  # a fast network is asked often, a slow one not too often
