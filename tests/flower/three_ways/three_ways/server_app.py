from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from anymix.flower import AgnosticStrategy, Patience, Steps, Work, federated_solve
from anymix.flower.engines import save_result, show_log
from anymix.solvers.samplers import ModelSampler, PerDomain, Weighted

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    show_log()
    if context.run_config["fail"] == "server":
        raise ValueError("the model is on strike")
    n_clients = int(context.run_config["num-clients"])
    timeout = float(context.run_config["timeout"])
    solution = federated_solve(grid, n_clients=n_clients, timeout=timeout)
    result: dict[str, Any] = {
        "w": solution.w.tolist(),
        "mixture": solution.mixture.tolist(),
        "gap": solution.certificate.gap,
        "rounds": len(solution.rounds),
    }
    samplers: dict[str, ModelSampler] = {"per-domain": PerDomain(5), "weighted": Weighted(5)}
    for name, sampler in samplers.items():
        strategy = AgnosticStrategy(
            steps=Steps(0.5, 0.1),
            work=Work(sampler=sampler),
            patience=Patience(min_clients=n_clients, introduction=timeout),
            seed=3,
        )
        trained = strategy.start(grid, num_rounds=3)
        result[name] = {"w": trained.w.tolist(), "mixture": trained.mixture.tolist()}
    save_result(context, result)
