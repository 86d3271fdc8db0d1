"""The network for Online News Popularity and its training; needs torch."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from anymix.datasets import Dataset
from anymix.mixtures import MixtureSet
from anymix.pytorch import AgnosticLoss, DomainBatches

Array = NDArray[np.float64]

__all__ = ["network", "train_network"]


def network(n_features: int, units: int) -> nn.Sequential:
    """Two hidden ReLU layers; dropout of 20 % on the input and 50 % on each hidden layer.

    Parameters
    ----------
    n_features : int
        Features of a row.
    units : int
        Units of each hidden layer.
    """
    return nn.Sequential(
        nn.Dropout(0.2),
        nn.Linear(n_features, units),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(units, units),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(units, 1),
        nn.Flatten(0),
    )


def train_network(
    data: Dataset,
    names: tuple[str, ...],
    mixtures: MixtureSet,
    *,
    seed: int,
    units: int,
    rows: int,
    n_steps: int,
    step_w: float,
    step_mixture: float,
) -> tuple[NDArray[np.int64], Array]:
    """Train with Adam and PerDomain batches for the mixtures of Λ.

    Parameters
    ----------
    data : Dataset
        The rows.
    names : tuple of str
        The domains in their order.
    mixtures : MixtureSet
        Λ.
    seed : int
        The seed of all randomness.
    units, rows, n_steps, step_w, step_mixture : number
        See `NewsSettings`.

    Returns
    -------
    predicted : ndarray of shape (m',)
        The label of each test row.
    mixture : ndarray of shape (p,)
        λ at the end.
    """
    X, X_test = _normalised(data.X, data.X_test)
    y = torch.tensor(data.y, dtype=torch.float32)
    ids = np.array([names.index(d) for d in data.domains])
    domain = torch.from_numpy(ids)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network(X.shape[1], units)
        optimizer = torch.optim.Adam(model.parameters(), step_w)
        criterion = AgnosticLoss(mixtures, step_mixture)
        batches = DomainBatches(ids, rows * len(names), seed=seed)
        step = 0
        while step < n_steps:
            for drawn in batches:
                scores = model(X[drawn])
                losses = functional.binary_cross_entropy_with_logits(
                    scores, y[drawn], reduction="none"
                )
                loss = criterion(losses, domain[drawn])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                criterion.step()
                step += 1
                if step == n_steps:
                    break
        model.eval()
        with torch.inference_mode():
            predicted = (model(X_test) > 0).numpy().astype(np.int64)
    return predicted, criterion.mixture.numpy().copy()


def _normalised(X: Array, X_test: Array) -> tuple[Tensor, Tensor]:
    """Zero mean and unit deviation on the training rows; a constant column becomes 0."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    first, second = (
        torch.tensor((part - mean) / deviation, dtype=torch.float32) for part in (X, X_test)
    )
    return first, second
