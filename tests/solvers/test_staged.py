"""Stochastic training to a certified gap: the answer of the exact solver, and when it stops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import anymix as ax
from anymix.solvers.certificates import certify
from anymix.solvers.staged import _Stages, train

Array = NDArray[np.float64]


def make(kind: str = "binary", n: int = 900) -> ax.LinearDomains:
    """Three domains whose best models differ."""
    rng = np.random.default_rng(0)
    d = np.arange(n) % 3
    X: Any = rng.normal(size=(n, 4))
    W = np.array([1.0, -1.0, 0.5, 0.0]) + rng.normal(size=(3, 4))
    z = np.einsum("ij,ij->i", X, W[d])
    target = z + rng.normal(size=n)
    if kind == "squared":
        return ax.LinearDomains(X, target, d, ax.SquaredError())
    if kind == "huber":
        return ax.LinearDomains(X, target, d, ax.Huber(0.5))
    if kind == "classes":
        return ax.LinearDomains(X, np.digitize(target, [-1.0, 1.0]), d)
    if kind == "csr":
        return ax.LinearDomains(sparse.csr_array(X * (np.abs(X) > 0.5)), target > 0, d)
    return ax.LinearDomains(X, target > 0, d)


CASES: list[tuple[str, dict[str, Any]]] = [
    ("binary", {}),
    ("csr", {}),
    ("classes", {}),
    ("squared", {"gamma": 0.01}),
    ("huber", {"gamma": 0.01}),
    ("binary", {"mu": 0.05}),
    ("binary", {"offsets": [0.3, 0.0, 0.1]}),
    ("binary", {"mixtures": ax.Vertices(3)}),
    ("binary", {"mixtures": ax.Point([0.2, 0.3, 0.5])}),
    ("binary", {"mixtures": ax.Box([0.1] * 3, [0.5] * 3)}),
    ("binary", {"mixtures": ax.Chi2Ball([300] * 3, 1.2)}),
    ("binary", {"mixtures": ax.Simplex(3).shrunk(0.5, [0.2, 0.3, 0.5])}),
    ("binary", {"norm": "plain", "gamma": 0.02}),
]


@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
def test_it_finds_the_certified_optimum(kind: str, options: dict[str, Any]) -> None:
    problem, tol = make(kind), 0.01
    wanted = ax.solve(problem, **options)
    found = train(problem, tol=tol, **options)
    assert found.converged
    assert found.certificate.gap <= tol
    low, high = wanted.certificate.lower, wanted.certificate.upper
    assert low - 1e-9 <= found.objective <= low + tol
    assert found.certificate.lower <= high + 1e-9
    np.testing.assert_allclose(found.domain_losses, problem.losses(found.w), rtol=1e-9)
    # the two parts of the proof stand by themselves
    mine = certify(problem, found_set(problem, options), found.w, found.mixture, **proof(options))
    assert mine.upper == pytest.approx(found.certificate.upper, abs=1e-9)


def found_set(problem: ax.LinearDomains, options: dict[str, Any]) -> Any:
    return options.get("mixtures", ax.Simplex(problem.n_domains))


def proof(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("gamma", "mu", "norm", "offsets") if name in options}


@pytest.mark.parametrize("kind", ["binary", "classes"])
def test_the_optimistic_one_finds_it_too(kind: str) -> None:
    found = train(make(kind), tol=0.03, optimistic=True)
    assert found.converged
    assert found.objective <= ax.solve(make(kind)).objective + 0.03


def test_the_optimistic_one_gives_its_last_iterate() -> None:
    """After one stage of a given length both algorithms have the same averages to start from."""
    problem = make()
    options: dict[str, Any] = {"schedule": 0.5, "max_iter": 1, "tol": 1e-9}
    with pytest.warns(ConvergenceWarning):
        last = train(problem, optimistic=True, **options)
    stages = _Stages(problem.merged(), objective(problem), True, 0.5, 1, 0)
    points = [w for _, w, _ in stages.points(None)]
    assert any(np.array_equal(last.w, w) for w in points)
    run = ax.optimistic_afl(
        problem.merged(),
        step_w=0.5 / math.sqrt(450),
        step_mixture=0.5 / math.sqrt(450),
        sampler=ax.samplers.Weighted(),
        adversary="entropic",
        gamma=1e-3,
        offsets=np.full(3, math.log(2)),
        seed=np.random.default_rng([0, 0]),
        every=225,
    )
    np.testing.assert_allclose([next(run).w, next(run).w], points, rtol=1e-12)


def objective(problem: ax.LinearDomains, mu: float = 0.0) -> Any:
    from anymix.solvers.certificates import Objective

    return Objective.of(problem, None, 1e-3, mu, "squared", None, None)


def test_stages_double_and_end_with_the_passes_allowed() -> None:
    problem = make(n=90)
    stages = _Stages(problem, objective(problem), False, "theory", 10, 0)
    assert [passes for passes, _, _ in stages.points(None)] == [0.5, 1, 2, 3, 5, 7, 8.5, 10]


def test_theory_is_the_formula() -> None:
    """At w = 0 all slopes are ±½ and all losses log 2, less the mean: no noise for λ at all."""
    problem = make()
    stages = _Stages(problem, objective(problem), False, "theory", 10, 0)
    lam, b = np.full(3, 1 / 3), np.full(3, 0.5)
    X, y = np.column_stack([problem.X, np.ones(900)]), problem.y
    gradients = X * (0.5 - y)[:, None]
    E = math.sqrt(np.mean(np.sum(gradients**2, axis=1)))
    R = math.log(2) / float(np.linalg.norm(gradients.mean(axis=0)))
    step_w, step_mixture = stages.sizes(np.zeros(5), lam, b, 10**6, batch=1)
    assert step_w == pytest.approx(2 * R / (1e3 * E), rel=1e-9)
    moment = 3 * (math.log(2) - 0.5) ** 2  # E Σ λ_k δ_k², δ_k = p (ℓ − b) with probability 1/p
    assert step_mixture == pytest.approx(math.sqrt(2 * math.log(3) / (1e6 * moment)), rel=1e-9)


def test_no_step_is_longer_than_the_rows_allow() -> None:
    problem = make("squared")
    stages = _Stages(problem, objective(problem), False, "theory", 10, 0)
    longest = 1 / (np.max(np.sum(np.asarray(problem.X) ** 2, axis=1)) + 1 + 1e-3)
    step_w, _ = stages.sizes(np.full(5, 100.0), np.full(3, 1 / 3), np.zeros(3), 1, batch=1)
    assert step_w == pytest.approx(longest)


@pytest.mark.parametrize(
    ("kind", "w", "mu", "T"),
    [
        ("binary", 0.0, 0.0, 10**8),  # noise sets both sizes
        ("squared", 100.0, 0.0, 1),  # the curvature of the rows sets that of w
        ("binary", 0.0, 50.0, 1),  # the curvature of the penalty sets that of λ
    ],
)
def test_no_optimistic_step_is_longer_than_a_plain_one(
    kind: str, w: float, mu: float, T: int
) -> None:
    """It goes along 2δ − δ', which is as long as 3δ where the gradients turn round: δ' = −δ."""
    problem = make(kind)
    plain, last = (
        _Stages(problem, objective(problem, mu), optimistic, "theory", 10, 0).sizes(
            np.full(5, w), np.full(3, 1 / 3), np.full(3, 0.5), T, batch=1
        )
        for optimistic in (False, True)
    )
    delta = np.ones(5)
    along = 2 * delta - (-delta)
    for player in (0, 1):
        np.testing.assert_allclose(last[player] * along, plain[player] * delta, rtol=1e-12)


def test_optimistic_players_do_not_throw_each_other_about() -> None:
    """γ_w γ_λ max_k E_k‖∇ℓ‖² ≤ ¼. At w = 0 all losses are log 2, so that λ sees no noise at all."""
    problem = make()
    stages = _Stages(problem, objective(problem), True, "theory", 10, 0)
    squares = (np.sum(np.asarray(problem.X) ** 2, axis=1) + 1) / 4  # slopes are ±½
    most = max(squares[np.arange(900) % 3 == k].mean() for k in range(3))
    lam, b = np.full(3, 1 / 3), np.full(3, math.log(2))
    step_w, step_mixture = stages.sizes(np.zeros(5), lam, b, 10**4, batch=1)
    assert step_w * step_mixture * most == pytest.approx(0.25, rel=1e-9)


def test_batches_grow_for_last_iterates_only() -> None:
    problem = make(n=2100)
    plain, last = (
        _Stages(problem, objective(problem), optimistic, "theory", 10, 0)
        for optimistic in (False, True)
    )
    assert [plain.batch(length) for length in (1, 2, 4)] == [1, 1, 1]
    assert [last.batch(length) for length in (1, 2, 3.5)] == [1, 2, 4]


def test_same_seed_same_numbers() -> None:
    one, two, other = (train(make(), tol=0.01, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.w, two.w)
    np.testing.assert_array_equal(one.mixture, two.mixture)
    assert one.history == two.history
    assert not np.array_equal(one.w, other.w)


def test_a_gap_that_is_not_reached_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(
        ConvergenceWarning, match="stopped after 3 passes with gap .* above the"
    ) as w:
        found = train(make(), tol=1e-9, max_iter=3, verbose=True)
    assert f"{found.certificate.gap:.2e}" in str(w[0].message)
    assert not found.converged
    assert found.n_iter == 3
    assert capsys.readouterr().out.count("passes: agnostic objective") == len(found.history)


def test_the_record_only_gets_better() -> None:
    with pytest.warns(ConvergenceWarning):
        found = train(make(), tol=1e-9, max_iter=60)
    uppers, lowers, at = (
        np.array([r[name] for r in found.history]) for name in ("upper", "lower", "iteration")
    )
    assert np.all(np.diff(uppers) <= 0)
    assert np.all(np.diff(lowers) >= 0)
    assert np.all(np.diff(at) > 0)
    assert len(at) > 5
    assert found.certificate.upper == uppers[-1]
    assert found.history[-1]["mixture"] == found.mixture.tolist()


def test_proofs_wait_until_the_steps_have_cost_as_much() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 63))  # 64 parameters: a proof costs 4 passes
    problem = ax.LinearDomains(X, X[:, 0] + rng.normal(size=400) > 0, np.arange(400) % 2)
    with pytest.warns(ConvergenceWarning):
        found = train(problem, tol=1e-9, max_iter=40)
    at = [r["iteration"] for r in found.history]
    assert at == [5, 11, 15, 23, 31, 35.5, 40]


def test_a_good_start_is_used() -> None:
    problem = make()
    near = ax.solve(problem)  # its λ may be 0 where multiplicative weights must not be
    found = train(problem, tol=0.01, start=near)
    assert found.n_iter == len(found.history) == 1
    np.testing.assert_array_equal(found.w, near.w)
    with pytest.warns(ConvergenceWarning):
        found = train(problem, tol=1e-9, start=near, max_iter=2)
    assert found.certificate.gap < 1e-6
    assert len(found.history) > 1


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("schedule is 'fast'", {"schedule": "fast"}),
        ("schedule is -1", {"schedule": -1.0}),
        ("tol is 0", {"tol": 0.0}),
        ("max_iter is 0", {"max_iter": 0}),
    ],
)
def test_faults_are_named(message: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=message):
        train(make(), **options)
