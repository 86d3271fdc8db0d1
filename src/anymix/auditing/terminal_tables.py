"""Tables for the terminal: as wide as it is, no word broken, the worst domains of many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

__all__ = ["MOST_ROWS", "TerminalTable"]

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
