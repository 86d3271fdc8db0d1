"""Held-out losses: means, standard errors, the expected worst loss, and who is worst."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from clark import expected_worst
from held_out_losses import held_out, shares
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import integrate, sparse, stats

import anymix as ax
from anymix.mixtures import MixtureSet
from anymix.selection.held_out import Errors, HeldOut, chances

Array = NDArray[np.float64]

DRAWS = 1000  # of ξ; few where each worst mixture is a program of its own
FEW_DRAWS = 200


# -- means and standard errors -------------------------------------------------------------------


def test_by_hand() -> None:
    """Domain a has the rows 0, 1, 2 and b the rows 3, 4."""
    found = held_out([[1, 2, 3, 5, 7], [2, 2, 2, 4, 4]], list("aaabb"), b=[0.5, 1.0])
    assert found.domain_losses.tolist() == [[2, 6], [2, 4]]
    assert found.worst.tolist() == [[0, 1], [0, 1]]
    assert found.value.tolist() == [5, 3]
    np.testing.assert_allclose(found.pooled, [18 / 5, 14 / 5])
    np.testing.assert_allclose(found.spread, [math.sqrt(1 / 3), 1.0])  # s² = 1 of 3, 2 of 2 rows
    half = np.array([0.5, 0.5])
    assert found.error(0, half) == pytest.approx(math.sqrt(1 / 3 + 1) / 2)
    assert found.error(1, half) == 0
    b = np.array([0.0, 1.0])
    assert found.error(1, b, 0) == pytest.approx(1.0)  # 5, 7 against 4, 4
    assert found.error(1, 1 - b, 0) == pytest.approx(math.sqrt(1 / 3))  # 1, 2, 3 and 2, 2, 2


@given(st.integers(0, 10**6), st.integers(-200, 200))
def test_the_error_is_the_textbooks(seed: int, power: int) -> None:
    """√(Σ_k λ_k² s_k²/m_k), s_k² the variance with m_k − 1, for rows in one domain each."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 5))
    domains = np.repeat(np.arange(p), rng.integers(2, 9, size=p))
    v, unit = rng.normal(size=len(domains)), 10.0**power
    mixture = rng.dirichlet(np.ones(p)) * (rng.random(p) < 0.8)
    members = np.array([domains == k for k in range(p)])
    own = np.array([v[rows].std(ddof=1) / math.sqrt(rows.sum()) for rows in members])
    errors = Errors(shares(members))
    assert errors.of(v * unit, mixture) == pytest.approx(unit * np.linalg.norm(mixture * own))
    np.testing.assert_allclose(errors.by_domain(v * unit), unit * own, rtol=1e-9)


@settings(max_examples=50)
@given(st.integers(0, 10**6))
def test_weights_and_memberships_by_the_formula(seed: int) -> None:
    """se² = Σ_i (Σ_k λ_k a_ki (v_i − v̄_k)/√(1 − Σ_j a_kj²))², row after row."""
    rng = np.random.default_rng(seed)
    members = rng.random((3, 12)) * (rng.random((3, 12)) < 0.6) + np.eye(3, 12) + np.eye(3, 12, 3)
    a, v, mixture = shares(members).toarray(), rng.normal(size=12), rng.dirichlet(np.ones(3))
    square = 0.0
    for i in range(12):
        parts = [
            mixture[k] * a[k, i] * (v[i] - a[k] @ v) / math.sqrt(1 - a[k] @ a[k]) for k in range(3)
        ]
        square += sum(parts) ** 2
    errors = Errors(shares(members))
    assert errors.of(v, mixture) == pytest.approx(math.sqrt(square))
    assert Errors(shares(7 * members)).of(v, mixture) == pytest.approx(math.sqrt(square))
    np.testing.assert_allclose(errors.by_domain(v), [errors.of(v, e) for e in np.eye(3)])


def test_overlapping_rows_against_the_bootstrap() -> None:
    """Rows drawn anew, with all their memberships: the spread of the mean is the error."""
    rng = np.random.default_rng(0)
    n = 500
    members = np.array([rng.random(n) < 0.6, rng.random(n) < 0.3, np.ones(n)]) * rng.uniform(
        0.5, 2, n
    )
    v = rng.exponential(size=n) + members[0]
    mixture = np.array([0.5, 0.3, 0.2])
    count = 4000
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=count)  # (count, n), how often each row
    means = (drawn @ (members * v).T) / (drawn @ members.T)  # (count, p)
    spread, errors = float(np.std(means @ mixture)), Errors(shares(members))
    error = errors.of(v, mixture)
    assert error == pytest.approx(spread, rel=4.5 / math.sqrt(2 * count))  # its own standard error
    assert np.linalg.norm(mixture * errors.by_domain(v)) < 0.8 * spread  # rows err together


def test_a_domain_of_one_row_has_the_error_of_one_row_among_all() -> None:
    members, v = [[1, 0, 0], [0, 1, 1]], np.array([1.0, 2.0, 4.0])
    errors, one = Errors(shares(members)), v.std(ddof=1)
    np.testing.assert_allclose(errors.by_domain(v), [one, 1.0])  # 2 and 4: √2/√2
    assert errors.of(v, np.array([1.0, 0.0])) == pytest.approx(one)
    assert errors.of(v, np.array([0.6, 0.8])) == pytest.approx(math.hypot(0.6 * one, 0.8))
    assert Errors(shares([[1.0]])).of(np.array([2.0]), np.ones(1)) == math.inf


def test_some_of_the_rows_are_judged_as_if_there_were_no_others() -> None:
    rng = np.random.default_rng(0)
    losses, domain = rng.random((3, 60)), np.arange(60) % 3
    some = rng.random(60) < 0.5
    found, expected = held_out(losses, domain).only(some), held_out(losses[:, some], domain[some])
    np.testing.assert_allclose(found.domain_losses, expected.domain_losses)
    assert found.error(1, found.worst[1], 0) == pytest.approx(expected.error(1, found.worst[1], 0))
    without = held_out(losses, domain).only(domain != 2)  # no row of a domain is left
    np.testing.assert_allclose(without.domain_losses[:, 2], losses[:, domain != 2].mean(axis=1))


@settings(max_examples=50)
@given(st.integers(0, 10**6))
def test_values_are_those_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domains = np.append(np.arange(3).repeat(2), rng.integers(0, 3, 14))
    losses, b = rng.exponential(size=(4, 20)), rng.normal(size=3)
    corners = np.array(
        [[0.6, 0.4, 0], [0.6, 0.2, 0.2], [0.3, 0.7, 0], [0.1, 0.7, 0.2], [0.1, 0.4, 0.5]]
    )
    corners = np.vstack([corners, [0.3, 0.2, 0.5]])
    box = ax.Box([0.1, 0.2, 0.0], [0.6, 0.7, 0.5])
    for target in (box, ax.Hull(corners), ax.Vertices(3), ax.Simplex(3)):
        found = held_out(losses, domains, target, b)
        L = np.array([[row[domains == k].mean() for k in range(3)] for row in losses]) - b
        among = corners if target.n_domains and not target.contains(np.eye(3)[0]) else np.eye(3)
        np.testing.assert_allclose(found.value, (L @ among.T).max(axis=1))
        np.testing.assert_allclose(np.sum(found.worst * L, axis=1), (L @ among.T).max(axis=1))
    np.testing.assert_allclose(found.pooled, losses.mean(axis=1))


# -- what is to be expected of the worst mixture -------------------------------------------------


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.floats(-100, 100))
def test_what_is_expected_of_two_domains_is_known_in_closed_form(seed: int, power: float) -> None:
    """Within 4.5 standard errors of the draws, whatever the unit of the losses."""
    rng = np.random.default_rng(seed)
    domains = np.append(np.arange(2).repeat(3), rng.integers(0, 2, 30))
    losses = rng.exponential(size=(3, 36)) * 10.0**power
    found = held_out(losses, domains)
    room = 4.5 * found.spread.max() / math.sqrt(DRAWS)
    np.testing.assert_allclose(
        found.expected, expected_worst(losses, domains), rtol=1e-12, atol=room
    )


@pytest.mark.parametrize("kind", ["simplex", "box", "hull", "tv", "chi2", "prior"])
def test_what_is_expected_is_the_mean_over_rows_drawn_anew(kind: str) -> None:
    """Against the bootstrap, for sets with corners and without, and with a prior."""
    rng = np.random.default_rng(1)
    sizes = np.array([150, 80, 60])
    domains = np.repeat(np.arange(3), sizes)
    losses = rng.exponential(size=(2, 290)) + np.array([[0.0], [0.1]]) * (domains == 2)
    sets: dict[str, MixtureSet] = {
        "box": ax.Box([0.1, 0.2, 0.0], [0.6, 0.7, 0.5]),
        "hull": ax.Hull([[0.8, 0.1, 0.1], [0.1, 0.2, 0.7], [0.1, 0.8, 0.1]]),
        "tv": ax.TVBall([0.4, 0.3, 0.3], 0.2),
        "chi2": ax.Chi2Ball(sizes, 1.5),
    }
    found = held_out(losses, domains, sets.get(kind))
    if kind == "prior":
        found = replace(found, prior=ax.DirichletPrior([2.0, 2.0, 2.0]))
    count = 400
    drawn = [
        [losses[0, rng.choice(np.flatnonzero(domains == k), m)].mean() for k, m in enumerate(sizes)]
        for _ in range(count)
    ]
    apart = np.array(drawn) - found.domain_losses[0]  # the same for both models
    values = np.array([found._values(L + apart) for L in found.domain_losses])
    error = values.std(axis=1) / math.sqrt(count) + values.std(axis=1) / math.sqrt(FEW_DRAWS)
    assert np.all(np.abs(found.expected - values.mean(axis=1)) < 4.5 * error)
    assert np.all(found.expected > found.value)  # the largest of what errs is larger


def test_without_noise_what_is_expected_is_what_was_seen() -> None:
    found = held_out([[1.0] * 4 + [2.0] * 4, [1.5] * 8], np.repeat(["a", "b"], 4))
    np.testing.assert_allclose(found.expected, found.value, rtol=1e-12)
    assert found.chances().tolist() == [0, 1]


def test_the_errors_are_those_of_the_reference() -> None:
    rng = np.random.default_rng(0)
    members = (rng.random((3, 30)) < 0.6) * rng.uniform(0.5, 2, 30)
    losses = rng.exponential(size=(3, 30))
    found = HeldOut(losses, shares(members), ax.Simplex(3), np.zeros(3), np.full(3, 1 / 3))
    np.testing.assert_allclose(found.spread, [found.error(0, e) for e in np.eye(3)])


# -- the chance to be the worst ------------------------------------------------------------------


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_the_chances_are_those_of_numerical_integration(seed: int) -> None:
    """π_k = ∫ φ(x) Π_{j≠k} Φ((L_k + s_k x − L_j)/s_j) dx, within 4.5 standard errors."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 6))
    L, s = rng.normal(size=p), rng.uniform(0.1, 2, size=p)

    def density(x: float, k: int) -> float:
        others = np.delete(np.arange(p), k)
        below = stats.norm.cdf((L[k] + s[k] * x - L[others]) / s[others])
        return float(stats.norm.pdf(x) * np.prod(below))

    exact = np.array([integrate.quad(density, -8, 8, args=(k,))[0] for k in range(p)])
    assert exact.sum() == pytest.approx(1, abs=1e-6)
    found = chances(ax.Simplex(p), L, s)
    room = 4.5 * np.sqrt(exact * (1 - exact) / DRAWS) + 2 / DRAWS
    assert np.all(np.abs(found - exact) <= room)


@pytest.mark.parametrize("kind", ["box", "hull", "tv", "prior"])
def test_of_a_general_set_they_are_the_mean_worst_mixture(kind: str) -> None:
    """Two domains: λ is one end of the set or the other; of a prior, an integral."""
    L, s, ends = np.array([0.6, 0.5]), np.array([0.1, 0.2]), np.array([[0.7, 0.3], [0.2, 0.8]])
    first = float(stats.norm.cdf(0.1 / math.hypot(*s)))  # that the first domain is worse
    sets: dict[str, MixtureSet] = {
        "box": ax.Box([0.2, 0.3], [0.7, 0.8]),
        "hull": ax.Hull(ends),
        "tv": ax.TVBall([0.45, 0.55], 0.25),
        "prior": ax.Simplex(2),
    }
    prior = ax.DirichletPrior([2.0, 2.0]) if kind == "prior" else None
    found = chances(sets[kind], L, s, prior)
    expected = first * ends[0] + (1 - first) * ends[1]
    room = 4.5 * 0.5 * math.sqrt(first * (1 - first) / FEW_DRAWS)
    if prior is not None:  # of g = L_1 − L_2, λ_1 solves g + 1/λ_1 − 1/(1 − λ_1) = 0
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        g = 0.1 + math.hypot(*s) * nodes
        lam = np.where(
            np.abs(g) < 1e-9, 0.5, (g - 2 + np.sqrt(g**2 + 4)) / (2 * np.where(g == 0, 1, g))
        )
        mean = float(weights @ lam / weights.sum())
        expected, room = np.array([mean, 1 - mean]), 4.5 * lam.std() / math.sqrt(FEW_DRAWS)
    np.testing.assert_allclose(found, expected, atol=room)
    assert found.sum() == pytest.approx(1)


def test_many_draws_need_little_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    losses, domains = rng.exponential(size=(4, 300)), np.arange(300) % 7
    whole = held_out(losses, domains).expected
    monkeypatch.setattr("anymix.selection.held_out.MOST_AT_ONCE", 100)
    np.testing.assert_allclose(held_out(losses, domains).expected, whole)


def test_a_sparse_average_of_many_domains() -> None:
    """Every mean is that of its rows, also where p is in the hundreds."""
    rng = np.random.default_rng(0)
    domains = rng.permutation(np.repeat(np.arange(300), 5))
    losses = rng.exponential(size=(2, 1500))
    found = held_out(losses, domains)
    assert isinstance(found.average, sparse.csc_array)
    means = np.bincount(domains, losses[1]) / 5
    np.testing.assert_allclose(found.domain_losses[1], means)
    assert found.chances().sum() == pytest.approx(1)
