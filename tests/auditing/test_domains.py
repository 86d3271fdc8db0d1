"""Domains: labels, memberships, combinations of columns."""

import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from anymix.auditing import Audit, audit


def same(a: Audit, b: Audit) -> bool:
    return json.dumps(a.to_dict()) == json.dumps(b.to_dict())


def test_a_row_may_be_in_several_domains_and_counts_once_in_the_pool() -> None:
    member = pd.DataFrame({"old": [1, 1, 0, 0], "ill": [0, 1, 1, 0]}, dtype=bool)
    found = audit(None, [1.0, 2.0, 4.0, 100.0], member)
    assert found.domain_names == ("old", "ill")
    assert found.domain_losses.tolist() == [1.5, 3]
    assert found.pooled_loss == pytest.approx(7 / 3)
    assert found.n_rows == 3


def test_rows_in_no_domain_are_counted_and_said() -> None:
    member = np.array([[1, 0], [1, 1], [0, 1], [0, 0], [0, 0]], dtype=bool)
    found = audit(None, [1.0, 2.0, 4.0, 100.0, 100.0], member)
    assert found.n_outside == found.to_dict()["n_outside"] == 2
    assert found.pooled_loss == pytest.approx(7 / 3)
    assert "Rows in no domain, which count nowhere here: 2." in found.summary()
    assert "in no domain" not in audit(None, [1.0, 2.0], ["a", "b"]).summary()


@pytest.mark.parametrize(
    "table", [pd.DataFrame, pl.DataFrame, lambda t: csr_array(np.column_stack(list(t.values())))]
)
def test_domains_without_a_row_are_named(table: Any) -> None:
    yes, no = np.array([True, True, True]), np.array([False, False, False])
    for columns, empty in (
        ({"old": yes, "ill": no}, r"('ill'|1)"),
        ({"old": no, "ill": no}, r"('old', 'ill'|0, 1)"),
    ):
        with pytest.raises(ValueError, match=f"domains has no row in {empty}; leave such a column"):
            audit([0, 1, 1], [0, 1, 0], table(columns))
    assert audit([0, 1, 1], [0, 1, 0], table({"old": yes, "ill": yes})).sizes.tolist() == [3, 3]


FEATURES = {"sex": ["F", "F", "M", "M", "M"], "age": [1, 1, 1, 2, 2]}


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame])
def test_features_intersect(kind: Any) -> None:
    found = audit(None, [1.0, 2.0, 3.0, 4.0, 5.0], sensitive_features=kind(FEATURES))
    assert found.domain_names == ("sex=F, age=1", "sex=M, age=1", "sex=M, age=2")
    assert found.domain_losses.tolist() == [1.5, 3, 4.5]
    assert found.sizes.tolist() == [2, 1, 2]
    assert found.n_empty_cells == 1
    assert "1 combinations have no row at all" in found.summary()
    assert "'sex=M, age=1' (1)" in found.summary()


@pytest.mark.parametrize("kind", [list, lambda rows: np.array(rows, dtype=object)])
def test_features_without_names(kind: Any) -> None:
    rows = [list(row) for row in zip(*FEATURES.values(), strict=True)]
    found = audit(None, [1.0, 2.0, 3.0, 4.0, 5.0], sensitive_features=kind(rows))
    assert found.domain_names == ("F, 1", "M, 1", "M, 2")


def test_one_feature_is_a_domain_column() -> None:
    y = [1.0, 2.0, 3.0, 4.0, 5.0]
    for features in (FEATURES["age"], pd.Series(FEATURES["age"]), {"age": FEATURES["age"]}):
        assert same(audit(None, y, sensitive_features=features), audit(None, y, FEATURES["age"]))


def test_values_with_commas_stay_apart() -> None:
    found = audit(None, [1.0, 2.0], sensitive_features=[["a, b", "c"], ["a", "b, c"]])
    assert found.domain_names == ("('a', 'b, c')", "('a, b', 'c')")
    assert found.domain_losses.tolist() == [2, 1]


@pytest.fixture
def found() -> Audit:
    y, d = [1, 0, 1, 1, 0, 1], ["<b>north</b>", "[red]south", "[red]south"] * 2
    return audit(y, [0.9, 0.4, 0.4, 0.6, 0.7, 0.8], d)
