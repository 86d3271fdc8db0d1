from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from anymix.flower import federated_solve
from anymix.flower.engines import save_result, show_log
from anymix.flower.personal import federated_choice, federated_clusters, federated_personal

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    show_log()
    n = int(context.run_config["num-clients"])
    timeout = float(context.run_config["timeout"])
    shared = federated_solve(grid, gamma=0.01, n_clients=n, timeout=timeout)
    clusters = federated_clusters(grid, 2, n_clients=n, timeout=timeout)
    first = federated_personal(grid, shared.w, n_clients=n, timeout=timeout)
    second = federated_personal(grid, 0.9 * shared.w, n_clients=n, timeout=timeout)
    start = [[0.0, 0.1, 0.0, 0.0], [0.0, -0.1, 0.0, 0.0]]
    chosen = federated_choice(grid, start, rounds=2, n_clients=n, timeout=timeout)
    save_result(
        context,
        {
            "labels": clusters.by_key,
            "centers": clusters.centers.tolist(),
            "shared": first.shared_loss.tolist(),
            "personal": [first.personal_loss.tolist(), second.personal_loss.tolist()],
            "choices": chosen.choices,
            "models": chosen.models.tolist(),
        },
    )
