"""Real processes: a SuperLink, SuperNodes and `flwr run`."""

from __future__ import annotations

from pathlib import Path

import pytest

from anymix.flower.running import federate

THREE_WAYS = Path(__file__).parent / "three_ways"

pytestmark = pytest.mark.deployment


def alive(home: str) -> list[str]:
    """Commands of processes that were started with a FLWR_HOME of ours and still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_text(errors="replace")
            if f"FLWR_HOME={home}" in environment:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it ended while we looked
            continue
    return found


def test_deployment_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """federated_solve, and three rounds of PerDomain and Weighted, on two nodes."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lines: list[str] = []
    assert federate(THREE_WAYS, "deployment", show=lines.append) == federate(THREE_WAYS, "local")
    assert [line for line in lines if line.startswith("round 1: 2 answers")]
    assert alive(str(tmp_path)) == []


def test_a_server_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ValueError, match="the model is on strike"):
        federate(THREE_WAYS, "deployment", {"fail": "server"})
    assert alive(str(tmp_path)) == []
