"""Rademacher complexities against all 2^n signs, closed forms and scikit-learn-free arithmetic."""

import math
from itertools import product
from typing import Any, cast

import numpy as np
import pytest

import anymix as ax
from anymix.bounds import (
    Complexity,
    finite_rademacher,
    kernel_rademacher,
    linear_rademacher,
    vc_complexity,
)
from anymix.errors import InputError

X = np.array([[1.0, 0.5], [0.0, 2.0], [-1.0, 1.0], [0.3, 0.3], [2.0, -1.0], [1.0, 1.0]])
D = np.array(["a", "a", "b", "b", "b", "c"])
LAM = np.array([0.2, 0.5, 0.3])
WEIGHT = np.array([LAM["abc".index(d)] / np.sum(d == D) for d in D])
SIGNS = np.array(list(product([-1.0, 1.0], repeat=len(X))))  # all 2^6
LOSSES = np.random.default_rng(0).random((4, len(X)))


def exactly(supremum: Any) -> float:
    """The mean over all signs."""
    return float(np.mean([supremum(signs * WEIGHT) for signs in SIGNS]))


def test_linear_is_within_its_error_of_all_signs() -> None:
    exact = 1.5 * 2 * exactly(lambda a: np.linalg.norm(a @ X))
    found = linear_rademacher(X, D, LAM, w_radius=1.5, lipschitz=2.0, n_draws=20_000, seed=1)
    assert abs(found.value - exact) < 4 * found.standard_error
    assert found.standard_error < 0.01 * exact
    assert exact <= found.upper == pytest.approx(3 * math.sqrt(np.sum(WEIGHT**2 @ X**2)))


def test_kernel_is_within_its_error_of_all_signs() -> None:
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    exact = 2 * exactly(lambda a: math.sqrt(a @ K @ a))
    found = kernel_rademacher(K, D, LAM, norm=2.0, n_draws=20_000, seed=2)
    assert abs(found.value - exact) < 4 * found.standard_error
    assert exact <= found.upper == pytest.approx(2 * math.sqrt(np.sum(WEIGHT**2)))  # K_ii = 1
    linear = linear_rademacher(X, D, LAM, seed=5)
    assert kernel_rademacher(X @ X.T, D, LAM, seed=5).value == pytest.approx(linear.value)


def test_finite_is_within_its_error_of_all_signs() -> None:
    exact = exactly(lambda a: np.max(LOSSES @ a))
    found = finite_rademacher(LOSSES, D, LAM, n_draws=20_000, seed=3)
    assert abs(found.value - exact) < 4 * found.standard_error
    massart = math.sqrt(2 * math.log(4)) * np.sqrt(WEIGHT**2 @ LOSSES.T**2).max()
    assert exact <= found.upper == pytest.approx(massart)


def test_the_proven_bound_fails_no_more_often_than_it_says() -> None:
    """ℜ_S = E |Σ σ_i|/12 is known from a binomial; the bound of 50 draws may miss it."""
    ones, one, delta = np.ones((12, 1)), np.array([1.0]), 0.05
    exact = sum(math.comb(12, j) * abs(2 * j - 12) for j in range(13)) / 2**12 / 12
    rng, n_sets, failed = np.random.default_rng(6), 1000, 0
    for _ in range(n_sets):
        bound = linear_rademacher(ones, n_draws=50, seed=rng)._at_most(one, delta)
        assert bound <= math.sqrt(1 / 12)  # the closed form
        failed += bound < exact
    print(f"\nfails {failed / n_sets:.3f}")
    assert failed / n_sets <= delta + 2.5 * math.sqrt(delta * (1 - delta) / n_sets)


def test_a_finite_class_is_bounded_by_the_largest_loss_of_each_row() -> None:
    """Two models that are one: ℜ_S = 0, and both bounds allow for more."""
    twice = np.stack([np.arange(1.0, 5.0)] * 2)
    found = finite_rademacher(twice, n_draws=5000)
    rows = math.sqrt(1 + 4 + 9 + 16) / 4
    off = math.sqrt(2 * math.log(10) / 5000) * rows
    assert found._at_most(np.ones(1), 0.1) == pytest.approx(found.value + off)
    assert found._at_most(np.ones(1), 0.0) == pytest.approx(math.sqrt(2 * math.log(2)) * rows)


@pytest.mark.parametrize(
    "mixtures",
    [
        ax.Simplex(3),
        ax.Box([0.1] * 3, [0.6] * 3),
        ax.Hull(np.vstack((LAM, np.full(3, 1 / 3)))),
        ax.Chi2Ball([2, 3, 1], 1.4),
        ax.TVBall([1 / 3] * 3, 0.2),
    ],
    ids=lambda s: type(s).__name__,
)
def test_minimax_is_the_largest_over_the_set(mixtures: ax.MixtureSet) -> None:
    """Against many mixtures of the set, under the same signs."""
    found = linear_rademacher(X, D, mixtures, n_draws=500, seed=4)
    rng = np.random.default_rng(0)
    some = [mixtures.maximize(rng.normal(size=3)) for _ in range(200)]
    some += [mixtures.project(rng.dirichlet(np.ones(3))) for _ in range(100)]
    values = [linear_rademacher(X, D, lam, n_draws=500, seed=4).value for lam in some]
    assert max(values) <= found.value * (1 + 1e-6)
    assert found.value <= found.upper * (1 + 1e-12)
    assert mixtures.contains(found.mixture)


def test_domains_that_share_rows_have_a_larger_closed_form() -> None:
    member = np.ones((6, 2), dtype=bool)  # twice the same domain: no less noise than one
    found = linear_rademacher(X, member, [0.5, 0.5], n_draws=2000)
    assert found.upper == pytest.approx(math.sqrt(np.sum(X**2)) / 6)
    assert found.value <= found.upper


def test_vc_by_hand() -> None:
    m = 100
    expected = math.sqrt(2 * 4 * (3 / m) * math.log(math.e * m / 3))
    assert vc_complexity(3, [25, 75]) == pytest.approx(expected)  # 𝔰 = 4
    assert vc_complexity(3, [25, 75], spread=1.0) == pytest.approx(expected / 2)
    c = Complexity.vc(3, [25, 75])
    assert c.worst(None) == pytest.approx(expected)
    assert c.at([0.25, 0.75]) == pytest.approx(expected / 2)  # 𝔰 = 1
    assert Complexity.linear([25, 75], 2.0, 3.0, 0.5).at([1, 0]) == pytest.approx(3 / 5)
    assert Complexity.finite(1, [25, 75]).worst(None) == 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: vc_complexity(0, [5]), "d is 0; give a VC dimension"),
        (lambda: vc_complexity(9, [5]), "d is 9, more than the 5 rows there are"),
        (lambda: vc_complexity(1, [0.0]), "sizes has 0.0 at index 0"),
        (lambda: linear_rademacher(X, D, LAM, w_radius=-1), "w_radius is -1"),
        (lambda: linear_rademacher(X, D, LAM, n_draws=0), "n_draws is 0"),
        (lambda: linear_rademacher(X, D, ax.Simplex(2)), "mixture is over 2 domains"),
        (lambda: kernel_rademacher(X, D), "gram of shape"),
        (lambda: Complexity.finite(0, [5]), "n_models is 0"),
        (lambda: kernel_rademacher([[1.0, 2.0], [2.0, 1.0]]), "gram has the eigenvalue -1"),
        (
            lambda: linear_rademacher([[1.0]], seed=cast(Any, "x")),
            "seed is 'x'; give a whole number",
        ),
        (lambda: linear_rademacher([[1.0]], n_draws=cast(Any, np.ones(2))), "n_draws is array"),
    ],
)
def test_what_cannot_be_is_refused(call: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        call()
