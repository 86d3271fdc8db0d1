"""Fashion-MNIST with a small CNN, each of the ten classes a domain: ordinary, robust, certified.

    python examples/pytorch_loop.py                                       a look, some seconds
    python examples/pytorch_loop.py --rows 60000 --epochs 5 --seeds 3     the real thing

ordinary   the mean loss of all rows
robust     AgnosticLoss: three lines more in the same loop
certified  the ordinary network with an exact last layer for the worst class

A sixth of the training rows is kept back: λ moves by it, and the last layer is fitted to it.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from anymix import Simplex, datasets
from anymix.estimators import NothingGained
from anymix.pytorch import AgnosticLoss, DomainBatches, PerDomain, Proportional, certified_head

CLASSES, BATCH, STEP = 10, 128, 0.02
cross_entropy = nn.CrossEntropyLoss(reduction="none")  # the loss of every row


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),    # (n, 8, 14, 14)
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),   # (n, 16, 7, 7)
        nn.Flatten(), nn.Linear(16 * 7 * 7, 64), nn.ReLU(),           # (n, 64)
        nn.Linear(64, CLASSES),
    )  # fmt: skip


def ordinary(data: TensorDataset, epochs: int, seed: int) -> nn.Sequential:
    batches = DomainBatches(data.tensors[1], BATCH, Proportional(), seed)
    model, optimizer, schedule = _begin(seed, epochs * len(batches))
    for _ in range(epochs):
        for x, y in DataLoader(data, batch_sampler=batches):
            optimizer.zero_grad()
            cross_entropy(model(x), y).mean().backward()
            optimizer.step()
            schedule.step()
    return model


def robust(data: TensorDataset, kept: TensorDataset, epochs: int, seed: int) -> nn.Sequential:
    batches = DomainBatches(data.tensors[1], BATCH, PerDomain(), seed)
    others = _forever(kept, DomainBatches(kept.tensors[1], 8 * CLASSES, PerDomain(), seed))
    n_steps = epochs * len(batches)
    model, optimizer, schedule = _begin(seed, n_steps)
    criterion = AgnosticLoss(
        Simplex(CLASSES), lambda t: STEP * (1 - (t - 1) / n_steps), adversary="entropic",
        held_out=True,
    )  # fmt: skip
    for _ in range(epochs):
        for x, y in DataLoader(data, batch_sampler=batches):
            optimizer.zero_grad()
            criterion(cross_entropy(model(x), y), y).backward()
            optimizer.step()
            schedule.step()
            x, y = next(others)
            with torch.no_grad():
                criterion.step(cross_entropy(model(x), y), y)
    print("  λ:", {k: round(v, 2) for k, v in enumerate(criterion.mixture.tolist())})
    return model


def certified(model: nn.Sequential, kept: TensorDataset) -> tuple[nn.Sequential, Any]:
    loader = [(x, y, y) for x, y in DataLoader(kept, batch_size=1000)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingGained)  # head.is_ordinary says so, too
        head = certified_head(
            model[:-1],
            loader,
            gammas=(0.1, 0.01, 1e-3),
            robustness=(1.0,),
            price=math.inf,
            cv=3,
            tol=1e-4,
        )
    return nn.Sequential(*list(model)[:-1], head.linear), head


def accuracies(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Of each class, in percent."""
    with torch.no_grad():
        right = torch.cat([model(part).argmax(1) for part in torch.split(x, 1000)]) == y
    return torch.stack([100 * right[y == k].double().mean() for k in range(CLASSES)])


def run(seed: int, rows: int, epochs: int) -> dict[str, Any]:
    data, kept, x_test, y_test = _pictures(rows, seed)
    results: dict[str, Any] = {"seed": seed}
    start = time.process_time()
    plain = ordinary(data, epochs, seed)
    results["ordinary"] = _judged(plain, x_test, y_test, start)
    start = time.process_time()
    results["robust"] = _judged(robust(data, kept, epochs, seed), x_test, y_test, start)
    start = time.process_time()
    model, head = certified(plain, kept)
    results["certified"] = _judged(model, x_test, y_test, start)
    results["gap"], results["kept the ordinary layer"] = head.certificate.gap, head.is_ordinary
    return results


def _judged(model: nn.Module, x: Tensor, y: Tensor, start: float) -> dict[str, Any]:
    seconds = time.process_time() - start
    found = accuracies(model, x, y)
    result = {"worst": float(found.min()), "mean": float(found.mean()), "seconds": seconds}
    return result | {"classes": found.tolist()}


def _begin(seed: int, n_steps: int) -> tuple[nn.Sequential, Any, Any]:
    """A network, Adam, and a learning rate that falls to 0 in a straight line."""
    torch.manual_seed(seed)
    model = network()
    adam = torch.optim.Adam(model.parameters(), lr=2e-3)
    return model, adam, torch.optim.lr_scheduler.LambdaLR(adam, lambda t: 1 - t / n_steps)


def _forever(data: TensorDataset, batches: DomainBatches) -> Any:
    while True:
        yield from DataLoader(data, batch_sampler=batches)


def _pictures(rows: int, seed: int) -> tuple[TensorDataset, TensorDataset, Tensor, Tensor]:
    """Five sixths to train on, one sixth kept back, and the test pictures."""
    found = datasets.load_fashion(progress=False)
    chosen = np.random.default_rng(seed).permutation(len(found.y))[:rows]
    x = torch.tensor(found.X[chosen], dtype=torch.float32).reshape(-1, 1, 28, 28)
    y = torch.tensor(found.y[chosen])
    x_test = torch.tensor(found.X_test, dtype=torch.float32).reshape(-1, 1, 28, 28)
    n = rows - rows // 6
    data, kept = TensorDataset(x[:n], y[:n]), TensorDataset(x[n:], y[n:])
    return data, kept, x_test[: rows // 6], torch.tensor(found.y_test)[: rows // 6]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    found = []
    for seed in range(given.seeds):
        found.append(run(seed, given.rows, given.epochs))
        for name in ("ordinary", "robust", "certified"):
            r = found[-1][name]
            print(f"seed {seed}  {name:10s} worst class {r['worst']:5.1f} %  mean {r['mean']:5.1f}"
                  f" %  {r['seconds']:6.1f} s of CPU", flush=True)  # fmt: skip
        if given.json is not None:
            given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
