"""How good for the worst mixture is each (t, γ, μ, r) on rows held out? Folds, paths and losses.

Candidates go from tame to bold. The ordinary model is always the first. The others solve

    min_w max_{λ∈Λ_t}  Σ_k λ_k (L_k(w) − b_k) + γ R(w − a) − μ χ²(λ‖m̄)

with Λ_t = {(1−t) m̄ + t λ : λ ∈ Λ, 1 + χ²(λ‖m̄) ≤ r} and the anchor a, which is the ordinary model
of the same rows unless another is given. Needs no scikit-learn; estimators and tables choose here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from anymix.estimators.fitting import Baseline, alone_solutions, baseline_losses, is_regret
from anymix.estimators.ordinary import (
    ROUGH,
    Anchor,
    Problems,
    choose_ordinary,
    given_anchor,
    rough_ordinary,
)
from anymix.mixtures.parsing import is_mixture_of, target_mixtures
from anymix.objective import Objective
from anymix.problem.dealing import Split
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import Loss
from anymix.problem.rows import Part, Rows, constant_losses
from anymix.selection.held_out import HeldOut
from anymix.solvers.exact import Solution
from anymix.solvers.paths import Path
from anymix.solvers.sqp import Waypoint

Array = NDArray[np.float64]

__all__ = [
    "ROBUSTNESS",
    "ROBUST_GAMMAS",
    "Candidate",
    "Found",
    "Plan",
    "candidates_of",
    "search",
]

ROBUSTNESS = (0.25, 0.5, 0.75, 1.0)
"""The t that are tried where none is given."""
ROBUST_GAMMAS = (10.0, 1.0, 0.1, 0.01)  # 10: only the intercept leaves the ordinary model
"""The γ that are tried for robust models where none is given."""


class Candidate(NamedTuple):
    """What one fit depends on: t (0 is ordinary, 1 agnostic), γ, μ and r = max_skewness.

    With `to_zero` R pulls to 0, whatever the anchor of the others.
    """

    robustness: float
    gamma: float
    mu: float = 0.0
    max_skewness: float | None = None
    to_zero: bool = False

    def objective(self, of_all: Objective, sizes: Array, names: NDArray[Any]) -> Objective:
        """Φ of this candidate, of what all of them share and over domains of these sizes."""
        return replace(
            of_all,
            mixtures=target_mixtures(of_all.mixtures, self.max_skewness, sizes, names),
            gamma=self.gamma,
            mu=self.mu,
            robustness=self.robustness,
            anchor=None if self.to_zero else of_all.anchor,
        )


def candidates_of(
    robustness: Sequence[float],
    gammas: Sequence[float],
    mus: Sequence[float] = (0.0,),
    skewnesses: Sequence[float | None] = (None,),
    *,
    to_zero: bool = False,
) -> list[Candidate]:
    """All combinations, the tamest first: small t, small r, large μ, large γ.

    With `to_zero`, those of the largest t come a second time, with R pulling to 0: where an anchor
    is quite wrong for a small domain, its few rows do not suffice to find the way from there.
    """
    caps = sorted(skewnesses, key=lambda r: np.inf if r is None else r)
    μs, γs = sorted(mus, reverse=True), sorted(gammas, reverse=True)
    grid = product(sorted(robustness), caps, μs, γs)
    found = [Candidate(t, gamma, mu, r) for t, r, mu, gamma in grid]
    boldest = [c._replace(to_zero=True) for c in found if c.robustness == found[-1].robustness]
    return found + boldest if to_zero else found


@dataclass(frozen=True, eq=False)
class Plan:
    """What to try."""

    candidates: Sequence[Candidate]  # robust models, the tamest first
    # what all of them share: Λ, the norm, a prior
    objective: Objective = field(default_factory=Objective)
    # (p,) b, what losses are compared with: 0, the best models for one domain, or numbers
    baseline: Baseline = None
    # (D,) a, the model that R pulls to: the ordinary one, one given, or 0
    anchor: Anchor = "ordinary"
    ordinary_gammas: Sequence[float] | None = None  # values of γ₀ to try for the ordinary model
    tol: float = 1e-6  # gap of the last fits, to all rows
    max_iter: int = 1000  # steps of any fit
    n_jobs: int | None = 1  # how many processes share the folds, as joblib counts them

    @property
    def rough(self) -> dict[str, Any]:
        """The limits of all fits of the search."""
        return {"tol": ROUGH, "max_iter": self.max_iter}

    def anchored(self, rows: Rows, ordinary: Solution | Waypoint) -> Array | None:
        """The anchor, given the ordinary model of the rows that are fitted."""
        is_word = isinstance(self.anchor, str) and self.anchor == "ordinary"
        return ordinary.w if is_word else given_anchor(rows, self.anchor)


@dataclass(frozen=True, eq=False)
class Found:
    """What rows held out say of the candidates."""

    candidates: list[Candidate]  # ordinary model and the robust ones, in the order of all results
    held_out: HeldOut  # their losses
    solutions: list[Waypoint]  # their models in the last fold, to start from
    loss: Loss | None = None  # loss that was trained, if it is known

    @property
    def best_robust(self) -> int:
        """The place of the best robust candidate; 0, the ordinary model, if there is none."""
        robust = self.held_out.expected[1:]
        return 1 + int(np.argmin(robust)) if robust.size else 0


@dataclass(eq=False)
class _Alone:
    """b on the rows held out, for "regret": the best γ's mean loss of models of one domain."""

    sums: dict[float, Array] = field(default_factory=dict)
    sizes: dict[float, Array] = field(default_factory=dict)

    def add(self, gamma: float, alone: Sequence[Solution], test: LinearDomains) -> None:
        losses = np.array([test.losses(s.w)[k] for k, s in enumerate(alone)])
        self.sums[gamma] = self.sums.get(gamma, 0.0) + test.sizes * losses
        self.sizes[gamma] = self.sizes.get(gamma, 0.0) + test.sizes

    def join(self, other: _Alone) -> None:
        """Add what another fold found."""
        for gamma in other.sums:
            self.sums[gamma] = self.sums.get(gamma, 0.0) + other.sums[gamma]
            self.sizes[gamma] = self.sizes.get(gamma, 0.0) + other.sizes[gamma]

    def best(self) -> Array:
        means = [self.sums[gamma] / self.sizes[gamma] for gamma in self.sums]
        return np.asarray(np.min(means, axis=0))


def search(rows: Rows, splits: Iterable[Split], plan: Plan) -> Found:
    """Fit every candidate on every fold, and judge it on what the fold holds out."""
    with threadpool_limits(1, "blas"):  # many small fits: more threads only wait for each other
        return _search(rows, list(splits), plan)


def _search(rows: Rows, folds: Sequence[Split], plan: Plan) -> Found:
    problems = Problems(rows)
    ordinary = choose_ordinary(
        rows, folds, plan.ordinary_gammas, plan.objective, problems, **plan.rough
    )
    plan = _without_copies(plan, rows)
    judge = partial(_fold, rows, plan, ordinary.gamma)
    known: Sequence[Waypoint | None] = ordinary.solutions or [None] * len(folds)
    trains = (problems(number, part) for number, (part, _) in enumerate(folds, start=1))
    jobs = zip(trains, (held_out for _, held_out in folds), known, strict=True)
    losses = np.zeros((1 + len(plan.candidates), len(rows)))
    times, alone, held_by = np.zeros(len(rows)), _Alone(), np.zeros(len(rows), dtype=np.intp)
    judged = _shared(judge, jobs, plan.n_jobs)
    for number, ((_, held_out), fold) in enumerate(zip(folds, judged, strict=True)):
        losses[:, held_out] += fold.losses
        times[held_out] += 1
        held_by[held_out] = number
        alone.join(fold.alone)
    candidates = [Candidate(0.0, ordinary.gamma), *plan.candidates]
    held = _held_out(rows, losses, times, plan, alone)
    if times.max() == 1:  # a row that several folds held out is of none
        held = replace(held, fold=held_by[times > 0])
    return Found(candidates, held, fold.solutions, rows.loss)


@dataclass(frozen=True, eq=False)
class _Fold:
    """The models of one fold, their losses on the rows held out, and b there."""

    solutions: list[Waypoint]
    losses: Array  # (C, rows held out)
    alone: _Alone


def _fold(
    rows: Rows,
    plan: Plan,
    gamma: float,
    train: LinearDomains,
    held_out: Part,
    ordinary: Waypoint | None,
) -> _Fold:
    """Fit the candidates to one fold's rows, and judge them on the others."""
    with threadpool_limits(1, "blas"):  # in every process
        w0 = ordinary or rough_ordinary(train, [gamma], plan.objective, **plan.rough)[0]
        test = rows.to_judge(held_out) if is_regret(plan.baseline) else None
        alone = _Alone()
        solutions = [w0, *_walk(train, test, plan, w0, plan.anchored(rows, w0), alone)]
        if not plan.candidates:  # the ordinary model is compared with something too
            _offsets(train, test, plan, gamma, alone)
        losses = rows.row_losses([s.w for s in solutions], held_out)
    return _Fold(solutions, losses, alone)


def _shared(
    judge: Callable[..., _Fold], jobs: Iterable[tuple[Any, ...]], n_jobs: int | None
) -> Iterable[_Fold]:
    """What is found for each job, in their order, whoever does it."""
    if n_jobs == 1:
        return (judge(*job) for job in jobs)
    from joblib import Parallel, delayed  # few ask for processes

    found: list[_Fold] = Parallel(n_jobs=n_jobs)(delayed(judge)(*job) for job in jobs)
    return found


def _without_copies(plan: Plan, rows: Rows) -> Plan:
    """No robust candidates where Λ is but the mixture of the data: they are the ordinary model."""
    target = plan.objective.target(rows.sizes(), rows.names)
    same = is_mixture_of(target, rows.sizes(), len(rows))
    return replace(plan, candidates=[]) if same else plan


def _walk(
    train: LinearDomains,
    test: LinearDomains | None,
    plan: Plan,
    ordinary: Waypoint,
    anchor: Array | None,
    alone: _Alone,
) -> list[Waypoint]:
    """The candidates of one fold, each from the one before it, or from the ordinary model."""
    path, offsets = Path(train, **plan.rough), dict[float, Array | None]()
    shared, found = replace(plan.objective, anchor=anchor), list[Waypoint]()
    for i, candidate in enumerate(plan.candidates):
        gamma = candidate.gamma
        if gamma not in offsets:
            offsets[gamma] = _offsets(train, test, plan, gamma, alone)
        follows = i > 0 and plan.candidates[i - 1].gamma > gamma
        objective = candidate.objective(shared, train.sizes, train.domain_names)
        start = found[-1] if follows else ordinary
        found.append(path.model(replace(objective, offsets=offsets[gamma]), start))
    return found


def _offsets(
    train: LinearDomains, test: LinearDomains | None, plan: Plan, gamma: float, alone: _Alone
) -> Array | None:
    """b as the training sees it; for "regret" the rows held out are judged too."""
    objective = replace(plan.objective, gamma=gamma)
    if test is None:
        b = baseline_losses(train, plan.baseline, objective)
        return None if plan.baseline is None else b
    models = alone_solutions(train, objective, **plan.rough)
    alone.add(gamma, models, test)
    return np.array([s.domain_losses[k] for k, s in enumerate(models)])


def _held_out(rows: Rows, losses: Array, times: Array, plan: Plan, alone: _Alone) -> HeldOut:
    """The mean losses of the rows that were held out at least once."""
    judged = np.flatnonzero(times)
    weight = None if rows.weight is None else rows.weight[judged]
    p, m = len(rows.names), rows.sizes()
    _, average = rows.domains.take(judged).shares(p, weight)
    target = plan.objective.target(m, rows.names)
    b = np.zeros(p)
    if alone.sums:
        b = alone.best()
    elif plan.baseline is not None and not is_regret(plan.baseline):
        b = np.asarray(plan.baseline, dtype=np.float64)
    mean = losses[:, judged] / times[judged]
    guess = constant_losses(rows)[judged]
    return HeldOut(
        mean,
        average,
        target,
        b,
        m / m.sum(),
        constant=np.asarray(average @ guess),
        prior=plan.objective.prior,
        squared=rows.loss.is_quadratic,
        constant_rows=guess,
    )
