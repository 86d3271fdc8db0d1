"""From ordinary to agnostic for models that only take weights: a path of mixtures, few fits each.

    λ_0 = m̄,     λ_{s+1} = the member of Λ_t nearest to λ_s · e^{η L̃(λ_s)},     Λ_t = (1−t) m̄ + t Λ

L̃(λ) are the losses, on rows held out, of the models fitted with the weights of λ. The best λ for
log loss and squared error maximises a concave function whose gradient they are (Thudi and Maddison,
arXiv 2406.01477), and the steps are entropic ascent on it. The losses of the rows fitted would not
do: trees fit every row of a small domain, so that its loss falls while that of new rows rises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.estimators.cross_fitting import CrossFit, OutOfFold
from anymix.mixtures import MixtureSet
from anymix.selection.held_out import Errors, HeldOut
from anymix.solvers.frontier import Frontier, FrontierLosses, frontier_losses

Array = NDArray[np.float64]

__all__ = [
    "Candidate",
    "Step",
    "candidates_of",
    "columns_of",
    "frontier_of",
    "mixture_path",
    "moved",
    "steadied",
]


@dataclass(frozen=True, eq=False)
class Step:
    """One mixture of the path, and what its models say."""

    robustness: float  # t, how far towards Λ the step was allowed to go
    mixture: Array  # (p,) λ
    found: OutOfFold  # what the models fitted with the weights of λ say of the rows


@dataclass(frozen=True, eq=False)
class Candidate:
    """Models whose predictions are averaged: of one mixture of the path, or of all up to one."""

    steps: list[Step]  # mixtures, and what their models say

    @property
    def robustness(self) -> float:
        """t of the last mixture."""
        return self.steps[-1].robustness

    @property
    def mixture(self) -> Array:
        """The mean of the mixtures, (p,)."""
        return np.asarray(np.mean([step.mixture for step in self.steps], axis=0))

    @property
    def held_out(self) -> Array:
        """The mean prediction for every row by models that have not seen it."""
        return np.asarray(np.mean([step.found.held_out for step in self.steps], axis=0))

    @property
    def fitted(self) -> Array:
        """The domains' mean loss of the single models on the rows fitted, (p,)."""
        return np.asarray(np.mean([step.found.fitted for step in self.steps], axis=0))


def candidates_of(path: list[Step], combine: str) -> list[Candidate]:
    """The ordinary model, then for each mixture the average up to it, its own model, or both."""
    found = [Candidate(path[:1])]
    for j in range(1, len(path)):
        average, single = Candidate(path[: j + 1]), Candidate([path[j]])
        found += {"average": [average], "single": [single], "auto": [average, single]}[combine]
    return found


def mixture_path(
    cross: CrossFit,
    target: MixtureSet,
    reference: Array,
    robustness: Sequence[float],
    n_steps: int,
    report: Callable[[Step], None] = lambda step: None,
) -> list[Step]:
    """The ordinary model, then n_steps mixtures for every t; a λ that stays is not refitted."""
    path = [Step(0.0, reference, cross.judge(None))]
    report(path[0])
    _, average = cross.rows.domains.shares(len(cross.rows.names), cross.rows.weight)
    step_size: float | None = None
    for t in [t for t in robustness for _ in range(n_steps)]:
        losses = steadied(cross.losses(path[-1].found.held_out), average, reference)
        if step_size is None:
            step_size = doubling(losses - reference @ losses)
        mixture = moved(
            path[-1].mixture, step_size * losses, target.shrunk(t, reference), reference
        )
        if np.allclose(mixture, path[-1].mixture, rtol=1e-6, atol=0):
            continue
        path.append(Step(t, mixture, cross.judge(mixture)))
        report(path[-1])
    return path


def steadied(losses: Array, average: sparse.csc_array, reference: Array) -> Array:
    """The domains' losses, drawn to their mean by as much as they are noise.

        L̃_k = L̄ + τ²/(τ² + s_k²) (L̂_k − L̄),     τ² = Σ_k m̄_k ((L̂_k − L̄)² − s_k²), at least 0

    with s_k the standard error of L̂_k: τ² is what is left of the spread of the domains without it.
    One unlucky row of a domain of ten would otherwise push λ there.
    """
    unit = float(np.max(np.abs(losses))) or 1.0  # squares of huge losses overflow
    found = average @ losses / unit
    errors = Errors(average).by_domain(losses / unit)
    mean, noise = float(reference @ found), errors**2
    known = np.isfinite(noise)  # a single row has no standard error: it says nothing
    spread = (found - mean) ** 2 - noise
    tau2 = max(0.0, float(reference[known] @ spread[known]))
    share = np.array([tau2 / (tau2 + v) if tau2 + v > 0 else 0.0 for v in noise])
    return np.asarray(unit * (mean + share * (found - mean)))


def doubling(differences: Array) -> float:
    """η for which the domain farthest from the mean gets twice or half its weight in one step."""
    largest = float(np.abs(differences).max())
    return math.log(2) / largest if largest > 0 else 0.0


def moved(mixture: Array, move: Array, target: MixtureSet, reference: Array) -> Array:
    """λ · e^move, scaled to a mixture, and the member of Λ next to it, Σ_k (λ_k − v_k)²/m̄_k least.

    Distances are measured against the domains' own sizes, so that a small domain does not jump.
    """
    v, used = np.zeros_like(mixture), mixture > 0  # a λ_k of 0 stays, however large its move
    v[used] = mixture[used] * np.exp(move[used] - move[used].max())
    return target.project(v / v.sum(), weights=1 / reference)


def frontier_of(
    held: HeldOut, candidates: Sequence[Candidate], names: NDArray[Any], chosen: int
) -> Frontier:
    """The losses of the candidates on rows held out, and of their models on the rows fitted."""
    fitted = np.array([c.fitted for c in candidates])
    worst_error = _errors(held, held.worst)
    pooled_error = _errors(held, [held.reference] * len(candidates))
    return Frontier(
        np.array([c.robustness for c in candidates]),
        np.full(len(candidates), np.nan),
        names,
        (),
        frontier_losses(fitted, held.mixtures, held.offsets, held.reference),
        FrontierLosses(held.domain_losses, held.value, held.pooled, worst_error, pooled_error),
        chosen,
    )


def columns_of(
    held: HeldOut, candidates: Sequence[Candidate], names: NDArray[Any]
) -> dict[str, Any]:
    """One row for each candidate: `cv_results_`, whose columns AgnosticEnsemble explains."""
    gain, error = np.array([held.gain(c) for c in range(len(candidates))]).T
    losses, mixtures = held.domain_losses, np.array([c.mixture for c in candidates])
    return {
        "param_robustness": np.array([c.robustness for c in candidates]),
        "param_n_models": np.array([len(c.steps) for c in candidates]),
        "worst_test_loss": held.value,
        "expected_worst_test_loss": held.expected,
        "se_test_loss": _errors(held, held.worst),
        "pooled_test_loss": held.pooled,
        "gain": gain,
        "se_gain": error,
        **{f"test_loss_{name}": losses[:, k] for k, name in enumerate(names.tolist())},
        **{f"mixture_{name}": mixtures[:, k] for k, name in enumerate(names.tolist())},
    }


def _errors(held: HeldOut, mixtures: Any) -> NDArray[np.float64]:
    """The standard error of each candidate's loss on a mixture of its own."""
    return np.array([held.error(c, mixture) for c, mixture in enumerate(mixtures)])
