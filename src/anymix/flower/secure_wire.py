"""What a masked sum is about: the question that all clients get, and the numbers that each adds.

All clients get the very same message: the question, the names and keys of all who are asked, and
how numbers are written. Its digest goes into every mask, so that a server that sends different
questions, or another list of clients, to some of them gets nothing that adds up. An answer is one
vector with a place for every domain, 0 where the client has no rows, and a 1 at its end: in the
sum this is the number of clients, or nonsense if masks did not cancel.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.flower.coordinates import n_moments
from anymix.flower.fixed_point import FixedPoint
from anymix.flower.fold_questions import n_numbers, unpack
from anymix.flower.wire import (
    EVALUATE,
    FOLDS,
    MOMENTS,
    SOLVE,
    TRAIN,
    WHO,
    Arrays,
    MessageError,
    Settings,
)
from anymix.problem.part_sums import Question

Array = NDArray[np.float64]
Shapes = dict[str, tuple[int, ...]]

KEY = "query.key"
SHARES = "query.shares"
SUMS = (WHO, TRAIN, EVALUATE, MOMENTS, SOLVE, FOLDS)  # whose answers can be added up, and masked

__all__ = [
    "KEY",
    "SHARES",
    "SUMS",
    "Call",
    "digest",
    "flat",
    "places",
    "shapes_of",
    "spread",
    "unflat",
]


@dataclass(frozen=True)
class Call:
    """What comes with every question whose answer is masked.

    Attributes
    ----------
    turn : int
        The number of the question, larger than that of any before.
    peers : list of str
        The clients that are asked, by key.
    keys : list of str
        Their public keys, in hexadecimal digits.
    threshold : int
        How many of them must give their shares for the sum to be read.
    domains : list of str
        All domains, in the order of the answer.
    resolution, largest : float
        See `FixedPoint`.
    by_domain : bool
        In training: whether gradients are added up for each domain, without weights.
    limits : dict
        In training: the limits of a client's loss and update, and its noise.
    """

    turn: int
    peers: list[str]
    keys: list[str]
    threshold: int
    domains: list[str]
    resolution: float
    largest: float
    by_domain: bool = False
    limits: dict[str, float] | None = None

    @property
    def form(self) -> FixedPoint:
        """How numbers are written."""
        return FixedPoint(self.resolution, self.largest)

    def to_settings(self) -> Settings:
        """As an entry of a message's settings."""
        return {"secure": asdict(self)}

    @staticmethod
    def of(settings: Mapping[str, Any]) -> Call:
        """The call in the settings of a message; MessageError where it is none."""
        try:
            call = Call(**settings["secure"])
        except (KeyError, TypeError) as error:
            raise MessageError(f"the message is no question for a masked sum: {error}") from None
        if len(set(call.peers)) != len(call.peers) or len(call.keys) != len(call.peers):
            raise MessageError("two of the clients have one name, or keys are missing")
        if len(set(call.keys)) != len(call.keys):
            raise MessageError("two of the clients have the same public key")
        return call


def digest(kind: str, arrays: Arrays, settings: Settings) -> bytes:
    """32 bytes that stand for a question, down to its last number."""
    total = hashlib.sha256(kind.encode())
    for name, array in sorted(arrays.items()):
        total.update(f"|{name}{array.dtype.str}{array.shape}|".encode() + array.tobytes())
    for name, value in sorted(settings.items()):
        if isinstance(value, np.ndarray):
            total.update(f"|{name}{value.size}|".encode() + value.astype("<f8").tobytes())
        else:
            total.update(f"|{name}|{json.dumps(value, sort_keys=True)}".encode())
    return total.digest()


def shapes_of(
    kind: str, arrays: Arrays, settings: Settings, n_parameters: int, n_columns: int
) -> Shapes:
    """The arrays of an answer, in the order in which they are in the vector.

    Parameters
    ----------
    kind : str
        The type of the message.
    arrays, settings : dict
        Those of the question.
    n_parameters, n_columns : int
        D, the length of w, and that of one of its blocks.
    """
    call = Call.of(settings)
    p, D = len(call.domains), n_parameters
    if kind == WHO:
        return {"counts": (p,)}
    if kind == TRAIN:
        return {"update": (p, D) if call.by_domain else (D,), "sums": (2, p)}
    if kind == EVALUATE:
        return {"sums": (4 if "beside" in settings else 2, p)}
    if kind == MOMENTS:
        return {"moments": (n_moments(n_columns, settings["products"]),)}
    if kind == SOLVE:
        return Question.of_arrays(arrays, settings).shapes
    if kind == FOLDS:
        return _shapes_of_folds(arrays, settings, p, max(2, D // n_columns))
    raise MessageError(f"{kind!r} has no answer that could be added up")


def _shapes_of_folds(arrays: Arrays, settings: Settings, p: int, n_classes: int) -> Shapes:
    """The same of a question about folds, see `fold_rows`."""
    F, about = settings["folds"] * settings["repeats"], settings["about"]
    if about == "counts":
        return {"fitted": (F, p), "held": (F, p), "squares": (p,), "totals": (n_classes + 2,)}
    if about == "sums":
        return {"sums": (n_numbers(unpack(arrays, settings)),)}
    if about == "losses":
        return {"losses": (arrays["models"].shape[1] + 1, p)}
    return {"errors": (len(arrays["pairs"]), 2)}


def flat(values: Mapping[str, Array]) -> Array:
    """One vector of all arrays, and a 1.

    Examples
    --------
    >>> vector = flat({"losses": np.array([0.5, 0.7]), "rows": np.array([[3.0]])})
    >>> unflat(vector, {"losses": (2,), "rows": (1, 1)})
    ({'losses': array([0.5, 0.7]), 'rows': array([[3.]])}, 1.0)
    """
    return np.concatenate([*map(np.ravel, values.values()), [1.0]])


def unflat(vector: Array, shapes: Shapes) -> tuple[dict[str, Array], float]:
    """The arrays that `flat` was given, or the sums of them, and the number of clients."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
    parts = np.split(vector, ends)
    pairs = zip(shapes.items(), parts[:-1], strict=True)
    return {name: part.reshape(shape) for (name, shape), part in pairs}, float(parts[-1][0])


def spread(own: Array, names: Sequence[str], domains: Sequence[str], axis: int = -1) -> Array:
    """Numbers of a client's domains at their places among all domains, 0 for the others.

    Examples
    --------
    >>> spread(np.array([3.0, 4.0]), ["web", "chat"], ["chat", "mail", "web"])
    array([4., 0., 3.])
    """
    shape = list(own.shape)
    shape[axis] = len(domains)
    whole = np.zeros(shape)
    np.moveaxis(whole, axis, 0)[places(names, domains)] = np.moveaxis(own, axis, 0)
    return whole


def places(names: Sequence[str], domains: Sequence[str]) -> NDArray[np.intp]:
    """Where a client's domains are among all of them; MessageError for one that is not."""
    where = {name: k for k, name in enumerate(domains)}
    unknown = [name for name in names if name not in where]
    if unknown:
        raise MessageError(f"this client has rows of {unknown}, which nobody asks about")
    return np.array([where[name] for name in names], dtype=np.intp)
