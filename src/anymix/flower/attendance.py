"""Who takes part in a run: clients come, go, fail and are left out."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence

import numpy as np
from flwr.serverapp import Grid

from anymix.flower.roster import Member, Roster, find_members

__all__ = ["Attendance", "MissingClientsError"]

log = logging.getLogger("anymix.flower")


class MissingClientsError(RuntimeError):
    """Answers are missing, and the strategy was told not to go on without them."""


class Attendance:
    """The roster of every round.

    A client that fails `max_failures` times in a row is left out, one that sends nonsense at once.
    What it knows of clients it knows by their keys, which outlast a restart of the server.
    """

    def __init__(
        self, domains: Sequence[str] | None, max_failures: int, max_rows: float = np.inf
    ) -> None:
        self.domains = None if domains is None else tuple(map(str, domains))
        self.max_failures, self.max_rows = max_failures, max_rows
        self.failures: dict[str, int] = {}  # in a row
        self.excluded: dict[str, str] = {}  # and why
        self._members: dict[int, Member] = {}
        self._nodes: set[int] = set()
        self._banned: set[int] = set()  # nodes of the excluded, which may come with another key
        self._roster: Roster | None = None

    def roster(self, grid: Grid) -> Roster:
        """The clients now; whoever came since the last look is asked who it is."""
        nodes = set(grid.get_node_ids())
        if nodes != self._nodes or self._roster is None:
            self._nodes = nodes
            self._members = find_members(
                grid, known=self._members, ignore=self._banned, timeout=30.0, reject=_tell
            )
            for member in list(self._members.values()):
                self._examine(member)
            self._roster = Roster.of(self._members.values(), self.domains)
        return self._roster

    def _examine(self, member: Member) -> None:
        if member.key in self.excluded:
            self.exclude(member.key, self.excluded[member.key])
        elif self.domains is not None and not set(member.domains) <= set(self.domains):
            self.exclude(member.key, f"it has unknown domains: {member.domains}")
        elif member.counts.sum() > self.max_rows:
            self.exclude(member.key, f"it claims {member.counts.sum():g} rows")

    def first_roster(self, grid: Grid, min_clients: int, timeout: float) -> Roster:
        """Wait until there are enough clients, and one of every domain: nodes register late."""
        end = time.monotonic() + timeout
        while True:
            self._roster = None  # ask again those who did not answer
            roster = self.roster(grid)
            if len(roster.members) >= min_clients and not empty_domains(roster):
                self.domains = roster.domains
                return roster
            if time.monotonic() >= end:
                raise MissingClientsError(
                    f"{len(roster.members)} of {min_clients} clients came within {timeout} s, "
                    f"nobody has rows of {empty_domains(roster)}; left out: {self.excluded}"
                )
            time.sleep(0.1)

    def wait_for_domains(self, grid: Grid, timeout: float) -> Roster:
        """The roster as soon as every domain has a client, else what it is after the timeout."""
        end = time.monotonic() + timeout
        roster = self.roster(grid)
        while empty_domains(roster) and time.monotonic() < end:
            time.sleep(0.1)
            roster = self.roster(grid)
        return roster

    def note(self, answered: Iterable[str], failed: Iterable[str]) -> None:
        """Count the failures of a round, by client keys."""
        for key in answered:
            self.failures.pop(key, None)
        for key in failed:
            self.failures[key] = self.failures.get(key, 0) + 1
            if self.failures[key] >= self.max_failures:
                self.exclude(key, f"it failed {self.failures[key]} times in a row")

    def exclude(self, key: str, why: str) -> None:
        """Leave a client out for good."""
        log.warning("client %r is left out: %s", key, why)
        self.excluded[key] = why
        self._banned |= {i for i, m in self._members.items() if m.key == key}
        self._members = {i: m for i, m in self._members.items() if m.key != key}
        self._roster = None


def empty_domains(roster: Roster) -> list[str]:
    """The domains of which nobody has rows."""
    return [roster.domains[k] for k in np.flatnonzero(roster.sizes == 0)]


def _tell(node_id: int, why: str) -> None:
    log.warning("node %d is left out: %s", node_id, why)
