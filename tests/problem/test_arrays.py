"""Columns, targets and domains: what is read, and what is refused in which words."""

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from anymix.problem.arrays import (
    bounded_features,
    memberships,
    pooled_rows,
    read_domains,
    shares,
)
from anymix.problem.cells import combined
from anymix.problem.entries import encode


def test_domains_are_codes_or_a_table() -> None:
    names, codes = read_domains(pd.Series(["b", "a", "b"]), 3)
    assert (names.tolist(), codes.tolist()) == (["a", "b"], [1, 0, 1])
    for table in (
        pd.DataFrame({"x": [1, 0, 1], "y": [0, 1, 1]}),
        pl.DataFrame({"x": [1, 0, 1], "y": [0, 1, 1]}),
    ):
        names, matrix = read_domains(table, 3)
        assert names.tolist() == ["x", "y"]
        np.testing.assert_array_equal(matrix.toarray(), [[1, 0, 1], [0, 1, 1]])
    assert memberships(["b", "a", "b"], 3)[1].toarray().tolist() == [[0, 1, 0], [1, 0, 1]]


def test_shares_sum_to_one_and_an_empty_domain_has_none() -> None:
    matrix = sparse.csc_array(np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]))
    sizes, average = shares(matrix, matrix.data)
    assert sizes.tolist() == [3, 0]
    np.testing.assert_allclose(average.toarray(), [[1 / 3, 2 / 3, 0.0], [0.0, 0.0, 0.0]])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
@settings(max_examples=300)
@example([1e-200, 5e-324])  # whose squares are 0
@example([1e200])  # whose square is infinite
def test_no_entry_is_above_the_bound_that_comes_with_the_features(entries: list[float]) -> None:
    for X in (np.array([entries]), sparse.csr_array(np.array([entries]))):
        table, largest = bounded_features(X)
        assert largest >= np.max(np.abs(entries))
        assert table.shape == X.shape


def test_combinations_are_named_and_counted() -> None:
    columns = {"sex": ["M", "F", "M", "M"], "age": [10, 9, 9, 10]}
    coded = [encode(name, values, 4) for name, values in columns.items()]
    (names, codes), n_empty = combined(coded, list(columns))
    assert names.tolist() == ["sex=F, age=9", "sex=M, age=10", "sex=M, age=9"]
    assert names[codes].tolist() == [
        f"sex={s}, age={a}" for s, a in zip(*columns.values(), strict=True)
    ]
    assert n_empty == 1
    clash = [encode("a", ["x, y", "x"], 2), encode("b", ["z", "y, z"], 2)]
    names, codes = combined(clash, [None, None])[0]
    assert names[codes].tolist() == ["('x, y', 'z')", "('x', 'y, z')"]
    assert combined(coded[:1], ["sex"]) == (coded[0], 0)


def test_pooled_rows_are_the_distinct_ones() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.choice(50, size, replace=False) for size in (20, 1, 7)]
    found = pooled_rows(parts, 50)
    expected = np.unique(np.concatenate(parts))
    assert found.dtype == expected.dtype == np.intp
    np.testing.assert_array_equal(found, expected)
