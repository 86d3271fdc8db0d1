"""Weak segments: planted ones are found, and noise raises few alarms."""

from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import ttest_ind

from anymix.auditing import Segment, segment_labels, weak_segments
from anymix.auditing.segment_search import groups_that_look_weak
from anymix.auditing.segments import _columns
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
    losses = np.abs(r.normal(size=n)) if shape == "absolute" else r.exponential(size=n)
    return X, losses * np.where(bad, 1.5, 1.0), np.asarray(bad, dtype=bool)


def is_found(segments: list[Segment], bad: NDArray[np.bool_]) -> bool:
    """Whether a segment that is called weak shares more than half of its rows with the bad one."""
    return any(s.is_weak and (s.rows & bad).sum() > 0.5 * (s.rows | bad).sum() for s in segments)


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
def test_noise_raises_an_alarm_in_at_most_five_percent_of_tables() -> None:
    alarms = 0
    for i in range(300):
        X, losses, _ = drawn(5000 + i, None, shape=("absolute", "exponential")[i % 2])
        alarms += any(s.is_weak for s in weak_segments(X, losses))
    print(f"false alarms: {alarms / 300:.1%} of 300 tables")
    assert alarms / 300 <= 0.05


def first_group(X: Any, losses: Any, where: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The rows of the group that looks worst there."""
    columns, rng = _columns(X, None), np.random.default_rng(0)
    fewest = int(np.ceil(0.03 * where.sum()))
    return next(groups_that_look_weak(columns, losses, where, 3, fewest, rng)).rows(columns)


def test_segments_are_measured_by_welch_on_rows_that_their_search_has_not_seen() -> None:
    X, losses, bad = drawn(3, "category", 2000)
    r = np.random.default_rng(0)
    half, fold = r.permutation(2000) % 2, r.permutation(2000) % 5
    crossed = np.zeros(2000, dtype=bool)
    for k in range(5):
        crossed[fold == k] = first_group(X, losses, fold != k)[fold == k]
    ways, found = set(), weak_segments(X, losses)
    for segment in found:
        tried = [("folds", crossed, ~crossed, [0.00625])]
        for h in (0, 1):
            there = half != h
            tails = [0.0125 / 2**s for s in range(1, 6)]
            tried.append(("halves", segment.rows & there, ~segment.rows & there, tails))
        for way, within, without, tails in tried:
            welch = ttest_ind(losses[within], losses[without], equal_var=False)
            lows = [welch.confidence_interval(1 - 2 * tail).low for tail in tails]
            if np.isclose(lows, segment.excess.low).any():
                assert segment.loss == pytest.approx(losses[within].mean())
                assert segment.n_measured == within.sum()
                ways.add(way)
                break
        else:
            pytest.fail(f"{segment} was measured in no way that is known")
    assert ways == {"folds", "halves"}
    assert is_found(found, bad)


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
        return float(z**2 / 2 - price * np.log(len(cuts))) if z > 2 else -np.inf

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
