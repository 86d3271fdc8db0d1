"""Clients that fail again and again, are killed, load for long, or are the last to answer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flower.clients import app_of, grid_of, spread, table
from flower.solving import grid_of as solving_grid
from flower.solving import spread as solving_spread
from flower.solving import table as solving_table
from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp

from anymix.flower import (
    AgnosticStrategy,
    LocalGrid,
    MissingClientsError,
    Patience,
    Steps,
    Sum,
    federated_solve,
)
from anymix.flower.members import Members

STEPS: dict[str, Any] = {"steps": Steps(0.3, 0.1)}


class Killed(LocalGrid):
    """Client 1 is killed as it gets the message that `when` picks; the SuperLink answers for it.

    As a real one does: it says that the node is unavailable, in its own name, node 1. The dead node
    stays in the list for a while.
    """

    when: Callable[[Message], bool] = staticmethod(lambda message: False)
    listed, dead, back = 3, 0, False

    def _push(self, message: Message) -> str:
        context = self.contexts.get(message.metadata.dst_node_id)
        mine = context is not None and context.node_config["partition-id"] == 1
        if mine and not self.dead and type(self).when(message):
            self.dead = message.metadata.dst_node_id
        message_id = super()._push(message)
        if message.metadata.dst_node_id == self.dead:
            error = Message(Error(code=5, reason="node unavailable"), reply_to=message)
            error.metadata.__dict__["_src_node_id"] = 1
            self._replies[message_id] = error
        return message_id

    def get_node_ids(self) -> list[int]:
        self.listed -= bool(self.dead)
        if self.listed == 0:
            self.leave(self.dead)
            if self.back:
                self.join({"partition-id": 1})
        return super().get_node_ids()


def killed(number: int, *, back: bool) -> Killed:
    X, y, domains = table()
    parts = spread("parts", domains)

    class Now(Killed):
        when = staticmethod(lambda m: m.metadata.group_id == str(number))

    grid = Now(app_of(X, y, domains, parts), len(parts))
    grid.back = back
    return grid


def test_a_killed_client_is_waited_for_and_named() -> None:
    """It must not be dropped in silence, with the others trained to the end."""
    strategy = AgnosticStrategy(patience=Patience("wait", deadline=1.0), **STEPS)
    with pytest.raises(MissingClientsError, match=r"round 2 .*\['1'\] have left"):
        strategy.start(killed(2, back=False), num_rounds=5, timeout=0.2)
    strategy = AgnosticStrategy(patience=Patience("stop"), **STEPS)
    with pytest.raises(MissingClientsError, match=r"round 2 lacks .*\['1'\]"):
        strategy.start(killed(2, back=False), num_rounds=5, timeout=0.2)


def test_who_is_waited_for_is_not_dropped_at_the_deadline() -> None:
    """Silence counted as one failure: with max_failures=1 the others were trained to the end."""
    grid = killed(2, back=False)
    grid.listed = 10**9  # the dead node stays in the list
    patience = Patience("wait", deadline=0.5, max_failures=1)
    with pytest.raises(MissingClientsError, match=r"round 2 lacks .*\['1'\]"):
        AgnosticStrategy(patience=patience, **STEPS).start(grid, num_rounds=5, timeout=0.2)


def test_a_killed_client_that_comes_back_changes_no_bit() -> None:
    result = AgnosticStrategy(**STEPS).start(killed(2, back=True), num_rounds=5, timeout=0.2)
    calm = AgnosticStrategy(**STEPS).start(grid_of("parts"), num_rounds=5)
    assert result.w.tobytes() == calm.w.tobytes()
    assert [r["round"] for r in result.history] == [1, 2, 3, 4, 5]
    assert not any(r["skipped"] for r in result.history)


def test_a_share_of_the_rows_goes_on_without_who_has_left() -> None:
    patience, share = Patience("wait", deadline=5.0), Sum(min_share=0.3)
    strategy = AgnosticStrategy(patience=patience, aggregation=share, **STEPS)
    result = strategy.start(killed(2, back=False), num_rounds=6, timeout=0.2)
    assert result.excluded == {}
    assert [r["clients"] for r in result.history][-1] == 5
    assert not any(r["skipped"] for r in result.history)


@pytest.mark.parametrize("back", [True, False])
def test_solving_survives_a_killed_client_or_names_it(back: bool) -> None:
    """The error of a node that is not there came from node 1, which nobody knows: KeyError."""
    rows = solving_table()
    place = solving_spread(rows, "a client holds several domains")

    class Now(Killed):
        when = staticmethod(lambda m: m.metadata.group_id == "2")

    grid = solving_grid(rows, place, kind=Now)
    grid.back = back
    if back:
        calm = federated_solve(solving_grid(rows, place))
        assert federated_solve(grid, timeout=5.0).w.tobytes() == calm.w.tobytes()
    else:
        with pytest.raises(TimeoutError, match=r"no answer .*\['1'\]"):
            federated_solve(grid, timeout=0.2, attempts=2)


class Failing(ClientApp):
    """Client 1 raises whenever it trains."""

    def __init__(self, app: ClientApp) -> None:
        super().__init__()
        self.app, self.times = app, 0

    def __call__(self, message: Message, context: Context) -> Message:
        if context.node_config["partition-id"] == 1 and message.metadata.message_type == "train":
            self.times += 1
            raise OSError("disk full")
        return self.app(message, context)


def test_who_always_fails_is_left_out_when_we_wait_too() -> None:
    """One client that raises does not stop the others; it was asked hundreds of times before."""
    grid = grid_of("parts")
    grid.app = failing = Failing(grid.app)
    result = AgnosticStrategy(patience=Patience("wait", 30.0), **STEPS).start(grid, num_rounds=4)
    assert failing.times == 3
    assert result.excluded == {"1": "it failed 3 times in a row"}
    assert [r["clients"] for r in result.history] == [6, 5, 5, 5]
    assert [r["skipped"] for r in result.history] == [True, False, False, False]


def test_pauses_between_two_questions_grow() -> None:
    """In a second there is time for five: 0.05 + 0.1 + 0.2 + 0.4 s, then 0.8."""
    grid = grid_of("parts")
    grid.app = failing = Failing(grid.app)
    patience = Patience("wait", deadline=0.9, max_failures=10**6)
    with pytest.raises(MissingClientsError):
        AgnosticStrategy(patience=patience, **STEPS).start(grid, num_rounds=1)
    assert failing.times <= 6


class Slow(LocalGrid):
    """Client 1 answers `kind` only after `seconds`."""

    kind, seconds = "query", 0.5

    def __init__(self, *args: Any) -> None:
        self.due: dict[str, float] = {}
        super().__init__(*args)

    def _push(self, message: Message) -> str:
        message_id = super()._push(message)
        context = self.contexts[message.metadata.dst_node_id]
        if context.node_config["partition-id"] == 1 and message.metadata.message_type == self.kind:
            self.due[message_id] = time.monotonic() + self.seconds
        return message_id

    def pull_messages(self, message_ids: Any) -> list[Message]:
        now = time.monotonic()
        return super().pull_messages([i for i in message_ids if self.due.get(i, 0) <= now])


def slow(kind: str, seconds: float) -> Slow:
    X, y, domains = table()
    parts = spread("parts", domains)
    grid = Slow(app_of(X, y, domains, parts), len(parts))
    grid.kind, grid.seconds = kind, seconds
    return grid


def test_a_client_that_loads_for_long_joins_when_it_is_ready() -> None:
    """Its answer comes after the time for introductions, and counts all the same."""
    patience = Patience(min_clients=6, introduction=0.1)
    result = AgnosticStrategy(patience=patience, **STEPS).start(slow("query", 0.5), num_rounds=3)
    calm = AgnosticStrategy(**STEPS).start(grid_of("parts"), num_rounds=3)
    assert result.w.tobytes() == calm.w.tobytes()
    grid = slow("query", math.inf)
    members = Members(grid, introduction=0.05)
    assert len(members.look().members) == 5
    grid.due.clear()  # now its answer is there
    assert len(members.look().members) == 6  # nobody was asked again


def test_a_round_ends_a_little_after_the_share_is_there() -> None:
    """A straggler costs the grace, not the timeout."""
    patience = Patience("wait", deadline=60.0, grace=0.1)
    strategy = AgnosticStrategy(patience=patience, aggregation=Sum(min_share=0.3), **STEPS)
    result = strategy.start(slow("train", 30.0), num_rounds=3, timeout=30.0)
    assert [r["missing"] for r in result.history] == [1, 1, 1]
    assert sum(r["seconds"] for r in result.history) < 10
    assert not any(r["skipped"] for r in result.history)
    strategy = AgnosticStrategy(
        patience=Patience(grace=30.0), aggregation=Sum(min_share=0.3), **STEPS
    )
    result = strategy.start(slow("train", 0.2), num_rounds=2)
    assert [r["missing"] for r in result.history] == [0, 0]


def test_every_reply_is_accounted_for() -> None:
    class Twice(LocalGrid):
        def pull_messages(self, message_ids: Any) -> list[Message]:
            return [reply for r in super().pull_messages(message_ids) for reply in (r, r)]

    X, y, domains = table()
    parts = spread("parts", domains)
    grid = Twice(app_of(X, y, domains, parts), len(parts))
    result = AgnosticStrategy(**STEPS).start(grid, num_rounds=2)
    assert [r["dropped"] for r in result.history] == [6, 6]
    assert np.isfinite(result.w).all()
