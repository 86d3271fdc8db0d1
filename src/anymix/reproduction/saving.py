"""Results as files: JSON and CSV, and a picture where matplotlib is installed."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from anymix.files import write_whole

__all__ = ["draw", "save_numbers"]


def save_numbers(
    folder: Path, name: str, summary: Mapping[str, Any], header: list[str], lines: list[list[Any]]
) -> list[Path]:
    """Write the summary as <name>.json and the lines as <name>.csv.

    Parameters
    ----------
    folder : Path
        Where to write; made if it is not there.
    name : str
        The name of both files, without the ending.
    summary : mapping
        What goes into the JSON file.
    header : list of str
        The first line of the CSV file.
    lines : list of lists
        The lines of the CSV file after the first.

    Returns
    -------
    list of Path
        The two files.
    """
    text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"

    def write_lines(path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *lines])

    return [
        write_whole(folder / f"{name}.json", lambda path: path.write_text(text, encoding="utf-8")),
        write_whole(folder / f"{name}.csv", write_lines),
    ]


def draw(paint: Callable[[Any], None], n: int, path: Path, width: float) -> list[Path]:
    """Write a picture of n panels side by side.

    Parameters
    ----------
    paint : function
        Called with the n axes of matplotlib, draws on them.
    n : int
        The number of panels.
    path : Path
        The picture to write; the ending of its name says which kind.
    width : float
        The width of a panel in inches.

    Returns
    -------
    list of Path
        The file; empty, and nothing is painted, without matplotlib.
    """
    try:
        from matplotlib.figure import Figure  # not pyplot: no window, no global state
    except ImportError:
        return []
    figure = Figure(figsize=(width * n, 4.2), layout="constrained")
    paint(figure.subplots(1, n, squeeze=False)[0])
    return [write_whole(path, lambda new: figure.savefig(new, dpi=150))]
