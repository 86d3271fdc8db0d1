"""`anymix fit`: what it prints and writes, and what it refuses."""

import gzip
import io
import json
import re
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from command_line import fail, make_people, run, zips

from anymix.tables.files import read_table
from anymix.tables.fitting import fit_table
from anymix.tables.learners import LinearLearner


def test_fit_prints_what_the_library_finds(people: Path, tmp_path: Path) -> None:
    found = fit_table(read_table(people), "income", ["region"], gamma=0.01)
    words = ("fit", people, "--target", "income", "--domain", "region", "--gamma", "0.01")
    shown = run(*words, "--report", tmp_path / "page.html")
    lines = [line.split() for line in shown.splitlines()]
    for k, name in enumerate(("north", "south")):
        losses = [found.audits[m].domain_losses[k] for m in ("ordinary", "robust")]
        row = next(line for line in lines if line[:1] == [name])
        assert row[2:4] == [f"{loss:.4f}" for loss in losses]
    assert shown.rstrip().endswith(f"Report: {tmp_path / 'page.html'}")
    text = " ".join(shown.split())
    assert found.comparison.summary() in text
    assert f"has an objective below {found.certificate.lower:.6f}" in text
    assert "Note: Judged on all rows, in 5 parts" in text
    assert "'job': " in text
    assert "'id': left out, nearly every row has a value of its own" in text


def test_fit_writes_a_model_a_report_and_json(people: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "new" / "model.joblib", tmp_path / "report.html"
    shown = run(
        *("fit", people, "-t", "income", "-d", "region", "-d", "sex", "--mixtures", "chi2:2.0"),
        *("--gamma", 0.1, "--out", out, "--report", page, "--json", "--holdout", 0.3),
    )
    result = json.loads(shown)
    assert result["gamma"] == 0.1
    assert result["files"] == {"model": str(out), "report": str(page)}
    assert 0 <= result["certificate"]["gap"] < 1e-6
    expected = fit_table(
        read_table(people),
        "income",
        ["region", "sex"],
        mixtures="chi2:2.0",
        gamma=0.1,
        evaluation=0.3,
    )
    assert result["audits"] == expected.comparison.to_dict()["audits"]
    assert sum(result["training_mixture"]) == pytest.approx(1)
    assert joblib.load(out).target == "income"
    html = page.read_text(encoding="utf-8")
    assert "region=north, sex=F" in html
    assert "income by region, sex" in html
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "report.html"]  # nothing half done


def test_auto_is_the_default_and_predicts_with_and_without_the_domain(
    people: Path, tmp_path: Path
) -> None:
    out, page = tmp_path / "m.joblib", tmp_path / "page.html"
    words = ("fit", people, "-t", "income", "-d", "region", "--holdout", 0.3)
    result = json.loads(run(*words, "--json", "--out", out, "--report", page))
    expected = fit_table(read_table(people), "income", ["region"], model="auto", evaluation=0.3)
    assert list(result["audits"]) == ["ordinary", "recommended", "domain known"]
    for name, found in expected.audits.items():
        losses = [row["loss"] for row in result["audits"][name]["domains"]]
        assert losses == pytest.approx(found.domain_losses.tolist())
    assert expected.recommendation is not None
    assert result["recommendation"]["chosen"] == expected.recommendation.chosen
    assert result["verdict"] == expected.verdict
    assert result["files"] == {"model": str(out), "report": str(page)}
    assert 'id="choice"' in page.read_text("utf-8")
    unknown = tmp_path / "unknown.csv"
    make_people().drop(columns="region").to_csv(unknown, index=False)
    said = [pd.read_csv(io.StringIO(run("predict", out, table))) for table in (people, unknown)]
    assert len(said[0]) == len(said[1]) == 400
    assert not np.allclose(said[0].iloc[:, 1], said[1].iloc[:, 1])


def test_large_tables_and_options_of_linear_models_make_the_default_linear(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("fit", people, "-t", "income", "-d", "region", "--holdout", 0.3, "--json")
    assert "certificate" in json.loads(run(*words, "--gamma", 0.1))
    monkeypatch.setattr("anymix.cli.fit.MOST_CELLS", 100)
    assert "certificate" in json.loads(run(*words))


def test_what_auto_has_not_is_refused(
    people: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("fit", people, "-t", "income", "-d", "region", "--model", "auto", "--gamma", 0.1)
    code, error = fail(monkeypatch, capsys, *words)
    assert code == 1
    assert error.startswith("error: --gamma is 0.1")


def test_quiet_prints_nothing(people: Path) -> None:
    assert run("fit", people, "-t", "income", "-d", "region", "--gamma", 0.1, "--quiet") == ""


def test_fit_judges_on_a_test_file(people: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.csv.gz"
    make_people()[:150].to_csv(test, index=False)
    words = ("fit", people, "-t", "income", "-d", "region", "--gamma", 0.1, "--drop", "job")
    result = json.loads(run(*words, "--test", test, "--json"))
    assert result["notes"][0] == "Judged on the rows of the test file."
    rows = [row["rows"] for row in result["audits"]["robust"]["domains"]]
    assert sum(rows) == 150
    assert not any("'job'" in note for note in result["notes"])


GOOD = "x,d,y\n" + "".join(f"{i % 7},{'ab'[i % 2]},{'yyn'[i % 3]}\n" for i in range(24))
BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty; give a table"),
    "header only": (b"x,d,y\n", "has a header but no rows; add some"),
    "missing column": (b"x,d,why\n1,a,b\n", "has no column 'y'"),
    "one domain": (GOOD.replace(",b,", ",a,").encode(), "one domain only, 'a'; name a domain"),
    "constant target": (GOOD.replace(",n\n", ",y\n").encode(), "is constant (y)"),
    "not UTF-8": (GOOD.replace("b", "ü").encode("latin-1"), "--encoding latin-1, or convert"),
    "ragged": (GOOD.encode() + b"1,a\n", "line 26: 2 fields, but the header has 3; correct"),
    "lonely domain": (
        GOOD.encode() + b"1,c,y\n",
        "--min-rows is too low: domain 'c' has",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_one_line_that_says_what_to_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content, message = BAD_FILES[name]
    (tmp_path / "t.csv").write_bytes(content)
    words = ("fit", tmp_path / "t.csv", "-t", "y", "-d", "d", "--out", tmp_path / "m.joblib")
    code, error = fail(monkeypatch, capsys, *words)
    assert code == 1
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error
    assert not (tmp_path / "m.joblib").exists()


def test_a_domain_of_the_test_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text(GOOD)
    (tmp_path / "test.csv").write_text(GOOD.replace(",b,", ",z,"))
    words = ("fit", tmp_path / "t.csv", "-t", "y", "-d", "d", "--test", tmp_path / "test.csv")
    code, error = fail(monkeypatch, capsys, *words)
    assert code == 1
    assert "domain 'z' is only in the test file; add rows of it" in error


def test_quoted_newlines_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(GOOD.replace(",b,", ',"b\nnext",'))
    words = ("fit", tmp_path / "t.csv", "-t", "y", "-d", "d", "--gamma", 0.1, "--json")
    found = json.loads(run(*words))["audits"]["robust"]["domains"]
    assert [row["domain"] for row in found] == ["a", "b\nnext"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gamma", "much"], "--gamma is 'much'; give a number or auto"),
        (["--mixtures", "ball"], "error: --mixtures is 'ball'; give simplex"),
        (["--mixtures", "chi2:0.5"], "error: --mixtures is 'chi2:0.5'; give a number ≥ 1"),
        (["--mixtures", "cvar:7"], "error: --mixtures is 'cvar:7'; give a number in (0, 1]"),
        (["--mixtures", "tv:-1"], "error: --mixtures is 'tv:-1'; give a number ≥ 0"),
        (["--encoding", "latin-99"], "error: --encoding is 'latin-99'"),
        (["--encoding", "utf-16"], "error: --encoding is 'utf-16', but "),
        (["--encoding", "utf-16"], "people.csv is not UTF-16 (UTF-16 stream does not"),
        (["--gamma", "-1"], "error: --gamma is -1.0; give a finite number"),
        (
            ["--min-rows", "1000"],
            "--min-rows is 1000, which leaves one domain only; lower it",
        ),
        (["--folds", "3", "--holdout", "0.2"], "--folds and --holdout are ways to judge; give one"),
        (["--folds", "3", "--test", "none.csv"], "--folds and --test are ways to judge; give one"),
        (["--holdout", "0.2", "--test", "none.csv"], "--holdout and --test are ways to judge"),
    ],
)
def test_bad_options_of_fit(
    people: Path,
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, error = fail(monkeypatch, capsys, "fit", people, "-t", "income", "-d", "region", *words)
    assert code == 1
    assert message in error


def test_warnings_are_notes_of_one_line(people: Path) -> None:
    """In a process of its own, for here warnings are errors."""
    command = str(Path(sys.executable).with_name("anymix"))
    words = [command, "fit", str(people), "-t", "income", "-d", "region", "--gamma", "1e-300"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True)
    assert shown.stderr.startswith("note: stopped after ")
    assert shown.stderr.endswith(" asked for; raise --gamma\n")
    assert not re.search("tol|max_iter", shown.stderr)  # the command has no such options
    assert shown.stderr.count("\n") == 1  # of ten models, each with a gap of its own
    for silent in ("--quiet", "--json"):
        found = subprocess.run([*words, silent], capture_output=True, text=True, check=True)
        assert found.stderr == ""


def test_notes_of_fit_name_options(people: Path) -> None:
    words = ("fit", people, "-t", "income", "-d", "region", "--gamma", 1e-3, "--robustness", 1)
    notes = json.loads(run(*words, "--json"))["notes"]
    said = next(note for note in notes if "expect a larger loss on new rows" in note)
    assert said.endswith("put small domains together with --min-rows")
    assert not any(name in said for name in ("max_skewness", "CV", "validation_fraction"))


def test_a_worst_domain_of_few_rows_names_the_option_on_screen_and_page(tmp_path: Path) -> None:
    x = np.linspace(-2, 2, 124)
    likes = np.where((x > 0) ^ (np.arange(124) % 31 == 0), "yes", "no")  # four live elsewhere
    home = np.where(np.arange(124) % 31 == 0, "isle", "land")
    pd.DataFrame({"x": x, "home": home, "likes": likes}).to_csv(tmp_path / "few.csv", index=False)
    words = ("fit", tmp_path / "few.csv", "-t", "likes", "-d", "home", "--gamma", 0.01)
    said = json.loads(run(*words, "--json", "--report", tmp_path / "page.html"))["verdict"]
    sentence = "has only 4 rows, too few to show a gain: put small domains together, as with --min"
    assert sentence in said
    assert "no better than a constant guess" in said
    assert sentence in (tmp_path / "page.html").read_text()


def test_a_level_is_the_same_in_every_file(tmp_path: Path) -> None:
    table = zips(tmp_path / "train.csv", ["01", "02", "0A"])
    test = zips(tmp_path / "test.csv", ["01", "02"])
    model = tmp_path / "m.joblib"
    words = ("fit", table, "-t", "y", "-d", "d", "--gamma", "0.01", "--test", test, "--json")
    found = json.loads(run(*words, "--out", model))
    assert found["audits"]["robust"]["pooled_metrics"]["accuracy"] > 0.8
    predicted = pd.read_csv(io.StringIO(run("predict", model, test, "--keep", "zip")), dtype=str)
    truth = pd.read_csv(test, dtype=str)
    assert predicted["zip"].tolist() == truth["zip"].tolist()
    assert (predicted["prediction"] == truth["y"]).mean() > 0.8


@pytest.mark.parametrize("judged", ["holdout", "test"])
def test_nobody_holds_a_table_while_models_are_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged: str
) -> None:
    table = zips(tmp_path / "train.csv", ["01", "02"])
    read, held = [], []

    def noted(path: Path, **options: Any) -> Any:
        frame = read_table(path, **options)
        read.append(weakref.ref(frame))
        return frame

    def part(self: LinearLearner, *given: Any) -> Any:
        held.append([frame for frame in read if frame() is not None])
        return learn(self, *given)

    learn = LinearLearner.part
    for place in ("files", "spooling"):
        monkeypatch.setattr(f"anymix.tables.{place}.read_table", noted)
    monkeypatch.setattr("anymix.tables.splits.ROWS_TO_FOLD", 10)
    monkeypatch.setattr(LinearLearner, "part", part)
    more = ("--test", zips(tmp_path / "test.csv", ["01", "02"])) if judged == "test" else ()
    run("fit", table, "-t", "y", "-d", "d", "--gamma", 1, *more)
    assert len(read) == 1 + (judged == "test")
    assert held == [[]]


@pytest.mark.slow
def test_a_million_rows_take_four_times_the_file_at_most(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "command.py"
    out = tmp_path / "result.json"
    subprocess.run([sys.executable, str(script), "--json", str(out)], check=True)
    found = json.loads(out.read_text())
    assert found["adult"]["ratio"] <= 4
    assert found["narrow"]["ratio"] <= 4


def test_a_table_beyond_the_memory_allowed_is_read_in_stretches(tmp_path: Path) -> None:
    """The same model, the same predictions, and a note; the test of the real size is slow."""
    table = tmp_path / "people.csv"
    rng = np.random.default_rng(0)
    rows = [
        f"{x:.3f},{'north' if i % 3 else 'south'},{'yes' if x + e > 0 else 'no'}"
        for i, (x, e) in enumerate(rng.normal(size=(400, 2)).tolist())
    ]
    table.write_text("\n".join(["x,region,bought", *rows]))
    asked = ["--target", "bought", "--domain", "region", "--gamma", "0.01", "--json"]
    found = {}
    for name, memory in (("small", "1GB"), ("large", "10kB")):
        out = tmp_path / f"{name}.joblib"
        found[name] = json.loads(run("fit", table, *asked, "--out", out, "--memory", memory))
        for kind in ("csv", "csv.gz", "parquet"):
            said = tmp_path / f"{name}.{kind}"
            run("predict", out, table, "--keep", "region", "--out", said, "--memory", memory)
    assert not any("in stretches" in note for note in found["small"]["notes"])
    assert any("in stretches" in note for note in found["large"]["notes"])
    small, large = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("small", "large"))
    pd.testing.assert_frame_equal(small, large, atol=1e-3, rtol=0)
    for name in ("small", "large"):
        plain = (tmp_path / f"{name}.csv").read_bytes()
        assert gzip.decompress((tmp_path / f"{name}.csv.gz").read_bytes()) == plain
        parquet = pd.read_parquet(tmp_path / f"{name}.parquet")
        assert parquet["prediction"].tolist() == small["prediction"].tolist()


def test_memory_must_be_a_size(
    people: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("fit", people, "-t", "income", "-d", "region", "--memory", "much")
    code, message = fail(monkeypatch, capsys, *words)
    assert code != 0
    assert "--memory is 'much'; give bytes, as in 700MB or 2GB" in " ".join(message.split())
