from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conic import Case, minimax, random_case
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from anymix.mixtures import Chi2Ball, DirichletPrior, Point, Simplex, TVBall, cvar
from anymix.objective import Objective
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Hinge, Huber, SquaredError
from anymix.solvers import curvature, sqp
from anymix.solvers.certificates import Certificate, certify
from anymix.solvers.exact import Solution, solve

Array = NDArray[np.float64]

LOSSES = {
    "binary": CrossEntropy(),
    "three": CrossEntropy(),
    "squared": SquaredError(),
    "huber": Huber(0.5),
}
EVERY_LOSS = pytest.mark.parametrize("name", LOSSES)


def table(name: str, n: int = 60, d: int = 3, p: int = 3, seed: int = 5) -> tuple[Array, Any, Any]:
    """X, y, domains that no linear model separates."""
    rng = np.random.default_rng(seed)
    X, domains = rng.normal(size=(n, d)), np.arange(n) % p
    y: Any = X[:, 0] * (1 + 0.5 * domains) + rng.logistic(size=n)
    if name == "binary":
        y = (y > 0).astype(int)
    elif name == "three":
        y = np.digitize(y, [-1.0, 1.0])
    return X, y, domains


def one_hot(domains: Any) -> Array:
    return np.asarray(np.eye(int(np.max(domains)) + 1)[domains])


def assert_solved(solution: Solution, value: float, rel: float = 1e-7) -> None:
    assert solution.converged
    assert solution.objective == pytest.approx(value, rel=rel, abs=1e-14)
    assert solution.certificate.lower <= value + rel * abs(value)
    assert solution.certificate.upper >= value - rel * abs(value)


# -- against CVXPY -------------------------------------------------------------------------------


def check_against_cvxpy(case: Case) -> int:
    value = case.reference()
    solution = solve(case.problem, case.mixtures, tol=1e-9, **case.objective)
    assert solution.objective == pytest.approx(value, rel=1e-7, abs=2e-8)
    assert solution.certificate.lower <= value + 1e-7 * max(1.0, abs(value))
    assert solution.certificate.upper == solution.objective
    assert solution.converged
    assert case.mixtures.contains(solution.mixture, tol=1e-8)
    np.testing.assert_allclose(solution.domain_losses, case.problem.losses(solution.w), rtol=1e-9)
    return solution.n_iter


@pytest.mark.parametrize("seed", range(144))
def test_objective_is_the_one_of_cvxpy(seed: int) -> None:
    assert check_against_cvxpy(random_case(seed)) <= 40


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(144, 2000))
def test_objective_is_the_one_of_cvxpy_on_many(seed: int) -> None:
    check_against_cvxpy(random_case(seed))


def test_the_random_problems_go_through_everything() -> None:
    cases = [random_case(seed) for seed in range(144)]
    pairs = Counter((type(c.mixtures), c.loss, c.objective["gamma"]) for c in cases)
    assert len(pairs) >= 7 * 3 * 4
    for trait in (
        lambda c: c.objective.get("prior") is not None,
        lambda c: c.objective.get("mu", 0) > 0,
        lambda c: c.objective["offsets"] is not None,
        lambda c: c.objective["norm"] == "plain",
        lambda c: sparse.issparse(c.X),
        lambda c: not c.intercept,
        lambda c: c.weight is not None,
        lambda c: np.any((c.memberships > 0).sum(axis=1) > 1),
        lambda c: c.memberships.shape[1] == 1,
    ):
        assert sum(map(trait, cases)) >= 5


MANY = {
    "simplex": Simplex(300),
    "cvar": cvar(np.full(300, 1 / 300), 0.1),
    "chi2": Chi2Ball(np.ones(300), 1.5),
    "tv": TVBall(np.full(300, 1 / 300), 0.2),
}


@pytest.mark.parametrize(("name", "key"), [("binary", "simplex"), *(("squared", k) for k in MANY)])
def test_300_domains_of_3_rows(name: str, key: str) -> None:
    X, y, _ = table(name, n=900, d=4, p=1)
    domains, mixtures = np.repeat(np.arange(300), 3), MANY[key]
    value = minimax(X, y, one_hot(domains), mixtures, LOSSES[name], gamma=1e-3)
    s = solve(LinearDomains(X, y, domains, LOSSES[name]), mixtures, gamma=1e-3, tol=1e-9)
    assert_solved(s, value)


# -- against closed forms and scikit-learn ---------------------------------------------------------


def test_proposition_1() -> None:
    """D_1(x, 1) = 1, D_2(x, 0) = D_2(x, 1) = ½: uniform p_0 = ¼, agnostic p_0 = ½."""
    problem = LinearDomains(np.zeros((4, 1)), [1, 1, 0, 1], [1, 1, 2, 2])
    uniform = solve(problem, Point([0.5, 0.5]), gamma=0.0, tol=1e-12)
    agnostic = solve(problem, Simplex(2), gamma=0.0, tol=1e-12)
    assert uniform.domain_losses.max() == pytest.approx(np.log(4 / np.sqrt(3)), abs=1e-9)
    assert agnostic.domain_losses.max() == pytest.approx(np.log(2), abs=1e-9)
    assert agnostic.objective == pytest.approx(np.log(2), abs=1e-9)
    assert 1 / (1 + np.exp(uniform.w[-1])) == pytest.approx(0.25, abs=1e-7)


def test_two_constants_by_hand() -> None:
    """Targets 0 and 2 (m_k = 1, 3) and ½(w − y)²: w = 1, and w = 2λ_2 for one mixture λ."""
    problem = LinearDomains(np.zeros((4, 1)), [0, 2, 2, 2], [0, 1, 1, 1], SquaredError())
    worst = solve(problem, Simplex(2), gamma=0.0, tol=1e-10)
    assert worst.w[-1] == pytest.approx(1.0, abs=1e-6)
    assert worst.objective == pytest.approx(0.5, abs=1e-9)
    np.testing.assert_allclose(worst.mixture, [0.5, 0.5], atol=1e-6)
    point = solve(problem, Point(problem.reference), gamma=0.0, tol=1e-10)
    assert point.w[-1] == pytest.approx(1.5, abs=1e-6)


@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("name", ["binary", "three", "squared"])
def test_one_point_is_plain_training(name: str, csr: bool) -> None:
    X, y, _ = table(name, n=200, d=5)
    n, gamma, rng = len(y), 1e-2, np.random.default_rng(1)
    domains, weight = rng.choice(3, n, p=[0.6, 0.3, 0.1]), rng.uniform(0.5, 2.0, n)
    weight *= n / weight.sum()
    Z = sparse.csr_array(X) if csr else X
    problem = LinearDomains(Z, y, domains, LOSSES[name], sample_weight=weight)
    w = solve(problem, Point(problem.reference), gamma=gamma, tol=1e-12).w
    model: Any = (
        Ridge(alpha=gamma * n, tol=1e-12)
        if name == "squared"
        else LogisticRegression(C=1 / (gamma * n), tol=1e-10, max_iter=10_000)
    )
    model.fit(X, y, sample_weight=weight)
    coef, intercept = problem.unpack(w)
    shift = model.intercept_ - np.mean(model.intercept_) if name == "three" else model.intercept_
    np.testing.assert_allclose(coef, np.atleast_2d(model.coef_), atol=1e-5)
    np.testing.assert_allclose(intercept, np.atleast_1d(shift), atol=1e-5)


def test_the_mixture_is_a_saddle_point() -> None:
    """λ maximises at ŵ, and ŵ minimises at λ: both first-order conditions, not only the value."""
    X, y, domains = table("binary", n=300)
    problem = LinearDomains(X, y, domains)
    s = solve(problem, Simplex(3), gamma=1e-2, tol=1e-12)
    ridge = np.append(1e-2 * s.w[:-1], 0.0)
    np.testing.assert_allclose(problem.gradient(s.w, s.mixture) + ridge, 0.0, atol=1e-6)
    assert s.mixture @ s.domain_losses == pytest.approx(s.domain_losses.max(), abs=1e-9)


def test_the_worst_mixture_may_be_inside_or_on_the_boundary() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    domains = np.repeat([0, 1, 2], [100, 100, 200])
    slope = np.where(domains == 0, 2.0, -2.0)  # domain 2 is domain 1 with less noise
    y = slope * X[:, 0] + np.where(domains == 2, 0.1, 1.0) * rng.normal(size=400)
    problem = LinearDomains(X, y, domains, SquaredError())
    edge = solve(problem, Simplex(3), gamma=0.0, tol=1e-10).mixture
    assert edge[2] == pytest.approx(0.0, abs=1e-12)
    assert edge[:2].min() > 0.3
    assert solve(problem, Simplex(3), gamma=0.0, mu=5.0, tol=1e-10).mixture.min() > 0.05


# -- hard data -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e4, 1e8])
@pytest.mark.parametrize("norm", ["squared", "plain"])
@EVERY_LOSS
def test_the_unit_of_the_features_does_not_matter(name: str, norm: str, scale: float) -> None:
    """w ↦ w/s for X ↦ sX: the same losses, and the same γR(w) for γ ↦ s²γ or sγ."""
    X, y, domains = table(name)
    factor = scale**2 if norm == "squared" else scale
    for gamma in (0.0, 1e-2):
        plain, scaled = (
            solve(LinearDomains(Z, y, domains, LOSSES[name]), gamma=g, norm=norm, tol=1e-10)
            for Z, g in ((X, gamma), (scale * X, factor * gamma))
        )
        assert_solved(scaled, plain.objective, rel=2e-9)


@EVERY_LOSS
def test_columns_of_very_different_units(name: str) -> None:
    X, y, domains = table(name)
    units = np.array([1e-8, 1.0, 1e8])
    plain = solve(LinearDomains(X, y, domains, LOSSES[name]), gamma=0.0, tol=1e-10)
    mixed = solve(LinearDomains(X * units, y, domains, LOSSES[name]), gamma=0.0, tol=1e-10)
    assert_solved(mixed, plain.objective, rel=2e-9)
    assert solve(LinearDomains(X * units, y, domains, LOSSES[name]), gamma=1.0).converged


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e4, 1e8])
@pytest.mark.parametrize("name", ["squared", "huber"])
def test_the_unit_of_the_targets_does_not_matter(name: str, scale: float) -> None:
    """L ↦ s²L and w ↦ sw for y ↦ sy (and δ ↦ sδ)."""
    X, y, domains = table(name)
    loss = SquaredError() if name == "squared" else Huber(0.5 * scale)
    for gamma in (0.0, 1e-2):
        plain = solve(LinearDomains(X, y, domains, LOSSES[name]), gamma=gamma, tol=1e-10)
        scaled = solve(LinearDomains(X, scale * y, domains, loss), gamma=gamma, tol=1e-10)
        assert scaled.converged
        assert scaled.objective / scale**2 == pytest.approx(plain.objective, rel=1e-8)
        np.testing.assert_allclose(scaled.w / scale, plain.w, atol=1e-4)


@pytest.mark.parametrize("name", ["squared", "huber"])
def test_a_large_mean_of_the_targets(name: str) -> None:
    """The first objective is 1e12 times the last: the gap must not be measured by the first."""
    X, y, domains = table(name)
    plain = solve(LinearDomains(X, y, domains, LOSSES[name]), gamma=1e-2, tol=1e-10)
    for columns in (3, 700):  # by Hessians, and by learnt curvature
        Z = np.pad(X, ((0, 0), (0, columns - 3)))
        moved = solve(LinearDomains(Z, y + 1e6, domains, LOSSES[name]), gamma=1e-2, tol=1e-8)
        assert_solved(moved, plain.objective, rel=1e-6)


REDUNDANT: dict[str, Callable[[Array], Array]] = {
    "a copy": lambda X: X[:, [0]],
    "a sum": lambda X: X @ [[1.0], [2.0], [-1.0]],  # exact: the table is rounded to 64ths
    "a constant": lambda X: np.ones((len(X), 1)),
    "a large constant": lambda X: np.full((len(X), 1), 1e6),
    "zeros": lambda X: np.zeros((len(X), 1)),
}


@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("column", REDUNDANT)
@EVERY_LOSS
def test_a_column_that_adds_nothing(name: str, column: str, csr: bool) -> None:
    X, y, domains = table(name)
    X = np.round(64 * X) / 64
    Z = np.hstack([X, REDUNDANT[column](X)])
    wide = LinearDomains(sparse.csr_array(Z) if csr else Z, y, domains, LOSSES[name])
    free = solve(LinearDomains(X, y, domains, LOSSES[name]), gamma=0.0, tol=1e-9)
    assert_solved(solve(wide, gamma=0.0, tol=1e-9), free.objective, rel=1e-8)
    if column not in ("a large constant", "zeros"):
        value = minimax(Z, y, one_hot(domains), Simplex(3), LOSSES[name], gamma=1e-2)
        assert_solved(solve(wide, gamma=1e-2, tol=1e-9), value)


@EVERY_LOSS
def test_domains_that_repeat(name: str) -> None:
    """Each domain twice: many λ are optimal, the value and w are the same."""
    X, y, domains = table(name)
    one = solve(LinearDomains(X, y, domains, LOSSES[name]), gamma=1e-2, tol=1e-10)
    twice = LinearDomains(
        np.vstack([X, X]), np.append(y, y), np.append(domains, domains + 3), LOSSES[name]
    )
    two = solve(twice, gamma=1e-2, tol=1e-10)
    assert_solved(two, one.objective, rel=1e-9)
    np.testing.assert_allclose(two.w, one.w, atol=1e-4)


@EVERY_LOSS
def test_one_domain(name: str) -> None:
    X, y, _ = table(name)
    value = minimax(X, y, np.ones((len(y), 1)), Simplex(1), LOSSES[name], gamma=1e-3)
    problem = LinearDomains(X, y, np.zeros(len(y), dtype=int), LOSSES[name])
    assert_solved(solve(problem, gamma=1e-3, tol=1e-9), value)


@pytest.mark.parametrize("gamma", [0.0, 1e-3])
@EVERY_LOSS
def test_a_domain_of_one_row(name: str, gamma: float) -> None:
    X, y, domains = table(name)
    domains[0] = 3
    value = minimax(X, y, one_hot(domains), Simplex(4), LOSSES[name], gamma=gamma)
    problem = LinearDomains(X, y, domains, LOSSES[name])
    assert_solved(solve(problem, gamma=gamma, tol=1e-9), value)


@pytest.mark.parametrize("gamma", [0.0, 1e-3])
def test_a_domain_of_one_class(gamma: float) -> None:
    X, y, domains = table("binary")
    y[domains == 0] = 1
    value = minimax(X, y, one_hot(domains), Simplex(3), gamma=gamma)
    assert_solved(solve(LinearDomains(X, y, domains), gamma=gamma, tol=1e-9), value)


def test_separable_data() -> None:
    """With γ > 0 the right answer; with γ = 0 the infimum 0, proven, though no w reaches it."""
    X, _, domains = table("binary")
    y = (X[:, 0] > 0).astype(int)
    problem = LinearDomains(X, y, domains)
    for gamma in (1e-4, 1e-2):
        value = minimax(X, y, one_hot(domains), Simplex(3), gamma=gamma)
        assert_solved(solve(problem, gamma=gamma, tol=1e-10), value)
    for tol in (1e-3, 1e-9):
        free = solve(problem, gamma=0.0, tol=tol)
        assert 0 <= free.certificate.lower <= free.objective <= tol
        assert free.converged


def test_partly_separable_data_have_an_infimum_and_no_minimum() -> None:
    """Column 1 is switched on in rows of class 1 only: its weight goes to infinity."""
    X, y, domains = table("binary", n=200, d=2)
    X[:, 1] = (np.arange(200) % 5 == 0) & (y == 1)
    rest = X[:, 1] == 0
    shares = one_hot(domains) / one_hot(domains).sum(axis=0)
    free = solve(LinearDomains(X, y, domains), gamma=0.0, tol=1e-8)
    # the infimum: these rows cost nothing, the others are fitted without the column
    value = _epigraph_without(X[:, :1], y, shares, rest)
    assert free.objective == pytest.approx(value, abs=1e-7)
    assert free.certificate.lower <= value + 1e-9
    assert free.converged


def _epigraph_without(X: Array, y: Any, shares: Array, kept: NDArray[np.bool_]) -> float:
    import cvxpy as cp

    w, b, t = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
    z = X[kept] @ w + b
    losses = shares[kept].T @ (cp.logistic(z) - cp.multiply(y[kept].astype(float), z))
    cp.Problem(cp.Minimize(t), [losses <= t]).solve(solver=cp.CLARABEL)
    return float(t.value)


@pytest.mark.parametrize("gamma", [0.0, 1e-3])
def test_a_single_row(gamma: float) -> None:
    for loss in (SquaredError(), Huber()):
        s = solve(LinearDomains([[2.0]], [3.0], [0], loss), gamma=gamma, tol=1e-10)
        assert s.objective == pytest.approx(0.0, abs=1e-9)  # the intercept is free
    for classes in ([0, 1], [0, 1, 2]):
        s = solve(LinearDomains([[2.0]], [1], [0], classes=classes), gamma=gamma, tol=1e-6)
        assert 0 <= s.objective <= 1e-6


def test_no_feature_but_an_intercept() -> None:
    problem = LinearDomains(np.zeros((4, 0)), [1, 1, 0, 1], [0, 0, 1, 1])
    assert solve(problem, tol=1e-10).objective == pytest.approx(np.log(2), abs=1e-9)


def test_a_huber_loss_without_curvature_anywhere() -> None:
    """At w = 0 every residual is far beyond δ, where the Hessian is zero."""
    X, y, domains = table("huber")
    for delta, shift in ((0.01, 0.0), (0.5, 100.0)):
        value = minimax(X, y + shift, one_hot(domains), Simplex(3), Huber(delta), gamma=0.0)
        problem = LinearDomains(X, y + shift, domains, Huber(delta))
        assert_solved(solve(problem, gamma=0.0, tol=1e-9), value, rel=1e-6)


# -- many parameters: the learnt curvature ---------------------------------------------------------


def learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqp, "choose_curvature", lambda p, o, *_: curvature.LimitedMemory(p, o))


def computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqp, "choose_curvature", lambda *given: curvature.Newton(*given[:3]))


def test_a_huber_loss_without_curvature_anywhere_in_sparse_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y, domains = table("huber")
    learnt(monkeypatch)
    value = minimax(X, y + 100, one_hot(domains), Simplex(3), Huber(0.5), gamma=0.0)
    problem = LinearDomains(sparse.csr_array(X), y + 100, domains, Huber(0.5))
    assert_solved(solve(problem, gamma=0.0, tol=1e-7), value, rel=1e-5)


@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("norm", ["squared", "plain"])
@EVERY_LOSS
def test_learnt_and_computed_curvature_agree(
    name: str, norm: str, csr: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, domains = table(name, n=150, d=30)
    problem = LinearDomains(sparse.csr_array(X) if csr else X, y, domains, LOSSES[name])
    for mixtures in (Simplex(3), Chi2Ball(problem.sizes, 1.2)):
        values = []
        for choose in (computed, learnt):
            choose(monkeypatch)
            s = solve(problem, mixtures, gamma=1e-2, norm=norm, tol=1e-9)
            assert s.converged
            values.append(s.objective)
        assert values[0] == pytest.approx(values[1], abs=2e-9)


@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("name", ["binary", "three", "squared"])
def test_wide_data_against_cvxpy(name: str, csr: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, domains = table(name, n=60, d=210 if name == "three" else 620)
    X = X * (np.random.default_rng(2).random(X.shape) < 0.3) if csr else X
    problem = LinearDomains(sparse.csr_array(X) if csr else X, y, domains, LOSSES[name])
    assert problem.n_parameters > 600
    monkeypatch.setattr(curvature, "Newton", None)  # not to be used,
    monkeypatch.setattr(sqp, "PATIENCE", 10_000)  # not even late
    value = minimax(X, y, one_hot(domains), Simplex(3), LOSSES[name], gamma=1e-2)
    assert_solved(solve(problem, gamma=1e-2, tol=1e-9), value)


def test_ill_conditioned_wide_data_end_with_a_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqp, "PATIENCE", 5)
    X, y, domains = table("squared", n=60, d=40)
    problem = LinearDomains(X * np.logspace(0, 4, 40), y, domains, SquaredError())
    exactly = solve(problem, gamma=1e-6, tol=1e-9)
    learnt(monkeypatch)
    s = solve(problem, gamma=1e-6, tol=1e-9)
    assert s.n_iter > 5
    assert_solved(s, exactly.objective, rel=1e-8)


# -- starts, determinism, the oracle ---------------------------------------------------------------


@EVERY_LOSS
def test_a_warm_start_gives_the_same_objective(name: str) -> None:
    X, y, domains = table(name)
    problem = LinearDomains(X, y, domains, LOSSES[name])
    path: Solution | None = None
    for gamma in (1.0, 0.1, 1e-2, 1e-3, 1e-2):
        path = solve(problem, gamma=gamma, tol=1e-9, start=path)
        cold = solve(problem, gamma=gamma, tol=1e-9)
        assert path.objective == pytest.approx(cold.objective, abs=2e-9)
    again = solve(problem, gamma=1e-2, tol=1e-8, start=path)
    assert again.n_iter <= 2


@pytest.mark.parametrize("size", [0.1, 10.0, 1e6])
@EVERY_LOSS
def test_any_vector_may_be_the_start(name: str, size: float) -> None:
    X, y, domains = table(name)
    problem = LinearDomains(X, y, domains, LOSSES[name])
    cold = solve(problem, gamma=1e-3, tol=1e-9)
    w = size * np.random.default_rng(0).normal(size=problem.n_parameters)
    for start in (w, w.tolist()):
        s = solve(problem, gamma=1e-3, tol=1e-9, start=start)
        assert_solved(s, cold.objective, rel=4e-9)
        assert s.n_iter <= 60


def test_a_warm_start_over_another_set() -> None:
    X, y, domains = table("binary")
    problem = LinearDomains(X, y, domains)
    first = solve(problem, Simplex(3))
    tv = TVBall(problem.reference, 0.1)
    cold, warm = solve(problem, tv, tol=1e-9), solve(problem, tv, tol=1e-9, start=first)
    assert warm.objective == pytest.approx(cold.objective, abs=2e-9)


def test_large_data_start_from_a_sample() -> None:
    """The start on a tenth of the rows is a start only: the answer is that of all rows."""
    X, y, domains = table("binary", n=12_000, d=2)
    problem = LinearDomains(X, y, domains)
    plain = solve(problem, tol=1e-9, start=np.zeros(3))
    assert_solved(solve(problem, tol=1e-9), plain.objective, rel=4e-9)


def test_deterministic() -> None:
    X, y, domains = table("binary", n=6000, d=4)
    one, two = (solve(LinearDomains(X, y, domains)) for _ in range(2))
    np.testing.assert_array_equal(one.w, two.w)
    np.testing.assert_array_equal(one.mixture, two.mixture)
    assert one.history == two.history


@pytest.mark.parametrize("name", ["binary", "three"])
def test_a_start_is_looked_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, domains = table(name)
    problem, at, seen = LinearDomains(X, y, domains), LinearDomains.at, []

    def look(self: LinearDomains, w: Any) -> Any:
        seen.append(w)
        return at(self, w)

    monkeypatch.setattr(LinearDomains, "at", look)
    solve(problem, start=0.1 * np.ones(problem.n_parameters))
    assert len(seen) == 3  # that start, zero, and the end


class Telephone:
    """A problem behind the few questions of the protocol: all that a remote one could answer."""

    def __init__(self, problem: LinearDomains) -> None:
        self.sizes, self.penalized = problem.sizes, problem.penalized
        self.loss_scale, self.reach = problem.loss_scale, problem.reach
        self.rounding, self.reference = problem.rounding, problem.reference
        self.n_domains, self.n_parameters = problem.n_domains, problem.n_parameters
        self.n_scores, self.n_rows = problem.n_scores, problem.n_rows
        self.is_smooth, self.brings_curvature, self.has_blocks = True, True, False
        self.dense_up_to = self.hessian_up_to = 600
        self.merged, self.coarse, self.conditioned = lambda: self, lambda: None, lambda: None
        self.at = lambda w, mixture=None: Line(problem.at(w))


class Line:
    def __init__(self, here: Any) -> None:
        self.w, self.losses, self.moved = here.w, here.losses, lambda *a: Line(here.moved(*a))
        self.gradient, self.jacobian = here.gradient, here.jacobian
        self.hessian, self.dual, self.floor = here.hessian, here.dual, here.floor
        self.hessian_diagonal, self.hessian_vector = here.hessian_diagonal, here.hessian_vector
        self.hessian_blocks, self.steepness = here.hessian_blocks, here.steepness


@pytest.mark.parametrize("gamma", [0.0, 1e-2])
@EVERY_LOSS
def test_the_solver_asks_only_what_the_protocol_lists(name: str, gamma: float) -> None:
    X, y, domains = table(name)
    problem: Any = LinearDomains(X, y, domains, LOSSES[name])
    remote: Any = Telephone(problem)
    here, there = solve(problem, gamma=gamma, tol=1e-9), solve(remote, gamma=gamma, tol=1e-9)
    assert there.objective == pytest.approx(here.objective, abs=2e-9)
    w, mixture = np.ones(problem.n_parameters), [0.2, 0.3, 0.5]
    local, distant = (certify(p, Simplex(3), w, mixture, gamma=gamma) for p in (problem, remote))
    assert distant == local


# -- regret ----------------------------------------------------------------------------------------


def noisy_third() -> LinearDomains:
    """Two domains with signals that differ a little, and one of coin flips."""
    rng = np.random.default_rng(3)
    X, domains = rng.normal(size=(900, 3)), np.arange(900) % 3
    signal = 2 * X[:, 0] + np.where(domains == 0, 1.0, -1.0) * X[:, 1]
    y = np.where(domains == 2, rng.random(900) < 0.5, signal + rng.logistic(size=900) > 0)
    return LinearDomains(X, y, domains)


def test_minimax_regret_with_a_domain_of_noise() -> None:
    problem = noisy_third()
    best = np.array([solve(problem, Point(e), gamma=0.0, tol=1e-9).objective for e in np.eye(3)])
    plain = solve(problem, Simplex(3), gamma=0.0, tol=1e-9)
    regret = solve(problem, Simplex(3), gamma=0.0, offsets=best, tol=1e-9)
    assert plain.mixture[2] > 0.9  # the noise owns λ
    assert np.all(regret.domain_losses[:2] < plain.domain_losses[:2] - 0.05)
    assert np.all(regret.domain_losses <= best + regret.objective + 1e-9)
    assert regret.objective == pytest.approx(np.max(regret.domain_losses - best), abs=1e-12)
    worst_regret_of_plain = np.max(plain.domain_losses - best)
    assert regret.objective < worst_regret_of_plain - 0.05


def test_offsets_shift_the_objective_and_no_more() -> None:
    problem = noisy_third()
    plain, shifted = solve(problem, tol=1e-9), solve(problem, offsets=[0.25] * 3, tol=1e-9)
    assert shifted.objective == pytest.approx(plain.objective - 0.25, abs=2e-9)
    np.testing.assert_allclose(shifted.domain_losses, plain.domain_losses, atol=1e-6)


# -- what goes wrong, and what is shown ------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mixtures": Simplex(4)}, "mixtures .*4 .*3"),
        ({"tol": 0.0}, "tol is 0.0"),
        ({"tol": -1e-6}, "tol is -1e-06"),
        ({"tol": np.nan}, "tol is nan"),
        ({"tol": "small"}, "tol is 'small'"),
        ({"gamma": -1.0}, "gamma is -1.0"),
        ({"offsets": [0.0, 1.0]}, r"offsets has shape \(2,\); give 3"),
        ({"prior": DirichletPrior([2, 2])}, "2.*3|3.*2"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"max_iter": 2.5}, "max_iter is 2.5"),
        ({"max_iter": float("nan")}, "max_iter is nan"),
        ({"start": [1.0, 2.0]}, r"shape \(2,\)"),
        ({"start": [np.nan] * 4}, "missing or infinite"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], words: str) -> None:
    X, y, domains = table("binary")
    with pytest.raises(ValueError, match=words):
        solve(LinearDomains(X, y, domains), **arguments)


def test_a_start_of_the_wrong_length_for_many_classes() -> None:
    X, y, domains = table("three")
    problem = LinearDomains(X, y, domains)
    with pytest.raises(ValueError, match=r"shape \(11,\); expected \(12,\)"):
        solve(problem, start=np.zeros(11))


def test_the_hinge_is_refused() -> None:
    X, y, domains = table("binary")
    with pytest.raises(ValueError, match=r"Hinge\(\) has no curvature"):
        solve(LinearDomains(X, y, domains, Hinge()))


@EVERY_LOSS
def test_too_few_iterations_warn_with_the_gap(name: str) -> None:
    X, y, domains = table(name)
    problem = LinearDomains(X, y, domains, LOSSES[name])
    with pytest.warns(ConvergenceWarning, match=r"after .*1 .*with gap") as seen:
        s = solve(problem, gamma=1e-3, tol=1e-12, max_iter=1)
    assert not s.converged
    assert s.n_iter == len(s.history) == 1
    assert s.certificate.gap > 1e-12
    shown = re.search(r"gap (\S+) above", str(seen[0].message))
    assert shown is not None
    assert float(shown[1]) == pytest.approx(s.certificate.gap, rel=0.01)
    assert seen[0].filename == __file__  # it points at the caller's line
    value = solve(problem, gamma=1e-3, tol=1e-9).objective
    assert s.certificate.lower <= value + 1e-9
    assert s.certificate.upper >= value - 1e-9


@pytest.mark.parametrize("seed", range(0, 144, 5))
def test_history(seed: int) -> None:
    case = random_case(seed)
    s = solve(case.problem, case.mixtures, tol=1e-8, **case.objective)
    assert len(s.history) == s.n_iter
    for k, record in enumerate(s.history, 1):
        assert set(record) == {"iteration", "upper", "lower", "gap", "worst_domain", "mixture"}
        assert case.mixtures.contains(record["mixture"], tol=1e-7)
        assert record["iteration"] == k
        assert record["lower"] <= record["upper"] + 1e-12
        assert record["gap"] == record["upper"] - record["lower"]
    uppers = [record["upper"] for record in s.history]
    lowers = [record["lower"] for record in s.history]
    assert uppers == sorted(uppers, reverse=True)
    assert lowers == sorted(lowers)
    assert (uppers[-1], lowers[-1]) == (s.certificate.upper, s.certificate.lower)
    assert s.history[-1]["worst_domain"] == np.argmax(s.domain_losses)


def test_verbose_prints_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    X, y, domains = table("binary")
    s = solve(LinearDomains(X, y, domains), verbose=True)
    out = capsys.readouterr().out
    assert f"iteration {s.n_iter}:" in out
    assert f"upper {s.objective:.8f}" in out.replace("\n", " ")
    solve(LinearDomains(X, y, domains))
    assert capsys.readouterr().out == ""


def test_a_solution_prints_without_its_history() -> None:
    X, y, domains = table("binary")
    s = solve(LinearDomains(X, y, domains))
    assert "history" not in repr(s)
    assert "\n" not in str(s.certificate)
    assert isinstance(s.certificate, Certificate)


def test_tol_is_relative_for_small_targets_only() -> None:
    X, y, domains = table("squared")
    assert LinearDomains(X, 100 * y, domains, SquaredError()).loss_scale == 1.0
    tiny = LinearDomains(X, 1e-5 * y, domains, SquaredError())
    assert solve(tiny, gamma=1e-3, tol=1e-3).certificate.gap <= 1e-3 * tiny.loss_scale < 1e-12


def test_loss_scale_follows_offsets_neither_up_nor_down() -> None:
    X, y, domains = table("binary")
    problem = LinearDomains(X, y, domains)
    objective = Objective(gamma=0.0, offsets=[1.0, 2.0, 3.0]).on(problem)
    assert problem.loss_scale == 1.0
    assert objective.worst_value(np.array([1.0, 2.0, 3.5])) == pytest.approx(0.5)
