"""Training that ends as an ordinary model or a robust one, whichever rows held out recommend.

    ordinary   min_w Σ_k m̄_k L_k(w)          robust   min_w max_{λ∈Λ} Σ_k λ_k L_k(w)

Both are trained without a part of every client's rows, which then says after how many rounds each
was best, and whether the robust one is really better for the worst mixture. The one taken is
trained again, for as many rounds, with all rows.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.flower.judging import Comparison, judge, worst_of
from anymix.flower.members import Members
from anymix.flower.results import AgnosticResult
from anymix.flower.roster import Roster
from anymix.flower.strategy import AgnosticStrategy
from anymix.mixtures.parsing import Mixtures
from anymix.objective import Objective, objective_of, parts_in

Array = NDArray[np.float64]

__all__ = ["FederatedTraining", "federated_train"]

log = logging.getLogger("anymix.flower")

WORTH = 0.01  # a smaller part of the ordinary model's worst loss is no gain
OWN = ("output", "judged_by")


@dataclass(frozen=True, eq=False)
class FederatedTraining:
    """The model taken, trained with all rows, and the two runs that it was taken by.

    Attributes
    ----------
    result : AgnosticResult
        Of the last training, with all rows; `result.arrays` is the model.
    ordinary, robust : AgnosticResult
        Of the trainings without the rows held out.
    is_ordinary : bool
        Whether the ordinary training was taken.
    gain : float
        By how much the robust model is better for the worst mixture on the rows held out.
    error : float
        The standard error of that, row by row.
    rounds : int
        After how many rounds the model taken was there.
    """

    result: AgnosticResult
    ordinary: AgnosticResult
    robust: AgnosticResult
    is_ordinary: bool
    gain: float
    error: float
    rounds: int


def federated_train(
    grid: Grid,
    mixtures: Objective | Mixtures = None,
    *,
    num_rounds: int = 200,
    hold_out: float = 0.2,
    evaluate_every: int = 5,
    checkpoint: str | Path | None = None,
    timeout: float = 3600.0,
    start: dict[str, Any] | None = None,
    **options: Any,
) -> FederatedTraining:
    """Train an ordinary and a robust model, and the one that rows held out recommend once more.

    Each training is followed to the last model that rows held out cannot tell from its best one.
    The robust model is taken if its worst mixture has a loss that is smaller by more than one
    standard error, row by row, and by more than 1 %. For any model that an AgnosticStrategy trains.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where the clients are.
    mixtures : Objective, MixtureSet, function, str or None
        What the robust model minimises; or Λ alone, and the rest by name.
    num_rounds : int
        Rounds of each of the two trainings; the last training takes as many or fewer.
    hold_out : float
        The part of its rows, of each domain, that a client keeps out of the two trainings.
    evaluate_every : int
        So many rounds lie between two models that are judged.
    checkpoint : path-like, optional
        The beginning of the names of three files, one for each training, which go on from there.
    timeout : float
        Seconds that a round waits for replies, each time it asks.
    start : dict, optional
        What else `AgnosticStrategy.start` is given: initial_arrays, train_config, evaluate_config.
    **options : Any
        Of AgnosticStrategy, and parts of an `Objective` by name.

    Returns
    -------
    FederatedTraining

    Examples
    --------
    >>> from anymix.flower import LocalGrid, client_app
    >>> def load(context):
    ...     rng = np.random.default_rng(context.node_config["partition-id"])
    ...     region, X = rng.choice(["city", "rural"], 200, p=[0.8, 0.2]), rng.normal(size=(200, 2))
    ...     y = np.where(region == "city", X[:, 0], X[:, 1]) + rng.logistic(size=200) / 4 > 0
    ...     return X, y, region
    >>> grid = LocalGrid(client_app(load, classes=[False, True]), nodes=3)
    >>> found = federated_train(grid, num_rounds=40)
    >>> found.is_ordinary, found.gain > found.error, found.rounds <= 40
    (False, True, True)
    """
    for name in OWN:
        if name in options:
            fix = "leave it out: federated_train itself holds out, judges and chooses"
            raise InputError(name, "is given", fix)
    if not 0 < hold_out < 1:
        raise InputError("hold_out", f"is {hold_out}", "give a number in (0, 1), such as 0.2")

    robust_one = objective_of(mixtures, parts_in(options), gamma=0.0)
    ordinary_one = replace(robust_one, mixtures="data")

    def train(name: str, chosen: Objective, rounds: int, **more: Any) -> AgnosticResult:
        path = None if checkpoint is None else f"{checkpoint}.{name}"
        strategy = AgnosticStrategy(chosen, checkpoint=path, **options, **more)
        return strategy.start(grid, num_rounds=rounds, timeout=timeout, **(start or {}))

    target = "simplex" if robust_one.mixtures is None else robust_one.mixtures
    careful = {"hold_out": hold_out, "evaluate_every": evaluate_every, "judged_by": target}
    ordinary = train("ordinary", ordinary_one, num_rounds, **careful)
    robust = train("robust", robust_one, num_rounds, **careful)
    roster, found = _compare(grid, ordinary, robust, hold_out, timeout, options)
    judged_by = roster.mixture_set(target)
    gain, error = found.gain(judged_by)
    if np.isnan(gain):
        fix = "ask again, with a longer timeout"
        raise InputError("the clients", "said nothing of the rows held out", fix)
    is_ordinary = gain <= max(error, WORTH * abs(worst_of(judged_by, found.losses)))
    log.info("gain %.3g, standard error %.3g: ordinary %s", gain, error, is_ordinary)
    taken, chosen = (ordinary, ordinary_one) if is_ordinary else (robust, robust_one)
    output = "average" if taken.output == "average" else "last"
    last = train("last", chosen, taken.round, output=output)
    return FederatedTraining(last, ordinary, robust, is_ordinary, gain, error, taken.round)


def _compare(
    grid: Grid,
    ordinary: AgnosticResult,
    robust: AgnosticResult,
    hold_out: float,
    timeout: float,
    options: dict[str, Any],
) -> tuple[Roster, Comparison]:
    """The ordinary model beside the robust one, on the rows held out of both trainings."""
    strategy = AgnosticStrategy(**options)
    patience, held = strategy.patience, {"hold_out": [float(hold_out), int(strategy.seed)]}
    members = Members(grid, ordinary.domains, strategy.limits, patience.introduction, held)
    roster = members.gather(patience.min_clients, patience.deadline)
    settings = {**held, "held": True}
    found = judge(grid, roster, ordinary.arrays, settings, timeout, robust.w_best)
    return roster, found
