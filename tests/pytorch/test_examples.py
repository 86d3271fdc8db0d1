"""The examples, in short and in this process, which has PyTorch loaded already."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random numbers and files of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANYMIX_ALLOW_APT", "1")  # for Fashion-MNIST
    torch.manual_seed(0)


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


@pytest.mark.slow
def test_a_loop_on_fashion_mnist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example("pytorch_loop")["main"](["--rows", "1200", "--json", str(tmp_path / "found.json")])
    (found,) = json.loads((tmp_path / "found.json").read_text())
    assert found["gap"] <= 1e-4
    assert {"ordinary", "robust", "certified"} <= set(found)
    assert "worst class" in capsys.readouterr().out


def test_a_mixture_of_data(capsys: pytest.CaptureFixture[str]) -> None:
    example("data_mixture")["main"](40)
    text = capsys.readouterr().out
    found = json.loads(text[text.index("{\n") :])
    assert found["weights"]["noise"] < 0.2  # hard for everybody, so there is little to gain
    assert sum(found["weights"].values()) == pytest.approx(1)


@pytest.mark.slow
def test_two_ranks() -> None:
    """Judged by what it prints: how PyTorch ends a rank is not its doing (see ranks.leave)."""
    command = [sys.executable, str(EXAMPLES / "pytorch_ddp.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "2 ranks, one λ" in done.stdout, done.stderr
    assert "loss of each domain" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tensorboard_loop", "logged 11 numbers a step"),
        ("mlflow_loop", "10 records"),
        ("lightning_module", "'mixture/web'"),
    ],
)
def test_a_logger(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "pytorch_logging" / f"{name}.py"), run_name="__main__")
    assert words in capsys.readouterr().out


def test_the_trainer_of_hugging_face() -> None:
    """In a process of its own: there it does not take the folder tests/datasets for a package."""
    script = EXAMPLES / "pytorch_logging" / "huggingface_trainer.py"
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "6 records" in done.stdout
