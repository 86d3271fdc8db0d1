"""`anymix cluster` and `anymix audit --find-segments`: what they print, write and refuse."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import fail, run
from sklearn.metrics import adjusted_rand_score

from anymix.tables.clustered import cluster_frame


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 30 clients of three kinds, which differ in two columns."""
    r = np.random.default_rng(0)
    owner = np.repeat(np.arange(30), 150)
    kind = owner % 3
    frame = pd.DataFrame({
        "id": [f"0{i}" for i in owner],
        "diagnosis": np.array(list("uvw"))[(kind + (r.random(len(kind)) < 0.3)) % 3],
        "age": r.normal(40 + 15 * kind, 10),
        "noise": r.integers(4, size=len(kind)),
    })  # fmt: skip
    path = tmp_path_factory.mktemp("tables") / "clients.csv"
    frame.to_csv(path, index=False)
    return path


def test_rows_without_a_client_are_left_out_and_told(tmp_path: Path) -> None:
    table = pd.DataFrame({"id": list("aabb") * 50, "word": ["hi", "hi", "yo", "hi"] * 50})
    table.to_csv(tmp_path / "all.csv", index=False)
    nobody = pd.DataFrame({"id": [None] * 3, "word": ["yo"] * 3})
    pd.concat([table, nobody]).to_csv(tmp_path / "some.csv", index=False)
    known, told = (
        json.loads(run("cluster", tmp_path / name, "--client", "id", "--n-domains", 2, "--json"))
        for name in ("all.csv", "some.csv")
    )
    assert told.pop("notes") == ["'id': 3 rows without a client, left out"]
    assert known.pop("notes") == []
    assert told == known


def test_clients_of_a_kind_become_a_domain(clients: Path, tmp_path: Path) -> None:
    out = tmp_path / "d.csv"
    printed = run("cluster", clients, "--client", "id", "--domains-out", out)
    assert "Of 1 to 20 domains, 3 can be promised most" in " ".join(printed.split())
    written = pd.read_csv(out, dtype={"id": str})
    assert written.columns.tolist() == ["id", "domain", "rows"]
    assert written["rows"].eq(150).all()
    kinds = written["id"].astype(int) % 3
    assert adjusted_rand_score(kinds, written["domain"]) == 1
    result = json.loads(run("cluster", clients, "--client", "id", "--n-domains", "2", "--json"))
    assert [d["domain"] for d in result["domains"]] == [0, 1]
    assert sum(d["rows"] for d in result["domains"]) == 4500


def test_clients_that_do_not_differ_are_no_advice(clients: Path) -> None:
    words = ("cluster", clients, "--client", "id", "--column", "noise")
    assert len(json.loads(run(*words, "--json"))["domains"]) == 1
    assert "No domains can be advised" in run(*words)


def test_only_the_columns_named_count(clients: Path) -> None:
    words = ("cluster", clients, "--client", "id", "--column", "noise", "--json")
    assert len(json.loads(run(*words))["domains"]) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--client who", "has no column 'who'"),
        ("--client id --n-domains none", "--n-domains is 'none'; give a whole number"),
        ("--client id --n-domains 31", "--n-domains is 31, and there are n_samples = 30 clients"),
        ("--client id --divergence far", "--divergence is 'far'; give one of"),
        ("--client id --column id", "--column are none beside that of the client; name some"),
    ],
)
def test_what_cannot_be_clustered_is_one_line(
    words: str,
    message: str,
    clients: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, error = fail(monkeypatch, capsys, "cluster", clients, *words.split())
    assert code == 1
    assert message in error
    assert error.count("\n") == 1


def test_an_audit_finds_segments(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    frame = pd.DataFrame({"g": r.choice(["a", "b"], 2000), "age": r.integers(20, 60, size=2000)})
    frame["name"] = [f"row {i}" for i in range(2000)]
    frame["y"], frame["p"] = 0.0, np.where(frame["age"] > 55, 3.0, 1.0) * r.normal(size=2000)
    table = tmp_path / "preds.csv"
    frame.to_csv(table, index=False)
    words = ("audit", table, "-t", "y", "-p", "p", "-d", "g", "--loss", "absolute")
    plain, searched = run(*words), run(*words, "--find-segments")
    assert "Segment" not in plain
    assert "Segment age > 55.5" in " ".join(searched.split())
    found = json.loads(run(*words, "--find-segments", "--json"))["segments"]
    assert found[0]["conditions"] == ["age > 55.5"]
    assert found[0]["weak"]
    assert found[0]["excess"][1] > 1
    assert "segments" not in json.loads(run(*words, "--json"))


def test_one_missing_number_does_not_make_every_number_a_word() -> None:
    r, kind = np.random.default_rng(0), np.arange(30) % 3
    frame = pd.DataFrame({"id": np.repeat(np.arange(30), 100)})
    frame["age"] = np.repeat(20.0 * kind, 100) + r.normal(30, 3, size=3000).round(2)
    frame.loc[5, "age"] = np.nan
    found = cluster_frame(frame, "id")
    labels = found.frame["domain"].to_numpy()
    assert len(np.unique(labels)) == 3
    assert all(len(np.unique(labels[kind == k])) == 1 for k in range(3))


def test_segments_are_told_as_the_audit_is_and_not_by_other_predictions(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    frame = pd.DataFrame({"g": r.choice(["a", "b"], 1000), "age": r.integers(20, 60, size=1000)})
    frame["y"], frame["prediction"] = 0.0, np.where(frame["age"] > 40, 300.0, 100.0)
    frame["probability of rain"] = frame["prediction"] / 1000
    table = tmp_path / "preds.csv"
    frame.to_csv(table, index=False)
    words = ("audit", table, "-t", "y", "-p", "prediction", "-d", "g", "--loss", "squared")
    told = " ".join(run(*words, "--find-segments").split())
    assert "Segment age > 40.5" in told
    assert "its RMSE is 300.0, elsewhere 100.0; the difference of the half squared errors" in told
    assert "rain" not in told
