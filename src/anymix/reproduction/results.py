"""One table of results: ours beside the paper's, on the terminal and as JSON, CSV and picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid

from anymix.reproduction.experiments import Experiment
from anymix.reproduction.saving import draw, save_numbers

Array = NDArray[np.float64]

__all__ = ["ExactRow", "Table"]


@dataclass(frozen=True, eq=False)
class ExactRow:
    """The certified solution of one row: what stochastic steps approach.

    Attributes
    ----------
    gamma : float
        The γ of least cross-validated loss.
    mixture : ndarray of shape (p,)
        λ*, in the order of the experiment's domains.
    gap : float
        By how much the objective can be from its least value.
    accuracies : ndarray of shape (columns,)
        Test accuracies in percent.
    """

    gamma: float
    mixture: Array
    gap: float
    accuracies: Array


@dataclass(frozen=True, eq=False)
class Table:
    """Test accuracies in percent: of every stochastic run, and of the exact solver.

    Attributes
    ----------
    experiment : Experiment
        The experiment that was run.
    accuracies : mapping of str to ndarray of shape (runs, columns)
        For each row of the table, by what it is trained on.
    mixtures : mapping of str to ndarray of shape (runs, p)
        λ at the end of each run, in the order of the experiment's domains.
    exact : mapping of str to ExactRow
        What the exact solver finds for each row.

    Examples
    --------
    >>> from anymix.reproduction import ADULT
    >>> two_runs = {row: np.full((2, 4), 80.0) for row in ADULT.rows}
    >>> even = {row: np.full((2, 2), 0.5) for row in ADULT.rows}
    >>> table = Table(ADULT, two_runs, even, exact={})
    >>> table.runs, table.difference("agnostic").round(2).tolist()  # the paper: 80.1, 71.53, ...
    (2, [-0.1, 8.47, -0.2, 8.47])
    """

    experiment: Experiment
    accuracies: Mapping[str, Array]
    mixtures: Mapping[str, Array]
    exact: Mapping[str, ExactRow]

    @property
    def runs(self) -> int:
        """How often each row was trained."""
        return len(next(iter(self.accuracies.values())))

    def mean(self, row: str) -> Array:
        """Mean accuracies over the runs of a row, (columns,)."""
        return np.asarray(self.accuracies[row].mean(axis=0))

    def std(self, row: str) -> Array:
        """Standard deviations over the runs of a row, (columns,); 0 for a single run."""
        return np.asarray(self.accuracies[row].std(axis=0, ddof=min(1, self.runs - 1)))

    def difference(self, row: str) -> Array:
        """Mean accuracies of a row less those that the paper prints, (columns,)."""
        printed: Array = np.array([mean for mean, _ in self.experiment.printed[row]])
        return self.mean(row) - printed

    def as_dict(self) -> dict[str, Any]:
        """Everything but the single runs, ready for JSON."""
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.title,
            "runs": self.runs,
            "optimizer": repr(self.experiment.optimizer),
            "settings": asdict(self.experiment.settings),
            "columns": list(self.experiment.columns),
            "rows": {row: self._row_as_dict(row) for row in self.experiment.rows},
        }

    def _row_as_dict(self, row: str) -> dict[str, Any]:
        exact = self.exact[row]
        return {
            "paper": {
                "mean": [mean for mean, _ in self.experiment.printed[row]],
                "std": [std for _, std in self.experiment.printed[row]],
            },
            "ours": {"mean": self.mean(row).tolist(), "std": self.std(row).tolist()},
            "difference": self.difference(row).tolist(),
            "mixture": self._by_name(self.mixtures[row].mean(axis=0)),
            "exact": {
                "accuracy": exact.accuracies.tolist(),
                "gamma": exact.gamma,
                "mixture": self._by_name(exact.mixture),
                "gap": exact.gap,
            },
        }

    def _by_name(self, mixture: Array) -> dict[str, float]:
        return dict(zip(self.experiment.domains, mixture.tolist(), strict=True))

    def grid(self) -> Grid:
        """A table for the terminal, four lines a row: the paper, ours, the difference, exact."""
        title = f"{self.experiment.title}\nmean±standard deviation of {self.runs} runs"
        grid = Grid(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        for heading in ("trained on", ""):
            grid.add_column(heading, no_wrap=True)
        for column in self.experiment.columns:
            grid.add_column(column, justify="right", no_wrap=True)
        for row, printed in self.experiment.printed.items():
            ours = zip(self.mean(row), self.std(row), strict=True)
            grid.add_row(row, "paper", *(f"{mean:.2f}±{std:.2f}" for mean, std in printed))
            grid.add_row("", "ours", *(f"{mean:.2f}±{std:.2f}" for mean, std in ours))
            grid.add_row("", "diff.", *(f"{value:+.2f}" for value in self.difference(row)))
            exact = (f"{value:.2f}" for value in self.exact[row].accuracies)
            grid.add_row("", "exact", *exact, end_section=True)
        return grid

    def save(self, folder: Path) -> list[Path]:
        """Write <name>.json (the table), .csv (every run) and .png.

        Parameters
        ----------
        folder : Path
            Where to write; made if it is not there.

        Returns
        -------
        list of Path
            The files; without matplotlib there is no picture.
        """
        name = self.experiment.name
        header = ["trained on", "seed", *self.experiment.columns]
        lines = [
            [row, seed, *values.round(4).tolist()]
            for row, runs in self.accuracies.items()
            for seed, values in enumerate(runs)
        ]
        written = save_numbers(folder, name, self.as_dict(), header, lines)
        n = len(self.accuracies)
        return written + draw(self._draw, n, folder / f"{name}.png", width=3.3)

    def _draw(self, panels: Any) -> None:
        """A panel for each row: the paper's entries, ours, and those of the exact solver."""
        for axes, row in zip(panels, self.experiment.printed, strict=True):
            self._draw_row(axes, row)
            axes.grid(axis="y", alpha=0.3)
        panels[0].set_ylabel("test accuracy, %")
        handles, labels = panels[-1].get_legend_handles_labels()
        place: dict[str, Any] = {"loc": "outside lower center", "ncols": 3, "frameon": False}
        panels[-1].figure.legend(handles, labels, **place)

    def _draw_row(self, axes: Any, row: str) -> None:
        places = np.arange(len(self.experiment.columns))
        paper, spread = np.array(self.experiment.printed[row]).T  # (columns,) each
        bar: dict[str, Any] = {"fmt": "o", "capsize": 3, "markersize": 6}
        axes.errorbar(
            places - 0.2, paper, spread, mfc="white", color="0.35", label="the paper", **bar
        )
        label = f"ours, {self.runs} runs"
        axes.errorbar(places, self.mean(row), self.std(row), color="tab:blue", label=label, **bar)
        exact = self.exact[row].accuracies
        axes.plot(places + 0.2, exact, "D", color="tab:orange", label="exact solver")
        axes.set_title(f"trained on {row}" if row != "agnostic" else "trained for any mixture")
        axes.set_xticks(places, self.experiment.columns, rotation=20)
        axes.set(xlim=(-0.5, len(places) - 0.5), ylim=self._limits())

    def _limits(self) -> tuple[float, float]:
        """A range of accuracies for all panels."""
        printed = [entry for entries in self.experiment.printed.values() for entry in entries]
        shown = [mean + sign * std for mean, std in printed for sign in (-1, 1)]
        shown += [value for runs in self.accuracies.values() for value in runs.mean(axis=0)]
        shown += [value for exact in self.exact.values() for value in exact.accuracies]
        return min(shown) - 2, max(shown) + 2
