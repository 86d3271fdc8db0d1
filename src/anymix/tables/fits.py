"""A table fitted and judged: the model for any mixture of its domains, beside an ordinary one.

`fit_table` fits both and audits them on rows they have not seen; `predict_table` and `audit_frame`
take frames of pandas too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.auditing.audits import Audit, Comparison, audit, compare, intersections
from anymix.estimators.fitting import overfit_message
from anymix.estimators.linear import AgnosticClassifier, AgnosticRegressor
from anymix.mixtures.choosing import mixture_set
from anymix.mixtures.sets import MixtureSet, Point
from anymix.problem.arrays import encode
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import SquaredError
from anymix.solvers.certificates import Certificate
from anymix.solvers.exact import solve
from anymix.tables.columns import OTHER, Features, level_codes, numbers_of
from anymix.tables.files import column, pandas

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Part = Rows | slice  # rows by number, or a stretch of them
Split = tuple[Part, Part]  # to fit, to judge on

__all__ = [
    "TableFit",
    "TableModel",
    "audit_frame",
    "domain_labels",
    "fit_table",
    "merge_small",
    "predict_table",
]

MOST_DOMAINS = 1_000
ROWS_TO_CHOOSE = 10_000  # rows on which γ is chosen, about
ROWS_TO_FOLD = 20_000  # up to here every row is held out once, beyond it a quarter of them
GAMMAS = (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5)


# Domains, mixtures and targets -----------------------------------------------------------------


def domain_labels(frame: Any, names: Sequence[str]) -> NDArray[Any]:
    """The domain of every row, (n,): a column's value, or the combination of several columns'.

    >>> import pandas as pd
    >>> domain_labels(pd.DataFrame({"sex": ["F", "M"], "age": [30, None]}), ["sex", "age"])
    array(['sex=F, age=30', 'sex=M, age=(missing)'], dtype=object)
    """
    columns = {name: _domain_column(name, column(frame, name)) for name in names}
    return np.asarray(intersections(columns, len(frame))[0])


def _domain_column(name: str, values: Any) -> NDArray[Any]:
    distinct = values.nunique()
    if distinct > MOST_DOMAINS:
        raise ValueError(
            f"column {name!r} has {distinct:,} different values; a domain or class column has at "
            f"most {MOST_DOMAINS:,}: group its values first"
        )
    if values.dtype.kind in "iu" and not values.isna().any() and values.max() < 2**63:
        return np.asarray(values.to_numpy(dtype=np.int64))
    codes, names = level_codes(values)
    return np.array(names, dtype=object)[codes]


def merge_small(labels: NDArray[Any], min_rows: int) -> tuple[NDArray[Any], list[str]]:
    """Domains below `min_rows` rows put together as '(other)', and their names.

    >>> merge_small(np.array(["a", "b", "b", "c"]), 2)
    (array(['(other)', 'b', 'b', '(other)'], dtype=object), ['a', 'c'])
    """
    names, codes = encode("domains", labels, len(labels))
    small = np.bincount(codes) < min_rows
    if not small.any():
        return labels, []
    titles = np.array(
        [OTHER if few else str(name) for name, few in zip(names.tolist(), small, strict=True)],
        object,
    )
    return titles[codes], [str(name) for name in names[small].tolist()]


def target_column(frame: Any, name: str, task: str) -> tuple[NDArray[Any], str]:
    """The target and the task: to classify strings or up to ten whole numbers, else to regress."""
    values = column(frame, name)
    numeric, distinct = values.dtype.kind in "iuf", values.nunique()
    if distinct < 2:
        raise ValueError(
            f"column {name!r} is constant ({values.iloc[0]}): there is nothing to learn; name "
            "another target"
        )
    if task == "auto":
        few = not numeric or (distinct <= 10 and bool((values % 1 == 0).all()))
        task = "classify" if few else "regress"
    if task == "classify":
        return _domain_column(name, values), task
    if not numeric:
        raise ValueError(
            f"column {name!r} has strings such as {str(values.iloc[0])!r}; regression needs numbers"
        )
    return np.asarray(values.to_numpy(dtype=np.float64)), task


# Fitting ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted model that takes tables: `predict` and `predict_proba` of a frame's rows.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"x": [0.0, 1.0] * 20, "d": list("aabb") * 10, "y": list("ny") * 20})
    >>> model = fit_table(table, "y", ["d"], gamma=0.01).model
    >>> model.predict(pd.DataFrame({"x": [0.0, 0.9]})).tolist(), model.classes.tolist()
    (['n', 'y'], ['n', 'y'])
    """

    features: Features
    estimator: Any  # AgnosticClassifier or AgnosticRegressor
    target: str
    domains: tuple[str, ...]

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes in the order of `predict_proba`; None in regression."""
        return getattr(self.estimator, "classes_", None)

    def predict(self, frame: Any) -> NDArray[Any]:
        """The most probable class or the value of every row, (n,)."""
        return np.asarray(self.estimator.predict(self.features.transform(frame)))

    def predict_proba(self, frame: Any) -> Array:
        """Probabilities of the classes, (n, K)."""
        return np.asarray(self.estimator.predict_proba(self.features.transform(frame)))


@dataclass(frozen=True, eq=False)
class TableFit:
    """The model for any mixture, fitted to all rows, and how it does beside an ordinary one.

    audits : {"ordinary": ..., "agnostic": ...}, of rows that the models judged had not seen.
    judged_on : which rows those are.
    gamma : of the agnostic model.
    notes : what was done to the table.
    """

    model: TableModel
    audits: dict[str, Audit]
    judged_on: str
    gamma: float
    notes: list[str]

    @property
    def certificate(self) -> Certificate:
        """The proof that no model of this kind has a smaller objective on all rows."""
        found: Certificate = self.model.estimator.certificate_
        return found

    @property
    def comparison(self) -> Comparison:
        """The agnostic model against the ordinary one."""
        names = ("ordinary", "agnostic")
        return compare(self.audits["ordinary"], self.audits["agnostic"], names)


@dataclass(frozen=True, eq=False)
class _Rows:
    """n rows as numbers, with the codes of their domains and classes."""

    X: Any  # (n, d), dense or CSR
    y: NDArray[Any]  # (n,), codes of the classes or numbers
    d: NDArray[np.integer[Any]]  # (n,), codes of the domains
    classes: NDArray[Any] | None
    names: NDArray[Any]  # (p,), of the domains

    def problem(self, part: Part) -> LinearDomains:
        """These rows to learn from; the tables of categories among them much smaller."""
        loss, classes = (SquaredError(), None) if self.classes is None else (None, self._places)
        X, y, d = _take(self.X, part), self.y[part], self.d[part]
        if sparse.issparse(X) and len(y) <= ROWS_TO_FOLD and X.shape[1] <= 150:
            X = X.toarray()  # of so few numbers, dense products take up to half the time
        return LinearDomains(X, y, d, loss, classes=classes).merged()

    @property
    def _places(self) -> NDArray[np.intp] | None:
        return None if self.classes is None else np.arange(len(self.classes))

    def fitted(self, mixtures: MixtureSet, gamma: float, part: Part) -> tuple[Any, str | None]:
        """The model for Λ, and a warning if it rests on few rows.

        What `fit` of the estimators does, less the copies of the rows that it makes.
        """
        problem = self.problem(part)
        solution = solve(problem, mixtures, gamma=gamma)
        make: Any = AgnosticRegressor if self.classes is None else AgnosticClassifier
        fitted = make(mixtures, gamma)
        fitted.n_features_in_ = problem.n_features
        fitted.domain_names_, fitted.classes_ = self.names, self.classes
        losses = solution.domain_losses
        fitted.agnostic_loss_ = float(mixtures.maximize(losses) @ losses)
        fitted._keep(problem, solution)
        return fitted, overfit_message(problem, self.names, solution, gamma, "squared")

    def predict(self, estimator: Any, part: Part) -> Array:
        """Values (n,) or probabilities (n, K)."""
        predict = estimator.predict if self.classes is None else estimator.predict_proba
        return np.asarray(predict(_take(self.X, part)))

    def audit(self, predictions: Array, part: Part, mixtures: MixtureSet) -> Audit:
        found = audit(
            self.y[part],
            predictions,
            self.d[part],
            mixtures=mixtures,
            loss="squared" if self.classes is None else "log",
            classes=self._places,
        )
        return replace(found, domain_names=tuple(self.names.tolist()))

    def order(self, rows: Rows) -> Rows:
        """By domain, then class, then chance: every j-th of them is a fair sample."""
        turn = np.random.default_rng(0).permutation(len(rows))
        classes = turn if self.classes is None else self.y[rows]
        return rows[np.lexsort((turn, classes, self.d[rows]))]

    def check(self, splits: Sequence[Split]) -> None:
        """Each part to fit needs every domain and class; the parts held out, every domain."""
        for part, _ in splits:
            self._check("domain", self.d[part], self.names)
            if self.classes is not None:
                self._check("class", self.y[part], self.classes)
        self._check("domain", np.concatenate([self.d[part] for _, part in splits]), self.names)

    def _check(self, what: str, codes: NDArray[Any], names: NDArray[Any]) -> None:
        counts = np.bincount(codes, minlength=len(names))
        if counts.min() == 0:
            how = "with --min-rows 30" if what == "domain" else "in the table"
            raise ValueError(
                f"{what} {str(names[np.argmin(counts)])!r} has too few rows to fit some and hold "
                f"out others; put small ones together {how}, leave them out, or hold out another "
                "share"
            )


def _take(X: Any, part: Part) -> Any:
    """Rows of X; a stretch of a CSR matrix is not copied if it has half of the entries or more."""
    if not (isinstance(part, slice) and sparse.issparse(X)):
        return X[part]
    start, stop, _ = part.indices(X.shape[0])
    ends = X.indptr[start : stop + 1]
    inside = slice(ends[0], ends[-1])
    shape = (stop - start, X.shape[1])
    return sparse.csr_array((X.data[inside], X.indices[inside], ends - ends[0]), shape=shape)


def fit_table(
    frame: Any,
    target: str,
    domains: Sequence[str],
    *,
    mixtures: str = "simplex",
    gamma: float | None = None,
    task: str = "auto",
    drop: Sequence[str] = (),
    min_rows: int = 1,
    folds: int | None = None,
    holdout: float | None = None,
    test: Any = None,
    progress: Callable[[str], None] = lambda step: None,
) -> TableFit:
    """The model for any mixture of the domains of a frame, judged beside an ordinary one.

    Parameters
    ----------
    frame, target, domains : the table, the column to predict, and the columns whose values (or
        their combinations) are the domains. All other columns but `drop` are features.
    mixtures : Λ, as `mixture_set` reads it.
    gamma : weight of ½‖w‖²; None chooses it by the worst mixture's loss on rows held out.
    task : "classify", "regress" or "auto".
    min_rows : domains with fewer rows are put together.
    folds, holdout, test : how to judge: so many folds, a share held out, or a frame of its own.
        None of them is 5 folds, and beyond 20,000 rows a holdout of 0.25.
    progress : called with a word on what comes next.

    Means, medians, scales and levels are learnt from the rows to fit alone, so what is held out is
    new to the models in every way. The model returned learns them from all rows; in a holdout of
    more than 20,000 rows it keeps those of the rows fitted, so that the frame can be let go.

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
    frame, notes = _with_target(frame, target)
    rows, merged = _labelled(frame, target, domains, task, min_rows)
    left_out = frame.attrs.get("left_out", ())
    for name in set(drop) - set(left_out):
        column(frame, name)  # a name misspelt would be learnt from
    used = {target, *domains, *drop}
    names = [name for name in frame.columns if name not in used]
    features, more = Features.learn(frame, names)
    notes += [f"{name!r}: left out, too many values" for name in left_out if name not in used]
    notes += [
        f"{name!r}: a column without a name; if it only counts the rows, leave it out (--drop)"
        for name in names
        if str(name).startswith("Unnamed: ")
    ]
    notes += more + [f"domain {name!r}: too small, now in {OTHER!r}" for name in merged]
    n, sizes = len(rows.y), np.bincount(rows.d)
    if test is None:
        order, splits, judged_on = _splits(rows, folds, holdout)
        frame, rows = frame.iloc[order], replace(rows, y=rows.y[order], d=rows.d[order])
        del order
    else:
        test, _ = _with_target(test, target)
        notes += [f"the test file, {note}" for note in features.unseen(test)]
        rows = _followed_by(rows, test, target, domains, set(merged))
        splits, judged_on = [(slice(0, n), slice(n, len(rows.y)))], "the rows of the test file"
    rows.check(splits)
    sets = {
        "ordinary": Point(sizes / sizes.sum()),
        "agnostic": mixture_set(mixtures, rows.names, sizes),
    }
    keep = test is None and (len(splits) > 1 or n <= ROWS_TO_FOLD)
    said: dict[str, list[Array]] = {name: [] for name in sets}
    for number, (part, held_out) in enumerate(splits, start=1):
        if test is None:
            features, _ = Features.learn(frame.iloc[part], names)
        rows = replace(rows, X=None)  # lets go of the last part's X before the next is made
        rows = _with_numbers(rows, features, frame, test)
        if not keep:
            frame = test = None  # may be large
        for name, Λ in sets.items():
            progress(f"{name} model, part {number} of {len(splits)}")
            best = _choose_gamma(rows, Λ, part) if gamma is None else gamma
            said[name].append(rows.predict(rows.fitted(Λ, best, part)[0], held_out))
    judged = np.concatenate([np.arange(len(rows.y))[part] for _, part in splits])
    audits = {
        name: rows.audit(np.concatenate(said.pop(name)), judged, sets["agnostic"]) for name in sets
    }
    del judged
    progress("agnostic model, all rows")
    if keep:
        features, _ = Features.learn(frame, names)
        rows = _with_numbers(rows, features, frame, None)
    if gamma is None and len(splits) > 1:
        best = _choose_gamma(rows, sets["agnostic"], slice(0, n))
    estimator, warning = rows.fitted(sets["agnostic"], best, slice(0, n))
    model = TableModel(features, estimator, target, tuple(domains))
    return TableFit(model, audits, judged_on, best, notes + ([warning] if warning else []))


def _with_numbers(rows: _Rows, features: Features, frame: Any, test: Any) -> _Rows:
    """The rows with X, of the frame and of the test frame after it."""
    X = features.transform(frame)
    if test is not None:
        stack: Any = sparse.vstack if sparse.issparse(X) else np.vstack
        X = stack([X, features.transform(test)])
    return replace(rows, X=X)


def _with_target(frame: Any, target: str) -> tuple[Any, list[str]]:
    """The rows whose target is known, and a note on the others."""
    missing = column(frame, target).isna()
    count = int(missing.sum())
    if count == 0:
        return frame, []
    if count == len(frame):
        raise ValueError(f"column {target!r} is empty; there is nothing to learn")
    return frame[~missing], [f"{target!r}: {count:,} rows without it, left out"]


def _labelled(
    frame: Any, target: str, domains: Sequence[str], task: str, min_rows: int
) -> tuple[_Rows, list[str]]:
    """Rows that lack X still, and the names of the domains put together."""
    values, kind = target_column(frame, target, task)
    labels, merged = merge_small(domain_labels(frame, domains), min_rows)
    names, d = encode("domains", labels, len(labels))
    if len(names) < 2:
        raise ValueError(
            f"there is one domain only, {str(names[0])!r}; name a domain column of two or more "
            "values"
        )
    classes: NDArray[Any] | None = None
    if kind == "classify":
        classes, codes = encode("the target", values, len(values))
        values = codes.astype(_code_type(len(classes)))
    return _Rows(None, values, d.astype(_code_type(len(names))), classes, names), merged


def _code_type(count: int) -> Any:
    """A small type for so many codes."""
    return np.int16 if count < 2**15 else np.int32


def _followed_by(
    rows: _Rows, test: Any, target: str, domains: Sequence[str], merged: set[str]
) -> _Rows:
    """The rows of a second table after the first's."""
    labels = [OTHER if str(v) in merged else v for v in domain_labels(test, domains).tolist()]
    d = _places("domain", labels, rows.names)
    counts = np.bincount(d, minlength=len(rows.names))
    if counts.min() == 0:
        raise ValueError(
            f"domain {str(rows.names[np.argmin(counts)])!r} has no row in the test file; add some, "
            "or judge by folds of the table"
        )
    values = column(test, target)
    if rows.classes is None:
        y: NDArray[Any] = numbers_of(target, values)
    else:
        y = _places("class", _domain_column(target, values).tolist(), rows.classes)
    return replace(rows, y=np.concatenate([rows.y, y]), d=np.concatenate([rows.d, d]))


def _places(what: str, labels: list[Any], names: NDArray[Any]) -> NDArray[np.integer[Any]]:
    """The place of each label among the names; a label of the test file alone is refused."""
    place = {str(name): k for k, name in enumerate(names.tolist())}
    unknown = [label for label in labels if str(label) not in place]
    if unknown:
        raise ValueError(
            f"{what} {str(unknown[0])!r} is only in the test file; add rows of it to the table "
            "that is fitted, or leave it out of the test file"
        )
    return np.array([place[str(label)] for label in labels], dtype=_code_type(len(names)))


def _splits(rows: _Rows, folds: int | None, holdout: float | None) -> tuple[Rows, list[Split], str]:
    """An order of the rows, parts of it to fit and to judge on, and what these are.

    Fair to every domain and class. One part held out comes last, so that none need be copied.
    """
    n = len(rows.y)
    if folds is not None and holdout is not None:
        raise ValueError(f"folds is {folds} and holdout {holdout}; give one of them")
    if folds is not None and not 2 <= folds <= n:
        raise ValueError(f"folds is {folds}; give 2 to {n}, the number of rows")
    if holdout is not None and not 0 < holdout < 1:
        raise ValueError(f"holdout is {holdout}; give a share inside (0, 1)")
    order = rows.order(np.arange(n))
    if folds or (holdout is None and n <= ROWS_TO_FOLD):
        folds = folds or 5
        said = f"all rows, in {folds} parts, each predicted by models that had not seen it"
        return order, _deal(np.arange(n), folds), said
    held = np.diff(np.floor(np.arange(n + 1) * (holdout or 0.25))) > 0
    k = n - int(held.sum())
    order = np.concatenate([order[~held], order[held]])
    return order, [(slice(0, k), slice(k, n))], f"{n - k:,} rows that the models had not seen"


def _deal(order: Rows, folds: int) -> list[Split]:
    turn = np.arange(len(order)) % folds
    return [(order[turn != k], order[turn == k]) for k in range(folds)]


def _choose_gamma(rows: _Rows, mixtures: MixtureSet, part: Part) -> float:
    """The γ of least max_{λ∈Λ} Σ λ_k L_k, L_k on held-out thirds of a sample of the rows."""
    sample = _sample(rows, part)
    splits = _deal(sample, 3)
    rows.check(splits)
    p = len(rows.names)
    total = np.zeros((len(GAMMAS), p))
    for train, test in splits:
        fit, solution = rows.problem(train), None
        present = np.unique(rows.d[test])
        judge = rows.problem(test)
        for i, gamma in enumerate(GAMMAS):
            solution = solve(fit, mixtures, gamma=gamma, start=solution)
            total[i, present] += judge.losses(solution.w) * judge.sizes
    means = total / np.bincount(rows.d[sample], minlength=p)
    worst = [float(mixtures.maximize(losses) @ losses) for losses in means]
    return GAMMAS[int(np.argmin(worst))]


def _sample(rows: _Rows, part: Part) -> Rows:
    """About 10,000 of the rows, evenly from every domain and class; 100 of each if there are."""
    order = rows.order(np.arange(len(rows.y))[part])
    d = rows.d[order]
    picked = [_spaced(d == k, ROWS_TO_CHOOSE / len(order)) for k in range(len(rows.names))]
    if rows.classes is not None:  # rare ones are not to be missed
        y = rows.y[order]
        picked += [_spaced(y == c, 0.0) for c in range(len(rows.classes))]
    return order[np.unique(np.concatenate(picked))]


def _spaced(these: NDArray[np.bool_], share: float) -> Rows:
    """A share of these places, evenly spaced, 100 at least if there are so many."""
    places = np.flatnonzero(these)
    count = min(len(places), max(100, math.ceil(share * len(places))))
    return places[np.arange(count) * len(places) // max(count, 1)]


# Predicting and auditing -----------------------------------------------------------------------


def predict_table(
    model: TableModel, frame: Any, keep: Sequence[str] = (), kept: Any = None
) -> tuple[Any, list[str]]:
    """A frame of the columns to keep, `prediction` and the classes' probabilities; and notes.

    `kept` is another frame of the same rows to take the columns to keep from.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"c": list("uv") * 20, "d": list("aabb") * 10, "y": list("ny") * 20})
    >>> model = fit_table(table, "y", ["d"], gamma=0.01).model
    >>> predictions, notes = predict_table(model, pd.DataFrame({"c": ["v", "w"]}), keep=["c"])
    >>> predictions.columns.tolist(), predictions["prediction"].tolist()[0]
    (['c', 'prediction', 'probability of n', 'probability of y'], 'y')
    >>> notes
    ["'c': 1 level(s) that the training had not, such as 'w'"]
    """
    source = frame if kept is None else kept
    if len(source) != len(frame):
        raise ValueError(f"kept has {len(source)} rows but frame has {len(frame)}; give the same")
    beside = {name: column(source, name) for name in keep}
    made = _predictions(model, frame)
    clash = [name for name in keep if name in made]
    if clash:
        raise ValueError(
            f"keep is {clash[0]!r}, but a column of that name is made; rename that of the table"
        )
    return pandas().DataFrame(beside | made), model.features.unseen(frame)


def _predictions(model: TableModel, frame: Any) -> dict[str, NDArray[Any]]:
    if model.classes is None:
        return {"prediction": model.predict(frame)}
    P, classes = model.predict_proba(frame), model.classes
    shares = {f"probability of {name}": P[:, k] for k, name in enumerate(classes.tolist())}
    return {"prediction": classes[np.argmax(P, axis=1)]} | shares


def audit_frame(
    frame: Any,
    domains: Sequence[str],
    *,
    target: str | None = None,
    prediction: Sequence[str] = (),
    losses: str | None = None,
    against: str | None = None,
    loss: str | None = None,
    mixtures: str = "simplex",
    confidence: float = 0.95,
    classes: Sequence[str] | None = None,
) -> dict[str, Audit]:
    """Audits of a table's predictions (or losses), by the names of their columns.

    `against` is another model's column; its audit comes first, as the one to compare with.
    `classes` are the names of the classes, in the order of the columns of probabilities.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"y": [1, 0, 1], "new": [1, 0, 0], "old": [0, 0, 0], "g": list("aab")})
    >>> found = audit_frame(table, ["g"], target="y", prediction=["new"], against="old")
    >>> {name: audit.agnostic_loss for name, audit in found.items()}
    {'old': 1.0, 'new': 1.0}
    """
    if (losses is None) == (target is None or not prediction):
        raise ValueError("give a target and a prediction, or else losses")
    labels = {name: _domain_column(name, column(frame, name)) for name in domains}
    names, codes = encode("domains", domain_labels(frame, domains), len(frame))
    Λ = mixture_set(mixtures, names.tolist(), np.bincount(codes))
    y = None if target is None or losses is not None else _entries(frame, [target])
    models = [[against]] if against is not None else []
    models.append([losses] if losses is not None else list(prediction))
    said = {", ".join(columns): _entries(frame, columns) for columns in models}
    if any(_is_text(v) for v in (y, *said.values())):  # 1 and 2 beside 3a are labels too
        y, said = _as_text(y), {name: _as_text(v) for name, v in said.items()}
    known = None if classes is None or y is None else _typed_classes(classes, y)
    return {
        name: audit(
            y,
            entries,
            sensitive_features=labels,
            loss=loss,
            mixtures=Λ,
            confidence=confidence,
            classes=known,
        )
        for name, entries in said.items()
    }


def _is_text(values: NDArray[Any] | None) -> bool:
    """Whether there are words among them."""
    if values is None or values.dtype.kind in "biuf":
        return False
    return values.dtype.kind != "O" or any(isinstance(v, str) for v in values.ravel())


def _as_text(values: Any) -> Any:
    """A column of whole numbers as they are written; all else as it is."""
    digits = values is not None and values.ndim == 1 and values.dtype.kind in "iu"
    return values.astype(str) if digits else values


def _typed_classes(classes: Sequence[str], y: NDArray[Any]) -> list[Any]:
    """The classes as numbers, or truth values, where the target's are."""
    if y.dtype.kind == "b" and set(classes) <= {"False", "True"}:
        return [name == "True" for name in classes]
    if y.dtype.kind not in "iuf":
        return list(classes)
    try:
        return [float(name) for name in classes]
    except ValueError as error:
        raise ValueError(
            f"classes are {list(classes)}, but the target's numbers: {error}"
        ) from None


def _entries(frame: Any, names: Sequence[str]) -> NDArray[Any]:
    """A column, or several side by side, without gaps."""
    for name in names:
        missing = int(column(frame, name).isna().sum())
        if missing:
            raise ValueError(
                f"column {name!r} has {missing:,} missing values; drop those rows or fill them in"
            )
    values = [np.asarray(frame[name]) for name in names]
    return values[0] if len(values) == 1 else np.column_stack(values)
