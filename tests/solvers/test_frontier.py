"""The front between the mean of all rows and the worst mixture: certified, convex, monotone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anymix as ax
from anymix.errors import InputError
from anymix.mixtures import MixtureSet
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import Huber, SquaredError
from anymix.problem.parts import Parts
from anymix.solvers import frontier
from anymix.solvers.frontier import Frontier, FrontierLosses

Array = NDArray[np.float64]
PATH = (0.0, 0.1, 0.3, 0.6, 0.8, 0.9, 1.0)


def table(seed: int = 0, n: int = 240, d: int = 4) -> tuple[Array, Array, NDArray[Any]]:
    """Three domains, each with a direction of its own."""
    rng = np.random.default_rng(seed)
    domains = np.array(["big", "middle", "small"])[np.searchsorted([0.6, 0.9], rng.random(n))]
    k = np.searchsorted(["big", "middle", "small"], domains)
    X, effects = rng.normal(size=(n, d)), rng.normal(size=(3, d))
    return X, np.sum(X * effects[k], axis=1) + rng.normal(size=n), domains


def problem_of(loss: str) -> LinearDomains:
    X, y, domains = table()
    if loss == "log":
        return LinearDomains(X, (y > 0).astype(int), domains)
    return LinearDomains(X, y, domains, SquaredError() if loss == "squared" else Huber(0.5))


CASES: list[tuple[str, MixtureSet | None, dict[str, Any]]] = [
    ("log", None, {}),
    ("log", ax.Chi2Ball([3, 2, 1], 1.6), {"offsets": [0.1, 0.0, 0.2]}),
    ("squared", None, {"anchor": True}),
    ("huber", ax.Simplex(3), {"norm": "plain", "anchor": True}),
]


@pytest.mark.parametrize(("loss", "mixtures", "options"), CASES)
def test_the_front_is_certified_monotone_and_convex(
    loss: str, mixtures: MixtureSet | None, options: dict[str, Any]
) -> None:
    """With A the mean and W the worst loss, each with γR: w_t has the least (1−t)A + tW of all."""
    problem, gamma = problem_of(loss), 0.05
    anchor = 0.3 * np.arange(problem.n_parameters) if options.get("anchor") else None
    options = {**options, "anchor": anchor}
    front = ax.pareto_front(problem, mixtures, PATH, gamma=gamma, tol=1e-10, **options)
    m, target = problem.reference, mixtures or ax.Simplex(3)
    b = np.asarray(options.get("offsets", np.zeros(3)))
    w = np.array([s.w for s in front.solutions])
    u = (w if anchor is None else w - anchor)[:, problem.penalized]
    R = np.sum(u**2, axis=1) / 2 if options.get("norm") != "plain" else np.linalg.norm(u, axis=1)
    losses = np.array([problem.losses(v) for v in w])
    np.testing.assert_allclose(front.fitted.domains, losses, rtol=1e-9)
    np.testing.assert_allclose(front.fitted.pooled, losses @ m, rtol=1e-9)
    worst = [target.maximize(L - b) @ (L - b) for L in losses]
    np.testing.assert_allclose(front.fitted.worst, worst, rtol=1e-9)

    A, W, t = losses @ m - m @ b + gamma * R, worst + gamma * R, np.array(PATH)
    value = (1 - t)[:, None] * A + t[:, None] * W  # of w_s in the problem of t
    assert np.all(value >= np.diag(value)[:, None] - 2e-10)  # so (A, W) is convex
    assert np.all(np.diff(A) >= -1e-8)
    assert np.all(np.diff(W) <= 1e-8)
    assert A[-1] > A[0] + 1e-3
    assert W[-1] < W[0] - 1e-3
    for i, solution in enumerate(front.solutions):
        assert solution.certificate.gap <= 1e-10
        assert solution.objective == pytest.approx(value[i, i], abs=1e-9)
        proof = ax.certify(
            problem, target.shrunk(PATH[i], m), solution.w, solution.mixture, gamma=gamma, **options
        )
        assert proof.gap <= 1e-9
        assert np.all(value[i] >= proof.lower)  # no other model of the front beats the proof


def test_the_path_is_warm_and_equals_separate_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    starts, found = [], []

    def watched(*args: Any, start: Any, **options: Any) -> ax.Solution:
        starts.append(start)
        found.append(ax.solve(*args, start=start, **options))
        return found[-1]

    monkeypatch.setattr(frontier, "solve", watched)
    problem = problem_of("log")
    front = ax.pareto_front(problem, None, PATH, gamma=0.01, tol=1e-10)
    assert starts[0] is None
    assert all(start is before for start, before in zip(starts[1:], found[:-1], strict=True))
    alone = [
        ax.solve(problem, ax.Simplex(3).shrunk(t, problem.reference), gamma=0.01, tol=1e-10)
        for t in PATH
    ]
    for one, other in zip(front.solutions, alone, strict=True):
        assert one.objective == pytest.approx(other.objective, abs=2e-10)
        np.testing.assert_allclose(one.w, other.w, atol=1e-4)
    assert sum(s.n_iter for s in front.solutions) < sum(s.n_iter for s in alone)


def test_the_ends_are_ordinary_and_agnostic() -> None:
    problem = problem_of("squared")
    front = ax.pareto_front(problem, robustness=[0.0, 1.0], gamma=0.1, tol=1e-10)
    X, y, _ = table()
    design = np.column_stack([X, np.ones(len(y))])
    ridge = 0.1 * len(y) * np.diag([1.0, 1, 1, 1, 0])
    ordinary = np.linalg.solve(design.T @ design + ridge, design.T @ y)
    np.testing.assert_allclose(front.solutions[0].w, ordinary, atol=1e-6)
    agnostic = ax.solve(problem, gamma=0.1, tol=1e-10)
    assert front.solutions[1].objective == pytest.approx(agnostic.objective, abs=2e-10)


def test_a_t_below_one_does_not_degrade_a_domain_for_nothing() -> None:
    """Section 2.3: at t = 1 nothing but the worst domain counts, and a tie may go any way.

    Domain c has a column of its own. The worst domain, a, has a loss of 2 whatever the model, so
    the objective at t = 1 does not see c's loss: R takes its coefficient to 0 and its loss from 0
    to ½. At t = 0.99 it is seen, and c is served at no cost for a.
    """
    X = np.array([[1.0, 0.0]] * 4 + [[1.0, 0.0]] * 4 + [[0.0, 1.0]] * 4)
    y = np.array([2.0, -2.0, 2.0, -2.0] + [1.0, -1.0, 1.0, -1.0] + [1.0] * 4)
    problem = LinearDomains(X, y, list("aaaabbbbcccc"), SquaredError(), intercept=False)
    front = ax.pareto_front(problem, robustness=[0.99, 1.0], gamma=1e-5, tol=1e-9)
    below, at_one = front.fitted.domains
    np.testing.assert_allclose(at_one, [2.0, 0.5, 0.5], atol=1e-3)
    np.testing.assert_allclose(below, [2.0, 0.5, 0.0], atol=1e-3)
    assert front.fitted.worst[0] == pytest.approx(front.fitted.worst[1], abs=1e-3)
    assert front.fitted.pooled[0] < front.fitted.pooled[1] - 0.16


def test_the_frame_has_what_is_known() -> None:
    front = ax.pareto_front(problem_of("log"), robustness=[0.0, 0.5, 1.0], gamma=0.1)
    frame, names = front.to_frame(), ["big", "middle", "small"]
    fitted = ["fitted_worst", "fitted_pooled", *(f"fitted_{k}" for k in names)]
    assert frame.columns.tolist() == ["robustness", "gamma", "gap", *fitted]
    assert frame["robustness"].tolist() == [0.0, 0.5, 1.0]
    assert frame["gamma"].tolist() == [0.1] * 3
    np.testing.assert_array_equal(frame["gap"], [s.certificate.gap for s in front.solutions])
    np.testing.assert_array_equal(frame[fitted[2:]], front.fitted.domains)
    np.testing.assert_array_equal(frame["fitted_worst"], front.fitted.worst)
    np.testing.assert_array_equal(frame["fitted_pooled"], front.fitted.pooled)

    ones = np.ones(3)
    held = FrontierLosses(2 * front.fitted.domains, 3 * ones, 4 * ones, 5 * ones, 6 * ones)
    more = Frontier(
        front.robustness, front.gammas, front.domain_names, front.solutions, front.fitted, held, 1
    ).to_frame()
    assert more["chosen"].tolist() == [False, True, False]
    errors = ["held_out_worst", "held_out_pooled", "held_out_worst_error", "held_out_pooled_error"]
    assert more.columns.tolist()[8:-1] == [*errors, *(f"held_out_{k}" for k in names)]
    assert more.loc[0, errors].tolist() == [3.0, 4.0, 5.0, 6.0]
    np.testing.assert_array_equal(more["held_out_small"], 2 * frame["fitted_small"])


def test_parts_of_a_problem_have_numbers_for_names() -> None:
    X, y, domains = table()
    k = np.searchsorted(["big", "middle", "small"], domains)
    pieces = [LinearDomains(X[i::2], y[i::2], k[i::2], SquaredError()) for i in (0, 1)]
    front = ax.pareto_front(Parts.of(pieces), robustness=[0.5], gamma=0.1, tol=1e-8)
    assert front.domain_names.tolist() == [0, 1, 2]
    whole = ax.pareto_front(problem_of("squared"), robustness=0.5, gamma=0.1, tol=1e-8)
    assert whole.domain_names.tolist() == ["big", "middle", "small"]
    np.testing.assert_allclose(front.fitted.domains, whole.fitted.domains, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"robustness": [1.0, 0.5]}, r"robustness is \[1.0, 0.5\]; .* rising"),
        ({"robustness": []}, r"robustness is \[\]"),
        ({"robustness": [0.0, 2.0]}, "robustness is 2.0"),
        ({"robustness": [-0.1]}, "robustness is -0.1"),
        ({"robustness": [np.nan]}, "robustness is nan"),
        ({"robustness": "all"}, "robustness is 'all'"),
        ({"robustness": [[0.0, 1.0]]}, r"robustness is \[0.0, 1.0\]"),
        ({"mixtures": ax.Simplex(2)}, "mixtures .*2 .*3"),
        ({"offsets": [0.0]}, "offsets has"),
        ({"gamma": -1.0}, "gamma is -1.0"),
    ],
)
def test_faults_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ax.pareto_front(problem_of("log"), **options)
