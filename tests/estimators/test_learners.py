"""The kinds of models: against scikit-learn, copies of X, and rows that they did not see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from anymix.errors import InputError
from anymix.estimators.learners import (
    DomainClassifier,
    Learner,
    Linear,
    Own,
    Sample,
    Splits,
    Trees,
    truth,
)

Array = NDArray[np.float64]


def rows(
    seed: int = 0, *, n: int = 240, K: int | None = None, thin: bool = False, weighted: bool = False
) -> Sample:
    """Three domains of ½, ⅓ and 1/6; K classes, or a regression."""
    rng = np.random.default_rng(seed)
    e = np.arange(n) % 6 // 3 + (np.arange(n) % 6 == 5)
    X = rng.normal(size=(n, 4)) + e[:, None] * [0.5, 0, 0, 0]
    X[rng.random(X.shape) < 0.3] = 0.0
    score = X @ [1.0, -1.0, 0.5, 0.0] + e * (1 + X[:, 3]) + 0.3 * rng.normal(size=n)
    y = score if K is None else np.digitize(score, np.quantile(score, np.arange(1, K) / K))
    given: Any = sparse.csr_array(X) if thin else X
    weight = rng.uniform(0.2, 2, size=n) if weighted else None
    classes = None if K is None else np.arange(K)
    return Sample(given, given, y, classes, weight, e, 3)


def folds(n: int, count: int = 4) -> Splits:
    part = np.arange(n) // 2 % count
    return [(np.flatnonzero(part != j), np.flatnonzero(part == j)) for j in range(count)]


def learners(K: int | None) -> list[Learner]:
    own: Any = Ridge(0.1) if K is None else LogisticRegression(C=2.0)
    return [Linear(), Trees(K is not None, 0), Own(own, "own")]


CASES = [(K, j) for K in (None, 2, 3) for j in range(3)]


# -- against scikit-learn ------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("K", [None, 2, 3])
def test_the_linear_model_is_that_of_scikit_learn(K: int | None, weighted: bool) -> None:
    """γ₀ is a penalty beside the mean loss, α and 1/C beside the sum (½ for squares)."""
    data, gamma = rows(K=K, weighted=weighted), 0.05
    total = len(data.y) if data.weight is None else data.weight.sum()
    learner = Linear()
    learner.tol = 1e-10
    model = learner.fit(data, gamma * len(data.y))
    other: Any = (
        Ridge(alpha=gamma * total)
        if K is None
        else LogisticRegression(C=1 / (gamma * total), tol=1e-10, max_iter=10_000)
    )
    other.fit(data.X, data.y, sample_weight=data.weight)
    expected = other.predict(data.X) if K is None else other.predict_proba(data.X)
    np.testing.assert_allclose(model(None, data.scaled), expected, atol=2e-4)


def test_gamma_is_kept_per_row() -> None:
    """Settings are sums: twice the rows at the same settings have half the penalty."""
    data = rows()
    settings = Linear().tune(data, folds(240))[1]
    twice = data.take(np.tile(np.arange(240), 2))
    w = [np.asarray(Linear().fit(data, s).w) for s in (settings, settings / 2)]
    np.testing.assert_allclose(Linear().fit(twice, settings).w, w[1], atol=1e-3)
    assert np.abs(w[0] - w[1]).max() > 0


@pytest.mark.parametrize("K", [None, 3])
def test_trees_are_those_of_scikit_learn(K: int | None) -> None:
    data = rows(K=K, weighted=True)
    make: Any = HistGradientBoostingRegressor if K is None else HistGradientBoostingClassifier
    other = make(
        learning_rate=0.1, max_iter=200, max_leaf_nodes=4, early_stopping=True, random_state=3
    )
    spread = np.std(data.y) if K is None else 1
    assert data.weight is not None
    other.fit(
        data.X,
        data.y / spread if K is None else data.y,
        sample_weight=data.weight / data.weight.mean(),
    )
    expected = other.predict(data.X) * spread if K is None else other.predict_proba(data.X)
    np.testing.assert_allclose(Trees(K is not None, 3).fit(data, 4)(data.X, None), expected)


@pytest.mark.parametrize("K", [None, 2])
def test_trees_have_the_better_number_of_leaves_on_two_folds(K: int | None) -> None:
    data, splits = rows(K=K, n=400), folds(400)
    trees = Trees(K is not None, 0)
    loss = {}
    for leaves in (4, 16):
        found = []
        for train, test in splits[:2]:
            said = truth(trees.fit(data.take(train), leaves)(data.X[test], None), data.y[test])
            found.append((said - data.y[test]) ** 2 if K is None else -np.log(said))
        loss[leaves] = np.mean(np.concatenate(found))
    said, leaves = trees.tune(data, splits)
    assert leaves == min(loss, key=loss.__getitem__)
    for train, test in splits:
        here = trees.fit(data.take(train), leaves)(data.X[test], None)
        np.testing.assert_array_equal(said[test], truth(here, data.y[test]))


@pytest.mark.parametrize(("n", "K"), [(5, None), (60, 2), (8, 3), (40, None)])
def test_few_rows_need_no_stopping(n: int, K: int | None) -> None:
    data = rows(K=K, n=n)
    assert np.isfinite(Trees(K is not None, 0).fit(data, 4)(data.X, None)).all()


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_trees_of_numbers_have_no_unit(scale: float) -> None:
    data = rows()
    found = Trees(False, 0).fit(replace(data, y=scale * data.y), 16)(data.X, None)
    np.testing.assert_allclose(
        found / scale, Trees(False, 0).fit(data, 16)(data.X, None), rtol=1e-6
    )
    constant = replace(data, y=np.full(240, scale))
    np.testing.assert_allclose(Trees(False, 0).fit(constant, 16)(data.X, None), scale)


# -- held-out predictions ------------------------------------------------------------------------


@pytest.mark.parametrize(("K", "j"), CASES)
def test_predictions_are_of_models_that_have_not_seen_the_fold(K: int | None, j: int) -> None:
    data, splits = rows(K=K), folds(240)
    learner = learners(K)[j]
    said, settings = learner.tune(data, splits)
    told, with_domain = learner.tune_experts(data, splits, settings)
    assert said.shape == (240,)
    assert told.shape == (240, 3)
    for train, test in splits:
        part, share = data.take(train), len(train) / 240
        kept, kept_domain = settings, with_domain
        if j == 0:  # sums of penalties
            kept, kept_domain = settings * share, (with_domain[0], with_domain[1] * share)
        here = learner.fit(part, kept)(data.X[test], data.scaled[test])
        np.testing.assert_allclose(said[test], truth(here, data.y[test]), atol=0.02)
        ask = learner.fit_experts(part, kept_domain)(data.X[test], data.scaled[test])
        for e in range(3):
            np.testing.assert_allclose(told[test, e], truth(ask(e), data.y[test]), atol=0.02)


def test_the_probability_of_the_class_that_came() -> None:
    P = np.array([[0.1, 0.9], [0.7, 0.3]])
    assert truth(P, np.array([1, 0])).tolist() == [0.9, 0.7]
    assert truth(np.array([3.0]), np.array([1.0])).tolist() == [3.0]


@pytest.mark.parametrize(("slope", "expected"), [(1.0, "slopes"), (0.0, "intercept")])
def test_slopes_of_domains_are_taken_where_they_are_better(slope: float, expected: str) -> None:
    data, splits = rows(n=240), folds(240)
    noise = np.random.default_rng(3).normal(size=240)
    data = replace(data, y=data.X[:, 0] + data.e * (1 + slope * data.X[:, 3]) + noise)
    learner, loss = Linear(), {}
    said, (kind, _) = learner.tune_experts(data, splits, 0.0)
    gamma = learner._tuned(data, splits, "intercept", None)[1]
    for name, gammas in (("intercept", None), ("slopes", [10 * gamma, 3 * gamma, gamma])):
        own = learner._tuned(data, splits, name, gammas)[0][np.arange(240), data.e]
        loss[name] = np.mean((own - data.y) ** 2)
    assert kind == min(loss, key=loss.__getitem__) == expected
    assert np.mean((said[np.arange(240), data.e] - data.y) ** 2) == pytest.approx(loss[kind])


def test_many_slopes_are_not_tried() -> None:
    data, splits = rows(n=600), folds(600)
    assert Linear().tune_experts(data, splits, 0.0)[1][0] == "slopes"
    wide = np.hstack([data.X, np.random.default_rng(0).normal(size=(600, 50))])  # 3·54 slopes
    many = replace(data, X=wide, scaled=wide)
    assert Linear().tune_experts(many, splits, 0.0)[1][0] == "intercept"


# -- as if a row were of another domain ----------------------------------------------------------


def copies(X: Any, e: int, kind: str) -> Any:
    """X with columns for the domain, the same in every row."""
    X = X.toarray() if sparse.issparse(X) else X
    n, d = X.shape
    ones = np.zeros((n, 3))
    ones[:, e] = 1
    slopes = np.zeros((n, 3 * d))
    slopes[:, e * d : (e + 1) * d] = 0.3 * X
    return {
        "intercept": np.hstack([X, ones]),
        "slopes": np.hstack([X, ones, slopes]),
        "one-hot": np.hstack([X, ones]),
        "code": np.column_stack([X, np.full(n, e)]),
    }[kind]


@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize("kind", ["intercept", "slopes"])
@pytest.mark.parametrize("K", [None, 2, 3])
def test_linear_experts_are_those_of_copies(K: int | None, kind: str, thin: bool) -> None:
    data = rows(K=K, thin=thin)
    ask = Linear().fit_experts(data, (kind, 1.0))(data.X, data.scaled)
    wide = np.zeros(copies(data.X, 0, kind).shape)
    for e in range(3):
        wide[data.e == e] = copies(data.X, e, kind)[data.e == e]
    plain = replace(data, X=wide, scaled=wide)
    model = Linear().fit(plain, 1.0)
    for e in range(3):
        np.testing.assert_allclose(ask(e), model(None, copies(data.X, e, kind)), atol=1e-3)
    shift = np.abs(ask(0) - ask(2)).max()
    assert shift > 0.1


@pytest.mark.parametrize("K", [None, 2, 3])
def test_experts_of_trees_and_own_estimators_are_those_of_copies(K: int | None) -> None:
    data = rows(K=K)
    settings: Any
    for learner, kind, settings in zip(
        learners(K)[1:], ("code", "one-hot"), (16, None), strict=True
    ):
        model: Any = learner.fit_experts(data, settings)
        ask = model(data.X, data.scaled)
        fitted = model.model
        for e in (2, 0, 1):  # in any order
            wide = copies(data.X, e, kind)
            expected = fitted.predict(wide) if K is None else fitted.predict_proba(wide)
            np.testing.assert_allclose(ask(e), expected)
        assert np.abs(ask(0) - ask(2)).max() > 0.05


def test_trees_take_the_domain_as_a_category() -> None:
    """Domains 0 and 2 are alike and 1 differs: one split of a category, two of a number."""
    data = rows(n=600)
    odd = replace(data, y=5.0 * (data.e == 1))
    model: Any = Trees(False, 0).fit_experts(odd, 4)
    assert model.model.model.is_categorical_.tolist() == [False] * 4 + [True]
    ask = model(data.X, None)
    np.testing.assert_allclose(ask(0), 0, atol=1e-3)
    np.testing.assert_allclose(ask(1), 5, atol=1e-3)


def test_sparse_and_dense_rows_make_the_same_experts() -> None:
    for K in (None, 3):
        dense, thin = rows(K=K), rows(K=K, thin=True)
        own: Any = Ridge(solver="lsqr", tol=1e-10) if K is None else LogisticRegression(tol=1e-8)
        pairs: Any = ((Linear(), ("slopes", 1.0)), (Own(own, "own"), None))
        for learner, settings in pairs:
            one, two = (learner.fit_experts(d, settings)(d.X, d.scaled) for d in (dense, thin))
            for e in range(3):
                np.testing.assert_allclose(one(e), two(e), atol=2e-3)


def test_a_class_that_a_fold_has_not_met_has_probability_0() -> None:
    data = rows(K=3)
    part = data.take(np.flatnonzero(data.y != 1))
    for learner in (Trees(True, 0), Own(GaussianNB(), "own")):
        P = learner.fit(part, 4)(data.X, None)
        assert P.shape == (240, 3)
        assert np.all(P[:, 1] == 0)
        np.testing.assert_allclose(P.sum(axis=1), 1)


def test_weights_reach_the_last_step_of_a_pipeline() -> None:
    data = rows(weighted=True)
    pipe = make_pipeline(StandardScaler(), LinearRegression())
    found = Own(pipe, "own").fit(data, None)(data.X, None)
    other = LinearRegression().fit(data.X, data.y, sample_weight=data.weight)
    np.testing.assert_allclose(found, other.predict(data.X))
    assert np.abs(found - LinearRegression().fit(data.X, data.y).predict(data.X)).max() > 1e-3


# -- the domain classifier -----------------------------------------------------------------------


def test_domains_by_a_multinomial_logistic_regression() -> None:
    data, splits = rows(weighted=True), folds(240)
    Q = DomainClassifier().tune(data, splits)
    assert data.weight is not None
    for train, test in splits:
        weight = data.weight[train] / data.weight[train].mean()
        other = LogisticRegression(C=0.03, tol=1e-8, max_iter=1000)
        other.fit(data.X[train], data.e[train], sample_weight=weight)
        np.testing.assert_allclose(Q[test], other.predict_proba(data.X[test]), atol=2e-3)
    np.testing.assert_allclose(Q.sum(axis=1), 1)


def test_domains_that_were_not_met_have_a_share_above_0() -> None:
    data = rows()
    two = DomainClassifier().fit(data.take(np.flatnonzero(data.e != 1)))(data.X)
    assert two.shape == (240, 3)
    assert np.all(two[:, 1] == 1e-9)
    assert two[:, [0, 2]].min() > 1e-6
    one = DomainClassifier().fit(data.take(np.flatnonzero(data.e == 1)))(data.X)
    np.testing.assert_array_equal(one, np.tile([1e-9, 1, 1e-9], (240, 1)))


def test_a_classifier_that_is_fitted_again_forgets() -> None:
    """It begins where the last fit ended, and other domains make it begin anew."""
    data = rows()
    used = DomainClassifier().fit(data.take(np.flatnonzero(data.e != 1)))
    again, new = used.fit(data)(data.X), DomainClassifier().fit(data)(data.X)
    np.testing.assert_allclose(again, new)


def test_weights_without_a_name_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        Own(KNeighborsRegressor(), "own").fit(rows(weighted=True), None)
    assert caught.value.argument == "estimator"
