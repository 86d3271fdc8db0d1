"""What travels between server and clients, and the only file that reaches behind Flower's front.

A message holds named NumPy arrays and settings (numbers, strings, lists of them). Three kinds go
round, each answered by one reply:

    query           who are you: key, domains, rows of each, length and kind of the model
    train           the model's arrays and the weights of the rows  →  update and sums of losses
    query.solve     w and λ  →  the sums that the exact solver asks for

Flower moves what is not in flwr.app, flwr.serverapp and flwr.clientapp from release to release; all
imports from elsewhere are here, with a test that says which one is gone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any, cast

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as MessageProto
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Settings = dict[str, Any]

WHO = "query"
TRAIN = "train"
SOLVE = "query.solve"

__all__ = [
    "SOLVE",
    "TRAIN",
    "WHO",
    "Arrays",
    "MessageError",
    "Run",
    "Settings",
    "exchange",
    "failure",
    "give_identity",
    "n_bytes",
    "pack",
    "pack_record",
    "record_of",
    "through_the_wire",
    "unpack",
    "with_vector",
]


class MessageError(ValueError):
    """A message that cannot be used; says what is wrong with it."""


def pack(arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> RecordDict:
    """The content of a message.

    Every entry of a record takes Flower some time, so all settings go as one text, JSON, and each
    vector among them as its bytes.

    Parameters
    ----------
    arrays : dict of str to ndarray
        Named arrays of any type.
    settings : dict
        Numbers, words and lists of them, and float64 vectors.

    Returns
    -------
    RecordDict

    Examples
    --------
    >>> content = pack({"w": np.zeros(2)}, {"round": 1, "losses": np.array([0.5, 0.7])})
    >>> arrays, settings = unpack(content)
    >>> arrays["w"].tolist(), settings["round"], settings["losses"].tolist()
    ([0.0, 0.0], 1, [0.5, 0.7])
    """
    return pack_record(record_of(arrays), settings)


def record_of(arrays: Mapping[str, NDArray[Any]]) -> ArrayRecord:
    """Named arrays in Flower's form."""
    record = ArrayRecord()
    for name, array in arrays.items():
        record[name] = FlowerArray(np.ascontiguousarray(array))
    return record


def pack_record(record: ArrayRecord, settings: Mapping[str, Any]) -> RecordDict:
    """A message of arrays already in Flower's form, which can be shared by many messages."""
    return RecordDict({"arrays": record, "settings": _settings(settings)})


def _settings(settings: Mapping[str, Any]) -> ConfigRecord:
    vectors = {
        k: v.astype("<f8").tobytes() for k, v in settings.items() if isinstance(v, np.ndarray)
    }
    plain = {k: v for k, v in settings.items() if k not in vectors}
    return ConfigRecord({**vectors, "json": json.dumps(plain)} if plain else {**vectors})


def with_vector(content: RecordDict, name: str, vector: NDArray[Any]) -> RecordDict:
    """The same content with one more vector among its settings; all else is shared."""
    settings = cast(ConfigRecord, content["settings"]).copy()
    settings[name] = vector.astype("<f8").tobytes()
    return RecordDict({"arrays": content["arrays"], "settings": settings})


def unpack(content: RecordDict) -> tuple[Arrays, Settings]:
    """The arrays and the settings of a message; a sender's nonsense is a MessageError."""
    record, config = content.get("arrays"), content.get("settings")
    if not (isinstance(record, ArrayRecord) and isinstance(config, ConfigRecord)):
        raise MessageError(f"the message has {sorted(content)}; it must have arrays and settings")
    try:
        arrays = {name: _numbers(array) for name, array in record.items()}
        settings = json.loads(str(config.get("json", "{}")))
        vectors = {k: np.frombuffer(v, "<f8") for k, v in config.items() if isinstance(v, bytes)}
        return arrays, settings | vectors
    except Exception as error:  # from anyone: the readers of NumPy and JSON may raise anything
        raise MessageError(f"the message cannot be read ({error})") from None


def _numbers(array: FlowerArray) -> NDArray[Any]:
    """As `array.numpy()`, but a header that has come before is not read anew, which takes long."""
    data = array.data
    if array.stype != "numpy.ndarray" or data[:8] != b"\x93NUMPY\x01\x00":
        return array.numpy()
    end = 10 + int.from_bytes(data[8:10], "little")
    shape, is_fortran, dtype = _form(data[:end])
    if is_fortran or dtype.hasobject:
        return array.numpy()  # which refuses objects
    return np.frombuffer(data, dtype, offset=end).reshape(shape).copy()


@lru_cache(maxsize=64)
def _form(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array in NumPy's file format 1.0."""
    return np.lib.format.read_array_header_1_0(BytesIO(header[8:]))


def n_bytes(content: RecordDict) -> int:
    """The bytes of the arrays in a message, which is all but a few dozen of it."""
    record = content.get("arrays")
    return sum(len(a.data) for a in record.values()) if isinstance(record, ArrayRecord) else 0


def exchange(
    grid: Grid, messages: Sequence[Message], timeout: float, poll: float = 0.02
) -> dict[int, Message]:
    """Send messages to different nodes, and wait for one reply to each.

    Replies come in any order; a second reply, or one to an earlier message, is dropped. Flower's
    own `send_and_receive` looks only every three seconds.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where the nodes are.
    messages : sequence of Message
        At most one to a node.
    timeout : float
        Seconds to wait at most.
    poll : float
        Seconds until the second look; later looks are further apart.

    Returns
    -------
    dict of int to Message
        The replies, by the node that was asked. The sender may be another: where a node is gone,
        the server between replies in its name.
    """
    if not messages:
        return {}
    end = time.monotonic() + timeout
    waiting = {i for i in grid.push_messages(messages) if i}
    asked = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
    replies: dict[str, Message] = {}
    while True:
        for reply in grid.pull_messages(sorted(waiting)):
            if reply.metadata.reply_to_message_id in waiting:
                replies.setdefault(reply.metadata.reply_to_message_id, reply)
        waiting -= set(replies)
        rest = end - time.monotonic()
        if not waiting or rest <= 0:
            return {asked[message_id]: reply for message_id, reply in replies.items()}
        time.sleep(min(poll, rest))
        poll = min(1.5 * poll, 0.5)  # a fast network is asked often, a slow one not too often


def failure(error: Exception, message: Message) -> Message:
    """The reply that Flower's engines send when a client raises."""
    reason = f"{type(error).__name__}: {error}"
    return Message(
        Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=reason), reply_to=message
    )


def through_the_wire(message: Message) -> tuple[Message, int]:
    """The message as the other side gets it, and how many bytes that took."""
    data = message_to_proto(message).SerializeToString()
    return message_from_proto(MessageProto.FromString(data)), len(data)


def give_identity() -> None:
    """Messages need a sender; Flower's engines set one, a process of one's own must."""
    if TaskIdentity._run_id is None:
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
