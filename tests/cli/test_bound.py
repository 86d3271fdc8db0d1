"""`anymix bound`, and `anymix audit` with a guarantee and conditions."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import fail, run
from typer.testing import CliRunner

import anymix as ax
from anymix.bounds import held_out
from anymix.cli import app


@pytest.fixture
def table(tmp_path: Path) -> Path:
    r = np.random.default_rng(0)
    d = r.choice(["north", "south", "isle"], 900, p=[0.7, 0.27, 0.03])
    y = r.random(900) < 0.4
    label = np.where(r.random(900) < np.where(d == "south", 0.25, 0.1), ~y, y)
    frame = pd.DataFrame({"region": d, "y": y.astype(int), "label": label.astype(int)})
    frame["p"], frame["err"] = np.where(label, 0.85, 0.1), (label != y) * 0.8
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_bound_of_the_rows_alone(table: Path) -> None:
    found = json.loads(run("bound", table, "-d", "region", "--width", "0.1", "--json"))
    frame = pd.read_csv(table)
    rows = frame["region"].value_counts()
    for domain in found["domains"]:
        m = int(rows[domain["domain"]])
        assert domain["rows"] == m
        assert domain["skewness"] == pytest.approx(900 / m)
        assert domain["width"] == pytest.approx(np.sqrt(np.log(3 / 0.05) / (2 * m)))
        wanted = int(np.ceil(np.log(3 / 0.05) / 2 / 0.01))
        assert domain["rows_needed"] == max(wanted - m, 0)
    assert found["guarantee"] is None
    shown = " ".join(run("bound", table, "-d", "region").split())
    assert "rows to add for 0.05" in shown
    assert "more rows are needed" in shown
    assert "Merge " in shown


def test_bound_of_predictions_is_held_out(table: Path) -> None:
    frame = pd.read_csv(table)
    words = ("bound", table, "-d", "region", "-t", "y", "-p", "label", "--delta", "0.1")
    found = json.loads(run(*words, "--json"))
    alone = held_out(frame["label"] != frame["y"], frame["region"], delta=0.1)
    assert found["guarantee"]["value"] == pytest.approx(alone.value)
    assert [d["high"] for d in found["domains"]] == pytest.approx(list(alone.upper))
    shown = " ".join(run(*words).split())
    assert "at most" in shown
    assert f"{alone.value:.4f} on every mixture" in shown
    losses = json.loads(run("bound", table, "-d", "region", "--losses", "err", "--json"))
    assert losses["loss_bound"] == 1


def test_log_losses_that_nothing_cuts_ask_for_a_cut_and_for_no_rows(table: Path) -> None:
    words = ("bound", table, "-d", "region", "-t", "y", "-p", "p")
    shown = " ".join(run(*words).split())
    assert "no sensible number of rows makes up for: cut the losses" in shown
    found = json.loads(run(*words, "--json"))
    assert [d["rows_needed"] for d in found["domains"]] == [None] * 3
    cut = json.loads(run(*words, "--loss-bound", "3", "--json"))
    asked = sum(d["rows_needed"] for d in cut["domains"])
    assert f"{asked:,} more rows would do" in shown


def test_merging_is_told_by_the_chance_of_the_table(table: Path) -> None:
    words = ("bound", table, "-d", "region", "-t", "y", "-p", "label")
    found, shown = json.loads(run(*words, "--json")), " ".join(run(*words).split())
    widest = max(domain["width"] for domain in found["domains"])
    assert f"what chance may do falls from ±{widest:.3g} to" in shown


def test_small_domains_are_never_all_merged(tmp_path: Path) -> None:
    shops = ["Berlin"] * 100 + ["Hamburg"] * 60 + ["Köln"] * 28 + ["Outlet"] * 12
    frame = pd.DataFrame({"shop": shops, "err": np.arange(200) % 2})
    frame.to_csv(tmp_path / "four.csv", index=False)
    frame[:160].to_csv(tmp_path / "two.csv", index=False)
    words = ("-d", "shop", "--losses", "err", "--json")
    four, two = (json.loads(run("bound", tmp_path / f"{n}.csv", *words)) for n in ("four", "two"))
    assert four["merge"] == [["Hamburg", "Köln", "Outlet"]]
    assert two["merge"] == []


def test_audit_with_a_guarantee(table: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(table)
    words = ("audit", table, "-d", "region", "-t", "y", "-p", "label", "--guarantee", "0.1")
    page = tmp_path / "page.html"
    found = json.loads(run(*words, "--json", "--report", page))
    alone = ax.audit(frame["y"], frame["label"], frame["region"], guarantee=0.1)
    assert found["guarantees"]["loss"]["value"] == alone.guarantees["loss"].value
    text = page.read_text()
    assert "guaranteed on every mixture" in text
    assert f"at most {alone.guarantees['loss'].value:.4f}" in text
    assert f"at most {alone.guarantees['loss'].value:.4f}" in " ".join(run(*words).split())
    plain = tmp_path / "plain.html"
    run(*words[:-2], "--report", plain)
    assert "guaranteed on every mixture" not in plain.read_text()


@pytest.mark.parametrize(
    ("condition", "fails"),
    [
        ("worst accuracy < 0.7", False),
        ("worst accuracy < 0.9", True),
        ("guaranteed worst accuracy < 0.75", True),
        ("guaranteed worst log loss > 0.6", True),
        ("average log loss > 5", False),
    ],
)
def test_fail_if(table: Path, condition: str, fails: bool) -> None:
    words = ["audit", str(table), "-d", "region", "-t", "y", "-p", "p", "--fail-if", condition]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == int(fails)
    assert "log loss" in result.stdout  # it says what it found in any case
    lines = result.stderr.strip().splitlines()
    assert len(lines) == int(fails)
    if fails:
        assert lines[0].startswith("failed: ")
        assert "which is" in lines[0]


def test_a_condition_is_about_the_model_and_not_the_one_that_it_is_compared_with(
    table: Path,
) -> None:
    frame = pd.read_csv(table).assign(right=lambda f: f["y"])
    frame.to_csv(table, index=False)
    words = [
        "audit",
        str(table),
        "-d",
        "region",
        "-t",
        "y",
        "-q",
        "--fail-if",
        "worst accuracy < 1",
    ]
    for model, other, code in (("right", "label", 0), ("label", "right", 1)):
        result = CliRunner().invoke(app, [*words, "-p", model, "--against", other])
        assert result.exit_code == code


def test_several_conditions_fail_in_one_line(table: Path) -> None:
    words = ["audit", str(table), "-d", "region", "-t", "y", "-p", "label", "-q"]
    words += ["--fail-if", "worst accuracy < 0.99", "--fail-if", "average accuracy < 0.99"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("which is <") == 2
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fail-if", "worst accuracy is low"), "--fail-if is 'worst accuracy is low'; write it"),
        (("--fail-if", "worst f1 < 1"), "--fail-if is about 'f1'; here there are: 0-1 loss, acc"),
        (("--guarantee", "7"), "--guarantee is 7.0; give a probability"),
        (("--loss-bound", "-3"), "--loss-bound is -3.0"),
    ],
)
def test_what_an_audit_refuses(
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: str,
) -> None:
    columns = ("-d", "region", "-t", "y", "-p", "label")
    code, error = fail(monkeypatch, capsys, "audit", table, *columns, *words)
    assert code == 1
    assert len(error.strip().splitlines()) == 1
    assert said in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--delta", "0"), "--delta is 0.0"),
        (("--width", "-1"), "--width is -1.0"),
        (("-t", "y"), "it is not clear which losses to bound"),
        (("--losses", "err", "--loss-bound", "0.5"), "--losses has the loss 0.8, above"),
        (("--mixtures", "chi2:0.5"), "--mixtures is 'chi2:0.5'"),
    ],
)
def test_what_bound_refuses(
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: str,
) -> None:
    code, error = fail(monkeypatch, capsys, "bound", table, "-d", "region", *words)
    assert code == 1
    assert len(error.strip().splitlines()) == 1
    assert said in error
