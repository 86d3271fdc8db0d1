"""A question to all clients at once, asked again until each has answered: for one-off rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.flower.client_errors import why
from anymix.flower.members import MissingClientsError
from anymix.flower.wire import Arrays, MessageError, Settings, pack, unpack

__all__ = ["Reply", "Shapes", "ask_all"]

ATTEMPTS = 3  # of a client that answers with errors

Reply = tuple[Arrays, Settings]
Shapes = Callable[[Settings], Mapping[str, tuple[int, ...]]]


def ask_all(
    grid: Grid,
    kind: str,
    arrays: Mapping[str, NDArray[Any]],
    settings: Mapping[str, Any],
    shapes: Shapes,
    n_clients: int | None = None,
    timeout: float = 200.0,
) -> dict[str, Reply]:
    """The answers of all clients, by key and in the order of the keys.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where the clients are.
    kind : str
        The type of the message.
    arrays, settings : mapping
        What every client is sent.
    shapes : function
        Settings of an answer → the names and shapes of its arrays; all must be finite numbers.
    n_clients : int or None
        How many must answer; None is as many as there are nodes now.
    timeout : float
        Seconds for all of it. A client that fails, or is gone, is asked again, on another node if
        it has come back there, until then.

    Returns
    -------
    dict of str to (arrays, settings)
    """
    end = time.monotonic() + timeout
    wanted = len(list(grid.get_node_ids())) if n_clients is None else n_clients
    found: dict[str, Reply] = {}
    done: set[int] = set()
    waiting: dict[str, int] = {}  # message id: node
    wrong: dict[int, list[str]] = {}
    pause = 0.01
    while len(found) < wanted:
        fresh = sorted(set(grid.get_node_ids()) - done - set(waiting.values()))
        if fresh:
            messages = [Message(pack(arrays, settings), node, kind) for node in fresh]
            sent = grid.push_messages(messages)
            waiting |= {i: node for i, node in zip(sent, fresh, strict=True) if i}
        for reply in grid.pull_messages(sorted(waiting)):
            node = waiting.pop(reply.metadata.reply_to_message_id, None)
            if node is None:
                continue
            try:
                key, answer = _read(reply, shapes)
            except MessageError as error:
                wrong.setdefault(node, []).append(str(error))
                own = reply.metadata.src_node_id == node  # and not in the name of one that is gone
                if own and len(wrong[node]) == ATTEMPTS:
                    raise MessageError(f"node {node}: {error}") from None
                continue
            if key in found and not _same(found[key], answer):
                raise MessageError(f"two clients have the key {key!r}; give each its own")
            found[key] = answer
            done.add(node)
        if time.monotonic() > end:
            who = f"{len(found)} of {wanted} clients answered {kind!r} within {timeout:g} s"
            raise MissingClientsError(f"{who}; failures: {wrong}")
        if len(found) < wanted:
            time.sleep(pause)
            pause = min(1.5 * pause, 0.5)
    return dict(sorted(found.items()))


def _read(reply: Message, shapes: Shapes) -> tuple[str, Reply]:
    """The key and the content of an answer; MessageError says what is wrong with it."""
    if reply.has_error():
        raise MessageError(f"the client failed: {why(reply)}")
    arrays, settings = unpack(reply.content)
    key = settings.get("key")
    if not isinstance(key, str):
        raise MessageError(f"its key is {key!r}")
    try:
        expected = dict(shapes(settings))
    except (KeyError, TypeError) as error:
        raise MessageError(f"client {key!r} lacks {error}") from None
    if {name: a.shape for name, a in arrays.items()} != expected:
        raise MessageError(f"client {key!r} sent {sorted(arrays)}, not {expected}")
    for name, array in arrays.items():
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise MessageError(f"client {key!r}: {name} are not all finite numbers")
    return key, (arrays, settings)


def _same(a: Reply, b: Reply) -> bool:
    """Whether two answers of one key are the same, as of a client that was asked twice."""
    return a[1] == b[1] and all(np.array_equal(a[0][name], b[0][name]) for name in a[0])
