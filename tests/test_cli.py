import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anymix
from anymix.cli import app, main

LOG_4_OVER_SQRT_3 = math.log(4 / math.sqrt(3))


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_version() -> None:
    assert run("--version") == f"anymix {anymix.__version__}\n"


def test_installed_command_shows_help_without_arguments() -> None:
    command = Path(sys.executable).with_name("anymix")
    shown = subprocess.run([command], capture_output=True, text=True, check=False)
    assert "demo" in shown.stdout + shown.stderr


def test_demo_finds_the_numbers_of_proposition_1(tmp_path: Path) -> None:
    result = json.loads(run("demo", "--json", "--out", str(tmp_path)))
    uniform, agnostic = result["uniform"], result["agnostic"]
    assert uniform["p0"] == pytest.approx(1 / 4, abs=1e-4)
    assert uniform["domain_losses"]["D1"] == pytest.approx(math.log(4 / 3), abs=1e-4)
    assert uniform["agnostic_loss"] == pytest.approx(LOG_4_OVER_SQRT_3, abs=1e-4)
    assert agnostic["p0"] == pytest.approx(1 / 2, abs=1e-4)
    assert agnostic["agnostic_loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert agnostic["mixture"] == pytest.approx([0, 1], abs=1e-2)


def test_demo_certificate_brackets_log_2(tmp_path: Path) -> None:
    certificate = json.loads(run("demo", "--json", "--out", str(tmp_path)))["certificate"]
    rounding = 1e-12
    assert certificate["lower"] - rounding <= math.log(2) <= certificate["upper"] + rounding
    assert 0 <= certificate["gap"] <= 1e-6


def test_demo_table_shows_both_models_and_names_the_picture(tmp_path: Path) -> None:
    shown = run("demo", "--out", str(tmp_path))
    rows = {line.split("│")[1].strip(): line for line in shown.splitlines() if "│" in line}
    assert "0.2500" in rows["uniform mixture"]
    assert rows["uniform mixture"].rstrip("│ ").endswith("0.8370")
    assert rows["any mixture"].rstrip("│ ").endswith("0.6931")
    assert "0.1438 more" in shown
    assert str(tmp_path / "proposition1.png") in shown


def test_demo_writes_a_picture(tmp_path: Path) -> None:
    run("demo", "--quiet", "--out", str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b" / "proposition1.png").read_bytes().startswith(b"\x89PNG")


def test_quiet_demo_prints_nothing(tmp_path: Path) -> None:
    assert run("demo", "--quiet", "--out", str(tmp_path)) == ""


def test_demo_without_matplotlib_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # makes the import fail
    assert "pip install 'anymix[report]'" in run("demo", "--out", str(tmp_path))
    assert json.loads(run("demo", "--json", "--out", str(tmp_path)))["picture"] is None


def test_folder_that_is_a_file_is_named_as_the_error(tmp_path: Path) -> None:
    occupied = tmp_path / "occupied"
    occupied.touch()
    result = CliRunner().invoke(app, ["demo", "--out", str(occupied)])
    assert result.exit_code == 2
    assert "--out" in result.output


def test_an_error_is_one_line_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "occupied").touch()
    below_a_file = tmp_path / "occupied" / "below"
    monkeypatch.setattr(sys, "argv", ["anymix", "demo", "--out", str(below_a_file)])
    with pytest.raises(SystemExit, match="1"):
        main()
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "Traceback" not in error
