"""A table fitted and judged: the model for any mixture of its domains, beside an ordinary one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing.audits import Audit, Comparison, audit, compare
from anymix.estimators.fitting import LinearFit, Settings, fit_problem
from anymix.estimators.overfitting import overfit_message
from anymix.estimators.searching import Path, search
from anymix.mixtures import MixtureSet
from anymix.mixtures.choosing import Mixtures, data_mixture, target_mixtures
from anymix.problem.dealing import deal, sample
from anymix.problem.rows import Part, Rows, dense_if_small, take
from anymix.solvers.certificates import Certificate
from anymix.solvers.exact import Solution
from anymix.tables.columns import Features
from anymix.tables.models import TableModel
from anymix.tables.preparing import Table
from anymix.tables.splits import check_splits

Array = NDArray[np.float64]

__all__ = ["TableFit", "fit_table"]

ROWS_TO_CHOOSE = 10_000  # rows on which γ is chosen, about
GAMMAS = (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5)
PATIENCE = 2  # γ in a row that are no better than a larger one: smaller ones are worse still
ROUGH = 1e-4  # a gap that changes no choice between such γ; models are fitted to 1e-6


@dataclass(frozen=True, eq=False)
class TableFit:
    """The model for any mixture, fitted to all rows, and how it does beside an ordinary one.

    Parameters
    ----------
    model : TableModel
        The model for any mixture, fitted to all rows.
    audits : dict
        {"ordinary": Audit, "agnostic": Audit}, of rows that the models judged had not seen.
    judged_on : str
        Which rows those are.
    notes : list of str
        What was done to the table.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"x": [0.0, 1.0] * 20, "d": list("aabb") * 10, "y": list("ny") * 20})
    >>> found = fit_table(table, "y", ["d"], gamma=0.01)
    >>> found.judged_on
    'all rows, in 5 parts, each predicted by models that had not seen it'
    >>> found.certificate.gap < 1e-6, sorted(found.audits)
    (True, ['agnostic', 'ordinary'])
    """

    model: TableModel
    audits: dict[str, Audit]
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
        """The agnostic model against the ordinary one."""
        names = ("ordinary", "agnostic")
        return compare(self.audits["ordinary"], self.audits["agnostic"], names)


def fit_table(
    frame: Any,
    target: str,
    domains: Sequence[str],
    *,
    mixtures: Mixtures = "simplex",
    gamma: float | None = None,
    task: str = "auto",
    drop: Sequence[str] = (),
    min_rows: int = 1,
    folds: int | None = None,
    holdout: float | None = None,
    test: Any = None,
    progress: Callable[[str], None] = lambda step: None,
) -> TableFit:
    """min_w max_{λ∈Λ} Σ_k λ_k L_k(w) + γ/2 ‖w‖² for the domains k of a frame, and how good it is.

    The model for any mixture is judged beside an ordinary one, on rows that neither has seen.

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
        Weight of ½‖w‖²; None chooses it by the worst mixture's loss on rows held out.
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
    {'ordinary': 1.5, 'agnostic': 0.7}
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
    sets = {
        "ordinary": data_mixture(sizes),
        "agnostic": target_mixtures(mixtures, None, sizes, names),
    }
    audits, last = _judged(table, sets, gamma, progress)
    progress("agnostic model, all rows")
    model, warning = _of_all_rows(table, last, sets["agnostic"], gamma)
    notes = table.notes + ([warning] if warning else [])
    return TableFit(model, audits, table.judged_on, notes)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A part that was fitted: a model and its γ for each Λ."""

    rows: Rows  # all of them, with X
    features: Features
    fits: dict[str, tuple[float, LinearFit]]
    warning: str | None  # if the agnostic model rests on few rows


def _judged(
    table: Table,
    sets: Mapping[str, MixtureSet],
    gamma: float | None,
    progress: Callable[[str], None],
) -> tuple[dict[str, Audit], _Fitted]:
    """Audits of both models on the rows held out, and the last part that was fitted."""
    said: dict[str, list[Array]] = {name: [] for name in sets}
    for number, (part, held_out) in enumerate(table.splits, start=1):
        progress(f"both models, part {number} of {len(table.splits)}")
        fitted = None  # lets go of the last part's X before the next is made
        features = table.learnt_from(part)
        rows = table.with_numbers(features)
        if not table.is_kept:
            table.let_go()
        fitted = _fit_part(rows, features, part, sets, gamma)
        for name, (_, found) in fitted.fits.items():
            said[name].append(_said(found, take(rows.X, held_out)))
        del rows
    assert fitted is not None  # there is a part
    held = [np.arange(len(table.rows))[part] for _, part in table.splits]
    judged = np.concatenate(held)
    audits = {
        name: _audit(table.rows, np.concatenate(said.pop(name)), judged, sets["agnostic"])
        for name in sets
    }
    return audits, fitted


def _fit_part(
    rows: Rows, features: Features, part: Part, sets: Mapping[str, MixtureSet], gamma: float | None
) -> _Fitted:
    """A model for each Λ, each with a γ of its own unless one is given."""
    chosen = _chosen(rows, part, sets) if gamma is None else dict.fromkeys(sets, (gamma, None))
    problem = rows.to_fit(part)
    merged, fits = problem.merged(), {}
    for name, Λ in sets.items():
        best, start = chosen[name]
        fits[name] = best, fit_problem(merged, Settings(Λ, best), start=start)
    best, found = fits["agnostic"]
    return _Fitted(rows, features, fits, overfit_message(problem, found.solution, best, "squared"))


def _chosen(
    rows: Rows, part: Part, sets: Mapping[str, MixtureSet]
) -> dict[str, tuple[float, Solution | None]]:
    """For each Λ the γ of least worst loss on held-out thirds of a sample, and where to start."""
    few = rows.take(sample(rows, ROWS_TO_CHOOSE, np.random.default_rng(0), part))
    few = replace(few, X=dense_if_small(few.X))
    thirds = list(deal(np.arange(len(few)), 3))
    check_splits(few, thirds)
    candidates = [(gamma, 0.0, None) for gamma in GAMMAS]
    paths = [Path(candidates, Λ, tol=ROUGH) for Λ in sets.values()]
    chosen: dict[str, tuple[float, Solution | None]] = {}
    for name, found in zip(sets, search(few, thirds, paths, PATIENCE), strict=True):
        best = found.best()
        chosen[name] = GAMMAS[best], found.solutions[best]
    return chosen


def _of_all_rows(
    table: Table, last: _Fitted, mixtures: MixtureSet, gamma: float | None
) -> tuple[TableModel, str | None]:
    """The model of all rows of the table, and a warning if it rests on few of them."""
    best, found = last.fits["agnostic"]
    if table.has_test:  # all rows are fitted already
        return TableModel(last.features, found, best, table.target, table.domains), last.warning
    rows, features, everything = last.rows, last.features, slice(0, table.n)
    if table.is_kept:
        features = table.features
        rows = table.with_numbers(features)
    start: Solution | None = found.solution
    if gamma is None and len(table.splits) > 1:
        best, start = _chosen(rows, everything, {"agnostic": mixtures})["agnostic"]
    problem = rows.to_fit(everything)
    if start is not None and start.w.size != problem.n_parameters:
        start = None  # all rows have a level more
    found = fit_problem(problem, Settings(mixtures, best), start=start)
    warning = overfit_message(problem, found.solution, best, "squared")
    return TableModel(features, found, best, table.target, table.domains), warning


def _said(found: LinearFit, X: Any) -> Array:
    """What the model says of the rows: values (n,), or probabilities (n, K)."""
    model = found.model
    return model.scores(X) if model.classes is None else model.predict_proba(X)


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
