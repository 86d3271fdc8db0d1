"""The picture of docs/which_model.md, the choice for Adult: python docs/which_model_picture.py"""

from __future__ import annotations

from pathlib import Path

import anymix as ax
from anymix.datasets import load_adult
from anymix.reporting import draw_recommendation


def draw(out: Path) -> None:
    """The candidates on held-out rows of the training table; the same each time."""
    data = load_adult()
    model = ax.AnyMixClassifier().fit(data.X, data.y, domains=data.domains)
    draw_recommendation(model.recommendation_, out, title="Adult: doctorates and all others")


if __name__ == "__main__":
    draw(Path(__file__).parent / "img" / "which_model.png")
