"""What people call the losses."""

__all__ = ["LOSS_TITLES"]

LOSS_TITLES = {
    "zero_one": "0-1 loss",
    "hamming": "share of wrong labels",
    "log": "log loss",
    "squared": "half squared error",
    "absolute": "absolute error",
}
