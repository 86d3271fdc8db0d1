"""Real processes: a SuperLink, SuperNodes and `flwr run`."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL

import pytest
from flower.left_over import alive

from anymix.flower.apps import App
from anymix.flower.engines import federate
from anymix.flower.processes import family_of
from anymix.flower.superlink import start_node, start_superlink

THREE_WAYS = Path(__file__).parent / "three_ways"

pytestmark = pytest.mark.deployment


def test_deployment_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """federated_solve, and three rounds of PerDomain and Weighted, on two nodes."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lines: list[str] = []
    assert federate(THREE_WAYS, "deployment", show=lines.append) == federate(THREE_WAYS, "local")
    assert [line for line in lines if line.startswith("round 1: 2 answers")]
    assert alive(str(tmp_path)) == []


def test_a_server_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ValueError, match="model is on strike"):
        federate(THREE_WAYS, "deployment", {"fail": "server"})
    assert alive(str(tmp_path)) == []


def test_the_text_of_a_clients_error_stays_in_its_own_log(tmp_path: Path) -> None:
    config = {"out": str(tmp_path / "out.json"), "timeout": 120.0, "fail": "client"}
    lines: list[str] = []
    with ExitStack() as processes:
        job = App.read(THREE_WAYS, config)
        flower = start_superlink(processes, tmp_path, [])
        for i in range(2):
            start_node(processes, flower, job, i, f"node{i}")
        with pytest.raises(ValueError, match=r"node \d+: .* own log"):
            flower.run_app(job, lines.append)
    assert "the disk is empty" not in "".join(lines)
    assert "the disk is empty" not in (tmp_path / "superlink.log").read_text()
    assert "the disk is empty" in "".join(p.read_text() for p in tmp_path.glob("node*.log"))


def test_a_killed_client_that_comes_back_changes_nothing(tmp_path: Path) -> None:
    """kill -9 of a SuperNode in the middle of federated_solve; another takes its place."""
    config = {"out": str(tmp_path / "out.json"), "timeout": 120.0}  # processes start in that time
    job = App.read(THREE_WAYS, config)
    with ExitStack() as processes:
        flower = start_superlink(processes, tmp_path, [])
        nodes = [start_node(processes, flower, job, i, f"node{i}") for i in range(2)]

        def kill(line: str) -> None:
            if line.startswith("round 2"):
                for pid in {nodes[1].pid, *(p.pid for p in family_of(nodes[1]))}:
                    os.kill(pid, SIGKILL)
                start_node(processes, flower, job, 1, "node1-again")

        flower.run_app(job, kill)
    assert nodes[1].returncode == -SIGKILL
    result = json.loads((tmp_path / "out.json").read_text())
    assert result == federate(THREE_WAYS, "local")
    assert alive(str(tmp_path)) == []
