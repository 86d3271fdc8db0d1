"""What people call the losses."""

from anymix.problem.losses import named_losses

__all__ = ["LOSS_TITLES"]

LOSS_TITLES = {
    "zero_one": "0-1 loss",
    "hamming": "share of wrong labels",
    "absolute": "absolute error",
} | {name: loss.title for name, loss in named_losses().items()}
