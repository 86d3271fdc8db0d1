"""What a model of a path leaves for the next one: steps that tell the curvature, and its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from anymix.problem.oracle import Here, Oracle
from anymix.solvers.curvature import Steps
from anymix.solvers.sqp import Iterate

Array = NDArray[np.float64]

__all__ = ["Trail"]

WIDEST = 2**16  # parameters of models of which something is kept
STEPS, PLACES = 12, 2  # kept; besides the end of the last model, places are the anchor and 0


class Trail:
    """Steps and places of other models of the same rows.

    The curvature of the losses is about the same there, and that of γR is added anew.

    Parameters
    ----------
    n_parameters : int or None
        D; nothing is kept of very wide models, or with None.
    """

    def __init__(self, n_parameters: int | None = None) -> None:
        self.is_kept = n_parameters is not None and n_parameters <= WIDEST
        self.steps: Steps = deque(maxlen=STEPS if self.is_kept else 0)
        self._places: deque[Here] = deque(maxlen=PLACES if self.is_kept else 0)
        self._end: Here | None = None

    def at(self, problem: Oracle, w: Array, mixture: Array) -> Here:
        """What is known of the rows at w: what was, or what is found out now."""
        if self._end is not None and np.array_equal(self._end.w, w):
            return self._end
        for here in self._places:
            if np.array_equal(here.w, w):
                return here
        here = problem.at(w, mixture)
        self._places.append(here)
        return here

    def followed(self, path: Iterator[Iterate]) -> Iterator[Iterate]:
        """The same iterates, of which the last is kept."""
        for at in path:
            self._end = at.there if self.is_kept else None
            yield at
            del at  # makes room
