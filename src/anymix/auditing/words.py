"""Numbers, intervals, titles and tables of audits, as people read them."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from anymix.problem.losses import named_losses

__all__ = [
    "FEWEST_ROWS",
    "FEW_ROWS",
    "LOSS_TITLES",
    "MOST_ROWS",
    "TerminalTable",
    "few_rows",
    "html_table",
    "level",
    "metric_title",
    "mixture_in_words",
    "narrow",
    "plain",
    "short",
    "signed",
    "span",
]

LOSS_TITLES = {
    "zero_one": "0-1 loss",
    "hamming": "share of wrong labels",
    "absolute": "absolute error",
} | {name: loss.title for name, loss in named_losses().items()}


FEWEST_ROWS = 10  # of a worst domain: fewer do not tell enough to change the model for all others
FEW_ROWS = 30  # domains below it are named in the summary


def short(value: float, digits: int = 4) -> str:
    """A number, whatever its unit: fewer decimals the larger it is, thousands apart by commas."""
    if math.isnan(value):
        return "-"
    size = abs(value)
    if 0 < size < 0.5 * 10**-digits or 1e15 <= size < math.inf:
        return f"{value:.{digits}g}"
    fewer = sum(size >= limit for limit in (10, 10, 100, 1000))
    return f"{value:,.{max(digits - fewer, 0)}f}"


def signed(value: float) -> str:
    """A difference, with its sign."""
    return short(value) if value < 0 else f"+{short(value)}"


def span(ends: Iterable[float]) -> str:
    """An interval in a sentence, '0.1000 to 0.2000'."""
    low, high = ends
    return f"{short(low)} to {short(high)}"


def narrow(ends: Iterable[float]) -> str:
    """An interval in a table, '0.100–0.200'."""
    low, high = ends
    return f"{short(low, 3)}–{short(high, 3)}"


def level(confidence: float, kind: str) -> str:
    """'95% interval (approximate)': what is claimed of an interval, and how surely."""
    return f"{100 * confidence:.4g}% interval ({kind})"


def metric_title(name: str) -> str:
    """What people call a metric: 'RMSE', 'true positive rate'."""
    first, _, rest = name.partition(" ")
    title = first.upper() if first in ("auc", "mae", "rmse", "r2") else first.replace("_", " ")
    return f"{title} {rest}".rstrip()


def plain(value: Any) -> float | int | None:
    """A number as JSON has it; None for what is not finite."""
    if isinstance(value, int | np.integer):
        return int(value)
    return float(value) if math.isfinite(value) else None


def mixture_in_words(mixture: NDArray[np.float64], names: Sequence[Any]) -> str:
    """'70% 'a', 30% 'b'': the largest shares of a mixture, at most three of them."""
    order = np.argsort(-mixture, kind="stable")
    shown = [f"{mixture[k]:.0%} {str(names[k])!r}" for k in order[:3] if mixture[k] >= 0.005]
    rest = float(1 - mixture[order[: len(shown)]].sum())
    return ", ".join(shown) + (f" and {rest:.0%} others" if rest >= 0.005 else "")


def few_rows(names: Sequence[Any], sizes: NDArray[np.int64]) -> Iterator[str]:
    """A sentence that names the domains of which little is known, if there are some."""
    few = np.flatnonzero(sizes < FEW_ROWS)
    named = [f"{str(names[k])!r} ({sizes[k]})" for k in few[:10]]
    if named:
        rest = f" and {len(few) - 10} more" if len(few) > 10 else ""
        yield f"Few rows, so little is known: {', '.join(named)}{rest}."


def html_table(heads: list[str], rows: list[list[str]], summary: str) -> str:
    """A table for notebooks, with the summary below it."""
    head = "".join(f"<th scope='col'>{html.escape(cell)}</th>" for cell in heads)
    body = "".join(
        f"<tr><th scope='row'>{html.escape(name)}</th>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"{table}<p>{html.escape(summary)}</p>"


MOST_ROWS = 12  # domains of which all are shown; of more, the worst ten
WORST = 10
NEEDED = 4  # columns that are never left out


@dataclass(frozen=True, eq=False)
class TerminalTable:
    """A table that fits the terminal it is printed on.

    Columns at the end that find no room without breaking words are left out, and named below. Of
    more than 12 domains the ten worst are shown.
    """

    heads: Sequence[str]  # headings
    rows: Sequence[Sequence[str]]  # cells of the domains, then those of the totals
    n_totals: int  # how many of the last rows are totals
    badness: Sequence[float]  # how bad each domain is

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        shown, n = self._domains(), len(self.rows) - self.n_totals
        rows = [self.rows[k] for k in (*shown, *range(n, len(self.rows)))]
        widths = self._widths(rows, options.max_width)
        count = len(widths)
        table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
        for j, (head, width) in enumerate(zip(self.heads, widths, strict=False)):
            justify: Any = "right" if j else "left"
            table.add_column(head, justify=justify, overflow="fold", width=width)
        for i, row in enumerate(rows):
            table.add_row(*(Text(cell) for cell in row[:count]), end_section=i == len(shown) - 1)
        yield table
        if len(shown) < n:
            yield Text(f"The {len(shown)} worst of {n:,} domains; JSON and the report have all.")
        if count < len(self.heads):
            named = ", ".join(self.heads[count:])
            yield Text(f"In a wider terminal, JSON and the report also: {named}.")

    def _domains(self) -> list[int]:
        """The domains to show: all, or the worst, which come first."""
        n = len(self.rows) - self.n_totals
        if n <= MOST_ROWS:
            return list(range(n))
        return sorted(range(n), key=lambda k: -self.badness[k])[:WORST]

    def _widths(self, rows: Sequence[Sequence[str]], width: int) -> list[int | None]:
        """How wide each column is that has room for its longest word; None: there is no room."""
        cells = [[self.heads[j], *(row[j] for row in rows)] for j in range(len(self.heads))]
        least = [max(len(w) for cell in column for w in cell.split(" ")) for column in cells]
        count = len(least)
        while count > NEEDED and sum(least[:count]) + count - 1 > width:
            count -= 1
        if sum(least[:count]) + count - 1 > width:
            return [None] * count
        found = [max(map(len, column)) for column in cells[:count]]
        while sum(found) + count - 1 > width:  # the one that has most to give, the last of those
            found[max(range(count), key=lambda j: (found[j] - least[j], j))] -= 1
        return list(found)
