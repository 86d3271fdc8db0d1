"""How long something will still take, from how long it has taken since this process began."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["TimeLeft"]


class TimeLeft:
    """Work to do, work done, and the time left: work left / (work done / time passed).

    All time counts, also that of looks and checkpoints, and nothing that an earlier process did.

    Parameters
    ----------
    total : float
        The work to do, in any unit.
    clock : function
        Gives seconds.

    Examples
    --------
    >>> times = iter([0.0, 60.0])
    >>> left = TimeLeft(100.0, clock=lambda: next(times))
    >>> left.add(25.0)
    >>> print(left)
    3 min left
    """

    def __init__(self, total: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done = float(total), 0.0
        self.clock, self.began = clock, clock()

    def add(self, work: float) -> None:
        """Count work that is done.

        Parameters
        ----------
        work : float
            How much.
        """
        self.done += work

    def seconds(self) -> float:
        """Seconds left; infinite before anything is done."""
        if not self.done:
            return float("inf")
        return max(0.0, self.total - self.done) * (self.clock() - self.began) / self.done

    def __str__(self) -> str:
        seconds = self.seconds()
        if seconds == float("inf"):
            return "time left not known yet"
        if seconds >= 5400:
            return f"{seconds / 3600:.1f} h left"
        return f"{seconds / 60:.0f} min left" if seconds >= 90 else f"{seconds:.0f} s left"
