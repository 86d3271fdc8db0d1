"""γR(w − a): the solution is pulled towards the anchor a, and its proof knows that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conic import minimax
from numpy.typing import NDArray
from scipy import sparse

import anymix as ax
from anymix.errors import InputError
from anymix.mixtures import MixtureSet
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Huber, SquaredError
from anymix.problem.parts import Parts

Array = NDArray[np.float64]

LOSSES: dict[str, Any] = {
    "binary": CrossEntropy(),
    "three": CrossEntropy(),
    "squared": SquaredError(),
    "huber": Huber(0.5),
}
SIMPLEX = ax.Simplex(3)
EVERY_LOSS = pytest.mark.parametrize("name", LOSSES)
EVERY_NORM = pytest.mark.parametrize("norm", ["squared", "plain"])


def table(name: str, n: int = 60, d: int = 3) -> tuple[Array, Any, Any]:
    rng = np.random.default_rng(5)
    X, domains = rng.normal(size=(n, d)), np.arange(n) % 3
    y: Any = X[:, 0] * (1 + 0.5 * domains) + rng.logistic(size=n)
    if name == "binary":
        y = (y > 0).astype(int)
    elif name == "three":
        y = np.digitize(y, [-1.0, 1.0])
    return X, y, domains


def problem_of(name: str, **options: Any) -> LinearDomains:
    return LinearDomains(*table(name), LOSSES[name], **options)


def anchor_of(problem: LinearDomains, size: float = 1.0) -> Array:
    """For many classes, with a mean over the blocks that is not 0."""
    return size * np.random.default_rng(11).normal(0.7, 1.0, size=problem.n_parameters)


def reference(
    name: str, norm: str, gamma: float, anchor: Array, mixtures: MixtureSet = SIMPLEX, mu: float = 0
) -> float:
    """The optimum by CVXPY."""
    X, y, domains = table(name)
    options = dict[str, Any](gamma=gamma, norm=norm, mu=mu, anchor=anchor)
    return minimax(X, y, np.eye(3)[domains], mixtures, LOSSES[name], **options)


@EVERY_NORM
@EVERY_LOSS
def test_against_cvxpy(name: str, norm: str) -> None:
    problem = problem_of(name)
    anchor = anchor_of(problem)
    for gamma in (1e-2, 0.3):
        value = reference(name, norm, gamma, anchor)
        found = ax.solve(problem, gamma=gamma, norm=norm, anchor=anchor, tol=1e-9)
        assert found.converged
        assert found.objective == pytest.approx(value, rel=1e-7)
        assert found.certificate.lower <= value * (1 + 1e-7)
        proof = ax.certify(
            problem, None, found.w, found.mixture, gamma=gamma, norm=norm, anchor=anchor
        )
        assert proof.gap <= 1e-8
        for start in (anchor_of(problem, -3), found.w + 0.05):
            again = ax.solve(problem, gamma=gamma, norm=norm, anchor=anchor, tol=1e-9, start=start)
            assert again.objective == pytest.approx(value, rel=1e-7)


SETS: list[tuple[MixtureSet, float, float]] = [
    (SIMPLEX, 0.3, 0.0),
    (SIMPLEX, 0.99, 0.0),
    (ax.Chi2Ball([1, 2, 3], 1.5), 0.5, 0.0),
    (ax.Hull([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]), 0.6, 0.05),
]


@EVERY_LOSS
@pytest.mark.parametrize(("base", "t", "mu"), SETS, ids=str)
def test_shrunk_sets_with_an_anchor_against_cvxpy(
    name: str, base: MixtureSet, t: float, mu: float
) -> None:
    """(1−t) ⟨m, L⟩ + t max over Λ, and the proof holds the optimum between its two numbers."""
    problem, rng, gamma = problem_of(name), np.random.default_rng(0), 0.03
    anchor, shrunk = anchor_of(problem, 0.5), base.shrunk(t, problem.reference)
    value = reference(name, "squared", gamma, anchor, shrunk, mu)
    options = dict[str, Any](gamma=gamma, mu=mu, anchor=anchor)
    found = ax.solve(problem, shrunk, tol=1e-9, **options)
    assert found.converged
    assert found.objective == pytest.approx(value, rel=1e-7)
    proof = found.certificate
    assert proof.lower - 1e-7 * value <= value <= proof.upper + 1e-7 * value
    losses, R = problem.losses(found.w), np.sum((found.w - anchor)[problem.penalized] ** 2) / 2
    if mu == 0:
        mixed = (1 - t) * problem.reference @ losses + t * base.maximize(losses) @ losses
        assert found.objective == pytest.approx(mixed + gamma * R, rel=1e-9)
    w = found.w + rng.normal(size=len(anchor))
    far = ax.certify(problem, shrunk, w, shrunk.project(rng.normal(size=3)), **options)
    assert far.lower <= value * (1 + 1e-9)
    assert far.upper >= value * (1 - 1e-9)
    assert far.gap > 1e-3


@EVERY_NORM
@EVERY_LOSS
def test_a_certificate_brackets_the_optimum_from_anywhere(name: str, norm: str) -> None:
    problem, rng = problem_of(name), np.random.default_rng(1)
    for size in (1.0, 10.0):
        anchor = anchor_of(problem, size)
        value = ax.solve(problem, gamma=0.1, norm=norm, anchor=anchor, tol=1e-8).objective
        for spread in (0.0, 0.1, 3.0):
            w = anchor + spread * rng.normal(size=len(anchor))
            lam = rng.dirichlet(np.ones(3))
            proof = ax.certify(problem, None, w, lam, gamma=0.1, norm=norm, anchor=anchor)
            assert proof.lower <= value + 1e-8 * max(1.0, value)
            assert proof.upper >= value - 1e-8 * max(1.0, value)
            short = ax.certify(
                problem, None, 0 * w, lam, gamma=0.1, norm=norm, anchor=anchor, w_radius=0.5
            )
            best = ax.certify(problem, None, 0 * w, lam, gamma=0.1, norm=norm, anchor=anchor)
            assert best.lower - 1e-9 <= short.lower <= short.upper == best.upper


@pytest.mark.parametrize("name", ["binary", "huber"])
def test_far_out_where_no_row_has_curvature(name: str) -> None:
    """Every slope is at the end of what ℓ* takes, which leaves no room for rounding."""
    problem = problem_of(name)
    anchor = anchor_of(problem, 100.0)
    found = ax.solve(problem, gamma=0.1, anchor=anchor, tol=1e-7)
    assert found.converged
    assert found.objective == pytest.approx(reference(name, "squared", 0.1, anchor), rel=1e-7)


@pytest.mark.parametrize("name", ["squared", "huber"])
@EVERY_NORM
def test_residuals_from_the_anchor_are_the_same_problem(name: str, norm: str) -> None:
    """With u = w − a the residuals are those of y − Xa, and nothing is anchored."""
    X, y, domains = table(name)
    problem = problem_of(name)
    anchor = np.where(problem.penalized, anchor_of(problem), 0.0)
    moved = LinearDomains(X, y - X @ anchor[:-1], domains, LOSSES[name])
    anchored = ax.solve(problem, gamma=0.1, norm=norm, anchor=anchor, tol=1e-10)
    plain = ax.solve(moved, gamma=0.1, norm=norm, tol=1e-10)
    assert anchored.objective == pytest.approx(plain.objective, abs=2e-10)
    np.testing.assert_allclose(anchored.w - anchor, plain.w, atol=1e-4)


@EVERY_NORM
@EVERY_LOSS
def test_much_weight_gives_the_anchor(name: str, norm: str) -> None:
    problem = problem_of(name)
    anchor, seen = anchor_of(problem), problem.penalized
    found = ax.solve(problem, gamma=1e6, norm=norm, anchor=anchor, tol=1e-7)
    np.testing.assert_allclose(found.w[seen], anchor[seen], atol=1e-5)
    assert np.abs(found.w - anchor)[~seen].max() > 0.1  # intercepts are free and move
    assert found.certificate.gap <= 1e-7


@EVERY_NORM
@EVERY_LOSS
def test_an_anchor_of_zeros_changes_no_bit(name: str, norm: str) -> None:
    problem = problem_of(name)
    zero = np.where(problem.penalized, 0.0, 5.0)  # what it says of intercepts does not matter
    plain, anchored = (
        ax.solve(problem, gamma=0.1, norm=norm, anchor=anchor) for anchor in (None, zero)
    )
    np.testing.assert_array_equal(plain.w, anchored.w)
    assert plain.history == anchored.history
    assert plain.certificate == anchored.certificate
    lam = [0.2, 0.3, 0.5]
    one, other = (
        ax.certify(problem, None, plain.w, lam, norm=norm, anchor=a) for a in (None, zero)
    )
    assert one == other


@EVERY_NORM
def test_conditioning_carries_the_anchor(norm: str) -> None:
    """Targets 2²⁰ times as large, and columns far from 0, are solved in other numbers."""
    X, y, domains = table("squared")
    problem, s = problem_of("squared"), 2.0**20
    anchor = anchor_of(problem)
    value = ax.solve(problem, gamma=0.1, norm=norm, anchor=anchor, tol=1e-10).objective
    large = LinearDomains(X, s * y, domains, SquaredError())
    weight = 0.1 if norm == "squared" else 0.1 * s
    found = ax.solve(large, gamma=weight, norm=norm, anchor=s * anchor, tol=1e-10 * s**2)
    assert large.conditioned() is not None
    assert found.objective / s**2 == pytest.approx(value, abs=1e-9)
    proof = ax.certify(
        large, None, found.w, found.mixture, gamma=weight, norm=norm, anchor=s * anchor
    )
    assert 0 <= proof.gap / s**2 <= 1e-9
    far = LinearDomains(np.round(X * 2**20) / 2**20 + 2.0**20, y, domains, SquaredError())
    near = LinearDomains(np.round(X * 2**20) / 2**20, y, domains, SquaredError())
    assert far.conditioned() is not None
    one, other = (ax.solve(p, gamma=0.1, norm=norm, anchor=anchor, tol=1e-10) for p in (far, near))
    assert one.objective == pytest.approx(other.objective, abs=1e-9)


@EVERY_NORM
@EVERY_LOSS
def test_parts_and_a_learnt_curvature_know_the_anchor(name: str, norm: str) -> None:
    X, y, domains = table(name)
    problem = problem_of(name)
    anchor, options = anchor_of(problem), dict[str, Any](classes=problem.classes)
    pieces = [
        LinearDomains(X[i::2], y[i::2], domains[i::2], LOSSES[name], **options) for i in (0, 1)
    ]
    value = ax.solve(problem, gamma=0.1, norm=norm, anchor=anchor, tol=1e-9).objective
    for dense_up_to in (0, 600):
        parts = Parts.of(pieces, dense_up_to=dense_up_to)
        found = ax.solve(parts, gamma=0.1, norm=norm, anchor=anchor, tol=1e-8)
        assert found.converged
        assert found.objective == pytest.approx(value, abs=2e-8)


def test_wide_sparse_rows() -> None:
    rng = np.random.default_rng(2)
    X, y, domains = table("binary", n=120, d=700)
    X = X * (rng.random(X.shape) < 0.1)
    anchor = 0.1 * rng.normal(size=701)
    one, other = (
        ax.solve(LinearDomains(rows, y, domains), gamma=0.1, anchor=anchor, tol=1e-8)
        for rows in (X, sparse.csr_array(X))
    )
    assert one.converged
    assert one.objective == pytest.approx(other.objective, abs=2e-8)


def test_an_anchor_of_another_length() -> None:
    problem, anchor = problem_of("binary"), np.zeros(3)
    with pytest.raises(InputError, match=r"anchor has shape \(3,\)"):
        ax.solve(problem, anchor=anchor)
    with pytest.raises(InputError, match=r"anchor has shape \(3,\)"):
        ax.certify(problem, None, np.zeros(4), [1.0, 0.0, 0.0], anchor=anchor)
