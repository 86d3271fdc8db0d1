"""The compiled path: the numbers of the readable one, and trees that hold λ exactly."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from anymix.errors import InputError
from anymix.mixtures import (
    Adversary,
    Box,
    DirichletPrior,
    LogPrior,
    MixtureSet,
    Point,
    Simplex,
    Vertices,
)
from anymix.mixtures.projections import project_simplex
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Hinge, Huber, Loss, SquaredError
from anymix.solvers.compiled import kernels
from anymix.solvers.optimizers import SGD, Adagrad, Adam, Momentum
from anymix.solvers.samplers import EveryDomain, FullBatch, PerDomain, UniformDomain, Weighted
from anymix.solvers.stochastic import Iterate, mirror_prox_afl, optimistic_afl, stochastic_afl

Array = NDArray[np.float64]
Algorithm = Callable[..., Iterator[Iterate]]
ALGORITHMS: list[Algorithm] = [stochastic_afl, optimistic_afl]
algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)
adversaries = pytest.mark.parametrize("adversary", ["euclidean", "entropic"])
forms = pytest.mark.parametrize("form", ["dense", "csr"])
LOSSES: list[Loss] = [CrossEntropy(), SquaredError(), Huber(0.5), Hinge()]
SAMPLERS: list[tuple[Any, Any]] = [
    (PerDomain(2), EveryDomain(3)),
    (PerDomain(), UniformDomain(2)),
    (Weighted(2), EveryDomain()),
    (Weighted(), UniformDomain()),
    (Weighted(3), UniformDomain(2)),
]


NORMAL = LogPrior(lambda x: -float(np.sum((x - 0.25) ** 2)), lambda x: 0.5 - 2 * x, 4)


def make(
    loss: Loss | None = None,
    form: str = "dense",
    classes: int = 2,
    p: int = 4,
    d: int = 5,
    **options: Any,
) -> LinearDomains:
    """40 rows and more, in domains of unequal sizes."""
    loss, n = loss or CrossEntropy(), 40 + 2 * p
    rng = np.random.default_rng(p + d)
    X: Any = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    named = isinstance(loss, CrossEntropy | Hinge)
    y = np.arange(n) % classes if named else rng.normal(size=n)
    domains = np.concatenate([np.arange(p), rng.integers(p, size=n - p)])
    return LinearDomains(sparse.csr_array(X) if form == "csr" else X, y, domains, loss, **options)


def run(
    problem: LinearDomains,
    mixtures: MixtureSet | None = None,
    algorithm: Algorithm = stochastic_afl,
    n: int = 2,
    **options: Any,
) -> list[Iterate]:
    """n iterates, by default 20 steps apart."""
    usual: dict[str, Any] = {"step_w": 0.123, "step_mixture": 0.07, "every": 20}
    return list(islice(algorithm(problem, mixtures, **(usual | options)), n))


def numbers(iterate: Iterate) -> dict[str, Array]:
    """All that the readable loop keeps, so that it may go on from there."""
    names = ("w", "mixture", "w_average", "mixture_average")
    kept = {name: np.asarray(getattr(iterate, name)) for name in names}
    state = iterate.state
    if state["previous"] is not None:
        kept["previous"] = state["previous"]
    return kept | dict(state["memory"]) | {f"λ {k}": v for k, v in state["adversary"].items()}


def assert_close(found: list[Iterate], wanted: list[Iterate]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.step == other.step
        mine, theirs = numbers(one), numbers(other)
        assert mine.keys() == theirs.keys()
        for name, value in mine.items():
            np.testing.assert_allclose(value, theirs[name], rtol=1e-10, atol=1e-10, err_msg=name)


def assert_same_path(problem: LinearDomains, mixtures: Any = None, **options: Any) -> None:
    assert_close(
        run(problem, mixtures, compiled=True, **options),
        run(problem, mixtures, compiled=False, **options),
    )


# -- the readable path's numbers -------------------------------------------------------------------


@forms
@adversaries
@algorithms
@pytest.mark.parametrize("samplers", SAMPLERS, ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_plain_steps(
    loss: Loss, samplers: tuple[Any, Any], algorithm: Algorithm, adversary: str, form: str
) -> None:
    weights = np.random.default_rng(1).random(48) + 0.1
    problem = make(loss, form, sample_weight=weights)
    options: dict[str, Any] = {"algorithm": algorithm, "adversary": adversary}
    options |= {"sampler": samplers[0], "mixture_sampler": samplers[1]}
    assert_same_path(problem, **options)
    assert_same_path(problem, gamma=0.3, w_radius=0.4, start=np.full(6, 0.1), **options)
    assert_same_path(problem, mu=0.1, offsets=[0.5, 0.1, 0.9, 0.7], **options)
    prior = DirichletPrior([1.2, 1.0, 1.5, 1.1])
    assert_same_path(problem, prior=prior, **(options | {"step_mixture": 0.003}))


@forms
@algorithms
@pytest.mark.parametrize("optimizer", [SGD(), Momentum(0.8), Adagrad(1e-3), Adam()], ids=repr)
def test_step_rules(optimizer: Any, algorithm: Algorithm, form: str) -> None:
    options: dict[str, Any] = {"algorithm": algorithm, "optimizer": optimizer}
    for classes, intercept, samplers in product((2, 3), (True, False), SAMPLERS[::2]):
        options |= {"sampler": samplers[0], "mixture_sampler": samplers[1]}
        problem = make(form=form, classes=classes, intercept=intercept)
        assert_same_path(problem, **options)
        assert_same_path(problem, gamma=0.1, w_radius=0.5, **options)


@adversaries
@algorithms
@pytest.mark.parametrize("mixtures", [Vertices(4), Point([0.2, 0.0, 0.5, 0.3])], ids=repr)
def test_sets(mixtures: MixtureSet, algorithm: Algorithm, adversary: str) -> None:
    for samplers in SAMPLERS:
        options = {"sampler": samplers[0], "mixture_sampler": samplers[1]}
        assert_same_path(make(), mixtures, algorithm=algorithm, adversary=adversary, **options)


@forms
@adversaries
@algorithms
def test_rows_in_several_domains(algorithm: Algorithm, adversary: str, form: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    X = sparse.csr_array(X) if form == "csr" else X
    members = rng.random((30, 3)) < 0.5
    members[0] = True
    problem = LinearDomains(X, y, members)
    for sampler in (PerDomain(), Weighted()):
        assert_same_path(problem, algorithm=algorithm, adversary=adversary, sampler=sampler)


@adversaries
@algorithms
def test_schedules(algorithm: Algorithm, adversary: str) -> None:
    sizes: dict[str, Any] = {"step_w": lambda t: 1 / t, "step_mixture": lambda t: t**-0.5}
    for sampler in (PerDomain(), Weighted()):
        options = {"algorithm": algorithm, "adversary": adversary, "sampler": sampler}
        assert_same_path(make(), **sizes, **options)


@algorithms
@pytest.mark.parametrize("samplers", [SAMPLERS[3], SAMPLERS[4]], ids=repr)
def test_long_runs_fold_and_rebase(algorithm: Algorithm, samplers: tuple[Any, Any]) -> None:
    """s falls below 2⁻¹⁰ several times; the trees are brought back to τ = 0 and Σs = 1."""
    options: dict[str, Any] = {"sampler": samplers[0], "mixture_sampler": samplers[1], "n": 3}
    for adversary in ("euclidean", "entropic"):
        for gamma in (0.0, 0.1):
            options |= {"adversary": adversary, "gamma": gamma, "every": 900}
            assert_same_path(make(p=20), algorithm=algorithm, w_radius=2.0, **options)


@algorithms
@adversaries
def test_long_steps_of_the_mixture(algorithm: Algorithm, adversary: str) -> None:
    for size, sampler in product((3.0, 1e3), (Weighted(), Weighted(2), PerDomain())):
        options: dict[str, Any] = {"algorithm": algorithm, "adversary": adversary}
        assert_same_path(make(), step_mixture=size, step_w=1e-3, sampler=sampler, **options)


@adversaries
def test_many_domains(adversary: str) -> None:
    problem = make(p=100_000)
    steps = {"step_w": 0.5, "step_mixture": 1e-6, "every": 30, "n": 2}
    assert_same_path(problem, sampler=Weighted(), adversary=adversary, **steps)


def test_wide_sparse_rows() -> None:
    n, d = 300, 100_000
    rng = np.random.default_rng(0)
    X = sparse.csr_array(
        (rng.normal(size=3 * n), (np.arange(3 * n) // 3, rng.integers(d, size=3 * n))), (n, d)
    )
    problem = LinearDomains(X, np.arange(n) % 2, np.arange(n) % 7)
    assert_same_path(problem, gamma=1e-2, w_radius=1.0)


# -- every, restarts -------------------------------------------------------------------------------


def each_form() -> Iterator[dict[str, Any]]:
    """Both algorithms in each form of w and λ."""
    for algorithm, (w, lam), optimizer in product(
        ALGORITHMS, (SAMPLERS[0], SAMPLERS[4]), (SGD(), Momentum(), Adagrad(), Adam())
    ):
        for adversary in ("euclidean", "entropic"):
            yield {
                "algorithm": algorithm,
                "sampler": w,
                "mixture_sampler": lam,
                "optimizer": optimizer,
                "adversary": adversary,
                "w_radius": 0.5,
                "gamma": 0.0 if algorithm is optimistic_afl else 0.2,
            }


each = pytest.mark.parametrize("options", list(each_form()))


def bits(iterate: Iterate) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in numbers(iterate).items() if name[0] != "λ"}


@each
def test_a_resumed_run_is_the_uninterrupted_one(options: dict[str, Any]) -> None:
    problem = make(form="csr")
    whole = run(problem, n=6, every=7, compiled=True, **options)
    often = run(problem, n=42, every=1, compiled=True, **options)
    assert [bits(often[t]) for t in range(6, 42, 7)] == [bits(s) for s in whole]
    text = json.dumps(whole[2].state, default=np.ndarray.tolist)
    for state in (whole[2].state, json.loads(text)):
        again = run(problem, n=3, every=7, compiled=True, state=state, seed=9, **options)
        assert [bits(s) for s in again] == [bits(s) for s in whole[3:]]


@each
def test_a_run_may_change_its_path(options: dict[str, Any]) -> None:
    problem = make()
    for first in (True, False):
        wanted = run(problem, n=6, every=7, compiled=first, **options)
        for path in (True, False):
            state = wanted[2].state
            found = run(problem, n=3, every=7, compiled=path, state=state, seed=9, **options)
            assert_close(found, wanted[3:])
            back = found[0].state
            found = run(problem, n=2, every=7, compiled=not path, state=back, **options)
            assert_close(found, wanted[4:])


# -- when ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mixtures is Box", {"mixtures": Box([0.0] * 4, [0.5] * 4)}),
        ("sampler is FullBatch", {"sampler": FullBatch()}),
        ("mixture_sampler is FullBatch", {"mixture_sampler": FullBatch()}),
        ("prior is a LogPrior", {"prior": NORMAL}),
        ("norm is 'plain'", {"norm": "plain", "gamma": 0.1}),
    ],
)
@algorithms
def test_compiled_says_what_it_does_not_take(
    algorithm: Algorithm, name: str, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=f"compiled is True but .*{name}"):
        run(make(), algorithm=algorithm, compiled=True, **options)
    (found,) = run(make(), algorithm=algorithm, n=1, **options)  # by itself it runs readably
    (wanted,) = run(make(), algorithm=algorithm, n=1, compiled=False, **options)
    assert bits(found) == bits(wanted)


def test_compiled_is_chosen_where_it_can_be() -> None:
    assert "compiled" in run(make(), n=1)[0].state
    assert "compiled" not in run(make(), n=1, compiled=False)[0].state


@adversaries
@pytest.mark.parametrize("entry", [0.0, 0.25])
def test_a_box_that_is_the_simplex_or_a_point_is_compiled_too(entry: float, adversary: str) -> None:
    """What the set is counts, not how it was written: λ moves in Δ_p, or not at all."""
    same = Box([entry] * 4, [1.0 - 3 * entry] * 4)
    assert_same_path(make(), same, adversary=adversary)


def test_mirror_prox_has_no_compiled_path() -> None:
    with pytest.raises(TypeError, match="compiled"):
        mirror_prox_afl(make(), step_w=0.1, step_mixture=0.1, compiled=True)


def test_a_prior_whose_density_is_left_says_so() -> None:
    prior = DirichletPrior([2.0] * 4)
    with pytest.raises(InputError) as caught:
        run(make(), prior=prior, step_mixture=100.0, offsets=[-9.0, 0, 0, 0], compiled=True)
    assert caught.value.argument == "step_mixture"


@pytest.mark.parametrize("sampler", [PerDomain(), Weighted()], ids=repr)
@pytest.mark.parametrize("optimizer", [SGD(), Momentum()], ids=repr)
def test_a_run_that_blows_up_says_so(sampler: Any, optimizer: Any) -> None:
    problem = make(SquaredError())
    with pytest.raises(InputError) as caught:
        run(problem, step_w=1e150, sampler=sampler, optimizer=optimizer, compiled=True)
    assert caught.value.argument == "step_w"


def test_a_sum_of_moves_that_is_not_finite_says_so() -> None:
    """A loss of 2 moves λ by 8e307, but three such moves of one domain are too long together."""
    problem = LinearDomains(np.zeros((4, 1)), np.full(4, 2.0), [0, 0, 1, 1], SquaredError())
    samplers: dict[str, Any] = {"sampler": Weighted(), "mixture_sampler": UniformDomain(4)}
    with pytest.raises(InputError) as caught:
        run(problem, step_w=0.0, step_mixture=8e307, compiled=True, **samplers)
    assert caught.value.argument == "step_mixture"


# -- trees -----------------------------------------------------------------------------------------


@st.composite
def walks(draw: st.DrawFn) -> tuple[int, list[tuple[list[int], list[float]]]]:
    """p, and steps of a few moves each, from tiny to long and of both signs."""
    p = draw(st.sampled_from([1, 2, 7, 8, 9, 63, 64, 65, 200]))
    n = draw(st.integers(1, 3))
    size = draw(st.sampled_from([1e-9, 1e-3, 0.1, 1.0, 50.0, 1e4]))
    move = st.floats(-1.0, 1.0).map(lambda x: x * size) | st.sampled_from([0.0, size])
    domains = st.lists(st.integers(0, p - 1), min_size=n, max_size=n)
    step = st.tuples(domains, st.lists(move, min_size=n, max_size=n))
    return p, draw(st.lists(step, min_size=1, max_size=30))


def brute_draw(mixture: Array, u: float) -> int:
    total = np.cumsum(mixture)
    return int(np.searchsorted(total, u * total[-1], side="right"))


@settings(deadline=None, max_examples=150)
@given(walk=walks(), u=st.floats(0, 1, exclude_max=True))
def test_the_euclidean_tree_is_the_projection(
    walk: tuple[int, list[tuple[list[int], list[float]]]], u: float
) -> None:
    p, steps = walk
    lam, total = np.full(p, 1 / p), np.zeros(p)
    tree = kernels.euclidean(lam, total)
    for domains, moves in steps:
        lam = project_simplex(lam + np.bincount(domains, moves, minlength=p))
        total = total + lam
        kernels.euclidean_step(tree, np.array(domains), np.array(moves), len(moves))
        found, found_total = kernels.euclidean_read(tree)
        np.testing.assert_allclose(found, lam, atol=1e-11)
        np.testing.assert_allclose(found_total, total, atol=1e-10)
        k = kernels.euclidean_draw(tree, u)
        edges = np.concatenate([[0.0], np.cumsum(lam)]) / lam.sum()
        assert k == brute_draw(lam, u) or np.abs(edges - u).min() < 1e-11
        assert found[k] > 0


@settings(deadline=None, max_examples=150)
@given(walk=walks(), u=st.floats(0, 1, exclude_max=True))
def test_the_entropic_tree_is_multiplicative_weights(
    walk: tuple[int, list[tuple[list[int], list[float]]]], u: float
) -> None:
    p, steps = walk
    readable = Adversary(Simplex(p), step=1.0, kind="entropic")
    tree = kernels.entropic(np.full(p, -np.log(p)), np.zeros(p))
    for domains, moves in steps:
        readable.step(np.bincount(domains, moves, minlength=p))
        kernels.entropic_step(tree, np.array(domains), np.array(moves), len(moves))
        found, logarithm, total = kernels.entropic_read(tree)
        np.testing.assert_allclose(found, readable.mixture, atol=1e-10)
        np.testing.assert_allclose(np.exp(logarithm), found, rtol=1e-12)
        np.testing.assert_allclose(total, readable.average * readable.n_steps, atol=1e-10)
        k = kernels.entropic_draw(tree, u)
        edges = np.concatenate([[0.0], np.cumsum(found)]) / found.sum()
        assert k == brute_draw(found, u) or np.abs(edges - u).min() < 1e-11
        assert found[k] > 0


def test_no_digits_are_lost_on_the_way() -> None:
    """τ would be a million by then, and λ = a − τ have ten digits, were it not brought back."""
    options: dict[str, Any] = {"step_w": 0.0, "step_mixture": 1.0, "sampler": Weighted()}
    (found,) = run(make(p=3), n=1, every=10**6, compiled=True, **options)
    assert abs(found.mixture.sum() - 1) < 1e-12
    assert abs(found.mixture_average.sum() - 1) < 1e-12


@adversaries
def test_draws_follow_the_mixture(adversary: str) -> None:
    """Equally spaced u: every domain is drawn as often as λ says, within one draw."""
    p, n = 300, 30_000
    rng = np.random.default_rng(0)
    lam = np.full(p, 1 / p)
    tree: Any = kernels.euclidean(lam, np.zeros(p))
    if adversary == "entropic":
        tree = kernels.entropic(np.log(lam), np.zeros(p))
    step = getattr(kernels, f"{adversary}_step")
    for k, move in zip(rng.integers(p, size=500), 0.01 * rng.random(500), strict=True):
        step(tree, np.array([k]), np.array([move * (1 if adversary == "euclidean" else 50)]), 1)
    lam = getattr(kernels, f"{adversary}_read")(tree)[0]
    draw = getattr(kernels, f"{adversary}_draw")
    counts = np.bincount([draw(tree, (j + 0.5) / n) for j in range(n)], minlength=p)
    assert np.abs(counts - n * lam).max() < 1 + 1e-6
    assert counts.max() > 3 * n / p
    assert np.all(counts[lam == 0] == 0)
