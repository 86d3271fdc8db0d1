"""Small tables of every kind of loss, and ways to cut them into chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anymix as ax

LOSSES: dict[str, Any] = {
    "binary": ax.CrossEntropy(),
    "three": ax.CrossEntropy(),
    "squared": ax.SquaredError(),
    "huber": ax.Huber(0.5),
}

Table = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def table(name: str, n: int = 60, d: int = 3, p: int = 3, seed: int = 5) -> Table:
    rng = np.random.default_rng(seed)
    X, domains = rng.normal(size=(n, d)), rng.integers(p, size=n)
    domains[:p] = np.arange(p)
    y: Any = X[:, 0] * (1 + 0.5 * domains) + rng.logistic(size=n)
    if name == "binary":
        y = np.where(y > 0, "yes", "no")
        y[:2] = ["yes", "no"]
    elif name == "three":
        y = np.digitize(y, [-1.0, 1.0])
        y[:3] = [0, 1, 2]
    return X, y, np.array(["c", "a", "b"])[domains]


def cut(rows: Table, ends: Any) -> Callable[[], Iterator[Any]]:
    """Chunks that end at these rows; those between two equal ends are empty."""
    X, y, domains = rows
    places = [0, *ends, len(y)]

    def chunks() -> Iterator[Any]:
        for start, stop in pairwise(places):
            yield X[start:stop], y[start:stop], domains[start:stop]

    return chunks
