"""Weak segments: planted ones are found, and noise raises few alarms."""

from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import moment, t, ttest_ind
from sklearn.linear_model import LogisticRegression

from anymix.auditing import Segment, segment_labels, weak_segments
from anymix.auditing.segments import _columns, _difference, _measured, groups_that_look_weak
from anymix.errors import InputError

KINDS = ("category", "number", "both")


def drawn(
    seed: int, kind: str | None, n: int = 5000, shape: str = "absolute"
) -> tuple[Any, Any, NDArray[np.bool_]]:
    """A table, losses that are 1.5 times as large on 5 % of its rows, and those rows."""
    r = np.random.default_rng(seed)
    X = pd.DataFrame({f"x{j}": r.normal(size=n) for j in range(5)})
    X["a"] = r.choice(list("uvwxy"), n, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    X["b"] = r.choice(list("pqrs"), n, p=[0.4, 0.25, 0.2, 0.15])
    X["c"] = r.integers(20, size=n)
    bad = {
        "category": X["a"] == "y",
        "number": X["x0"] > 1.645,
        "both": (X["x0"] > 0.674) & (X["b"] == "r"),
    }.get(str(kind), pd.Series(np.zeros(n, dtype=bool)))
    if shape == "log":  # of a model that was fitted to other rows, where nothing can be learnt
        model = LogisticRegression().fit(r.normal(size=(n, 5)), r.random(n) < 0.3)
        p = model.predict_proba(X[[f"x{j}" for j in range(5)]].to_numpy())[:, 1]
        losses = -np.log(np.where(r.random(n) < 0.3, p, 1 - p))
    else:
        losses = np.abs(r.normal(size=n)) if shape == "absolute" else r.exponential(size=n)
    return X, losses * np.where(bad, 1.5, 1.0), np.asarray(bad, dtype=bool)


def is_found(segments: list[Segment], bad: NDArray[np.bool_]) -> bool:
    """Whether a segment that is called weak shares more than half of its rows with the bad one."""
    return any(s.is_weak and overlap(s.rows, bad) > 0.5 for s in segments)


def overlap(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    """The share of the rows in either that are in both."""
    return float((a & b).sum() / (a | b).sum())


def test_planted_segments_are_found_with_few_false_alarms() -> None:
    found = [
        is_found(weak_segments(*drawn(i, KINDS[i % 3])[:2]), drawn(i, KINDS[i % 3])[2])
        for i in range(6)
    ]
    assert sum(found) >= 5
    alarms = [any(s.is_weak for s in weak_segments(*drawn(i, None)[:2])) for i in range(4)]
    assert sum(alarms) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["absolute", "exponential"])
@pytest.mark.parametrize("kind", KINDS)
def test_planted_segments_are_found_in_nine_of_ten_tables(kind: str, shape: str) -> None:
    sets = [drawn(1000 + i, kind, shape=shape) for i in range(100)]
    rate = np.mean([is_found(weak_segments(X, losses), bad) for X, losses, bad in sets])
    print(f"{kind}, {shape}: found in {rate:.0%} of 100 tables")
    assert rate >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["absolute", "exponential", "log"])
def test_noise_raises_an_alarm_in_at_most_five_percent_of_tables(shape: str) -> None:
    alarms = 0
    for i in range(300):
        X, losses, _ = drawn(5000 + i, None, shape=shape)
        alarms += any(s.is_weak for s in weak_segments(X, losses))
    print(f"{shape}: false alarms in {alarms / 300:.1%} of 300 tables")
    assert alarms / 300 <= 0.05


def first_group(X: Any, losses: Any, where: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The rows of the group that looks worst there."""
    columns, rng = _columns(X, None), np.random.default_rng(0)
    fewest = int(np.ceil(0.03 * where.sum()))
    return next(groups_that_look_weak(columns, losses, where, 3, fewest, rng)).rows(columns)


def low_end(steps: Any, losses: Any, tail: float) -> float:
    """Where Hall's polynomial of t is Welch's quantile, t the mean of the steps less the end."""
    welch = [ttest_ind(losses[w], losses[o], equal_var=False) for w, o in steps]
    m, samples = len(steps), [losses[rows] for step in steps for rows in step]
    V = sum(x.var(ddof=1) / len(x) for x in samples) / m**2
    df = V**2 / sum((x.var(ddof=1) / len(x) / m**2) ** 2 / (len(x) - 1) for x in samples)
    if m == 1:
        assert df == pytest.approx(welch[0].df)
    D = np.mean([losses[w].mean() - losses[o].mean() for w, o in steps])
    signed = [(-1) ** i * moment(x, 3) / len(x) ** 2 for i, x in enumerate(samples)]
    k = sum(signed) / m**3 / V**1.5

    def too_far(end: float) -> float:
        x = (D - end) / np.sqrt(V)
        return float(x + k * x**2 / 3 + k**2 * x**3 / 27 + k / 6 - t.ppf(1 - tail, df))

    return float(brentq(too_far, D - 10 * np.sqrt(V), D + 5 * np.sqrt(V), xtol=1e-12))


def test_segments_are_measured_on_rows_that_their_search_has_not_seen() -> None:
    X, losses, bad = drawn(4, "category", 2000)
    r = np.random.default_rng(0)
    half, part = r.permutation(2000) % 2, r.permutation(2000) % 5
    ways, found = set(), weak_segments(X, losses)
    for segment in found:
        tried = []
        for order in (part, 4 - part):
            groups = [first_group(X, losses, order < k) for k in (2, 3, 4)]
            steps = [
                (g & (order == k), ~g & (order == k))
                for g, k in zip(groups, (2, 3, 4), strict=True)
            ]
            told = [s for s, g in zip(steps, groups, strict=True) if overlap(g, groups[-1]) > 0.5]
            lows = [min(low_end(some, losses, 0.0125) for some in (steps, told))]
            tried.append(("steps", told, lows))
        for h in (0, 1):
            steps = [(segment.rows & (half != h), ~segment.rows & (half != h))]
            lows = [low_end(steps, losses, 0.0125 / 2**s) for s in range(1, 6)]
            tried.append(("halves", steps, lows))
        for way, told, lows in tried:
            if np.isclose(lows, segment.excess.low, rtol=1e-9).any():
                assert segment.loss == pytest.approx(np.mean([losses[w].mean() for w, _ in told]))
                assert segment.n_measured == sum(w.sum() for w, _ in told)
                ways.add(way)
                break
        else:
            pytest.fail(f"{segment} was measured in no way that is known")
    assert ways == {"steps", "halves"}
    assert is_found(found, bad)


def test_a_search_that_went_elsewhere_cannot_make_a_group_weak() -> None:
    """Two steps without any excess, and one of another group with a large one."""
    r = np.random.default_rng(0)
    none = [(r.normal(size=50), r.normal(size=500)) for _ in range(2)]
    steps = [(r.normal(9, 1, size=50), r.normal(size=500)), *none]
    rows = np.ones(10, dtype=bool)
    (mixed,) = _measured(("x > 1",), rows, steps, [True, True, True], 0.025)
    (told,) = _measured(("x > 1",), rows, steps, [False, True, True], 0.025)
    (alone,) = _measured(("x > 1",), rows, none, [True, True], 0.025)
    assert mixed.excess.low > 1
    assert not told.is_weak
    assert (told.excess.value, told.excess.low) == (alone.excess.value, alone.excess.low)
    assert told.excess.high == mixed.excess.high


def test_low_ends_of_skewed_losses_hold_as_often_as_they_say() -> None:
    """Of the mean of 60 exponential losses less that of 1,000: Welch's own end fails in 1.4 %."""
    r = np.random.default_rng(0)
    steps = ((r.exponential(size=60), r.exponential(size=1000)) for _ in range(4000))
    fails = np.mean([_difference([step], 0.025).low > 0 for step in steps])
    assert 0.017 < fails < 0.03


def test_groups_of_two_conditions_have_the_sums_of_their_rows() -> None:
    """The worst-looking group is the one that a search over all pairs finds."""
    r = np.random.default_rng(5)
    X, losses = r.integers(4, size=(300, 3)), r.exponential(size=300)
    losses[(X[:, 0] == 3) & (X[:, 2] > 1)] += 2
    columns = _columns(X, None)
    rows = first_group(X, losses, np.ones(300, dtype=bool))
    cuts = [(j, side, c) for j in range(3) for side in (1, -1) for c in (0.5, 1.5, 2.5)]
    masks = [side * X[:, j] > side * c for j, side, c in cuts]

    def evidence(inside: NDArray[np.bool_], price: float) -> float:
        n = inside.sum()
        if min(n, 300 - n) < 9:
            return -np.inf
        gap = losses[inside].mean() - losses[~inside].mean()
        z = gap / (losses.std() * np.sqrt(1 / n + 1 / (300 - n)))
        return float(z**2 / 2 - price * np.log(1 + len(cuts) / 3)) if z > 2 else -np.inf

    ones = [evidence(m, 1) for m in masks]
    twos = [evidence(a & b, 2) for a in masks for b in masks]
    threes = [evidence(rows & m, 3) for m in masks]
    assert evidence(rows, 2) == pytest.approx(max(*ones, *twos, *threes), rel=1e-4)
    assert len(columns) == 3


def test_what_was_found_by_chance_is_measured_on_other_rows() -> None:
    """On the rows searched, every group that was found looks worse; on others, about half."""
    found = [s for i in range(6) for s in weak_segments(*drawn(50 + i, None, n=1000)[:2])]
    assert len(found) > 10
    assert 0.2 < np.mean([s.excess.value > 0 for s in found]) < 0.85


def test_a_segment_is_what_its_words_say() -> None:
    X, losses, bad = drawn(0, "both")
    found = weak_segments(X, losses)
    query = {" > ": " > ", " ≤ ": " <= ", " is not ": " != ", " is ": " == "}
    for segment in found:
        rows = np.ones(len(X), dtype=bool)
        for words in segment.conditions:
            name, sign, value = next(words.partition(s) for s in query if s in words)
            if " < " in name:  # low < name ≤ high
                low, _, name = name.partition(" < ")
                rows &= (X[name] > float(low)).to_numpy()
            quoted = value if name[0] in "xc" else f"'{value}'"
            rows &= X.eval(f"{name} {query[sign]} {quoted}").to_numpy()
        assert np.mean(rows != segment.rows) < 0.002  # numbers are shown with four digits
    labels = segment_labels(found, len(X))
    assert set(labels) <= {"others", *map(str, found)}
    assert np.mean((labels != "others")[bad]) > 0.8


def test_missing_values_and_constant_losses_are_no_trouble() -> None:
    X = pd.DataFrame({"x": [np.nan, 1.0] * 50, "g": [None, "u", "v", "u"] * 25})
    assert weak_segments(X, np.ones(100)) == []
    found = weak_segments(X, np.tile([3.0, 1.0, 1.1, 0.9], 25) + np.arange(100) / 1000)
    assert str(found[0]) == "g is missing"


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(InputError, match="losses is 3 rows; give more"):
        weak_segments([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="X has 1 columns, and there are 2 names"):
        weak_segments(np.ones((50, 1)), np.ones(50), names=["a", "b"])
    table, losses = np.ones((50, 1)), np.ones(50)
    with pytest.raises(InputError, match=r"X has shape \(\); give a table"):
        weak_segments(None, losses)
    with pytest.raises(InputError, match="there are 0 names"):
        weak_segments(table, losses, names=cast(Any, 5))
    with pytest.raises(InputError, match="random_state is -1"):
        weak_segments(table, losses, random_state=-1)
    with pytest.raises(InputError, match="max_depth is 0; give a whole number"):
        weak_segments(table, losses, max_depth=0)
    with pytest.raises(InputError, match="min_share is"):
        weak_segments(table, losses, min_share=0.7)
