"""What is shown of the mixtures tried: the losses of the candidates, as a frontier and a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.estimators.ascent import Candidate
from anymix.selection.held_out import HeldOut
from anymix.solvers.frontier import Frontier, FrontierLosses, frontier_losses

__all__ = ["columns_of", "frontier_of"]


def frontier_of(
    held: HeldOut, candidates: Sequence[Candidate], names: NDArray[Any], chosen: int
) -> Frontier:
    """The losses of the candidates on rows held out, and of their models on the rows fitted.

    Parameters
    ----------
    held : HeldOut
        The losses on rows held out.
    candidates : sequence of Candidate
        The candidates, in the same order.
    names : ndarray of shape (p,)
        Names of the domains.
    chosen : int
        The place of the chosen candidate.

    Returns
    -------
    Frontier
    """
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
