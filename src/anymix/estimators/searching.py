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
        Λ, the mixtures to guard against.
    baseline : "regret", array-like of shape (p,) or None
        b, what losses are compared with: 0, the best models for one domain, or numbers.
    norm : str
        R(w) is ½‖w‖² ("squared") or ‖w‖ ("plain").
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

    def baselines(
        self, train: LinearDomains, test: LinearDomains
    ) -> dict[float, tuple[Array, Array]]:
        """For every γ: b as the training sees it, and on the rows held out; (p,) each."""
        gammas = dict.fromkeys(gamma for gamma, _, _ in self.candidates)
        if not is_regret(self.baseline):
            b = baseline_losses(train, self.baseline, {})
            return dict.fromkeys(gammas, (b, b))
        found, alone = {}, None
        for gamma in gammas:
            alone = alone_solutions(train, self.options(gamma), alone)
            fitted = np.array([s.domain_losses[k] for k, s in enumerate(alone)])
            held_out = np.array([test.losses(s.w)[k] for k, s in enumerate(alone)])
            found[gamma] = fitted, held_out
        return found

    def options(self, gamma: float) -> dict[str, Any]:
        """The options of `solve` that do not depend on Λ."""
        return {"gamma": gamma, "norm": self.norm, "tol": self.tol, "max_iter": self.max_iter}


class _Walk:
    """One path on one fold, candidate after candidate, as far as it is followed."""

    def __init__(self, path: Path, train: LinearDomains, test: LinearDomains) -> None:
        self.path, self.sizes = path, test.sizes
        self.baselines = path.baselines(train, test)
        self.alone = np.array([b for _, b in self.baselines.values()])  # (gammas, p)
        self.losses: list[Array] = []  # (p,) on the rows held out, of each candidate
        self.solutions: list[Solution] = []
        self._parts: tuple[LinearDomains, LinearDomains] | None = (train, test)

    def step(self) -> None:
        """Fit the next candidate, and judge it."""
        assert self._parts is not None  # nobody goes on after the end
        train, test = self._parts
        path = self.path
        gamma, mu, r = path.candidates[len(self.solutions)]
        first = gamma == path.candidates[0][0]
        solution = solve(
            train,
            target_mixtures(path.mixtures, r, train.sizes, train.domain_names),
            mu=mu,
            offsets=self.baselines[gamma][0],
            start=None if first else self.solutions[-1],
            **path.options(gamma),
        )
        self.solutions.append(solution)
        self.losses.append(test.losses(solution.w))

    def to_the_end(self) -> None:
        """All candidates; then the rows make room for those of the next fold."""
        while len(self.solutions) < len(self.path.candidates):
            self.step()
        self._parts = None


@dataclass(frozen=True, eq=False)
class Found:
    """What the folds tell of a path: held-out losses of every candidate, and the best of them.

    Parameters
    ----------
    candidates : sequence of (γ, μ, r)
        What was tried, in the order of the path.
    losses : ndarray of shape (C, p)
        L̂ of the C candidates.
    value : ndarray of shape (C,)
        max_{λ∈Λ} Σ_k λ_k (L̂_k − b_k).
    error : ndarray of shape (C,)
        Its standard error over the folds.
    solutions : list of Solution
        Those of the last fold, to start from.
    """

    candidates: Sequence[Candidate]
    losses: Array
    value: Array
    error: Array
    solutions: list[Solution]

    @staticmethod
    def of(path: Path, folds: Sequence[_Walk], names: NDArray[Any], sizes: Array) -> Found:
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
        tried = path.candidates[: len(value)]
        return Found(tried, mean, value, error, folds[-1].solutions)

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
        return best_place(self.candidates, self.value, self.error, rule)


def search(
    rows: Rows, splits: Iterable[Split], paths: Sequence[Path], patience: int | None = None
) -> list[Found]:
    """Follow every path on every fold; the problems of a fold are made once for all paths.

    Parameters
    ----------
    rows : Rows
        The rows.
    splits : iterable of (part, part)
        What to fit and what to judge on, for each fold.
    paths : sequence of Path
        What to try: one path for each Λ.
    patience : int or None
        Leave a path where so many candidates in a row were no better than the best before them,
        on all folds together; that needs the rows of all folds at once. None tries all.

    Returns
    -------
    list of Found
        One for each path.
    """
    walks: list[list[_Walk]] = [[] for _ in paths]
    for number, (part, held_out) in enumerate(splits, start=1):
        train = rows.to_fit(part, f"the training part of fold {number}").merged()
        test = rows.to_judge(held_out)
        for path, folds in zip(paths, walks, strict=True):
            folds.append(_Walk(path, train, test))
            if patience is None:
                folds[-1].to_the_end()
    names, sizes = rows.names, rows.sizes()
    if patience is None:
        return [Found.of(path, f, names, sizes) for path, f in zip(paths, walks, strict=True)]
    return [
        _together(path, folds, names, sizes, patience)
        for path, folds in zip(paths, walks, strict=True)
    ]


def _together(
    path: Path, folds: Sequence[_Walk], names: NDArray[Any], sizes: Array, patience: int
) -> Found:
    """The folds side by side, until the path has led up for long enough."""
    for tried in range(1, len(path.candidates) + 1):
        for walk in folds:
            walk.step()
        found = Found.of(path, folds, names, sizes)
        if tried - 1 - found.best() >= patience:
            break
    return found


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
