"""A round with secure aggregation against Flower's own SecAgg+ with FedAvg, by CPU time.

    python benchmarks/federated.py --only secure

Same grid, same clients, same rows, same threshold, all clients neighbours of each other. Flower's
workflow is driven on a grid in this process, as `LocalGrid` drives ours; its client takes the same
gradient step. Target: at most 1.3 times Flower's round.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, RecordDict
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.compat.common.recorddict_compat import parameters_to_arrayrecord
from flwr.server import LegacyContext, SimpleClientManager
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow

import anymix as ax
from anymix.flower import AgnosticStrategy, LocalGrid, Secure, client_app, secured

N_ROWS = 100


def rows_of(client: int, n_features: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(client)
    X = rng.normal(size=(N_ROWS, n_features))
    return X, np.arange(N_ROWS) % 2, rng.choice(["a", "b"], N_ROWS)


class Fit(NumPyClient):
    """One gradient step of logistic regression, as anyone would write it."""

    def __init__(self, problem: ax.LinearDomains) -> None:
        self.problem = problem

    def fit(self, parameters: Any, config: Any) -> tuple[list[Any], int, dict[str, Any]]:
        """The model after one step."""
        w, problem = parameters[0], self.problem
        _, slope = problem.loss.derivatives(problem.scores(w), problem.y, 1)
        w = w - 0.1 * problem.pull_back(slope / len(slope))
        return [w], len(slope), {}


def flower_round(n: int, n_features: int) -> tuple[Any, LocalGrid]:
    """A function that makes one round of Flower's SecAgg+, and its grid."""
    kept: dict[int, ax.LinearDomains] = {}

    def client(context: Context) -> Any:
        i = int(context.node_config["partition-id"])
        if i not in kept:
            X, y, _ = rows_of(i, n_features)
            kept[i] = ax.LinearDomains(X, y, np.zeros(len(y), dtype=int))
        return Fit(kept[i]).to_client()

    grid = LocalGrid(ClientApp(client_fn=client, mods=[secaggplus_mod]), n)
    manager = SimpleClientManager()
    for node_id in grid.get_node_ids():
        manager.register(GridClientProxy(node_id, grid, grid.run.run_id))
    context = LegacyContext(
        Context(grid.run.run_id, 0, {}, RecordDict(), {}),
        strategy=FedAvg(min_fit_clients=n, min_available_clients=n),
        client_manager=manager,
    )
    start = ndarrays_to_parameters([np.zeros(n_features + 1)])
    context.state.array_records["parameters"] = parameters_to_arrayrecord(start, True)
    workflow = SecAggPlusWorkflow(num_shares=1.0, reconstruction_threshold=2 / 3)

    def one(number: int) -> None:
        context.state.config_records["config"] = ConfigRecord({"current_round": number})
        workflow(grid, context)

    return one, grid


def our_rounds(n: int, n_features: int, by_domain: bool, num_rounds: int) -> tuple[float, int]:
    """The least CPU time of a round, and its bytes."""
    app = client_app(lambda context: rows_of(int(context.node_config["partition-id"]), n_features))
    grid, marks = LocalGrid(secured(app), n), [(0.0, 0)]
    strategy = AgnosticStrategy(
        step_w=0.1, step_mixture=0.1, output="last", aggregation=Secure(by_domain=by_domain)
    )
    strategy.start(
        grid,
        num_rounds=num_rounds,
        evaluate_fn=lambda t, a: marks.append((time.process_time(), grid.bytes)),
    )
    return _least(marks[1:])


def _least(marks: list[tuple[float, int]]) -> tuple[float, int]:
    seconds, size = np.diff(np.array(marks, dtype=float), axis=0)[1:].min(axis=0)
    return float(seconds), int(size)


def secure() -> dict[str, Any]:
    """Clients and columns → seconds and kB a round, ours (and by domain) beside Flower's."""
    found = {}
    for n, n_features in ((6, 20), (20, 20), (6, 10_000), (20, 10_000)):
        num_rounds = 5
        ours = [our_rounds(n, n_features, False, num_rounds) for _ in range(2)]
        split = [our_rounds(n, n_features, True, num_rounds) for _ in range(2)]
        one, grid = flower_round(n, n_features)
        marks = [(time.process_time(), grid.bytes)]
        for number in range(1, num_rounds + 1):
            one(number)
            marks.append((time.process_time(), grid.bytes))
        (us, size), (by_domain, _), (them, theirs) = min(ours), min(split), _least(marks)
        found[f"{n} clients, {n_features} columns"] = {
            "anymix": us,
            "by domain": by_domain,
            "SecAgg+": them,
            "ratio": us / them,
            "ratio by domain": by_domain / them,
            "anymix kB": size / 1e3,
            "SecAgg+ kB": theirs / 1e3,
        }
    return found
