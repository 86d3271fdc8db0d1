"""A set with no more than `maximize` and `project`: everything else agrees with the exact sets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mixture_cases import Own
from numpy.typing import ArrayLike, NDArray

import anymix as ax
from anymix.errors import InputError

Array = NDArray[np.float64]
BASES = {
    "simplex": ax.Simplex(4),
    "box": ax.Box([0.1, 0.0, 0.2, 0.0], [0.6, 0.5, 0.5, 0.3]),
    "tv": ax.TVBall([0.3, 0.1, 0.2, 0.4], 0.25),
    "chi2": ax.Chi2Ball([1, 2, 3, 4], 1.5),
    "hull": ax.Hull([[0.5, 0.3, 0.2, 0.0], [0.1, 0.1, 0.8, 0.0], [0.3, 0.2, 0.1, 0.4]]),
}
each = pytest.mark.parametrize("name", BASES)
SIZES = np.array([10.0, 20.0, 5.0, 15.0])


def vectors(n: int = 20) -> Array:
    rng = np.random.default_rng(0)
    return np.asarray(rng.normal(size=(n, 4)) * 10 ** rng.uniform(-2, 2, (n, 1)))


@each
def test_what_is_computed_from_the_two_methods_is_exact(name: str) -> None:
    base, w = BASES[name], np.array([1e-3, 1.0, 30.0, 2.0])
    own = Own(base)
    for v in vectors():
        F = np.outer(v, [1.0, 0.0]) + np.eye(4)[:, :2]
        size = 1 + np.abs(v).max()
        lam = own.project(v, w)
        np.testing.assert_allclose(lam, base.project(v, w), rtol=0, atol=1e-7)
        g = w * (v - lam)
        assert g @ (base.maximize(g) - lam) <= 1e-14 * size * w.max()
        lam = own.minimize_quadratic(v, F, w)
        g = v - F @ (lam @ F) - w * lam
        assert g @ (base.maximize(g) - lam) <= 1e-13 * (size + np.abs(F).max() ** 2)
        member = base.project(v)
        assert own.contains(member)
        assert own.contains(own.center)
        outside = np.abs(member + 1e-6 * np.array([1.0, -1.0, 1.0, -1.0]))
        assert own.contains(outside, 1e-9) == base.contains(outside, 1e-9)


@each
def test_bounds_are_those_of_the_box_around(name: str) -> None:
    base, own = BASES[name], Own(BASES[name])
    upper = [base.maximize(e)[k] for k, e in enumerate(np.eye(4))]
    lower = [base.maximize(-e)[k] for k, e in enumerate(np.eye(4))]
    box = ax.Box(np.array(lower) - 1e-16, upper)
    assert base.radius <= own.radius + 1e-12
    assert own.radius == pytest.approx(box.radius)
    assert own.skewness(SIZES) == pytest.approx(box.skewness(SIZES))
    half = 2 * min(1 - sum(lower), sum(upper) - 1)
    grid = ax.Simplex(4).log_cover_size(0.1 / half)
    assert own.log_cover_size(0.1) == pytest.approx(grid)


def test_above_a_thousand_domains_the_bounds_are_those_of_the_simplex() -> None:
    own = Own(ax.Box(np.zeros(1001), np.full(1001, 0.01)))
    assert own.radius == 1.0
    assert own.log_cover_size(0.2) == ax.Simplex(1001).log_cover_size(0.1)


@each
def test_best_responses_and_sets_made_of_it(name: str) -> None:
    base, own = BASES[name], Own(BASES[name])
    chi2, prior = ax.Chi2Penalty(0.3, SIZES), ax.DirichletPrior([1.5, 2.0, 1.0, 3.0])
    for L in vectors(5):
        for penalty in (chi2, prior):
            lam = penalty.best_response(own, L)
            np.testing.assert_allclose(lam, penalty.best_response(base, L), atol=1e-6)
        r = (1 + ax.Chi2Ball(SIZES, 50, base=base).skewness(SIZES)) / 2
        for one, other in (
            (own.shrunk(0.4, SIZES / 50), base.shrunk(0.4, SIZES / 50)),
            (ax.Chi2Ball(SIZES, r, base=own), ax.Chi2Ball(SIZES, r, base=base)),
        ):
            np.testing.assert_allclose(one.maximize(L) @ L, other.maximize(L) @ L, atol=1e-9)
            np.testing.assert_allclose(one.project(L), other.project(L), atol=1e-9)


@each
def test_it_is_solved_over_like_the_exact_set(name: str) -> None:
    rng = np.random.default_rng(1)
    d = rng.integers(0, 4, 200)
    X = rng.normal(size=(200, 3)) + 0.3 * d[:, None]
    y = (X[:, 0] * np.where(d == 1, -1, 1) + rng.normal(size=200) > 0).astype(int)
    problem = ax.LinearDomains(X, y, d)
    for kwargs in ({}, {"mu": 0.1}, {"prior": ax.DirichletPrior([2.0] * 4)}):
        one = ax.solve(problem, Own(BASES[name]), gamma=0.1, tol=1e-8, **kwargs)
        other = ax.solve(problem, BASES[name], gamma=0.1, tol=1e-8, **kwargs)
        assert one.certificate.gap <= 1e-8
        assert one.objective == pytest.approx(other.objective, abs=2e-8)


def test_one_or_two_domains() -> None:
    for p in (1, 2):
        own = Own(ax.Simplex(p))
        assert own.corners is not None
        np.testing.assert_array_equal(own.corners, np.eye(p))
        assert own.radius == 1.0
        np.testing.assert_allclose(own.project(np.full(p, 9.0), np.ones(p)), np.full(p, 1 / p))
    assert Own(ax.Simplex(3)).corners is None


def test_a_player_steps_in_it() -> None:
    box = BASES["box"]
    one, other = ax.Adversary(Own(box), 0.3, start=box.center), ax.Adversary(box, 0.3)
    for v in vectors(10):
        one.step(v)
        other.step(v)
        np.testing.assert_array_equal(one.mixture, other.mixture)
    with pytest.raises(TypeError, match="KL"):
        ax.Adversary(Own(box), 0.3, kind="entropic")


def test_both_methods_must_be_there() -> None:
    class Half(ax.MixtureSet):
        def maximize(self, losses: ArrayLike) -> Array:
            return np.full(self.n_domains, 1 / self.n_domains)

    with pytest.raises(TypeError, match="project"):
        Half(2)  # type: ignore[abstract]


def test_a_set_needs_a_domain() -> None:
    with pytest.raises(InputError) as error:
        ax.MixtureSet.__init__(Own(ax.Simplex(1)), 0)
    assert error.value.argument == "n_domains"
    assert math.isclose(Own(ax.Simplex(2)).radius, 1.0)
