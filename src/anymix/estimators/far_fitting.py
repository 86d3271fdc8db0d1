"""`fit` on rows that are not here: a problem known by its sums, solved as any other."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from anymix.errors import InputError
from anymix.estimators.fitting import fit_problem
from anymix.estimators.ordinary import given_anchor
from anymix.estimators.overfitting import ADVICE, OverfitWarning, overfit_message
from anymix.problem.dealing import rows_to_choose
from anymix.problem.rows import Rows

__all__ = ["fit_far", "sample_to_search"]


def fit_far(estimator: Any, problem: Any) -> None:
    """Fit an AgnosticClassifier or AgnosticRegressor to rows that are not here.

    Parameters
    ----------
    estimator : AgnosticLinear
        What to fit; its fitted attributes are set.
    problem : Oracle
        The losses, with `classes`, `domain_names` and `unpack` as LinearDomains has them.
    """
    _without_domain_features(estimator)
    if isinstance(estimator.anchor, str):
        found, fix = f"is {estimator.anchor!r}, which needs rows in memory", "give coefficients"
        raise InputError("anchor", found, fix)
    anchor = given_anchor(problem, estimator.anchor)
    settings = replace(estimator._settings(), anchor=anchor)
    found_fit = fit_problem(problem, settings, start=estimator._start(problem))
    estimator.__dict__.pop("deviations_", None)  # of an earlier fit
    estimator.__dict__.update(found_fit.attributes())
    _name_features(estimator, problem)
    message = overfit_message(problem, found_fit.solution, estimator.gamma, estimator.norm)
    if message:
        warnings.warn(f"{message}. {ADVICE}", OverfitWarning, stacklevel=4)


def sample_to_search(estimator: Any, problem: Any) -> Rows:
    """About 20,000 rows of a problem, by which an estimator chooses what to fit to all.

    Parameters
    ----------
    estimator : AgnosticSelecting
        Whose `n_features_in_` and `feature_names_in_` are set.
    problem : Oracle
        The rows, with a sample of them.

    Returns
    -------
    Rows
    """
    _without_domain_features(estimator)
    _name_features(estimator, problem)
    _, rows = rows_to_choose(problem.sampled_rows, np.random.default_rng(0))
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    share = problem.sizes / problem.sizes.sum() / rows.sizes()  # small domains have more rows here
    return replace(rows, weight=len(rows) * weight * share[rows.domains.key()])


def _without_domain_features(estimator: Any) -> None:
    if estimator.domain_features is not None:
        found = f"is {estimator.domain_features!r}, which needs rows in memory"
        raise InputError("domain_features", found, "give None for rows that are not")


def _name_features(estimator: Any, problem: Any) -> None:
    estimator.n_features_in_ = problem.n_features
    estimator.__dict__.pop("feature_names_in_", None)
    if problem.feature_names is not None:
        estimator.feature_names_in_ = np.array(problem.feature_names, dtype=object)
