"""Losses and shares of the domains in MLflow, from a plain loop."""

import torch

from anymix import Simplex
from anymix.pytorch import AgnosticLoss

model, x, domain = torch.nn.Linear(4, 2), torch.randn(90, 4), torch.arange(90) % 3
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = AgnosticLoss(Simplex(3), step=0.1, names=["web", "mail", "app"])
records = []
for _ in range(10):
    optimizer.zero_grad()
    losses = torch.nn.functional.cross_entropy(model(x), domain % 2, reduction="none")
    criterion(losses, domain).backward()
    optimizer.step()
    criterion.step()
    records.append(criterion.record())
try:
    import mlflow  # type: ignore[import-not-found]
except ImportError:
    print(f"{len(records)} records to log; pip install mlflow")
else:
    with mlflow.start_run():
        for step, record in enumerate(records):
            mlflow.log_metrics(record, step=step)
    print(f"logged {len(records)} records")
