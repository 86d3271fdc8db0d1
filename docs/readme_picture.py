"""The picture of the README, from the example in its text:  python docs/readme_picture.py"""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np

from anymix.reporting.pictures import COLORS

HERE = Path(__file__).parent
INK, (ORDINARY, ROBUST) = "#333333", COLORS[:2]


def example() -> dict[str, Any]:
    """What the variables of the README's first example are."""
    text = (HERE.parent / "README.md").read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    part = text[text.index("## Example") : text.index("That speaks of the rows fitted")]
    for each in doctest.DocTestParser().get_examples(part):
        exec(compile(each.source, "README.md", "single"), found)
    return found


def draw(out: Path) -> None:
    """Bars of the log loss of both models in both places."""
    from matplotlib import pyplot as plt

    found = example()
    losses = {name: np.asarray(found[name].domain_losses_) for name in ("ordinary", "robust")}
    figure, axes = plt.subplots(figsize=(6.4, 2.3), layout="constrained")
    for k, (name, color, hatch) in enumerate(
        (("ordinary", ORDINARY, "//"), ("robust", ROBUST, ""))
    ):
        places = np.arange(2) + 0.4 * k
        style: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": "white"}
        bars = axes.barh(places, losses[name], 0.36, label=name, **style)
        axes.bar_label(bars, [f"{loss:.1f}" for loss in losses[name]], padding=4, color=INK)
    axes.set_yticks(np.arange(2) + 0.2, ["city, 900 patients", "rural, 100 patients"], color=INK)
    axes.set_xlabel("log loss (less is better)", color=INK)
    axes.set_xlim(0, 1.12)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    figure.savefig(out, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    draw(HERE / "img" / "readme_hospitals.png")
