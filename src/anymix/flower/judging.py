"""Which of the models of a run is the best one: by its losses on all rows, or on those held out.

A model is sent to the clients, each of which returns the sums of its losses of every domain; the
worst mixture of their means is what the models are compared by. Here, unlike in training, answers
that are missing are done without: a model is judged by those that came.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.flower.coordinates import Coordinates
from anymix.flower.roster import Roster
from anymix.flower.rounds import Question, Round
from anymix.flower.wire import EVALUATE, MOMENTS, Settings, pack, pack_record

Array = NDArray[np.float64]

__all__ = ["Best", "judge", "look_at_columns"]

log = logging.getLogger("anymix.flower")


@dataclass
class Best:
    """The best model so far.

    Attributes
    ----------
    w : ndarray
        Its vector.
    worst : float
        Its worst loss, that of the worst mixture in Λ.
    round : int
        The round after which it was there.
    since : int
        How many models were judged since then.
    """

    w: Array = field(default_factory=lambda: np.zeros(0))
    worst: float = np.inf
    round: int = 0
    since: int = 0

    def see(self, w: Array, worst: float, number: int) -> None:
        """Keep the model if it is better than all before."""
        if worst < self.worst:
            self.w, self.worst, self.round, self.since = w.copy(), float(worst), number, 0
        else:
            self.since += 1

    def among(self, models: Mapping[str, Array], worst: Mapping[str, float]) -> tuple[Array, str]:
        """The best of this model and of others with their worst losses, and its name."""
        found = dict(worst) | ({"best": self.worst} if self.w.size else {})
        if not found:
            log.warning("no client judged a model: the result is the last one")
            return models["last"], "last"
        name = min(found, key=lambda name: found[name])
        log.info("worst-domain losses %s: the result is the %s model", found, name)
        return (self.w if name == "best" else models[name]), name


def judge(
    grid: Grid, roster: Roster, model: ArrayRecord, settings: Settings, timeout: float
) -> Array:
    """The mean loss of a model in every domain, (p,); NaN where no client has rows to judge by.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where the clients are.
    roster : Roster
        Whom to ask.
    model : ArrayRecord
        The model.
    settings : dict
        held, whether to look at the rows held out, and hold_out, which these are.
    timeout : float
        Seconds to wait for their answers.
    """
    content = pack_record(model, settings)
    questions = {
        member.key: Question(content, {"sums": (2 * len(member.domains),)})
        for member in roster.members
    }
    replies = Round(EVALUATE, questions, roster.nodes, group="evaluate")
    replies.ask(grid, timeout)
    if replies.unanswered:
        log.warning("a model is judged without %s", sorted(replies.unanswered))
    sums = np.zeros((2, len(roster.domains)))
    for member, place in zip(roster.members, roster.places, strict=True):
        if member.key in replies.answers:
            sums[:, place] += replies.answers[member.key]["sums"].reshape(2, -1)
    means = np.full(sums.shape[1], np.nan)
    np.divide(sums[0], sums[1], out=means, where=sums[1] > 0)
    return means


def look_at_columns(
    grid: Grid, roster: Roster, settings: Settings, timeout: float, most: int = 100
) -> Coordinates | None:
    """Coordinates from the columns of up to `most` clients, None where nobody answers.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where the clients are.
    roster : Roster
        Whom to ask.
    settings : dict
        hold_out, which rows not to look at.
    timeout : float
        Seconds to wait for their answers.
    most : int
        How many are asked; more would not change the units.
    """
    every = max(1, len(roster.members) // most)
    asked, D = roster.members[::every][:most], roster.members[0].n_parameters
    blocks = roster.members[0].n_scores
    question = Question(pack({}, settings), {"moments": (3, D // blocks)})
    replies = Round(MOMENTS, {member.key: question for member in asked}, roster.nodes)
    replies.ask(grid, timeout)
    keys = [member.key for member in asked if member.key in replies.answers]
    parts = [replies.answers[key]["moments"] for key in keys]
    if not parts:
        log.warning("no client told about its columns: steps are in their own units")
        return None
    return Coordinates.of(parts)
