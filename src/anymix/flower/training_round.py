"""One round of training: which clients are asked about which rows, and what their answers sum to.

Client c holds m_kc of the m_k rows of domain k, each of which gets the weights a_ck and b_ck, with

    E Σ_c a_ck (sum of ∇ℓ over its rows of k) = λ_k ∇L_k     i.e.  E a_ck = λ_k/m_k
    E Σ_c b_ck (sum of ℓ over its rows of k)  = L_k          i.e.  E b_ck = 1/m_k

so the sums are unbiased for w and for λ. A run that diverges ends with an error, and no model.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from flwr.app import RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.flower.aggregation import Aggregation, Contribution, Limits, Patience
from anymix.flower.consistency import Tangent, Tangents
from anymix.flower.exchange import Answer, Question, Round
from anymix.flower.members import MissingClientsError
from anymix.flower.results import History, Record
from anymix.flower.roster import Holdings, Roster
from anymix.flower.wire import TRAIN, with_vector
from anymix.solvers.samplers import ModelSampler, Weighted

Array = NDArray[np.float64]
DIVERGED = 1e3  # a loss so many times that of the start is no accident of a batch
log = logging.getLogger("anymix.flower")
ABSURD = 1e100  # no mean loss of rows is as large

__all__ = ["TrainingRound", "growth", "row_weights"]


def row_weights(
    held: Holdings,
    mixture: Array,
    sampler: ModelSampler,
    clients_per_round: int | None,
    seed: Sequence[int],
) -> tuple[Array, Array]:
    """a and b of a row of every entry of the holdings; `clients_per_round` None asks all."""
    # All clients: a = λ/m, b = 1/m. Some: n // p draws of a client in every domain, by its rows.
    # Weighted: n (or p) draws of a domain by λ and a client of it, for w; for λ as many of a domain
    # uniformly, which so sees domains that it neglects.
    m, p, k = held.sizes, held.shape[1], held.domains
    weighted = isinstance(sampler, Weighted)
    if clients_per_round is None and not weighted:
        return (mixture / m)[k], (1 / m)[k]
    n, rng = clients_per_round or p, np.random.default_rng(seed)
    if weighted:
        by_mixture = rng.multinomial(n, mixture / mixture.sum())
        uniform = rng.multinomial(n, np.full(p, 1 / p))
        a, b = (_draws(drawn, held, rng) for drawn in (by_mixture, uniform))
        return a / held.m / n, b / held.m * (p / n)
    if n < p:
        fix = f"give {p} or more, one for every domain, or take sampler=Weighted()"
        raise InputError("clients_per_round", f"is {n} for {p} domains", fix)
    share = _draws(np.full(p, n // p), held, rng) / (n // p) / held.m
    return mixture[k] * share, share


def _draws(n: NDArray[np.int64], held: Holdings, rng: np.random.Generator) -> Array:
    """How often each entry is drawn: n_k draws of a client of domain k, by its rows."""
    drawn = np.zeros(len(held.m))
    for k in np.flatnonzero(n):
        who = held.by_domain[k]
        drawn[who] = rng.multinomial(n[k], held.m[who] / held.m[who].sum())
    return drawn


def growth(losses: Array, when: str, roster: Roster, history: History) -> str | None:
    """What there is to say of losses that have grown a thousandfold since the first round."""
    seen = losses[np.isfinite(losses)]
    first = next((record for record in history if not record["skipped"]), None)
    if first is None or not seen.size:
        return None
    start = np.nanmax(np.abs(first["domain_losses"]), initial=1e-6)
    if seen.max() <= DIVERGED * start:
        return None
    name = roster.domains[int(np.nanargmax(losses))]
    return f"the loss of domain {name!r} is {seen.max():.3g} {when}, and was {start:.3g} at first"


class TrainingRound:
    """One round of training while its answers come in."""

    def __init__(
        self,
        number: int,
        roster: Roster,
        a: Array,
        b: Array,
        content: RecordDict,
        n_parameters: int,
        started: float,
        vectors: int = 1,
    ) -> None:
        self.number, self.roster, self.started, self.vectors = number, roster, started, vectors
        self.left: list[str] = []
        self._enough_since = float("inf")
        self.clipped: set[str] = set()
        held = roster.holdings
        mass_a, mass_b = a * held.m, b * held.m
        asked = np.unique(held.clients[(mass_a > 0) | (mass_b > 0)])
        self.A, self.B = held.rows(asked, mass_a), held.rows(asked, mass_b)  # (asked, p)
        self._asked = (self.A > 0) | (self.B > 0)  # (asked, p)
        self._clients: list[int] = asked.tolist()
        self._rows = {roster.members[i].key: row for row, i in enumerate(self._clients)}
        ends = np.searchsorted(held.clients, asked, side="right")
        begins = np.searchsorted(held.clients, asked, side="left")
        slices = [slice(i, j) for i, j in zip(begins, ends, strict=True)]
        weights = np.stack([a, b])  # (2, entries)
        self._weights = [weights[:, here] for here in slices]  # of each asked, (2, its domains)
        questions = self._questions(content, vectors * n_parameters)
        self.replies = Round(TRAIN, questions, roster.nodes, group=str(number))

    def _questions(self, content: RecordDict, length: int) -> dict[str, Question]:
        """By client; most get the very same message when all are asked."""
        contents: dict[bytes, RecordDict] = {}
        questions = {}
        for key, row in self._rows.items():
            member, own = self.roster.members[self._clients[row]], self._weights[row]
            same = own.tobytes()
            if same not in contents:
                contents[same] = with_vector(content, "weights", own)
            place = self.roster.places[self._clients[row]]
            shapes = {"update": (length,), "sums": (2 * len(place),)}
            counts = self._asked[row][place] * member.counts
            check = _check(counts, self.B[row][place], member.linear and not member.noisy)
            questions[key] = Question(contents[same], shapes, check)
        return questions

    @property
    def has_enough(self) -> bool:
        """Whether enough have answered, so that the others are late rather than missing."""
        return self._enough_since < float("inf")

    @property
    def here(self) -> NDArray[np.bool_]:
        """Who of those asked has answered, (asked,)."""
        return np.array([key in self.replies.answers for key in self._rows], dtype=bool)

    # -- asking --------------------------------------------------------------------------------

    def ask(
        self,
        grid: Grid,
        timeout: float,
        patience: Patience,
        aggregation: Aggregation,
        failures: Mapping[str, int],
    ) -> None:
        """Ask the clients; with "wait", those that fail or are silent again until the deadline."""
        # `failures` counts how often each has failed before: who does so too often is not asked
        # again.

        def enough(replies: Round) -> bool:
            if not self.has_enough and aggregation.enough(self.A, self.B, self.here):
                self._enough_since = time.monotonic()
            return time.monotonic() >= self._enough_since + patience.grace

        def again(replies: Round) -> list[str]:
            late = [key for key in replies.unanswered if key not in replies.rejected]
            tries = {key: replies.errors[key] + failures.get(key, 0) for key in late}
            late = [key for key in late if tries[key] < patience.max_failures]
            over = time.monotonic() - self.started >= patience.deadline
            if patience.on_missing != "wait" or over or self.has_enough:
                return []
            left = {replies.nodes[key] for key in late} - set(grid.get_node_ids())
            self.left = sorted(key for key in late if replies.nodes[key] in left)
            return [] if left else late

        self.replies.ask(grid, timeout, again, enough)

    def must_begin_again(self, patience: Patience) -> bool:
        """Whether a client left in the middle of the round, which begins anew when it is back."""
        again = bool(self.left) and patience.on_missing == "wait" and not self.replies.rejected
        if again:
            log.warning("round %d: the clients %s have left", self.number, self.left)
        return again

    def go_on_without(
        self, patience: Patience, left_out: Sequence[str], excluded: Mapping[str, str]
    ) -> None:
        """Whether a round without enough answers is skipped, or the end: MissingClientsError."""
        # The others can go on without who has just been left out; so can another node with that
        # key, which is then not among the excluded.
        replies = self.replies
        others = [key for key in replies.questions if key not in excluded]
        others_can_go_on = bool(others) and bool(self.left or left_out)
        if patience.on_missing == "skip" or (patience.on_missing == "wait" and others_can_go_on):
            return
        raise MissingClientsError(
            f"round {self.number} lacks answers: none from {sorted(replies.missing)}, errors from "
            f"{sorted(replies.failed)}, nonsense from {sorted(replies.rejected)}; nobody has rows "
            f"of {self.roster.empty_domains}{_first(replies.failed)}"
        )

    def all_nonsense(self, w: Array) -> str | None:
        """When all send nonsense, it is the model's fault and not the clients'."""
        # Of a single client only after a step: before, it is the client's.
        replies = self.replies
        alone = len(self.roster.members) == 1 and bool(w.any())
        if replies.answers or len(replies.rejected) <= (0 if alone else 1):
            return None
        return (
            f"in round {self.number} all replies are nonsense ({replies.rejected}) for a w of "
            f"length {np.linalg.norm(w):g}"
        )

    # -- what came of it -----------------------------------------------------------------------

    @property
    def domains_without_answers(self) -> list[str]:
        """The domains that were asked about or have nobody, of which no answer has come."""
        asked, here = self._asked.any(axis=0), self._asked[self.here].any(axis=0)
        lost = [self.roster.domains[k] for k in np.flatnonzero(asked & ~here)]
        return sorted({*lost, *self.roster.empty_domains})

    def reject_contradictions(self, said: Tangents, w: Array, gamma: float) -> None:
        """Take answers that cannot be true beside those of the last round for nonsense."""
        for key, answer in list(self.replies.answers.items()):
            i = self._rows[key]
            member, (a, b) = self.roster.members[self._clients[i]], self._weights[i]
            if not (member.linear and np.all(b > 0)):
                continue
            losses = answer["sums"][: len(b)] / b
            mass, h = float(a @ member.counts), gamma * member.half_square(w)
            why = said.contradiction(key, Tangent(w, a, losses, mass, h, answer["update"]))
            if why is not None:
                self.replies.rejected[key] = why
                del self.replies.answers[key]

    def contributions(self, limits: Limits) -> dict[int, Contribution]:
        """What each client that answered adds, within the limits, by its row in A and B."""
        given = {}
        for key, answer in self.replies.answers.items():
            i = self._rows[key]
            whole = self._contribution(i, answer)
            given[i] = limits.cut(whole, self.A[i], self.B[i], self.vectors)
            if given[i] is not whole:
                self.clipped.add(key)
                log.info("client %r is clipped in round %d", key, self.number)
        return given

    def longest(self, given: Mapping[int, Contribution]) -> str | None:
        """Who has sent the longest update for the mass of its rows."""
        mass = self.A.sum(axis=1)
        sizes = {i: np.linalg.norm(c.update) / mass[i] for i, c in given.items() if mass[i] > 0}
        keys = list(self._rows)
        return keys[max(sizes, key=lambda i: sizes[i])] if sizes else None

    def _contribution(self, i: int, answer: Answer) -> Contribution:
        place = self.roster.places[self._clients[i]]
        losses = np.zeros(len(self.roster.domains))
        losses[place] = answer["sums"][: len(place)]
        return Contribution(answer["update"], self._asked[i] * losses)

    def record(self, mixture: Array, losses: Array, worst: float, skipped: bool) -> Record:
        """What `History` keeps of the round; losses are NaN where there are none."""
        replies = self.replies
        return {
            "round": self.number,
            "skipped": skipped,
            "domains": list(self.roster.domains),
            "mixture": mixture.tolist(),
            "domain_losses": losses.tolist(),
            "agnostic_loss": worst,
            "clients": len(self.roster.members),
            "asked": len(replies.questions),
            "missing": len(replies.missing),
            "failures": len(replies.failed),
            "rejected": len(replies.rejected),
            "clipped": len(self.clipped),
            "dropped": replies.dropped,
            "seconds": time.monotonic() - self.started,
            "bytes_sent": replies.sent,
            "bytes_received": replies.received,
        }


def _first(failed: Mapping[str, str]) -> str:
    """What the first client that failed says about it."""
    return next((f"; client {key!r}: {why}" for key, why in sorted(failed.items())), "")


def _check(counts: Array, B: Array, linear: bool) -> Callable[[Answer], str | None]:
    """The client must count the rows that it described itself with, and have believable losses."""

    def check(answer: Answer) -> str | None:
        losses, found = np.split(answer["sums"], [len(counts)])
        if not np.array_equal(found, counts):
            return f"its counts are {found}, and it should have {counts} rows to answer for"
        if linear and np.any(losses < 0):
            return f"its losses {losses} are negative"
        if np.any(np.abs(losses) > ABSURD * B):
            return f"its losses {losses} are absurd"
        return None

    return check
