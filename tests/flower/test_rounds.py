"""One round: every reply is accounted for, and who did not answer is asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from anymix.flower import LocalGrid
from anymix.flower.exchange import Question, Round, read_answer
from anymix.flower.wire import TRAIN, MessageError, pack

GOOD: dict[str, Any] = {"update": np.ones(2), "sums": np.array([1.0, 2.0, 3.0])}
ASKED = Question(pack({"w": np.zeros(2)}, {}), {"update": (2,), "sums": (3,)})


def reply(**changes: Any) -> RecordDict:
    """A good reply, changed; None takes an entry away."""
    both = {k: v for k, v in (GOOD | changes).items() if v is not None}
    sums = {"sums": both.pop("sums")} if "sums" in both else {}
    return pack(both, sums)


def test_a_good_answer_is_read_as_float64() -> None:
    answer = read_answer(reply(update=np.ones(2, dtype=np.float32)), ASKED)
    assert {name: (a.dtype.name, a.shape) for name, a in answer.items()} == {
        "update": ("float64", (2,)),
        "sums": ("float64", (3,)),
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"update": np.ones(3)}, r"it sent \{.*'update': \(3,\)\} instead of \{'update': \(2,\), "),
        ({"update": np.ones((2, 1))}, r"'update': \(2, 1\)"),
        ({"update": None}, "it sent .*'sums'"),
        ({"more": np.ones(2)}, "'more'"),
        ({"sums": None}, "instead of"),
        ({"sums": "many"}, "'sums': 'many'"),
        ({"update": np.array([1.0, np.nan])}, "update .*not all finite"),
        ({"sums": np.array([1.0, np.inf, 0.0])}, "sums .*not all finite"),
        ({"update": np.ones(2, dtype=int)}, "update .*not all finite"),
        ({"update": np.ones(2, dtype=complex)}, "update .*not all finite"),
    ],
)
def test_an_answer_must_have_the_form_declared(changes: Any, words: str) -> None:
    with pytest.raises(MessageError, match=words):
        read_answer(reply(**changes), ASKED)


def test_an_answer_must_stand_the_check_of_the_question() -> None:
    strict = Question(ASKED.content, ASKED.shapes, lambda answer: "it is a Monday")
    with pytest.raises(MessageError, match="it is a Monday"):
        read_answer(reply(), strict)


def test_records_of_other_kinds_are_refused() -> None:
    broken = Array("float64", (2,), "numpy.ndarray", b"no")
    for content in (
        RecordDict(),
        RecordDict({"arrays": ConfigRecord(), "settings": ConfigRecord()}),
        RecordDict({"arrays": ArrayRecord({"update": broken}), "settings": ConfigRecord()}),
        RecordDict({"arrays": ArrayRecord(), "settings": ConfigRecord({"json": "[1"})}),
    ):
        with pytest.raises(MessageError):
            read_answer(content, ASKED)


Behave = Callable[[str, int], Any]


def grid_of(behave: Behave, n: int = 3) -> tuple[LocalGrid, dict[str, int]]:
    """Clients "0", "1", …; behave(key, times asked before) gives a content, or raises."""
    app, count = ClientApp(), dict[str, int]()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        key = str(context.node_config["partition-id"])
        count[key] = count.get(key, 0) + 1
        return Message(behave(key, count[key] - 1), reply_to=message)

    grid = LocalGrid(app, n)
    nodes = {str(c.node_config["partition-id"]): i for i, c in grid.contexts.items()}
    return grid, nodes


def round_of(nodes: dict[str, int]) -> Round:
    return Round(TRAIN, dict.fromkeys(sorted(nodes), ASKED), nodes)


def test_every_reply_is_an_answer_a_failure_nonsense_or_missing() -> None:
    def behave(key: str, before: int) -> RecordDict:
        if key == "1":
            raise OSError("disk full")
        return reply(update=None) if key == "2" else reply()

    grid, nodes = grid_of(behave, 4)
    asked = round_of(nodes)
    grid.leave(nodes["3"])
    asked.ask(grid, timeout=0.05)
    assert list(asked.answers) == ["0"]
    assert asked.failed == {"1": "OSError: disk full"}
    assert list(asked.rejected) == ["2"]
    assert asked.missing == {"3"}
    assert asked.unanswered == ["1", "2", "3"]
    assert asked.asked == 4
    assert asked.sent == 4 * 144  # an array of two numbers, with its header
    assert asked.received == 144  # the arrays of the good reply; the other sent none
    assert asked.seconds > 0


def test_only_those_named_are_asked_again() -> None:
    def behave(key: str, before: int) -> RecordDict:
        if key == "1" and before < 2:
            raise OSError("not yet")
        return reply(update=None) if key == "2" and before < 1 else reply()

    grid, nodes = grid_of(behave)
    asked, seen = round_of(nodes), list[list[str]]()

    def again(asked: Round) -> list[str]:
        seen.append(asked.unanswered)
        return asked.unanswered

    asked.ask(grid, 1.0, again)
    assert seen == [["1", "2"], ["1"]]
    assert asked.asked == 3 + 2 + 1
    assert (asked.failed, asked.rejected, asked.missing) == ({}, {}, set())
    assert sorted(asked.answers) == ["0", "1", "2"]


def test_who_failed_first_and_is_silent_then_is_missing() -> None:
    def behave(key: str, before: int) -> RecordDict:
        if key == "1":
            raise OSError("disk full")
        return reply()

    grid, nodes = grid_of(behave)
    asked = round_of(nodes)

    def again(asked: Round) -> list[str]:
        if nodes["1"] not in grid.contexts:
            return []
        grid.leave(nodes["1"])
        return asked.unanswered

    asked.ask(grid, 0.05, again)
    assert (asked.failed, asked.missing) == ({}, {"1"})


def test_an_error_in_the_name_of_a_client_that_is_gone() -> None:
    """Where a node is gone the server between replies, with a node id of its own."""

    class Between(LocalGrid):
        def _push(self, message: Message) -> str:
            message_id = super()._push(message)
            if message.metadata.dst_node_id == nodes["1"]:
                error = Message(Error(code=5, reason="node unavailable"), reply_to=message)
                error.metadata.__dict__["_src_node_id"] = 1
                self._replies[message_id] = error
            return message_id

    grid = Between(grid_of(lambda key, before: reply())[0].app, 3)
    nodes = {str(c.node_config["partition-id"]): i for i, c in grid.contexts.items()}
    asked = round_of(nodes)
    asked.ask(grid, 1.0)
    assert asked.missing == {"1"}
    assert asked.failed == {}


def test_a_client_that_moved_is_asked_on_its_new_node() -> None:
    grid, nodes = grid_of(lambda key, before: reply())
    asked = round_of(nodes)
    grid.leave(nodes["1"])

    def again(asked: Round) -> list[str]:
        asked.nodes["1"] = grid.join({"partition-id": 1})
        return asked.unanswered

    asked.ask(grid, 0.05, again)
    assert sorted(asked.answers) == ["0", "1", "2"]
    assert asked.asked == 4


def test_the_first_answer_counts_and_strangers_do_not() -> None:
    grid, nodes = grid_of(lambda key, before: reply(update=np.full(2, float(before))))
    asked = round_of(nodes)
    replies = grid.send_and_receive(asked.messages())
    later = grid.send_and_receive(round_of(nodes).messages())
    for one in [*replies, *later]:
        asked.take(one)
    assert all(answer["update"].tolist() == [0.0, 0.0] for answer in asked.answers.values())
    asked.take(later[0], node_id=12345)
    assert sorted(asked.answers) == ["0", "1", "2"]
