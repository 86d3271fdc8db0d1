"""Whether the worst mixture λ, which may put its weight on a small domain, rests on enough rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.objective import Objective
from anymix.solvers.exact import Solution

Array = NDArray[np.float64]

__all__ = ["ADVICE", "OverfitWarning", "overfit_message"]

ROWS_PER_PARAMETER = 20  # below it a fit warns
ADVICE = (  # in the words of the estimators; tables and the command have other arguments
    "Raise gamma, lower max_skewness or merge small domains; AgnosticClassifierCV and "
    "AgnosticRegressorCV choose by the loss on rows held out"
)


class OverfitWarning(UserWarning):
    """The worst mixture rests on few rows for the size of the model: expect a larger loss there.

    Examples
    --------
    >>> import warnings
    >>> import anymix as ax
    >>> X, y, d = [[0.0], [1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1, 0], ["a", "a", "a", "a", "b"]
    >>> with warnings.catch_warnings(action="ignore", category=OverfitWarning):
    ...     model = ax.AgnosticClassifier().fit(X, y, domains=d)
    """


def overfit_message(problem: Any, solution: Solution, objective: Objective) -> str | None:
    """What to warn of, if λ puts much weight on a domain of few rows for the size of the model.

    With w fitted to Σ_k λ_k L_k, L_k on new rows exceeds L_k on those fitted by about
    parameters/rows_k, rows_k = m_k/λ_k (in the spirit of Akaike; for the log loss, and in units of
    the noise's variance for squared error). Below 20 rows a parameter, an excess of 0.05, a fit
    warns, unless λ makes the rows few by less than a third: ordinary training does not warn either.

    parameters = Σ_j H_jj/(H_jj + γ), those that γ leaves free, H the curvature of Σ_k λ_k L_k at w:
    at least the usual tr H(H + γI)⁻¹, for by Schur and Horn a concave function's sum over the
    diagonal is at least that over the eigenvalues.
    """
    shares, pooled = (problem.row_shares(lam) for lam in (solution.mixture, problem.reference))
    k = int(np.argmax(shares))
    rows = float(1 / shares[k])
    if rows >= ROWS_PER_PARAMETER * problem.n_parameters or shares[k] < 1.5 * pooled.max():
        return None
    parameters = _free_parameters(problem, solution, objective)
    if rows >= ROWS_PER_PARAMETER * parameters:
        return None
    name, size = problem.domain_names.tolist()[k], problem.sizes[k]
    return (
        f"the worst mixture gives the weight {solution.mixture[k]:.2g} to domain {name!r} with "
        f"{size:.0f} rows, few for {parameters:.0f} free parameters: expect a larger loss on new "
        "rows there"
    )


def _free_parameters(problem: Any, solution: Solution, objective: Objective) -> float:
    """Σ_j H_jj/(H_jj + γ_j); the K blocks of K ≥ 3 classes have one block's freedom too many."""
    w, seen = solution.w, problem.penalized
    h = problem.at(w).hessian_diagonal(solution.mixture)
    length = float(np.linalg.norm(w[seen])) if objective.norm == "plain" else 1.0
    ridge = np.where(seen, objective.gamma / max(length, 1e-300), 0.0)
    free = float(np.sum(h[h > 0] / (h + ridge)[h > 0]))
    K = problem.n_scores
    return free if K == 1 else min(free, problem.n_parameters * (K - 1) / K)
