"""Two processes, one λ: the worst-domain loss under DistributedDataParallel.

    python examples/pytorch_ddp.py                                      starts two ranks itself
    torchrun --nproc-per-node 2 examples/pytorch_ddp.py                 the same

Each rank sees its own rows. The sums of the domains are added over the ranks, so that both ranks
hold the same λ and the model is that of one process with the joined batch.
"""

from __future__ import annotations

import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from anymix import Simplex
from anymix.pytorch import AgnosticLoss, DomainBatches, PerDomain


def rows(n: int = 2000) -> tuple[Tensor, Tensor, Tensor]:
    """Nine of ten rows are from domain 0; what matters there does not matter in domain 1."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(n, 10, generator=rng)
    domain = (torch.rand(n, generator=rng) < 0.1).long()
    y = (torch.where(domain == 0, x[:, 0], x[:, 1]) > 0).long()
    return x, y, domain


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(10, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x, y, domain = rows()
    batches = DomainBatches(domain, 32, PerDomain())  # rank and world size are torch's
    loader = DataLoader(TensorDataset(x, y, domain), batch_sampler=batches)
    each = nn.CrossEntropyLoss(reduction="none")
    criterion = AgnosticLoss(Simplex(2), step=0.05)
    for _ in range(3):
        for inputs, targets, ids in loader:
            optimizer.zero_grad()
            criterion(each(model(inputs), targets), ids).backward()
            optimizer.step()
            criterion.step()
    everybody = [torch.zeros_like(criterion.mixture) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, criterion.mixture)
    if rank == 0:
        assert all(torch.equal(everybody[0], other) for other in everybody)
        with torch.no_grad():
            losses = each(model(x), y)
        means = [round(losses[domain == k].mean().item(), 2) for k in range(2)]
        print(f"{len(everybody)} ranks, one λ: {[round(v, 2) for v in everybody[0].tolist()]}")
        print(f"loss of each domain: {means}", flush=True)
    dist.barrier()  # nobody leaves while another still needs its sums
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        main()
    else:
        command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        raise SystemExit(subprocess.run([sys.executable, *command, __file__]).returncode)
