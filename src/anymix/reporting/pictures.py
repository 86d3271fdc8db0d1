"""What audits found, as a picture: the domains' losses as bars, and the mixtures as a map."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.auditing import Audit
from anymix.errors import InputError
from anymix.files import write_whole
from anymix.reporting.arguments import checked_audits, checked_file, checked_mixture, extra_of
from anymix.reporting.shown import Shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

__all__ = ["COLORS", "figure_of", "literal", "picture", "saved"]

COLORS = ("#d9730d", "#004078", "#00704f", "#8a3a73", "#6b6b00")  # as in page/page.css
STAR = "#6a3d9a"
MOST_BARS = 24  # domains in a picture, those of highest loss
EDGED: dict[str, Any] = {"markeredgecolor": "black", "clip_on": False}  # a mark seen on any colour


def picture(
    audits: Audit | Mapping[str, Audit],
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    mixture: ArrayLike | None = None,
) -> Path:
    """Draw L_k with intervals, and Σ λ_k L_k over the mixtures λ, as PNG, SVG or PDF.

    The mixtures are a line for p = 2, a triangle shaded by the best model's loss for p = 3, and
    the range between the least and the largest L_k for more.

    Parameters
    ----------
    audits : Audit or mapping
        An audit, or audits of several models by name, over the same domains and the same set Λ.
    path : path-like
        The file; its ending names the format: .png, .svg or .pdf.
    title : str, optional
        A heading.
    mixture : array-like of shape (p,), optional
        λ* of the training, `Solution.mixture`; it is marked.

    Returns
    -------
    Path
        The path of the picture.

    Examples
    --------
    >>> import tempfile
    >>> from anymix.auditing import audit
    >>> found = audit(None, [0.25, 0.5, 1.0], ["a", "b", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     picture(found, Path(folder) / "losses.svg").name
    'losses.svg'
    """
    shown = checked_audits(audits)
    star = None if mixture is None else checked_mixture(mixture, shown.p)
    return saved(path, lambda: figure_of(shown, star, title))


def saved(path: Any, made: Callable[[], Figure]) -> Path:
    """The path of a file with a figure in it, whose ending must be that of a picture."""
    file = checked_file(path)
    if file.suffix.lower() not in (".png", ".svg", ".pdf"):
        fix = "name the format with .png, .svg or .pdf"
        raise InputError("path", f"ends in {file.suffix!r}", fix)
    figure = made()
    return write_whole(file, lambda new: figure.savefig(new, dpi=150))


def figure_of(shown: Shown, star: Array | None = None, title: str | None = None) -> Figure:
    """The picture as a matplotlib figure: bars on the left, mixtures on the right."""
    with extra_of("a picture"):
        from matplotlib.figure import Figure  # not pyplot: no window, no global state
    n_bars = min(shown.p, MOST_BARS)
    height = max(4.0, 1.2 + n_bars * (0.12 + 0.16 * len(shown.audits)))
    figure = Figure(figsize=(10, height), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_bars(left, shown)
    draw = {2: _draw_line, 3: _draw_triangle}.get(shown.p, _draw_range)
    draw(right, shown, star)
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    if title is not None:
        figure.suptitle(literal(title))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def literal(text: str) -> str:
    """A dollar sign is one, not the start of a formula."""
    return text.replace("$", r"\$")


def _colored(shown: Shown) -> Iterator[tuple[str, str, Audit]]:
    """Colour, name and audit of every model; a single one has the second colour, as on the page."""
    for i, (name, audit) in enumerate(shown.audits.items()):
        yield COLORS[(i + (len(shown.audits) == 1)) % len(COLORS)], literal(name), audit


def _draw_bars(axes: Axes, shown: Shown) -> None:
    """L_k and its interval for every model, the domains of highest loss first."""
    order = np.argsort(-shown.highest_losses, kind="stable")[:MOST_BARS]
    width = 0.8 / len(shown.audits)
    reach = (
        2 * np.abs(shown.in_unit(shown.highest_losses)).max() or 1.0
    )  # a wide interval must not flatten bars
    for i, (color, _, audit) in enumerate(_colored(shown)):
        values = audit.in_unit(audit.domain_losses)[order]
        ends = np.clip(audit.in_unit(audit.intervals)[order], -2 * reach, 2 * reach)
        at = np.arange(len(order)) + (i - (len(shown.audits) - 1) / 2) * width
        error = np.abs(ends.T - values)
        look: dict[str, Any] = {"color": color}
        if color == COLORS[0]:  # as on the page
            look = {"color": "white", "edgecolor": color, "hatch": "////"}
        axes.barh(at, values, width, xerr=error, error_kw={"elinewidth": 0.8}, **look)
    names = [literal(textwrap.shorten(shown.names[k], 28, placeholder="…")) for k in order]
    axes.set_yticks(np.arange(len(order)), names)
    axes.invert_yaxis()
    left, right = axes.get_xlim()
    axes.set_xlim(max(left, -reach), min(right, reach))
    more = f", the {MOST_BARS} highest of {shown.p}" if shown.p > MOST_BARS else ""
    kind = shown.first.interval_kinds["loss"]
    axes.set_xlabel(f"{shown.loss} and {shown.level} interval ({kind}){more}")


def _draw_line(axes: Axes, shown: Shown, star: Array | None) -> None:
    """p = 2: the loss along the share of the second domain; what is outside of Λ is grey."""
    for color, name, audit in _colored(shown):
        t = np.linspace(0, 1, 41)
        losses = audit.in_unit((1 - t) * audit.domain_losses[0] + t * audit.domain_losses[1])
        style = "--" if color == COLORS[0] else "-"
        axes.plot(t, losses, style, color=color, label=name, linewidth=2)
        at, worst = audit.worst_mixture[1], audit.in_unit(audit.agnostic_loss)
        axes.plot(at, worst, "D", color=color, **EDGED, label=f"worst case of {name}")
    axes.axvline(shown.sample[1], color="#55606b", linestyle=":", label="data as sampled")
    if star is not None:
        axes.axvline(star[1], color=STAR, linestyle="-.", label="λ* of the training")
    least, largest = shown.limits[1]
    for low, high in ((0.0, least), (largest, 1.0)):
        if high - low > 1e-9:
            axes.axvspan(low, high, color="#dde2e7", zorder=0)
    axes.set(xlabel=f"share of {literal(shown.names[1])}", ylabel=shown.loss)
    axes.set(xlim=(0, 1), ylim=(min(0, axes.get_ylim()[0]), None))


CORNERS = np.array([[0, 0], [1, 0], [0.5, math.sqrt(0.75)]])  # where the three domains are drawn


def _draw_triangle(axes: Axes, shown: Shown, star: Array | None) -> None:
    """p = 3: every point of the triangle is a mixture, shaded by the loss of the best model."""
    _shade(axes, shown)
    for color, name, audit in _colored(shown):
        at = audit.worst_mixture @ CORNERS
        axes.plot(*at, "D", color=color, **EDGED, label=f"worst case of {name}")
    axes.plot(*(shown.sample @ CORNERS), "o", color="white", **EDGED, label="data as sampled")
    if star is not None:
        axes.plot(*(star @ CORNERS), "*", color=STAR, markersize=11, label="λ* of the training")
    _draw_where_equal(axes, shown)
    border = shown.outline()
    around = np.vstack([border, border[:1]]) @ CORNERS
    axes.plot(*around.T, "k--", linewidth=1, label="border of Λ")
    for corner, name, above in zip(CORNERS, shown.names, (False, False, True), strict=True):
        offset, side = (8, "bottom") if above else (-8, "top")
        axes.annotate(literal(name), corner, (0, offset), ha="center", va=side,
                      textcoords="offset points")  # fmt: skip
    axes.set_aspect("equal")
    axes.set_axis_off()


def _losses_in_triangle(shown: Shown) -> tuple[Array, Array, Array]:
    """Places x, y (n,) on a grid of mixtures, and the models' losses there, (models, n)."""
    grid = np.array([(i, j, 60 - i - j) for i in range(61) for j in range(61 - i)]) / 60  # (n, 3)
    x, y = (grid @ CORNERS).T
    return x, y, np.array([a.in_unit(grid @ a.domain_losses) for a in shown.audits.values()])


def _shade(axes: Axes, shown: Shown) -> None:
    x, y, losses = _losses_in_triangle(shown)
    best = axes.tricontourf(x, y, losses.min(axis=0), levels=12, cmap="Greys", alpha=0.6)
    axes.figure.colorbar(best, ax=axes, label=f"{shown.loss} of the best model")


def _draw_where_equal(axes: Axes, shown: Shown) -> None:
    """A line through the mixtures where the first and the last model have the same loss."""
    x, y, losses = _losses_in_triangle(shown)
    difference = losses[0] - losses[-1]
    if difference.min() < 0 < difference.max():
        axes.tricontour(x, y, difference, levels=[0.0], colors=["black"])
        axes.plot([], [], "k-", label="first and last model are equal")


def _draw_range(axes: Axes, shown: Shown, star: Array | None) -> None:
    """Any other p: a line for every model, with its L_k and its losses at the marked mixtures."""
    for i, (color, _, audit) in enumerate(_colored(shown)):
        marks = [
            ("D", color, audit.worst_mixture, "worst case in Λ"),
            ("o", "white", shown.sample, "data as sampled"),
            *([] if star is None else [("*", STAR, star, "λ* of the training")]),
        ]
        level = np.full(shown.p, i)
        label = None if i else "one domain alone"
        axes.plot(
            audit.in_unit(audit.domain_losses), level, "|", color=color, markersize=16, label=label
        )
        for mark, fill, lam, what in marks:
            at, label = audit.in_unit(lam @ audit.domain_losses), None if i else what
            axes.plot(at, i - 0.2, mark, color=fill, **EDGED, label=label)
    axes.set_yticks(range(len(shown.audits)), [literal(name) for name in shown.audits])
    axes.set(ylim=(len(shown.audits) - 0.5, -0.5), xlabel=shown.loss)
