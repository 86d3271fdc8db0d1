"""A table of the paper beside ours: on the terminal, as JSON and CSV, and as a picture."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid

from anymix.files import write_whole

Array = NDArray[np.float64]
Entry = tuple[float, float]  # mean and standard deviation; 0 where none is printed


@dataclass(frozen=True, eq=False)
class Table:
    """Every run of every row, and what the paper prints."""

    name: str
    title: str
    columns: tuple[str, ...]
    runs: Mapping[str, Array]  # row: (runs, columns)
    printed: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    exact: Mapping[str, Array] = field(default_factory=dict)  # row: (columns,), the exact solver's
    facts: Mapping[str, Any] = field(default_factory=dict)  # more for the JSON file
    decimals: int = 2
    log: bool = False  # the scale of the picture

    @property
    def n_runs(self) -> int:
        return len(next(iter(self.runs.values())))

    def mean(self, row: str) -> Array:
        return np.asarray(self.runs[row].mean(axis=0))

    def std(self, row: str) -> Array:
        """Of a sample; 0 for a single run."""
        return np.asarray(self.runs[row].std(axis=0, ddof=min(1, self.n_runs - 1)))

    def difference(self, row: str) -> Array:
        return np.asarray(self.mean(row) - [mean for mean, _ in self.printed[row]])

    def as_dict(self) -> dict[str, Any]:
        rows: dict[str, Any] = {}
        for row in self.runs:
            rows[row] = {"ours": {"mean": self.mean(row).tolist(), "std": self.std(row).tolist()}}
            if row in self.printed:
                means, stds = zip(*self.printed[row], strict=True)
                rows[row]["paper"] = {"mean": means, "std": stds}
                rows[row]["difference"] = self.difference(row).tolist()
            if row in self.exact:
                rows[row]["exact"] = self.exact[row].tolist()
        head = {"experiment": self.name, "title": self.title, "runs": self.n_runs}
        return head | {"columns": list(self.columns), "rows": rows} | dict(self.facts)

    def grid(self) -> Grid:
        title = f"{self.title}\nmean±standard deviation of {self.n_runs} run(s)"
        grid = Grid(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        for heading in ("trained on", ""):
            grid.add_column(heading, no_wrap=True)
        for column in self.columns:
            grid.add_column(column, justify="right", no_wrap=True)
        for row in self.runs:
            ours = list(zip(self.mean(row), self.std(row), strict=True))
            lines = [("paper", [self._shown(*entry) for entry in self.printed.get(row, ())])]
            lines += [("ours", [self._shown(*entry) for entry in ours])]
            lines += [("exact", [self._shown(value) for value in self.exact.get(row, ())])]
            for i, (kind, cells) in enumerate(line for line in lines if line[1]):
                grid.add_row(row if i == 0 else "", kind, *cells)
            grid.add_section()
        return grid

    def _shown(self, mean: float, std: float = 0.0) -> str:
        return f"{mean:.{self.decimals}f}" + (f"±{std:.{self.decimals}f}" if std else "")

    def save(self, folder: Path) -> list[Path]:
        """Write <name>.json (the table), .csv (every run) and .png."""
        name, header = self.name, ["trained on", "seed", *self.columns]
        lines = [
            [row, seed, *values.round(4).tolist()]
            for row, runs in self.runs.items()
            for seed, values in enumerate(runs)
        ]
        files = save_numbers(folder, name, self.as_dict(), header, lines)
        return [*files, draw(self._draw, len(self.runs), folder / f"{name}.png", 3.3)]

    def _draw(self, panels: Any) -> None:
        places, bar = np.arange(len(self.columns)), {"fmt": "o", "capsize": 3, "markersize": 6}
        for axes, row in zip(panels, self.runs, strict=True):
            if row in self.printed:
                mean, std = np.array(self.printed[row]).T  # (columns,) each
                style: dict[str, Any] = {"mfc": "white", "color": "0.35", "label": "the paper"}
                axes.errorbar(places - 0.2, mean, std, **bar, **style)
            style = {"color": "tab:blue", "label": f"ours, {self.n_runs} run(s)"}
            axes.errorbar(places, self.mean(row), self.std(row), **bar, **style)
            if row in self.exact:
                label = {"label": "exact solver"}
                axes.plot(places + 0.2, self.exact[row], "D", color="tab:orange", **label)
            axes.set_title(f"trained on {row}" if row != "agnostic" else "trained for any mixture")
            axes.set_xticks(places, self.columns, rotation=20)
            axes.grid(axis="y", alpha=0.3)
            if self.log:
                axes.set_yscale("log")
        low = min(axes.get_ylim()[0] for axes in panels)
        high = max(axes.get_ylim()[1] for axes in panels)
        for axes in panels:
            axes.set_ylim(low, high)
        panels[0].set_ylabel(self.title.rpartition(": ")[2])
        handles, labels = panels[-1].get_legend_handles_labels()
        place: dict[str, Any] = {"loc": "outside lower center", "ncols": 3, "frameon": False}
        panels[-1].figure.legend(handles, labels, **place)


def save_numbers(
    folder: Path, name: str, summary: Mapping[str, Any], header: list[str], lines: list[list[Any]]
) -> list[Path]:
    text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"

    def write_lines(path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *lines])

    return [
        write_whole(folder / f"{name}.json", lambda path: path.write_text(text, encoding="utf-8")),
        write_whole(folder / f"{name}.csv", write_lines),
    ]


def draw(paint: Callable[[Any], None], n: int, path: Path, width: float) -> Path:
    """A picture of n panels side by side."""
    from matplotlib.figure import Figure  # not pyplot: no window, no global state

    figure = Figure(figsize=(width * n, 4.2), layout="constrained")
    paint(figure.subplots(1, n, squeeze=False)[0])
    return write_whole(path, lambda new: figure.savefig(new, dpi=150))


def accuracies(predicted: NDArray[Any], y: Any, of: Any, names: Sequence[str]) -> Array:
    """Percentage of right answers: all, each domain, the worst, (p + 2,)."""
    right = predicted == y  # (n,)
    by_domain = [right[of == name].mean() for name in names]
    return 100 * np.array([right.mean(), *by_domain, min(by_domain)])
