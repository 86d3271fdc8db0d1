"""Which rows are in which domains: one each, or several or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.problem.arrays import one_each, read_domains, shares

Array = NDArray[np.float64]

__all__ = ["Domains", "ManyDomains", "OneDomain", "domains_of", "small_codes"]


class Domains(Protocol):
    """Which rows are in which of p domains."""

    def take(self, part: Any) -> Domains:
        """The same of a part of the rows."""

    def key(self) -> NDArray[Any]:
        """A number for each row, (n,), equal for rows of the same domains."""

    def inside(self) -> NDArray[np.bool_]:
        """Whether each row is in a domain at all, (n,)."""

    def grouped(self) -> NDArray[np.intp] | None:
        """An order that puts the rows of a domain side by side; None if they are, or cannot be."""

    def counts(self, p: int) -> NDArray[np.intp]:
        """Rows of each domain, (p,)."""

    def sizes(self, p: int, weight: Array | None) -> Array:
        """m (p,) alone."""

    def shares(self, p: int, weight: Array | None) -> tuple[Array, sparse.csc_array]:
        """Sizes m (p,) and shares a (p, n) of the rows in the domains' means."""

    def indicators(self, p: int) -> sparse.csr_array:
        """1 where a row is in a domain, (n, p)."""

    def placed(self, place: NDArray[np.intp], p: int) -> Domains:
        """The same among p domains, of which place[k] is the k-th of these."""

    def followed_by(self, others: Sequence[Any]) -> Domains:
        """These rows and those of others after them, all of the same domains."""


@dataclass(frozen=True, eq=False)
class OneDomain:
    """Each row is in one domain: its code, a number of few bytes."""

    codes: NDArray[np.integer[Any]]  # (n,)

    def take(self, part: Any) -> OneDomain:
        """The same of a part of the rows."""
        return OneDomain(self.codes[part])

    def key(self) -> NDArray[Any]:
        """The codes themselves."""
        return self.codes

    def inside(self) -> NDArray[np.bool_]:
        """Every row is."""
        return np.ones(len(self.codes), dtype=bool)

    def grouped(self) -> NDArray[np.intp] | None:
        """The rows sorted by domain; None if they are already."""
        if bool(np.all(self.codes[1:] >= self.codes[:-1])):
            return None
        return np.argsort(self.codes, kind="stable")

    def counts(self, p: int) -> NDArray[np.intp]:
        """Rows of each domain, (p,)."""
        return np.bincount(self.codes, minlength=p)

    def sizes(self, p: int, weight: Array | None) -> Array:
        """m (p,) alone: rows that all weigh 1 need not be listed."""
        return self.counts(p).astype(np.float64) if weight is None else self.shares(p, weight)[0]

    def shares(self, p: int, weight: Array | None) -> tuple[Array, sparse.csc_array]:
        """Sizes m (p,) and shares a (p, n) of the rows in the domains' means."""
        membership = one_each(self.codes, p)
        return shares(membership, membership.data if weight is None else weight)

    def indicators(self, p: int) -> sparse.csr_array:
        """1 where a row is in a domain, (n, p)."""
        return sparse.csr_array(one_each(self.codes, p).T)

    def placed(self, place: NDArray[np.intp], p: int) -> OneDomain:
        """The same among p domains."""
        return OneDomain(small_codes(place, p)[self.codes])

    def followed_by(self, others: Sequence[OneDomain]) -> OneDomain:
        """These rows and those of others after them."""
        return OneDomain(np.concatenate([self.codes, *(other.codes for other in others)]))


@dataclass(frozen=True, eq=False)
class ManyDomains:
    """A row may be in several domains or in none: its memberships."""

    matrix: sparse.csc_array  # (p, n)

    def take(self, part: Any) -> ManyDomains:
        """The same of a part of the rows."""
        return ManyDomains(self.matrix[:, part])

    def key(self) -> NDArray[Any]:
        """A random linear function of the memberships."""
        p = self.matrix.shape[0]
        key: NDArray[Any] = self.matrix.T @ np.random.default_rng(0).uniform(size=p)
        return key

    def inside(self) -> NDArray[np.bool_]:
        """Whether each row has a membership."""
        return np.asarray(np.diff(self.matrix.indptr) > 0)

    def grouped(self) -> None:
        """A row in two domains cannot be beside all others of both."""

    def counts(self, p: int) -> NDArray[np.intp]:
        """Rows of each domain, (p,)."""
        return np.bincount(self.matrix.indices, minlength=p)

    def sizes(self, p: int, weight: Array | None) -> Array:
        """m (p,) alone."""
        return self.shares(p, weight)[0]

    def shares(self, p: int, weight: Array | None) -> tuple[Array, sparse.csc_array]:
        """Sizes m (p,) and shares a (p, n) of the rows in the domains' means."""
        data = self.matrix.data
        if weight is not None:
            data = data * np.repeat(weight, np.diff(self.matrix.indptr))
        return shares(self.matrix, data)

    def indicators(self, p: int) -> sparse.csr_array:
        """1 where a row is in a domain, (n, p)."""
        return sparse.csr_array((self.matrix.T > 0).astype(np.float64))

    def placed(self, place: NDArray[np.intp], p: int) -> ManyDomains:
        """The same among p domains."""
        found = self.matrix.tocoo()
        where = place[found.coords[0]], found.coords[1]
        return ManyDomains(sparse.csc_array((found.data, where), shape=(p, found.shape[1])))

    def followed_by(self, others: Sequence[ManyDomains]) -> ManyDomains:
        """These rows and those of others after them."""
        matrices = [self.matrix, *(other.matrix for other in others)]
        return ManyDomains(sparse.hstack(matrices, format="csc"))


def domains_of(domains: Any, n: int) -> tuple[NDArray[Any], Domains]:
    """Names of the domains, and which of n rows are in which; None is one domain of all rows."""
    names, found = read_domains(np.full(n, "all") if domains is None else domains, n)
    if sparse.issparse(found):
        return names, ManyDomains(found)
    return names, OneDomain(small_codes(found, len(names)))


def small_codes(codes: NDArray[Any], count: int) -> NDArray[np.integer[Any]]:
    """Codes below `count` in two bytes each where that is enough."""
    return codes.astype(np.int16 if count < 2**15 else np.int32, copy=False)
