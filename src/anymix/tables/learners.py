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
from anymix.estimators.fitting import LinearFit, Settings, fit_problem
from anymix.estimators.ordinary import GAMMAS, ordinary_model
from anymix.estimators.overfitting import overfit_message
from anymix.estimators.searching import (
    ROBUST_GAMMAS,
    ROBUSTNESS,
    Found,
    Plan,
    candidates_of,
    search,
)
from anymix.mixtures import MixtureSet
from anymix.problem.dealing import deal, sample, sorted_rows
from anymix.problem.rows import ALL, Part, Rows, dense_if_small
from anymix.tables.splits import check_splits

Array = NDArray[np.float64]

__all__ = ["WITHOUT", "Learned", "Learner", "LinearLearner"]

ROWS_TO_CHOOSE = 10_000  # rows by which models are chosen, about
FOLDS, REPEATS = 5, 2  # of the choice: the model saved is chosen by both repeats, others by one
WITHOUT = "the ordinary model without the domain"


@dataclass(frozen=True, eq=False)
class Learned:
    """The model of all rows.

    Parameters
    ----------
    choice : Choice or BoostedChoice
        What was chosen, and from what.
    fit : LinearFit or BoostedFit
        The model.
    gamma : float or None
        γ of a linear model.
    warning : str or None
        If it rests on few rows.
    """

    choice: Any
    fit: Any
    gamma: float | None = None
    warning: str | None = None


class Learner(Protocol):
    """Learns from a part of a table what to say of the rest, and then the model of all rows."""

    def part(
        self, rows: Rows, part: Part, held_out: Part, alone: bool
    ) -> tuple[dict[str, Array], Any]:
        """What the models of a part say of the rows it holds out, and what to keep of it.

        "ordinary", "chosen" and "best robust" are values (n,) or probabilities (n, K). `alone` says
        that there is no other part.
        """

    def whole(self, rows: Rows, kept: Any, plain: bool) -> Learned:
        """The model of all rows, chosen anew unless something of one part is kept.

        `plain` asks for the ordinary one: where rows that no part had seen speak against the other.
        """


@dataclass(frozen=True, eq=False)
class LinearLearner:
    """Linear models: Λ, and γ, t and the use of the domain if they are given.

    Parameters
    ----------
    mixtures : MixtureSet
        Λ.
    gamma : float or None
        γ of all models; None chooses.
    robustness : float or None
        t of the robust model; None chooses.
    use_domain : "intercept", "slopes" or None
        Whether the domain is a feature.
    """

    mixtures: MixtureSet
    gamma: float | None
    robustness: float | None
    use_domain: Kind

    def part(
        self, rows: Rows, part: Part, held_out: Part, alone: bool
    ) -> tuple[dict[str, Array], tuple[Found, int]]:
        """What the models of a part say of the rows it holds out, and how they were chosen."""
        wide = rows.mapped(partial(widened, kind=self.use_domain))
        found = _searched(wide, part, self._plan, REPEATS if alone else 1)
        index = self._place(found)
        places = {"ordinary": 0, "chosen": index, "best robust": found.best_robust}
        problem = wide.to_fit(part).merged()
        fits = fit_candidates(wide, problem, found, places.values(), self._plan, self._settings)
        said_by = _said_by([fits[place] for place in sorted(set(places.values()))])
        together = wide.applied(said_by, held_out)
        by_place = dict(zip(sorted(set(places.values())), _apart(together), strict=True))
        said = {name: by_place[place] for name, place in places.items()}
        if self.use_domain is not None:
            said[WITHOUT] = self._without_domain(rows, part, held_out)
        return said, (found, index)

    def whole(self, rows: Rows, kept: tuple[Found, int] | None, plain: bool) -> Learned:
        """The model of all rows, chosen anew unless the choice of one part is kept."""
        wide = rows.mapped(partial(widened, kind=self.use_domain))
        if kept is None:
            found = _searched(wide, ALL, self._plan, REPEATS)
            kept = found, self._place(found)
        problem = wide.to_fit()
        choice = fit_choice(wide, *kept, self._plan, self._settings, problem)
        if plain and self.robustness is None:
            choice = choice.kept()
        gamma = choice.candidate.gamma
        fit = choice.fit.with_deviations(self.use_domain, rows.n_features)
        if self.gamma is None:  # chosen by rows held out, which would have told
            return Learned(choice, fit, gamma)
        warning = overfit_message(problem, choice.fit.solution, gamma, "squared")
        return Learned(choice, fit, gamma, warning)

    @property
    def _settings(self) -> Settings:
        return Settings(self.mixtures)

    @property
    def _plan(self) -> Plan:
        """What to try: a γ or a t that is given is the only one."""
        t = (self.robustness,) if self.robustness else ROBUSTNESS  # to show beside 0 at least
        if self.gamma is None:
            return Plan(candidates_of(t, ROBUST_GAMMAS, to_zero=True), self.mixtures)
        return Plan(
            candidates_of(t, (self.gamma,)),
            self.mixtures,
            anchor=None,
            ordinary_gammas=(self.gamma,),
        )

    def _place(self, found: Found) -> int:
        """The place of the candidate to take: the guard's, or the best of the t that is given."""
        if self.robustness is None:
            return found.held_out.choose("guard")
        return 0 if self.robustness == 0 else found.best_robust

    def _without_domain(self, rows: Rows, part: Part, held_out: Part) -> Array:
        """What the ordinary model says that may not use the domain."""
        gammas = GAMMAS if self.gamma is None else (self.gamma,)
        gamma, solution = ordinary_model(_sampled(rows, part), gammas=gammas, tol=1e-4)
        settings = replace(self._settings, gamma=gamma, robustness=0.0)
        found = fit_problem(rows.to_fit(part), settings, start=solution)
        return next(_apart(rows.applied(_said_by([found]), held_out)))


def _sampled(rows: Rows, part: Part) -> Rows:
    """The rows of a part, or if they are many a fair sample, by which models are chosen."""
    few = rows.take(sample(rows, ROWS_TO_CHOOSE, np.random.default_rng(0), part))
    return replace(few, X=dense_if_small(few.X))


def _searched(rows: Rows, part: Part, plan: Plan, repeats: int) -> Found:
    """The candidates judged on held-out rows of (a sample of) a part."""
    few = _sampled(rows, part)
    deals = [
        list(deal(sorted_rows(few, np.random.default_rng(i) if i else None), FOLDS))
        for i in range(repeats)
    ]
    check_splits(few, deals[0])
    return search(few, deals, plan)


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
