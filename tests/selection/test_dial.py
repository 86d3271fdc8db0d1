"""f_λ against Bayes' rule, π against its definition, λ̂ against CVXPY and its gap."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import anymix as ax
from anymix.selection.dial import combine, estimate_mixture, smoothed_worst
from anymix.selection.held_out import chances

Array = NDArray[np.float64]


# -- f_λ -----------------------------------------------------------------------------------------


def test_by_hand() -> None:
    """m̄ = (¾, ¼), one row with Q = (0.6, 0.4), h = (1, 2)."""
    Q, h, m = np.array([[0.6, 0.4]]), [np.array([1.0]), np.array([2.0])], np.array([0.75, 0.25])
    assert combine(Q, h, m / m)[0] == pytest.approx(0.6 * 1 + 0.4 * 2)
    assert combine(Q, h, [1, 0] / m)[0] == 1
    assert combine(Q, h, [0, 1] / m)[0] == 2
    half = (0.6 / 0.75 * 1 + 0.4 / 0.25 * 2) / (0.6 / 0.75 + 0.4 / 0.25)
    assert combine(Q, h, [0.5, 0.5] / m)[0] == pytest.approx(half)


def test_probabilities_are_combined_class_by_class() -> None:
    rng = np.random.default_rng(0)
    Q, H = rng.dirichlet(np.ones(3), size=5), rng.dirichlet(np.ones(4), size=(3, 5))
    ratio = rng.random(3)
    found = combine(Q, (h for h in H), ratio)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    for c in range(4):
        np.testing.assert_allclose(found[:, c], combine(Q, list(H[:, :, c]), ratio))


def test_every_expert_is_asked_for() -> None:
    with pytest.raises(ValueError, match="zip"):
        combine(np.full((2, 2), 0.5), [np.zeros(2)], np.ones(2))


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.booleans())
def test_it_is_the_bayes_predictor_of_every_mixture(seed: int, squared: bool) -> None:
    """A world of few x and y: P_k(x, y) are tables, and so are Q and h_k."""
    rng = np.random.default_rng(seed)
    p, cells, values = rng.integers(2, 5), rng.integers(1, 6), rng.integers(2, 5)
    P = rng.dirichlet(np.full(cells * values, 0.5), size=p).reshape(p, cells, values) + 1e-6
    P /= P.sum(axis=(1, 2), keepdims=True)
    m, lam = rng.dirichlet(np.ones(p)), rng.dirichlet(np.full(p, 0.5))
    y = rng.normal(size=values)
    joint = m[:, None] * P.sum(axis=2)  # (p, cells)
    Q = (joint / joint.sum(axis=0)).T
    h = P / P.sum(axis=2, keepdims=True)  # P_k(y | x)
    D = np.einsum("k,kxy->xy", lam, P)  # D_λ
    bayes = D / D.sum(axis=1, keepdims=True)
    if squared:
        np.testing.assert_allclose(combine(Q, list(h @ y), lam / m), bayes @ y, atol=1e-9)
        return
    found = combine(Q, list(h), lam / m)
    np.testing.assert_allclose(found, bayes, rtol=1e-9)
    other = 0.9 * found + 0.1 * rng.dirichlet(np.ones(values), size=cells)
    assert -np.sum(D * np.log(found)) <= -np.sum(D * np.log(other)) + 1e-12


# -- π -------------------------------------------------------------------------------------------


def game(lam: Array) -> Array:
    """The losses of three domains, each of which falls as its share grows."""
    return np.array([1.0, 1.2, 0.6]) - np.array([0.5, 1.0, 0.2]) * lam


def test_pi_is_the_average_of_its_definition() -> None:
    m, spread = np.array([0.7, 0.2, 0.1]), np.array([0.05, 0.1, 0.15])
    t = np.array([1 / 4, 1.0])
    found, change = smoothed_worst(game, lambda D: chances(ax.Simplex(3), D, spread), m, t)
    last = []
    for place, pi in zip(t, found, strict=True):
        values, here = [], m
        for _ in range(50):
            values.append(chances(ax.Simplex(3), game((1 - place) * m + place * here), spread))
            before, here = here, np.mean(values, axis=0)
        np.testing.assert_allclose(pi, here, atol=1e-12)
        last.append(np.abs(here - before).max())
    assert change == pytest.approx(max(last))


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_pi_is_about_a_fixed_point(seed: int) -> None:
    """P(π) = π up to what 50 steps leave, for losses that fall as the share grows."""
    rng = np.random.default_rng(seed)
    base, slope, s = rng.random(3), rng.random(3), rng.uniform(0.05, 0.3, size=3)
    m = rng.dirichlet(np.full(3, 5.0))

    def chance(pi: Array) -> Array:
        return chances(ax.Simplex(3), base - slope * (0.5 * m + 0.5 * pi), s)

    (pi,), _ = smoothed_worst(
        lambda lam: base - slope * lam, lambda D: chances(ax.Simplex(3), D, s), m, np.array([0.5])
    )
    assert pi.sum() == pytest.approx(1)
    assert np.abs(chance(pi) - pi).max() < 0.15
    assert np.abs(chance(pi) - pi).max() <= np.abs(chance(m) - m).max() + 0.02


def test_at_zero_it_is_the_chance_of_being_worst_now() -> None:
    m, s = np.array([0.5, 0.3, 0.2]), np.full(3, 0.2)
    found, _ = smoothed_worst(game, lambda D: chances(ax.Simplex(3), D, s), m, np.array([0.0]))
    np.testing.assert_allclose(found[0], chances(ax.Simplex(3), game(m), s))


# -- λ̂ -------------------------------------------------------------------------------------------


def objective(Q: Array, m: Array, lam: Array) -> float:
    """The formula, with 0·log 0 = 0 where Λ leaves a domain out."""
    n, inside = len(Q), lam > 0
    fit = float(np.mean(np.log(Q @ (lam / m))))
    return fit + 10 / n * float(m[inside] @ np.log(lam[inside]))


def sets(p: int, rng: Any) -> dict[str, tuple[Any, Any]]:
    """Λ, and the same as constraints of CVXPY."""
    m = rng.dirichlet(np.full(p, 5.0))
    points = rng.dirichlet(np.ones(p), size=4)
    upper = np.clip(2.5 * m, 1.2 / p, 1.0)
    lower = 0.3 * m

    def hull(lam: Any) -> list[Any]:
        a = cp.Variable(4, nonneg=True)
        return [cp.sum(a) == 1, points.T @ a == lam]

    return {
        "simplex": (ax.Simplex(p), lambda lam: []),
        "box": (ax.Box(lower, upper), lambda lam: [lam >= lower, lam <= upper]),
        "cvar": (ax.cvar(m, 0.5), lambda lam: [lam <= 2 * m]),
        "hull": (ax.Hull(points), hull),
        "tv": (ax.TVBall(m, 0.2), lambda lam: [cp.norm1(lam - m) <= 0.4]),
        "chi2": (
            ax.Chi2Ball(100 * m, 1.3),
            lambda lam: [cp.sum(cp.multiply(1 / m, cp.square(lam))) <= 1.3],
        ),
        "point": (ax.Point(points[0]), lambda lam: [lam == points[0]]),
    }


KINDS = ("simplex", "box", "cvar", "hull", "tv", "chi2", "point")


def unlabelled(seed: int) -> tuple[Array, Array, Any]:
    rng = np.random.default_rng(seed)
    p, n = int(rng.integers(2, 6)), int(rng.integers(3, 80))
    scale = rng.choice([0.2, 1.0, 5.0])
    return rng.dirichlet(np.full(p, scale), size=n) + 1e-9, rng.dirichlet(np.full(p, 5.0)), rng


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5)
@given(st.integers(0, 10**6))
def test_it_is_as_likely_as_the_mixture_of_cvxpy(kind: str, seed: int) -> None:
    Q, m, rng = unlabelled(seed)
    target, constraints = sets(len(m), rng)[kind]
    found = estimate_mixture(Q, m, target)
    lam = cp.Variable(len(m), nonneg=True)
    value = cp.sum(cp.log(Q @ cp.multiply(1 / m, lam))) / len(Q)
    value += 10 / len(Q) * (m @ cp.log(lam))
    best = cp.Problem(cp.Maximize(value), [cp.sum(lam) == 1, *constraints(lam)])
    best.solve(solver=cp.CLARABEL)
    assert target.contains(found.mixture, 1e-7)
    assert objective(Q, m, found.mixture) == pytest.approx(best.value, abs=3e-6)
    assert found.gap <= 1e-6


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_the_gap_is_that_of_its_gradient(kind: str, seed: int) -> None:
    Q, m, rng = unlabelled(seed)
    target, _ = sets(len(m), rng)[kind]
    found = estimate_mixture(Q, m, target, tol=0.05)
    lam, n = found.mixture, len(Q)
    inverse = np.where(lam > 1e-9, 1 / np.maximum(lam, 1e-9), 0)
    g = sum(row / m / (row / m @ lam) for row in Q) / n + 10 * m * inverse / n
    assert found.gap == pytest.approx(max(0.0, g @ (target.maximize(g) - lam)), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_the_gap_bounds_what_is_missing_whenever_it_stops(kind: str, seed: int, steps: int) -> None:
    Q, m, rng = unlabelled(seed)
    target, _ = sets(len(m), rng)[kind]
    rough = estimate_mixture(Q, m, target, most_steps=steps)
    fine = estimate_mixture(Q, m, target, tol=1e-9, most_steps=20_000)
    missing = objective(Q, m, fine.mixture) - objective(Q, m, rough.mixture)
    assert rough.gap >= missing - 1e-8
    others = [target.project(point) for point in rng.dirichlet(np.ones(len(m)), size=20)]
    for lam in others:
        if np.all(lam > 0):
            assert objective(Q, m, lam) <= objective(Q, m, rough.mixture) + rough.gap + 1e-8


def test_rows_that_say_nothing_leave_the_mixture_of_the_data() -> None:
    m = np.array([0.7, 0.2, 0.1])
    found = estimate_mixture(np.tile(m, (30, 1)), m, ax.Simplex(3))
    np.testing.assert_allclose(found.mixture, m, atol=1e-12)
    assert found.gap == pytest.approx(0, abs=1e-12)


def test_a_sure_classifier_counts_rows() -> None:
    """Q of 0 and 1: (n_k + 10 m̄_k)/(n + 10), the mode of a Dirichlet posterior."""
    m, counts = np.array([0.5, 0.3, 0.2]), np.array([6, 0, 14])
    Q = np.clip(np.repeat(np.eye(3), counts, axis=0), 1e-12, 1)
    found = estimate_mixture(Q, m, ax.Simplex(3), tol=1e-12)
    np.testing.assert_allclose(found.mixture, (counts + 10 * m) / 30, atol=1e-6)


def test_a_domain_that_lambda_leaves_out_has_no_share() -> None:
    Q = np.random.default_rng(0).dirichlet(np.ones(3), size=40)
    m = np.full(3, 1 / 3)
    found = estimate_mixture(Q, m, ax.Box([0, 0, 0], [0.8, 0.8, 0]))
    assert found.mixture[2] == 0
    assert found.gap <= 1e-6
    grid = np.linspace(0.2, 0.8, 6001)
    values = [objective(Q, m, np.array([a, 1 - a, 0])) for a in grid]
    assert found.mixture[0] == pytest.approx(grid[int(np.argmax(values))], abs=2e-4)
