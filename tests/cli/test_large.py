"""`anymix fit` and `audit` on files that are larger than the memory they may use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from audited import check_equal
from command_line import fail, run
from pyarrow import csv

import anymix as ax

ROWS_OF_2_GB = 5_500_000
FEATURES = 20
MOST = 700  # MB that the command may have
# A small process starts the command: after a fork, the peak of a large one counts as the child's.
MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def write(path: Path, n: int, step: int = 250_000) -> None:
    """Rows of 20 numbers as CSV, about 370 bytes each."""
    fixed = np.random.default_rng(99)
    W = fixed.normal(size=FEATURES) + 0.4 * fixed.normal(size=(4, FEATURES))
    with path.open("wb") as file:
        for number, start in enumerate(range(0, n, step)):
            rng, size = np.random.default_rng(number), min(step, n - start)
            X, region = (
                rng.normal(size=(size, FEATURES)),
                rng.choice(4, size, p=[0.6, 0.2, 0.15, 0.05]),
            )
            y = np.einsum("ij,ij->i", X, W[region]) + rng.logistic(size=size) > 0
            columns: dict[str, Any] = {f"x{j}": X[:, j] for j in range(FEATURES)}
            columns |= {"region": region, "y": np.where(y, "yes", "no")}
            options = csv.WriteOptions(include_header=start == 0)
            csv.write_csv(pa.table(columns), file, options)


def fit(table: Path, out: Path, memory: str) -> tuple[dict[str, Any], float]:
    """What `anymix fit` prints as JSON, and the most memory it had, in MB."""
    words = [str(table), "-t", "y", "-d", "region", "--out", str(out), "--memory", memory, "--json"]
    return measured(["fit", *words, "--gamma", "1e-4"], table.parent)


def measured(words: list[str], folder: Path) -> tuple[dict[str, Any], float]:
    """What a command prints as JSON, and the most memory it had, in MB."""
    source = str(Path(ax.__file__).parents[1])
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, sys.executable, "-m", "anymix", *words],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder)},
    )
    return json.loads(done.stdout), int(done.stderr.split()[-1]) / 1e3


def same_on_a_tenth(folder: Path, n: int) -> None:
    """The model of the rows in memory, and that of the same rows in stretches."""
    table = folder / "tenth.csv"
    write(table, n)
    said = []
    for memory in ("20GB", "1MB"):
        out = folder / f"{memory}.joblib"
        found, _ = fit(table, out, memory)
        assert any("in stretches" in note for note in found["notes"]) == (memory == "1MB")
        assert found["certificate"]["gap"] <= 1e-6
        from anymix.tables import load_model

        model = load_model(out)
        rows = pd.read_csv(table, nrows=2000)
        said.append((found, model.predict_proba(rows), model.fit.model.coef))
    (here, P, coef), (there, Q, other) = said
    assert there["robustness"] == here["robustness"]
    assert there["certificate"]["upper"] == pytest.approx(here["certificate"]["upper"], abs=2e-6)
    np.testing.assert_allclose(Q, P, atol=2e-3)
    np.testing.assert_allclose(other, coef, atol=5e-3)


@pytest.mark.slow
def test_two_gigabytes_in_700_megabytes(tmp_path: Path) -> None:
    table = tmp_path / "large.csv"
    write(table, ROWS_OF_2_GB)
    assert table.stat().st_size > 2e9
    found, most = fit(table, tmp_path / "large.joblib", "300MB")
    table.unlink()
    assert any("in stretches" in note for note in found["notes"])
    assert found["certificate"]["gap"] <= 1e-6
    assert most <= MOST
    assert sorted(p.name for p in tmp_path.iterdir()) == ["large.joblib"]
    same_on_a_tenth(tmp_path, ROWS_OF_2_GB // 10)


def predictions(n: int = 1000) -> pd.DataFrame:
    """Predictions of two models that say nothing of the ill."""
    rng = np.random.default_rng(0)
    q, region = rng.uniform(size=n), rng.choice(["north", "south"], n)
    ill, age = rng.choice(["yes", "no"], n), rng.normal(size=n)
    y = (rng.uniform(size=n) < np.where(ill == "yes", 1 - q, q)).astype(int)
    said = {"y": y, "z": 1 - y, "q": q, "r": 0.3 + 0.4 * q, "w": rng.uniform(1, 2, n).round(3)}
    more = {"region": region, "age": age, "ill": ill}
    return pd.DataFrame(said | more)


def test_an_audit_needs_memory_for_its_columns_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    predictions().to_csv(table := tmp_path / "a.csv", index=False)
    words = ["audit", table, "-t", "y", "-p", "q", "-d", "region", "--json"]
    for more, cells in (
        (["--against", "r"], 4000),
        (["--weight", "w", "--metric", "f1", "--metric", "rates"], 4000),
        (["-t", "z", "-p", "r"], 5000),
    ):
        whole = json.loads(run(*words, *more))
        check_equal(json.loads(run(*words, *more, "--memory", f"{40 * cells}")), whole)
    code, message = fail(monkeypatch, capsys, *words, "--memory", f"{40 * 3000 - 1}")
    assert code == 1
    assert message.startswith("error: --memory")


@pytest.mark.parametrize("drawn", [1000, 600])
def test_segments_are_searched_in_rows_drawn_where_not_all_columns_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawn: int
) -> None:
    monkeypatch.setattr("anymix.cli.audited_tables.DRAWN", drawn)
    monkeypatch.setattr("anymix.tables.files.CHUNK", 300)
    frame = predictions().drop(columns=["z", "w"])
    frame.to_csv(table := tmp_path / "a.csv", index=False)
    words = ["audit", table, "-t", "y", "-p", "q", "--against", "r", "-d", "region"]
    words += ["--find-segments", "--json"]
    whole, some = json.loads(run(*words)), json.loads(run(*words, "--memory", "200kB"))
    notes = some.pop("notes"), whole.pop("notes")
    segments = some.pop("segments"), whole.pop("segments")
    check_equal(some, whole)
    if drawn == 1000:
        check_equal(notes[0], notes[1])
        check_equal(segments[0], segments[1])
    else:
        assert any(f"{drawn:,} rows" in note for note in notes[0])
        assert segments[0] != segments[1]
        assert {s[0]["conditions"][0] for s in segments} == {"ill is yes"}
        assert segments[0][0]["loss"] == pytest.approx(segments[1][0]["loss"], abs=0.2)


def test_rows_of_weight_0_are_not_searched(tmp_path: Path) -> None:
    frame = predictions().drop(columns=["z", "r"])
    frame["w"] = np.arange(len(frame)) % 3
    found = []
    for rows in (frame, frame[frame["w"] > 0]):
        rows.to_csv(table := tmp_path / "a.csv", index=False)
        words = ["-t", "y", "-p", "q", "-d", "region", "--weight", "w", "--find-segments", "--json"]
        found.append(json.loads(run("audit", table, *words))["segments"])
    check_equal(*found)


def test_an_audit_of_three_columns_of_22_takes_what_three_take(tmp_path: Path) -> None:
    few, many = 20_000, 400_000  # one chunk of the reader, and 20
    most = {}
    for n in (few, many):
        write(table := tmp_path / f"{n}.csv", n)
        words = ["audit", str(table), "-t", "x0", "-p", "x1", "-d", "region", "--json"]
        _, most[n] = measured(words, tmp_path)
    assert most[many] - most[few] <= 40e-6 * 3 * (many - few)  # MB; all columns would add 58
