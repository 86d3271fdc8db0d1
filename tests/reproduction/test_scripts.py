"""The scripts of paper/ run and write what they say."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAPER = Path(__file__).parents[2] / "paper"


def start_script(name: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of the script in folder/paper; it writes to folder/docs/reproduction."""
    (folder / "paper").mkdir(exist_ok=True)
    script = shutil.copy(PAPER / f"{name}.py", folder / "paper")
    command = [sys.executable, "-W", "error", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run_script(name: str, folder: Path, *arguments: str) -> str:
    """What it prints, if nothing goes wrong."""
    done = start_script(name, folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("proposition1", {"proposition1.json", "proposition1.csv", "proposition1.png"}),
        ("figure_lambda_star", {"lambda_star.png"}),
    ],
)
def test_script_writes_its_results(name: str, files: set[str], tmp_path: Path) -> None:
    assert run_script(name, tmp_path)
    assert {file.name for file in (tmp_path / "docs" / "reproduction").iterdir()} == files


def test_figure_without_matplotlib_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "matplotlib.py").write_text("raise ImportError")  # is found first
    done = start_script("figure_lambda_star", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "anymix[report]" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "docs").exists()


@pytest.mark.parametrize("script", ["table1_adult", "table2_fashion_mnist"])
def test_script_of_a_table_refuses_no_runs(script: str, tmp_path: Path) -> None:
    done = start_script(script, tmp_path, "--runs", "0")
    assert done.returncode == 2
    assert "--runs is 0; give a whole number ≥ 1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "name"), [("table1_adult", "adult"), ("table2_fashion_mnist", "fashion")]
)
def test_script_of_a_table(script: str, name: str, tmp_path: Path) -> None:
    assert "agnostic" in run_script(script, tmp_path, "--runs", "1")
    files = {file.name for file in (tmp_path / "docs" / "reproduction").iterdir()}
    assert files == {f"{name}.json", f"{name}.csv", f"{name}.png"}
