"""Which model: the candidates in the plane of all rows against the worst domain."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anymix.reporting.arguments import extra_of
from anymix.reporting.pictures import COLORS, literal, saved
from anymix.selection.recommendation import Recommendation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["choice_figure", "draw_recommendation"]

PLAIN, DIAL, KNOWN = COLORS[0], COLORS[1], COLORS[2]
INK = "#55606b"


def draw_recommendation(
    recommendation: Recommendation, path: str | os.PathLike[str], *, title: str | None = None
) -> Path:
    """Draw every candidate: its loss on all rows (x) and on its worst domain (y), on held-out rows.

    The dashed line is the price: what stands right of it costs all rows too much. The recommended
    model has a ring. Candidates that must be told the domain are hollow.

    Parameters
    ----------
    recommendation : Recommendation
        `recommendation_` of AnyMixClassifier or AnyMixRegressor.
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
    >>> import numpy as np
    >>> import anymix as ax
    >>> rng = np.random.default_rng(0)
    >>> X, d = rng.normal(size=(200, 2)), ["a", "b"] * 100
    >>> model = ax.AnyMixRegressor("linear").fit(X, X[:, 0] + rng.normal(size=200), domains=d)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_recommendation(model.recommendation_, Path(folder) / "choice.svg").name
    'choice.svg'
    """
    return saved(path, lambda: choice_figure(recommendation, title))


def choice_figure(found: Recommendation, title: str | None = None) -> Figure:
    """The picture as a matplotlib figure."""
    with extra_of("a picture"):
        from matplotlib.figure import Figure
    points = _points(found)
    figure = Figure(figsize=(7.6, 4.8), layout="constrained")
    axes = figure.subplots()
    dial = [name for name in points if name.startswith("t=")]
    known = [name for name in points if name.endswith(" with domain")]
    plain = [name for name in points if name not in (*dial, *known, "reference", "recommended")]
    line = np.array([points[found.reference], *(points[name] for name in dial)])
    axes.plot(*line.T, "-", color=DIAL, linewidth=1, zorder=1)
    looks: list[tuple[list[str], str, dict[str, Any]]] = [
        (plain, "does not look at the domain", {"marker": "s", "color": PLAIN}),
        (dial, "infers the domain: the dial t", {"marker": "o", "color": DIAL}),
        (known, "is told the domain", {"marker": "o", "color": KNOWN, "markerfacecolor": "white"}),
    ]
    for names, label, look in looks:
        if names:
            xy = np.array([points[name] for name in names])
            axes.plot(*xy.T, linestyle="none", markersize=8, label=label, zorder=3, **look)
    _draw_price(axes, found, points)
    axes.plot(*points[found.chosen], "ko", fillstyle="none", markersize=17, zorder=4,
              label="recommended")  # fmt: skip
    for names in (plain, dial, known):
        _draw_names(axes, {name: points[name] for name in names}, together=names is not dial)
    unit = "RMSE" if found.squared else "log loss"
    axes.set(xlabel=f"{unit} on all rows", ylabel=f"{unit} on the worst domain")
    axes.margins(x=0.14, y=0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", labelspacing=0.9)
    if title is not None:
        axes.set_title(literal(title), loc="left")
    return figure


def _draw_names(axes: Axes, points: dict[str, NDArray[np.float64]], together: bool) -> None:
    """Beside the points; of three that are close, one to the left, one above and one below."""
    left = min(points, key=lambda name: float(points[name][0])) if together and points else None
    right = sorted((name for name in points if name != left), key=lambda name: -points[name][1])
    for name, xy in points.items():
        dx, side = (-9, "right") if name == left else (9, "left")
        dy = -12 if together and right and name == right[-1] and len(right) > 1 else 5
        said = literal(name.removesuffix(" with domain"))
        axes.annotate(said, (xy[0], xy[1]), (dx, dy), textcoords="offset points", ha=side,
                      fontsize="small", color=INK)  # fmt: skip


def _points(found: Recommendation) -> dict[str, NDArray[np.float64]]:
    """(all rows, worst domain) of each candidate; roots of squared errors."""
    both = np.column_stack([found.pooled, found.losses.max(axis=1)])
    both = np.sqrt(both) if found.squared else both
    return dict(zip(found.names, both, strict=True))


def _draw_price(axes: Axes, found: Recommendation, points: dict[str, NDArray[np.float64]]) -> None:
    """The most that all rows may pay, beside the reference."""
    if not np.isfinite(found.price):
        return
    most = (1 + found.price) * float(points["reference"][0])
    axes.axvline(most, color=INK, linestyle="--", linewidth=1, zorder=0)
    label = f"{100 * found.price:g} % above {found.reference}"
    axes.annotate(label, (most, 0.02), (4, 0), xycoords=("data", "axes fraction"),
                  textcoords="offset points", fontsize="small", color=INK)  # fmt: skip
