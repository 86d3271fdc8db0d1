"""No text of a client's exception reaches the server; it is in the client's own log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flower.clients import table
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.common.serde import message_to_proto
from torch import nn

from anymix.errors import InputError
from anymix.flower import (
    AgnosticStrategy,
    Judging,
    LocalGrid,
    LocalTraining,
    Patience,
    Steps,
    Work,
    client_app,
    federated_certify,
    federated_fit,
    federated_solve,
)
from anymix.flower.wire import pack, unpack

SECRET = "Meyer Anna *1977 HIV+"
X, Y, DOMAINS = table()
STEPS: dict[str, Any] = {"steps": Steps(0.1, 0.1), "patience": Patience("stop")}


class Heard(LocalGrid):
    """Keeps the bytes of all that clients sent, and what they were asked."""

    def __init__(self, app: ClientApp, nodes: int = 3) -> None:
        super().__init__(app, nodes)
        self.sent: list[bytes] = []
        self.errors: list[tuple[str, str | None]] = []  # the kind of question, and the reason

    def _push(self, message: Message) -> str:
        message_id = super()._push(message)
        reply = self._replies[message_id]
        self.sent.append(message_to_proto(reply).SerializeToString())
        kind = message.metadata.message_type
        if reply.has_error():
            self.errors.append((kind, reply.error.reason))
        elif "failed" in (settings := unpack(reply.content)[1]):
            self.errors.append((kind, settings["failed"]))
        return message_id

    def node(self, client: int) -> int:
        """The node id of a client."""
        ids = [i for i, c in self.contexts.items() if c.node_config["partition-id"] == client]
        return ids[0]


class Ill:
    """Loads the rows of a client; client 1 fails from its call number `fails` on."""

    def __init__(self, fails: int) -> None:
        self.fails, self.calls = fails, Counter[int]()

    def __call__(self, context: Context) -> Any:
        i = int(context.node_config["partition-id"])
        self.calls[i] += 1
        if i == 1 and self.calls[i] >= self.fails:
            float(SECRET)  # could not convert string to float: 'Meyer ...'
        mine = np.arange(len(Y)) % 3 == i
        return X[mine], Y[mine], DOMAINS[mine]


def linear(fails: int) -> ClientApp:
    return client_app(Ill(fails), classes=[0, 1], keep=False)


def train(grid: LocalGrid, **options: Any) -> Any:
    return AgnosticStrategy(**STEPS, **options).start(grid, num_rounds=2)


def solve(grid: LocalGrid) -> Any:
    return federated_solve(grid, timeout=0.5, attempts=2)


def certify(grid: LocalGrid) -> Any:
    return federated_certify(grid, None, np.zeros(3), np.ones(3) / 3, attempts=1)


def fit(grid: LocalGrid) -> Any:
    return federated_fit(grid, folds=2, attempts=1)


# what the clients are asked when client 1 fails
FAILURES: dict[str, tuple[Callable[[], ClientApp], Callable[[LocalGrid], Any], str]] = {
    "solve, introduction": (lambda: linear(1), solve, "query"),
    "solve": (lambda: linear(2), solve, "query.solve"),
    "solve, later": (lambda: linear(3), solve, "query.solve"),
    "certify": (lambda: linear(2), certify, "query.solve"),
    "fit, counts": (lambda: linear(2), fit, "query.folds"),
    "fit, sums": (lambda: linear(3), fit, "query.folds"),
    "train": (lambda: linear(2), train, "train"),
}


def check_silence(grid: Heard, caplog: pytest.LogCaptureFixture) -> None:
    """The secret is in the client's log, and in nothing that the server received or logged."""
    assert not any(SECRET.encode() in data for data in grid.sent)
    assert {reason for _, reason in grid.errors} == {"failed"}
    raised = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert any(SECRET in text for text in raised)
    assert not any(SECRET in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("name", FAILURES)
def test_the_server_names_the_client_and_not_its_rows(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    app, run, kind = FAILURES[name]
    grid = Heard(app())
    with pytest.raises((ValueError, RuntimeError)) as raised:
        run(grid)
    assert grid.errors[0][0] == kind
    check_silence(grid, caplog)
    words = str(raised.value)
    assert SECRET not in words
    assert "client '1'" in words
    assert "own log" in words


def test_training_that_waits_for_its_clients_names_who_cannot_load(
    caplog: pytest.LogCaptureFixture,
) -> None:
    grid = Heard(linear(1))
    patience = Patience(deadline=0.2, min_clients=3)
    with pytest.raises(RuntimeError, match="client '1'") as raised:
        AgnosticStrategy(patience=patience).start(grid, num_rounds=1)
    assert "own log" in str(raised.value)
    check_silence(grid, caplog)


@pytest.mark.parametrize(
    ("options", "fails", "kind"),
    [({}, 2, "query.moments"), ({**STEPS, "judging": Judging(hold_out=0.2)}, 4, "evaluate")],
    ids=["columns", "judging"],
)
def test_where_the_others_go_on(
    options: Any, fails: int, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    grid = Heard(linear(fails))
    strategy = AgnosticStrategy(**{**options, "patience": Patience("skip")})
    strategy.start(grid, num_rounds=2)
    assert grid.errors[0][0] == kind
    check_silence(grid, caplog)
    assert "client '1' failed: an exception" in caplog.text


class Broken(nn.Linear):
    """A module that cannot be computed."""

    def forward(self, rows: Any) -> Any:
        raise RuntimeError(SECRET)


def make_only_once() -> Callable[[], nn.Module]:
    made = Counter[str]()

    def model() -> nn.Module:
        made["n"] += 1
        if made["n"] > 3:  # each of the clients has made its own
            raise RuntimeError(SECRET)
        return nn.Linear(2, 2)

    return model


def no_optimizer(parameters: Any, config: Any) -> Any:
    raise RuntimeError(SECRET)


def good(context: Context) -> Any:
    return Ill(99)(context)


@pytest.mark.parametrize(
    ("app", "options", "kind"),
    [
        (lambda: client_app(good, lambda: Broken(2, 2)), {}, "train"),
        (lambda: client_app(good, make_only_once()), {}, "query.first"),
        (
            lambda: client_app(
                good, lambda: nn.Linear(2, 2), local=LocalTraining(optimizer=no_optimizer)
            ),
            {"work": Work(local_epochs=1)},
            "train",
        ),
    ],
    ids=["module", "first weights", "own optimizer"],
)
def test_modules(app: Any, options: Any, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    grid = Heard(app())
    with pytest.raises((ValueError, RuntimeError), match=r"client '\d'.*own log") as raised:
        train(grid, **options)
    assert SECRET not in str(raised.value)
    assert grid.errors[0][0] == kind
    check_silence(grid, caplog)


def test_functions_of_the_app(caplog: pytest.LogCaptureFixture) -> None:
    def fails(context: Context) -> Any:
        raise OSError(SECRET)

    apps = client_app(good, key=fails), client_app(good, classes=[0, 1], describe=fails)
    for app in apps:
        grid = Heard(app)
        with pytest.raises(InputError, match="own log"):
            solve(grid)
        check_silence(grid, caplog)
    app = client_app(good, classes=[0, 1])
    app.query("mine")(lambda message, context: fails(context))  # and of its user
    grid = Heard(app)
    grid.send_and_receive([Message(pack({}, {}), grid.node(0), "query.mine")])
    check_silence(grid, caplog)


def test_what_the_server_may_know() -> None:
    """That a client has no rows, or a model of another kind, is no secret."""

    def reasons(app: ClientApp, run: Callable[[LocalGrid], Any]) -> set[tuple[str, str | None]]:
        grid = Heard(app, 2)
        with pytest.raises((ValueError, RuntimeError), match="own log"):
            run(grid)
        return set(grid.errors)

    module = client_app(good, lambda: nn.Linear(2, 2))
    assert reasons(module, solve) == {("query.solve", "kind")}
    assert reasons(linear(99), lambda grid: train(grid, work=Work(local_epochs=2))) == {
        ("train", "kind")
    }
