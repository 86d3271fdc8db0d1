"""A table's numbers, its files and its width."""

import csv
import io
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from toy_table import toy_table

from anymix.reproduction import EXPERIMENTS, Table, proposition1
from anymix.reproduction.results import ExactRow


def test_standard_deviation_is_that_of_a_sample() -> None:
    runs = np.array([[80.0, 1, 2, 3], [84.0, 1, 2, 3]])
    table = replace(toy_table(), accuracies={"hard": runs, "any": runs})
    assert table.std("any") == pytest.approx([math.sqrt(8), 0, 0, 0])
    single = replace(table, accuracies={"hard": runs[:1], "any": runs[:1]})
    assert single.std("any") == pytest.approx([0, 0, 0, 0])


def test_saved_files_hold_the_table(tmp_path: Path) -> None:
    table = toy_table()
    names = [file.name for file in table.save(tmp_path / "new" / "folder")]
    assert names == ["toy.json", "toy.csv", "toy.png"]
    folder = tmp_path / "new" / "folder"
    saved = json.loads((folder / "toy.json").read_text("utf-8"))
    assert saved == table.as_dict()
    assert saved["rows"]["hard"]["difference"][0] == pytest.approx(100 * 26 / 30 - 80)
    assert saved["settings"]["n_steps"] == 60
    only_hard = {"hard": pytest.approx(1.0), "easy": pytest.approx(0.0)}
    assert saved["rows"]["hard"]["mixture"] == only_hard
    assert saved["rows"]["hard"]["exact"]["mixture"] == only_hard
    with (folder / "toy.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["seed"] for line in lines] == ["0", "1", "2"] * 2
    assert [line["trained on"] for line in lines] == ["hard"] * 3 + ["any"] * 3
    assert float(lines[4]["all"]) == pytest.approx(100 * 26 / 30, abs=1e-4)
    assert (folder / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_numbers_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # makes the import fail
    assert [file.suffix for file in toy_table().save(tmp_path)] == [".json", ".csv"]
    assert [file.suffix for file in proposition1().save(tmp_path)] == [".json", ".csv"]


def test_tables_fit_into_80_columns() -> None:
    for experiment in EXPERIMENTS.values():
        runs = np.full((2, len(experiment.columns)), 99.9)
        table = Table(
            experiment,
            accuracies=dict.fromkeys(experiment.rows, runs),
            mixtures={},
            exact=dict.fromkeys(experiment.rows, ExactRow(0.1, np.ones(2) / 2, 0.0, runs[0])),
        )
        console = Console(width=80, record=True, file=io.StringIO())
        console.print(table.grid())
        shown = console.export_text()
        assert "…" not in shown
        assert shown.count("99.90±0.00") == runs[0].size * len(experiment.rows)
