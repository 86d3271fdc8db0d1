from __future__ import annotations

import ast
import importlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

import anymix.flower
from anymix.errors import InputError
from anymix.flower import LocalGrid
from anymix.flower.wire import give_identity, pack, through_the_wire, unpack

BEHIND_THE_FRONT = [
    ("flwr.common.constant", "ErrorCode"),
    ("flwr.common.serde", "message_from_proto"),
    ("flwr.common.serde", "message_to_proto"),
    ("flwr.proto.message_pb2", "Message"),
    ("flwr.supercore.run", "Run"),
    ("flwr.supercore.task_identity", "TaskIdentity"),
]
FRONT = {"flwr.app", "flwr.serverapp", "flwr.serverapp.strategy", "flwr.clientapp"}


def imports_of(path: Path) -> set[tuple[str, str]]:
    nodes = ast.walk(ast.parse(path.read_text()))
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return {(str(n.module), a.name) for n in froms for a in n.names if "flwr" in str(n.module)}


@pytest.mark.parametrize(("module", "name"), BEHIND_THE_FRONT)
def test_flower_still_has_what_lies_behind_its_front(module: str, name: str) -> None:
    message = f"{module}.{name} is gone from this Flower: mend anymix/flower/wire.py"
    try:
        assert hasattr(importlib.import_module(module), name), message
    except ImportError:
        pytest.fail(message)


def test_only_the_wire_reaches_behind_flowers_front() -> None:
    folder = Path(anymix.flower.__file__).parent
    behind = {
        path.name: {pair for pair in imports_of(path) if pair[0] not in FRONT}
        for path in folder.glob("*.py")
    }
    assert {name: found for name, found in behind.items() if found} == {
        "wire.py": set(BEHIND_THE_FRONT)
    }


def echo() -> ClientApp:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays, settings = unpack(message.content)
        arrays["w"] += 1  # its own copy
        settings["who"] = context.node_config["partition-id"]
        return Message(pack(arrays, settings), reply_to=message)

    @app.query()
    def fail(message: Message, context: Context) -> Message:
        raise KeyError("nothing here")

    return app


def test_messages_are_copied_on_their_way() -> None:
    grid = LocalGrid(echo(), 2)
    w = np.zeros(3)
    content = pack({"w": w}, {"round": 1, "v": np.array([1.5, np.nan])})
    messages = [Message(content, i, "train") for i in grid.get_node_ids()]
    replies = grid.send_and_receive(messages)
    assert sorted(unpack(r.content)[1]["who"] for r in replies) == [0, 1]
    for reply in replies:
        arrays, settings = unpack(reply.content)
        assert arrays["w"].tolist() == [1, 1, 1]
        np.testing.assert_array_equal(settings["v"], [1.5, np.nan])
    assert w.tolist() == [0, 0, 0]
    assert unpack(content)[0]["w"].tolist() == [0, 0, 0]
    assert grid.bytes > 4 * 24


def test_exceptions_come_back_as_error_replies() -> None:
    grid = LocalGrid(echo(), 1)
    [reply] = grid.send_and_receive([Message(pack({}, {}), grid.get_node_ids()[0], "query")])
    assert reply.has_error()
    assert reply.error.reason == "KeyError: 'nothing here'"


def test_nobody_answers_for_a_client_that_is_gone() -> None:
    grid = LocalGrid(echo(), 2)
    first, second = grid.get_node_ids()
    messages = [Message(pack({"w": np.zeros(1)}, {}), i, "train") for i in (first, second)]
    grid.leave(first)
    [reply] = grid.send_and_receive(messages)
    assert reply.metadata.src_node_id == second


def test_node_configs_run_config_and_seeds() -> None:
    configs = [{"key": "north"}, {"key": "south"}]
    grid = LocalGrid(echo(), configs, run_config={"rate": 0.5}, seed=3)
    contexts = list(grid.contexts.values())
    assert [c.node_config for c in contexts] == configs
    assert all(c.run_config == {"rate": 0.5} for c in contexts)
    assert (
        LocalGrid(echo(), 3, seed=3).get_node_ids() != LocalGrid(echo(), 3, seed=4).get_node_ids()
    )


def test_flowers_own_strategy_runs_on_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        value = float(str(context.node_config["partition-id"]))
        content = RecordDict(
            {
                "arrays": ArrayRecord({"w": Array(np.array([value]))}),
                "metrics": MetricRecord({"num-examples": 1 + int(value)}),
            }
        )
        return Message(content, reply_to=message)

    strategy = FedAvg(fraction_evaluate=0.0)
    start = ArrayRecord({"w": Array(np.zeros(1))})
    result = strategy.start(LocalGrid(app, 3), start, 1, train_config=ConfigRecord())
    assert result.arrays["w"].numpy()[0] == pytest.approx((0 * 1 + 1 * 2 + 2 * 3) / 6)


# -- arrays in messages ----------------------------------------------------------------------------

KINDS = [
    np.arange(12.0).reshape(3, 4),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(5, dtype=np.int32),
    np.array([1.5, -0.0], dtype=">f4"),
    np.array(3.0),
    np.zeros((0, 2)),
    np.array([True, False]),
    np.array(["a", "bc"]),
]


@pytest.mark.parametrize("array", KINDS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_arrays_are_read_as_flower_reads_them(array: Any) -> None:
    sent = Array(array)
    content = RecordDict({"arrays": ArrayRecord({"a": sent}), "settings": ConfigRecord()})
    for _ in range(2):  # the second time its header is known
        read = unpack(content)[0]["a"]
        assert (read.dtype, read.shape) == (sent.numpy().dtype, array.shape)
        np.testing.assert_array_equal(read, sent.numpy())
        read[...] = 0  # the caller's own copy


@pytest.mark.parametrize(
    "data",
    [
        Array(np.arange(4.0)).data[:-3],
        Array(np.arange(4.0)).data + bytes(8),
        Array(np.arange(4.0)).data.replace(b"(4,)", b"(9,)"),
        Array(np.arange(4.0)).data.replace(b"<f8", b"|O8"),
        b"",
        b"\x93NUMPY\x01\x00",
        b"\x93NUMPY\x01\x00\xff\xff",
    ],
)
def test_broken_arrays_are_refused(data: bytes) -> None:
    record = ArrayRecord({"a": Array("float64", (4,), "numpy.ndarray", data)})
    content = RecordDict({"arrays": record, "settings": ConfigRecord()})
    with pytest.raises(ValueError, match="message cannot be read"):
        unpack(content)


def test_a_message_that_is_too_large_says_what_to_do() -> None:
    give_identity()
    message = Message(pack({"w": np.zeros(100)}, {}), 1, "train")
    message.metadata.__dict__["_message_id"] = "one"
    assert through_the_wire(message)[1] > 800
    with pytest.raises(InputError, match=r"freeze parameters .*deployment"):
        through_the_wire(message, most=800)
