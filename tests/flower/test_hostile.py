from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from flower.clients import Tampered, app_of, grid_of, spread, table
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

import anymix as ax
from anymix import datasets
from anymix.errors import InputError
from anymix.flower import AgnosticStrategy, Limits, LocalGrid, Patience, Steps
from anymix.solvers.optimizers import Adam
from anymix.solvers.samplers import FullBatch

SIZES: dict[str, Any] = {"step_w": 0.3, "step_mixture": 0.1}
STEPS: dict[str, Any] = {"steps": Steps(**SIZES)}
Change = Callable[[dict[str, Any], dict[str, Any]], None]


def nonsense(name: str) -> Change:
    def change(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        sums, n = settings["sums"], len(settings["sums"]) // 2
        match name:
            case "nan update":
                arrays["update"] = np.full_like(arrays["update"], np.nan)
            case "infinite loss":
                sums[0] = np.inf
            case "nan loss":
                sums[0] = np.nan
            case "long update":
                arrays["update"] = np.zeros(len(arrays["update"]) + 1)
            case "table":
                arrays["update"] = arrays["update"][None]
            case "whole numbers":
                arrays["update"] = np.zeros(len(arrays["update"]), dtype=int)
            case "no update":
                del arrays["update"]
            case "more domains":
                settings["sums"] = np.append(sums, [1.0, 1.0])
            case "no sums":
                del settings["sums"]
            case "text":
                settings["sums"] = "many"
            case "negative count":
                sums[n] = -sums[n]
            case "more rows than before":
                sums[n] += 1000

    return change


def cases() -> list[str]:
    return [
        "nan update",
        "infinite loss",
        "nan loss",
        "long update",
        "table",
        "whole numbers",
        "no update",
        "more domains",
        "no sums",
        "text",
        "negative count",
        "more rows than before",
    ]


def without(client: int, rounds: int) -> Any:
    """The central run on the rows of all but one client."""
    X, y, domains = table()
    rest = np.setdiff1d(np.arange(90), spread("parts", domains)[client])
    problem = ax.LinearDomains(X[rest], y[rest], domains[rest])
    return next(islice(ax.stochastic_afl(problem, sampler=FullBatch(), **SIZES), rounds - 1, None))


@pytest.mark.parametrize("policy", ["skip", "wait"])
@pytest.mark.parametrize("name", cases())
def test_nonsense_is_rejected_counted_and_told(
    name: str, policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The round is lost, the client is left out, and the others go on as if it had not been."""
    grid = grid_of("parts")
    grid.app = Tampered(grid.app, 2, nonsense(name))
    result = AgnosticStrategy(patience=Patience(policy), **STEPS).start(
        grid, num_rounds=4, timeout=1
    )
    assert [r["rejected"] for r in result.history] == [1, 0, 0, 0]
    assert [r["skipped"] for r in result.history] == [True, False, False, False]
    assert list(result.excluded) == ["2"]
    assert "client '2' is left out" in caplog.text
    np.testing.assert_allclose(result.w, without(2, 3).w, atol=1e-12)
    np.testing.assert_allclose(result.mixture, without(2, 3).mixture, atol=1e-12)


class Garbled(ClientApp):
    """Client 2 sends bytes that are no array, or records of other names."""

    def __init__(self, app: ClientApp, content: RecordDict) -> None:
        super().__init__()
        self.app, self.content = app, content

    def __call__(self, message: Message, context: Context) -> Message:
        if message.metadata.message_type == "train" and context.node_config["partition-id"] == 2:
            return Message(self.content, reply_to=message)
        return self.app(message, context)


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"arrays": ConfigRecord({"update": 1}), "settings": ConfigRecord()}),
        RecordDict(
            {
                "arrays": ArrayRecord({"update": Array("float64", (3,), "numpy.ndarray", b"no")}),
                "settings": ConfigRecord(),
            }
        ),
        RecordDict({"arrays": ArrayRecord(), "settings": ConfigRecord({"json": "[1"})}),
        RecordDict({"arrays": ArrayRecord(), "settings": ConfigRecord({"json": "[1]"})}),
        RecordDict({"arrays": ArrayRecord(), "settings": ConfigRecord({"sums": b"12345"})}),
    ],
)
def test_garbage_is_rejected(content: RecordDict) -> None:
    grid = grid_of("parts")
    grid.app = Garbled(grid.app, content)
    result = AgnosticStrategy(patience=Patience("skip"), **STEPS).start(grid, num_rounds=4)
    assert list(result.excluded) == ["2"]
    np.testing.assert_allclose(result.w, without(2, 3).w, atol=1e-12)


def described(change: Change) -> LocalGrid:
    """A grid on which client 2 lies about itself."""
    grid = grid_of("parts")
    grid.app = Tampered(grid.app, 2, change, kind="query")
    return grid


def negative(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    arrays["counts"] = -arrays["counts"]


def other_model(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    settings["n_parameters"] = 7


def other_loss(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    settings["kind"] = "SquaredError()"


def twice(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    settings["key"] = "1"


def unknown(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    settings["domains"] = ["casino"]


def huge(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    arrays["counts"] = arrays["counts"] * 1e9


@pytest.mark.parametrize("change", [negative, other_model, other_loss, unknown, huge])
def test_who_describes_itself_badly_takes_no_part(change: Change) -> None:
    strategy = AgnosticStrategy(domains=["chat", "mail", "web"], limits=Limits(rows=1000), **STEPS)
    result = strategy.start(described(change), num_rounds=3)
    assert [r["clients"] for r in result.history] == [5, 5, 5]
    np.testing.assert_allclose(result.w, without(2, 3).w, atol=1e-12)


def test_another_key_does_not_bring_a_node_back() -> None:
    """Client 2 sends nonsense, and calls itself differently each time it is asked."""
    grid = grid_of("parts")
    names = iter(f"new {i}" for i in range(9))

    def rename(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        settings["key"] = next(names)

    grid.app = Tampered(Tampered(grid.app, 2, rename, "query"), 2, nonsense("nan loss"))
    result = AgnosticStrategy(patience=Patience("skip"), **STEPS).start(grid, num_rounds=4)
    assert [r["clients"] for r in result.history] == [6, 5, 5, 5]
    np.testing.assert_allclose(result.w, without(2, 3).w, atol=1e-12)


def test_a_model_that_blows_up_is_not_the_clients_fault() -> None:
    X, y, domains = table()
    parts = spread("parts", domains)
    app = app_of(1e9 * X, y, domains, parts, loss=ax.SquaredError())
    strategy = AgnosticStrategy(steps=Steps(1e6, 0.1))
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(ValueError, match="make step_w shorter"),
    ):
        strategy.start(LocalGrid(app, len(parts)), num_rounds=50)


def test_one_client_cannot_send_the_model_to_infinity_in_silence() -> None:
    def huge_update(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        arrays["update"] = np.full_like(arrays["update"], 1e308)

    grid = grid_of("parts")
    grid.app = Tampered(grid.app, 2, huge_update)
    strategy = AgnosticStrategy(steps=Steps(10.0, 0.1))
    with pytest.raises(InputError, match=r"Limits\(loss=..., update=...\)") as raised:
        strategy.start(grid, num_rounds=3)
    assert raised.value.argument == "step_w"
    strategy = AgnosticStrategy(steps=Steps(0.3, 0.1), limits=Limits(update=1.0))
    assert np.linalg.norm(strategy.start(grid, num_rounds=3).w) < 1


def test_a_key_counts_once() -> None:
    """Nodes 1 and 2 say the same key: one of them takes part."""
    result = AgnosticStrategy(**STEPS).start(described(twice), num_rounds=3)
    assert [r["clients"] for r in result.history] == [5, 5, 5]
    assert any(np.allclose(result.w, without(i, 3).w, atol=1e-12) for i in (1, 2))


def test_losses_are_cut_to_the_bound_and_counted() -> None:
    """Client 0 of two says 10⁶ for its half of domain a: with M it counts as M."""
    X, y = np.zeros((4, 1)), np.array([1, 0, 1, 0])
    domains = np.array(["a", "b", "a", "b"])
    parts = [np.array([0, 1]), np.array([2, 3])]

    def lie(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        settings["sums"][:2] = [1e6, 0.0]

    grid = LocalGrid(Tampered(app_of(X, y, domains, parts), 0, lie), 2)
    strategy = AgnosticStrategy(steps=Steps(0.1, 0.1), limits=Limits(loss=2.0))
    result = strategy.start(grid, num_rounds=1)
    honest = np.log(2)
    expected = [(2.0 + honest) / 2, honest / 2]
    np.testing.assert_allclose(result.history[0]["domain_losses"], expected)
    assert result.history[0]["clipped"] == 1
    assert result.excluded == {}


def test_updates_are_shortened_to_the_bound() -> None:
    def lie(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        arrays["update"] = arrays["update"] * 1e9

    moves = []
    for bound in (None, 2.0):
        grid = grid_of("domain")
        grid.app = Tampered(grid.app, 1, lie)
        strategy = AgnosticStrategy(steps=Steps(1.0, 0.1), limits=Limits(update=bound))
        result = strategy.start(grid, num_rounds=1)
        moves.append(np.linalg.norm(result.w))
    assert moves[0] > 1e6
    assert moves[1] <= 2.0  # Σ_c G · mass_c


def liar(k: int) -> Change:
    def lie(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        settings["sums"][k] = 1e6

    return lie


def honest_worst(data: Any, k: int | None, rounds: int, **options: Any) -> tuple[float, Any]:
    """The worst-domain loss of the honest clients 1..19 when client 0 lies about domain k."""
    X, y, domains = data
    parts = np.array_split(np.random.default_rng(0).permutation(len(y)), 20)
    app = app_of(X, y, domains, parts)
    grid = LocalGrid(app if k is None else Tampered(app, 0, liar(k)), 20)
    strategy = AgnosticStrategy(
        ax.Objective(gamma=1e-4), steps=Steps(0.05, 0.2, optimizer=Adam()), **options
    )
    result = strategy.start(grid, num_rounds=rounds)
    rows = np.concatenate(parts[1:])
    losses = ax.LinearDomains(X[rows], y[rows], domains[rows]).losses(result.w)
    return float(losses.max()), result.mixture


def test_one_liar_among_twenty_owns_the_mixture_only_without_a_bound() -> None:
    rng = np.random.default_rng(0)
    domains = np.where(rng.random(1000) < 0.3, "a", "b")
    X = rng.normal(size=(1000, 2))
    slope = np.where(domains == "a", -0.5, 2.0)
    y = (slope * X[:, 0] + X[:, 1] + rng.logistic(size=1000) > 0).astype(int)
    data = (X, y, domains)
    calm, _ = honest_worst(data, None, 40)
    for k in (0, 1):
        attacked, mixture = honest_worst(data, k, 40)
        assert mixture[k] == pytest.approx(1.0)
        assert attacked > 1.1 * calm
        guarded, mixture = honest_worst(data, k, 40, limits=Limits(loss=np.log(2)))
        assert 0.02 < mixture[k] < 0.98
        assert guarded <= 1.05 * calm


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 1])
def test_one_liar_among_twenty_on_adult(k: int) -> None:
    """Measured: 1.6 % and 0.3 % worse with M = log 2, 123 % and 51 % without a bound."""
    adult = datasets.load_adult(progress=False)
    data = (adult.X, np.asarray(adult.y), np.asarray(adult.domains))
    calm, _ = honest_worst(data, None, 150)
    attacked, _ = honest_worst(data, k, 150)
    guarded, _ = honest_worst(data, k, 150, limits=Limits(loss=np.log(2)))
    assert attacked > 1.4 * calm
    assert guarded <= 1.05 * calm
