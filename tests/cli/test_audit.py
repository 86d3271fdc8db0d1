"""`anymix audit`: what it prints, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import fail, run

from anymix.auditing import audit


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
    assert result["files"] == {"report": str(page), "numbers": str(page.with_suffix(".json"))}
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
        ("", "error: it is not clear what to audit; give --target and --prediction"),
        ("-t y -p one --losses old", "give --target and --prediction"),
        ("-t y --losses old", "give --target and --prediction"),
        ("--losses old --classes u,v", "give --target and --prediction"),
        ("-t two -p u -p v -p w --classes u,v,v", "--classes is 'u,v,v'; give different names"),
        ("-t two -p u -p v -p w --classes u,v,", "--classes is 'u,v,'; give different names"),
        ("-t y -p one --encoding latin-99", "error: --encoding is 'latin-99', which Python does"),
        ("-t y -p one --mixtures none.json", "error: --mixtures is 'none.json', which is not a"),
        (
            "-t two -p u -p v -p w",
            "error: --classes is needed: those that are true are ['u', 'v'],",
        ),
        ("-t two -p u -p v -p w", "but there are probabilities of 3; name all 3, in the order of"),
        (
            "-t two -p u -p v -p w --classes a,b,c",
            "error: --classes is ['a', 'b', 'c']: those that",
        ),
        ("-t y -p one", "error: --prediction has values from 0.3 to 0.3, but what is true has 3"),
        ("-t y -p one", "give labels, 3 columns of probabilities, or ask for the squared loss"),
        ("-t y -p u", "error: --prediction has values from 0.5 to 0.5, but"),
        ("-t y -p old", "error: --prediction has the labels ['1'], none of which is a true one"),
        ("-t y -p g", "error: --prediction has the labels ['a', 'b'], none of which is a true one"),
        ("-t y -p labels --loss ppl", "error: --loss is 'ppl'; give another: zero_one, log,"),
        ("-t y -p labels --loss ppl", "or --losses for a column of them"),
        ("-t y -p u -p v -p w --loss squared", "error: --loss is 'squared', of values, but there"),
        ("-t y -p labels --loss squared", "error: --prediction has entries that are not numbers"),
        ("-t y -p one --loss squared", "error: --target has entries that are not numbers"),
        ("-t two -p one --classes v", "error: --classes is ['v']: those that are true"),
        ("-t two -p u -p v", "error: --prediction has a row that adds up to 0.75 (row 0);"),
        ("--losses one --loss zero_one", "error: --losses has the loss 0.3, but errors"),
        ("-t two -p one --against u -p old", "error: --prediction has a row that adds up to 1.3"),
        ("-t two -p labels --against g", "error: --against has the labels ['a', 'b'], none of"),
        ("--losses old --against labels", "error: --against has entries that are not numbers"),
        ("--losses labels", "error: --losses has entries that are not numbers"),
        ("--losses one --confidence 95", "error: --confidence is 95"),
        ("-t two -p one --against labels", "error: --against and the other audit have different"),
        ("-t two -p one --against labels", "losses: 'zero_one' and 'log'; give both as labels,"),
    ],
)
def test_what_cannot_be_audited_is_one_line_that_names_the_option(
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
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
    assert not any(name in error for name in ("y_true", "y_pred", "classes=", "loss="))


def test_a_column_that_is_called_like_an_argument_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "preds.csv").write_text("y_true,y_pred,g\n1,,a\n0,1,b\n")
    words = ("audit", tmp_path / "preds.csv", "-t", "y_true", "-p", "y_pred", "-d", "g")
    assert "column 'y_pred' has 1 missing values" in fail(monkeypatch, capsys, *words)[1]


@pytest.mark.parametrize("folder", ["y_pred", "loss is", "classes="])
def test_a_folder_that_is_called_like_an_argument_keeps_its_name(
    folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "p.csv").write_text("a,b,g\n1,0,u\n0,1,v\n")
    words = ("audit", f"{folder}/p.csv", "-t", "a", "-p", "bb", "-d", "g")
    error = fail(monkeypatch, capsys, *words)[1]
    assert error == f"error: {folder}/p.csv has no column 'bb'; did you mean 'b'?\n"


def test_labels_that_happen_to_be_digits_are_labels(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("y,p,d\n1,1,a\n2,1,a\n3a,2,b\n1,1,b\n")
    found = json.loads(run("audit", table, "-t", "y", "-p", "p", "-d", "d", "--json"))
    assert [domain["loss"] for domain in found["domains"]] == [0.5, 0.5]


def test_audit_measures_weighs_and_leaves_a_json_beside_the_page(tmp_path: Path) -> None:
    r = np.random.default_rng(2)
    frame = pd.DataFrame({"y": r.integers(0, 2, 90), "g": r.choice(["a", "b"], 90)})
    frame = frame.assign(z=1 - frame["y"], p=r.integers(0, 2, 90), q=r.integers(0, 2, 90))
    frame["w"] = r.integers(1, 5, 90)
    frame.to_csv(tmp_path / "preds.csv", index=False)
    words = ("audit", tmp_path / "preds.csv", "-t", "y", "-p", "p", "-d", "g", "--weight", "w")
    page = tmp_path / "audit.html"
    result = json.loads(run(*words, "--metric", "rates", "--json", "--report", page))
    wanted = audit(frame["y"], frame["p"], frame["g"], metrics="rates", sample_weight=frame["w"])
    assert result["domains"] == wanted.to_dict()["domains"]
    assert result["disparities"] == wanted.to_dict()["disparities"]
    beside = json.loads(page.with_suffix(".json").read_text())
    assert beside["domains"] == result["domains"]
    assert "demographic parity difference" in page.read_text()
    two = ("audit", tmp_path / "preds.csv", "-t", "y", "-t", "z", "-p", "p", "-p", "q", "-d", "g")
    found = json.loads(run(*two, "--against", "q", "--against", "p", "--json"))
    columns = {"y": frame["y"], "z": frame["z"]}
    said = audit(columns, {"y": frame["p"], "z": frame["q"]}, frame["g"])
    assert found["audits"]["p, q"]["domains"] == said.to_dict()["domains"]
    assert found["price"] == pytest.approx(
        said.pooled_loss - audit(columns, {"y": frame["q"], "z": frame["p"]}).pooled_loss
    )


def test_audit_refuses_what_does_not_fit_the_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "preds.csv").write_text("y,z,p,g,w\n1,0,1,a,1\n0,1,1,b,-1\n1,1,0,a,2\n")
    table = tmp_path / "preds.csv"
    for words, message in (
        ("-t y -t z -p p", "error: --prediction names 1 columns, but there are 2 of --target"),
        ("-t y -p p --weight w", "error: --weight has -1"),
        ("-t y -p p --metric f7", "error: --metric has 'f7', which nobody knows"),
    ):
        code, error = fail(monkeypatch, capsys, "audit", table, "-d", "g", *words.split())
        assert code == 1
        assert error.startswith(message)
