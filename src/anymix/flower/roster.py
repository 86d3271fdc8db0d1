"""Who is there: the clients, by a stable key of theirs, and the rows they hold of every domain."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.flower.wire import WHO, exchange, pack, unpack

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

__all__ = ["Member", "Roster", "find_members", "wait_for_members"]


@dataclass(frozen=True)
class Member:
    """One client as it described itself."""

    key: str
    node_id: int
    domains: tuple[str, ...]
    counts: Array  # (len(domains),)
    n_parameters: int
    kind: str

    @staticmethod
    def of(reply: Message) -> Member:
        """Read and check the reply to "who are you"."""
        if reply.has_error():
            raise ValueError(f"the client failed: {reply.error.reason}")
        arrays, settings = unpack(reply.content)
        key, names, kind = (settings.get(k) for k in ("key", "domains", "kind"))
        counts, d = arrays.get("counts"), settings.get("n_parameters")
        if not (isinstance(key, str) and isinstance(names, list) and isinstance(kind, str)):
            raise ValueError(f"key, domains and kind are {key!r}, {names!r} and {kind!r}")
        if not (isinstance(d, int) and d >= 1):
            raise ValueError(f"n_parameters is {d!r}")
        strange = not all(isinstance(name, str) for name in names)
        if not names or strange or len(set(names)) != len(names):
            raise ValueError(f"domains is {names!r}")
        good = counts is not None and counts.dtype == np.float64 and counts.shape == (len(names),)
        if counts is None or not good or not np.all((counts > 0) & (counts < np.inf)):
            raise ValueError(f"counts is {counts!r} for the domains {names}")
        return Member(key, reply.metadata.src_node_id, tuple(names), counts, d, kind)


@dataclass(frozen=True)
class Roster:
    """The members in the order of their keys, and the rows of every domain.

    >>> ann = Member("a", 7, ("web",), np.array([3.0]), 2, "")
    >>> bob = Member("b", 5, ("mail", "web"), np.array([2.0, 1.0]), 2, "")
    >>> roster = Roster.of([bob, ann])
    >>> roster.domains, roster.sizes.tolist(), [member.key for member in roster.members]
    (('mail', 'web'), [2.0, 4.0], ['a', 'b'])
    >>> roster.counts.tolist()
    [[0.0, 3.0], [2.0, 1.0]]
    """

    members: tuple[Member, ...]
    domains: tuple[str, ...]
    places: tuple[Indices, ...] = field(repr=False)  # of each member's domains, in its own order
    counts: Array = field(repr=False)  # (members, p)

    @staticmethod
    def of(members: Iterable[Member], domains: Sequence[str] | None = None) -> Roster:
        """Members sorted by key; `domains` fixes their order, else they are sorted."""
        ordered = tuple(sorted(members, key=lambda member: member.key))
        present = {name for member in ordered for name in member.domains}
        names = tuple(sorted(present)) if domains is None else tuple(domains)
        if not present <= set(names):
            raise ValueError(
                f"domains is {list(names)}, but clients hold {sorted(present - set(names))} as well"
            )
        place = {name: k for k, name in enumerate(names)}
        places = tuple(np.array([place[name] for name in m.domains]) for m in ordered)
        counts = np.zeros((len(ordered), len(names)))
        for row, member, here in zip(counts, ordered, places, strict=True):
            row[here] = member.counts
        return Roster(ordered, names, places, counts)

    @cached_property
    def sizes(self) -> Array:
        """m_k, the rows of every domain over all members, (p,)."""
        sizes: Array = self.counts.sum(axis=0)
        return sizes

    def row_of(self, node_id: int) -> int | None:
        """The place of a node among the members."""
        return self._rows.get(node_id)

    @cached_property
    def _rows(self) -> dict[int, int]:
        return {member.node_id: i for i, member in enumerate(self.members)}


def find_members(
    grid: Grid,
    *,
    known: Mapping[int, Member] | None = None,
    ignore: Iterable[int] = (),
    timeout: float = 60.0,
    reject: Callable[[int, str], None] = lambda node_id, why: None,
) -> dict[int, Member]:
    """The members on the grid now, by node id; only those not known yet are asked.

    Left out, and reported to `reject`, are nodes that fail to describe themselves, that have
    another model than most, or the key of another node, whose rows would count twice (the one
    known first stays).
    """
    here = set(grid.get_node_ids()) - set(ignore)
    members = {i: member for i, member in (known or {}).items() if i in here}
    messages = [Message(pack({}, {}), i, WHO) for i in sorted(here - set(members))]
    for reply in exchange(grid, messages, timeout) if messages else []:
        node_id = reply.metadata.src_node_id
        try:
            members[node_id] = Member.of(reply)
        except ValueError as error:
            reject(node_id, str(error))
    return _consistent(members, reject)


def _consistent(
    members: dict[int, Member], reject: Callable[[int, str], None]
) -> dict[int, Member]:
    kinds = Counter((member.kind, member.n_parameters) for member in members.values())
    usual = max(kinds, key=lambda kind: (kinds[kind], kind), default=None)
    kept: dict[int, Member] = {}
    keys: set[str] = set()
    for node_id, member in members.items():
        if (member.kind, member.n_parameters) != usual:
            reject(node_id, f"client {member.key!r} has {member.kind}, most have {usual}")
        elif member.key in keys:
            reject(node_id, f"client {member.key!r} is there twice")
        else:
            keys.add(member.key)
            kept[node_id] = member
    return kept


def wait_for_members(
    grid: Grid, enough: Callable[[Mapping[int, Member]], bool], timeout: float, poll: float = 0.2
) -> dict[int, Member]:
    """Members as soon as there are enough; nodes take their time to register."""
    end = time.monotonic() + timeout
    members: dict[int, Member] = {}
    while True:
        members = find_members(grid, known=members, timeout=max(1.0, end - time.monotonic()))
        if enough(members) or time.monotonic() >= end:
            return members
        time.sleep(poll)
