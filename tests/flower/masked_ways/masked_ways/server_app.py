from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from anymix.flower import AgnosticStrategy, Patience, Secure, federated_solve
from anymix.flower.engines import save_result, show_log

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    show_log()
    n, timeout = int(context.run_config["num-clients"]), float(context.run_config["timeout"])
    solution = federated_solve(grid, gamma=0.01, n_clients=n, timeout=timeout, aggregation=Secure())
    strategy = AgnosticStrategy(
        step_w=0.5,
        step_mixture=0.1,
        output="last",
        aggregation=Secure(by_domain=True),
        patience=Patience(min_clients=n),
    )
    trained = strategy.start(grid, num_rounds=2, timeout=timeout)
    result: dict[str, Any] = {
        "solved": solution.w.tolist(),
        "gap": solution.certificate.gap,
        "trained": trained.w.tolist(),
        "clients": [record["clients"] for record in trained.history],
    }
    save_result(context, result)
