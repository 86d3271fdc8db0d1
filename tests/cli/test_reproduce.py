"""`anymix reproduce`: the paper beside ours, on the terminal and as files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import run
from tiny_language import TINY, tiny_language
from toy_table import TOY
from typer.testing import CliRunner

from anymix.cli import app
from anymix.reproduction import EXPERIMENTS, SCALES


def test_command_prints_the_paper_beside_ours(tmp_path: Path) -> None:
    shown = run("reproduce", "proposition1", "--out", str(tmp_path))
    line = next(line for line in shown.splitlines() if "worst loss log 2" in line)
    assert line.count("0.693147") == 2
    assert str(tmp_path / "proposition1.png") in shown


def test_command_prints_json_alone(tmp_path: Path) -> None:
    shown = json.loads(run("reproduce", "proposition1", "--json", "--out", str(tmp_path)))
    saved = json.loads((tmp_path / "proposition1.json").read_text("utf-8"))
    files = [str(tmp_path / f"proposition1.{end}") for end in ("json", "csv", "png")]
    assert shown["proposition1"] == saved | {"files": files}


def test_quiet_command_prints_nothing_and_saves(tmp_path: Path) -> None:
    assert run("reproduce", "proposition1", "--quiet", "--out", str(tmp_path)) == ""
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["reproduce", "atlantis"], "atlantis"),
        (["reproduce", "adult", "--runs", "0"], "--runs"),
        (["reproduce", "adult", "--runs", "many"], "--runs"),
        (["reproduce", "adult", "--jobs", "0"], "--jobs"),
        (["reproduce", "language", "--scale", "huge"], "--scale"),
        (["reproduce"], "WHAT"),
    ],
)
def test_wrong_use_is_named(arguments: list[str], named: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert named in result.output
    assert "Traceback" not in result.output


def test_command_on_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "adult", TOY)
    shown = run("reproduce", "adult", "--fast", "--jobs", "1", "--out", str(tmp_path))
    assert "5 runs" in shown
    assert "86.67±0.00" in shown
    assert "+6.67" in shown
    saved = json.loads((tmp_path / "toy.json").read_text("utf-8"))
    assert saved["runs"] == 5
    run("reproduce", "adult", "--fast", "--runs", "2", "-q", "--jobs", "1", "--out", str(tmp_path))
    assert json.loads((tmp_path / "toy.json").read_text("utf-8"))["runs"] == 2


def test_command_on_language_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCALES, "small", replace(TINY, n_steps=6))
    monkeypatch.setattr("anymix.reproduction.language.load_language", tiny_language)
    command = ("reproduce", "language", "--jobs", "1", "--out", str(tmp_path))
    shown = run(*command)
    assert "Table 3" in shown
    assert "1138.8" in shown  # the paper's
    names = [f"language_tiny{end}" for end in (".json", ".csv", ".png", "_training.png")]
    assert all(str(tmp_path / name) in shown.replace("\n", "") for name in names)
    runs = sorted(file.name for file in (tmp_path / "runs").iterdir())
    assert runs == [
        f"language_tiny_{row}_0.json"
        for row in ("agnostic", "conversation", "document", "ordinary")
    ]
    first = json.loads((tmp_path / "language_tiny.json").read_text("utf-8"))
    again = json.loads(run(*command, "--json"))["language"]  # nothing is trained again
    assert again["rows"] == first["rows"]


def test_all_leaves_out_the_language_models() -> None:
    result = CliRunner().invoke(app, ["reproduce", "--help"])
    assert "--scale" in result.output
    assert "leaves out the language models" in " ".join(result.output.replace("│", "").split())
