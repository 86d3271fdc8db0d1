"""Clients as parts of one problem: what they send, and what happens when they fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flower.solving import Spy, Table, grid_of, parts_of, spread, table
from flwr.app import Context, Error, Message

from anymix.flower import LocalGrid, client_app, federated_solve
from anymix.flower.wire import SOLVE, pack, unpack
from anymix.mixtures import Point
from anymix.problem.linear import LinearDomains


def test_hessian_of_another_mixture_is_asked_for() -> None:
    rows = table("three")
    problem = LinearDomains(*rows)
    parts, clients = parts_of(grid_of(rows, np.arange(90) % 4), [1, 0, 0])
    w, lam = np.linspace(-1, 1, 12), np.array([0.1, 0.6, 0.3])
    look = parts.look(w, lam)
    n_rounds = len(clients.rounds)
    for mixture in (lam, np.array([0.5, 0.5, 0.0])):
        np.testing.assert_allclose(look.hessian(mixture), problem.hessian(w, mixture), atol=1e-14)
        np.testing.assert_allclose(look.gradient(mixture), problem.gradient(w, mixture), atol=1e-14)
    assert len(clients.rounds) == n_rounds + 1


def test_what_is_known_is_not_asked_again() -> None:
    parts, clients = parts_of(grid_of(table(), np.arange(90) % 4), [1.0, 0.0, 0.0])
    for w in (np.zeros(4), np.ones(4), np.zeros(4), np.ones(4)):
        parts.at(w)
    assert len(clients.rounds) == 2


def test_reach_is_at_least_the_largest_number_of_every_column() -> None:
    X, _, _ = rows = table("three")
    parts, _ = parts_of(grid_of(rows, np.arange(90) % 4), [1.0, 0.0, 0.0])
    column = np.tile(np.append(np.max(np.abs(X), axis=0), 1.0), 3)
    assert np.all(column <= parts.reach)
    assert np.all(parts.reach <= 90 ** (1 / 8) * column * (1 + 1e-12))


# -- what leaves a client --------------------------------------------------------------------------


def test_only_sums_leave_a_client() -> None:
    p, D = 3, 4
    look = {"losses": (p,), "jacobian": (p, D), "curvature": (D * (D + 1) // 2,)}
    about = look | {"penalized": (D,), "kind": (7,), "powers": (D,), "targets": (2,)}
    proof = (
        {"conjugate": (2,), "slope": (D,), "error": (D,)}
        | dict.fromkeys(("pivot", "give"), (1, 1))
        | {"bend": (1,)}
    )
    for n, tol in ((90, 1e-6), (900, 1e-6), (90, 1e-14)):
        grid = grid_of(table(n=n), np.arange(n) % 4, kind=Spy)
        solution = federated_solve(grid, gamma=1e-2, tol=tol)
        shapes = [{name: a.shape for name, a in reply.items()} for _, reply in grid.heard]
        assert shapes[:4] == [about] * 4
        assert all(shape in (look, proof) for shape in shapes[4:])
        assert (proof in shapes) == (tol < 1e-6)  # otherwise the last answers prove enough
        assert len(shapes) == 4 * len(solution.rounds)
        sent = sum(a.nbytes for question, _ in grid.heard for a in question.values())
        assert sum(r["sent"] for r in solution.rounds) - sent in range(200 * len(grid.heard) * 3)


def test_rows_without_weight_send_no_curvature() -> None:
    rows = table()
    grid = grid_of(rows, spread(rows, "a client is a domain"), kind=Spy)
    federated_solve(grid, Point([0.0, 1.0, 0.0]))
    looks = [(q["weights"], reply) for q, reply in grid.heard if "step" not in q]
    assert any(np.any(weights) for weights, _ in looks)
    for weights, reply in looks:
        assert ("curvature" in reply) == bool(np.any(weights))


# -- faults ----------------------------------------------------------------------------------------


class Faulty(LocalGrid):
    """`spoil` may change a client's reply (given its key and the number of the message) or drop it.

    It counts the messages of the solver only.
    """

    spoil: Callable[[str, int, Message], Message | None]
    count = 0

    def _push(self, message: Message) -> str:
        message_id = super()._push(message)
        context = self.contexts.get(message.metadata.dst_node_id)
        if message.metadata.message_type == SOLVE and context is not None:
            self.count += 1
            key = str(context.node_config["partition-id"])
            reply = self.spoil(key, self.count, self._replies.pop(message_id))
            if reply is not None:
                self._replies[message_id] = reply
        return message_id


def faulty(spoil: Callable[[str, int, Message], Message | None]) -> Faulty:
    grid: Faulty = grid_of(table(), np.arange(90) % 4, kind=Faulty)
    grid.spoil = spoil
    return grid


def changed(reply: Message, **arrays: Any) -> Message:
    reply.content["arrays"] = pack(unpack(reply.content)[0] | arrays, {})["arrays"]
    return reply


def test_a_lost_answer_is_asked_for_again() -> None:
    well = federated_solve(faulty(lambda key, count, reply: reply))
    grid = faulty(lambda key, count, reply: None if count in (2, 6, 7) else reply)
    solution = federated_solve(grid, timeout=0.05)
    np.testing.assert_array_equal(solution.w, well.w)
    assert [r["asked"] for r in solution.rounds[:2]] == [5, 6]


def test_a_missing_client_is_named_and_no_partial_sum_is_used() -> None:
    grid = faulty(lambda key, count, reply: None if key == "2" and count > 8 else reply)
    with pytest.raises(TimeoutError, match=r"no answer .*\['2'\]"):
        federated_solve(grid, timeout=0.02)
    assert grid.count == 12 + 2  # the round and two more attempts, for client 2 alone


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"losses": np.full(3, np.nan)}, "losses .*not all finite"),
        ({"losses": -np.ones(3)}, "losses are negative"),
        ({"jacobian": np.ones((2, 4))}, r"sent .*\(2, 4\).* instead of"),
        ({"rows": np.ones(3)}, "rows.* instead of"),
        ({"curvature": np.ones(10, dtype=complex)}, "curvature .*not all finite"),
    ],
)
def test_a_wrong_answer_is_refused_and_its_sender_named(wrong: Any, words: str) -> None:
    def spoil(key: str, count: int, reply: Message) -> Message:
        return changed(reply, **wrong) if key == "1" and count > 4 else reply

    with pytest.raises(ValueError, match=f"client '1' gave .*{words}"):
        federated_solve(faulty(spoil))


def test_an_error_in_the_name_of_a_lost_client_is_its_failure() -> None:
    """Where a node is gone the server between replies itself, with a node id of its own."""

    def spoil(key: str, count: int, reply: Message) -> Message:
        if count != 6:
            return reply
        error = Message(Error(code=5, reason="node unavailable"), reply_to=reply)
        error.metadata.__dict__["_src_node_id"] = 1
        error.metadata.__dict__["_reply_to_message_id"] = reply.metadata.reply_to_message_id
        return error

    well = federated_solve(faulty(lambda key, count, reply: reply))
    solution = federated_solve(faulty(spoil))
    np.testing.assert_array_equal(solution.w, well.w)
    assert [r["asked"] for r in solution.rounds[:3]] == [4, 5, 4]


class Flapping(LocalGrid):
    """Client 1 dies in the third round and comes back on another node, with `config`."""

    count = 0

    def __init__(self, *a: Any, **k: Any) -> None:
        super().__init__(*a, **k)
        self.config: dict[str, Any] = {"partition-id": 1}

    def _push(self, message: Message) -> str:
        if message.metadata.message_type == SOLVE:
            self.count += 1
            if self.count == 9:
                gone = next(
                    i for i, c in self.contexts.items() if c.node_config["partition-id"] == 1
                )
                self.leave(gone)
        return super()._push(message)

    def get_node_ids(self) -> list[int]:
        if self.count >= 9 and len(self.contexts) == 3:
            self.join(self.config)
        return super().get_node_ids()


def test_a_client_may_come_back_on_another_node() -> None:
    rows, place = table(), np.arange(90) % 4
    solution = federated_solve(grid_of(rows, place, kind=Flapping), timeout=0.05)
    expected = federated_solve(grid_of(rows, place))
    np.testing.assert_array_equal(solution.w, expected.w)
    assert [r["asked"] for r in solution.rounds[:4]] == [4, 4, 5, 4]


def test_a_client_that_comes_back_with_other_rows_is_refused() -> None:
    rows, place = table(), np.arange(90) % 5
    X, y, domains = rows

    def load(context: Context) -> Table:
        mine = place == context.node_config.get("rows", context.node_config["partition-id"])
        mine &= np.arange(90) < int(context.node_config.get("until", 90))
        return X[mine], y[mine], domains[mine]

    grid = Flapping(client_app(load, classes=["no", "yes"]), nodes=4)
    grid.config = {"partition-id": 1, "rows": 4, "until": 80}
    with pytest.raises(ValueError, match=r"client .*'1' .*came back"):
        federated_solve(grid, timeout=0.05)


def test_too_few_clients() -> None:
    grid = grid_of(table(), np.arange(90) % 4)
    with pytest.raises(TimeoutError, match=r"4 of 5 clients answered within 0\.1 s"):
        federated_solve(grid, n_clients=5, timeout=0.1)


@pytest.mark.parametrize("n_clients", [None, 4])
def test_a_client_that_cannot_load_is_not_left_out_silently(n_clients: int | None) -> None:
    X, y, domains = table()

    def load(context: Context) -> Table:
        mine = np.arange(90) % 4 == context.node_config["partition-id"]
        if context.node_config["partition-id"] == 2:
            raise OSError("the disk is gone")
        return X[mine], y[mine], domains[mine]

    grid = LocalGrid(client_app(load), nodes=4)
    with pytest.raises(ValueError, match=r"node \d+: .* own log"):
        federated_solve(grid, n_clients=n_clients)


def test_a_silent_client_is_not_left_out_silently() -> None:
    class Mute(LocalGrid):
        def _push(self, message: Message) -> str:
            message_id = super()._push(message)
            if message.metadata.dst_node_id == self.get_node_ids()[0]:
                self._replies.pop(message_id)
            return message_id

    with pytest.raises(TimeoutError, match="3 of 4 clients answered"):
        federated_solve(grid_of(table(), np.arange(90) % 4, kind=Mute), timeout=0.3)


def test_a_client_with_another_model_is_refused() -> None:
    X, y, domains = table()

    def load(context: Context) -> Table:
        i = int(context.node_config["partition-id"])
        mine = np.arange(90) % 4 == i
        return X[mine][:, : 3 - (i == 2)], y[mine], domains[mine]

    with pytest.raises(ValueError, match=r"client '2' has .* of 2 columns"):
        federated_solve(LocalGrid(client_app(load), nodes=4))
