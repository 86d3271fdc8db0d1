"""Rows that are seen once: stochastic steps of both players, a few rows at a time.

    w ← w − γ_w δ_w,   λ ← Π_Λ(λ + γ_λ δ_λ),   both from the old point

    δ_w = (1/n) Σ_i (λ_k/m̄_k) ∇ℓ_i + γ∇R(w),   δ_λk = (1/n) Σ_{i in k} ℓ_i/m̄_k − ∇penalty

k being the domain of row i and m̄ the shares of the domains so far, so that both are right on
average, though no step sees every domain. Step sizes shrink with the gradients seen (Adagrad for
w; for λ its norm version, R_Λ/√Σ‖δ_λ‖²), so that nothing needs to be known beforehand. The result
is the average of all w and all λ, as in Stochastic-AFL.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from anymix.errors import InputError
from anymix.estimators.fitting import Settings, between
from anymix.mixtures import Adversary
from anymix.mixtures.parsing import target_mixtures
from anymix.problem.arrays import code_type, weights
from anymix.problem.entries import encode
from anymix.problem.membership import domains_of
from anymix.problem.objective import Objective
from anymix.problem.rows import Rows
from anymix.solvers.optimizers import Adagrad
from anymix.solvers.players import Players

Array = NDArray[np.float64]

__all__ = ["Online", "partial_fit"]

ROWS = 128  # of one step


@dataclass(eq=False)
class Online:
    """Both players, between the batches.

    Parameters
    ----------
    names : ndarray of shape (p,)
        All domains.
    classes : ndarray of shape (K,) or None
        All classes; None in regression.
    players : Players
        (w, λ) and their averages.
    pace : float
        What the step sizes are multiplied by.
    sizes : ndarray of shape (p,)
        Rows of each domain so far.
    losses : ndarray of shape (p,)
        Σ ℓ of each domain so far, each row's before any step had seen it.
    squares : float
        Σ ‖δ_λ‖² so far.
    """

    names: NDArray[Any]
    classes: NDArray[Any] | None
    players: Players
    pace: float
    sizes: Array
    losses: Array
    squares: float = field(default=0.0)

    @staticmethod
    def begun(rows: Rows, settings: Settings, optimistic: bool, pace: float) -> Online:
        """Before the first batch: w = 0, λ at the centre of Λ."""
        p, size = len(rows.names), rows.n_scores * (rows.n_features + rows.intercept)
        even = np.ones(p)
        mixtures = target_mixtures(settings.mixtures, settings.max_skewness, even, rows.names)
        target = between(mixtures, settings.robustness, even)
        adversary = Adversary(target, step=1.0, optimistic=optimistic)
        rules = Adagrad(), lambda t: 1.0, lambda t: 1.0
        players = Players(np.zeros(size), adversary, *rules)
        return Online(rows.names, rows.classes, players, pace, np.zeros(p), np.zeros(p))

    def see(self, rows: Rows, settings: Settings) -> None:
        """One batch, in steps of a few rows."""
        for start in range(0, len(rows), ROWS):
            self._step(rows.take(slice(start, start + ROWS)), settings)

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused
    def _step(self, rows: Rows, settings: Settings) -> None:
        problem = rows.to_judge()
        if not np.any(problem.sizes):
            return
        w, lam = self.players.w, np.asarray(self.players.adversary.mixture)
        here = problem.at(w)
        self.sizes = self.sizes + problem.sizes
        self.losses = self.losses + problem.sizes * here.losses
        share = np.maximum(self.sizes / self.sizes.sum(), 1e-12)  # m̄
        weight = problem.sizes / problem.sizes.sum() / share  # how often k is here, over m̄_k
        objective = self._objective(problem, settings)
        delta_w = here.gradient(weight * lam) + objective.regularizer_gradient(w)
        delta_mixture = weight * (here.losses - objective.offsets)
        delta_mixture = delta_mixture - objective.penalty.gradient(lam)
        self.squares += float(delta_mixture @ delta_mixture)
        radius = self.players.adversary.mixtures.radius
        size = self.pace * radius / math.sqrt(max(self.squares, 1e-300))
        try:
            self.players.step(delta_w, delta_mixture, (self.pace, size))
        except InputError as error:
            fix = "give a smaller number"
            raise InputError("schedule", "makes steps that are too long", fix) from error

    def _objective(self, problem: Any, settings: Settings) -> Objective:
        """γR and what λ pays, for the rows of every domain so far."""
        if settings.baseline is not None and isinstance(settings.baseline, str):
            found = f"is {settings.baseline!r}, which needs all rows at once"
            raise InputError("baseline", found, "give numbers, or None")
        known = problem._like(problem.X, problem.y, problem.average, problem.loss)
        known.sizes = np.maximum(self.sizes, 1e-12)
        parts = settings.gamma, settings.mu, settings.norm, settings.baseline, settings.prior
        return Objective.of(known, self.players.adversary.mixtures, *parts, settings.anchor)

    @property
    def domain_losses(self) -> Array:
        """The mean loss of each domain's rows, before any step had seen them; 0 without rows."""
        return np.asarray(self.losses / np.maximum(self.sizes, 1.0))


def partial_fit(
    estimator: Any,
    X: Any,
    y: Any,
    domains: Any,
    sample_weight: ArrayLike | None,
    classes: ArrayLike | None,
    domain_names: ArrayLike | None,
) -> None:
    """`AgnosticClassifier.partial_fit`; the estimator keeps an `Online` between two calls."""
    known: Online | None = getattr(estimator, "_online", None)
    rows = _read(estimator, known, X, y, domains, sample_weight, classes, domain_names)
    settings = estimator._settings()
    if known is None:
        pace = estimator.schedule if isinstance(estimator.schedule, Real) else 1.0
        known = Online.begun(rows, settings, estimator.solver == "optimistic", float(pace))
        estimator._online = known
    known.see(rows, settings)
    blocks = known.players.w_average.reshape(rows.n_scores, -1)
    d, mixtures = rows.n_features, known.players.adversary.mixtures
    losses = known.domain_losses
    estimator.classes_, estimator.domain_names_ = known.classes, known.names
    estimator.coef_ = blocks[:, :d]
    estimator.intercept_ = blocks[:, d] if rows.intercept else np.zeros(rows.n_scores)
    estimator.mixture_ = np.array(known.players.adversary.average)
    estimator.domain_losses_, estimator.n_iter_ = losses, known.players.t
    estimator.agnostic_loss_ = float(mixtures.maximize(losses) @ losses)


def _read(
    estimator: Any,
    known: Online | None,
    X: Any,
    y: Any,
    domains: Any,
    sample_weight: ArrayLike | None,
    classes: ArrayLike | None,
    domain_names: ArrayLike | None,
) -> Rows:
    """The batch, with its classes and domains placed among all."""
    X, y = validate_data(
        estimator, X, y, accept_sparse="csr", dtype=np.float64, reset=known is None
    )
    n = X.shape[0]
    here, codes = encode("y", y, n)
    names, members = domains_of(domains, n)
    whole = _all("classes", here, None if known is None else known.classes, classes)
    every = _all("domain_names", names, None if known is None else known.names, domain_names)
    place = np.searchsorted(whole, here)[codes].astype(code_type(len(whole)))
    placed = members.placed(np.searchsorted(every, names), len(every))
    weight = None if sample_weight is None else weights(sample_weight, n)
    loss, intercept = estimator._loss(), estimator.fit_intercept
    return Rows(X, place, whole, placed, every, weight, loss, intercept)


def _all(
    what: str, here: NDArray[Any], known: NDArray[Any] | None, given: ArrayLike | None
) -> NDArray[Any]:
    """All labels there are: those known, those given, or those of the first batch."""
    if given is not None:
        given = encode(what, given, np.size(given))[0]
        if known is not None and not np.array_equal(given, known):
            fix = "give the same at every call, or only at the first"
            raise InputError(what, f"is not what it was, {known.tolist()}", fix)
    every: NDArray[Any] = (
        here
        if known is None and given is None
        else (known if known is not None else np.asarray(given))
    )
    new = sorted(set(here.tolist()) - set(every.tolist()))
    if new:
        fix = "give all there are at the first call"
        raise InputError(what, f"has not {new[0]!r}, which a row has", fix)
    if what == "classes" and len(every) < 2:
        fix = "give all there are at the first call"
        raise InputError(what, f"has only one class, {every.tolist()[0]!r}", fix)
    return every
