"""Models of a path are as good as certified ones, and cost less."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import anymix as ax
from anymix.mixtures import MixtureSet
from anymix.objective import Phi
from anymix.problem.evaluation import Evaluation
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Huber, Loss, SquaredError
from anymix.problem.weighted import WeightedRows
from anymix.solvers.paths import Path

ROUGH = 1e-4
LOSSES: dict[str, Loss] = {
    "binary": CrossEntropy(),
    "three": CrossEntropy(),
    "squared": SquaredError(),
    "huber": Huber(0.5),
}
REFERENCE = [0.8, 0.15, 0.05]
SETS: list[MixtureSet] = [
    ax.Point(REFERENCE),
    ax.Simplex(3).shrunk(0.5, REFERENCE),
    ax.Chi2Ball(REFERENCE, 2.0),
    ax.Simplex(3),
]


def problem_of(
    name: str, n: int = 240, d: int = 4, scale: float = 1.0, shift: float = 0.0
) -> LinearDomains:
    rng = np.random.default_rng(3)
    X, k = rng.normal(size=(n, d)), rng.choice(3, size=n, p=REFERENCE)
    y: Any = X[:, 0] * (1.5 - k) + 0.5 * X[:, 1] + rng.logistic(size=n)
    if name == "binary":
        y = (y > 0).astype(int)
    elif name == "three":
        y = np.digitize(y, [-1.0, 1.0])
    else:
        y = scale * y + shift
    return LinearDomains(X, y, k, LOSSES[name])


def walk(problem: LinearDomains, path: Path, norm: str, anchor: Any) -> None:
    """From every set to the next, γ falling: no model is worse than the best one by ROUGH."""
    found = path.model(ax.Objective(ax.Point(REFERENCE), 1.0))
    b = 0.1 * problem.loss_scale * np.arange(3)
    for (mixtures, mu), gamma in product(product(SETS, (0.0, 0.1)), (10.0, 0.3, 1e-2, 1e-4)):
        objective = ax.Objective(mixtures, gamma, mu, norm=norm, offsets=b, anchor=anchor)
        found = path.model(objective, start=found)
        proof = ax.certify(problem, objective, found.w, mixtures.project(found.mixture))
        best = ax.solve(problem, objective, tol=1e-8)
        assert proof.upper - best.certificate.lower <= ROUGH * problem.loss_scale
        np.testing.assert_allclose(found.domain_losses, problem.losses(found.w), rtol=1e-9)


@pytest.mark.parametrize("pulled", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_as_good_as_the_certified_models(name: str, pulled: bool) -> None:
    problem = problem_of(name)
    anchor = np.random.default_rng(1).normal(0.5, 1.0, problem.n_parameters) if pulled else None
    walk(problem, Path(problem, tol=ROUGH), "squared", anchor)


@pytest.mark.parametrize("name", ["squared", "huber"])
@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0.0), (1e4, 0.0), (1.0, 1e6)])
def test_targets_in_odd_units(name: str, scale: float, shift: float) -> None:
    problem = problem_of(name, scale=scale, shift=shift)
    walk(problem, Path(problem, tol=ROUGH), "squared", None)


def test_a_kink_is_left_though_steps_there_are_short() -> None:
    """‖w − a‖ at w = a is curved without bound: steps are short, and the model tells them right."""
    problem = problem_of("binary")
    anchor = ax.solve(problem, ax.Point(REFERENCE), gamma=1e-3).w
    walk(problem, Path(problem, tol=ROUGH), "plain", anchor)


def test_a_learnt_curvature_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinearDomains, "dense_up_to", 2)
    problem = problem_of("binary")
    walk(problem, Path(problem, tol=ROUGH), "squared", None)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counts: Counter[str] = Counter()

    def watch(owner: Any, name: str) -> None:
        work = getattr(owner, name)

        def watched(*args: Any, **options: Any) -> Any:
            counts[name] += 1
            return work(*args, **options)

        monkeypatch.setattr(owner, name, watched)

    watch(WeightedRows, "scores")
    watch(Evaluation, "dual")
    watch(Phi, "lower")
    watch(LinearDomains, "conditioned")
    return counts


def test_a_step_looks_at_the_rows_once_and_nothing_is_proved(counted: Counter[str]) -> None:
    path = Path(problem_of("squared"))
    ordinary = ax.Objective(ax.Point(REFERENCE), 0.1)
    first = path.model(ordinary)
    counted.clear()
    other = path.model(replace(ordinary, gamma=0.01), start=first)  # a parabola: one step
    assert counted == {"scores": 1}
    for gamma in (0.2, 0.02):  # both begin at the same model, which is not the last one
        path.model(replace(ordinary, gamma=gamma), start=first)
    assert counted == {"scores": 1 + 1 + 2}
    path.model(replace(ordinary, gamma=1e-3), start=other)
    assert counted == {"scores": 1 + 1 + 2 + 2}


def test_too_few_iterations_are_reported() -> None:
    path = Path(problem_of("binary"), tol=1e-9, max_iter=1)
    with pytest.warns(ConvergenceWarning, match=r"stopped .*1 .*with gap"):
        path.model(ax.Objective(gamma=1e-4))


def test_solve_goes_on_from_a_model_of_a_path() -> None:
    problem = problem_of("three")
    near = Path(problem, tol=1e-7).model(ax.Objective(gamma=0.01))
    cold, warm = (ax.solve(problem, gamma=0.01, start=start) for start in (None, near))
    assert warm.objective == pytest.approx(cold.objective, abs=2e-6)
    assert warm.n_iter < cold.n_iter


def wide_problem() -> LinearDomains:
    """More parameters than a Hessian is made for, of sparse rows."""
    rng = np.random.default_rng(3)
    X = np.hstack(
        [rng.normal(size=(300, 20)) + rng.normal(size=(300, 1)), rng.random((300, 620)) < 0.01]
    )
    y = X[:, 0] - X[:, 21] + rng.logistic(size=300) > 0
    return LinearDomains(sparse.csr_array(X), y, np.arange(300) % 3)


def falling(path: Path, mixtures: MixtureSet) -> list[float]:
    """The objectives of models for γ falling, each from the one before."""
    start, found = None, []
    for gamma in (1.0, 0.3, 0.1, 0.03):
        start = path.model(ax.Objective(mixtures, gamma), start=start)
        worst = mixtures.maximize(start.domain_losses) @ start.domain_losses
        found.append(float(worst + gamma / 2 * start.w[:-1] @ start.w[:-1]))
    return found


@pytest.mark.parametrize("mixtures", [ax.Point([0.6, 0.3, 0.1]), ax.Simplex(3)], ids=repr)
def test_steps_of_one_model_help_the_next(
    mixtures: MixtureSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, passes = wide_problem(), Counter[str]()
    scores = WeightedRows.scores

    def counted(self: WeightedRows, w: Any) -> Any:
        passes["now"] += 1
        return scores(self, w)

    monkeypatch.setattr(WeightedRows, "scores", counted)
    path, forgetful = Path(problem, tol=1e-7), Path(problem, tol=1e-7)
    forgetful._trail.steps = deque(maxlen=0)
    found = falling(path, mixtures)
    n_passes = passes.pop("now")
    falling(forgetful, mixtures)
    n_without = passes.pop("now")
    certified = [
        ax.solve(problem, mixtures, gamma=gamma, tol=1e-9).objective
        for gamma in (1.0, 0.3, 0.1, 0.03)
    ]
    np.testing.assert_allclose(found, certified, rtol=0, atol=2e-7)
    assert n_passes < 0.9 * n_without
