"""Tables that are not as they should be, as the command meets them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import fail, make_people, run

FIT = ("--target", "income", "--domain", "region", "--gamma", "0.1", "--drop", "id")


@pytest.fixture(name="odd")
def _odd(tmp_path: Path) -> tuple[Any, Path]:
    frame = make_people(200).astype({"x": object})
    frame.loc[3, "x"], frame.loc[9, "x"] = "#N/A", "-"
    frame.to_csv(tmp_path / "odd.csv", index=False)
    return frame, tmp_path / "odd.csv"


def notes(*words: Any) -> str:
    return " | ".join(json.loads(run(*words, "--json"))["notes"])


def test_odd_cells_in_every_command(odd: tuple[Any, Path], tmp_path: Path) -> None:
    _, path = odd
    said = "'x': 2 cells are no numbers and count as missing: '#N/A', '-'"
    model = tmp_path / "m.joblib"
    assert said in notes("fit", path, *FIT, "--out", model)
    assert said in notes("cluster", path, "--client", "region", "--n-domains", 2)
    assert "#N/A" not in notes("fit", path, *FIT, "--na", "#N/A", "--na", "-")
    words = notes("fit", path, *FIT, "--types", "x=category")
    assert "'x'" in words
    assert said not in words
    predicted = subprocess.run(
        [sys.executable, "-m", "anymix", "predict", str(model), str(path), "--out", "-"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said in predicted.stderr
    assert len(predicted.stdout.splitlines()) == 201


def test_decimal_commas_and_the_class_of_a_probability(tmp_path: Path) -> None:
    frame = make_people(200)
    p = 1 / (1 + np.exp(-frame["x"]))
    frame["probability of high"] = p
    frame["score"] = p.map(lambda v: f"{v:.4f}".replace(".", ","))
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";")
    words = ("audit", tmp_path / "t.csv", "-t", "income", "-d", "region", "--json")
    named = json.loads(run(*words, "-p", "probability of high"))
    said = "'probability of high': read as the probability of 'high', as its name says"
    assert named["notes"] == [said]
    given = json.loads(run(*words, "-p", "score", "--decimal", ",", "--classes", "low,high"))
    assert given["agnostic_loss"] == pytest.approx(named["agnostic_loss"], abs=1e-3)
    assert given["notes"] == ["'score': numbers with a decimal comma"]
    guessed = json.loads(run(*words, "-p", "score"))
    assert guessed["agnostic_loss"] > given["agnostic_loss"]  # read as that of the last, 'low'
    auc = guessed["pooled_metrics"]["auc"]
    assert guessed["notes"] == [
        f"'score': read as the probability of 'low', but the AUC is {auc:.2f}: if it is that of "
        "'high', say --classes low,high",
        "'score': numbers with a decimal comma",
    ]
    bound = json.loads(
        run("bound", *words[1:], "-p", "score", "--classes", "low,high", "--loss", "zero_one")
    )
    assert bound["notes"] == ["'score': numbers with a decimal comma"]


def test_stdin_and_stdout(tmp_path: Path) -> None:
    frame = make_people(200)
    frame.to_parquet(tmp_path / "t.parquet")
    words = [sys.executable, "-m", "anymix", "fit", "-", *FIT, "--report", "-"]
    found = subprocess.run(
        words, input=(tmp_path / "t.parquet").read_bytes(), capture_output=True, check=True
    )
    assert found.stdout.lstrip().startswith(b"<!")
    assert found.stdout.rstrip().endswith(b"</html>")


def test_an_empty_domain_cell_is_no_dead_end(tmp_path: Path) -> None:
    frame = make_people(200)
    frame.loc[5, "region"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    merged = json.loads(run("fit", tmp_path / "t.csv", *FIT, "--min-rows", 20, "--json"))
    assert [row["domain"] for row in merged["audits"]["robust"]["domains"]] == ["(other)", "north"]
    left = json.loads(run("fit", tmp_path / "t.csv", *FIT, "--drop-missing-domain", "--json"))
    assert sum(row["rows"] for row in left["audits"]["robust"]["domains"]) == 199
    assert "'region': 1 rows without this domain, left out" in left["notes"]


def test_notes_on_columns_that_may_not_be_meant(tmp_path: Path) -> None:
    frame = make_people(200)
    frame = frame.assign(number=range(1000, 1200), late=frame["income"].str.upper())
    frame["grade"] = np.arange(200) % 11
    frame.to_csv(tmp_path / "t.csv", index=False)
    said = notes("fit", tmp_path / "t.csv", *FIT)
    assert "'number': every row has a whole number of its own; if it is an identifier" in said
    assert "'late': tells the target without fail" in said
    words = ("fit", tmp_path / "t.csv", "-t", "grade", "-d", "region", "--gamma", 0.1)
    assert "'grade': 11 different whole numbers, taken for numbers" in notes(*words)


def test_refusals_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = make_people(150)
    path, ids = tmp_path / "t.csv", tmp_path / "ids.csv"
    frame.to_csv(path, index=False)
    frame[["id", "region", "income"]].assign(id=[f"p{k}" for k in range(150)]).to_csv(ids)
    no_model = tmp_path / "no.joblib"
    no_model.write_bytes(b"\x80\x04.")
    fit = ("fit", path, "-t", "income", "-d")
    cases = {
        "--target is 'income', which is a domain too": (*fit, "income"),
        "--test is": (*fit, "region", "--test", path),
        "no model that anymix has saved": ("predict", no_model, path),
        "'id': left out, nearly every row has": (
            *("fit", ids, "-t", "income", "-d", "region", "--drop", "Unnamed: 0"),
        ),
        "--types is 'x'; give it as in price=number": (*fit, "region", "--types", "x"),
        "--class-weight is 'much'": (*fit, "region", "--class-weight", "much"),
    }
    for message, words in cases.items():
        code, error = fail(monkeypatch, capsys, *words)
        assert code == 1
        assert message in error
        assert error.count("\n") == 1


def test_domains_that_look_alike_are_told_apart_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    r = np.random.default_rng(0)
    frame = pd.DataFrame({"x": r.normal(size=90), "y": r.choice(["a", "b"], 90)})
    path = tmp_path / "homes.csv"
    words = ("fit", path, "-t", "y", "-d", "home", "--gamma", 0.1)
    frame.assign(home=np.resize(["North", "north ", "South"], 90)).to_csv(path, index=False)
    found = json.loads(run(*words, "--json"))
    alike = "'North', 'north ' differ only by spaces or capitals"
    assert any(alike in note for note in found["notes"])
    frame.assign(home=["north "] + ["North"] * 49 + ["South"] * 40).to_csv(path, index=False)
    code, said = fail(monkeypatch, capsys, *words)
    assert code
    assert alike in " ".join(said.split())


def test_groups_stay_together_and_jobs_change_nothing(tmp_path: Path) -> None:
    frame = make_people(240)
    frame["patient"] = np.arange(240) // 4
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ("fit", tmp_path / "t.csv", *FIT, "--group", "patient", "--json")
    one, two = (json.loads(run(*words, "--jobs", jobs)) for jobs in (1, 2))
    assert one == two
    assert "rows of one group are never in two parts" in one["notes"][0]
