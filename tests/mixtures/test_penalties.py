"""Laws of the penalties on λ: derivatives, and best responses that no member of Λ can beat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from anymix.mixtures import (
    Box,
    Chi2Ball,
    Chi2Penalty,
    DirichletPrior,
    Hull,
    MixtureSet,
    NoPenalty,
    Point,
    Simplex,
    TVBall,
    Vertices,
)
from anymix.mixtures import Penalty as AnyPenalty

cp: Any = pytest.importorskip("cvxpy")  # untyped

Array = NDArray[np.float64]
Penalty = Chi2Penalty | DirichletPrior
SCALES = [1e-9, 1e-3, 1.0, 1e3, 1e9]
seeds = st.integers(0, 2**32 - 1)
counts = st.sampled_from([1, 2, 3, 7, 40, 300])


def random_box(rng: np.random.Generator, p: int) -> Box:
    lower = rng.random(p) * rng.integers(0, 2, p) / (2 * p)
    upper = np.minimum(1, lower + rng.random(p) * 4 / p)
    upper[0] = 1
    return Box(lower, upper)


def random_set(rng: np.random.Generator, p: int) -> MixtureSet:
    middle = rng.dirichlet(np.ones(p))
    sets: list[MixtureSet] = [
        Simplex(p),
        Vertices(p),
        Point(middle),
        random_box(rng, p),
        Hull(rng.dirichlet(np.ones(p), size=4)),
        TVBall(middle, 0.3),
        Chi2Ball(rng.uniform(1, 9, p), 1.2),
    ]
    return sets[rng.integers(len(sets))]


def gap(penalty: Penalty, mixtures: MixtureSet, losses: Array, lam: Array) -> float:
    """What a member of Λ gains on λ to first order, as a share of the summands; optimal is 0."""
    slope = penalty.gradient(lam)
    gain = losses - slope
    other = mixtures.maximize(gain)
    size = np.abs(losses) + np.abs(slope) + penalty.hessian(lam) * lam
    return float(gain @ (other - lam)) / float(size @ (other + lam) + 1e-300)


@given(seeds, counts, st.sampled_from(SCALES), st.sampled_from([1e-6, 1e-2, 1.0, 1e3]))
def test_chi2_best_response_is_optimal(seed: int, p: int, scale: float, mu: float) -> None:
    rng = np.random.default_rng(seed)
    mixtures, losses = random_set(rng, p), scale * rng.standard_normal(p)
    penalty = Chi2Penalty(mu * scale, rng.uniform(0.1, 10, p))
    lam = penalty.best_response(mixtures, losses)
    assert mixtures.contains(lam, 1e-9 if isinstance(mixtures, Hull) else 1e-12)
    assert gap(penalty, mixtures, losses, lam) <= (
        1e-10 if isinstance(mixtures, Chi2Ball) else 1e-13
    )


@given(
    seeds,
    counts,
    st.sampled_from(SCALES),
    st.sampled_from(SCALES),
    st.sampled_from(["simplex", "vertices", "box"]),
    st.sampled_from(["all", "some", "none"]),
    st.booleans(),
)
def test_dirichlet_best_response_is_optimal(
    seed: int, p: int, scale: float, strength: float, kind: str, curved: str, ties: bool
) -> None:
    rng = np.random.default_rng(seed)
    losses = scale * (np.round(rng.standard_normal(p)) if ties else rng.standard_normal(p))
    chosen = {"all": np.ones(p), "some": rng.integers(0, 2, p), "none": np.zeros(p)}[curved]
    prior = DirichletPrior(1 + strength * rng.random(p) * chosen)
    box = random_box(rng, p)
    mixtures = {"simplex": Simplex(p), "vertices": Vertices(p), "box": box}[kind]
    lam = prior.best_response(mixtures, losses)
    lower, upper = (box.lower, box.upper) if kind == "box" else (0.0, 1.0)
    assert np.all((lower <= lam) & (lam <= upper))
    assert lam.sum() == pytest.approx(1, abs=1e-14)
    assert gap(prior, mixtures, losses, lam) <= 1e-13


@pytest.mark.parametrize("kind", ["chi2", "dirichlet"])
def test_best_responses_agree_with_cvxpy(kind: str) -> None:
    for seed in range(120):
        rng = np.random.default_rng(seed)
        p = int(rng.integers(1, 12))
        losses = 3 * rng.standard_normal(p)
        box = random_box(rng, p)
        penalty: Penalty
        lam = cp.Variable(p)
        if kind == "chi2":
            penalty = Chi2Penalty(float(rng.uniform(0.1, 2)), rng.uniform(0.2, 5, p))
            roots = np.sqrt(penalty.reference)
            cost = penalty.mu * (cp.sum_squares(cp.multiply(1 / roots, lam)) - 1)
        else:
            penalty = DirichletPrior(1 + rng.random(p) * rng.integers(0, 2, p))
            cost = -cp.sum(cp.multiply(penalty.alpha - 1, cp.log(lam)))
        within = [lam >= box.lower, lam <= box.upper, cp.sum(lam) == 1]
        with np.errstate(invalid="ignore"):  # CVXPY takes log of its slightly negative λ
            cp.Problem(cp.Maximize(losses @ lam - cost), within).solve(solver=cp.CLARABEL)
        ours, theirs = penalty.best_response(box, losses), box.project(lam.value)
        value = losses @ ours - penalty.value(ours)
        assert value == pytest.approx(losses @ theirs - penalty.value(theirs), abs=1e-6)


def test_best_response_by_hand() -> None:
    # λ = m̄ (1 + (L − τ) / 2μ) with Σλ = 1, so τ = ⟨m̄, L⟩ while λ > 0
    chi2 = Chi2Penalty(2.0, [1.0, 3.0])
    np.testing.assert_allclose(
        chi2.best_response(Simplex(2), [1.0, 0.0]), [0.25 * (1 + 0.75 / 4), 0.75 * (1 - 0.25 / 4)]
    )
    # a = 1 for entry 0 only: λ₀ = 1/(τ − L₀); at τ = L₁ = 4 it is 1/4, linear entries have the rest
    prior = DirichletPrior([2.0, 1.0, 1.0])
    np.testing.assert_allclose(prior.best_response(Simplex(3), [0, 4, 0]), [0.25, 0.75, 0])
    np.testing.assert_allclose(prior.best_response(Simplex(3), [0, 4, 4]), [0.25, 0.375, 0.375])
    capped = Box([0, 0, 0], [1, 0.5, 1])
    np.testing.assert_allclose(prior.best_response(capped, [0, 4, 2]), [0.5, 0.5, 0])
    # flat losses: the mode (α − 1)/Σ(α − 1) of the prior
    mode = DirichletPrior([2.0, 3.0, 5.0]).best_response(Simplex(3), [7.0, 7.0, 7.0])
    np.testing.assert_allclose(mode, [1 / 7, 2 / 7, 4 / 7], rtol=1e-15)


def test_a_weak_prior_on_huge_tied_losses() -> None:
    """The answer hangs on parts of τ far below the rounding of L: a/λ is 1e-9, L is 1e9."""
    prior = DirichletPrior(1 + 1e-9 * np.array([4.0, 8.0, 5.0, 9.0]))
    box = Box([0.05, 0, 0.02, 0.02], [0.6, 0.3, 0.4, 0.4])
    losses = np.array([-1e9, 1e9, 1e9, 1e9])
    lam = prior.best_response(box, losses)
    assert lam[0] == 0.05
    assert lam.sum() == pytest.approx(1, abs=1e-15)
    # the others share 0.95 as 8 : 5 : 9, which leads two of them to their caps
    np.testing.assert_allclose(lam[1:], [0.3, 0.25, 0.4], rtol=1e-12)
    assert gap(prior, box, losses, lam) <= 1e-13
    prior = DirichletPrior(1 + 1e-9 * np.array([9.0, 9.0, 8.0, 5.0]))
    lam = prior.best_response(Box([0, 0, 0, 0], [0.1, 0.1, 1, 1]), [1e10] * 4)
    np.testing.assert_allclose(lam, [0.1, 0.1, 0.8 * 8 / 13, 0.8 * 5 / 13], rtol=1e-6)


def test_no_penalty_is_the_plain_maximum() -> None:
    losses = [0.2, 0.9, 0.5]
    for mu in (0.0, 1e-200, 5e-324):
        np.testing.assert_array_equal(
            Chi2Penalty(mu, [1, 2, 3]).best_response(Simplex(3), losses), [0, 1, 0]
        )
    flat = DirichletPrior([1.0, 1.0, 1.0])
    np.testing.assert_array_equal(flat.best_response(Simplex(3), losses), [0, 1, 0])
    assert flat.value([0.2, 0.8, 0.0]) == pytest.approx(-np.log(2))  # the simplex has area 1/2


def test_without_losses_chi2_leads_to_the_reference() -> None:
    lam = Chi2Penalty(1e-3, [1, 2, 5]).best_response(Simplex(3), [4.0, 4.0, 4.0])
    np.testing.assert_allclose(lam, [1 / 8, 2 / 8, 5 / 8], rtol=1e-15)


@given(seeds, st.integers(1, 8))
def test_derivatives(seed: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    lam = rng.dirichlet(np.full(p, 5.0))
    for penalty in (
        Chi2Penalty(0.7, rng.uniform(0.5, 5, p)),
        DirichletPrior(1 + rng.integers(0, 3, p)),
    ):
        h = 1e-5 * lam
        for k in range(p):
            step = h * np.eye(p)[k]
            change = (penalty.gradient(lam + step) - penalty.gradient(lam - step)) / (2 * h[k])
            assert change[k] == pytest.approx(penalty.hessian(lam)[k], rel=1e-5, abs=1e-7)
            assert np.all(np.delete(change, k) == 0)
        along = rng.standard_normal(p) * h
        along -= along.mean()  # the value is meant on Σλ = 1
        rise = (penalty.value(lam + along) - penalty.value(lam - along)) / 2
        tolerance = 1e-9 * float(np.abs(penalty.gradient(lam)) @ np.abs(along)) + 1e-12
        assert rise == pytest.approx(penalty.gradient(lam) @ along, abs=tolerance)


def test_values_by_definition() -> None:
    chi2 = Chi2Penalty(0.3, [1, 1, 2])
    lam = np.array([0.2, 0.5, 0.3])
    assert chi2.value(lam) == pytest.approx(
        0.3 * (np.sum(lam**2 / [0.25, 0.25, 0.5]) - 1), rel=1e-15
    )
    assert chi2.value([0.25, 0.25, 0.5]) == 0
    np.testing.assert_array_equal(chi2.gradient([0.25, 0.25, 0.5]), [0, 0, 0])
    alpha = np.array([1.0, 2.5, 4.0])
    assert DirichletPrior(alpha).value(lam) == pytest.approx(-stats.dirichlet(alpha).logpdf(lam))


def test_on_the_boundary_the_prior_is_infinite_without_a_warning() -> None:
    prior = DirichletPrior([2.0, 1.0])
    assert prior.value([0.0, 1.0]) == np.inf
    np.testing.assert_array_equal(prior.gradient([0.0, 1.0]), [-np.inf, 0])
    np.testing.assert_array_equal(prior.gradient([1.0, 0.0]), [-1, 0])
    np.testing.assert_array_equal(prior.hessian([0.0, 0.0]), [np.inf, 0])


def test_arguments_stay_as_they_were() -> None:
    sizes, alpha, losses = np.array([1.0, 3.0]), np.array([2.0, 1.0]), np.array([1.0, 2.0])
    chi2, prior = Chi2Penalty(1.0, sizes), DirichletPrior(alpha)
    chi2.best_response(Simplex(2), losses)
    prior.best_response(Box([0.1, 0.1], [0.9, 0.9]), losses)
    np.testing.assert_array_equal(losses, [1, 2])
    sizes[:], alpha[:] = 9.0, 9.0
    assert chi2.value([0.25, 0.75]) == 0
    assert prior.gradient([0.5, 0.5])[0] == -2


def test_a_million_domains() -> None:
    rng = np.random.default_rng(0)
    p = 10**6
    losses = rng.standard_normal(p)
    for penalty in (Chi2Penalty(1.0, np.ones(p)), DirichletPrior(np.full(p, 1.5))):
        lam = penalty.best_response(Simplex(p), losses)
        assert lam.sum() == pytest.approx(1, abs=1e-12)
        assert gap(penalty, Simplex(p), losses, lam) <= 1e-10


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: Chi2Penalty(-1.0, [1, 2]), "mu"),
        (lambda: Chi2Penalty(np.nan, [1, 2]), "mu"),
        (lambda: Chi2Penalty(np.inf, [1, 2]), "mu"),
        (lambda: Chi2Penalty("a", [1, 2]), "mu"),  # type: ignore[arg-type]
        (lambda: Chi2Penalty(1.0, [1, 0]), "sizes"),
        (lambda: Chi2Penalty(1.0, []), "sizes"),
        (lambda: Chi2Penalty(1.0, [1, np.nan]), "sizes"),
        (lambda: Chi2Penalty(1.0, ["a"]), "sizes"),
        (lambda: DirichletPrior([0.5, 2]), "alpha"),
        (lambda: DirichletPrior([np.inf, 2]), "alpha"),
        (lambda: DirichletPrior([[1.0]]), "alpha"),
        (lambda: DirichletPrior([1.0, 2.0]).value([1.0]), "mixture"),
        (lambda: Chi2Penalty(1.0, [1, 2]).gradient([np.nan, 0.0]), "mixture"),
        (lambda: Chi2Penalty(1.0, [1, 2]).best_response(Simplex(3), [1, 2, 3]), "mixtures"),
        (lambda: DirichletPrior([1, 2]).best_response(Simplex(2), [1, np.inf]), "losses"),
        (lambda: DirichletPrior([2, 2]).best_response(Box([0, 0], [0, 1]), [1, 1]), "alpha"),
    ],
)
def test_bad_arguments_are_named(build: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        build()


def test_a_prior_that_rules_out_the_whole_set_says_so() -> None:
    with pytest.raises(ValueError, match=r"prior .*-inf .*centre"):
        DirichletPrior([2.0, 2.0]).best_response(Hull([[1.0, 0.0]]), [1.0, 2.0])


def test_losses_near_the_largest_numbers() -> None:
    """Differences of 2e308 are no number: the answers are those of smaller losses as far apart."""
    losses, small = np.array([1e308, -1e308, 0.0]), np.array([1.0, -1.0, 0.0])
    for mixtures in (Simplex(3), Box([0.1, 0.1, 0.0], [0.6, 1.0, 1.0])):
        best = mixtures.maximize(losses)
        for mu in (0.0, 1.0):
            lam = Chi2Penalty(mu, [1, 2, 3]).best_response(mixtures, losses)
            np.testing.assert_allclose(lam, best, rtol=0, atol=1e-15)
        big = Chi2Penalty(1e308, [1, 2, 3]).best_response(mixtures, losses)
        one = Chi2Penalty(1.0, [1, 2, 3]).best_response(mixtures, small)
        np.testing.assert_allclose(big, one, rtol=1e-13)
        lam = DirichletPrior([2.0, 3.0, 1.0]).best_response(mixtures, losses)
        np.testing.assert_allclose(lam, best, rtol=0, atol=1e-15)


@pytest.mark.parametrize("scale", [1e3, 1e30, 1e100, 1e300])
def test_a_prior_beside_huge_losses_fills_the_box_in_their_order(scale: float) -> None:
    """λ₀ is at its bound and λ₁ takes the rest; the level is 10³⁰⁰ wide and must still be found."""
    box = Box([0.1, 0.1, 0.1, 0.05], [0.5, 0.5, 0.3, 0.2])
    lam = DirichletPrior([1.001, 1.001, 1.001, 1.001]).best_response(
        box, scale * np.array([2.0, 1.0, 0.0, -2.0])
    )
    np.testing.assert_allclose(lam, [0.5, 0.35, 0.1, 0.05], rtol=0, atol=1e-12)
    assert lam.sum() == pytest.approx(1, abs=1e-14)


# One interface.


def test_no_penalty_is_a_chi2_penalty_of_weight_zero() -> None:
    rng = np.random.default_rng(0)
    none, zero = NoPenalty(), Chi2Penalty(0.0, [1, 2, 3])
    for _ in range(20):
        mixtures, losses, lam = random_set(rng, 3), rng.normal(size=3), rng.dirichlet(np.ones(3))
        assert none.value(lam) == zero.value(lam) == 0
        np.testing.assert_array_equal(none.gradient(lam), zero.gradient(lam))
        np.testing.assert_array_equal(none.hessian(lam), zero.hessian(lam))
        np.testing.assert_array_equal(
            none.best_response(mixtures, losses), zero.best_response(mixtures, losses)
        )
    assert none.times(3.0) is none


@pytest.mark.parametrize(
    "penalty", [NoPenalty(), Chi2Penalty(0.3, [1, 2, 3]), DirichletPrior([2.0, 1.0, 3.5])]
)
def test_a_multiple_of_a_penalty(penalty: AnyPenalty) -> None:
    """Its values are so many times as large, and so are its derivatives."""
    more = penalty.times(4.0)
    a, b = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.3, 0.1])
    assert more.value(a) == pytest.approx(4 * penalty.value(a))
    assert more.value(b) == pytest.approx(4 * penalty.value(b))
    assert more.times(0.25).value(a) == pytest.approx(penalty.value(a))
    np.testing.assert_allclose(more.gradient(a), 4 * penalty.gradient(a))
    np.testing.assert_allclose(more.hessian(a), 4 * penalty.hessian(a))
    losses = np.array([1.0, 0.5, 0.2])
    np.testing.assert_allclose(
        more.best_response(Simplex(3), 4 * losses), penalty.best_response(Simplex(3), losses)
    )
    assert penalty.is_quadratic == np.array_equal(penalty.hessian(a), penalty.hessian(b))
