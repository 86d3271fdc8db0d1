"""The game between C models and a set of mixtures, from a table of losses.

    min_{q∈Δ_C} max_{λ∈Λ} Σ_c q_c Σ_k λ_k L_ck  =  max_{λ∈Λ} min_c Σ_k λ_k L_ck

q draws a model at random, λ is the mixture of the domains that the models meet. The value is the
best worst case that any draw among these C models can have: models that are not in the table may
do better.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from anymix.errors import InputError
from anymix.mixtures import MixtureSet
from anymix.solvers.certificates import Certificate

Array = NDArray[np.float64]

__all__ = ["GameValue", "HeldOutCertificate", "game_value"]

TOLERANCE = 1e-7  # of the largest loss: far below what rows held out can tell
EXACT: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
MOST_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class GameValue:
    """Strategies of both sides, and what each of them proves."""

    weights: Array  # (C,) q, how often to draw each model
    mixture: Array  # (p,) λ, a mixture in the convex hull of Λ
    upper: float  # max_{λ∈Λ} Σ_k λ_k Σ_c q_c L_ck, what q guarantees
    lower: float  # min_c Σ_k λ_k L_ck, which no draw among the models can beat when it meets λ


@dataclass(frozen=True)
class HeldOutCertificate(Certificate):
    """What a candidate reaches on rows held out, and what no draw among the candidates can beat.

    Unlike the certificates of solvers it knows nothing of models that were not fitted.
    """

    n_candidates: int  # how many there are

    def __str__(self) -> str:
        return (
            f"worst mixture {self.upper:.6g} on rows held out, no draw among the "
            f"{self.n_candidates} candidates below {self.lower:.6g} (gap {self.gap:.1e})"
        )


def game_value(losses: ArrayLike, mixtures: MixtureSet) -> GameValue:
    """Solve the game of C models against Λ.

    λ only needs to be one of the mixtures that `maximize` has answered with: a linear program
    finds the best q against those known, `maximize` answers with the worst mixture for that q,
    and this is repeated until the answer is no worse than those known. For sets with corners that
    is a finite number of rounds; for round ones the two values come as close as one part in 10⁷.
    """
    L = np.asarray(losses, dtype=np.float64)
    if L.ndim != 2 or L.shape[1] != mixtures.n_domains or not np.all(np.isfinite(L)):
        fix = f"give finite numbers, a row of {mixtures.n_domains} for each model"
        raise InputError("losses", f"has shape {L.shape} or entries that are no numbers", fix)
    unit = float(np.abs(L).max()) or 1.0  # of which the linear program sees nothing
    found = _solved(L / unit, mixtures)
    return replace(found, upper=unit * found.upper, lower=unit * found.lower)


def _solved(L: Array, mixtures: MixtureSet) -> GameValue:
    """The game for losses of at most 1."""
    known = [mixtures.maximize(row) for row in L]
    best = now = _against(L, np.array(known), mixtures)
    for _ in range(MOST_ROUNDS):
        if best.upper - best.lower <= TOLERANCE:
            break
        known.append(mixtures.maximize(now.weights @ L))
        now = _against(L, np.array(known), mixtures)
        best = _tighter(best, now)
    return best


def _against(L: Array, known: Array, mixtures: MixtureSet) -> GameValue:
    """min_{q,v} v with Σ_c q_c (Lλ)_c ≤ v for the S known λ; its multipliers mix these to one."""
    payoff = known @ L.T  # (S, C)
    S, C = payoff.shape
    found: Any = linprog(
        np.append(np.zeros(C), 1.0),
        A_ub=np.hstack([payoff, -np.ones((S, 1))]),
        b_ub=np.zeros(S),
        A_eq=np.append(np.ones(C), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * C + [(None, None)],
        options=EXACT,
    )
    q, pull = (np.maximum(v, 0.0) for v in (found.x[:C], -found.ineqlin.marginals))
    q, lam = q / q.sum(), pull / pull.sum() @ known
    mean = q @ L
    return GameValue(q, lam, float(mixtures.maximize(mean) @ mean), float((L @ lam).min()))


def _tighter(old: GameValue, new: GameValue) -> GameValue:
    """The better strategy of each side."""
    by_q, by_mixture = min(old, new, key=_upper), max(old, new, key=_lower)
    return GameValue(by_q.weights, by_mixture.mixture, by_q.upper, by_mixture.lower)


def _upper(game: GameValue) -> float:
    return game.upper


def _lower(game: GameValue) -> float:
    return game.lower
