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

from anymix.flower.coordinates import MOST_PRODUCTS, Coordinates, n_moments, wrong_moments
from anymix.flower.exchange import Question, Round
from anymix.flower.roster import Roster
from anymix.flower.wire import EVALUATE, MOMENTS, Settings, pack, pack_record
from anymix.mixtures import MixtureSet, Penalty

Array = NDArray[np.float64]

__all__ = ["Best", "Comparison", "judge", "look_at_columns", "worst_of"]

log = logging.getLogger("anymix.flower")


@dataclass
class Best:
    """The best model so far, and the one to keep."""

    # Rows held out are few, and the least of many losses is a lucky one. So training goes on until
    # they surely speak against it: kept is, from the best model on, the last one that the rows
    # cannot tell from it, by one standard error of the difference, row by row.

    w: Array = field(default_factory=lambda: np.zeros(0))
    worst: float = np.inf  # its loss for the worst mixture
    round: int = 0
    since: int = 0  # models judged since then
    kept: Array = field(default_factory=lambda: np.zeros(0))
    kept_round: int = 0

    def see(self, w: Array, worst: float, number: int, *, is_as_good: bool = False) -> None:
        """Take the model if it is better than all before; keep it too if it is as good."""
        self.since += 1
        if worst < self.worst:
            self.w, self.worst, self.round, self.since = w.copy(), float(worst), number, 0
        elif not is_as_good:
            return
        self.kept, self.kept_round = w.copy(), number

    def among(self, models: Mapping[str, Array], worst: Mapping[str, float]) -> tuple[Array, str]:
        """The best of this model and of others with their worst losses, and its name."""
        found = dict(worst) | ({"best": self.worst} if self.w.size else {})
        if not found:
            log.warning("no client judged a model: the result is the last one")
            return models["last"], "last"
        name = min(found, key=lambda name: found[name])
        log.info("worst-domain losses %s: the result is the %s model", found, name)
        return (self.w if name == "best" else models[name]), name


@dataclass(frozen=True, eq=False)
class Comparison:
    """The losses (p,) of a model, and of another on the very same rows; NaN if nobody has any."""

    losses: Array
    others: Array
    variances: Array  # squared standard errors of the differences
    is_nonsense: bool = False  # all that came was beyond all bounds

    def gain(self, mixtures: MixtureSet, penalty: Penalty | None = None) -> tuple[float, float]:
        """By how much the worst mixture of this model is worse, and the standard error there."""
        lam = _worst_mixture(mixtures, self.losses, penalty)
        loss, other = (worst_of(mixtures, x, penalty) for x in (self.losses, self.others))
        return loss - other, float(np.sqrt(lam[lam > 0] ** 2 @ self.variances[lam > 0]))


def worst_of(mixtures: MixtureSet, losses: Array, penalty: Penalty | None = None) -> float:
    """max_{λ∈Λ} Σ_k λ_k L_k − penalty(λ), without the domains that nobody judged (NaN if all)."""
    # Where there are such domains, without the penalty too: a prior may forbid λ_k = 0.
    lam = _worst_mixture(mixtures, losses, penalty)
    price = 0.0 if penalty is None or np.isnan(losses).any() else penalty.value(lam)
    return float(lam[lam > 0] @ losses[lam > 0]) - price if lam.any() else float("nan")


def _worst_mixture(mixtures: MixtureSet, losses: Array, penalty: Penalty | None) -> Array:
    """The worst mixture; what it has of domains that nobody judged goes to the others."""
    unknown = np.isnan(losses)
    if unknown.all():
        return np.zeros(len(losses))
    if unknown.any():
        lam = mixtures.maximize(np.where(unknown, np.nanmin(losses) - 1, losses)) * ~unknown
        return np.asarray(lam / (lam.sum() or 1.0))
    return mixtures.maximize(losses) if penalty is None else penalty.best_response(mixtures, losses)


def judge(
    grid: Grid,
    roster: Roster,
    model: ArrayRecord,
    settings: Settings,
    timeout: float,
    beside: Array | None = None,
) -> Comparison:
    """The mean loss of a model in every domain, beside that of another one, if one is given."""
    n = 2 if beside is None else 4
    content = pack_record(model, settings if beside is None else {**settings, "beside": beside})
    questions = {
        member.key: Question(content, {"sums": (n * len(member.domains),)})
        for member in roster.members
    }
    replies = Round(EVALUATE, questions, roster.nodes, group="evaluate")
    replies.ask(grid, timeout)
    if replies.unanswered:
        log.warning("a model is judged without %s", sorted(replies.unanswered))
    sums = np.zeros((4, len(roster.domains)))
    for member, place in zip(roster.members, roster.places, strict=True):
        if member.key in replies.answers:
            sums[:n, place] += replies.answers[member.key]["sums"].reshape(n, -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        m = sums[1]
        losses, others, squares = sums[0] / m, sums[2] / m, sums[3] / m  # NaN where m is 0
        spread = np.maximum(squares - (losses - others) ** 2, 0.0)
        variances = np.where(m > 1, spread / (m - 1), np.inf)
    nonsense = bool(replies.rejected) and not replies.answers
    return Comparison(losses, others, variances, nonsense)


def look_at_columns(
    grid: Grid,
    roster: Roster,
    settings: Settings,
    timeout: float,
    gamma: float = 0.0,
    most: int = 100,
) -> Coordinates | None:
    """Coordinates from the columns of up to `most` clients, None where nobody answers."""
    every = max(1, len(roster.members) // most)
    asked, D = roster.members[::every][:most], roster.members[0].n_parameters
    columns = D // roster.members[0].n_scores
    products = columns <= MOST_PRODUCTS
    shapes = {"moments": (n_moments(columns, products),)}
    content = pack({}, {**settings, "products": products})
    question = Question(content, shapes, lambda answer: wrong_moments(answer["moments"], columns))
    replies = Round(MOMENTS, {member.key: question for member in asked}, roster.nodes)
    replies.ask(grid, timeout)
    keys = [member.key for member in asked if member.key in replies.answers]
    parts = [replies.answers[key]["moments"] for key in keys]
    if not parts:
        log.warning("no client told about its columns: steps are in their own units")
        return None
    return Coordinates.of(parts, columns, gamma)
