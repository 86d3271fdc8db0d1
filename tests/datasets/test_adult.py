"""Adult says what its files say."""

import csv
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_server import files_in, sha256

from anymix import datasets
from anymix.datasets import adult as adult_file
from anymix.datasets.catalogue import ORIGINS


def rows(data: bytes) -> list[dict[str, str]]:
    """Read by another parser than the loader's."""
    names = adult_file._COLUMNS
    reader = csv.reader(data.decode().splitlines(), skipinitialspace=True)
    return [dict(zip(names, row, strict=True)) for row in reader if len(row) == len(names)]


def test_registry_gives_the_genuine_files(cache: Path) -> None:
    for name in [name for name in datasets.available() if ORIGINS[name].package]:
        sums = ORIGINS[name].sums
        assert files_in(cache / name) == set(sums)
        assert {f: sha256((cache / name / f).read_bytes()) for f in sums} == sums
        assert datasets.fetched(name)
        assert datasets.fetch(name) == datasets.path(name) == cache / name


def test_adult_is_the_papers_experiment(cache: Path) -> None:
    data = datasets.load_adult()
    assert repr(data) == "Dataset(name='adult', licence='CC BY 4.0')"
    with pytest.raises(FrozenInstanceError):
        data.name = "other"  # type: ignore[misc]
    assert data.X.shape == (32561, 86)
    assert data.X_test.shape == (16281, 86)
    assert data.X.dtype == np.float64
    assert data.y.dtype == np.int64
    assert len(data.feature_names) == 86
    assert np.sum(data.domains == "doctorate") == 413
    assert np.sum(data.domains == "non-doctorate") == 32148
    assert np.sum(data.domains_test == "doctorate") == 181
    assert np.all(data.X.sum(axis=1) == 7)  # one level in each of the 8 columns but education
    assert np.all(data.X_test.sum(axis=1) == 7)
    assert not any(name.startswith("education") for name in data.feature_names)
    assert (data.name, data.licence) == ("adult", "CC BY 4.0")
    assert "Kohavi" in data.citation


@pytest.mark.parametrize("split", ["adult.data", "adult.test"])
def test_adult_rows_say_what_the_file_says(
    cache: Path, adult: dict[str, bytes], split: str
) -> None:
    data = datasets.load_adult(features="all", drop=())
    test = split == "adult.test"
    X, y, domains = (
        (data.X_test, data.y_test, data.domains_test) if test else (data.X, data.y, data.domains)
    )
    expected = rows(adult[split])
    assert len(X) == len(y) == len(domains) == len(expected)
    index = {name: j for j, name in enumerate(data.feature_names)}
    for i in range(0, len(expected), 37):
        row = expected[i]
        x = np.zeros(len(index))
        for c in adult_file._FEATURES:
            numeric = c in adult_file._NUMERIC
            x[index[c if numeric else f"{c}={row[c]}"]] = float(row[c]) if numeric else 1.0
        np.testing.assert_array_equal(X[i], x)
    assert y.tolist() == [int(row["income"].startswith(">50K")) for row in expected]
    assert (domains == "doctorate").tolist() == [r["education"] == "Doctorate" for r in expected]


def test_adult_unknown_is_a_level(cache: Path) -> None:
    data = datasets.load_adult()
    unknown = {n.removesuffix("=?") for n in data.feature_names if n.endswith("=?")}
    assert unknown == {"workclass", "occupation", "native-country"}


def test_adult_by_any_column(cache: Path) -> None:
    data = datasets.load_adult(domains="sex")
    assert set(data.domains) == set(data.domains_test) == {"Female", "Male"}
    columns = {name.partition("=")[0] for name in data.feature_names}
    assert columns == set(adult_file._CATEGORICAL) - {"sex"}
    assert len(set(datasets.load_adult(domains="education").domains)) == 16


def test_adult_by_sex_and_race(cache: Path, adult: dict[str, bytes]) -> None:
    data = datasets.load_adult(domains="sex-race")
    assert data.domains.tolist() == [f"{r['sex']}, {r['race']}" for r in rows(adult["adult.data"])]
    assert len(set(data.domains)) == len(set(data.domains_test)) == 10
    columns = {name.partition("=")[0] for name in data.feature_names}
    assert columns == set(adult_file._CATEGORICAL) - {"sex", "race"}


def test_adult_leaves_out_what_tells_the_domain(cache: Path) -> None:
    names = datasets.load_adult(features="all").feature_names
    assert not any(name.startswith("education") for name in names)
    names = datasets.load_adult(features="all", domains="education").feature_names
    assert not any(name.startswith("education") for name in names)
    names = datasets.load_adult(drop=("race", "sex")).feature_names
    assert {"education=Doctorate", "relationship=Wife"} <= set(names)
    assert not any(name.startswith(("race", "sex")) for name in names)


def test_adult_sparse_is_the_same_matrix(cache: Path) -> None:
    dense, sparse = datasets.load_adult(), datasets.load_adult(sparse=True)
    assert sparse.X.format == sparse.X_test.format == "csr"
    np.testing.assert_array_equal(sparse.X.toarray(), dense.X)
    np.testing.assert_array_equal(sparse.X_test.toarray(), dense.X_test)


def test_adult_as_frame(cache: Path, adult: dict[str, bytes]) -> None:
    data = datasets.load_adult(features="all", drop=(), as_frame=True)
    assert tuple(data.X.columns) == data.feature_names == adult_file._FEATURES
    for frame, file in ((data.X, "adult.data"), (data.X_test, "adult.test")):
        for c in ("education", "native-country"):
            assert frame[c].tolist() == [row[c] for row in rows(adult[file])]
        assert frame["age"].tolist() == [float(row["age"]) for row in rows(adult[file])]


def test_adult_as_frame_without_pandas(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # Python's own way to make an import fail
    with pytest.raises(ImportError, match="pip install pandas"):
        datasets.load_adult(as_frame=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": "numeric"}, "features is 'numeric'"),
        ({"domains": "age"}, "domains is 'age'.*'sex'"),
        ({"domains": None}, "domains is None"),
        ({"domains": ["sex", "race"]}, "domains is .'sex', 'race'."),
        ({"drop": ("income",)}, "drop holds 'income'"),
        ({"drop": "seks"}, "drop holds 'seks'"),
        ({"drop": adult_file._CATEGORICAL}, "drop leaves no column"),
        ({"sparse": True, "as_frame": True}, "sparse and as_frame"),
    ],
)
def test_adult_bad_arguments(folder: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.load_adult(**arguments)
    assert not folder.exists()  # said before anything is fetched
