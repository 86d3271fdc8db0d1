"""Every row is trained for its mixtures, the same on any machine; and the paper's tables come out:
Adult in short, and (slow) both in full against the acceptance figures, on the genuine data.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from linear_models import ADULT, FASHION, Output, run
from numpy.typing import NDArray
from results import Table
from toy_table import ROWS, TOY, toy_table


def test_accuracies_by_hand() -> None:
    table = toy_table()
    expected = [100 * 26 / 30, 60, 100, 60]  # all, hard, easy, worst
    assert TOY.columns == ("all", "hard", "easy", "worst")
    for row in ROWS:
        assert table.runs[row] == pytest.approx(np.tile(expected, (3, 1)), abs=1e-12)
        assert table.mean(row) == pytest.approx(np.array(expected), abs=1e-12)
        assert table.std(row) == pytest.approx(np.zeros(4), abs=1e-12)
        assert table.exact[row] == pytest.approx(np.array(expected), abs=1e-12)
    assert table.difference("hard") == pytest.approx(np.array(expected) - [80, 50, 90, 50])
    assert table.n_runs == 3


def test_each_row_is_trained_for_its_mixtures() -> None:
    mixtures = toy_table().facts["mixtures"]
    # λ is in the order of TOY.domains: hard, easy
    assert np.array(mixtures["hard"]["ours"]) == pytest.approx(np.tile([1.0, 0.0], (3, 1)))
    ours = np.array(mixtures["any"]["ours"])
    assert np.ptp(ours, axis=1).min() > 0  # λ has moved from the centre
    assert len(np.unique(ours[:, 0])) == 3  # by another way in each run
    assert mixtures["hard"]["exact"]["mixture"] == pytest.approx([1.0, 0.0])
    assert mixtures["any"]["exact"]["gamma"] in TOY.gammas
    assert 0 <= mixtures["any"]["exact"]["gap"] <= 1e-4


def test_average_and_last_iterate_are_told_apart() -> None:
    # so few and so long steps that the average of ±-swings is another model than the last iterate
    def accuracies(output: Output) -> NDArray[np.float64]:
        settings = replace(ADULT.settings, n_steps=2, batch_size=1, step_w=5.0, output=output)
        short = replace(ADULT, settings=settings, rows={"Û": ADULT.rows["Û"]})
        return run(short, 3, jobs=1, gammas=[0.1]).runs["Û"]

    assert not np.array_equal(accuracies("average"), accuracies("last"))


def test_numbers_do_not_depend_on_the_processes_or_on_later_runs() -> None:
    short = replace(
        ADULT,
        settings=replace(ADULT.settings, n_steps=30),
        rows={"agnostic": ADULT.rows["agnostic"]},
    )
    one = run(short, 3, jobs=1, gammas=[0.1])
    two = run(short, 2, jobs=2, gammas=[0.1])
    assert np.array_equal(one.runs["agnostic"][:2], two.runs["agnostic"])
    first, second = (t.facts["mixtures"]["agnostic"] for t in (one, two))
    assert first["ours"][:2] == second["ours"]
    assert first["exact"] == second["exact"]
    assert len(np.unique(one.runs["agnostic"][:, 0])) == 3


# The paper's tables ----------------------------------------------------------------------------


def worst(table: Table, row: str) -> float:
    return float(table.mean(row)[-1])


def far(table: Table, columns: Iterable[int], limit: float) -> dict[str, list[float]]:
    """Rows in which an entry is further from the paper's than the limit."""
    differences = {row: table.difference(row)[list(columns)] for row in table.runs}
    return {row: d.tolist() for row, d in differences.items() if np.abs(d).max() > limit}


def test_adult_in_short() -> None:
    table = run(ADULT, runs=4, jobs=2, gammas=[1e-2])
    assert worst(table, "agnostic") > worst(table, "Û")
    assert worst(table, "doctorate") < min(worst(table, r) for r in ("non-doctorate", "Û"))
    assert table.mean("agnostic")[0] < table.mean("Û")[0]  # what it costs on average
    assert not far(table, range(4), limit=4.0)
    assert table.exact["agnostic"][-1] > table.exact["Û"][-1]


@cache
def adult_table() -> Table:
    return run(ADULT, runs=50, jobs=2)


@pytest.mark.slow
def test_adult_in_full() -> None:
    table = adult_table()
    others = {row: table.difference(row) for row in ADULT.rows if row != "doctorate"}
    assert np.abs([*others.values()]).max() <= 1.5
    assert not far(table, [0, 2, 3], limit=1.5)
    for column in (0, 3):  # overall and on the worst domain the rows rank as printed
        ours = sorted(ADULT.rows, key=lambda row: table.mean(row)[column])
        paper = sorted(ADULT.rows, key=lambda row: ADULT.printed[row][column][0])
        assert ours == paper
    assert worst(table, "agnostic") >= 71.5
    assert worst(table, "agnostic") - worst(table, "Û") >= 1.5
    assert table.exact["agnostic"][-1] >= 72


@pytest.mark.slow
@pytest.mark.xfail(reason="72.00 where the paper has 73.58: see docs/reproduction.md")
def test_doctorates_under_their_own_model() -> None:
    assert not far(adult_table(), [1], limit=1.5)


@pytest.mark.slow
def test_fashion_in_full() -> None:
    table = run(FASHION, runs=50, jobs=2)
    assert worst(table, "agnostic") >= 74.5
    assert worst(table, "agnostic") - worst(table, "Û") >= 3
    assert not far(table, [0], limit=3.0)
    assert table.exact["agnostic"][-1] >= 76
