"""The network for Online News: its layers, its training, its table, on made-up rows."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from news_table import news_csv, news_rows
from torch import nn

from anymix.datasets import Dataset, load_news
from anymix.reproduction import NewsSettings, NewsTable, reproduce_news
from anymix.reproduction.news_network import network

QUICK = NewsSettings(units=32, rows=16, n_steps=150, step_w=0.01, step_mixture=0.02)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    file = tmp_path_factory.mktemp("news") / "news.csv"
    file.write_text(news_csv(news_rows(1400, seed=0)), encoding="utf-8")
    return load_news(file)


@pytest.fixture(scope="module")
def table(data: Dataset) -> NewsTable:
    return reproduce_news(runs=2, settings=QUICK, data=data)


def test_the_network_is_the_papers() -> None:
    kinds = [type(layer) for layer in network(52, 100)]
    hidden = [nn.Linear, nn.ReLU, nn.Dropout]
    assert kinds == [nn.Dropout, *hidden, *hidden, nn.Linear, nn.Flatten]
    assert [layer.p for layer in network(5, 4) if isinstance(layer, nn.Dropout)] == [0.2, 0.5, 0.5]


def test_it_learns_and_helps_the_worst_domain(table: NewsTable) -> None:
    assert table.columns[0] == "all"
    assert len(table.domains) == 6
    ordinary, agnostic = table.accuracies["Û"], table.accuracies["agnostic"]
    assert (ordinary[:, 0] > 70).all()  # the rule of all domains but one
    assert agnostic[:, -1].mean() > ordinary[:, -1].mean() + 5
    sizes = np.array([100, 100, 200, 100, 100, 100])  # lifestyle or social media is two channels
    assert table.mixtures["Û"] == pytest.approx(np.tile(sizes / 700, (2, 1)), abs=0.03)
    assert np.ptp(table.mixtures["agnostic"], axis=1).min() > 0.05


def test_the_same_seed_gives_the_same_numbers(data: Dataset, table: NewsTable) -> None:
    again = reproduce_news(runs=1, settings=QUICK, data=data)
    assert np.array_equal(again.accuracies["agnostic"][0], table.accuracies["agnostic"][0])


def test_saved_files_hold_the_table(table: NewsTable, tmp_path: Path) -> None:
    assert [file.name for file in table.save(tmp_path)] == ["news.json", "news.csv"]
    assert json.loads((tmp_path / "news.json").read_text("utf-8")) == table.as_dict()
    assert len((tmp_path / "news.csv").read_text("utf-8").splitlines()) == 5
    assert table.grid().row_count == 8


def test_the_script_names_what_is_wrong(tmp_path: Path) -> None:
    script = shutil.copy(Path(__file__).parents[2] / "paper" / "online_news.py", tmp_path)
    command = [sys.executable, "-W", "error", script, "missing.csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: file is 'missing.csv', which cannot be read")
    assert "Traceback" not in done.stderr
