"""agnostic_scorer and AgnosticClassifierCV, alone and inside scikit-learn's own tools."""

import math
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    get_scorer,
    log_loss,
    make_scorer,
    r2_score,
)
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import validate_data

import anymix as ax
from anymix import datasets
from anymix.estimators.fitting import fit_problem
from anymix.estimators.overfitting import OverfitWarning
from anymix.estimators.reading import read_classes
from anymix.estimators.scorer import _take
from anymix.estimators.searching import Path as GammaPath
from anymix.estimators.searching import best_place, search
from anymix.estimators.selection import AgnosticRegressorCV, _folds
from anymix.problem.dealing import deal, sorted_rows
from anymix.problem.rows import Rows

Array = NDArray[np.float64]


def make_data(
    seed: int = 0, n_large: int = 400, n_small: int = 60, d: int = 6
) -> tuple[Array, NDArray[Any], NDArray[Any]]:
    """Two domains whose labels follow different columns, in random order."""
    rng = np.random.default_rng(seed)
    domains = rng.permutation(np.repeat(["city", "rural"], [n_large, n_small]))
    X = rng.normal(size=(len(domains), d))
    score = 2 * np.where(domains == "city", X[:, 0], X[:, 1])
    return X, np.where(score + rng.logistic(size=len(score)) > 0, "yes", "no"), domains


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


# -- the scorer ----------------------------------------------------------------------------------


def test_score_is_that_of_the_worst_domain() -> None:
    X, y, domains = make_data()
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
    X, y, domains = make_data()
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
    X, y, domains = make_data()
    domains = np.where((domains == "rural") & (y == "yes"), "rural yes", domains)
    model = LogisticRegression().fit(X, y)
    P = model.predict_proba(X)
    worst = max(
        log_loss(y[domains == k], P[domains == k], labels=["no", "yes"]) for k in np.unique(domains)
    )
    score = ax.agnostic_scorer("neg_log_loss")(model, X, y, domains=domains)
    assert score == pytest.approx(-worst)


def test_score_of_a_regression_and_of_overlapping_domains() -> None:
    X, _, domains = make_data(n_small=150)
    target = X[:, 0] + np.where(domains == "city", 0.1, 1.0) * X[:, 2]
    model = ax.AgnosticRegressor().fit(X, target, domains=domains)
    table = np.column_stack([domains == "city", X[:, 0] > 0])
    worst = min(r2_score(target[rows], model.predict(X[rows])) for rows in table.T)
    assert ax.agnostic_scorer("r2")(model, X, target, domains=table) == pytest.approx(worst)


def test_faults_of_the_scorer_are_named() -> None:
    X, y, domains = make_data()
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
    with pytest.raises(ValueError, match="is nan on domain 'city'"):
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
    X, y, domains = make_data(n_small=120)
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
    X, y, domains = make_data(n_small=120)
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
    X, y, domains = make_data(n_small=120)
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


@pytest.mark.usefixtures("routing")
def test_cv_estimator_in_a_pipeline() -> None:
    frame, y, domains = make_frame()
    pipe = make_pipe(ax.AgnosticClassifierCV([0.1, 0.01], cv=3)).fit(frame, y, domains=domains)
    assert pipe[-1].gamma_ in (0.1, 0.01)
    assert pipe.score(frame, y) > 0.6


# -- the classifier that chooses -----------------------------------------------------------------


def brute_force(
    X: Array,
    y: NDArray[Any],
    domains: NDArray[Any],
    folds: list[tuple[Any, Any]],
    candidates: list[dict[str, Any]],
) -> Array:
    """Losses (candidates, domains) on the rows held out, one fit and one row after the other."""
    losses = np.empty((len(candidates), len(y)))
    for i, parameters in enumerate(candidates):
        for train, test in folds:
            with warnings.catch_warnings(action="ignore", category=OverfitWarning):
                model = ax.AgnosticClassifier(**parameters).fit(
                    X[train], y[train], domains=domains[train]
                )
            P = model.predict_proba(X[test])
            losses[i, test] = -np.log(P[np.arange(len(test)), (y[test] == "yes").astype(int)])
    return np.column_stack([losses[:, domains == k].mean(axis=1) for k in np.unique(domains)])


def test_choice_is_that_of_brute_force() -> None:
    X, y, domains = make_data()
    parts = np.split(np.random.default_rng(0).permutation(len(y)), [60, 150, 300])  # unequal
    folds = [(np.setdiff1d(np.arange(len(y)), part), part) for part in parts]
    candidates = [
        {"gamma": gamma, "mu": mu, "max_skewness": r}
        for mu in (0.0, 0.1)
        for r in (None, 2.0)
        for gamma in (1.0, 0.1, 0.01)
    ]
    model = ax.AgnosticClassifierCV([0.1, 0.01, 1.0], (0.0, 0.1), (None, 2.0), cv=folds)
    model.fit(X, y, domains=domains)
    losses = brute_force(X, y, domains, folds, candidates)
    table = pd.DataFrame(model.cv_results_)
    assert table["param_gamma"].tolist() == [c["gamma"] for c in candidates]
    assert table["param_mu"].tolist() == [c["mu"] for c in candidates]
    np.testing.assert_allclose(table[["test_loss_city", "test_loss_rural"]], losses, atol=2e-4)
    np.testing.assert_allclose(table["worst_test_loss"], losses.max(axis=1), atol=2e-4)
    best = int(np.argmin(losses.max(axis=1)))
    assert model.best_index_ == best
    assert {"gamma": model.gamma_, "mu": model.mu_, "max_skewness": model.max_skewness_} == (
        candidates[best]
    )


def test_the_target_set_judges_not_the_worst_domain_alone() -> None:
    X, y, domains = make_data()
    folds = list(StratifiedKFold(4).split(X, domains))
    target = ax.Point([0.9, 0.1])
    model = ax.AgnosticClassifierCV([1.0, 0.01], cv=folds, mixtures=target).fit(
        X, y, domains=domains
    )
    candidates = [{"gamma": g, "mixtures": target} for g in (1.0, 0.01)]
    losses = brute_force(X, y, domains, folds, candidates)
    np.testing.assert_allclose(model.cv_results_["worst_test_loss"], losses @ [0.9, 0.1], atol=2e-4)


def test_regret_is_judged_by_the_best_alone() -> None:
    X, y, domains = make_data()
    folds = list(StratifiedKFold(4).split(X, domains))
    gammas = (1.0, 0.1, 0.01)
    model = ax.AgnosticClassifierCV(gammas, cv=folds, baseline="regret").fit(X, y, domains=domains)
    losses = brute_force(X, y, domains, folds, [{"gamma": g, "baseline": "regret"} for g in gammas])
    alone = [
        brute_force(X, y, domains, folds, [{"gamma": g, "mixtures": ax.Point(v)} for g in gammas])
        for v in np.eye(2)
    ]
    baseline = np.array([alone[k][:, k].min() for k in range(2)])
    np.testing.assert_allclose(
        model.cv_results_["worst_test_loss"], (losses - baseline).max(axis=1), atol=3e-4
    )
    refit = ax.AgnosticClassifier(gamma=model.gamma_, baseline="regret")
    with pytest.warns(OverfitWarning):
        refit.fit(X, y, domains=domains)
    np.testing.assert_allclose(model.baseline_losses_, refit.baseline_losses_)


def test_given_baseline_shifts_the_judgement() -> None:
    X, y, domains = make_data()
    plain, shifted = (
        ax.AgnosticClassifierCV([1.0, 0.1], mixtures=ax.Point([0.5, 0.5]), baseline=b)
        .fit(X, y, domains=domains)
        .cv_results_["worst_test_loss"]
        for b in (None, [0.1, 0.3])
    )
    np.testing.assert_allclose(shifted, plain - 0.2, atol=1e-4)


def test_refit_starts_at_the_choice_of_a_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []

    def watched(problem: Any, settings: Any, start: Any) -> Any:
        starts.append(start)
        return fit_problem(problem, settings, start=start)

    monkeypatch.setattr("anymix.estimators.selection.fit_problem", watched)
    X, y, domains = make_data(n_small=300)
    model = ax.AgnosticClassifierCV([1.0, 0.01]).fit(X, y, domains=domains)
    peer = ax.AgnosticClassifier(gamma=model.gamma_).fit(X, y, domains=domains)
    assert np.linalg.norm(starts[0].w - peer.solution_.w) < 0.5 * np.linalg.norm(peer.solution_.w)


def test_refit_is_a_fit_of_all_rows_and_does_not_warn() -> None:
    X, y, domains = make_data(n_small=20)
    model = ax.AgnosticClassifierCV([1e-3, 1e-4], tol=1e-11)
    model.fit(X, y, domains=domains)  # no warning
    with pytest.warns(OverfitWarning):
        peer = ax.AgnosticClassifier(gamma=model.gamma_, tol=1e-11).fit(X, y, domains=domains)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(model.mixture_, peer.mixture_, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-6)
    assert model.certificate_.upper == pytest.approx(peer.certificate_.upper, abs=1e-10)
    assert model.agnostic_loss_ == pytest.approx(peer.agnostic_loss_, abs=1e-8)


def test_refit_keeps_every_part_of_the_choice() -> None:
    X, y, domains = make_data()
    box = ax.Box([0.1, 0.1], [0.9, 0.9])
    model = ax.AgnosticClassifierCV([0.1], [0.05], [1.5], mixtures=box, tol=1e-11)
    model.fit(X, y, domains=domains)
    peer = ax.AgnosticClassifier(box, 0.1, 0.05, 1.5, tol=1e-11)
    np.testing.assert_allclose(model.coef_, peer.fit(X, y, domains=domains).coef_, atol=1e-6)
    np.testing.assert_allclose(model.mixture_, peer.mixture_, atol=1e-6)
    plain = clone(model).set_params(norm="plain", fit_intercept=False, tol=1e-9, max_iter=500)
    plain.fit(X, y, domains=domains)
    peer.set_params(norm="plain", fit_intercept=False, tol=1e-9, max_iter=500)
    np.testing.assert_allclose(
        plain.coef_, peer.fit(X, y, domains=domains).coef_, rtol=0, atol=1e-5
    )
    assert plain.intercept_.tolist() == [0.0]


def test_each_fit_starts_at_its_predecessor(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []

    def watched(*args: Any, start: Any, **options: Any) -> ax.Solution:
        starts.append((options["gamma"], start))
        return ax.solve(*args, start=start, **options)

    monkeypatch.setattr("anymix.estimators.searching.solve", watched)
    X, y, domains = make_data()
    ax.AgnosticClassifierCV([1.0, 0.1, 0.01], cv=2).fit(X, y, domains=domains)
    assert [gamma for gamma, _ in starts] == [1.0, 0.1, 0.01] * 2
    assert [start is None for _, start in starts] == [True, False, False] * 2


@pytest.mark.parametrize("overlap", [False, True])
def test_folds_share_out_every_domain_and_class(overlap: bool) -> None:
    X, y, domains = make_data(n_small=23)
    X = np.column_stack([np.arange(len(y)), X])
    table = np.column_stack([domains == "city", domains == "rural", overlap & (X[:, 1] > 0)])
    rows = read_classes(ax.AgnosticClassifier(), X, y, table if overlap else domains, None, True)
    seen: list[int] = []
    for parts in _folds(rows, 5):
        train, test = (rows.to_fit(part) for part in parts)
        ids = test.X[:, 0].astype(int)
        assert sorted([*ids, *train.X[:, 0].astype(int)]) == list(range(len(y)))
        seen += ids.tolist()
        for k in ("city", "rural"):
            for c in ("no", "yes"):
                cell = (domains == k) & (y == c)
                assert abs(cell[ids].sum() - cell.sum() / 5) <= (2 if overlap else 1)
    assert sorted(seen) == list(range(len(y)))


def test_one_standard_error_rule() -> None:
    candidates = [(1.0, 0.0, None), (1.0, 0.1, None), (1.0, 0.1, 2.0), (0.1, 0.0, None)]
    value, se = np.array([0.52, 0.53, 0.54, 0.5]), np.array([9.0, 9.0, 9.0, 0.045])
    assert best_place(candidates, value, se, "min") == 3
    assert best_place(candidates, value, se, "1se") == 2
    assert best_place(candidates, value, se / 1.2, "1se") == 1
    assert best_place(candidates, value, se / 2, "1se") == 0
    assert best_place(candidates, value, se / 4, "1se") == 3

    X, y, domains = make_data()
    least = ax.AgnosticClassifierCV().fit(X, y, domains=domains)
    strong = ax.AgnosticClassifierCV(rule="1se").fit(X, y, domains=domains)
    assert strong.gamma_ > least.gamma_
    loss, error = (least.cv_results_[f"{k}_test_loss"] for k in ("worst", "se"))
    assert loss[strong.best_index_] <= loss[least.best_index_] + error[least.best_index_]


def test_standard_error_is_that_of_the_folds() -> None:
    X, y, domains = make_data()
    folds = list(StratifiedKFold(4).split(X, domains))
    together = ax.AgnosticClassifierCV([0.1], cv=folds).fit(X, y, domains=domains)
    assert together.mixture_.argmax() == 1
    single = [
        ax.AgnosticClassifierCV([0.1], cv=[fold]).fit(X, y, domains=domains).cv_results_
        for fold in folds
    ]
    by_fold = [float(result["test_loss_rural"][0]) for result in single]
    assert together.cv_results_["se_test_loss"][0] == pytest.approx(np.std(by_fold, ddof=1) / 2)
    assert single[0]["se_test_loss"][0] == 0


def test_choosing_beats_no_regularisation_where_it_counts() -> None:
    """Worst domain on fresh rows: chosen γ against nearly none and against pooled training."""
    fresh, labels, groups = make_data(seed=99, n_large=4000, n_small=4000, d=30)

    def worst(model: Any) -> float:
        P = model.predict_proba(fresh)
        losses = [log_loss(labels[groups == k], P[groups == k]) for k in ("city", "rural")]
        return float(max(losses))

    results = []
    for seed in range(5):
        X, y, domains = make_data(seed, n_large=900, n_small=60, d=30)
        chosen = ax.AgnosticClassifierCV().fit(X, y, domains=domains)
        with pytest.warns(OverfitWarning):
            free = ax.AgnosticClassifier(gamma=1e-6).fit(X, y, domains=domains)
        pooled = ax.AgnosticClassifierCV().fit(X, y)
        results.append([worst(model) for model in (chosen, free, pooled)])
    assert np.all(np.argmin(results, axis=1) == 0)
    chosen_mean, free_mean, pooled_mean = np.mean(results, axis=0)
    assert chosen_mean < free_mean - 0.05
    assert chosen_mean < pooled_mean - 0.15


def test_three_classes_sparse_rows_and_weights() -> None:
    X, y, domains = make_data(n_small=150)
    y = np.where(X[:, 2] > 1, "maybe", y)
    weight = np.random.default_rng(0).integers(1, 3, size=len(y))
    dense, thin = (
        ax.AgnosticClassifierCV([0.1, 0.01], cv=3).fit(
            table, y, domains=domains, sample_weight=weight
        )
        for table in (X, sparse.csr_array(X))
    )
    assert dense.classes_.tolist() == ["maybe", "no", "yes"]
    assert dense.predict_proba(X).shape == (len(y), 3)
    np.testing.assert_allclose(
        dense.cv_results_["worst_test_loss"], thin.cv_results_["worst_test_loss"], atol=1e-4
    )


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"gammas": []}, r"gammas is \[\]"),
    ({"gammas": 0.1}, "gammas is 0.1; give a list"),
    ({"mus": "0"}, "mus is '0'; give a list"),
    ({"skewnesses": ()}, r"skewnesses is \(\)"),
    ({"skewnesses": (0.5,)}, "max_skewness is 0.5"),
    ({"gammas": [-1.0]}, "gamma is -1.0"),
    ({"rule": "best"}, "rule is 'best'"),
    ({"cv": 1}, "cv is 1 "),
    ({"cv": 30}, "cv is 30 and the smallest domain, 'rural', has n_samples=20"),
    ({"solver": "stochastic"}, "paths over gamma are exact"),
    ({"baseline": "best"}, "baseline is 'best'"),
    ({"mixtures": ax.Simplex(3)}, "mixtures is over 3 domains"),
]


@pytest.mark.parametrize(("parameters", "message"), FAULTS)
def test_faults_are_named(parameters: dict[str, Any], message: str) -> None:
    X, y, domains = make_data(n_small=20)
    with pytest.raises(ValueError, match=message):
        ax.AgnosticClassifierCV(**parameters).fit(X, y, domains=domains)


def test_folds_that_lack_a_domain_or_class_are_named() -> None:
    X, y, domains = make_data(n_small=20)
    order = np.argsort(domains)
    halves = [(order[::2], order[1::2]), (order[230:], order[:230])]
    with pytest.raises(ValueError, match=r"no row of 'rural' .* in the test part of fold 2"):
        ax.AgnosticClassifierCV([0.1], cv=halves).fit(X, y, domains=domains)
    once = np.where(np.arange(len(y)) == 7, "once", y)
    with pytest.raises(ValueError, match=r"class 'once' of y .* in the training part of fold \d"):
        ax.AgnosticClassifierCV([0.1]).fit(X, once, domains=domains)


# -- one reading, and the search without scikit-learn ---------------------------------------------


def test_the_input_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"validate_data": 0, "read": 0}

    def validated(*args: Any, **options: Any) -> Any:
        counts["validate_data"] += 1
        return validate_data(*args, **options)

    def read(*args: Any, **options: Any) -> Any:
        counts["read"] += 1
        return original(*args, **options)

    original = Rows.read
    monkeypatch.setattr("anymix.estimators.reading.validate_data", validated)
    monkeypatch.setattr(Rows, "read", read)
    monkeypatch.setattr(ax.LinearDomains, "__init__", None)
    X, y, domains = make_data()
    ax.AgnosticClassifierCV([1.0, 0.1]).fit(X, y, domains=domains)
    assert counts == {"validate_data": 1, "read": 1}


def numbers_data() -> tuple[Array, Array, NDArray[Any]]:
    X, _, domains = make_data(n_small=40)
    rng = np.random.default_rng(1)
    return X, np.where(domains == "city", X[:, 0], -X[:, 1]) + rng.normal(size=len(X)), domains


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_the_regressor_chooses_as_brute_force_does(loss: str) -> None:
    X, y, domains = numbers_data()
    folds = list(StratifiedKFold(4).split(X, domains))
    gammas = (1.0, 0.1, 0.01)
    model = AgnosticRegressorCV(gammas, cv=folds, loss=loss).fit(X, y, domains=domains)
    losses = np.empty((3, len(y)))
    for i, gamma in enumerate(gammas):
        for train, test in folds:
            with warnings.catch_warnings(action="ignore", category=OverfitWarning):
                peer = ax.AgnosticRegressor(gamma=gamma, loss=loss)
                peer.fit(X[train], y[train], domains=domains[train])
            r = np.abs(peer.predict(X[test]) - y[test])
            losses[i, test] = r**2 / 2 if loss == "squared" else np.where(r < 1, r**2 / 2, r - 0.5)
    by_domain = [losses[:, domains == k].mean(axis=1) for k in ("city", "rural")]
    worst = np.max(by_domain, axis=0)
    np.testing.assert_allclose(model.cv_results_["worst_test_loss"], worst, atol=2e-3)
    assert model.gamma_ == gammas[int(np.argmin(worst))]
    with warnings.catch_warnings(action="ignore", category=OverfitWarning):
        peer = ax.AgnosticRegressor(gamma=model.gamma_, loss=loss).fit(X, y, domains=domains)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=2e-3)
    np.testing.assert_allclose(model.predict(X), peer.predict(X), atol=1e-2)


def test_a_patient_search_stops_behind_the_best_and_finds_the_same() -> None:
    X, y, domains = make_data(n_small=20)
    rows = read_classes(ax.AgnosticClassifier(), X, y, domains)
    splits = list(deal(sorted_rows(rows), 3))
    candidates = [(gamma, 0.0, None) for gamma in (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5)]
    for mixtures in (None, "data", "cvar:0.5"):
        (full,), (short,) = (
            search(rows, splits, [GammaPath(candidates, mixtures)], patience)
            for patience in (None, 2)
        )
        best = full.best()
        assert short.best() == best
        assert len(short.candidates) == len(short.value) == min(6, best + 3) < 6
        np.testing.assert_array_equal(short.value, full.value[: len(short.value)])


def test_mixtures_in_words() -> None:
    X, y, domains = make_data(n_small=200)
    words = ax.AgnosticClassifier("cvar:0.5").fit(X, y, domains=domains)
    same = ax.AgnosticClassifier(lambda sizes: ax.cvar(sizes / sizes.sum(), 0.5))
    np.testing.assert_array_equal(words.coef_, same.fit(X, y, domains=domains).coef_)
    ordinary = ax.AgnosticClassifierCV([0.1], mixtures="data").fit(X, y, domains=domains)
    np.testing.assert_allclose(ordinary.mixture_, [2 / 3, 1 / 3])


# -- real data -----------------------------------------------------------------------------------


def test_adult_gains_on_new_doctorates() -> None:
    """The choice lowers the worst test loss below plain training's and below the free fit's."""
    data = datasets.load_adult(progress=False)
    doctorate = data.domains_test == "doctorate"

    def worst(model: Any) -> float:
        P = model.predict_proba(data.X_test)
        losses = [log_loss(data.y_test[rows], P[rows]) for rows in (doctorate, ~doctorate)]
        return float(max(losses))

    chosen = ax.AgnosticClassifierCV(np.logspace(0, -4, 5)).fit(
        data.X, data.y, domains=data.domains
    )
    with pytest.warns(OverfitWarning):
        free = ax.AgnosticClassifier(gamma=1e-5).fit(data.X, data.y, domains=data.domains)
    plain = ax.AgnosticClassifier(gamma=1e-5).fit(data.X, data.y)
    assert 1e-3 < chosen.gamma_ < 1
    assert worst(chosen) < worst(free) - 0.03
    assert worst(chosen) < worst(plain) - 0.03
