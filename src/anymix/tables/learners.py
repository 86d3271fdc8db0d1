"""How the models of a table are learnt; here the linear ones, chosen by rows held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anymix.estimators.choices import fit_candidates, fit_choice
from anymix.estimators.domain_features import Kind, widened
from anymix.estimators.fitting import LinearFit, fit_problem, overfit_message
from anymix.estimators.ordinary import choose_ordinary
from anymix.estimators.searching import (
    ROBUST_GAMMAS,
    ROBUSTNESS,
    Found,
    Plan,
    candidates_of,
    search,
)
from anymix.mixtures import MixtureSet
from anymix.objective import Objective
from anymix.problem.dealing import Split, deal, deal_groups, rows_to_choose, sorted_rows
from anymix.problem.rows import ALL, Part, Rows, dense_if_small
from anymix.selection.rule import choose
from anymix.tables.splits import check_splits

Array = NDArray[np.float64]

__all__ = ["WITH", "WITHOUT", "Learned", "Learner", "LinearLearner"]

FOLDS = 5  # of the choice
WITH = "the ordinary model with the domain"
WITHOUT = "the ordinary model without the domain"
MOST_SLOPES = 160  # domains times features up to which slopes are tried beside intercepts


@dataclass(frozen=True, eq=False)
class Learned:
    """The model of all rows."""

    choice: Any
    fit: Any
    gamma: float | None = None
    warning: str | None = None


@dataclass(frozen=True, eq=False)
class Searched:
    """What rows held out say of all candidates, and which rows these are."""

    found: Found
    numbers: NDArray[np.intp]  # places of the rows that were held out
    beside: tuple[Kind, float]  # how another ordinary model uses the domain, and its γ₀

    def without(self, part: Part, n: int) -> Found:
        """The same, but a part of the table's n rows is not looked at."""
        seen = np.ones(n, dtype=bool)
        seen[part] = False
        return replace(self.found, held_out=self.found.held_out.only(seen[self.numbers]))


class Learner(Protocol):
    """Learns from a part of a table what to say of the rest, and then the model of all rows."""

    def search(self, rows: Rows, part: Part = ALL) -> Any:
        """Judge all candidates on rows of a part held out in turn; None if there is none."""

    def part(self, rows: Rows, part: Part, held_out: Part, searched: Any) -> dict[str, Array]:
        """What the models of a part, by name, say of the rows that it holds out."""

    def whole(self, rows: Rows, searched: Any, plain: bool) -> Learned:
        """The model of all rows; `plain` asks for the ordinary one."""


@dataclass(frozen=True, eq=False)
class LinearLearner:
    """Linear models: Λ, and γ, t and the use of the domain if they are given."""

    mixtures: MixtureSet
    gamma: float | None
    robustness: float | None
    use_domain: Kind
    groups: NDArray[Any] | None = None
    n_jobs: int = 1

    def search(self, rows: Rows, part: Part = ALL) -> Searched:
        """The candidates judged on held-out rows of (a sample of) a part."""
        numbers, few = rows_to_choose(rows, np.random.default_rng(0), part)
        splits = list(
            deal(sorted_rows(few), FOLDS)
            if self.groups is None
            else deal_groups(few, self.groups[numbers], FOLDS)
        )
        check_splits(few, splits)
        wide = widened(few, self.use_domain)
        found = search(replace(wide, X=dense_if_small(wide.X)), splits, self._plan)
        return Searched(found, numbers, self._beside(few, splits))

    def _beside(self, few: Rows, splits: Sequence[Split]) -> tuple[Kind, float]:
        """The other way to use the domain, and γ₀ for it."""
        kinds: list[Kind] = ["intercept", "slopes"]
        if self.use_domain is not None:
            kinds = [None]
        elif self.gamma is not None or few.X.shape[1] * len(few.names) > MOST_SLOPES:
            kinds = ["intercept"]
        plan, tried = self._plan, list[tuple[float, Kind, float]]()
        for kind in kinds:
            wide = widened(few, kind)
            gammas = plan.ordinary_gammas
            found = choose_ordinary(wide, splits, gammas, plan.objective, **plan.rough)
            fold = zip(splits, found.solutions, strict=False)  # of a γ that is given, none
            loss = sum(float(wide.row_losses([s.w], part).sum()) for (_, part), s in fold)
            tried.append((loss, kind, found.gamma))
        return min(tried, key=lambda each: each[0])[1:]

    def part(self, rows: Rows, part: Part, held_out: Part, searched: Searched) -> dict[str, Array]:
        """What the models of a part say of the rows it holds out, which do not choose them."""
        found = searched.without(held_out, len(rows))
        places = {"ordinary": 0, "chosen": self._place(found), "best robust": found.best_robust}
        wide = rows.mapped(partial(widened, kind=self.use_domain))
        problem = wide.to_fit(part).merged()
        fits = fit_candidates(wide, problem, found, places.values(), self._plan)
        said_by = _said_by([fits[place] for place in sorted(set(places.values()))])
        together = wide.applied(said_by, held_out)
        by_place = dict(zip(sorted(set(places.values())), _apart(together), strict=True))
        said = {name: by_place[place] for name, place in places.items()}
        kind, gamma = searched.beside
        other = rows.mapped(partial(widened, kind=kind))
        plain = Objective(self.mixtures, gamma, robustness=0.0)
        beside = _said_by([fit_problem(other.to_fit(part), plain)])
        name = WITH if self.use_domain is None else WITHOUT
        return said | {name: next(_apart(other.applied(beside, held_out)))}

    def whole(self, rows: Rows, searched: Searched, plain: bool) -> Learned:
        """The model of all rows."""
        wide, found = rows.mapped(partial(widened, kind=self.use_domain)), searched.found
        problem = wide.to_fit()
        index = self._place(found)
        choice = fit_choice(wide, found, index, self._plan, problem)
        if plain and self.robustness is None:
            choice = choice.kept()
        gamma = choice.candidate.gamma
        fit = choice.fit.with_deviations(self.use_domain, rows.n_features)
        if self.gamma is None:  # chosen by rows held out, which would have told
            return Learned(choice, fit, gamma)
        warning = overfit_message(problem, choice.fit.solution, Objective(gamma=gamma))
        return Learned(choice, fit, gamma, warning)

    @property
    def _plan(self) -> Plan:
        """What to try: a γ or a t that is given is the only one."""
        t = (self.robustness,) if self.robustness else ROBUSTNESS  # to show beside 0 at least
        if self.gamma is None:
            candidates = candidates_of(t, ROBUST_GAMMAS, to_zero=True)
            return Plan(candidates, Objective(self.mixtures), n_jobs=self.n_jobs)
        return Plan(
            candidates_of(t, (self.gamma,)),
            Objective(self.mixtures),
            anchor=None,
            ordinary_gammas=(self.gamma,),
            n_jobs=self.n_jobs,
        )

    def _place(self, found: Found) -> int:
        """The place of the candidate to take: by the rule, or the best of the t that is given."""
        if self.robustness is None:
            return choose(found.held_out)
        return 0 if self.robustness == 0 else found.best_robust


def _said_by(fits: Sequence[LinearFit]) -> Callable[[Any], Array]:
    """X ↦ what each model says of the rows: values (n, 1, C), or probabilities (n, K, C)."""

    def said(X: Any) -> Array:
        return np.stack([_said(fit, X) for fit in fits], axis=-1)

    return said


def _said(found: LinearFit, X: Any) -> Array:
    """What the model says of the rows: values (n, 1), or probabilities (n, K)."""
    model = found.model
    return model.scores(X)[:, None] if model.classes is None else model.predict_proba(X)


def _apart(together: Array) -> Iterator[Array]:
    """What each model says, (n,) or (n, K)."""
    for c in range(together.shape[-1]):
        said = np.ascontiguousarray(together[..., c])
        yield said[:, 0] if said.shape[1] == 1 else said
