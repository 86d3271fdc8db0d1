"""Compiled against readable loops in random games, losses from nothing to beyond all numbers.

Runs that diverge are chaos: the last digit of one step decides all that follows. So every compiled
step is compared with one readable step from where it began. Rounding may change that step by as
much as it changes when w is moved by rounding, and no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from anymix.errors import InputError
from anymix.mixtures import DirichletPrior
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Hinge, Huber, SquaredError
from anymix.solvers.optimizers import SGD, Adagrad, Adam, Momentum
from anymix.solvers.samplers import EveryDomain, PerDomain, UniformDomain, Weighted
from anymix.solvers.stochastic import Iterate, optimistic_afl, stochastic_afl

Array = NDArray[np.float64]
Rng = np.random.Generator
State = dict[str, Any]
Run = Callable[..., Iterator[Iterate]]
STEPS = 15
EPS = float(np.finfo(np.float64).eps)


def pick(rng: Rng, values: list[Any]) -> Any:
    return values[rng.integers(len(values))]


def problem_of(rng: Rng) -> tuple[LinearDomains, float]:
    """Rows in several domains, and the size of their losses at w = 0."""
    p, d = int(rng.integers(1, 10)), int(rng.integers(1, 6))
    n = p + int(rng.integers(4, 30))
    X: Any = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7) * 10.0 ** rng.uniform(-2, 3)
    kind = pick(rng, ["log", "softmax", "hinge", "huber", "square"])
    scale = 10.0 ** rng.uniform(-8, 100)
    if kind in ("huber", "square"):
        y: Array = scale * rng.normal(size=n)
        delta = scale * 10.0 ** rng.uniform(-2, 1)
        loss, size = (Huber(delta), scale * delta) if kind == "huber" else (SquaredError(), scale**2)
    else:
        y = np.arange(n) % (3 if kind == "softmax" else 2)
        loss, size = (Hinge() if kind == "hinge" else CrossEntropy()), 1.0
    members: Any = np.concatenate([np.arange(p), rng.integers(p, size=n - p)])
    if p > 1 and rng.random() < 0.2:
        members = (rng.random((n, p)) < 0.5) | np.eye(p, dtype=bool)[members]
    weight = rng.random(n) + 0.1 if rng.random() < 0.3 else None
    X = sparse.csr_array(X) if rng.random() < 0.5 else X
    options: Any = {"sample_weight": weight, "intercept": bool(rng.random() < 0.7)}
    return LinearDomains(X, y, members, loss, **options), size


def game_of(seed: int) -> tuple[LinearDomains, Run, dict[str, Any]]:
    """A problem, an algorithm and its options."""
    rng = np.random.default_rng(seed)
    problem, size = problem_of(rng)
    p, batches = problem.n_domains, [1, 2, 5]
    step_mixture = 10.0 ** rng.uniform(-3, 3)
    options: dict[str, Any] = {
        "step_w": 10.0 ** rng.uniform(-6, pick(rng, [1, 5, 40])),
        "step_mixture": step_mixture / (size if rng.random() < 0.7 else 1.0),
        "sampler": pick(rng, [PerDomain, Weighted])(pick(rng, batches)),
        "mixture_sampler": pick(rng, [EveryDomain, UniformDomain])(pick(rng, batches)),
        "adversary": pick(rng, ["euclidean", "entropic"]),
        "optimizer": pick(rng, [SGD(), SGD(), Momentum(0.8), Adagrad(), Adam()]),
        "gamma": pick(rng, [0.0, 0.1, 3.0]),
        "w_radius": pick(rng, [None, 0.5, 10.0 ** rng.uniform(-3, 50)]),
        "offsets": size * rng.normal(size=p) if rng.random() < 0.3 else None,
        "seed": seed,
    }
    penalty = pick(rng, ["none", "none", "mu", "prior"])
    if penalty == "mu":
        options["mu"] = size * 10.0 ** rng.uniform(-3, 0)
    elif penalty == "prior":
        options["prior"] = DirichletPrior(1 + rng.random(p))
    return problem, pick(rng, [stochastic_afl, optimistic_afl]), options


def one_step(run: Run, problem: LinearDomains, options: Any, state: State | None) -> Any:
    """The readable step from there: its state, or the argument that is refused."""
    try:
        return next(run(problem, compiled=False, state=state, **options)).state
    except InputError as error:
        return error.argument


def moved(state: State | None, problem: LinearDomains, rng: Rng) -> State | None:
    """The same state with w moved by rounding."""
    if state is None:
        return None
    w = state["w"] * (1 + 4 * EPS * rng.choice([-1, 1], problem.n_parameters))
    return state | {"w": w}


def numbers(state: State) -> dict[str, Array]:
    """What a step of w leaves behind."""
    found = {"w": state["w"], "total": state["total"], **state["memory"]}
    return found if state["previous"] is None else found | {"previous": state["previous"]}


def assert_same_model(found: State, wanted: State, near: Any, before: State | None) -> None:
    """The numbers of w, to rounding."""
    mine, right = numbers(found), numbers(wanted)
    assert mine.keys() == right.keys()
    for name, value in right.items():
        size = np.abs(value).max() + (0 if before is None else np.abs(numbers(before)[name]).max())
        change = np.inf if isinstance(near, str) else np.abs(numbers(near)[name] - value).max()
        assert np.abs(mine[name] - value).max() <= 1e-9 * size + 100 * change, name


def assert_same_mixture(found: State, wanted: State, near: Any, options: Any, last: Any) -> None:
    """λ, to what rounding of the moves leaves of it: where they are long, who is on top."""
    lam, right = found["adversary"]["mixture"], wanted["adversary"]["mixture"]
    assert lam.min() >= 0
    assert abs(lam.sum() - 1) < 1e-12
    adversary, move = found["adversary"], options["step_mixture"] * found["adversary"]["previous"]
    if last is not None and options["optimistic"]:
        move = 2 * move - options["step_mixture"] * last["adversary"]["previous"]
    slack = 64 * EPS * np.abs(move).max()
    change = 0.0 if isinstance(near, str) else np.abs(near["adversary"]["mixture"] - right).max()
    if slack < 1e-3:
        assert np.abs(lam - right).max() <= 1e-9 + 10 * slack + 100 * change
        return
    p, entropic = len(lam), "logarithm" in adversary
    start: Array = np.full(p, -np.log(p) if entropic else 1 / p)
    if last is not None:
        start = last["adversary"]["logarithm" if entropic else "mixture"]
    v = start + move
    for one in (lam, right):
        assert np.all(v[one > 1e-12] >= v.max() - (40 if entropic else 1) - slack)


def outcome(seed: int, steps: int = STEPS) -> str:
    """How a game ends, after the two loops were compared at every step of it."""
    problem, run, options = game_of(seed)
    rng, before = np.random.default_rng(seed), None
    path = run(problem, compiled=True, **options)
    told = {**options, "optimistic": run is optimistic_afl}
    for _ in range(steps):
        wanted = one_step(run, problem, options, before)
        try:
            iterate = next(path)
            found = iterate.state
            averages = iterate.w_average, iterate.mixture_average
        except InputError as error:
            assert isinstance(wanted, str) or is_huge(wanted, told), f"only compiled: {error}"
            assert not isinstance(wanted, str) or wanted == error.argument
            return f"refuses {error.argument}"
        if isinstance(wanted, str):
            assert is_huge(found, told), f"only readable: {wanted}"
            return f"refuses {wanted}"
        shown = (found["w"], found["total"], found["adversary"]["mixture"], *averages)
        assert all(np.isfinite(x).all() for x in shown), "not finite"
        near = one_step(run, problem, options, moved(before, problem, rng))
        assert_same_model(found, wanted, near, before)
        assert_same_mixture(found, wanted, near, told, before)
        before = found
    return "finite"


def is_huge(state: State, options: dict[str, Any]) -> bool:
    """Whether a number is so large that rounding decides whether the next one is finite."""
    delta = np.abs(state["adversary"]["previous"]).max()
    largest = max(np.abs(state["w"]).max(), delta, options["step_mixture"] * delta)
    return bool(largest > 1e300 or (options["w_radius"] and largest > 1e150))


def outcomes(seeds: range) -> Counter[str]:
    return Counter(outcome(seed) for seed in seeds)


def test_random_games() -> None:
    found = outcomes(range(60))
    assert found["finite"] > 30
    assert found["refuses step_w"] > 0


@pytest.mark.slow
def test_two_thousand_random_games() -> None:
    found = outcomes(range(1000, 3000))
    assert found["finite"] > 1000
    assert found["refuses step_w"] > 50
    assert found["refuses step_mixture"] > 5
