"""Which share of the training text should each of three domains have? A small DoReMi.

    python examples/data_mixture.py

1. A reference model is trained on the domains in equal shares; its losses are b.
2. A second one is trained against λ, which follows the excess loss L_k − b_k.
3. The average of λ is the mixture for the data of a large model: weights.json.

"words" is simple prose, "sums" is arithmetic, "noise" is random letters: hard for every model, so
its excess is about 0 and it gets hardly more than its floor. The worst loss without a reference
would spend nearly everything on it.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from anymix.pytorch import (
    AgnosticLoss,
    DomainBatches,
    PerDomain,
    mixture_criterion,
    mixture_weights,
)

NAMES, LENGTH, STEPS = ["words", "sums", "noise"], 24, 150
LETTERS = "abcdefghijklmnopqrstuvwxyz 0123456789+=."
each = nn.CrossEntropyLoss(reduction="none")


def texts(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Letters as numbers, (3 n, LENGTH + 1), and the domain of each text."""
    rng = np.random.default_rng(seed)
    nouns, verbs = ["dog", "cat", "bird", "fish"], ["sees", "likes", "hears"]

    def words() -> str:
        a, b = rng.choice(nouns, 2)
        return f"the {a} {rng.choice(verbs)} the {b}. "

    def sums() -> str:
        a, b = rng.integers(10, size=2)
        return f"{a}+{b}={a + b}. "

    def noise() -> str:
        return "".join(rng.choice(list(LETTERS), 8))

    rows = []
    for make in (words, sums, noise):
        for _ in range(n):
            text = "".join(itertools.islice(iter(make, None), LENGTH))[: LENGTH + 1]
            rows.append([LETTERS.index(letter) for letter in text])
    return torch.tensor(rows), torch.arange(3).repeat_interleave(n)


class Model(nn.Module):
    """Letters to scores of the next letter."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, len(LETTERS))

    def losses(self, x: Tensor) -> Tensor:
        """The loss of every letter, (n, T)."""
        scores = self.head(self.lstm(self.embedding(x[:, :-1]))[0])  # (n, T, letters)
        losses: Tensor = each(scores.transpose(1, 2), x[:, 1:])
        return losses


def train(x: Tensor, ids: Tensor, criterion: AgnosticLoss | None, n_steps: int) -> Model:
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    batches = DomainBatches(ids, 48, PerDomain())
    endless = (rows for _ in itertools.count() for rows in batches)
    for rows in itertools.islice(endless, n_steps):
        losses = model.losses(x[rows])
        optimizer.zero_grad()
        loss = losses.mean() if criterion is None else criterion(losses, ids[rows])
        loss.backward()
        optimizer.step()
        if criterion is not None:
            criterion.step()
    return model


def main(n_steps: int = STEPS) -> None:
    x, ids = texts(400, seed=0)
    reference = train(x, ids, None, n_steps)
    with torch.no_grad():
        losses = reference.losses(x).mean(dim=1)
    b = [losses[ids == k].mean().item() for k in range(3)]
    print("reference:", dict(zip(NAMES, np.round(b, 2).tolist(), strict=True)))
    criterion = mixture_criterion(b, step=lambda t: 0.2 / t**0.5, floor=0.1, names=NAMES)
    train(x, ids, criterion, 2 * n_steps)
    found = mixture_weights(criterion)
    print(found.report())
    with tempfile.TemporaryDirectory() as folder:
        print(found.save(Path(folder) / "weights.json").read_text())


if __name__ == "__main__":
    main()
