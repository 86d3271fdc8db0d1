"""What the estimators share that choose t, γ, μ and r by rows held out: parameters and `fit`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from anymix.errors import InputError
from anymix.estimators.baselines import Baseline
from anymix.estimators.choices import Choice, choose
from anymix.estimators.domain_features import Kind, widened
from anymix.estimators.far_fitting import sample_to_search
from anymix.estimators.fitting import Settings
from anymix.estimators.folding import folds
from anymix.estimators.keywords import by_name
from anymix.estimators.linear import estimator_of
from anymix.estimators.ordinary import Anchor
from anymix.estimators.reading import refuse_class_weight
from anymix.estimators.searching import ROBUST_GAMMAS, ROBUSTNESS, Candidate, Plan, candidates_of
from anymix.mixtures import Penalty
from anymix.mixtures.parsing import Mixtures
from anymix.problem.dealing import ROWS_TO_CHOOSE, rows_to_choose
from anymix.problem.far_rows import far_problem
from anymix.problem.losses import Loss
from anymix.problem.rows import Rows
from anymix.selection.rule import KEPT, NothingGained, check_price
from anymix.solvers.frontier import Frontier

Array = NDArray[np.float64]

__all__ = ["AgnosticSelecting"]

SHARED = (
    "baseline",
    "norm",
    "prior",
    "tol",
    "domain_features",
    "fit_intercept",
    "max_iter",
    "loss",
    "delta",
)


class AgnosticSelecting(BaseEstimator):
    """What AgnosticClassifierCV and AgnosticRegressorCV share."""

    n_features_in_: int
    coef_: Array
    intercept_: Any
    baseline_losses_: Array
    mixture_: Array
    __metadata_request__fit = {"domains": True}  # noqa: RUF012 - scikit-learn's way to say it
    __metadata_request__predict = {"domains": True}  # noqa: RUF012
    __metadata_request__predict_proba = {"domains": True}  # noqa: RUF012
    __metadata_request__predict_log_proba = {"domains": True}  # noqa: RUF012
    __metadata_request__decision_function = {"domains": True}  # noqa: RUF012
    __metadata_request__score = {"domains": True}  # noqa: RUF012

    def __init__(
        self,
        gammas: Iterable[float] | None = None,
        mus: Iterable[float] = (0.0,),
        skewnesses: Iterable[float | None] = (None,),
        cv: Any = 5,
        price: float = 0.05,
        *,
        mixtures: Mixtures = None,
        baseline: Baseline = None,
        robustness: Iterable[float] = ROBUSTNESS,
        anchor: Anchor = "ordinary",
        domain_features: Kind = None,
        solver: str = "exact",
        tol: float = 1e-6,
        norm: str = "squared",
        fit_intercept: bool = True,
        max_iter: int = 1000,
        random_state: Any = 0,
        verbose: bool = False,
        prior: Penalty | None = None,
        class_weight: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.gammas = gammas
        self.mus = mus
        self.skewnesses = skewnesses
        self.cv = cv
        self.price = price
        self.mixtures = mixtures
        self.baseline = baseline
        self.robustness = robustness
        self.anchor = anchor
        self.domain_features = domain_features
        self.solver = solver
        self.tol = tol
        self.norm = norm
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose
        self.prior = prior
        self.class_weight = class_weight
        self.n_jobs = n_jobs

    @by_name
    def fit(self, X: Any, y: Any = None, *, domains: Any = None, sample_weight: Any = None) -> Self:
        """Choose (t, γ, μ, r), then fit all rows with it; warn if that is the ordinary model.

        Of more than 20,000 rows, or of rows that are not in memory, a sample chooses, and all are
        fitted.

        Parameters
        ----------
        X : array-like of shape (n, d), or rows that are not in memory
            The features, dense, sparse or a frame; or an array or frame of Dask, a dataset of
            pyarrow or Ray, or a problem of `anymix.partitions`.
        y : array-like of shape (n,), or str
            What to learn; of a frame or dataset that is not in memory, the name of the column.
        domains : array-like of shape (n,) or (n, p), str or None
            Labels, or memberships when a row may be in several domains; None is one domain; or
            the name of the column.
        sample_weight : array-like of shape (n,), str or None
            Weights ≥ 0 of the rows, or the name of their column; None is 1.

        Returns
        -------
        self
        """
        self._check()
        rng = check_random_state(self.random_state)
        far = far_problem(X, y, domains, sample_weight, self._loss(), self.fit_intercept)
        if far is None:
            read = self._counted(self._read(X, y, domains, sample_weight))
            rows, whole = widened(read, self.domain_features), None
            if isinstance(self.cv, Integral) and len(rows) > ROWS_TO_CHOOSE:
                whole = rows.to_fit()
                _, rows = rows_to_choose(rows, rng)
        else:
            refuse_class_weight(self.class_weight)
            rows, whole = sample_to_search(self, far), far
        splits = folds(rows, self.cv, rng)
        choice = choose(rows, splits, self._plan(rows), self._settings(), self.price, whole)
        self._keep(choice, rows.names)
        if choice.is_ordinary and len(choice.found.candidates) > 1:
            warnings.warn(KEPT, NothingGained, stacklevel=3)
        return self

    def _counted(self, rows: Rows) -> Rows:
        """The rows of weight above 0, so that others take no place in a fold; splits count all."""
        if rows.weight is None or not isinstance(self.cv, Integral) or np.all(rows.weight > 0):
            return rows
        found = rows.take(np.flatnonzero(rows.weight > 0))
        counts = found.domains.counts(len(rows.names))
        if np.any(counts == 0):
            name = rows.names.tolist()[int(np.argmin(counts))]
            fix = "give some of them a weight above 0, or leave the domain out"
            raise InputError("sample_weight", f"is zero for all rows of {name!r}", fix)
        return found

    def _check(self) -> None:
        if self.solver in ("stochastic", "optimistic"):
            fix = "paths over gamma are exact: give 'exact'"
            raise InputError("solver", f"is {self.solver!r}", fix)
        if self.solver != "exact":
            raise InputError("solver", f"is {self.solver!r}", "give 'exact'")
        if self.prior is not None and not isinstance(self.prior, Penalty):
            fix = "give a penalty on λ, such as DirichletPrior(...), or None"
            raise InputError("prior", f"is {self.prior!r}", fix)
        check_price(self.price)

    def _plan(self, rows: Rows) -> Plan:
        """The candidates; with one domain there is none but the ordinary model."""
        gammas = None if self.gammas is None else _values("gammas", self.gammas)
        grid = (_values(name, getattr(self, name)) for name in ("mus", "skewnesses"))
        bold = [t for t in _values("robustness", self.robustness) if t != 0]
        candidates = candidates_of(
            bold, gammas or ROBUST_GAMMAS, *grid, to_zero=isinstance(self.anchor, str)
        )
        return Plan(
            candidates if len(rows.names) > 1 else [],
            self.mixtures,
            self.baseline,
            self.anchor,
            gammas,
            self.norm,
            self.max_iter,
            self.prior,
            self.n_jobs,
        )

    def _keep(self, choice: Choice, names: NDArray[Any]) -> None:
        """The choice, the models, and the table of all candidates."""
        found, held = choice.found, choice.found.held_out
        self.best_index_ = choice.index
        self.robustness_, self.gamma_, self.mu_, self.max_skewness_, _ = choice.candidate
        self.frontier_: Frontier = choice.frontier
        ordinary, chosen = (
            fit.with_deviations(self.domain_features, self.n_features_in_)
            for fit in (choice.ordinary, choice.fit)
        )
        shared = {name: value for name, value in self.get_params().items() if name in SHARED}
        gamma = found.candidates[0].gamma
        self.ordinary_ = estimator_of(ordinary, gamma, robustness=0.0, **shared)
        if hasattr(self, "feature_names_in_"):
            self.ordinary_.feature_names_in_ = self.feature_names_in_
        self.__dict__.pop("deviations_", None)  # of an earlier fit
        self.__dict__.update(chosen.attributes(), validation_losses_=None)
        columns = zip(Candidate._fields, zip(*found.candidates, strict=True), strict=True)
        self.cv_results_: dict[str, Any] = {
            **{f"param_{name}": _column(values) for name, values in columns},
            "worst_test_loss": held.value,
            "expected_worst_test_loss": held.expected,
            "se_test_loss": np.array([held.error(c, lam) for c, lam in enumerate(held.worst)]),
            "pooled_test_loss": held.pooled,
            **{f"test_loss_{k}": held.domain_losses[:, i] for i, k in enumerate(names.tolist())},
        }

    def _settings(self) -> Settings:
        return Settings(
            self.mixtures,
            baseline=self.baseline,
            norm=self.norm,
            prior=self.prior,
            tol=self.tol,
            max_iter=self.max_iter,
            verbose=self.verbose,
        )

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        raise NotImplementedError

    def _loss(self) -> Loss:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _column(values: Iterable[Any]) -> NDArray[Any]:
    """A column of numbers; of objects, if None is among them."""
    found = list(values)
    return np.array(found, dtype=object if None in found else None)


def _values(name: str, values: Any) -> list[Any]:
    found = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []
    if not found:
        raise InputError(name, f"is {values!r}", "give a list of one or more values to try")
    return found
