"""A chunk of rows as it was read: checked, with labels of its own, not yet placed among all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.errors import InputError
from anymix.problem.arrays import features, weights
from anymix.problem.entries import column_of, encode, numbers
from anymix.problem.losses import Loss
from anymix.problem.membership import Domains, domains_of
from anymix.problem.rows import Part, take

Array = NDArray[np.float64]
Names = NDArray[Any]

__all__ = ["Chunk", "concatenated", "named", "place_among", "read_chunk", "union"]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a table, one or more."""

    X: Any
    y: NDArray[Any]  # places among `labels`, or numbers
    labels: Names | None  # the classes here, sorted; None in regression
    domains: Domains  # which rows are in which of `names`
    names: Names  # the domains here, sorted
    weight: Array | None = None
    ids: NDArray[Any] | None = None  # deals rows out to folds; None: their numbers

    def __len__(self) -> int:
        return len(self.y)

    def take(self, part: Part) -> Chunk:
        """Some of the rows."""
        return replace(
            self,
            X=take(self.X, part),
            y=self.y[part],
            domains=self.domains.take(part),
            weight=None if self.weight is None else self.weight[part],
            ids=None if self.ids is None else self.ids[part],
        )

    @cached_property
    def fingerprint(self) -> tuple[int, ...]:
        """A few whole numbers that hardly stay the same when a bit of the rows changes."""
        # Sums of bits, not of numbers: these are the same on every machine and in every order.
        weight = 0 if self.weight is None else _digest(self.weight)
        X = self.X.data if sparse.issparse(self.X) else self.X
        return len(self), _sum_of_bits(X), _digest(self.y), _digest(self.domains.key()), weight


def _sum_of_bits(values: NDArray[Any]) -> int:
    return int(_bits(values).sum(dtype=np.uint64))


def _digest(values: NDArray[Any]) -> int:
    """The same, where it matters which row has which value."""
    bits = _bits(values)
    return int((bits * np.arange(1, 2 * len(bits), 2, dtype=np.uint64)).sum(dtype=np.uint64))


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    return np.ascontiguousarray(values, dtype=np.float64).reshape(-1).view(np.uint64)


def read_chunk(raw: Any, loss: Loss) -> Chunk | None:
    """Check a chunk (X, y, domains[, weight[, ids]]); None if it has no rows."""
    if not isinstance(raw, tuple | list) or not 3 <= len(raw) <= 5:
        found = f"is a {type(raw).__name__}"
        raise InputError("", found, "give tuples (X, y, domains[, weight[, ids]])")
    X, y, domains, weight, ids = (*raw, None, None)[:5]
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if n == 0:
        return None
    X = features(X)
    labels, codes = encode("y", y, n) if loss.takes_classes else (None, numbers("y", y, n))
    names, members = domains_of(domains, n)
    w = None if weight is None else weights(weight, n)
    inside = members.inside()
    if not inside.all():  # a row in no domain does not count
        w = inside.astype(np.float64) if w is None else inside * w
    ids = None if ids is None else column_of("ids", ids, n)
    return Chunk(X, codes, labels, members, names, w, ids)


@contextmanager
def named(where: str) -> Iterator[None]:
    """Say of a refusal where in the data it was."""
    try:
        yield
    except InputError as error:
        name = f"{where}: {error.argument}" if error.argument else where
        raise InputError(name, error.found, error.fix) from error


def union(what: str, found: Sequence[Names]) -> Names:
    """All names that occur, sorted."""
    kinds = sorted({"words" if names.dtype.kind in "OUST" else "numbers" for names in found})
    if len(kinds) > 1:
        raise InputError(what, "has words in some chunks and numbers in others", "convert all")
    return np.unique(np.concatenate(found))


def place_among(what: str, names: Names, known: Names) -> NDArray[np.intp]:
    """The place of each name among the known ones."""
    place = {name: k for k, name in enumerate(known.tolist())}
    new = [name for name in names.tolist() if name not in place]
    if new:
        found = f"has the label {new[0]!r}, which an earlier pass did not have"
        raise InputError(what, found, "give the same rows at every pass")
    return np.array([place[name] for name in names.tolist()], dtype=np.intp)


def concatenated(chunks: Sequence[Chunk]) -> Chunk:
    """The rows of all chunks as one."""
    first = chunks[0]
    if len(chunks) == 1:
        return first
    names = union("domains", [c.names for c in chunks])
    labels = None
    y = [c.y for c in chunks]
    if first.labels is not None:
        labels = union("y", [c.labels for c in chunks if c.labels is not None])
        y = [place_among("y", c.labels, labels)[c.y] for c in chunks if c.labels is not None]
    if len({type(c.domains) for c in chunks}) > 1:
        found = "are labels in some chunks and memberships in others"
        raise InputError("domains", found, "give one or the other")
    members = [c.domains.placed(place_among("domains", c.names, names), len(names)) for c in chunks]
    sparse_rows = any(sparse.issparse(c.X) for c in chunks)
    X = sparse.vstack([c.X for c in chunks]).tocsr() if sparse_rows else None
    has_weight = any(c.weight is not None for c in chunks)
    weight = [np.ones(len(c)) if c.weight is None else c.weight for c in chunks]
    return Chunk(
        np.concatenate([c.X for c in chunks]) if X is None else X,
        np.concatenate(y),
        labels,
        members[0].followed_by(members[1:]),
        names,
        np.concatenate(weight) if has_weight else None,
    )
