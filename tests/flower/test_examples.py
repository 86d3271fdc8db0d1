"""The example apps, as a user runs them."""

from __future__ import annotations

import re
import runpy
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.supercore.constant import DEFAULT_SIMULATION_CONFIG

from anymix import datasets
from anymix.flower import LocalGrid
from anymix.flower.apps import App, read_overrides
from anymix.flower.engines import federate
from anymix.mixtures import Point
from anymix.problem.linear import LinearDomains
from anymix.solvers.exact import solve

EXAMPLES = Path(__file__).parents[2] / "examples"
ADULT, KEYBOARD = EXAMPLES / "federated_adult", EXAMPLES / "federated_keyboard"


@pytest.mark.parametrize("folder", [ADULT, KEYBOARD])
def test_flwr_run_works_without_any_settings(folder: Path) -> None:
    """Flower simulates two nodes by default: "2 of 20 clients" came, and the run stopped."""
    assert App.read(folder, {}).n_clients == DEFAULT_SIMULATION_CONFIG.num_supernodes


PAGES = [*EXAMPLES.glob("federated_*/README.md"), *(EXAMPLES.parent / "docs").glob("*.md")]
COMMANDS = [
    found
    for page in PAGES
    for found in re.findall(r"--app (examples/\S+)[^\n]* -c '([^']+)'", page.read_text("utf-8"))
]


@pytest.mark.parametrize(("app", "config"), COMMANDS)
def test_the_pages_name_settings_that_the_app_has(app: str, config: str) -> None:
    given = read_overrides([config])
    assert App.read(EXAMPLES.parent / app, given).overrides == given


def test_adult_is_solved_to_the_optimum_of_all_rows() -> None:
    result = federate(ADULT, run_config={"num-clients": 20})
    data = datasets.load_adult()
    central = solve(LinearDomains(data.X, data.y, data.domains), tol=1e-9)
    assert result["domains"] == ["doctorate", "non-doctorate"]
    assert result["gap"] <= 1e-6
    assert result["rounds"] <= 20
    assert central.objective - 1e-9 <= result["objective"] <= central.objective + 1e-6


def test_adult_trained_comes_close() -> None:
    solved = federate(ADULT, run_config={"num-clients": 4})
    trained = federate(
        ADULT, run_config={"num-clients": 4, "method": "train", "num-server-rounds": 150}
    )
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
    result = federate(KEYBOARD, run_config={"num-clients": 4})
    agnostic = solve(problem, tol=1e-9)
    plain = solve(problem, Point(problem.reference), tol=1e-9)
    assert result["objective"] == pytest.approx(agnostic.objective, abs=1e-6)
    assert max(result["domain_losses"]) < plain.domain_losses.max() - 0.1


@pytest.mark.parametrize("sampler", ["full", "per-domain", "weighted"])
def test_keyboard_can_be_trained(sampler: str) -> None:
    config = {"method": "train", "sampler": sampler, "num-server-rounds": 10}
    lines: list[str] = []
    result = federate(KEYBOARD, run_config=config, show=lines.append)
    assert [line.partition(":")[0] for line in lines[:10]] == [f"round {k}" for k in range(1, 11)]
    assert result["rounds"] == 10
    assert len(result["w"]) == len(result["w_average"]) == 12 * 13
    assert sum(result["mixture"]) == pytest.approx(1.0)


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, list[float]]:
    """The numbers of each line that an example prints, by the line's first word."""
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    return {words[0]: [float(x) for x in words[1:] if "." in x] for words in lines}


def test_clusters_of_clients_find_the_rare_kind(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed("federated_clusters", capsys)
    assert len(found["agnostic"]) == 3  # kinds of clients, which nobody told
    assert max(found["agnostic"]) < max(found["ordinary"]) - 0.2


def test_personal_models_are_better_for_clients_that_differ(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = printed("federated_personal", capsys)
    assert found["personal"][0] < found["shared"][0] - 0.05


def test_the_own_model_stays_with_the_client() -> None:
    space = runpy.run_path(str(EXAMPLES / "federated_personal.py"))
    grid = LocalGrid(space["app"], nodes=2)
    sent = RecordDict({"model": ArrayRecord([np.zeros(4)])})
    asked = [Message(sent, node, "query.personal") for node in grid.get_node_ids()]
    for reply in grid.send_and_receive(asked):
        assert list(reply.content) == ["told"]
        assert set(reply.content.metric_records["told"]) == {"rows", "shared", "personal"}
