"""Who has how many rows of what: a table of clients and domains without its zeros.

With ten thousand clients of a thousand domains, of which each has a few, the table itself would be
80 MB, and a round makes several such tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

__all__ = ["Holdings"]


@dataclass(frozen=True)
class Holdings:
    """Client clients[e] has m[e] > 0 rows of domain domains[e]; in the order of the clients.

    Attributes
    ----------
    clients, domains : ndarray of int
        The place of every entry in the table.
    m : ndarray
        The entries.
    shape : tuple of int
        The numbers of clients and of domains.

    Examples
    --------
    >>> held = Holdings.of(np.array([[0.0, 3.0], [2.0, 1.0]]))
    >>> held.clients.tolist(), held.domains.tolist(), held.m.tolist()
    ([0, 1, 1], [1, 0, 1], [3.0, 2.0, 1.0])
    >>> held.sizes.tolist()
    [2.0, 4.0]
    """

    clients: Indices
    domains: Indices
    m: Array
    shape: tuple[int, int]

    @staticmethod
    def of(table: Array) -> Holdings:
        """From a table with its zeros."""
        clients, domains = np.nonzero(table)
        return Holdings(clients, domains, table[clients, domains], table.shape)

    @cached_property
    def sizes(self) -> Array:
        """m_k, the rows of every domain, (p,)."""
        return np.bincount(self.domains, weights=self.m, minlength=self.shape[1]).astype(float)

    @cached_property
    def by_domain(self) -> list[Indices]:
        """The entries of every domain, in the order of the clients."""
        order = np.argsort(self.domains, kind="stable")
        ends = np.cumsum(np.bincount(self.domains, minlength=self.shape[1]))
        return np.split(order, ends[:-1])

    def table(self, values: Array) -> Array:
        """A table with these values as its entries, and 0 elsewhere."""
        table = np.zeros(self.shape)
        table[self.clients, self.domains] = values
        return table

    def rows(self, clients: Indices, values: Array) -> Array:
        """Some rows of that table, those of these clients (in order), (clients, p)."""
        row = np.full(self.shape[0], -1)
        row[clients] = np.arange(len(clients))
        here = row[self.clients] >= 0
        table = np.zeros((len(clients), self.shape[1]))
        table[row[self.clients[here]], self.domains[here]] = values[here]
        return table
