import gzip
import json
import math
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import anymix as ax
from anymix import tables
from anymix.auditing import audit
from anymix.tables import (
    Features,
    audit_frame,
    column,
    domain_labels,
    fit_table,
    merge_small,
    mixture_set,
    predict_table,
    read_table,
    target_column,
)

# Files ------------------------------------------------------------------------------------------

TEXT = """age,city,note,member
31,Oslo,"said ""yes"", then left",True
,Rome,"two
lines",False
40.5,?,plain,True
"""
EXPECTED = pd.DataFrame(
    {
        "age": [31, np.nan, 40.5],
        "city": ["Oslo", "Rome", None],
        "note": ['said "yes", then left', "two\nlines", "plain"],
        "member": ["True", "False", "True"],
    }
)


def same(frame: Any, expected: Any) -> None:
    assert frame.columns.tolist() == expected.columns.tolist()
    for name in expected.columns:
        found, wanted = frame[name], expected[name]
        assert found.isna().tolist() == wanted.isna().tolist()
        assert found.dropna().tolist() == wanted.dropna().tolist()


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding=encoding, newline="") as file:
        file.write(text)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.CSV", "a.b.csv", "t.txt"])
def test_quotes_newlines_and_missing_values(tmp_path: Path, name: str) -> None:
    same(read_table(write(tmp_path / name, TEXT)), EXPECTED)


@pytest.mark.parametrize(("name", "separator"), [("t.tsv", "\t"), ("t.csv", ";"), ("t.txt", "|")])
def test_other_separators(tmp_path: Path, name: str, separator: str) -> None:
    path = tmp_path / name
    EXPECTED.to_csv(path, sep=separator, index=False)
    same(read_table(path), EXPECTED)


def test_parquet(tmp_path: Path) -> None:
    EXPECTED.to_parquet(tmp_path / "t.parquet")
    same(read_table(tmp_path / "t.parquet"), EXPECTED)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path / "t.csv", "naïve,x\nZürich,1\nOslo,2\n", encoding)
    frame = read_table(path, encoding="utf-8" if encoding == "utf-8-sig" else encoding)
    assert frame["naïve"].tolist() == ["Zürich", "Oslo"]


def test_many_chunks_are_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CHUNK", 7)
    r = np.random.default_rng(0)
    expected = pd.DataFrame(
        {
            "number": np.where(r.random(100) < 0.2, np.nan, r.normal(size=100).round(3)),
            "whole": r.integers(-5, 5, 100),
            "level": r.choice(["b", "a", "c d"], 100),
            "late string": ["1.50"] * 99 + ["none"],  # only the last chunk shows that it is one
            "late number": ["none"] + ["01"] * 99,  # all but the first look like numbers
            "late value": [None] * 60 + ["x"] * 40,
            "late": [np.nan] * 60 + [7.5] * 40,
        }
    )
    expected.to_csv(tmp_path / "t.csv", index=False)
    frame = read_table(tmp_path / "t.csv")
    same(frame, expected)
    assert frame["whole"].dtype == np.int64
    assert frame["level"].cat.categories.tolist() == ["a", "b", "c d"]
    expected.to_parquet(tmp_path / "t.parquet")
    same(read_table(tmp_path / "t.parquet"), expected)


def test_columns_of_names_are_left_out_unless_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MANY_LEVELS", 20)
    monkeypatch.setattr(tables, "CHUNK", 8)
    frame = pd.DataFrame({"name": [f"n{i}" for i in range(30)], "x": range(30)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = read_table(tmp_path / "t.csv")
    assert found.columns.tolist() == ["x"]
    assert found.attrs["left_out"] == ["name"]
    with pytest.raises(ValueError, match=r"'name' of .*t.csv has over 20 different strings"):
        column(found, "name")
    kept = read_table(tmp_path / "t.csv", keep=["name"])
    assert kept["name"].tolist() == frame["name"].tolist()


BAD: dict[str, tuple[bytes, str]] = {
    "empty.csv": (b"", "is empty; give a table whose first line names the columns"),
    "blank.csv": (b"\n\n", "is empty"),
    "header.csv": (b"a,b\n", "has a header but no rows"),
    "latin.csv": ("a,b\nZürich,1\n".encode("latin-1"), "is not UTF-8 .*--encoding latin-1"),
    "long.csv": (b"a,b\n1,2\n1,2,3\n", r"line 3: 3 fields, but the header has 2; correct"),
    "short.csv": (b"a,b,c\n1,2,3\n1,2\n", r"line 3: 2 fields, but the header has 3"),
    "index.csv": (b"a,b\n0,1,2\n1,3,4\n", r"line 2: 3 fields, but the header has 2"),
    "quote.csv": (b'a,b\n1,"2\n' + b"x,y\n" * 60_000, "a quote that is not closed"),
    "twice.csv": (b"a,a\n1,2\n", "two columns named 'a'"),
    "broken.csv.gz": (b"no gzip at all", "is a damaged gzip file"),
    "cut.csv.gz": (gzip.compress(b"a,b\n" + b"1,2\n" * 99999)[:150], "is a damaged gzip file"),
    "text.parquet": (b"a,b\n1,2\n", "is no Parquet file"),
    "table.xlsx": (b"PK", "is of no known kind; files that end in .csv"),
    "table": (b"a,b\n1,2\n", "is of no known kind"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_say_what_to_do_in_one_line(tmp_path: Path, name: str) -> None:
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_parquet_without_rows_files_that_are_not_there_and_codecs_nobody_knows(
    tmp_path: Path,
) -> None:
    EXPECTED[:0].to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="has columns but no rows"):
        read_table(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="is not a file"):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(ValueError, match="encoding is 'latin-99'"):
        read_table(write(tmp_path / "t.csv", TEXT), encoding="latin-99")


def test_a_missing_column_is_named_with_its_neighbour() -> None:
    with pytest.raises(ValueError, match="no column 'citty'; did you mean 'city'"):
        column(EXPECTED, "citty")
    with pytest.raises(ValueError, match="no column 'zzz'; it has age, city, note, member"):
        column(EXPECTED, "zzz")


# Columns as numbers -----------------------------------------------------------------------------


def dense(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) else X


def people(n: int = 300, seed: int = 0) -> Any:
    r = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": r.normal(40, 12, n),
            "city": r.choice(["Oslo", "Rome", "Lima"], n),
            "job": r.choice([f"job {j:02}" for j in range(30)], n),
        }
    )


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


@pytest.mark.parametrize("names", [["age", "city"], ["age", "city", "job"]])
def test_rows_may_be_put_into_another_order(names: list[str]) -> None:
    frame = people()
    features, _ = Features.learn(frame, names)
    order = np.random.default_rng(0).permutation(len(frame))
    a, b = features.transform(frame, order), features.transform(frame.iloc[order])
    assert abs(a - b).max() == 0


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
    monkeypatch.setattr(tables, "MOST_LEVELS", 2)
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
    assert features.unseen(new) == ["'c': 1 level(s) that the training had not, such as '3'"]


def test_columns_that_cannot_be_used_are_named() -> None:
    with pytest.raises(ValueError, match="column 'x' has infinite values"):
        Features.learn(pd.DataFrame({"x": [1.0, math.inf]}), ["x"])
    with pytest.raises(ValueError, match="no column to learn from"):
        Features.learn(pd.DataFrame({"x": [1.0, 1.0]}), ["x"])
    features, _ = Features.learn(pd.DataFrame({"x": [1.0, 2.0]}), ["x"])
    with pytest.raises(ValueError, match="column 'x' holds numbers in training but here one, two"):
        features.transform(pd.DataFrame({"x": ["one", "two"]}))


# Domains, mixtures and targets ------------------------------------------------------------------


def test_domains_of_one_and_of_two_columns() -> None:
    frame = pd.DataFrame({"year": [10, 9, 9], "sex": ["F", None, "M"]})
    assert domain_labels(frame, ["year"]).tolist() == [10, 9, 9]
    assert domain_labels(frame, ["sex"]).tolist() == ["F", "(missing)", "M"]
    both = ["sex=F, year=10", "sex=(missing), year=9", "sex=M, year=9"]
    assert domain_labels(frame, ["sex", "year"]).tolist() == both


def test_nullable_columns_of_pandas_are_read_too() -> None:
    frame = shop(300).convert_dtypes().assign(year=pd.array([1, 2, None] * 100, dtype="Int64"))
    assert domain_labels(frame, ["year"]).tolist()[:3] == ["1", "2", "(missing)"]
    found = fit_table(frame, "bought", ["region"], gamma=0.1, drop=["spent"])
    plain = fit_table(
        shop(300).assign(year=[1.0, 2.0, np.nan] * 100),
        "bought",
        ["region"],
        gamma=0.1,
        drop=["spent"],
    )
    np.testing.assert_allclose(
        found.audits["agnostic"].domain_losses, plain.audits["agnostic"].domain_losses
    )


def test_a_domain_column_of_measurements_is_refused() -> None:
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=2000)})
    with pytest.raises(ValueError, match=r"'x' has 2,000 different values; .* group its values"):
        domain_labels(frame, ["x"])


def test_small_domains_are_put_together() -> None:
    labels = np.array([1, 1, 2, 3, 3])
    assert merge_small(labels, 2)[0].tolist() == ["1", "1", "(other)", "3", "3"]
    assert merge_small(labels, 1)[0] is labels


NAMES, SIZES = ["north", "south", "west"], np.array([10, 30, 60])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("simplex", ax.Simplex(3)),
        ("data", ax.Point([0.1, 0.3, 0.6])),
        ("chi2:2.0", ax.Chi2Ball(SIZES, 2.0)),
        ("cvar:0.3", ax.cvar([0.1, 0.3, 0.6], 0.3)),
        ("tv:0.2", ax.TVBall([0.1, 0.3, 0.6], 0.2)),
    ],
)
def test_mixtures_by_name(text: str, expected: Any) -> None:
    assert mixture_set(text, NAMES, SIZES) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"north": 0.25, "west": 0.75}, ax.Point([0.25, 0, 0.75])),
        ([{"north": 1}, {"west": 0.5, "south": 0.5}], ax.Hull([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])),
        ({"lower": {"north": 0.2}}, ax.Box([0.2, 0, 0], [1, 1, 1])),
        ({"upper": {"south": 0.5}, "lower": {}}, ax.Box([0, 0, 0], [1, 0.5, 1])),
    ],
)
def test_mixtures_of_a_file(tmp_path: Path, content: Any, expected: Any) -> None:
    path = tmp_path / "mixtures.json"
    path.write_text(json.dumps(content))
    assert mixture_set(str(path), NAMES, SIZES) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "holds no mixture; write .*north"),
        ("3", "holds no mixture"),
        ("[1, 2]", "has '1'; write shares"),
        ('{"north": "all"}', "write shares"),
        ('{"east": 1}', "names the domain 'east', .* it has north, south, west"),
        ('{"north": 0.5}', "sum to 1"),
    ],
)
def test_bad_files_of_mixtures(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "mixtures.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        mixture_set(str(path), NAMES, SIZES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("all", "mixtures is 'all'; give simplex, data, chi2:2.0"),
        ("simplex:2", "mixtures is 'simplex:2'"),
        ("chi2", "give a number, as in chi2:0.5"),
        ("tv:x", "give a number, as in tv:0.5"),
        ("cvar:7", "alpha must be"),
        ("nowhere.json", "cannot be read as JSON"),
    ],
)
def test_mixtures_nobody_knows(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixture_set(text, NAMES, SIZES)


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
    assert target_column(pd.DataFrame({"y": values}), "y", "auto")[1] == task


def test_the_task_may_be_chosen() -> None:
    assert target_column(pd.DataFrame({"y": [0, 1, 2]}), "y", "regress")[0].dtype == np.float64
    assert target_column(pd.DataFrame({"y": range(20)}), "y", "classify")[1] == "classify"
    with pytest.raises(ValueError, match="strings such as 'a'; regression needs numbers"):
        target_column(pd.DataFrame({"y": ["a", "b"]}), "y", "regress")


# Fitting ----------------------------------------------------------------------------------------


def shop(n: int = 600, seed: int = 0) -> Any:
    """What is bought depends on x in the north and on minus x in the south, which is rare."""
    r = np.random.default_rng(seed)
    frame = people(n, seed).assign(x=r.normal(size=n))
    region = r.choice(["north", "south"], n, p=[0.85, 0.15])
    z = np.where(region == "north", 2 * frame["x"], -frame["x"]) + (frame["city"] == "Oslo")
    noisy = z + r.logistic(size=n)
    return frame.assign(region=region, bought=np.where(noisy > 0, "yes", "no"), spent=noisy)


@pytest.mark.filterwarnings("ignore::anymix.fitting.OverfitWarning")
@pytest.mark.parametrize("target", ["bought", "spent"])
def test_the_model_is_that_of_the_estimators(target: str) -> None:
    frame = shop()
    found = fit_table(frame, target, ["region"], gamma=0.01, drop=["spent", "bought"])
    names = ["age", "city", "job", "x"]
    features, _ = Features.learn(frame, names)
    X = features.transform(frame)
    make: Any = ax.AgnosticClassifier if target == "bought" else ax.AgnosticRegressor
    expected = make(gamma=0.01).fit(X, frame[target], domains=frame["region"])
    fitted = found.model.estimator
    assert fitted.agnostic_loss_ == pytest.approx(expected.agnostic_loss_, abs=1e-5)
    np.testing.assert_allclose(fitted.domain_losses_, expected.domain_losses_, atol=1e-4)
    np.testing.assert_allclose(
        found.model.features.transform(frame).toarray(), X.toarray(), atol=1e-12
    )
    assert fitted.domain_names_.tolist() == ["north", "south"]
    assert found.gamma == 0.01
    assert found.certificate.gap < 1e-6
    assert found.certificate.upper == pytest.approx(expected.certificate_.upper, abs=2e-6)
    if target == "bought":
        np.testing.assert_allclose(
            found.model.predict_proba(frame), expected.predict_proba(X), atol=1e-2
        )
        assert found.model.predict(frame).tolist() == expected.predict(X).tolist()


def test_the_ordinary_model_beside_it_is_logistic_regression() -> None:
    train, test = shop(), shop(300, seed=1)
    names = ["age", "city", "x"]
    drop = ["job", "spent"]
    found = fit_table(train, "bought", ["region"], gamma=0.01, drop=drop, test=test)
    X = Features.learn(train, names)[0]
    theirs = LogisticRegression(C=1 / (0.01 * len(train)), tol=1e-8, max_iter=1000)
    theirs.fit(X.transform(train), train["bought"])
    said = theirs.predict_proba(X.transform(test))
    expected = audit(test["bought"], said, test["region"])
    np.testing.assert_allclose(
        found.audits["ordinary"].domain_losses, expected.domain_losses, rtol=1e-3
    )
    assert found.audits["ordinary"].domain_names == ("north", "south")
    assert found.audits["ordinary"].sizes.tolist() == expected.sizes.tolist()
    assert found.judged_on == "the rows of the test file"
    agnostic = audit(test["bought"], found.model.predict_proba(test), test["region"])
    np.testing.assert_allclose(
        found.audits["agnostic"].domain_losses, agnostic.domain_losses, rtol=1e-6
    )
    assert found.comparison.gain > 0.1


def test_held_out_rows_are_not_fitted() -> None:
    """Labels by chance and a feature for every row: only rows seen before can be predicted."""
    r = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame(r.normal(size=(n, 100)), columns=[f"x{j}" for j in range(100)])
    frame = frame.assign(y=r.integers(0, 2, n), d=np.arange(n) % 2)
    for how in ({"folds": 4}, {"holdout": 0.4}, {}):
        found = fit_table(frame, "y", ["d"], gamma=1e-3, **how)
        for one in found.audits.values():
            assert one.pooled_metrics["accuracy"] < 0.7
        n_judged = 48 if "holdout" in how else n
        assert found.audits["agnostic"].n_rows == n_judged
    assert (found.model.predict(frame) == frame["y"]).mean() > 0.9


def test_gamma_is_chosen_for_the_worst_mixture() -> None:
    r = np.random.default_rng(0)
    n = 200
    frame = pd.DataFrame(r.normal(size=(n, 60)), columns=[f"x{j}" for j in range(60)])
    noise = r.logistic(size=n)
    frame = frame.assign(d=np.arange(n) % 2, y=np.where(frame["x0"] + noise > 0, "a", "b"))
    strong = fit_table(frame, "y", ["d"])
    weak = fit_table(frame, "y", ["d"], gamma=1e-5)
    assert strong.gamma in tables.GAMMAS
    assert strong.audits["agnostic"].agnostic_loss < weak.audits["agnostic"].agnostic_loss


def test_large_tables_are_judged_on_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS_TO_FOLD", 500)
    monkeypatch.setattr(tables, "ROWS_TO_CHOOSE", 300)
    frame = shop(1001)
    steps: list[str] = []
    found = fit_table(frame, "bought", ["region"], drop=["spent"], progress=steps.append)
    assert found.audits["agnostic"].n_rows == 250
    assert found.judged_on == "250 rows that the models had not seen"
    shares = found.audits["agnostic"].sizes / 250
    np.testing.assert_allclose(shares, frame["region"].value_counts() / 1001, atol=0.005)
    assert steps[-1] == "agnostic model, all rows"


def test_a_sample_for_choosing_is_even_and_has_small_domains_and_classes_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "ROWS_TO_CHOOSE", 1000)
    d = np.repeat([0, 1], [9950, 50]).astype(np.int32)
    y = (np.arange(10_000) % 5 == 0).astype(np.int32)
    y[[3000, 3001, 5002]] = 2
    names, classes = np.array(["u", "v"]), np.array(["a", "b", "rare"])
    rows = tables._Rows(None, y, d, classes, names)
    picked = tables._sample(rows, slice(None))
    assert len(set(picked.tolist())) == len(picked)
    assert {3000, 3001, 5002} <= set(picked.tolist())
    assert np.sum(d[picked] == 1) == 50
    assert 1045 <= len(picked) <= 1045 + 203  # 100 more of each class at most
    assert np.mean(y[picked] == 1) == pytest.approx(0.2, abs=0.07)


def test_only_the_mixtures_asked_for_count() -> None:
    frame = shop()
    data = fit_table(frame, "bought", ["region"], gamma=0.01, drop=["spent"], mixtures="data")
    a, b = data.audits["ordinary"], data.audits["agnostic"]
    np.testing.assert_allclose(a.domain_losses, b.domain_losses)
    assert a.agnostic_loss == pytest.approx(a.pooled_loss)


def test_notes_say_what_was_done() -> None:
    frame = shop(300)
    frame.loc[:4, "bought"] = None
    frame.loc[7:9, "region"] = None
    frame.loc[20:24, "age"] = np.nan
    frame.attrs["left_out"] = ["name"]
    found = fit_table(frame, "bought", ["region"], gamma=0.1, drop=["spent"], min_rows=10)
    assert found.notes[:4] == [
        "'bought': 5 rows without it, left out",
        "'name': left out, too many values",
        "'age': 5 missing values, set to the median and marked",
        "domain '(missing)': too small, now in '(other)'",
    ]
    assert found.audits["agnostic"].n_rows == 295
    assert found.audits["agnostic"].domain_names == ("(other)", "north", "south")
    assert "few for" in found.notes[4]  # three rows: the warning of overfitting


def small(**columns: Any) -> Any:
    n = 24
    frame = pd.DataFrame({"x": np.arange(n) % 7, "d": list("ab") * 12, "y": list("yyn") * 8})
    return frame.assign(**columns)


ONE_B = ["b"] + ["a"] * 23
BAD_TABLES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "column": (small(), {"target": "z"}, "no column 'z'"),
    "drop": (small(), {"drop": ["xx"]}, "no column 'xx'; did you mean 'x'"),
    "constant": (small(y="n"), {}, r"'y' is constant \(n\): there is nothing to learn"),
    "empty": (small(y=None), {}, "'y' is empty"),
    "domain": (small(d="a"), {}, "one domain only, 'a'; name a domain column of two"),
    "row": (small(d=ONE_B), {}, "domain 'b' has too few rows .* --min-rows 30"),
    "held": (small(d=ONE_B), {"holdout": 0.2}, "domain 'b' has too few rows"),
    "class": (small(y=["z"] + list("yn") * 11 + ["y"]), {}, "class 'z' has too few rows"),
    "test": (small(), {"test": small(d="c")}, "domain 'c' is only in the test file; add rows"),
    "none": (small(), {"test": small(d="a")}, "domain 'b' has no row in the test file; add some"),
    "kind": (small(), {"test": small(y="z")}, "class 'z' is only in the test file"),
    "both": (small(), {"folds": 3, "holdout": 0.2}, "folds is 3 and holdout 0.2; give one"),
    "folds": (small(), {"folds": 1}, "folds is 1; give 2 to 24"),
    "holdout": (small(), {"holdout": 1.5}, r"holdout is 1.5; give a share inside \(0, 1\)"),
    "features": (small(x=1), {}, "no column to learn from"),
    "gamma": (small(), {"gamma": -1.0}, "gamma"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_say_what_to_do_in_one_line(name: str) -> None:
    frame, options, message = BAD_TABLES[name]
    with pytest.raises(ValueError, match=message) as caught:
        fit_table(frame, **{"target": "y", "domains": ["d"]} | options)
    assert "\n" not in str(caught.value)


def test_a_saved_model_predicts_the_same(tmp_path: Path) -> None:
    frame = shop()
    model = fit_table(frame, "bought", ["region"], gamma=0.1, drop=["spent"]).model
    joblib.dump(model, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    predictions, notes = predict_table(again, frame.assign(city="Bonn"), keep=["region"])
    expected = model.predict_proba(frame.assign(city="Bonn"))
    assert predictions.columns.tolist() == [
        "region",
        "prediction",
        "probability of no",
        "probability of yes",
    ]
    np.testing.assert_array_equal(predictions.iloc[:, 2:], expected)
    assert predictions["prediction"].tolist() == again.predict(frame.assign(city="Bonn")).tolist()
    assert notes == ["'city': 1 level(s) that the training had not, such as 'Bonn'"]
    with pytest.raises(ValueError, match="no column 'age'"):
        predict_table(again, frame.drop(columns="age"))


def test_values_are_predicted_too() -> None:
    frame = shop()
    model = fit_table(frame, "spent", ["region"], gamma=0.1, drop=["bought"]).model
    predictions, _ = predict_table(model, frame)
    assert predictions.columns.tolist() == ["prediction"]
    assert np.corrcoef(predictions["prediction"], frame["spent"])[0, 1] > 0.2


# Auditing ---------------------------------------------------------------------------------------


def test_a_table_of_predictions_is_audited() -> None:
    r = np.random.default_rng(0)
    n = 200
    frame = pd.DataFrame(
        {
            "y": r.choice(["no", "yes"], n),
            "p": r.random(n),
            "old": r.random(n),
            "loss": r.exponential(size=n),
            "sex": r.choice(["F", "M"], n),
            "age": r.integers(1, 3, n),
        }
    ).assign(q=lambda f: 1 - f["p"])
    one = audit_frame(frame, ["sex"], target="y", prediction=["p"])["p"]
    assert one.to_dict() == audit(frame["y"], frame["p"], frame["sex"]).to_dict()
    two = audit_frame(frame, ["sex"], target="y", prediction=["q", "p"])["q, p"]
    np.testing.assert_allclose(two.domain_losses, one.domain_losses)
    cells = audit_frame(frame, ["sex", "age"], losses="loss", mixtures="cvar:0.5", confidence=0.8)[
        "loss"
    ]
    expected = audit(
        None,
        frame["loss"],
        sensitive_features=frame[["sex", "age"]],
        mixtures=lambda sizes: ax.cvar(sizes / sizes.sum(), 0.5),
        confidence=0.8,
    )
    assert cells.to_dict() == expected.to_dict()
    pair = audit_frame(frame, ["sex"], target="y", prediction=["p"], against="old")
    assert list(pair) == ["old", "p"]
    assert pair["old"].to_dict() == audit(frame["y"], frame["old"], frame["sex"]).to_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give a target and a prediction, or else losses"),
        ({"target": "y"}, "give a target and a prediction"),
        ({"target": "y", "prediction": ["x"], "losses": "x"}, "give a target and a prediction"),
        ({"target": "y", "prediction": ["gap"]}, "column 'gap' has 24 missing values"),
        ({"losses": "nothing"}, "no column 'nothing'"),
    ],
)
def test_bad_audits_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        audit_frame(small(gap=np.nan), ["d"], **options)
