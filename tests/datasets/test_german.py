"""German credit says what its file says."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anymix import datasets
from anymix.datasets import german as german_file


@pytest.fixture
def table(cache: Path) -> pd.DataFrame:
    """Read by another parser than the loader's; columns 1 to 20, then 21, the risk."""
    file = cache / "german" / "german.data"
    return pd.read_csv(file, sep=" ", header=None, names=range(1, 22))


def test_german_by_default(cache: Path) -> None:
    data = datasets.load_german()
    assert (data.name, data.licence) == ("german", "CC BY 4.0")
    assert "Hofmann" in data.citation
    assert data.X.shape == (750, 56)
    assert data.X_test.shape == (250, 56)
    assert data.X.dtype == np.float64
    assert data.y.dtype == np.int64
    assert sum(data.y) + sum(data.y_test) == 300
    assert len({name.partition("=")[0] for name in data.feature_names}) == 18
    assert set(data.domains) == set(data.domains_test)
    counts = Counter([*data.domains.tolist(), *data.domains_test.tolist()])
    assert counts == {
        "at most 25, female": 105,
        "at most 25, male": 85,
        "over 25, female": 205,
        "over 25, male": 605,
    }


def test_german_first_row_in_words(cache: Path) -> None:
    """A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1."""
    data = datasets.load_german(drop=(), as_frame=True)
    assert data.X.iloc[0].to_dict() == {
        "checking account": "< 0 DM",
        "months": 6,
        "credit history": "critical, or credits elsewhere",
        "purpose": "radio or television",
        "amount": 1169,
        "savings": "unknown or none",
        "employed": "≥ 7 years",
        "instalment rate": 4,
        "sex and marital status": "male, single",
        "other debtors": "none",
        "years of residence": 4,
        "property": "real estate",
        "age": 67,
        "other instalment plans": "none",
        "housing": "own",
        "credits at this bank": 2,
        "job": "skilled",
        "dependants": 1,
        "telephone": "yes",
        "foreign worker": "yes",
    }
    assert data.domains[0] == "over 25, male"
    assert data.y[0] == 0


def test_german_rows_say_what_the_file_says(table: pd.DataFrame) -> None:
    data = datasets.load_german(drop=(), as_frame=True)
    is_test = np.arange(1000) % 4 == 3
    for X, y, domains, rows in (
        (data.X, data.y, data.domains, table[~is_test]),
        (data.X_test, data.y_test, data.domains_test, table[is_test]),
    ):
        for j, c in enumerate(X.columns, start=1):
            if german_file._CODES[c] is None:
                assert X[c].tolist() == rows[j].tolist()
            else:  # each code has its own words, and the words their own code
                pairs = set(zip(rows[j], X[c], strict=True))
                assert len(pairs) == rows[j].nunique() == X[c].nunique()
        assert y.tolist() == (rows[21] == 2).astype(int).tolist()
        age = rows[13].le(25).map({True: "at most 25", False: "over 25"})
        sex = rows[9].map(lambda code: "female" if code in ("A92", "A95") else "male")
        assert domains.tolist() == (age + ", " + sex).tolist()


def test_german_encoded(cache: Path) -> None:
    frame, data = datasets.load_german(as_frame=True), datasets.load_german()
    expected = pd.get_dummies(frame.X, prefix_sep="=", dtype=float)
    np.testing.assert_array_equal(data.X, expected[list(data.feature_names)])
    assert expected.shape == data.X.shape
    np.testing.assert_array_equal(datasets.load_german(sparse=True).X.toarray(), data.X)


@pytest.mark.parametrize(
    ("domains", "left_out", "n_domains"),
    [("age", {"age"}, 2), ("sex", {"sex and marital status"}, 2)],
)
def test_german_leaves_out_what_tells_the_domain(
    cache: Path, domains: str, left_out: set[str], n_domains: int
) -> None:
    data = datasets.load_german(domains=domains, as_frame=True)
    assert set(german_file._FEATURES) - set(data.feature_names) == left_out
    assert len(set(data.domains)) == n_domains


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"domains": "housing"}, "domains.*'housing'.*'age-sex'"),
        ({"domains": None}, "domains is None"),
        ({"drop": ("risk",)}, "drop holds 'risk'"),
        ({"drop": german_file._FEATURES}, "drop leaves no column"),
        ({"sparse": True, "as_frame": True}, "sparse and as_frame"),
    ],
)
def test_german_bad_arguments(folder: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.load_german(**arguments)
    assert not folder.exists()  # said before anything is fetched
