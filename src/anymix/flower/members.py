"""Who is there: the clients, by a stable key of theirs, and waiting for them.

Node ids are random in every run, so a client is known by its key, and everything is in the order of
the keys. `Members` is the one place that asks "who are you", for training and for solving.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid

from anymix.flower.roster import Member, Roster
from anymix.flower.wire import WHO, MessageError, exchange, pack

__all__ = ["Members", "MissingClientsError"]

log = logging.getLogger("anymix.flower")


class MissingClientsError(RuntimeError):
    """Clients or their answers are missing, and the run was told not to go on without them.

    Examples
    --------
    >>> from anymix.flower import AgnosticStrategy, LocalGrid, Patience, client_app
    >>> grid = LocalGrid(client_app(lambda context: ([[0.0]], [1], ["a"]), classes=[0, 1]), nodes=1)
    >>> patience = Patience(min_clients=2, deadline=0.0)
    >>> strategy = AgnosticStrategy(step_w=0.5, step_mixture=0.1, patience=patience)
    >>> strategy.start(grid, num_rounds=1)
    Traceback (most recent call last):
        ...
    anymix.flower.members.MissingClientsError: 1 of 2 clients came within 0.0 s, ...
    """


class Members:
    """The clients on a grid: they come, go, come back, fail and are left out.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where they are.
    domains : sequence of str, optional
        All domains, in the order of Λ; a client that has others is left out. None takes any.
    max_rows : float
        A client that claims more rows is left out.

    Attributes
    ----------
    excluded : dict of str to str
        The clients that are left out for good, by key, and why.
    refused : dict of int to str
        The nodes that could not take part at the last look, and why.
    failures : dict of str to int
        How many rounds in a row a client has failed, by key.
    """

    def __init__(
        self, grid: Grid, domains: Sequence[str] | None = None, max_rows: float = np.inf
    ) -> None:
        self.grid, self.max_rows = grid, max_rows
        self.domains = None if domains is None else tuple(map(str, domains))
        self.failures: dict[str, int] = {}
        self.excluded: dict[str, str] = {}
        self.refused: dict[int, str] = {}
        self._known: dict[int, Member] = {}
        self._nodes: set[int] = set()
        self._banned: set[int] = set()  # nodes of the excluded, which may come with another key
        self._roster: Roster | None = None

    # -- who is there --------------------------------------------------------------------------

    def look(self, timeout: float = 30.0, *, again: bool = False) -> Roster:
        """The clients now; whoever came since the last look is asked who it is.

        Parameters
        ----------
        timeout : float
            Seconds to wait for their answers.
        again : bool
            Whether to ask those again who gave no good answer before.

        Returns
        -------
        Roster
        """
        nodes = set(self.grid.get_node_ids())
        if again or self._roster is None or nodes != self._nodes:
            self._nodes = nodes
            self._meet(timeout)
            self._roster = Roster.of(self._known.values(), self.domains)
        return self._roster

    def wait(
        self,
        enough: Callable[[Roster], bool],
        seconds: float,
        *,
        timeout: float = 30.0,
        again: bool = False,
        poll: float = 0.1,
    ) -> Roster:
        """The clients as soon as they are enough, else those who are there after so many seconds.

        Parameters
        ----------
        enough : function
            Roster -> bool, asked after every look.
        seconds : float
            How long to wait; 0 looks once.
        timeout : float
            Seconds to wait for the answers of new clients.
        again : bool
            Whether to ask those again who gave no good answer before.
        poll : float
            Seconds between two looks.

        Returns
        -------
        Roster
        """
        end = time.monotonic() + seconds
        while True:
            roster = self.look(timeout, again=again)
            rest = end - time.monotonic()
            if enough(roster) or rest <= 0:
                return roster
            time.sleep(min(poll, rest))
            timeout = max(0.1, min(timeout, end - time.monotonic()))

    def gather(self, min_clients: int, seconds: float) -> Roster:
        """The first clients: as soon as there are so many, and one of every domain.

        From then on these are all domains there are. MissingClientsError if it takes too long.
        """

        def enough(roster: Roster) -> bool:
            return len(roster.members) >= min_clients and not roster.empty_domains

        roster = self.wait(enough, seconds, again=True)
        if not enough(roster):
            raise MissingClientsError(
                f"{len(roster.members)} of {min_clients} clients came within {seconds} s, nobody "
                f"has rows of {roster.empty_domains}; left out: {self.excluded}"
            )
        self.domains = roster.domains
        return roster

    def forget(self, keys: Iterable[str]) -> None:
        """Ask these clients anew at the next look: they may have come back on another node."""
        gone = set(keys)
        self._known = {i: m for i, m in self._known.items() if m.key not in gone}
        self._roster = None

    def _meet(self, timeout: float) -> None:
        """Ask the nodes not known yet, and keep those that can take part."""
        here, self.refused = self._nodes - self._banned, {}
        found = {i: member for i, member in self._known.items() if i in here}
        messages = [Message(pack({}, {}), i, WHO) for i in sorted(here - set(found))]
        for node_id, reply in exchange(self.grid, messages, timeout).items():
            try:
                found[node_id] = Member.of(reply, node_id)
            except MessageError as error:
                self._refuse(node_id, str(error))
        self._known = self._consistent(found)
        for member in list(self._known.values()):
            why = self._objection(member)
            if why is not None:
                self.refused[member.node_id] = f"client {member.key!r}: {why}"
                self.exclude(member.key, why)

    def _consistent(self, found: dict[int, Member]) -> dict[int, Member]:
        """Without those that have another model than most, or the key of another node.

        The rows of a key that is there twice would count twice; the node known first stays.
        """
        kinds = Counter((member.kind, member.n_parameters) for member in found.values())
        usual = max(kinds, key=lambda kind: (kinds[kind], kind), default=None)
        kept: dict[str, Member] = {}
        for node_id, member in found.items():
            if (member.kind, member.n_parameters) != usual:
                why = f"client {member.key!r} has {member.kind}, most have {usual}"
                self._refuse(node_id, why)
            elif member.key in kept:
                self._refuse(node_id, f"client {member.key!r} is there twice")
            else:
                kept[member.key] = member
        return {member.node_id: member for member in kept.values()}

    def _objection(self, member: Member) -> str | None:
        """Why a client cannot take part, None if it can."""
        if member.key in self.excluded:
            return self.excluded[member.key]
        if self.domains is not None and not set(member.domains) <= set(self.domains):
            return f"it has {list(member.domains)}, and domains is {list(self.domains)}"
        if member.counts.sum() > self.max_rows:
            return f"it claims {member.counts.sum():g} rows"
        return None

    def _refuse(self, node_id: int, why: str) -> None:
        log.warning("node %d is left out: %s", node_id, why)
        self.refused[node_id] = why

    # -- who may stay --------------------------------------------------------------------------

    def note(self, answered: Iterable[str], failed: Iterable[str], max_failures: int) -> None:
        """Count the failures of a round; who failed max_failures times in a row is left out."""
        for key in answered:
            self.failures.pop(key, None)
        for key in failed:
            self.failures[key] = self.failures.get(key, 0) + 1
            if self.failures[key] >= max_failures:
                self.exclude(key, f"it failed {self.failures[key]} times in a row")

    def exclude(self, key: str, why: str) -> None:
        """Leave a client out for good."""
        log.warning("client %r is left out: %s", key, why)
        self.excluded[key] = why
        self._banned |= {i for i, m in self._known.items() if m.key == key}
        self.forget([key])
