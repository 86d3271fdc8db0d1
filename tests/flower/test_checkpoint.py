"""A run on disk: killed servers, files that cannot be used, and what a round costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flower.clients import grid_of
from flower.test_faults import STEPS, stumbling

from anymix.flower import AgnosticStrategy, Patience, Steps

RUN = """
import os, signal, sys
import anymix as ax
from anymix.flower import AgnosticStrategy, Steps, Work
from anymix.solvers.samplers import Weighted
from anymix.solvers.optimizers import Adam
from flower.clients import grid_of
path, kill_after, kill_in_save = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "save"

def maybe(number, arrays):
    if number == kill_after and not kill_in_save:
        os.kill(os.getpid(), signal.SIGKILL)

if kill_in_save:  # after the new file is written beside, before it takes the place of the old
    replace, count = os.replace, [0]
    def fatal(new, target):
        count[0] += 1
        if count[0] == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(new, target)
    os.replace = fatal
strategy = AgnosticStrategy(
    steps=Steps(0.05, 0.1, optimizer=Adam(), optimistic=True, adversary="entropic"),
    work=Work(Weighted(2)), checkpoint=path, seed=5,
)
result = strategy.start(grid_of("mixed", seed=int(sys.argv[4])), num_rounds=8, evaluate_fn=maybe)
print(result.w.tobytes().hex(), result.mixture.tobytes().hex(), result.w_average.tobytes().hex(),
      [(r["round"], r["mixture"]) for r in result.history])
"""


def run_script(path: Path, kill_after: int, where: str, node_seed: int) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RUN), path, str(kill_after), where, str(node_seed)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return done.returncode, done.stdout if done.returncode in (0, -signal.SIGKILL) else done.stderr


@pytest.mark.parametrize("where", ["round", "save"])
def test_a_killed_server_resumes_to_the_same_bits(tmp_path: Path, where: str) -> None:
    code, calm = run_script(tmp_path / "calm.npz", 99, "round", 0)
    assert code == 0, calm
    code, _ = run_script(tmp_path / "killed.npz", 4, where, 0)
    assert code == -signal.SIGKILL
    code, resumed = run_script(tmp_path / "killed.npz", 99, "round", 1)  # other node ids
    assert code == 0, resumed
    assert resumed == calm


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    AgnosticStrategy(checkpoint=path, **STEPS).start(grid_of(), num_rounds=1)
    strategy = AgnosticStrategy(steps=Steps(0.3, 0.1, optimistic=True), checkpoint=path)
    with pytest.raises(ValueError, match=r"optimistic=False.*this one has.*optimistic=True"):
        strategy.start(grid_of(), num_rounds=2)
    path.write_bytes(b"half a file")
    with pytest.raises(ValueError, match=r"run.npz .*cannot be read"):
        AgnosticStrategy(checkpoint=path, **STEPS).start(grid_of(), num_rounds=2)


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    first = AgnosticStrategy(checkpoint=path, **STEPS).start(grid_of(), num_rounds=3)
    grid = grid_of()
    again = AgnosticStrategy(checkpoint=path, **STEPS).start(grid, num_rounds=3)
    np.testing.assert_array_equal(first.w, again.w)
    assert len(again.history) == 3


def test_who_was_left_out_stays_out_after_a_restart(tmp_path: Path) -> None:
    options: dict[str, Any] = {**STEPS, "patience": Patience("skip", max_failures=1)}
    path = tmp_path / "run.npz"
    AgnosticStrategy(checkpoint=path, **options).start(stumbling(1), num_rounds=2)
    result = AgnosticStrategy(checkpoint=path, **options).start(grid_of("parts"), num_rounds=3)
    assert [r["clients"] for r in result.history] == [6, 5, 5]


def test_a_round_costs_the_same_however_many_there_were(tmp_path: Path) -> None:
    """The history is appended to; the state itself does not grow."""
    path, sizes = tmp_path / "run.npz", []
    strategy = AgnosticStrategy(checkpoint=path, **STEPS)
    strategy.start(
        grid_of(), num_rounds=60, evaluate_fn=lambda t, w: sizes.append(path.stat().st_size)
    )
    assert sizes[-1] - sizes[0] < 100
    lines = (tmp_path / "run.npz.history").read_text().splitlines()
    assert len(lines) == 60


def test_a_line_too_many_in_the_history_is_not_read(tmp_path: Path) -> None:
    """A server that is killed between its two files has written one record too many."""
    path = tmp_path / "run.npz"
    AgnosticStrategy(checkpoint=path, **STEPS).start(grid_of(), num_rounds=2)
    old = path.read_bytes()
    AgnosticStrategy(checkpoint=path, **STEPS).start(grid_of(), num_rounds=3)
    path.write_bytes(old)
    result = AgnosticStrategy(checkpoint=path, **STEPS).start(grid_of(), num_rounds=4)
    assert [r["round"] for r in result.history] == [1, 2, 3, 4]
    calm = AgnosticStrategy(**STEPS).start(grid_of(), num_rounds=4)
    assert result.w.tobytes() == calm.w.tobytes()
    again = AgnosticStrategy(checkpoint=path, **STEPS).start(grid_of(), num_rounds=4)
    assert again.history == result.history


def test_files_that_cannot_be_used_are_refused_before_the_first_round(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    path.touch()
    with pytest.raises(ValueError, match=r"run.npz .*cannot be read"):
        AgnosticStrategy(checkpoint=path, **STEPS).start(grid_of(), num_rounds=1)
    with pytest.raises(ValueError, match="which cannot be written"):
        AgnosticStrategy(checkpoint=path / "below" / "a-file", **STEPS).start(
            grid_of(), num_rounds=1
        )
    new = tmp_path / "a" / "b" / "run.npz"
    AgnosticStrategy(checkpoint=new, **STEPS).start(grid_of(), num_rounds=1)
    assert new.exists()
    new.with_name("run.npz.history").unlink()
    with pytest.raises(ValueError, match=r"run.npz cannot .*history"):
        AgnosticStrategy(checkpoint=new, **STEPS).start(grid_of(), num_rounds=2)
