from typing import Any

import numpy as np
from flwr.app import Context

from anymix.flower.personal import personal_client_app


def load(context: Context) -> tuple[Any, Any, Any]:
    """200 rows of two domains; clients of even and odd numbers are of two kinds."""
    client = int(context.node_config["partition-id"])
    rng = np.random.default_rng(client)
    X, domains = rng.normal(size=(200, 3)), rng.choice(["mail", "web"], size=200)
    signal = X[:, 0] + 2 * (-1) ** client * X[:, 1] + client % 2
    return X, (signal + rng.logistic(size=200) > 0).astype(int), domains


def folder(context: Context) -> str:
    """Where this client keeps its own model."""
    return str(context.run_config["keep-in"])


app = personal_client_app(load, classes=[0, 1], keep_in=folder)
