"""What every rank does in test_distributed.py; started by torchrun, and alone for comparison."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import anymix as ax
from anymix.errors import InputError
from anymix.pytorch import AgnosticLoss, DomainBatches, Proportional, Weighted

N, P, STEPS = 24, 3, 12
PATIENCE = timedelta(minutes=30)  # on a busy machine a rank may start long after the other
each = nn.CrossEntropyLoss(reduction="none")


def data() -> tuple[Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(STEPS * N, 5, generator=rng, dtype=torch.float64)
    ids = torch.randint(P, (len(x),), generator=rng)
    y = (x[:, 0] + x[:, 1] * (ids - 1) > 0).long()
    return x, y, ids


def cuts(step: int) -> list[int]:
    """Where the joined batch is cut for two ranks: unequal, and now and then one has nothing."""
    return [0, [7, 12, 0, 24, 18][step % 5], N]


def own_rows(step: int, rank: int, world: int) -> slice:
    edges = [0, N] if world == 1 else cuts(step)
    return slice(step * N + edges[rank], step * N + edges[rank + 1])


def begin(world: int) -> tuple[nn.Module, Any, AgnosticLoss]:
    torch.manual_seed(1)
    model: nn.Module = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    model = DistributedDataParallel(model) if world > 1 else model
    criterion = AgnosticLoss(ax.Simplex(P), step=0.3)
    return model, torch.optim.SGD(model.parameters(), lr=0.2), criterion


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def plain_run(rank: int, world: int) -> dict[str, Tensor]:
    model, optimizer, criterion = begin(world)
    x, y, ids = data()
    for step in range(STEPS):
        part = own_rows(step, rank, world)
        optimizer.zero_grad()
        criterion(each(model(x[part]), y[part]), ids[part]).backward()
        optimizer.step()
        criterion.step()
    return {"w": flat(model), "mixture": criterion.mixture, "average": criterion.average}


def accumulated_run(rank: int, world: int) -> dict[str, Tensor]:
    """Three unequal calls a step, announced; DDP adds up the gradients at the last one."""
    model, optimizer, criterion = begin(world)
    x, y, ids = data()
    for step in range(STEPS):
        part = own_rows(step, rank, world)
        rows = torch.arange(part.start, part.stop)
        pieces = [rows[:2], rows[2:9], rows[9:]]
        optimizer.zero_grad()
        criterion.expect(*[ids[piece] for piece in pieces])
        for number, piece in enumerate(pieces):
            if isinstance(model, DistributedDataParallel) and number < 2:
                with model.no_sync():
                    criterion(each(model(x[piece]), y[piece]), ids[piece]).backward()
            else:
                criterion(each(model(x[piece]), y[piece]), ids[piece]).backward()
        optimizer.step()
        criterion.step()
    return {"w": flat(model), "mixture": criterion.mixture}


def sampled_run(rank: int, world: int, kind: str) -> dict[str, Tensor]:
    """DomainBatches: the shards of two ranks are the batch of one."""
    model, optimizer, criterion = begin(world)
    x, y, ids = data()
    sampler = Weighted(criterion) if kind == "weighted" else Proportional()
    batches = DomainBatches(ids, 30 // world, sampler, seed=3)
    criterion.follow(batches)
    for rows in batches:
        optimizer.zero_grad()
        criterion(each(model(x[rows]), y[rows]), ids[rows]).backward()
        optimizer.step()
        criterion.step()
    return {"w": flat(model), "mixture": criterion.mixture}


def faulty_run(rank: int, fault: str) -> dict[str, Any]:
    """One rank has a NaN or a false id: all raise, none moves λ, and all can go on."""
    criterion = AgnosticLoss(ax.Simplex(P), step=0.3)
    ids = torch.arange(6) % P
    good = torch.arange(6.0, dtype=torch.float64)
    criterion(good.clone().requires_grad_(), ids)
    criterion.step()
    before = criterion.mixture.clone()
    losses, false = good.clone(), ids.clone()
    if rank == 1:
        losses[4] = torch.nan if fault != "ids" else losses[4]
        false[2] = P if fault == "ids" else false[2]
    if fault == "announced nan":
        criterion.expect(ids)
    words = ""
    try:
        criterion(losses.requires_grad_(), false)
        criterion.step()
    except InputError as error:
        words = str(error)
    stayed = torch.equal(before, criterion.mixture) and int(criterion.n_steps) == 1
    criterion(good.clone().requires_grad_(), ids)
    criterion.step()
    return {"words": words, "stayed": stayed, "mixture": criterion.mixture}


def main(folder: Path) -> NoReturn:
    """The ranks meet by a file, so that no port can be taken, and wait for one another."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.FileStore(str(folder / "store"), world)  # type: ignore[attr-defined]
    store.set_timeout(PATIENCE)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=PATIENCE)
    found: dict[str, Any] = {
        "plain": plain_run(rank, world),
        "accumulated": accumulated_run(rank, world),
        "weighted": sampled_run(rank, world, "weighted"),
        "proportional": sampled_run(rank, world, "proportional"),
    }
    for fault in ("nan", "announced nan", "ids"):
        found[fault] = faulty_run(rank, fault)
    write(found, folder / f"rank{rank}.pt")
    leave(store, rank, world)


def write(found: dict[str, Any], path: Path) -> None:
    """The file is there whole or not at all."""
    with path.with_suffix(".part").open("wb") as file:
        torch.save(found, file)
        file.flush()
        os.fsync(file.fileno())
    path.with_suffix(".part").rename(path)


def leave(store: Any, rank: int, world: int) -> NoReturn:
    """End once all ranks have written, without taking Python down.

    DistributedDataParallel keeps Gloo's threads alive, also after destroy_process_group, and one
    that still holds a tensor while Python ends aborts the process (pytorch#179291).
    """
    store.set(f"rank {rank} has written", "yes")
    store.wait([f"rank {r} has written" for r in range(world)])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    np.seterr(all="raise")
    main(Path(sys.argv[1]))
