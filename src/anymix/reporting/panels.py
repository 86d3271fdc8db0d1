"""Where the points of a frontier are drawn, and what is written beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anymix.reporting.frontiers import Front, Series, error_in_words, robustness_in_words

Array = NDArray[np.float64]
Range = tuple[float, float]

__all__ = ["Axis", "Mark", "Panel", "axis_of", "marks_of", "panels_of"]

SAME_ROWS = (
    "All models are judged on the same rows, so their differences are mostly surer than that."
)
REACH = 1.5  # the longest error bar that is drawn, if the outermost points are 1 apart


class Mark(NamedTuple):
    """The name of a model, which stands beside its point."""

    place: int  # of the model
    lines: list[str]  # its name
    # whether it stands above the point and to the right, or below it and to the left: a line of
    # models that trade one loss for the other does not go there
    above: bool


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis of a picture."""

    ends: Range  # where it starts and ends
    too_wide: float | None  # usual standard error, if it is too wide to be drawn


@dataclass(frozen=True, eq=False)
class Panel:
    """One picture: the series in it, the first of which carries the names, and both axes."""

    series: list[Series]  # one or two
    x: Axis  # the loss on all rows
    y: Axis  # the loss on the worst mixture

    @property
    def heading(self) -> str:
        """Which rows it shows."""
        return f"Losses on {' and '.join(s.rows for s in self.series)}"

    @property
    def caption(self) -> str:
        """What is known of the standard errors, which are drawn or too wide for that."""
        if not any(s.has_errors for s in self.series):
            return ""
        axes = (("all rows", self.x), ("the worst mixture", self.y))
        found = [(of, axis.too_wide) for of, axis in axes if axis.too_wide is not None]
        wide = [f"{error_in_words(error)} for {of}" for of, error in found]
        said = ["Thin lines reach one standard error to each side."] if len(wide) < 2 else []
        if wide:
            said.append(f"One standard error is about {' and '.join(wide)}: too wide to be drawn.")
        return " ".join([*said, SAME_ROWS] if self.series[0].worst.size > 1 else said)

    def errors(self, series: Series) -> tuple[Array, Array]:
        """The standard errors to draw along x and y; 0 for none."""
        pairs = ((self.x, series.pooled_error), (self.y, series.worst_error))
        x, y = (e if axis.too_wide is None else np.zeros_like(e) for axis, e in pairs)
        return x, y


def panels_of(front: Front) -> list[Panel]:
    """One picture of all series, or one of each where they are too far apart to be read."""
    single = [_panel([s]) for s in front.series]
    both = _panel(front.series)
    return [both] if _is_readable(single[0], both) else single


def marks_of(front: Front, panel: Panel) -> list[Mark]:
    """The names of the ordinary model and of the one taken, where they do not meet."""
    o, i, first = front.ordinary, front.chosen, panel.series[0]
    if i is None or i == o:
        name = ["ordinary"] if i is None else ["ordinary,", "taken"]
        return [] if o is None else [Mark(o, name, True)]
    taken = ["robust, taken", robustness_in_words(front.robustness[i])]
    if o is None:
        return [Mark(i, taken, True)]
    along = abs(first.pooled[i] - first.pooled[o]) / np.ptp(panel.x.ends)
    if max(along, abs(first.worst[i] - first.worst[o]) / np.ptp(panel.y.ends)) > 0.3:
        return [Mark(o, ["ordinary"], True), Mark(i, taken, True)]
    higher = bool(first.worst[i] > first.worst[o])
    return [Mark(o, ["ordinary"], not higher), Mark(i, taken, higher)]


def axis_of(values: Array, errors: Array) -> Axis:
    """An axis on which the values stand apart, whatever their errors are."""
    low, high = float(values.min()), float(values.max())
    span = high - low
    if span <= 1e-9 * max(abs(low), abs(high)):  # one point, or equal ones
        span = 0.1 * abs(high) or 1.0
    known = errors[errors > 0]
    usual = float(np.median(known)) if known.size else 0.0
    room = 0.3 * span  # for names
    # Bars much longer than that would run across the whole picture, or squeeze the points together
    # if all of them had to fit: they are not drawn, and the caption says how long they are.
    if usual > REACH * span:
        return Axis((low - room, high + room), usual)
    low = max(low - REACH * span, float(np.min(values - errors)))
    high = min(high + REACH * span, float(np.max(values + errors)))
    return Axis((low - room, high + room), None)


def _panel(series: list[Series]) -> Panel:
    def axis(what: str) -> Axis:
        values = np.concatenate([getattr(s, what) for s in series])
        return axis_of(values, np.concatenate([getattr(s, f"{what}_error") for s in series]))

    return Panel(series, axis("pooled"), axis("worst"))


def _is_readable(alone: Panel, both: Panel) -> bool:
    """Whether the first series keeps a third of each axis when the other is in the picture."""
    pairs = ((alone.x.ends, both.x.ends), (alone.y.ends, both.y.ends))
    return all(3 * (mine[1] - mine[0]) >= ours[1] - ours[0] for mine, ours in pairs)
