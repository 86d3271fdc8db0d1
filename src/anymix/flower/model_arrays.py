"""The model as one vector w, and as the named arrays in which Flower and its users keep it."""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.flower.client_errors import why
from anymix.flower.post import Post
from anymix.flower.roster import Roster
from anymix.flower.wire import FIRST, pack, record_of, unpack

Array = NDArray[np.float64]

__all__ = ["ModelArrays", "first_arrays"]

MOST_BYTES = 2 * 10**9  # protobuf, which carries the messages, ends at 2³¹ bytes


def first_arrays(grid: Grid, roster: Roster, seed: int, timeout: float) -> ArrayRecord | None:
    """The start of the model: None, which is 0, for a linear one; a module's own first weights.

    A module at 0 would never learn. Any client can make its module anew from the seed, so the first
    one that answers does it for all.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where the clients are.
    roster : Roster
        The clients.
    seed : int
        Of the first weights.
    timeout : float
        Seconds to wait for each of them.

    Returns
    -------
    ArrayRecord or None
    """
    if roster.members[0].linear:
        return None
    D, told = roster.members[0].n_parameters, ""
    for member in roster.members[:3]:
        post, replies = Post(grid), dict[int, Message]()
        post.send([Message(pack({}, {"seed": seed}), member.node_id, FIRST)])
        post.listen(timeout, replies.__setitem__)
        for reply in replies.values():
            arrays = {} if reply.has_error() else unpack(reply.content)[0]
            fits = sum(a.size for a in arrays.values()) == D
            if fits and all(np.isfinite(a).all() for a in arrays.values()):
                return record_of(arrays)
            what = why(reply) if reply.has_error() else "its model has other arrays"
            told = f"client {member.key!r}: {what}"
    raise InputError(
        "initial_arrays",
        f"is None, and no client gave the first weights of its module ({told or 'no answer'})",
        "give initial_arrays=ArrayRecord(...) of the module's parameters",
    )


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
        size = sum(array.nbytes for array in self._like.values())
        if size > MOST_BYTES:
            raise InputError(
                "initial_arrays",
                f"has {size / 1e9:.1f} GB, and a message holds {MOST_BYTES / 1e9:.1f} GB",
                "give float32 or float16 arrays, or train fewer parameters",
            )
        flat = [array.ravel() for array in self._like.values()]
        self.w: Array = np.concatenate(flat).astype(np.float64)

    @property
    def form(self) -> list[list[Any]]:
        """Name, shape and type of each array, as JSON knows them."""
        return [[name, list(a.shape), str(a.dtype)] for name, a in self._like.items()]

    def record(self, w: Array) -> ArrayRecord:
        """w in the arrays that the run began with."""
        parts, begin = {}, 0
        for name, like in self._like.items():
            part = w[begin : begin + like.size].reshape(like.shape)
            parts[name] = part.astype(like.dtype)
            begin += like.size
        return record_of(parts)
