"""The parameters and the fit that the linear estimators share.

min_w max_{λ∈Λ}  Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄)
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from anymix.estimators.baselines import Baseline
from anymix.estimators.domain_features import Kind, widened
from anymix.estimators.far_fitting import fit_far
from anymix.estimators.fitting import Settings, fit_problem
from anymix.estimators.keywords import by_name
from anymix.estimators.ordinary import Anchor, anchor_of
from anymix.estimators.overfitting import ADVICE, OverfitWarning, overfit_message
from anymix.estimators.reading import refuse_class_weight
from anymix.mixtures import Penalty
from anymix.mixtures.choosing import Mixtures
from anymix.problem.far_rows import far_problem
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import Loss
from anymix.problem.rows import ALL, Rows
from anymix.solvers.certificates import Certificate
from anymix.solvers.exact import Solution

Array = NDArray[np.float64]

__all__ = ["AgnosticLinear"]


class AgnosticLinear(BaseEstimator):
    """What AgnosticClassifier and AgnosticRegressor share: the parameters, and `fit`."""

    n_features_in_: int
    coef_: Array
    intercept_: Any  # (scores,), or a number in regression
    mixture_: Array
    domain_names_: NDArray[Any]
    domain_losses_: Array
    baseline_losses_: Array
    agnostic_loss_: float
    certificate_: Certificate
    n_iter_: int
    history_: list[dict[str, Any]]
    solution_: Solution
    __metadata_request__fit = {"domains": True}  # noqa: RUF012 - scikit-learn's way to say it
    __metadata_request__predict = {"domains": True}  # noqa: RUF012
    __metadata_request__predict_proba = {"domains": True}  # noqa: RUF012
    __metadata_request__predict_log_proba = {"domains": True}  # noqa: RUF012
    __metadata_request__decision_function = {"domains": True}  # noqa: RUF012
    __metadata_request__score = {"domains": True}  # noqa: RUF012

    def __init__(
        self,
        mixtures: Mixtures = None,
        gamma: float = 1e-3,
        mu: float = 0.0,
        max_skewness: float | None = None,
        baseline: Baseline = None,
        tol: float = 1e-6,
        *,
        robustness: float = 1.0,
        anchor: Anchor = None,
        domain_features: Kind = None,
        norm: str = "squared",
        prior: Penalty | None = None,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: bool = False,
        class_weight: Any = None,
    ) -> None:
        self.mixtures = mixtures
        self.gamma = gamma
        self.mu = mu
        self.max_skewness = max_skewness
        self.baseline = baseline
        self.tol = tol
        self.robustness = robustness
        self.anchor = anchor
        self.domain_features = domain_features
        self.norm = norm
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose = verbose
        self.class_weight = class_weight

    @by_name
    def fit(self, X: Any, y: Any = None, *, domains: Any = None, sample_weight: Any = None) -> Self:
        """Find w and the worst mixture λ; warn (`OverfitWarning`) when λ rests on few rows.

        Parameters
        ----------
        X : array-like of shape (n, d), or rows that are not in memory
            The features, dense, sparse or a frame; or an array or frame of Dask, a dataset of
            pyarrow or Ray, or a problem of `anymix.partitions`.
        y : array-like of shape (n,), or str
            What to learn; of a frame or dataset that is not in memory, the name of the column.
        domains : array-like of shape (n,) or (n, p), str or None
            Labels, or memberships when a row may be in several domains; None is one domain,
            ordinary training (which warns where it is not said); or the name of the column.
        sample_weight : array-like of shape (n,), str or None
            Weights ≥ 0 of the rows, or the name of their column; None is 1.

        Returns
        -------
        self
        """
        far = far_problem(X, y, domains, sample_weight, self._loss(), self.fit_intercept)
        if far is not None:
            refuse_class_weight(self.class_weight)
            fit_far(self, far)
            return self
        rows = widened(self._read(X, y, domains, sample_weight), self.domain_features)
        problem = rows.to_fit(ALL, "the data")
        settings = replace(self._settings(), anchor=self._anchor(rows))
        found = fit_problem(problem, settings, start=self._start(problem))
        found = found.with_deviations(self.domain_features, self.n_features_in_)
        self.__dict__.pop("deviations_", None)  # of an earlier fit
        self.__dict__.update(found.attributes())
        message = overfit_message(problem, found.solution, self.gamma, self.norm)
        if message:
            warnings.warn(f"{message}. {ADVICE}", OverfitWarning, stacklevel=3)
        return self

    def _settings(self) -> Settings:
        return Settings(
            self.mixtures,
            self.gamma,
            self.mu,
            self.max_skewness,
            self.baseline,
            self.norm,
            self.prior,
            self.tol,
            self.max_iter,
            self.verbose,
            self.robustness,
        )

    def _anchor(self, rows: Rows) -> Array | None:
        """a: the ordinary model, coefficients given, or None."""
        options = {"norm": self.norm, "tol": self.tol, "max_iter": self.max_iter}
        return anchor_of(rows, ALL, self.anchor, **options)

    def _start(self, problem: LinearDomains) -> Solution | None:
        """The earlier solution, if asked for and of the right shape."""
        known: Solution | None = getattr(self, "solution_", None) if self.warm_start else None
        shape = (problem.n_parameters, problem.n_domains)
        return known if known and (known.w.size, known.mixture.size) == shape else None

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        raise NotImplementedError

    def _loss(self) -> Loss:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
