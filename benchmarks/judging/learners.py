"""What is fitted to a split, and the losses of all predictors that come of one fit.

`anymix` fits the flagship once. Its candidates, the recommended one, the model that is told the
domain, and models adapted to unlabelled rows all come of that fit. A rival is one predictor.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anymix as ax
from judging import simulated
from judging.figures import paired_error
from judging.methods import RIVALS, log_loss, squared_error
from judging.results import Result, Task, state_of_code
from judging.tables import Split, load, split

Array = NDArray[np.float64]
Losses = dict[str, NDArray[Any]]
Facts = dict[str, NDArray[Any]]

KNOWN, ALWAYS, GUARDED = "domain known", "50 rows, always", "50 rows, guarded"
FEW_ROWS, MANY_ROWS = 50, 100  # unlabelled: of one domain, of a random mixture
MIXTURES = 20

__all__ = ["ALWAYS", "GUARDED", "KNOWN", "LEARNERS", "learn"]


def learn(task: Task) -> Result:
    """Fit a learner to a split; the losses of the test rows."""
    table, seed, learner = task
    is_simulated = table in simulated.LAWS
    rows = simulated.split(table, seed) if is_simulated else split(load(table), seed)
    names, sizes = np.unique(rows.domains, return_counts=True)
    losses, facts = LEARNERS[learner](rows, seed)
    return Result(
        rows.kind,
        names,
        sizes / sizes.sum(),
        np.searchsorted(names, rows.domains_test),
        {name: np.asarray(each, dtype=np.float32) for name, each in losses.items()},
        facts,
        state_of_code(),
    )


def rival(method: str, rows: Split, seed: int) -> tuple[Losses, Facts]:
    """One predictor."""
    fit = RIVALS[method](rows.kind)
    start = time.process_time()
    with warnings.catch_warnings(action="ignore"):
        found = fit(rows.X, rows.y, rows.domains, rows.X_test, rows.domains_test)
    seconds = time.process_time() - start
    return {method: _losses(rows, found)}, {"seconds": np.array(seconds)}


def candidates(rows: Split, seed: int) -> tuple[Losses, Facts]:
    """The flagship and its candidates, without and with the domain."""
    return _candidates(rows)[1:]


def anymix(rows: Split, seed: int) -> tuple[Losses, Facts]:
    """The same with unlabelled rows: of one domain, and of random mixtures of the domains."""
    model, losses, facts = _candidates(rows)
    adapting = _Adapting(model, rows, losses[str(facts["chosen"])])
    rng = np.random.default_rng(seed)
    losses[ALWAYS], losses[GUARDED] = adapting.each_domain(rng)
    facts |= adapting.random_mixtures(losses[str(facts["reference"])], rng)
    return losses, facts | {"accepted": np.array(adapting.accepted[MANY_ROWS])}


def _candidates(rows: Split) -> tuple[Any, Losses, Facts]:
    make = ax.AnyMixClassifier if rows.kind == "classification" else ax.AnyMixRegressor
    start = time.process_time()
    with warnings.catch_warnings(action="ignore"):
        model = make().fit(rows.X, rows.y, domains=rows.domains)
    seconds = time.process_time() - start
    told = rows.domains_test
    losses = {
        name: _losses(rows, found)
        for name, found in model.candidate_predictions(rows.X_test, domains=told).items()
    }
    answer = model.predict_proba if rows.kind == "classification" else model.predict
    losses[KNOWN] = _losses(rows, answer(rows.X_test, domains=told))
    losses["constant"] = _losses(rows, np.full(len(rows.y_test), rows.y.mean()))
    found = model.recommendation_
    promised = np.array([found.losses[found.place(n)] for n in ("reference", "recommended")])
    facts: Facts = {
        "reference": np.array(found.reference),
        "chosen": np.array(found.chosen),
        "simpler": np.array(_better_of_two(model)),
        "promised": promised,
        "seconds": np.array(seconds),
        "parts": np.array(list(found.seconds)),
        "seconds of parts": np.array(list(found.seconds.values()), dtype=float),
    }
    return model, losses, facts


def _better_of_two(model: Any) -> str:
    """Linear or trees, whichever has the lower V out of fold: an honest choice of one of them."""
    data, _, mixtures, *_ = model._learnt
    V = data.held_out(data.plain, mixtures).expected
    return str(data.families[int(V.argmin())])


class _Adapting:
    """A fitted flagship and what it predicts for test rows of which some come without labels."""

    def __init__(self, model: Any, rows: Split, chosen: NDArray[Any]):
        self.model, self.rows, self.chosen = model, rows, chosen
        self.Q, self.H = model.expert_predictions(rows.X_test)
        self.names, self.k = np.unique(rows.domains_test, return_inverse=True)
        self.accepted: dict[int, bool] = {}  # by the number of unlabelled rows, all it depends on

    def each_domain(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Losses of f_λ̂, λ̂ from 50 test rows of the domain itself: always, and guarded."""
        always, guarded = np.empty(len(self.k)), np.empty(len(self.k))
        for j in range(len(self.names)):
            place = np.flatnonzero(self.k == j)
            drawn = rng.choice(place, min(FEW_ROWS, len(place)), replace=False)
            always[place], accepted = self._losses(drawn, place)
            guarded[place] = always[place] if accepted else self.chosen[place]
        return always, guarded

    def random_mixtures(self, reference: NDArray[Any], rng: np.random.Generator) -> Facts:
        """Of 20 mixtures, the same in every split: guarded, from 100 rows drawn from each."""
        p = len(self.names)
        mixtures = np.random.default_rng(0).dirichlet(np.full(p, 0.5), MIXTURES)
        found, errors = np.empty(MIXTURES), np.empty(MIXTURES)
        places = [np.flatnonzero(self.k == j) for j in range(p)]
        for i, lam in enumerate(mixtures):
            counts = rng.multinomial(MANY_ROWS, lam)
            drawn = [
                rng.choice(at, count, replace=count > len(at))
                for at, count in zip(places, counts, strict=True)
            ]
            losses, accepted = self._losses(np.concatenate(drawn), np.arange(len(self.k)))
            losses = losses if accepted else self.chosen.astype(float)
            apart = losses - reference
            means = [losses[at].mean() for at in places]
            spread = [paired_error(apart[at]) for at in places]
            found[i], errors[i] = lam @ means, np.linalg.norm(lam * spread)
        return {"mixtures": mixtures, "mixture losses": found, "mixture errors": errors}

    def _losses(self, drawn: NDArray[np.intp], place: NDArray[np.intp]) -> tuple[Array, bool]:
        """Losses of f_λ̂ at a place, λ̂ from the rows drawn; whether the guard accepts it."""
        X_new = self.rows.X_test[drawn]
        mixture = self.model.estimate_mixture(X_new).mixture
        found = self.model.mix(self.Q[place], self.H[:, place], mixture)
        if len(drawn) not in self.accepted:
            adapted = self.model.adapted(X_new).mixture_
            self.accepted[len(drawn)] = np.array_equal(adapted, mixture)
        return _losses(self.rows, found, place), self.accepted[len(drawn)]


def _losses(rows: Split, found: Array, place: NDArray[np.intp] | slice = slice(None)) -> Array:
    """Of predictions: probabilities of y = 1 or of both classes, or values."""
    found = found[:, 1] if found.ndim == 2 else found
    loss = log_loss if rows.kind == "classification" else squared_error
    return loss(rows.y_test[place], found)


LEARNERS: dict[str, Callable[[Split, int], tuple[Losses, Facts]]] = {
    "anymix": anymix,
    "candidates": candidates,
    **{name: partial(rival, name) for name in RIVALS},
}
