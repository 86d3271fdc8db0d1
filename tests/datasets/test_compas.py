"""COMPAS says what its file says, and nothing about what came after the prediction."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anymix import datasets
from anymix.datasets import compas as compas_file


@pytest.fixture
def table(cache: Path) -> pd.DataFrame:
    """Read by another parser than the loader's."""
    return pd.read_csv(cache / "compas" / "compas-scores-two-years.csv")


def test_compas_by_default(cache: Path) -> None:
    data = datasets.load_compas()
    assert (data.name, data.licence) == ("compas", "public records; none stated")
    assert "ProPublica" in data.citation
    assert data.X.shape == (5411, 9)
    assert data.X_test.shape == (1803, 9)
    assert data.X.dtype == np.float64
    assert data.y.dtype == np.int64
    assert len(data.feature_names) == 9
    races = {"African-American", "Caucasian", "Hispanic", "Other"}
    assert set(data.domains) == set(data.domains_test) == races
    # The columns that are there and no other: scores, dates and what came later would leak.
    assert {name.partition("=")[0] for name in data.feature_names} == {
        "age",
        "priors_count",
        "juv_fel_count",
        "juv_misd_count",
        "juv_other_count",
        "sex",
        "c_charge_degree",
    }


def test_compas_rows_say_what_the_file_says(table: pd.DataFrame) -> None:
    data = datasets.load_compas(drop=(), as_frame=True)
    is_test = np.arange(len(table)) % 4 == 3
    for X, y, domains, rows in (
        (data.X, data.y, data.domains, table[~is_test]),
        (data.X_test, data.y_test, data.domains_test, table[is_test]),
    ):
        assert tuple(X.columns) == data.feature_names == compas_file._FEATURES
        for c in X.columns:
            assert X[c].tolist() == rows[c].tolist()
        assert y.tolist() == rows["two_year_recid"].tolist()
        race = rows["race"].replace({"Asian": "Other", "Native American": "Other"})
        assert domains.tolist() == race.tolist()


def test_compas_encoded(cache: Path) -> None:
    frame, data = datasets.load_compas(as_frame=True), datasets.load_compas()
    expected = pd.get_dummies(frame.X, prefix_sep="=", dtype=float)
    assert tuple(expected.columns) == data.feature_names
    np.testing.assert_array_equal(data.X, expected)
    np.testing.assert_array_equal(datasets.load_compas(sparse=True).X.toarray(), data.X)


def test_compas_by_other_domains(cache: Path, table: pd.DataFrame) -> None:
    data = datasets.load_compas(domains="sex")
    assert set(data.domains) == {"Female", "Male"}
    names = data.feature_names
    assert "race=Asian" in names
    assert not any(name.startswith("sex") for name in names)
    data = datasets.load_compas(domains="sex-race")
    assert len(set(data.domains)) == 8
    women = (table["sex"] == "Female") & (table["race"] == "Hispanic")
    both = [*data.domains, *data.domains_test]
    assert both.count("Female, Hispanic") == women.sum()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"domains": "age"}, "domains.*'age'.*'sex-race'"),
        ({"domains": None}, "domains is None"),
        ({"drop": ("decile_score",)}, "drop holds 'decile_score'"),
        ({"drop": "two_year_recid"}, "drop.*'two_year_recid'"),
        ({"drop": compas_file._FEATURES}, "drop leaves no column"),
        ({"sparse": True, "as_frame": True}, "sparse and as_frame"),
    ],
)
def test_compas_bad_arguments(folder: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.load_compas(**arguments)
    assert not folder.exists()  # said before anything is fetched
