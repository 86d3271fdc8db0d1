"""Where the numbers of a tree of 8 children a node lie: entries first, then level by level."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

WIDTH = 8  # children of a node


def lines(n: int) -> Array:
    """n zeros from the start of a cache line of 64 bytes, which 8 children fill."""
    room = np.zeros(n + 7)
    start = -(room.ctypes.data // 8) % 8
    return room[start : start + n]


def levels(p: int) -> Integers:
    """0, p, …: level 0 is the entries, the last one the root."""
    sizes = [p, -(-p // WIDTH)]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // WIDTH))
    return np.cumsum([0, *sizes], dtype=np.int64)
