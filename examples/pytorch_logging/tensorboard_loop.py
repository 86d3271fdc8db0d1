"""Losses and shares of the domains in TensorBoard, from a plain loop."""

import torch
from torch.utils.tensorboard import SummaryWriter

from anymix import Simplex
from anymix.pytorch import AgnosticLoss

model, x, domain = torch.nn.Linear(4, 2), torch.randn(90, 4), torch.arange(90) % 3
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = AgnosticLoss(Simplex(3), step=0.1, names=["web", "mail", "app"])
with SummaryWriter("runs") as writer:
    for step in range(10):
        optimizer.zero_grad()
        losses = torch.nn.functional.cross_entropy(model(x), domain % 2, reduction="none")
        criterion(losses, domain).backward()
        optimizer.step()
        criterion.step()
        for name, value in criterion.record().items():
            writer.add_scalar(name, value, step)
print(f"logged {len(criterion.record())} numbers a step; see them with: tensorboard --logdir runs")
