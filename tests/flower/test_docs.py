"""docs/federated.md, followed line by line: every command in it is run, on real processes."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from anymix.flower.engines import federate
from anymix.flower.processes import flower_env, free_port, running, script, wait_for_port

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "federated.md").read_text()


def commands(section: str) -> list[str]:
    """The commands of a section, in the order of the page."""
    text = DOCS.partition(f"## {section}")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def write_the_app(folder: Path) -> Path:
    """The files of "A whole app", as the page has them."""
    text = DOCS.partition("## A whole app")[2].partition("\n## ")[0]
    found = re.findall(
        r"`(hospitals/[^`]*\.(?:toml|py))`[^`]*:\n\n```\w+\n(.*?)```", text, re.DOTALL
    )
    assert [Path(name).name for name, _ in found] == [
        "pyproject.toml",
        "client_app.py",
        "server_app.py",
    ]
    (folder / "hospitals" / "hospitals").mkdir(parents=True)
    (folder / "hospitals" / "hospitals" / "__init__.py").write_text("")
    for name, content in found:
        (folder / name).write_text(content)
    return folder / "hospitals"


def check_the_app(found: Any) -> None:
    assert found["domains"] == ["adult", "child", "old"]
    assert found["robustness"] > 0
    assert found["chosen"][1] < found["ordinary"][1]  # children were served worst


def test_a_whole_app_can_be_pasted(tmp_path: Path) -> None:
    check_the_app(federate(write_the_app(tmp_path)))


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("ray", marks=pytest.mark.ray),
        pytest.param("deployment", marks=pytest.mark.deployment),
    ],
)
def test_a_whole_app_on_other_engines(tmp_path: Path, engine: Any) -> None:
    """By `flwr run`, in Flower's simulation and as processes: the same numbers."""
    if engine == "ray":
        pytest.importorskip("ray")
    app = write_the_app(tmp_path)
    assert federate(app, engine) == federate(app)


@pytest.mark.deployment
@pytest.mark.parametrize("command", commands("Engines"))
def test_the_engines(command: str) -> None:
    if "--engine ray" in command:
        pytest.importorskip("ray")
    done = subprocess.run(
        [str(Path(sys.executable).parent / "anymix"), *shlex.split(command)[1:], "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["domains"]


@pytest.mark.deployment
def test_on_your_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's own lines, with this machine for example.org and a free port for 8000."""
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "federated_adult"))
    tls = importlib.import_module("tls")
    tls.make_certificates(tmp_path)
    port, env, out = free_port(), flower_env(tmp_path), tmp_path / "result.json"

    def here(text: str) -> str:
        text = text.replace("example.org", "127.0.0.1").replace("8000", str(port))
        return re.sub(r"ca\.crt|server\.pem|server\.key", lambda m: str(tmp_path / m[0]), text)

    config = DOCS.partition("```toml\n[superlink.tls]")[2].partition("```")[0]
    (tmp_path / "config.toml").write_text("[superlink.tls]" + here(config))
    superlink, *client, run = commands("On your network, with TLS and node authentication")
    with ExitStack() as processes:

        def start(command: str, name: str, *more: str) -> Any:
            log = tmp_path / f"{name}.log"
            return processes.enter_context(running([*shlex.split(here(command)), *more], env, log))

        def do(command: str, *more: str) -> None:
            first, *rest = shlex.split(here(command))
            path = script(first) if first == "flwr" else first
            cwd = ROOT if rest[0] == "run" else tmp_path
            done = subprocess.run(
                [path, *rest, *more], env=env, cwd=cwd, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr

        server = start(superlink, "superlink", "--disable-runtime-dependency-installation")
        wait_for_port(port, server, tmp_path / "superlink.log")
        for i in range(2):
            *make, register, node = (
                line.replace("node0", f"node{i}").replace("partition-id=0", f"partition-id={i}")
                for line in client
            )
            for command in (*make, register):
                do(command)
            key = node.replace(f"private-key node{i}", f"private-key {tmp_path / f'node{i}'}")
            start(key, f"supernode{i}", "--port", str(free_port()))  # two on one machine
        do(run, "-c", f'out="{out}"')
    assert (
        json.loads(out.read_text())["objective"]
        == federate(ROOT / "examples/federated_adult")["objective"]
    )
