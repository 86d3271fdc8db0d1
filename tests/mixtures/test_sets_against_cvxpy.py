"""Projections, maximisers and quadratic minima of every set have the values that CVXPY finds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from mixture_cases import least_skewness
from numpy.typing import NDArray

from anymix.mixtures import (
    Box,
    Chi2Ball,
    Hull,
    KLBall,
    MixtureSet,
    Polytope,
    Simplex,
    TVBall,
    cvar,
)

Array = NDArray[np.float64]
Rng = np.random.Generator


# CVXPY: one parametrised problem for each kind of set, solved for 200 random members of the kind.

P, N = 5, 4  # domains, points of a hull

Parameters = dict[str, Any]
Kind = tuple[
    Callable[[cp.Variable, Parameters], list[Any]],
    Callable[[Rng, Parameters], MixtureSet],
]


def _in_simplex(lam: cp.Variable, q: Parameters) -> list[Any]:
    return []


def _random_simplex(rng: Rng, q: Parameters) -> MixtureSet:
    return Simplex(P)


def _in_box(lam: cp.Variable, q: Parameters) -> list[Any]:
    q["lower"], q["upper"] = cp.Parameter(P), cp.Parameter(P)
    return [lam >= q["lower"], lam <= q["upper"]]


def _random_box(rng: Rng, q: Parameters) -> MixtureSet:
    c = rng.dirichlet(np.ones(P))
    box = Box(c * rng.uniform(0, 1, P), c + rng.uniform(0, 0.5, P))
    q["lower"].value, q["upper"].value = box.lower, box.upper
    return box


def _random_cvar(rng: Rng, q: Parameters) -> MixtureSet:
    reference, alpha = rng.dirichlet(np.ones(P)), rng.uniform(0.05, 1)
    q["lower"].value, q["upper"].value = np.zeros(P), reference / alpha
    return cvar(reference, alpha)


def _in_tv(lam: cp.Variable, q: Parameters) -> list[Any]:
    q["center"], q["rho"] = cp.Parameter(P), cp.Parameter(nonneg=True)
    return [cp.norm1(lam - q["center"]) <= 2 * q["rho"]]


def _random_tv(rng: Rng, q: Parameters) -> MixtureSet:
    center = rng.dirichlet(np.full(P, 0.5))
    if rng.random() < 0.3:
        center = np.eye(P)[rng.integers(P)]
    q["center"].value, q["rho"].value = center, rng.uniform(0.01, 0.8)
    return TVBall(center, q["rho"].value)


def _in_hull(lam: cp.Variable, q: Parameters) -> list[Any]:
    q["points"], theta = cp.Parameter((N, P)), cp.Variable(N, nonneg=True)
    return [lam == q["points"].T @ theta, cp.sum(theta) == 1]


def _random_hull(rng: Rng, q: Parameters) -> MixtureSet:
    points = rng.dirichlet(np.full(P, 0.5), size=N)
    points[-1] = points[0] if rng.random() < 0.3 else points[-1]
    q["points"].value = points
    return Hull(points)


def _in_polytope(lam: cp.Variable, q: Parameters) -> list[Any]:
    q["A"], q["b"] = cp.Parameter((N, P)), cp.Parameter(N)
    return [q["A"] @ lam <= q["b"]]


def _random_polytope(rng: Rng, q: Parameters) -> MixtureSet:
    A, c = rng.normal(size=(N, P)), rng.dirichlet(np.full(P, 0.5))
    A[-1] = -A[0] if rng.random() < 0.3 else A[-1]
    q["A"].value, q["b"].value = A, A @ c + rng.uniform(0.01, 0.3, N)
    return Polytope(A, q["b"].value)


def _in_kl(lam: cp.Variable, q: Parameters) -> list[Any]:
    q["c"], q["entropy"] = cp.Parameter(P), cp.Parameter(nonneg=True)
    return [cp.sum(-cp.entr(lam) - cp.multiply(lam, q["c"])) <= q["entropy"]]  # c is log c


def _random_kl(rng: Rng, q: Parameters) -> MixtureSet:
    c, rho = rng.dirichlet(np.ones(P)), 10 ** rng.uniform(-3, 0)
    q["c"].value, q["entropy"].value = np.log(c), rho
    return KLBall(c, rho)


def _in_chi2(
    base: Callable[[cp.Variable, Parameters], list[Any]],
) -> Callable[[cp.Variable, Parameters], list[Any]]:
    def constraints(lam: cp.Variable, q: Parameters) -> list[Any]:
        q["scale"], q["shift"] = cp.Parameter(P, nonneg=True), cp.Parameter(P)
        q["root"] = cp.Parameter(nonneg=True)
        return [cp.norm2(cp.multiply(q["scale"], lam) - q["shift"]) <= q["root"], *base(lam, q)]

    return constraints


def _random_chi2(
    base: Callable[[Rng, Parameters], MixtureSet],
) -> Callable[[Rng, Parameters], MixtureSet]:
    def draw(rng: Rng, q: Parameters) -> MixtureSet:
        inner, sizes = base(rng, q), rng.uniform(1, 100, P)
        r = least_skewness(sizes, inner) * (1 + rng.uniform(0.02, 1))
        m = sizes / sizes.sum()  # Σ (λ/√m̄ − √m̄)² ≤ r − 1
        q["scale"].value, q["shift"].value = 1 / np.sqrt(m), np.sqrt(m)
        q["root"].value = math.sqrt(r - 1)
        return Chi2Ball(sizes, r, inner)

    return draw


def _in_shrunk(
    base: Callable[[cp.Variable, Parameters], list[Any]],
) -> Callable[[cp.Variable, Parameters], list[Any]]:
    """λ = (1−t) m + t z for a member z of the base."""

    def constraints(lam: cp.Variable, q: Parameters) -> list[Any]:
        q["size"], q["moved"] = cp.Parameter(nonneg=True), cp.Parameter(P)
        z = cp.Variable(P, nonneg=True)
        return [lam == q["moved"] + q["size"] * z, cp.sum(z) == 1, *base(z, q)]

    return constraints


def _random_shrunk(
    base: Callable[[Rng, Parameters], MixtureSet],
) -> Callable[[Rng, Parameters], MixtureSet]:
    def draw(rng: Rng, q: Parameters) -> MixtureSet:
        t, m = rng.uniform(0.05, 1), rng.dirichlet(np.ones(P))
        q["size"].value, q["moved"].value = t, (1 - t) * m
        return base(rng, q).shrunk(t, m)

    return draw


KINDS: dict[str, Kind] = {
    "simplex": (_in_simplex, _random_simplex),
    "box": (_in_box, _random_box),
    "cvar": (_in_box, _random_cvar),
    "tv": (_in_tv, _random_tv),
    "hull": (_in_hull, _random_hull),
    "chi2 simplex": (_in_chi2(_in_simplex), _random_chi2(_random_simplex)),
    "chi2 box": (_in_chi2(_in_box), _random_chi2(_random_box)),
    "chi2 tv": (_in_chi2(_in_tv), _random_chi2(_random_tv)),
    "kl": (_in_kl, _random_kl),
    "chi2 kl": (_in_chi2(_in_kl), _random_chi2(_random_kl)),
    "shrunk kl": (_in_shrunk(_in_kl), _random_shrunk(_random_kl)),
    "polytope": (_in_polytope, _random_polytope),
    "chi2 polytope": (_in_chi2(_in_polytope), _random_chi2(_random_polytope)),
    "chi2 hull": (_in_chi2(_in_hull), _random_chi2(_random_hull)),
    "shrunk simplex": (_in_shrunk(_in_simplex), _random_shrunk(_random_simplex)),
    "shrunk tv": (_in_shrunk(_in_tv), _random_shrunk(_random_tv)),
    "shrunk hull": (_in_shrunk(_in_hull), _random_shrunk(_random_hull)),
}


def _compare_with_cvxpy(kind: str, cases: int, seed: int) -> None:
    """Least ½‖Fᵀλ‖² + ½ Σ Dλ² − cᵀλ, of which projections and maximisers are special cases."""
    constraints, random_set = KINDS[kind]
    lam, q = cp.Variable(P, nonneg=True), Parameters()
    c, F, root = cp.Parameter(P), cp.Parameter((P, 2)), cp.Parameter(P, nonneg=True)
    objective = cp.sum_squares(F.T @ lam) / 2 + cp.sum_squares(cp.multiply(root, lam)) / 2 - c @ lam
    problem = cp.Problem(cp.Minimize(objective), [cp.sum(lam) == 1, *constraints(lam, q)])
    rng = np.random.default_rng(seed)

    def assert_best(answer: Array, linear: Array, factor: Array, diagonal: Array) -> None:
        c.value, F.value, root.value = linear, factor, np.sqrt(diagonal)
        gaps = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
        for fraction in (0.99, 0.8):  # on exponential cones long steps fail now and then
            problem.solve("CLARABEL", max_step_fraction=fraction, **gaps)
            if problem.status == "optimal":
                break
        value = np.sum((answer @ factor) ** 2) / 2 + diagonal @ answer**2 / 2 - linear @ answer
        size = 1 + np.abs(linear).max() + diagonal.max()
        assert value == pytest.approx(problem.value, rel=1e-8, abs=1e-8 * size)

    for _ in range(cases):
        mixtures = random_set(rng, q)
        v, w = rng.normal(size=P) * 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-1, 1, P)
        factor, diagonal = rng.normal(size=(P, 2)), w * (rng.random() < 0.5)
        none, ones = np.zeros((P, 2)), np.ones(P)
        assert_best(mixtures.project(v), v, none, ones)
        assert_best(mixtures.project(v, w), w * v, none, w)
        assert_best(mixtures.maximize(v), v, none, 0 * ones)
        assert_best(mixtures.minimize_quadratic(v, factor, diagonal), v, factor, diagonal)


# Asked for ten digits, the solver often warns that it has fewer.
digits = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


@digits
@pytest.mark.parametrize("kind", KINDS)
def test_values_agree_with_cvxpy(kind: str) -> None:
    """A shrunk set only moves the answers of its base, whose rare cases are tried by themselves."""
    _compare_with_cvxpy(kind, cases=50 if kind.startswith("shrunk") else 200, seed=0)


@digits
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_values_agree_with_cvxpy_on_many_more(kind: str) -> None:
    _compare_with_cvxpy(kind, cases=1000, seed=1)
