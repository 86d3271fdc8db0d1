"""Which (γ, μ, r) is best for the worst mixture on rows held out? Folds, paths and the choice.

(γ, μ, r) minimises max_{λ∈Λ} Σ_k λ_k (L̂_k − b_k), L̂_k the loss on the rows of domain k, each
under a model fitted without it. Needs no scikit-learn; the estimators and the tables choose here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.estimators.baselines import Baseline, alone_solutions, baseline_losses, is_regret
from anymix.mixtures.choosing import Mixtures, target_mixtures
from anymix.problem.dealing import Split
from anymix.problem.linear import LinearDomains
from anymix.problem.rows import Rows
from anymix.solvers.exact import Solution, solve

Array = NDArray[np.float64]
Candidate = tuple[float, float, float | None]  # γ, μ, r

__all__ = ["Candidate", "Found", "Path", "search"]


@dataclass(frozen=True)
class Path:
    """What to try for one Λ: each fit starts at the solution of the one before it.

    Parameters
    ----------
    candidates : sequence of (γ, μ, r)
        What to try, in this order; a new path begins wherever γ is the first one's.
    mixtures : MixtureSet, function, str or None
        Λ.
    baseline : "regret", array-like of shape (p,) or None
        b, as in AgnosticClassifier.
    norm : str
        "squared" or "plain".
    tol : float
        The gap at which a fit stops.
    max_iter : int
        Iterations of a fit at most.
    """

    candidates: Sequence[Candidate]
    mixtures: Mixtures = None
    baseline: Baseline = None
    norm: str = "squared"
    tol: float = 1e-6
    max_iter: int = 1000

    def follow(self, train: LinearDomains, test: LinearDomains) -> _Fold:
        """Fit every candidate to `train` and judge it on `test`."""
        baselines = self._baselines(train, test)
        solutions: list[Solution] = []
        for gamma, mu, r in self.candidates:
            first = not solutions or gamma == self.candidates[0][0]
            solution = solve(
                train,
                target_mixtures(self.mixtures, r, train.sizes, train.domain_names),
                mu=mu,
                offsets=baselines[gamma][0],
                start=None if first else solutions[-1],
                **self._options(gamma),
            )
            solutions.append(solution)
        losses = np.array([test.losses(solution.w) for solution in solutions])
        return _Fold(losses, np.array([b for _, b in baselines.values()]), test.sizes, solutions)

    def _baselines(
        self, train: LinearDomains, test: LinearDomains
    ) -> dict[float, tuple[Array, Array]]:
        """For every γ: b as the training sees it, and on the rows held out; (p,) each."""
        gammas = dict.fromkeys(gamma for gamma, _, _ in self.candidates)
        if not is_regret(self.baseline):
            b = baseline_losses(train, self.baseline, {})
            return dict.fromkeys(gammas, (b, b))
        found, alone = {}, None
        for gamma in gammas:
            alone = alone_solutions(train, self._options(gamma), alone)
            fitted = np.array([s.domain_losses[k] for k, s in enumerate(alone)])
            held_out = np.array([test.losses(s.w)[k] for k, s in enumerate(alone)])
            found[gamma] = fitted, held_out
        return found

    def _options(self, gamma: float) -> dict[str, Any]:
        return {"gamma": gamma, "norm": self.norm, "tol": self.tol, "max_iter": self.max_iter}


@dataclass(frozen=True, eq=False)
class _Fold:
    """What one fold tells of one path."""

    losses: Array  # (C, p) on the rows held out
    alone: Array  # (gammas, p), b there
    sizes: Array  # (p,) of the domains held out
    solutions: list[Solution]  # (C,)


@dataclass(frozen=True, eq=False)
class Found:
    """What the folds tell of a path: held-out losses of every candidate, and the best of them.

    Parameters
    ----------
    path : Path
        What was tried.
    losses : ndarray of shape (C, p)
        L̂ of the C candidates.
    value : ndarray of shape (C,)
        max_{λ∈Λ} Σ_k λ_k (L̂_k − b_k).
    error : ndarray of shape (C,)
        Its standard error over the folds.
    solutions : list of Solution
        Those of the last fold, to start from.
    """

    path: Path
    losses: Array
    value: Array
    error: Array
    solutions: list[Solution]

    @staticmethod
    def of(path: Path, folds: Sequence[_Fold], names: NDArray[Any], sizes: Array) -> Found:
        """Pool the folds; sizes and names are those of the domains of all rows."""
        losses = np.array([fold.losses for fold in folds])  # (F, C, p)
        shares = np.array([fold.sizes for fold in folds])
        shares = shares / shares.sum(axis=0)  # (F, p)
        mean = _pool(losses, shares)
        b = _pool(np.array([fold.alone for fold in folds]), shares).min(axis=0)
        target = target_mixtures(path.mixtures, None, sizes, names)
        worst = np.array([target.maximize(regret) for regret in mean - b])  # (C, p)
        value = np.einsum("cp,cp->c", worst, mean - b)
        by_fold = np.einsum("cp,fcp->fc", worst, losses - b)
        error = by_fold.std(axis=0, ddof=min(1, len(by_fold) - 1)) / math.sqrt(len(by_fold))
        return Found(path, mean, value, error, folds[-1].solutions)

    def best(self, rule: str = "min") -> int:
        """The place of the best candidate.

        Parameters
        ----------
        rule : str
            "min", the least value; or "1se", the strongest regularisation (largest γ, then μ,
            then smallest r) within one standard error of it.

        Returns
        -------
        int
        """
        if rule not in ("min", "1se"):
            raise InputError("rule", f"is {rule!r}", "give 'min' or '1se'")
        return best_place(self.path.candidates, self.value, self.error, rule)


def search(rows: Rows, splits: Iterable[Split], paths: Sequence[Path]) -> list[Found]:
    """Follow every path on every fold; the problems of a fold are made once for all paths.

    Parameters
    ----------
    rows : Rows
        The rows.
    splits : iterable of (part, part)
        What to fit and what to judge on, for each fold.
    paths : sequence of Path
        What to try.

    Returns
    -------
    list of Found
        One for each path.
    """
    folds: list[list[_Fold]] = [[] for _ in paths]
    for number, (part, held_out) in enumerate(splits, start=1):
        train = rows.to_fit(part, f"the training part of fold {number}").merged()
        test = rows.to_judge(held_out)
        for path, found in zip(paths, folds, strict=True):
            found.append(path.follow(train, test))
    sizes = rows.sizes()
    return [Found.of(path, f, rows.names, sizes) for path, f in zip(paths, folds, strict=True)]


def best_place(candidates: Sequence[Candidate], value: Array, error: Array, rule: str) -> int:
    """The least value, or by "1se" the strongest regularisation within its error of it."""
    best = int(np.argmin(value))
    if rule == "min":
        return best

    def strength(i: int) -> tuple[float, float, float]:
        gamma, mu, r = candidates[i]
        return gamma, mu, -math.inf if r is None else -r

    return max(np.flatnonzero(value <= value[best] + error[best]).tolist(), key=strength)


def _pool(losses: Array, shares: Array) -> Array:
    """The mean over all rows held out: losses (F, C, p), the folds' shares (F, p); gives (C, p)."""
    pooled: Array = np.einsum("fcp,fp->cp", losses, shares)
    return pooled
