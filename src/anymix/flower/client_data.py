"""The rows of a client: loaded once in a run, parted into those to train with and those held out.

Which rows are held out is fixed by the seed of the run and the key of the client, so that every
message finds the same ones, in whatever process it is answered. Of every domain the same part is
held out, and nothing of a domain that would have no rows left.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Context
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.flower.aggregation import count
from anymix.flower.client_errors import CannotAnswerError, Reason
from anymix.flower.client_limits import ClientLimits, name_of
from anymix.flower.client_rows import ClientRows, LinearRows
from anymix.flower.local_training import LocalTraining
from anymix.flower.wire import Settings
from anymix.problem.linear import LinearDomains

if TYPE_CHECKING:
    import torch

Indices = NDArray[np.intp]
Load = Callable[[Context], tuple[Any, Any, Any]]
Describe = Callable[[Context], tuple[Mapping[Any, float], int]]

__all__ = [
    "ClientData",
    "Describe",
    "Kept",
    "Load",
    "number_of",
    "split",
    "take",
    "without_small_domains",
]


def split(domains: Any, n: int, fraction: float, seed: list[int]) -> tuple[Indices, Indices]:
    """The rows to train with and those to hold out, `fraction` of every domain rounded down."""
    rng = np.random.default_rng(seed)
    labels = np.asarray(domains)
    if labels.ndim != 1:
        labels = np.zeros(n, dtype=int)
    _, codes = np.unique(labels, return_inverse=True)
    held = np.zeros(n, dtype=bool)
    for k in range(codes.max(initial=-1) + 1):
        rows = rng.permutation(np.flatnonzero(codes == k))
        held[rows[: int(fraction * len(rows))]] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


def take(table: Any, rows: Indices) -> Any:
    """Some rows of an array, a sparse matrix, a tensor, a frame or a list."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    if hasattr(table, "tocsr"):
        return table.tocsr()[rows]
    return table[rows] if hasattr(table, "shape") else np.asarray(table)[rows]


@dataclass(frozen=True)
class Kept:
    """The rows of a client: those to train with, and those held out; None where there are none."""

    train: ClientRows | None
    held: ClientRows | None
    name: str = ""  # of all the rows, in the ledger of `ClientLimits`

    @property
    def some(self) -> ClientRows:
        """The rows to train with; only clients that have some are asked."""
        if self.train is None:
            fix = "only clients that have rows are asked"
            raise CannotAnswerError(Reason.ROWS, "load", "gave no rows", fix)
        return self.train

    @property
    def linear(self) -> LinearRows:
        """The same, under a linear model."""
        rows = self.some
        if not isinstance(rows, LinearRows):
            fix = "this is for the linear model only"
            raise CannotAnswerError(Reason.KIND, "model", f"is {rows.kind}", fix)
        return rows

    @property
    def solvable(self) -> LinearRows:
        """The same, under a loss that the exact solver takes."""
        rows = self.linear
        if not rows.problem.loss.is_smooth:
            found, fix = f"is {rows.problem.loss}, without curvature", "use CrossEntropy instead"
            raise CannotAnswerError(Reason.KIND, "loss", found, fix)
        return rows


@dataclass
class ClientData:
    """Loads the rows of a client, once in a run."""

    load: Load
    model: Callable[[], torch.nn.Module] | None
    loss: Any
    intercept: bool
    classes: ArrayLike | None
    key: Callable[[Context], str]
    keep: bool | int
    describe: Describe | None = None
    local: LocalTraining | None = None
    limits: ClientLimits | None = None
    loaded: dict[str, Kept] = field(default_factory=dict)
    _template: ClientRows | None = None

    def __call__(self, context: Context, settings: Settings) -> Kept:
        """The rows, less the part that the server's settings hold out."""
        run, (fraction, seed) = f"{context.run_id}/", settings.get("hold_out", (0.0, 0))
        place = f"{run}{_place(context)}/{fraction}/{seed}"
        if place not in self.loaded:
            for old in [p for p in self.loaded if not p.startswith(run)]:
                del self.loaded[old]  # of runs that are over
            self.loaded[place] = self._split(context, fraction, seed)
        rows = self.loaded[place] = self.loaded.pop(place)  # the last one asked is last
        most = math.inf if self.keep is True else self.keep
        while len(self.loaded) > most:
            del self.loaded[next(iter(self.loaded))]
        return rows

    def described(
        self, context: Context, settings: Settings
    ) -> tuple[dict[str, float], ClientRows]:
        """The rows to train with of each domain, as `describe` tells, and the model."""
        if self.describe is None:
            raise InputError("describe", "is None", "give a function")
        counts, columns = self.describe(context)
        limits = ClientLimits.of(context, self.limits)
        if limits is not None:
            counts = {name: n for name, n in counts.items() if n >= limits.rows}
        fraction = settings.get("hold_out", (0.0, 0))[0]
        kept = {str(name): float(n - int(fraction * n)) for name, n in counts.items() if n > 0}
        if self._template is None:
            y = [0.0] if self.classes is None else np.asarray(self.classes)[:1]
            self._template = self._under_model(np.zeros((1, columns)), y, ["any"])
        return dict(sorted(kept.items())), self._template

    def _split(self, context: Context, fraction: float, seed: int) -> Kept:
        limits = ClientLimits.of(context, self.limits)
        load = self.load if limits is None else without_small_domains(self.load, limits.rows)
        X, y, domains = load(context)
        name = "" if limits is None else name_of((X, y, domains))
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if n == 0 or fraction == 0:
            return Kept(self._under_model(X, y, domains) if n else None, None, name)
        parts = split(domains, n, fraction, [seed, number_of(self.key(context)), 1])
        train, held = ([take(table, rows) for table in (X, y, domains)] for rows in parts)
        fitted = self._under_model(*train)
        if not len(parts[1]):
            return Kept(fitted, None, name)
        classes = fitted.problem.classes if isinstance(fitted, LinearRows) else None
        return Kept(fitted, self._under_model(*held, classes=classes), name)

    def _under_model(self, X: Any, y: Any, domains: Any, *, classes: Any = None) -> ClientRows:
        if self.model is None:
            classes = self.classes if classes is None else classes
            options = {"intercept": self.intercept, "classes": classes}
            return LinearRows(LinearDomains(X, y, domains, self.loss, **options))
        from anymix.flower.torch_rows import ModuleRows  # loads PyTorch

        return ModuleRows(self.model(), self.loss, X, y, domains, self.local)


def _place(context: Context) -> str:
    """The key of kept rows: the node and all that `load` sees, as grids may share a run id."""
    seen = [sorted(dict(c).items()) for c in (context.node_config, context.run_config)]
    return f"{context.node_id}/{seen}"


def number_of(key: str) -> int:
    """A number for the key, the same on every machine (Python's own hash is not)."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")


def without_small_domains(load: Load, rows: int, merge_into: str | None = None) -> Load:
    """What a client loads, without domains of fewer than `rows` rows.

    Parameters
    ----------
    load : function
        load(context) gives (X, y, domains) of the client, as for `client_app`.
    rows : int
        The fewest rows of a domain that the client speaks of.
    merge_into : str, optional
        The domain that rows of smaller ones are counted to, the same at all clients. None, or if
        even all of them together are fewer than `rows`: they are kept back, and the client takes
        no part with them.

    Returns
    -------
    function
        To be given to `client_app`. A `describe` of yours must agree with it.

    Examples
    --------
    >>> def load(context):
    ...     return np.eye(5), [0, 1, 0, 1, 1], ["a", "a", "b", "c", "a"]
    >>> X, y, domains = without_small_domains(load, 2)(None)
    >>> X.shape, y, domains.tolist()
    ((3, 5), [0, 1, 1], ['a', 'a', 'a'])
    >>> without_small_domains(load, 2, merge_into="other")(None)[2].tolist()
    ['a', 'a', 'other', 'other', 'a']
    """
    count("rows", rows)

    def enough(context: Context) -> tuple[Any, Any, Any]:
        X, y, domains = load(context)
        labels = np.asarray(domains)
        if labels.ndim != 1:
            fix = "give one domain for each row: parts of a row cannot be counted"
            raise InputError("domains", f"has the shape {labels.shape}", fix)
        labels = _merged(labels.astype(str), rows, merge_into)
        kept = np.flatnonzero(np.isin(labels, _large(labels, rows)))
        if len(kept) == len(labels):
            return X, y, labels
        return take(X, kept), _like(y, kept), labels[kept]

    return enough


def _large(labels: Any, rows: int) -> Any:
    names, counts = np.unique(labels, return_counts=True)
    return names[counts >= rows]


def _merged(labels: Any, rows: int, merge_into: str | None) -> Any:
    """The labels, those of small domains replaced."""
    if merge_into is None:
        return labels
    small = ~np.isin(labels, _large(labels, rows))
    return np.where(small, merge_into, labels)


def _like(y: Any, kept: Any) -> Any:
    """Some targets, a list where they were one."""
    return [y[i] for i in kept] if isinstance(y, list) else take(y, kept)
