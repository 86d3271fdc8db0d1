"""Rows for the tests, spread over clients in several ways."""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

import anymix as ax
from anymix.flower import LocalGrid, client_app


def table(n: int = 90, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows of three domains of different sizes and slopes."""
    rng = np.random.default_rng(seed)
    domains = rng.choice(["chat", "mail", "web"], n, p=[0.5, 0.3, 0.2])
    domains[:3] = ["chat", "mail", "web"]
    X = rng.normal(size=(n, 2))
    slope = np.where(domains == "chat", 1.0, np.where(domains == "mail", -1.0, 0.3))
    y = (slope * X[:, 0] + 0.5 * X[:, 1] + rng.logistic(size=n) > 0).astype(int)
    return X, y, domains


def spread(
    how: str, domains: NDArray[Any], n_clients: int = 5, seed: int = 1
) -> list[NDArray[np.intp]]:
    """The rows of every client, who holds a domain, a part of one, or rows of any ("mixed")."""
    rng = np.random.default_rng(seed)
    names = np.unique(domains)
    if how == "domain":
        owner = np.searchsorted(names, domains)
    elif how == "parts":
        owner = 2 * np.searchsorted(names, domains) + rng.integers(0, 2, len(domains))
    else:
        owner = rng.integers(0, n_clients, len(domains))
    return [rows for i in range(owner.max() + 1) if len(rows := np.flatnonzero(owner == i))]


def app_of(
    X: NDArray[Any], y: NDArray[Any], domains: Any, parts: list[NDArray[np.intp]], **options: Any
) -> ClientApp:
    def load(context: Context) -> tuple[Any, Any, Any]:
        rows = parts[int(context.node_config["partition-id"])]
        return X[rows], y[rows], domains[rows]

    if not isinstance(options.get("loss"), ax.SquaredError | ax.Huber) and "model" not in options:
        options.setdefault("classes", np.unique(y))
    return client_app(load, **options)


def grid_of(how: str = "mixed", n: int = 90, seed: int = 0, **options: Any) -> LocalGrid:
    X, y, domains = table(n)
    parts = spread(how, domains)
    return LocalGrid(app_of(X, y, domains, parts, **options), len(parts), seed=seed)
