"""AgnosticLoss against the plain mean loss, DomainBatches against torch's samplers, in one run.

    python benchmarks/pytorch.py [--only NAME] [--json FILE]

lstm       CPU time of a training step (forward, backward, Adam, λ) of a two-layer LSTM (256),
           32 texts of 20 words, 10 domains: ours over the mean loss, same model and batch.
domains    the same with 1000 domains.
logistic   the same for logistic regression, batch 512, 10 domains: 784 features and 10 classes
           (Fashion-MNIST), and 8192 features (hashed text).
loader     samples a second through DataLoader with 2 workers, over those of RandomSampler.
weighted   samples a second of Weighted(criterion) while λ changes with every batch, over those of
           a WeightedRandomSampler that is made anew for every batch; no loader, 60,000 rows.

One thread. Ours and theirs take turns; the ratio is that of the minima, beside it the median of
the ratios of neighbours.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before NumPy is loaded

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, WeightedRandomSampler

import anymix as ax
from anymix.pytorch import AgnosticLoss, DomainBatches, PerDomain, Weighted

Row = dict[str, Any]
ROUNDS = 60


def taking_turns(
    ours: Callable[[], Any], theirs: Callable[[], Any], n: int, clock: Callable[[], float]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Seconds of n calls of each, ROUNDS times."""
    found: tuple[list[float], list[float]] = ([], [])
    for work in (ours, theirs):  # warm up
        work()
    for _ in range(ROUNDS):
        for work, seconds in zip((ours, theirs), found, strict=True):
            start = clock()
            for _ in range(n):
                work()
            seconds.append((clock() - start) / n)
    return np.array(found[0]), np.array(found[1])


def ratio(name: str, ours: Any, theirs: Any, n: int, target: float) -> Row:
    a, b = taking_turns(ours, theirs, n, time.thread_time)
    extra = 100 * (a.min() / b.min() - 1), 100 * (np.median(a / b) - 1)
    result = f"{extra[0]:+.1f} % ({extra[1]:+.1f} %)"
    return {"what": name, "ours": f"{1e3 * a.min():.3f} ms", "theirs": f"{1e3 * b.min():.3f} ms",
            "result": result, "target": f"≤ +{target:.0f} %",
            "met": bool(extra[0] <= target)}  # fmt: skip


def steps(
    scores: Callable[[], Tensor], y: Tensor, ids: Tensor, p: int, parameters: Any
) -> tuple[Callable[[], None], Callable[[], None]]:
    """A training step with AgnosticLoss, and one with the mean."""
    adam = torch.optim.Adam(parameters)
    each, mean = nn.CrossEntropyLoss(reduction="none"), nn.CrossEntropyLoss()
    criterion = AgnosticLoss(ax.Simplex(p), step=0.01)

    def ours() -> None:
        adam.zero_grad()
        criterion(each(scores(), y), ids).backward()
        adam.step()
        criterion.step()

    def theirs() -> None:
        adam.zero_grad()
        mean(scores(), y).backward()
        adam.step()

    return ours, theirs


class Language(nn.Module):
    """Words to scores of the next word."""

    def __init__(self, words: int = 1000, width: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, x: Tensor) -> Tensor:
        """Scores for every place."""
        return self.head(self.lstm(self.embedding(x))[0]).transpose(1, 2)  # (n, words, T)


def lstm(p: int, target: float) -> Iterator[Row]:
    torch.manual_seed(0)
    model, x = Language(), torch.randint(1000, (32, 21))
    ids = torch.arange(32) * (p // 10) % p
    ours, theirs = steps(lambda: model(x[:, :-1]), x[:, 1:], ids, p, model.parameters())
    yield ratio(f"two-layer LSTM (256), {p} domains", ours, theirs, 2, target)


def logistic() -> Iterator[Row]:
    for d in (784, 8192):
        torch.manual_seed(0)
        model, x, y = nn.Linear(d, 10), torch.randn(512, d), torch.randint(10, (512,))
        ours, theirs = steps(lambda: model(x), y, y, 10, model.parameters())  # noqa: B023
        yield ratio(f"logistic regression, {d} features", ours, theirs, 20, 10)


def speeds(
    name: str, n: int, ours: Any, theirs: Any, target: float, clock: Callable[[], float]
) -> Row:
    a, b = taking_turns(ours, theirs, 1, clock)
    found = b.min() / a.min()
    return {"what": name, "ours": f"{n / a.min():,.0f}/s", "theirs": f"{n / b.min():,.0f}/s",
            "result": f"{found:.2f}x ({np.median(b / a):.2f}x)", "target": f"≥ {target:g}x",
            "met": bool(found >= target)}  # fmt: skip


def loader() -> Iterator[Row]:
    n = 20_000
    ids = torch.arange(n) % 10
    data = TensorDataset(torch.randn(n, 64), ids)
    batches = DomainBatches(ids, 500, PerDomain())
    ours = DataLoader(data, batch_sampler=batches, num_workers=2)
    theirs = DataLoader(data, 500, sampler=RandomSampler(data), num_workers=2)
    yield speeds("DataLoader, 2 workers", n, lambda: list(ours), lambda: list(theirs), 1,
                 time.perf_counter)  # fmt: skip


def weighted() -> Iterator[Row]:
    n, b, batches = 60_000, 512, 100
    ids = np.arange(n) % 10
    criterion = AgnosticLoss(ax.Simplex(10), step=0.01)
    sampler = DomainBatches(ids, b, Weighted(criterion))
    mixtures = np.random.default_rng(0).dirichlet(np.ones(10), size=batches)  # λ of every batch

    def ours() -> None:
        for lam, _ in zip(mixtures, islice(sampler, batches), strict=True):
            sampler.next_drawn()
            criterion.adversary._mixture = lam

    def theirs() -> None:
        for lam in mixtures:
            list(WeightedRandomSampler(torch.from_numpy(lam[ids] / 6000), b))

    yield speeds("weights that change with every batch", b * batches, ours, theirs, 5,
                 time.thread_time)  # fmt: skip


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "lstm": lambda: lstm(10, 3),
    "domains": lambda: lstm(1000, 10),
    "logistic": logistic,
    "loader": loader,
    "weighted": weighted,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for name, part in PARTS.items() if given.only in (None, name) for row in part()]
    table = Table("what", "ours", "theirs", "result", "target", "met")
    for row in rows:
        table.add_row(*(str(row[name]) for name in ("what", "ours", "theirs", "result", "target")),
                      "yes" if row["met"] else "no")  # fmt: skip
    Console().print(table)
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
