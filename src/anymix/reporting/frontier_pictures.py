"""A frontier as a picture: what robustness buys and costs."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anymix.reporting.arguments import extra_of
from anymix.reporting.frontiers import FITTED, Front, Series, checked_frontier
from anymix.reporting.panels import Panel, marks_of, panels_of
from anymix.reporting.pictures import COLORS, literal, saved
from anymix.solvers import Frontier

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

__all__ = ["draw_frontier", "frontier_figure"]

CLEAR: dict[str, Any] = {"color": COLORS[1], "ecolor": f"{COLORS[1]}88", "fmt": "o-"}
FAINT: dict[str, Any] = {"color": "#9aa5b0", "fmt": "o:", "markerfacecolor": "white"}  # rows fitted


def draw_frontier(
    frontier: Frontier, path: str | os.PathLike[str], *, title: str | None = None
) -> Path:
    """Draw Σ_k m̄_k L_k against max_{λ∈Λ} Σ_k λ_k L_k, a point for each model of a frontier.

    Left is better for all rows, down is better for the worst mixture. The ordinary model and the
    one that was taken are named. Rows held out and rows fitted share a picture where both can be
    read in it.

    Parameters
    ----------
    frontier : Frontier
        `frontier_` of an estimator that chooses, or what `pareto_front` returned.
    path : path-like
        The file; its ending names the format: .png, .svg or .pdf.
    title : str, optional
        A heading.

    Returns
    -------
    Path
        The path of the picture.

    Examples
    --------
    >>> import tempfile
    >>> import anymix as ax
    >>> X, y = np.zeros((10, 1)), [1] * 7 + [0] + [0, 1]       # a is mostly 1; b half and half
    >>> front = ax.pareto_front(ax.LinearDomains(X, y, ["a"] * 8 + ["b"] * 2), gamma=0.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_frontier(front, Path(folder) / "frontier.svg").name
    'frontier.svg'
    """
    front = checked_frontier(frontier)
    return saved(path, lambda: frontier_figure(front, title))


def frontier_figure(front: Front, title: str | None = None) -> Figure:
    """The picture of a frontier as a matplotlib figure."""
    with extra_of("a picture"):
        from matplotlib.figure import Figure
    panels = panels_of(front)
    figure = Figure(figsize=(max(7.0, 5.5 * len(panels)), 4.8), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        _draw_points(axes, panel)
        _draw_names(axes, front, panel)
        axes.set(xlim=panel.x.ends, ylim=panel.y.ends)
        axes.set(xlabel="loss on all rows", ylabel="loss of the worst mixture")
        axes.set_title(panel.heading, fontsize="medium", loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    note = textwrap.fill(panels[0].caption, 90 * len(panels))  # rows fitted have nothing to say
    figure.supxlabel(note, fontsize="small", color="#55606b")
    if title is not None:
        figure.suptitle(literal(title))
    return figure


def _draw_points(axes: Axes, panel: Panel) -> None:
    """The points of the series, joined from left to right, with their standard errors."""
    for i, series in enumerate(panel.series):
        looks = (
            FAINT
            if series.rows == FITTED
            else {"color": COLORS[1], "fmt": "o-", "ecolor": "#00407888"}
        )
        # An infinite line would not be drawn at all; one of twice the picture leaves it.
        along, up = (np.minimum(e, 2 * (end[1] - end[0])) for e, end in _errors(panel, series))
        order = np.argsort(series.pooled, kind="stable")  # a tame model of a larger t lies back
        axes.errorbar(series.pooled[order], series.worst[order], xerr=along[order],
                      yerr=up[order], elinewidth=0.6, label=series.rows, zorder=3 - i,
                      **looks)  # fmt: skip
    if len(panel.series) > 1:
        axes.legend(frameon=False)


def _draw_names(axes: Axes, front: Front, panel: Panel) -> None:
    """A square for the ordinary model, a ring around the one taken, and both names."""
    first = panel.series[0]
    at = list(zip(first.pooled, first.worst, strict=True))
    if front.ordinary is not None:
        axes.plot(*at[front.ordinary], "s", color=COLORS[0], markersize=9, zorder=4)
    if front.chosen is not None:
        axes.plot(*at[front.chosen], "ko", fillstyle="none", markersize=15, zorder=4)
    arrow = {"arrowstyle": "-", "linewidth": 0.8, "shrinkB": 8}
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
    for mark in marks_of(front, panel):
        offset, side = ((18, 20), "bottom") if mark.above else ((-18, -20), "top")
        axes.annotate("\n".join(mark.lines), at[mark.place], offset, textcoords="offset points",
                      ha="center", va=side, arrowprops=arrow, bbox=paper, zorder=5)  # fmt: skip


def _errors(panel: Panel, series: Series) -> Iterator[tuple[Array, tuple[float, float]]]:
    """The standard errors along each axis, with its ends."""
    return zip(panel.errors(series), (panel.x.ends, panel.y.ends), strict=True)
