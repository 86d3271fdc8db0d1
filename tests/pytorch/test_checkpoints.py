"""A resumed run is the uninterrupted one, bit for bit."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import anymix as ax
from anymix.errors import InputError
from anymix.pytorch import (
    AgnosticLoss,
    DomainBatches,
    Optimistic,
    PerDomain,
    Proportional,
    Weighted,
    load_checkpoint,
    save_checkpoint,
)

X = torch.randn(90, 6, generator=torch.manual_seed(0))
IDS = torch.arange(90) % 3
Y = (X[:, 0] * (IDS - 1) + X[:, 1] > 0).long()


class Run:
    """A loop with dropout, noise from NumPy and Python, and whatever else has a state."""

    def __init__(self, kind: str) -> None:
        torch.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002
        random.seed(1)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 2))
        adam = torch.optim.Adam(self.model.parameters(), lr=0.02)
        self.optimizer = Optimistic(adam)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 5, gamma=0.9)
        self.criterion = AgnosticLoss(
            ax.Simplex(3), step=0.1, adversary="entropic", optimistic=True
        )
        samplers: dict[str, Any] = {"weighted": Weighted(self.criterion), "per domain": PerDomain()}
        self.batches = DomainBatches(IDS, 9, samplers.get(kind, Proportional()), seed=4)
        self.criterion.follow(self.batches)

    @property
    def parts(self) -> dict[str, Any]:
        names = ("model", "optimizer", "schedule", "criterion", "batches")
        return {name: getattr(self, name) for name in names}

    def go(self, n: int, save_at: int = 0, path: Path | None = None) -> None:
        """n steps; after save_at of them a checkpoint, and on."""
        each, done = nn.CrossEntropyLoss(reduction="none"), 0
        data = TensorDataset(X, Y, IDS)
        # a generator of its own: a loader that begins anew draws a number from the common one
        loader = DataLoader(data, batch_sampler=self.batches, generator=torch.Generator())
        while done < n:
            for x, y, ids in loader:
                noise = np.random.rand() + random.random()  # noqa: NPY002
                self.optimizer.zero_grad()
                self.criterion(each(self.model(x + 0.01 * noise), y), ids).backward()
                self.optimizer.step()
                self.schedule.step()
                self.criterion.step()
                done += 1
                if done == save_at and path is not None:
                    save_checkpoint(path, **self.parts)
                if done == n:
                    break

    def parameters(self) -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in self.model.parameters()])


@pytest.mark.parametrize("kind", ["weighted", "per domain", "proportional"])
@pytest.mark.parametrize("n", [7, 10])  # in the middle of an epoch, and at its end
def test_resumed_is_uninterrupted_bit_for_bit(kind: str, n: int, tmp_path: Path) -> None:
    first = Run(kind)
    first.go(n + 16, n, tmp_path / "run.pt")
    second = Run(kind)
    second.go(3)  # it has been elsewhere
    load_checkpoint(tmp_path / "run.pt", **second.parts)
    second.go(16)
    assert torch.equal(first.parameters(), second.parameters())
    for name, value in first.criterion.state_dict().items():
        assert torch.equal(value.nan_to_num(), second.criterion.state_dict()[name].nan_to_num())
    assert first.criterion.record() == second.criterion.record()


def test_parts_must_be_those_saved(tmp_path: Path) -> None:
    run = Run("weighted")
    save_checkpoint(tmp_path / "run.pt", **run.parts)
    with pytest.raises(InputError, match="checkpoint has the parts"):
        load_checkpoint(tmp_path / "run.pt", model=run.model)


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_checkpoint(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "table.csv"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"path is '.*table.csv'.*no checkpoint"):
        load_checkpoint(file)


def test_somebody_elses_checkpoint(tmp_path: Path) -> None:
    torch.save({"weights": torch.zeros(2)}, tmp_path / "other.pt")
    with pytest.raises(InputError, match="no checkpoint"):
        load_checkpoint(tmp_path / "other.pt")
