"""The clients: each has its rows of Adult, of one domain or both."""

from functools import cache
from typing import Any

import numpy as np
from flwr.app import Context

from anymix import datasets
from anymix.flower import client_app


@cache
def adult() -> datasets.Dataset:
    return datasets.load_adult(progress=False)  # all rows: only here, where we deal them out


def load(context: Context) -> tuple[Any, Any, Any]:
    """The rows of this client. Yours would read its own file here."""
    data = adult()
    n_clients = int(context.run_config["num-clients"])
    owner = np.random.default_rng(0).integers(n_clients, size=len(data.y))
    mine = owner == context.node_config["partition-id"]
    return data.X[mine], data.y[mine], data.domains[mine]


app = client_app(load, classes=[0, 1])  # a client may have one class only
