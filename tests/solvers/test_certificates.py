from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from conic import Case, minimax, random_case
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import anymix as ax
from anymix.mixtures import Chi2Ball, DirichletPrior, MixtureSet, Point, Simplex, cvar
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Hinge, Huber, Loss, SquaredError
from anymix.solvers.certificates import (
    Certificate,
    certify,
    damped_cholesky,
    newton_step,
)
from anymix.solvers.exact import solve

Array = NDArray[np.float64]

LOSSES: dict[str, Loss] = {
    "binary": CrossEntropy(),
    "three": CrossEntropy(),
    "squared": SquaredError(),
    "huber": Huber(0.5),
    "hinge": Hinge(),
}
EVERY_LOSS = pytest.mark.parametrize("name", LOSSES)
SMOOTH = pytest.mark.parametrize("name", [k for k, loss in LOSSES.items() if loss.is_smooth])


def table(name: str, n: int = 60, d: int = 3, seed: int = 5) -> tuple[Array, Any, Any]:
    """X, y, domains (three) that no linear model separates."""
    rng = np.random.default_rng(seed)
    X, domains = rng.normal(size=(n, d)), np.arange(n) % 3
    y: Any = X[:, 0] * (1 + 0.5 * domains) + rng.logistic(size=n)
    if name in ("binary", "hinge"):
        y = (y > 0).astype(int)
    elif name == "three":
        y = np.digitize(y, [-1.0, 1.0])
    return X, y, domains


@cache
def problem_of(name: str) -> LinearDomains:
    X, y, domains = table(name)
    return LinearDomains(X, y, domains, LOSSES[name])


@cache
def value_of(
    name: str, gamma: float, norm: str = "squared", w_radius: float | None = None
) -> float:
    X, y, domains = table(name)
    S = np.eye(3)[domains]
    return minimax(X, y, S, Simplex(3), LOSSES[name], gamma=gamma, norm=norm, w_radius=w_radius)


def assert_brackets(certificate: Certificate, value: float, rel: float = 1e-7) -> None:
    slack = rel * max(1.0, abs(value))
    assert certificate.lower <= value + slack
    assert certificate.upper >= value - slack
    assert certificate.lower <= certificate.upper + 1e-12 * max(1.0, abs(certificate.upper))


# -- the bracket -----------------------------------------------------------------------------------


def check_bracket(case: Case, seed: int) -> None:
    rng, problem, value = np.random.default_rng(seed), case.problem, case.reference()
    solution = solve(case.problem, case.mixtures, tol=1e-8, **case.objective)
    assert_brackets(solution.certificate, value)
    near = certify(problem, case.mixtures, solution.w, solution.mixture, **case.objective)
    assert_brackets(near, value)
    assert near.upper == pytest.approx(solution.objective, rel=1e-9, abs=1e-12)
    for size in (0.1, 1.0, 10.0):
        w = size * rng.normal(size=problem.n_parameters)
        far = case.mixtures.project(rng.dirichlet(np.ones(problem.n_domains)))
        for mixture in (far, solution.mixture):
            assert_brackets(certify(problem, case.mixtures, w, mixture, **case.objective), value)


@pytest.mark.parametrize("seed", range(0, 144, 2))
def test_certificates_bracket_the_value_of_cvxpy(seed: int) -> None:
    check_bracket(random_case(seed), seed)


def test_a_class_without_curvature_leaves_no_proof_and_no_warning() -> None:
    check_bracket(random_case(1162), 1162)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 2000))
def test_certificates_bracket_the_value_of_cvxpy_on_many(seed: int) -> None:
    check_bracket(random_case(seed), seed)


@pytest.mark.parametrize("norm", ["squared", "plain"])
@pytest.mark.parametrize("gamma", [0.0, 1e-6, 1e-2, 1.0])
@EVERY_LOSS
def test_bracket_for_every_loss(name: str, gamma: float, norm: str) -> None:
    problem, value = problem_of(name), value_of(name, gamma, norm)
    rng = np.random.default_rng(1)
    for size in (0.0, 1e-3, 0.3, 10.0, 1e4):
        w = size * rng.normal(size=problem.n_parameters)
        for mixture in ([1 / 3] * 3, [1.0, 0.0, 0.0], rng.dirichlet([1.0] * 3)):
            assert_brackets(certify(problem, None, w, mixture, gamma=gamma, norm=norm), value)


@given(
    name=st.sampled_from(sorted(LOSSES)),
    norm=st.sampled_from(["squared", "plain"]),
    gamma=st.sampled_from([0.0, 1e-6, 1e-2, 1.0]),
    mu=st.sampled_from([0.0, 0.1]),
    size=st.sampled_from([1e-3, 1.0, 30.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_model_is_below_the_lower_value(
    name: str, norm: str, gamma: float, mu: float, size: float, seed: int
) -> None:
    """lower(w, λ) ≤ Φ(w', λ) for all w, w', λ: here w' is far, near, and downhill from w."""
    rng, problem = np.random.default_rng(seed), problem_of(name)
    w = size * rng.normal(size=problem.n_parameters)
    mixture = rng.dirichlet([0.5] * 3)
    lower = certify(problem, None, w, mixture, gamma=gamma, mu=mu, norm=norm).lower
    objective = ax.Objective(gamma=gamma, mu=mu, norm=norm).on(problem)
    downhill = w - rng.exponential() * problem.gradient(w, mixture)
    for other in (w, downhill, 0 * w, rng.normal(size=w.size), 100 * rng.normal(size=w.size)):
        phi = objective.mixture_value(problem.losses(other), mixture)
        phi += objective.regularizer(other)
        assert lower <= phi + 1e-9 * max(1.0, abs(phi))


@pytest.mark.parametrize("unit", [1e-8, 1e-4, 1.0, 1e4])
@SMOOTH
def test_free_models_of_any_unit(name: str, unit: float) -> None:
    """With γ = 0 the best w is 1/unit times as large: a region around w says nothing about it."""
    X, y, domains = table(name)
    problem, value = LinearDomains(unit * X, y, domains, LOSSES[name]), value_of(name, 0.0)
    rng = np.random.default_rng(3)
    for size in (0.0, 1.0, 1 / unit):
        w = size * rng.normal(size=problem.n_parameters)
        assert_brackets(certify(problem, None, w, [0.2, 0.3, 0.5], gamma=0.0), value)
    best = solve(problem, gamma=0.0, tol=1e-9)
    close = certify(problem, None, best.w, best.mixture, gamma=0.0)
    assert_brackets(close, value)
    assert close.gap <= 1e-6


def test_a_rare_column_may_still_go_to_infinity() -> None:
    """The infimum is 0, yet at w the gradient is small: one row in a thousand sees column 1."""
    X, y, weight = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], [1, 0, 1], [499.5, 499.5, 1.0]
    problem = LinearDomains(X, y, [0, 0, 0], intercept=False, sample_weight=weight)
    objective = ax.Objective(gamma=0.0).on(problem)
    here = problem.at([20.0, 0.0])
    assert here.losses[0] == pytest.approx(1e-3 * np.log(2), rel=1e-4)
    assert objective.lower(here, np.ones(1)) == 0.0


@pytest.mark.parametrize("shift", [1e3, 1e6])
def test_an_intercept_far_from_zero(shift: float) -> None:
    """Targets around 1e6: the intercept is free, and far from where the certificate is asked."""
    X, y, domains = table("squared")
    problem, value = LinearDomains(X, y + shift, domains, SquaredError()), value_of("squared", 1e-2)
    for w in (np.zeros(4), np.array([1.0, 1.0, 1.0, shift]), np.array([0.0, 0.0, 0.0, -shift])):
        certificate = certify(problem, None, w, [0.2, 0.3, 0.5], gamma=1e-2)
        assert certificate.lower <= value * (1 + 1e-6)
        assert certificate.upper >= value
    best = solve(problem, gamma=1e-2, tol=1e-8)
    assert certify(problem, None, best.w, best.mixture, gamma=1e-2).gap <= 1e-6


@pytest.mark.parametrize("norm", ["squared", "plain"])
@pytest.mark.parametrize("gamma", [0.0, 1e-2])
@EVERY_LOSS
def test_models_within_a_radius(name: str, gamma: float, norm: str) -> None:
    problem, rng = problem_of(name), np.random.default_rng(2)
    for radius in (0.1, 1.0, 100.0):
        value = value_of(name, gamma, norm, radius)
        for share in (0.0, 0.5, 1.0):
            w = rng.normal(size=problem.n_parameters)
            w *= share * radius / np.linalg.norm(w)
            for mixture in ([1.0, 0.0, 0.0], rng.dirichlet([1.0] * 3)):
                certificate = certify(
                    problem, None, w, mixture, gamma=gamma, norm=norm, w_radius=radius
                )
                assert_brackets(certificate, value)
                anywhere = certify(problem, None, w, mixture, gamma=gamma, norm=norm)
                assert certificate.lower >= anywhere.lower  # less is asked for


def test_a_radius_by_hand() -> None:
    """½(w − 2)² over |w| ≤ 1 is ½ at w = 1, where α = −1: −(½ − 2) − 1·|α|."""
    problem = LinearDomains([[1.0]], [2.0], [0], SquaredError(), intercept=False)
    objective = ax.Objective(gamma=0.0, w_radius=1.0).on(problem)
    assert objective.lower(problem.at([1.0]), np.ones(1)) == pytest.approx(0.5)
    assert certify(problem, None, [1.0], [1.0], gamma=0.0, w_radius=1.0).gap == pytest.approx(0.0)


@pytest.mark.parametrize("gamma", [0.0, 1e-2])
@SMOOTH
def test_the_gap_closes_where_the_ball_binds(name: str, gamma: float) -> None:
    """The intercept counts for ‖w‖ but not for R, so no support function of R is tight here."""
    problem, mixture, radius = problem_of(name), np.array([0.2, 0.3, 0.5]), 0.3
    w, penalized = np.zeros(problem.n_parameters), problem.penalized
    for _ in range(4000):  # projected gradient steps
        w = w - 0.2 * (problem.gradient(w, mixture) + gamma * penalized * w)
        w *= min(1.0, radius / float(np.linalg.norm(w)))
    assert np.linalg.norm(w) == pytest.approx(radius)  # or the case shows nothing
    assert certify(problem, Point(mixture), w, mixture, gamma=gamma, w_radius=radius).gap < 1e-9


def test_a_radius_makes_the_free_lower_value_tell_something() -> None:
    """Far from the optimum, γ = 0 proves nothing, but a ball of models does."""
    problem, w = problem_of("hinge"), np.zeros(4)
    mixture = np.array([0.2, 0.3, 0.5])
    assert certify(problem, None, w, mixture, gamma=0.0).lower == 0.0
    lower = certify(problem, None, w, mixture, gamma=0.0, w_radius=0.1).lower
    assert 0.5 < lower <= value_of("hinge", 0.0, w_radius=0.1)


# -- how tight -------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["squared", "plain"])
@pytest.mark.parametrize("gamma", [1e-6, 1e-2, 1.0])
@SMOOTH
def test_tight_at_the_solution_and_quadratically_near_it(
    name: str, gamma: float, norm: str
) -> None:
    problem = problem_of(name)
    s = solve(problem, gamma=gamma, norm=norm, tol=1e-10)
    assert certify(problem, None, s.w, s.mixture, gamma=gamma, norm=norm).gap <= 1e-8
    direction = np.random.default_rng(0).normal(size=s.w.size)
    near = certify(problem, None, s.w + 1e-5 * direction, s.mixture, gamma=gamma, norm=norm)
    assert s.objective - near.lower <= 1e-6  # the Newton step for λ makes up for w


def test_tight_for_the_hinge_where_its_dual_is_known() -> None:
    """γ so large that w = 0 and α = −s is dual optimal: (½/γ)‖Σ c α x‖² below Σ c = 1."""
    X, y, domains = table("hinge")
    problem = LinearDomains(X, y, domains, Hinge(), intercept=False)
    gamma, c = 100.0, (domains == 0) / np.sum(domains == 0)
    v = (c * (1.0 - 2.0 * y)) @ X
    certificate = certify(problem, Point([1, 0, 0]), np.zeros(3), [1, 0, 0], gamma=gamma)
    assert certificate.upper == pytest.approx(1.0)
    assert certificate.lower == pytest.approx(1 - v @ v / (2 * gamma), rel=1e-12)


def test_lower_value_by_hand() -> None:
    """½(w − 2)² + ½γw² at one row x = 1, w = 0: α = −2, the bound is −(½α² + 2α) − α²/(2γ)."""
    problem = LinearDomains([[1.0]], [2.0], [0], SquaredError(), intercept=False)
    objective = ax.Objective(gamma=4.0).on(problem)
    lower = objective.lower(problem.at([0.0]), np.ones(1))
    assert lower == pytest.approx(-(0.5 * 4 - 4) - 4 / 8)
    exactly = certify(problem, None, [0.0], [1.0], gamma=4.0)  # by a Newton step, exact for squares
    assert exactly.lower == pytest.approx(0.5 * 4 * 4.0 / (1 + 4.0))
    assert exactly.upper == pytest.approx(2.0)


def test_the_plain_norm_shrinks_its_dual_onto_the_ball() -> None:
    """½(w − 2)² + γ|w| = 2 for γ ≥ 2, and 2γ − ½γ² below: the Huber function of 2."""
    problem = LinearDomains([[1.0]], [2.0], [0], SquaredError(), intercept=False)
    for gamma, value in ((3.0, 2.0), (0.5, 0.875)):
        certificate = certify(problem, None, [0.0], [1.0], gamma=gamma, norm="plain")
        assert certificate.upper == pytest.approx(2.0)
        assert certificate.lower == pytest.approx(value, rel=1e-9)
        assert certificate.lower <= value * (1 + 1e-14)


@pytest.mark.parametrize(
    "mixtures", [Simplex(3), cvar([0.2, 0.3, 0.5], 0.6), Chi2Ball([2, 3, 5], 1.3)]
)
def test_the_upper_value_is_an_exact_maximum(mixtures: MixtureSet) -> None:
    """Against many members of Λ: none is above, and the best of them comes close."""
    problem, rng = problem_of("binary"), np.random.default_rng(4)
    w = rng.normal(size=problem.n_parameters)
    for penalty in ({"mu": 0.3}, {"offsets": [0.5, 0.0, 1.0]}, {}):
        upper = certify(problem, mixtures, w, mixtures.center, gamma=1e-2, **penalty).upper
        b = np.array(penalty.get("offsets", [0.0] * 3))
        members = np.array([mixtures.project(v) for v in 3 * rng.normal(size=(300, 3))])
        chi2 = np.sum((members * 3 - 1) ** 2 / 3, axis=1)  # three domains of one size
        values = members @ (problem.losses(w) - b) - penalty.get("mu", 0.0) * chi2
        best = values.max() + 0.5 * 1e-2 * np.sum(w[:-1] ** 2)
        assert best <= upper + 1e-12
        assert best == pytest.approx(upper, abs=0.05)


def test_a_prior_counts_with_its_normaliser() -> None:
    prior, w = DirichletPrior([2.0, 3.0, 1.5]), np.zeros(4)
    mixture = np.array([0.3, 0.5, 0.2])
    log_density = math.lgamma(6.5) - math.lgamma(2) - math.lgamma(3) - math.lgamma(1.5)
    log_density += math.log(0.3) + 2 * math.log(0.5) + 0.5 * math.log(0.2)
    one = certify(problem_of("binary"), Point(mixture), w, mixture, gamma=1e-2, prior=prior)
    none = certify(problem_of("binary"), Point(mixture), w, mixture, gamma=1e-2)
    assert one.upper - none.upper == pytest.approx(log_density)
    assert one.lower - none.lower == pytest.approx(log_density)


def test_a_prior_counts_with_its_normaliser_whatever_the_unit_of_the_targets() -> None:
    """Large targets are solved in a unit of their own; what λ pays must not change by that."""
    prior, mixture = DirichletPrior([2.0, 3.0, 1.5]), np.array([0.3, 0.5, 0.2])
    X, y, domains = table("squared")
    problem, w = LinearDomains(X, 1e3 * y, domains, SquaredError()), np.zeros(4)
    one = certify(problem, Point(mixture), w, mixture, gamma=1e-2, prior=prior)
    none = certify(problem, Point(mixture), w, mixture, gamma=1e-2)
    assert one.upper - none.upper == pytest.approx(-prior.value(mixture))
    assert one.lower - none.lower == pytest.approx(-prior.value(mixture))
    solution = solve(problem, Simplex(3), gamma=1e-2, prior=prior)
    worst = prior.best_response(Simplex(3), solution.domain_losses)
    shrinkage = 0.5 * 1e-2 * float(np.sum(solution.w[:-1] ** 2))
    value = float(worst @ solution.domain_losses) - prior.value(worst) + shrinkage
    assert solution.objective == pytest.approx(value, rel=1e-9)


# -- the parts -------------------------------------------------------------------------------------


@SMOOTH
def test_the_regularizer_and_its_derivatives(name: str) -> None:
    problem, h = problem_of(name), 1e-5
    w = np.random.default_rng(0).normal(size=problem.n_parameters)
    for norm in ("squared", "plain"):
        objective = ax.Objective(gamma=0.7, norm=norm).on(problem)
        gradient, hessian = objective.regularizer_gradient(w), np.zeros((w.size, w.size))
        objective.add_regularizer_hessian(w, hessian)
        for j, e in enumerate(h * np.eye(w.size)):
            slope = (objective.regularizer(w + e) - objective.regularizer(w - e)) / (2 * h)
            assert gradient[j] == pytest.approx(slope, abs=1e-8)
            change = objective.regularizer_gradient(w + e) - objective.regularizer_gradient(w - e)
            np.testing.assert_allclose(hessian[j], change / (2 * h), atol=1e-8)
        assert np.all(gradient[~problem.penalized] == 0)


@pytest.mark.parametrize("norm", ["squared", "plain"])
@SMOOTH
def test_the_newton_step_solves_its_system(name: str, norm: str) -> None:
    problem, mixture = problem_of(name), np.array([0.2, 0.3, 0.5])
    objective = ax.Objective(gamma=1e-3, norm=norm).on(problem)
    here = problem.at(0.3 * np.random.default_rng(0).normal(size=problem.n_parameters))
    step, hessian = newton_step(objective, here, mixture), here.hessian(mixture)
    objective.add_regularizer_hessian(here.w, hessian)
    gradient = here.gradient(mixture) + objective.regularizer_gradient(here.w)
    np.testing.assert_allclose(hessian @ step, -gradient, atol=1e-14)


def test_the_newton_step_of_a_singular_system_has_a_residual_of_rounding() -> None:
    """Column 3 repeats column 0: damping makes the step finite, refinement makes it exact."""
    X, y, domains = table("binary")
    problem = LinearDomains(np.column_stack([X, X[:, 0]]), y, domains)
    objective = ax.Objective(gamma=0.0).on(problem)
    here, mixture = problem.at(np.full(5, 0.1)), np.array([0.2, 0.3, 0.5])
    residual = here.gradient(mixture) + here.hessian(mixture) @ newton_step(
        objective, here, mixture
    )
    assert np.max(np.abs(residual)) <= 1e-15


def test_damping_changes_only_what_has_to_be_changed() -> None:
    regular = np.diag([1e-16, 1.0, 1e16])  # badly scaled, but regular
    factor, _ = damped_cholesky(regular)
    np.testing.assert_allclose(np.tril(factor) @ np.tril(factor).T, regular, rtol=1e-14)
    singular = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    before = singular.copy()
    factor, _ = damped_cholesky(singular)
    near = np.tril(factor) @ np.tril(factor).T
    np.testing.assert_allclose(near[:2, :2], singular[:2, :2], atol=1e-6)
    assert near[2, 2] > 0
    np.testing.assert_array_equal(singular, before)
    rounding = np.array([[1e-20, 1e-17], [1e-17, 1e-20]])  # no damping makes this definite
    np.testing.assert_allclose(damped_cholesky(rounding)[0], np.diag([1e-10, 1e-10]))


def test_features_whose_squares_overflow() -> None:
    X, y, domains = table("binary")
    for columns in (3, 700):
        problem = LinearDomains(np.pad(1e200 * X, ((0, 0), (0, columns - 3))), y, domains)
        with np.errstate(over="ignore"), pytest.raises(ValueError, match="rescale the features"):
            solve(problem, gamma=1e-3)


# -- what goes wrong, and what is shown ------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mixture": [0.5, 0.5]}, "mixture .*not in Simplex"),
        ({"mixture": [0.5, 0.6, 0.5]}, "mixture .*not in Simplex"),
        ({"mixture": [1.5, -0.5, 0.0]}, "mixture .*not in Simplex"),
        ({"mixture": [0.5, 0.5, np.nan]}, "mixture"),
        ({"mixtures": cvar([1 / 3] * 3, 0.9), "mixture": [1.0, 0.0, 0.0]}, "not in Box"),
        ({"mixtures": Simplex(2)}, "mixtures .*2 .*3"),
        ({"w": [0.0, 0.0]}, r"w has shape \(2,\)"),
        ({"w": [np.inf] * 4}, "w has 4 missing or infinite"),
        ({"gamma": -1.0}, "gamma is -1.0"),
        ({"w": [3.0, 4.0, 0.0, 0.0], "w_radius": 4.0}, "w .*length .*5.0 .*w_radius .*4.0"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], words: str) -> None:
    call: dict[str, Any] = {
        "mixtures": Simplex(3),
        "w": np.zeros(4),
        "mixture": [0.2, 0.3, 0.5],
    } | arguments
    with pytest.raises(ValueError, match=words):
        certify(problem_of("binary"), **call)


def test_a_member_up_to_rounding_is_a_member() -> None:
    """The certificate is that of the member itself, not of a λ that is a little too large."""
    problem, lam = problem_of("binary"), np.array([0.2, 0.3, 0.5])
    exactly = certify(problem, None, np.zeros(4), lam, gamma=1e-2)
    for near in (lam * (1 + 3e-9), lam + np.array([5e-9, 0.0, 0.0])):
        assert certify(problem, None, np.zeros(4), near, gamma=1e-2).lower == pytest.approx(
            exactly.lower, abs=1e-8
        )
        assert certify(problem, Point(lam), np.zeros(4), near, gamma=1e-2) == certify(
            problem, Point(lam), np.zeros(4), lam, gamma=1e-2
        )
    edge = certify(problem, None, np.zeros(4), [1 + 5e-9, -5e-9, 0.0], gamma=1e-2)
    assert math.isfinite(edge.lower)


def test_certificates_print_as_one_line() -> None:
    text = str(Certificate(upper=0.693148, lower=0.693147))
    assert text == "agnostic objective 0.693148, no model below 0.693147 (gap 1.0e-06)"
    assert str(Certificate(1.0, -math.inf)).endswith("(gap inf)")


def test_a_lower_value_above_the_upper_is_an_error() -> None:
    for lower in (1.0 + 1e-15, 2.0, np.nan):
        with pytest.raises(ValueError, match=r"one .*is wrong"):
            Certificate(1.0, lower)
    assert Certificate(1.0, 0.25).gap == 0.75
    assert Certificate(1.0, 0.25) == Certificate(1.0, 0.25)
