from typing import Any

import numpy as np
from flwr.app import Context

from anymix.flower import client_app


def load(context: Context) -> tuple[Any, Any, Any]:
    """60 rows of three domains; client 1 has no row of domain "a"."""
    if context.run_config["fail"] == "client":
        raise ValueError("the disk is empty")
    client = int(context.node_config["partition-id"])
    rng = np.random.default_rng(client)
    X, domains = rng.normal(size=(60, 4)), rng.choice(list("abc")[client % 2 :], size=60)
    signal = X[:, 0] + (domains == "a") * X[:, 1] - (domains == "c") * X[:, 2]
    return X, signal + rng.logistic(size=60) > 0, domains


app = client_app(load)
