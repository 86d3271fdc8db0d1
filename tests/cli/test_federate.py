"""`anymix federate`: what the app finds, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import fail, run

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
    script = "import sys; sys.modules['flwr'] = None; from anymix.cli import main; main()"
    command = [sys.executable, "-c", script]
    shown = subprocess.run([*command, "federate", "--help"], capture_output=True, text=True)
    assert shown.returncode == 0
    assert "--run-config" in shown.stdout
    words = ["federate", "--app", str(KEYBOARD)]
    failed = subprocess.run([*command, *words], capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stderr == "error: federate needs Flower; pip install 'anymix[flower]'\n"
