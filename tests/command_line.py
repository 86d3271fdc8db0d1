"""The command as people call it, for the tests."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
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


def make_people(n: int = 400) -> Any:
    """A table whose target depends on x in another way in each region."""
    r = np.random.default_rng(0)
    x, region = r.normal(size=n), r.choice(["north", "south"], n, p=[0.8, 0.2])
    z = np.where(region == "north", 2 * x, -x) + r.logistic(size=n)
    return pd.DataFrame(
        {
            "id": [f"person {i}" for i in range(n)],
            "x": x,
            "job": np.where(r.random(n) < 0.1, "", r.choice(["nurse", "clerk"], n)),
            "sex": r.choice(["F", "M"], n),
            "region": region,
            "income": np.where(z > 0, "high", "low"),
        }
    )


def zips(path: Path, levels: list[str], n: int = 400) -> Path:
    """A category that looks like a number in files that lack its last level."""
    r = np.random.default_rng(0)
    level = r.choice(levels, n)
    y = np.where((level == "01") ^ (r.uniform(size=n) < 0.1), "yes", "no")
    frame = pd.DataFrame({"zip": level, "d": r.choice(["a", "b"], n), "y": y})
    frame.to_csv(path, index=False)
    return path
