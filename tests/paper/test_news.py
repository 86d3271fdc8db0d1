"""Online News on made-up rows of the same form: the file, the network, its training."""

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import news
import numpy as np
import pytest
from data_server import sha256
from news import Settings, load_news, network, run
from news_table import CHANNELS, FEATURES, news_csv, news_rows
from results import Table
from torch import nn

from anymix.datasets import Dataset

QUICK = Settings(units=32, rows=16, n_steps=150, step_w=0.01, step_mixture=0.02)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    file = tmp_path_factory.mktemp("news") / "news.csv"
    file.write_text(news_csv(news_rows(1400, seed=0)), encoding="utf-8")
    return load_news(file)


@pytest.fixture(scope="module")
def table(data: Dataset) -> Table:
    return run(data, 2, QUICK)


def test_rows_say_what_the_file_says(data: Dataset) -> None:
    rows = news_rows(1400, seed=0)
    titles = {"lifestyle": "lifestyle or social media", "socmed": "lifestyle or social media"}
    titles |= {"bus": "business", "tech": "technology"}
    order = np.random.default_rng(0).permutation(1400)
    assert data.feature_names == tuple(FEATURES)
    for i, place in enumerate(order[:200]):
        row = rows[place]
        marked = [c.removeprefix("data_channel_is_") for c in CHANNELS if row[c]]
        domain = titles.get(marked[0], marked[0]) if marked else "other"
        assert data.domains[i] == domain
        assert data.y[i] == (row["shares"] >= 1400)
        assert data.X[i].tolist() == [row[name] for name in FEATURES]
    assert [len(data.y), len(data.y_test)] == [1120, 280]


def test_the_zip_file_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(news.CSV, news_csv(news_rows(50, seed=1)))
    (tmp_path / "news").mkdir()
    (tmp_path / "news" / news.ZIP).write_bytes(buffer.getvalue())
    monkeypatch.setenv("ANYMIX_DATA", str(tmp_path))
    own = replace(news.NEWS, sums={news.ZIP: sha256(buffer.getvalue())}, address="")
    monkeypatch.setattr(news, "NEWS", own)
    assert len(load_news().y) == 40


def test_the_network_is_the_papers() -> None:
    kinds = [type(layer) for layer in network(52, 100)]
    hidden = [nn.Linear, nn.ReLU, nn.Dropout]
    assert kinds == [nn.Dropout, *hidden, *hidden, nn.Linear, nn.Flatten]
    assert [layer.p for layer in network(5, 4) if isinstance(layer, nn.Dropout)] == [0.2, 0.5, 0.5]


def test_it_learns_and_helps_the_worst_domain(table: Table) -> None:
    assert len(table.columns) == 6 + 2
    ordinary, agnostic = table.runs["Û"], table.runs["agnostic"]
    assert (ordinary[:, 0] > 70).all()  # the rule of all domains but one
    assert agnostic[:, -1].mean() > ordinary[:, -1].mean() + 5
    sizes = np.array([100, 100, 200, 100, 100, 100])  # lifestyle or social media is two channels
    mixtures = {row: np.array(found) for row, found in table.facts["mixtures"].items()}
    assert mixtures["Û"] == pytest.approx(np.tile(sizes / 700, (2, 1)), abs=0.03)
    assert np.ptp(mixtures["agnostic"], axis=1).min() > 0.05


def test_the_same_seed_gives_the_same_numbers(data: Dataset, table: Table) -> None:
    again = run(data, 1, QUICK)
    assert np.array_equal(again.runs["agnostic"][0], table.runs["agnostic"][0])
