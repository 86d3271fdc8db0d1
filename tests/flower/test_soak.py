"""A long run in which everything goes wrong, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from flower.clients import Tampered, app_of, grid_of, spread, table
from flwr.app import Error, Message

from anymix.flower import AgnosticStrategy, LocalGrid, Patience, Steps

STEPS: dict[str, Any] = {"steps": Steps(0.3, 0.05)}


class Storm(LocalGrid):
    """Clients are killed and come back on other nodes, hang, fail, and answer twice, at random.

    One, client 6, is there from time to time under a key of its own and sends NaN.
    """

    def __init__(self, *args: Any, seed: int = 0) -> None:
        self.chance, self.happened = np.random.default_rng(seed), Counter[str]()
        self.copies: list[Message] = []
        self.away: list[dict[str, Any]] = []
        self.calm = True
        super().__init__(*args)

    def _push(self, message: Message) -> str:
        message_id, luck = super()._push(message), self.chance.random()
        if self.calm or message.metadata.message_type != "train":
            return message_id
        self.happened["asked"] += 1
        node = message.metadata.dst_node_id
        context = self.contexts.get(node)
        if context is None or context.node_config["partition-id"] == 6:
            return message_id
        if luck < 0.01:
            self._happens("killed", message_id)
            error = Message(Error(code=5, reason="node unavailable"), reply_to=message)
            error.metadata.__dict__["_src_node_id"] = 1
            self._replies[message_id] = error
            self.leave(node)
            self.away.append(dict(context.node_config))
        elif luck < 0.02:
            self._happens("hung", message_id)
        elif luck < 0.03:
            self._happens("failed", message_id)
            error = Message(Error(code=2, reason="OSError: disk full"), reply_to=message)
            self._replies[message_id] = error
        elif luck < 0.05:
            self.happened["twice"] += 1
            self.copies.append(self._replies[message_id])
        return message_id

    def _happens(self, what: str, message_id: str) -> None:
        self.happened[what] += 1
        self._replies.pop(message_id, None)

    def pull_messages(self, message_ids: Any) -> list[Message]:
        replies = [*super().pull_messages(message_ids), *self.copies]
        self.copies = []
        return replies

    def get_node_ids(self) -> list[int]:
        for config in self.away:
            self.happened["back"] += 1
            self.join(config)
        self.away = []
        return super().get_node_ids()


def storm(rounds: int) -> None:
    X, y, domains = table()
    parts = [*spread("parts", domains), np.arange(10)]

    def nan(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        arrays["update"] = np.full_like(arrays["update"], np.nan)

    app = Tampered(app_of(X, y, domains, parts), 6, nan)
    grid, liars = Storm(app, 6), 0

    def look(number: int, arrays: Any) -> None:
        nonlocal liars
        grid.calm = False
        if number % (rounds // 5) == 0:  # it comes again, and says that it is somebody new
            liars += 1
            grid.join({"partition-id": 6, "key": f"liar {liars}"})

    strategy = AgnosticStrategy(patience=Patience("wait", 30.0, max_failures=20), **STEPS)
    result = strategy.start(grid, num_rounds=rounds, timeout=0.05, evaluate_fn=look)
    history, happened = result.history, grid.happened
    lost = [r["round"] for r in history if r["skipped"]]
    calm = AgnosticStrategy(**STEPS).start(grid_of("parts"), num_rounds=rounds - len(lost))
    # Only the rounds in which somebody lied are lost, and the liar with them.
    assert [r["round"] for r in history] == list(range(1, rounds + 1))
    assert len(lost) == len(result.excluded) == sum(r["rejected"] for r in history)
    assert set(result.excluded) <= {f"liar {i}" for i in range(1, liars + 1)}
    assert result.w.tobytes() == calm.w.tobytes()
    assert result.mixture.tobytes() == calm.mixture.tobytes()
    # Every second reply is in the books, those to rounds that began again with their round.
    assert sum(r["dropped"] for r in history) <= happened["twice"]
    assert happened["killed"] == happened["back"] > 0
    assert min(happened[what] for what in ("hung", "failed", "twice")) > 0


def test_a_storm_ends_with_the_bits_of_the_calm_run() -> None:
    storm(100)


@pytest.mark.slow
def test_a_long_storm() -> None:
    storm(2000)
