"""The flagship: one fit that serves a domain that is unknown, known, or seen in unlabelled rows.

    f_λ(x) = Σ_k (λ_k/m̄_k) Q(k|x) h_k(x) / Σ_k (λ_k/m̄_k) Q(k|x)

h_k is a blend of a linear model and boosted trees fitted with the domain as a feature, asked as if
the row were of domain k; Q is a domain classifier. `selection.one_fit` chooses λ, or the plain
models, on held-out rows.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier, is_regressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from anymix.errors import InputError, finite_vector
from anymix.estimators.cross_fitting import weight_argument
from anymix.estimators.domain_features import members_of
from anymix.estimators.keywords import NoDomainsWarning, by_name
from anymix.estimators.learners import (
    DomainClassifier,
    Learner,
    Linear,
    Own,
    Sample,
    Trees,
)
from anymix.estimators.reading import read_classes, read_numbers
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.problem.dealing import deal_groups, sorted_rows
from anymix.problem.losses import SquaredError
from anymix.problem.membership import OneDomain
from anymix.problem.rows import Rows
from anymix.selection.dial import MixtureEstimate, combine, estimate_mixture
from anymix.selection.one_fit import (
    OutOfFold,
    adapting_pays,
    blended,
    cross_fitted,
    decide,
    name_of,
    with_domain,
)
from anymix.selection.recommendation import Recommendation, recommendation_of
from anymix.selection.rule import check_price, worst_balanced_threshold

Array = NDArray[np.float64]
Index = NDArray[np.intp]

__all__ = ["AnyMixClassifier", "AnyMixRegressor"]

ROWS_TO_CHOOSE = 20_000
MOST_EXPERTS = 200
FEWEST = 5  # rows of a class by which the choice is made, if there are so many
USES = ("inferred", "known", "unused")
UNKNOWN = "rows without a known domain are predicted with the domain inferred from their features"


class _AnyMix(BaseEstimator):
    """What the classifier and the regressor share."""

    recommendation_: Recommendation
    domain_names_: NDArray[Any]
    mixture_: Array
    t_: float
    __metadata_request__fit = {"domains": True}  # noqa: RUF012 - scikit-learn's way to say it
    __metadata_request__predict = {"domains": True}  # noqa: RUF012
    __metadata_request__score = {"domains": True}  # noqa: RUF012

    def __init__(
        self,
        estimators: Any = None,
        *,
        domain_use: str = "inferred",
        price: float = 0.05,
        mixtures: Mixtures = None,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimators = estimators
        self.domain_use = domain_use
        self.price = price
        self.mixtures = mixtures
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    # -- fitting -----------------------------------------------------------------------------------

    @by_name
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        domains: Any = None,
        sample_weight: ArrayLike | None = None,
        groups: Any = None,
    ) -> Self:
        """Fit all models, and choose on held-out rows which of them to use.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            The features, as numbers.
        y : array-like of shape (n,)
            What to learn.
        domains : array-like of shape (n,) or None
            The domain of each row; None is one domain (which warns where it is not said).
        sample_weight : array-like of shape (n,) or None
            Weights ≥ 0 of the rows; None is 1.
        groups : array-like of shape (n,) or None
            Rows of one group, such as a patient, are never in two folds.

        Returns
        -------
        self
        """
        if self.domain_use not in USES:
            fix = "give 'inferred', 'known' or 'unused'"
            raise InputError("domain_use", f"is {self.domain_use!r}", fix)
        price = check_price(self.price)
        self._check_threshold()
        rows = self._read(X, y, domains, sample_weight)
        n = len(rows)
        rows, place = self._counted(rows)
        groups = None if groups is None else _one_each(groups, n)
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        learners = self._learners(rows, seed)
        m = rows.sizes()
        mixtures = target_mixtures(self.mixtures, None, m, rows.names)
        self.domain_names_ = rows.names
        self._expert = _experts(m)
        self._scale = _Scale(rows.X, rows.weight)
        every = self._sample(rows)
        sample, few = every, rows
        if (chosen_by := _fair_sample(rows, rng)) is not None:
            sample, few = every.take(chosen_by), rows.take(chosen_by)
            place = place[chosen_by]
        splits = self._splits(few, None if groups is None else groups[place], place, n, rng)
        seconds: dict[str, float] = {}
        data, settings, expert_settings = self._held_out(
            learners, sample, few, splits, m / m.sum(), seconds
        )
        with _clock(seconds, "choice"):
            decision = decide(data, mixtures, price)
            predicted = cross_fitted(data, mixtures, price)
        self._learnt = data, decision, mixtures, price, seed
        chosen = decision.chosen
        if self.domain_use == "unused":
            chosen, predicted["recommended"] = decision.reference, predicted["reference"]
        elif self.domain_use == "known" and decision.pi:
            chosen = with_domain(data)
            predicted["recommended"] = predicted[chosen]
        self.t_ = decision.t if self.domain_use != "unused" else 0.0
        self.mixture_ = decision.mixture(self.t_)
        self._mixture = self.mixture_ if self.t_ else None
        self._refit(learners, every, settings, expert_settings, seconds)
        self.recommendation_ = recommendation_of(
            data, decision, predicted, chosen, rows.names, seconds, price
        )
        self._choose_threshold(data, predicted["recommended"], few)
        return self

    def _refit(
        self,
        learners: list[Learner],
        every: Sample,
        settings: list[Any],
        expert_settings: list[Any],
        seconds: dict[str, float],
    ) -> None:
        """All models on all rows; those with the domain where it may be used."""
        with _clock(seconds, "refit"):
            self._plain = [
                learner.fit(every, found) for learner, found in zip(learners, settings, strict=True)
            ]
        with _clock(seconds, "refit with domain"):
            self._experts, self._classifier = [], DomainClassifier()
            if expert_settings and self.domain_use != "unused":
                pairs = zip(learners, expert_settings, strict=True)
                self._experts = [learner.fit_experts(every, found) for learner, found in pairs]
                self._classifier.fit(every)

    def _held_out(
        self,
        learners: list[Learner],
        sample: Sample,
        rows: Rows,
        splits: list[tuple[Index, Index]],
        shares: Array,
        seconds: dict[str, float],
    ) -> tuple[OutOfFold, list[Any], list[Any]]:
        """Held-out predictions of all models, and the settings without and with the domain."""
        if any(isinstance(learner, Linear) for learner in learners):
            for number, (train, _) in enumerate(splits, start=1):
                rows.check_classes(train, f"the training part of fold {number}")
        n, E = len(rows), sample.n_experts
        said, settings, expert_settings = np.zeros((len(learners), n)), [], []
        experts = np.zeros((len(learners), n, E if E > 1 else 0))
        for j, learner in enumerate(learners):
            with _clock(seconds, learner.name):
                said[j], found = learner.tune(sample, splits)
            settings.append(found)
            if E > 1:
                with _clock(seconds, f"{learner.name} with domain"):
                    experts[j], found = learner.tune_experts(sample, splits, found)
                expert_settings.append(found)
        Q = np.ones((n, 1))
        if E > 1:
            with _clock(seconds, "domain classifier"):
                Q = DomainClassifier().tune(sample, splits)
        fold = np.zeros(n, dtype=np.intp)
        for number, (_, test) in enumerate(splits):
            fold[test] = number
        data = OutOfFold(
            families=[learner.name for learner in learners],
            plain=said,
            experts=experts,
            Q=Q,
            expert=self._expert,
            k=np.asarray(rows.domains.key(), dtype=np.intp),
            weight=np.ones(n) if rows.weight is None else rows.weight,
            constant=_constant(rows),
            y=None if rows.classes is not None else rows.y,
            fold=fold,
            shares=shares,
        )
        return data, settings, expert_settings

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        raise NotImplementedError

    def _check_threshold(self) -> None:
        """Only classifiers have one."""

    def _choose_threshold(self, data: OutOfFold, said: Array, rows: Rows) -> None:
        """Only classifiers have one."""

    def _counted(self, rows: Rows) -> tuple[Rows, Index]:
        """The rows of weight above 0, each in one domain, and their places."""
        if not isinstance(rows.domains, OneDomain):
            found = "has rows in several domains"
            fix = "give one label a row, or use AgnosticClassifierCV or AgnosticRegressorCV"
            raise InputError("domains", found, fix)
        if len(rows) < 2:
            raise InputError("X", f"has n_samples={len(rows)}", "give 2 rows or more")
        place = np.arange(len(rows))
        if rows.weight is not None and not np.all(rows.weight > 0):
            place = np.flatnonzero(rows.weight > 0)
            rows = rows.take(place)
        rows.check_domains(slice(None), "the data")
        rows.check_classes(slice(None), "the data")
        return rows, place

    def _learners(self, rows: Rows, seed: int) -> list[Learner]:
        """One or two kinds of models."""
        given, thin = self.estimators, sparse.issparse(rows.X)
        if given is None:
            given = ["linear"] if thin else ["linear", "trees"]
        elif isinstance(given, str) or hasattr(given, "fit"):
            given = [given]
        fix = "give None, 'linear', 'trees', an estimator, or a list of one or two of these"
        if not isinstance(given, Sequence) or not 1 <= len(given) <= 2:
            raise InputError("estimators", f"is {self.estimators!r}", fix)
        found: list[Learner] = []
        for one in given:
            if isinstance(one, str):
                if one not in ("linear", "trees"):
                    raise InputError("estimators", f"has {one!r}", fix)
                if any(learner.name == one for learner in found):
                    raise InputError("estimators", f"has {one!r} twice", fix)
                if one == "trees" and thin:
                    more = "give 'linear', or X as a dense array"
                    raise InputError("estimators", "has 'trees', and X is sparse", more)
                classify = rows.classes is not None
                found.append(Linear() if one == "linear" else Trees(classify, seed, self.n_jobs))
                continue
            kind, known = (
                ("regressor", is_regressor)
                if rows.classes is None
                else ("classifier", is_classifier)
            )
            if isinstance(one, type) or not hasattr(one, "fit") or not known(one):
                raise InputError("estimators", f"has {one!r}, which is no {kind}", fix)
            if rows.classes is not None and not hasattr(one, "predict_proba"):
                more = "wrap it in CalibratedClassifierCV, or give another"
                raise InputError("estimators", f"has {one!r}, without predict_proba", more)
            if rows.weight is not None:
                weight_argument(one)
            last = one.steps[-1][1] if hasattr(one, "steps") else one
            name = type(last).__name__
            again = any(learner.name == name for learner in found)
            found.append(Own(one, f"{name} 2" if again else name, self.n_jobs))
        return found

    def _sample(self, rows: Rows) -> Sample:
        k = np.asarray(rows.domains.key(), dtype=np.intp)
        classes = None if rows.classes is None else np.arange(len(rows.classes))
        E = int(self._expert.max()) + 1
        scaled = self._scale(rows.X)
        return Sample(rows.X, scaled, rows.y, classes, rows.weight, self._expert[k], E)

    def _splits(
        self, rows: Rows, groups: Any, place: Index, given: int, rng: Any
    ) -> list[tuple[Index, Index]]:
        """What to fit and what to predict, of rows whose places among those given are known."""
        splits = self._parts(rows, groups, place, given, rng)
        if any(len(train) < 2 for train, _ in splits):
            raise InputError("cv", "leaves less than 2 rows to fit in some fold", "give more rows")
        if any(np.isin(train, test).any() for train, test in splits):
            raise InputError("cv", "holds out rows that it fits", "give folds that do not")
        held = np.sort(np.concatenate([np.empty(0, dtype=np.intp), *(test for _, test in splits)]))
        if not np.array_equal(held, np.arange(len(rows))):
            raise InputError("cv", "does not hold out every row once", "give folds that do")
        return splits

    def _parts(
        self, rows: Rows, groups: Any, place: Index, given: int, rng: Any
    ) -> list[tuple[Index, Index]]:
        n = len(rows)
        if isinstance(self.cv, Integral):
            if self.cv < 2:
                raise InputError("cv", f"is {self.cv}", "give 2 folds or more")
            if groups is None:
                return _dealt(rows, min(int(self.cv), n), rng)
            count = min(int(self.cv), len(np.unique(groups)))
            if count < 2:
                raise InputError("groups", "has one value only", "give two groups or more")
            return deal_groups(rows, groups, count, rng)
        splitter = check_cv(self.cv, rows.y, classifier=rows.classes is not None)
        numbers = np.arange(n)
        if self.cv is not None and not hasattr(self.cv, "split"):  # places among the rows given
            numbers = np.full(given, -1)
            numbers[place] = np.arange(n)
        splits = []
        for train, test in splitter.split(rows.X, rows.y, groups):
            if np.max(np.append(train, test), initial=0) >= len(numbers):
                raise InputError("cv", f"has more rows than the {given} of X", "give its rows")
            fit, held = numbers[np.asarray(train)], numbers[np.asarray(test)]
            if np.any(held >= 0):
                splits.append((fit[fit >= 0], held[held >= 0]))
        return splits

    # -- predicting --------------------------------------------------------------------------------

    def candidate_predictions(self, X: Any, domains: Any = None) -> dict[str, Array]:
        """What every candidate predicts, to compare them on rows of your own.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features.
        domains : array-like of shape (n,) or None
            The domains fitted, for the candidates "... with domain"; None leaves these out.

        Returns
        -------
        dict of str to ndarray of shape (n, K) or (n,)
            By the names of `recommendation_`.
        """
        X, scaled = self._features(X)
        data, decision, *_ = self._learnt
        values = [plain(X, scaled) for plain in self._plain]
        found = dict(zip(data.families, values, strict=True))
        if len(values) == 2:
            found["blend"] = blended(decision.w, values)
        if not self._experts:
            return found
        Q, asked = self._classifier(scaled), [each(X, scaled) for each in self._experts]
        single = [[ask(e) for e in range(Q.shape[1])] for ask in asked]
        H = [blended(decision.w_domain, pair) for pair in zip(*single, strict=True)]
        for t in decision.pi:
            found[name_of(t)] = combine(Q, H, data.by_expert(decision.mixture(t)))
        if domains is not None:
            e = self._expert[self._codes(domains, X.shape[0], strict=True)]
            i = np.arange(len(e))
            named = dict(zip(data.families, single, strict=True))
            if len(single) == 2:
                named["blend"] = H
            for name, each in named.items():
                found[f"{name} with domain"] = np.stack(each)[e, i]
        return found

    def expert_predictions(self, X: Any) -> tuple[Array, Array]:
        """The parts of f_λ, for many mixtures of the same rows; see `mix`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features.

        Returns
        -------
        Q : ndarray of shape (n, E)
            The domain classifier's probabilities of the experts.
        H : ndarray of shape (E, n) or (E, n, K)
            What each expert predicts.
        """
        X, scaled = self._features(X)
        self._need_experts()
        ask = self._asker(X, scaled)
        Q = self._classifier(scaled)
        return Q, np.stack([ask(e) for e in range(Q.shape[1])])

    def mix(self, Q: Array, H: Array, mixture: ArrayLike) -> Array:
        """f_λ from its parts.

        Parameters
        ----------
        Q, H : ndarray
            From `expert_predictions`.
        mixture : array-like of shape (p,)
            λ.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
        """
        return combine(Q, H, self._learnt[0].by_expert(self._given(mixture)))

    def estimate_mixture(self, X: Any) -> MixtureEstimate:
        """The mixture of the domains that a place's unlabelled rows come from.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features of rows of that place.

        Returns
        -------
        MixtureEstimate
            `.mixture` in the order of `domain_names_`, and `.gap`, how far it is from the optimum
            of its objective at most.
        """
        _, scaled = self._features(X)
        self._need_experts()
        data, _, mixtures, *_ = self._learnt
        shares = data.domain_probabilities(self._classifier(scaled))
        return estimate_mixture(shares, data.shares, mixtures)

    def adapted(self, X: Any, guard: bool = True) -> Self:
        """A model for the place that unlabelled rows come from.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features of rows of that place.
        guard : bool
            Adapt only if the rule prefers it, by simulation: rows are drawn from each domain in
            turn as if it were the new place, as many as X has; and from random mixtures of the
            domains, where it may not lose on average. Otherwise the model stays as it is.

        Returns
        -------
        AnyMixClassifier or AnyMixRegressor
            A fitted model; its `mixture_` is the estimated one if it was adapted.
        """
        found = self.estimate_mixture(X).mixture
        model = copy.copy(self)
        data, decision, mixtures, price, seed = self._learnt
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        rng = np.random.default_rng(seed)
        if guard and not adapting_pays(data, decision, mixtures, price, n, rng):
            return model
        model._mixture = model.mixture_ = found
        return model

    def kept(self) -> Self:
        """The same model, but with the reference for rows whose domain is not known.

        Returns
        -------
        AnyMixClassifier or AnyMixRegressor
            A fitted model, whose `t_` is 0.
        """
        model = copy.copy(self)
        model.t_, model._mixture = 0.0, None
        model.mixture_ = self._learnt[1].mixture(0)
        model.recommendation_ = self.recommendation_.kept()
        return model

    def _values(self, X: Any, domains: Any, mixture: ArrayLike | None) -> Array:
        """Probabilities (n, K), or values (n,)."""
        X, scaled = self._features(X)
        if mixture is not None:
            if domains is not None:
                fix = "give the mixture or the domains"
                raise InputError("mixture", "is given beside domains", fix)
            self._need_experts()
            return self._inferred(X, scaled, self._given(mixture))
        codes = None
        if domains is not None:
            if self.domain_use == "unused":
                fix = "leave domains out, or fit with domain_use='known' or 'inferred'"
                raise InputError("domains", "is given, and domain_use is 'unused'", fix)
            codes = self._codes(domains, scaled.shape[0])
        elif self.domain_use == "known":
            warnings.warn(f"domains was not given: {UNKNOWN}", NoDomainsWarning, stacklevel=3)
        if codes is None or not self._experts:
            return self._inferred(X, scaled, self._mixture)
        known = codes >= 0
        if not known.all():
            found = f"domains has {int((~known).sum())} rows of no domain that was fitted"
            warnings.warn(f"{found}: {UNKNOWN}", NoDomainsWarning, stacklevel=3)
            rest = self._inferred(X[~known], scaled[~known], self._mixture)
        found_values: Array | None = None
        for e in np.unique(self._expert[codes[known]]):
            rows = np.flatnonzero(known)[self._expert[codes[known]] == e]
            values = self._asker(X[rows], scaled[rows])(int(e))
            if found_values is None:
                found_values = np.zeros((len(codes), *values.shape[1:]))
            found_values[rows] = values
        if found_values is None:
            return rest
        if not known.all():
            found_values[~known] = rest
        return found_values

    def _inferred(self, X: Any, scaled: Any, mixture: Array | None) -> Array:
        """f_λ; the reference where there is no λ."""
        data, decision, *_ = self._learnt
        if mixture is None:
            if decision.reference == "blend":
                return blended(decision.w, [plain(X, scaled) for plain in self._plain])
            return self._plain[list(data.families).index(decision.reference)](X, scaled)
        ask, ratio = self._asker(X, scaled), data.by_expert(mixture)
        return combine(self._classifier(scaled), (ask(e) for e in range(len(ratio))), ratio)

    def _asker(self, X: Any, scaled: Any) -> Any:
        """e -> the blend of the models with the domain, asked for expert e."""
        w = self._learnt[1].w_domain
        used = [each for each, share in zip(self._experts, (1 - w, w), strict=False) if share > 0]
        asked = [each(X, scaled) for each in used]
        return lambda e: blended(w, [ask(e) for ask in asked])

    def _features(self, X: Any) -> tuple[Any, Any]:
        check_is_fitted(self, "recommendation_")
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        if sparse.issparse(X) and not self._scale.thin:
            X = X.toarray()
        return X, self._scale(X)

    def _codes(self, domains: Any, n: int, strict: bool = False) -> Index:
        """The number of each row's domain, −1 for one that was not fitted."""
        members = members_of(domains, self.domain_names_, n)
        codes = np.full(n, -1, dtype=np.intp)
        codes[np.diff(members.indptr) > 0] = members.indices
        if strict and np.any(codes < 0):
            fix = f"give those that were fitted, {self.domain_names_.tolist()[:5]}"
            raise InputError("domains", "has rows of no domain that was fitted", fix)
        return codes

    def _given(self, mixture: ArrayLike) -> Array:
        p = len(self.domain_names_)
        lam = finite_vector("mixture", mixture, p)
        if np.any(lam < 0) or abs(lam.sum() - 1) > 1e-6:
            fix = f"give {p} numbers ≥ 0 whose sum is 1, in the order of domain_names_"
            raise InputError("mixture", f"is {mixture!r}", fix)
        return lam

    def _need_experts(self) -> None:
        if not self._experts:
            found = "is 'unused'" if self.domain_use == "unused" else "has one domain only"
            name = "domain_use" if self.domain_use == "unused" else "domains"
            raise InputError(name, found, "fit with two domains or more and domain_use='inferred'")

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Held-out losses of all candidates, as columns for pandas.DataFrame."""
        found = self.recommendation_
        columns = {
            f"test_loss_{name}": found.losses[:, k]
            for k, name in enumerate(found.domain_names.tolist())
        }
        return {
            "candidate": np.array(found.names),
            "worst_test_loss": found.losses.max(axis=1),
            "pooled_test_loss": found.pooled,
            **columns,
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = self.estimators if isinstance(self.estimators, list | tuple) else [self.estimators]
        tags.input_tags.sparse = "trees" not in given and all(
            get_tags(one).input_tags.sparse for one in given if isinstance(one, BaseEstimator)
        )
        return tags


class AnyMixClassifier(ClassifierMixin, _AnyMix):
    """Which model should I use? One fit for a domain that is unknown, known, or only seen.

    Fits linear models and boosted trees, without and with the domain as a feature, and chooses on
    held-out rows. Where the domain is not known at prediction, it infers it from the features: each
    domain's model counts by how likely the row is of that domain, in a mixture of domains that
    favours the worst one as much as `price` allows. `recommendation_` says what that brings to
    whom, beside the ordinary model and the one that is told the domain.

    Parameters
    ----------
    estimators : None, str, estimator, or list of one or two
        The kinds of models: "linear", "trees", or any classifier with `predict_proba`. None is
        both of the first two; for sparse X "linear" alone. Text or categories need a pipeline
        around this estimator.
    domain_use : str
        "inferred": the domain is not needed at prediction, and used where given. "known":
        `predict` expects it, and warns where it is missing. "unused": neither asked for nor
        inferred at prediction.
    price : float
        The part by which the mean loss of all rows may rise for the worst domain's sake. 0 asks for
        free gains only, inf for the best for the worst domain.
    mixtures : MixtureSet, function, str or None
        Λ, the mixtures to guard against; None is any mixture (the worst domain).
    cv : int, splitter or iterable
        Folds by which the choice is made; each row must be held out once.
    decision_threshold : "worst_balanced_accuracy" or None
        With two classes: `predict` says the second class above the probability that is best for
        the worst domain's balanced accuracy, if that is surely better than ½. None is ½.
    n_jobs : int or None
        How many processes share the folds of trees and own estimators.
    random_state : int, RandomState or None
        Splits the rows, and draws those by which boosting stops.

    Attributes
    ----------
    recommendation_ : Recommendation
        The reference, the choice, and every candidate on held-out rows.
    cv_results_ : dict
        The losses of the candidates, as columns.
    t_ : float
        The place of the dial; 0 is the reference.
    mixture_ : ndarray of shape (p,)
        λ of the model in use; the data's own for the reference.
    decision_threshold_ : float
        The probability above which `predict` says the second of two classes.
    classes_, domain_names_ : ndarray
        The classes and the domains, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> d = np.repeat(["city", "rural"], [900, 100])
    >>> X = rng.normal(size=(1000, 3)) + (d == "rural")[:, None] * [0, 0, 2]
    >>> y = np.where(d == "city", X[:, 0], X[:, 1]) + 0.5 * rng.normal(size=1000) > 0
    >>> model = AnyMixClassifier("linear").fit(X, y, domains=d)
    >>> for row in model.recommendation_.table:
    ...     print(row["model"], row["worst_domain"], round(row["worst_loss"], 1))
    linear rural 0.9
    t=1/2 rural 0.5
    linear with domain rural 0.4
    >>> model.predict(X[:2]), model.predict(X[:2], domains=["city", "rural"])
    (array([...]), array([...]))
    >>> model.adapted(X[950:]).mixture_.round(1)
    array([0., 1.])
    """

    classes_: NDArray[Any]

    def __init__(
        self,
        estimators: Any = None,
        *,
        domain_use: str = "inferred",
        price: float = 0.05,
        mixtures: Mixtures = None,
        cv: Any = 5,
        decision_threshold: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            estimators,
            domain_use=domain_use,
            price=price,
            mixtures=mixtures,
            cv=cv,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.decision_threshold = decision_threshold

    def predict_proba(self, X: Any, domains: Any = None, mixture: ArrayLike | None = None) -> Array:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features.
        domains : array-like of shape (n,) or None
            The domains, where they are known; rows of one that was not fitted, or None, are
            predicted as if they had none.
        mixture : array-like of shape (p,) or None
            A mixture of your own to predict for, in the order of `domain_names_`.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return self._values(X, domains, mixture)

    def predict(
        self, X: Any, domains: Any = None, mixture: ArrayLike | None = None
    ) -> NDArray[Any]:
        """The most probable class; of two, the second above `decision_threshold_`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features.
        domains, mixture : array-like or None
            As `predict_proba` takes them.

        Returns
        -------
        ndarray of shape (n,)
        """
        said = self._values(X, domains, mixture)
        if len(self.classes_) == 2:
            return np.asarray(self.classes_[(said[:, 1] > self.decision_threshold_).astype(int)])
        return np.asarray(self.classes_[said.argmax(axis=1)])

    def score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, domains: Any = None
    ) -> float:
        """The accuracy."""
        return float(accuracy_score(y, self.predict(X, domains), sample_weight=sample_weight))

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        rows = read_classes(self, X, y, domains, sample_weight)
        assert rows.classes is not None
        self.classes_ = rows.classes
        if self.decision_threshold is not None and len(self.classes_) > 2:
            found = f"is {self.decision_threshold!r}, and y has {len(self.classes_)} classes"
            raise InputError("decision_threshold", found, "give None; it is for two classes")
        return rows

    def _check_threshold(self) -> None:
        if self.decision_threshold not in (None, "worst_balanced_accuracy"):
            fix = "give 'worst_balanced_accuracy' or None"
            raise InputError("decision_threshold", f"is {self.decision_threshold!r}", fix)

    def _choose_threshold(self, data: OutOfFold, said: Array, rows: Rows) -> None:
        self.decision_threshold_ = 0.5
        if self.decision_threshold is not None:
            positive = np.asarray(rows.y) == 1
            p = np.where(positive, said, 1 - said)
            self.decision_threshold_ = worst_balanced_threshold(
                p, positive, data.k, data.weight, data.fold
            )


class AnyMixRegressor(RegressorMixin, _AnyMix):
    """Which model should I use? One fit for a domain that is unknown, known, or only seen.

    The regressor of `AnyMixClassifier`, for squared error. `price` is that of its root.

    Parameters
    ----------
    estimators : None, str, estimator, or list of one or two
        The kinds of models: "linear", "trees", or any regressor. None is both of the first two; for
        sparse X "linear" alone.
    domain_use : str
        "inferred", "known" or "unused", as in AnyMixClassifier.
    price : float
        The part by which the root of the mean squared error of all rows may rise for the worst
        domain's sake.
    mixtures : MixtureSet, function, str or None
        Λ, the mixtures to guard against; None is any mixture (the worst domain).
    cv : int, splitter or iterable
        Folds by which the choice is made; each row must be held out once.
    n_jobs : int or None
        How many processes share the folds of trees and own estimators.
    random_state : int, RandomState or None
        Splits the rows, and draws those by which boosting stops.

    Attributes
    ----------
    recommendation_, cv_results_, t_, mixture_, domain_names_ :
        As those of AnyMixClassifier.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> d = np.repeat(["a", "b"], [900, 100])
    >>> X = rng.normal(size=(1000, 3)) + (d == "b")[:, None] * [0, 0, 3]
    >>> y = np.where(d == "a", X[:, 0], X[:, 1]) + 0.1 * rng.normal(size=1000)
    >>> model = AnyMixRegressor("linear").fit(X, y, domains=d)
    >>> [(row["model"], round(row["worst_loss"], 1)) for row in model.recommendation_.table]
    [('linear', 1.4), ('t=1/2', 0.4), ('linear with domain', 0.2)]
    """

    def predict(self, X: Any, domains: Any = None, mixture: ArrayLike | None = None) -> Array:
        """The predicted values.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features.
        domains, mixture : array-like or None
            As `AnyMixClassifier.predict_proba` takes them.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._values(X, domains, mixture)

    def score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, domains: Any = None
    ) -> float:
        """The share R² of the variance that is explained."""
        return float(r2_score(y, self.predict(X, domains), sample_weight=sample_weight))

    def _read(self, X: Any, y: Any, domains: Any, sample_weight: ArrayLike | None) -> Rows:
        return read_numbers(self, X, y, domains, sample_weight, True, SquaredError())


# Helpers ----------------------------------------------------------------------------------------


class _Scale:
    """Columns of mean 0 and deviation 1; of two values, 0 and 1; sparse ones of entries about 1."""

    def __init__(self, X: Any, weight: Array | None) -> None:
        self.thin = sparse.issparse(X)
        largest = abs(X).max(axis=0)
        largest = np.ravel(largest.todense() if self.thin else largest)
        self.unit = np.where(largest > 0, largest, 1.0)  # of huge entries, squares overflow
        if self.thin:
            share = np.repeat(np.ones(X.shape[0]) if weight is None else weight, np.diff(X.indptr))
            squares = (X.data / self.unit[X.indices]) ** 2
            count = np.bincount(X.indices, share * (squares > 0), X.shape[1])
            total = np.bincount(X.indices, share * squares, X.shape[1])
            self.spread = np.sqrt(np.divide(total, count, out=np.ones(len(count)), where=count > 0))
            return
        X = X / self.unit
        low, high = X.min(axis=0), X.max(axis=0)
        two = np.all((low == X) | (high == X), axis=0)
        mean = np.average(X, axis=0, weights=weight)
        spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
        self.mean, spread = np.where(two, low, mean), np.where(two, high - low, spread)
        self.spread = np.where(spread > 0, spread, 1.0)

    def __call__(self, X: Any) -> Any:
        if self.thin:
            return sparse.csr_array(X @ sparse.diags_array(1 / self.unit / self.spread))
        return (X / self.unit - self.mean) / self.spread


def _one_each(groups: Any, n: int) -> NDArray[Any]:
    """The group of each of n rows."""
    found = np.asarray(groups)
    if found.shape != (n,):
        raise InputError("groups", f"has shape {found.shape}", f"give ({n},), one a row")
    return found


def _experts(sizes: Array) -> Index:
    """The expert of each domain: its own for the 199 largest of more than 200, one for the rest."""
    p = len(sizes)
    if p <= MOST_EXPERTS:
        return np.arange(p)
    found = np.full(p, MOST_EXPERTS - 1)
    found[np.argsort(-sizes, kind="stable")[: MOST_EXPERTS - 1]] = np.arange(MOST_EXPERTS - 1)
    return found


def _fair_sample(rows: Rows, rng: Any) -> Index | None:
    """20,000 rows, of each domain and class its share, and some of a rare class; None is all."""
    n = len(rows)
    if n <= ROWS_TO_CHOOSE:
        return None
    order = sorted_rows(rows, rng)
    chosen = np.asarray(order[np.arange(ROWS_TO_CHOOSE) * n // ROWS_TO_CHOOSE])
    if rows.classes is None:
        return chosen
    rare = np.flatnonzero(np.bincount(rows.y[chosen], minlength=len(rows.classes)) < FEWEST)
    more = [np.flatnonzero(rows.y == c)[:FEWEST] for c in rare]
    return np.concatenate([chosen, *(np.setdiff1d(these, chosen) for these in more)])


def _dealt(rows: Rows, folds: int, rng: Any) -> list[tuple[Index, Index]]:
    """Rows dealt out to folds, none of which has all rows of a class, if there are two."""
    order = sorted_rows(rows, rng)
    part = np.arange(len(rows)) % folds
    for c in range(0 if rows.classes is None else len(rows.classes)):
        these = np.flatnonzero(rows.y[order] == c)
        if len(these) > 1 and np.all(part[these] == part[these[0]]):
            part[these[0]] = (part[these[0]] + 1) % folds
    return [(order[part != j], order[part == j]) for j in range(folds)]


def _constant(rows: Rows) -> Array:
    """Predictions of a constant guess: the mean, or the share of the class that came."""
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    if rows.classes is None:
        return np.full(len(rows), np.average(rows.y, weights=weight))
    share = np.bincount(rows.y, weight, len(rows.classes)) / weight.sum()
    return np.asarray(share[rows.y])


@contextmanager
def _clock(seconds: dict[str, float], part: str) -> Iterator[None]:
    start = time.process_time()
    yield
    seconds[part] = time.process_time() - start
