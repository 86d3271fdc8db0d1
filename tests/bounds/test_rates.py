"""Theorem 2: its constants hold over the whole ball, its formulas, and the gap that is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from anymix.bounds.rates import Constants, constants, convergence, step_sizes
from anymix.bounds.variance import variances
from anymix.mixtures import Box, Chi2Ball, MixtureSet, Point, Simplex, TVBall
from anymix.objective import Objective
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Hinge, Huber, Loss, SquaredError
from anymix.solvers.exact import Solution, solve
from anymix.solvers.samplers import EveryDomain, FullBatch, PerDomain, UniformDomain, Weighted
from anymix.solvers.stochastic import stochastic_afl

Array = NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)
SAMPLERS: list[Any] = [PerDomain(), PerDomain(3), Weighted(), Weighted(3), FullBatch()]


def make(kind: str, seed: int, p: int = 3, rows: int = 8, form: str = "dense") -> LinearDomains:
    """Domains that mostly agree on (√2, −√2), with more noise from one to the next."""
    rng = np.random.default_rng(seed)
    d = np.arange(rows * p) % p
    X: Any = rng.uniform(-1, 1, size=(len(d), 2))
    W = np.array([2.0, -2.0]) / math.sqrt(2) + 0.5 * rng.normal(size=(p, 2))
    z = np.einsum("ij,ij->i", X, W[d])
    losses: dict[str, Loss] = {"squared": SquaredError(), "huber": Huber(0.5), "hinge": Hinge()}
    if kind in ("squared", "huber"):
        y = z + 0.3 * rng.normal(size=len(d)) * (1 + d)
        return LinearDomains(X, y, d, losses[kind])
    y = np.digitize(z + rng.normal(size=len(d)), [-1.0, 1.0] if kind == "classes" else [0.0])
    X = sparse.csr_array(X) if form == "csr" else X
    n_classes = 3 if kind == "classes" else 2
    return LinearDomains(X, y, d, losses.get(kind, CrossEntropy()), classes=range(n_classes))


# -- the constants ---------------------------------------------------------------------------------


@given(
    seeds,
    st.sampled_from(["binary", "classes", "squared", "huber", "hinge"]),
    st.sampled_from(["squared", "plain"]),
    st.floats(0.01, 20),
    st.booleans(),
)
def test_no_point_of_the_ball_exceeds_the_constants(
    seed: int, kind: str, norm: str, radius: float, inside: bool
) -> None:
    problem, rng = make(kind, seed), np.random.default_rng(seed)
    w = rng.normal(size=problem.n_parameters)
    w *= radius / np.linalg.norm(w) * (rng.random() if inside else 1)
    mixtures = [Simplex(3), TVBall([0.5, 0.3, 0.2], 0.1), Chi2Ball([3, 2, 1], 1.3)][seed % 3]
    lam = mixtures.project(rng.dirichlet(np.ones(3)))
    b, gamma, mu = rng.normal(size=3) * rng.integers(0, 2), rng.random(), rng.integers(0, 2) * 0.7
    c = constants(problem, mixtures, w_radius=radius, gamma=gamma, mu=mu, norm=norm, offsets=b)
    objective = Objective(mixtures, gamma, mu=mu, norm=norm, offsets=b).on(problem)
    room = 1 + 1e-9
    values = problem.loss.derivatives(problem.scores(w), problem.y, 0)[0]
    assert values.max() <= room * c.M
    assert np.linalg.norm(lam) <= room * c.R_mixture
    slope = problem.gradient(w, lam) + objective.regularizer_gradient(w)
    assert np.linalg.norm(slope) <= room * c.G_w
    ascent = problem.losses(w) - b - objective.penalty.gradient(lam)
    assert np.linalg.norm(ascent) <= room * c.G_mixture
    v = variances(problem, w, lam, b)
    assert v.per_domain <= room * c.sigma_w**2
    assert v.every_domain <= room * c.sigma_mixture**2
    c = constants(problem, mixtures, w_radius=radius, sampler=Weighted(), offsets=b)
    assert v.weighted <= room * c.sigma_w**2
    assert v.uniform_domain <= room * c.sigma_mixture**2


def test_constants_by_hand() -> None:
    # The longest row is (3, 4), of length 5, so |z| ≤ 10 on the ball of radius 2.
    X, y = [[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]], [1.0, -2.0, 0.5]
    problem = LinearDomains(X, y, [0, 0, 1], SquaredError(), intercept=False)
    c = constants(
        problem,
        TVBall([0.5, 0.5], 0.1),
        w_radius=2.0,
        sampler=Weighted(4),
        mixture_sampler=EveryDomain(9),
    )
    M = 0.5 * (10 + 2) ** 2
    assert abs(c.M - M) < 1e-9
    assert c.G_w == pytest.approx(12 * 5)
    assert c.sigma_w == pytest.approx(12 * 5 / 2)
    assert c.G_mixture == pytest.approx(math.sqrt(2) * M)
    assert c.sigma_mixture == pytest.approx(math.sqrt(2) * M / 3)
    assert c.R_mixture == pytest.approx(math.hypot(0.6, 0.4))
    assert c.R_w == 2.0


def test_regulariser_penalty_and_offsets_enter_the_constants() -> None:
    problem = make("hinge", 0)
    plain = constants(problem, None, w_radius=3.0)
    squared = constants(problem, None, w_radius=3.0, gamma=0.5)
    assert squared.G_w == pytest.approx(plain.G_w + 0.5 * 3)
    assert constants(problem, None, w_radius=3.0, gamma=0.5, norm="plain").G_w == pytest.approx(
        plain.G_w + 0.5
    )
    # m̄ = ⅓ each: at a vertex 2μ‖λ/m̄ − 1‖ = 2μ √(2² + 1 + 1), and the bound is sharp there
    assert constants(problem, None, w_radius=3.0, mu=0.25).G_mixture == pytest.approx(
        plain.G_mixture + 0.5 * math.sqrt(6)
    )
    b = [0.0, 1.0, plain.M + 1]
    B = math.sqrt(plain.M**2 + (plain.M - 1) ** 2 + (plain.M + 1) ** 2)
    shifted = constants(problem, None, w_radius=3.0, offsets=b)
    assert shifted.G_mixture == pytest.approx(B)
    assert shifted.sigma_mixture == pytest.approx(B)


@pytest.mark.parametrize(
    ("sampler", "noise", "mixture_noise"),
    [
        (FullBatch(), 0, 0),
        (PerDomain(), 1, 1),
        (PerDomain(4), 1 / 2, 1 / 2),
        (Weighted(), 1, math.sqrt(3)),
        (Weighted(3), 1 / math.sqrt(3), 1),
    ],
    ids=repr,
)
def test_the_lemmas_enter_as_printed(sampler: Any, noise: float, mixture_noise: float) -> None:
    problem = make("hinge", 0)  # p = 3, R_Λ = 1: R_Λ²σ_I², σ_I² + σ_O², pM², p²M²
    c = constants(problem, Simplex(3), w_radius=1.0, sampler=sampler)
    assert c.sigma_w == pytest.approx(noise * c.G_w)
    assert c.sigma_mixture == pytest.approx(mixture_noise * math.sqrt(3) * c.M)
    point = constants(problem, Point([0.5, 0.3, 0.2]), w_radius=1.0, sampler=PerDomain())
    assert point.sigma_w == pytest.approx(math.sqrt(0.38) * point.G_w)


def test_sparse_rows_give_the_same_constants() -> None:
    assert constants(make("binary", 1, form="csr"), None, w_radius=2.0) == constants(
        make("binary", 1), None, w_radius=2.0
    )


# -- the formulas ----------------------------------------------------------------------------------


def test_step_sizes_and_rate_by_hand() -> None:
    c = Constants(R_w=5, R_mixture=0.5, G_w=3, G_mixture=12, sigma_w=4, sigma_mixture=5, M=1)
    assert step_sizes(c, 4) == pytest.approx((2 * 5 / (2 * 5), 2 * 0.5 / (2 * 13)))
    assert convergence(c, 4) == pytest.approx(3 * 5 * 5 / 2 + 3 * 0.5 * 13 / 2)


@given(st.lists(st.floats(1e-3, 1e3), min_size=6, max_size=6), st.integers(1, 10**9))
def test_the_rate_is_what_the_step_sizes_make_of_the_proof(numbers: list[float], T: int) -> None:
    R_w, R_m, G_w, G_m, s_w, s_m = numbers
    c = Constants(R_w, R_m, G_w, G_m, s_w, s_m, 1.0)
    a, b = step_sizes(c, T)
    # the last display of the proof; Rσ ≤ R√(σ² + G²) turns it into the theorem
    proof = 2 * R_w**2 / (T * a) + a * (s_w**2 + G_w**2) / 2 + R_w * s_w / math.sqrt(T)
    proof += 2 * R_m**2 / (T * b) + b * (s_m**2 + G_m**2) / 2 + R_m * s_m / math.sqrt(T)
    rate = convergence(c, T)
    assert 2 / 3 * rate <= proof * (1 + 1e-9)
    assert proof <= rate * (1 + 1e-9)
    assert convergence(replace(c, sigma_w=s_w * 2), T) >= rate


def test_nothing_to_learn_gives_steps_of_zero() -> None:
    still = Constants(1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert step_sizes(still, 10) == (0.0, 0.0)
    assert convergence(still, 10) == 0.0


@pytest.mark.parametrize("n_steps", [0, -1, 2.5, np.nan, np.inf, "10", None])
def test_bad_numbers_of_steps_are_refused(n_steps: Any) -> None:
    c = Constants(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="n_steps"):
        step_sizes(c, n_steps)
    with pytest.raises(ValueError, match="n_steps"):
        convergence(c, n_steps)


@pytest.mark.parametrize("radius", [0.0, -1.0, np.nan, np.inf, None, "1"])
def test_bad_radii_are_refused(radius: Any) -> None:
    with pytest.raises(ValueError, match="w_radius"):
        constants(make("hinge", 0), None, w_radius=radius)


def test_unknown_samplers_and_wrong_sets_are_refused() -> None:
    problem: Any = make("hinge", 0)
    wrong: Any = UniformDomain()
    with pytest.raises(ValueError, match="sampler is UniformDomain"):
        constants(problem, None, w_radius=1.0, sampler=wrong, mixture_sampler=FullBatch())
    wrong = PerDomain()
    with pytest.raises(ValueError, match="mixture_sampler is PerDomain"):
        constants(problem, None, w_radius=1.0, sampler=PerDomain(), mixture_sampler=wrong)
    with pytest.raises(ValueError, match="mixtures is over 2 domains"):
        constants(problem, Simplex(2), w_radius=1.0)
    with pytest.raises(ValueError, match="gamma"):
        constants(problem, None, w_radius=1.0, gamma=-1.0)


# -- the measured gap ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A convex problem, and how it is sampled."""

    kind: str
    mixtures: MixtureSet
    sampler: Any
    gamma: float = 0.0

    @cached_property
    def problem(self) -> LinearDomains:
        return make(self.kind, 1, rows=20)

    @cached_property
    def best(self) -> Solution:
        return solve(self.problem, self.mixtures, gamma=self.gamma, tol=1e-7)

    @property
    def radius(self) -> float:
        """The certified optimum lies inside, so it is also that of the ball."""
        return 1.2 * float(np.linalg.norm(self.best.w))

    def gap(self, n_steps: int, seed: int) -> float:
        """Of w^A after n_steps of the theory's sizes."""
        c = constants(
            self.problem,
            self.mixtures,
            w_radius=self.radius,
            sampler=self.sampler,
            gamma=self.gamma,
        )
        step_w, step_mixture = step_sizes(c, n_steps)
        run = stochastic_afl(
            self.problem,
            self.mixtures,
            step_w=step_w,
            step_mixture=step_mixture,
            sampler=self.sampler,
            gamma=self.gamma,
            w_radius=self.radius,
            seed=seed,
            every=n_steps,
        )
        average = self.problem.at(next(run).w_average)
        objective = Objective(self.mixtures, self.gamma).on(self.problem)
        return objective.upper(average) - self.best.certificate.lower

    def bound(self, n_steps: int) -> float:
        c = constants(
            self.problem,
            self.mixtures,
            w_radius=self.radius,
            sampler=self.sampler,
            gamma=self.gamma,
        )
        return convergence(c, n_steps)


BALL = TVBall([1 / 3, 1 / 3, 1 / 3], 0.2)
CASES = {
    "binary, simplex": Case("binary", Simplex(3), PerDomain()),
    "binary, ball, weighted": Case("binary", BALL, Weighted()),
    "classes, box": Case("classes", Box([0.1] * 3, [0.7] * 3), PerDomain(), gamma=0.02),
    "squared, ball": Case("squared", BALL, PerDomain()),
    "huber, simplex": Case("huber", Simplex(3), PerDomain()),
    "huber, simplex, weighted": Case("huber", Simplex(3), Weighted(2)),
    "huber, all rows": Case("huber", Simplex(3), FullBatch()),
}


def measure(case: Case, lengths: list[int], n_seeds: int) -> Array:
    """Mean gaps, below the theorem's bound every one; and their slope against T, log-log."""
    n_seeds = 1 if isinstance(case.sampler, FullBatch) else n_seeds
    gaps = np.array([[case.gap(T, seed) for seed in range(n_seeds)] for T in lengths])
    bounds = np.array([case.bound(T) for T in lengths])
    assert case.best.converged
    assert np.all(gaps > 0)
    assert np.all(gaps.mean(axis=1) <= bounds)
    slope: Array = np.polyfit(np.log(lengths), np.log(gaps.mean(axis=1)), 1)[0]
    return slope


@pytest.mark.parametrize("name", CASES)
def test_the_gap_is_below_the_bound_and_falls_like_the_root_of_the_steps(name: str) -> None:
    assert measure(CASES[name], [64, 256, 1024], n_seeds=3) <= -0.4


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_rate_over_more_steps_and_seeds(name: str) -> None:
    assert measure(CASES[name], [256, 1024, 4096, 16384], n_seeds=8) <= -0.4
