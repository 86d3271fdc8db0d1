"""paper/tables.py runs and writes what it says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from news_table import news_csv, news_rows

SCRIPT = Path(__file__).parents[2] / "paper" / "tables.py"


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("what", "files"),
    [
        ("proposition1", {"proposition1.json", "proposition1.csv", "proposition1.png"}),
        ("lambda-star", {"lambda_star.png"}),
    ],
)
def test_script_writes_its_results(what: str, files: set[str], tmp_path: Path) -> None:
    done = start(what, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert {file.name for file in tmp_path.iterdir()} == files
    assert all(name in done.stdout for name in files)


def test_script_on_made_up_news(tmp_path: Path) -> None:
    (tmp_path / "news.csv").write_text(news_csv(news_rows(300, seed=0)), encoding="utf-8")
    out = tmp_path / "out"
    done = start("news", "--file", str(tmp_path / "news.csv"), "--runs", "1", "--out", str(out))
    assert done.returncode == 0, done.stderr
    saved = json.loads((out / "news.json").read_text("utf-8"))
    assert saved["rows"].keys() == {"Û", "agnostic"}
    assert len(saved["columns"]) == 8


@pytest.mark.parametrize(
    ("arguments", "named"),
    [("atlantis", "atlantis"), ("adult --runs 0", "--runs"), ("fashion --jobs 0", "--jobs")],
)
def test_wrong_use_is_named(arguments: str, named: str) -> None:
    done = start(*arguments.split())
    assert done.returncode == 2
    assert named in done.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adult", "fashion"])
def test_script_of_a_table(name: str, tmp_path: Path) -> None:
    done = start(name, "--runs", "1", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    files = {file.name for file in tmp_path.iterdir()}
    assert files == {f"{name}.json", f"{name}.csv", f"{name}.png"}
