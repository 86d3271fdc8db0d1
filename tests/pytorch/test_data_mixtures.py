"""Weights of domains for another model's data."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from anymix.errors import InputError
from anymix.pytorch import mixture_criterion, mixture_weights


def test_excess_decides_and_the_floor_holds(tmp_path: Path) -> None:
    """Domain a is hard for everybody; b is where there is still something to learn."""
    names = ["a", "b", "c"]
    criterion = mixture_criterion([5.0, 1.0, 1.0], step=0.5, floor=[0.1, 0.1, 0.2], names=names)
    ids = torch.arange(3)
    for _ in range(64):
        criterion(torch.tensor([5.0, 2.0, 1.0], requires_grad=True), ids)
        criterion.step()
    found = mixture_weights(criterion, tol=0.15)
    assert found.last == pytest.approx({"a": 0.1, "b": 0.7, "c": 0.2})
    assert found.weights["b"] > 0.6
    assert sum(found.weights.values()) == pytest.approx(1)
    assert found.excess == {"a": 0.0, "b": 1.0, "c": 0.0}
    assert found.settled
    read = json.loads(found.save(tmp_path / "weights.json").read_text())
    assert read["weights"] == found.weights
    assert read["settled"] is True


def test_the_report_says_whether_the_average_still_moves() -> None:
    criterion = mixture_criterion([0.0, 0.0], step=0.01)
    averages = []
    for _ in range(20):
        criterion(torch.tensor([1.0, 0.0], requires_grad=True), torch.arange(2))
        criterion.step()
        averages.append(criterion.average.numpy().copy())
    found = mixture_weights(criterion, tol=1e-3)
    # snapshots are taken at powers of two: 16 is the last one, 8 that before it
    assert found.moved == pytest.approx(np.abs(averages[19] - averages[7]).sum() / 2)
    assert not found.settled
    assert "still moves" in found.report()


def test_refusals() -> None:
    with pytest.raises(InputError, match=r"floor adds up to 1\.2"):
        mixture_criterion([1.0, 1.0], step=0.1, floor=0.6)
    with pytest.raises(InputError, match="made 0 steps"):
        mixture_weights(mixture_criterion([1.0, 1.0], step=0.1))
