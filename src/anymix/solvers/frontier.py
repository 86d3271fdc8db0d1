"""The Pareto front between the mean of all rows and the worst mixture of the domains.

    w_t = argmin_w (1−t) Σ_k m̄_k L_k(w) + t max_{λ∈Λ} Σ_k λ_k L_k(w) + γ R(w − a),   0 ≤ t ≤ 1

t = 0 is ordinary training and t = 1 the agnostic learner; what lies between buys some of the worst
mixture's gain for less of the pool's. A t slightly below 1 also breaks the ties of t = 1: a domain
is not degraded where that does not help the worst mixture (Section 2.3 of the paper).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError, finite_number
from anymix.mixtures import MixtureSet
from anymix.mixtures.parsing import Mixtures
from anymix.objective import Objective, Parts, objective_of
from anymix.problem.losses import Loss
from anymix.problem.oracle import Oracle
from anymix.solvers.exact import Solution, solve

Array = NDArray[np.float64]

__all__ = ["Frontier", "FrontierLosses", "frontier_losses", "pareto_front"]


@dataclass(frozen=True, eq=False)
class FrontierLosses:
    """The losses of the models of a frontier, on the rows fitted or on rows held out.

    Parameters
    ----------
    domains : ndarray of shape (T, p)
        The loss of each domain.
    worst : ndarray of shape (T,)
        That of the worst mixture, max_{λ∈Λ} Σ_k λ_k (L_k − b_k).
    pooled : ndarray of shape (T,)
        That of all rows, Σ_k m̄_k L_k.
    worst_error, pooled_error : ndarray of shape (T,) or None
        Their standard errors; None on the rows fitted.
    """

    domains: Array
    worst: Array
    pooled: Array
    worst_error: Array | None = None
    pooled_error: Array | None = None

    def columns(self, names: Sequence[Any], prefix: str) -> dict[str, Array]:
        """What there is, by name."""
        found = {f"{prefix}worst": self.worst, f"{prefix}pooled": self.pooled}
        if self.worst_error is not None and self.pooled_error is not None:
            found[f"{prefix}worst_error"] = self.worst_error
            found[f"{prefix}pooled_error"] = self.pooled_error
        return found | {f"{prefix}{k}": self.domains[:, i] for i, k in enumerate(names)}


@dataclass(frozen=True, eq=False)
class Frontier:
    """The models w_t of a few t, and their losses.

    Parameters
    ----------
    robustness : ndarray of shape (T,)
        t, from 0 (ordinary) to 1 (agnostic).
    gammas : ndarray of shape (T,)
        γ of each model; NaN for models that have none.
    domain_names : ndarray of shape (p,)
        Names of the domains.
    solutions : tuple of T Solution
        The models, each with the certificate of its own problem; empty where no solver made them.
    fitted : FrontierLosses
        Losses on the rows fitted.
    held_out : FrontierLosses or None
        Cross-validated losses; `pareto_front` has none, the estimators that choose have.
    chosen : int or None
        The place of the model that was chosen.
    loss : Loss or None
        The loss that was trained; None if that is not known.

    Examples
    --------
    >>> import anymix as ax
    >>> X, y = [[0.0], [1.0], [0.0], [1.0]], [0, 1, 1, 0]
    >>> front = ax.pareto_front(ax.LinearDomains(X, y, ["a", "a", "b", "b"]), robustness=[0, 1])
    >>> front.domain_names.tolist(), front.fitted.worst.round(3).tolist(), front.held_out
    (['a', 'b'], [0.693, 0.693], None)
    """

    robustness: Array
    gammas: Array
    domain_names: NDArray[Any]
    solutions: tuple[Solution, ...]
    fitted: FrontierLosses
    held_out: FrontierLosses | None = None
    chosen: int | None = None
    loss: Loss | None = None

    def to_frame(self) -> Any:
        """One row for each t.

        Returns
        -------
        pandas.DataFrame
            robustness, gamma, gap (of the certificate; only with solutions), fitted_worst,
            fitted_pooled and fitted_<domain>; held_out_... for rows held out, with errors; chosen.
        """
        import pandas as pd

        names = self.domain_names.tolist()
        columns: dict[str, Any] = {"robustness": self.robustness, "gamma": self.gammas}
        if self.solutions:
            columns["gap"] = [s.certificate.gap for s in self.solutions]
        columns |= self.fitted.columns(names, "fitted_")
        if self.held_out is not None:
            columns |= self.held_out.columns(names, "held_out_")
        if self.chosen is not None:
            columns["chosen"] = np.arange(len(self.robustness)) == self.chosen
        return pd.DataFrame(columns)


def pareto_front(
    problem: Oracle,
    mixtures: Objective | Mixtures = None,
    robustness: ArrayLike = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0),
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    **parts: Any,
) -> Frontier:
    """w_t for each t: min_w (1−t) Σ_k m̄_k L_k + t max_{λ∈Λ} Σ_k λ_k L_k + γ R(w − a).

    Every model comes with its certificate, and is found from the one before it.

    Parameters
    ----------
    problem : Oracle
        LinearDomains, or any oracle of the same sums.
    mixtures : Objective, MixtureSet, function, str or None
        Φ, whose own robustness does not matter; or Λ alone, and the rest by name.
    robustness : array-like of shape (T,)
        t, numbers in [0, 1], in rising order.
    tol, max_iter : float and int
        As in `solve`.
    **parts : Any
        Parts of an `Objective` by name: gamma (1e-3), mu, norm, prior, ...; not beside one.

    Returns
    -------
    Frontier

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> X, y = np.zeros((10, 1)), [1] * 7 + [0] + [0, 1]       # a is mostly 1; b half and half
    >>> front = ax.pareto_front(ax.LinearDomains(X, y, ["a"] * 8 + ["b"] * 2), gamma=0.0)
    >>> front.fitted.pooled.round(3)
    array([0.5  , 0.516, 0.555, 0.614, 0.659, 0.693])
    >>> front.fitted.worst.round(3)
    array([0.916, 0.806, 0.74 , 0.705, 0.695, 0.693])
    """
    fix = "give numbers from 0 to 1 in rising order"
    path = [
        finite_number("robustness", t, fix, lambda x: 0 <= x <= 1)
        for t in np.atleast_1d(np.asarray(robustness)).tolist()
    ]
    if not path or path != sorted(path):
        raise InputError("robustness", f"is {robustness!r}", fix)
    objective = objective_of(mixtures, cast(Parts, parts))
    found: list[Solution] = []
    for t in path:
        start, at_t = found[-1] if found else None, replace(objective, robustness=t)
        found.append(solve(problem, at_t, start=start, tol=tol, max_iter=max_iter))
    losses = np.array([s.domain_losses for s in found])
    names = getattr(problem, "domain_names", None)
    b = np.zeros(problem.n_domains) if objective.offsets is None else np.asarray(objective.offsets)
    return Frontier(
        np.array(path),
        np.full(len(path), objective.gamma),
        np.asarray(range(problem.n_domains) if names is None else names),
        tuple(found),
        frontier_losses(losses, objective.target(problem.sizes, names), b, problem.reference),
        loss=getattr(problem, "loss", None),
    )


def frontier_losses(
    losses: Array, mixtures: MixtureSet, offsets: Array, m: Array
) -> FrontierLosses:
    """The worst and the pooled loss of each of T rows of domain losses (T, p)."""
    worst = np.array([mixtures.maximize(L - offsets) @ (L - offsets) for L in losses])
    return FrontierLosses(losses, worst, losses @ m)
