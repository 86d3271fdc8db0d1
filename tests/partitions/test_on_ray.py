"""A real Ray cluster on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from partitions.test_parquet_files import in_memory, people

import anymix as ax
from anymix.errors import InputError
from anymix.partitions import from_ray

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
        env={**os.environ, "PYTHONPATH": path_there},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["blocks"]["feature_names"] == features.titles
    central = ax.solve(whole, gamma=1e-2, tol=1e-12)
    assert found["blocks"]["objective"] == pytest.approx(central.objective, abs=1e-10)
    assert found["blocks"]["gap"] <= 1e-10
    assert "part 1: column 'income' has 1 missing" in found["bad"]
    assert found["killed"]["killed"] >= 1
    assert found["killed"]["same"]


def test_what_is_no_dataset_is_refused() -> None:
    with pytest.raises(InputError, match="dataset is a list"):
        from_ray([], "y", "g")
