"""Online News Popularity: the experiment that the paper describes and gives no result for.

    features (0 mean, unit deviation) → dropout 20 % → ReLU → dropout 50 % → ReLU → dropout 50 %
    → score of "shared 1,400 times or more"

trained with Adam twice, for Û and for any mixture of the six domains. torch is loaded when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid

from anymix.datasets import Dataset, load_news
from anymix.errors import InputError
from anymix.mixtures import MixtureSet, Simplex
from anymix.mixtures.parsing import data_mixture
from anymix.reproduction.saving import save_numbers

Array = NDArray[np.float64]

__all__ = ["NewsSettings", "NewsTable", "reproduce_news"]

ROWS = ("Û", "agnostic")


@dataclass(frozen=True)
class NewsSettings:
    """What the paper leaves open for the network.

    Attributes
    ----------
    units : int
        Units of each of the two hidden layers.
    rows : int
        Rows of each domain in a step.
    n_steps : int
        How many steps are made.
    step_w : float
        The step of Adam.
    step_mixture : float
        γ_λ, the step of λ.

    Examples
    --------
    >>> NewsSettings(n_steps=10).units
    100
    """

    units: int = 100
    rows: int = 32
    n_steps: int = 3000
    step_w: float = 1e-3
    step_mixture: float = 1e-3


@dataclass(frozen=True, eq=False)
class NewsTable:
    """Test accuracy in percent on all articles, each domain and the worst domain.

    Attributes
    ----------
    settings : NewsSettings
        How it was trained.
    domains : tuple of str
        The domains, by name.
    accuracies : mapping of str to ndarray of shape (runs, p + 2)
        For each row every run: all, each domain, worst.
    mixtures : mapping of str to ndarray of shape (runs, p)
        λ at the end of each run.

    Examples
    --------
    >>> found = {row: np.full((1, 3), 60.0) for row in ("Û", "agnostic")}
    >>> NewsTable(NewsSettings(), ("world",), found, {}).columns
    ('all', 'world', 'worst')
    """

    settings: NewsSettings
    domains: tuple[str, ...]
    accuracies: Mapping[str, Array]
    mixtures: Mapping[str, Array]

    @property
    def columns(self) -> tuple[str, ...]:
        """What accuracies are of."""
        return ("all", *self.domains, "worst")

    def as_dict(self) -> dict[str, Any]:
        """Means over the runs, ready for JSON."""
        return {
            "experiment": "news",
            "title": "Online News Popularity: test accuracy in percent",
            "settings": asdict(self.settings),
            "columns": list(self.columns),
            "rows": {
                row: {
                    "mean": values.mean(axis=0).tolist(),
                    "std": values.std(axis=0, ddof=min(1, len(values) - 1)).tolist(),
                    "mixture": self.mixtures[row].mean(axis=0).tolist(),
                }
                for row, values in self.accuracies.items()
            },
        }

    def grid(self) -> Grid:
        """A table for the terminal, a line for each column."""
        grid = Grid(title="Online News Popularity: test accuracy in percent", box=SIMPLE_HEAD)
        grid.add_column("")
        for row in self.accuracies:
            grid.add_column(row, justify="right")
        for j, column in enumerate(self.columns):
            cells = (
                f"{v[:, j].mean():.2f}±{v[:, j].std(ddof=min(1, len(v) - 1)):.2f}"
                for v in self.accuracies.values()
            )
            grid.add_row(column, *cells)
        return grid

    def save(self, folder: Path) -> list[Path]:
        """Write news.json and news.csv (every run).

        Parameters
        ----------
        folder : Path
            Where to write; made if it is not there.

        Returns
        -------
        list of Path
        """
        lines = [
            [row, seed, *values.round(4).tolist()]
            for row, runs in self.accuracies.items()
            for seed, values in enumerate(runs)
        ]
        header = ["trained on", "seed", *self.columns]
        return save_numbers(folder, "news", self.as_dict(), header, lines)


def reproduce_news(
    file: Path | None = None,
    runs: int = 10,
    *,
    settings: NewsSettings | None = None,
    data: Dataset | None = None,
) -> NewsTable:
    """Train the network for Û and for any mixture of the channels.

    Parameters
    ----------
    file : Path, optional
        OnlineNewsPopularity.csv or its zip file; by default that of `load_news()`.
    runs : int
        How often each row is trained, with the seeds 0, 1, …
    settings : NewsSettings, optional
        What the paper leaves open.
    data : Dataset, optional
        Rows in place of the file's.

    Returns
    -------
    NewsTable

    Examples
    --------
    >>> reproduce_news(runs=0)
    Traceback (most recent call last):
        ...
    anymix.errors.InputError: runs is 0; give a whole number ≥ 1
    """
    if not isinstance(runs, Integral) or runs < 1:
        raise InputError("runs", f"is {runs!r}", "give a whole number ≥ 1")
    settings = NewsSettings() if settings is None else settings
    data = load_news(file) if data is None else data
    try:
        from anymix.reproduction.news_network import train_network
    except ImportError:
        raise InputError("news", "needs PyTorch", "pip install 'anymix[torch]'") from None

    options: dict[str, Any] = asdict(settings)
    names = tuple(sorted({*data.domains.tolist()}))
    sizes = np.array([np.sum(data.domains == name) for name in names], dtype=np.float64)
    sets: dict[str, MixtureSet] = {"Û": data_mixture(sizes), "agnostic": Simplex(len(names))}
    found = {
        row: [train_network(data, names, sets[row], seed=s, **options) for s in range(runs)]
        for row in ROWS
    }
    return NewsTable(
        settings,
        names,
        {row: np.array([_accuracies(data, names, p) for p, _ in found[row]]) for row in ROWS},
        {row: np.array([mixture for _, mixture in found[row]]) for row in ROWS},
    )


def _accuracies(data: Dataset, names: tuple[str, ...], predicted: NDArray[np.int64]) -> Array:
    """Percentage of right answers: all, each domain, the worst, (p + 2,)."""
    right = predicted == data.y_test
    by_domain = [right[data.domains_test == name].mean() for name in names]
    return 100 * np.array([right.mean(), *by_domain, np.nanmin(by_domain)])
