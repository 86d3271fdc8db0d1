"""Labels made of several columns: one for each combination of their values that occurs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Coded = tuple[NDArray[Any], NDArray[Any]]  # sorted names, and the place of every entry among them

__all__ = ["Coded", "combined"]


def combined(coded: Sequence[Coded], titles: Sequence[str | None]) -> tuple[Coded, int]:
    """The labels of the combinations, and how many combinations have no row."""
    if len(coded) == 1:
        return coded[0], 0
    shape = [len(names) for names, _ in coded]
    cells, which = np.unique(
        np.ravel_multi_index([codes for _, codes in coded], shape), return_inverse=True
    )
    levels = zip(*np.unravel_index(cells, shape), strict=True)
    values = [[coded[j][0].tolist()[level] for j, level in enumerate(row)] for row in levels]
    heads = [f"{title}=" if title is not None else "" for title in titles]
    labels = [", ".join(f"{t}{v}" for t, v in zip(heads, row, strict=True)) for row in values]
    if len(set(labels)) < len(labels):  # values with commas of their own
        labels = [repr(tuple(row)) for row in values]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    names = np.array([labels[k] for k in order])
    return (names, place[which]), math.prod(shape) - len(labels)
