"""The agnostic learner around any estimator that takes `sample_weight`, such as boosted trees.

    min_h max_{λ∈Λ}  Σ_k λ_k L_k(h),     h fitted by the estimator with the weights of some mixture

λ is moved by losses on rows held out, and rows held out choose between the models of its path.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from anymix.errors import InputError, finite_number
from anymix.estimators.ascent import (
    Candidate,
    Step,
    candidates_of,
    columns_of,
    frontier_of,
    mixture_path,
)
from anymix.estimators.cross_fitting import (
    CrossFit,
    RowLoss,
    log_loss_of,
    predictions,
    squared_error,
    weight_argument,
)
from anymix.estimators.held_out_game import HeldOutCertificate, game_value
from anymix.estimators.keywords import by_name, no_domains
from anymix.estimators.reading import complete_folds, rows_without_features, targets_of
from anymix.mixtures import MixtureSet
from anymix.mixtures.parsing import Mixtures, is_mixture_of, target_mixtures
from anymix.problem.rows import Rows
from anymix.selection.held_out import HeldOut
from anymix.selection.rule import KEPT, NothingGained, check_price, choose

Array = NDArray[np.float64]

__all__ = ["AgnosticEnsemble"]


def _classifies(ensemble: AgnosticEnsemble) -> bool:
    """Whether there are probabilities to ask for."""
    return bool(is_classifier(ensemble.estimator))


class AgnosticEnsemble(MetaEstimatorMixin, BaseEstimator):
    """min_h max_{λ∈Λ} Σ_k λ_k L_k(h), h what `estimator` learns from rows weighted by a mixture.

    For any classifier or regressor that takes `sample_weight`: boosted trees, forests, a Pipeline
    whose last step does. Candidates are the ordinary model and those fitted with the weights of a
    few mixtures, each harder than the one before; rows held out choose. The ordinary model is kept
    (`NothingGained` warns) unless another that all rows can pay for is significantly better for
    the worst mixture.

    Parameters
    ----------
    estimator : estimator
        What is fitted: a classifier with `predict_proba`, or a regressor. It gets X as it is, so
        frames, missing values and categories are welcome if it takes them.
    mixtures : MixtureSet, function, str or None
        Λ: a set, a function of the domains' sizes that gives one, words such as "chi2:2.0" as
        `anymix.mixtures.parsing.mixture_set` reads them, or None for any mixture (the simplex).
    robustness : sequence of float
        Numbers t in (0, 1]: mixtures stay in {(1−t) m̄ + t λ : λ ∈ Λ}, m̄ the data's own, for
        `n_steps` steps with each t in rising order.
    price : float
        The part by which the mean loss of all rows may rise (of its root, for squared errors) for
        the sake of the worst domain: 0 asks for free gains only, inf looks at no one else.
    cv : int, splitter or iterable
        The number of folds, dealt evenly over domains and classes, fewer if the smallest domain
        has fewer rows (2 at least); or a splitter or pairs (train, test) that hold out every row
        once, and some rows of every domain each time.
    n_steps : int
        Steps of λ for each t; each costs `cv` fits.
    loss : "auto" or function
        "auto" is log loss for classifiers (of probabilities 1/n at least, n the number of rows) and
        ½ (z − y)² for regressors. Or (y, predictions) -> loss of each row; predictions are
        `predict_proba` or `predict`, and y are places in `classes_` or numbers.
    combine : str
        Which candidates there are. "single": for each mixture its own model. "average": for each
        the average of the predictions for all mixtures up to it, which gains less where domains
        differ much but is less of a lottery where they do not. "auto": both.
    random_state : int, RandomState or None
        Deals the rows to the folds.
    verbose : bool
        Print a line for each mixture.

    Attributes
    ----------
    estimator_ : estimator or None
        The fitted model; None if predictions are averages of several.
    estimators_ : list of estimators
        All models whose predictions are averaged, fitted to all rows.
    classes_ : ndarray of shape (K,)
        The classes in sorted order; only for classifiers.
    n_features_in_, feature_names_in_ : int and ndarray of shape (d,)
        How many features `fit` has seen, and their names if X was a frame.
    domain_names_ : ndarray of shape (p,)
        The domains, in the order of all that has a number for each.
    mixture_ : ndarray of shape (p,)
        The mixture that the chosen model was fitted for; the mean of several for an average.
    domain_losses_ : ndarray of shape (p,) or None
        The chosen candidate's losses on rows held out. With a single domain nothing is held out:
        then this and what follows is None, but for `n_fits_`.
    agnostic_loss_ : float or None
        max_{λ∈Λ} Σ_k λ_k L_k of them.
    certificate_ : HeldOutCertificate or None
        Upper: `agnostic_loss_`. Lower: what no random draw among the candidates can beat, on the
        same rows held out. It says nothing of models that were not fitted, or of new rows.
    frontier_ : Frontier or None
        The losses of all candidates on rows held out, and the mean loss of their models on the
        rows fitted.
    cv_results_ : dict or None
        Columns for pandas.DataFrame: param_robustness, param_n_models (how many are averaged: all
        up to a mixture, or its own alone), worst_test_loss, expected_worst_test_loss (which the
        choice looks at, see AgnosticClassifierCV), se_test_loss,
        pooled_test_loss, gain and se_gain over the ordinary model, test_loss_<domain> and
        mixture_<domain>.
    best_index_ : int or None
        The place of the chosen candidate; 0 is the ordinary model.
    n_fits_ : int
        How often the estimator was fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> rng = np.random.default_rng(0)
    >>> region = np.repeat(["city", "rural"], [1800, 200])
    >>> X = rng.normal(size=(2000, 2)).round(1)
    >>> y = np.where(region == "city", X[:, 0], X[:, 1]) + 0.5 * rng.normal(size=2000) > 0
    >>> trees = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=7)
    >>> model = AgnosticEnsemble(trees, price=0.2).fit(X, y, domains=region)
    >>> model.cv_results_["test_loss_rural"][[0, model.best_index_]].round(2), model.n_fits_
    (array([0.91, 0.62]), 16)
    """

    estimator_: Any
    estimators_: list[Any]
    classes_: NDArray[Any]
    domain_names_: NDArray[Any]
    mixture_: Array
    domain_losses_: Any  # this and what follows is None with one domain
    agnostic_loss_: Any
    certificate_: Any
    frontier_: Any
    cv_results_: Any
    best_index_: Any
    n_fits_: int  # but not this
    __metadata_request__fit = {"domains": True}  # noqa: RUF012 - scikit-learn's way to say it

    def __init__(
        self,
        estimator: Any,
        mixtures: Mixtures = None,
        robustness: Sequence[float] = (0.5, 1.0),
        price: float = 0.05,
        cv: Any = 3,
        *,
        n_steps: int = 2,
        loss: str | RowLoss = "auto",
        combine: str = "auto",
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.mixtures = mixtures
        self.robustness = robustness
        self.price = price
        self.cv = cv
        self.n_steps = n_steps
        self.loss = loss
        self.combine = combine
        self.random_state = random_state
        self.verbose = verbose

    @by_name
    def fit(
        self, X: Any, y: Any, *, domains: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Try mixtures, choose by rows held out, and fit all rows with the choice.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features, as the estimator takes them.
        y : array-like of shape (n,)
            What to learn.
        domains : array-like of shape (n,) or (n, p), or None
            Labels, or memberships when a row may be in several domains; None is one domain,
            ordinary training (which warns where it is not said).
        sample_weight : array-like of shape (n,) or None
            Weights ≥ 0 of the rows; None is 1.

        Returns
        -------
        self
        """
        self._check()
        cross = self._read(X, y, domains, sample_weight)
        self.domain_names_ = cross.rows.names
        if len(self.domain_names_) == 1:
            return self._keep_ordinary(cross)
        sizes = cross.rows.sizes()
        reference = sizes / sizes.sum()
        target = target_mixtures(self.mixtures, None, sizes, self.domain_names_)
        path = mixture_path(
            cross, target, reference, sorted(self.robustness), self.n_steps, self._report
        )
        candidates = candidates_of(path, self.combine)
        held = _held_out(cross, candidates, target, reference)
        chosen = choose(held, self.price)
        self._keep(held, candidates, chosen)
        self._fit_choice(cross, path, candidates[chosen])
        if chosen == 0 and not is_mixture_of(target, sizes, len(cross.rows)):  # or none was tried
            warnings.warn(KEPT, NothingGained, stacklevel=3)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of every row, or its value, (n,)."""
        X = self._checked(X)
        if self.estimator_ is not None:
            return np.asarray(self.estimator_.predict(X))
        if not _classifies(self):
            return self._mean(X, None)
        return np.asarray(self.classes_[self._mean(X, self.classes_).argmax(axis=1)])

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (n, K)."""
        X = self._checked(X)
        return self._mean(X, self.classes_)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """The share of rows whose class is right, or R².

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features.
        y : array-like of shape (n,)
            The truth.
        sample_weight : array-like of shape (n,) or None
            Weights of the rows.

        Returns
        -------
        float
        """
        metric = accuracy_score if _classifies(self) else r2_score
        return float(metric(y, self.predict(X), sample_weight=sample_weight))

    def _checked(self, X: Any) -> Any:
        """X, with the columns that were fitted."""
        check_is_fitted(self)
        (X,) = indexable(X)
        if np.ndim(X) != 1:  # of one row without brackets the estimator says what to do
            validate_data(self, X, reset=False, skip_check_array=True)
        return X

    def _mean(self, X: Any, classes: NDArray[Any] | None) -> Array:
        """The mean of what the models say."""
        said = [predictions(model, X, classes) for model in self.estimators_]
        return np.asarray(np.mean(said, axis=0))

    # -- reading ---------------------------------------------------------------------------------

    def _check(self) -> None:
        weight_argument(self.estimator)
        if _classifies(self) and not hasattr(self.estimator, "predict_proba"):
            raise InputError(
                "estimator",
                f"is {type(self.estimator).__name__}(...), a classifier without predict_proba",
                "wrap it in CalibratedClassifierCV, or give another",
            )
        if not hasattr(self.estimator, "predict"):
            found = f"is {type(self.estimator).__name__}(...), which has no predict"
            raise InputError("estimator", found, "give a classifier or a regressor")
        if np.ndim(self.robustness) != 1 or len(self.robustness) == 0:
            fix = "give a list of numbers in (0, 1]"
            raise InputError("robustness", f"is {self.robustness!r}", fix)
        for t in self.robustness:
            finite_number("robustness", t, "give numbers in (0, 1]", lambda x: 0 < x <= 1)
        check_price(self.price)
        if isinstance(self.cv, Integral) and self.cv < 2:
            raise InputError("cv", f"is {self.cv!r}", "give 2 folds or more")
        if not isinstance(self.n_steps, Integral) or self.n_steps < 1:
            raise InputError("n_steps", f"is {self.n_steps!r}", "give a whole number ≥ 1")
        if self.combine not in ("auto", "single", "average"):
            fix = "give 'auto', 'single' or 'average'"
            raise InputError("combine", f"is {self.combine!r}", fix)
        if self.loss != "auto" and not callable(self.loss):
            fix = "give 'auto' or a function of y and predictions"
            raise InputError("loss", f"is {self.loss!r}", fix)

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> CrossFit:
        """X is for the estimator to judge; all else is checked here."""
        (X,) = indexable(X)  # as scikit-learn does it before folds: sparse ones to rows, and so on
        validate_data(self, X, skip_check_array=True)
        y = targets_of(self, y, _num_samples(X))
        rows = rows_without_features(y, _classifies(self), domains, sample_weight)
        if rows.classes is not None:
            self.classes_ = rows.classes
        alone = len(rows.names) == 1
        splits = [] if alone else complete_folds(rows, self.cv, self.random_state)
        return CrossFit(self.estimator, X, y, rows, splits, self._loss(len(rows)))

    def _loss(self, n: int) -> RowLoss:
        if callable(self.loss):
            return self.loss
        return partial(log_loss_of, floor=1 / n) if _classifies(self) else squared_error

    # -- choosing --------------------------------------------------------------------------------

    def _keep(self, held: HeldOut, candidates: Sequence[Candidate], chosen: int) -> None:
        """What is known of the choice and of all candidates."""
        lower = game_value(held.domain_losses, held.mixtures).lower
        upper = float(held.value[chosen])
        lower = min(lower, upper)  # so it is, but for rounding
        self.best_index_ = chosen
        self.domain_losses_ = held.domain_losses[chosen]
        self.agnostic_loss_ = upper
        self.certificate_ = HeldOutCertificate(upper, lower, len(candidates))
        self.frontier_ = frontier_of(held, candidates, self.domain_names_, chosen)
        self.cv_results_ = columns_of(held, candidates, self.domain_names_)

    # -- fitting ---------------------------------------------------------------------------------

    def _keep_ordinary(self, cross: CrossFit) -> Self:
        """One domain: the estimator as it is."""
        for name in ("domain_losses", "agnostic_loss", "certificate", "frontier", "cv_results"):
            setattr(self, f"{name}_", None)
        self.best_index_ = None
        self.mixture_ = np.ones(1)
        self.estimators_ = [cross.fit(None)]
        self.estimator_, self.n_fits_ = self.estimators_[0], 1
        return self

    def _fit_choice(self, cross: CrossFit, path: Sequence[Step], choice: Candidate) -> None:
        """Models of all rows, with the weights of each mixture of the choice."""
        weighted = [None if step is path[0] else step.mixture for step in choice.steps]
        self.estimators_ = [cross.fit(mixture) for mixture in weighted]
        self.estimator_ = self.estimators_[0] if len(weighted) == 1 else None
        self.mixture_ = choice.mixture
        self.n_fits_ = len(path) * len(cross.splits) + len(weighted)

    def keep_ordinary(self, X: Any, y: Any) -> Self:
        """Put the ordinary model in the place of the one chosen, fitted to these rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features.
        y : array-like of shape (n,)
            What to learn.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self.estimators_ = [clone(self.estimator).fit(X, y, **no_domains(self.estimator))]
        self.estimator_, self.best_index_ = self.estimators_[0], 0
        self.frontier_ = replace(self.frontier_, chosen=0)
        self.domain_losses_ = self.frontier_.held_out.domains[0]
        self.agnostic_loss_ = float(self.frontier_.held_out.worst[0])
        self.certificate_ = replace(self.certificate_, upper=self.agnostic_loss_)
        names = self.domain_names_.tolist()
        self.mixture_ = np.array([self.cv_results_[f"mixture_{k}"][0] for k in names])
        return self

    def _report(self, step: Step) -> None:
        if self.verbose:
            names, shares = self.domain_names_.tolist(), step.mixture.round(3).tolist()
            print(f"t = {step.robustness:g}: {dict(zip(names, shares, strict=True))}")

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = copy.deepcopy(inner.classifier_tags)
        tags.regressor_tags = copy.deepcopy(inner.regressor_tags)
        tags.input_tags = copy.deepcopy(inner.input_tags)
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        tags.non_deterministic = inner.non_deterministic
        tags.target_tags.required = True
        return tags


def _held_out(
    cross: CrossFit, candidates: Sequence[Candidate], target: MixtureSet, reference: Array
) -> HeldOut:
    """The losses of the candidates on rows that their models have not seen."""
    losses = np.array([cross.losses(c.held_out) for c in candidates])
    rows = cross.rows
    _, average = rows.domains.shares(len(rows.names), rows.weight)
    guess = cross.losses(_constant_guess(rows))
    return HeldOut(
        losses,
        average,
        target,
        np.zeros(len(rows.names)),
        reference,
        constant=np.asarray(average @ guess),
        squared=cross.loss is squared_error,
        constant_rows=guess,
    )


def _constant_guess(rows: Rows) -> Array:
    """The shares of the classes, or the mean, as a prediction for every row."""
    if rows.classes is None:
        return np.full(len(rows), np.average(rows.y, weights=rows.weight))
    counts = np.bincount(rows.y, rows.weight, len(rows.classes))
    return np.tile(counts / counts.sum(), (len(rows), 1))
