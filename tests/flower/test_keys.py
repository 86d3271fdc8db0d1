"""Who claims to be whom: keys, kinds of model, domains, and clients without rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from flower.clients import Tampered, app_of, grid_of, spread, table
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo

from anymix.errors import InputError
from anymix.flower import (
    AgnosticStrategy,
    Limits,
    LocalGrid,
    MissingClientsError,
    Patience,
    Steps,
    client_app,
    federated_solve,
)
from anymix.flower.members import Members

STEPS: dict[str, Any] = {"steps": Steps(0.3, 0.1)}


class Impostor(ClientApp):
    """The node with "liar" in its config says that it is client 3, and sends NaN, or raises."""

    def __init__(self, app: ClientApp, raises: bool) -> None:
        super().__init__()
        self.app, self.raises = app, raises

    def __call__(self, message: Message, context: Context) -> Message:
        reply = self.app(message, context)
        if "liar" in context.node_config and message.metadata.message_type == "train":
            if self.raises:
                raise OSError("client 3 is no more")
            return Tampered(self.app, 3, _nan)(message, context)
        return reply


def _nan(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    arrays["update"] = np.full_like(arrays["update"], np.nan)


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("policy", ["skip", "wait"])
@pytest.mark.parametrize("seed", range(4))  # either of the two may have the lower node id
def test_who_takes_anothers_key_cannot_have_it_banned(
    seed: int, policy: Any, raises: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor can it stop a run that waits: the one whose key it is takes its place."""
    X, y, domains = table()
    parts = spread("parts", domains)
    nodes = [{"partition-id": i} for i in range(6)] + [{"partition-id": 3, "liar": 1}]
    grid = LocalGrid(Impostor(app_of(X, y, domains, parts), raises), nodes, seed=seed)
    result = AgnosticStrategy(patience=Patience(policy), **STEPS).start(grid, num_rounds=4)
    lost = sum(r["skipped"] for r in result.history)
    calm = AgnosticStrategy(**STEPS).start(grid_of("parts"), num_rounds=4 - lost)
    assert lost <= (3 if raises and policy == "skip" else 1)  # failures are three in a row
    assert result.excluded == {}
    assert result.w.tobytes() == calm.w.tobytes()
    assert "client '3' is there twice" in caplog.text


def test_a_later_claimant_is_refused_and_the_first_untouched() -> None:
    grid = grid_of("parts")
    members = Members(grid)
    before = members.look().nodes
    grid.join({"partition-id": 3, "liar": 1})
    assert members.look().nodes == before
    assert [*members.refused.values()] == ["client '3' is there twice"]


class Authenticated(LocalGrid):
    """Every node has a public key, which is in its config."""

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [
            NodeInfo(node_id=i, public_key=str(c.node_config["public"]).encode())
            for i, c in self.contexts.items()
        ]


def test_a_key_belongs_to_a_public_key() -> None:
    """Client 3 goes; another node cannot take its place, the node with its public key can."""
    X, y, domains = table()
    app = app_of(X, y, domains, spread("parts", domains))
    nodes = [{"partition-id": i, "public": f"key of {i}"} for i in range(6)]
    for authenticated, keys in ((True, list("01245")), (False, list("012345"))):
        grid = Authenticated(app, nodes)
        members = Members(grid, limits=Limits(authenticated=authenticated))
        grid.leave(members.look().nodes["3"])
        grid.join({"partition-id": 3, "public": "another"})
        assert members.look().keys == keys
        if authenticated:
            assert [*members.refused.values()] == ["client '3' has another public key than before"]
            grid.join({"partition-id": 3, "public": "key of 3"})
            assert members.look().keys == list("012345")


def named(names: Callable[[int], list[str]], nodes: int = 4) -> LocalGrid:
    def load(context: Context) -> tuple[Any, Any, Any]:
        mine = names(int(context.node_config["partition-id"]))
        return np.ones((len(mine), 1)), np.arange(len(mine)) % 2, mine

    return LocalGrid(client_app(load, classes=[0, 1]), nodes)


def test_a_client_cannot_bring_thousands_of_domains() -> None:
    def names(i: int) -> list[str]:
        return [f"made up {k}" for k in range(2000)] if i == 2 else ["a", "b"]

    result = AgnosticStrategy(**STEPS).start(named(names), num_rounds=2)
    assert result.domains == ("a", "b")
    assert "2000 domains, more than 100" in result.excluded["2"]
    result = AgnosticStrategy(limits=Limits(domains=None), **STEPS).start(
        named(names), num_rounds=2
    )
    assert len(result.domains) == 2002
    with pytest.raises(InputError, match="client '2': it names 2000"):
        federated_solve(named(names))


def test_a_domain_may_need_several_clients() -> None:
    """With 2 the made-up domain is out, and so is who has it; a lone honest one goes too."""

    def names(i: int) -> list[str]:
        return {0: ["a", "b"], 1: ["a", "b"], 2: ["a", "mine"], 3: ["a"]}[i]

    assert AgnosticStrategy(**STEPS).start(named(names), num_rounds=1).domains == ("a", "b", "mine")
    strategy = AgnosticStrategy(limits=Limits(clients_per_domain=2), **STEPS)
    result = strategy.start(named(names), num_rounds=1)
    assert result.domains == ("a", "b")
    assert result.excluded == {"2": "fewer than 2 clients have ['mine']"}
    strategy = AgnosticStrategy(
        limits=Limits(clients_per_domain=2), domains=["a", "b", "mine"], **STEPS
    )
    assert strategy.start(named(names), num_rounds=1).excluded == {}  # the server knows them


def test_everybody_may_be_left_out() -> None:
    strategy = AgnosticStrategy(
        limits=Limits(clients_per_domain=3), patience=Patience(deadline=0.2), **STEPS
    )
    with pytest.raises(MissingClientsError, match="fewer than 3 clients have"):
        strategy.start(named(lambda i: [f"{i}"]), num_rounds=1)


def lying_about_its_model(nodes: int) -> LocalGrid:
    def other(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        settings["kind"] = "SquaredError()"

    grid = named(lambda i: ["a", "b"], nodes)
    grid.app = Tampered(grid.app, 1, other, kind="query")
    return grid


def test_one_of_two_with_another_model_stops_the_run() -> None:
    """Nobody can say which of the two lies; the honest one was thrown out before."""
    with pytest.raises(InputError, match=r"the .*different models"):
        AgnosticStrategy(**STEPS).start(lying_about_its_model(2), num_rounds=1)
    with pytest.raises(InputError, match=r"the .*different models"):
        federated_solve(lying_about_its_model(2))
    result = AgnosticStrategy(**STEPS).start(lying_about_its_model(3), num_rounds=2)
    assert [r["clients"] for r in result.history] == [2, 2]


def test_a_client_with_another_model_cannot_stop_a_run_that_goes_on() -> None:
    grid = lying_about_its_model(1)

    def join(number: int, arrays: Any) -> None:
        if number == 1:
            grid.join({"partition-id": 1})

    result = AgnosticStrategy(**STEPS).start(grid, num_rounds=3, evaluate_fn=join)
    assert [r["clients"] for r in result.history] == [1, 1, 1]


def test_a_client_without_rows_is_left_out_and_said_so() -> None:
    def names(i: int) -> list[str]:
        return [] if i == 2 else ["a", "b", "a", "b"]

    everybody = Patience(min_clients=4)
    result = AgnosticStrategy(patience=everybody, **STEPS).start(named(names), num_rounds=2)
    assert result.excluded == {"2": "it has no rows"}
    assert [r["clients"] for r in result.history] == [3, 3]
    for n_clients in (None, 4):
        solution = federated_solve(named(names), gamma=0.1, n_clients=n_clients)
        assert solution.client_keys == ("0", "1", "3")
        assert solution.certificate.gap <= 1e-6
