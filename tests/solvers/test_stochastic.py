"""The algorithms of the paper: steps by hand, restarts, and the certified optimum at the end."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from anymix.errors import InputError
from anymix.mixtures import (
    Box,
    Chi2Ball,
    DirichletPrior,
    Hull,
    MixtureSet,
    Point,
    Simplex,
    TVBall,
    Vertices,
    cvar,
)
from anymix.objective import Objective, Phi
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Hinge, Huber, SquaredError
from anymix.solvers.certificates import certify
from anymix.solvers.exact import Solution, solve
from anymix.solvers.optimizers import SGD, Adagrad, Adam, Momentum
from anymix.solvers.samplers import EveryDomain, FullBatch, PerDomain, UniformDomain, Weighted
from anymix.solvers.stochastic import Iterate, mirror_prox_afl, optimistic_afl, stochastic_afl

Array = NDArray[np.float64]
Algorithm = Callable[..., Iterator[Iterate]]
ALGORITHMS: list[Algorithm] = [stochastic_afl, optimistic_afl, mirror_prox_afl]
algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)
ADVERSARIES = ["euclidean", "entropic"]
adversaries = pytest.mark.parametrize("adversary", ADVERSARIES)
SAMPLERS: list[Any] = [PerDomain(), Weighted(), FullBatch()]
samplers = pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)


def iterates(run: Iterator[Iterate], n: int) -> list[Iterate]:
    return list(islice(run, n))


def last(run: Iterator[Iterate], n: int) -> Iterate:
    return iterates(run, n)[-1]


# -- by hand: two domains, three points ------------------------------------------------------------

ROWS = ([(1.0, 1.0), (2.0, 0.0)], [(-1.0, 1.0)])  # (x, y) of each domain


def three_points(loss: str) -> LinearDomains:
    kind = SquaredError() if loss == "squared" else CrossEntropy()
    rows = [(x, y, k) for k in (0, 1) for x, y in ROWS[k]]
    X, y, d = zip(*rows, strict=True)
    return LinearDomains(np.array(X)[:, None], np.array(y), d, kind, intercept=False)


def test_the_first_step_by_hand() -> None:
    # At w = ½ the residuals are −½, 1 and −1½: losses ⅛, ½ and 9/8, slopes −½, 2 and 1½.
    problem = three_points("squared")
    options: dict[str, Any] = {
        "step_w": 0.1,
        "step_mixture": 0.4,
        "sampler": FullBatch(),
        "start": [0.5],
    }
    for algorithm in (stochastic_afl, optimistic_afl):
        found = next(algorithm(problem, Simplex(2), **options))
        # δ_w = ½·¾ + ½·3/2 = 9/8; δ_λ = (5/16, 9/8); λ + 0.4 δ_λ = (5/8, 19/20), less 23/80 each
        np.testing.assert_allclose(found.w, [0.5 - 0.1 * 9 / 8], rtol=1e-12)
        np.testing.assert_allclose(found.mixture, [27 / 80, 53 / 80], rtol=1e-12)
        found = next(algorithm(problem, Simplex(2), adversary="entropic", **options))
        weights = [math.exp(0.4 * 5 / 16), math.exp(0.4 * 9 / 8)]
        np.testing.assert_allclose(found.w, [0.5 - 0.1 * 9 / 8], rtol=1e-12)
        np.testing.assert_allclose(found.mixture, np.array(weights) / sum(weights), rtol=1e-12)


def test_the_second_step_by_hand() -> None:
    # w_1 = 31/80: residuals −49/80, 62/80, −111/80; slopes −49/80, 124/80, 111/80.
    problem = three_points("squared")
    options: dict[str, Any] = {
        "step_w": 0.1,
        "step_mixture": 0.4,
        "sampler": FullBatch(),
        "start": [0.5],
    }
    losses = [(49**2 + 62**2) / 4 / 6400, 111**2 / 2 / 6400]
    slope = 27 / 80 * (124 - 49) / 160 + 53 / 80 * 111 / 80
    plain = iterates(stochastic_afl(problem, Simplex(2), **options), 2)[1]
    half = 0.2 * (losses[0] - losses[1])  # what one gains and the other loses
    np.testing.assert_allclose(plain.w, [31 / 80 - 0.1 * slope], rtol=1e-12)
    np.testing.assert_allclose(plain.mixture, [27 / 80 + half, 53 / 80 - half], rtol=1e-12)
    np.testing.assert_allclose(plain.w_average, [31 / 80 - 0.05 * slope], rtol=1e-12)
    twice = iterates(optimistic_afl(problem, Simplex(2), **options), 2)[1]
    half = 2 * half - 0.2 * (5 / 16 - 9 / 8)  # 2δ² − δ¹
    np.testing.assert_allclose(twice.w, [31 / 80 - 0.1 * (2 * slope - 9 / 8)], rtol=1e-12)
    np.testing.assert_allclose(twice.mixture, [27 / 80 + half, 53 / 80 - half], rtol=1e-12)


def value(loss: str, row: tuple[float, float], w: float) -> float:
    x, y = row
    if loss == "squared":
        return (x * w - y) ** 2 / 2
    return math.log(1 + math.exp(x * w)) - y * x * w


def slope(loss: str, row: tuple[float, float], w: float) -> float:
    x, y = row
    return x * (x * w - y if loss == "squared" else 1 / (1 + math.exp(-x * w)) - y)


def written_out_gradients(
    sampler: Any, loss: str, w: float, lam: list[float], u: list[float]
) -> tuple[float, list[float]]:
    """δ_w and δ_λ from the uniform numbers u, as the paper's Figure 2 says."""
    a, b = ROWS
    if sampler == PerDomain():  # a row of each domain for w, another for λ
        i, j = a[int(2 * u[0])], a[int(2 * u[2])]
        delta_w = lam[0] * slope(loss, i, w) + lam[1] * slope(loss, b[0], w)
        return delta_w, [value(loss, j, w), value(loss, b[0], w)]
    if sampler == Weighted():  # K ~ λ and a row of it for w, K uniform and a row of it for λ
        row = a[int(2 * u[1])] if u[0] < lam[0] else b[0]
        delta = [2 * value(loss, a[int(2 * u[3])], w), 0.0]
        return slope(loss, row, w), delta if u[2] < 0.5 else [0.0, 2 * value(loss, b[0], w)]
    mean = [sum(value(loss, row, w) for row in rows) / len(rows) for rows in ROWS]
    tilt = [sum(slope(loss, row, w) for row in rows) / len(rows) for rows in ROWS]
    return lam[0] * tilt[0] + lam[1] * tilt[1], mean


def written_out_mixture(adversary: str, lam: list[float], move: list[float]) -> list[float]:
    """The two-domain simplex: half the difference goes from one to the other, or softmax."""
    if adversary == "euclidean":
        first = min(max((lam[0] + move[0] - lam[1] - move[1] + 1) / 2, 0.0), 1.0)
        return [first, 1 - first]
    weights = [lam[0] * math.exp(move[0]), lam[1] * math.exp(move[1])]
    return [weights[0] / sum(weights), weights[1] / sum(weights)]


def written_out(
    algorithm: Algorithm, adversary: str, sampler: Any, loss: str, seed: int, n: int
) -> list[tuple[float, list[float]]]:
    """n steps from w = ½, λ = (½, ½), with γ_w = 0.1 and γ_λ = 0.3, in plain arithmetic."""
    rng = np.random.default_rng(seed)
    w, lam, found = 0.5, [0.5, 0.5], []
    before: tuple[float, list[float]] | None = None

    def gradients(w: float, lam: list[float]) -> tuple[float, list[float]]:
        u = [] if sampler == FullBatch() else rng.random(4).tolist()
        return written_out_gradients(sampler, loss, w, lam, u)

    for _ in range(n):
        d, e = now = gradients(w, lam)
        if algorithm is optimistic_afl:
            d_old, e_old = now if before is None else before
            d, e = 2 * d - d_old, [2 * e[0] - e_old[0], 2 * e[1] - e_old[1]]
            before = now
        if algorithm is mirror_prox_afl:
            d, e = gradients(w - 0.1 * d, written_out_mixture(adversary, lam, [0.3 * x for x in e]))
        w, lam = w - 0.1 * d, written_out_mixture(adversary, lam, [0.3 * x for x in e])
        found.append((w, lam))
    return found


@algorithms
@adversaries
@samplers
@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
@pytest.mark.parametrize("seed", [0, 1])
def test_six_steps_written_out(
    algorithm: Algorithm, adversary: str, sampler: Any, loss: str, seed: int
) -> None:
    run = algorithm(
        three_points(loss),
        Simplex(2),
        step_w=0.1,
        step_mixture=0.3,
        sampler=sampler,
        adversary=adversary,
        start=[0.5],
        seed=seed,
    )
    wanted = written_out(algorithm, adversary, sampler, loss, seed, 6)
    for (w, lam), found in zip(wanted, iterates(run, 6), strict=True):
        np.testing.assert_allclose(found.w, [w], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.mixture, lam, rtol=1e-12, atol=1e-12)


@algorithms
def test_both_players_move_from_the_old_point(algorithm: Algorithm) -> None:
    problem, w = three_points("squared"), np.array([0.5])
    options = {"step_w": 1.0, "step_mixture": 0.1, "sampler": FullBatch(), "start": w}
    found = next(algorithm(problem, Simplex(2), **options))
    if algorithm is mirror_prox_afl:  # both from the trial point, itself from the old one
        w = w - problem.gradient(w, [0.5, 0.5])
        lam = Simplex(2).project(0.5 + 0.1 * problem.losses([0.5]))
        np.testing.assert_allclose(found.w, 0.5 - problem.gradient(w, lam), rtol=1e-12)
    old, new = problem.losses(w), problem.losses(found.w)
    np.testing.assert_allclose(found.mixture, Simplex(2).project(0.5 + 0.1 * old), rtol=1e-12)
    assert np.abs(Simplex(2).project(0.5 + 0.1 * new) - found.mixture).max() > 0.01


# -- a larger problem for all that follows ---------------------------------------------------------

REFERENCE = np.array([0.5, 0.3, 0.2])


@cache
def make(kind: str, form: str = "dense", n: int = 20) -> LinearDomains:
    """Three domains that want different things; n rows each."""
    rng = np.random.default_rng(0)
    d = np.arange(3 * n) % 3
    X: Any = rng.uniform(-1, 1, size=(3 * n, 2))
    W = np.array([2.0, -2.0]) + 1.5 * rng.normal(size=(3, 2))
    z = np.einsum("ij,ij->i", X, W[d])
    target = z + 0.3 * d + 0.3 * rng.normal(size=3 * n)
    X = sparse.csr_array(X) if form == "csr" else X
    if kind in ("squared", "huber"):
        return LinearDomains(X, target, d, SquaredError() if kind == "squared" else Huber(0.5))
    ends = [-1.0, 1.0] if kind == "classes" else [0.0]
    y = np.digitize(z + rng.normal(size=3 * n), ends)
    return LinearDomains(X, y, d, Hinge() if kind == "hinge" else CrossEntropy())


def start(algorithm: Algorithm = stochastic_afl, **options: Any) -> Iterator[Iterate]:
    """A short run's usual arguments."""
    usual = {"step_w": 0.3, "step_mixture": 0.2}
    problem = options.pop("problem", None) or make("binary")
    return algorithm(problem, options.pop("mixtures", None), **{**usual, **options})


OPTIMIZERS = [SGD(), Momentum(0.8), Adagrad(), Adam()]
COMBINATIONS = [
    (algorithm, adversary, sampler, optimizer)
    for algorithm in ALGORITHMS
    for adversary in ADVERSARIES
    for sampler in (PerDomain(2), Weighted(2), FullBatch())
    for optimizer in (OPTIMIZERS if algorithm is not mirror_prox_afl else [SGD()])
]


def same(one: Iterate, other: Iterate) -> bool:
    """Bit for bit."""
    names = ("w", "mixture", "w_average", "mixture_average")
    return one.step == other.step and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in names
    )


# -- averages --------------------------------------------------------------------------------------


@adversaries
@pytest.mark.parametrize("algorithm", [stochastic_afl, optimistic_afl])
def test_averages_are_the_means_of_the_iterates(algorithm: Algorithm, adversary: str) -> None:
    steps = iterates(start(algorithm, adversary=adversary), 50)
    for t in (1, 2, 50):
        w = np.mean([s.w for s in steps[:t]], axis=0)
        lam = np.mean([s.mixture for s in steps[:t]], axis=0)
        np.testing.assert_allclose(steps[t - 1].w_average, w, rtol=1e-12)
        np.testing.assert_allclose(steps[t - 1].mixture_average, lam, rtol=1e-12)
        assert steps[t - 1].step == t


def test_mirror_prox_averages_its_trial_points() -> None:
    problem, mixtures = make("squared"), Simplex(3)
    steps = iterates(start(mirror_prox_afl, problem=problem, sampler=FullBatch()), 3)
    points = [(np.zeros(3), np.full(3, 1 / 3)), *((s.w, s.mixture) for s in steps[:2])]
    trials = [
        (
            w - 0.3 * problem.gradient(w, lam),
            mixtures.project(lam + 0.2 * problem.losses(w)),
        )
        for w, lam in points
    ]
    np.testing.assert_allclose(steps[2].w_average, np.mean([w for w, _ in trials], axis=0))
    np.testing.assert_allclose(steps[2].mixture_average, np.mean([lam for _, lam in trials], 0))


def arrays(value: Any) -> Iterator[Array]:
    """All arrays in a nest of dicts."""
    if isinstance(value, dict):
        for part in value.values():
            yield from arrays(part)
    if isinstance(value, np.ndarray):
        yield value


@algorithms
@adversaries
def test_no_iterate_changes_later_and_none_can_disturb_the_run(
    algorithm: Algorithm, adversary: str
) -> None:
    optimizer = SGD() if algorithm is mirror_prox_afl else Adam()
    options = {"adversary": adversary, "optimizer": optimizer}
    wanted = [pickle.dumps(s) for s in iterates(start(algorithm, **options), 10)]
    kept = iterates(start(algorithm, **options), 10)
    assert [pickle.dumps(s) for s in kept] == wanted
    found = []
    for step in islice(start(algorithm, **options), 10):
        found.append(pickle.dumps(step))
        for array in arrays(vars(step)):
            if array.flags.writeable:
                array[...] = -1
    assert found == wanted


def test_the_arrays_of_an_iterate_share_no_memory() -> None:
    first, second = iterates(start(optimizer=Momentum()), 2)
    mine = [first.w, first.mixture, first.w_average, first.mixture_average, *arrays(first.state)]
    for i, array in enumerate(mine):
        for other in [*mine[:i], second.w, second.w_average, *arrays(second.state)]:
            assert not np.shares_memory(array, other) or array is first.mixture


# -- seeds, every, restarts ------------------------------------------------------------------------


@algorithms
@pytest.mark.parametrize("sampler", [PerDomain(), Weighted(3)], ids=repr)
def test_same_seed_same_numbers(algorithm: Algorithm, sampler: Any) -> None:
    one, again, other = (last(start(algorithm, sampler=sampler, seed=s), 20) for s in (5, 5, 6))
    assert same(one, again)
    assert not np.allclose(one.w, other.w)
    generator = last(start(algorithm, sampler=sampler, seed=np.random.default_rng(5)), 20)
    assert same(one, generator)


def test_without_chance_the_seed_does_not_matter() -> None:
    one, other = (last(start(sampler=FullBatch(), seed=s), 20) for s in (5, 6))
    assert same(one, other)


@pytest.mark.parametrize(("algorithm", "adversary", "sampler", "optimizer"), COMBINATIONS)
def test_every_does_not_change_the_numbers(
    algorithm: Algorithm, adversary: str, sampler: Any, optimizer: Any
) -> None:
    options = {"adversary": adversary, "sampler": sampler, "optimizer": optimizer}
    each = iterates(start(algorithm, **options), 12)
    for every in (4, 12):
        some = iterates(start(algorithm, every=every, **options), 12 // every)
        assert [s.step for s in some] == list(range(every, 13, every))
        assert all(same(s, each[s.step - 1]) for s in some)


def through_file(state: Any, path: Path) -> Any:
    with path.open("wb") as file:
        np.savez(file, state=np.array(state, dtype=object))
    return np.load(path, allow_pickle=True)["state"].item()


def through_text(state: Any, path: Path) -> Any:
    path.write_text(json.dumps(state, default=np.ndarray.tolist))
    return json.loads(path.read_text())


def through_pickle(state: Any, path: Path) -> Any:
    return pickle.loads(pickle.dumps(state))


@pytest.mark.parametrize(("algorithm", "adversary", "sampler", "optimizer"), COMBINATIONS)
def test_a_resumed_run_is_the_uninterrupted_one(
    algorithm: Algorithm, adversary: str, sampler: Any, optimizer: Any, tmp_path: Path
) -> None:
    options = {
        "adversary": adversary,
        "sampler": sampler,
        "optimizer": optimizer,
        "mixtures": Box([0.05] * 3, [0.8] * 3),
        "step_w": lambda t: 1 / t,
        "w_radius": 1.0,
    }
    whole = iterates(start(algorithm, **options), 9)
    for saved in (lambda s, _: s, through_pickle, through_file, through_text):
        state = saved(whole[3].state, tmp_path / "state")
        for _ in range(2):  # resuming leaves the state as it was
            resumed = iterates(start(algorithm, state=state, seed=99, **options), 5)
            assert all(same(a, b) for a, b in zip(resumed, whole[4:], strict=True))


# -- what enters the steps -------------------------------------------------------------------------


@algorithms
@adversaries
def test_runs_begin_where_they_are_told(algorithm: Algorithm, adversary: str) -> None:
    w, lam = np.array([0.1, -0.2, 0.3]), np.array([0.5, 0.2, 0.3])
    still = {"step_w": 0.0, "step_mixture": 0.0, "adversary": adversary}
    found = next(start(algorithm, start=w, start_mixture=lam, **still))
    np.testing.assert_allclose(found.w, w)
    np.testing.assert_allclose(found.mixture, lam)
    with pytest.raises(ValueError, match=r"start_mixture .*project it"):
        start(algorithm, start_mixture=[0.5, 0.2, 0.1])


def test_a_schedule_is_asked_for_every_step() -> None:
    seen: list[int] = []

    def schedule(t: int) -> float:
        seen.append(t)
        return 1 / t

    last(start(step_w=schedule, step_mixture=lambda t: 0.0), 4)
    assert seen == [1, 2, 3, 4]
    constant = last(start(step_w=0.25, step_mixture=0.1), 7)
    assert same(constant, last(start(step_w=lambda t: 0.25, step_mixture=lambda t: 0.1), 7))


@algorithms
def test_steps_of_zero_stand_still(algorithm: Algorithm) -> None:
    here = last(start(algorithm, step_w=0.0, step_mixture=0.0, start=[1.0, 2.0, 3.0]), 3)
    assert here.w.tolist() == here.w_average.tolist() == [1, 2, 3]
    np.testing.assert_allclose(here.mixture, 1 / 3)


@given(
    seed=st.integers(0, 2**32 - 1),
    norm=st.sampled_from(["squared", "plain"]),
    penalty=st.sampled_from(["none", "chi2", "dirichlet"]),
    optimistic=st.booleans(),
)
def test_regulariser_penalty_and_offsets_enter_the_gradients(
    seed: int, norm: str, penalty: str, optimistic: bool
) -> None:
    rng, problem, mixtures = np.random.default_rng(seed), make("huber"), Simplex(3)
    w, gamma, b = rng.normal(size=3), rng.random(), rng.normal(size=3)
    mu = 0.3 if penalty == "chi2" else 0.0
    alpha = 1 + rng.random(3)
    prior = DirichletPrior(alpha) if penalty == "dirichlet" else None
    algorithm = optimistic_afl if optimistic else stochastic_afl  # the first step is the same
    step = next(
        start(algorithm, problem=problem, sampler=FullBatch(), start=w, gamma=gamma, mu=mu,
              norm=norm, prior=prior, offsets=b, step_mixture=0.01)
    )  # fmt: skip
    lam = np.full(3, 1 / 3)
    ascent = problem.losses(w) - b - 2 * mu * (lam / problem.reference - 1)
    if prior is not None:
        ascent += (alpha - 1) / lam
    ridge = np.array([w[0], w[1], 0.0])  # not the intercept
    ridge /= 1 if norm == "squared" else math.hypot(w[0], w[1])
    descent = problem.gradient(w, lam) + gamma * ridge
    np.testing.assert_allclose(step.w, w - 0.3 * descent, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(step.mixture, mixtures.project(lam + 0.01 * ascent), rtol=1e-10)


def test_the_plain_norm_has_no_slope_at_zero() -> None:
    step = next(start(sampler=FullBatch(), gamma=5.0, norm="plain"))
    np.testing.assert_allclose(step.w, -0.3 * make("binary").gradient(np.zeros(3), [1 / 3] * 3))


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_the_optimizer_makes_the_direction(optimizer: Any) -> None:
    problem = make("squared")
    w, memory = np.zeros(3), optimizer.start(3)
    for step in islice(start(problem=problem, sampler=FullBatch(), optimizer=optimizer,
                             mixtures=Point(REFERENCE), step_w=0.1), 5):  # fmt: skip
        direction, memory = optimizer.direction(problem.gradient(w, REFERENCE), memory)
        w = w - 0.1 * direction
        np.testing.assert_allclose(step.w, w, rtol=1e-12)


@algorithms
@pytest.mark.parametrize("optimizer", [SGD(), Adam()], ids=repr)
def test_w_stays_in_its_ball(algorithm: Algorithm, optimizer: Any) -> None:
    if algorithm is mirror_prox_afl and optimizer != SGD():
        return
    steps = iterates(
        start(algorithm, w_radius=0.5, start=[3.0, 0.0, 4.0], step_w=0.0, optimizer=optimizer), 1
    )
    np.testing.assert_allclose(steps[0].w, [0.3, 0.0, 0.4])  # projected, not clipped
    steps = iterates(start(algorithm, w_radius=0.5, step_w=5.0, optimizer=optimizer), 30)
    lengths = [float(np.linalg.norm(s.w)) for s in steps]
    assert max(lengths) <= 0.5 * (1 + 1e-12)
    assert max(np.linalg.norm(s.w_average) for s in steps) <= 0.5 * (1 + 1e-12)
    assert sum(length > 0.499 for length in lengths) > 10


@algorithms
def test_a_start_outside_the_ball_begins_at_its_edge(algorithm: Algorithm) -> None:
    outside, edge = (
        last(start(algorithm, w_radius=0.5, start=w, sampler=FullBatch()), 3)
        for w in ([3.0, 0.0, 4.0], [0.3, 0.0, 0.4])
    )
    np.testing.assert_allclose(outside.w, edge.w, rtol=1e-12)
    np.testing.assert_allclose(outside.mixture, edge.mixture, rtol=1e-12)


def test_a_ball_too_wide_to_touch_changes_nothing() -> None:
    assert same(last(start(w_radius=1e6), 10), last(start(), 10))


def test_samplers_default_to_companions() -> None:
    pairs: list[tuple[Any, Any]] = [
        (PerDomain(2), EveryDomain(2)),
        (Weighted(2), UniformDomain(2)),
        (FullBatch(), FullBatch()),
    ]
    for sampler, other in pairs:
        implied = last(start(sampler=sampler), 5)
        assert same(implied, last(start(sampler=sampler, mixture_sampler=other), 5))
    assert same(last(start(), 5), last(start(sampler=PerDomain(1)), 5))
    mixed = last(start(sampler=Weighted(), mixture_sampler=EveryDomain()), 5)
    assert not same(mixed, last(start(sampler=Weighted()), 5))


@algorithms
@pytest.mark.parametrize("kind", ["binary", "classes", "hinge"])
def test_sparse_rows_give_the_same_steps(algorithm: Algorithm, kind: str) -> None:
    dense, csr = (last(start(algorithm, problem=make(kind, form)), 20) for form in ("dense", "csr"))
    np.testing.assert_allclose(csr.w, dense.w, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(csr.mixture, dense.mixture, rtol=1e-10)


@algorithms
def test_one_domain_is_plain_training(algorithm: Algorithm) -> None:
    problem = LinearDomains([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.5], ["a"] * 3, SquaredError())
    end = next(start(algorithm, problem=problem, sampler=FullBatch(), step_w=0.2, every=500))
    assert end.mixture.tolist() == [1.0]
    np.testing.assert_allclose(end.w, [1.25, 11 / 12], atol=1e-6)  # least squares


# -- to the certified optimum ----------------------------------------------------------------------

SETS: dict[str, MixtureSet] = {
    "simplex": Simplex(3),
    "vertices": Vertices(3),
    "point": Point(REFERENCE),
    "box": Box([0.1] * 3, [0.6] * 3),
    "cvar": cvar(REFERENCE, 0.6),
    "ball": TVBall(REFERENCE, 0.2),
    "chi2": Chi2Ball([5, 3, 2], 1.2),
    "hull": Hull([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.4, 0.3, 0.3]]),
}
TABLE = [
    (name, adversary)
    for name in SETS
    for adversary in ADVERSARIES
    if adversary == "euclidean" or name not in ("chi2", "hull")
]
GAMMA = 0.02


def objective(kind: str, name: str) -> Phi:
    return Objective(SETS[name], GAMMA).on(make(kind))


@cache
def best(kind: str, name: str) -> Solution:
    return solve(make(kind), SETS[name], gamma=GAMMA, tol=1e-8)


def relative_gap(kind: str, name: str, w: Array) -> float:
    """How far w is from the certified optimum; 1 is as far as w = 0."""
    problem, phi = make(kind), objective(kind, name)
    origin = phi.upper(problem.at(np.zeros(problem.n_parameters)))
    lower = best(kind, name).certificate.lower
    return (phi.upper(problem.at(w)) - lower) / (origin - lower)


def averaged(kind: str, name: str, n_steps: int, **options: Any) -> Iterate:
    rate = 0.3 if kind == "squared" else 2.0  # a row of squared error may have a long gradient
    run = stochastic_afl(
        make(kind),
        SETS[name],
        step_w=lambda t: rate / math.sqrt(t),
        step_mixture=lambda t: 1 / math.sqrt(t),
        gamma=GAMMA,
        every=n_steps,
        **options,
    )
    return next(run)


def check_average(kind: str, name: str, end: Iterate, tol: float) -> None:
    assert relative_gap(kind, name, end.w_average) <= tol
    lam = SETS[name].project(end.mixture_average)
    np.testing.assert_allclose(lam, end.mixture_average, atol=1e-9)
    proof = certify(make(kind), SETS[name], end.w_average, lam, gamma=GAMMA)
    optimum = best(kind, name).certificate
    assert proof.lower <= optimum.upper
    assert optimum.lower <= proof.upper


@pytest.mark.parametrize("sampler", [PerDomain(8), Weighted(24), FullBatch()], ids=repr)
@pytest.mark.parametrize(
    ("kind", "name", "adversary"),
    [("binary", *case) for case in TABLE]
    + [("huber", *case) for case in TABLE if case[0] not in ("vertices", "hull")],
)
def test_averages_reach_the_certified_optimum(
    kind: str, name: str, adversary: Any, sampler: Any
) -> None:
    end = averaged(kind, name, 400, sampler=sampler, adversary=adversary)
    check_average(kind, name, end, 0.07)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [PerDomain(), Weighted(), FullBatch()], ids=repr)
@pytest.mark.parametrize(("name", "adversary"), TABLE)
@pytest.mark.parametrize("kind", ["binary", "huber", "squared", "classes"])
def test_averages_reach_the_certified_optimum_slowly(
    kind: str, name: str, adversary: Any, sampler: Any
) -> None:
    end = averaged(kind, name, 10_000, sampler=sampler, adversary=adversary)
    # Single draws for λ vary by up to p²M²: over seeds the gap of `classes` is 0.04 to 0.06 here,
    # and falls with more steps (0.03 after 40,000) or larger batches (0.003 with 24 rows).
    check_average(kind, name, end, 0.1 if sampler == Weighted() else 0.05)


@pytest.mark.parametrize(
    ("algorithm", "name", "adversary"),
    [(optimistic_afl, *case) for case in TABLE]
    + [(mirror_prox_afl, name, kind) for name in ("simplex", "ball") for kind in ADVERSARIES],
)
def test_last_iterates_reach_the_certified_optimum(
    algorithm: Algorithm, name: str, adversary: Any
) -> None:
    run = algorithm(
        make("binary"),
        SETS[name],
        step_w=1.0,
        step_mixture=1.0,
        gamma=GAMMA,
        sampler=FullBatch(),
        adversary=adversary,
        every=250,
    )
    end = next(run)
    assert relative_gap("binary", name, end.w) <= 1e-3
    proof = certify(make("binary"), SETS[name], end.w, SETS[name].project(end.mixture), gamma=GAMMA)
    assert proof.gap <= 1e-3


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_every_optimizer_reaches_the_certified_optimum(optimizer: Any) -> None:
    rate = 0.2 if isinstance(optimizer, Momentum | Adam) else 1.0
    run = stochastic_afl(
        make("binary"),
        Simplex(3),
        step_w=lambda t: rate / (1 if isinstance(optimizer, Adagrad) else math.sqrt(t)),
        step_mixture=lambda t: 1 / math.sqrt(t),
        gamma=GAMMA,
        sampler=PerDomain(8),
        optimizer=optimizer,
        every=600,
    )
    assert relative_gap("binary", "simplex", next(run).w_average) <= 0.05


@pytest.mark.parametrize(
    "more",
    [
        {"mu": 0.5},
        {"prior": DirichletPrior([2.0, 1.5, 1.2]), "step_mixture": 0.02},
        {"prior": DirichletPrior([2.0, 1.5, 1.2]), "step_mixture": 0.02, "adversary": "entropic"},
        {"offsets": [0.0, 0.3, -0.2]},
        {"norm": "plain", "gamma": 0.1},
        {"gamma": 0.5, "step_mixture": 1.0},
        {"mu": 0.5, "adversary": "entropic", "offsets": [0.1, 0.0, 0.2]},
    ],
    ids=str,
)
def test_the_same_problem_as_solve(more: dict[str, Any]) -> None:
    problem, mixtures = make("binary"), Simplex(3)
    options = {"gamma": GAMMA, **more}
    play = {name: options.pop(name) for name in ("adversary", "step_mixture") if name in options}
    wanted = solve(problem, mixtures, tol=1e-9, **options)
    options |= {"step_w": 0.5, "step_mixture": 0.1, "sampler": FullBatch(), "every": 1000} | play
    end = next(optimistic_afl(problem, mixtures, **options))
    np.testing.assert_allclose(problem.losses(end.w), wanted.domain_losses, atol=2e-3)
    np.testing.assert_allclose(end.mixture, wanted.mixture, atol=5e-3)


def test_the_best_model_of_a_ball_that_binds() -> None:
    problem = make("binary")
    free = solve(problem, Simplex(3), gamma=0.0)
    radius = 0.5 * float(np.linalg.norm(free.w))
    run = optimistic_afl(
        problem,
        step_w=0.5,
        step_mixture=0.5,
        sampler=FullBatch(),
        w_radius=radius,
        every=600,
    )
    end = next(run)
    assert np.linalg.norm(end.w) == pytest.approx(radius)
    losses, slope = problem.losses(end.w), problem.gradient(end.w, end.mixture)
    # L is above its tangent at w, and the tangent over the ball above this
    lower = end.mixture @ losses - slope @ end.w - radius * np.linalg.norm(slope)
    assert losses.max() - lower <= 1e-6
    assert lower > free.objective + 0.01


# -- cycles ----------------------------------------------------------------------------------------


def circling() -> LinearDomains:
    """L(w, λ) = 1 + (λ_2 − λ_1) w for |w| ≤ 1: a bilinear game with its saddle at w = 0, (½, ½)."""
    return LinearDomains([[1.0], [1.0]], [1, 0], ["a", "b"], Hinge(), intercept=False)


def circle(algorithm: Algorithm, **options: Any) -> Iterator[Iterate]:
    moves = {"step_w": 0.1, "step_mixture": 0.1, "sampler": FullBatch(), "start": [0.3], **options}
    return algorithm(circling(), Simplex(2), **moves)


def distances(steps: list[Iterate]) -> tuple[Array, Array]:
    """‖(w, λ) − saddle‖ of the iterates and of their averages."""
    each = [math.hypot(s.w[0], *(s.mixture - 0.5)) for s in steps]
    return np.array(each), np.array(
        [math.hypot(s.w_average[0], *(s.mixture_average - 0.5)) for s in steps]
    )


def test_plain_last_iterates_circle_and_their_averages_do_not() -> None:
    steps = iterates(circle(stochastic_afl), 2000)
    last_iterates, averages = distances(steps)
    assert last_iterates[-500:].min() > 0.3  # no nearer than it began
    assert averages[-1] < 0.05
    assert np.sum(np.diff(np.sign([s.w[0] for s in steps])) != 0) > 20  # round and round


@pytest.mark.parametrize("algorithm", [optimistic_afl, mirror_prox_afl])
@adversaries
def test_optimistic_and_mirror_prox_spiral_in(algorithm: Algorithm, adversary: str) -> None:
    last_iterates, _ = distances(iterates(circle(algorithm, adversary=adversary), 1500))
    assert last_iterates[-1] < 1e-3
    assert last_iterates[-1] < 0.1 * last_iterates[750] < 0.1 * last_iterates[0]


def test_optimistic_converges_where_rows_are_drawn_too() -> None:
    options = {"sampler": Weighted(64), "step_w": 0.05, "step_mixture": 0.05}
    optimistic, _ = distances(iterates(circle(optimistic_afl, **options), 1500))
    plain, _ = distances(iterates(circle(stochastic_afl, **options), 1500))
    assert np.median(optimistic[-500:]) < 0.4 * np.median(plain[-500:])


# -- bad input -------------------------------------------------------------------------------------


@algorithms
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_w": math.nan}, "step_w"),
        ({"step_w": -0.1}, "step_w"),
        ({"step_w": math.inf}, "step_w"),
        ({"step_w": "theory"}, "step_w"),
        ({"step_w": None}, "step_w"),
        ({"step_mixture": math.nan}, "step_mixture"),
        ({"step_mixture": -1}, "step_mixture"),
        ({"w_radius": math.nan}, "w_radius"),
        ({"every": 0}, "every"),
        ({"every": -5}, "every"),
        ({"every": 1.5}, "every"),
        ({"every": math.nan}, "every"),
        ({"every": math.inf}, "every"),
        ({"every": "10"}, "every"),
        ({"start": [0.0]}, "w has shape"),
        ({"start": [0.0, math.nan, 0.0]}, "w has"),
        ({"adversary": "mirror"}, "adversary"),
        ({"adversary": None}, "adversary"),
        ({"gamma": -1.0}, "gamma"),
        ({"offsets": [0.0]}, "offsets"),
        ({"mixtures": Simplex(2)}, "mixtures is over 2 domains"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_bad_input_is_refused_at_the_call(
    algorithm: Algorithm, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        start(algorithm, **options)  # before the first step is asked for


@algorithms
@pytest.mark.parametrize("name", ["chi2", "hull"])
def test_sets_without_an_entropic_step_are_refused_at_the_call(
    algorithm: Algorithm, name: str
) -> None:
    with pytest.raises(TypeError, match="no exact KL projection"):
        start(algorithm, mixtures=SETS[name], adversary="entropic")


def test_mirror_prox_takes_plain_steps_only() -> None:
    with pytest.raises(ValueError, match="optimizer is Adam"):
        start(mirror_prox_afl, optimizer=Adam())


@algorithms
def test_a_schedule_that_fails_says_so(algorithm: Algorithm) -> None:
    with pytest.raises(ValueError, match="step_w"):
        last(start(algorithm, step_w=lambda t: math.nan), 2)
    with pytest.raises(ValueError, match=r"step_mixture|size"):
        last(start(algorithm, step_mixture=lambda t: -1.0), 2)


@algorithms
def test_a_run_that_blows_up_says_so(algorithm: Algorithm) -> None:
    with pytest.raises(InputError) as caught:
        last(start(algorithm, problem=make("squared"), step_w=1e200, sampler=FullBatch()), 10)
    assert caught.value.argument == "step_w"


@pytest.mark.parametrize("compiled", [True, False])
def test_a_prior_whose_density_is_left_says_so(compiled: bool) -> None:
    prior = DirichletPrior([2.0, 2.0, 2.0])
    options: dict[str, Any] = {"step_mixture": 100.0, "offsets": [-9.0, 0.0, 0.0]}
    with pytest.raises(InputError) as caught:
        print(
            last(start(prior=prior, compiled=compiled, **options), 10).mixture
        )  # steps are played when one looks
    assert caught.value.argument == "step_mixture"
