import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anymix.errors import InputError
from anymix.tables import files as tables
from anymix.tables import frames
from anymix.tables.files import read_table
from anymix.tables.frames import column
from anymix.tables.reading import MISSING

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
            "late string": ["1.50", "a"] * 49
            + ["2", "none"],  # only the last chunk shows that it is one
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
    monkeypatch.setattr(frames, "MANY_LEVELS", 20)
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
    "latin.csv": (
        "a,b\nZürich,1\n".encode("latin-1"),
        "is not UTF-8 .*; pass its encoding, say latin-1",
    ),
    "long.csv": (b"a,b\n1,2\n1,2,3\n", r"line 3: 3 fields, but the header has 2; correct"),
    "short.csv": (b"a,b,c\n1,2,3\n1,2\n", r"line 3: 2 fields, but the header has 3"),
    "index.csv": (b"a,b\n0,1,2\n1,3,4\n", r"line 2: 3 fields, but the header has 2"),
    "quote.csv": (b'a,b\n1,"2\n' + b"x,y\n" * 60_000, "a quote that is not closed"),
    "twice.csv": (b"a,a\n1,2\n", "two columns named 'a'"),
    "broken.csv.gz": (b"no gzip at all", "is a damaged gzip file"),
    "cut.csv.gz": (gzip.compress(b"a,b\n" + b"1,2\n" * 99999)[:150], "is a damaged gzip file"),
    "text.parquet": (b"a,b\n1,2\n", "is no Parquet file"),
    "table.xlsx": (b"PK", "is no Excel file that can be read; save it anew"),
    "table.ods": (b"PK", "is of no known kind; files that end in .csv"),
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


IDS = [1234567890123456780, 1234567890123456781, -9000000000000000001]


def test_whole_numbers_keep_every_digit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CHUNK", 2)
    expected = pd.DataFrame({"id": IDS, "beyond": [str(2**63 + i) for i in range(3)]})
    expected.to_csv(tmp_path / "t.csv", index=False)
    frame = read_table(tmp_path / "t.csv")
    assert frame["id"].tolist() == IDS
    assert frame["beyond"].tolist() == [float(2**63)] * 3
    options: list[Any] = [{"text": ["beyond"]}, {"strings": ["beyond"]}]
    for text in options:
        exact = read_table(tmp_path / "t.csv", **text)
        assert exact["beyond"].tolist() == expected["beyond"].tolist()
    typed = expected.assign(beyond=expected["beyond"].astype(np.uint64))
    typed.assign(gap=pd.array([IDS[0], None, IDS[1]], dtype="Int64")).to_parquet(tmp_path / "t.pq")
    assert read_table(tmp_path / "t.pq")["id"].tolist() == IDS
    assert read_table(tmp_path / "t.pq")["beyond"].tolist() == [float(2**63)] * 3
    assert read_table(tmp_path / "t.pq")["gap"].isna().tolist() == [False, True, False]
    kept = read_table(tmp_path / "t.pq", text=["beyond", "gap"])
    assert kept["beyond"].tolist() == expected["beyond"].tolist()
    assert kept["gap"].dropna().tolist() == [str(IDS[0]), str(IDS[1])]


@pytest.mark.parametrize("cells", [["a", "b", "", ""], ["a", "b", "", "", "a", "c"], ["", "", "b"]])
def test_strings_with_a_chunk_of_missing_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: list[str]
) -> None:
    monkeypatch.setattr(tables, "CHUNK", 2)
    expected = pd.DataFrame({"x": [cell or None for cell in cells], "y": 1})
    expected.to_csv(tmp_path / "t.csv", index=False)
    same(read_table(tmp_path / "t.csv"), expected)
    expected.to_parquet(tmp_path / "t.parquet")
    same(read_table(tmp_path / "t.parquet"), expected)


def test_numbers_beyond_64_bits_beside_signs_of_missing(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", "a,b\n12345678901234567890,9999999999999999999999999\nNA,01\n")
    frame = read_table(tmp_path / "t.csv")
    assert frame["a"].isna().tolist() == [False, True]
    assert frame["b"].tolist() == ["9999999999999999999999999", "01"]


def test_strings_are_never_numbers(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", "zip,x\n01,1\n02,1\nNA,1\n")
    assert read_table(tmp_path / "t.csv")["zip"].tolist()[:2] == [1, 2]
    found = read_table(tmp_path / "t.csv", strings=["zip"])["zip"]
    assert found.tolist()[:2] == ["01", "02"]
    assert found.isna().tolist() == [False, False, True]


def test_every_table_is_read_as_pandas_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random columns of numbers, words and gaps, in chunks of any size."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        kinds: list[list[str]] = [["1", "-20", ""], ["1", "2.5", ""], ["a", "b c", ""], ["7", "x"]]
        n = int(rng.integers(1, 12))
        columns = {
            f"c{j}": np.repeat(rng.choice(kinds[rng.integers(4)], n), rng.integers(1, 4))[:n]
            for j in range(3)
        }
        monkeypatch.setattr(tables, "CHUNK", int(rng.integers(1, 5)))
        frame = pd.DataFrame(columns | {"y": 1})
        frame.to_csv(tmp_path / "t.csv", index=False)
        same(read_table(tmp_path / "t.csv"), pd.read_csv(tmp_path / "t.csv"))


@pytest.mark.parametrize("gap", [0, 1, 3, 4, 5])
def test_a_missing_number_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: int
) -> None:
    monkeypatch.setattr(tables, "CHUNK", 2)
    cells = [str(k) for k in range(6)]
    cells[gap] = ""
    write(tmp_path / "t.csv", "x,y\n" + "".join(f"{cell},1\n" for cell in cells))
    expected = [np.nan if k == gap else float(k) for k in range(6)]
    np.testing.assert_array_equal(read_table(tmp_path / "t.csv")["x"], expected)


@pytest.mark.parametrize("first", [0, 2, 4])
def test_a_whole_chunk_of_missing_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr(tables, "CHUNK", 2)
    missing = range(first, first + 2)
    cells = ["?" if k in missing else str(k) for k in range(6)]
    write(tmp_path / "t.csv", "x,y\n" + "".join(f"{cell},1\n" for cell in cells))
    expected = [np.nan if k in missing else float(k) for k in range(6)]
    np.testing.assert_array_equal(read_table(tmp_path / "t.csv")["x"], expected)


def test_text_is_taken_as_written(tmp_path: Path) -> None:
    cells = ["01", "1", "NA", "true", "?", "1.50", "None"]
    write(tmp_path / "t.csv", "id,x\n" + "".join(f"{cell},1\n" for cell in [*cells, ""]))
    frame = read_table(tmp_path / "t.csv", text=["id"])
    assert frame["id"].tolist()[:-1] == cells
    assert frame["id"].isna().tolist() == [False] * 7 + [True]
    write(tmp_path / "whole.csv", "id,x\n10,1\n-2,1\n0,1\n")
    assert read_table(tmp_path / "whole.csv", text=["id"])["id"].tolist() == [10, -2, 0]


def test_none_is_a_word_and_the_signs_of_missing_are_those_documented(tmp_path: Path) -> None:
    cells = ["None", "none", "Mild", "-", *MISSING]
    write(tmp_path / "t.csv", "x,y\n" + "".join(f"{cell},1\n" for cell in cells))
    found = read_table(tmp_path / "t.csv")["x"]
    assert found.isna().tolist() == [False] * 4 + [True] * len(MISSING)
    assert found.dropna().tolist() == cells[:4]


@pytest.mark.parametrize("gap", ["FALSE", ""])
def test_truth_values_keep_their_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: str
) -> None:
    monkeypatch.setattr(tables, "CHUNK", 4)
    cells = ["TRUE", gap, "TRUE", "FALSE", "TRUE", "unknown", "FALSE", "TRUE"]
    write(tmp_path / "t.csv", "x,y\n" + "".join(f"{cell},1\n" for cell in cells))
    found = read_table(tmp_path / "t.csv")["x"]
    assert (
        found.fillna("").tolist() == cells
        if gap
        else found.dropna().tolist() == [cell for cell in cells if cell]
    )


def test_parquet_of_decimals_lists_and_twins(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    def saved(name: str, columns: list[Any], names: list[str]) -> Path:
        parquet.write_table(pa.table(columns, names=names), tmp_path / name)
        return tmp_path / name

    prices = pa.array([1, 2, None], pa.decimal128(9, 2))
    lists = pa.array([[1], [2, 3], None], pa.list_(pa.decimal128(9, 2)))
    file = saved("a.parquet", [prices, lists], ["price", "list"])
    frame = read_table(file)
    np.testing.assert_array_equal(frame["price"], [1.0, 2.0, np.nan])
    assert len(frame["list"].unique()) == 3
    assert read_table(file, text=["price"])["price"].tolist()[:2] == ["1.00", "2.00"]
    pd.DataFrame({"x": [1, 2]}, index=pd.Index([7, 8], name="id")).to_parquet(tmp_path / "i.pq")
    assert read_table(tmp_path / "i.pq")["id"].tolist() == [7, 8]
    with pytest.raises(ValueError, match="two columns named 'a'"):
        read_table(saved("b.parquet", [[1], [2]], ["a", "a"]))


def test_an_encoding_that_is_not_the_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t.csv is not UTF-16 .*BOM.*; pass its") as caught:
        read_table(write(tmp_path / "t.csv", TEXT), encoding="utf-16")
    assert caught.value.argument == "encoding"


def test_rows_by_their_places_are_those_of_the_whole_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anymix.tables.files.CHUNK", 10)
    whole = pd.DataFrame({"k": range(50), "x": np.arange(50) / 4, "c": [*"ab"] * 25})
    whole.to_csv(tmp_path / "a.csv", index=False)
    found = read_table(tmp_path / "a.csv", rows=np.array([3, 4, 39]))  # none of two chunks
    kept = read_table(tmp_path / "a.csv").iloc[[3, 4, 39]].reset_index(drop=True)
    pd.testing.assert_frame_equal(found, kept)
