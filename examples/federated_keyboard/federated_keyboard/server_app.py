"""The server: the certified optimum in a few rounds, or training with AgnosticStrategy."""

import logging
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

import anymix as ax
from anymix.flower import AgnosticStrategy, Patience, Work, federated_solve
from anymix.flower.engines import save_result, show_log
from anymix.solvers.samplers import FullBatch, ModelSampler, PerDomain, Weighted

app = ServerApp()
log = logging.getLogger("anymix.flower")


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run as the run config says."""
    show_log()
    config: Any = context.run_config
    methods = {"solve": solve, "train": train}
    save_result(context, methods[config["method"]](grid, config))


def solve(grid: Grid, config: Any) -> dict[str, Any]:
    solution = federated_solve(
        grid, gamma=config["gamma"], tol=config["tol"], n_clients=config["num-clients"]
    )
    return {
        "domains": list(solution.domain_names),
        "mixture": solution.mixture.tolist(),
        "domain_losses": solution.domain_losses.tolist(),
        "objective": solution.objective,
        "gap": solution.certificate.gap,
        "rounds": len(solution.rounds) + 1,  # with the question who is there
        "w": solution.w.tolist(),
    }


def train(grid: Grid, config: Any) -> dict[str, Any]:
    size = config["batch-size"]
    samplers: dict[str, ModelSampler] = {
        "full": FullBatch(),
        "per-domain": PerDomain(size),
        "weighted": Weighted(size),
    }
    strategy = AgnosticStrategy(
        ax.Objective(gamma=config["gamma"]),
        work=Work(sampler=samplers[config["sampler"]]),
        patience=Patience(min_clients=config["num-clients"]),
        seed=config["seed"],
    )
    result = strategy.start(
        grid,
        num_rounds=config["num-rounds"],
        evaluate_fn=lambda number, arrays: log.info("round %d", number),
    )
    return {
        "domains": list(result.domains),
        "mixture": result.mixture.tolist(),
        "domain_losses": result.history[-1]["domain_losses"],
        "rounds": len(result.history),
        "w": result.w_best.tolist(),
        "w_average": result.w_average.tolist(),
    }
