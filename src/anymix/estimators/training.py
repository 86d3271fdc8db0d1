"""The parameters and the fit that the linear estimators share.

min_w max_{λ∈Λ}  Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄)
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from anymix.errors import InputError, finite_number
from anymix.estimators.baselines import Baseline
from anymix.estimators.domain_features import Kind, widened
from anymix.estimators.far_fitting import fit_far
from anymix.estimators.fitting import Settings, fit_problem
from anymix.estimators.keywords import by_name, in_search
from anymix.estimators.ordinary import Anchor, anchor_of
from anymix.estimators.overfitting import ADVICE, OverfitWarning, overfit_message
from anymix.estimators.reading import refuse_class_weight
from anymix.mixtures import MixtureSet, Penalty
from anymix.mixtures.parsing import Mixtures
from anymix.problem.dealing import hold_out, sorted_rows
from anymix.problem.far_rows import far_problem
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import Loss
from anymix.problem.rows import ALL, Part, Rows
from anymix.solvers.certificates import Certificate
from anymix.solvers.exact import Solution, solve
from anymix.solvers.staged import Schedule, train

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
    __metadata_request__partial_fit = {"domains": True}  # noqa: RUF012
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
        solver: str = "exact",
        tol: float = 1e-6,
        *,
        robustness: float = 1.0,
        anchor: Anchor = None,
        domain_features: Kind = None,
        schedule: Schedule = "theory",
        norm: str = "squared",
        prior: Penalty | None = None,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        warm_start: bool = False,
        validation_fraction: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
        class_weight: Any = None,
    ) -> None:
        self.mixtures = mixtures
        self.gamma = gamma
        self.mu = mu
        self.max_skewness = max_skewness
        self.baseline = baseline
        self.solver = solver
        self.tol = tol
        self.robustness = robustness
        self.anchor = anchor
        self.domain_features = domain_features
        self.schedule = schedule
        self.norm = norm
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.validation_fraction = validation_fraction
        self.random_state = random_state
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
        fitted, held = self._parts(rows)
        problem = rows.to_fit(fitted, "the data" if held is None else "the rows fitted")
        if held is not None:
            rows.check_domains(held, "the rows held out")
        settings = replace(self._settings(), anchor=self._anchor(rows, fitted))
        found = fit_problem(problem, settings, start=self._start(problem), solver=self._solver())
        found = found.with_deviations(self.domain_features, self.n_features_in_)
        self.__dict__.pop("deviations_", None)  # of an earlier fit
        self.__dict__.update(found.attributes())
        w = found.solution.w
        self.validation_losses_ = None if held is None else rows.to_judge(held).losses(w)
        message = overfit_message(problem, found.solution, self.gamma, self.norm)
        if message and not in_search():  # a search judges by rows held out
            warnings.warn(f"{message}. {ADVICE}", OverfitWarning, stacklevel=3)
        return self

    def _parts(self, rows: Rows) -> tuple[Part, Part | None]:
        """The rows to fit, and those to hold out, which are a share of every domain and class."""
        if self.validation_fraction is None:
            return ALL, None
        fix = "give None or one inside (0, 1)"
        share = finite_number(
            "validation_fraction", self.validation_fraction, fix, lambda x: 0 < x < 1
        )
        return hold_out(sorted_rows(rows, check_random_state(self.random_state)), share)

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

    def _anchor(self, rows: Rows, part: Part) -> Array | None:
        """a: the ordinary model of the rows to fit, coefficients given, or None."""
        options = {"norm": self.norm, "tol": self.tol, "max_iter": self.max_iter}
        return anchor_of(rows, part, self.anchor, **options)

    def _solver(self) -> Any:
        """`solve`, or one of the paper's algorithms in stages."""
        if self.solver == "exact":
            return solve
        if self.solver not in ("stochastic", "optimistic"):
            fix = "give 'exact', 'stochastic' or 'optimistic'"
            raise InputError("solver", f"is {self.solver!r}", fix)
        if self.anchor is not None:
            found = f"is {self.solver!r}, which takes no anchor"
            raise InputError("solver", found, "use 'exact'")
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        last = self.solver == "optimistic"
        return partial(_train, optimistic=last, schedule=self.schedule, seed=seed)

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


def _train(
    problem: LinearDomains,
    mixtures: MixtureSet,
    *,
    anchor: None = None,
    **options: Any,
) -> Solution:
    """`train` with the arguments of `solve`; there is no anchor."""
    return train(problem, mixtures, **options)
