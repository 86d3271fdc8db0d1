"""The clients that take part, in the order of their keys, and how many rows they have of what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from flwr.app import Message
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.flower.client_errors import in_words, why
from anymix.flower.wire import MessageError, unpack
from anymix.mixtures import MixtureSet
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.objective import Objective

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

__all__ = ["Holdings", "Member", "Roster"]


@dataclass(frozen=True)
class Holdings:
    """Client clients[e] has m[e] > 0 rows of domain domains[e]; in the order of the clients."""

    # The table of 10,000 clients and 1,000 domains, of which each has a few, would be 80 MB.

    clients: Indices
    domains: Indices
    m: Array
    shape: tuple[int, int]

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


@dataclass(frozen=True)
class Member:
    """One client as it described itself."""

    key: str
    node_id: int
    domains: tuple[str, ...]
    counts: Array
    n_parameters: int  # D, the length of w
    kind: str  # the model, the same at all clients
    n_scores: int = 1  # blocks of w of a linear model; 0 of any other
    intercept: bool = False  # whether each block ends with one, not penalised
    noisy: bool = False  # whether it adds noise to its own sums
    loss: str = ""  # of a linear model
    classes: tuple[Any, ...] | None = None  # of a linear model, None for numbers

    def half_square(self, w: Array) -> float:
        """½‖w‖² without the intercepts."""
        squares = (w * w).reshape(max(self.n_scores, 1), -1)
        return 0.5 * float(squares[:, : squares.shape[1] - int(self.intercept)].sum())

    @property
    def linear(self) -> bool:
        """Whether it is a linear model of this library."""
        return self.n_scores > 0

    @staticmethod
    def of(reply: Message, node_id: int) -> Member:
        """The checked reply of a node to "who are you", or MessageError; no rows are no domains."""
        if reply.has_error():
            raise MessageError(f"the client failed: {why(reply)}")
        arrays, settings = unpack(reply.content)
        if "failed" in settings:
            what = in_words(str(settings["failed"]))
            raise MessageError(f"client {settings.get('key')!r}: {what}")
        key, names, kind = (settings.get(k) for k in ("key", "domains", "kind"))
        counts, d = arrays.get("counts"), settings.get("n_parameters")
        blocks = settings.get("n_scores")
        if not (isinstance(key, str) and isinstance(names, list) and isinstance(kind, str)):
            raise MessageError(f"key, domains and kind are {key!r}, {names!r} and {kind!r}")
        if not (isinstance(d, int) and d >= 1):
            raise MessageError(f"n_parameters is {d!r}")
        if not (isinstance(blocks, int) and blocks >= 0) or (blocks and d % blocks):
            raise MessageError(f"n_scores is {blocks!r} for {d} parameters")
        strange = not all(isinstance(name, str) for name in names)
        if strange or len(set(names)) != len(names):
            raise MessageError(f"domains is {names!r}")
        good = counts is not None and counts.dtype == np.float64 and counts.shape == (len(names),)
        if counts is None or not good or not np.all((counts > 0) & (counts < np.inf)):
            raise MessageError(f"counts is {counts!r} for the domains {names}")
        intercept, noisy = (settings.get(name) is True for name in ("intercept", "noisy"))
        loss, classes = str(settings.get("loss", "")), settings.get("classes")
        told = (intercept, noisy, loss, tuple(classes) if isinstance(classes, list) else None)
        return Member(key, node_id, tuple(names), counts, d, kind, blocks, *told)


@dataclass(frozen=True)
class Roster:
    """The members in the order of their keys, and the rows of every domain."""

    members: tuple[Member, ...]  # sorted by key
    domains: tuple[str, ...]  # in the order of Λ
    places: tuple[Indices, ...] = field(repr=False)  # the numbers of each member's domains

    @staticmethod
    def of(members: Iterable[Member], domains: Sequence[str] | None = None) -> Roster:
        """Members sorted by key; `domains` are all names in their order, None sorts them."""
        ordered = tuple(sorted(members, key=lambda member: member.key))
        present = {name for member in ordered for name in member.domains}
        names = tuple(sorted(present)) if domains is None else tuple(domains)
        place = {name: k for k, name in enumerate(names)}
        places = tuple(np.array([place[name] for name in m.domains], np.intp) for m in ordered)
        return Roster(ordered, names, places)

    @cached_property
    def holdings(self) -> Holdings:
        """Who has how many rows of what, without the zeros."""
        lengths = [len(place) for place in self.places]
        nothing = [np.zeros(0)]
        return Holdings(
            np.repeat(np.arange(len(lengths)), lengths),
            np.concatenate([*self.places, np.zeros(0, np.intp)]),
            np.concatenate([member.counts for member in self.members] + nothing),
            (len(self.members), len(self.domains)),
        )

    @property
    def counts(self) -> Array:
        """How many rows each member has of each domain, (members, p), zeros and all."""
        return self.holdings.table(self.holdings.m)

    @cached_property
    def sizes(self) -> Array:
        """m_k, the rows of every domain over all members, (p,)."""
        return self.holdings.sizes

    def mixture_set(self, mixtures: Mixtures) -> MixtureSet:
        """Λ over these domains."""
        try:
            return target_mixtures(mixtures, None, self.sizes, self.domains)
        except InputError as error:
            if error.argument != "mixtures":
                raise
            fix = (
                f"give a set over the clients' {len(self.domains)} domains {list(self.domains)}, "
                "in this order, or name those you want with domains="
            )
            raise InputError("mixtures", error.found, fix) from None

    def settled(self, objective: Objective) -> Objective:
        """The same with its Λ over these domains."""
        return replace(objective, mixtures=self.mixture_set(objective.mixtures))

    @cached_property
    def keys(self) -> list[str]:
        """The keys of the members."""
        return [member.key for member in self.members]

    @cached_property
    def nodes(self) -> dict[str, int]:
        """The node of every member, by key."""
        return {member.key: member.node_id for member in self.members}

    @property
    def empty_domains(self) -> list[str]:
        """The domains of which nobody has rows."""
        return [self.domains[k] for k in np.flatnonzero(self.sizes == 0)]
