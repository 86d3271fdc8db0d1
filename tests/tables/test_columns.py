import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from people import people
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from anymix.problem import columns as features_module
from anymix.tables.columns import Features


def dense(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) else X


@pytest.mark.parametrize("names", [["age"], ["age", "city"], ["age", "city", "job"]])
def test_features_are_those_of_scikit_learn(names: list[str]) -> None:
    train, new = people(), people(50, seed=1)
    strings = [name for name in names if name != "age"]
    theirs = ColumnTransformer(
        [("n", StandardScaler(), ["age"]), ("c", OneHotEncoder(sparse_output=False), strings)]
    ).fit(train[names])
    features, notes = Features.learn(train, names)
    X = features.transform(new)
    assert sparse.issparse(X) == (len(names) > 1)
    np.testing.assert_allclose(dense(X), theirs.transform(new[names]), atol=1e-12)
    assert len(features.titles) == X.shape[1]
    assert notes == []


def test_missing_values_are_filled_marked_and_noted() -> None:
    frame = pd.DataFrame(
        {
            "x": [1.0, np.nan, 2.0, 9.0],
            "flat": [5.0, np.nan, 5.0, 5.0],
            "c": ["a", None, "b", None],
            "none": [np.nan] * 4,
            "same": ["a"] * 4,
            "one": [1, 1, 1, 1],
        }
    )
    features, notes = Features.learn(frame, frame.columns.tolist())
    titles = ["x", "x=(missing)", "flat", "flat=(missing)", "c=(missing)", "c=a", "c=b"]
    assert features.titles == titles
    X = features.transform(frame)
    assert X[:, 1].tolist() == [0, 1, 0, 0]
    assert X[1, 0] == pytest.approx((2 - 3.5) / np.std([1, 2, 2, 9]))
    assert X[:, 2].tolist() == [0, 0, 0, 0]
    assert X[:, 4:].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert notes == [
        "'x': 1 missing value, set to the median and marked",
        "'flat': 1 missing value, set to the median and marked",
        "'c': 2 missing values, a level of their own",
        "'none': left out, it is empty",
        "'same': left out, it is constant",
        "'one': left out, it is constant",
    ]
    complete, _ = Features.learn(frame[["x"]].dropna(), ["x"])
    assert complete.transform(frame)[1, 0] == pytest.approx((2 - 4) / np.std([1, 2, 9]))


def test_rare_levels_are_one_and_unseen_ones_are_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features_module, "MOST_LEVELS", 2)
    frame = pd.DataFrame({"c": list("aaabbbcd")})
    features, notes = Features.learn(frame, ["c"])
    assert features.titles == ["c=a", "c=b", "c=(other)"]
    assert notes == ["'c': the rarest 2 of 4 levels are one"]
    assert dense(features.transform(pd.DataFrame({"c": ["a", "d", "new"]}))).tolist() == [
        [1, 0, 0],
        [0, 0, 1],
        [0, 0, 1],
    ]
    assert features.unseen(pd.DataFrame({"c": ["new"]})) == []
    names = pd.DataFrame({"c": list("abcdef"), "x": range(6)})
    features, notes = Features.learn(names, ["c", "x"])
    assert features.titles == ["x"]
    assert notes == ["'c': left out, nearly every row has a value of its own"]


def test_a_level_not_seen_in_training_is_zeros_and_noted() -> None:
    features, _ = Features.learn(pd.DataFrame({"c": ["1", "2"]}), ["c"])
    new = pd.DataFrame({"c": [2.0, 3.0, 1.0]})  # numbers now: '2' and 2.0 are the same level
    assert dense(features.transform(new)).tolist() == [[0, 1], [0, 0], [1, 0]]
    assert features.unseen(new) == ["'c': 1 level that the training had not, such as '3'"]
    two = features.unseen(pd.DataFrame({"c": ["3", "4"]}))
    assert two == ["'c': 2 levels that the training had not, such as '3'"]


def test_columns_that_cannot_be_used_are_named() -> None:
    with pytest.raises(ValueError, match="column 'x' has infinite values"):
        Features.learn(pd.DataFrame({"x": [1.0, math.inf]}), ["x"])
    with pytest.raises(ValueError, match="no column to learn from"):
        Features.learn(pd.DataFrame({"x": [1.0, 1.0]}), ["x"])
    features, _ = Features.learn(pd.DataFrame({"x": [1.0, 2.0]}), ["x"])
    with pytest.raises(ValueError, match="column 'x' holds numbers in training but here one, two"):
        features.transform(pd.DataFrame({"x": ["one", "two"]}))


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_numbers_of_any_size_are_scaled(unit: float) -> None:
    x = np.array([1.0, 2.0, 4.0, 5.0])
    features, _ = Features.learn(pd.DataFrame({"x": unit * x}), ["x"])
    X = features.transform(pd.DataFrame({"x": unit * x}))
    np.testing.assert_allclose(X[:, 0], (x - 3) / np.sqrt(2.5), rtol=1e-12)


def test_a_bad_cell_is_shown_and_infinity_is_refused_with_its_column() -> None:
    features, _ = Features.learn(pd.DataFrame({"x": [1.0, 2.0]}), ["x"])
    with pytest.raises(ValueError, match=r"column 'x' holds numbers in training but here oops;"):
        features.transform(pd.DataFrame({"x": ["1.5", "oops", "-2"]}))
    with pytest.raises(ValueError, match="column 'x' has infinite values"):
        features.transform(pd.DataFrame({"x": [1.0, np.inf]}))


def test_decimal_commas_are_guessed() -> None:
    prices = [f"{k},{k % 7}" for k in range(300)]
    _, notes = Features.learn(pd.DataFrame({"x": range(300), "price": prices}), ["x", "price"])
    assert notes == [
        "'price': left out, nearly every row has a value of its own: numbers with a decimal comma? "
        "write a point"
    ]


def test_digits_that_were_taken_for_words_are_numbers() -> None:
    features, _ = Features.learn(pd.DataFrame({"x": [10115.0, 20095.0, 80331.0]}), ["x"])
    expected = features.transform(pd.DataFrame({"x": [20095.0, np.nan]}))
    words = pd.DataFrame({"x": pd.Categorical(["20095", None])})
    np.testing.assert_array_equal(features.transform(words), expected)


def test_numbers_near_the_largest() -> None:
    frame = pd.DataFrame({"x": [1.7e308, 1.6e308, -1.7e308]})
    X = Features.learn(frame, ["x"])[0].transform(frame)
    x = np.array([1.7, 1.6, -1.7])
    np.testing.assert_allclose(X[:, 0], (x - x.mean()) / x.std(), rtol=1e-12)
