"""Poisson's deviance: formulas, CVXPY, scikit-learn, and a search for false proofs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from conic import minimax
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance

import anymix as ax
from anymix.errors import InputError
from anymix.mixtures import Chi2Ball, MixtureSet, Point, Simplex
from anymix.partitions import from_batches
from anymix.problem.losses import named_losses
from anymix.problem.parts import Parts
from anymix.solvers.samplers import PerDomain, Weighted

Array = NDArray[np.float64]


def table(n: int = 90, scale: float = 1.0, seed: int = 5) -> tuple[Array, Array, NDArray[Any]]:
    """Counts of three domains whose rates depend on different columns."""
    rng = np.random.default_rng(seed)
    X, d = rng.normal(size=(n, 3)), np.arange(n) % 3
    rate = scale * np.exp(0.5 * X[np.arange(n), d] + 0.3 * d)
    return X, rng.poisson(rate).astype(float), d


# -- the loss --------------------------------------------------------------------------------------


def test_the_loss_is_half_the_deviance() -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=400) * 2, rng.poisson(2.0, 400).astype(float)
    expected = 0.5 * mean_poisson_deviance(y, np.exp(z))
    assert ax.Poisson().value(z, y).mean() == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(ax.Poisson().gradient(z, y), np.exp(z) - y, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(ax.Poisson().curvature(z, y), np.exp(z), rtol=1e-14)


@given(st.integers(0, 10**9), st.floats(-1e-3, 1e-3))
def test_digits_where_the_mean_is_near_the_count(y: int, delta: float) -> None:
    """ℓ = y (δ²/2 + δ³/6 + …): the terms of the formula cancel."""
    z = math.log(y) + delta if y else delta
    d = z - math.log(y) if y else 0.0
    series = y * sum(d**k / math.factorial(k) for k in range(2, 8)) if y else math.exp(z)
    spread = abs(math.expm1(d)) * y * 8 * np.finfo(float).eps * (1 + abs(z))
    assert ax.Poisson().value([z], [y])[0] == pytest.approx(series, rel=1e-9, abs=spread)


@given(st.floats(0, 50), st.floats(-40, 40))
def test_the_conjugate_is_a_supremum(y: float, shift: float) -> None:
    y = 0.0 if y < 1e-3 else y
    p = math.exp(shift / 8)
    alpha = np.array([p - y])

    def lack(z: float) -> float:
        return float(ax.Poisson().value([z], [y])[0] - alpha[0] * z)

    found = minimize_scalar(lack, bounds=(-30, 30), method="bounded")
    value = ax.Poisson().conjugate(alpha, np.array([y]))[0]
    assert value == pytest.approx(-found.fun, rel=1e-6, abs=1e-6)
    assert ax.Poisson().conjugate(np.array([-y - 1e-3]), np.array([y]))[0] == math.inf
    h, slope = ax.Poisson().conjugate_slopes(alpha, np.array([y]))
    assert h[0] == pytest.approx(p)
    assert slope[0] == pytest.approx(shift / 8, abs=1e-9 * (1 + y / p))


@given(st.just(0.0) | st.floats(1e-100, 1e6), st.floats(-20, 20))
def test_no_slope_is_above_its_bound(y: float, z: float) -> None:
    values, targets = np.array([z]), np.array([y])
    value, slope = ax.Poisson().derivatives(values, targets, 1)
    limit = ax.Poisson().growth(targets).steepness(float(value[0]))
    assert abs(slope[0]) <= limit * (1 + 1e-9) + 1e-7 * y  # ℓ has few digits where it is 1e-16


@given(st.floats(0, 5), st.floats(0, 20), st.floats(-1, 1), st.floats(0, 1))
def test_bound_and_lipschitz_are_never_exceeded(r: float, t: float, a: float, b: float) -> None:
    z, y = [a * r], [b * t]
    assert ax.Poisson().value(z, y)[0] <= ax.Poisson().bound(r, t) * (1 + 1e-12)
    assert abs(ax.Poisson().gradient(z, y)[0]) <= ax.Poisson().lipschitz(r, t) * (1 + 1e-12)
    for bad in ((-1.0, 1.0), (1.0, -1.0)):
        with pytest.raises(InputError):
            ax.Poisson().bound(*bad)


@pytest.mark.parametrize("z", [99.0, 100.0, 150.0, 1e6, -1e6])
@pytest.mark.parametrize("y", [0.0, 3.0])
def test_scores_of_any_size_are_no_overflow(y: float, z: float) -> None:
    pair = np.array([z, z - 1e-3]), np.array([y, y])
    value, slope, curvature = ax.Poisson().derivatives(*pair, 2)
    assert all(np.all(np.isfinite(x)) for x in (value, slope, curvature))
    assert (value[0] - value[1]) / 1e-3 == pytest.approx(slope[0], rel=2e-3, abs=1e-4)


def test_targets_are_counts_or_rates() -> None:
    for bad in ([-1.0, 2.0], [1e16, 2.0], [1e-200, 2.0]):
        with pytest.raises(InputError) as error:
            ax.LinearDomains([[0.0], [1.0]], bad, ["a", "b"], ax.Poisson())
        assert error.value.argument == "y"
        chunk = ([[0.0], [1.0]], bad, ["a", "b"])
        with pytest.raises(InputError) as error:
            from_batches([chunk].__iter__, ax.Poisson())
        assert error.value.argument == "y"


# -- exact solutions and their proofs --------------------------------------------------------------


@pytest.mark.parametrize("norm", ["squared", "plain"])
@pytest.mark.parametrize("gamma", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("mixtures", [Simplex(3), Point([0.2, 0.3, 0.5]), Chi2Ball([30] * 3, 1.2)])
def test_the_value_of_cvxpy(mixtures: MixtureSet, gamma: float, norm: str) -> None:
    X, y, d = table()
    value = minimax(X, y, np.eye(3)[d], mixtures, ax.Poisson(), gamma=gamma, norm=norm)
    problem = ax.LinearDomains(X, y, d, ax.Poisson())
    found = ax.solve(problem, mixtures, gamma=gamma, norm=norm, tol=1e-8)
    assert found.converged
    assert found.certificate.lower <= value + 1e-7
    assert found.certificate.upper >= value - 1e-7
    assert found.objective == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0])
def test_one_mixture_is_the_regressor_of_scikit_learn(alpha: float) -> None:
    X, y, d = table(300)
    problem = ax.LinearDomains(X, y, d, ax.Poisson())
    found = ax.solve(problem, Point(problem.reference), gamma=alpha, tol=1e-12)
    known = PoissonRegressor(alpha=alpha, tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(found.w, [*known.coef_, known.intercept_], atol=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("gamma", [0.0, 1e-2])
def test_counts_of_any_size(scale: float, gamma: float) -> None:
    X, y, d = table(600, scale)
    y[:3] = 1.0  # of every domain one
    for rows in (X, sparse.csr_array(X), np.hstack([X[:, :2], 1e6 + X[:, 2:] * 7])):
        problem = ax.LinearDomains(rows, y, d, ax.Poisson())
        assert ax.solve(problem, gamma=gamma, tol=1e-6 * max(1.0, scale)).converged


def test_a_start_far_out_overflows_nothing() -> None:
    X, y, d = table()
    problem = ax.LinearDomains(X, y, d, ax.Poisson())
    best = ax.solve(problem, gamma=1e-2, tol=1e-9)
    for start in (np.full(4, 300.0), np.full(4, -300.0)):
        again = ax.solve(problem, gamma=1e-2, tol=1e-9, start=start)
        assert again.objective == pytest.approx(best.objective, abs=1e-8)


@pytest.mark.parametrize("gamma", [0.0, 1e-2])
def test_parts_and_batches_have_the_same_proof(gamma: float) -> None:
    X, y, d = table(300)
    whole = ax.solve(ax.LinearDomains(X, y, d, ax.Poisson()), gamma=gamma, tol=1e-9)
    halves = [slice(0, 100), slice(100, 300)]
    parts = Parts.of([ax.LinearDomains(X[i], y[i], d[i], ax.Poisson()) for i in halves])
    batches = from_batches(lambda: ((X[i], y[i], d[i]) for i in halves), ax.Poisson())
    for problem in (parts, batches):
        found = ax.solve(problem, gamma=gamma, tol=1e-7)
        assert found.converged
        assert found.objective == pytest.approx(whole.objective, abs=2e-7)
        assert found.certificate.lower <= whole.objective


def search(seed: int) -> list[str]:
    """Whether some lower value is above Φ at a w tried: problems of every kind, w near and far."""
    rng = np.random.default_rng(seed)
    n, p, dim = int(rng.integers(4, 40)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, dim)) * 10.0 ** rng.choice([-3, 0, 0, 0, 1], size=dim)
    X[:, 0] += rng.choice([0, 0, 0, 1e3, 1e6])
    d = np.append(np.arange(p), rng.integers(0, p, n - p))
    y = rng.poisson(10.0 ** rng.uniform(-2, 5) * np.exp(rng.normal(size=n))).astype(float)
    y /= float(rng.choice([1.0, 1.0, 7.0]))
    y *= rng.random(n) < rng.choice([1.0, 0.5, 0.1])
    weight = 10.0 ** rng.uniform(-3, 3, n) if rng.random() < 0.3 else np.ones(n)
    intercept = bool(rng.random() < 0.8)
    options: Any = {"loss": ax.Poisson(), "intercept": intercept}
    problem: Any = ax.LinearDomains(X, y, d, sample_weight=weight, **options)
    gamma, norm = (
        float(rng.choice([0.0, 0.0, 1e-6, 1e-2, 1.0])),
        str(rng.choice(["squared", "plain"])),
    )
    if n >= 2 * p and rng.random() < 0.3:
        halves = np.arange(n) % 2 == 0, np.arange(n) % 2 == 1
        problem = Parts.of(
            [ax.LinearDomains(X[i], y[i], d[i], sample_weight=weight[i], **options) for i in halves]
        )
    sizes = np.bincount(d, weight, p)
    shares = (np.eye(p)[d] * weight[:, None] / sizes).T.astype(np.longdouble)
    rows = np.hstack([X, np.ones((n, int(intercept)))]).astype(np.longdouble)
    long_y = y.astype(np.longdouble)

    def phi(w: Array, lam: Array) -> float:
        """Φ, and what rounding of the scores may do to it on top, in extended precision."""
        z = rows @ w.astype(np.longdouble)
        log_y = np.log(np.where(y > 0, long_y, 1))
        delta = z - log_y
        losses = np.where(y > 0, long_y * (np.expm1(delta) - delta), np.exp(z))
        u = w[:dim].astype(np.longdouble)
        size = u @ u / 2 if norm == "squared" else np.sqrt(u @ u)
        lost = np.abs(np.exp(z) - long_y) * (np.abs(rows) @ np.abs(w)) + losses
        return float(lam @ (shares @ (losses + 2.0**-60 * lost)) + gamma * size)

    found = ax.solve(problem, None, gamma=gamma, norm=norm, max_iter=60)
    certificates = [(found.certificate.lower, found.mixture)]
    models = [found.w]
    for size in (0.0, 1e-6, 1e-3, 0.1, 1.0):
        w = found.w + size * rng.normal(size=len(found.w)) / (1 + np.abs(rows).max(axis=0))
        lam = rng.dirichlet(np.ones(p)) if rng.random() < 0.5 else found.mixture
        w = w.astype(float)
        certificate = ax.certify(problem, None, w, lam, gamma=gamma, norm=norm)
        certificates.append((certificate.lower, lam))
        models.append(w)
    models += [found.w + t * (found.w - w) for w in models[1:] for t in (-0.5, 0.5, 1.0)]
    wrong = []
    for lower, lam in certificates:
        least = min(phi(w, lam) for w in models if np.max(rows @ w) < 90)
        if not lower <= least + 1e-15 * abs(least):
            wrong.append(f"{seed}: {lower!r} is above {least!r}")
    return wrong


@pytest.mark.filterwarnings("ignore")  # gaps that stay open
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_no_lower_value_is_above_a_model(first: int) -> None:
    assert [w for seed in range(first, first + 20) for w in search(seed)] == []


# -- stochastic steps ------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [PerDomain(2), Weighted(3)])
def test_compiled_steps_are_the_readable_ones(sampler: Any) -> None:
    X, y, d = table()
    problem = ax.LinearDomains(X, y, d, ax.Poisson())
    both = []
    for compiled in (True, False):
        run = ax.stochastic_afl(
            problem,
            Simplex(3),
            step_w=0.01,
            step_mixture=0.01,
            sampler=sampler,
            every=50,
            seed=3,
            compiled=compiled,
        )
        both.append(next(run))
    np.testing.assert_allclose(both[0].w, both[1].w, rtol=1e-10)
    np.testing.assert_allclose(both[0].mixture, both[1].mixture, rtol=1e-10)


# -- estimators and audits -------------------------------------------------------------------------


def test_the_regressor_predicts_means() -> None:
    X, y, d = table(300)
    model = ax.AgnosticRegressor(loss="poisson", gamma=0.1, tol=1e-10)
    model.fit(X, y, domains=None)
    known = PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(model.predict(X), known.predict(X), rtol=1e-5)
    assert model.score(X, y) == pytest.approx(known.score(X, y), abs=1e-8)
    weight = np.arange(1.0, 301.0)
    assert model.score(X, y, weight) == pytest.approx(known.score(X, y, weight), abs=1e-6)
    robust = ax.AgnosticRegressor(loss="poisson", gamma=1e-3, baseline="regret")
    robust.fit(X, y, domains=d)
    assert robust.certificate_.gap <= 1e-6


def test_cross_validation_with_the_ordinary_baseline() -> None:
    X, y, d = table(600)
    model = ax.AgnosticRegressorCV(loss="poisson", price=np.inf, random_state=0)
    model.fit(X, y, domains=d)
    assert np.all(model.predict(X) > 0)
    ordinary = model.ordinary_
    assert ordinary.loss == "poisson"
    assert model.domain_losses_.max() < ordinary.domain_losses_.max()
    found = ax.audit(y, ordinary.predict(X), d, loss="poisson")
    np.testing.assert_allclose(found.domain_losses, ordinary.domain_losses_, rtol=1e-9)


def test_audits_know_its_name_and_title() -> None:
    assert named_losses()["poisson"] is ax.Poisson
    found = ax.audit(
        [0.0, 2.0, 1.0, 3.0], [0.5, 2.0, 1.0, 2.0], ["a", "a", "b", "b"], loss="poisson"
    )
    assert found.loss == "poisson"
    assert found.loss_title == "half Poisson deviance"
    for bad in ([0.0, 2.0, 1.0, 3.0], [-1.0, 2.0, 1.0, 3.0]):
        with pytest.raises(InputError) as error:
            ax.audit([1.0, 2.0, 1.0, 3.0], bad, ["a", "a", "b", "b"], loss="poisson")
        assert error.value.argument == "y_pred"
