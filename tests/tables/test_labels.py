from typing import Any

import numpy as np
import pandas as pd
import pytest

from anymix.tables.labels import domain_codes, merge_small, target_column


def labels(frame: Any, columns: list[str]) -> Any:
    names, codes = domain_codes(frame, columns)
    assert names.tolist() == sorted(names.tolist())
    return names[codes]


def test_domains_of_one_and_of_two_columns() -> None:
    frame = pd.DataFrame({"year": [10, 9, 9], "sex": ["F", None, "M"]})
    assert labels(frame, ["year"]).tolist() == [10, 9, 9]
    assert labels(frame, ["sex"]).tolist() == ["F", "(missing)", "M"]
    both = ["sex=F, year=10", "sex=(missing), year=9", "sex=M, year=9"]
    assert labels(frame, ["sex", "year"]).tolist() == both


def test_a_domain_column_of_measurements_is_refused() -> None:
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=2000)})
    with pytest.raises(ValueError, match=r"'x' has 2,000 different values; .* group its values"):
        labels(frame, ["x"])


def test_small_domains_are_put_together() -> None:
    domains = np.array([1, 2, 3]), np.repeat([0, 1, 2], [6, 5, 7])
    (names, codes), merged = merge_small(domains, 6)
    assert names[codes].tolist() == ["1"] * 6 + ["(other)"] * 5 + ["3"] * 7
    assert merged == ["2"]
    assert merge_small(domains, 1) == (domains, [])


def test_a_domain_too_small_to_judge_is_joined_by_the_next() -> None:
    domains = np.array(["(missing)", "a", "b"]), np.repeat([0, 1, 2], [1, 40, 50])
    (names, codes), merged = merge_small(domains, 30)
    assert np.bincount(codes).tolist() == [41, 50]
    assert names.tolist() == ["(other)", "b"]
    assert merged == ["(missing)", "a"]


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b", "a"], "classify"),
        ([0, 1, 1], "classify"),
        ([0.0, 1.0, 1.0], "classify"),
        ([0.5, 1.0, 1.0], "regress"),
        (list(range(11)), "regress"),
    ],
)
def test_what_is_learnt(values: list[Any], task: str) -> None:
    classes, _ = target_column(pd.DataFrame({"y": values}), "y", "auto")
    assert (classes is None) == (task == "regress")


def test_the_task_may_be_chosen() -> None:
    assert target_column(pd.DataFrame({"y": [0, 1, 2]}), "y", "regress")[1].dtype == np.float64
    classes, codes = target_column(pd.DataFrame({"y": range(20)}), "y", "classify")
    assert classes is not None
    assert classes[codes].tolist() == list(range(20))
    with pytest.raises(ValueError, match="strings such as 'a'; regression needs numbers"):
        target_column(pd.DataFrame({"y": ["a", "b"]}), "y", "regress")


def test_domains_are_as_written_but_for_whole_numbers() -> None:
    frame = pd.DataFrame({"d": ["7", "7.0", "01", "1"], "k": [3, 1, 2, 10], "x": [7.0, None, 1, 2]})
    assert labels(frame, ["d"]).tolist() == ["7", "7.0", "01", "1"]
    large = frame.assign(u=np.array([2**63, 1, 2, 3], dtype=np.uint64))
    assert labels(large, ["u"]).tolist() == [str(2**63), "1", "2", "3"]
    assert labels(frame, ["k"]).tolist() == [3, 1, 2, 10]
    assert labels(frame, ["x"]).tolist() == ["7", "(missing)", "1", "2"]


@pytest.mark.parametrize("make", [int, str])
def test_too_many_domains_whatever_they_are(make: Any) -> None:
    frame = pd.DataFrame({"d": [make(k) for k in range(1500)]})
    with pytest.raises(ValueError, match=r"'d' has 1,500 different values; .* at most 1,000"):
        labels(frame, ["d"])
