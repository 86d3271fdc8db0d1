"""Which training is best for the worst domain on rows that nobody has trained with?

    python benchmarks/federated_new_rows.py [--only digits,apart] [--splits 6] [--first 0]

FedAvg's last model after 200 rounds, against `Judging(hold_out=0.2)` and the robust training's last
model: differences of the worst-domain loss on test rows, paired over random splits, with their
standard errors. Negative is better than FedAvg.

digits    150 digits, a fifth of their labels wrong, MLP of 64 hidden units, 3 domains
diabetes  220 rows, MLP of 32 hidden units, squared loss, 3 domains
forty     200 rows of forty columns, of which one matters, logistic regression, 2 domains
apart     400 rows of three domains in which different columns matter, MLP of 16 hidden units
alike     400 rows of three domains that are alike, MLP of 16 hidden units
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, Context
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_diabetes, load_digits
from torch import nn

from anymix.flower import AgnosticStrategy, Judging, LocalGrid, client_app
from anymix.mixtures.parsing import data_mixture

ROUNDS, CLIENTS = 200, 5
Rows = tuple[Any, Any, Any, int, Callable[[], nn.Module], Any]


def mlp(columns: int, hidden: int, outputs: int) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(columns, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def cross_entropy(output: Any, y: Any) -> Any:
    return nn.functional.cross_entropy(output, y, reduction="none")


def half_square(output: Any, y: Any) -> Any:
    return 0.5 * (output[:, 0] - y) ** 2


def digits(rng: np.random.Generator) -> Rows:
    data, n = load_digits(), 150
    order = rng.permutation(len(data.target))
    X, y = data.data[order] / 16, data.target[order]
    domains = np.digitize(y, [3, 7])
    wrong = (rng.random(len(y)) < 0.2) & (np.arange(len(y)) < n)
    y = np.where(wrong, rng.integers(10, size=len(y)), y)
    return X, y, domains, n, mlp(64, 64, 10), cross_entropy


def diabetes(rng: np.random.Generator) -> Rows:
    data = load_diabetes()
    order = rng.permutation(len(data.target))
    X, y = data.data[order] * 20, ((data.target[order] - 150) / 77).astype(np.float32)
    domains = (X[:, 1] > 0).astype(int) + (X[:, 0] > 0)
    return X, y, domains, 220, mlp(10, 32, 1), half_square


def forty(rng: np.random.Generator) -> Rows:
    X, domains = rng.normal(size=(1200, 40)), np.arange(1200) % 2
    y = (X[:, 0] * (1 + domains) + rng.logistic(size=1200) > 0).astype(int)
    return X, y, domains, 200, lambda: nn.Linear(40, 2), cross_entropy


def apart(rng: np.random.Generator) -> Rows:
    domains, X = rng.choice(3, 3000, p=[0.7, 0.2, 0.1]), rng.normal(size=(3000, 6))
    slopes = np.array([[2, 1, 0], [0, 1, 2], [-1, 1, 0]])[domains]
    y = ((X[:, :3] * slopes).sum(axis=1) + rng.logistic(size=3000) > 0).astype(int)
    return X, y, domains, 400, mlp(6, 16, 2), cross_entropy


def alike(rng: np.random.Generator) -> Rows:
    domains, X = rng.choice(3, 3000, p=[0.6, 0.25, 0.15]), rng.normal(size=(3000, 6))
    y = (2 * X[:, 0] + rng.logistic(size=3000) > 0).astype(int)
    return X, y, domains, 400, mlp(6, 16, 2), cross_entropy


PROBLEMS = (digits, diabetes, forty, apart, alike)


def compare(rows: Rows, seed: int, rounds: int = ROUNDS) -> dict[str, float]:
    """The worst-domain losses on test rows."""
    X, y, domains, n, model, loss = rows
    X = X.astype(np.float32)
    parts = np.array_split(np.arange(n), CLIENTS)

    def load(context: Context) -> tuple[Any, Any, Any]:
        own = parts[int(context.node_config["partition-id"])]
        return X[own], y[own], domains[own]

    def worst(arrays: ArrayRecord) -> float:
        module = model()
        module.load_state_dict({k: torch.tensor(a.numpy()) for k, a in arrays.items()})
        with torch.no_grad():
            losses = loss(module(torch.tensor(X[n:])), torch.tensor(y[n:])).numpy()
        return max(float(losses[domains[n:] == k].mean()) for k in np.unique(domains))

    def train(mixtures: Any = None, **judging: Any) -> float:
        strategy = AgnosticStrategy(mixtures, judging=Judging(**judging), seed=seed)
        return worst(strategy.start(grid, num_rounds=rounds).arrays)

    grid = LocalGrid(client_app(load, model=model, loss=loss), CLIENTS)
    return {
        "FedAvg": train(data_mixture, output="last"),
        "hold_out": train(hold_out=0.2, every=5),
        "robust, last": train(output="last"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(p.__name__ for p in PROBLEMS))
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("problem", "FedAvg", "hold_out", "robust, last")
    for problem in PROBLEMS:
        if problem.__name__ not in arguments.only.split(","):
            continue
        seeds = range(arguments.first, arguments.first + arguments.splits)
        found = []
        for seed in seeds:
            found.append(compare(problem(np.random.default_rng(seed)), seed))
            print(problem.__name__, seed, found[-1], flush=True)
        cells = []
        for name in ("hold_out", "robust, last"):
            d = np.array([row[name] - row["FedAvg"] for row in found])
            cells.append(f"{d.mean():+.3f} ± {d.std(ddof=1) / len(d) ** 0.5:.3f}")
        mean = np.mean([row["FedAvg"] for row in found])
        table.add_row(problem.__name__, f"{mean:.3f}", *cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
