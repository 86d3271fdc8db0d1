"""Online News on files of the same form: domains, target, split, and every way it fails."""

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_server import Server, files_in, sha256
from news_table import CHANNELS, news_csv, news_rows

from anymix import datasets
from anymix.datasets import load_news
from anymix.datasets import news as news_file
from anymix.datasets.news import NEWS


def written(folder: Path, text: str) -> Path:
    file = folder / "OnlineNewsPopularity.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_rows_say_what_the_file_says(tmp_path: Path) -> None:
    rows = news_rows(100, seed=3)
    data = load_news(written(tmp_path, news_csv(rows)))
    X, y, domains = (
        np.concatenate([a, b])
        for a, b in (
            (data.X, data.X_test),
            (data.y, data.y_test),
            (data.domains, data.domains_test),
        )
    )
    assert (len(data.y), len(data.y_test)) == (80, 20)
    assert len(data.feature_names) == X.shape[1] == 52
    assert not set(data.feature_names) & {"url", "timedelta", "shares", *CHANNELS}
    order = np.random.default_rng(0).permutation(100)  # the split that is written down
    first = data.feature_names.index("n_tokens_title")
    assert X[:, first].tolist() == [rows[i]["n_tokens_title"] for i in order]
    assert y.tolist() == [int(rows[i]["shares"] >= 1400) for i in order]
    for i, domain in zip(order, domains, strict=True):
        marked = [name for name in CHANNELS if rows[i][name]]
        expected = {
            "data_channel_is_lifestyle": "lifestyle or social media",
            "data_channel_is_socmed": "lifestyle or social media",
            "data_channel_is_entertainment": "entertainment",
            "data_channel_is_bus": "business",
            "data_channel_is_tech": "technology",
            "data_channel_is_world": "world",
        }
        assert domain == (expected[marked[0]] if marked else "other")
    assert len(set(domains)) == 6
    assert data.licence == "CC BY 4.0"


@pytest.mark.parametrize(("shares", "popular"), [(1399, 0), (1400, 1)])
def test_1400_shares_are_popular(tmp_path: Path, shares: int, popular: int) -> None:
    rows = [row | {"shares": shares} for row in news_rows(5, seed=0)]
    data = load_news(written(tmp_path, news_csv(rows)))
    assert {*data.y, *data.y_test} == {popular}


def zipped(text: str, name: str = "OnlineNewsPopularity/OnlineNewsPopularity.csv") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, text)
    return buffer.getvalue()


def test_a_zip_file_will_do(tmp_path: Path) -> None:
    text = news_csv(news_rows(30, seed=1))
    (tmp_path / "news.zip").write_bytes(zipped(text))
    one, other = load_news(tmp_path / "news.zip"), load_news(written(tmp_path, text))
    assert np.array_equal(one.X, other.X)
    assert not np.array_equal(load_news(tmp_path / "news.zip", seed=1).X, one.X)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file has no column 'url'"),
        ("url, timedelta, shares\n", "file has no column 'data_channel_is_lifestyle'"),
        (news_csv([]), "file has no rows; give it as UCI has it"),
        (news_csv(news_rows(3, 0)).replace("1.0", "many", 1), "file has a bad row"),
        (news_csv(news_rows(3, 0)) + "http://short,1.0\n", "file has a bad row"),
        (
            news_csv(news_rows(3, 0)).replace("1.0", "nan", 1),
            "file has an entry that is not finite",
        ),
    ],
)
def test_files_of_another_form(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_news(written(tmp_path, text))


def test_a_zip_file_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "other.zip").write_bytes(zipped("hello", "hello.txt"))
    with pytest.raises(ValueError, match="file is a zip file of something else"):
        load_news(tmp_path / "other.zip")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot be read \(No such file or directory\)"):
        load_news(tmp_path / "missing.csv")


@pytest.fixture
def at_uci(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """UCI's address is a server here, with a small file."""
    (name,) = NEWS.sums
    server.files = {name: zipped(news_csv(news_rows(50, seed=2)))}
    own = replace(NEWS, address=server.address, sums={name: sha256(server.files[name])})
    monkeypatch.setattr(news_file, "NEWS", own)
    return server


def test_from_its_address_and_then_from_the_cache(at_uci: Server, folder: Path) -> None:
    first = load_news(progress=False)
    assert len(first.y) == 40
    assert np.array_equal(load_news(progress=False).X, first.X)
    assert len(at_uci.requested) == 1
    assert files_in(folder / "news") == set(NEWS.sums)


@pytest.mark.parametrize("fault", ["another file", "not found", "damaged in the cache"])
def test_there_is_no_other_source(at_uci: Server, folder: Path, fault: str) -> None:
    (name,) = NEWS.sums
    if fault == "damaged in the cache":
        load_news(progress=False)
        (folder / "news" / name).write_bytes(b"half")
    at_uci.files = {name: b"another"} if fault == "another file" else {}
    with pytest.raises(OSError, match="cannot get the data set 'news'") as caught:
        load_news(progress=False)
    assert {
        "another file": f"is damaged or another file: sha256 {sha256(b'another')}",
        "not found": "404 Client Error",
        "damaged in the cache": f"{name} is damaged or another file: sha256 {sha256(b'half')}",
    }[fault] in str(caught.value)


def test_a_cache_that_cannot_be_written_to(at_uci: Server, folder: Path) -> None:
    folder.write_text("not a folder")
    with pytest.warns(UserWarning, match="cannot keep data in"):
        assert len(load_news(progress=False).y) == 40
    with pytest.raises(OSError, match="cannot keep data in"):
        datasets.fetch("news")
