"""How bad can a model get on some mixture of its domains? An audit of predictions, of any model.

    L_k = mean loss on domain k,    agnostic loss = max_{λ∈Λ} Σ_k λ_k L_k

Every number comes with a confidence interval of `intervals`, and `interval_kinds` says what it is
worth: "exact" for accuracy and 0-1 loss, which are shares; "guaranteed" for log loss and for all
losses with a known bound; "approximate" for squared and absolute error and other losses, RMSE (by
its root), AUC and calibration error. Each interval is about one domain alone; only
`agnostic_interval` is about all of them at once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.auditing.agnostic import agnostic_interval
from anymix.auditing.domains import rows_by_domain
from anymix.auditing.findings import Audit
from anymix.auditing.guarantees import Guarantee, bounded_losses, guaranteed, probability
from anymix.auditing.measures import (
    KnownLoss,
    Measure,
    Share,
    UnboundedLoss,
    limits,
    loss_measure,
)
from anymix.auditing.metrics import asked_measures, disparities
from anymix.auditing.predictions import (
    Predictions,
    columns_of,
    n_rows,
    read_columns,
    read_predictions,
)
from anymix.auditing.resampling import Resampled
from anymix.auditing.words import LOSS_TITLES
from anymix.errors import InputError, finite_number, finite_vector
from anymix.mixtures import MixtureSet
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.problem.arrays import pooled_rows

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

__all__ = ["Audit", "audit"]


def audit(
    y_true: Any,
    y_pred: Any,
    domains: Any = None,
    *,
    sensitive_features: Any = None,
    loss: str | None = None,
    mixtures: Mixtures = None,
    classes: ArrayLike | None = None,
    confidence: float = 0.95,
    loss_bound: float | None = None,
    guarantee: float | None = None,
    metrics: Any = None,
    sample_weight: ArrayLike | None = None,
) -> Audit:
    """max_{λ∈Λ} Σ_k λ_k L_k of a model's predictions, with all the domains' losses and metrics.

    Labels give the metric accuracy; probabilities accuracy, auc (two classes) and
    calibration_error (ten bins: of the second class, or of the most probable of K ≥ 3); values
    rmse and mae. Data frames and series of pandas and polars, arrays and lists are read alike.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, q), frame, mapping or None
        Labels or numbers; None if y_pred holds the loss of each row. Several columns: y_pred has
        the same ones, and the loss of a row is the mean of its columns' losses.
    y_pred : array-like of shape (n,) or (n, K)
        What any model said: labels (n,), probabilities (n, K) or of the second class (n,), values
        (n,), or with y_true=None losses (n,), lower being better. Strings, booleans and whole
        numbers are labels unless y_true has fractions; numbers with fractions are probabilities
        (up to rounding, 1e-6) if y_true has at most two classes, else values. `loss` decides
        otherwise.
    domains : array-like of shape (n,) or (n, p), or None
        Labels, or booleans if a row may be in several or in none (then it counts nowhere); None is
        one domain.
    sensitive_features : frame, dict, array-like of shape (n, c) or None
        Instead of domains, one or more columns of labels; each combination that occurs is a
        domain, however small.
    loss : {"zero_one", "log", "squared", "absolute"}, other str or None
        "zero_one" is of labels, or the most probable class; "log" of probabilities, cut at 2e-16 as
        scikit-learn does; "squared" is ½ (z − y)², as in AgnosticRegressor. None is the one that
        fits. With y_true=None, the name to show; "zero_one" (or booleans) says that the losses are
        errors, 0 or 1, whose mean is a share.
    mixtures : MixtureSet, function, str or None
        Λ: a set, a function of the domains' sizes that gives one, words such as "cvar:0.3", or
        None for any mixture (the simplex).
    classes : array-like of shape (K,) or None
        The classes in the order of the columns of y_pred, needed when y_true lacks some of them;
        None is those of y_true, sorted, or 0, …, K − 1 if it has a 0 and none beyond.
    confidence : float
        Level of the intervals, see `anymix.auditing.intervals`.
    loss_bound : float or None
        What no loss is above, if you know that; none is below 0 then. It makes the intervals of
        all losses guaranteed. Log losses above it are cut, as probabilities are at 2e-16.
    guarantee : float or None
        δ: `guarantees` then says what holds for every mixture in Λ at once with probability 1 − δ,
        see `bounds.held_out`. None is no such statement.
    metrics : str, sequence of str, mapping or None
        What else to measure: "rates" for selection, true and false positive rates (the second
        class is the positive one) and their `disparities`; names of scikit-learn's scorers, as
        "f1" or "r2"; or {"mine": function of (y_true, y_pred)}, both as they were given.
    sample_weight : array-like of shape (n,) or None
        What each row counts, ≥ 0: L_k = Σ w_i l_i / Σ w_i, and a domain's size in Λ is Σ w_i.

    Returns
    -------
    Audit

    Examples
    --------
    >>> found = audit(y_true=[1, 0, 1, 1], y_pred=[1, 0, 1, 0], domains=["a", "a", "b", "b"])
    >>> found.domain_losses, found.agnostic_loss, found.worst_mixture
    (array([0. , 0.5]), 0.5, array([0., 1.]))
    >>> found.metrics["accuracy"], found.metric_intervals["accuracy"].round(2)
    (array([1. , 0.5]), array([[0.16, 1.  ], [0.01, 0.99]]))
    >>> rates = audit([1, 0, 1, 0], [1, 1, 1, 0], ["a", "a", "b", "b"], metrics="rates")
    >>> rates.metrics["selection_rate"], rates.disparities["demographic_parity_difference"].value
    (array([1. , 0.5]), 0.5)
    >>> import anymix as ax
    >>> audit(None, [3.0, 1.0, 2.0], ["a", "b", "c"], mixtures=ax.Box([0, 0, 0], [0.5, 0.5, 0.5])
    ... ).agnostic_loss
    2.5
    """
    confidence, n = _level(confidence), _n_predicted(y_pred)
    parts, n_empty_cells = rows_by_domain(domains, sensitive_features, n)
    parts, w = _weighed(parts, sample_weight, n)
    rows, sizes = list(parts.values()), np.array([len(part) for part in parts.values()])
    target = target_mixtures(mixtures, None, sizes if w is None else _masses(w, rows))
    pooled = pooled_rows(rows, n)
    read = _read(y_true, y_pred, loss, classes, pooled, w, metrics)
    said, losses, most = _within(read, pooled, loss_bound, w)
    total = losses.of(pooled, confidence)
    domain_losses, intervals = _of_domains(losses, rows, confidence)
    worst_interval, worst_kind = agnostic_interval(
        losses, rows, target, domain_losses, confidence, disjoint=sizes.sum() == len(pooled)
    )
    return Audit(
        domain_names=tuple(parts),
        sizes=sizes,
        n_rows=len(pooled),
        loss=said.loss,
        kind=said.kind,
        domain_losses=domain_losses,
        intervals=intervals,
        row_losses=tuple(said.row_losses[part] for part in rows),
        pooled_loss=total.value,
        pooled_interval=total[1:],
        mixtures=target,
        worst_mixture=target.maximize(domain_losses),
        agnostic_interval=worst_interval,
        confidence=confidence,
        interval_kinds=_kinds(losses.kind, worst_kind, said),
        n_empty_cells=n_empty_cells,
        n_outside=n - len(pooled),
        loss_bound=most,
        guarantees=_guarantees(said, parts, target, guarantee, most, w),
        **_measured(said, rows, pooled, confidence, w),
    )


def _measured(
    said: Predictions, rows: list[Rows], pooled: Rows, confidence: float, w: Array | None
) -> dict[str, Any]:
    """All that an audit says of its metrics, and the weights of their rows."""
    measures, replicates = said.measures, _replicates(said, rows)
    measured = {
        name: _resampled(m, rows, replicates[name], confidence)
        if isinstance(m, Resampled)
        else _of_domains(m, rows, confidence)
        for name, m in measures.items()
    }
    return {
        "metrics": {name: values for name, (values, _) in measured.items()},
        "metric_intervals": {name: ends for name, (_, ends) in measured.items()},
        "pooled_metrics": {k: _value(m, pooled, confidence) for k, m in measures.items()},
        "disparities": disparities(measures, rows, confidence),
        "row_metrics": _row_metrics(said, rows),
        "row_weights": None if w is None else tuple(w[part] for part in rows),
        "replicates": replicates,
    }


def _read(
    y_true: Any,
    y_pred: Any,
    loss: Any,
    classes: Any,
    pooled: Rows,
    w: Array | None,
    metrics: Any,
) -> Predictions:
    """One column of predictions, or several, and all that is to be measured of them."""
    columns = None if y_true is None else columns_of("y_true", y_true)
    if columns is None:
        read = read_predictions(y_true, y_pred, loss, classes, pooled, w)
        read.measures.update(asked_measures(metrics, read, y_true, y_pred, w))
        return read
    if classes is not None:
        found = "is given, but there are several columns of labels"
        raise InputError("classes", found, "leave it out")
    if metrics is not None:
        found = "are asked for, but there are several columns of labels"
        raise InputError("metrics", found, "audit one column for them")
    return read_columns(columns, y_pred, loss, pooled, w)


def _weighed(parts: dict[Any, Rows], weights: Any, n: int) -> tuple[dict[Any, Rows], Array | None]:
    """Rows that count at all, and what each counts; every domain must have some."""
    if weights is None:
        return parts, None
    w = finite_vector("sample_weight", weights, n)
    if w.min() < 0:
        raise InputError("sample_weight", f"has {w.min():g}", "give numbers ≥ 0")
    counted = {name: part[w[part] > 0] for name, part in parts.items()}
    empty = [name for name, part in counted.items() if not len(part)]
    if empty:
        found = f"is 0 for every row of {empty[0]!r}"
        raise InputError("sample_weight", found, "leave that domain out")
    return counted, w


def _masses(w: Array, rows: list[Rows]) -> NDArray[Any]:
    """The domains' sizes by weight, on the scale of rows."""
    masses = np.array([w[part].sum() for part in rows])
    return np.asarray(masses / masses.sum() * sum(map(len, rows)))


def _row_metrics(said: Predictions, rows: list[Rows]) -> dict[str, tuple[Array, ...]]:
    """Row by row, what the metrics that are means are the means of."""
    found = dict(said.row_metrics)
    for name, measure in said.measures.items():
        if isinstance(measure, Share):
            found[name] = measure.row_values()
    return {name: tuple(values[part] for part in rows) for name, values in found.items()}


def _replicates(said: Predictions, rows: list[Rows]) -> dict[str, Array]:
    """Of metrics that are resampled, the numbers without each group of rows."""
    resampled = {k: m for k, m in said.measures.items() if isinstance(m, Resampled)}
    return {k: np.array([m.replicates(part) for part in rows]) for k, m in resampled.items()}


def _within(
    said: Predictions, pooled: Rows, loss_bound: float | None, w: Array | None
) -> tuple[Predictions, KnownLoss | UnboundedLoss, float]:
    """The losses as predicted, as they are measured, and what none of them can be above."""
    most = limits(said.kind, said.loss)[1]
    if loss_bound is not None:
        cut = loss_bound if said.loss == "log" else None
        x, most, _ = bounded_losses(said, loss_bound, cut)
        said = said._replace(row_losses=x)
    known = None if loss_bound is None else most
    return said, loss_measure(said.kind, said.loss, said.row_losses, pooled, known, w), most


def _kinds(of_losses: str, of_worst: str, said: Predictions) -> dict[str, str]:
    """What every interval is worth."""
    kinds = {"loss": of_losses, "pooled_loss": of_losses, "agnostic_loss": of_worst}
    return kinds | {name: measure.kind for name, measure in said.measures.items()}


def _guarantees(
    said: Predictions,
    parts: dict[Any, Rows],
    target: MixtureSet,
    delta: float | None,
    most: float,
    w: Array | None,
) -> dict[str, Guarantee]:
    """What can be promised of the loss, and of the accuracy by its errors."""
    if delta is None:
        return {}
    delta = probability("guarantee", delta)
    title = LOSS_TITLES.get(said.loss, said.loss)
    if most < limits(said.kind, said.loss)[1] < math.inf:
        title = f"{title} cut at {most:.4g}"
    if most == math.inf:
        unknown = f"is None, and the {title} has no largest value, without which none is guaranteed"
        raise InputError("loss_bound", unknown, "give the largest loss that a row can have")
    found = {"loss": guaranteed(said.row_losses, parts, target, delta, most, title, weights=w)}
    accuracy = said.measures.get("accuracy")
    if isinstance(accuracy, Share):
        errors = (~accuracy.hits).astype(np.float64)
        same = said.loss == "zero_one"
        of_errors = (errors, parts, target, delta, 1.0, LOSS_TITLES["zero_one"])
        found["accuracy"] = found["loss"] if same else guaranteed(*of_errors, weights=w)
    return found


def _level(confidence: Any) -> float:
    """The level of intervals, inside (0, 1)."""
    fix = "give one inside (0, 1), such as 0.95"
    return finite_number("confidence", confidence, fix, lambda c: 0 < c <= 1 - 1e-9)


def _n_predicted(y_pred: Any) -> int:
    n = n_rows(y_pred)
    if n == 0:
        raise InputError("y_pred", "has no rows", "give a prediction for each row")
    return n


def _of_domains(measure: Measure, parts: list[Rows], confidence: float) -> tuple[Array, Array]:
    """The number of every domain, (p,), and its interval, (p, 2)."""
    found = np.array(measure.of_each(parts, confidence))
    return found[:, 0], found[:, 1:]


def _resampled(
    measure: Resampled, parts: list[Rows], replicates: Array, confidence: float
) -> tuple[Array, Array]:
    """The same for a metric whose replicates are known, (p, 20): it is not asked for them again."""
    pairs = zip(parts, replicates, strict=True)
    found = np.array([measure.of(part, confidence, r) for part, r in pairs])
    return found[:, 0], found[:, 1:]


def _value(measure: Measure, rows: Rows, confidence: float) -> float:
    """The number of these rows alone; an interval would take time."""
    return (
        measure.metric(rows) if isinstance(measure, Resampled) else measure.of(rows, confidence)[0]
    )
