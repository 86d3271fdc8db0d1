"""Metrics asked for by name: exact intervals of rates, limits, and differences of two models."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn import metrics as sk

from anymix.auditing import audit, compare
from anymix.auditing.intervals import mean
from anymix.auditing.resampling import jackknife

RNG = np.random.default_rng(0)
N = 400
D = np.repeat(["a", "b"], N // 2)
Y = RNG.integers(0, 2, N)
SAID = np.where(RNG.random(N) < 0.8, Y, 1 - Y)


def exact(hits: Any) -> tuple[float, float]:
    found = binomtest(int(np.sum(hits)), len(hits)).proportion_ci(0.95)
    return float(found.low), float(found.high)


def test_three_rows_do_not_show_a_precision_of_1() -> None:
    y, q = np.array([1] * 3 + [0] * 17), np.array([0.9, 0.8, 0.7] + [0.2] * 17)
    found = audit(y, q, metrics=["precision", "recall", "f1", "balanced_accuracy", "accuracy"])
    low, high = exact(np.ones(3))
    for name in ("precision", "recall"):
        assert found.metric_intervals[name][0] == pytest.approx([low, high])
        assert found.interval_kinds[name] == "exact"
    assert found.metric_intervals["f1"][0] == pytest.approx([2 * low / (1 + low), 1])
    assert found.metric_intervals["accuracy"][0] == pytest.approx(exact(np.ones(20)))
    apart = np.hypot(1 - low, 1 - exact(np.ones(17))[0]) / 2
    assert found.metric_intervals["balanced_accuracy"][0] == pytest.approx([1 - apart, 1])
    pair = compare(found, found)
    for name in ("precision", "f1", "balanced_accuracy"):
        low, high = pair.difference_of(name).intervals[0]
        assert -1 <= low < -0.3
        assert 0.3 < high <= 1


@pytest.mark.parametrize("made", [False, True], ids=["names", "scorers"])
def test_rates_by_name_are_shares_of_rows(made: bool) -> None:
    asked: dict[str, Any] = {m: m for m in ("precision", "recall", "jaccard", "f1_micro")}
    if made:
        asked = {m: sk.get_scorer(m) for m in asked}
    found = audit(Y, SAID, D, metrics=asked)
    for k, rows in enumerate((slice(200), slice(200, 400))):
        y, z = Y[rows] == 1, SAID[rows] == 1
        hits = {"precision": y[z], "recall": z[y], "jaccard": (y & z)[y | z], "f1_micro": y == z}
        for name, x in hits.items():
            assert found.metrics[name][k] == pytest.approx(np.mean(x))
            assert found.metric_intervals[name][k] == pytest.approx(exact(x))


def test_no_row_that_counts_is_no_rate() -> None:
    found = audit([1, 1, 0, 0], [0, 0, 0, 0], metrics=["precision", "f1", "recall"], classes=[0, 1])
    assert np.isnan(found.metrics["precision"][0])
    assert (found.metrics["f1"][0], found.metrics["recall"][0]) == (0, 0)


def test_weighted_rates_have_guaranteed_intervals() -> None:
    w = RNG.integers(1, 4, N)
    found = audit(Y, SAID, D, metrics=["precision", "f1", "balanced_accuracy"], sample_weight=w)
    assert found.interval_kinds["precision"] == found.interval_kinds["f1"] == "guaranteed"
    for k, rows in enumerate((slice(200), slice(200, 400))):
        more: Any = {"sample_weight": w[rows]}
        for name, function in (
            ("precision", sk.precision_score),
            ("f1", sk.f1_score),
            ("balanced_accuracy", sk.balanced_accuracy_score),
        ):
            value = function(Y[rows], SAID[rows], **more)
            assert found.metrics[name][k] == pytest.approx(value)
            low, high = found.metric_intervals[name][k]
            assert low < value < high


@pytest.mark.parametrize("n", [20, 50])
def test_intervals_of_rates_cover(n: int) -> None:
    """Of precision 0.9 and a third predicted positive; resampled ones covered 46 % at n = 20."""
    rng, draws, positive, a, b = np.random.default_rng(1), 1000, 0.35, 0.857, 0.051
    y = rng.random((draws, n)) < positive
    said, domains = rng.random((draws, n)) < np.where(y, a, b), np.repeat(np.arange(draws), n)
    names = ["precision", "recall", "f1", "balanced_accuracy"]
    found = audit(y.ravel(), said.ravel(), domains, metrics=names)
    tp, fp, fn = positive * a, (1 - positive) * b, positive * (1 - a)
    truth = (tp / (tp + fp), a, 2 * tp / (2 * tp + fp + fn), (a + 1 - b) / 2)
    for name, true in zip(names, truth, strict=True):
        known = ~np.isnan(found.metrics[name])
        low, high = found.metric_intervals[name][known].T
        assert np.mean((low <= true) & (true <= high)) >= 0.93
        assert np.all((low >= 0) & (high <= 1) & (low < high))


def test_metrics_without_an_exact_interval_keep_their_limits() -> None:
    y = np.arange(9) % 3
    names = ["f1_macro", "precision_weighted", "matthews_corrcoef", "cohen_kappa_score"]
    found = audit(y, y, metrics=names)
    for name, ends in zip(names, [(0, 1), (0, 1), (-1, 1), (-1, 1)], strict=True):
        assert tuple(found.metric_intervals[name][0]) == ends  # all replicates are 1
    some = audit(np.r_[y, 0], np.r_[y, 1], metrics=names)
    for name in names:
        low, high = some.metric_intervals[name][0]
        assert low < some.metrics[name][0] < high <= 1
    values = np.arange(8.0) + 0.5
    fitted = audit(values, values + RNG.normal(0, 2, 8), metrics=["r2", "neg_mean_squared_error"])
    assert fitted.metric_intervals["r2"][0, 1] <= 1
    assert fitted.metric_intervals["neg_mean_squared_error"][0, 1] <= 0
    mine = audit(Y, SAID, metrics={"mine": lambda y, z: 0.25})
    assert tuple(mine.metric_intervals["mine"][0]) == (-np.inf, np.inf)
    assert tuple(compare(mine, mine).difference_of("mine").intervals[0]) == (-np.inf, np.inf)


def test_an_area_asked_for_is_that_of_the_audit() -> None:
    q = np.clip(0.5 * Y + 0.5 * RNG.random(N), 0.01, 0.99)
    found = audit(Y, q, D, metrics="roc_auc")
    assert found.metric_intervals["roc_auc"] == pytest.approx(found.metric_intervals["auc"])


def test_differences_of_resampled_metrics_are_those_of_their_replicates() -> None:
    """Mean squared errors: the jackknife of a mean of 20 groups of rows alike is Student's."""
    y, noise = RNG.normal(size=N), RNG.normal(size=(2, N))
    a, b = (audit(y, y + e, metrics="neg_mean_squared_error") for e in noise)
    values, ends, _, _ = compare(a, b).difference_of("neg_mean_squared_error")
    apart = [x.replicates["neg_mean_squared_error"][0] for x in (a, b)]
    assert ends[0] == pytest.approx(jackknife(values[0], apart[1] - apart[0], 0.95)[1:])
    groups = (noise[0] ** 2 - noise[1] ** 2).reshape(20, 20).mean(axis=0)
    assert np.ptp(ends[0]) == pytest.approx(np.diff(mean(groups, 0.95)[1:])[0], rel=0.2)


def test_differences_of_rates_cover() -> None:
    """Two models that share nine errors of ten, where the second one is better."""
    rng, draws, n = np.random.default_rng(2), 600, 50
    y, u = rng.random((draws, n)) < 0.4, rng.random((draws, n))
    other = np.where(rng.random((draws, n)) < 0.9, u, rng.random((draws, n)))
    rates, d = ((0.8, 0.15), (0.9, 0.1)), np.repeat(np.arange(draws), n)
    names = ["precision", "f1", "balanced_accuracy"]
    a, b = (
        audit(y.ravel(), (x < np.where(y, *rate)).ravel(), d, metrics=names)
        for x, rate in zip((u, other), rates, strict=True)
    )
    tp, fp = ([share * r[i] for r in rates] for i, share in enumerate((0.4, 0.6)))
    truth = {
        "precision": [t / (t + f) for t, f in zip(tp, fp, strict=True)],
        "f1": [2 * t / (t + f + 0.4) for t, f in zip(tp, fp, strict=True)],
        "balanced_accuracy": [(r[0] + 1 - r[1]) / 2 for r in rates],
    }
    for name in names:
        low, high = compare(a, b).difference_of(name).intervals.T
        true = truth[name][1] - truth[name][0]
        assert np.nanmean((low <= true) & (true <= high)) >= 0.93
