"""The candidate chosen by rows held out, fitted to all rows, with the ordinary model beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.estimators.fitting import LinearFit, fit_problem
from anymix.estimators.searching import Candidate, Found, Plan, search
from anymix.problem.dealing import Split
from anymix.problem.linear import LinearDomains
from anymix.problem.rows import Rows
from anymix.selection import rule
from anymix.solvers.certificates import Certificate
from anymix.solvers.exact import Solution
from anymix.solvers.frontier import Frontier, FrontierLosses, frontier_losses

Array = NDArray[np.float64]

__all__ = ["Choice", "choose", "fit_candidates", "fit_choice", "front_places", "frontier_of"]


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen, and what there was to choose from."""

    found: Found  # all candidates and their losses on rows held out
    index: int  # place of the one chosen
    fit: LinearFit  # one chosen, fitted to all rows
    ordinary: LinearFit  # ordinary model, fitted to all rows
    # for each t the best model, fitted to all rows, and its losses there and on rows held out
    frontier: Frontier

    @property
    def candidate(self) -> Candidate:
        """t, γ, μ and r of the model chosen."""
        return self.found.candidates[self.index]

    @property
    def robustness(self) -> float:
        """t of the model chosen."""
        return self.candidate.robustness

    @property
    def mixture(self) -> Array:
        """λ that the model chosen was fitted for, (p,)."""
        return self.fit.solution.mixture

    @property
    def certificate(self) -> Certificate:
        """The proof of the model chosen."""
        return self.fit.solution.certificate

    @property
    def is_ordinary(self) -> bool:
        """Whether the ordinary model was kept."""
        return self.index == 0

    def kept(self) -> Choice:
        """The same with the ordinary model as the choice."""
        return replace(self, index=0, fit=self.ordinary, frontier=replace(self.frontier, chosen=0))


def choose(
    rows: Rows, splits: Iterable[Split], plan: Plan, price: float, problem: Any = None
) -> Choice:
    """Search, choose, and fit the choice to all rows: `problem`, where `rows` are a sample."""
    found = search(rows, splits, plan)
    index = rule.choose(found.held_out, price)
    return fit_choice(rows, found, index, plan, problem)


def fit_choice(rows: Rows, found: Found, index: int, plan: Plan, problem: Any = None) -> Choice:
    """The candidate of that place, the ordinary model and the frontier, fitted to all rows."""
    places = front_places(found, index)
    whole = (rows.to_fit() if problem is None else problem).merged()
    fits = fit_candidates(rows, whole, found, places, plan)
    solutions, last = [fits[i].solution for i in places], fits[places[-1]]
    frontier = frontier_of(solutions, last.domain_names, last.baseline, found, places, index)
    return Choice(found, index, fits[index], fits[0], frontier)


def fit_candidates(
    rows: Rows, problem: LinearDomains, found: Found, places: Iterable[int], plan: Plan
) -> dict[int, LinearFit]:
    """The candidates of these places and the ordinary model, 0, fitted to merged rows."""
    fits = {0: _fit(problem, found, 0, plan, None)}
    anchor = plan.anchored(rows, fits[0].solution)
    for place in places:
        if place not in fits:
            fits[place] = _fit(problem, found, place, plan, anchor)
    return fits


def _fit(
    problem: LinearDomains, found: Found, place: int, plan: Plan, anchor: Array | None
) -> LinearFit:
    """One candidate fitted to a problem, from its model in the last fold."""
    shared, candidate = replace(plan.objective, anchor=anchor), found.candidates[place]
    objective = candidate.objective(shared, problem.sizes, problem.domain_names)
    start = found.solutions[place]
    same = start.w.size == problem.n_parameters  # a table's rows may have a level more
    return fit_problem(
        problem,
        objective,
        plan.baseline,
        start=start if same else None,
        tol=plan.tol,
        max_iter=plan.max_iter,
    )


def front_places(found: Found, index: int) -> list[int]:
    """For each t the place of its best candidate, but of the one chosen where it has that t."""
    places: dict[float, int] = {}
    value = found.held_out.expected
    for i, (t, *_) in enumerate(found.candidates):
        if t not in places or value[i] < value[places[t]]:
            places[t] = i
    places[found.candidates[index].robustness] = index
    return [places[t] for t in sorted(places)]


def frontier_of(
    solutions: Sequence[Solution],
    names: NDArray[Any],
    baseline: Array,
    found: Found,
    places: Sequence[int],
    index: int,
) -> Frontier:
    """The models of these places, fitted to all rows, and their losses there and on rows held out.

    `baseline` is b of the fits, and `index` the place of the model that was chosen.
    """
    held, tried = found.held_out, [found.candidates[i] for i in places]
    losses = np.array([solution.domain_losses for solution in solutions])
    judged = FrontierLosses(
        held.domain_losses[places],
        held.value[places],
        held.pooled[places],
        np.array([held.error(i, held.worst[i]) for i in places]),
        np.array([held.error(i, held.reference) for i in places]),
    )
    return Frontier(
        np.array([c.robustness for c in tried]),
        np.array([c.gamma for c in tried]),
        names,
        tuple(solutions),
        frontier_losses(losses, held.mixtures, baseline, held.reference),
        judged,
        places.index(index),
        found.loss,
    )
