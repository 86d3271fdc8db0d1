"""`anymix predict`: predictions are what the library predicts, in the kind of file asked for."""

from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from command_line import fail, make_people, run, zips
from typer.testing import CliRunner

from anymix.cli import app
from anymix.tables.files import read_table


def test_predict_to_a_file_and_to_the_terminal(people: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "predictions.csv"
    assert run("predict", model, people, "--out", out, "--keep", "id") == ""
    written = pd.read_csv(out)
    assert written["id"].tolist() == make_people()["id"].tolist()
    expected = joblib.load(model).predict_proba(read_table(people))
    np.testing.assert_allclose(written[["probability of high", "probability of low"]], expected)
    printed = run("predict", model, people)
    assert printed.splitlines()[0] == "prediction,probability of high,probability of low"
    assert len(printed.splitlines()) == 401


def test_predict_notes_levels_it_does_not_know(people: Path, model: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    make_people()[:5].assign(job="poet").to_csv(new, index=False)
    result = CliRunner().invoke(app, ["predict", str(model), str(new)])
    assert result.exit_code == 0
    assert "note: 'job': 1 level that the training had not, such as 'poet'" in result.stderr
    assert "note" not in result.stdout
    quiet = CliRunner().invoke(app, ["predict", str(model), str(new), "-q"])
    assert quiet.stderr == ""


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv", ".TSV.GZ", ".parquet"])
def test_predictions_are_what_the_name_says(
    people: Path, model: Path, tmp_path: Path, ending: str
) -> None:
    out = tmp_path / f"predictions{ending}"
    run("predict", model, people, "--out", out, "--keep", "job")
    content = out.read_bytes()
    assert content.startswith(b"PAR1") == (ending == ".parquet")
    assert content.startswith(b"\x1f\x8b") == ending.lower().endswith(".gz")
    assert (b"\t" in content) >= (ending == ".tsv")
    found = read_table(out)
    assert found.columns.tolist() == [
        *("job", "prediction", "probability of high", "probability of low")
    ]
    expected = joblib.load(model).predict_proba(read_table(people))[:, 0]
    np.testing.assert_allclose(found["probability of high"], expected, rtol=1e-12)
    assert found["job"].isna().sum() == (make_people()["job"] == "").sum()


@pytest.mark.parametrize("name", ["prediction", "probability of low"])
def test_a_column_to_keep_that_is_called_like_one_that_is_made(
    name: str,
    people: Path,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_people().assign(**{name: 1}).to_csv(tmp_path / "t.csv", index=False)
    words = ("predict", model, tmp_path / "t.csv", "--keep", "id", "--keep", name)
    code, error = fail(monkeypatch, capsys, *words)
    assert code == 1
    assert f"error: --keep is '{name}', but a column of that name is made; rename" in error


def test_what_is_no_model_is_not_used(
    people: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "text.joblib").write_text("hello")
    joblib.dump({"a": 1}, tmp_path / "dict.joblib")
    for name, message in (
        ("text.joblib", "text.joblib is no model that anymix has saved"),
        ("dict.joblib", "dict.joblib holds a dict; give a model"),
        ("none.joblib", "none.joblib is not there"),
    ):
        code, error = fail(monkeypatch, capsys, "predict", tmp_path / name, people)
        assert code == 1
        assert message in error


@pytest.mark.parametrize("name", ["p.xlsx", "p", "p.csv.bz2", "p.parquet.gz", "csv.gz.old"])
def test_predictions_of_a_kind_that_is_not_known(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("predict", "none.joblib", "none.csv", "--out", tmp_path / name)
    code, error = fail(monkeypatch, capsys, *words)
    assert code == 1
    assert f"--out is '{tmp_path / name}'; give a name that ends in .csv, .tsv (each" in error


def test_kept_columns_of_parquet_keep_every_digit(tmp_path: Path) -> None:
    table = zips(tmp_path / "t.csv", ["01", "02", "0A"])
    run("fit", table, "-t", "y", "-d", "d", "--gamma", "0.01", "--out", tmp_path / "m.joblib", "-q")
    ids = pd.array([2**53 + 1, None, 2**53 + 3], dtype="Int64")
    frame = pd.DataFrame({"zip": ["01", "02", "0A"], "id": ids})
    frame.to_parquet(tmp_path / "new.parquet")
    shown = run("predict", tmp_path / "m.joblib", tmp_path / "new.parquet", "--keep", "id")
    assert [line.split(",")[0] for line in shown.splitlines()] == [
        "id",
        str(2**53 + 1),
        "",
        str(2**53 + 3),
    ]
