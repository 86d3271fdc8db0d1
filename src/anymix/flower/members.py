"""Who is there: the clients, by a stable key of theirs, and waiting for them.

Node ids are random in every run, so a client is known by its key, and everything is in the order of
the keys. `Members` is the one place that asks "who are you", for training and for solving.

A key is what a client says of itself, so the first node that uses it owns it: another one with the
same key stays outside as long as the first is there, and takes its place only when that one has
gone (a client that came back on another node) or was left out (a liar with somebody else's key).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from flwr.app import Message
from flwr.serverapp import Grid

from anymix.errors import InputError
from anymix.flower.aggregation import Limits
from anymix.flower.exchange import Post
from anymix.flower.roster import Member, Roster
from anymix.flower.wire import WHO, MessageError, Settings, is_unavailable, pack

Kind = tuple[str, int, int]

__all__ = ["Members", "MissingClientsError"]

log = logging.getLogger("anymix.flower")


class MissingClientsError(RuntimeError):
    """Clients or their answers are missing, and the run was told not to go on without them.

    Examples
    --------
    >>> from anymix.flower import AgnosticStrategy, LocalGrid, Patience, client_app
    >>> grid = LocalGrid(client_app(lambda context: ([[0.0]], [1], ["a"]), classes=[0, 1]), nodes=1)
    >>> patience = Patience(min_clients=2, deadline=0.0)
    >>> AgnosticStrategy(patience=patience).start(grid, num_rounds=1)
    Traceback (most recent call last):
        ...
    anymix.flower.members.MissingClientsError: 1 of 2 clients came within 0.0 s; left out: nobody
    """


class Members:
    """The clients on a grid: they come, go, come back, fail and are left out."""

    def __init__(
        self,
        grid: Grid,
        domains: Sequence[str] | None = None,
        limits: Limits | None = None,
        introduction: float = 30.0,
        settings: Settings | None = None,
    ) -> None:
        self.grid, self.introduction, self.settings = grid, introduction, settings or {}
        self.limits = Limits() if limits is None else limits
        self.domains = None if domains is None else tuple(map(str, domains))
        self.failures: dict[str, int] = {}
        self.excluded: dict[str, str] = {}
        self.empty: set[str] = set()
        self.refused: dict[int, str] = {}
        self._kind: Kind | None = None  # of the model, once the clients are settled
        self._known: dict[int, Member] = {}
        self._rivals: dict[int, Member] = {}  # nodes with the key of one that is known
        self._met: dict[str, Member] = {}  # all that have taken part and are not left out
        self._owners: dict[str, object] = {}  # by key: who used it first, see `Limits`
        self._nodes: set[int] = set()
        self._tries = Counter[int]()  # how often a node has failed to say who it is
        self._banned: set[int] = set()  # nodes of the excluded, which may come with another key
        self._post = Post(grid)
        self._told: set[tuple[int, str]] = set()
        self._roster: Roster | None = None

    # -- who is there --------------------------------------------------------------------------

    def look(self, timeout: float | None = None, *, again: bool = False) -> Roster:
        """The clients now; who came since the last look, or `again` all unknown ones, are asked."""
        nodes = set(self.grid.get_node_ids())
        ask = again or self._roster is None or nodes != self._nodes
        self._nodes = nodes
        news = False
        if ask or self._post.waiting:
            seconds = self.introduction if timeout is None else timeout
            news = self._meet(seconds if ask else 0.0, ask=ask)
        if news or self._roster is None:
            self._roster = Roster.of(self._known.values(), self.domains)
            if self._kind is not None:
                self._met |= {member.key: member for member in self._roster.members}
        return self._roster

    def wait(
        self,
        enough: Callable[[Roster], bool],
        seconds: float,
        *,
        timeout: float | None = None,
        again: bool = False,
        poll: float = 0.1,
    ) -> Roster:
        """The clients as soon as they are enough, else those there after so many seconds."""
        end = time.monotonic() + seconds
        timeout = self.introduction if timeout is None else timeout
        while True:
            roster = self.look(timeout, again=again)
            rest = end - time.monotonic()
            if enough(roster) or rest <= 0:
                return roster
            time.sleep(min(poll, rest))
            poll = min(1.2 * poll, 1.0)
            timeout = max(0.1, min(timeout, end - time.monotonic()))

    def gather(self, min_clients: int, seconds: float, max_failures: int = 3) -> Roster:
        """The first clients, so many and one of every domain, or MissingClientsError."""
        # Who fails so often is given up; no wait helps where too few others are there.

        def enough(roster: Roster) -> bool:
            came = len(roster.members) + len(self.empty)
            return came >= min_clients and bool(roster.members) and not roster.empty_domains

        def over(roster: Roster) -> bool:
            tired = [i for i in self._nodes if self._tries[i] >= max_failures]
            hopeless = len(self._nodes) >= min_clients > len(self._nodes) - len(tired)
            return enough(roster) or hopeless

        began = time.monotonic()
        while True:
            rest = began + seconds - time.monotonic()
            roster = self.wait(over, max(0.0, rest), again=True)
            if not enough(roster):
                empty = roster.empty_domains
                nobody = f", nobody has rows of {empty}" if empty else ""
                waited = time.monotonic() - began
                why = [f"client {key!r}: {why}" for key, why in self.excluded.items()]
                why = sorted({*why, *self.refused.values()})
                raise MissingClientsError(
                    f"{len(roster.members)} of {min_clients} clients came within "
                    f"{waited:.1f} s{nobody}; left out: {'; '.join(why) or 'nobody'}"
                )
            settled = self.settle(roster)
            if enough(settled):
                return settled

    def settle(self, roster: Roster) -> Roster:
        """From now on these are the domains and this is the model; who has another is left out."""
        # Without a model that most clients have, somebody lies or is set up wrongly: nobody can say
        # who.
        kinds = Counter(map(_kind_of, roster.members))
        if not kinds:
            return roster
        (kind, n), *_ = kinds.most_common()
        if 2 * n <= len(roster.members):
            fix = "give all clients the same model, loss, columns and classes"
            if any("frozen" in kind for kind, *_ in kinds):
                fix += "; frozen parameters must be the same numbers: load them, or set a seed"
            raise InputError("the clients", f"have different models, {dict(kinds)}", fix)
        few = Counter(name for member in roster.members for name in member.domains)
        least = 1 if self.domains is not None else self.limits.clients_per_domain
        for member in roster.members:
            alone = [name for name in member.domains if few[name] < least]
            if alone:
                self.exclude(member.key, f"fewer than {least} clients have {alone}")
        if self._roster is None:  # somebody was left out, who may be missing for another domain
            return self.settle(self.look(again=True))
        self.domains, self._kind = roster.domains, kind
        self._met = {member.key: member for member in roster.members}
        return roster

    def absent(self, roster: Roster) -> list[Member]:
        """Who has taken part before, is not left out, and is not there now."""
        here = set(roster.keys)
        return [member for key, member in self._met.items() if key not in here]

    def forget(self, keys: Iterable[str]) -> None:
        """Ask these clients anew at the next look: they may have come back on another node."""
        gone = set(keys)
        self._known = {i: m for i, m in self._known.items() if m.key not in gone}
        self._roster = None

    def _meet(self, timeout: float, *, ask: bool) -> bool:
        """Ask the nodes not known yet, and keep those that can take part; whether that is news."""
        here, before = self._nodes - self._banned, self._known
        found = {i: m for i, m in (before | self._rivals).items() if i in here}
        unheard = here - set(found)
        if ask:
            self.refused = {}
            self._post.waiting = {m: i for m, i in self._post.waiting.items() if i in unheard}
            content = pack({}, self.settings)
            self._post.send(Message(content, i, WHO) for i in sorted(unheard))

        def hear(node_id: int, reply: Message) -> None:
            unheard.discard(node_id)
            if node_id in found or node_id not in here or is_unavailable(reply):
                return
            try:
                found[node_id] = Member.of(reply, node_id)
            except MessageError as error:
                self._tries[node_id] += 1
                self._refuse(node_id, str(error))

        self._post.listen(timeout, hear, lambda: not unheard)
        self._known = self._consistent(found)
        for member in list(self._known.values()):
            why = self._objection(member)
            if why is not None:
                self.refused[member.node_id] = f"client {member.key!r}: {why}"
                self.exclude(member.key, why)
        return self._known.keys() != before.keys() or any(
            member is not before[i] for i, member in self._known.items()
        )

    def _consistent(self, found: dict[int, Member]) -> dict[int, Member]:
        """Without those that have another model than most, or the key of another node."""
        # The rows of a key that is there twice would count twice; the node known first stays.
        usual, kept = self._usual_kind(found.values()), dict[str, Member]()
        self._rivals = {}
        who = self._identities() if self.limits.authenticated else {}
        for node_id, member in found.items():
            key, identity = member.key, who.get(node_id, node_id)
            if usual is not None and member.domains and _kind_of(member) != usual:
                self._refuse(node_id, f"client {key!r} has {member.kind}, most have {usual}")
            elif key in kept:
                self._refuse(node_id, f"client {key!r} is there twice")
                self._rivals[node_id] = member
            elif who and self._owners.setdefault(key, identity) != identity:
                self._refuse(node_id, f"client {key!r} has another public key than before")
                self._rivals[node_id] = member
            else:
                kept[key] = member
        return {member.node_id: member for member in kept.values()}

    def _usual_kind(self, members: Iterable[Member]) -> Kind | None:
        """The kind of model of most clients; None where there is none."""
        if self._kind is not None:
            return self._kind
        kinds = Counter(_kind_of(member) for member in members if member.domains)
        return next((kind for kind, n in kinds.items() if 2 * n > kinds.total()), None)

    def _identities(self) -> dict[int, object]:
        """The public key of every node, or its node id where it has none."""
        return {node.node_id: node.public_key or node.node_id for node in self.grid.get_nodes()}

    def _objection(self, member: Member) -> str | None:
        """Why a client cannot take part, None if it can."""
        names, most = member.domains, self.limits.domains
        if member.key in self.excluded:
            return self.excluded[member.key]
        if not names:
            self.empty.add(member.key)
            return "it has no rows"
        if self.domains is not None and not set(names) <= set(self.domains):
            return f"it has {_few(names)}, and domains is {_few(self.domains)}"
        if self.domains is None and most is not None and len(names) > most:
            fix = "name them all with domains=, or give Limits(domains=...)"
            return f"it names {len(names)} domains, more than {most}: {fix}"
        if self.limits.rows is not None and member.counts.sum() > self.limits.rows:
            return f"it claims {member.counts.sum():g} rows"
        return None

    def _refuse(self, node_id: int, why: str) -> None:
        if (node_id, why) not in self._told:
            self._told.add((node_id, why))
            log.warning("node %d is left out: %s", node_id, why)
        self.refused[node_id] = why

    # -- who may stay --------------------------------------------------------------------------

    def note(
        self, answered: Iterable[str], failed: Mapping[str, int], max_failures: int
    ) -> list[str]:
        """Leave out who failed max_failures times in a row; their keys."""
        out = []
        for key in answered:
            self.failures.pop(key, None)
        for key, times in sorted(failed.items()):
            self.failures[key] = self.failures.get(key, 0) + times
            if self.failures[key] >= max_failures:
                self.exclude(key, f"it failed {self.failures[key]} times in a row")
                out.append(key)
        return out

    def exclude(self, key: str, why: str) -> None:
        """Leave a client out for good; another node with the same key may take its place."""
        log.warning("client %r is left out: %s", key, why)
        self._banned |= {i for i, m in self._known.items() if m.key == key}
        self._met.pop(key, None)
        self._owners.pop(key, None)
        if any(member.key == key for member in self._rivals.values()):
            self.failures.pop(key, None)
        else:
            self.excluded[key] = why
        self.forget([key])


def _kind_of(member: Member) -> Kind:
    return member.kind, member.n_parameters, member.n_scores


def _few(names: Sequence[str]) -> list[str]:
    """Names for a message: all, or the first of very many."""
    return list(names) if len(names) <= 20 else [*names[:20], f"and {len(names) - 20} more"]
