"""The ordinary model: min_w Σ_k m̄_k L_k(w) + γ₀ R(w), with its own γ₀ by cross-validation.

It is what people train without a thought of domains, so it is the first candidate of every choice,
the anchor of the others, and what they are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError, finite_vector
from anymix.objective import Objective
from anymix.problem.dealing import Split, deal, sorted_rows
from anymix.problem.linear import LinearDomains
from anymix.problem.oracle import Oracle
from anymix.problem.rows import Part, Rows
from anymix.solvers.exact import Solution, solve
from anymix.solvers.paths import Path
from anymix.solvers.sqp import Waypoint

Array = NDArray[np.float64]

Anchor = str | ArrayLike | None
"""Where a regulariser pulls: "ordinary", a model given, or None for 0."""

__all__ = [
    "GAMMAS",
    "ROUGH",
    "Anchor",
    "Ordinary",
    "Problems",
    "anchor_of",
    "choose_ordinary",
    "given_anchor",
    "least_between",
    "ordinary_model",
    "ordinary_objective",
    "rough_ordinary",
]

GAMMAS = tuple(np.logspace(0, -5, 11).tolist())
"""The γ that are tried for the ordinary model where none is given."""
MOST_KEPT = 2e7  # entries of X in all problems that are kept
ROUGH = 1e-4
"""A gap that changes no choice between models."""


@dataclass(frozen=True, eq=False)
class Ordinary:
    """γ₀, and the ordinary models of the folds that chose it."""

    gamma: float  # γ₀ of least Σ_k m̄_k L_k on the rows held out
    solutions: list[Waypoint]  # model of each fold, at γ₀


class Problems:
    """The training problems of folds, each made once; kept only while they take little memory."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._kept: dict[int, LinearDomains] = {}
        self._room = MOST_KEPT

    def __call__(self, number: int, part: Part) -> LinearDomains:
        """The problem of the part that fold `number` fits, equal rows merged."""
        if number in self._kept:
            return self._kept[number]
        made = self.rows.to_fit(part, f"the training part of fold {number}").merged()
        self._room -= made.X.shape[0] * made.X.shape[1]
        if self._room >= 0:
            self._kept[number] = made
        return made


def choose_ordinary(
    rows: Rows,
    splits: Sequence[Split],
    gammas: Sequence[float] | None,
    objective: Objective,
    problems: Problems | None = None,
    **limits: Any,
) -> Ordinary:
    """The γ₀ whose models have the least mean loss on rows that they have not seen.

    Of a single γ nothing needs to be known. None tries GAMMAS, and takes what is `least_between`
    them. Of the objective only the norm counts; limits are tol and max_iter.
    """
    path = sorted(GAMMAS if gammas is None else gammas, reverse=True)
    if len(path) == 1:
        return Ordinary(path[0], [])
    make = Problems(rows) if problems is None else problems
    total, folds = np.zeros(len(path)), list[list[Waypoint]]()
    for part, held_out in splits:
        start = folds[0][0] if folds else None  # of other rows of the same table
        folds.append(rough_ordinary(make(1 + len(folds), part), path, objective, start, **limits))
        total += _pooled_losses(rows, [s.w for s in folds[-1]], held_out)
    best = int(np.argmin(total))
    gamma = path[best] if gammas is not None else least_between(path, total)
    if gamma == path[best]:
        return Ordinary(gamma, [fold[best] for fold in folds])
    return Ordinary(
        gamma,
        [
            rough_ordinary(make(number, part), [gamma], objective, fold[best], **limits)[0]
            for number, ((part, _), fold) in enumerate(zip(splits, folds, strict=True), start=1)
        ],
    )


def least_between(gammas: ArrayLike, losses: Array) -> float:
    """Where the parabola in log γ through the three best losses is least, to three digits.

    With slopes s₁ to the left and s₂ to the right of the best point it lies between the middles of
    these two stretches. The best γ itself is taken at an end, or where all three are alike.
    """
    tried, best = np.asarray(gammas, dtype=np.float64), int(np.argmin(losses))
    if not 0 < best < len(tried) - 1:
        return float(tried[best])
    x, y = np.log(tried[best - 1 : best + 2]), losses[best - 1 : best + 2]
    slopes = np.diff(y) / np.diff(x)
    bend = (slopes[1] - slopes[0]) / (x[2] - x[0])
    if not bend > 0:
        return float(tried[best])
    return float(f"{np.exp((x[0] + x[1]) / 2 - slopes[0] / (2 * bend)):.3g}")


def _pooled_losses(rows: Rows, models: Sequence[Array], part: Part) -> Array:
    """Σ_k m_k L_k of each model on a part, (C,): a row counts in each of its domains."""
    taken = rows.domains.take(part)
    weight = None if rows.weight is None else rows.weight[part]
    sizes, average = taken.shares(len(rows.names), weight)
    return np.asarray(rows.row_losses(models, part) @ (average.T @ sizes))


def ordinary_objective(objective: Objective, gamma: float) -> Objective:
    """Σ_k m̄_k L_k(w) + γ R(w), with R as in another objective."""
    return Objective("data", gamma, norm=objective.norm)


def rough_ordinary(
    problem: Oracle,
    gammas: Sequence[float],
    objective: Objective,
    start: Waypoint | None = None,
    **limits: Any,
) -> list[Waypoint]:
    """The ordinary models for γ falling, each from the one before; without proofs."""
    path, found = Path(problem, **limits), list[Waypoint]()
    for gamma in gammas:
        at_gamma = ordinary_objective(objective, gamma)
        found.append(path.model(at_gamma, start=found[-1] if found else start))
    return found


def ordinary_model(
    rows: Rows,
    objective: Objective,
    gammas: Sequence[float] | None = None,
    folds: int = 5,
    **limits: Any,
) -> tuple[float, Solution]:
    """γ₀ by cross-validation, as `choose_ordinary` finds it, and the ordinary model."""
    rough = {**limits, "tol": max(ROUGH, limits.get("tol", 0.0))}
    splits = list(deal(sorted_rows(rows), folds))
    best = choose_ordinary(rows, splits, gammas, objective, **rough)
    start = best.solutions[-1] if best.solutions else None
    made = ordinary_objective(objective, best.gamma)
    return best.gamma, solve(rows.to_fit().merged(), made, start=start, **limits)


def anchor_of(rows: Rows, anchor: Anchor, objective: Objective, **limits: Any) -> Array | None:
    """a as a flat vector w: the ordinary model, one given, or None for 0."""
    if isinstance(anchor, str) and anchor == "ordinary":
        return ordinary_model(rows, objective, **limits)[1].w
    return given_anchor(rows, anchor)


def given_anchor(rows: Any, anchor: Anchor) -> Array | None:
    """a as a flat vector w, from coefficients (d,) or (K, d), or from such a vector itself."""
    if anchor is None:
        return None
    d, K = rows.n_features, rows.n_scores
    fix = f"give 'ordinary', None, or an array of shape {(d,) if K == 1 else (K, d)}"
    if isinstance(anchor, str):
        raise InputError("anchor", f"is {anchor!r}", fix)
    try:
        a = np.asarray(anchor)
    except ValueError:  # lists of unequal lengths
        raise InputError("anchor", "is no array", fix) from None
    size = K * (d + rows.intercept)
    if a.shape == (size,):
        return finite_vector("anchor", a, size)
    if a.shape != (K, d) and not (K == 1 and a.shape == (d,)):
        raise InputError("anchor", f"has shape {a.shape}", fix)
    coef = finite_vector("anchor", a.ravel(), K * d).reshape(K, d)
    return np.column_stack([coef, np.zeros((K, int(rows.intercept)))]).ravel()
