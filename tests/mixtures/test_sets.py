"""The laws of projections, maximisers and bounds, over all sets; values and checks."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixture_cases import (
    Case,
    a_case,
)
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
from anymix.mixtures.projections import project_simplex

Array = NDArray[np.float64]


# The laws, 300 examples each.


@given(a_case())
def test_answers_are_members(case: Case) -> None:
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


@given(a_case())
def test_projection_meets_the_variational_inequality(
    case: Case,
) -> None:
    """⟨w(v − Πv), z − Πv⟩ ≤ 0 for all members z: the worst z maximises the left side."""
    mixtures, v, u, w = case
    for weights in (None, w):
        lam = mixtures.project(v, weights)
        g = (1.0 if weights is None else w) * (v - lam)
        rounding = 1e-12 * np.max((1.0 if weights is None else w) * (np.abs(v) + 1))
        for z in (mixtures.maximize(g), mixtures.maximize(u), mixtures.center):
            assert g @ (z - lam) <= rounding


@given(a_case())
def test_projection_is_idempotent(case: Case) -> None:
    mixtures, v, _, w = case
    lam = mixtures.project(v)
    np.testing.assert_allclose(mixtures.project(lam), lam, rtol=0, atol=1e-13)
    growth = math.sqrt(w.max() / w.min())  # what rounding costs the heaviest, paid by the lightest
    np.testing.assert_allclose(mixtures.project(lam, w), lam, rtol=0, atol=1e-13 * growth)


@given(a_case())
def test_projection_is_non_expansive(case: Case) -> None:
    mixtures, v, u, _ = case
    for other in (u, v + 1e-3 * u / max(1.0, float(np.abs(u).max()))):
        apart = np.linalg.norm(mixtures.project(v) - mixtures.project(other))
        rounding = 1e-12 + 1e-15 * max(np.abs(v).max(), np.abs(other).max())
        assert apart <= np.linalg.norm(v - other) + rounding


@given(a_case())
def test_no_member_beats_the_maximiser(case: Case) -> None:
    mixtures, losses, v, w = case
    best = mixtures.maximize(losses) @ losses
    rounding = 1e-12 * np.abs(losses).max()
    for member in (mixtures.project(v), mixtures.project(losses, w), mixtures.center):
        assert member @ losses <= best + rounding


@given(a_case())
def test_quadratic_minimum_meets_the_variational_inequality(
    case: Case,
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


@given(a_case())
def test_bounds_hold_for_every_member(case: Case) -> None:
    mixtures, v, u, w = case
    m = w / w.sum()
    for member in (mixtures.project(v), mixtures.maximize(u), mixtures.maximize(-u)):
        assert np.linalg.norm(member) <= mixtures.radius * (1 + 1e-12)
        assert np.sum(member**2 / m) <= mixtures.skewness(w) * (1 + 1e-9)


@given(a_case(), st.floats(0.01, 3))
def test_members_far_apart_need_centres_of_their_own(case: Case, epsilon: float) -> None:
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


@given(a_case())
def test_sets_are_values(case: Case) -> None:
    mixtures, *_ = case
    same = pickle.loads(pickle.dumps(mixtures))
    assert same == mixtures
    assert hash(same) == hash(mixtures)
    assert repr(same) == repr(mixtures)
    assert mixtures != Simplex(mixtures.n_domains + 1)
    with pytest.raises(AttributeError, match="immutable"):
        mixtures.n_domains = 3


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
    "point NaN": (lambda: Point([math.nan, 1]), "mixture.*entry nan"),
    "point text": (lambda: Point(["a", "b"]), "mixture.*no array"),
    "point ragged": (lambda: Hull([[1.0], [0.5, 0.5]]), "points.*no array"),
    "hull empty": (lambda: Hull([]), r"points has shape \(0,\)"),
    "hull of nothing": (lambda: Hull(np.zeros((0, 3))), r"points has shape \(0, 3\)"),
    "hull of a vector": (lambda: Hull([0.5, 0.5]), r"points has shape \(2,\)"),
    "hull not distributions": (lambda: Hull([[0.5, 0.5], [0.5, 0.4]]), "points has .* sum 0.9"),
    "hull inf": (lambda: Hull([[math.inf, 0.5]]), "points.*entry inf"),
    "box crossed": (lambda: Box([0.5, 0], [0.4, 1]), "lower has 0.5 > 0.4,.* at index 0"),
    "box too high": (lambda: Box([0.6, 0.6], [1, 1]), "lower sums to 1.2; .* ≤ 1"),
    "box too low": (lambda: Box([0, 0], [0.4, 0.5]), "upper sums to 0.9; .* ≥ 1"),
    "box lengths": (lambda: Box([0, 0], [1, 1, 1]), r"upper has shape \(3,\); give 2"),
    "box NaN": (lambda: Box([0, 0], [math.nan, 1]), "upper.*entry nan"),
    "box text": (lambda: Box([0, 0], ["a", "b"]), "upper.*no list"),
    "box inf": (lambda: Box([-math.inf, 0], [1, 1]), "lower.*entry -inf"),
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
        "r is 1.5.*2.*least skewness",
    ),
    "project length": (lambda: Simplex(2).project([1, 2, 3]), r"v has shape \(3,\); give 2"),
    "project NaN": (lambda: Simplex(2).project([1, math.nan]), "v has the entry nan"),
    "project -inf": (lambda: Box([0], [1]).project([-math.inf]), "v has the entry -inf"),
    "project text": (lambda: Simplex(1).project(["x"]), "v.*no list"),
    "point project": (lambda: Point([1.0]).project([1, 2]), r"v has shape \(2,\); give 1"),
    "weights zero": (lambda: Simplex(2).project([1, 2], [1, 0]), "weights has 0.0 .* > 0"),
    "weights inf": (lambda: Simplex(2).project([1, 2], [1, math.inf]), "weights.*entry inf"),
    "weights length": (lambda: Simplex(2).project([1, 2], [1]), "weights has shape"),
    "losses length": (lambda: Hull([[1.0]]).maximize([1, 2]), "losses has shape"),
    "losses inf": (lambda: Simplex(2).maximize([math.inf, 1]), "losses.*entry inf"),
    "contains length": (lambda: Simplex(2).contains([1]), r"mixture has shape \(1,\); give 2"),
    "contains NaN": (lambda: Simplex(2).contains([math.nan, 1]), "mixture.*entry nan"),
    "skewness sizes": (lambda: Simplex(2).skewness([1, 0]), "sizes has 0.0 at index 1"),
    "skewness length": (lambda: Simplex(2).skewness([1, 1, 1]), "sizes has shape"),
    "epsilon negative": (lambda: Simplex(2).log_cover_size(-1), "epsilon is -1"),
    "epsilon NaN": (lambda: Vertices(2).log_cover_size(math.nan), "epsilon is nan"),
    "quadratic c": (lambda: Simplex(2).minimize_quadratic([1]), "c has shape"),
    "quadratic factor": (
        lambda: Simplex(2).minimize_quadratic([1, 2], [[1.0]]),
        r"factor has shape \(1, 1\)",
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
