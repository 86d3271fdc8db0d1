"""Stochastic gradients: every outcome with its probability, averages of many draws, variances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from anymix.bounds.variance import Variances, advise_sampler, variances
from anymix.mixtures import Simplex
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Hinge, Huber, Loss, SquaredError
from anymix.solvers.samplers import (
    DomainRows,
    EveryDomain,
    FullBatch,
    PerDomain,
    UniformDomain,
    Weighted,
    companion,
)

Array = NDArray[np.float64]
Draws = list[tuple[tuple[float, ...], float]]
LAST = 1 - 2.0**-53  # the largest uniform number there is


def make(
    seed: int = 0,
    n: int = 9,
    p: int = 3,
    loss: Loss | None = None,
    *,
    form: str = "dense",
    n_classes: int = 2,
    **options: Any,
) -> LinearDomains:
    """Random rows; `form` is how X and the domains are given."""
    rng = np.random.default_rng(seed)
    X: Any = rng.normal(size=(n, 2)) * (rng.random((n, 2)) < 0.7)
    loss = CrossEntropy() if loss is None else loss
    numbers = isinstance(loss, SquaredError | Huber)
    y = rng.normal(size=n) if numbers else rng.integers(n_classes, size=n)
    domains: Any = rng.permutation(np.arange(n) % p)
    if "csr" in form:
        X = sparse.csr_array(X)
    if "weighted" in form:
        options["sample_weight"] = rng.integers(1, 6, size=n) / 3
    if "overlapping" in form and p > 1:
        domains = np.eye(p)[domains] + rng.random((n, p)) * (rng.random((n, p)) < 0.4)
    if not numbers:
        options["classes"] = np.arange(n_classes)
    return LinearDomains(X, y, domains, loss, **options)


PROBLEMS: dict[str, Callable[[], LinearDomains]] = {
    "dense": lambda: make(1),
    "csr": lambda: make(2, form="csr"),
    "weighted": lambda: make(3, form="weighted"),
    "overlapping": lambda: make(4, form="overlapping"),
    "overlapping csr classes": lambda: make(5, n_classes=3, form="overlapping csr"),
    "squared without intercept": lambda: make(6, loss=SquaredError(), intercept=False),
    "huber": lambda: make(7, loss=Huber(0.5), form="weighted"),
    "hinge": lambda: make(8, loss=Hinge()),
    "sizes 1, 2 and 6": lambda: LinearDomains(
        np.arange(18.0).reshape(9, 2) / 9, np.arange(9) % 2, [0, 1, 1, 2, 2, 2, 2, 2, 2]
    ),
}
MODEL_SAMPLERS: list[Any] = [PerDomain(), PerDomain(2), Weighted(), Weighted(2)]
MIXTURE_SAMPLERS: list[Any] = [UniformDomain(), UniformDomain(2), EveryDomain(), EveryDomain(2)]
problems = pytest.mark.parametrize("name", PROBLEMS)


def point(problem: LinearDomains, seed: int = 0) -> tuple[Array, Array, Array]:
    """A random (w, λ, b)."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=problem.n_parameters)
    return w, rng.dirichlet(np.ones(problem.n_domains)), rng.normal(size=problem.n_domains)


# -- every outcome, with its probability -----------------------------------------------------------


def middles(probabilities: Array) -> Iterator[tuple[float, float]]:
    """A uniform number inside the interval of each outcome, and the interval's length."""
    ends = np.cumsum(probabilities)
    return ((float(end - q / 2), float(q)) for end, q in zip(ends, probabilities, strict=True) if q)


def row_draws(problem: LinearDomains, k: int) -> list[tuple[float, float]]:
    """(u, probability) of the rows of domain k, by their shares."""
    return list(middles(problem.average.tocsr()[[k]].toarray()[0]))


def single_draws(problem: LinearDomains, k: int) -> Draws:
    """((u,), probability) of a row of domain k."""
    return [((u,), q) for u, q in row_draws(problem, k)]


def pair_draws(problem: LinearDomains, domains: Array) -> Draws:
    """((u, u'), probability) of a domain with these probabilities and a row of it."""
    return [
        ((u, v), q * r)
        for k, (u, q) in enumerate(middles(domains))
        for v, r in row_draws(problem, k)
    ]


def outcomes(sampler: Any, problem: LinearDomains, mixture: Array) -> Iterator[tuple[Array, float]]:
    """All (u, probability) of a sampler."""
    p, b = problem.n_domains, sampler.batch_size
    if isinstance(sampler, PerDomain | EveryDomain):
        draws = [single_draws(problem, k) for k in range(p) for _ in range(b)]
    else:
        domains = mixture if isinstance(sampler, Weighted) else np.full(p, 1 / p)
        draws = [pair_draws(problem, domains)] * b
    for combination in product(*draws):
        u = [x for part, _ in combination for x in part]
        yield np.array(u), float(np.prod([q for _, q in combination]))


def exactly(sampler: Any, gradient: Callable[[Array], Array], draws: Any) -> tuple[Array, float]:
    """Mean and variance of the gradient over all outcomes."""
    values, q = zip(*[(gradient(u), q) for u, q in draws], strict=True)
    table, weights = np.array(values), np.array(q)
    assert abs(weights.sum() - 1) < 1e-12
    mean = weights @ table
    return mean, float(weights @ np.sum((table - mean) ** 2, axis=1))


def enumerated(
    sampler: Any, problem: LinearDomains, w: Array, lam: Array, b: Array
) -> tuple[Array, float]:
    rows = DomainRows(problem)
    draws = outcomes(sampler, problem, lam)
    if hasattr(sampler, "model_gradient"):
        return exactly(sampler, lambda u: sampler.model_gradient(rows, w, lam, u), draws)
    return exactly(sampler, lambda u: sampler.mixture_gradient(rows, w, b, u), draws)


@problems
@pytest.mark.parametrize("sampler", [PerDomain(), Weighted(), Weighted(2)], ids=repr)
def test_the_mean_over_all_outcomes_is_the_gradient(name: str, sampler: Any) -> None:
    problem = PROBLEMS[name]()
    w, lam, b = point(problem)
    mean, _ = enumerated(sampler, problem, w, lam, b)
    np.testing.assert_allclose(mean, problem.gradient(w, lam), atol=1e-12)


@problems
@pytest.mark.parametrize("sampler", [UniformDomain(), UniformDomain(2), EveryDomain()], ids=repr)
def test_the_mean_over_all_outcomes_is_the_losses(name: str, sampler: Any) -> None:
    problem = PROBLEMS[name]()
    w, lam, b = point(problem)
    mean, _ = enumerated(sampler, problem, w, lam, b)
    np.testing.assert_allclose(mean, problem.losses(w) - b, atol=1e-12)


@problems
def test_variances_are_those_over_all_outcomes(name: str) -> None:
    problem = PROBLEMS[name]()
    w, lam, b = point(problem)
    v = variances(problem, w, lam, b)
    found = {
        "per_domain": PerDomain(),
        "weighted": Weighted(),
        "uniform_domain": UniformDomain(),
        "every_domain": EveryDomain(),
    }
    for field, sampler in found.items():
        _, variance = enumerated(sampler, problem, w, lam, b)
        assert getattr(v, field) == pytest.approx(variance, rel=1e-10), field


@pytest.mark.parametrize("name", ["dense", "overlapping"])
@pytest.mark.parametrize("one", [Weighted(), UniformDomain()], ids=repr)
def test_a_batch_divides_the_variance(name: str, one: Any) -> None:
    problem = PROBLEMS[name]()
    w, lam, b = point(problem)
    _, variance = enumerated(one, problem, w, lam, b)
    _, halved = enumerated(type(one)(2), problem, w, lam, b)
    assert halved == pytest.approx(variance / 2, rel=1e-10)


def test_a_batch_of_every_domain_divides_the_variance() -> None:
    problem = make(9, n=4, p=2)
    w, lam, b = point(problem)
    for sampler in (PerDomain, EveryDomain):
        _, variance = enumerated(sampler(1), problem, w, lam, b)
        _, third = enumerated(sampler(3), problem, w, lam, b)
        assert third == pytest.approx(variance / 3, rel=1e-10)


# -- many draws ------------------------------------------------------------------------------------


def draw(
    sampler: Any, problem: LinearDomains, w: Array, lam: Array, b: Array, n: int = 1000
) -> Array:
    """n independent gradients, (n, length)."""
    rows, rng = DomainRows(problem), np.random.default_rng(0)
    u = rng.random((n, sampler.n_draws(problem.n_domains)))
    if hasattr(sampler, "model_gradient"):
        return np.array([sampler.model_gradient(rows, w, lam, row) for row in u])
    return np.array([sampler.mixture_gradient(rows, w, b, row) for row in u])


def assert_mean(draws: Array, expected: Any) -> None:
    """Within 4.5 standard errors, in every component."""
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - expected), 4.5 * error + 1e-12)


@pytest.mark.parametrize("name", ["dense", "csr", "weighted", "overlapping"])
@pytest.mark.parametrize("sampler", MODEL_SAMPLERS, ids=repr)
def test_model_gradients_are_unbiased(name: str, sampler: Any) -> None:
    problem = PROBLEMS[name]()
    w, lam, b = point(problem)
    assert_mean(draw(sampler, problem, w, lam, b), problem.gradient(w, lam))


@pytest.mark.parametrize("name", ["dense", "csr", "weighted", "overlapping"])
@pytest.mark.parametrize("sampler", MIXTURE_SAMPLERS, ids=repr)
def test_mixture_gradients_are_unbiased(name: str, sampler: Any) -> None:
    problem = PROBLEMS[name]()
    w, lam, b = point(problem)
    assert_mean(draw(sampler, problem, w, lam, b), problem.losses(w) - b)


def measured(sampler: Any, problem: LinearDomains, seed: int) -> tuple[Array, Variances, Array]:
    """‖δ − Eδ‖² of many draws, the closed forms, and λ."""
    w, lam, b = point(problem, seed)
    model = hasattr(sampler, "model_gradient")
    mean = problem.gradient(w, lam) if model else problem.losses(w) - b
    draws = draw(sampler, problem, w, lam, b)
    return np.sum((draws - mean) ** 2, axis=1), variances(problem, w, lam, b), lam


@pytest.mark.parametrize("name", ["dense", "overlapping"])
def test_measured_variances_and_the_lemmas(name: str) -> None:
    problem = make(10, n=40, p=4, form=name)
    p = problem.n_domains
    cases: list[tuple[Any, str]] = [
        (PerDomain(), "per_domain"),
        (Weighted(), "weighted"),
        (Weighted(p), "p_weighted"),
        (UniformDomain(), "uniform_domain"),
        (EveryDomain(), "every_domain"),
    ]
    means = {}
    for sampler, field in cases:
        squares, v, lam = measured(sampler, problem, seed=3)
        assert_mean(squares, getattr(v, field))
        means[field] = squares.mean()
    slack = 1.1  # of a measured mean over the lemma's bound
    assert means["per_domain"] <= slack * float(lam @ lam) * v.intra
    assert means["weighted"] <= slack * (v.intra + v.outer)
    assert means["p_weighted"] * p == pytest.approx(means["weighted"], rel=0.1)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.sampled_from(["dense", "csr", "weighted", "overlapping"]),
)
def test_the_lemmas_hold(seed: int, p: int, form: str) -> None:
    problem = make(seed, n=3 * p + 2, p=p, form=form)
    w, lam, _ = point(problem, seed)
    v = variances(problem, w, lam)
    M = float(problem.loss.derivatives(problem.scores(w), problem.y, 0)[0].max())
    room = 1 + 1e-9
    assert v.per_domain <= room * float(lam @ lam) * v.intra
    assert v.weighted <= room * (v.intra + v.outer)
    assert v.p_weighted == v.weighted / p
    assert v.every_domain <= room * p * M**2 / 4  # values in [0, M]: sharper than the paper's pM²
    assert v.uniform_domain <= room * p**2 * M**2
    assert v.per_domain <= room * v.weighted  # λ_k² ≤ λ_k


def test_one_row_a_domain_leaves_only_the_outer_variance() -> None:
    problem = LinearDomains([[1.0], [2.0]], [0, 1], ["a", "b"])
    v = variances(problem, [0.3, 0.1], [0.25, 0.75])
    assert v.intra < 1e-15
    assert v.per_domain < 1e-15
    assert v.every_domain < 1e-15
    assert v.weighted == pytest.approx(v.outer)
    assert v.outer > 0.01


def exact_variances(problem: LinearDomains, w: Array, lam: Array, b: Array) -> dict[str, Fraction]:
    """All of `Variances` for the squared error, in fractions: no rounding hides anything."""
    X = [
        [Fraction(float(x)) for x in row]
        for row in np.asarray(problem.X.toarray() if sparse.issparse(problem.X) else problem.X)
    ]
    rows = [[*x, Fraction(1)] if problem.intercept else x for x in X]
    coef = [Fraction(float(x)) for x in w]
    shares = [[Fraction(float(a)) for a in k] for k in problem.average.toarray()]
    shares = [[a / sum(k) for a in k] for k in shares]
    off = [
        sum((x * c for x, c in zip(row, coef, strict=True)), Fraction(0)) - Fraction(float(y))
        for row, y in zip(rows, problem.y, strict=True)
    ]
    loss = [z * z / 2 for z in off]
    gradient = [[z * x for x in row] for z, row in zip(off, rows, strict=True)]

    def apart(x: list[Fraction], y: list[Fraction]) -> Fraction:
        return sum(((s - t) ** 2 for s, t in zip(x, y, strict=True)), Fraction(0))

    def mean(a: list[Fraction], values: list[Fraction]) -> Fraction:
        return sum((x * y for x, y in zip(a, values, strict=True)), Fraction(0))

    columns = list(zip(*gradient, strict=True))
    G = [[mean(a, list(column)) for column in columns] for a in shares]
    v = [mean(a, [apart(g, G[k]) for g in gradient]) for k, a in enumerate(shares)]
    L = [mean(a, loss) for a in shares]
    u = [mean(a, [(x - L[k]) ** 2 for x in loss]) for k, a in enumerate(shares)]
    mixture = [Fraction(float(x)) for x in lam]
    mixture = [x / sum(mixture) for x in mixture]
    whole = [mean(mixture, list(column)) for column in zip(*G, strict=True)]
    outer = mean(mixture, [apart(g, whole) for g in G])
    p, gaps = len(v), [(x - Fraction(float(y))) ** 2 for x, y in zip(L, b, strict=True)]
    return {
        "intra": max(v),
        "outer": outer,
        "per_domain": mean([x * x for x in mixture], v),
        "weighted": mean(mixture, v) + outer,
        "p_weighted": (mean(mixture, v) + outer) / p,
        "uniform_domain": p * sum(u, Fraction(0)) + (p - 1) * sum(gaps, Fraction(0)),
        "every_domain": sum(u, Fraction(0)),
    }


@pytest.mark.parametrize("shift", [0.0, 1e4, 1e8])
@pytest.mark.parametrize("form", ["dense", "csr", "weighted", "weighted csr", "overlapping csr"])
@pytest.mark.parametrize("intercept", [True, False])
def test_variances_keep_their_digits_beside_large_means(
    shift: float, form: str, intercept: bool
) -> None:
    rng = np.random.default_rng(5)
    X: Any = np.round(rng.normal(size=(12, 2)) * 4) / 4 + shift
    if shift == 0:
        X[::5, 1] = 0  # one column with holes and one without
    y, domains = np.round(rng.normal(size=12) * 4), np.arange(12) % 3
    options = {"sample_weight": rng.integers(1, 6, 12) / 3} if "weighted" in form else {}
    labels = np.eye(3)[domains] + (rng.random((12, 3)) < 0.3) if "over" in form else domains
    X = sparse.csr_array(X) if "csr" in form else X
    problem = LinearDomains(X, y, labels, SquaredError(), intercept=intercept, **options)
    w, lam = np.array([0.5, -0.25, 1.0])[: problem.n_parameters], np.array([0.5, 0.25, 0.25])
    b = np.array([1.0, 0.0, 2.0])
    found = variances(problem, w, lam, b)
    for field, exact in exact_variances(problem, w, lam, b).items():
        rounding = max(1e-10, 1e-15 * shift)  # gradients of shift² are apart by shift
        assert getattr(found, field) == pytest.approx(float(exact), rel=rounding), field


def test_gradients_that_are_large_and_nearly_alike_differ_still() -> None:
    """At w = 1 the gradients x² of x = 1e8 and 1e8 + 1 are 1e16 and 1e16 + 2e8 + 1."""
    X = np.array([[1e8], [1e8 + 1]])
    for rows in (X, sparse.csr_array(X)):
        problem = LinearDomains(rows, [0.0, 0.0], ["a", "a"], SquaredError(), intercept=False)
        assert variances(problem, [1.0], [1.0]).intra == pytest.approx((1e8 + 0.5) ** 2, rel=1e-8)


def test_equal_sparse_rows_have_no_variance_though_shares_sum_to_one_but_for_rounding() -> None:
    """No row lacks the column, so its mean of 1e16 must not be charged with the rounding of 1."""
    for seed in range(10):
        weight = np.random.default_rng(seed).uniform(1, 2, size=7)
        problem = LinearDomains(
            sparse.csr_array(np.full((7, 1), 1e8)),
            np.zeros(7),
            ["a"] * 7,
            SquaredError(),
            intercept=False,
            sample_weight=weight,
        )
        assert variances(problem, [1.0], [1.0]).intra <= 1e3  # gradients of 1e16 are rounded to 2


def test_variances_of_several_scores_and_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three classes, and so few rows at a time that there are many parts: row by row, slowly."""
    for form in ("dense", "overlapping csr"):
        problem = make(11, n=30, p=3, n_classes=3, form=form)
        w, lam, b = point(problem)
        whole = variances(problem, w, lam, b)
        monkeypatch.setattr("anymix.bounds.variance.CHUNK", 7)
        assert variances(problem, w, lam, b).intra == pytest.approx(whole.intra, rel=1e-14)
        monkeypatch.undo()
        slope = problem.at(w).slope.astype(np.longdouble)
        X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
        rows = np.column_stack([X, np.ones(30)]).astype(np.longdouble)
        g = (slope[:, :, None] * rows[:, None, :]).reshape(30, -1)
        a = problem.average.toarray()
        v = [np.sum(k * np.sum((g - k @ g) ** 2, axis=1)) for k in a]
        assert whole.intra == pytest.approx(float(max(v)), rel=1e-13)


@pytest.mark.parametrize("mixture", [[0.5, 0.6], [1.5, -0.5], [0.5, np.nan], [1.0]])
def test_variances_refuse_what_is_no_mixture(mixture: list[float]) -> None:
    problem = LinearDomains([[1.0], [2.0]], [0, 1], ["a", "b"])
    with pytest.raises(ValueError, match="mixture"):
        variances(problem, [0.0, 0.0], mixture)


# -- which uniform number is which row -------------------------------------------------------------


@problems
def test_rows_are_picked_by_their_shares(name: str) -> None:
    problem = PROBLEMS[name]()
    rows, n = DomainRows(problem), 30_000
    u = (np.arange(n) + 0.5) / n
    for k in range(problem.n_domains):
        picked = np.bincount(rows.pick(np.full(n, k), u), minlength=problem.n_rows) / n
        np.testing.assert_allclose(picked, problem.average.toarray()[k], atol=1.5 / n)


def test_nearly_equal_shares_of_a_large_domain_are_not_taken_for_equal() -> None:
    n = 1_000_000  # shares of 1e-6, which differ by 1e-8: less than a careless tolerance
    half, weight = n // 2, np.where(np.arange(n) < n // 2, 0.995, 1.005)
    problem = LinearDomains(
        np.zeros((n, 1)), np.zeros(n), np.zeros(n), SquaredError(), sample_weight=weight
    )
    row = DomainRows(problem).pick(np.zeros(1, dtype=np.intp), np.array([0.4976]))[0]
    assert row == half + 99  # the first half has 0.4975, and 0.0001 is 99.5 rows of 1.005e-6


@pytest.mark.parametrize("form", ["dense", "weighted", "overlapping"])
def test_the_ends_of_the_unit_interval_pick_the_first_and_the_last_row(form: str) -> None:
    problem = make(11, form=form)
    rows = DomainRows(problem)
    for k in range(problem.n_domains):
        mine = np.flatnonzero(problem.average.toarray()[k])
        picked = rows.pick(np.array([k, k]), np.array([0.0, LAST]))
        assert picked.tolist() == [mine[0], mine[-1]]


def squares() -> tuple[LinearDomains, DomainRows, Array]:
    """Domain 0 has rows 0 and 2, domain 1 has row 1; at w = 1: ℓ = ½, 2, 8 and ∇ℓ = 1, 4, 16."""
    X, y = [[1.0], [2.0], [4.0]], np.zeros(3)
    problem = LinearDomains(X, y, [0, 1, 0], SquaredError(), intercept=False)
    return problem, DomainRows(problem), np.ones(1)


def test_per_domain_by_hand() -> None:
    _, rows, w = squares()
    lam = np.array([0.25, 0.75])
    one = PerDomain().model_gradient(rows, w, lam, np.array([0.6, 0.1]))
    assert one.tolist() == [0.25 * 16 + 0.75 * 4]
    two = PerDomain(2).model_gradient(rows, w, lam, np.array([0.6, 0.4, 0.9, 0.0]))
    assert two.tolist() == [0.25 * (16 + 1) / 2 + 0.75 * 4]


def test_weighted_by_hand() -> None:
    _, rows, w = squares()
    lam = np.array([0.25, 0.75])
    assert Weighted().model_gradient(rows, w, lam, np.array([0.24, 0.5])).tolist() == [16.0]
    assert Weighted().model_gradient(rows, w, lam, np.array([0.25, 0.9])).tolist() == [4.0]
    u = np.array([0.24, 0.5, 0.99, 0.9])  # (domain, row), (domain, row)
    assert Weighted(2).model_gradient(rows, w, lam, u).tolist() == [(16 + 4) / 2]


def test_uniform_domain_by_hand() -> None:
    _, rows, w = squares()
    b = np.array([0.25, 1.0])
    one = UniformDomain().mixture_gradient(rows, w, b, np.array([0.49, 0.5]))
    assert one.tolist() == [2 * (8 - 0.25), 0.0]
    u = np.array([0.5, 0.9, 0.75, 0.1, 0.0, 0.0, 0.1, 0.99])
    four = UniformDomain(4).mixture_gradient(rows, w, b, u)
    assert four.tolist() == [2 * (0.25 + 7.75) / 4, 2 * (1 + 1) / 4]


def test_every_domain_by_hand() -> None:
    _, rows, w = squares()
    b = np.array([0.25, 1.0])
    two = EveryDomain(2).mixture_gradient(rows, w, b, np.array([0.6, 0.4, 0.9, 0.0]))
    assert two.tolist() == [(8 + 0.5) / 2 - 0.25, 2.0 - 1.0]


def test_full_batch_by_hand() -> None:
    _, rows, w = squares()
    none = np.empty(0)
    assert FullBatch().n_draws(2) == 0
    assert FullBatch().model_gradient(rows, w, np.array([0.25, 0.75]), none).tolist() == [
        0.25 * 17 / 2 + 0.75 * 4
    ]
    assert FullBatch().mixture_gradient(rows, w, np.array([0.25, 1.0]), none).tolist() == [4, 1]


@pytest.mark.parametrize("u", [0.0, 0.3, 0.5, LAST])
def test_a_domain_without_weight_is_never_drawn(u: float) -> None:
    _, rows, w = squares()
    only = [np.array([0.0, 1.0]), np.array([1.0, 0.0])]
    assert Weighted().model_gradient(rows, w, only[0], np.array([u, 0.0])).tolist() == [4.0]
    assert Weighted().model_gradient(rows, w, only[1], np.array([u, 0.0])).tolist() == [1.0]


def test_weights_that_do_not_sum_to_one_are_drawn_in_proportion() -> None:
    _, rows, w = squares()
    for u, expected in ((0.49, 1.0), (0.51, 4.0), (LAST, 4.0)):
        for lam in ([0.2, 0.2], [3.0, 3.0]):
            drawn = Weighted().model_gradient(rows, w, np.array(lam), np.array([u, 0.0]))
            assert drawn.tolist() == [expected]


@given(st.integers(1, 2**31), st.floats(1e-300, 1e300))
def test_the_largest_uniform_number_stays_inside(p: int, total: float) -> None:
    assert LAST * p < p
    assert LAST * total < total


def test_a_number_between_two_rows_is_the_second_of_them() -> None:
    problem = LinearDomains(
        [[1.0]] * 6, [0, 1] * 3, [0, 1] * 3, sample_weight=[1, 1, 1, 1, 2, 2]
    )  # rows 0, 2, 4 and rows 1, 3, 5, with shares ¼, ¼, ½
    rows = DomainRows(problem)
    for k in (0, 1):
        picked = rows.pick(np.full(4, k), np.array([0.0, 0.25, 0.5, 0.75]))
        assert picked.tolist() == [k, k + 2, k + 4, k + 4]


def test_numbers_of_draws_and_companions() -> None:
    assert [s.n_draws(5) for s in MODEL_SAMPLERS] == [5, 10, 2, 4]
    assert [s.n_draws(5) for s in MIXTURE_SAMPLERS] == [2, 4, 5, 10]
    assert companion(PerDomain(3)) == EveryDomain(3)
    assert companion(Weighted(3)) == UniformDomain(3)
    assert companion(FullBatch()) == FullBatch()


@pytest.mark.parametrize("batch", [0, -1, 1.5, np.nan, np.inf, "2", None])
@pytest.mark.parametrize("sampler", [PerDomain, Weighted, UniformDomain, EveryDomain])
def test_bad_batches_are_refused(sampler: Any, batch: Any) -> None:
    with pytest.raises(ValueError, match="batch_size"):
        sampler(batch)


# -- advice ----------------------------------------------------------------------------------------


def test_an_even_mixture_asks_for_per_domain_and_a_lopsided_one_for_weighted() -> None:
    problem = make(12, n=60, p=6)
    w = np.zeros(problem.n_parameters)
    even = advise_sampler(problem, w, np.full(6, 1 / 6))
    assert even.sampler == PerDomain()
    assert "6.0 of the 6 domains" in even.reason
    assert even.reason.startswith("PerDomain")
    lopsided = advise_sampler(problem, w, [0.95, 0.01, 0.01, 0.01, 0.01, 0.01])
    assert lopsided.sampler == Weighted()
    assert lopsided.reason.startswith("Weighted")


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_advice_is_the_least_variance_for_the_same_rows(seed: int, p: int) -> None:
    problem = make(seed, n=3 * p + 2, p=p)
    w, lam, _ = point(problem, seed)
    advice, v = advise_sampler(problem, w, lam), variances(problem, w, lam)
    assert advice.variances == v
    assert advice.per_domain == pytest.approx(p * v.per_domain)
    assert advice.weighted == pytest.approx(v.weighted)
    wanted = PerDomain() if v.per_domain <= v.p_weighted else Weighted()
    assert advice.sampler == wanted or v.per_domain == pytest.approx(v.p_weighted)
    ratio = min(advice.per_domain, advice.weighted) / max(advice.per_domain, advice.weighted)
    assert f"{ratio:.2g} times" in advice.reason


def test_advice_finds_its_own_point() -> None:
    rng = np.random.default_rng(0)
    X, d = rng.normal(size=(300, 2)), np.repeat([0, 1, 2], 100)
    y = (X[:, 0] * np.array([1.0, 1.0, -1.0])[d] > 0).astype(int)  # two agree, one differs
    advice = advise_sampler(LinearDomains(X, y, d))
    assert advice.variances.weighted > 0
    alone = advise_sampler(LinearDomains(X, y, d), mixtures=Simplex(3), gamma=1e-3)
    assert alone == advice


def test_without_noise_the_advice_is_still_one() -> None:
    advice = advise_sampler(LinearDomains([[1.0]], [2.0], ["a"], SquaredError()), [0, 0], [1.0])
    assert advice.sampler == PerDomain()
    assert advice.per_domain == advice.weighted == 0


def test_advice_for_a_hinge_needs_a_point() -> None:
    problem = make(13, loss=Hinge())
    with pytest.raises(ValueError, match="w and mixture are None"):
        advise_sampler(problem)
    assert advise_sampler(problem, np.zeros(3), np.full(3, 1 / 3)).reason
    with pytest.raises(ValueError, match="only one of"):
        advise_sampler(problem, w=np.zeros(3))
