"""A table's numbers, its files and its width."""

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from linear_models import EXPERIMENTS
from results import Table
from rich.console import Console
from toy_table import toy_table


def test_standard_deviation_is_that_of_a_sample() -> None:
    runs = np.array([[80.0, 1, 2, 3], [84.0, 1, 2, 3]])
    table = replace(toy_table(), runs={"hard": runs, "any": runs})
    assert table.std("any") == pytest.approx([math.sqrt(8), 0, 0, 0])
    single = replace(table, runs={"hard": runs[:1], "any": runs[:1]})
    assert single.std("any") == pytest.approx([0, 0, 0, 0])


def test_saved_files_hold_the_table(tmp_path: Path) -> None:
    table, folder = toy_table(), tmp_path / "new" / "folder"
    names = [file.name for file in table.save(folder)]
    assert names == ["toy.json", "toy.csv", "toy.png"]
    saved = json.loads((folder / "toy.json").read_text("utf-8"))
    assert saved["rows"]["hard"]["difference"][0] == pytest.approx(100 * 26 / 30 - 80)
    assert saved["rows"]["hard"]["paper"]["mean"] == [80, 50, 90, 50]
    assert saved["settings"]["n_steps"] == 60
    assert saved["mixtures"]["hard"]["exact"]["mixture"] == pytest.approx([1.0, 0.0])
    with (folder / "toy.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["seed"] for line in lines] == ["0", "1", "2"] * 2
    assert [line["trained on"] for line in lines] == ["hard"] * 3 + ["any"] * 3
    assert float(lines[4]["all"]) == pytest.approx(100 * 26 / 30, abs=1e-4)
    assert (folder / "toy.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_tables_fit_into_80_columns(experiment: object) -> None:
    columns, printed = experiment.columns, experiment.printed  # type: ignore[attr-defined]
    runs = np.array([np.full(len(columns), value) for value in (99.8, 99.9)])
    table = Table("t", "A: b", columns, dict.fromkeys(printed, runs), printed)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(table.grid())
    shown = console.export_text()
    assert "…" not in shown
    assert shown.count("99.85±0.07") == len(columns) * len(printed)
