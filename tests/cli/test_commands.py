import io
import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import anymix
from anymix.auditing.audits import audit
from anymix.cli.commands import app, main
from anymix.tables.files import read_table
from anymix.tables.fitting import fit_table


def run(*arguments: Any) -> str:
    words = [str(argument) for argument in arguments]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_version() -> None:
    assert run("--version") == f"anymix {anymix.__version__}\n"


def test_installed_command_shows_help_without_arguments() -> None:
    command = Path(sys.executable).with_name("anymix")
    shown = subprocess.run([command], capture_output=True, text=True, check=False)
    for name in ("demo", "fit", "predict", "audit", "federate", "reproduce", "data"):
        assert name in shown.stdout + shown.stderr


@pytest.mark.parametrize("name", ["demo", "fit", "predict", "audit", "federate", "reproduce"])
def test_every_command_has_examples(name: str) -> None:
    lines = [line.strip() for line in run(name, "--help").splitlines()]
    assert sum(line.startswith(f"• anymix {name} ") for line in lines) >= 2


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in run("--help")


# Tables -----------------------------------------------------------------------------------------


def make_people(n: int = 400) -> Any:
    r = np.random.default_rng(0)
    x, region = r.normal(size=n), r.choice(["north", "south"], n, p=[0.8, 0.2])
    z = np.where(region == "north", 2 * x, -x) + r.logistic(size=n)
    return pd.DataFrame(
        {
            "id": [f"person {i}" for i in range(n)],
            "x": x,
            "job": np.where(r.random(n) < 0.1, "", r.choice(["nurse", "clerk"], n)),
            "sex": r.choice(["F", "M"], n),
            "region": region,
            "income": np.where(z > 0, "high", "low"),
        }
    )


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "people.csv"
    make_people().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(people: Path) -> Path:
    out = people.parent / "model.joblib"
    run("fit", people, "-t", "income", "-d", "region", "--gamma", 0.01, "--out", out, "-q")
    return out


def test_fit_prints_what_the_library_finds(people: Path, tmp_path: Path) -> None:
    found = fit_table(read_table(people), "income", ["region"], gamma=0.01)
    words = ("fit", people, "--target", "income", "--domain", "region", "--gamma", "0.01")
    shown = run(*words, "--report", tmp_path / "page.html")
    lines = [line.split() for line in shown.splitlines()]
    for k, name in enumerate(("north", "south")):
        losses = [found.audits[m].domain_losses[k] for m in ("ordinary", "agnostic")]
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
        holdout=0.3,
    )
    assert result["audits"] == expected.comparison.to_dict()["audits"]
    assert sum(result["training_mixture"]) == pytest.approx(1)
    assert joblib.load(out).target == "income"
    html = page.read_text(encoding="utf-8")
    assert "region=north, sex=F" in html
    assert "income by region, sex" in html
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "report.html"]  # nothing half done


def test_quiet_prints_nothing(people: Path) -> None:
    assert run("fit", people, "-t", "income", "-d", "region", "--gamma", 0.1, "--quiet") == ""


def test_fit_judges_on_a_test_file(people: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.csv.gz"
    make_people()[:150].to_csv(test, index=False)
    words = ("fit", people, "-t", "income", "-d", "region", "--gamma", 0.1, "--drop", "job")
    result = json.loads(run(*words, "--test", test, "--json"))
    assert result["notes"][0] == "Judged on the rows of the test file."
    rows = [row["rows"] for row in result["audits"]["agnostic"]["domains"]]
    assert sum(rows) == 150
    assert not any("'job'" in note for note in result["notes"])


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
    assert "note: 'job': 1 level(s) that the training had not, such as 'poet'" in result.stderr
    assert "note" not in result.stdout
    quiet = CliRunner().invoke(app, ["predict", str(model), str(new), "-q"])
    assert quiet.stderr == ""


def test_audit_prints_what_the_library_finds(people: Path, model: Path, tmp_path: Path) -> None:
    preds = tmp_path / "preds.csv"
    keep = ("--keep", "region", "--keep", "income")
    run("predict", model, people, "--out", preds, *keep)
    frame = pd.read_csv(preds)
    found = audit(frame["income"], frame["probability of low"], frame["region"])
    words = ("audit", preds, "-t", "income", "-p", "probability of low", "-d", "region")
    assert found.summary() in " ".join(run(*words).split())
    page = tmp_path / "audit.html"
    result = json.loads(run(*words, "--json", "--report", page))
    assert result["domains"] == found.to_dict()["domains"]
    assert result["files"] == {"report": str(page)}
    assert page.stat().st_size > 10_000


def test_audit_compares_two_models(tmp_path: Path) -> None:
    preds = tmp_path / "preds.csv"
    preds.write_text("g,new,old\na,1.5,1\na,0.5,1\nb,2,4\n")
    words = ("audit", preds, "--losses", "new", "--against", "old", "-d", "g")
    shown = " ".join(run(*words).split())
    assert "the loss of new is 0.6667 less than that of old" in shown
    result = json.loads(run(*words, "--json", "--mixtures", "cvar:0.5", "--confidence", "0.9"))
    assert result["price"] == pytest.approx(-2 / 3)
    assert result["gain"] == pytest.approx(3 - 5 / 3)  # λ = (1/3, 2/3), b at most doubled
    assert result["audits"]["new"]["confidence"] == 0.9


def test_audit_takes_the_classes_in_the_order_of_the_columns(tmp_path: Path) -> None:
    preds = tmp_path / "preds.csv"
    r = np.random.default_rng(1)
    frame = pd.DataFrame({"y": r.choice(["low", "high"], 60), "g": r.choice(["a", "b"], 60)})
    frame["l"] = r.random(60)
    frame["h"] = 1 - frame["l"]
    frame.assign(all="low, very").to_csv(preds, index=False)
    columns = ("audit", preds, "-d", "g", "--json", "-p", "l")
    expected = audit(frame["y"], frame[["h", "l"]], frame["g"]).domain_losses  # sorted

    def losses(*words: str) -> list[float]:
        return [row["loss"] for row in json.loads(run(*columns, *words))["domains"]]

    assert losses("-t", "y", "-p", "h", "--classes", "low,high") == pytest.approx(expected)
    assert losses("-t", "y", "--classes", "high, low") == pytest.approx(expected)
    assert losses("-t", "y", "-p", "h") != pytest.approx(expected)
    one = json.loads(run(*columns, "-t", "all", "-p", "h", "--classes", '"low, very",high'))
    assert one["pooled_loss"] == pytest.approx(-np.log(frame["l"]).mean())


# Files that are written -------------------------------------------------------------------------


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


def test_a_link_is_followed_and_the_mode_kept(people: Path, model: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real.name)
    run("predict", model, people, "--out", link)
    assert link.is_symlink()
    assert len(real.read_text().splitlines()) == 401
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.csv", "real.csv"]


def test_a_link_to_nothing_yet_is_followed(people: Path, tmp_path: Path) -> None:
    link, page = tmp_path / "link.joblib", tmp_path / "page.html"
    link.symlink_to(tmp_path / "new" / "model.joblib")
    page.symlink_to(tmp_path / "pages" / "page.html")
    words = ("fit", people, "-t", "income", "-d", "region", "--gamma", 0.1, "-q")
    run(*words, "--out", link, "--report", page)
    assert link.is_symlink()
    assert page.is_symlink()
    assert joblib.load(tmp_path / "new" / "model.joblib").target == "income"
    assert (tmp_path / "pages" / "page.html").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["pipe", "pipe.csv"])
def test_a_pipe_is_written_into(people: Path, model: Path, tmp_path: Path, name: str) -> None:
    pipe = tmp_path / name
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # 64 kB fit in without a reader at work
    with os.fdopen(reader) as file:
        run("predict", model, people, "--out", pipe)
        assert file.read() == run("predict", model, people)
    assert pipe.is_fifo()


def test_redirected_output_is_written_into(people: Path, model: Path, tmp_path: Path) -> None:
    shown, link = tmp_path / "shown.txt", tmp_path / "link.csv"
    shown.write_text("before\n")
    link.symlink_to("/dev/stdout")  # so that an error does no harm to /dev
    command = Path(sys.executable).with_name("anymix")
    with shown.open("a") as file:
        subprocess.run([command, "predict", model, people, "--out", link], stdout=file, check=True)
    assert shown.read_text() == "before\n" + run("predict", model, people)
    assert link.is_symlink()


# Errors -----------------------------------------------------------------------------------------


def fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: Any
) -> tuple[int, str]:
    """Exit code and what is on the error channel, of the command as installed."""
    monkeypatch.setattr(sys, "argv", ["anymix", *map(str, words)])
    with pytest.raises(SystemExit) as caught:
        main()
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert isinstance(caught.value.code, int)
    return caught.value.code, captured.err


GOOD = "x,d,y\n" + "".join(f"{i % 7},{'ab'[i % 2]},{'yyn'[i % 3]}\n" for i in range(24))
BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty; give a table"),
    "header only": (b"x,d,y\n", "has a header but no rows; add some"),
    "missing column": (b"x,d,why\n1,a,b\n", "has no column 'y'"),
    "one domain": (GOOD.replace(",b,", ",a,").encode(), "one domain only, 'a'; name a domain"),
    "constant target": (GOOD.replace(",n\n", ",y\n").encode(), "is constant (y)"),
    "not UTF-8": (GOOD.replace("b", "ü").encode("latin-1"), "--encoding latin-1"),
    "ragged": (GOOD.encode() + b"1,a\n", "line 26: 2 fields, but the header has 3; correct"),
    "lonely domain": (GOOD.encode() + b"1,c,y\n", "'c' has too few rows to fit some and hold"),
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
    found = json.loads(run(*words))["audits"]["agnostic"]["domains"]
    assert [row["domain"] for row in found] == ["a", "b\nnext"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gamma", "much"], "--gamma is 'much'; give a number or auto"),
        (["--mixtures", "ball"], "mixtures is 'ball'; give simplex"),
        (["--mixtures", "chi2:0.5"], "error: --mixtures must have a number ≥ 1, the largest"),
        (["--encoding", "latin-99"], "error: --encoding is 'latin-99'"),
        (["--encoding", "utf-16"], "people.csv is not UTF-16"),
        (["--gamma", "-1"], "error: --gamma is -1.0; give a finite number"),
        (["--min-rows", "1000"], "one domain only, '(other)', so many are small; lower --min-rows"),
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


AUDITED = "g,y,labels,one,two,u,v,w,old\n" + "".join(
    f"{'ab'[i % 2]},{'uvw'[i % 3]},{'vwu'[i % 3]},0.3,{'uv'[i % 2]},0.5,0.25,0.25,1\n"
    for i in range(12)
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-t y -p one --against one", "--against is 'one', which is to be compared with it; name"),
        ("--losses one --against one", "--against is 'one', which is to be compared with it; name"),
        ("-t y", "give --target and --prediction (with --classes), or else --losses alone"),
        ("-p one", "give --target and --prediction"),
        ("", "give --target and --prediction"),
        ("-t y -p one --losses old", "give --target and --prediction"),
        ("-t y --losses old", "give --target and --prediction"),
        ("--losses old --classes u,v", "give --target and --prediction"),
        ("-t two -p u -p v -p w", "with --classes, in the order of the columns"),
        ("-t two -p u -p v -p w --classes u,v,v", "--classes is 'u,v,v'; give different names"),
        ("-t two -p u -p v -p w --classes u,v,", "--classes is 'u,v,'; give different names"),
        ("-t y -p one", "--prediction has values from 0.3 to 0.3, but --target has 3 classes"),
        ("-t y -p one", "give labels, 3 columns of probabilities, or say --loss squared"),
        ("-t y -p labels --loss ppl", "or --losses for a column of losses"),
        ("-t y -p u -p v -p w --loss squared", "is 'squared', of values, but --prediction has 3"),
        ("--losses labels", "error: --losses has entries that are not numbers"),
        ("--losses one --confidence 95", "error: --confidence is 95"),
        ("-t two -p one --against labels", "the column of --against and the other have different"),
    ],
)
def test_bad_options_of_audit_are_named_as_options(
    words: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "preds.csv").write_text(AUDITED)
    table = tmp_path / "preds.csv"
    code, error = fail(monkeypatch, capsys, "audit", table, "-d", "g", *words.split())
    assert code == 1
    assert message in error
    assert error.count("\n") == 1
    assert not any(name in error for name in ("y_true", "y_pred", "classes=", "loss="))


def test_a_column_that_is_called_like_an_argument_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "preds.csv").write_text("y_true,y_pred,g\n1,,a\n0,1,b\n")
    words = ("audit", tmp_path / "preds.csv", "-t", "y_true", "-p", "y_pred", "-d", "g")
    assert "column 'y_pred' has 1 missing values" in fail(monkeypatch, capsys, *words)[1]


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
    assert f"--keep is '{name}', but a column of that name is made; rename" in error


def test_warnings_are_notes_of_one_line(people: Path) -> None:
    """In a process of its own, for here warnings are errors."""
    command = str(Path(sys.executable).with_name("anymix"))
    words = [command, "fit", str(people), "-t", "income", "-d", "region", "--gamma", "1e-300"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True)
    assert shown.stderr.startswith("note: stopped after ")
    assert "above tol 1.00e-06; raise --gamma (with" in shown.stderr
    assert shown.stderr.count("\n") == 1  # of ten models, each with a gap of its own
    for silent in ("--quiet", "--json"):
        found = subprocess.run([*words, silent], capture_output=True, text=True, check=True)
        assert found.stderr == ""


def test_notes_of_fit_name_options(people: Path) -> None:
    words = ("fit", people, "-t", "income", "-d", "region", "--gamma", 1e-3)
    notes = json.loads(run(*words, "--json"))["notes"]
    said = next(note for note in notes if "expect a larger loss on new rows" in note)
    assert said.endswith("put small domains together with --min-rows")
    assert not any(name in said for name in ("max_skewness", "CV", "validation_fraction"))


def test_what_is_no_model_is_not_used(
    people: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "text.joblib").write_text("hello")
    joblib.dump({"a": 1}, tmp_path / "dict.joblib")
    for name, message in (
        ("text.joblib", "text.joblib is no saved model"),
        ("dict.joblib", "dict.joblib holds a dict; give a model"),
        ("none.joblib", "none.joblib is not there"),
    ):
        code, error = fail(monkeypatch, capsys, "predict", tmp_path / name, people)
        assert code == 1
        assert message in error


@pytest.mark.parametrize("words", [["fit", "t.csv"], ["audit"], ["fits"], ["demo", "--nothing"]])
def test_wrong_usage_has_exit_code_2(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail(monkeypatch, capsys, *words)[0] == 2


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "none.csv", "-t", "y", "-d", "d", "--out", "{}"),
        ("fit", "none.csv", "-t", "y", "-d", "d", "--out", "{folder}/m.joblib", "--report", "{}"),
        ("predict", "none.joblib", "none.csv", "--out", "{}"),
        ("audit", "none.csv", "-t", "y", "-p", "p", "-d", "d", "--report", "{}"),
        ("demo", "--out", "{}"),
        ("reproduce", "proposition1", "--out", "{}"),
    ],
)
def test_what_cannot_be_written_is_said_before_any_work(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "below" / "p.csv"
    code, error = fail(monkeypatch, capsys, *(w.format(path, folder=tmp_path) for w in words))
    assert code == 1
    option = [word for word in words if word.startswith("--")][-1]
    assert error.startswith(f"error: {option} is '{path}")
    assert f"nothing can be written to '{tmp_path / 'file'}' (it is a file); give" in error
    assert error.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_is_read_only_is_said_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("predict", "none.joblib", "none.csv", "--out")
    with tempfile.TemporaryDirectory() as name:
        folder, user = Path(name), os.geteuid()
        (folder / "p.csv").touch(mode=0o444)
        folder.chmod(0o555)
        try:
            os.seteuid(user or 65534)  # to root nothing is read-only
            here = fail(monkeypatch, capsys, *words, folder / "p.csv")[1]
            below = fail(monkeypatch, capsys, *words, folder / "new" / "p.csv")[1]
        finally:
            os.seteuid(user)
            folder.chmod(0o755)
    assert "which is read-only" in here
    assert f"nothing can be written to '{folder}' (Permission denied)" in below


def test_a_folder_of_the_reports_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.html").mkdir()
    code, error = fail(monkeypatch, capsys, "demo", "--out", tmp_path)
    assert code == 1
    assert f"'{tmp_path / 'report.html'}', which is a folder; name a file" in error


def test_no_file_is_written_over_another(
    people: Path,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table, link = tmp_path / "table.csv", tmp_path / "link.csv"
    table.write_bytes(people.read_bytes())
    link.symlink_to(table)
    (tmp_path / "set.json").write_text('{"north": 1}')
    fitted = ("fit", table, "-t", "income", "-d", "region")
    audited = ("audit", table, "-t", "income", "-p", "x", "-d", "region", "--report")
    new = tmp_path / "new"
    for words, message in (
        ((*fitted, "--out", new, "--report", new), f"--report is '{new}', which --out names too"),
        ((*fitted, "--out", new, "--report", tmp_path / "." / "new"), "which --out names too"),
        ((*fitted, "--out", table), f"--out is '{table}', which is also read; give another path"),
        ((*fitted, "--report", link), f"--report is '{link}', which is also read"),
        (("fit", people, *fitted[2:], "--test", table, "--out", table), "also read"),
        ((*fitted, "--mixtures", tmp_path / "set.json", "--out", tmp_path / "set.json"), "read"),
        (("predict", model, table, "--out", link), f"--out is '{link}', which is also read"),
        (("predict", model, table, "--out", model), f"--out is '{model}', which is also read"),
        ((*audited, table), f"--report is '{table}', which is also read"),
    ):
        code, error = fail(monkeypatch, capsys, *words)
        assert code == 1
        assert message in error
    assert table.read_bytes() == people.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.csv", "set.json", "table.csv"]


@pytest.mark.parametrize("name", ["p.xlsx", "p", "p.csv.bz2", "p.parquet.gz", "csv.gz.old"])
def test_predictions_of_a_kind_that_is_not_known(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("predict", "none.joblib", "none.csv", "--out", tmp_path / name)
    code, error = fail(monkeypatch, capsys, *words)
    assert code == 1
    assert f"--out is '{tmp_path / name}'; give a name that ends in .csv, .tsv (each" in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("predict", "none", "none.csv", "--out", "p.parquet"), "needs pyarrow; pip install"),
        (("fit", "none.csv", "-t", "y", "-d", "d", "--report", "r.html"), "needs plotly; pip"),
        (("audit", "none.csv", "-d", "d", "--report", "r.html"), "needs plotly; pip"),
    ],
)
def test_what_is_not_installed_is_said_before_any_work(
    words: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("anymix.cli.commands.find_spec", lambda name: None)
    code, error = fail(monkeypatch, capsys, *words)
    assert code == 1
    assert message in error


def test_a_reader_that_has_seen_enough_is_no_error(people: Path, model: Path) -> None:
    command = Path(sys.executable).with_name("anymix")
    with subprocess.Popen(
        [command, "predict", model, people], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


# Clients ----------------------------------------------------------------------------------------

KEYBOARD = Path(__file__).parents[2] / "examples" / "federated_keyboard"
FEW = ("federate", "--app", KEYBOARD, "-c", "num-clients=2")


def test_federate_prints_the_domains_and_no_vectors() -> None:
    shown = run(*FEW, "--engine", "local")
    for word in ("chat", "mail", "web", "mixture", "domain_losses", "gap: ", "rounds: "):
        assert word in shown
    assert "[" not in shown


def test_federate_prints_what_the_library_finds() -> None:
    from anymix.flower.engines import federate

    result = json.loads(run(*FEW, "--json", "-c", "tol=1e-4", "--run-config", "gamma=0.01"))
    assert result == federate(KEYBOARD, run_config={"num-clients": 2, "tol": 1e-4, "gamma": 0.01})
    assert run(*FEW, "-q", "-c", "tol=1e-4") == ""


NO_CLIENT = """
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from anymix.flower import MissingClientsError

client, server = ClientApp(), ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    raise MissingClientsError("nobody came")
"""


def test_federate_fails_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lonely.py").write_text(NO_CLIENT)
    (tmp_path / "pyproject.toml").write_text(
        "[tool.flwr.app.config]\nnum-clients = 1\nout = ''\n[tool.flwr.app.components]\n"
        "serverapp = 'lonely:server'\nclientapp = 'lonely:client'\n"
    )
    for words, code, message in (
        (("--app", tmp_path / "nowhere"), 1, "has no pyproject.toml; give its folder"),
        (("--app", KEYBOARD, "-c", "rounds=3"), 1, "run-config has 'rounds'; this app knows"),
        (("--app", tmp_path), 1, "error: nobody came"),
        (("--app", KEYBOARD, "--engine", "cluster"), 2, "--engine"),
    ):
        exit_code, error = fail(monkeypatch, capsys, "federate", *words)
        assert exit_code == code
        assert message in error
        assert code == 2 or error.count("\n") == 1


def test_only_federate_needs_flower() -> None:
    """As if it were not installed: the help lists the command, which says what to install."""
    script = "import sys; sys.modules['flwr'] = None; from anymix.cli.commands import main; main()"
    command = [sys.executable, "-c", script]
    shown = subprocess.run([*command, "federate", "--help"], capture_output=True, text=True)
    assert shown.returncode == 0
    assert "--run-config" in shown.stdout
    words = ["federate", "--app", str(KEYBOARD)]
    failed = subprocess.run([*command, *words], capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stderr == "error: federate needs Flower; pip install 'anymix[flower]'\n"


# The demo ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("demo")
    return json.loads(run("demo", "--json", "--out", folder)), folder


def test_demo_is_better_on_the_worst_mixture_and_says_what_it_costs(demo: Any) -> None:
    result, _ = demo
    uniform, agnostic = result["audits"]["uniform"], result["audits"]["agnostic"]
    assert [row["domain"] for row in uniform["domains"]] == ["doctorate", "non-doctorate"]
    assert [row["rows"] for row in uniform["domains"]] == [181, 16_100]
    assert result["gain"] == pytest.approx(uniform["agnostic_loss"] - agnostic["agnostic_loss"])
    assert result["gain"] > 0.03
    assert result["price"] > 0
    accuracy = [audit["domains"][0]["accuracy"] for audit in (uniform, agnostic)]
    assert accuracy[1] > accuracy[0]
    assert 0.80 < uniform["pooled_metrics"]["accuracy"] < 0.84  # 82.1 % in the paper


def test_demo_proves_its_model(demo: Any) -> None:
    proof = demo[0]["certificate"]
    assert 0 <= proof["gap"] <= 1e-6
    assert proof["lower"] <= proof["upper"] + 1e-12


def test_demo_writes_a_report(demo: Any) -> None:
    result, folder = demo
    assert result["files"] == {"report": str(folder / "report.html")}
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "non-doctorate" in page


def test_demo_prints_a_table_and_without_plotly_says_what_to_install(
    demo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anymix.cli.commands.find_spec", lambda name: None)
    shown = run("demo", "--out", tmp_path)
    lines = [line.split() for line in shown.splitlines()]
    losses = [audit["agnostic_loss"] for audit in demo[0]["audits"].values()]
    row = next(line for line in lines if line[:2] == ["worst", "mixture"])
    assert row[2:4] == [f"{loss:.4f}" for loss in losses]
    assert ["doctorate", "181"] in [line[:2] for line in lines]
    assert "Certificate (γ = " in shown
    assert "Report: pip install 'anymix[report]'" in shown
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_million_rows_take_four_times_the_file_at_most(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "command.py"
    out = tmp_path / "result.json"
    subprocess.run([sys.executable, str(script), "--json", str(out)], check=True)
    found = json.loads(out.read_text())
    assert found["adult"]["ratio"] <= 4
    assert found["narrow"]["ratio"] <= 4


def zips(path: Path, levels: list[str], n: int = 400) -> Path:
    """A category that looks like a number in files that lack its last level."""
    r = np.random.default_rng(0)
    level = r.choice(levels, n)
    y = np.where((level == "01") ^ (r.uniform(size=n) < 0.1), "yes", "no")
    frame = pd.DataFrame({"zip": level, "d": r.choice(["a", "b"], n), "y": y})
    frame.to_csv(path, index=False)
    return path


def test_a_level_is_the_same_in_every_file(tmp_path: Path) -> None:
    table = zips(tmp_path / "train.csv", ["01", "02", "0A"])
    test = zips(tmp_path / "test.csv", ["01", "02"])
    model = tmp_path / "m.joblib"
    words = ("fit", table, "-t", "y", "-d", "d", "--gamma", "0.01", "--test", test, "--json")
    found = json.loads(run(*words, "--out", model))
    assert found["audits"]["agnostic"]["pooled_metrics"]["accuracy"] > 0.8
    predicted = pd.read_csv(io.StringIO(run("predict", model, test, "--keep", "zip")), dtype=str)
    truth = pd.read_csv(test, dtype=str)
    assert predicted["zip"].tolist() == truth["zip"].tolist()
    assert (predicted["prediction"] == truth["y"]).mean() > 0.8


def test_labels_that_happen_to_be_digits_are_labels(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("y,p,d\n1,1,a\n2,1,a\n3a,2,b\n1,1,b\n")
    found = json.loads(run("audit", table, "-t", "y", "-p", "p", "-d", "d", "--json"))
    assert [domain["loss"] for domain in found["domains"]] == [0.5, 0.5]


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
