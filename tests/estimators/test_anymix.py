"""The flagship: scikit-learn's contract, its three uses, and the laws that every fit must obey."""

from __future__ import annotations

import itertools
import math
import pickle
import warnings
from typing import Any, Self

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from joblib import parallel_config
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import anymix as ax
from anymix.errors import InputError
from anymix.estimators import NoDomainsWarning
from anymix.estimators import anymix as flagship
from anymix.selection.one_fit import DIAL, OutOfFold, cross_fitted, decide, name_of

Array = NDArray[np.float64]
Data = tuple[Array, NDArray[Any], NDArray[Any]]


def two_regions(n: int = 300, seed: int = 0, classes: int = 0) -> Data:
    """In a fifth of the rows another feature matters, and x₂ tells in part which rows these are."""
    rng = np.random.default_rng(seed)
    d = np.where(np.arange(n) % 5 == 4, "rural", "city")
    X = rng.normal(size=(n, 3)) + (d == "rural")[:, None] * [0, 0, 2]
    score = np.where(d == "city", X[:, 0], X[:, 1]) + 0.3 * rng.normal(size=n)
    if not classes:
        return X, score, d
    cuts = np.quantile(score, np.arange(1, classes) / classes)
    return X, np.array(["no", "yes", "maybe", "never"])[np.digitize(score, cuts)], d


def one_law(n: int = 300, seed: int = 0) -> Data:
    """The domains are drawn without a look at the rest."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + rng.normal(size=n), rng.choice(["a", "b", "c"], size=n)


def dealt(n: int, folds: int = 3) -> list[tuple[Any, Any]]:
    part = np.arange(n) // 5 % folds
    return [(np.flatnonzero(part != j), np.flatnonzero(part == j)) for j in range(folds)]


def said(model: Any, X: Any, **options: Any) -> Array:
    """Probabilities, or values."""
    ask = model.predict_proba if is_classifier(model) else model.predict
    return np.asarray(ask(X, **options))


def assert_equal_models(one: Any, two: Any, X: Any, rtol: float = 0.0) -> None:
    assert one.recommendation_.chosen == two.recommendation_.chosen
    np.testing.assert_allclose(said(one, X), said(two, X), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(one.mixture_, two.mixture_, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(one.recommendation_.losses, two.recommendation_.losses, rtol=rtol)


@pytest.fixture(scope="module")
def classifier() -> Any:
    X, y, d = two_regions(classes=2)
    return ax.AnyMixClassifier([LogisticRegression(), GaussianNB()]).fit(X, y, domains=d)


@pytest.fixture(scope="module")
def regressor() -> Any:
    X, y, d = two_regions()
    return ax.AnyMixRegressor("linear").fit(X, y, domains=d)


# -- scikit-learn's contract ---------------------------------------------------------------------


class ClassifierInTwoDomains(ax.AnyMixClassifier):
    """Two domains, so that scikit-learn's checks see the whole fit."""

    def fit(  # type: ignore[override]
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> Self:
        n = len(np.asarray(y)) if y is not None else 2
        return super().fit(X, y, domains=np.arange(n) // 2 % 2, sample_weight=sample_weight)


class RegressorInTwoDomains(ax.AnyMixRegressor):
    """The same of numbers."""

    def fit(  # type: ignore[override]
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> Self:
        n = len(np.asarray(y)) if y is not None else 2
        return super().fit(X, y, domains=np.arange(n) // 2 % 2, sample_weight=sample_weight)


def leaves(estimator: Any) -> dict[str, str]:
    why = "boosting counts the rows of a leaf, whatever their weight"
    name = "check_sample_weight_equivalence_on_dense_data"
    return {name: why} if estimator.estimators == "trees" else {}


@pytest.mark.filterwarnings("ignore::anymix.estimators.NoDomainsWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        ax.AnyMixClassifier("linear", cv=2),
        ax.AnyMixRegressor("linear", cv=2),
        ClassifierInTwoDomains("linear", cv=2),
        RegressorInTwoDomains("linear", cv=2),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::anymix.estimators.NoDomainsWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        ax.AnyMixClassifier(),
        ax.AnyMixRegressor(),
        ClassifierInTwoDomains("trees", cv=2),
        RegressorInTwoDomains("trees", cv=2),
        ClassifierInTwoDomains(
            [GaussianNB(), DecisionTreeClassifier(max_depth=3, random_state=0)], cv=2
        ),
    ],
    expected_failed_checks=leaves,
)
def test_scikit_learn_checks_of_all_kinds(estimator: Any, check: Any) -> None:
    check(estimator)


def test_it_is_a_classifier_or_a_regressor() -> None:
    assert is_classifier(ax.AnyMixClassifier())
    assert is_regressor(ax.AnyMixRegressor())
    assert not hasattr(ax.AnyMixRegressor(), "predict_proba")


def test_searches_hand_over_the_domains() -> None:
    X, y, d = two_regions(120, classes=2)
    with sklearn.config_context(enable_metadata_routing=True):
        assert ax.AnyMixClassifier().get_metadata_routing().fit.requests["domains"] is True
        scores = cross_val_score(
            ax.AnyMixClassifier("linear", cv=2), X, y, cv=2, params={"domains": d}
        )
    assert scores.min() > 0.5


def test_clone_and_pickle_keep_everything(classifier: Any, regressor: Any) -> None:
    for model in (classifier, regressor):
        X, y, d = two_regions(classes=2 if model is classifier else 0)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(said(again, X), said(model, X))
        np.testing.assert_array_equal(said(again, X, domains=d), said(model, X, domains=d))
        np.testing.assert_array_equal(
            said(again.adapted(X[d == "rural"]), X), said(model.adapted(X[d == "rural"]), X)
        )
        assert_equal_models(clone(model).fit(X, y, domains=d), model, X)


def test_the_same_seed_gives_the_same_model() -> None:
    X, y, d = two_regions(150)
    fits = [
        ax.AnyMixRegressor("linear", cv=3, random_state=seed).fit(X, y, domains=d)
        for seed in (0, 0, np.random.RandomState(0), 1)
    ]
    assert_equal_models(fits[0], fits[1], X)
    assert_equal_models(fits[0], fits[2], X)
    assert np.abs(fits[0].recommendation_.losses - fits[3].recommendation_.losses).max() > 0


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_processes_change_nothing(backend: str) -> None:
    X, y, d = two_regions(100)
    with parallel_config(backend):
        one, two = (
            ax.AnyMixRegressor(["trees", Ridge()], cv=2, n_jobs=jobs).fit(X, y, domains=d)
            for jobs in (None, 2)
        )
    assert_equal_models(one, two, X)


def test_tables_are_read_by_their_columns() -> None:
    X, y, d = two_regions(120, classes=2)
    model = ax.AnyMixClassifier("linear", cv=2).fit(X, y, domains=d)
    for frame, column in ((pd.DataFrame, pd.Series), (pl.DataFrame, pl.Series)):
        table, domains = frame(dict(zip("abc", X.T, strict=True))), column(d.tolist())
        found = ax.AnyMixClassifier("linear", cv=2).fit(table, column(y.tolist()), domains=domains)
        np.testing.assert_allclose(said(found, table), said(model, X))
        told = said(found, table, domains=domains)
        np.testing.assert_allclose(told, said(model, X, domains=d))
        assert found.adapted(table, guard=False).mixture_.shape == (2,)
        with pytest.raises(ValueError, match="feature names"):
            found.predict(frame(dict(zip("acb", X.T, strict=True))))


# -- against a second implementation -------------------------------------------------------------


def one_hot(d: Any, names: Any) -> Array:
    return np.array([[float(k == name) for name in names] for k in d])


def of_class(model: Any, X: Array, y: Any) -> Array:
    """The probability of the class that came, or the value."""
    if is_regressor(model):
        return np.asarray(model.predict(X))
    column = {c: i for i, c in enumerate(model.classes_)}
    return np.array([row[column[c]] for row, c in zip(model.predict_proba(X), y, strict=True)])


@pytest.mark.parametrize("classes", [0, 3])
def test_a_fit_by_hand(classes: int) -> None:
    """Two estimators: all held-out numbers, the choice, and the predictions after the refit."""
    X, y, d = two_regions(900, classes=classes)
    names, folds, n = ["city", "rural"], dealt(len(y)), len(y)
    pair: list[Any] = (
        [LogisticRegression(), DecisionTreeClassifier(min_samples_leaf=20, random_state=0)]
        if classes
        else [Ridge(), DecisionTreeRegressor(min_samples_leaf=20, random_state=0)]
    )
    make: Any = ax.AnyMixClassifier if classes else ax.AnyMixRegressor
    model = make(pair, cv=folds, price=math.inf).fit(X, y, domains=d)

    wide, k = np.hstack([X, one_hot(d, names)]), np.searchsorted(names, d)
    plain, experts, Q = np.zeros((2, n)), np.zeros((2, n, 2)), np.zeros((n, 2))
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    gate = LogisticRegression(C=0.03, tol=1e-8)
    fold = np.zeros(n, dtype=int)
    for number, (train, test) in enumerate(folds):
        fold[test] = number
        Q[test] = gate.fit(scaled[train], k[train]).predict_proba(scaled[test])
        for f, estimator in enumerate(pair):
            fitted = clone(estimator).fit(X[train], y[train])
            plain[f, test] = of_class(fitted, X[test], y[test])
            fitted = clone(estimator).fit(wide[train], y[train])
            for e, name in enumerate(names):
                asked = np.hstack([X[test], one_hot([name] * len(test), names)])
                experts[f, test, e] = of_class(fitted, asked, y[test])
    share = {c: np.mean(y == c) for c in np.unique(y)}
    guess = np.array([share[c] for c in y]) if classes else np.full(n, y.mean())
    families = [type(each).__name__ for each in pair]
    data = OutOfFold(
        families, plain, experts, Q, np.arange(2), k, np.ones(n), guess,
        None if classes else y, fold, np.array([0.8, 0.2]),
    )  # fmt: skip
    decision = decide(data, ax.Simplex(2), math.inf)
    found = model.recommendation_
    assert found.reference == decision.reference
    assert found.chosen == decision.chosen
    assert model.t_ == decision.t
    assert (model.t_ > 0) == (classes > 0)  # both are seen
    assert found.blend == pytest.approx((decision.w, decision.w_domain), abs=0.01)
    np.testing.assert_allclose(model.mixture_, decision.mixture(decision.t), atol=0.01)
    values = cross_fitted(data, ax.Simplex(2), math.inf)
    assert found.names == tuple(values)
    for c, (name, value) in enumerate(values.items()):
        D = [data.losses(value)[k == e].mean() for e in (0, 1)]
        exact = name in families or name.removesuffix(" with domain") in families
        np.testing.assert_allclose(found.losses[c], D, rtol=1e-9 if exact else 0.02)

    new = X[:40] + 0.1
    one, two = (clone(each).fit(X, y) for each in pair)
    expected = dict(zip(families, (said(one, new), said(two, new)), strict=True))
    w, v = found.blend
    expected["blend"] = (1 - w) * said(one, new) + w * said(two, new)
    one, two = (clone(each).fit(wide, y) for each in pair)
    H = []
    for name in names:
        asked = np.hstack([new, one_hot([name] * 40, names)])
        H.append((1 - v) * said(one, asked) + v * said(two, asked))
    Q = gate.fit(scaled, k).predict_proba((new - X.mean(axis=0)) / X.std(axis=0))
    learnt = model._learnt[1]
    for t in DIAL:
        lam = learnt.mixture(t) / [0.8, 0.2]
        mixed = []
        for i in range(40):
            parts = [lam[e] * Q[i, e] for e in (0, 1)]
            mixed.append((parts[0] * H[0][i] + parts[1] * H[1][i]) / sum(parts))
        expected[name_of(t)] = np.array(mixed)
    actual = model.candidate_predictions(new)
    assert list(actual) == list(expected)
    for name, rows in expected.items():
        np.testing.assert_allclose(actual[name], rows, atol=0.01 if "=" in name else 1e-9)
    np.testing.assert_array_equal(said(model, new), actual[found.chosen])
    told = said(model, new, domains=["rural"] * 40)
    np.testing.assert_allclose(told, H[1], atol=1e-9)


# -- the domain is unknown, known, or unused -----------------------------------------------------


def test_known_domains_are_asked_row_by_row(classifier: Any) -> None:
    X, _, d = two_regions(classes=2)
    _, H = classifier.expert_predictions(X)
    told = classifier.predict_proba(X, domains=d)
    np.testing.assert_allclose(told, np.where((d == "city")[:, None], H[0], H[1]))
    again = classifier.candidate_predictions(X, domains=d)
    np.testing.assert_allclose(again["blend with domain"], told)
    assert "blend with domain" not in classifier.candidate_predictions(X)
    assert np.abs(told - classifier.predict_proba(X)).max() > 0.05


@pytest.mark.parametrize("use", ["inferred", "known"])
def test_rows_of_domains_that_were_not_fitted(use: str) -> None:
    X, y, d = two_regions(100)
    model = ax.AnyMixRegressor("linear", domain_use=use, price=math.inf, cv=2)
    model.fit(X, y, domains=d)
    new: list[Any] = d.astype(object).tolist()
    new[3], new[7] = "the moon", None
    with pytest.warns(NoDomainsWarning, match="2 rows"):
        found = model.predict(X, domains=new)
    with warnings.catch_warnings(action="ignore", category=NoDomainsWarning):
        inferred = model.predict(X)
    rest = np.setdiff1d(np.arange(100), [3, 7])
    np.testing.assert_allclose(found[[3, 7]], inferred[[3, 7]])
    np.testing.assert_allclose(found[rest], model.predict(X[rest], domains=d[rest]))
    with pytest.warns(NoDomainsWarning, match="100 rows"):
        np.testing.assert_allclose(model.predict(X, domains=["new"] * 100), inferred)
    with pytest.raises(InputError) as caught:
        model.candidate_predictions(X, domains=new)
    assert caught.value.argument == "domains"


def test_known_expects_the_domains() -> None:
    X, y, d = two_regions()
    inferred, known = (
        ax.AnyMixRegressor("linear", domain_use=use).fit(X, y, domains=d)
        for use in ("inferred", "known")
    )
    assert inferred.recommendation_.chosen.startswith("t=")
    assert known.recommendation_.chosen == "linear with domain"
    c = known.recommendation_.place("recommended")
    np.testing.assert_array_equal(
        known.recommendation_.losses[c],
        known.recommendation_.losses[known.recommendation_.place("linear with domain")],
    )
    with pytest.warns(NoDomainsWarning):
        found = known.predict(X)
    np.testing.assert_array_equal(found, inferred.predict(X))
    np.testing.assert_array_equal(known.predict(X, domains=d), inferred.predict(X, domains=d))


def test_unused_does_not_even_infer_the_domain() -> None:
    X, y, d = two_regions()
    model = ax.AnyMixRegressor("linear", domain_use="unused").fit(X, y, domains=d)
    found = model.recommendation_
    plain = ax.AnyMixRegressor("linear").fit(X, y, domains=d)
    np.testing.assert_array_equal(model.predict(X), plain.candidate_predictions(X)["linear"])
    assert list(model.candidate_predictions(X)) == ["linear"]
    assert (model.t_, found.chosen) == (0, "linear")
    np.testing.assert_array_equal(model.mixture_, [0.8, 0.2])
    assert [row["model"] for row in found.table] == ["linear", "linear", "linear with domain"]
    np.testing.assert_array_equal(found.losses[found.place("recommended")], found.losses[0])
    uses: list[Any] = [
        lambda: model.predict(X, domains=d),
        lambda: model.predict(X, mixture=[0.5, 0.5]),
        lambda: model.adapted(X),
        lambda: model.estimate_mixture(X),
        lambda: model.expert_predictions(X),
    ]
    for use in uses:
        with pytest.raises(InputError) as caught:
            use()
        assert caught.value.argument in ("domains", "domain_use")


def test_labels_are_found_as_people_write_them() -> None:
    X, y, d = two_regions(100)
    k = (d == "rural").astype(int)
    model = ax.AnyMixRegressor("linear", cv=2).fit(X, y, domains=k)
    assert model.domain_names_.tolist() == [0, 1]
    np.testing.assert_array_equal(
        model.predict(X, domains=k), model.predict(X, domains=k.astype(str))
    )


# -- a mixture of one's own, and unlabelled rows -------------------------------------------------


def test_mixtures_of_ones_own(classifier: Any) -> None:
    X, *_ = two_regions(classes=2)
    Q, H = classifier.expert_predictions(X)
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    np.testing.assert_allclose(classifier.predict_proba(X, mixture=[1, 0]), H[0])
    np.testing.assert_allclose(classifier.predict_proba(X, mixture=[0, 1]), H[1])
    pooled = Q[:, [0]] * H[0] + Q[:, [1]] * H[1]
    np.testing.assert_allclose(classifier.predict_proba(X, mixture=[0.8, 0.2]), pooled)
    half = classifier.predict_proba(X, mixture=[0.5, 0.5])
    r = Q / [1.6, 0.4]
    np.testing.assert_allclose(half, (r[:, [0]] * H[0] + r[:, [1]] * H[1]) / r.sum(1)[:, None])
    np.testing.assert_allclose(half, classifier.mix(Q, H, [0.5, 0.5]))
    labels = classifier.predict(X, mixture=[0.5, 0.5])
    np.testing.assert_array_equal(labels == "yes", half[:, 1] > 0.5)


@pytest.mark.parametrize("mixture", [[1.0], [0.5, 0.6], [-0.1, 1.1], [math.nan, 1], "city", 0.5])
def test_what_is_no_mixture_is_refused(regressor: Any, mixture: Any) -> None:
    with pytest.raises(InputError) as caught:
        regressor.predict(np.zeros((1, 3)), mixture=mixture)
    assert caught.value.argument == "mixture"


def test_a_mixture_is_not_given_beside_domains(regressor: Any) -> None:
    with pytest.raises(InputError) as caught:
        regressor.predict(np.zeros((1, 3)), domains=["city"], mixture=[1, 0])
    assert caught.value.argument == "mixture"


@pytest.mark.parametrize("guard", [True, False])
def test_a_model_is_adapted_to_unlabelled_rows(regressor: Any, guard: bool) -> None:
    X, y, _ = two_regions(1000, seed=1)
    rural = np.arange(1000) % 5 == 4
    before = regressor.predict(X)
    new = regressor.adapted(X[rural][:50], guard=guard)
    estimate = regressor.estimate_mixture(X[rural][:50])
    np.testing.assert_array_equal(new.mixture_, estimate.mixture)
    assert estimate.mixture[1] > 0.6
    assert estimate.gap <= 1e-6
    np.testing.assert_array_equal(new.predict(X), regressor.predict(X, mixture=new.mixture_))
    error = [np.mean((values[rural] - y[rural]) ** 2) for values in (before, new.predict(X))]
    assert error[1] < 0.9 * error[0]
    np.testing.assert_array_equal(regressor.predict(X), before)  # the model itself is as it was
    np.testing.assert_array_equal(
        new.predict(X, domains=["city"] * 1000), regressor.predict(X, domains=["city"] * 1000)
    )


def test_it_is_not_adapted_where_that_does_not_pay() -> None:
    X, y, d = one_law()
    model = ax.AnyMixRegressor("linear", cv=2).fit(X, y, domains=d)
    assert model.recommendation_.chosen == "linear"
    kept, moved = model.adapted(X[:30]), model.adapted(X[:30], guard=False)
    np.testing.assert_array_equal(kept.predict(X), model.predict(X))
    np.testing.assert_array_equal(kept.mixture_, model.mixture_)
    assert np.abs(moved.predict(X) - model.predict(X)).max() > 0


def test_an_estimated_mixture_is_in_the_set() -> None:
    X, y, d = two_regions(100)
    model = ax.AnyMixRegressor("linear", mixtures=ax.Box([0.5, 0.1], [0.9, 0.5]), cv=2)
    model.fit(X, y, domains=d)
    np.testing.assert_allclose(model.estimate_mixture(X[d == "rural"]).mixture, 0.5, atol=1e-6)


# -- sample weights, groups, folds ---------------------------------------------------------------


@pytest.mark.parametrize("cv", ["number", "places", "splitter"])
def test_rows_of_weight_zero_are_left_out(cv: str) -> None:
    X, y, d = two_regions(160, classes=2)
    weight = np.where(np.arange(160) % 7 == 3, 0.0, 1.0 + np.arange(160) % 2)
    kept = np.flatnonzero(weight)
    new = {place: i for i, place in enumerate(kept)}
    folds = dealt(160, 2)
    inside = [tuple(np.array([new[i] for i in part if i in new]) for part in f) for f in folds]
    given: Any = {"number": 2, "places": folds, "splitter": KFold(2)}[cv]
    model = ax.AnyMixClassifier("linear", cv=given)
    model.fit(X, y, domains=d, sample_weight=weight)
    other = ax.AnyMixClassifier("linear", cv=inside if cv == "places" else given)
    other.fit(X[kept], y[kept], domains=d[kept], sample_weight=weight[kept])
    assert_equal_models(model, other, X)


def test_domains_and_classes_without_weight_are_refused() -> None:
    X, y, d = two_regions(100, classes=2)
    for lost in (d == "rural", y == "no"):
        with pytest.raises(InputError, match="no row"):
            ax.AnyMixClassifier("linear").fit(X, y, domains=d, sample_weight=1.0 - lost)


@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize("classes", [0, 2])
def test_weights_are_repeated_rows_for_linear_models(classes: int, thin: bool) -> None:
    """In folds that keep copies together. The domain classifier's penalty counts rows."""
    X, y, d = two_regions(150, classes=classes)
    times, folds = 1 + np.arange(150) % 3, dealt(150)
    row = np.repeat(np.arange(150), times)
    copied = [tuple(np.flatnonzero(np.isin(row, part)) for part in fold) for fold in folds]
    make: Any = ax.AnyMixClassifier if classes else ax.AnyMixRegressor
    given: Any = sparse.csr_array(X) if thin else X
    one = make("linear", cv=folds).fit(given, y, domains=d, sample_weight=times)
    two = make("linear", cv=copied).fit(given[row], y[row], domains=d[row])
    found, expected = (m.candidate_predictions(given, domains=d) for m in (one, two))
    for name in ("linear", "linear with domain"):
        np.testing.assert_allclose(found[name], expected[name], atol=2e-3)
        c = one.recommendation_.place(name)
        np.testing.assert_allclose(
            one.recommendation_.losses[c], two.recommendation_.losses[c], rtol=2e-3
        )
    np.testing.assert_allclose(one.recommendation_.constant, two.recommendation_.constant)
    np.testing.assert_allclose(one._learnt[0].shares, two._learnt[0].shares)
    assert_weights_matter(make, X, y, d, one)


def assert_weights_matter(make: Any, X: Any, y: Any, d: Any, weighted: Any) -> None:
    plain = make("linear", cv=dealt(150)).fit(X, y, domains=d)
    apart = plain.recommendation_.losses[0] - weighted.recommendation_.losses[0]
    assert np.abs(apart).max() > 0.01


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_weights_have_no_unit(unit: float) -> None:
    X, y, d = two_regions(120)
    weight = np.random.default_rng(0).uniform(0.2, 2, size=120)
    one, two = (
        ax.AnyMixRegressor(["linear", "trees"], cv=2).fit(X, y, domains=d, sample_weight=u * weight)
        for u in (1.0, unit)
    )
    assert_equal_models(one, two, X, rtol=1e-4)


def test_groups_are_not_torn_apart() -> None:
    """Of five equal rows with an accidental label, a neighbour in another fold gives it away."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(40), 5)
    X, y = rng.normal(size=(40, 2))[group], rng.integers(0, 2, size=40)[group]
    d, nearest = np.where(group % 2, "a", "b"), KNeighborsClassifier(1)
    torn = ax.AnyMixClassifier(nearest, cv=2).fit(X, y, domains=d)
    whole = ax.AnyMixClassifier(nearest, cv=2).fit(X, y, domains=d, groups=group)
    split = ax.AnyMixClassifier(nearest, cv=GroupKFold(2)).fit(X, y, domains=d, groups=group)
    assert torn.recommendation_.pooled[0] < 0.5
    assert whole.recommendation_.pooled[0] > 4
    assert split.recommendation_.pooled[0] > 4
    weight = np.where(np.arange(200) % 5, 1.0, 0.0)
    ridge = ax.AnyMixClassifier("linear", cv=2)
    ridge.fit(X, y, domains=d, groups=group, sample_weight=weight)
    kept = weight > 0
    other = ax.AnyMixClassifier("linear", cv=2)
    other.fit(X[kept], y[kept], domains=d[kept], groups=group[kept], sample_weight=weight[kept])
    assert_equal_models(ridge, other, X)


def test_given_folds_are_used() -> None:
    X, y, d = two_regions(120)
    folds = dealt(120, 3)
    one = ax.AnyMixRegressor("linear", cv=folds).fit(X, y, domains=d)
    masks = [(np.isin(np.arange(120), a), np.isin(np.arange(120), b)) for a, b in folds]
    for cv in (iter(folds), [(a.tolist(), b.tolist()) for a, b in folds], masks):
        assert_equal_models(ax.AnyMixRegressor("linear", cv=cv).fit(X, y, domains=d), one, X)
    split = ax.AnyMixRegressor("linear", cv=KFold(4)).fit(X, y, domains=d)
    listed = ax.AnyMixRegressor("linear", cv=list(KFold(4).split(X))).fit(X, y, domains=d)
    assert_equal_models(split, listed, X)
    assert np.abs(split.recommendation_.losses[0] - one.recommendation_.losses[0]).max() > 0
    labels = y > 0
    found = ax.AnyMixClassifier("linear", cv=StratifiedKFold(3)).fit(X, labels, domains=d)
    assert found.recommendation_.sizes.tolist() == [96, 24]


N = np.arange(60)
BAD_FOLDS: list[Any] = [
    1,
    0,
    [(N[:30], N[30:])],
    [(N[:30], N[30:]), (N[30:], N[:31])],
    [(N, N[:30]), (N, N[30:])],
    [(N[:30], N[30:]), (N[30:], N[:30] + 60)],
    [(N[:1], N[1:]), (N[1:], N[:1])],
]


@pytest.mark.parametrize("cv", BAD_FOLDS)
def test_folds_that_are_none_are_refused(cv: Any) -> None:
    X, y, d = two_regions(60)
    with pytest.raises(InputError) as caught:
        ax.AnyMixRegressor("linear", cv=cv).fit(X, y, domains=d)
    assert caught.value.argument == "cv"


# -- kinds of models, rows and labels ------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 4])
def test_the_defaults_on_classes(classes: int) -> None:
    X, y, d = two_regions(150, classes=classes)
    model = ax.AnyMixClassifier(cv=2).fit(X, y, domains=d)
    names = ["linear", "trees", "blend"]
    dial = ["t=1/16", "t=1/8", "t=1/4", "t=1/2"]
    told = [f"{name} with domain" for name in names]
    assert list(model.candidate_predictions(X, domains=d)) == names + dial + told
    assert list(model.recommendation_.names) == [*names, *dial, *told, "reference", "recommended"]
    for P in model.candidate_predictions(X, domains=d).values():
        assert P.shape == (150, classes)
        np.testing.assert_allclose(P.sum(axis=1), 1)
        assert np.mean(model.classes_[P.argmax(axis=1)] == y) > 1.5 / classes
    assert model.classes_.tolist() == sorted(set(y))
    assert set(model.predict(X)) == set(y)
    assert model.score(X, y) == accuracy_score(y, model.predict(X))
    weight = np.arange(150.0)
    assert model.score(X, y, sample_weight=weight, domains=d) == pytest.approx(
        accuracy_score(y, model.predict(X, domains=d), sample_weight=weight)
    )


def test_the_defaults_on_numbers() -> None:
    X, y, d = two_regions(150)
    model = ax.AnyMixRegressor(cv=2).fit(X, y, domains=d)
    assert model.recommendation_.names[:3] == ("linear", "trees", "blend")
    assert model.score(X, y) == r2_score(y, model.predict(X))
    assert model.score(X, y, domains=d) == r2_score(y, model.predict(X, domains=d)) > 0.7


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("trees", ("trees",)),
        (Ridge(), ("Ridge",)),
        ([Ridge(), Ridge(10.0)], ("Ridge", "Ridge 2")),
        ((make_pipeline(StandardScaler(), KNeighborsRegressor()), "linear"),
         ("KNeighborsRegressor", "linear")),
    ],
)  # fmt: skip
def test_own_estimators(given: Any, names: tuple[str, ...]) -> None:
    X, y, d = two_regions(100)
    model = ax.AnyMixRegressor(given, cv=2).fit(X, y, domains=d)
    assert model.recommendation_.names[: len(names)] == names
    assert np.isfinite(model.predict(X)).all()


BAD_ESTIMATORS: list[Any] = [
    "forest", [], ["linear", "trees", Ridge()], ["trees", "trees"], 3, LogisticRegression(),
    Ridge, ["linear", None],
]  # fmt: skip


@pytest.mark.parametrize("given", BAD_ESTIMATORS)
def test_what_is_no_kind_of_model_is_refused(given: Any) -> None:
    X, y, d = two_regions(60)
    with pytest.raises(InputError) as caught:
        ax.AnyMixRegressor(given).fit(X, y, domains=d)
    assert caught.value.argument == "estimators"


def test_classifiers_need_probabilities_and_weights_an_argument() -> None:
    X, y, d = two_regions(60, classes=2)
    for given in (LinearSVC(), Ridge()):
        with pytest.raises(InputError) as caught:
            ax.AnyMixClassifier(given).fit(X, y, domains=d)
        assert caught.value.argument == "estimators"
    pipe = make_pipeline(StandardScaler(), KNeighborsClassifier())
    with pytest.raises(InputError):
        ax.AnyMixClassifier(pipe).fit(X, y, domains=d, sample_weight=np.arange(60) + 1.0)


def test_sparse_rows() -> None:
    X, y, d = two_regions(200, classes=2)
    X[np.abs(X) < 0.5] = 0
    thin = sparse.csr_matrix(X)
    model = ax.AnyMixClassifier(cv=2, price=math.inf).fit(thin, y, domains=d)
    assert model.recommendation_.names[0] == "linear"
    assert model.recommendation_.reference == "linear"
    for form in (sparse.csr_array(X), sparse.csc_array(X), sparse.coo_matrix(X)):
        np.testing.assert_allclose(said(model, form), said(model, thin))
        np.testing.assert_allclose(said(model, form, domains=d), said(model, thin, domains=d))
    assert np.mean(model.predict(thin, domains=d) == y) > 0.75
    assert model.adapted(thin[:20], guard=False).mixture_.sum() == pytest.approx(1)
    own = ax.AnyMixClassifier(LogisticRegression(), cv=2).fit(thin, y, domains=d)
    both = ax.AnyMixClassifier(LogisticRegression(), cv=2).fit(X, y, domains=d)
    for name in ("LogisticRegression", "LogisticRegression with domain"):
        one, two = (m.candidate_predictions(thin, domains=d)[name] for m in (own, both))
        np.testing.assert_allclose(one, two, atol=1e-3)
    dense = ax.AnyMixClassifier("trees", cv=2).fit(X, y, domains=d)
    np.testing.assert_array_equal(said(dense, thin), said(dense, X))
    with pytest.raises(InputError) as caught:
        ax.AnyMixClassifier("trees").fit(thin, y, domains=d)
    assert caught.value.argument == "estimators"


def test_one_domain_and_no_domains() -> None:
    X, y, _ = two_regions(100)
    one = ax.AnyMixRegressor("linear", cv=2).fit(X, y, domains=["all"] * 100)
    none = ax.AnyMixRegressor("linear", cv=2).fit(X, y, domains=None)
    with pytest.warns(NoDomainsWarning):
        silent = ax.AnyMixRegressor("linear", cv=2).fit(X, y)
    for model in (one, none, silent):
        found = model.recommendation_
        assert [row["model"] for row in found.table] == ["linear", "linear"]
        assert (found.with_domain, found.chosen, model.t_) == (None, "linear", 0)
        assert model.mixture_.tolist() == [1.0]
        np.testing.assert_array_equal(model.predict(X), one.predict(X))
        with pytest.raises(InputError) as caught:
            model.adapted(X)
        assert caught.value.argument == "domains"
    np.testing.assert_array_equal(one.predict(X, domains=["all"] * 100), one.predict(X))


def test_what_cannot_be_fitted_is_refused() -> None:
    X, y, d = two_regions(60)
    holes = X.copy()
    holes[3, 1] = math.nan
    short = d[:-1]
    bad: list[tuple[str, dict[str, Any]]] = [
        ("X", {"X": holes}),
        ("y", {"y": np.append(y[:-1], math.nan)}),
        ("domains", {"domains": short}),
        ("domains", {"domains": np.eye(2)[np.arange(60) % 2] + 0.5}),
        ("domains", {"domains": [None, *short]}),
        ("sample_weight", {"sample_weight": np.ones(59)}),
        ("sample_weight", {"sample_weight": -np.ones(60)}),
        ("groups", {"groups": np.ones(59)}),
        ("groups", {"groups": np.ones(60)}),
        ("X", {"X": X[:1], "y": y[:1], "domains": d[:1]}),
    ]
    for argument, change in bad:
        data = {"X": X, "y": y, "domains": d} | change
        model = ax.AnyMixRegressor("linear")
        with pytest.raises(ValueError, match=argument):
            model.fit(data.pop("X"), data.pop("y"), **data)
    with pytest.raises(InputError):
        ax.AnyMixClassifier().fit(X, np.ones(60), domains=d)
    with pytest.raises(TypeError):
        ax.AnyMixRegressor().fit(X, y, d)  # type: ignore[call-arg]


def test_what_cannot_be_predicted_is_refused(regressor: Any) -> None:
    X, _, d = two_regions(60)
    for rows in (X[:, :2], np.where(X > 1, math.nan, X)):
        with pytest.raises(ValueError, match="X"):
            regressor.predict(rows)
    with pytest.raises(InputError) as caught:
        regressor.predict(X, domains=d[:-1])
    assert caught.value.argument == "domains"


# -- scales and degenerate data ------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e-6, 1e6, 1e160, 1e300])
def test_columns_have_no_unit(regressor: Any, unit: float) -> None:
    X, y, d = two_regions()
    found = ax.AnyMixRegressor("linear").fit(X * unit, y, domains=d)
    assert found.recommendation_.chosen == regressor.recommendation_.chosen != "linear"
    np.testing.assert_allclose(found.predict(X * unit), regressor.predict(X), atol=1e-4)


def test_columns_have_no_origin(regressor: Any) -> None:
    X, y, d = two_regions()
    found = ax.AnyMixRegressor("linear").fit(X + 1e9, y, domains=d)
    np.testing.assert_allclose(found.predict(X + 1e9), regressor.predict(X), atol=1e-4)


@pytest.mark.parametrize("unit", [1e-100, 1e-6, 1e6, 1e100])
def test_numbers_to_learn_have_no_unit(unit: float) -> None:
    X, y, d = two_regions(200)
    one, two = (
        ax.AnyMixRegressor(["linear", "trees"], cv=2).fit(X, y * u, domains=d) for u in (1, unit)
    )
    assert one.recommendation_.chosen == two.recommendation_.chosen
    np.testing.assert_allclose(two.predict(X) / unit, one.predict(X), atol=1e-3)
    np.testing.assert_allclose(
        two.recommendation_.losses / unit**2, one.recommendation_.losses, rtol=1e-3
    )


def test_constant_columns_change_nothing() -> None:
    X, y, d = two_regions(120)
    more = np.column_stack([X, np.zeros(120), np.full(120, 1e12), np.full(120, 0.1)])
    one, two = (
        ax.AnyMixRegressor(["linear", "trees"], cv=2).fit(x, y, domains=d) for x in (X, more)
    )
    assert one.recommendation_.chosen == two.recommendation_.chosen
    np.testing.assert_allclose(one.predict(X), two.predict(more), atol=1e-3)


@pytest.mark.parametrize("value", [0.0, 5.0, -1e-9])
def test_a_constant_y(value: float) -> None:
    X, _, d = two_regions(100)
    model = ax.AnyMixRegressor(["linear", "trees"], cv=2).fit(X, np.full(100, value), domains=d)
    assert model.recommendation_.chosen == model.recommendation_.reference
    np.testing.assert_allclose(model.predict(X), value, rtol=1e-6, atol=1e-15)
    assert np.isfinite(model.recommendation_.losses).all()


@pytest.mark.parametrize("kind", ["linear", "trees"])
def test_a_class_that_a_domain_does_not_have(kind: str) -> None:
    X, y, d = two_regions(200, classes=3)
    y[(d == "rural") & (y == "maybe")] = "no"
    model = ax.AnyMixClassifier(kind, cv=2).fit(X, y, domains=d)
    for P in model.candidate_predictions(X, domains=d).values():
        np.testing.assert_allclose(P.sum(axis=1), 1)
    told = model.predict_proba(X, domains=d)
    assert told[d == "rural", 0].mean() < 0.8 * told[d == "city", 0].mean()


def test_rare_classes_and_small_domains() -> None:
    X, y, d = two_regions(100, classes=2)
    y = y.astype(object)
    y[[3, 8]], d = "rare", d.astype(object)
    d[[1, 2]] = "hamlet"
    for kind in ("linear", "trees"):
        model = ax.AnyMixClassifier(kind, cv=3).fit(X, y.astype(str), domains=d.astype(str))
        assert model.classes_.tolist() == ["no", "rare", "yes"]
        assert np.isfinite(model.recommendation_.losses).all()
    y[8] = "no"
    assert ax.AnyMixClassifier("trees", cv=2).fit(X, y.astype(str), domains=d).classes_.size == 3
    with pytest.raises(InputError, match="rare"):  # one row cannot be in all training parts
        ax.AnyMixClassifier("linear", cv=2).fit(X, y.astype(str), domains=d)


# -- many domains, many rows ---------------------------------------------------------------------


def test_above_200_domains_small_ones_share_an_expert() -> None:
    sizes = np.random.default_rng(0).permutation(np.arange(1.0, 251.0))
    expert = flagship._experts(sizes)
    large = sizes > 51
    assert sorted(expert[large]) == list(range(199))
    assert set(expert[~large]) == {199}
    assert flagship._experts(sizes[:200]).tolist() == list(range(200))


def test_domains_that_share_an_expert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flagship, "MOST_EXPERTS", 3)
    rng = np.random.default_rng(0)
    X, y, _ = one_law(300)
    d = np.array(list("abcdef"))[np.concatenate([np.arange(6).repeat(10), rng.integers(0, 2, 240)])]
    y = y + np.where(d == "a", 3, 0) - np.where(d == "f", 3, 0)
    model = ax.AnyMixRegressor("linear", cv=2, price=math.inf).fit(X, y, domains=d)
    Q, H = model.expert_predictions(X)
    assert Q.shape == (300, 3)
    assert H.shape == (3, 300)
    told = {name: model.predict(X, domains=[name] * 300) for name in "abcdef"}
    for name in "cdef":
        np.testing.assert_array_equal(told[name], H[2])
    assert np.abs(told["a"] - told["b"]).min() > 1
    for lam in ([0.2, 0.2, 0.6, 0, 0, 0], [0.2, 0.2, 0.1, 0.1, 0.1, 0.3]):
        np.testing.assert_allclose(
            model.predict(X, mixture=lam), model.predict(X, mixture=[0.2, 0.2, 0, 0, 0, 0.6])
        )
    assert model.mixture_.shape == (6,)
    assert len(model.recommendation_.losses[0]) == 6
    assert model.estimate_mixture(X[d == "a"]).mixture.shape == (6,)


def test_of_many_rows_a_fair_sample_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, d = two_regions(1000, classes=2)
    y[:2] = "maybe"
    monkeypatch.setattr(flagship, "ROWS_TO_CHOOSE", 200)
    model = ax.AnyMixClassifier("linear", cv=2).fit(X, y, domains=d)
    sizes = model.recommendation_.sizes
    assert 200 <= sizes.sum() <= 202  # and the rare class
    assert abs(sizes[1] - 40) <= 2
    assert model.classes_.tolist() == ["maybe", "no", "yes"]
    np.testing.assert_allclose(model._learnt[0].shares, [0.8, 0.2])


def test_all_rows_are_fitted_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, d = two_regions(1000)
    monkeypatch.setattr(flagship, "ROWS_TO_CHOOSE", 200)
    model = ax.AnyMixRegressor([DummyRegressor(), LinearRegression()], cv=2).fit(X, y, domains=d)
    found = model.candidate_predictions(X)
    np.testing.assert_allclose(found["DummyRegressor"], y.mean())
    np.testing.assert_allclose(found["LinearRegression"], LinearRegression().fit(X, y).predict(X))
    assert model.recommendation_.sizes.sum() == 200


def test_a_sample_keeps_folds_and_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(80), 5)
    X, y = rng.normal(size=(80, 2))[group], rng.normal(size=80)[group]
    d = np.where(group % 2, "a", "b")
    monkeypatch.setattr(flagship, "ROWS_TO_CHOOSE", 300)
    nearest = KNeighborsRegressor(1)
    torn = ax.AnyMixRegressor(nearest, cv=2).fit(X, y, domains=d)
    whole = ax.AnyMixRegressor(nearest, cv=2).fit(X, y, domains=d, groups=group)
    halves = [(np.flatnonzero(group % 4 // 2 == j), np.flatnonzero(group % 4 // 2 != j))
              for j in (0, 1)]  # fmt: skip
    given = ax.AnyMixRegressor(nearest, cv=halves).fit(X, y, domains=d)
    losses = [m.recommendation_.pooled[0] for m in (torn, whole, given)]
    assert losses[0] < 0.5
    assert min(losses[1:]) > 1


# -- the price, Λ, the threshold -----------------------------------------------------------------


def judged(model: Any) -> tuple[Array, Array]:
    """A and V of the reference and the dial, on the rows that chose."""
    held = model._learnt[1].judged
    return held.pooled, held.expected


def test_others_pay_no_more_than_the_price() -> None:
    X, y, d = two_regions(400)
    y[d == "rural"] *= 3
    places = []
    for price in (0, 0.05, np.float64(0.2), math.inf):
        model = ax.AnyMixRegressor("linear", price=price, cv=3).fit(X, y, domains=d)
        A, V = judged(model)
        c = [0.0, *DIAL].index(model.t_)
        assert math.sqrt(A[c] / A[0]) <= 1 + price
        assert V[c] <= V[0]
        places.append(V[c])
    assert all(later <= earlier for earlier, later in itertools.pairwise(places))


@pytest.mark.parametrize("price", [-0.1, math.nan, "5 %", None])
def test_a_price_that_is_none_is_refused(price: Any) -> None:
    X, y, d = two_regions(60)
    with pytest.raises(InputError) as caught:
        ax.AnyMixRegressor(price=price).fit(X, y, domains=d)
    assert caught.value.argument == "price"


SETS: list[Any] = [
    None,
    ax.Box([0.1, 0.3], [0.7, 0.9]),
    "cvar:0.4",
    "tv:0.3",
    ax.Hull([[0.9, 0.1], [0.4, 0.6]]),
    lambda sizes: ax.Chi2Ball(sizes, 1.5),
    ax.Point([0.3, 0.7]),
]


@pytest.mark.parametrize("mixtures", SETS)
def test_the_mixture_is_one_of_those_to_guard_against(mixtures: Any) -> None:
    X, y, d = two_regions(200)
    model = ax.AnyMixRegressor("linear", mixtures=mixtures, price=math.inf, cv=2)
    model.fit(X, y, domains=d)
    m, target = np.array([0.8, 0.2]), model._learnt[2]
    assert model.t_ > 0
    pi = (model.mixture_ - (1 - model.t_) * m) / model.t_
    assert target.contains(pi, 1e-6)
    assert np.abs(pi - m).max() > 0.01
    np.testing.assert_allclose(model.predict(X), model.predict(X, mixture=model.mixture_))
    assert [row["model"] for row in model.recommendation_.table] == [
        "linear", model.recommendation_.chosen, "linear with domain",
    ]  # fmt: skip
    assert np.abs(model.predict(X, domains=d) - model.predict(X)).max() > 0.1


def test_the_point_to_guard_against_is_pi() -> None:
    X, y, d = two_regions(200)
    model = ax.AnyMixRegressor("linear", mixtures=ax.Point([0.3, 0.7]), price=math.inf, cv=2)
    model.fit(X, y, domains=d)
    np.testing.assert_allclose(
        model.mixture_, (1 - model.t_) * np.array([0.8, 0.2]) + model.t_ * np.array([0.3, 0.7])
    )


@pytest.mark.parametrize("mixtures", [ax.Simplex(3), "far away", 3])
def test_sets_for_other_domains_are_refused(mixtures: Any) -> None:
    X, y, d = two_regions(60)
    with pytest.raises(InputError) as caught:
        ax.AnyMixRegressor("linear", mixtures=mixtures).fit(X, y, domains=d)
    assert caught.value.argument == "mixtures"


def test_a_threshold_is_moved_only_if_that_is_surely_better() -> None:
    rng = np.random.default_rng(0)
    X, d = rng.normal(size=(600, 2)), np.where(np.arange(600) % 4, "a", "b")
    rare = X[:, 0] + 0.5 * rng.normal(size=600) > 1.5
    half = ax.AnyMixClassifier("linear", cv=3).fit(X, rare, domains=d)
    options: dict[str, Any] = {"decision_threshold": "worst_balanced_accuracy", "cv": 3}
    model = ax.AnyMixClassifier("linear", **options).fit(X, rare, domains=d)
    assert half.decision_threshold_ == 0.5
    assert 0.02 < model.decision_threshold_ < 0.4
    np.testing.assert_array_equal(said(model, X), said(half, X))
    yes = said(model, X)[:, 1] > model.decision_threshold_
    np.testing.assert_array_equal(model.predict(X), yes)
    assert yes.sum() > half.predict(X).sum()
    told = model.predict(X, domains=d)
    np.testing.assert_array_equal(told, said(model, X, domains=d)[:, 1] > model.decision_threshold_)
    even = X[:, 0] + 0.5 * rng.normal(size=600) > 0
    kept = ax.AnyMixClassifier("linear", **options).fit(X, even, domains=d)
    assert kept.decision_threshold_ == 0.5


@pytest.mark.parametrize(
    ("threshold", "classes"), [("accuracy", 2), (0.3, 2), ("worst_balanced_accuracy", 3)]
)
def test_thresholds_are_for_two_classes(threshold: Any, classes: int) -> None:
    X, y, d = two_regions(60, classes=classes)
    with pytest.raises(InputError) as caught:
        ax.AnyMixClassifier("linear", decision_threshold=threshold).fit(X, y, domains=d)
    assert caught.value.argument == "decision_threshold"


@pytest.mark.parametrize("use", ["guessed", None, True])
def test_uses_of_the_domain(use: Any) -> None:
    X, y, d = two_regions(60)
    with pytest.raises(InputError) as caught:
        ax.AnyMixRegressor(domain_use=use).fit(X, y, domains=d)
    assert caught.value.argument == "domain_use"


# -- what is reported ----------------------------------------------------------------------------


def test_one_law_keeps_the_ordinary_model() -> None:
    kept = 0
    for seed in range(10):
        X, y, d = one_law(150, seed)
        model = ax.AnyMixRegressor(LinearRegression(), cv=3).fit(X, y, domains=d)
        kept += model.recommendation_.chosen == model.recommendation_.reference
        assert (model.t_ == 0) == (model.recommendation_.chosen == "LinearRegression")
        assert len(model.recommendation_.table) == 3
    assert kept >= 9


def test_what_is_reported_holds_on_new_rows() -> None:
    """Held-out losses of 2,000 rows, against those of 100,000 new ones."""
    model = ax.AnyMixRegressor("linear", cv=3)
    model.fit(*(data := two_regions(2000))[:2], domains=data[2])
    X, y, d = two_regions(100_000, seed=5)
    found = model.recommendation_
    values = model.candidate_predictions(X, domains=d)
    for name in ("linear", "t=1/4", "linear with domain"):
        for k, domain in enumerate(found.domain_names):
            rows = d == domain
            loss = np.mean((values[name][rows] - y[rows]) ** 2)
            assert found.losses[found.place(name), k] == pytest.approx(loss, rel=0.15)
    losses = {name: np.mean((each - y)[d == "rural"] ** 2) for name, each in values.items()}
    assert losses["linear with domain"] < losses[found.chosen] < losses["linear"]


def test_the_candidates_as_columns(classifier: Any) -> None:
    table, found = pd.DataFrame(classifier.cv_results_), classifier.recommendation_
    assert table.columns.tolist() == [
        "candidate", "worst_test_loss", "pooled_test_loss", "test_loss_city", "test_loss_rural",
    ]  # fmt: skip
    assert table.candidate.tolist() == list(found.names)
    assert {"reference", "recommended", found.with_domain} < set(found.names)
    np.testing.assert_allclose(
        table.pooled_test_loss, 0.8 * table.test_loss_city + 0.2 * table.test_loss_rural
    )
    np.testing.assert_array_equal(
        table.worst_test_loss, table[["test_loss_city", "test_loss_rural"]].max(axis=1)
    )


def test_seconds_of_each_part(classifier: Any) -> None:
    seconds = classifier.recommendation_.seconds
    kinds = ["LogisticRegression", "GaussianNB"]
    parts = [*kinds, *(f"{kind} with domain" for kind in kinds)]
    parts += ["domain classifier", "choice", "refit", "refit with domain"]
    assert set(seconds) == set(parts)
    assert all(value >= 0 for value in seconds.values())
    assert sum(seconds.values()) > 0
