"""One odd cell does not turn numbers into words, and it is told which cells were odd."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anymix.errors import InputError
from anymix.tables import audit_frame, bound_frame, files, fit_table, frames, predict_table
from anymix.tables.clustered import cluster_frame
from anymix.tables.files import read_table
from anymix.tables.spooling import spooled

ODD = ["#N/A", "None", "n/a", "-", ".", "<NA>", "NAN", "Total"]


def cells(odd: str, n: int = 40) -> list[str]:
    found = [f"{k / 4}" for k in range(n)]
    found[n // 2] = odd
    return found


def write(folder: Path, **columns: list[str]) -> Path:
    frame = pd.DataFrame(columns).assign(also=0)
    frame.to_csv(folder / "t.csv", index=False, sep=";")
    return folder / "t.csv"


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_cell_is_missing_and_told(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CHUNK", 7)
    path = write(tmp_path, x=cells(odd), y=["1"] * 40)
    expected = pd.to_numeric(pd.Series(cells(odd)), errors="coerce").to_numpy()
    frame = read_table(path)
    np.testing.assert_array_equal(frame["x"], expected)
    note = {"x": f"'x': 1 cell is no number and counts as missing: {odd!r}"}
    assert frame.attrs["notes"] == note
    spool = spooled(path)
    np.testing.assert_array_equal(spool.frame(["x"])["x"], expected)
    assert spool.attrs["notes"] == note
    spool.close()


def test_a_column_of_more_numbers_than_there_may_be_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MANY_LEVELS", 20)
    frame = read_table(write(tmp_path, x=cells("oops"), name=[f"n{k}" for k in range(40)]))
    assert frame.columns.tolist() == ["x", "also"]
    assert frame["x"].isna().sum() == 1


@pytest.mark.parametrize("cell", ["1,5", "-0,25", "1.234,5", "12"])
def test_decimal_commas(cell: str, tmp_path: Path) -> None:
    frame = read_table(write(tmp_path, x=[cell, *(f"{k},{k}" for k in range(30))]))
    expected = float(cell.replace(".", "").replace(",", "."))
    assert frame["x"].tolist()[:3] == [expected, 0.0, 1.1]
    assert frame.attrs["notes"] == {"x": "'x': numbers with a decimal comma"}


def test_thousands_are_no_decimals_unless_that_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, x=["1,234", "10,500", "999"])
    assert read_table(path)["x"].tolist() == [1234, 10500, 999]
    assert read_table(path, decimal=",")["x"].tolist() == [1.234, 10.5, 999]


def test_words_codes_and_labels_stay_what_they_are(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        words=["one", "2", "3", "4"] * 10,
        code=["0150", "12", "A1", "77"] * 10,
        label=[*["1", "2"] * 19, "3a", "1"],
    )
    found = read_table(path, keep=["label"])
    assert [found[name].dtype.kind for name in found.columns] == ["O"] * 3 + ["i"]
    assert found.attrs["notes"] == {}
    assert read_table(path)["label"].isna().sum() == 1  # not a column of classes


def test_what_is_said_of_a_column_is_believed(tmp_path: Path) -> None:
    path = write(tmp_path, x=["1", "many", "3", "few", "5", "6"], y=["1", "2"] * 3)
    types = {"x": "number", "y": "category"}
    found = read_table(path, types=types)
    np.testing.assert_array_equal(found["x"], [1, np.nan, 3, np.nan, 5, 6])
    assert found["y"].tolist() == ["1", "2"] * 3
    spool = spooled(path, types=types)
    assert spool.frame(["y"])["y"].tolist() == ["1", "2"] * 3
    spool.close()
    assert read_table(path, na=["many", "few"])["x"].dropna().tolist() == [1, 3, 5, 6]
    with pytest.raises(InputError, match="'x' is to hold dates, but has few, many"):
        read_table(path, types={"x": "date"})
    with pytest.raises(InputError, match="has no column 'z'"):
        read_table(path, types={"z": "number"})
    with pytest.raises(InputError, match="types says that 'x' is a 'float'; give number"):
        read_table(path, types={"x": "float"})
    with pytest.raises(InputError, match="decimal is ';'; give a point or a comma"):
        read_table(path, decimal=";")


def shop(n: int = 200) -> Any:
    r = np.random.default_rng(0)
    x = r.normal(size=n).round(3)
    frame = pd.DataFrame({"x": x, "d": r.choice(["a", "b"], n), "id": r.integers(0, 9, n)})
    frame["y"] = np.where(x + r.logistic(size=n) > 0, "yes", "no")
    frame["p"] = (1 / (1 + np.exp(-x))).round(4)
    return frame


@pytest.mark.parametrize("kind", ["frame", "parquet", "polars"])
def test_frames_and_strings_of_parquet(kind: str, tmp_path: Path) -> None:
    clean, odd = shop(), shop().astype({"x": object, "p": object})
    clean.loc[3, "x"] = np.nan
    odd["x"] = odd["x"].map(str)
    odd.loc[3, "x"] = "#N/A"
    given: Any = odd
    if kind == "parquet":
        odd.to_parquet(tmp_path / "t.parquet")
        given = read_table(tmp_path / "t.parquet", text=["d"])
    elif kind == "polars":
        pl = pytest.importorskip("polars")
        given = pl.from_pandas(odd.astype({"p": float}))
    asked: dict[str, Any] = {"gamma": 0.01, "drop": ["p", "id"]}
    found, expected = (fit_table(t, "y", ["d"], **asked) for t in (given, clean))
    assert "'x': 1 cell is no number and counts as missing: '#N/A'" in found.notes
    assert found.audits["robust"].agnostic_loss == expected.audits["robust"].agnostic_loss
    said, notes = predict_table(found.model, given)
    assert notes == ["'x': 1 cell is no number and counts as missing: '#N/A'"]
    np.testing.assert_array_equal(
        said["probability of no"], predict_table(expected.model, clean)[0]["probability of no"]
    )


def test_audits_bounds_and_clusters_of_odd_cells() -> None:
    odd = shop().astype({"p": object})
    odd.loc[5, "p"] = "n/a"
    for call in (audit_frame, bound_frame):
        with pytest.raises(
            InputError, match=r"'p' has 1 missing values .*counts as missing: 'n/a'"
        ):
            call(odd, ["d"], target="y", prediction=["p"])
    kept = odd.drop(index=5)
    found = audit_frame(kept, ["d"], target="y", prediction=["p"])["p"]
    clean = audit_frame(shop().drop(index=5), ["d"], target="y", prediction=["p"])["p"]
    assert found.agnostic_loss == clean.agnostic_loss
    clusters = cluster_frame(odd, "id", columns=["p"], n_clusters=2)
    assert clusters.notes == ["'p': 1 cell is no number and counts as missing: 'n/a'"]


def test_dates_are_years_months_weekdays_and_days(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    when = pd.Timestamp("2019-11-04") + pd.to_timedelta(r.integers(0, 900, 300), unit="D")
    y = np.where((when.day_of_week == 5) ^ (r.random(300) < 0.1), "yes", "no")
    frame = pd.DataFrame({"when": when, "d": r.choice(["a", "b"], 300), "y": y})
    found = fit_table(frame, "y", ["d"], gamma=0.001)
    titles = found.model.features.titles
    assert {"when: year", "when: days since 1970", "when: month=March"} < set(titles)
    assert "'when': dates, used as year, month, weekday and days" in found.notes
    X = found.model.features.transform(frame[:1])
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X)[0]
    day = f"when: weekday={when[0].day_name()}"
    assert X[titles.index(day)] == 1
    assert found.audits["ordinary"].pooled_loss < 0.5  # a constant guess has about 0.55
    styles = {"iso": "%Y-%m-%d", "time": "%Y-%m-%dT%H:%M:%S", "german": "%d.%m.%Y"}
    for name, style in styles.items():
        frame.assign(when=when.strftime(style)).to_csv(tmp_path / f"{name}.csv", index=False)
        read = read_table(tmp_path / f"{name}.csv", text=["d"])
        assert read["when"].dt.normalize().tolist() == when.normalize().tolist()
    frame.to_parquet(tmp_path / "t.parquet")
    again = fit_table(read_table(tmp_path / "t.parquet"), "y", ["d"], gamma=0.001)
    assert again.certificate.upper == found.certificate.upper
    spool = spooled(tmp_path / "iso.csv", text=["d"])
    on_disk = fit_table(spool, "y", ["d"], gamma=0.001)
    spool.close()
    assert on_disk.certificate.upper == pytest.approx(found.certificate.upper, rel=1e-6)
    assert on_disk.model.features.titles == titles


def test_days_and_months_that_might_be_the_other(tmp_path: Path) -> None:
    path = write(tmp_path, a=["03/04/2020", "01/02/2021"], b=["13/04/2020", "01/02/2021"])
    found = read_table(path)
    assert found["a"].dt.month.tolist() == [3, 1]
    assert found["b"].dt.month.tolist() == [4, 2]
    assert list(found.attrs["notes"]) == ["a"]
    assert "month/day/year" in found.attrs["notes"]["a"]


def test_excel_is_read_as_its_first_sheet(tmp_path: Path) -> None:
    frame = shop(30).assign(when=pd.Timestamp("2020-05-06"), text="ä, b")
    frame.loc[4, "x"] = np.nan
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    frame.to_csv(tmp_path / "t.csv", index=False)
    book, text = (read_table(tmp_path / f"t.{kind}") for kind in ("xlsx", "csv"))
    pd.testing.assert_frame_equal(book, text)


def test_twins_may_be_dropped(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,x,a\n1,2,3\n4,5,6\n")
    with pytest.raises(InputError, match="two columns named 'a'; rename one of them, or drop both"):
        read_table(path)
    found = read_table(path, drop=["a"])
    assert found.columns.tolist() == ["x"]
    assert found.attrs["left_out"] == ["a"]


def test_columns_are_told_of_in_their_order(tmp_path: Path) -> None:
    names = [f"c{i}" for i in (7, 3, 9, 1, 8, 2, 6, 4)]
    table = read_table(write(tmp_path, **{name: cells("#N/A") for name in names}))
    assert list(table.attrs["notes"]) == names
