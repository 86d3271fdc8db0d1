"""Projections against exact arithmetic: ties, faces, and numbers from 1e-320 to 1e308."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from exact_projection import exact_box, exact_chi2, exact_hull, exact_tv, rational, rounded
from numpy.typing import NDArray

import anymix as ax
from anymix.mixtures import (
    Box,
    Chi2Ball,
    Hull,
    MixtureSet,
    Point,
    Simplex,
    TVBall,
    Vertices,
    cvar,
)
from anymix.mixtures import projections as projection
from anymix.mixtures.chi2_ball import Crossing
from anymix.mixtures.projections import project_box
from anymix.mixtures.qp.active_sets import Face
from anymix.mixtures.qp.dual_newton import Dual

Array = NDArray[np.float64]
Rng = np.random.Generator
SCALES = [1e-300, 1e-20, 1e-9, 1.0, 1.0, 10.0, 1e3, 1e9, 1e16, 1e17, 1e100, 1e299, 1e308]


def vectors(rng: Rng, p: int, w: Array) -> Iterator[Array]:
    """Of every kind that has hurt: spread over all exponents, tied, tied but for the last bit."""
    scale = rng.choice(SCALES)
    yield scale * rng.uniform(-1, 1, p)
    yield (scale / 2) * np.round(rng.uniform(-2, 2, p))
    yield scale * rng.uniform(0.5, 1) * (1 + np.spacing(1.0) * rng.integers(-3, 4, p))
    yield 10.0 ** rng.uniform(-308, 308, p) * rng.choice([-1, 1], p)
    yield rng.uniform(0.5, 1, p) * 10.0 ** rng.uniform(0, 18, p)
    yield (scale / 2) * (w.min() / w) * (1 + np.spacing(1.0) * rng.integers(-2, 3, p))  # w v tied
    yield rng.uniform(0, 1, p) + (scale / 2) * (w.min() / w)
    yield np.eye(p)[0] + scale * rng.integers(0, 2, p)


def weights(rng: Rng, p: int) -> Array:
    powers = rng.choice([0.0, 1.0]) * (
        rng.uniform(-12, 12, p) if rng.random() < 0.5 else rng.integers(-12, 13, p)
    )
    return np.asarray(10.0**powers)


def a_box(rng: Rng, p: int) -> Box:
    c = rng.dirichlet(np.ones(p))
    floor, roof = rng.uniform(0, 1, (2, p)) * rng.integers(0, 2, (2, p))
    return rng.choice(np.array([Box(c * floor, c + roof), cvar(c, rng.uniform(0.1, 1))]))  # type: ignore[no-any-return]


class Looks:
    """How often the loops of a projection go round; none may go on for long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        for owner, name in (
            (projection, "seen_from"),
            (projection, "_pivots"),
            (Crossing, "_f"),
            (Face, "__init__"),
            (Dual, "at"),
        ):
            monkeypatch.setattr(owner, name, self._counted(name, getattr(owner, name)))

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.now[name] += 1
            return call(*args, **kwargs)

        return counted

    def end(self) -> None:
        self.most |= self.now
        self.now.clear()


def compare_boxes(cases: int, seed: int, looks: Looks) -> float:
    """The largest error of weighted and plain projections onto simplices and boxes."""
    rng, worst = np.random.default_rng(seed), 0.0
    for _ in range(cases):
        p = int(rng.integers(1, 7))
        w, box = weights(rng, p), a_box(rng, p)
        for v in vectors(rng, p, w):
            for mixtures, lower, upper in (
                (Simplex(p), np.zeros(p), np.ones(p)),
                (box, box.lower, box.upper),
            ):
                for a in (w, None):
                    lam = mixtures.project(v, a)
                    looks.end()
                    exact = exact_box(
                        rational(v),
                        rational(np.ones(p) if a is None else a),
                        rational(lower),
                        rational(upper),
                    )
                    assert abs(lam.sum() - 1) <= 1e-13
                    worst = max(worst, float(np.abs(lam - rounded(exact)).max()))
    return worst


def test_boxes_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    assert compare_boxes(40, 0, looks) <= 2e-14
    assert looks.most["seen_from"] <= 8
    assert looks.most["_pivots"] <= 60


@pytest.mark.slow
def test_boxes_are_exact_in_a_hundred_thousand_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    assert compare_boxes(3200, 1, looks) <= 2e-14
    assert looks.most["seen_from"] <= 8
    assert looks.most["_pivots"] <= 60


def test_weights_do_not_take_the_sum_from_huge_values() -> None:
    v, w = [4e299, 1e299, -3e299], [1e10, 1e10, 1e12]
    np.testing.assert_array_equal(Simplex(3).project(v, w), [1, 0, 0])
    box = Box([0, 0.1, 0.2], [0.5, 1, 1])
    np.testing.assert_allclose(box.project(v, w), [0.5, 0.3, 0.2], rtol=1e-15)


def test_the_last_bit_of_huge_products_decides() -> None:
    """w v is 1e300 for all, but for what rounding took: the largest of the exact products wins."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        w = 10.0 ** rng.uniform(-12, 12, 4)
        v = 1e300 * (w.min() / w)
        products = [x * y for x, y in zip(rational(v), rational(w), strict=True)]
        order = sorted(range(4), key=products.__getitem__)
        exact = np.zeros(4)
        exact[order[3]] = 1
        np.testing.assert_allclose(Simplex(4).project(v, w), exact, rtol=0, atol=1e-15)
        exact[order] = [0, 0.2, 0.4, 0.4]
        capped = Box(np.zeros(4), np.full(4, 0.4))
        np.testing.assert_allclose(capped.project(v, w), exact, rtol=0, atol=1e-15)


def test_a_sum_that_rounding_would_miss_is_put_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever τ is found, Σ λ = total."""
    monkeypatch.setattr(projection, "_multiplier", lambda *args: 0.1)
    lam = project_box(np.array([0.3, 0.9, 0.0]), np.ones(3), np.zeros(3), np.ones(3))
    assert lam.sum() == pytest.approx(1, abs=1e-15)
    lam = project_box(np.array([0.3, 0.2, 0.0]), np.ones(3), np.zeros(3), np.ones(3))
    assert lam.sum() == pytest.approx(1, abs=1e-15)


def test_a_level_that_is_off_by_little_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum off by 1e-12 is more than rounding: a second pass brings it to 1e-14."""
    errors = iter([1e-12, 0.0, 0.0, 0.0])
    right = projection._multiplier
    monkeypatch.setattr(projection, "_multiplier", lambda *args: right(*args) + next(errors))
    lam = project_box(np.array([0.3, 0.9, 0.0]), np.ones(3), np.zeros(3), np.ones(3))
    np.testing.assert_allclose(lam, [0.2, 0.8, 0], rtol=0, atol=1e-14)


def compare_tv(cases: int, seed: int) -> float:
    rng, worst = np.random.default_rng(seed), 0.0
    for _ in range(cases):
        p = int(rng.integers(2, 6))
        w, c = weights(rng, p), rng.dirichlet(np.full(p, rng.choice([0.2, 1.0])))
        c = np.eye(p)[0] if rng.random() < 0.2 else c
        ball = TVBall(c, rng.choice([1e-12, 1e-6, 0.05, 0.3, 0.9]))
        center = rational(ball.center)
        for v in vectors(rng, p, w):
            lam = ball.project(v, w)
            exact = exact_tv(rational(v), rational(w), center, Fraction(ball.rho))
            worst = max(worst, float(np.abs(lam - rounded(exact)).max()))
    return worst


def test_total_variation_balls_are_exact() -> None:
    assert compare_tv(40, 0) <= 4e-14


@pytest.mark.slow
def test_total_variation_balls_are_exact_in_many_cases() -> None:
    assert compare_tv(2500, 1) <= 4e-14


def close_points(rng: Rng, n: int, p: int, apart: float) -> Array:
    """n mixtures about `apart` from each other, or anywhere for apart = 1."""
    points = rng.dirichlet(np.ones(p)) + apart * rng.uniform(-1, 1, (n, p))
    points = np.abs(points)
    return np.asarray(points / points.sum(axis=1, keepdims=True))


def compare_hulls(cases: int, seed: int, looks: Looks) -> float:
    """The largest error over the size of v, which is how far a last bit of the points counts."""
    rng, worst = np.random.default_rng(seed), 0.0
    for _ in range(cases):
        p, n = int(rng.integers(2, 5)), int(rng.integers(1, 5))
        points = close_points(rng, n, p, rng.choice([1.0, 1e-3, 1e-9, 1e-12]))
        points[-1] = points[0] if rng.random() < 0.2 else points[-1]
        hull, w = Hull(points), 10 ** rng.uniform(-1, 1, p)
        v = rng.normal(size=p) * rng.choice([1e-9, 1.0, 10.0])
        v = hull.points[0] if rng.random() < 0.2 else v
        lam = hull.project(v, w)
        looks.end()
        exact = rounded(exact_hull([rational(x) for x in hull.points], rational(v), rational(w)))
        worst = max(worst, float(np.abs(lam - exact).max() / max(1.0, np.abs(v).max())))
    return worst


def test_hulls_are_exact_however_near_their_points(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    assert compare_hulls(200, 0, looks) <= 1e-12
    assert looks.most["__init__"] <= 100
    assert looks.most["at"] <= 300


@pytest.mark.slow
def test_hulls_are_exact_in_many_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    assert compare_hulls(10_000, 1, looks) <= 1e-12
    assert looks.most["__init__"] <= 100
    assert looks.most["at"] <= 600  # of up to nine programs in turn


def compare_chi2(cases: int, seed: int) -> float:
    """The largest error over what the last bit of r does to λ, which is much in a tiny ball."""
    rng, worst = np.random.default_rng(seed), 0.0
    for _ in range(cases):
        p = int(rng.integers(2, 5))
        base, sizes = a_box(rng, p), rng.integers(1, 100, p)
        base = Box(np.zeros(p), np.ones(p)) if rng.random() < 0.5 else base
        m, w = sizes / sizes.sum(), 10 ** rng.uniform(-2, 2, p)
        lower, upper = rational(base.lower), rational(base.upper)
        least = float(np.sum(base.project(m, 1 / m) ** 2 / m))
        over = 10.0 ** rng.choice([-11, -10, -9, -6, -4, -2, 0, 1])
        ball = Chi2Ball(sizes, max(1.0, least) * (1 + over), base)
        v = rng.normal(size=p) * rng.choice([1e-9, 1.0, 100.0])

        def project(x: list[Fraction], a: list[Fraction]) -> list[Fraction]:
            return exact_box(x, a, lower, upper)  # noqa: B023

        exact = exact_chi2(rational(v), rational(w), rational(sizes), Fraction(ball.r), project)
        error = float(np.abs(ball.project(v, w) - rounded(exact)).max())
        worst = max(worst, error / (1 + 1e-3 / over**0.5))
    return worst


def test_chi2_balls_are_exact() -> None:
    assert compare_chi2(25, 0) <= 1e-12


@pytest.mark.slow
def test_chi2_balls_are_exact_in_many_cases() -> None:
    assert compare_chi2(2000, 1) <= 1e-12


# No set takes long.


def all_sets(rng: Rng, p: int) -> Iterator[MixtureSet]:
    """Each kind, and a χ² ball over each: narrow ones, wide ones, hulls of nearly equal points."""
    c, sizes = rng.dirichlet(np.ones(p)), rng.integers(1, 50, p)
    bases = [
        Simplex(p),
        Vertices(p),
        Point(c),
        Hull(close_points(rng, 4, p, 1.0)),
        Hull(close_points(rng, 6, p, rng.choice([1e-12, 1e-9, 1e-6]))),
        Box(c / 2, np.minimum(1, 1.5 * c)),
        cvar(c, 0.6),
        TVBall(c, 0.2),
        TVBall(np.eye(p)[0], 0.3),
    ]
    yield from bases
    m = sizes / sizes.sum()
    for base in bases:
        least = max(1.0, float(np.sum(base.project(m, 1 / m) ** 2 / m)))
        over = 10.0 ** rng.choice([-12, -9, -6, -4, -2, 0, 6])
        yield Chi2Ball(sizes, least * (1 + over), base)
    for base in bases:
        yield base.shrunk(rng.choice([1e-9, 1e-3, 0.5]), m)


def go_round(cases: int, seed: int, looks: Looks) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(cases):
        p = int(rng.integers(2, 7))
        for mixtures in all_sets(rng, p):
            v = rng.choice([1e-9, 1.0, 1.0, 1e3, 1e9]) * rng.normal(size=p)
            v, w = np.round(v) if rng.random() < 0.3 else v, 10 ** rng.uniform(-3, 3, p)
            F = rng.choice([1.0, 1e5]) * rng.normal(size=(p, int(rng.integers(1, 4))))
            answers: list[Callable[[], Array]] = [
                partial(mixtures.project, v),
                partial(mixtures.project, v, w),
                partial(mixtures.maximize, v),
                partial(mixtures.minimize_quadratic, v, F),
            ]
            for answer in answers:
                lam = answer()
                looks.end()
                assert abs(lam.sum() - 1) <= 1e-12
                assert mixtures.contains(lam, 1e-9)
                looks.now.clear()


def test_no_projection_goes_on_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    go_round(4, 0, looks)
    assert looks.most["_f"] <= 40
    assert looks.most["__init__"] <= 1500
    assert looks.most["at"] <= 4000


@pytest.mark.slow
def test_no_projection_of_many_goes_on_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    go_round(400, 1, looks)
    assert looks.most["_f"] <= 50
    assert looks.most["__init__"] <= 1500
    assert looks.most["at"] <= 4000


def test_a_leap_from_point_to_point_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over so small a hull λ(ν) leaps, and only where two points are equally good."""
    looks, rng = Looks(monkeypatch), np.random.default_rng(0)
    for _ in range(30):
        hull = Hull(close_points(rng, 6, 4, rng.choice([1e-9, 1e-6, 1e-3])))
        m = rng.dirichlet(np.ones(4))
        least, most = (float(np.sum(x**2 / m)) for x in (hull.project(m, 1 / m), hull.points[0]))
        ball = Chi2Ball(m, least + rng.uniform(0.1, 0.9) * (most - least), hull)
        looks.now.clear()
        ball.maximize(rng.normal(size=4))
        looks.end()
    assert looks.most["_f"] <= 25


@pytest.mark.parametrize("apart", [1e-9, 1e-12])
def test_solving_over_a_tiny_hull_in_a_ball_is_short_work(
    apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over so small a set λ(ν) leaps from point to point, and f is no line."""
    looks, rng = Looks(monkeypatch), np.random.default_rng(0)
    X, d = rng.normal(size=(17, 3)), np.arange(17) % 5
    y = (X[:, 0] + rng.normal(size=17) > 0).astype(int)
    problem = ax.LinearDomains(X, y, d)
    hull, m = Hull(close_points(rng, 7, 5, apart)), problem.sizes / problem.sizes.sum()
    least = float(np.sum(hull.project(m, 1 / m) ** 2 / m))
    looks.now.clear()
    solution = ax.solve(problem, Chi2Ball(problem.sizes, least * (1 + 1e-12), hull))
    assert solution.certificate.gap <= 1e-6
    assert looks.now["__init__"] <= 5000
    assert looks.now["at"] <= 10_000


# Numbers near the largest and the smallest there are.

EXTREMES = np.array([1.7e308, -1.7e308, 1e308, -1e308, 1e300, 1.0, 0.0, 5e-324, -5e-324, 1e-310])


def test_the_largest_losses() -> None:
    """Equal sizes but one: the two maxima share as their sizes do, and the third has the rest."""
    lam = Chi2Ball([1, 2, 3], 1.2).maximize([1e308, 1e308, -1e308])
    np.testing.assert_allclose(lam, Chi2Ball([1, 2, 3], 1.2).maximize([1, 1, -1]), rtol=1e-14)
    assert lam[1] == pytest.approx(2 * lam[0], rel=1e-14)
    assert np.sum(lam**2 * [6, 3, 2]) == pytest.approx(1.2, rel=1e-14)


@pytest.mark.parametrize("seed", range(2))
def test_every_set_takes_every_number(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = 3 + seed % 2
    for mixtures in all_sets(rng, p):
        for v in (
            rng.choice(EXTREMES, p),
            10.0 ** rng.uniform(-320, 308, p) * rng.choice([-1, 1], p),
            1e308 * (1 - np.spacing(1.0) * rng.integers(0, 4, p)),
        ):
            w, F, D = 10.0 ** rng.uniform(-12, 12, p), rng.choice(EXTREMES, (p, 1)), np.abs(v)
            best = mixtures.maximize(v)
            for lam in (
                best,
                mixtures.project(v),
                mixtures.project(v, w),
                mixtures.minimize_quadratic(v, F, D),
                mixtures.minimize_quadratic(v, F),
                mixtures.minimize_quadratic(v, None, D),
            ):
                assert mixtures.contains(lam, 1e-9)
                assert lam.min() >= 0
                assert abs(lam.sum() - 1) <= 1e-12
                assert_no_better(v, best, lam, 1e-9)


def assert_no_better(losses: Array, best: Array, other: Array, share: float) -> None:
    """⟨other, L⟩ ≤ ⟨best, L⟩ in exact numbers, up to a share of the spread of L."""
    top = Fraction(float(losses.max()))
    exact = [x - top for x in rational(losses)]
    ahead = sum((y - x) * z for x, y, z in zip(rational(best), rational(other), exact, strict=True))
    assert ahead <= Fraction(share) * -min(exact)


def test_the_matrix_decides_between_equal_huge_losses() -> None:
    D = np.array([1.0, 3.0, 1.0])
    for c in ([1e200, 1e200, -1e200], [1e308, 1e308, -1e308]):
        for mixtures in (Simplex(3), Hull(np.eye(3)), Chi2Ball([1, 1, 1], 2.5)):
            lam = mixtures.minimize_quadratic(c, None, D)
            np.testing.assert_allclose(lam, [0.75, 0.25, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_the_scale_of_a_quadratic_does_not_matter(scale: float) -> None:
    rng = np.random.default_rng(0)
    c, F, D = rng.normal(size=4), rng.normal(size=(4, 2)), rng.uniform(size=4)
    for mixtures in all_sets(rng, 4):
        once = mixtures.minimize_quadratic(c, F, D)
        again = mixtures.minimize_quadratic(scale * c, np.sqrt(scale) * F, scale * D)
        np.testing.assert_allclose(again, once, rtol=0, atol=1e-9)
