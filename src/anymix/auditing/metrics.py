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

Of scikit-learn's metrics these have a better interval than the jackknife:

| metric                    | is                                    | interval                     |
|---------------------------|---------------------------------------|------------------------------|
| accuracy, recall, …_micro | a share of rows                       | exact                        |
| precision                 | q, a share of the rows said positive  | exact, given how many        |
| jaccard                   | q = TP/(TP + FP + FN)                 | exact, given TP + FP + FN    |
| f1                        | 2 q/(1 + q), the same q               | that of its ends             |
| balanced_accuracy         | r̄, the mean of K recalls              | r̄ − √Σ(r_k − l_k)²/K, r̄ + …  |
| roc_auc                   | P(q⁺ > q⁻) + ½ P(q⁺ = q⁻)             | as in every audit            |
| others                    | any function of rows                  | jackknife, within its limits |

Given how many rows count, each of them hits or not by itself with the same probability. So k hits
of n are binomial, and Clopper and Pearson's interval covers for every n, and thus on the whole.
The ends of a mean of independent shares are Zou and Donner's (2008), by their exact ends [l, u].
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
from anymix.auditing.predictions import Answers, Predictions
from anymix.auditing.resampling import Resampled
from anymix.auditing.scores import auc
from anymix.errors import InputError

__all__ = ["asked_measures", "disparities", "measure_of"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


RATES = ("selection_rate", "true_positive_rate", "false_positive_rate")
DIFFERENCES = {
    "demographic_parity_difference": ("selection_rate",),
    "equal_opportunity_difference": ("true_positive_rate",),
    "equalized_odds_difference": ("true_positive_rate", "false_positive_rate"),
}


def asked_measures(
    metrics: Any, read: Predictions, y_true: Any, y_pred: Any, weights: Array | None
) -> dict[str, Measure]:
    """What to measure besides what every audit does."""
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


UNIT, SIGNED, AT_MOST_1, POSITIVE = (0.0, 1.0), (-1.0, 1.0), (-math.inf, 1.0), (0.0, math.inf)
LIMITS = (
    dict.fromkeys(("accuracy_score", "precision_score", "recall_score", "f1_score"), UNIT)
    | dict.fromkeys(("fbeta_score", "jaccard_score", "roc_auc_score", "zero_one_loss"), UNIT)
    | dict.fromkeys(("average_precision_score", "top_k_accuracy_score", "hamming_loss"), UNIT)
    | dict.fromkeys(("matthews_corrcoef", "cohen_kappa_score", "balanced_accuracy_score"), SIGNED)
    | dict.fromkeys(("r2_score", "explained_variance_score", "d2_absolute_error_score"), AT_MOST_1)
    | dict.fromkeys(("brier_score_loss", "log_loss", "max_error"), POSITIVE)
    | dict.fromkeys(("mean_absolute_error", "median_absolute_error"), POSITIVE)
    | dict.fromkeys(("mean_squared_error", "root_mean_squared_error"), POSITIVE)
    | dict.fromkeys(("mean_squared_log_error", "root_mean_squared_log_error"), POSITIVE)
    | dict.fromkeys(("mean_absolute_percentage_error", "mean_poisson_deviance"), POSITIVE)
)


def measure_of(
    score: Any, answers: Answers, weights: Array | None, metric: Callable[[Rows], float]
) -> Share | Resampled:
    """What a scorer measures, with the best interval that is known."""
    name, more = score._score_func.__name__, dict(score._kwargs)
    average = more.pop("average", "binary")
    if score._sign == 1 and not {k: v for k, v in more.items() if v is not None} and answers.K:
        found = _known(name, average, answers, weights)
        if found is not None:
            return found
    low, high = LIMITS.get(name, (-math.inf, math.inf))
    return Resampled(metric, (low, high) if score._sign == 1 else (-high, -low))


def _known(
    name: str, average: str, answers: Answers, weights: Array | None
) -> Share | Resampled | None:
    """A metric that is made of shares, or None."""
    y, said, P, K = answers
    right = np.asarray(y == said)
    if name == "accuracy_score" or (
        average == "micro" and name in ("precision_score", "recall_score", "f1_score")
    ):
        return Share(right, None, weights)
    if name == "zero_one_loss":
        return Share(~right, None, weights)
    if name == "balanced_accuracy_score":
        return _mean([Share(right, np.asarray(y == k), weights) for k in range(K)])
    if K != 2 or average != "binary":
        return None
    positive, selected = np.asarray(y == 1), np.asarray(said == 1)
    if name == "recall_score":
        return Share(selected, positive, weights)
    if name == "precision_score":
        return _of_share(Share(positive, selected, weights), lambda q: q)
    either = Share(positive & selected, positive | selected, weights)
    if name == "jaccard_score":
        return _of_share(either, lambda q: q)
    if name == "f1_score":
        return _of_share(either, lambda q: 2 * q / (1 + q))
    if name == "roc_auc_score" and P is not None and weights is None:
        q = P[:, 1]
        return Resampled(
            lambda rows: auc(q[rows], positive[rows], 0.5).value,
            interval=lambda rows, confidence: auc(q[rows], positive[rows], confidence),
        )
    return None


def _of_share(share: Share, f: Callable[[float], float]) -> Resampled:
    """A growing function of a share whose rows depend on what was said.

    Two models have other such rows, so differences are not paired row by row: it is resampled.
    """

    def interval(rows: Rows, confidence: float) -> Estimate:
        return Estimate(*map(f, share.of(rows, confidence)))

    return Resampled(lambda rows: f(share.value(rows)), interval=interval, kind=share.kind)


def _mean(shares: list[Share]) -> Resampled:
    """The mean of shares of different rows, but for those that have no row."""

    def metric(rows: Rows) -> float:
        found = np.array([share.value(rows) for share in shares])
        known = found[~np.isnan(found)]
        return float(known.mean()) if len(known) else math.nan

    def interval(rows: Rows, confidence: float) -> Estimate:
        found = np.array([share.of(rows, confidence) for share in shares])
        value, low, high = found[~np.isnan(found[:, 0])].T
        if not len(value):
            return Estimate(math.nan, math.nan, math.nan)
        mean, K = float(value.mean()), len(value)
        down, up = (float(np.linalg.norm(x)) / K for x in (value - low, high - value))
        return Estimate(mean, mean - down, mean + up)

    return Resampled(metric, interval=interval)
