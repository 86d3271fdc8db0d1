"""A real Ray cluster on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from partitions.test_parquet_files import in_memory, people

import anymix as ax
from anymix.errors import InputError
from anymix.partitions import from_ray
from anymix.partitions.clusters import arrow_table
from anymix.partitions.on_ray import united

SCRIPT = Path(__file__).parent / "on_a_ray_cluster.py"


@pytest.mark.ray
def test_blocks_are_the_same_problem_and_killed_workers_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    whole, features = in_memory(people(600), path)
    source = str(Path(ax.__file__).parents[1])  # Ray's workers have a path of their own
    path_there = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path_there, "RAY_worker_niceness": "0"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["blocks"]["feature_names"] == features.titles
    central = ax.solve(whole, gamma=1e-2, tol=1e-12)
    assert found["blocks"]["objective"] == pytest.approx(central.objective, abs=1e-10)
    assert found["blocks"]["gap"] <= 1e-10
    for name in ("one", "empty"):
        assert found["odd"][name]["feature_names"] == features.titles
        assert found["odd"][name]["objective"] == pytest.approx(central.objective, abs=1e-10)
    late = pd.read_parquet(path)
    gaps = late.assign(**{late.columns[0]: np.nan})
    twice, learnt = in_memory(pd.concat([gaps, late], ignore_index=True), tmp_path / "b.parquet")
    assert found["odd"]["late"]["feature_names"] == learnt.titles
    objective = ax.solve(twice, gamma=1e-2, tol=1e-12).objective
    assert found["odd"]["late"]["objective"] == pytest.approx(objective, abs=1e-10)
    assert "dataset has no rows" in found["odd"]["nothing"]["error"]
    assert "part 1: column 'income' has 1 missing" in found["bad"]
    assert found["killed"]["killed"] >= 1
    assert found["killed"]["same"]


def test_what_is_no_dataset_is_refused() -> None:
    with pytest.raises(InputError, match="dataset is a list"):
        from_ray([], "y", "g")


def test_parts_of_any_types_are_read_as_the_whole() -> None:
    whole = pa.schema([("x", pa.float64()), ("c", pa.string())])
    types = [pa.schema([("x", pa.null()), ("c", pa.string())]), whole]
    assert united(types) == united(types[::-1]) == whole
    assert arrow_table(pa.table({}), ["c", "x"], whole).schema.names == ["c", "x"]
    counts = pa.table({"c": pa.nulls(2), "x": pa.array([1, 2])})
    assert arrow_table(counts, ["x", "c"], whole).schema == whole
    with pytest.raises(InputError, match="column 'x' is missing"):
        arrow_table(counts.select(["c"]), ["x"], whole)
    with pytest.raises(InputError, match="dataset has no rows"):
        united([])
    with pytest.raises(InputError, match="dataset has blocks whose columns differ"):
        united([whole, pa.schema([("x", pa.list_(pa.int64()))])])
