"""The model as one vector w, and as the named arrays in which Flower and its users keep it."""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.flower.wire import record_of

Array = NDArray[np.float64]

__all__ = ["ModelArrays"]


class ModelArrays:
    """Names, shapes and types of a model's arrays.

    Parameters
    ----------
    start : ArrayRecord, optional
        The arrays that the run begins with; None is one array "w" of zeros.
    n_parameters : int
        D, the length of w at the clients.

    Attributes
    ----------
    w : ndarray of shape (D,)
        The start as one vector.

    Examples
    --------
    >>> arrays = ModelArrays(None, 3)
    >>> arrays.w.tolist(), list(arrays.record(arrays.w))
    ([0.0, 0.0, 0.0], ['w'])
    """

    def __init__(self, start: ArrayRecord | None, n_parameters: int) -> None:
        self._like: dict[str, NDArray[Any]] = {"w": np.zeros(n_parameters)}
        if start is not None:
            self._like = {name: array.numpy() for name, array in start.items()}
        n = sum(array.size for array in self._like.values())
        if n != n_parameters:
            raise InputError(
                "initial_arrays",
                f"has {n} numbers, but the clients' model has {n_parameters}",
                "give its parameters in their order (of a module: named_parameters(), not buffers)",
            )
        flat = [array.ravel() for array in self._like.values()]
        self.w: Array = np.concatenate(flat).astype(np.float64)

    def record(self, w: Array) -> ArrayRecord:
        """w in the arrays that the run began with."""
        parts, begin = {}, 0
        for name, like in self._like.items():
            part = w[begin : begin + like.size].reshape(like.shape)
            parts[name] = part.astype(like.dtype)
            begin += like.size
        return record_of(parts)
