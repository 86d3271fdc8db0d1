"""One round of training: who is asked about which rows, and what their answers come to."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import numpy as np
from flwr.app import RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.flower.aggregation import Aggregation, Contribution
from anymix.flower.members import MissingClientsError
from anymix.flower.policy import Limits, Patience
from anymix.flower.results import Record
from anymix.flower.roster import Roster
from anymix.flower.rounds import Answer, Question, Round
from anymix.flower.wire import TRAIN, with_vector

Array = NDArray[np.float64]

__all__ = ["TrainingRound"]

log = logging.getLogger("anymix.flower")


class TrainingRound:
    """One round of training while its answers come in.

    Parameters
    ----------
    number : int
        The number of the round; the first is 1.
    roster : Roster
        The clients that are there.
    a, b : ndarray of shape (clients, p)
        The weights of their rows, see `sampling`; nobody is asked where both are 0.
    content : RecordDict
        The model and the settings that all messages share.
    n_parameters : int
        D, the length of w.
    started : float
        When the round began, by `time.monotonic()`.

    Attributes
    ----------
    A, B : ndarray of shape (clients, p)
        The masses asked for: rows times weights.
    replies : Round
        The messages and what came of them.
    someone_left : bool
        Whether a client that was asked is no longer on the grid.
    clipped : set of str
        Whose contribution was cut to the limits.
    """

    def __init__(
        self,
        number: int,
        roster: Roster,
        a: Array,
        b: Array,
        content: RecordDict,
        n_parameters: int,
        started: float,
    ) -> None:
        self.number, self.roster, self.started = number, roster, started
        self.someone_left = False
        self.clipped: set[str] = set()
        self.A, self.B = a * roster.counts, b * roster.counts
        self._asked = (self.A > 0) | (self.B > 0)  # (clients, p)
        rows: list[int] = np.flatnonzero(self._asked.any(axis=1)).tolist()
        self._rows = {roster.members[i].key: i for i in rows}
        questions = self._questions(np.stack([a, b], axis=1), content, n_parameters)
        self.replies = Round(TRAIN, questions, roster.nodes, group=str(number))

    def _questions(self, weights: Array, content: RecordDict, D: int) -> dict[str, Question]:
        """By client; most get the very same message when all are asked."""
        contents: dict[bytes, RecordDict] = {}
        questions = {}
        for key, i in self._rows.items():
            place = self.roster.places[i]
            own = weights[i][:, place]  # (2, its domains)
            same = own.tobytes()
            if same not in contents:
                contents[same] = with_vector(content, "weights", own)
            shapes = {"update": (D,), "sums": (2 * len(place),)}
            counts = (self._asked[i] * self.roster.counts[i])[place]
            questions[key] = Question(contents[same], shapes, _same_counts(counts))
        return questions

    @property
    def here(self) -> NDArray[np.bool_]:
        """Who has answered, (clients,)."""
        return np.array([key in self.replies.answers for key in self.roster.keys], dtype=bool)

    # -- asking --------------------------------------------------------------------------------

    def ask(self, grid: Grid, timeout: float, patience: Patience, aggregation: Aggregation) -> None:
        """Ask the clients; with "wait", those that fail or are silent again until the deadline."""

        def again(replies: Round) -> list[str]:
            late = [key for key in replies.unanswered if key not in replies.rejected]
            over = time.monotonic() - self.started >= patience.deadline
            if patience.on_missing != "wait" or not late or over:
                return []
            if aggregation.enough(self.A, self.B, self.here):
                return []
            if {replies.nodes[key] for key in late} - set(grid.get_node_ids()):
                self.someone_left = True  # who is gone cannot answer any more
                return []
            time.sleep(0.05)
            return late

        self.replies.ask(grid, timeout, again)

    def go_on_without(self, patience: Patience) -> None:
        """Whether a round without enough answers is skipped, or the end: MissingClientsError."""
        replies = self.replies
        others_can_go_on = bool(replies.rejected) or self.someone_left  # in the next round
        if patience.on_missing == "skip" or (patience.on_missing == "wait" and others_can_go_on):
            return
        raise MissingClientsError(
            f"round {self.number} lacks answers: none from {sorted(replies.missing)}, errors from "
            f"{sorted(replies.failed)}, nonsense from {sorted(replies.rejected)}; nobody has rows "
            f"of {self.roster.empty_domains}"
        )

    def check_not_blown_up(self, w: Array) -> None:
        """When all send nonsense, it is the model's fault and not the clients'."""
        replies = self.replies
        if len(replies.rejected) > 1 and not replies.answers:
            raise InputError(
                "step_w",
                f"may be too long: in round {self.number} all replies are nonsense "
                f"({replies.rejected}) for a w of length {np.linalg.norm(w):g}",
                "make step_w shorter, or give limits=Limits(update=...)",
            )

    # -- what came of it -----------------------------------------------------------------------

    def contributions(self, limits: Limits, local_steps: int) -> dict[int, Contribution]:
        """What each client that answered adds, within the limits, by its row in A and B."""
        given = {}
        for key, answer in self.replies.answers.items():
            i = self._rows[key]
            whole = self._contribution(i, answer)
            given[i] = limits.cut(whole, self.A[i], self.B[i], local_steps)
            if given[i] is not whole:
                self.clipped.add(key)
                log.info("client %r is clipped in round %d", key, self.number)
        return given

    def _contribution(self, i: int, answer: Answer) -> Contribution:
        place, losses = self.roster.places[i], np.zeros(len(self.roster.domains))
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
            "seconds": time.monotonic() - self.started,
            "bytes_sent": replies.sent,
            "bytes_received": replies.received,
        }


def _same_counts(counts: Array) -> Callable[[Answer], str | None]:
    """The client must count the rows that it described itself with."""

    def check(answer: Answer) -> str | None:
        found = answer["sums"][len(counts) :]
        if np.array_equal(found, counts):
            return None
        return f"its counts are {found}, and it should have {counts} rows to answer for"

    return check
