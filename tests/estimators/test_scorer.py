"""agnostic_scorer: the score of the worst mixture, alone and inside scikit-learn's own tools."""

import math
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.typing import NDArray
from regions import labels_data
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, get_scorer, log_loss, make_scorer, r2_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import anymix as ax
from anymix.estimators.scorer import _take


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_score_is_that_of_the_worst_domain() -> None:
    X, y, domains = labels_data()
    model = LogisticRegression().fit(X, y)
    by_hand = [
        accuracy_score(y[domains == k], model.predict(X[domains == k])) for k in ("city", "rural")
    ]
    assert by_hand[1] < by_hand[0]
    assert ax.agnostic_scorer("accuracy")(model, X, y, domains=domains) == by_hand[1]
    mixed = ax.agnostic_scorer("accuracy", ax.Point([0.3, 0.7]))(model, X, y, domains=domains)
    assert mixed == pytest.approx(0.3 * by_hand[0] + 0.7 * by_hand[1])
    half = ax.agnostic_scorer("accuracy", lambda sizes: ax.cvar(sizes / sizes.sum(), 0.5))
    share = 60 / 460 / 0.5
    expected = share * by_hand[1] + (1 - share) * by_hand[0]
    assert half(model, X, y, domains=domains) == pytest.approx(expected)


def test_score_by_a_scorer_and_by_weights() -> None:
    X, y, domains = labels_data()
    model = LogisticRegression().fit(X, y)
    f1 = make_scorer(f1_score, pos_label="yes")
    worst = min(
        f1_score(y[domains == k], model.predict(X[domains == k]), pos_label="yes")
        for k in ("city", "rural")
    )
    assert ax.agnostic_scorer(f1)(model, X, y, domains=domains) == pytest.approx(worst)
    weight = np.random.default_rng(0).integers(0, 3, size=len(y))
    scorer = ax.agnostic_scorer("accuracy", lambda sizes: ax.Point(sizes / sizes.sum()))
    weighted = scorer(model, X, y, domains=domains, sample_weight=weight)
    assert weighted == pytest.approx(model.score(X, y, sample_weight=weight))


def test_log_loss_of_a_domain_that_lacks_a_class() -> None:
    X, y, domains = labels_data()
    domains = np.where((domains == "rural") & (y == "yes"), "rural yes", domains)
    model = LogisticRegression().fit(X, y)
    P = model.predict_proba(X)
    worst = max(
        log_loss(y[domains == k], P[domains == k], labels=["no", "yes"]) for k in np.unique(domains)
    )
    score = ax.agnostic_scorer("neg_log_loss")(model, X, y, domains=domains)
    assert score == pytest.approx(-worst)


def test_score_of_a_regression_and_of_overlapping_domains() -> None:
    X, _, domains = labels_data(n_small=150)
    target = X[:, 0] + np.where(domains == "city", 0.1, 1.0) * X[:, 2]
    model = ax.AgnosticRegressor().fit(X, target, domains=domains)
    table = np.column_stack([domains == "city", X[:, 0] > 0])
    worst = min(r2_score(target[rows], model.predict(X[rows])) for rows in table.T)
    assert ax.agnostic_scorer("r2")(model, X, target, domains=table) == pytest.approx(worst)


def test_faults_of_the_scorer_are_named() -> None:
    X, y, domains = labels_data()
    model = DummyClassifier().fit(X, y)
    with pytest.raises(ValueError, match="accurracy"):
        ax.agnostic_scorer("accurracy")
    with pytest.raises(ValueError, match="was given no domains"):
        ax.agnostic_scorer()(model, X, y)
    with pytest.raises(ValueError, match="fractional"):
        ax.agnostic_scorer()(model, X, y, domains=np.full((len(y), 2), 0.5))
    with pytest.raises(ValueError, match="domains has shape"):
        ax.agnostic_scorer()(model, X, y, domains=domains[:-1])
    wrong: Any = "all"
    with pytest.raises(ValueError, match="mixtures is 'all'"):
        ax.agnostic_scorer(mixtures=wrong)(model, X, y, domains=domains)
    undefined = make_scorer(lambda y_true, y_pred: math.nan)
    with pytest.raises(ValueError, match=r"is .*nan .*'city'"):
        ax.agnostic_scorer(undefined)(model, X, y, domains=domains)


def test_scorer_is_a_value() -> None:
    scorer = ax.agnostic_scorer("accuracy", ax.Simplex(2))
    again = pickle.loads(pickle.dumps(scorer))
    assert (
        repr(again) == repr(scorer) == "agnostic_scorer('accuracy', mixtures=Simplex(n_domains=2))"
    )
    assert again.get_metadata_routing().score.requests == {"domains": True}


def test_rows_of_any_table() -> None:
    X = np.arange(12.0).reshape(6, 2)
    rows = np.array([4, 1])
    for table in (X, pd.DataFrame(X, index=list("fedcba")), pl.DataFrame(X), X.tolist()):
        np.testing.assert_array_equal(np.asarray(_take(table, rows)), X[rows])
    np.testing.assert_array_equal(_take(sparse.csr_array(X), rows).toarray(), X[rows])


# -- inside scikit-learn -------------------------------------------------------------------------


def make_frame() -> tuple[pd.DataFrame, NDArray[Any], NDArray[Any]]:
    X, y, domains = labels_data(n_small=120)
    frame = pd.DataFrame(
        {"a": 100 * X[:, 0], "b": X[:, 1] - 7, "c": np.where(X[:, 2] > 0, "u", "v")}
    )
    return frame, y, domains


def make_pipe(classifier: Any) -> Pipeline:
    columns = ColumnTransformer(
        [("numbers", StandardScaler(), ["a", "b"]), ("words", OneHotEncoder(), ["c"])]
    )
    return Pipeline([("columns", columns), ("classifier", classifier)])


@pytest.mark.usefixtures("routing")
def test_pipeline_and_cross_validation() -> None:
    frame, y, domains = make_frame()
    for request in (ax.AgnosticClassifier(), ax.AgnosticClassifier().set_fit_request(domains=True)):
        pipe = make_pipe(request).fit(frame, y, domains=domains)
        table = pipe[:-1].transform(frame)
        alone = ax.AgnosticClassifier().fit(table, y, domains=domains)
        np.testing.assert_allclose(pipe[-1].coef_, alone.coef_, rtol=1e-12)
        assert pipe[-1].domain_names_.tolist() == ["city", "rural"]

    folds = list(StratifiedKFold(3).split(frame, domains))
    scores = cross_val_score(
        pipe, frame, y, cv=folds, scoring=ax.agnostic_scorer(), params={"domains": domains}
    )
    for (train, test), score in zip(folds, scores, strict=True):
        fold = clone(pipe).fit(frame.iloc[train], y[train], domains=domains[train])
        hits = fold.predict(frame.iloc[test]) == y[test]
        assert score == min(hits[domains[test] == k].mean() for k in ("city", "rural"))


@pytest.mark.usefixtures("routing")
def test_pipeline_of_polars() -> None:
    frame, y, domains = make_frame()
    pipe = make_pipe(ax.AgnosticClassifier())
    params = {"domains": domains}
    scores = [
        cross_val_score(pipe, table, y, cv=3, scoring=ax.agnostic_scorer(), params=params)
        for table in (frame, pl.DataFrame(frame.to_dict("list")))
    ]
    np.testing.assert_array_equal(scores[0], scores[1])


def test_pipeline_without_routing_takes_the_domains_by_step() -> None:
    frame, y, domains = make_frame()
    pipe = make_pipe(ax.AgnosticClassifier()).fit(frame, y, classifier__domains=domains)
    assert pipe[-1].domain_names_.tolist() == ["city", "rural"]


@pytest.mark.usefixtures("routing")
def test_grid_search_chooses_for_the_worst_domain() -> None:
    X, y, domains = labels_data(n_small=120)
    pooled = lambda sizes: ax.Point(sizes / sizes.sum())  # noqa: E731 - a value in a grid
    grid = {"mixtures": [pooled, None]}
    chosen = {}
    for scoring in ("neg_log_loss", ax.agnostic_scorer("neg_log_loss")):
        search = GridSearchCV(ax.AgnosticClassifier(gamma=0.01), grid, scoring=scoring, cv=3)
        search.fit(X, y, domains=domains)
        chosen[str(scoring)] = search.best_params_["mixtures"]
    assert list(chosen.values()) == [pooled, None]


@pytest.mark.usefixtures("routing")
def test_names_of_metadata_can_differ() -> None:
    X, y, domains = labels_data(n_small=120)
    model = ax.AgnosticClassifier(gamma=0.1).set_fit_request(domains="region", sample_weight=True)
    scorer = ax.agnostic_scorer().set_score_request(domains="region", sample_weight=True)
    weight = np.where(domains == "city", 1.0, 2.0)
    params = {"region": domains, "sample_weight": weight}
    result = cross_validate(
        make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model),
        X,
        y,
        params=params,
        scoring={
            "worst": scorer,
            "mean": get_scorer("accuracy").set_score_request(sample_weight=True),
        },
        cv=3,
        return_estimator=True,
    )
    for fitted in result["estimator"]:
        assert fitted[-1].domain_names_.tolist() == ["city", "rural"]
    assert np.all(result["test_worst"] <= result["test_mean"])
