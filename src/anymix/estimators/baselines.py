"""b_k, what a domain's loss is compared with: 0, or that of the best model for it alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.mixtures import Point
from anymix.objective import Objective
from anymix.problem.entries import numbers
from anymix.problem.linear import LinearDomains
from anymix.solvers.exact import Solution, solve

Array = NDArray[np.float64]
Baseline = str | ArrayLike | None

__all__ = ["Baseline", "alone_solutions", "baseline_losses", "is_regret"]


def is_regret(baseline: Baseline) -> bool:
    """Whether the losses are to be compared with those of models for one domain alone."""
    return isinstance(baseline, str) and baseline == "regret"


def baseline_losses(
    problem: LinearDomains, baseline: Baseline, objective: Objective, **limits: Any
) -> Array:
    """b (p,): zeros, the losses of the best model for each domain alone, or as given."""
    p = problem.n_domains
    if baseline is None:
        return np.zeros(p)
    if is_regret(baseline):
        alone = alone_solutions(problem, objective, **limits)
        return np.array([alone[k].domain_losses[k] for k in range(p)])
    if isinstance(baseline, str):
        raise InputError("baseline", f"is {baseline!r}", f"give None, 'regret' or {p} numbers")
    shape = np.asarray(baseline, dtype=object).shape
    if shape not in ((p,), (p, 1)):
        found = f"has shape {shape}, and there are {p} domains"
        raise InputError("baseline", found, f"give None, 'regret' or {p} numbers")
    return numbers("baseline", baseline, p)


def alone_solutions(
    problem: LinearDomains,
    objective: Objective,
    starts: list[Solution] | None = None,
    **limits: Any,
) -> list[Solution]:
    """argmin_w L_k(w) + γ R(w) for k = 1..p, each from its own start or from its predecessor.

    Equal rows should be merged, for each of them is looked at p times.
    """
    found: list[Solution] = []
    for k, vertex in enumerate(np.eye(problem.n_domains)):
        start = starts[k] if starts else (found[-1] if found else None)
        alone = Objective(Point(vertex), objective.gamma, norm=objective.norm)
        found.append(solve(problem, alone, start=start, **limits))
    return found
