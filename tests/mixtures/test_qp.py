"""Laws of the quadratic program, and its values against CVXPY."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from anymix.mixtures.qp import minimize_quadratic

cp: Any = pytest.importorskip("cvxpy")  # untyped

Array = NDArray[np.float64]
KINDS = ["gauss", "integers", "duplicates", "rank one", "offset", "no linear term", "exact fit"]
DIAGONALS = ["none", "unit", "tiny", "mixed", "some zero"]
BOUNDS = ["simplex", "capped", "half line", "some fixed", "uneven"]


class Problem:
    """min ½|Fᵀθ|² + ½ Σ D θ² − cᵀθ over l ≤ θ ≤ u, Aθ = b."""

    def __init__(self, c: Array, F: Array, D: Array, lower: Array, upper: Array) -> None:
        self.c, self.F, self.D, self.lower, self.upper = c, F, D, lower, upper
        self.A, self.b = np.ones((1, c.size)), np.ones(1)

    def solve(self, start: Array | None = None) -> Array:
        return minimize_quadratic(
            self.c,
            self.F,
            self.D,
            lower=self.lower,
            upper=self.upper,
            rows=self.A,
            totals=self.b,
            start=start,
        )

    def value(self, theta: Array) -> float:
        return float(((theta @ self.F) ** 2).sum() / 2 + self.D @ theta**2 / 2 - self.c @ theta)

    def gradient(self, theta: Array) -> Array:
        return np.asarray(self.F @ (theta @ self.F) + self.D * theta - self.c)

    def rounding(self, theta: Array, other: Array) -> float:
        """What rounding may do to ⟨∇, θ − other⟩: a share of its summands, and of θ itself."""
        share = 1e-12 * self.size(theta) + 1e-15 * self.size(1)
        return float(share @ (theta + other))

    def size(self, theta: Array | int) -> Array:
        F, one = np.abs(self.F), np.ones(self.c.size)
        return np.asarray(F @ (theta * one @ F) + self.D * theta + np.abs(self.c))

    def reference(self) -> float:
        theta = cp.Variable(self.c.size)
        value = cp.sum_squares(self.F.T @ theta) / 2 - self.c @ theta
        value += cp.sum_squares(cp.multiply(np.sqrt(self.D), theta)) / 2
        finite = np.isfinite(self.upper)
        within = [
            theta >= self.lower,
            theta[finite] <= self.upper[finite],
            self.A @ theta == self.b,
        ]
        tight = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
        return float(cp.Problem(cp.Minimize(value), within).solve(solver=cp.CLARABEL, **tight))


def random_problem(seed: int, kind: str, diagonal: str, bounds: str, n: int, r: int) -> Problem:
    rng = np.random.default_rng(seed)
    F, c = rng.standard_normal((n, r)), rng.standard_normal(n)
    if kind == "integers":  # ties
        F, c = np.round(F), np.round(c)
    elif kind == "duplicates":
        copies = rng.integers(0, n // 3 + 1, n)
        F, c = F[copies], c[copies] * rng.integers(0, 2)
    elif kind == "rank one":
        F = rng.standard_normal((n, 1)) * rng.standard_normal(r)
    elif kind == "offset":
        F = 1 + 1e-3 * F
    elif kind == "no linear term":
        c = np.zeros(n)
    elif kind == "exact fit":  # Fᵀθ = v for many θ: with a tiny D it decides which
        c = 0.1 * F @ rng.standard_normal(r)
    elif kind == "ill scaled":
        F, c = F * 10.0 ** rng.uniform(-3, 3, (n, 1)), c * 10.0 ** rng.uniform(-3, 3, n)
    D = {
        "none": np.zeros(n),
        "unit": np.ones(n),
        "tiny": np.full(n, 10.0 ** rng.uniform(-13, -6)),
        "mixed": 10.0 ** rng.uniform(-6, 3, n),
        "some zero": rng.random(n) * rng.integers(0, 2, n),
    }[diagonal]
    lower, upper = np.zeros(n), np.ones(n)
    if bounds == "capped":
        lower, upper = np.full(n, 0.2 / n), np.full(n, min(1.0, 2.5 / n))
    elif bounds == "half line":
        upper = np.full(n, np.inf)
    elif bounds == "some fixed":
        lower[1:] = rng.integers(0, 2, n - 1) / n
        upper[1:] = np.where(lower[1:] > 0, lower[1:], 1)
    elif bounds == "uneven":
        upper[1:] = rng.random(n - 1) * 3 / n
        lower = upper * rng.random(n) / 4
        lower *= min(1.0, 0.9 / lower.sum())
    return Problem(c, F, D, lower, upper)


def best_vertex(g: Array, lower: Array, upper: Array) -> Array:
    """argmin ⟨g, θ⟩ over the box with Σθ = 1, by filling the cheapest first."""
    theta = lower.copy()
    for i in np.argsort(g):
        theta[i] += min(upper[i] - lower[i], 1 - theta.sum())
    return theta


def assert_solves(problem: Problem, theta: Array) -> None:
    """Feasible, and no point is better to first order: the problem is convex, so none is better."""
    assert np.all(theta >= problem.lower)
    assert np.all(theta <= problem.upper)
    assert abs(theta.sum() - 1) <= 1e-15 * max(4, np.sqrt(theta.size))
    g = problem.gradient(theta)
    other = best_vertex(g, problem.lower, problem.upper)
    assert g @ (theta - other) <= problem.rounding(theta, other)


problems = st.builds(
    random_problem,
    st.integers(0, 2**32 - 1),
    st.sampled_from([*KINDS, "ill scaled"]),
    st.sampled_from(DIAGONALS),
    st.sampled_from(BOUNDS),
    st.sampled_from([1, 2, 3, 5, 10, 40, 120]),
    st.sampled_from([0, 1, 2, 5, 20, 150]),
)


@settings(max_examples=400, deadline=None)
@given(problems)
def test_solution_is_optimal_to_rounding(problem: Problem) -> None:
    assert_solves(problem, problem.solve())


@settings(max_examples=300, deadline=None)
@given(problems, st.integers(0, 2**32 - 1), st.sampled_from([0.03, 1.0]))
def test_any_feasible_start_leads_to_a_solution(
    problem: Problem, seed: int, concentration: float
) -> None:
    rng = np.random.default_rng(seed)
    n = problem.c.size
    start = best_vertex(rng.standard_normal(n), problem.lower, problem.upper)
    inner = best_vertex(rng.standard_normal(n), problem.lower, problem.upper)
    mix = rng.beta(concentration, concentration)
    before = start.copy()
    assert_solves(problem, problem.solve(start=mix * start + (1 - mix) * inner))
    assert_solves(problem, problem.solve(start=start))
    np.testing.assert_array_equal(start, before)


@settings(max_examples=300, deadline=None)
@given(problems)
def test_solution_is_a_fixed_point_as_start(problem: Problem) -> None:
    theta = problem.solve()
    again = problem.solve(start=theta)
    assert_solves(problem, again)
    assert abs(problem.value(again) - problem.value(theta)) <= problem.rounding(theta, again)


@settings(max_examples=100, deadline=None)
@given(problems, st.sampled_from([1e-9, 1e-4, 1e5, 1e9]))
def test_scale_of_the_objective_does_not_matter(problem: Problem, scale: float) -> None:
    problem.c, problem.D = problem.c * scale, problem.D * scale
    problem.F = problem.F * np.sqrt(scale)
    assert_solves(problem, problem.solve())


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_scale_of_the_variable_does_not_matter(scale: float) -> None:
    rng = np.random.default_rng(0)
    F, c = rng.standard_normal((30, 4)), rng.standard_normal(30)
    one = Problem(c, F, np.ones(30), np.zeros(30), np.full(30, 0.2))
    scaled = Problem(c * scale, F, np.ones(30), np.zeros(30), np.full(30, 0.2) * scale)
    scaled.b = scaled.b * scale
    np.testing.assert_allclose(scaled.solve() / scale, one.solve(), rtol=0, atol=1e-14)


def cvxpy_cases() -> list[Problem]:
    rng = np.random.default_rng(1)
    shapes = [(k, d, b) for k in KINDS for d in DIAGONALS if d != "tiny" for b in BOUNDS]
    return [
        random_problem(seed, k, d, b, int(rng.integers(1, 25)), int(rng.integers(1, 15)))
        for seed, (k, d, b) in enumerate(shapes * 3)
    ]


def test_values_agree_with_cvxpy() -> None:
    cases = cvxpy_cases()
    assert len(cases) >= 300
    for problem in cases:
        assert problem.value(problem.solve()) == pytest.approx(problem.reference(), abs=1e-8)


def tv_problem(seed: int, p: int, rho: float, edge: bool, ties: bool) -> tuple[Problem, Array]:
    """A quadratic in λ = center + a − b over the ball ½‖λ − center‖₁ ≤ ρ, in θ = (a, b, slack)."""
    rng = np.random.default_rng(seed)
    center = np.eye(p)[0] if edge else rng.dirichlet(np.ones(p))
    F, c = rng.standard_normal((p, 4)), rng.standard_normal(p)
    if ties:
        F, c, center = np.round(F), np.round(c), np.eye(p)[0] if edge else np.full(p, 1 / p)
    lift = np.hstack([np.eye(p), -np.eye(p), np.zeros((p, 1))])  # (p, 2p + 1)
    upper = np.concatenate([1 - center, center, [np.inf]])
    linear = lift.T @ (c - F @ (center @ F))
    problem = Problem(linear, lift.T @ F, np.zeros(2 * p + 1), np.zeros(2 * p + 1), upper)
    problem.A = np.zeros((2, 2 * p + 1))
    problem.A[0, :p] = problem.A[1, p:-1] = problem.A[:, -1] = 1
    problem.b = np.array([rho, rho])
    return problem, center


def best_transfer(g: Array, center: Array, rho: float) -> float:
    """min ⟨g, λ − center⟩ over the ball: mass ρ goes from the dearest entries to the cheapest."""
    gain, left = 0.0, rho
    for i in np.argsort(-g):
        moved = min(center[i], left)
        gain, left = gain + moved * (g.min() - g[i]), left - moved
    return gain


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 3, 8, 30]),
    st.sampled_from([0.0, 1e-6, 0.1, 0.5, 1.0, 3.0]),
    st.booleans(),
    st.booleans(),
)
def test_two_rows_of_the_total_variation_ball(
    seed: int, p: int, rho: float, edge: bool, ties: bool
) -> None:
    problem, center = tv_problem(seed, p, rho, edge, ties)
    theta = problem.solve()
    assert np.all(theta >= 0)
    assert np.all(theta <= problem.upper)
    np.testing.assert_allclose(problem.A @ theta, problem.b, rtol=0, atol=4e-15)
    g = problem.gradient(theta)[:p]  # of λ
    moved = theta[:p] - theta[p:-1]
    scale = problem.size(theta)[:p].max()
    assert g @ moved - best_transfer(g, center, rho) <= 1e-13 * scale


def test_two_rows_agree_with_cvxpy() -> None:
    for seed in range(60):
        edge, ties = bool(seed % 2), bool(seed % 3 == 0)
        problem, _ = tv_problem(seed, 1 + seed % 12, (seed % 7) / 6, edge, ties)
        assert problem.value(problem.solve()) == pytest.approx(problem.reference(), abs=1e-8)


def test_general_rows_agree_with_cvxpy() -> None:
    rng = np.random.default_rng(2)
    for k in range(60):
        n = int(rng.integers(3, 20))
        problem = random_problem(k, KINDS[k % 6], DIAGONALS[k % 2 * 3], "half line", n, 5)
        problem.A = rng.standard_normal((2, n))
        problem.b = problem.A @ rng.dirichlet(np.ones(n))
        problem.upper = np.full(n, 2.0)
        theta = problem.solve()
        np.testing.assert_allclose(problem.A @ theta, problem.b, rtol=0, atol=1e-14)
        assert problem.value(theta) == pytest.approx(problem.reference(), abs=1e-8)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["gauss", "exact fit"]), st.integers(3, 10))
def test_from_a_vertex_few_entries_leave_their_bounds(seed: int, kind: str, r: int) -> None:
    """r + 1 at most, and the rest is exactly at them: so every system is small."""
    problem = random_problem(seed, kind, "none", "capped", 30, r)
    theta = problem.solve(start=best_vertex(-problem.c, problem.lower, problem.upper))
    free = (theta > problem.lower) & (theta < problem.upper)
    assert np.count_nonzero(free) <= r + 1


def test_a_repeated_row_changes_nothing() -> None:
    problem = random_problem(3, "gauss", "none", "simplex", 12, 4)
    once = problem.value(problem.solve())
    problem.A, problem.b = np.vstack([problem.A, 2 * problem.A]), np.array([1.0, 2.0])
    assert problem.value(problem.solve()) == pytest.approx(once, abs=1e-13)


def test_curvatures_of_a_barrier() -> None:
    """D = 1/λ² as in a Newton step on −Σ log λ, from 1 to 1e24."""
    rng = np.random.default_rng(6)
    for n in [10] * 20 + [1000]:
        lam = np.maximum(rng.dirichlet(np.full(n, 0.1)), 1e-12)
        c = rng.standard_normal(n) + 2 / lam
        F = rng.standard_normal((n, 10))
        problem = Problem(c, F, 1 / lam**2, np.zeros(n), np.ones(n))
        assert_solves(problem, problem.solve(start=lam / lam.sum()))


@pytest.mark.parametrize("diagonal", [1e-16, 1e-14, 1e-12])
def test_a_diagonal_near_rounding_keeps_many_entries_free(diagonal: float) -> None:
    """Woodbury's formula would lose all digits here."""
    for seed in range(10):
        problem = random_problem(seed, "exact fit", "none", "capped", 200, 5)
        problem.D = np.full(200, diagonal)
        assert_solves(problem, problem.solve())


@pytest.mark.parametrize("n", [1000, 3000])
def test_many_free_entries_match_water_filling(n: int) -> None:
    """Without F the solution is θ = clip((c − ν) / D, 0, u) with ν from Σθ = 1."""
    rng = np.random.default_rng(n)
    c, D, upper = rng.standard_normal(n) / n, rng.uniform(0.5, 2, n), np.full(n, 1.7 / n)
    low, high = -10.0, 10.0
    for _ in range(200):
        nu = (low + high) / 2
        low, high = (nu, high) if np.clip((c - nu) / D, 0, upper).sum() > 1 else (low, nu)
    theta = Problem(c, np.zeros((n, 0)), D, np.zeros(n), upper).solve()
    np.testing.assert_allclose(theta, np.clip((c - nu) / D, 0, upper), rtol=0, atol=1e-15)


@pytest.mark.parametrize("diagonal", [0.0, 1e-12, 1e-6, 1.0, 100.0])
@pytest.mark.parametrize("cap", [1.0, 0.003])
def test_a_thousand_entries(diagonal: float, cap: float) -> None:
    rng = np.random.default_rng(4)
    F, c = rng.standard_normal((1000, 20)), rng.standard_normal(1000)
    problem = Problem(c, F, np.full(1000, diagonal), np.zeros(1000), np.full(1000, cap))
    theta = problem.solve()
    assert_solves(problem, theta)
    problem.c, problem.F = c + 0.1 * rng.standard_normal(1000), F * 1.1
    assert_solves(problem, problem.solve(start=theta))


def test_a_factor_of_many_columns_costs_what_its_rows_cost() -> None:
    F = np.random.default_rng(5).standard_normal((4, 10**6))
    problem = Problem(np.zeros(4), F, np.zeros(4), np.zeros(4), np.ones(4))
    assert_solves(problem, problem.solve())


def test_the_smallest_problems() -> None:
    zero, one = np.zeros(1), np.ones(1)
    assert Problem(5 * one, np.zeros((1, 0)), zero, zero, one).solve() == [1.0]
    assert Problem(5 * one, np.ones((1, 1)), one, zero, one).solve() == [1.0]
    half = np.full(2, 0.5)
    fixed = Problem(np.array([1.0, 2.0]), np.zeros((2, 0)), np.zeros(2), half, half).solve()
    np.testing.assert_array_equal(fixed, half)


def test_a_gain_above_rounding_is_taken() -> None:
    """One of two entries is better by 1e-13 of its size: far above rounding, so it is worth it."""
    c, none = np.array([1 + 1e-13, 1.0]), np.zeros((2, 0))
    problem = Problem(c, none, np.zeros(2), np.zeros(2), np.ones(2))
    np.testing.assert_array_equal(problem.solve(np.array([0.0, 1.0])), [1, 0])


def test_a_bound_that_costs_nothing_is_met_exactly() -> None:
    """The nearest point of a segment is its end, at a right angle: a multiplier of zero."""
    points, target = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]), np.array([-1, 2, -1]) / 3
    problem = Problem(points @ target, points, np.zeros(2), np.zeros(2), np.ones(2))
    for start in (None, np.array([0.3, 0.7]), np.array([1.0, 0.0])):
        np.testing.assert_array_equal(problem.solve(start), [0, 1])


def test_linear_program_with_ties_ends() -> None:
    theta = Problem(np.ones(50), np.zeros((50, 0)), np.zeros(50), np.zeros(50), np.ones(50)).solve()
    assert theta.sum() == pytest.approx(1, abs=1e-15)


def arguments() -> dict[str, object]:
    return {
        "c": [1.0, 2.0],
        "factor": [[1.0], [0.0]],
        "diagonal": [1.0, 1.0],
        "lower": [0.0, 0.0],
        "upper": [1.0, 1.0],
        "rows": [[1.0, 1.0]],
        "totals": [1.0],
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("c", [1.0, np.nan]),
        ("factor", [[np.inf], [0.0]]),
        ("factor", [[1.0]]),
        ("diagonal", [1.0, -1.0]),
        ("diagonal", [1.0]),
        ("rows", [[1.0, np.nan]]),
        ("totals", [np.inf]),
        ("lower", [2.0, 0.0]),
        ("upper", [np.nan, 1.0]),
        ("start", [1.0, np.nan]),
        ("totals", [3.0]),  # no θ has this sum
    ],
)
def test_bad_arguments_are_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        minimize_quadratic(**{**arguments(), name: value})  # type: ignore[arg-type]


def test_an_infeasible_start_is_replaced() -> None:
    for start in ([0.9, 0.9], [0.0, 0.0], [1.0, 1.0], [-3.0, 5.0]):
        given_start = {**arguments(), "start": start}
        np.testing.assert_allclose(minimize_quadratic(**given_start), [0, 1], atol=1e-15)  # type: ignore[arg-type]


def test_no_minimum_is_an_error() -> None:
    with pytest.raises(ValueError, match="no minimum"):
        minimize_quadratic(
            [1.0, 1.0], lower=[0, 0], upper=[np.inf, np.inf], rows=[[1.0, -1.0]], totals=[0.0]
        )
