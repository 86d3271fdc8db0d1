"""The laws of projections, maximisers and bounds, over all sets, and CVXPY beside them."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.mixtures import (
    Box,
    Chi2Ball,
    Hull,
    MixtureSet,
    Point,
    Shrunk,
    Simplex,
    TVBall,
    Vertices,
    cvar,
)
from anymix.mixtures.projections import project_box, project_simplex

Array = NDArray[np.float64]
Rng = np.random.Generator

# Strategies. Small integers make ties, zeros, repeated points and centres on the boundary common.


@st.composite
def _mixture(draw: st.DrawFn, p: int) -> Array:
    counts = draw(st.lists(st.integers(0, 5), min_size=p, max_size=p).filter(any))
    return np.array(counts) / sum(counts)


@st.composite
def _vector(draw: st.DrawFn, p: int) -> Array:
    scale = 10.0 ** draw(st.integers(-9, 9))
    entries = st.floats(-1, 1).map(lambda x: round(x, 12)) | st.integers(-3, 3)
    return scale * np.array(draw(st.lists(entries, min_size=p, max_size=p)), dtype=float)


@st.composite
def _weights(draw: st.DrawFn, p: int, spread: int) -> Array:
    powers = st.floats(-spread, spread) | st.integers(-spread, spread)
    return 10.0 ** np.array(draw(st.lists(powers, min_size=p, max_size=p)), dtype=float)


@st.composite
def _box(draw: st.DrawFn, p: int) -> Box:
    c, floor, roof = draw(_mixture(p)), draw(_mixture(p)), draw(_mixture(p))
    return Box(np.minimum(c, floor), np.maximum(c, roof))


@st.composite
def _chi2(draw: st.DrawFn, p: int, base: MixtureSet | None) -> Chi2Ball:
    sizes = np.array(draw(st.lists(st.integers(1, 1000), min_size=p, max_size=p)))
    over = draw(st.sampled_from([1e-3, 0.1, 0.5, 3.0, 100.0]))
    return Chi2Ball(sizes, least_skewness(sizes, base or Simplex(p)) * (1 + over), base)


@st.composite
def _mixture_set(draw: st.DrawFn, p: int, depth: int = 1) -> MixtureSet:
    kinds = ["simplex", "vertices", "point", "hull", "box", "cvar", "tv"]
    kind = draw(st.sampled_from(kinds + (["chi2"] * 4 + ["shrunk"] * 2) * (depth >= 0)))
    if kind == "simplex":
        return Simplex(p)
    if kind == "vertices":
        return Vertices(p)
    if kind == "point":
        return Point(draw(_mixture(p)))
    if kind == "hull":
        return Hull(draw(st.lists(_mixture(p), min_size=1, max_size=5)))
    if kind == "box":
        return draw(_box(p))
    if kind == "cvar":
        return cvar(draw(_mixture(p)), draw(st.floats(0.01, 1)))
    if kind == "tv":
        return TVBall(draw(_mixture(p)), draw(st.sampled_from([0, 0.05, 0.3, 0.9, 1, 1.5])))
    if kind == "shrunk":
        t = draw(st.sampled_from([1e-6, 0.1, 0.5, 0.999]))
        return draw(_mixture_set(p, depth - 1)).shrunk(t, draw(_mixture(p)))
    return draw(_chi2(p, draw(_mixture_set(p, depth - 1))))


@st.composite
def _case(draw: st.DrawFn, spread: int = 3) -> tuple[MixtureSet, Array, Array, Array]:
    """A set, two vectors and weights."""
    p = draw(st.integers(1, 7))
    return (
        draw(_mixture_set(p)),
        draw(_vector(p)),
        draw(_vector(p)),
        draw(st.just(np.ones(p)) | _weights(p, spread)),
    )


def least_skewness(sizes: NDArray[Any], base: MixtureSet) -> float:
    m = sizes / sizes.sum()
    return max(1.0, float(np.sum(base.project(m, 1 / m) ** 2 / m)))


# The laws, 300 examples each.


@given(_case())
def test_answers_are_members(case: tuple[MixtureSet, Array, Array, Array]) -> None:
    mixtures, v, u, w = case
    for member in (
        mixtures.project(v),
        mixtures.project(v, w),
        mixtures.maximize(v),
        mixtures.center,
        mixtures.minimize_quadratic(v, u[:, None], w),
    ):
        assert mixtures.contains(member, 1e-12)
        assert member.min() >= 0
        assert abs(member.sum() - 1) <= 1e-12


@given(_case())
def test_projection_meets_the_variational_inequality(
    case: tuple[MixtureSet, Array, Array, Array],
) -> None:
    """⟨w(v − Πv), z − Πv⟩ ≤ 0 for all members z: the worst z maximises the left side."""
    mixtures, v, u, w = case
    for weights in (None, w):
        lam = mixtures.project(v, weights)
        g = (1.0 if weights is None else w) * (v - lam)
        rounding = 1e-12 * np.max((1.0 if weights is None else w) * (np.abs(v) + 1))
        for z in (mixtures.maximize(g), mixtures.maximize(u), mixtures.center):
            assert g @ (z - lam) <= rounding


@given(_case())
def test_projection_is_idempotent(case: tuple[MixtureSet, Array, Array, Array]) -> None:
    mixtures, v, _, w = case
    lam = mixtures.project(v)
    np.testing.assert_allclose(mixtures.project(lam), lam, rtol=0, atol=1e-12)
    np.testing.assert_allclose(mixtures.project(lam, w), lam, rtol=0, atol=1e-12)


def test_projection_onto_a_thin_hull_is_idempotent() -> None:
    """Points with entries down to 1e-20 lie so near a face that squares cannot tell."""
    for seed in range(400):
        rng = np.random.default_rng(seed)
        p, n = rng.integers(2, 9), rng.integers(2, 10)
        hull = Hull(rng.dirichlet(np.full(p, 0.1), n))
        lam = hull.project(rng.normal(size=p))
        for weights in (None, 10 ** rng.uniform(-2.5, 2.5, p)):
            np.testing.assert_allclose(hull.project(lam, weights), lam, rtol=0, atol=1e-12)


def test_a_hull_contains_its_members_though_points_nearly_repeat() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        points = np.repeat(rng.dirichlet(np.full(8, 0.1), 5), 2, axis=0)
        points = np.abs(points + 1e-8 * rng.normal(size=points.shape))
        hull = Hull(points / points.sum(axis=1, keepdims=True))
        assert hull.contains(rng.dirichlet(np.ones(10)) @ hull.points)


@given(_case())
def test_projection_is_non_expansive(case: tuple[MixtureSet, Array, Array, Array]) -> None:
    mixtures, v, u, _ = case
    for other in (u, v + 1e-3 * u / max(1.0, float(np.abs(u).max()))):
        apart = np.linalg.norm(mixtures.project(v) - mixtures.project(other))
        rounding = 1e-12 + 1e-15 * max(np.abs(v).max(), np.abs(other).max())
        assert apart <= np.linalg.norm(v - other) + rounding


@given(_case())
def test_no_member_beats_the_maximiser(case: tuple[MixtureSet, Array, Array, Array]) -> None:
    mixtures, losses, v, w = case
    best = mixtures.maximize(losses) @ losses
    rounding = 1e-12 * np.abs(losses).max()
    for member in (mixtures.project(v), mixtures.project(losses, w), mixtures.center):
        assert member @ losses <= best + rounding


@given(_case())
def test_quadratic_minimum_meets_the_variational_inequality(
    case: tuple[MixtureSet, Array, Array, Array],
) -> None:
    """⟨c − Qλ, z − λ⟩ ≤ 0 for all members z, Q singular as often as not."""
    mixtures, c, u, w = case
    F = np.stack((u, u[::-1]), axis=1)
    for D in (np.zeros_like(c), w):
        lam = mixtures.minimize_quadratic(c, F, D)
        g = c - F @ (lam @ F) - D * lam
        rounding = 1e-11 * (np.abs(c).max() + np.max(np.abs(F) @ np.abs(F).sum(axis=0) + D))
        assert g @ (mixtures.maximize(g) - lam) <= rounding
        again = mixtures.minimize_quadratic(c, F, D, start=lam)
        assert g @ (again - lam) <= rounding


def assert_box_kkt(lam: Array, v: Array, w: Array, lower: Array, upper: Array) -> None:
    """w(v − λ) = τ off the bounds, ≥ τ at the upper and ≤ τ at the lower: entry by entry."""
    ulp = 4e-15 * (np.abs(v) + 1)
    g, rounding = w * (v - lam), 10 * ulp * w
    at_most = np.where(lam < upper - ulp, g - rounding, -np.inf).max()
    at_least = np.where(lam > lower + ulp, g + rounding, np.inf).min()
    assert at_most <= at_least


@given(st.data())
def test_weighted_box_and_simplex_projections_meet_kkt(data: st.DataObject) -> None:
    p = data.draw(st.integers(1, 12))
    v, w, box = data.draw(_vector(p)), data.draw(_weights(p, 9)), data.draw(_box(p))
    assert_box_kkt(box.project(v, w), v, w, box.lower, box.upper)
    assert_box_kkt(Simplex(p).project(v, w), v, w, np.zeros(p), np.full(p, np.inf))
    assert_box_kkt(Simplex(p).project(v), v, np.ones(p), np.zeros(p), np.full(p, np.inf))


@given(st.data())
def test_weighted_tv_projection_meets_kkt(data: st.DataObject) -> None:
    """g = w(v − λ) is α where λ > c, β ≤ α where 0 < λ < c, between them at c; α = β inside."""
    p = data.draw(st.integers(1, 12))
    v, w, c = data.draw(_vector(p)), data.draw(_weights(p, 9)), data.draw(_mixture(p))
    rho = data.draw(st.sampled_from([1e-6, 0.05, 0.3, 0.9, 1.0]))
    lam = TVBall(c, rho).project(v, w)
    assert np.abs(lam - c).sum() / 2 <= rho + 1e-14
    ulp = 4e-15 * (np.abs(v) + 1)
    g, e = w * (v - lam), 25 * ulp * w
    near = np.abs(lam - c) <= ulp
    up, down = (lam > c) & ~near, (lam < c) & ~near
    alpha_from = np.max(g - e, where=up | near, initial=-np.inf)
    alpha_to = np.min(g + e, where=up, initial=np.inf)
    beta_from = np.max(g - e, where=down, initial=-np.inf)
    beta_to = np.min(g + e, where=(down & (lam > ulp)) | (near & (c > ulp)), initial=np.inf)
    assert alpha_from <= alpha_to
    assert beta_from <= beta_to
    assert beta_from <= alpha_to
    if np.abs(lam - c).sum() / 2 < rho - 1e-12:
        assert max(alpha_from, beta_from) <= min(alpha_to, beta_to)


@given(_case())
def test_bounds_hold_for_every_member(case: tuple[MixtureSet, Array, Array, Array]) -> None:
    mixtures, v, u, w = case
    m = w / w.sum()
    for member in (mixtures.project(v), mixtures.maximize(u), mixtures.maximize(-u)):
        assert np.linalg.norm(member) <= mixtures.radius * (1 + 1e-12)
        assert np.sum(member**2 / m) <= mixtures.skewness(w) * (1 + 1e-9)


@given(_case(), st.floats(0.01, 3))
def test_members_far_apart_need_centres_of_their_own(
    case: tuple[MixtureSet, Array, Array, Array], epsilon: float
) -> None:
    """Members more than 2ε apart are never covered by one centre, so they are at most |Λ_ε|."""
    mixtures, *_ = case
    mixtures = mixtures.convex_hull  # the vertices cover themselves, not what is between them
    directions = np.random.default_rng(0).normal(size=(6, mixtures.n_domains))
    apart: list[Array] = []
    for direction in directions:
        for member in (mixtures.maximize(direction), mixtures.project(0.3 * direction)):
            if all(np.abs(member - other).sum() > 2 * epsilon for other in apart):
                apart.append(member)
    size = mixtures.log_cover_size(epsilon)
    assert math.log(len(apart)) <= size + 1e-12
    assert size <= mixtures.log_cover_size(epsilon / 2)


@given(_case())
def test_sets_are_values(case: tuple[MixtureSet, Array, Array, Array]) -> None:
    mixtures, *_ = case
    same = pickle.loads(pickle.dumps(mixtures))
    assert same == mixtures
    assert hash(same) == hash(mixtures)
    assert repr(same) == repr(mixtures)
    assert mixtures != Simplex(mixtures.n_domains + 1)
    with pytest.raises(AttributeError, match="immutable"):
        mixtures.n_domains = 3


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
        problem.solve("CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
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
    _compare_with_cvxpy(kind, cases=200, seed=0)


@digits
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_values_agree_with_cvxpy_on_many_more(kind: str) -> None:
    _compare_with_cvxpy(kind, cases=1000, seed=1)


# Many domains and extreme scales.

SCALES = [1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e9]


@pytest.mark.parametrize("p", [1, 2, 63, 64, 65, 100, 1000, 4096, 4097, 10_000])
@pytest.mark.parametrize("scale", SCALES)
def test_projections_at_all_sizes_and_scales(p: int, scale: float) -> None:
    rng = np.random.default_rng(p)
    c = rng.dirichlet(np.ones(p))
    box = Box(c * rng.uniform(0, 1, p), c + rng.uniform(0, 2 / p, p))
    for v in (scale * rng.normal(size=p), scale * rng.uniform(size=p), c + scale * rng.normal()):
        for w in (np.ones(p), 10 ** rng.uniform(-9, 9, p)):
            for mixtures, upper in ((Simplex(p), np.full(p, np.inf)), (box, box.upper)):
                lam = mixtures.project(v, w)
                lower = box.lower if mixtures is box else np.zeros(p)
                assert mixtures.contains(lam, 1e-12)
                assert_box_kkt(lam, v, w, lower, upper)
        lam = Simplex(p).project(v)
        assert Simplex(p).contains(lam, 1e-12)
        assert_box_kkt(lam, v, np.ones(p), np.zeros(p), np.full(p, np.inf))
        np.testing.assert_allclose(Simplex(p).project(lam), lam, rtol=0, atol=1e-14)


@pytest.mark.parametrize("p", [1000, 10_000])
def test_balls_over_many_domains(p: int) -> None:
    rng = np.random.default_rng(p)
    c, sizes = rng.dirichlet(np.ones(p)), rng.integers(1, 1000, p)
    box = Box(np.zeros(p), np.full(p, 3 / p))
    for mixtures in (
        TVBall(c, 0.2),
        Chi2Ball(sizes, 1.5),
        Chi2Ball(sizes, least_skewness(sizes, box) * 1.1, box),
    ):
        for v in (rng.normal(size=p) / p, rng.normal(size=p), 1e9 * rng.normal(size=p)):
            lam = mixtures.project(v)
            g = v - lam
            assert mixtures.contains(lam, 1e-12)
            assert mixtures.contains(mixtures.maximize(v), 1e-12)
            assert g @ (mixtures.maximize(g) - lam) <= 1e-11 * (np.abs(v).max() + 1)
        assert mixtures.radius <= 1
        assert np.sum(mixtures.maximize(1 / sizes) ** 2 / sizes) * sizes.sum() <= (
            mixtures.skewness(sizes) * (1 + 1e-9)
        )


def test_a_million_domains() -> None:
    rng = np.random.default_rng(0)
    p = 10**6
    for v in (rng.normal(size=p), rng.normal(size=p) / p, 1e9 + rng.uniform(size=p)):
        lam = Simplex(p).project(v)
        assert Simplex(p).contains(lam, 1e-12)
        assert_box_kkt(lam, v, np.ones(p), np.zeros(p), np.full(p, np.inf))
    w = 10 ** rng.uniform(-9, 9, p)
    box = Box(np.zeros(p), np.full(p, 4 / p))
    lam = box.project(v, w)
    assert box.contains(lam, 1e-12)
    assert_box_kkt(lam, v, w, box.lower, box.upper)


def test_one_large_entry_above_a_million_equal_ones() -> None:
    """τ is rounded once but subtracted a million times: the sum must not feel it."""
    v = np.full(10**6, -0.5)
    v[0] = 0.1
    lam = Simplex(v.size).project(v)
    assert abs(lam.sum() - 1) <= 1e-12
    assert lam[0] - lam[1] == pytest.approx(0.6, rel=1e-12)


@pytest.mark.parametrize("k", range(1, 9))
def test_simplex_projection_has_no_off_by_one_in_the_cumulative_sum(k: int) -> None:
    """Known λ of every support size: v = λ + τ on the support and no more than τ elsewhere.

    Dividing the sum of the k largest entries by k − 1 or k + 1, or adding one entry too many,
    as seen elsewhere, leaves the simplex by up to 0.88.
    """
    lam = np.zeros(8)
    lam[:k] = np.arange(1, k + 1) / (k * (k + 1) / 2)
    for tau in (-3.0, -0.125, 0.0, 0.25, 7.0):
        v = lam + tau
        v[k:] -= np.arange(8 - k) / 4  # the first of them exactly at τ
        for order in (np.arange(8), np.arange(8)[::-1], np.random.default_rng(k).permutation(8)):
            np.testing.assert_allclose(Simplex(8).project(v[order]), lam[order], atol=1e-15)


def test_the_bound_that_drops_entries_early_keeps_the_support() -> None:
    """The fast path for p > 4096 looks at every 16th entry first: put the support anywhere."""
    rng = np.random.default_rng(0)
    for k in (1, 3, 100, 3000):
        lam = np.zeros(10_000)
        lam[rng.choice(10_000, k, replace=False)] = rng.dirichlet(np.ones(k))
        v = np.where(lam > 0, lam, -rng.uniform(size=10_000) * (rng.random() < 0.5))
        np.testing.assert_allclose(Simplex(10_000).project(v + 5.0), lam, atol=1e-14)


def test_a_far_majority_does_not_blur_the_few_that_count() -> None:
    """Only two entries count, and the fast path's sample sees neither: no digit may be lost."""
    v = np.full(10_000, -1e9)
    v[[5, 77]] = 0.3, 0.1
    lam = Simplex(10_000).project(v)
    np.testing.assert_allclose(lam[[5, 77]], [0.6, 0.4], rtol=1e-15)
    assert np.count_nonzero(lam) == 2


def test_values_so_large_that_bounds_are_below_their_rounding() -> None:
    v = np.array([1e17, 1e17, 1e17, 0.0])
    lam = project_box(v, np.ones(4), np.zeros(4), np.full(4, 0.4))
    np.testing.assert_allclose(lam, [1 / 3, 1 / 3, 1 / 3, 0])


def test_bounds_that_leap_in_the_rounding_of_large_values() -> None:
    """Each bound is far below the rounding of v: λ leaps from u to l as τ passes w v."""
    v, w, u = np.array(
        [
            [15549972769779448, 5.7366255144032925, 0.13446546993558262],
            [17149764206999554, 10.402985074626866, 0.10078623372042148],
            [40954660792834768, 4.35625, 0.24756395680110568],
            [14974047852380212, 11.914529914529913, 0.10671238375417595],
            [1.7393143292054396, 9.071583514099784, 0.292291308390159],
            [15187353377342892, 5.873595505617978, 0.06328000971125237],
            [1.6609202570941843, 7.375661375661375, 0.05490063768730282],
        ]
    ).T
    lam = project_box(v, w, np.zeros(7), u, 0.4596756576703804)
    assert lam.sum() == pytest.approx(0.4596756576703804, rel=1e-12)


# Each set by itself.


def test_vertices_are_the_simplex_but_for_their_cover() -> None:
    v, w, sizes = np.array([0.3, 2.0, -1.0]), np.array([1.0, 2.0, 3.0]), [1, 2, 5]
    vertices, simplex = Vertices(3), Simplex(3)
    np.testing.assert_array_equal(vertices.project(v, w), simplex.project(v, w))
    np.testing.assert_array_equal(vertices.maximize(v), simplex.maximize(v))
    np.testing.assert_array_equal(vertices.minimize_quadratic(v), simplex.minimize_quadratic(v))
    assert vertices.skewness(sizes) == simplex.skewness(sizes) == 8.0
    assert vertices.radius == simplex.radius == 1.0
    assert vertices.log_cover_size(0) == math.log(3)
    assert simplex.log_cover_size(0) == math.inf


def test_point() -> None:
    lam = np.array([0.2, 0.8])
    point = Point(lam)
    for answer in (
        point.project([5, 5]),
        point.project([5, 5], [1, 2]),
        point.maximize([9, 0]),
        point.minimize_quadratic([1, 0], [[1], [2]]),
    ):
        np.testing.assert_array_equal(answer, lam)
    assert point.radius == pytest.approx(math.sqrt(0.68))
    assert point.skewness([1, 1]) == pytest.approx(1.36)
    assert point.log_cover_size(0) == 0
    assert not point.contains([0.3, 0.7])


def test_hull_of_repeated_and_dependent_points() -> None:
    """The segment between the first two points; the third repeats one, the fourth is inside."""
    a, b = np.array([0.6, 0.2, 0.2]), np.array([0.0, 0.5, 0.5])
    hull = Hull([a, b, a, (a + b) / 2])
    for t in (0.0, 0.25, 1.0):
        np.testing.assert_allclose(hull.project(t * a + (1 - t) * b), t * a + (1 - t) * b)
    assert hull.contains(0.3 * a + 0.7 * b)
    assert not hull.contains([0.3, 0.3, 0.4])
    assert Hull([a]).project([1, 2, 3]) == pytest.approx(a)
    assert Hull([a, a]).log_cover_size(0) == 0


def test_more_points_than_domains() -> None:
    rng = np.random.default_rng(0)
    points = rng.dirichlet(np.ones(3), size=200)
    hull = Hull(points)
    for v in rng.normal(size=(50, 3)):
        lam = hull.project(v)
        assert np.max((points - lam) @ (v - lam)) <= 1e-13


def test_box_with_equal_bounds_and_without_upper_bounds() -> None:
    fixed = Box([0.25, 0.5, 0.0], [0.25, 0.5, np.inf])
    np.testing.assert_allclose(fixed.project([9, -9, 0]), [0.25, 0.5, 0.25])
    np.testing.assert_allclose(fixed.maximize([1, 2, 3]), [0.25, 0.5, 0.25])
    np.testing.assert_array_equal(fixed.upper, [0.25, 0.5, 1])
    assert Box([-1, 0], [5, np.inf]) == Box([0, 0], [1, 1])
    assert Box([0.5, 0.5], [1, 1]).log_cover_size(0) == 0


def test_cvar_is_the_mean_of_the_worst_share() -> None:
    """Ten equally likely losses 1..10: the worst 25 % are 10, 9 and half of 8."""
    tail = cvar(np.full(10, 0.1), 0.25)
    losses = np.arange(1, 11)
    assert tail.maximize(losses) @ losses == pytest.approx((10 + 9 + 8 / 2) / 2.5)
    assert cvar([0.3, 0.7], 1) == Box([0, 0], [0.3, 0.7])
    np.testing.assert_array_equal(cvar([0.3, 0.7], 1e-300).upper, [1, 1])


@pytest.mark.parametrize("center", [[0.5, 0.3, 0.2], [1, 0, 0], [0.5, 0.5, 0]])
def test_tv_ball_from_a_point_to_the_simplex(center: list[float]) -> None:
    rng = np.random.default_rng(0)
    c, simplex = np.array(center), Simplex(3)
    for v in rng.normal(size=(20, 3)):
        np.testing.assert_array_equal(TVBall(c, 0).project(v), c)
        np.testing.assert_allclose(TVBall(c, 0).maximize(v), c, rtol=0, atol=1e-15)
        for rho in (1, 1.0, 2.5):
            np.testing.assert_allclose(TVBall(c, rho).project(v), simplex.project(v))
            np.testing.assert_allclose(TVBall(c, rho).maximize(v), simplex.maximize(v))
    assert TVBall(c, 0).radius == pytest.approx(np.linalg.norm(c))
    assert TVBall(c, 1).radius == 1
    assert TVBall(c, 1).log_cover_size(0.1) == simplex.log_cover_size(0.1)
    assert TVBall(c, 0).log_cover_size(0) == 0


def test_tv_ball_moves_mass_from_the_smallest_losses_to_the_largest() -> None:
    ball = TVBall([0.1, 0.2, 0.3, 0.4], 0.25)
    np.testing.assert_allclose(ball.maximize([1, 2, 4, 3]), [0, 0.05, 0.55, 0.4])


def test_chi2_ball_on_two_equal_domains() -> None:
    """1 + χ² = 2(λ₁² + λ₂²) ≤ r is |λ₁ − ½| ≤ ½√(r − 1)."""
    for r in (1.0, 1 + 1e-12, 1.01, 1.5, 2.0):
        top = 0.5 + 0.5 * math.sqrt(r - 1)
        ball = Chi2Ball([7, 7], r)
        np.testing.assert_allclose(ball.maximize([3, 1]), [top, 1 - top], rtol=0, atol=1e-12)
        np.testing.assert_allclose(ball.project([9, -4]), [top, 1 - top], rtol=0, atol=1e-12)
        assert ball.radius == pytest.approx(math.hypot(top, 1 - top))
        assert ball.skewness([3, 3]) == pytest.approx(r)


def test_chi2_ball_so_large_that_it_is_the_base() -> None:
    rng = np.random.default_rng(0)
    base = Box([0.1, 0, 0], [0.5, 0.6, 1])
    ball = Chi2Ball([1, 2, 3], 1e6, base)
    for v in rng.normal(size=(20, 3)):
        np.testing.assert_array_equal(ball.project(v), base.project(v))
        np.testing.assert_array_equal(ball.maximize(v), base.maximize(v))
    assert ball.skewness([1, 2, 3]) == base.skewness([1, 2, 3])
    assert ball.log_cover_size(0.1) == base.log_cover_size(0.1)


@pytest.mark.parametrize(
    "base",
    [
        Simplex(3),
        Box([0.4, 0.1, 0], [0.8, 0.4, 0.2]),
        TVBall([0.7, 0.3, 0], 0.1),
        Hull([[0.9, 0.1, 0], [0.5, 0.5, 0], [0.4, 0.3, 0.3]]),
        Point([0.2, 0.2, 0.6]),
        Chi2Ball([3, 1, 1], 1.05),
    ],
)
def test_chi2_ball_of_the_least_radius_is_one_point(base: MixtureSet) -> None:
    sizes = np.array([1, 2, 5])
    least = least_skewness(sizes, base)
    ball = Chi2Ball(sizes, least, base)
    for answer in (
        ball.project([3, -2, 1]),
        ball.project([1, 2, 3], [1e3, 1, 1e-3]),
        ball.maximize([5, 1, 0]),
        ball.minimize_quadratic([1, 0, 0], [[1], [2], [3]]),
    ):
        assert ball.contains(answer, 1e-12)
        np.testing.assert_allclose(answer, ball.center, rtol=0, atol=1e-7)
    if least > 1:
        with pytest.raises(ValueError, match=r"r is .*, below .*, the least skewness in base"):
            Chi2Ball(sizes, 1 + 0.9 * (least - 1), base)


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e9, 1e300])
def test_chi2_maximiser_with_ties_at_every_scale(scale: float) -> None:
    """Equal sizes, two equal maxima: symmetry and the sphere give λ = (a, a, b, b), a > b."""
    ball = Chi2Ball([1, 1, 1, 1], 1.25)
    a = 0.25 + 0.25 * math.sqrt(0.25)
    answer = ball.maximize(scale * np.array([2.0, 2.0, 1.0, 1.0]))
    np.testing.assert_allclose(answer, [a, a, 0.5 - a, 0.5 - a], rtol=1e-12)
    np.testing.assert_array_equal(ball.maximize(np.full(4, scale)), ball.center)
    np.testing.assert_array_equal(ball.minimize_quadratic(np.full(4, scale)), ball.center)
    # the ball reaches the face of the two maxima: any member of it is a maximiser
    wide = Chi2Ball([1, 1, 1, 1], 2.5).maximize(scale * np.array([2.0, 2.0, 1.0, 0.0]))
    assert wide[:2].sum() == pytest.approx(1, rel=1e-12)


def test_chi2_of_chi2() -> None:
    """The same sizes twice: the smaller ball counts."""
    sizes, v = [1, 2, 3], [2.0, 0.5, -1.0]
    small, large = Chi2Ball(sizes, 1.2), Chi2Ball(sizes, 1.7)
    for nested in (Chi2Ball(sizes, 1.2, large), Chi2Ball(sizes, 1.7, small)):
        np.testing.assert_allclose(nested.project(v), small.project(v), rtol=0, atol=1e-12)
        np.testing.assert_allclose(nested.maximize(v), small.maximize(v), rtol=0, atol=1e-12)


# Radius, skewness and covers.


def test_a_narrow_chi2_ball_is_hardly_wider_than_its_middle() -> None:
    """On two domains λ = m̄ ± √((r−1) m₁m₂) (1, −1) are the ends: the largest ‖λ‖ is known.

    The bound exceeds it by no more than the step from m̄, √((r−1) max m̄), which is small.
    """
    m = np.array([0.1, 0.9])
    for over in (1e-12, 1e-6, 1e-3, 0.05):
        ball = Chi2Ball([1, 9], 1 + over)
        step = math.sqrt((ball.r - 1) * m.prod())
        ends = [m + step * np.array([1, -1]), m + step * np.array([-1, 1])]
        attained = max(float(np.linalg.norm(end)) for end in ends)
        middle = float(np.linalg.norm(m))
        assert attained <= ball.radius * (1 + 1e-15)
        assert ball.radius <= middle + math.sqrt((ball.r - 1) * m.max()) + 1e-15
        sizes = np.array([3.0, 1.0])
        attained = max(float(np.sum(end**2 * 4 / sizes)) for end in ends)
        middle = math.sqrt(np.sum(m**2 * 4 / sizes))
        assert attained <= ball.skewness(sizes) * (1 + 1e-15)
        reach = math.sqrt((ball.r - 1) * np.max(m * 4 / sizes))
        assert ball.skewness(sizes) <= (middle + reach) ** 2 + 1e-15


def test_a_wide_chi2_ball_has_the_radius_of_its_skewness() -> None:
    """Σ λ² ≤ max m̄ Σ λ²/m̄ ≤ r max m̄: equal sizes attain it."""
    ball = Chi2Ball([1, 1, 1, 1], 2.0)
    assert ball.radius == pytest.approx(math.sqrt(0.5), rel=1e-15)
    lam = ball.maximize([1.0, 1.0, 0.0, 0.0])
    assert np.linalg.norm(lam) == pytest.approx(math.sqrt(0.5), rel=1e-12)


def test_the_packing_covers_are_what_their_formulas_say() -> None:
    p, epsilon, rho, r = 6, 0.01, 0.004, 1 + 1e-4
    uniform = np.full(p, 1 / p)
    tv = TVBall(uniform, 0.02).log_cover_size(epsilon)
    assert tv == pytest.approx((p - 1) * math.log1p(4 * 0.02 / epsilon), rel=1e-12)
    assert TVBall(uniform, rho).log_cover_size(epsilon) == 0  # ε ≥ 2ρ: the centre alone
    assert TVBall(uniform, 0.00501).log_cover_size(epsilon) > 0
    chi2 = Chi2Ball(np.ones(p), r).log_cover_size(0.005)
    assert chi2 == pytest.approx((p - 1) * math.log1p(4 * 0.01 / 0.005), rel=1e-10)
    assert Chi2Ball(np.ones(p), r).log_cover_size(0.0201) == 0
    assert Chi2Ball(np.ones(p), r).log_cover_size(0.0199) > 0


def test_wide_balls_are_covered_by_the_grid_at_half_the_distance() -> None:
    """In each cell of the grid that holds a member, take it: two in one cell are ε apart."""
    half = Simplex(3).log_cover_size(0.1)
    assert TVBall([0.4, 0.3, 0.3], 0.6).log_cover_size(0.2) == pytest.approx(half, rel=1e-12)
    assert Chi2Ball([1, 1, 1], 2.9).log_cover_size(0.2) == pytest.approx(half, rel=1e-12)
    assert TVBall([0.4, 0.3, 0.3], 0.7).log_cover_size(0.2) == Simplex(3).log_cover_size(0.2)
    assert Chi2Ball([1, 1, 1], 3.0).log_cover_size(0.2) == Simplex(3).log_cover_size(0.2)
    assert Chi2Ball([1, 1, 1], 3.0, Vertices(3)).log_cover_size(0.2) == (
        Simplex(3).log_cover_size(0.2)  # its members are mixtures, not only vertices
    )


def test_covers_of_boxes_and_hulls_scale_with_them() -> None:
    """l + (1 − Σ l) Δ_p is covered by the grid at ε/(1 − Σ l); else at half of that, or of u."""
    grid = Simplex(4).log_cover_size
    assert Box([0.1] * 4, [1] * 4).log_cover_size(0.06) == pytest.approx(grid(0.1), rel=1e-12)
    assert Box([0.1] * 4, [0.5] * 4).log_cover_size(0.12) == pytest.approx(grid(0.1), rel=1e-12)
    assert Box([0.0] * 4, [0.3] * 4).log_cover_size(0.04) == pytest.approx(grid(0.1), rel=1e-9)
    a, b = np.array([0.3, 0.2, 0.3, 0.2]), np.array([0.2, 0.3, 0.2, 0.3])
    assert Hull([a, b]).log_cover_size(0.02) == pytest.approx(
        Simplex(2).log_cover_size(0.1), rel=1e-12
    )  # each is 0.2 from their mean
    assert Hull(np.eye(4)).log_cover_size(0.1) == grid(0.1)  # and never finer than ε


@pytest.mark.parametrize("p", [2, 3, 4, 5, 6])
def test_the_grid_is_as_fine_as_the_worst_rounding_needs(p: int) -> None:
    """If s of p equal fractions s/p go up the ℓ₁ error is 2s(1 − s/p)/N, most for s = ⌊p/2⌋."""
    epsilon = 0.05
    worst = max(2 * s * (1 - s / p) for s in range(p))
    count = math.comb(math.ceil(worst / epsilon - 1e-9) + p - 1, p - 1)
    assert Simplex(p).log_cover_size(epsilon) == pytest.approx(math.log(count), rel=1e-12)


def test_a_few_domains_are_enumerated_and_many_are_bounded() -> None:
    """At p = 12 every corner is tried, exactly; from 13 on chords may overrate one entry."""
    rng = np.random.default_rng(3)
    for p in (12, 13):
        c = rng.dirichlet(np.ones(p))
        box = Box(c * 0.5, c + 0.11)
        attained = max(
            float(np.sum(box.maximize(direction) ** 2)) for direction in rng.normal(size=(3000, p))
        )
        best = float(np.sum(box.maximize(c) ** 2))
        assert box.radius**2 >= max(attained, best) - 1e-15
        if p == 12:
            np.testing.assert_allclose(box.radius**2, max(attained, best), rtol=0.05)


def corners_by_maximizing(mixtures: MixtureSet, rng: Rng) -> Array:
    directions = rng.normal(size=(400, mixtures.n_domains))
    return np.array([mixtures.maximize(direction) for direction in directions])


@pytest.mark.parametrize("seed", range(20))
def test_radius_and_skewness_are_attained_for_few_domains(seed: int) -> None:
    """Random directions find every corner of a small polytope, independently of the formulas."""
    rng = np.random.default_rng(seed)
    p = 3
    c, sizes = rng.dirichlet(np.ones(p)), rng.uniform(1, 10, p)
    m = sizes / sizes.sum()
    for mixtures in (
        Simplex(p),
        Box(c * rng.uniform(0, 1, p), c + rng.uniform(0, 0.5, p)),
        TVBall(c, rng.uniform(0, 0.6)),
        TVBall(np.eye(p)[0], 0.3),
        Hull(rng.dirichlet(np.ones(p), size=4)),
    ):
        found = corners_by_maximizing(mixtures, rng)
        assert mixtures.radius == pytest.approx(np.linalg.norm(found, axis=1).max(), rel=1e-12)
        assert mixtures.skewness(sizes) == pytest.approx((found**2 / m).sum(axis=1).max())


@pytest.mark.parametrize("seed", range(5))
def test_bounds_for_many_domains_are_near_what_is_attained(seed: int) -> None:
    """Beyond 12 domains only one entry, off its bounds, is overrated: by at most a (u−l)²/4."""
    rng = np.random.default_rng(seed)
    p = 20
    c, sizes = rng.dirichlet(np.ones(p)), rng.uniform(1, 10, p)
    m = sizes / sizes.sum()
    box = Box(c * rng.uniform(0, 1, p), c + rng.uniform(0, 0.1, p))
    slack = np.max((box.upper - box.lower) ** 2 / m) / 4
    attained = np.sum(box.maximize((box.lower + box.upper) / m) ** 2 / m)
    assert attained <= box.skewness(sizes) <= attained + slack
    tv = TVBall(c, 0.3)
    by_domain = [
        np.sum(tv.maximize(c / m + 1e6 * np.eye(p)[j]) ** 2 / m) for j in range(p)
    ]  # j first, then by the slope of the chord
    assert max(by_domain) <= tv.skewness(sizes) <= max(by_domain) + np.max(c**2 / m) / 4


def test_simplex_grid_is_a_cover_of_the_stated_size() -> None:
    p, epsilon = 3, 0.3
    N = math.ceil(2 * (p // 2) * ((p + 1) // 2) / p / epsilon)
    counts = [n for n in itertools.product(range(N + 1), repeat=p) if sum(n) == N]
    assert Simplex(p).log_cover_size(epsilon) == pytest.approx(math.log(len(counts)))
    members = np.random.default_rng(0).dirichlet(np.ones(p), size=500)
    nearest = np.abs(members[:, None] - np.array(counts) / N).sum(axis=2).min(axis=1)
    assert nearest.max() <= epsilon


def test_covers_shrink_with_the_set() -> None:
    epsilon = 0.05
    simplex = Simplex(4).log_cover_size(epsilon)
    assert TVBall([0.25] * 4, 0.02).log_cover_size(epsilon) == 0
    assert 0 < TVBall([0.25] * 4, 0.03).log_cover_size(epsilon) < simplex
    assert 0 < Chi2Ball([1] * 4, 1.001).log_cover_size(epsilon) < simplex
    assert 0 < Box([0.2] * 4, [1] * 4).log_cover_size(epsilon) < simplex
    assert 0 < Hull([[0.3, 0.2, 0.3, 0.2], [0.2, 0.3, 0.2, 0.3]]).log_cover_size(epsilon) < simplex
    assert Simplex(4).log_cover_size(1.5) == 0
    assert Simplex(1).log_cover_size(0) == 0


# Values and checks.


def test_arrays_are_copied_and_read_only() -> None:
    lower, points, center = np.zeros(2), np.eye(2), np.array([0.5, 0.5])
    box, hull, ball = Box(lower, [1, 1]), Hull(points), TVBall(center, 0.1)
    lower[0] = points[0, 1] = center[0] = 9
    assert box == Box([0, 0], [1, 1])
    assert hull == Hull(np.eye(2))
    assert ball == TVBall([0.5, 0.5], 0.1)
    for array in (box.lower, box.upper, hull.points, Chi2Ball([1, 2], 1.5).sizes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    ball.center[0] = 9  # a copy: the set stays as it is
    assert ball == TVBall([0.5, 0.5], 0.1)


def test_repr_reads_like_the_call() -> None:
    assert repr(Simplex(3)) == "Simplex(n_domains=3)"
    assert repr(TVBall([0.5, 0.5], 0.25)) == "TVBall(center=[0.5, 0.5], rho=0.25)"
    assert repr(Chi2Ball([1, 3], 2)) == "Chi2Ball(sizes=[1., 3.], r=2.0, base=Simplex(n_domains=2))"


def test_different_sets_are_different() -> None:
    sets = [
        Simplex(2),
        Vertices(2),
        Point([0.5, 0.5]),
        Point([0.25, 0.75]),
        Hull([[0.5, 0.5]]),
        Box([0, 0], [1, 1]),
        TVBall([0.5, 0.5], 0.1),
        TVBall([0.5, 0.5], 0.2),
        Chi2Ball([1, 1], 1.5),
        Chi2Ball([1, 1], 1.5, Vertices(2)),
    ]
    assert len(set(sets)) == len(sets)
    assert Simplex(2) != "Simplex(2)"


@pytest.mark.parametrize("mixtures", [Simplex(2), Box([0, 0], [0.7, 1]), TVBall([0.5, 0.5], 0.2)])
def test_wrong_mixtures_are_not_contained(mixtures: MixtureSet) -> None:
    assert mixtures.contains([0.5, 0.5])
    assert mixtures.contains([0.5, 0.5 + 1e-10])
    assert not mixtures.contains([0.5, 0.6])
    assert not mixtures.contains([1.5, -0.5])
    assert not mixtures.contains([0.5, 0.5 + 1e-10], tol=1e-12)


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "no domains": (lambda: Simplex(0), "n_domains is 0; give"),
    "half a domain": (lambda: Vertices(2.5), "n_domains is 2.5"),  # type: ignore[arg-type]
    "true domains": (lambda: Simplex(True), "n_domains is True"),
    "domains as text": (lambda: Simplex("3"), "n_domains is '3'"),  # type: ignore[arg-type]
    "point not a distribution": (lambda: Point([0.5, 0.6]), "mixture has .* sum 1.1"),
    "point below zero": (lambda: Point([1.5, -0.5]), "mixture has the minimum -0.5"),
    "point empty": (lambda: Point([]), r"mixture has shape \(0,\)"),
    "point a matrix": (lambda: Point([[1.0]]), r"mixture has shape \(1, 1\)"),
    "point NaN": (lambda: Point([math.nan, 1]), "mixture has the entry nan"),
    "point text": (lambda: Point(["a", "b"]), "mixture is no array of numbers"),
    "point ragged": (lambda: Hull([[1.0], [0.5, 0.5]]), "points is no array of numbers"),
    "hull empty": (lambda: Hull([]), r"points has shape \(0,\)"),
    "hull of nothing": (lambda: Hull(np.zeros((0, 3))), r"points has shape \(0, 3\)"),
    "hull of a vector": (lambda: Hull([0.5, 0.5]), r"points has shape \(2,\)"),
    "hull not distributions": (lambda: Hull([[0.5, 0.5], [0.5, 0.4]]), "points has .* sum 0.9"),
    "hull inf": (lambda: Hull([[math.inf, 0.5]]), "points has the entry inf"),
    "box crossed": (lambda: Box([0.5, 0], [0.4, 1]), "lower has 0.5 > 0.4, .* at index 0; loosen"),
    "box too high": (lambda: Box([0.6, 0.6], [1, 1]), "lower sums to 1.2; .* ≤ 1"),
    "box too low": (lambda: Box([0, 0], [0.4, 0.5]), "upper sums to 0.9; .* ≥ 1"),
    "box lengths": (lambda: Box([0, 0], [1, 1, 1]), r"upper has shape \(3,\); give 2"),
    "box NaN": (lambda: Box([0, 0], [math.nan, 1]), "upper has the entry nan"),
    "box text": (lambda: Box([0, 0], ["a", 1]), "upper is no list of numbers"),
    "box inf": (lambda: Box([-math.inf, 0], [1, 1]), "lower has the entry -inf"),
    "cvar zero": (lambda: cvar([0.5, 0.5], 0), r"alpha is 0; .* \(0, 1\]"),
    "cvar above one": (lambda: cvar([0.5, 0.5], 1.1), "alpha is 1.1"),
    "cvar NaN": (lambda: cvar([0.5, 0.5], math.nan), "alpha is nan"),
    "cvar reference": (lambda: cvar([1, 2], 0.5), "reference has .* sum 3"),
    "tv negative": (lambda: TVBall([0.5, 0.5], -0.1), "rho is -0.1; give a number ≥ 0"),
    "tv infinite": (lambda: TVBall([0.5, 0.5], math.inf), "rho is inf"),
    "tv text": (lambda: TVBall([0.5, 0.5], "a"), "rho is 'a'"),  # type: ignore[arg-type]
    "tv center": (lambda: TVBall([1, 1], 0.1), "center has .* sum 2"),
    "chi2 below one": (lambda: Chi2Ball([1, 1], 0.99), "r is 0.99; give a number ≥ 1"),
    "chi2 NaN": (lambda: Chi2Ball([1, 1], math.nan), "r is nan"),
    "chi2 no rows": (lambda: Chi2Ball([1, 0], 2), "sizes has 0.0 at index 1; .* > 0"),
    "chi2 negative": (lambda: Chi2Ball([1, -3], 2), "sizes has -3.0"),
    "chi2 lengths": (lambda: Chi2Ball([1, 1], 2, Simplex(3)), r"sizes has shape \(2,\); give 3"),
    "chi2 empty": (
        lambda: Chi2Ball([1, 1], 1.5, Point([1, 0])),
        "r is 1.5, below 2, the least skewness in base; raise r",
    ),
    "project length": (lambda: Simplex(2).project([1, 2, 3]), r"v has shape \(3,\); give 2"),
    "project NaN": (lambda: Simplex(2).project([1, math.nan]), "v has the entry nan"),
    "project -inf": (lambda: Box([0], [1]).project([-math.inf]), "v has the entry -inf"),
    "project text": (lambda: Simplex(1).project(["x"]), "v is no list of numbers"),
    "point project": (lambda: Point([1.0]).project([1, 2]), r"v has shape \(2,\); give 1"),
    "weights zero": (lambda: Simplex(2).project([1, 2], [1, 0]), "weights has 0.0 .* > 0"),
    "weights inf": (lambda: Simplex(2).project([1, 2], [1, math.inf]), "weights has the entry inf"),
    "weights length": (lambda: Simplex(2).project([1, 2], [1]), "weights has shape"),
    "losses length": (lambda: Hull([[1.0]]).maximize([1, 2]), "losses has shape"),
    "losses inf": (lambda: Simplex(2).maximize([math.inf, 1]), "losses has the entry inf"),
    "contains length": (lambda: Simplex(2).contains([1]), r"mixture has shape \(1,\); give 2"),
    "contains NaN": (lambda: Simplex(2).contains([math.nan, 1]), "mixture has the entry nan"),
    "skewness sizes": (lambda: Simplex(2).skewness([1, 0]), "sizes has 0.0 at index 1"),
    "skewness length": (lambda: Simplex(2).skewness([1, 1, 1]), "sizes has shape"),
    "epsilon negative": (lambda: Simplex(2).log_cover_size(-1), "epsilon is -1"),
    "epsilon NaN": (lambda: Vertices(2).log_cover_size(math.nan), "epsilon is nan"),
    "quadratic c": (lambda: Simplex(2).minimize_quadratic([1]), "c has shape"),
    "quadratic factor": (
        lambda: Simplex(2).minimize_quadratic([1, 2], [[1.0]]),
        r"factor has shape \(1, 1\); give a matrix of 2 rows",
    ),
    "quadratic diagonal": (
        lambda: Simplex(2).minimize_quadratic([1, 2], None, [1, -1]),
        "diagonal has the entry -1.0; .* ≥ 0",
    ),
    "quadratic start": (
        lambda: Simplex(2).minimize_quadratic([1, 2], start=[1]),
        r"start has shape \(1,\); give 2",
    ),
    "shrunk below zero": (lambda: Simplex(2).shrunk(-0.1, [0.5, 0.5]), r"t is -0.1; .* \[0, 1\]"),
    "shrunk above one": (lambda: Simplex(2).shrunk(1.1, [0.5, 0.5]), "t is 1.1"),
    "shrunk NaN": (lambda: Simplex(2).shrunk(math.nan, [0.5, 0.5]), "t is nan"),
    "shrunk to nothing": (lambda: Shrunk(Simplex(2), 0, [0.5, 0.5]), r"t is 0; .* \(0, 1\]"),
    "shrunk length": (lambda: Simplex(2).shrunk(0.5, [1]), r"reference has shape \(1,\); give 2"),
    "shrunk reference": (lambda: Simplex(2).shrunk(0.5, [1, 2]), "reference has .* sum 3"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_input_is_named_with_what_was_found(bad: str) -> None:
    make, message = BAD[bad]
    with pytest.raises(InputError, match=f"^{message}") as caught:
        make()
    assert "\n" not in str(caught.value)


def test_numbers_of_any_size_are_finite() -> None:
    np.testing.assert_allclose(Simplex(2).project([1e300, 1e300]), [0.5, 0.5])
    np.testing.assert_allclose(project_simplex(np.array([1e-320, 0.0])), [0.5, 0.5])
