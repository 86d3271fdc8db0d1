"""The threshold of the best worst balanced accuracy, against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from anymix.selection.rule import worst_balanced_threshold

Array = NDArray[np.float64]


def rare(seed: int, n: int = 600, p: int = 2) -> tuple[Array, Any, Any]:
    """A tenth is positive, and its probabilities are about 0.15 higher than 0.15."""
    rng = np.random.default_rng(seed)
    positive, k = rng.random(n) < 0.1, rng.integers(0, p, size=n)
    return np.clip(0.15 + 0.15 * positive + 0.1 * rng.normal(size=n), 0, 1), positive, k


def worst(p: Array, positive: Any, k: Any, threshold: Any, weight: Any = None) -> float:
    """The least mean of the two rates of right answers."""
    right = (p > threshold) == positive
    w = np.ones(len(p)) if weight is None else weight
    rates = [
        [
            np.average(right[rows], weights=w[rows])
            for rows in ((k == j) & positive, (k == j) & ~positive)
        ]
        for j in np.unique(k)
    ]
    return float(np.mean(rates, axis=1).min())


def chosen(p: Array, positive: Any, k: Any, weight: Any = None) -> float:
    w = np.ones(len(p)) if weight is None else weight
    return worst_balanced_threshold(p, positive, k, w, np.arange(len(p)) % 5)


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.booleans())
def test_it_is_the_best_of_its_quantiles(seed: int, weighted: bool) -> None:
    p, positive, k = rare(seed)
    weight = np.random.default_rng(seed).uniform(0.5, 2, size=600) if weighted else np.ones(600)
    found = chosen(p, positive, k, weight)
    tried = np.quantile(p, np.linspace(0.01, 0.99, 99))
    best = max(worst(p, positive, k, t, weight) for t in tried)
    assert worst(p, positive, k, found, weight) == pytest.approx(best, abs=1e-12)
    assert 0.1 < found < 0.3


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_kept_only_if_the_other_folds_thresholds_are_surely_better(weighted: bool) -> None:
    """By definition, on tables where the best threshold is somewhat below ½."""
    kept = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        positive, k = rng.random(200) < 0.5, rng.integers(0, 2, size=200)
        p = np.clip(0.45 + 0.2 * (positive - 0.5) + 0.1 * rng.normal(size=200), 0, 1)
        weight = rng.uniform(0.2, 2, size=200) if weighted else np.ones(200)
        tried, fold = np.quantile(p, np.linspace(0.01, 0.99, 99)), np.arange(200) % 5
        own = np.zeros(200)
        for f in range(5):
            rest = fold != f
            values = [worst(p[rest], positive[rest], k[rest], t, weight[rest]) for t in tried]
            own[fold == f] = tried[int(np.argmax(values))]
        gain = worst(p, positive, k, own, weight) - worst(p, positive, k, 0.5, weight)
        one = [worst(p[k == j], positive[k == j], k[k == j], 0.5, weight[k == j]) for j in (0, 1)]
        change = ((p > own) == positive) * 1.0 - ((p > 0.5) == positive)
        variance = 0.0
        for side in (positive, ~positive):
            rows = side & (k == np.argmin(one))
            a = weight[rows] / weight[rows].sum()
            variance += np.sum(a**2 * (change[rows] - a @ change[rows]) ** 2) / 4
        kept.append(chosen(p, positive, k, weight) != 0.5)
        assert kept[-1] == (gain > 1.645 * np.sqrt(variance))
    assert 0 < sum(kept) < 12


def test_a_half_that_is_right_is_seldom_left() -> None:
    """At most 5 % for one threshold fixed beforehand; the best of 99 on the same rows: 20 %."""
    moved = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        positive, k = rng.random(300) < 0.5, np.zeros(300, dtype=int)
        p = np.clip(0.5 + 0.2 * (positive - 0.5) + 0.15 * rng.normal(size=300), 0, 1)
        moved += chosen(p, positive, k) != 0.5
    assert moved <= 4


def test_domains_with_few_rows_of_a_class_do_not_count() -> None:
    p, positive, k = rare(1)
    few_p, few_positive = np.full(30, 0.9), np.arange(30) < 9  # always yes, and 9 of 30 right
    more = np.append(p, few_p), np.append(positive, few_positive), np.append(k, np.full(30, 2))
    quantiles = np.unique(np.quantile(more[0], np.linspace(0.01, 0.99, 99)))
    best = max(worst(p, positive, k, t) for t in quantiles)
    assert worst(p, positive, k, chosen(*more)) == pytest.approx(best)
    assert chosen(few_p, few_positive, np.zeros(30, dtype=int)) == 0.5


def test_weights_have_no_unit() -> None:
    p, positive, k = rare(2)
    weight = np.random.default_rng(0).uniform(0.5, 2, size=600)
    found = [chosen(p, positive, k, unit * weight) for unit in (1.0, 1e-9, 1e9)]
    assert found[0] == found[1] == found[2] != 0.5
