"""Metrics of scikit-learn whose limits are known, and those with a better interval than most.

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

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing.intervals import Estimate
from anymix.auditing.measures import Share
from anymix.auditing.predictions import Answers
from anymix.auditing.resampling import Resampled
from anymix.auditing.scores import auc

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

__all__ = ["measure_of"]

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
