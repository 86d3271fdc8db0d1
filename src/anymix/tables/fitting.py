"""A table fitted and judged: an ordinary model, and a robust one where that is really better."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing import Audit, Comparison, audit, compare
from anymix.auditing.verdicts import verdict
from anymix.estimators.choices import Choice, fit_candidates, fit_choice
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
from anymix.mixtures.choosing import Mixtures, target_mixtures
from anymix.problem.dealing import deal, sample, sorted_rows
from anymix.problem.rows import Part, Rows, dense_if_small, take
from anymix.solvers.certificates import Certificate
from anymix.solvers.exact import Solution
from anymix.tables.columns import Features
from anymix.tables.models import TableModel
from anymix.tables.preparing import Table
from anymix.tables.splits import check_splits

Array = NDArray[np.float64]

__all__ = ["TableFit", "fit_table"]

ROWS_TO_CHOOSE = 10_000  # rows by which models are chosen, about
CONSTANT, WITHOUT = "a constant guess", "the ordinary model without the domain"
FOLDS, REPEATS = 5, 2  # of the choice: the model saved is chosen by both repeats, others by one


@dataclass(frozen=True, eq=False)
class TableFit:
    """The model to use, fitted to all rows, and how a robust one does beside the ordinary one.

    Parameters
    ----------
    model : TableModel
        The model to use: the ordinary one, unless a robust one is really better for the worst
        mixture on rows held out.
    choice : Choice
        What was chosen for all rows, and from what.
    audits : dict
        {"ordinary": Audit, "robust": Audit}, of rows that the models judged had not seen. Where
        the ordinary model is kept, "robust" is the best of the robust ones, which was not taken.
    beside : dict
        {"a constant guess": Audit}, of the mean, or the shares of the classes, of the rows fitted;
        and, where the domain is a feature, {"the ordinary model without the domain": Audit}.
    judged_on : str
        Which rows those are.
    notes : list of str
        What was done to the table.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"x": [0.0, 1.0] * 20, "d": list("aabb") * 10, "y": list("ny") * 20})
    >>> found = fit_table(table, "y", ["d"])
    >>> found.judged_on
    'all rows, in 5 parts, each predicted by models that had not seen it'
    >>> found.certificate.gap < 1e-6, sorted(found.audits), found.choice.is_ordinary
    (True, ['ordinary', 'robust'], True)
    """

    model: TableModel
    choice: Choice
    audits: dict[str, Audit]
    beside: dict[str, Audit]
    judged_on: str
    notes: list[str]

    @property
    def gamma(self) -> float:
        """γ, the weight of ½‖w‖² that the model was fitted with."""
        return self.model.gamma

    @property
    def solution(self) -> Solution:
        """What the solver found: w, the worst mixture, the certificate and the history."""
        return self.model.fit.solution

    @property
    def certificate(self) -> Certificate:
        """The proof that no model of this kind has a smaller objective on all rows."""
        return self.solution.certificate

    @property
    def comparison(self) -> Comparison:
        """The robust model against the ordinary one."""
        names = ("ordinary", "robust")
        return compare(self.audits["ordinary"], self.audits["robust"], names)

    @property
    def verdict(self) -> str:
        """The first thing to say: who gains and who pays how much, or that there is no gain."""
        return verdict(self.comparison, self.choice.is_ordinary, self.beside[CONSTANT])


def fit_table(
    frame: Any,
    target: str,
    domains: Sequence[str],
    *,
    mixtures: Mixtures = "simplex",
    gamma: float | None = None,
    robustness: float | None = None,
    use_domain: Kind = None,
    task: str = "auto",
    drop: Sequence[str] = (),
    min_rows: int = 1,
    folds: int | None = None,
    holdout: float | None = None,
    test: Any = None,
    progress: Callable[[str], None] = lambda step: None,
) -> TableFit:
    """The model of a table that rows held out recommend: ordinary, or for the worst mixture.

    min_w max_{λ∈Λ_t} Σ_k λ_k L_k(w) + γ R(w − a) for the domains k, as in AgnosticClassifierCV: t
    and γ are chosen by rows held out, and the ordinary model, t = 0, is kept unless a robust one is
    really better there. Both are judged on rows that had no part in the choice either.

    Means, medians, scales and levels are learnt from the rows to fit alone, so what is held out is
    new to the models in every way. The model returned learns them from all rows; in a holdout of
    more than 20,000 rows it keeps those of the rows fitted, so that the frame can be let go.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table; one of polars or another library will do. All columns but the target, the
        domains and `drop` are features.
    target : str
        The column to predict.
    domains : sequence of str
        The columns whose values, or their combinations, are the domains.
    mixtures : str, MixtureSet, function or None
        Λ: words such as "chi2:2.0" as `mixture_set` reads them, a set, or a function of sizes.
    gamma : float or None
        Weight of ½‖w‖², for all models. None chooses one for the ordinary model, and one of
        ½‖w − a‖² for the robust ones, a being the ordinary model.
    robustness : float or None
        t from 0 (the ordinary model) to 1 (all of Λ); None chooses it.
    use_domain : "intercept", "slopes" or None
        Make the domain a feature of both models, as `domain_features` of AgnosticClassifier; the
        domains' columns are then needed to predict.
    task : str
        "classify", "regress" or "auto": strings and up to ten whole numbers are classes.
    drop : sequence of str
        Columns not to learn from.
    min_rows : int
        Domains with fewer rows are put together.
    folds : int or None
        Judge by so many folds; with no way to judge given, 5 up to 20,000 rows.
    holdout : float or None
        Judge on this share of the rows; with no way to judge given, 0.25 beyond 20,000 rows.
    test : pandas.DataFrame or None
        Judge on the rows of this frame.
    progress : function
        Called with a word on what comes next.

    Returns
    -------
    TableFit

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> x, region = rng.normal(size=400), rng.choice(["north", "south"], 400, p=[0.9, 0.1])
    >>> z = np.where(region == "north", 3 * x, -3 * x)
    >>> bought = np.where(z + rng.logistic(size=400) > 0, "yes", "no")
    >>> table = pd.DataFrame({"x": x, "region": region, "bought": bought})
    >>> found = fit_table(table, "bought", ["region"])
    >>> {name: round(audit.agnostic_loss, 1) for name, audit in found.audits.items()}
    {'ordinary': 1.5, 'robust': 0.7}
    """
    progress("preparing the columns")
    table = Table(frame, target, domains, task, drop, min_rows)
    sizes, names = table.rows.sizes(), table.rows.names
    if test is None:
        table.deal(folds, holdout)
    else:
        table.follow_with(test)
    del frame, test  # the table lets go of them when it can
    check_splits(table.rows, table.splits)
    asked = _Asked(target_mixtures(mixtures, None, sizes, names), gamma, robustness, use_domain)
    said, last = _judged(table, asked, progress)
    progress("the model of all rows")
    features, choice, warning = _of_all_rows(table, last, asked)
    said["robust"] = said.pop("best robust" if choice.is_ordinary else "chosen")
    audits = _audits(table, said, asked.mixtures)
    beside = {name: audits.pop(name) for name in (CONSTANT, WITHOUT) if name in audits}
    model = TableModel(
        features,
        choice.fit.with_deviations(use_domain, len(features.titles)),
        choice.candidate.gamma,
        table.target,
        table.domains,
        tuple(table.merged),
    )
    notes = table.notes + ([warning] if warning else [])
    return TableFit(model, choice, audits, beside, table.judged_on, notes)


@dataclass(frozen=True, eq=False)
class _Asked:
    """What the models are to be: Λ, and γ, t and the use of the domain if they are given."""

    mixtures: MixtureSet
    gamma: float | None
    robustness: float | None
    use_domain: Kind

    @property
    def settings(self) -> Settings:
        return Settings(self.mixtures)

    @property
    def plan(self) -> Plan:
        """What to try: a γ or a t that is given is the only one."""
        t = ROBUSTNESS if self.robustness is None else (self.robustness,)
        if self.gamma is None:
            return Plan(candidates_of(t, ROBUST_GAMMAS, to_zero=True), self.mixtures)
        return Plan(
            candidates_of(t, (self.gamma,)),
            self.mixtures,
            anchor=None,
            ordinary_gammas=(self.gamma,),
        )

    def place(self, found: Found) -> int:
        """The place of the candidate to take: the guard's, or the best of the t that is given."""
        if self.robustness is None:
            return found.held_out.choose("guard")
        return 0 if self.robustness == 0 else found.best_robust


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A part that was fitted, and what was found in it."""

    rows: Rows  # all of them, with X
    features: Features
    found: Found
    index: int  # of the candidate chosen


def _judged(
    table: Table, asked: _Asked, progress: Callable[[str], None]
) -> tuple[dict[str, list[Array]], _Fitted]:
    """What the models say of the rows held out, and the last part that was fitted."""
    said: dict[str, list[Array]] = {}
    for number, (part, held_out) in enumerate(table.splits, start=1):
        progress(f"choosing and fitting, part {number} of {len(table.splits)}")
        fitted = None  # lets go of the last part's X before the next is made
        features = table.learnt_from(part)
        narrow = table.with_numbers(features)
        if not table.is_kept:
            table.let_go()
        rows = widened(narrow, asked.use_domain)
        repeats = REPEATS if len(table.splits) == 1 else 1
        found = _searched(rows, part, asked.plan, repeats)
        fitted = _Fitted(rows, features, found, asked.place(found))
        for name, values in _part_said(fitted, part, held_out, asked).items():
            said.setdefault(name, []).append(values)
        if asked.use_domain is not None:
            said.setdefault(WITHOUT, []).append(_without_domain(narrow, part, held_out, asked))
        del rows, narrow
    assert fitted is not None  # there is a part
    return said, fitted


def _part_said(fitted: _Fitted, part: Part, held_out: Part, asked: _Asked) -> dict[str, Array]:
    """What the models of one part say of the rows that it holds out."""
    rows, found = fitted.rows, fitted.found
    places = {"ordinary": 0, "chosen": fitted.index, "best robust": found.best_robust}
    problem = rows.to_fit(part).merged()
    wanted = places.values()
    fits = fit_candidates(rows, problem, found, wanted, asked.plan, asked.settings)
    X = take(rows.X, held_out)
    said = {name: _said(fits[place], X) for name, place in places.items()}
    return said | {CONSTANT: _constant(rows, part, X.shape[0])}


def _without_domain(rows: Rows, part: Part, held_out: Part, asked: _Asked) -> Array:
    """What the ordinary model says that may not use the domain."""
    few = _sampled(rows, part)
    gammas = GAMMAS if asked.gamma is None else (asked.gamma,)
    gamma, solution = ordinary_model(few, gammas=gammas, tol=1e-4)
    settings = replace(asked.settings, gamma=gamma, robustness=0.0)
    found = fit_problem(rows.to_fit(part), settings, start=solution)
    return _said(found, take(rows.X, held_out))


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


def _of_all_rows(table: Table, last: _Fitted, asked: _Asked) -> tuple[Features, Choice, str | None]:
    """The model of all rows of the table, and a warning if it rests on few of them."""
    rows, features, found, index = last.rows, last.features, last.found, last.index
    everything = slice(0, table.n)
    if table.is_kept:
        features = table.features
        rows = widened(table.with_numbers(features), asked.use_domain)
    if len(table.splits) > 1:
        found = _searched(rows, everything, asked.plan, REPEATS)
        index = asked.place(found)
    whole = rows.take(everything) if table.has_test else rows
    choice = fit_choice(whole, found, index, asked.plan, asked.settings)
    if asked.gamma is None:  # chosen by rows held out, which would have told
        return features, choice, None
    solution = choice.fit.solution
    return features, choice, overfit_message(whole.to_fit(), solution, asked.gamma, "squared")


def _said(found: LinearFit, X: Any) -> Array:
    """What the model says of the rows: values (n,), or probabilities (n, K)."""
    model = found.model
    return model.scores(X) if model.classes is None else model.predict_proba(X)


def _constant(rows: Rows, part: Part, n: int) -> Array:
    """The mean or the shares of the classes of a part, said of n rows."""
    y = rows.y[part]
    if rows.classes is None:
        return np.full(n, y.mean())
    return np.tile(np.bincount(y, minlength=len(rows.classes)) / len(y), (n, 1))


def _audits(
    table: Table, said: Mapping[str, Sequence[Array]], mixtures: MixtureSet
) -> dict[str, Audit]:
    """What was said of the rows held out, against what is true."""
    held = [np.arange(len(table.rows))[part] for _, part in table.splits]
    judged = np.concatenate(held)
    shown = [name for name in ("ordinary", "robust", CONSTANT, WITHOUT) if name in said]
    return {k: _audit(table.rows, np.concatenate(said[k]), judged, mixtures) for k in shown}


def _audit(rows: Rows, said: Array, judged: NDArray[np.intp], mixtures: MixtureSet) -> Audit:
    """What was said of the rows judged, against what is true."""
    found = audit(
        rows.y[judged],
        said,
        rows.domains.key()[judged],
        mixtures=mixtures,
        loss="squared" if rows.classes is None else "log",
        classes=None if rows.classes is None else np.arange(len(rows.classes)),
    )
    return replace(found, domain_names=tuple(rows.names.tolist()))
