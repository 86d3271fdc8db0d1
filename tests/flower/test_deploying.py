"""The example that logs, and the files for containers, which are read and not run."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode as parser_of_nodes

EXAMPLES = Path(__file__).parents[2] / "examples"
DOCKER = EXAMPLES / "federated_docker"


def test_a_run_is_logged_for_tensorboard_round_by_round(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing import (  # type: ignore[import-untyped]
        event_accumulator,
    )

    spec = importlib.util.spec_from_file_location(
        "logging_example", EXAMPLES / "federated_logging.py"
    )
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert example.tensorboard(tmp_path) == example.ROUNDS
    events = event_accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    losses = events.Scalars("agnostic_loss")
    assert [event.step for event in losses] == list(range(1, example.ROUNDS + 1))
    assert losses[-1].value < losses[0].value
    total = sum(events.Scalars(f"mixture/{name}")[3].value for name in ("chat", "mail", "web"))
    assert abs(total - 1) < 1e-6


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    return found


def test_the_compose_file_starts_what_flower_has() -> None:
    link, nodes = services().pop("superlink"), {**services()}
    del nodes["superlink"]
    assert link["command"][0] == "flower-superlink"
    known = parser_of_nodes()
    for i, node in enumerate(nodes.values()):
        assert node["command"][0] == "flower-supernode"
        options = known.parse_args(node["command"][1:])
        assert options.superlink == "superlink:8000"
        assert options.node_config == f"partition-id={i} num-partitions={len(nodes)}"
        assert node["depends_on"] == ["superlink"]
        assert node["build"] == link["build"]
    place = (DOCKER / link["build"]["context"]).resolve()
    assert (place / link["build"]["dockerfile"]).samefile(DOCKER / "Dockerfile")


def test_the_dockerfile_copies_what_is_there() -> None:
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "CMD"}
    assert {line.split()[0] for line in lines} == known
    for line in lines:
        if line.startswith("COPY"):
            for name in line.split()[1:-1]:
                assert (EXAMPLES.parent / name).exists(), name
    extras = re.findall(r"\.\[(.*?)\]", text)
    assert extras == ["flower,privacy"]
