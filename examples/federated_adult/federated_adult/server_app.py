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
    save_result(context, {"solve": solve, "train": train}[config["method"]](grid, config))


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
    fraction, n = config["fraction-train"], config["num-clients"]
    n_asked = None if fraction == 1 else max(1, round(fraction * n))
    strategy = AgnosticStrategy(
        ax.Objective(gamma=config["gamma"]),
        work=Work(samplers[config["sampler"]], clients_per_round=n_asked),
        patience=Patience(min_clients=n),
        seed=config["seed"],
    )
    result = strategy.start(
        grid,
        num_rounds=config["num-server-rounds"],
        on_round=lambda r: log.info("round %d: worst domain %.4f", r["round"], r["agnostic_loss"]),
    )
    return {
        "domains": list(result.domains),
        "mixture": result.mixture.tolist(),
        "domain_losses": result.history[-1]["domain_losses"],
        "rounds": len(result.history),
        "w": result.w_best.tolist(),
        "w_average": result.w_average.tolist(),
    }
