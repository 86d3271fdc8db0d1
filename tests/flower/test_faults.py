from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from flower.clients import FaultyGrid, app_of, grid_of, spread, table
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

import anymix as ax
from anymix.flower import AgnosticStrategy, LocalGrid, MissingClientsError, Patience, Steps, Sum
from anymix.solvers.samplers import FullBatch

SIZES: dict[str, Any] = {"step_w": 0.3, "step_mixture": 0.1}
STEPS: dict[str, Any] = {"steps": Steps(**SIZES)}


def faulty(lost: set[tuple[int, int]], how: str = "parts") -> FaultyGrid:
    X, y, domains = table()
    parts = spread(how, domains)
    return FaultyGrid(app_of(X, y, domains, parts), len(parts), lost)


def calm(rounds: int) -> Any:
    return AgnosticStrategy(**STEPS).start(grid_of("parts"), num_rounds=rounds)


class Stumbling(ClientApp):
    """Client 1 raises in the first `times` of its trainings."""

    def __init__(self, app: ClientApp, times: float) -> None:
        super().__init__()
        self.app, self.times = app, times

    def __call__(self, message: Message, context: Context) -> Message:
        mine = context.node_config["partition-id"] == 1
        if mine and message.metadata.message_type == "train" and self.times > 0:
            self.times -= 1
            raise OSError("disk full")
        return self.app(message, context)


def stumbling(times: float) -> LocalGrid:
    grid = grid_of("parts")
    grid.app = Stumbling(grid.app, times)
    return grid


def test_wait_asks_again_and_gets_the_same_numbers() -> None:
    strategy = AgnosticStrategy(patience=Patience("wait"), **STEPS)
    result = strategy.start(faulty({(1, 2), (4, 2), (0, 3)}), num_rounds=4, timeout=0.05)
    assert result.w.tobytes() == calm(4).w.tobytes()
    assert [r["missing"] for r in result.history] == [0, 0, 0, 0]
    result = AgnosticStrategy(**STEPS).start(stumbling(2), num_rounds=4)
    assert result.w.tobytes() == calm(4).w.tobytes()
    assert [r["failures"] for r in result.history] == [0, 0, 0, 0]


def test_wait_ends_at_the_deadline() -> None:
    strategy = AgnosticStrategy(patience=Patience("wait", 0.3, max_failures=99), **STEPS)
    with pytest.raises(MissingClientsError, match=r"round 1 lacks .*\['1'\]"):
        strategy.start(stumbling(np.inf), num_rounds=4)


def test_skip_makes_no_step_and_counts_what_is_missing() -> None:
    strategy = AgnosticStrategy(patience=Patience("skip"), **STEPS)
    result = strategy.start(faulty({(1, 2), (4, 2)}), num_rounds=4, timeout=0.05)
    frame = result.history.to_frame()
    assert frame["missing"].tolist() == [0, 2, 0, 0]
    assert frame["failures"].tolist() == [0, 0, 0, 0]  # a killed client sends no error
    assert frame["skipped"].tolist() == [False, True, False, False]
    assert np.isnan(frame["agnostic_loss"][1])  # nothing is made up
    np.testing.assert_array_equal(result.w, calm(3).w)
    np.testing.assert_array_equal(result.mixture_average, calm(3).mixture_average)


def test_stop_names_who_is_missing() -> None:
    strategy = AgnosticStrategy(patience=Patience("stop"), **STEPS)
    with pytest.raises(MissingClientsError, match=r"round 2 lacks .*\['1', '4'\]"):
        strategy.start(faulty({(1, 2), (4, 2)}), num_rounds=4, timeout=0.05)
    with pytest.raises(MissingClientsError, match=r"errors from \['1'\]"):
        AgnosticStrategy(patience=Patience("stop"), **STEPS).start(stumbling(1), num_rounds=1)


def test_errors_are_failures_not_missing(caplog: pytest.LogCaptureFixture) -> None:
    result = AgnosticStrategy(patience=Patience("skip"), **STEPS).start(stumbling(1), num_rounds=2)
    assert [r["failures"] for r in result.history] == [1, 0]
    assert [r["missing"] for r in result.history] == [0, 0]
    assert "client '1' failed: OSError: disk full" in caplog.text


def test_who_always_fails_is_left_out() -> None:
    strategy = AgnosticStrategy(patience=Patience("skip", max_failures=2), **STEPS)
    result = strategy.start(stumbling(np.inf), num_rounds=5)
    assert result.excluded == {"1": "it failed 2 times in a row"}
    assert [r["skipped"] for r in result.history] == [True, True, False, False, False]
    assert [r["clients"] for r in result.history] == [6, 6, 5, 5, 5]
    X, y, domains = table()
    rest = np.concatenate([p for i, p in enumerate(spread("parts", domains)) if i != 1])
    run = ax.stochastic_afl(
        ax.LinearDomains(X[rest], y[rest], domains[rest]), sampler=FullBatch(), **SIZES
    )
    np.testing.assert_allclose(result.w, next(islice(run, 2, None)).w, atol=1e-12)


def test_failures_count_in_a_row() -> None:
    strategy = AgnosticStrategy(patience=Patience("skip", max_failures=2), **STEPS)
    result = strategy.start(faulty({(1, 1), (1, 3), (1, 5)}), num_rounds=6, timeout=0.05)
    assert [r["missing"] for r in result.history] == [1, 0, 1, 0, 1, 0]
    assert result.excluded == {}


class Restless(LocalGrid):
    """Replies come in another order each time, twice, and once more in the next round."""

    old: tuple[Message, ...] = ()

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        new = super().pull_messages(message_ids)
        replies = [*self.old, *new, *new]
        self.old = tuple(new)
        np.random.default_rng(len(self._replies)).shuffle(replies)
        return replies


def test_order_duplicates_and_late_replies_change_nothing() -> None:
    X, y, domains = table()
    parts = spread("mixed", domains)
    restless = Restless(app_of(X, y, domains, parts), len(parts))
    result = AgnosticStrategy(**STEPS).start(restless, num_rounds=5)
    quiet = AgnosticStrategy(**STEPS).start(grid_of("mixed"), num_rounds=5)
    assert result.w.tobytes() == quiet.w.tobytes()
    assert result.mixture.tobytes() == quiet.mixture.tobytes()


def test_clients_join_and_leave() -> None:
    """Client 3 goes after round 2 and is back after round 4: the steps are of who is there."""
    grid = grid_of("parts")
    third = next(i for i, c in grid.contexts.items() if c.node_config["partition-id"] == 3)

    def change(number: int, arrays: Any) -> None:
        if number == 2:
            grid.leave(third)
        if number == 4:
            grid.join({"partition-id": 3})

    strategy = AgnosticStrategy(patience=Patience("skip"), **STEPS)
    result = strategy.start(grid, num_rounds=6, evaluate_fn=change)
    assert [r["clients"] for r in result.history] == [6, 6, 5, 5, 6, 6]
    X, y, domains = table()
    rest = np.setdiff1d(np.arange(90), spread("parts", domains)[3])
    whole = ax.LinearDomains(X, y, domains)
    part = ax.LinearDomains(X[rest], y[rest], domains[rest])
    state: Any = None
    for problem in (whole, part, whole):
        run = ax.stochastic_afl(problem, sampler=FullBatch(), state=state, **SIZES)
        state = next(islice(run, 1, None)).state
    np.testing.assert_allclose(result.w, state["w"], atol=1e-12)


def leaving(how_long: int) -> tuple[LocalGrid, Any]:
    """The only client of domain "web" goes after round 1, and comes back after so many looks."""

    class Absent(LocalGrid):
        looks = 0
        gone = False

        def get_node_ids(self) -> list[int]:
            self.looks += self.gone
            if self.gone and self.looks == how_long:
                self.gone = False
                self.join({"partition-id": 2})
            return super().get_node_ids()

    X, y, domains = table()
    grid = Absent(app_of(X, y, domains, spread("domain", domains)), 3)
    web = next(i for i, c in grid.contexts.items() if c.node_config["partition-id"] == 2)

    def go(number: int, arrays: Any) -> None:
        if number == 1:
            grid.leave(web)
            grid.gone = True

    return grid, go


def test_a_domain_with_nobody_is_waited_for() -> None:
    grid, go = leaving(how_long=3)
    result = AgnosticStrategy(patience=Patience("wait"), **STEPS).start(
        grid, num_rounds=3, evaluate_fn=go
    )
    still = AgnosticStrategy(**STEPS).start(grid_of("domain"), num_rounds=3)
    assert result.w.tobytes() == still.w.tobytes()


def test_a_domain_with_nobody_skips_the_rounds() -> None:
    grid, go = leaving(how_long=3)  # the server looks once in every round
    strategy = AgnosticStrategy(patience=Patience("skip"), **STEPS)
    result = strategy.start(grid, num_rounds=5, evaluate_fn=go)
    assert [r["skipped"] for r in result.history] == [False, True, True, False, False]
    mixtures = [r["mixture"] for r in result.history]
    assert mixtures[1] == mixtures[2] == mixtures[3] != mixtures[4]
    still = AgnosticStrategy(**STEPS).start(grid_of("domain"), num_rounds=3)
    assert result.w.tobytes() == still.w.tobytes()


def test_a_domain_with_nobody_for_three_rounds_ends_a_run_that_skips() -> None:
    """It went on to the last round, with NaN as its losses, as if all were well."""
    grid, go = leaving(how_long=10**9)
    strategy = AgnosticStrategy(patience=Patience("skip"), **STEPS)
    with pytest.raises(MissingClientsError, match=r"\['web'\].* round 4, .*\['2'\]"):
        strategy.start(grid, num_rounds=20, evaluate_fn=go)


@pytest.mark.parametrize("policy", ["wait", "stop"])
def test_a_domain_with_nobody_stops_the_run(policy: Any) -> None:
    grid, go = leaving(how_long=10**9)
    strategy = AgnosticStrategy(patience=Patience(policy, deadline=0.3), **STEPS)
    with pytest.raises(MissingClientsError, match=r"round 2 .*nobody .*\['web'\]"):
        strategy.start(grid, num_rounds=6, evaluate_fn=go)


def test_a_named_domain_that_never_comes() -> None:
    names = ["chat", "mail", "web", "voice"]
    strategy = AgnosticStrategy(domains=names, patience=Patience(deadline=0.2), **STEPS)
    with pytest.raises(MissingClientsError, match=r"nobody .*\['voice'\]"):
        strategy.start(grid_of(), num_rounds=1)


def test_with_a_smaller_share_the_others_stand_in_and_the_mixture_stays() -> None:
    """Client 1 (half of "chat") is lost: its domain's gradient is its other half's, weight λ_k."""
    strategy = AgnosticStrategy(patience=Patience("stop"), aggregation=Sum(0.3), **STEPS)
    result = strategy.start(faulty({(1, 1)}), num_rounds=1, timeout=0.05)
    X, y, domains = table()
    rest = np.setdiff1d(np.arange(90), spread("parts", domains)[1])
    part = ax.LinearDomains(X[rest], y[rest], domains[rest])
    run = ax.stochastic_afl(part, sampler=FullBatch(), **SIZES)
    first = next(run)
    np.testing.assert_allclose(result.w, first.w, atol=1e-12)
    np.testing.assert_allclose(result.mixture, first.mixture, atol=1e-12)
    assert result.history[0]["missing"] == 1
    assert not result.history[0]["skipped"]
    strategy = AgnosticStrategy(patience=Patience("stop"), aggregation=Sum(0.9), **STEPS)
    with pytest.raises(MissingClientsError):
        strategy.start(faulty({(1, 1)}), num_rounds=1, timeout=0.05)
