"""The promise on Fashion-MNIST, kept by the figures in docs and, in minutes, by a run."""

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
KINDS = ("ordinary", "robust", "certified")


def check(runs: list[dict[str, Any]]) -> None:
    """Both at least 3 points above ordinary; the certified layer in 10 % of the time."""
    worst, seconds = (
        {kind: np.mean([run[kind][what] for run in runs]) for kind in KINDS}
        for what in ("worst", "seconds")
    )
    assert worst["robust"] >= worst["ordinary"] + 3
    assert worst["certified"] >= worst["ordinary"] + 3
    assert seconds["certified"] <= 0.1 * seconds["robust"]


def test_the_figures_of_the_page_keep_the_promise() -> None:
    runs = json.loads((ROOT / "docs" / "pytorch_fashion.json").read_text(encoding="utf-8"))
    assert {run["seed"] for run in runs} == {0, 1, 2}
    for run in runs:
        for kind in KINDS:
            assert run[kind]["worst"] == pytest.approx(min(run[kind]["classes"]), abs=0.051)
    check(runs)
    below = [run["robust"]["worst"] - run["certified"]["worst"] for run in runs]
    assert np.mean(below) <= 0.5


@pytest.mark.slow
def test_a_run_keeps_the_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYMIX_ALLOW_APT", "1")
    main = runpy.run_path(str(ROOT / "examples" / "pytorch_loop.py"))["main"]
    path = tmp_path / "found.json"
    main(["--rows", "60000", "--epochs", "5", "--seeds", "1", "--json", str(path)])
    check(json.loads(path.read_text()))
