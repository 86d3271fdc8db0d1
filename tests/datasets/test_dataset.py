"""Columns: levels, domains and splits, on tables small enough to see."""

import numpy as np
import pytest

from anymix.datasets.dataset import (
    Table,
    by_column,
    by_columns,
    chosen_columns,
    every_fourth_row,
    levels_of,
    one_hot,
    one_hot_names,
)


def test_levels_unseen_in_training_are_zeros() -> None:
    train: Table = {"c": np.array(["a", "b"]), "age": np.array([1.0, 2.0])}
    test: Table = {"c": np.array(["long name", "b"]), "age": np.array([3.0, 4.0])}
    levels = levels_of(train, ("c", "age"))
    np.testing.assert_array_equal(one_hot(test, levels), [[0, 0, 3], [0, 1, 4]])
    assert one_hot_names(levels) == ("c=a", "c=b", "age")


@pytest.mark.parametrize("n", range(10))
def test_every_row_is_in_one_part(n: int) -> None:
    train, test = every_fourth_row({"i": np.arange(n), "j": -np.arange(n)})
    assert sorted([*train["i"], *test["i"]]) == list(range(n))
    assert len(test["i"]) == n // 4
    np.testing.assert_array_equal(train["i"], -train["j"])


def test_a_pair_of_domains_is_told_by_both() -> None:
    pair = by_columns(by_column("sex"), by_column("race"))
    table: Table = {"sex": np.array(["F", "M"]), "race": np.array(["a", "longer"])}
    assert pair.names(table).tolist() == ["F, a", "M, longer"]
    known = ("sex", "race", "age")
    assert chosen_columns(known, None, pair, known) == ("age",)
    assert chosen_columns(known, (), pair, known) == known
    assert chosen_columns(known, "age", pair, known) == ("sex", "race")
