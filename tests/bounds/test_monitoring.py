"""The monitor: false alarms, true ones, bounds at all times, and its saved state."""

import json
import math
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from anymix.bounds import Monitor, held_out
from anymix.bounds.monitoring import ALARM_SHARES
from anymix.errors import InputError


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def false_alarms(runs: int, rows: int, delta: float) -> float:
    """The share of runs with an alarm although the mean loss is just at its limit."""
    r, alarmed = rng(1), 0
    for _ in range(runs):
        monitor = Monitor(delta, {"a": 0.1})
        alarmed += bool(monitor.update(r.random(rows) < 0.1, np.full(rows, "a")).alarms)
    return alarmed / runs


def test_alarms_without_cause_are_rare() -> None:
    assert false_alarms(300, 2000, 0.1) <= 0.1 + 2 * math.sqrt(0.09 / 300)


@pytest.mark.slow
def test_alarms_without_cause_are_rare_over_100_000_rows() -> None:
    share = false_alarms(1000, 100_000, 0.1)
    print(f"\nalarms in {share:.3f} of 1,000 runs of 100,000 rows, δ = 0.1")
    assert share <= 0.1


def test_a_drop_of_5_points_in_one_domain_is_found() -> None:
    """0.10 becomes 0.15 in one of three domains after 1,000 good rows of each."""
    r, rows = rng(2), []
    d = np.tile(["a", "b", "c"], 6000)
    for _ in range(25):
        monitor = Monitor(0.05, dict.fromkeys("abc", 0.1))
        monitor.update(r.random(3000) < 0.1, d[:3000])
        assert not monitor.alarms
        monitor.update(r.random(18_000) < np.where(d == "b", 0.15, 0.1), d)
        assert set(monitor.alarms) == {"b"}
        rows.append(monitor.alarms["b"] - 1000)
    print(f"\na drop of 5 points was found after {np.median(rows):.0f} rows of the domain (median)")
    assert np.median(rows) < 1500


def plain_evidence(x: Any, limit: float) -> list[float]:
    """E_t by the sum in the docstring, row by row, start by start."""
    found = []
    for t in range(1, len(x) + 1):
        total = 1 / (t + 1)  # Σ_{s>t} π_s
        for s in range(1, t + 1):
            games = [np.prod(1 - b + b * x[s - 1 : t] / limit) for b in ALARM_SHARES]
            total += float(np.mean(games)) / (s * (s + 1))
        found.append(total)
    return found


def test_the_alarm_goes_off_where_the_evidence_reaches_one_over_delta() -> None:
    x = (rng(3).random(60) < 0.6) * 0.8
    evidence = plain_evidence(x, 0.2)
    for delta in (0.3, 0.01):
        first = next(t for t, e in enumerate(evidence, 1) if e >= 1 / delta)
        assert Monitor(delta, {"all": 0.2}).update(x).alarms == {"all": first}
        exactly = 1 / (evidence[first - 1] * (1 - 1e-12))  # the least that raises it there
        assert Monitor(exactly, {"all": 0.2}).update(x).alarms == {"all": first}
        piecewise = Monitor(delta, {"all": 0.2})
        for start, stop in pairwise([0, 1, 7, 30, 60]):
            piecewise.update(x[start:stop])
        assert piecewise.alarms == {"all": first}


def test_bounds_hold_at_all_times_at_once() -> None:
    failed = 0
    for seed in range(60):
        x, monitor = rng(seed).beta(0.5, 4.5, 800), Monitor(0.1)
        ends = []
        for start, stop in pairwise([0, 5, 20, 60, 150, 400, 800]):
            ends.append(monitor.update(x[start:stop]).interval("all"))
        failed += any(not low <= 0.1 <= high for low, high in ends)
        assert ends[-1][1] - ends[-1][0] < 0.1
    assert failed / 60 <= 0.1


def test_the_bound_of_a_moment_is_near_that_of_rows_that_are_looked_at_once() -> None:
    x, d = rng(4).beta(1, 6, 600), np.repeat(["a", "b"], [400, 200])
    monitor = Monitor(0.05, {"a": 0.5, "b": 0.5}).update(x, d)
    now, once = monitor.guarantee(), held_out(x, d, delta=0.05)
    assert abs(now.value - once.value) < 0.02
    assert now.agnostic_loss == pytest.approx(once.agnostic_loss)
    assert now.sizes.tolist() == [400, 200]
    assert "at all times" in now.explain()


def test_a_guarantee_gives_the_limits() -> None:
    promise = held_out(rng(5).random(300) < 0.1, np.repeat(["a", "b"], 150))
    monitor = Monitor(0.05, promise)
    assert monitor.limits == dict(zip("ab", promise.upper, strict=True))
    assert monitor.interval("a") == (0.0, 1.0)  # nothing is known yet


def test_state_is_saved_whole_and_goes_on(tmp_path: Path) -> None:
    x, d = rng(6).beta(1, 5, 500), rng(7).choice(["a", "b"], 500)
    straight = Monitor(0.05, {"a": 0.1, "b": 0.1}, loss_bound=2.0).update(x, d)
    first = Monitor(0.05, {"a": 0.1, "b": 0.1}, loss_bound=2.0).update(x[:123], d[:123])
    again = Monitor.load(first.save(tmp_path / "monitor.json")).update(x[123:], d[123:])
    assert again.alarms == straight.alarms
    assert again.sizes == straight.sizes
    assert again.interval("a") == pytest.approx(straight.interval("a"), rel=1e-9)
    json.loads((tmp_path / "monitor.json").read_text())
    fresh = Monitor(0.05, {"a": 0.1})
    assert Monitor.load(fresh.save(tmp_path / "fresh.json")).limits == {"a": 0.1}


@pytest.mark.parametrize("names", [(1, 2), (True, False), (("a", 1), ("b", 2)), (0.5, None), "ab"])
def test_names_that_are_no_strings_are_saved_too(names: Any, tmp_path: Path) -> None:
    monitor = Monitor(limits=dict.fromkeys(names, 0.3))
    monitor._take(names[0], rng(8).random(50))
    again = Monitor.load(monitor.save(tmp_path / "monitor.json"))
    assert [*again.limits] == [*names]
    assert [type(name) for name in again.limits] == [type(name) for name in names]
    assert again.alarms == monitor.alarms
    assert again.interval(names[0]) == monitor.interval(names[0])


def test_a_state_of_the_first_format_is_read() -> None:
    state = Monitor(limits={"a": 0.3}).update([0.1, 0.9], ["a", "a"]).state_dict()
    old = {key: dict(part) if isinstance(part, list) else part for key, part in state.items()}
    assert Monitor().load_state_dict(old | {"format": 1}).state_dict() == state


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Monitor(0), "delta is 0"),
        (lambda: Monitor(loss_bound=-1), "loss_bound is -1"),
        (lambda: Monitor(limits={}), "limits is {}; give"),
        (lambda: Monitor(limits={"a": 0}), r"limits\['a'\] is 0"),
        (lambda: Monitor(limits={"a": 2.0}), r"limits\['a'\] is 2.0"),
        (lambda: Monitor().update([0.5, 1.5]), "losses has the loss 1.5, outside of"),
        (lambda: Monitor().update([0.5, -0.5]), "losses has the loss -0.5, outside of"),
        (lambda: Monitor(limits={"a": 0.1}).update([0.1], ["z"]), "domains has 'z', of which no"),
        (lambda: Monitor().guarantee(), "the monitor has seen no rows"),
        (lambda: Monitor(limits={date(2020, 1, 1): 0.5}).save("x.json"), "which cannot be saved"),
        (lambda: Monitor().load_state_dict(cast(Any, [])), "state has the format None"),
        (lambda: Monitor().load_state_dict({"format": 2}), "state cannot be read"),
        (lambda: Monitor().load_state_dict({"format": 9}), "state has the format 9"),
        (lambda: Monitor.load("no such file"), "cannot be read"),
    ],
)
def test_what_cannot_be_is_refused(call: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        call()
