"""Compiled against readable loops in random games, losses from nothing to beyond all numbers.

Runs that diverge are chaos: the last digit of one step decides all that follows. So every compiled
step is compared with one readable step from where it began. Rounding may change that step by as
much as it changes when w is moved by rounding, and no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice, product
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
    X: Any = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 3)
    X[:, 1:] *= rng.random((n, d - 1)) < 0.7  # rows of zeros would cancel
    loss: Any
    kind = pick(rng, ["log", "softmax", "hinge", "huber", "square"])
    scale = 10.0 ** rng.uniform(-8, 100)
    if kind in ("huber", "square"):
        y: Any = scale * rng.normal(size=n)
        delta = scale * 10.0 ** rng.uniform(-2, 1)
        loss, size = (
            (Huber(delta), scale * delta) if kind == "huber" else (SquaredError(), scale**2)
        )
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
    rules: list[Any] = [SGD(), SGD(), Momentum(0.8)]
    if not (isinstance(problem.loss, Hinge) and problem.intercept):
        rules += [Adagrad(), Adam()]  # they would divide slopes of ±1 that cancel by their rounding
    step_mixture = 10.0 ** rng.uniform(-3, 3)
    options: dict[str, Any] = {
        "step_w": 10.0 ** rng.uniform(-6, pick(rng, [1, 5, 40])),
        "step_mixture": step_mixture / (size if rng.random() < 0.7 else 1.0),
        "sampler": pick(rng, [PerDomain, Weighted])(pick(rng, batches)),
        "mixture_sampler": pick(rng, [EveryDomain, UniformDomain])(pick(rng, batches)),
        "adversary": pick(rng, ["euclidean", "entropic"]),
        "optimizer": pick(rng, rules),
        "gamma": pick(rng, [0.0, 0.1, 3.0]),
        "w_radius": pick(rng, [None, 0.5, 10.0 ** rng.uniform(-3, 50)]),
        "offsets": size * rng.normal(size=p) if rng.random() < 0.3 else None,
        "start": 1e-3 * rng.normal(size=problem.n_parameters),  # at 0 gradients cancel likewise
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


def compiled_step(path: Iterator[Iterate]) -> Any:
    """The same of a compiled run; what it shows is finite."""
    try:
        iterate = next(path)
        state, averages = iterate.state, (iterate.w_average, iterate.mixture_average)
    except InputError as error:
        return error.argument
    shown = (state["w"], state["total"], state["adversary"]["mixture"], *averages)
    assert all(np.isfinite(x).all() for x in shown), "not finite"
    return state


def near_step(run: Run, problem: LinearDomains, options: Any, state: State | None) -> Any:
    """The same with w moved by rounding."""
    signs = np.random.default_rng(0).choice([-1, 1], problem.n_parameters)
    state = None if state is None else state | {"w": state["w"] * (1 + 4 * EPS * signs)}
    start = options["start"] * (1 + 4 * EPS * signs)
    return one_step(run, problem, options | {"start": start}, state)


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
    before = None
    path = run(problem, compiled=True, **options)
    told = {**options, "optimistic": run is optimistic_afl}
    for _ in range(steps):
        wanted = one_step(run, problem, options, before)
        found = compiled_step(path)
        if isinstance(found, str) or isinstance(wanted, str):
            refused, other = (found, wanted) if isinstance(found, str) else (wanted, found)
            assert other == refused or is_huge(other, told), "one of them is refused"
            return f"refuses {refused}"
        near = near_step(run, problem, options, before)
        assert_same_model(found, wanted, near, before)
        assert_same_mixture(found, wanted, near, told, before)
        before = found
    return "finite"


def is_huge(state: Any, options: dict[str, Any]) -> bool:
    """Whether a number is so large that rounding decides whether the next one is finite."""
    if isinstance(state, str):
        return False
    delta = np.abs(state["adversary"]["previous"]).max()
    largest = max(np.abs(state["w"]).max(), delta, options["step_mixture"] * delta)
    return bool(largest > 1e300 or (options["w_radius"] and largest > 1e150))


def outcomes(seeds: range) -> Counter[str]:
    return Counter(outcome(seed) for seed in seeds)


@pytest.mark.parametrize("size", [1e8, 1e9, 1e12, 1e50, 1e149])
@pytest.mark.parametrize("batch", [1, 5])
def test_huge_losses_leave_a_mixture(size: float, batch: int) -> None:
    """The largest entry of λ + γδ was taken for 0 where rounding had moved it below −2."""
    y = size * np.arange(4)
    problem = LinearDomains(np.zeros((4, 1)), y, list("abcd"), SquaredError())
    options: dict[str, Any] = {"step_w": 0.01, "step_mixture": 1e-3, "sampler": Weighted(batch)}
    for run, seed in product((stochastic_afl, optimistic_afl), range(5)):
        one, other = (
            next(run(problem, seed=seed, every=100, compiled=compiled, **options))
            for compiled in (True, False)
        )
        np.testing.assert_allclose(one.mixture, other.mixture, rtol=0, atol=1e-12)
        np.testing.assert_allclose(one.w, other.w, rtol=1e-9)


@pytest.mark.parametrize("compiled", [True, False])
def test_the_average_survives_a_step_far_out_of_the_ball(compiled: bool) -> None:
    """w_1 is in the ball and w_2 = 1e30 is brought back to its edge: the average is of both."""
    y = [1.0, 1.0]
    problem = LinearDomains(np.eye(1)[[0, 0]], y, ["a", "a"], SquaredError(), intercept=False)
    sizes: dict[str, Any] = {"step_w": lambda t: 1e-1 if t == 1 else 1e30, "step_mixture": 0.0}
    (_, second) = islice(stochastic_afl(problem, w_radius=0.5, compiled=compiled, **sizes), 2)
    np.testing.assert_allclose(second.w_average, (0.1 + 0.5) / 2, rtol=1e-12)


@pytest.mark.parametrize("sampler", [PerDomain(), Weighted()], ids=repr)
def test_a_state_with_no_mixture_in_it_is_refused(sampler: Any) -> None:
    problem = LinearDomains(np.eye(2), [0, 1], ["a", "b"])
    options: dict[str, Any] = {"step_w": 0.1, "step_mixture": 0.1, "sampler": sampler}
    state = next(stochastic_afl(problem, compiled=True, **options)).state
    for array in state["compiled"].values():
        array[...] = np.nan if array.dtype.kind == "f" else array
    with pytest.raises(InputError):
        print(next(stochastic_afl(problem, compiled=True, state=state, **options)).mixture)


def test_random_games() -> None:
    found = outcomes(range(60))
    assert found["finite"] > 30
    assert found["refuses step_mixture"] > 0


@pytest.mark.slow
def test_two_thousand_random_games() -> None:
    found = outcomes(range(1000, 3000))
    assert found["finite"] > 1000
    assert found["refuses step_w"] > 20
    assert found["refuses step_mixture"] > 100
