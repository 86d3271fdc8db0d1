"""The pictures of docs/pytorch.md:  python docs/pytorch_pictures.py"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib import pyplot as plt

import anymix as ax
from anymix.pytorch import AgnosticLoss

HERE = Path(__file__).parent
INK, OURS, THEIRS, THIRD = "#333333", "#0072b2", "#d55e00", "#009e73"
STYLE: dict[Any, Any] = {"font.size": 10, "axes.edgecolor": INK, "text.color": INK}
CLASSES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag",
           "boot")  # fmt: skip


def absent(n_steps: int = 150) -> None:
    """The share of a hard domain that is in one batch of ten."""
    criterion = AgnosticLoss(ax.Simplex(2), step=0.05, adversary="entropic")
    theirs, shares = np.array([0.5, 0.5]), []
    for step in range(n_steps):
        there = [0, 1] if step % 10 == 0 else [0]
        losses = torch.tensor([1.0, 2.0][: len(there)], requires_grad=True)
        criterion(losses, torch.tensor(there))
        criterion.step()
        seen = np.array([1.0, 2.0 if len(there) == 2 else 0.0])
        theirs = theirs * np.exp(0.05 * seen)
        theirs /= theirs.sum()
        shares.append((criterion.mixture[1].item(), theirs[1]))
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
        for column, color, name in ((0, OURS, "last loss kept"), (1, THEIRS, "absent is loss 0")):
            axes.plot([s[column] for s in shares], color=color, label=name)
        axes.set(xlabel="step", ylabel="λ of the hard domain", ylim=(0, 1))
        axes.legend(frameon=False, loc="center right")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(HERE / "img" / "pytorch_absent.png", dpi=150)
        plt.close(figure)


def fashion() -> None:
    """Test accuracy of each class, mean of the seeds in docs/pytorch_fashion.json."""
    runs = json.loads((HERE / "pytorch_fashion.json").read_text(encoding="utf-8"))
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8.4, 3.4), layout="constrained")
        place = np.arange(len(CLASSES))
        kinds = (("ordinary", THEIRS), ("robust", OURS), ("certified", THIRD))
        for i, (kind, color) in enumerate(kinds):
            mean = np.mean([run[kind]["classes"] for run in runs], axis=0)
            axes.bar(place + 0.27 * (i - 1), mean, 0.25, color=color, label=kind)
        axes.set(ylim=(50, 100), ylabel="test accuracy, %", xticks=place)
        axes.set_xticklabels(CLASSES, fontsize=9)
        axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.18))
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(HERE / "img" / "pytorch_fashion.png", dpi=150)
        plt.close(figure)


if __name__ == "__main__":
    absent()
    fashion()
