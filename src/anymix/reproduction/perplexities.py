"""The perplexities of the language models beside the paper's: on the terminal, in files, drawn.

perplexity on domain k = exp(L_k), L_k the mean loss of a test word in nats
all = exp(Σ_k m̄_k L_k)          worst = max_k exp(L_k)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid

from anymix.errors import InputError
from anymix.reproduction.language_experiment import (
    COLUMNS,
    DOMAINS,
    LANGUAGE_ROWS,
    PRINTED,
    REFERENCE,
    Scale,
)
from anymix.reproduction.saving import draw, save_numbers

Array = NDArray[np.float64]

__all__ = ["LanguageTable", "Run", "entries"]

COLORS = {"document": "tab:green", "conversation": "tab:purple", "Û": "tab:orange"}
COLORS |= {"agnostic": "tab:blue"}


@dataclass
class Run:
    """One model: where its training is, what was measured, and in the end the test losses.

    Parameters
    ----------
    row : str
        The row of the table.
    seed : int
        The seed of all randomness.
    fingerprint : str
        Of the plan.
    step : int
        Steps made so far.
    seconds : float
        Seconds spent in them.
    looks : list of dict
        What was seen on the way: step, seconds, mixture, and the validation losses.
    test : list of float
        The mean loss of a test word for each domain, in nats; empty before the end.
    """

    row: str
    seed: int
    fingerprint: str
    step: int = 0
    seconds: float = 0.0
    looks: list[dict[str, Any]] = field(default_factory=list)
    test: list[float] = field(default_factory=list)

    def state_dict(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on there.

        Parameters
        ----------
        state : dict
            What `state_dict` gave; of another plan it is an error.
        """
        if state["fingerprint"] != self.fingerprint:
            found = "holds runs with other settings, another text, precision or number of threads"
            raise InputError("folder", found, "name another folder, or remove the old files")
        for name, value in state.items():
            setattr(self, name, value)


def entries(losses: Array) -> Array:
    """All, each domain, and the worst, (4,), from the mean losses (2,) of a word.

    Parameters
    ----------
    losses : ndarray of shape (2,)
        For documents and conversations, in nats.
    """
    return np.exp([REFERENCE @ losses, *losses, losses.max()])


@dataclass(frozen=True, eq=False)
class LanguageTable:
    """Table 3: test perplexities of every run, beside the paper's.

    Attributes
    ----------
    scale : Scale
        How large the models are and how long they were trained.
    source : str
        What the text is.
    licence : str
        Under which terms it is given.
    threads : int
        Threads of torch.
    runs : mapping of (str, int) to Run
        By the row of the table and the seed.
    speeds : mapping of str to float
        Words per second: `ours`, and `plain` for a plain torch loop of the same model.
    bf16 : bool
        Whether products were made in half precision while training.

    Examples
    --------
    >>> from anymix.reproduction import SCALES
    >>> runs = {(r, 0): Run(r, 0, "", test=[4.6, 4.1]) for r in ("Û", "agnostic")}
    >>> table = LanguageTable(SCALES["small"], "toy", "none", 1, runs, {"ours": 2.0, "plain": 1.0})
    >>> table.of("Û").round(2).tolist()  # all, document, conversation, worst
    [[66.62, 99.48, 60.34, 99.48]]
    >>> table.ratios().tolist()
    [1.0]
    """

    scale: Scale
    source: str
    licence: str
    threads: int
    runs: Mapping[tuple[str, int], Run]
    speeds: Mapping[str, float]
    bf16: bool = False

    @property
    def seeds(self) -> list[int]:
        """The seeds with which every row was trained."""
        return sorted({seed for _, seed in self.runs})

    def of(self, row: str) -> Array:
        """Perplexities of a row, (runs, 4)."""
        return np.array([entries(np.array(self.runs[row, s].test)) for s in self.seeds])

    def spread(self, row: str) -> Array:
        """Standard deviations over the runs of a row, (4,); 0 for a single run."""
        return np.asarray(self.of(row).std(axis=0, ddof=min(1, len(self.seeds) - 1)))

    def ratios(self) -> Array:
        """Worst perplexity of the agnostic model over that of Û, (runs,); the paper: 0.89."""
        return self.of("agnostic")[:, -1] / self.of("Û")[:, -1]

    def as_dict(self) -> dict[str, Any]:
        """Everything but the single runs, ready for JSON."""
        ratios = self.ratios()
        return {
            "experiment": f"language_{self.scale.name}",
            "title": self._title(),
            "source": self.source,
            "licence": self.licence,
            "runs": len(self.seeds),
            "threads": self.threads,
            "bf16": self.bf16,
            "settings": asdict(self.scale),
            "words_per_second": dict(self.speeds),
            "columns": list(COLUMNS),
            "rows": {
                row: {
                    "paper": list(PRINTED[row]),
                    "ours": {
                        "mean": self.of(row).mean(axis=0).tolist(),
                        "std": self.spread(row).tolist(),
                    },
                    "mixture": [self.runs[row, s].looks[-1]["mixture"] for s in self.seeds],
                    "seconds": [self.runs[row, s].seconds for s in self.seeds],
                }
                for row in LANGUAGE_ROWS
            },
            "worst agnostic / worst Û": {
                "paper": PRINTED["agnostic"][-1] / PRINTED["Û"][-1],
                "mean": ratios.mean(),
                "least": ratios.min(),
                "most": ratios.max(),
            },
        }

    def _title(self) -> str:
        return f"Table 3, language models ({self.scale.name}): test perplexity"

    def grid(self) -> Grid:
        """A table for the terminal, two lines a row, the paper's and ours."""
        runs = len(self.seeds)
        title = f"{self._title()}\nmean±standard deviation of {runs} run{'s' * (runs > 1)}"
        ratios, speed = self.ratios(), self.speeds
        caption = (
            f"worst, agnostic / Û: {ratios.mean():.3f} ({ratios.min():.3f} to {ratios.max():.3f}; "
            f"paper 0.890)\n{speed['ours']:,.0f} words/s; plain torch loop {speed['plain']:,.0f}\n"
            f"{self.source}"
        )
        grid = Grid(title=title, caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for heading in ("trained on", ""):
            grid.add_column(heading, no_wrap=True)
        for column in COLUMNS:
            grid.add_column(column, justify="right", no_wrap=True)
        for row, printed in PRINTED.items():
            ours = zip(self.of(row).mean(axis=0), self.spread(row), strict=True)
            grid.add_row(row, "paper", *(f"{value:.1f}" for value in printed))
            cells = (f"{mean:.1f}±{std:.1f}" for mean, std in ours)
            grid.add_row("", "ours", *cells, end_section=True)
        return grid

    def save(self, folder: Path) -> list[Path]:
        """Write language_<scale>.json, .csv (every run), .png, and _training.png.

        Parameters
        ----------
        folder : Path
            Where to write; made if it is not there.

        Returns
        -------
        list of Path
            The files; without matplotlib there are no pictures.
        """
        name = f"language_{self.scale.name}"
        lines = [
            [row, seed, *values.round(4).tolist()]
            for row in LANGUAGE_ROWS
            for seed, values in zip(self.seeds, self.of(row), strict=True)
        ]
        header = ["trained on", "seed", *COLUMNS]
        written = save_numbers(folder, name, self.as_dict(), header, lines)
        written += draw(self._draw, len(PRINTED), folder / f"{name}.png", width=3.0)
        return written + draw(self._draw_training, 3, folder / f"{name}_training.png", width=4.5)

    def _draw(self, panels: Any) -> None:
        """A panel for each row: the paper's perplexities and ours."""
        places = np.arange(len(COLUMNS))
        for axes, (row, printed) in zip(panels, PRINTED.items(), strict=True):
            axes.plot(places - 0.1, printed, "o", mfc="white", color="0.35", label="the paper")
            bar: dict[str, Any] = {"fmt": "o", "capsize": 3, "color": "tab:blue"}
            mean, label = self.of(row).mean(axis=0), f"ours, {self.scale.name}"
            axes.errorbar(places + 0.1, mean, self.spread(row), label=label, **bar)
            axes.set_title(f"trained on {row}" if row != "agnostic" else "trained for any mixture")
            axes.set_xticks(places, COLUMNS, rotation=20)
            axes.set(yscale="log", xlim=(-0.5, len(places) - 0.5))
            axes.grid(axis="y", alpha=0.3)
        low = min(axes.get_ylim()[0] for axes in panels)
        high = max(axes.get_ylim()[1] for axes in panels)
        for axes in panels:
            axes.set_ylim(low, high)
        panels[0].set_ylabel("test perplexity")
        panels[-1].legend(frameon=False)

    def _draw_training(self, panels: Any) -> None:
        """Over the steps: the weight of documents, and both domains' validation perplexity."""
        for (row, seed), run in self.runs.items():
            steps = [look["step"] for look in run.looks]
            style: dict[str, Any] = {"color": COLORS[row], "alpha": 0.8}
            style["label"] = row if seed == self.seeds[0] else None
            panels[0].plot(steps, [look["mixture"][0] for look in run.looks], **style)
            for k, axes in enumerate(panels[1:]):
                axes.plot(steps, [np.exp(look["valid"][k]) for look in run.looks], **style)
        panels[0].set(ylabel="λ of documents", ylim=(-0.03, 1.03))
        for axes, domain in zip(panels[1:], DOMAINS, strict=True):
            axes.set(ylabel=f"validation perplexity, {domain}", yscale="log")
        for axes in panels:
            axes.set_xlabel("step")
            axes.grid(alpha=0.3)
        panels[0].legend(frameon=False)
