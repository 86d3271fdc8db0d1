"""Iterates are read when asked for: late or at once, the numbers are the same; unread, no cost."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

import anymix as ax
from anymix.errors import InputError
from anymix.solvers.compiled.position import Position
from anymix.solvers.optimizers import SGD, Adam
from anymix.solvers.samplers import EveryDomain, PerDomain, UniformDomain, Weighted
from anymix.solvers.stochastic import (
    Iterate,
    PlayersPoint,
    mirror_prox_afl,
    optimistic_afl,
    stochastic_afl,
)

Algorithm = Callable[..., Iterator[Iterate]]
NAMES = ["w", "mixture", "w_average", "mixture_average", "state"]
STEPS = 150  # more than lie between two marks


def problem(p: int = 5, loss: Any = None) -> ax.LinearDomains:
    rng = np.random.default_rng(p)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    return ax.LinearDomains(X, y, np.arange(60) % p, loss or ax.CrossEntropy())


def begin(algorithm: Algorithm = stochastic_afl, **options: Any) -> Iterator[Iterate]:
    usual = {"step_w": 0.2, "step_mixture": 0.05}
    return algorithm(options.pop("problem", None) or problem(), **(usual | options))


def numbers(iterate: Iterate, names: list[str]) -> dict[str, bytes]:
    return {name: pickle.dumps(getattr(iterate, name)) for name in names}


CASES: list[tuple[Algorithm, dict[str, Any]]] = [
    (mirror_prox_afl, {}),
    (stochastic_afl, {"compiled": False, "optimizer": Adam()}),
    *(
        (algorithm, {"sampler": w, "mixture_sampler": lam, "adversary": adversary, **more})
        for algorithm in (stochastic_afl, optimistic_afl)
        for adversary in ("euclidean", "entropic")
        for w, lam, more in (
            (Weighted(), UniformDomain(), {"optimizer": SGD()}),
            (PerDomain(), EveryDomain(), {"optimizer": Adam(), "gamma": 0.1, "mu": 0.1}),
        )
    ),
]


@pytest.mark.parametrize(("algorithm", "options"), CASES)
@pytest.mark.parametrize("every", [1, 7])
def test_late_or_at_once_the_numbers_are_the_same(
    algorithm: Algorithm, options: dict[str, Any], every: int
) -> None:
    run = begin(algorithm, every=every, **options)
    wanted = [numbers(step, NAMES) for step in islice(run, STEPS)]
    kept = list(islice(begin(algorithm, every=every, **options), STEPS))
    assert [step.step for step in kept] == [every * (t + 1) for t in range(STEPS)]
    rng = np.random.default_rng(0)
    for t in rng.permutation(STEPS)[:40]:
        names = list(rng.permutation(NAMES))
        assert numbers(kept[t], names) == {name: wanted[t][name] for name in names}


@pytest.mark.parametrize("compiled", [True, False])
def test_reading_some_changes_nothing_for_the_others(compiled: bool) -> None:
    wanted = [numbers(step, NAMES) for step in islice(begin(compiled=compiled), STEPS)]
    rng, kept = np.random.default_rng(1), []
    for step in islice(begin(compiled=compiled), STEPS):
        kept.append(step)
        for name in rng.permutation(NAMES)[: rng.integers(0, 3)]:
            getattr(kept[rng.integers(len(kept))], name)
    assert [numbers(step, NAMES) for step in kept] == wanted


def test_a_schedule_that_counts_its_calls_is_asked_once_for_every_step() -> None:
    asked: list[int] = []

    def size(t: int) -> float:
        asked.append(t)
        return 1 / len(asked)  # no function of t: it must not be asked again for a late reader

    kept = list(islice(begin(step_w=size), 20))
    late = [step.w.copy() for step in kept]
    assert asked == list(range(1, 21))
    asked.clear()
    at_once = [step.w.copy() for step in islice(begin(step_w=size), 20)]
    np.testing.assert_array_equal(late, at_once)


def test_a_generator_that_others_draw_from_too() -> None:
    def interleaved(read: bool) -> list[Iterate]:
        rng = np.random.default_rng(3)
        kept = []
        for step in islice(begin(seed=rng), 20):
            rng.random()
            if read:
                numbers(step, NAMES)
            kept.append(step)
        return kept

    for late, at_once in zip(interleaved(read=False), interleaved(read=True), strict=True):
        for name in NAMES[:-1]:
            np.testing.assert_array_equal(getattr(late, name), getattr(at_once, name))
    rng = np.random.default_rng(3)
    first = next(begin(seed=rng))
    before = rng.bit_generator.state
    rng.random(5)
    assert first.state["rng"] == before


def test_a_run_goes_on_from_a_state_that_was_read_late() -> None:
    whole = list(islice(begin(algorithm=optimistic_afl), 100))
    resumed = begin(algorithm=optimistic_afl, state=whole[41].state, seed=9)
    for found, wanted in zip(islice(resumed, 58), whole[42:], strict=True):
        assert numbers(found, NAMES) == numbers(wanted, NAMES)


def test_what_nobody_reads_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two marks the kernels are called once and nothing is copied."""
    calls: dict[str, int] = {}

    def counted(name: str) -> None:
        method = getattr(Position, name)

        def count(*arguments: Any) -> Any:
            calls[name] = calls.get(name, 0) + 1
            return method(*arguments)

        monkeypatch.setattr(Position, name, count)

    for name in ("play", "copy", "w", "total", "adversary", "memory", "arrays"):
        counted(name)
    run = begin(sampler=Weighted())
    next(run)
    calls.clear()
    for step in islice(run, 600):
        assert step.step
    assert set(calls) == {"play", "copy"}
    assert calls["copy"] <= 600 / 64 + 1
    assert calls["play"] <= 2 * (600 / 64 + 1)


def test_readable_points_are_not_computed_either(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("w", "mixture", "w_average", "mixture_average", "state"):
        monkeypatch.setattr(PlayersPoint, name, lambda self: pytest.fail("nobody asked"))
    assert [step.step for step in islice(begin(compiled=False), 3)] == [1, 2, 3]


def test_a_number_is_computed_once() -> None:
    step = next(begin())
    for name in NAMES:
        assert getattr(step, name) is getattr(step, name)


def test_a_step_that_fails_says_so_when_it_is_read_or_soon_after() -> None:
    """The steps before it are as they were."""
    squared = problem(loss=ax.SquaredError())

    def size(t: int) -> float:
        return 0.1 if t < 10 else 1e200

    good = [step.w.copy() for step in islice(begin(problem=squared, step_w=size), 9)]
    kept: list[Iterate] = []
    with pytest.raises(InputError, match=r"step_w .*too long"):
        kept.extend(begin(problem=squared, step_w=size))
    assert 10 < len(kept) < 100
    np.testing.assert_array_equal([step.w for step in kept[:9]], good)
    for _ in range(2):
        with pytest.raises(InputError, match=r"step_w .*too long"):
            _ = kept[15].w
    run = begin(problem=squared, step_w=size)
    last = list(islice(run, 15))[-1]
    for _ in range(2):
        with pytest.raises(InputError, match=r"step_w .*too long"):
            _ = last.w


@pytest.mark.parametrize("compiled", [True, False])
def test_an_iterate_can_be_pickled_early_and_late(compiled: bool) -> None:
    first, *_ = islice(begin(compiled=compiled, step_w=lambda t: 1 / t), 5)
    again = pickle.loads(pickle.dumps(first))
    assert again.step == 1
    assert numbers(again, NAMES) == numbers(first, NAMES)
    assert repr(again) == repr(first)
