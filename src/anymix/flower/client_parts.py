"""The clients of a grid as the parts of one problem: asking all parts is a round of messages."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from functools import partial

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.errors import InputError, finite_number
from anymix.flower.aggregation import Limits, count
from anymix.flower.client_errors import RefusedError
from anymix.flower.consistency import Statements
from anymix.flower.coordinates import MOST_PRODUCTS, gram_of, n_moments, wrong_moments
from anymix.flower.exchange import Answer, Question, Round
from anymix.flower.members import Members
from anymix.flower.results import Record
from anymix.flower.roster import Roster
from anymix.flower.wire import MOMENTS, SOLVE, pack
from anymix.problem import part_sums
from anymix.problem.gradients import GradientParts
from anymix.problem.parts import Parts

Array = NDArray[np.float64]

__all__ = ["Clients"]

log = logging.getLogger("anymix.flower")


class Clients:
    """The clients of a grid as the parts of one problem; they stay the same to the end."""

    def __init__(
        self,
        grid: Grid,
        n_clients: int | None = None,
        domains: Sequence[str] | None = None,
        timeout: float = 200.0,
        attempts: int = 3,
        limits: Limits | None = None,
    ) -> None:
        self.grid = grid
        self.timeout = finite_number("timeout", timeout, "give seconds > 0", lambda s: s > 0)
        self.attempts = count("attempts", attempts)
        self.rounds: list[Record] = []
        self._members = Members(grid, domains, limits, self.timeout)
        self.roster = self._everybody(None if n_clients is None else count("n_clients", n_clients))
        self.said = Statements()
        self._nodes = self.roster.nodes  # which may change, when a client comes back elsewhere

    def _everybody(self, n_clients: int | None) -> Roster:
        """The clients, as soon as there are enough: n_clients, or else all nodes there are."""
        members, failures, refused = self._members, 0, dict[int, str]()

        def wanted() -> int:
            n = len(list(self.grid.get_node_ids())) if n_clients is None else n_clients
            return max(1, n - len(members.empty))

        def enough(roster: Roster) -> bool:
            nonlocal failures
            failures += bool(members.refused)
            refused.update(members.refused)
            if len(roster.members) >= wanted():
                return True
            if set(members.excluded) - members.empty or failures >= self.attempts:
                found = f"cannot take part: {_by_node(members.refused)}"
                raise InputError("a client", found, "mend it or leave it out")
            return False

        roster = members.wait(enough, self.timeout, again=True)
        if len(roster.members) < wanted():
            raise TimeoutError(
                f"{len(roster.members)} of {wanted()} clients answered within {self.timeout} s; "
                "start the others, or raise timeout"
                + (f"; failures: {_by_node(refused)}" if refused else "")
            )
        return members.settle(roster)

    def problem(self, center: Array) -> Parts:
        """The oracle for `solve` and `certify`; `center` is the mixture that is asked for first."""
        D = self.roster.members[0].n_parameters
        return Parts(self.ask, self.roster.places, self.roster.sizes, D, center)

    def problem_of_gradients(self, center: Array) -> GradientParts:
        """The same where clients refuse second derivatives."""
        D = self.roster.members[0].n_parameters
        parts = GradientParts(self.ask, self.roster.places, self.roster.sizes, D, center)
        parts.gram = self._gram(D // parts.n_scores)
        return parts

    def _gram(self, columns: int) -> Array | None:
        """(1/n) Σ x_i x_iᵀ over all rows, its diagonal, or None, as the clients' limits allow."""
        for products in (True, False) if columns <= MOST_PRODUCTS else (False,):
            shapes = {"moments": (n_moments(columns, products),)}
            question = Question(
                pack({}, {"products": products}),
                shapes,
                lambda answer: wrong_moments(answer["moments"], columns),
            )
            try:
                answers = self.round(MOMENTS, dict.fromkeys(self.roster.keys, question))
            except RefusedError:
                continue
            total = np.sum([answers[key]["moments"] for key in self.roster.keys], axis=0)
            return gram_of(total, columns)
        return None

    def ask(self, questions: Sequence[part_sums.Question]) -> list[Answer]:
        """One round: the answers of all clients, in the order of the roster."""
        asked = {
            m.key: Question(pack(*q.to_arrays()), q.shapes, partial(self.doubt, m.key, m.counts, q))
            for m, q in zip(self.roster.members, questions, strict=True)
        }
        answers = self.round(SOLVE, asked)
        return [answers[key] for key in self.roster.keys]

    def doubt(
        self, who: Hashable, sizes: Array, question: part_sums.Question, answer: Answer
    ) -> str | None:
        """What is wrong with the sums over rows of a client, so many, besides their form."""
        if np.any(answer.get("losses", np.zeros(1)) < 0):
            return "its losses are negative"
        return self.said.contradiction(who, sizes, question, answer)

    def round(self, kind: str, asked: Mapping[str, Question]) -> dict[str, Answer]:
        """The answers to these questions, by the key of the client; all of them, or an error."""
        replies = Round(kind, asked, self._nodes, group=str(len(self.rounds) + 1))
        attempts = iter(range(1, self.attempts))

        def again(replies: Round) -> list[str]:
            if next(attempts, None) is None:
                return []
            self._find_again(replies.unanswered)
            replies.nodes |= {key: self._nodes[key] for key in asked}
            return replies.unanswered

        replies.ask(self.grid, self.timeout, again)
        if replies.refused:
            raise RefusedError(replies.refused)
        if replies.unanswered:
            raise self._nobody_answers(replies)
        names = ("asked", "sent", "received", "seconds")
        self.rounds.append({name: getattr(replies, name) for name in names})
        log.info(
            "round %d: %d answers, %d bytes, %.1f s",
            len(self.rounds),
            len(replies.answers),
            replies.received,
            replies.seconds,
        )
        return replies.answers

    def _find_again(self, keys: Sequence[str]) -> None:
        """Clients that came back on another node, with the same rows as before."""
        self._members.forget(keys)
        before = {member.key: member for member in self.roster.members if member.key in keys}
        seconds = min(self.timeout, 30.0)  # a dead node may still be listed, and never answers
        found = self._members.wait(
            lambda roster: set(keys) <= set(roster.keys), seconds, timeout=seconds, again=True
        )
        for member in found.members:
            old = before.get(member.key)
            if old is None:
                continue
            if member.domains != old.domains or np.any(member.counts != old.counts):
                raise InputError(
                    f"client {member.key!r}",
                    f"came back with other rows, {member.counts} of {member.domains} and not "
                    f"{old.counts} of {old.domains}",
                    "start again",
                )
            self._nodes[member.key] = member.node_id

    def _nobody_answers(self, replies: Round) -> Exception:
        wrong = {key: f"it failed: {why}" for key, why in replies.failed.items()}
        for key, why in sorted((wrong | replies.rejected).items()):
            fix = "mend the client and start again"
            return InputError(f"client {key!r}", f"gave no usable answer: {why}", fix)
        return TimeoutError(
            f"no answer from the clients {sorted(replies.missing)} in "
            f"{self.timeout * self.attempts} s; the sums over the others prove nothing: start them "
            "again or raise timeout, or leave them out from the start"
        )


def _by_node(refused: Mapping[int, str]) -> str:
    return "; ".join(f"node {i}: {why}" for i, why in refused.items())
