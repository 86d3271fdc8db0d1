"""A certificate is never wrong: ill-conditioned columns, offsets, units, and rounding.

Tables are made from a well-conditioned one, Z, by maps that are exact in floating point: columns
moved by an offset, multiplied by a power of two, added to each other, repeated. With γ = 0 the best
value of the new table is then exactly that of Z, which is known to 1e-9.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from anymix import (
    AgnosticClassifier,
    Certificate,
    CrossEntropy,
    Huber,
    LinearDomains,
    Point,
    Simplex,
    Solution,
    SquaredError,
    certify,
    solve,
)
from anymix.problem.duals import conjugates, proved, slopes
from anymix.problem.losses import Loss
from anymix.problem.weighted import WeightedRows

Array = NDArray[np.float64]


@dataclass
class Table:
    X: Array
    y: Array
    domains: NDArray[np.intp]
    loss: Loss
    intercept: bool

    def problem(self) -> LinearDomains:
        return LinearDomains(self.X, self.y, self.domains, self.loss, intercept=self.intercept)


def well_conditioned(rng: np.random.Generator) -> Table:
    """Columns of 64ths, so that sums and offsets are exact."""
    n, d = int(rng.integers(60, 120)), int(rng.integers(1, 5))
    Z = np.round(64 * rng.normal(size=(n, d))) / 64
    z, domains = Z @ rng.normal(size=d) + 1.5 * rng.normal(size=n), np.arange(n) % 3
    kind, intercept = int(rng.integers(4)), bool(rng.random() < 0.7)
    if kind == 0:
        return Table(Z, (z > 0).astype(float), domains, CrossEntropy(), intercept)
    if kind == 1:
        classes = np.digitize(z, [-0.7, 0.7]).astype(float)
        return Table(Z, classes, domains, CrossEntropy(), intercept)
    return Table(Z, z, domains, SquaredError() if kind == 2 else Huber(1.0), intercept)


def ill_conditioned(table: Table, rng: np.random.Generator) -> tuple[Table, Array]:
    """The same table with columns that rounding likes to spoil, and the map T: X = (Z, 1) T."""
    n, d = table.X.shape
    Z1 = np.column_stack([table.X, np.ones(n)])
    T = np.eye(d + 1)[:, :d]
    for j in range(d):
        match int(rng.integers(5)):
            case 0:
                if table.intercept:
                    T[d, j] = 2.0 ** int(rng.integers(10, 41)) * rng.choice([-1, 1])
            case 1:
                T[:, j] *= 2.0 ** int(rng.integers(-40, 41))
            case 2:
                if j > 0:  # z_0 and a little of z_j
                    T[:, j] = T[:, j] * 2.0 ** -int(rng.integers(5, 37)) + np.eye(d + 1)[0]
            case 3:
                T = np.column_stack([T, T[:, j]])  # a copy
            case _:
                pass
    X = Z1 @ T
    return Table(X, table.y, table.domains, table.loss, table.intercept), T


def inverse(T: Array, coefficients: Array) -> Array:
    """w with T w = coefficients: a column has its own z_j, and maybe z_0."""
    d = coefficients.shape[1]
    w = coefficients / np.diag(T)[:d]
    w[:, 0] = (coefficients[:, 0] - w[:, 1:] @ T[0, 1:d]) / T[0, 0]
    return w


def quietly(problem: LinearDomains, gamma: float) -> Solution:
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return solve(problem, gamma=gamma)


def check_case(seed: int) -> bool:
    """No certificate excludes the best value; whether the problem was solved."""
    rng = np.random.default_rng(seed)
    table = well_conditioned(rng)
    best = solve(table.problem(), gamma=0.0, tol=1e-9)
    ill, T = ill_conditioned(table, rng)
    np.testing.assert_array_equal(ill.X, np.column_stack([table.X, np.ones(len(ill.y))]) @ T)
    problem, solved = ill.problem(), True
    for gamma in (0.0, 1e-12):
        found = quietly(problem, gamma=gamma)
        at_zero = certify(
            problem, None, np.zeros(problem.n_parameters), np.full(3, 1 / 3), gamma=gamma
        )
        w = inverse(T, best.w.reshape(problem.n_scores, -1)[:, : table.X.shape[1]])
        least = best.certificate.upper + 0.5 * gamma * float(np.sum(w**2)) * (1 + 1e-6)
        blur = 1e-15 * float(np.abs(found.w) @ problem.reach)  # scores of huge w are rounded
        for certificate in (found.certificate, at_zero):
            assert certificate.lower <= least * (1 + 1e-9), (seed, gamma)
            assert certificate.upper >= best.certificate.lower * (1 - 1e-9) - blur, (seed, gamma)
        assert found.converged == (found.certificate.gap <= 1e-6 * problem.loss_scale * (1 + 1e-9))
        solved &= found.converged
    return solved


@pytest.mark.parametrize("seeds", [range(start, start + 15) for start in (0, 15, 30, 45)])
def test_no_certificate_excludes_the_best_value(seeds: range) -> None:
    solved = [check_case(seed) for seed in seeds]
    assert np.mean(solved) >= 0.5  # honesty is not refusing everything


@pytest.mark.slow
def test_no_certificate_of_1000_excludes_the_best_value() -> None:
    solved = [check_case(seed) for seed in range(1000)]
    print(f"solved and proved: {np.mean(solved):.1%}")
    assert np.mean(solved) >= 0.6


# -- offsets --------------------------------------------------------------------------------------


def sixty_fourths(n: int = 400) -> tuple[Array, Array, NDArray[np.intp]]:
    rng = np.random.default_rng(0)
    s = np.round(64 * rng.normal(size=n)) / 64
    y = (2 * s + 0.7 * rng.normal(size=n) > 0).astype(np.float64)
    return s, y, np.arange(n) % 2


@pytest.mark.parametrize("gamma", [0.0, 1e-3])
@pytest.mark.parametrize("offset", [1e5, 1e9, 1e11, -1e12])
def test_columns_far_from_zero_are_solved(offset: float, gamma: float) -> None:
    s, y, domains = sixty_fourths()
    plain = solve(LinearDomains(s[:, None], y, domains), gamma=gamma, tol=1e-8)
    moved = solve(LinearDomains((offset + s)[:, None], y, domains), gamma=gamma, tol=1e-7)
    assert moved.converged
    assert moved.objective == pytest.approx(plain.objective, abs=2e-7)
    assert moved.w[0] == pytest.approx(plain.w[0], abs=1e-3)
    assert moved.w[1] == pytest.approx(plain.w[1] - offset * moved.w[0], rel=1e-12, abs=1e-3)
    model = AgnosticClassifier(gamma=gamma).fit((offset + s)[:, None], y, domains=domains)
    assert np.mean(model.predict((offset + s)[:, None]) == y) > 0.8


def test_the_upper_value_is_that_of_the_rounded_model() -> None:
    """b = −⟨w, μ⟩ loses digits at μ = 1e12: the value certified is that of the b returned."""
    s, y, domains = sixty_fourths()
    offset = 2.0**40
    found = solve(LinearDomains((offset + s)[:, None], y, domains), gamma=0.0)
    w, b = found.w
    z = np.array([math.fsum([w * x, w * offset, b]) for x in s])  # w · 2⁴⁰ is exact
    losses = np.logaddexp(0, z) - y * z
    worst = max(losses[domains == k].mean() for k in (0, 1))
    assert found.objective == pytest.approx(worst, abs=1e-9)


def test_without_an_intercept_offsets_are_not_proved_away() -> None:
    s, y, domains = sixty_fourths()
    X = np.column_stack([1e11 + s, np.full(len(s), 1e11)])
    problem = LinearDomains(X, y, domains, intercept=False)
    assert quietly(problem, gamma=0.0).certificate.lower <= 0.2436  # what (2.4, −2.4) reaches
    assert certify(problem, None, [0.0, 0.0], [0.5, 0.5], gamma=0.0).lower <= 0.2436


@pytest.mark.parametrize("eps", [2.0**-20, 2.0**-34, 2.0**-36])
def test_columns_that_differ_by_little_are_not_taken_for_one(eps: float) -> None:
    s, y, domains = sixty_fourths()
    x = np.round(64 * np.random.default_rng(1).normal(size=len(s))) / 64
    problem = LinearDomains(np.column_stack([x, x + eps * s]), y, domains)
    best = solve(LinearDomains(np.column_stack([x, s]), y, domains), gamma=0.0, tol=1e-9)
    found = quietly(problem, gamma=0.0)
    assert found.certificate.lower <= best.objective + 1e-9
    assert certify(problem, None, np.zeros(3), [0.5, 0.5], gamma=0.0).lower <= best.objective
    if not found.converged:
        with pytest.warns(ConvergenceWarning, match="centre or scale"):
            solve(problem, gamma=0.0)


def test_a_sum_up_to_rounding_proves_nothing() -> None:
    """x_3 = 0.1 x_1 + 0.2 x_2 in floating point: what is left of it is a column of its own."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2))
    X = np.column_stack([X, 0.1 * X[:, 0] + 0.2 * X[:, 1]])
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(float)
    problem = LinearDomains(X, y, np.arange(60) % 2)
    found = quietly(problem, gamma=0.0)
    assert not found.converged
    assert found.certificate.lower == 0.0
    assert solve(problem, gamma=1e-6).converged


# -- saturated models -----------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 1e-3])
def test_a_model_far_out_is_certified(gamma: float) -> None:
    rng = np.random.default_rng(0)
    problem = LinearDomains(rng.normal(size=(60, 3)), np.arange(60) % 3, np.arange(60) % 2)
    best = quietly(problem, gamma=gamma).objective
    for seed in range(100):
        w = 300 * np.random.default_rng(seed).normal(size=12)
        certificate = certify(problem, None, w, [0.5, 0.5], gamma=gamma)
        assert certificate.lower <= best <= certificate.upper


# -- units of the targets -------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e4, 1e7, 1e8])
@pytest.mark.parametrize("norm", ["plain", "squared"])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_the_unit_of_the_targets_does_not_matter(loss: str, norm: str, scale: float) -> None:
    """L ↦ s²L and w ↦ sw for y ↦ sy, δ ↦ sδ and, for ‖w‖, γ ↦ sγ."""
    rng = np.random.default_rng(0)
    X, domains = rng.normal(size=(200, 3)), np.arange(200) % 3
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=200)

    def solved(s: float) -> Solution:
        kind = SquaredError() if loss == "squared" else Huber(s)
        gamma = 0.3 * (s if norm == "plain" else 1.0)
        return solve(LinearDomains(X, s * y, domains, kind), gamma=gamma, norm=norm, tol=1e-9)

    plain, scaled = solved(1.0), solved(scale)
    assert scaled.converged
    assert scaled.objective / scale**2 == pytest.approx(plain.objective, rel=1e-7)
    np.testing.assert_allclose(scaled.w / scale, plain.w, rtol=1e-3, atol=1e-4)
    assert scaled.history[-1]["upper"] == pytest.approx(scaled.objective, rel=1e-6)


def test_penalties_and_offsets_are_in_the_unit_of_the_losses() -> None:
    rng = np.random.default_rng(1)
    X, domains, scale = rng.normal(size=(150, 2)), np.arange(150) % 3, 1e6
    y = X[:, 0] * (1 + domains) + rng.normal(size=150)
    offsets = np.array([0.1, 0.3, 0.2])
    plain, scaled = (
        solve(
            LinearDomains(X, s * y, domains, SquaredError()),
            mu=0.2 * s**2,
            offsets=offsets * s**2,
            gamma=0.1,
        )
        for s in (1.0, scale)
    )
    assert scaled.objective / scale**2 == pytest.approx(plain.objective, rel=1e-6)
    np.testing.assert_allclose(scaled.mixture, plain.mixture, atol=1e-4)
    again = solve(
        LinearDomains(X, scale * y, domains, SquaredError()),
        mu=0.2 * scale**2,
        offsets=offsets * scale**2,
        gamma=0.1,
        start=scaled,
    )
    assert again.n_iter <= 2


# -- what must not be changed without notice ------------------------------------------------------


def test_what_is_left_of_the_slope_is_charged() -> None:
    """A w near the optimum but not at it: the proof without the charge would be too good."""
    rng = np.random.default_rng(5)
    X, domains = rng.normal(size=(200, 3)), np.zeros(200)
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(float)
    problem = LinearDomains(X, y, domains)
    best = solve(problem, gamma=0.0, tol=1e-12)
    for far in (1e-2, 1e-3, 1e-4):
        here = problem.at(best.w + far * rng.normal(size=4))
        lower, value = here.floor(np.ones(1)), float(here.losses[0])
        assert 0 < lower <= best.certificate.upper
        assert value - lower >= 0.9 * (value - best.objective)  # nothing is given for nothing
        assert value - lower <= 2 * (value - best.objective) + 1e-12  # nor is much lost


def test_a_mixture_outside_of_the_set_proves_nothing_about_it() -> None:
    """λ is off the set by less than `contains` sees: the value is for its projection."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(90, 2))
    y = np.where(np.arange(90) % 2 == 0, 1e5, 0.0) + rng.normal(size=90)  # losses of 1e9 and of 1
    problem = LinearDomains(X, y, np.arange(90) % 2, SquaredError(), intercept=False)
    point = Point([0.5, 0.5])
    best = solve(problem, point, gamma=1e-3)
    off = np.array([0.5 + 4e-9, 0.5 - 4e-9])
    honest = certify(problem, point, best.w, [0.5, 0.5], gamma=1e-3)
    certificate = certify(problem, point, best.w, off, gamma=1e-3)
    assert certificate.lower == pytest.approx(honest.lower, rel=1e-12)


@pytest.mark.parametrize("max_iter", [1, 2, 3])
def test_converged_means_a_gap_of_at_most_tol(max_iter: int) -> None:
    rng = np.random.default_rng(7)
    X, domains = rng.normal(size=(300, 4)), np.arange(300) % 3
    y = (X[:, 0] * (1 + domains) + rng.normal(size=300) > 0).astype(float)
    problem = LinearDomains(X, y, domains)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        gap = solve(problem, Simplex(3), tol=1e-12, max_iter=max_iter).certificate.gap
        assert gap > 1e-12
        short = solve(problem, Simplex(3), tol=gap / 3, max_iter=max_iter)
        assert not short.converged
    assert solve(problem, Simplex(3), tol=2 * gap, max_iter=max_iter).converged


def test_the_gap_of_a_certificate_is_not_cut() -> None:
    assert Certificate(2.0, 0.5).gap == 1.5
    with pytest.raises(ValueError, match=r"one .*is wrong"):
        Certificate(1.0, np.nextafter(1.0, 2.0))


@pytest.mark.parametrize("kind", ["binary", "three", "squared", "huber"])
def test_a_row_that_takes_up_the_intercept_is_charged(kind: str) -> None:
    """Slopes that add up to r, not to 0: the bound of the row that takes r holds for every w.

    At a model with an intercept far from 0, r times it is what the bound would be too good by.
    """
    rng = np.random.default_rng(8)
    n, labels = 80, rng.random(80)
    targets = {"binary": labels < 0.05, "three": np.digitize(labels, [0.05, 0.1])}
    y = targets.get(kind, rng.normal(size=n) - 4.0).astype(float)
    loss = {"squared": SquaredError(), "huber": Huber(1.0)}.get(kind, CrossEntropy())
    problem = LinearDomains(rng.normal(size=(n, 2)), y, np.zeros(n), loss)
    best = solve(problem, gamma=1e-2, tol=1e-10).w
    for shift in (1e-3, -1e-3):
        w = best + shift * ~problem.penalized * np.arange(1, problem.n_parameters + 1)
        here = problem.at(w)
        c, alpha = here.weights(np.ones(1)), here.slope.copy()
        dual = proved(problem, c, alpha, *conjugates(problem, c, alpha))
        assert not dual.v[~problem.penalized].any()
        assert not dual.error[~problem.penalized].any()
        for other in (w, best, *(best + 0.3 * rng.normal(size=(200, len(w))))):
            bound = dual.value + dual.v @ other + dual.error @ np.abs(other)
            if other is w:  # the charge is not much larger than needed
                assert bound >= problem.losses(w)[0] - 0.1
            least = dual.value + dual.v @ other - dual.error @ np.abs(other)
            assert least <= problem.losses(other)[0]
        free = np.where(problem.penalized, 0.0, w)  # error counts for nothing here
        assert dual.value <= problem.losses(free)[0]


# What rounding may have done is bounded by √Σ x_ij², known from reading, where that is enough -----


def two_classes(n: int, scale: Array) -> LinearDomains:
    rng = np.random.default_rng(9)
    X, domains = rng.normal(size=(n, len(scale))), rng.integers(3, size=n)
    y = X.sum(axis=1) * (1 + domains) + 2 * rng.logistic(size=n) > 0
    return LinearDomains(X * scale, y, domains)


@pytest.mark.parametrize("scale", [[1.0, 1.0, 1.0], [1.0, 1e-3, 1e-6], [1e5, 1.0, 1e-5]])
def test_an_error_that_costs_no_pass_is_at_least_the_one_that_does(scale: list[float]) -> None:
    problem = two_classes(3000, np.array(scale))
    here = problem.at(np.zeros(4))
    c = here.weights(problem.reference)
    v, rough = slopes(problem, c.copy(), here.slope, spare=math.inf)
    assert "reach" not in problem.__dict__
    same, error = slopes(problem, c.copy(), here.slope)
    assert "reach" in problem.__dict__
    np.testing.assert_allclose(v, same, rtol=0, atol=float(error.max()))
    assert np.all(rough >= error)
    assert rough[-1] == error[-1]  # 1 multiplies the intercept, that is known
    long = np.longdouble
    exact = (here.slope.astype(long) * c.astype(long)) @ np.column_stack([problem.X, np.ones(3000)])
    assert np.all(np.abs(v - exact) <= rough)


def test_a_gap_worth_the_pass_gets_it_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[WeightedRows] = []
    find = WeightedRows.pull_back_for_proof

    def noted(self: WeightedRows, v: Array) -> Array:
        passes.append(self)
        return find(self, v)

    monkeypatch.setattr(WeightedRows, "pull_back_for_proof", noted)
    problem = two_classes(3000, np.array([1e3, 1.0, 1.0]))
    quick = solve(problem, Simplex(3), tol=1e-6)
    assert not passes
    fine = solve(problem, Simplex(3), tol=1e-9)
    assert passes
    assert fine.converged
    assert fine.certificate.lower - 1e-6 <= quick.certificate.lower <= fine.objective


def test_rows_of_other_numbers_are_not_bounded_by_the_old_ones() -> None:
    rng = np.random.default_rng(10)
    X = rng.normal(size=(50, 1)) + 1e6
    problem = LinearDomains(X, rng.random(50) < 0.5, np.arange(50) % 2)
    assert problem.sample(0.5).largest == problem.largest >= np.abs(X).max()
    inside = problem.conditioned()
    assert inside is not None
    assert isinstance(inside.problem, LinearDomains)
    assert inside.problem.largest == math.inf
