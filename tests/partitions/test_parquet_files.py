"""Parquet files are the same problem as the table in memory, encoded as `anymix fit` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import ConvertOptions as CsvOptions

import anymix as ax
from anymix.errors import InputError
from anymix.partitions import from_parquet
from anymix.tables.columns import Features
from anymix.tables.files import read_table

TIGHT: dict[str, Any] = {"gamma": 1e-2, "tol": 1e-12}


def people(n: int = 900, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, region = (
        rng.normal(40, 10, n),
        rng.choice(["north", "south", "west"], n, p=[0.6, 0.3, 0.1]),
    )
    city = rng.choice(["Oslo", "Rome", "Lima"], n).astype(object)
    z = (age - 40) / 10 * np.where(region == "west", -1, 1) + (city == "Rome")
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "income": np.exp(rng.normal(size=n)),
            "children": rng.integers(0, 4, n),
            "city": pd.Series(city).mask(rng.random(n) < 0.05),
            "code": rng.choice(["1", "2", "30"], n),  # digits: a number for `anymix fit`
            "member": rng.random(n) < 0.5,
            "constant": 1.0,
            "region": region,
            "bought": (z + rng.logistic(size=n) > 0).astype(int),
        }
    )
    frame.loc[n // 2, "age"] = np.nan
    return frame


def write(frame: pd.DataFrame, path: Path, rows: int = 100) -> Path:
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=rows)
    return path


def in_memory(frame: pd.DataFrame, path: Path) -> tuple[Any, Features]:
    return of_file(write(frame, path))


def of_file(path: Path) -> tuple[Any, Features]:
    read = read_table(path)
    names = [c for c in read.columns if c not in ("bought", "region")]
    features, _ = Features.learn(read, names)
    X = features.transform(read)
    return ax.LinearDomains(X, read["bought"].to_numpy(), read["region"].to_numpy()), features


def assert_same_columns(found: Any, wanted: Any) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        assert type(ours) is type(theirs)
        for name, value in vars(theirs).items():
            if name == "parts":
                assert_same_columns(ours.parts, theirs.parts)
            elif isinstance(value, float):
                assert getattr(ours, name) == pytest.approx(value, rel=1e-12)
            else:
                assert getattr(ours, name) == value


def test_the_encoding_and_the_optimum_are_those_of_the_table_in_memory(tmp_path: Path) -> None:
    frame = people()
    whole, features = in_memory(frame, tmp_path / "a.parquet")
    problem = from_parquet(tmp_path / "a.parquet", target="bought", domain="region")
    assert problem.feature_names == features.titles
    assert_same_columns(problem.columns, features.columns)
    assert "'constant': left out, it is constant" in problem.notes
    central, found = (ax.solve(p, **TIGHT) for p in (whole, problem))
    assert found.objective == pytest.approx(central.objective, abs=1e-10)
    np.testing.assert_allclose(found.w, central.w, atol=1e-6)


@pytest.mark.parametrize("sample", [65_536, 32])
def test_dates_become_what_they_become_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: int
) -> None:
    monkeypatch.setattr("anymix.partitions.learning.SAMPLE", sample)
    rng = np.random.default_rng(0)
    n = 300
    moments = pd.Series(pd.Timestamp("1969-12-20 23:30") + pd.to_timedelta(rng.random(n), "D") * 60)
    gaps = moments.mask(rng.random(n) < 0.1)
    table = pa.table(
        {
            "day": pa.array(gaps.dt.date, pa.date32()),
            "other day": pa.array(gaps.dt.date, pa.date64()),
            "moment": pa.array(gaps.dt.floor("us"), pa.timestamp("us")),
            "far": pa.array(gaps.dt.tz_localize("UTC"), pa.timestamp("ns", "Pacific/Auckland")),
            "coded": pa.array(gaps.dt.date, pa.date32()).dictionary_encode(),
            "once": pa.array([None] * (n - 9) + [moments[0]] * 9, pa.timestamp("us")),
            "never": pa.nulls(n, pa.date32()),
            "always": pa.array([moments[0].date()] * n, pa.date32()),
            "region": rng.choice(["north", "south"], n),
            "bought": rng.integers(2, size=n),
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=70)
    whole, features = of_file(path)
    problem = from_parquet(path, "bought", "region")
    assert {"day: year", "day: month=December", "far: days since 1970"} <= {*features.titles}
    assert problem.feature_names == features.titles
    assert_same_columns(problem.columns, features.columns)
    assert [note for note in problem.notes if "left out" in note] == [
        "'never': left out, it is empty",
        "'always': left out, it is constant",
    ]
    w = rng.normal(size=problem.n_parameters)
    np.testing.assert_allclose(problem.losses(w), whole.losses(w), rtol=1e-12)


def test_medians_of_more_values_than_a_sample_has_are_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anymix.partitions.learning.SAMPLE", 256)
    frame = people(5000)
    problem = from_parquet(write(frame, tmp_path / "a.parquet"), target="bought", domain="region")
    (age,) = [c for c in problem.columns if c.name == "age"]
    assert age.median == np.nanmedian(frame["age"])
    assert problem.n_passes == 3  # one for medians


def test_several_files_and_folders_that_name_domains(tmp_path: Path) -> None:
    frame = people()
    whole, _ = in_memory(frame, tmp_path / "a.parquet")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    folder = tmp_path / "table"
    parts = ds.partitioning(pa.schema([("region", pa.string())]), flavor="hive")
    ds.write_dataset(table, folder, format="parquet", partitioning=parts)
    assert len(list(folder.glob("region=*/*.parquet"))) == 3
    central = ax.solve(whole, **TIGHT)
    for source in (folder, str(folder), ds.dataset(folder, partitioning="hive")):
        problem = from_parquet(source, target="bought", domain="region")
        assert problem.domain_names.tolist() == ["north", "south", "west"]
        assert ax.solve(problem, **TIGHT).objective == pytest.approx(central.objective, abs=1e-10)
    frame.to_csv(tmp_path / "a.csv", index=False)
    words = pa.schema([("code", pa.string()), ("member", pa.string())])
    csv = ds.CsvFileFormat(convert_options=CsvOptions(column_types=words, strings_can_be_null=True))
    problem = from_parquet(ds.dataset(tmp_path / "a.csv", format=csv), "bought", "region")
    assert ax.solve(problem, **TIGHT).objective == pytest.approx(central.objective, abs=1e-10)
    files = [write(frame[i::2], tmp_path / f"{i}.parquet") for i in (0, 1)]
    one, two = (ds.dataset(file) for file in files)
    for source in (files, ds.dataset([one, two])):
        problem = from_parquet(source, target="bought", domain="region")
        assert problem.n_rows == len(frame)
    assert ax.solve(problem, **TIGHT).objective == pytest.approx(central.objective, abs=1e-10)


def test_filters_weights_features_and_combinations(tmp_path: Path) -> None:
    frame = people()
    path = write(frame, tmp_path / "a.parquet")
    young = frame[frame["income"] < 1]
    problem = from_parquet(
        path,
        "bought",
        ["region", "member"],
        features=["income", "children"],
        columns="plain",
        weight="income",
        filter=ds.field("income") < 1,
    )
    label = "region=" + young["region"] + ", member=" + young["member"].astype(str)
    whole = ax.LinearDomains(
        young[["income", "children"]].to_numpy(float),
        young["bought"].to_numpy(),
        label.to_numpy(),
        sample_weight=young["income"].to_numpy(),
    )
    assert problem.domain_names.tolist() == whole.domain_names.tolist()
    np.testing.assert_allclose(problem.sizes, whole.sizes)
    central, found = (ax.solve(p, **TIGHT) for p in (whole, problem))
    assert found.objective == pytest.approx(central.objective, abs=1e-10)


@pytest.mark.parametrize("gap", [None, np.nan])
def test_regression_and_rows_without_a_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: Any
) -> None:
    monkeypatch.setattr("anymix.partitions.learning.SAMPLE", 256)  # medians need a second pass
    frame, names = people(), ["age", "children", "city"]
    frame.loc[frame.index % 10 == 0, "age"] = -1e6  # rows that nothing is to be learnt from
    table = pa.Table.from_pandas(frame, preserve_index=False)
    income = [gap if i % 10 == 0 else x for i, x in enumerate(frame["income"])]
    table = table.set_column(1, "income", pa.array(income, pa.float64()))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    problem = from_parquet(tmp_path / "a.parquet", "income", "region", names)
    assert problem.classes is None
    assert problem.n_rows == 810
    assert "'income': 90 rows without it, left out" in problem.notes
    assert_same_columns(
        problem.columns[:1], Features.learn(frame[frame.index % 10 > 0], names)[0].columns[:1]
    )
    assert ax.solve(problem, gamma=0.1).converged


def test_columns_of_odd_types(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 40
    table = pa.table(
        {
            "list": pa.array([[1]] * n),
            "number": pa.array(rng.integers(3, size=n)).dictionary_encode(),
            "money": pa.array([f"{k}.50" for k in range(n)]).cast(pa.decimal128(9, 2)),
            "word": rng.choice(["a", "b"], n),
            "when": pa.array(np.arange(n, dtype=np.int32)).cast(pa.date32()),
            "group": pa.array(np.where(np.arange(n) % 4, 1.0, np.nan)),
            "nothing": pa.nulls(n),
            "y": pa.array(rng.integers(2, size=n)).dictionary_encode(),
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=7)
    problem: Any = from_parquet(path, "y", "group")
    assert problem.domain_names.tolist() == ["(missing)", "1"]
    assert problem.classes.tolist() == [0, 1]
    assert [c.name for c in problem.columns] == ["number", "money", "word", "when"]
    assert "'list': left out, it holds lists or records" in problem.notes
    assert problem.columns[1].mean == pytest.approx(n / 2)
    plain = from_parquet(path, "y", "group", ["number", "money"], columns="plain")
    total = np.sum([np.sum(chunk.X, axis=0) for chunk in _chunks(plain)], axis=0)
    np.testing.assert_allclose(total, [np.sum(table["number"].to_pylist()), n * n / 2])
    refused: dict[str, Any] = {
        "row group 0: column 'list' cannot be used": {"features": ["list"]},
        "column 'when' holds dates": {"target": "when"},
        "column 'nothing' is empty; name another target": {"target": "nothing"},
        "column 'word' holds string, no numbers": {"weight": "word"},
    }
    for message, options in refused.items():
        with pytest.raises(InputError, match=message):
            from_parquet(path, **{"target": "y", "domain": "group", **options})


def _chunks(problem: Any) -> list[Any]:
    return [chunk for chunk in problem._visit(lambda chunk, number: chunk) if chunk is not None]


def test_learnt_numbers_that_are_words_elsewhere_are_refused(tmp_path: Path) -> None:
    frame = people(60)
    learnt = from_parquet(write(frame, tmp_path / "a.parquet"), "bought", "region", ["code"])
    frame["code"] = "x1"
    other = write(frame, tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet, row group 0: column 'code' .* 'x1'"):
        from_parquet(other, "bought", "region", ["code"], columns=learnt.columns)


def test_learnt_columns_serve_for_other_rows(tmp_path: Path) -> None:
    one, two = (write(people(seed=s), tmp_path / f"{s}.parquet") for s in (0, 1))
    learnt = from_parquet(one, "bought", "region")
    judged = from_parquet(two, "bought", "region", columns=learnt.columns)
    w = ax.solve(learnt).w
    assert judged.feature_names == learnt.feature_names
    assert judged.losses(w).max() < 1


# -- what can go wrong -------------------------------------------------------------------------


def test_rows_that_fit_are_read_once_and_give_the_same_bits(tmp_path: Path) -> None:
    path = write(people(600), tmp_path / "a.parquet")
    kept, read = (from_parquet(path, "bought", "region", keep=keep) for keep in (10**6, 0))
    visits: Any = [problem._visit for problem in (kept, read)]
    assert [v.kept is not None and v.kept.has_all for v in visits] == [True, False]
    found, other = (ax.solve(problem, gamma=1e-2) for problem in (kept, read))
    np.testing.assert_array_equal(found.w, other.w)
    assert kept.n_passes == read.n_passes


@pytest.mark.parametrize("keep", [0, 10**6])
def test_a_file_that_changes_between_passes_is_named(tmp_path: Path, keep: int) -> None:
    path = write(people(), tmp_path / "a.parquet")
    problem = from_parquet(path, "bought", "region", keep=keep)
    write(people(seed=1), path)
    with pytest.raises(InputError, match=r"a\.parquet was changed while it was being read"):
        ax.solve(problem)


def test_a_file_that_goes_away_is_named(tmp_path: Path) -> None:
    path = write(people(), tmp_path / "a.parquet")
    problem = from_parquet(path, "bought", "region")
    path.unlink()
    with pytest.raises(InputError, match=r"a\.parquet"):
        ax.solve(problem)


def test_a_damaged_row_group_is_named(tmp_path: Path) -> None:
    frame = people()
    path = write(frame, tmp_path / "a.parquet", rows=300)
    data = bytearray(path.read_bytes())
    second = pq.ParquetFile(path).metadata.row_group(1).column(1)
    start = second.dictionary_page_offset or second.data_page_offset
    data[start : start + 200] = b"\xff" * 200
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.parquet, row group 1 cannot be read"):
        from_parquet(path, "bought", "region")


def test_a_gap_in_a_late_row_group_is_named_with_its_column(tmp_path: Path) -> None:
    frame = people()
    frame.loc[750, "income"] = np.nan
    path = write(frame, tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"row group 7: column 'income' has 1 missing .* row 50"):
        from_parquet(path, "bought", "region", ["income", "children"], columns="plain")
    frame.loc[750, "income"] = np.inf
    write(frame, path)
    with pytest.raises(InputError, match=r"row group 7: column 'income' has infinite values"):
        from_parquet(path, "bought", "region")


def test_files_of_other_columns_are_refused(tmp_path: Path) -> None:
    write(people(), tmp_path / "a.parquet")
    other = people()
    other["income"] = "much"
    write(other, tmp_path / "b.parquet")
    message = r"b\.parquet, row group 0 .*column 'income' holds .*string here, but double"
    with pytest.raises(InputError, match=message):
        from_parquet(tmp_path, "bought", "region")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "bougt"}, "has no column 'bougt'; did you mean 'bought'"),
        ({"domain": "nowhere"}, "has no column 'nowhere'"),
        ({"target": None}, "target is a NoneType; give the name of a column"),
        ({"domain": 3}, "domain is a int; give the name of a column"),
        ({"weight": np.ones(2)}, "weight is a ndarray; give the name of a column"),
        ({"columns": "all"}, "columns is 'all'"),
        ({"columns": "plain"}, "column 'city' holds no numbers"),
        ({"features": ["age", "bought"]}, "features has 'bought', which is to be predicted"),
        ({"features": "age", "filter": ds.field("age") > 999}, "the table has no rows"),
        ({"domain": "income"}, "column 'income' has over 1,000 different values"),
        ({"keep": "400MB"}, "keep is '400MB'; give a whole number ≥ 0"),
        ({"batch_rows": 0}, "batch_rows is 0; give a whole number ≥ 1"),
        ({"threads": 0}, "threads is 0; give 1 or more"),
        ({"filter": "age > 3"}, "filter cannot be used"),
        ({"filter": ds.field("agee") > 3}, "filter cannot be used .*agee"),
    ],
)
def test_bad_arguments_are_refused(tmp_path: Path, options: Any, message: str) -> None:
    path = write(people(1200), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=message):
        from_parquet(path, **{"target": "bought", "domain": "region", **options})


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(InputError, match=r"a\.parquet"):
        from_parquet(tmp_path / "a.parquet", "bought", "region")
    with pytest.raises(InputError, match="source cannot be read"):
        from_parquet(tmp_path / "none.parquet", "bought", "region")
    for source in (3, [3]):
        with pytest.raises(InputError, match="source is a int"):
            from_parquet(source, "bought", "region")
    with pytest.raises(InputError, match="source is a dataset without files"):
        from_parquet(ds.dataset(pa.table({"bought": [1]})), "bought", "region")
