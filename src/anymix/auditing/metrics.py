"""Metrics that are asked for: rates of two classes, any of scikit-learn, or any function.

| asked for                        | is                                                          |
|----------------------------------|-------------------------------------------------------------|
| "selection_rate"                 | the share of rows predicted as the second class             |
| "true_positive_rate"             | the same among rows that are of it                          |
| "false_positive_rate"            | the same among rows that are not                            |
| "rates"                          | these three                                                 |
| "f1", "r2", … or a scorer object | scikit-learn's scorer                                       |
| "cohen_kappa_score", …           | the function of that name in sklearn.metrics                |
| name=function                    | function(y_true, y_pred), both as they were given           |
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing.intervals import Estimate
from anymix.auditing.measures import Measure, Share
from anymix.auditing.named_metrics import measure_of
from anymix.auditing.predictions import Answers, Predictions
from anymix.auditing.resampling import Resampled
from anymix.errors import InputError

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

__all__ = ["asked_measures", "disparities"]

RATES = ("selection_rate", "true_positive_rate", "false_positive_rate")
DIFFERENCES = {
    "demographic_parity_difference": ("selection_rate",),
    "equal_opportunity_difference": ("true_positive_rate",),
    "equalized_odds_difference": ("true_positive_rate", "false_positive_rate"),
}


def asked_measures(
    metrics: Any, read: Predictions, y_true: Any, y_pred: Any, weights: Array | None
) -> dict[str, Measure]:
    """What to measure besides what every audit does.

    Parameters
    ----------
    metrics : str, sequence or mapping
        Names of the table above, or name → name, scorer or function.
    read : Predictions
        What was predicted.
    y_true, y_pred : array-like
        As they were given, for functions.
    weights : ndarray of shape (n,) or None
        What each row counts.

    Returns
    -------
    dict of str to Measure

    Examples
    --------
    >>> from anymix.auditing.predictions import read_predictions
    >>> y, said = [0, 1, 1, 0], [1, 1, 0, 0]
    >>> read = read_predictions(y, said, None, None, np.arange(4))
    >>> found = asked_measures(["selection_rate", "f1"], read, y, said, None)
    >>> {name: measure.of(np.arange(4), 0.95).value for name, measure in found.items()}
    {'selection_rate': 0.5, 'f1': 0.5}
    """
    wanted = _named(metrics)
    if wanted and read.answers is None:
        fix = "give what is true and what was predicted"
        raise InputError("metrics", "are asked for, but there are only losses", fix)
    found: dict[str, Measure] = {}
    for name, what in wanted.items():
        assert read.answers is not None
        if isinstance(what, str) and what in RATES:
            found[name] = _rate(what, read.answers, weights)
        elif isinstance(what, str) or hasattr(what, "_score_func"):
            found[name] = _scorer(what, read.answers, weights)
        else:
            found[name] = _function(name, what, y_true, y_pred, weights)
    return found


def _named(metrics: Any) -> dict[str, Any]:
    """Name → what to measure."""
    if isinstance(metrics, str):
        metrics = [metrics]
    pairs = metrics.items() if isinstance(metrics, Mapping) else [(m, m) for m in metrics or ()]
    found: dict[str, Any] = {}
    for name, what in pairs:
        if what == "rates":
            found |= {rate: rate for rate in RATES}
            continue
        if not isinstance(what, str) and not callable(what):
            fix = "give names, as 'f1', or functions by name: {'mine': f}"
            raise InputError("metrics", f"has {what!r}", fix)
        title = name if isinstance(name, str) else getattr(name, "__name__", repr(name))
        found[title] = what
    return found


def _rate(name: str, answers: Answers, weights: Array | None) -> Share:
    """One of the rates; the second class is the positive one."""
    if answers.K != 2:
        found = f"has {name!r}, which needs two classes, but there are {answers.K or 'values'}"
        raise InputError("metrics", found, "leave it out, or name the two classes")
    selected, positive = answers.said == 1, answers.y == 1
    among = {"true_positive_rate": positive, "false_positive_rate": ~positive}.get(name)
    return Share(selected, among, weights)


def _scorer(what: Any, answers: Answers, weights: Array | None) -> Share | Resampled:
    """A scorer of scikit-learn, asked as if a model had said all of it."""
    score, model = _score_of(what), _model(answers)
    _check(f"{what!r}", lambda: score(model, np.arange(len(answers.y)), answers.y))

    def metric(rows: Rows) -> float:
        more = {} if weights is None else {"sample_weight": weights[rows]}
        return float(score(model, rows, answers.y[rows], **more))

    return measure_of(score, answers, weights, _quiet(metric))


def _score_of(what: Any) -> Any:
    """The scorer of that name, or one of the function of that name."""
    if not isinstance(what, str):
        return what
    from sklearn import metrics

    if what in metrics.get_scorer_names():
        return metrics.get_scorer(what)
    function = getattr(metrics, what, None)
    if not what.endswith(("_score", "_loss", "_error", "_coef")) or function is None:
        fix = "give 'rates', one of its rates, or a name of sklearn.metrics.get_scorer_names()"
        raise InputError("metrics", f"has {what!r}, which nobody knows", fix)
    return metrics.make_scorer(function)


def _model(answers: Answers) -> Any:
    """A model whose rows are their numbers, so that scorers can ask it."""
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    def predict(self: Any, rows: Rows) -> NDArray[Any]:
        return answers.said[rows]

    def predict_proba(self: Any, rows: Rows) -> Array:
        assert answers.P is not None
        P = answers.P[rows]
        return np.asarray(P / P.sum(axis=1, keepdims=True))

    mixin = ClassifierMixin if answers.K else RegressorMixin
    body: dict[str, Any] = {"predict": predict}
    if answers.K:
        body["classes_"] = np.arange(answers.K)
    if answers.P is not None:
        body["predict_proba"] = predict_proba
    return type("Said", (mixin, BaseEstimator), body)()


def _function(
    name: str, function: Any, y_true: Any, y_pred: Any, weights: Array | None
) -> Resampled:
    """Any function of what is true and what was predicted, both as they were given."""
    y, said = np.asarray(y_true), np.asarray(y_pred)
    takes = weights is not None and "sample_weight" in inspect.signature(function).parameters
    if weights is not None and not takes:
        found = f"{name!r} takes no sample_weight, but rows have weights"
        raise InputError("metrics", found, "give a function that does, or leave the weights out")

    def metric(rows: Rows) -> float:
        more = {"sample_weight": weights[rows]} if weights is not None else {}
        return float(function(y[rows], said[rows], **more))

    _check(f"{name!r}", lambda: metric(np.arange(len(y))))
    return Resampled(_quiet(metric))


def _check(name: str, call: Callable[[], Any]) -> None:
    """Try it once on all rows: what fails there fails everywhere."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except Exception as error:
        first = str(error).strip().split("\n")[0].rstrip(".")
        fix = "give a metric of what was predicted: labels, probabilities or values"
        raise InputError("metrics", f"has {name}, which fails here ({first})", fix) from error


def _quiet(metric: Callable[[Rows], float]) -> Callable[[Rows], float]:
    """NaN where a metric is not defined for the rows, and no warning."""

    def found(rows: Rows) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return metric(rows)
            except ValueError:  # such as a class that does not occur
                return math.nan

    return found


def disparities(
    measures: Mapping[str, Measure], parts: list[Rows], confidence: float
) -> dict[str, Estimate]:
    """How far apart the domains' rates are: max_k r_k − min_k r_k, of several the largest.

    The intervals hold for all domains at once: each rate is within its own at level 1 − α/p (a
    union bound over p domains, and over both rates for the odds).

    Parameters
    ----------
    measures : mapping of str to Measure
        Those of the audit; only rates are looked at.
    parts : list of ndarray
        The rows of each domain.
    confidence : float
        The level, such as 0.95.

    Returns
    -------
    dict of str to Estimate
        For the differences whose rates are there.

    Examples
    --------
    >>> rates = {"selection_rate": Share(np.array([True, True, False, False]))}
    >>> disparities(rates, [np.array([0, 1]), np.array([2, 3])], 0.95)
    {'demographic_parity_difference': Estimate(value=1.0, low=0.0, high=1.0)}
    """
    found = {}
    for name, rates in DIFFERENCES.items():
        if len(parts) > 1 and all(rate in measures for rate in rates):
            each = 1 - (1 - confidence) / (len(rates) * len(parts))
            ends = [_apart(np.array(measures[r].of_each(parts, each))) for r in rates]
            found[name] = Estimate(*(float(x) for x in np.max(ends, axis=0)))
    return found


def _apart(rates: Array) -> tuple[float, float, float]:
    """max − min of the first column, and its least and largest value within the intervals."""
    value, low, high = rates[~np.isnan(rates[:, 0])].T
    if not len(value):
        return math.nan, math.nan, math.nan
    return (
        float(np.ptp(value)),
        max(0.0, float(low.max() - high.min())),
        float(high.max() - low.min()),
    )
