"""What travels between server and clients, and the only file that reaches behind Flower's front.

A message holds named NumPy arrays and settings (numbers, strings, lists of them). These kinds go
round, each answered by one reply:

    query           who are you: key, domains, rows of each, length and kind of the model
    train           the model's arrays and the weights of the rows  →  update and sums of losses
    query.solve     w and λ  →  the sums that the exact solver asks for
    query.folds     models  →  sums over the rows that folds fit, or hold out
    query.first     a seed  →  the first weights of the client's module
    query.moments   →  sums of the columns and of their products, for a run without step sizes
    evaluate        the model's arrays  →  sums of the losses over all rows, or those held out

Flower moves what is not in flwr.app, flwr.serverapp and flwr.clientapp from release to release; all
imports from elsewhere are here, with a test that says which one is gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any, cast

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as MessageProto
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from anymix.errors import InputError

Arrays = dict[str, NDArray[Any]]
Settings = dict[str, Any]

WHO = "query"
TRAIN = "train"
SOLVE = "query.solve"
FOLDS = "query.folds"
FIRST = "query.first"
MOMENTS = "query.moments"
EVALUATE = "evaluate"

BEFORE = ("the model before", "the sum of gradients there")  # arrays beside the model's own

MOST_BYTES = 2**31 - 2**20  # of a message in one piece, with room for all but its arrays

__all__ = [
    "BEFORE",
    "EVALUATE",
    "FIRST",
    "FOLDS",
    "MOMENTS",
    "SOLVE",
    "TRAIN",
    "WHO",
    "Arrays",
    "MessageError",
    "Run",
    "Settings",
    "failure",
    "give_identity",
    "is_unavailable",
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
    """The content of a message; settings are numbers, words, lists, and float64 vectors."""
    # Every entry of a record takes Flower some time, so all settings go as one text, JSON, and each
    # vector among them as its bytes.
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


def is_unavailable(reply: Message) -> bool:
    """Whether the server says, in a node's name, that the node or its reply is not there."""
    nobody = (
        ErrorCode.NODE_UNAVAILABLE,
        ErrorCode.MESSAGE_UNAVAILABLE,
        ErrorCode.REPLY_MESSAGE_UNAVAILABLE,
    )
    return reply.has_error() and reply.error.code in nobody


def failure(reason: str, message: Message) -> Message:
    """The reply of a client that cannot answer, with Flower's code for an exception."""
    return Message(
        Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=reason), reply_to=message
    )


def through_the_wire(message: Message, most: int = MOST_BYTES) -> tuple[Message, int]:
    """The message as the other side gets it, and how many bytes that took, at most `most`."""
    # One piece, as Protocol Buffers allow; over a network Flower itself sends arrays in chunks.
    size = 0 if message.has_error() else n_bytes(message.content)
    if size > most:
        raise InputError(
            "the model",
            f"makes a message of {size / 1e9:.3g} GB, and in one process it may have "
            f"{most / 1e9:.3g} GB",
            "freeze parameters (requires_grad=False), which are not sent, take a smaller model, or "
            "run it as a deployment, where messages go in chunks",
        )
    data = message_to_proto(message).SerializeToString()
    return message_from_proto(MessageProto.FromString(data)), len(data)


def give_identity() -> None:
    """Messages need a sender; Flower's engines set one, a process of one's own must."""
    if TaskIdentity._run_id is None:
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
