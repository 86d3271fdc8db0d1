"""A table fitted and judged: an ordinary model, and a robust one where that is really better."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anymix.auditing import Audit, Comparison, audit, compare
from anymix.auditing.side_by_side import KNOWN, ORDINARY, RECOMMENDED, SideBySide
from anymix.auditing.verdicts import verdict
from anymix.errors import InputError
from anymix.estimators.domain_features import Kind
from anymix.estimators.fitting import LinearFit
from anymix.mixtures import MixtureSet
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.problem.rows import Part, Rows
from anymix.selection.recommendation import Recommendation
from anymix.solvers.certificates import Certificate
from anymix.tables.columns import Features
from anymix.tables.learners import WITH, WITHOUT, Learned, Learner, LinearLearner
from anymix.tables.models import TableModel
from anymix.tables.preparing import Table, weighted_rows
from anymix.tables.splits import check_splits

Array = NDArray[np.float64]
CONSTANT = "a constant guess"
REFERENCE = "reference"  # of "auto": what is used where nothing is recommended

__all__ = ["Step", "TableFit", "fit_table"]


class Step(str):
    """A word on what comes next, that also knows what share of the work is done."""

    __slots__ = ("share",)
    share: float

    def __new__(cls, words: str, share: float) -> Self:
        """The words, with their share."""
        step = super().__new__(cls, words)
        step.share = share
        return step


@dataclass(frozen=True, eq=False)
class TableFit:
    """The model to use, fitted to all rows, and how a robust one does beside the ordinary one.

    Parameters
    ----------
    model : TableModel
        The model to use: the ordinary one, unless a robust one is really better for the worst
        mixture on rows held out.
    choice : Choice, BoostedChoice or AutoChoice
        What was chosen for all rows, and from what.
    audits : dict
        {"ordinary": Audit, "robust": Audit}, of rows that the models judged had not seen. Where
        the ordinary model is kept, "robust" is the best of the robust ones, which was not taken.
        Of model "auto": "ordinary", "recommended" and "domain known".
    beside : dict
        {"a constant guess": Audit}, of the mean, or the shares of the classes, of the rows fitted;
        and {"the ordinary model with the domain": Audit}, or without it where it is a feature.
    judged_on : str
        Which rows those are.
    notes : list of str
        What was done to the table.
    asked : bool
        Whether t was given, so that rows held out did not choose it.

    Examples
    --------
    >>> import pandas as pd
    >>> y = list("ny") * 16 + list("yn") * 4  # x tells as much of it in both domains
    >>> table = pd.DataFrame({"x": [0.0, 1.0] * 20, "d": list("aabb") * 10, "y": y})
    >>> found = fit_table(table, "y", ["d"])
    >>> found.judged_on
    'all rows, in 5 parts, each predicted by models that had not seen it'
    >>> found.certificate.gap < 1e-6, sorted(found.audits), found.choice.is_ordinary
    (True, ['ordinary', 'robust'], True)
    """

    model: TableModel
    choice: Any
    audits: dict[str, Audit]
    beside: dict[str, Audit]
    judged_on: str
    notes: list[str]
    asked: bool = False

    @property
    def gamma(self) -> float | None:
        """γ that the model was fitted with; None for trees."""
        return self.model.gamma

    @property
    def robustness(self) -> float:
        """t of the model: 0 is the ordinary one."""
        return float(self.choice.robustness)

    @property
    def solution(self) -> Any:
        """The Solution that the solver found, with w, λ and the history; None for trees."""
        return self.model.fit.solution if isinstance(self.model.fit, LinearFit) else None

    @property
    def certificate(self) -> Certificate:
        """The proof that no model of this kind has a smaller objective on all rows.

        Of trees: how far the model is from the best draw among those fitted, on rows held out. None
        of "auto".
        """
        found: Certificate = self.choice.certificate  # Any: "auto" has none
        return found

    @property
    def recommendation(self) -> Recommendation | None:
        """What "auto" chose for all rows, and from what; None for other kinds of models."""
        estimator = self.choice.estimator if RECOMMENDED in self.audits else None
        return None if estimator is None else estimator.recommendation_

    @property
    def comparison(self) -> Comparison:
        """The robust (or recommended) model against the ordinary one."""
        other = "robust" if "robust" in self.audits else RECOMMENDED
        return compare(self.audits[ORDINARY], self.audits[other], (ORDINARY, other))

    @property
    def side_by_side(self) -> SideBySide | None:
        """The models of "auto" beside each other; None for other kinds of models."""
        if RECOMMENDED not in self.audits:
            return None
        return SideBySide(self.audits, self.beside[CONSTANT])

    @property
    def verdict(self) -> str:
        """The first thing to say: who gains and who pays how much, or that there is no gain."""
        side_by_side = self.side_by_side
        if side_by_side is not None:
            return side_by_side.advice()
        kept, floor = self.choice.is_ordinary, self.beside[CONSTANT]
        said = verdict(self.comparison, kept, floor, self.robustness if self.asked else None)
        if WITH not in self.beside:
            return said
        audits = {ORDINARY: self.audits[ORDINARY], KNOWN: self.beside[WITH]}
        return f"{said} {SideBySide(audits, floor).known()}"


def fit_table(
    frame: Any,
    target: str,
    domains: Sequence[str],
    *,
    mixtures: Mixtures = "simplex",
    model: str = "linear",
    gamma: float | None = None,
    robustness: float | None = None,
    use_domain: Kind = None,
    task: str = "auto",
    drop: Sequence[str] = (),
    min_rows: int = 1,
    drop_missing_domain: bool = False,
    group: str | None = None,
    class_weight: str | Mapping[str, float] | None = None,
    evaluation: Any = None,
    n_jobs: int = 1,
    progress: Callable[[str], None] = lambda step: None,
) -> TableFit:
    """The model of a table that rows held out recommend: ordinary, or for the worst mixture.

    min_w max_{λ∈Λ_t} Σ_k λ_k L_k(w) + γ R(w − a) for the domains k, as in AgnosticClassifierCV: t
    and γ are chosen by rows held out, and the ordinary model, t = 0, is kept unless a robust one is
    really better there. Both are judged on rows whose losses had no say in the choice.

    Means, medians, scales and levels are learnt from the rows to fit alone, so what is held out is
    new to the models in every way. The model returned learns them from all rows; in a holdout of
    more than 20,000 rows it keeps those of the rows fitted, so that the frame can be let go.

    Parameters
    ----------
    frame : pandas.DataFrame, Spool or function
        The table; one of polars or another library will do, or a table on disk of
        `anymix.tables.spooling`. All columns but the target, the domains and `drop` are features.
        A function without arguments that returns it saves memory: then nobody else holds the
        table, and it can be let go of while models are fitted.
    target : str
        The column to predict.
    domains : sequence of str
        The columns whose values, or their combinations, are the domains.
    mixtures : str, MixtureSet, function or None
        Λ: words such as "chi2:2.0" as `mixture_set` reads them, a set, or a function of sizes.
    model : str
        "auto" for AnyMixClassifier or AnyMixRegressor, "linear", or "boosted" for boosted trees.
        "auto" needs all rows in memory and has no γ, t or `use_domain`: its model takes the domains
        where they are known, and does not need them.
    gamma : float or None
        Weight of ½‖w‖², for all linear models. None chooses one for the ordinary model, and one of
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
        Domains with fewer rows are put together; if these are too few to judge still, with
        the next smallest domains.
    drop_missing_domain : bool
        Leave out rows whose domain is missing, instead of making these a domain.
    group : str or None
        The column, such as a patient's number, whose rows of one value are never in two parts.
    class_weight : "balanced", mapping or None
        Weights of the rows by their class: "balanced" makes all classes count alike, a mapping
        gives one for each class; None is 1. The judging rows count alike.
    evaluation : int, float, pandas.DataFrame, function or None
        The rows to judge on: so many folds (a whole number), a share held out (inside (0, 1)), or
        a table of their own, given as `frame` is. None is 5 up to 20,000 rows and 0.25 beyond.
    n_jobs : int
        How many processes share the folds that choose (of linear models) and the parts that are
        judged; the numbers do not depend on it.
    progress : function
        Called with a word on what comes next, a `str` whose `.share` says how much is done.

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
    >>> {name: round(audit.agnostic_loss, 2) for name, audit in found.audits.items()}
    {'ordinary': 1.48, 'robust': 0.69}
    """
    progress(Step("preparing the columns", 0.1))
    table = _prepared(frame, target, domains, task, drop, min_rows, drop_missing_domain, group)
    sizes, names = table.rows.sizes(), table.rows.names
    if evaluation is None or isinstance(evaluation, int | float | np.integer):
        table.deal(evaluation)
    else:
        table.follow_with(evaluation)
    del frame, evaluation  # the table lets go of them when it can
    check_splits(table.rows, table.splits)
    target_set = target_mixtures(mixtures, None, sizes, names)
    learner = _learner(model, target_set, gamma, robustness, use_domain, table.groups, n_jobs)
    table.rows = weighted_rows(table.rows, class_weight, hasattr(table.frame, "stretches"))
    said, last = _judged(table, learner, progress, n_jobs)
    audits = _audits(table, said, target_set)
    progress(Step("the model of all rows", 0.9))
    features, learned = _of_all_rows(table, last, learner, _speaks_against(audits))
    _keep_shown(audits, learned.choice.is_ordinary)
    beside = {name: audits.pop(name) for name in (CONSTANT, WITH, WITHOUT) if name in audits}
    place = table.target, table.domains, tuple(table.merged), learned.choice.robustness
    saved = TableModel(features, learned.fit, learned.gamma, *place)
    notes = table.notes + table.closing_notes + ([learned.warning] if learned.warning else [])
    given = robustness is not None
    return TableFit(saved, learned.choice, audits, beside, table.judged_on, notes, given)


def _prepared(frame: Any, *arguments: Any) -> Table:
    """The table in memory, or on disk if the frame is a Spool."""
    if not hasattr(frame, "stretches"):
        return Table(frame, *arguments)
    from anymix.tables.on_disk import OnDiskTable  # loads the solver for rows on a disk

    return OnDiskTable(frame, *arguments)


def _keep_shown(audits: dict[str, Audit], is_ordinary: bool) -> None:
    """Leave those of the models to show, by the names they are shown by."""
    if RECOMMENDED in audits:
        reference = audits.pop(REFERENCE)
        if is_ordinary:
            audits[RECOMMENDED] = reference
        return
    best, chosen = audits.pop("best robust"), audits.pop("chosen")
    audits["robust"] = best if is_ordinary else chosen


def _speaks_against(audits: Mapping[str, Audit]) -> bool:
    """Whether what was chosen is no better for the worst mixture, on rows that did not choose.

    Or worse than a constant guess, where it was to help: on the worst mixture of the other model.
    AnyMix allows that where the reference is worse than the guess, too.
    """
    of = (RECOMMENDED, REFERENCE) if RECOMMENDED in audits else ("chosen", "ordinary")
    chosen, reference = (audits[name] for name in of)
    lam = reference.worst_mixture
    guess = float(lam @ audits[CONSTANT].domain_losses)
    no_gain = chosen.agnostic_loss >= reference.agnostic_loss
    allowed = RECOMMENDED in audits and float(lam @ reference.domain_losses) > guess
    return no_gain or (not allowed and float(lam @ chosen.domain_losses) > guess)


def _learner(
    model: str,
    mixtures: MixtureSet,
    gamma: float | None,
    robustness: float | None,
    use_domain: Kind,
    groups: NDArray[Any] | None,
    n_jobs: int,
) -> Learner:
    if model == "auto":
        from anymix.tables.auto import AutoLearner  # loads both kinds of models

        given = {"gamma": gamma, "robustness": robustness, "use_domain": use_domain}
        for name, value in given.items():
            if value is not None:
                fix = "leave it out, or take the model 'linear'"
                raise InputError(name, f"is {value!r}, which the model 'auto' has not", fix)
        return AutoLearner(mixtures, groups, n_jobs)
    if model == "linear":
        return LinearLearner(mixtures, gamma, robustness, use_domain, groups, n_jobs)
    if model != "boosted":
        raise InputError("model", f"is {model!r}", "give 'auto', 'linear' or 'boosted'")
    from anymix.tables.boosting import BoostedLearner, check_boosted  # few ask for trees

    check_boosted(gamma, robustness, use_domain)
    return BoostedLearner(mixtures, robustness, use_domain, groups)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A part that was fitted, and what chose its models."""

    rows: Rows  # all of them, with X if it is not made anew
    features: Features
    searched: Any


def _judged(
    table: Table, learner: Learner, progress: Callable[[str], None], n_jobs: int
) -> tuple[dict[str, list[Array]], _Fitted]:
    """What the models say of the rows held out, and the last part that was fitted."""
    # Several parts are judged by one search of all rows, of which a part's choice looks only at
    # losses of rows that it does not judge.
    count = len(table.splits)
    if count > 1:
        return _judged_by_parts(table, learner, progress, n_jobs)
    progress(Step("choosing and fitting", 0.2))
    (part, held_out), features = table.splits[0], table.learnt_from(table.splits[0][0])
    rows = table.with_numbers(features)
    if not table.is_kept:
        table.let_go()
    searched = learner.search(rows, part)
    found = _said_of_part(learner, rows, part, held_out, searched)
    return {name: [values] for name, values in found.items()}, _Fitted(rows, features, searched)


def _judged_by_parts(
    table: Table, learner: Learner, progress: Callable[[str], None], n_jobs: int
) -> tuple[dict[str, list[Array]], _Fitted]:
    """The same for several parts, which processes may share."""
    progress(Step("choosing between ordinary and robust models", 0.2))
    searched = learner.search(table.with_numbers(table.features))
    count = len(table.splits)

    def fitted(number: int) -> dict[str, Array]:
        progress(Step(f"judging, part {number + 1} of {count}", 0.6 + 0.3 * number / count))
        return _fitted_part(table, learner, searched, number)

    if n_jobs == 1:
        found = [fitted(number) for number in range(count)]
    else:
        from joblib import Parallel, delayed  # few ask for processes

        progress(Step(f"judging, {count} parts", 0.6))
        work = delayed(_fitted_part)
        jobs = (work(table, learner, searched, number) for number in range(count))
        found = Parallel(n_jobs=n_jobs)(jobs)
    said = {name: [each[name] for each in found] for name in found[0]}
    return said, _Fitted(table.rows, table.features, searched)


def _fitted_part(table: Table, learner: Learner, searched: Any, number: int) -> dict[str, Array]:
    """What the models of one part say of the rows it holds out."""
    part, held_out = table.splits[number]
    rows = table.with_numbers(table.learnt_from(part))
    return _said_of_part(learner, rows, part, held_out, searched)


def _said_of_part(
    learner: Learner, rows: Rows, part: Part, held_out: Part, searched: Any
) -> dict[str, Array]:
    """The same with what a constant guess says."""
    found = learner.part(rows, part, held_out, searched)
    return found | {CONSTANT: _constant(rows, part, held_out)}


def _of_all_rows(
    table: Table, last: _Fitted, learner: Learner, plain: bool
) -> tuple[Features, Learned]:
    """The model of all rows of the table; what one part has chosen holds for all of them."""
    rows, features = last.rows, last.features
    if table.is_kept:
        features = table.features
        rows = table.with_numbers(features)
    whole = rows.first(table.n) if table.has_test else rows
    return features, learner.whole(whole, last.searched, plain)


def _constant(rows: Rows, part: Part, held_out: Part) -> Array:
    """The mean or the shares of the classes of a part, said of the rows held out."""
    y, n = rows.y[part], len(rows.y[held_out])
    if rows.classes is None:
        return np.full(n, y.mean())
    return np.tile(np.bincount(y, minlength=len(rows.classes)) / len(y), (n, 1))


def _audits(table: Table, said: dict[str, list[Array]], mixtures: MixtureSet) -> dict[str, Audit]:
    """What was said of the rows held out, against what is true; `said` is emptied on the way."""
    held = [np.arange(len(table.rows))[part] for _, part in table.splits]
    judged = np.concatenate(held)
    alike = {name: tuple(map(id, values)) for name, values in said.items()}  # while all are there
    found: dict[str, Audit] = {}
    for name in list(said):
        values = said.pop(name)
        same = [k for k in found if alike[k] == alike[name]]
        if same:
            found[name] = found[same[0]]
            continue
        whole = values[0] if len(values) == 1 else np.concatenate(values)
        del values  # nobody needs it twice
        found[name] = _audit(table.rows, whole, judged, mixtures)
        del whole
    return found


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
