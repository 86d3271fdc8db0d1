"""The program: help, version, exit codes, and how little it loads."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import fail, run

import anymix
from anymix.cli.program import app


def test_version() -> None:
    assert run("--version") == f"anymix {anymix.__version__}\n"


def test_installed_command_shows_help_without_arguments() -> None:
    command = Path(sys.executable).with_name("anymix")
    shown = subprocess.run([command], capture_output=True, text=True, check=False)
    for name in ("demo", "fit", "predict", "audit", "federate", "data"):
        assert name in shown.stdout + shown.stderr


def commands(group: Any, *before: str) -> Iterator[tuple[str, ...]]:
    """The words of every command there is, those of groups too."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *before, name)
        else:
            yield (*before, name)


@pytest.mark.parametrize("words", list(commands(typer.main.get_command(app))), ids=" ".join)
def test_every_command_has_examples_of_itself(words: tuple[str, ...]) -> None:
    lines = [line.strip() for line in run(*words, "--help").splitlines()]
    examples = [line for line in lines if line.startswith("• ")]
    assert len(examples) >= 2
    assert all(f"anymix {' '.join(words)}" in line for line in examples)


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in run("--help")


@pytest.mark.parametrize("words", [["fit", "t.csv"], ["audit"], ["fits"], ["demo", "--nothing"]])
def test_wrong_usage_has_exit_code_2(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail(monkeypatch, capsys, *words)[0] == 2


def test_a_reader_that_has_seen_enough_is_no_error(people: Path, model: Path) -> None:
    command = Path(sys.executable).with_name("anymix")
    with subprocess.Popen(
        [command, "predict", model, people], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


# What is loaded ---------------------------------------------------------------------------------

LOADED = """
import sys
from anymix.cli import main
try:
    main()
finally:
    print("LOADED", *sys.modules)
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--help", "Show this message"),
        ("fit --help", "--min-rows"),
        ("fit none.csv -t y -d d", "none.csv is not a file; give the path of a CSV"),
        ("fit {table} -t y -d d --test none.csv", "none.csv is not a file; give the path of"),
        ("fit {table} -t y -d d --mixtures none.json", "--mixtures is 'none.json', which is not"),
        ("fit {table} -t y -d d --gamma much", "--gamma is 'much'; give a number or auto"),
        ("predict none.joblib {table}", "none.joblib is not there; give a model"),
        ("predict {table} none.csv", "none.csv is not a file; give the path of a CSV"),
        ("audit none.csv -t y -p p -d d", "none.csv is not a file; give the path of a CSV"),
        ("demo --out {table}/below", "nothing can be written to"),
    ],
)
def test_help_and_missing_files_load_no_large_library(
    words: str, said: str, tmp_path: Path
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x,d,y\n1,a,1\n")
    command = [sys.executable, "-c", LOADED, *words.format(table=table).split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    printed, _, loaded = done.stdout.partition("LOADED")
    assert said in " ".join((printed + done.stderr).split())
    assert loaded
    assert not set(loaded.split()) & {"sklearn", "numba", "pandas", "scipy", "joblib", "torch"}
