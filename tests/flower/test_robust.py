from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flower.clients import Tampered, grid_of
from scipy.optimize import minimize

from anymix.errors import InputError
from anymix.flower import AgnosticStrategy, Judging, Robust, Steps, Sum
from anymix.flower.aggregation import Contribution
from anymix.flower.robust import geometric_median, trimmed_mean, weighted_median


def test_the_geometric_median_is_the_least_sum_of_distances() -> None:
    rng = np.random.default_rng(0)
    g, weights = rng.normal(size=(15, 3)), rng.uniform(0.5, 2, 15)

    def distance(x: Any) -> float:
        return float(weights @ np.linalg.norm(g - x, axis=1))

    best = minimize(
        distance, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
    )
    assert distance(geometric_median(g, weights)) <= best.fun + 1e-8


def test_the_weighted_median_is_that_of_repeated_values() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        values, times = rng.normal(size=6), rng.integers(1, 5, 6)
        repeated = float(np.median(np.repeat(values, times)))
        assert weighted_median(values, times.astype(float)) == pytest.approx(repeated)


def test_the_trimmed_mean_is_between_the_honest_ones() -> None:
    rng = np.random.default_rng(2)
    honest = rng.normal(size=(16, 4))
    lies = rng.choice([-1e9, 1e9], size=(4, 4))
    found = trimmed_mean(np.vstack([honest, lies]), 0.2)
    assert np.all(found >= honest.min(axis=0))
    assert np.all(found <= honest.max(axis=0))


@pytest.mark.parametrize("updates", ["trimmed", "geometric"])
def test_of_clients_that_are_alike_it_is_the_sum(updates: Any) -> None:
    """Two groups of domains, each of like clients with different numbers of rows."""
    A = np.array([[0.1, 0.0], [0.3, 0.0], [0.2, 0.0], [0.0, 0.1], [0.0, 0.3]])
    g, L = np.array([[1.0, 2.0], [-3.0, 0.5]]), np.array([0.4, 0.9])
    given = {i: Contribution(A[i] @ g, A[i] * L) for i in range(5)}
    theirs = Sum().add_up(given, A, A, 1)
    ours = Robust(updates).add_up(given, A, A, 1)
    assert ours is not None
    assert theirs is not None
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-9)
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-12)
    del given[1]
    assert Robust(updates).add_up(given, A, A, 1) is None
    fewer = Robust(updates, min_share=0.4).add_up(given, A, A, 1)
    assert fewer is not None
    np.testing.assert_allclose(fewer[0], theirs[0], atol=1e-9)  # the others stand for it


@pytest.mark.parametrize("updates", ["trimmed", "geometric"])
def test_a_liar_among_five_changes_little(updates: Any) -> None:
    def lie(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        arrays["update"] = -1e3 * np.ones_like(arrays["update"])
        settings["sums"][0] = 1e6

    def run(aggregation: Any, liar: bool) -> Any:
        grid = grid_of("mixed", n=300)
        grid.app = Tampered(grid.app, 1, lie) if liar else grid.app
        strategy = AgnosticStrategy(
            steps=Steps(0.5, 0.05), judging=Judging(output="last"), aggregation=aggregation
        )
        return strategy.start(grid, num_rounds=20)

    honest, lied = run(Sum(), False), run(Robust(updates, trim=0.25), True)
    worst = honest.history[-1]["agnostic_loss"]
    assert lied.history[-1]["agnostic_loss"] < worst + 0.05
    assert np.abs(lied.w - honest.w).max() < 0.5
    assert list(run(Sum(), True).excluded) == ["1"]  # what it says of two models is not convex


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"updates": "mean"}, "updates is 'mean'"),
        ({"trim": 0.5}, "trim is 0.5"),
        ({"min_share": 2}, "min_share is 2"),
    ],
)
def test_bad_input_is_named(options: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        Robust(**options)
