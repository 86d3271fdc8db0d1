"""The worst-domain loss in the Trainer of Hugging Face: compute_loss, and a callback for λ."""

import os
import tempfile
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from anymix import Simplex
from anymix.pytorch import AgnosticLoss

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is fetched here
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what Transformers itself imports
    from transformers import Trainer, TrainerCallback, TrainingArguments


class Robust(Trainer):  # type: ignore[misc]
    """A Trainer whose loss is that of the worst mixture."""

    criterion = AgnosticLoss(Simplex(3), step=0.1, names=["web", "mail", "app"])

    def compute_loss(self, model: nn.Module, inputs: Any, *args: Any, **options: Any) -> Tensor:
        """The loss of one batch."""
        scores = model(inputs["x"])
        losses = nn.functional.cross_entropy(scores, inputs["labels"], reduction="none")
        loss: Tensor = self.criterion(losses, inputs["domain"])
        return loss


class MoveLambda(TrainerCallback):  # type: ignore[misc]
    """One step of λ for each step of the optimiser, however many micro-batches that takes."""

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """After the model has moved."""
        Robust.criterion.step()
        state.log_history.append(Robust.criterion.record())


if __name__ == "__main__":
    torch.manual_seed(0)
    rows = [{"x": torch.randn(4), "labels": k % 2, "domain": k % 3} for k in range(90)]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the data loader, where there is no GPU
        arguments = TrainingArguments(
            folder, num_train_epochs=2, per_device_train_batch_size=15, use_cpu=True,
            gradient_accumulation_steps=2, report_to=[], remove_unused_columns=False,
            disable_tqdm=True, save_strategy="no",
        )  # fmt: skip
        trainer = Robust(nn.Linear(4, 2), arguments, train_dataset=rows, callbacks=[MoveLambda()])
        trainer.train()
    records = [record for record in trainer.state.log_history if "worst_loss" in record]
    print(len(records), "records; the last:", {k: round(v, 3) for k, v in records[-1].items()})
