"""The command as people call it, for the tests."""

import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from anymix.cli import app, main


def run(*arguments: Any) -> str:
    """What is printed, if nothing goes wrong."""
    words = [str(argument) for argument in arguments]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: Any
) -> tuple[int, str]:
    """Exit code and what is on the error channel, of the command as installed."""
    monkeypatch.setattr(sys, "argv", ["anymix", *map(str, words)])
    with pytest.raises(SystemExit) as caught:
        main()
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert isinstance(caught.value.code, int)
    return caught.value.code, captured.err
