"""The worst-domain loss in a Lightning module: a submodule, one call and `step` after the batch."""

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from anymix import Simplex
from anymix.pytorch import AgnosticLoss, DomainBatches

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what Lightning itself imports
    import lightning


class Robust(lightning.LightningModule):  # type: ignore[misc]
    """A linear model; λ is in its checkpoints because the loss is a submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Linear(4, 2)
        self.criterion = AgnosticLoss(Simplex(3), step=0.1, names=["web", "mail", "app"])

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        """The loss of one batch."""
        x, y, domain = batch
        losses = nn.functional.cross_entropy(self.model(x), y, reduction="none")
        loss: Tensor = self.criterion(losses, domain)
        return loss

    def on_train_batch_end(self, *args: Any) -> None:
        """λ moves after the model has; with accumulation, every so many batches."""
        self.criterion.step()
        self.log_dict(self.criterion.record())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Any."""
        return torch.optim.SGD(self.model.parameters(), lr=0.1)


if __name__ == "__main__":
    torch.manual_seed(0)
    x, domain = torch.randn(90, 4), torch.arange(90) % 3
    data = TensorDataset(x, (x[:, 0] > 0).long(), domain)
    loader = DataLoader(data, batch_sampler=DomainBatches(domain, 15))
    quiet = ("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger")
    options: dict[str, Any] = dict.fromkeys(quiet, False)
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on the number of workers
        trainer.fit(Robust(), loader)
    print({name: round(float(v), 3) for name, v in trainer.callback_metrics.items()})
