"""A federated run in TensorBoard, MLflow or Weights & Biases, as files on this machine.

    python examples/federated_logging.py [tensorboard|mlflow|wandb] [FOLDER]

Ten clients in this process; λ, the loss of every domain, clients, bytes and seconds of each round.
`on_round` is called after every round, so the curves grow while the run goes on. Without a name,
whatever is installed is used. Nothing is sent anywhere: MLflow writes into a folder, and W&B is
offline (`wandb sync` would send it).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context

import anymix as ax
from anymix.flower import AgnosticStrategy, LocalGrid, Patience, client_app
from anymix.flower.results import numbers

Log = Callable[[int, dict[str, float]], None]

ROUNDS = 15


def load(context: Context) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(int(context.node_config["partition-id"]))
    X, app = rng.normal(size=(200, 3)), rng.choice(["chat", "mail", "web"], 200)
    slope = np.where(app == "chat", 1.0, -0.5)
    return X, slope * X[:, 0] + X[:, 1] > rng.logistic(size=200), app


def train(log: Log) -> int:
    """A run whose rounds are logged as they end; how many there were."""
    grid = LocalGrid(client_app(load), nodes=10)
    strategy = AgnosticStrategy(ax.Objective(gamma=1e-3), patience=Patience(min_clients=10))

    result = strategy.start(
        grid, num_rounds=ROUNDS, on_round=lambda record: log(record["round"], numbers(record))
    )
    return len(result.history)


def tensorboard(folder: Path) -> int:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:

        def log(t: int, values: dict[str, float]) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, t)

        return train(log)


def mlflow(folder: Path) -> int:
    import mlflow  # type: ignore[import-not-found]

    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    with mlflow.start_run():
        return train(lambda t, values: mlflow.log_metrics(values, step=t))


def wandb(folder: Path) -> int:
    import wandb  # type: ignore[import-not-found]

    os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    run = wandb.init(project="anymix", dir=str(folder))
    rounds = train(lambda t, values: run.log(values, step=t))
    run.finish()
    return rounds


def main() -> None:
    places = {"tensorboard": tensorboard, "mlflow": mlflow, "wandb": wandb}
    there = [name for name in places if importlib.util.find_spec(name)]
    names = sys.argv[1:2] or there
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else "runs")
    folder.mkdir(parents=True, exist_ok=True)
    if not set(names) <= set(there) or not names:
        sys.exit(f"{names or list(places)} cannot be imported: pip install one of them")
    for name in names:
        print(f"{name}: {places[name](folder)} rounds in {folder}")


if __name__ == "__main__":
    main()
