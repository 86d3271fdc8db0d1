"""The example apps, as a user runs them, and the command that runs them."""

from __future__ import annotations

import json
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from typer.testing import CliRunner

from anymix import datasets
from anymix.domains import LinearDomains
from anymix.exact import solve
from anymix.flower.attendance import MissingClientsError
from anymix.flower.command import app
from anymix.flower.running import federate
from anymix.mixtures import Point

EXAMPLES = Path(__file__).parents[2] / "examples"
ADULT, KEYBOARD = EXAMPLES / "federated_adult", EXAMPLES / "federated_keyboard"


def test_adult_is_solved_to_the_optimum_of_all_rows() -> None:
    result = federate(ADULT)
    data = datasets.load_adult()
    central = solve(LinearDomains(data.X, data.y, data.domains), tol=1e-9)
    assert result["domains"] == ["doctorate", "non-doctorate"]
    assert result["gap"] <= 1e-6
    assert result["rounds"] <= 20
    assert central.objective - 1e-9 <= result["objective"] <= central.objective + 1e-6


def test_adult_trained_comes_close() -> None:
    solved = federate(ADULT, run_config={"num-clients": 4})
    trained = federate(ADULT, run_config={"num-clients": 4, "method": "train", "num-rounds": 150})
    assert max(trained["domain_losses"]) <= max(solved["domain_losses"]) + 0.02
    assert trained["mixture"] == pytest.approx(solved["mixture"], abs=0.1)


def keyboard_rows() -> tuple[Any, list[str], list[str]]:
    federate(KEYBOARD, run_config={"num-clients": 1})  # which imports its modules
    load = sys.modules["federated_keyboard.client_app"].load
    phones = [load(Context(1, i, {"partition-id": i}, RecordDict(), {})) for i in range(4)]
    X, y, domains = zip(*phones, strict=True)
    return np.vstack(X), list(chain(*y)), list(chain(*domains))


def test_a_phone_holds_three_domains() -> None:
    X, y, domains = keyboard_rows()
    problem = LinearDomains(X, y, domains)
    assert problem.domain_names.tolist() == ["chat", "mail", "web"]
    assert problem.sizes[0] > 2 * problem.sizes[1] > 2 * problem.sizes[2]  # people chat most
    result = federate(KEYBOARD)
    agnostic = solve(problem, tol=1e-9)
    plain = solve(problem, Point(problem.reference), tol=1e-9)
    assert result["objective"] == pytest.approx(agnostic.objective, abs=1e-6)
    assert max(result["domain_losses"]) < plain.domain_losses.max() - 0.1


@pytest.mark.parametrize("sampler", ["full", "per-domain", "weighted"])
def test_keyboard_can_be_trained(sampler: str) -> None:
    config = {"method": "train", "sampler": sampler, "num-rounds": 10}
    lines: list[str] = []
    result = federate(KEYBOARD, run_config=config, show=lines.append)
    assert lines[:10] == [f"round {k}" for k in range(1, 11)]
    assert result["rounds"] == 10
    assert len(result["w"]) == len(result["w_average"]) == 12 * 13
    assert sum(result["mixture"]) == pytest.approx(1.0)


# -- anymix federate -------------------------------------------------------------------------------


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["--app", str(KEYBOARD), *arguments])


def test_command_prints_the_domains() -> None:
    done = run("-c", "num-clients=2")
    assert done.exit_code == 0
    for word in ("chat", "mail", "web", "mixture", "domain_losses", "gap: ", "rounds: "):
        assert word in done.stdout
    assert "[" not in done.stdout  # no vectors


def test_command_prints_json() -> None:
    done = run("--json", "-c", "num-clients=2 tol=1e-4", "--run-config", "gamma=0.01")
    expected = federate(KEYBOARD, run_config={"num-clients": 2, "tol": 1e-4, "gamma": 0.01})
    assert json.loads(done.stdout) == expected


def test_command_can_be_quiet() -> None:
    done = run("-q", "-c", "num-clients=2")
    assert (done.exit_code, done.output) == (0, "")


def test_command_refuses() -> None:
    assert run("--engine", "cluster").exit_code == 2
    error = run("-c", "rounds=3").exception
    assert isinstance(error, ValueError)
    assert "this app knows" in str(error)


def test_command_tells_in_a_line_that_clients_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*a: Any, **k: Any) -> None:
        raise MissingClientsError("nobody came")

    monkeypatch.setattr("anymix.flower.command.federate", nobody)
    error = run().exception
    assert isinstance(error, ValueError)
    assert str(error) == "nobody came"
