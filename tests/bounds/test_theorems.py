"""Theorem 1, its corollary and the alternative: by hand, and against brute force over Λ."""

import math
from typing import Any, cast

import numpy as np
import pytest

import anymix as ax
from anymix.bounds import Complexity, generalization, linear_rademacher, tightest
from anymix.errors import InputError

E = math.exp(-2)  # δ with log(1/δ) = 2


def test_one_domain_is_the_textbooks_bound() -> None:
    """L̂ + 2ℜ + M √(log(1/δ)/(2m)), Mohri et al., Foundations, Theorem 3.3."""
    for theorem in ("1", "1, corners", "alternative"):
        found = generalization([0.3], [400], 0.05, delta=E, loss_bound=2.0, theorem=theorem)
        assert found.value == pytest.approx(0.3 + 0.1 + 2 * math.sqrt(2 / 800))
        assert found.cover == 0


def test_two_domains_by_hand() -> None:
    """m = (100, 300), ℜ(λ)² = 4λ_1²/100 + 4λ_2²/300; vertices: |Λ_0| = 2."""
    c = Complexity(np.array([4 / 100, 4 / 300]))
    found = generalization([0.4, 0.5], [100, 300], c, ax.Vertices(2), delta=2 * E)
    by_hand = [
        x + 2 * math.sqrt(4 / m) + math.sqrt(2 / (2 * m)) for x, m in ((0.4, 100), (0.5, 300))
    ]  # log(2/2E) = 2
    assert found.value == pytest.approx(max(by_hand))
    assert found.mixture.tolist() == [1, 0]  # the lower loss, but fewer rows
    assert (found.empirical, found.complexity) == pytest.approx((0.4, 0.4))
    other = generalization([0.4, 0.5], [100, 300], c, delta=2 * E, theorem="alternative")
    assert other.value == pytest.approx(max(by_hand))


def test_three_domains_and_one_mixture_by_hand() -> None:
    lam, sizes = [0.5, 0.25, 0.25], [100, 100, 200]
    found = generalization([0.1, 0.2, 0.4], sizes, 0.0, ax.Point(lam), delta=E, distance=0.25)
    assert found.empirical == pytest.approx(0.2)
    assert found.confidence == pytest.approx(math.sqrt(1.375 / 800 * 2))  # 𝔰 = 1.375
    assert found.distance == 0.25
    assert found.value == pytest.approx(0.2 + found.confidence + 0.25)


def test_the_cover_of_the_simplex_by_hand() -> None:
    """p = 2, m = 10⁴, ε = 1/100: multiples of 1/N with N = ⌈2·1·1/2/ε⌉ = 100, so 101 mixtures."""
    found = generalization([0.2, 0.2], [5000, 5000], 0.0, delta=E)
    assert found.epsilon == found.cover == pytest.approx(0.01)
    assert found.confidence == pytest.approx(math.sqrt(2 / 20_000 * (math.log(101) + 2)))


@pytest.mark.parametrize(
    "mixtures",
    [
        ax.Simplex(3),
        ax.Box([0.1] * 3, [0.7, 0.5, 0.6]),
        ax.Hull([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]),
        ax.Simplex(3).shrunk(0.4, [0.2, 0.3, 0.5]),
        ax.Chi2Ball([100, 40, 300], 1.5),
        ax.TVBall([0.3, 0.3, 0.4], 0.2),
    ],
    ids=lambda s: type(s).__name__,
)
def test_the_whole_right_hand_side_is_maximised_globally(mixtures: ax.MixtureSet) -> None:
    L, m = np.array([0.3, 0.1, 0.35]), np.array([100.0, 40.0, 300.0])
    c, rng = Complexity(np.array([0.5, 0.2, 0.9]) / m), np.random.default_rng(0)
    found = generalization(L, m, c, mixtures, delta=0.1)
    log = mixtures.log_cover_size(found.epsilon) + math.log(10)
    members = [mixtures.maximize(rng.normal(size=3)) for _ in range(400)]
    members += [mixtures.project(x) for x in rng.dirichlet(np.ones(3), 400)]
    sums = [
        lam @ L + 2 * c.at(lam / lam.sum()) + found.epsilon + math.sqrt(lam**2 @ (1 / m) * log / 2)
        for lam in members
    ]
    assert max(sums) <= found.value + 1e-9
    assert max(sums) >= found.value - found.slack - 1e-3
    exact = mixtures.corners is not None
    assert (found.slack == 0) == exact
    assert ("global" in found.search) == exact
    apart = max(lam @ L for lam in members) + 2 * c.worst(mixtures)
    apart += found.epsilon + math.sqrt(mixtures.skewness(m) / m.sum() * log / 2)
    assert found.value <= apart + 1e-6  # never worse than the summands one by one


ONES, D = np.ones((125, 1)), np.repeat(["a", "b"], [100, 25])  # ℜ_S of λ = e_k is E |Σ σ_i|/m_k
DRAWN = linear_rademacher(ONES, D, n_draws=4000, seed=0)


@pytest.mark.parametrize("theorem", ["1", "1, corners", "alternative"])
def test_a_complexity_given_the_rows_costs_its_deviations(theorem: str) -> None:
    """Two corners: each has δ/40 for its draws, and half of what is left for its rows."""
    delta, M, T, by_hand = 0.1, 1.5, 4000, []
    for k, (loss, m) in enumerate(((0.3, 100), (0.2, 25))):
        mean = linear_rademacher(ONES, D, np.eye(2)[k], n_draws=T, seed=0).value
        assert mean == pytest.approx(math.sqrt(2 / (math.pi * m)), rel=0.05)
        drawn = math.sqrt(2 * math.log(40 / delta) / T * m * (1 / m) ** 2)
        rows = 3 * M * math.sqrt(math.log(2 / (0.95 * delta)) / (2 * m))
        by_hand.append((loss + 2 * (mean + drawn) + rows, loss, 2 * (mean + drawn), rows))
    found = generalization(
        *([0.3, 0.2], [100, 25], DRAWN, ax.Vertices(2), delta), loss_bound=M, theorem=theorem
    )
    parts = (found.value, found.empirical, found.complexity, found.confidence)
    assert parts == pytest.approx(max(by_hand))
    assert found.given_rows


def test_every_mixture_has_its_own_complexity_whichever_was_asked_for() -> None:
    for lam in ([1.0, 0.0], [0.3, 0.7], ax.Simplex(2)):
        other = linear_rademacher(ONES, D, lam, n_draws=4000, seed=0)
        found = generalization([0.3, 0.2], [100, 25], other)
        assert found.value == generalization([0.3, 0.2], [100, 25], DRAWN).value


@pytest.mark.parametrize("theorem", ["1", "1, corners", "alternative", "tightest"])
@pytest.mark.parametrize("lam", [None, [0.5, 0.5]])
def test_a_number_given_the_rows_promises_less_than_an_expected_one(
    theorem: str, lam: list[float] | None
) -> None:
    target = ax.Simplex(2) if lam is None else ax.Point(lam)
    rows = linear_rademacher(ONES, D, target, n_draws=4000)
    how: dict[str, Any] = {} if theorem == "tightest" else {"theorem": theorem}
    bound = tightest if theorem == "tightest" else generalization
    given, number = (bound([0.3, 0.2], [100, 25], c, target, **how) for c in (rows, rows.value))
    assert given.value > number.value + 1.5 * number.confidence
    assert not number.given_rows


def test_where_corners_are_many_the_closed_form_is_taken() -> None:
    """In a ball of three domains, against members of it; T plays no part."""
    X, d, m = np.ones((90, 1)), np.repeat([0, 1, 2], [50, 30, 10]), np.array([50, 30, 10])
    ball, L, delta = ax.Chi2Ball(m, 1.5), np.array([0.3, 0.1, 0.35]), 0.1
    found = generalization(L, m, linear_rademacher(X, d, n_draws=9), ball, delta)
    again = generalization(L, m, linear_rademacher(X, d, n_draws=50, seed=3), ball, delta)
    assert found.value == again.value
    log = ball.log_cover_size(found.epsilon) - math.log(0.95 * delta)
    rng = np.random.default_rng(0)
    sums = []
    for lam in (ball.maximize(rng.normal(size=3)) for _ in range(400)):
        root = math.sqrt(lam**2 @ (1 / m))
        sums.append(lam @ L + 2 * root + found.epsilon + 3 * root * math.sqrt(log / 2))
    assert found.value - found.slack - 1e-3 <= max(sums) <= found.value + 1e-9


def test_tightest_is_the_smallest_at_its_share_of_delta() -> None:
    L, m = [0.1, 0.3, 0.2], [2000, 500, 900]
    c = Complexity.vc(5, m, spread=1.0)
    found = tightest(L, m, c, delta=0.09)
    each = [
        generalization(L, m, c, delta=0.03, theorem=name).value
        for name in ("1", "1, corners", "alternative")
    ]
    assert found.value <= min(each) + 1e-12
    assert found.value == pytest.approx(min(each))
    assert found.delta == 0.09
    ball = tightest(L, m, c, "chi2:1.1", delta=0.09)
    assert ball.theorem == "1"
    assert ball.value < found.value
    only = generalization(L, m, c, "chi2:1.1", delta=0.045)  # ε = 1/√m
    assert ball.value <= only.value


def test_explain_names_every_summand() -> None:
    found = generalization([0.1, 0.2], [50, 70], 0.03, delta=0.1, distance=0.5)
    for part in (found.value, found.empirical, found.complexity, found.cover, found.confidence):
        assert f"{part:.4g}" in found.explain()
    assert "probability of 0.9" in found.explain()


L2, M2 = [0.1, 0.2], [10, 20]
SHARED = linear_rademacher(np.ones((5, 1)), [[1, 0], [1, 0], [1, 1], [1, 1], [0, 1]])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: generalization(L2, M2, 0.0, delta=0), "delta is 0; give a probability"),
        (lambda: generalization(L2, M2, 0.0, delta=1.0), "delta is 1.0"),
        (lambda: generalization(L2, M2, 0.0, delta=math.nan), "delta is nan"),
        (lambda: generalization(L2, M2, 0.0, epsilon=-1), "epsilon is -1"),
        (lambda: generalization(L2, M2, 0.0, epsilon=0), "epsilon is 0, and no finite cover"),
        (lambda: generalization(L2, M2, 0.0, loss_bound=0), "loss_bound is 0"),
        (lambda: generalization(L2, M2, 0.0, loss_bound=0.15), "domain_losses has 0.1 to 0.2"),
        (lambda: generalization([0.1, -0.2], M2, 0.0), "domain_losses has the entry -0.2"),
        (lambda: generalization(L2, [10, 0], 0.0), "sizes has 0.0 at index 1"),
        (lambda: generalization(L2, M2, -1.0), "complexity is -1.0"),
        (lambda: generalization(L2, M2, Complexity(np.ones(3))), "complexity is of 3 domains"),
        (
            lambda: generalization(L2, M2, DRAWN),
            r"complexity is of rows of the sizes \[100.0, 25.0",
        ),
        (lambda: generalization(L2, [25, 100], DRAWN), "complexity is of rows of the sizes"),
        (lambda: tightest(L2, M2, DRAWN), "complexity is of rows of the sizes"),
        (lambda: generalization(L2, [4, 3], SHARED), "complexity is of rows that are in two dom"),
        (lambda: generalization(L2, M2, cast(Any, "vc")), "complexity is 'vc'; give a Complexity"),
        (lambda: generalization(L2, M2, cast(Any, None)), "complexity is None"),
        (lambda: generalization(L2, M2, cast(Any, [0.1, 0.1])), r"complexity is \[0.1, 0.1\]"),
        (lambda: generalization(L2, M2, 0.0, ax.Simplex(3)), "mixtures is over 3 domains"),
        (lambda: generalization(L2, M2, 0.0, theorem="2"), "theorem is '2'"),
        (lambda: generalization(L2, M2, 0.0, distance=3), "distance is 3"),
        (
            lambda: generalization([0.1], [9], 0.1, theorem=cast(Any, [1])),
            r"theorem is \[1\]; give '1'",
        ),
    ],
)
def test_what_cannot_be_is_refused(call: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        call()
