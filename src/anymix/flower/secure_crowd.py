"""The clients behind a masked sum: who is asked, again and without whom, and with which keys."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.flower.fixed_point import FixedPoint
from anymix.flower.members import Members, MissingClientsError
from anymix.flower.policy import Patience
from anymix.flower.results import Record
from anymix.flower.roster import Roster
from anymix.flower.secure_sum import NO_MASKS, AbsentError, MaskedSum, public_keys
from anymix.flower.secure_wire import Call
from anymix.flower.wire import EVALUATE, MOMENTS, WHO, Arrays, Settings

Array = NDArray[np.float64]

__all__ = ["Crowd", "Terms"]

log = logging.getLogger("anymix.flower")

LEAST = 3  # clients; of two, each knows the other's part
ATTEMPTS = 3  # of sums in which masks do not cancel


class Terms(Protocol):
    """How masked sums are made, as `Secure` says it and explains it."""

    @property
    def by_domain(self) -> bool:
        """Whether gradients are added up for each domain."""
        ...

    @property
    def exact(self) -> bool:
        """Whether there is no noise."""
        ...

    @property
    def limits(self) -> dict[str, float]:
        """What each client does to its part."""
        ...

    @property
    def min_share(self) -> float:
        """The part of the clients of each domain that will do."""
        ...

    def form(self, *, solving: bool) -> FixedPoint:
        """How numbers travel."""
        ...

    def needed(self, n_clients: int) -> int:
        """How many must give their shares."""
        ...


class Crowd:
    """The clients of a grid, for sums over all of them.

    Parameters
    ----------
    members : Members
        Who is there.
    secure : Terms
        How sums are made.
    patience : Patience
        What to do about clients that do not answer.
    timeout : float
        Seconds to wait for the answers of clients.
    solving : bool
        Whether nobody may be missing.

    Attributes
    ----------
    roster : Roster
        The clients of the last sum.
    records : list of dict
        For each sum: kind, clients, attempts, missing (whoever it was made without), sent and
        received (bytes of the arrays), seconds.
    """

    def __init__(
        self, members: Members, secure: Terms, patience: Patience, timeout: float, *, solving: bool
    ) -> None:
        self.members, self.secure, self.patience = members, secure, patience
        self.timeout, self.solving, self.form = timeout, solving, secure.form(solving=solving)
        self.wide = secure.form(solving=True)  # for squares of columns in any units
        self.records: list[Record] = []
        self.roster = Roster.of([])
        self._public: dict[tuple[str, int], str] = {}  # by client and node
        self._counted: dict[frozenset[str], Array] = {}
        self._turn = time.time_ns()  # larger than in any run before

    def gather(self, settings: Settings) -> Array:
        """Wait for the clients; the rows that they have of every domain, all together."""
        self.members.settings = settings
        self.members.gather(self.patience.min_clients, self.patience.deadline)
        found = self.total(WHO, {}, lambda roster: settings, {})
        if found is None:
            raise MissingClientsError("nobody has said how many rows there are")
        self._counted[frozenset(self.roster.keys)] = found["counts"]
        return found["counts"]

    def count(self, roster: Roster) -> Array:
        """The rows of every domain that these clients have all together, (p,)."""
        who = frozenset(roster.keys)
        if who not in self._counted:
            self._counted[who] = self._sum(WHO, {}, self.members.settings, {}, roster)["counts"]
        return self._counted[who]

    def total(
        self,
        kind: str,
        arrays: Arrays,
        question: Callable[[Roster], Settings],
        about: dict[str, Any],
    ) -> dict[str, Array] | None:
        """The totals over all clients, or over enough of them; None for a round to be skipped.

        Parameters
        ----------
        kind : str
            The type of the message.
        arrays : dict
            Those of the question.
        question : function
            From those who are asked to the settings of the question.
        about : dict
            What else `Call` needs.
        """
        began, attempts, without, pause = time.monotonic(), 0, dict[str, str](), 0.05
        while True:
            roster, attempts = self._present(without), attempts + 1
            lacking = self._lacking(kind, roster, without)
            try:
                if not lacking:
                    values = self._sum(kind, arrays, question(roster), about, roster)
                    self.records[-1] |= {"attempts": attempts, "missing": len(without)}
                    self.members.note(roster.keys, {}, self.patience.max_failures)
                    return values
            except AbsentError as absent:
                lacking = absent.why
                self._blame(absent, attempts)
            others = without | lacking
            if not self._lacking(kind, self._present(others), others):
                without = others  # a new question, under new masks, to those who are left
                continue
            if self.members.excluded and not self.members.look().members:
                raise MissingClientsError(f"no sum for {kind!r}: all clients failed: {lacking}")
            if not self._wait(kind, lacking, began, pause):
                return None
            without, pause = {}, min(2 * pause, 5.0)

    # -- who is asked ----------------------------------------------------------------------------

    def _present(self, without: Iterable[str]) -> Roster:
        """Who is there, but for some."""
        here = [m for m in self.members.look().members if m.key not in without]
        return Roster.of(here, self.members.domains)

    def _lacking(self, kind: str, roster: Roster, without: dict[str, str]) -> dict[str, str]:
        """Without whom there is no going on, and why; empty where those who are there will do."""
        gone = {member.key: "it has left" for member in self.members.absent(roster)} | without
        gone = {key: why for key, why in gone.items() if key not in roster.keys}
        if not gone and len(roster.members) >= LEAST and not roster.empty_domains:
            return {}
        if len(roster.members) >= LEAST and self._will_do(kind, roster, without):
            return {}
        return gone or {"others": f"{LEAST} clients are needed, and one of every domain"}

    def _will_do(self, kind: str, roster: Roster, without: dict[str, str]) -> bool:
        """Whether some of the clients may stand for all."""
        excluded = set(without) <= set(self.members.excluded)
        if self.solving or kind == WHO:
            return False
        if kind in (EVALUATE, MOMENTS):
            return True
        if roster.empty_domains:
            return False
        if self.patience.on_missing == "skip" and (not without or excluded):
            return True  # it goes on without those who have left
        here = Counter(name for member in roster.members for name in member.domains)
        everybody = [*roster.members, *self.members.absent(roster)]
        whole = Counter(name for member in everybody for name in member.domains)
        return all(here[name] >= self.secure.min_share * n - 1e-9 for name, n in whole.items())

    def _wait(self, kind: str, lacking: dict[str, str], began: float, pause: float) -> bool:
        """Whether to ask again, False to skip the round; MissingClientsError at the end."""
        over = time.monotonic() - began + pause > self.patience.deadline
        if self.patience.on_missing == "skip":
            log.warning("no sum for %r: %s", kind, lacking)
            return False
        if self.patience.on_missing == "stop" or over:
            raise MissingClientsError(
                f"no sum for {kind!r}: it lacks {lacking}; left out: {self.members.excluded}"
            )
        time.sleep(pause)
        return True

    def _blame(self, absent: AbsentError, attempts: int) -> None:
        """Count failures, leave out who lies, and forget keys that may be lost."""
        if all(why == "the masks do not cancel" for why in absent.why.values()):
            if attempts >= ATTEMPTS:
                fix = "leave out the clients that you do not trust"
                raise InputError("a client", "sends masks that do not cancel", fix)
            return
        self._refuse([key for key, why in absent.why.items() if why == NO_MASKS])
        for place in [place for place in self._public if place[0] in absent.why]:
            del self._public[place]
        if self.solving and absent.liars:
            raise InputError("a client", f"cannot take part: {absent.why}", "leave it out")
        for key, why in absent.why.items():
            if absent.liars:
                self.members.exclude(key, why)
        failed = {k: 1 for k, why in absent.why.items() if why.startswith("it failed")}
        if self.solving:
            return
        self.members.note([], failed, self.patience.max_failures)

    def _refuse(self, bare: list[str]) -> None:
        """Clients that are not `secured`: an error, but one that joins a training is left out."""
        if self.records and not self.solving:
            for key in bare:
                self.members.exclude(key, NO_MASKS)
        elif bare:
            everybody = len(bare) == len(self.members.look().members)
            who = "the clients" if everybody else f"the clients {bare}"
            raise InputError(who, "answer without masks", "wrap the client app by secured(...)")

    # -- one sum ---------------------------------------------------------------------------------

    def _sum(
        self,
        kind: str,
        arrays: Arrays,
        settings: Settings,
        about: dict[str, Any],
        roster: Roster,
    ) -> dict[str, Array]:
        """The totals over just these clients; AbsentError if somebody does not answer."""
        began, one = time.monotonic(), roster.members[0]
        keys = self._keys(roster)
        self._turn += 1
        n = len(roster.members)
        form = self.wide if kind == MOMENTS else self.form
        call = Call(
            self._turn,
            roster.keys,
            [keys[key] for key in roster.keys],
            self.secure.needed(n),
            list(roster.domains),
            form.resolution,
            form.largest,
            **about,
        )
        masked = MaskedSum(self.members.grid, roster.nodes, self.timeout)
        blocks = max(1, one.n_scores)
        D = one.n_parameters
        values = masked.ask(kind, arrays, settings | call.to_settings(), D, D // blocks)
        self.roster = roster
        cost = {"sent": masked.sent, "received": masked.received}
        seconds = time.monotonic() - began
        self.records.append({"kind": kind, "clients": n, **cost, "seconds": seconds})
        return values

    def _keys(self, roster: Roster) -> dict[str, str]:
        """The public keys of these clients; those not known yet are asked for."""
        new = {m.key: m.node_id for m in roster.members if (m.key, m.node_id) not in self._public}
        if new:
            found, wrong = public_keys(self.members.grid, new, self.timeout)
            self._public |= {(key, new[key]): public for key, public in found.items()}
            if wrong:
                raise AbsentError(wrong)
        keys = {m.key: self._public[m.key, m.node_id] for m in roster.members}
        twice = {key for key, n in Counter(keys.values()).items() if n > 1}
        if twice:  # whoever owns it makes another one, which nobody can have copied
            same = {key: "it has the key of another" for key in keys if keys[key] in twice}
            raise AbsentError(same)
        return keys
