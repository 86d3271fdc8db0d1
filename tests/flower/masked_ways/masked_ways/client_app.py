from typing import Any

import numpy as np
from flwr.app import Context

from anymix.flower import client_app, secured


def load(context: Context) -> tuple[Any, Any, Any]:
    """60 rows of three domains."""
    rng = np.random.default_rng(int(context.node_config["partition-id"]))
    X, domains = rng.normal(size=(60, 4)), rng.choice(list("abc"), size=60)
    signal = X[:, 0] + (domains == "a") * X[:, 1] - (domains == "c") * X[:, 2]
    return X, signal + rng.logistic(size=60) > 0, domains


app = secured(client_app(load), word="open sesame")
