"""`anymix fit` on a file that is larger than the memory it may use."""

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
from command_line import run
from pyarrow import csv

import anymix as ax

ROWS_OF_2_GB = 5_500_000
FEATURES = 20
MOST = 700  # MB that the command may have


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
    source = str(Path(ax.__file__).parents[1])
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "anymix", "fit", *words, "--gamma", "1e-4"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(table.parent)},
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return json.loads(printed), usage.ru_maxrss / 1e3


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


@pytest.mark.parametrize("more", [[], ["--against", "r", "--find-segments"]])
def test_an_audit_in_stretches_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    monkeypatch.setattr("anymix.tables.spooling.STRETCH", 300)
    rng = np.random.default_rng(0)
    q, region = rng.uniform(size=1000), rng.choice(["north", "south"], 1000)
    rows = {"y": (rng.uniform(size=1000) < q).astype(int), "q": q, "r": 0.3 + 0.4 * q}
    table = tmp_path / "a.csv"
    pd.DataFrame(rows | {"region": region, "age": rng.normal(size=1000)}).to_csv(table, index=False)
    words = ["audit", str(table), "-t", "y", "-p", "q", "-d", "region", "--json", *more]
    whole = json.loads(run(*words))
    stretched = json.loads(run(*words, "--memory", "1kB"))
    notes = stretched.pop("notes")
    assert "larger than the memory allowed: read in stretches from disk" in notes
    assert [n for n in notes if not n.startswith("larger")] == whole.pop("notes")
    check_equal(stretched, whole)
