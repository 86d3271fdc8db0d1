"""AgnosticClassifierCV and AgnosticRegressorCV: the choice, the fit of it, and what they tell."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from joblib import parallel_config
from numpy.typing import NDArray
from regions import alike_data, labels_data, numbers_data
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import validate_data

import anymix as ax
from anymix import datasets
from anymix.errors import InputError
from anymix.estimators import NothingGained
from anymix.estimators.fitting import OverfitWarning, fit_problem
from anymix.estimators.reading import read_classes
from anymix.estimators.searching import Plan, candidates_of, search
from anymix.problem.dealing import deal, sorted_rows
from anymix.problem.rows import Rows
from anymix.selection.rule import choose

Array = NDArray[np.float64]
AGNOSTIC: dict[str, Any] = {  # the purely agnostic learner with a tuned γ
    "price": np.inf,
    "robustness": (1.0,),
    "anchor": None,
}
PLAIN = ax.Objective(norm="plain")
PRODUCT = ax.Objective(prior=ax.DirichletPrior([2.0, 3.0]), multiplicative=True)
SMALL: dict[str, Any] = {"gammas": (1.0, 0.1, 0.01), "robustness": (0.5, 1.0)}


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


# -- the choice ----------------------------------------------------------------------------------


def test_the_table_is_that_of_the_search_and_the_choice_that_of_the_rule() -> None:
    X, y, domains = labels_data()
    model = ax.AgnosticClassifierCV([0.1, 0.01], price=0.3).fit(X, y, domains=domains)
    rows = read_classes(ax.AgnosticClassifier(), X, y, domains)
    splits = deal(sorted_rows(rows, np.random.RandomState(0)), 5)
    candidates = candidates_of((0.25, 0.5, 0.75, 1.0), (0.1, 0.01), to_zero=True)
    found = search(rows, splits, Plan(candidates, ordinary_gammas=(0.1, 0.01)))
    table, held = pd.DataFrame(model.cv_results_), found.held_out
    fields = ["robustness", "gamma", "mu", "max_skewness", "to_zero"]
    tried = table[[f"param_{name}" for name in fields]].itertuples(index=False, name=None)
    assert list(tried) == found.candidates
    assert table.columns.tolist()[5:] == [
        "worst_test_loss",
        "expected_worst_test_loss",
        "se_test_loss",
        "pooled_test_loss",
        "test_loss_city",
        "test_loss_rural",
    ]
    np.testing.assert_array_equal(table["worst_test_loss"], held.value)
    np.testing.assert_array_equal(table["expected_worst_test_loss"], held.expected)
    np.testing.assert_array_equal(table["pooled_test_loss"], held.pooled)
    np.testing.assert_array_equal(table[["test_loss_city", "test_loss_rural"]], held.domain_losses)
    errors = [held.error(c, held.worst[c]) for c in range(len(held.value))]
    np.testing.assert_array_equal(table["se_test_loss"], errors)
    assert model.best_index_ == choose(held, 0.3) > 0
    chosen = model.robustness_, model.gamma_, model.mu_, model.max_skewness_
    assert chosen == found.candidates[model.best_index_][:4]


def test_the_standard_error_is_that_of_the_rows_of_the_worst_domain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("anymix.estimators.searching.ROUGH", 1e-10)
    X, y, domains = labels_data()
    folds = list(StratifiedKFold(4).split(X, domains))
    model = ax.AgnosticClassifierCV([0.1], cv=folds, **AGNOSTIC).fit(X, y, domains=domains)
    losses = np.empty(len(y))
    for train, test in folds:
        with warnings.catch_warnings(action="ignore", category=OverfitWarning):
            peer = ax.AgnosticClassifier(gamma=0.1, tol=1e-10).fit(
                X[train], y[train], domains=domains[train]
            )
        P = peer.predict_proba(X[test])
        losses[test] = -np.log(P[np.arange(len(test)), (y[test] == "yes").astype(int)])
    rural = losses[domains == "rural"]
    assert rural.mean() > losses[domains == "city"].mean()
    error = model.cv_results_["se_test_loss"][1]
    assert error == pytest.approx(rural.std(ddof=1) / np.sqrt(len(rural)), rel=1e-5)


@pytest.mark.parametrize("baseline", [None, "regret"])
def test_folds_that_are_shared_give_the_same_losses_of_every_row(baseline: str | None) -> None:
    X, y, domains = (values[::4] for values in labels_data())
    rows = read_classes(ax.AgnosticClassifier(), X, y, domains)
    folds = list(deal(sorted_rows(rows), 3))
    plan = Plan(candidates_of((1.0,), (1.0, 0.1)), baseline=baseline, ordinary_gammas=(1.0, 0.1))
    alone = search(rows, folds, plan).held_out
    with parallel_config("threading"):  # processes are tested with the command
        shared = search(rows, folds, replace(plan, n_jobs=2)).held_out
    np.testing.assert_allclose(shared.losses, alone.losses, rtol=1e-9)
    np.testing.assert_allclose(shared.offsets, alone.offsets, rtol=1e-9)
    assert ax.AgnosticClassifierCV(n_jobs=2)._plan(rows).n_jobs == 2


def test_the_price_limits_what_all_rows_pay() -> None:
    X, y, domains = labels_data()
    prices = (0.0, 0.1, 0.2, 0.5, np.inf)
    with warnings.catch_warnings(action="ignore", category=NothingGained):
        models = [
            ax.AgnosticClassifierCV(**SMALL, price=price).fit(X, y, domains=domains)
            for price in prices
        ]
    table = models[0].cv_results_
    pooled, V = table["pooled_test_loss"], table["expected_worst_test_loss"]
    places = [model.best_index_ for model in models]
    assert places[0] == 0 < places[1]
    assert all(1 + b >= A for A, b in zip(pooled[places] / pooled[0], prices, strict=True))
    assert np.all(np.diff(V[places]) <= 0)
    assert V[places[-1]] == V.min() < V[places[1]]


@pytest.mark.parametrize("seed", range(2))
def test_the_ordinary_model_is_kept_with_a_warning_where_nothing_is_gained(seed: int) -> None:
    X, y, domains = alike_data(seed)
    with pytest.warns(NothingGained, match="ordinary model is kept") as caught:
        model = ax.AgnosticClassifierCV(**SMALL).fit(X, y, domains=domains)
    assert caught[0].filename == __file__
    assert (model.best_index_, model.robustness_) == (0, 0.0)
    assert model.gamma_ == model.ordinary_.gamma
    np.testing.assert_array_equal(model.coef_, model.ordinary_.coef_)
    np.testing.assert_array_equal(model.predict_proba(X), model.ordinary_.predict_proba(X))


def test_rows_of_no_weight_take_no_place_in_a_fold() -> None:
    """Six rows of the small domain count; dealt with the others, some fold would have none."""
    X, y, domains = labels_data()
    rural = np.flatnonzero(domains == "rural")
    weight = np.ones(len(y))
    weight[rural[6:]] = 0
    some = weight > 0
    with warnings.catch_warnings(action="ignore", category=NothingGained):
        model = ax.AgnosticClassifierCV(**SMALL).fit(X, y, domains=domains, sample_weight=weight)
        peer = ax.AgnosticClassifierCV(**SMALL).fit(X[some], y[some], domains=domains[some])
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
    for name, column in model.cv_results_.items():
        if name.endswith(("loss", "city", "rural")):
            np.testing.assert_allclose(column, peer.cv_results_[name], atol=1e-9)
    weight[rural] = 0
    with pytest.raises(InputError, match=r"sample_weight.*zero.*'rural'"):
        ax.AgnosticClassifierCV(**SMALL).fit(X, y, domains=domains, sample_weight=weight)


@pytest.mark.parametrize("unit", [1 / 460, 1e6])
def test_the_unit_of_the_weights_changes_no_choice(unit: float) -> None:
    """Not even what is tried: weights that sum to 1 are no sign of the mixture of the data."""
    X, y, domains = labels_data()
    options = {**SMALL, "mixtures": ax.Point([0.5, 0.5])}
    with warnings.catch_warnings(action="ignore", category=NothingGained):
        one = ax.AgnosticClassifierCV(**options).fit(X, y, domains=domains)
        model = ax.AgnosticClassifierCV(**options)
        model.fit(X, y, domains=domains, sample_weight=np.full(len(y), unit))
    assert len(one.cv_results_["pooled_test_loss"]) > 1
    assert model.best_index_ == one.best_index_
    np.testing.assert_allclose(
        model.cv_results_["pooled_test_loss"], one.cv_results_["pooled_test_loss"], atol=1e-4
    )


def test_one_domain_has_no_robust_candidate_and_no_warning() -> None:
    X, y, _ = labels_data()
    for domains in (None, np.zeros(len(y))):
        model = ax.AgnosticClassifierCV().fit(X, y, domains=domains)  # a warning would be an error
        assert len(model.cv_results_["worst_test_loss"]) == 1
        assert (model.best_index_, model.robustness_) == (0, 0.0)
        assert model.frontier_.robustness.tolist() == [0.0]
    regret = ax.AgnosticClassifierCV(baseline="regret", tol=1e-10).fit(X, y, domains=None)
    assert regret.agnostic_loss_ == pytest.approx(0.0, abs=1e-6)


def test_the_same_numbers_every_time() -> None:
    X, y, domains = labels_data()
    one, two, other = (
        ax.AgnosticClassifierCV([0.1], robustness=(1.0,), price=np.inf, random_state=seed).fit(
            X, y, domains=domains
        )
        for seed in (0, 0, 1)
    )
    assert ax.AgnosticClassifierCV().random_state == 0
    np.testing.assert_array_equal(one.coef_, two.coef_)
    for name, column in one.cv_results_.items():
        np.testing.assert_array_equal(column, two.cv_results_[name])
    assert np.all(other.cv_results_["worst_test_loss"] != one.cv_results_["worst_test_loss"])


def test_splitters_and_pairs_are_folds_as_well() -> None:
    X, y, domains = labels_data()
    splitter = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    for cv in (splitter, iter(list(splitter.split(X, y)))):
        model = ax.AgnosticClassifierCV([0.1], cv=cv, price=np.inf).fit(X, y, domains=domains)
        assert model.best_index_ > 0


def test_no_t_of_zero_but_the_ordinary_model() -> None:
    X, y, domains = labels_data()
    model = ax.AgnosticClassifierCV([0.1, 0.01], robustness=(0.0, 1.0), price=np.inf)
    model.fit(X, y, domains=domains)
    assert model.cv_results_["param_robustness"].tolist() == [0.0, *[1.0] * 4]


# -- the fit of the choice -----------------------------------------------------------------------


def test_refit_starts_at_the_choice_of_a_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []

    def watched(problem: Any, objective: Any, baseline: Any, start: Any, **limits: Any) -> Any:
        starts.append((objective, start))
        return fit_problem(problem, objective, baseline, start=start, **limits)

    monkeypatch.setattr("anymix.estimators.choices.fit_problem", watched)
    X, y, domains = labels_data(n_small=300)
    model = ax.AgnosticClassifierCV([1.0, 0.01], **AGNOSTIC).fit(X, y, domains=domains)
    peer = ax.AgnosticClassifier(gamma=model.gamma_).fit(X, y, domains=domains)
    objective, start = starts[-1]
    assert (objective.robustness, objective.gamma) == (1.0, model.gamma_)
    assert np.linalg.norm(start.w - peer.solution_.w) < 0.5 * np.linalg.norm(peer.solution_.w)


def test_refit_is_a_fit_of_all_rows_and_does_not_warn() -> None:
    X, y, domains = labels_data(n_small=20)
    model = ax.AgnosticClassifierCV([1e-3, 1e-4], tol=1e-11, **AGNOSTIC)
    model.fit(X, y, domains=domains)  # no warning
    assert model.robustness_ == 1.0
    with pytest.warns(OverfitWarning):
        peer = ax.AgnosticClassifier(gamma=model.gamma_, tol=1e-11).fit(X, y, domains=domains)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(model.mixture_, peer.mixture_, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-6)
    assert model.certificate_.upper == pytest.approx(peer.certificate_.upper, abs=1e-10)
    assert model.agnostic_loss_ == pytest.approx(peer.agnostic_loss_, abs=1e-8)


@pytest.mark.parametrize(("price", "to_zero"), [(0.1, False), (np.inf, True)])
def test_refit_is_anchored_at_the_ordinary_model_of_all_rows_or_at_zero(
    price: float, to_zero: bool
) -> None:
    X, y, domains = labels_data()
    model = ax.AgnosticClassifierCV(**SMALL, price=price, tol=1e-11).fit(X, y, domains=domains)
    assert model.robustness_ > 0
    assert model.cv_results_["param_to_zero"][model.best_index_] == to_zero
    peer = ax.AgnosticClassifier(
        gamma=model.gamma_,
        robustness=model.robustness_,
        anchor=None if to_zero else model.ordinary_.coef_,
        tol=1e-11,
    )
    with warnings.catch_warnings(action="ignore", category=OverfitWarning):
        peer.fit(X, y, domains=domains)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(model.mixture_, peer.mixture_, atol=1e-6)
    assert model.certificate_.gap <= 1e-11


def test_refit_keeps_every_part_of_the_choice() -> None:
    X, y, domains = labels_data()
    box = ax.Box([0.1, 0.1], [0.9, 0.9])
    model = ax.AgnosticClassifierCV([0.1], [0.05], [1.5], mixtures=box, tol=1e-11, **AGNOSTIC)
    model.fit(X, y, domains=domains)
    assert (model.mu_, model.max_skewness_) == (0.05, 1.5)
    peer = ax.AgnosticClassifier(box, 0.1, 0.05, 1.5, tol=1e-11)
    np.testing.assert_allclose(model.coef_, peer.fit(X, y, domains=domains).coef_, atol=1e-6)
    np.testing.assert_allclose(model.mixture_, peer.mixture_, atol=1e-6)
    plain = clone(model).set_params(objective=PLAIN, fit_intercept=False, tol=1e-9, max_iter=500)
    plain.fit(X, y, domains=domains)
    assert plain.robustness_ == 1.0
    peer.set_params(objective=PLAIN, fit_intercept=False, tol=1e-9, max_iter=500)
    np.testing.assert_allclose(
        plain.coef_, peer.fit(X, y, domains=domains).coef_, rtol=0, atol=1e-5
    )
    assert plain.intercept_.tolist() == [0.0]


def test_the_regret_of_the_refit_is_that_of_its_gamma() -> None:
    X, y, domains = labels_data()
    model = ax.AgnosticClassifierCV((1.0, 0.1, 0.01), baseline="regret", **AGNOSTIC)
    model.fit(X, y, domains=domains)
    refit = ax.AgnosticClassifier(gamma=model.gamma_, baseline="regret")
    with pytest.warns(OverfitWarning):
        refit.fit(X, y, domains=domains)
    np.testing.assert_allclose(model.baseline_losses_, refit.baseline_losses_, rtol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_the_regressor_refits_its_choice(loss: str) -> None:
    X, y, domains = numbers_data()
    model = ax.AgnosticRegressorCV((1.0, 0.1, 0.01), loss=loss, tol=1e-9, **AGNOSTIC)
    model.fit(X, y, domains=domains)
    assert model.robustness_ == 1.0
    with warnings.catch_warnings(action="ignore", category=OverfitWarning):
        peer = ax.AgnosticRegressor(gamma=model.gamma_, loss=loss, tol=1e-9)
        peer.fit(X, y, domains=domains)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict(X), peer.predict(X), atol=1e-3)


ORDINARY: list[Any] = [
    ax.AgnosticClassifierCV(**SMALL),
    ax.AgnosticClassifierCV(**SMALL, objective=PLAIN, baseline="regret"),
    ax.AgnosticRegressorCV(**SMALL),
    ax.AgnosticRegressorCV(**SMALL, loss="huber", delta=0.3, fit_intercept=False),
]


@pytest.mark.parametrize("model", ORDINARY, ids=str)
def test_the_ordinary_model_says_how_it_was_fitted(model: Any) -> None:
    """A clone of ordinary_, fitted to the same rows, is ordinary_ again."""
    is_classifier = isinstance(model, ax.AgnosticClassifierCV)
    X, y, domains = labels_data() if is_classifier else numbers_data()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model.set_params(tol=1e-10).fit(frame, y, domains=domains)
    again = clone(model.ordinary_).fit(frame, y, domains=domains)
    np.testing.assert_allclose(again.coef_, model.ordinary_.coef_, atol=1e-5)
    np.testing.assert_allclose(again.mixture_, model.ordinary_.mixture_)
    assert again.agnostic_loss_ == pytest.approx(model.ordinary_.agnostic_loss_, abs=1e-6)
    np.testing.assert_array_equal(  # without a word on names of features
        model.ordinary_.predict(frame), model.ordinary_.predict(frame[list("abcdef")])
    )


# -- the frontier --------------------------------------------------------------------------------


def test_the_frontier_has_the_numbers_of_the_table() -> None:
    X, y, domains = labels_data(n_small=150)
    model = ax.AgnosticClassifierCV(**SMALL, price=0.02).fit(X, y, domains=domains)
    front, table = model.frontier_, pd.DataFrame(model.cv_results_)
    held = front.held_out
    assert held is not None
    assert front.chosen is not None
    assert front.robustness.tolist() == [0.0, 0.5, 1.0]
    for i, (t, gamma) in enumerate(zip(front.robustness, front.gammas, strict=True)):
        these = table[table["param_robustness"] == t]
        if i == front.chosen:  # which all rows can pay for
            row = table.iloc[model.best_index_]
            assert row["expected_worst_test_loss"] > these["expected_worst_test_loss"].min()
        else:  # for every other t the best candidate
            row = these.loc[these["expected_worst_test_loss"].idxmin()]
        assert row["param_gamma"] == gamma
        assert held.worst[i] == row["worst_test_loss"]
        assert held.pooled[i] == row["pooled_test_loss"]
        assert held.worst_error is not None
        assert held.worst_error[i] == row["se_test_loss"]
        assert held.domains[i].tolist() == row[["test_loss_city", "test_loss_rural"]].tolist()
    assert front.robustness[front.chosen] == model.robustness_
    assert front.gammas[front.chosen] == model.gamma_
    np.testing.assert_array_equal(front.solutions[front.chosen].w, model.solution_.w)
    np.testing.assert_array_equal(front.fitted.domains[front.chosen], model.domain_losses_)
    np.testing.assert_array_equal(front.fitted.domains[0], model.ordinary_.domain_losses_)
    for solution, losses in zip(front.solutions, front.fitted.domains, strict=True):
        problem = ax.LinearDomains(X, y, domains)
        np.testing.assert_allclose(problem.losses(solution.w), losses, rtol=1e-9)
        assert solution.certificate.gap <= 1e-6
    np.testing.assert_allclose(front.fitted.worst, front.fitted.domains.max(axis=1))
    np.testing.assert_allclose(front.fitted.pooled, front.fitted.domains @ [400 / 550, 150 / 550])


# -- what it is good for -------------------------------------------------------------------------


def test_choosing_beats_no_regularisation_where_it_counts() -> None:
    """Worst domain on fresh rows: the choice against nearly no γ and against ordinary training."""
    fresh, labels, groups = labels_data(seed=99, n_large=4000, n_small=4000, d=30)

    def worst(model: Any) -> float:
        P = model.predict_proba(fresh)
        losses = [log_loss(labels[groups == k], P[groups == k]) for k in ("city", "rural")]
        return float(max(losses))

    results = []
    for seed in range(4):
        X, y, domains = labels_data(seed, n_large=900, n_small=60, d=30)
        chosen = ax.AgnosticClassifierCV(**SMALL, price=np.inf).fit(X, y, domains=domains)
        with pytest.warns(OverfitWarning):
            free = ax.AgnosticClassifier(gamma=1e-6).fit(X, y, domains=domains)
        results.append([worst(model) for model in (chosen, free, chosen.ordinary_)])
    assert np.all(np.argmin(results, axis=1) == 0)
    chosen_mean, free_mean, ordinary_mean = np.mean(results, axis=0)
    assert chosen_mean < free_mean - 0.05
    assert chosen_mean < ordinary_mean - 0.15


@pytest.mark.usefixtures("routing")
def test_in_a_pipeline() -> None:
    X, y, domains = labels_data(n_small=120)
    frame = pd.DataFrame({"a": 100 * X[:, 0], "b": X[:, 1] - 7})
    pipe = make_pipeline(StandardScaler(), ax.AgnosticClassifierCV([0.1, 0.01], cv=3))
    pipe.fit(frame, y, domains=domains)
    assert pipe[-1].gamma_ in (0.1, 0.01)
    assert pipe[-1].domain_names_.tolist() == ["city", "rural"]
    assert pipe.score(frame, y) > 0.6


# -- kinds of input ------------------------------------------------------------------------------


def test_three_classes_sparse_rows_and_weights() -> None:
    X, y, domains = labels_data(n_small=150)
    y = np.where(X[:, 2] > 1, "maybe", y)
    weight = np.random.default_rng(0).integers(1, 3, size=len(y))
    dense, thin = (
        ax.AgnosticClassifierCV([0.1, 0.01], cv=3, robustness=(0.5, 1.0), price=np.inf).fit(
            table, y, domains=domains, sample_weight=weight
        )
        for table in (X, sparse.csr_array(X))
    )
    assert dense.classes_.tolist() == ["maybe", "no", "yes"]
    assert dense.predict_proba(X).shape == (len(y), 3)
    assert dense.robustness_ > 0
    assert dense.ordinary_.coef_.shape == (3, 6)
    np.testing.assert_allclose(
        dense.cv_results_["worst_test_loss"], thin.cv_results_["worst_test_loss"], atol=1e-4
    )


def test_overlapping_domains() -> None:
    """A row in two domains is judged in both, and γ₀ by the sum over domains that is fitted."""
    X, y, domains = labels_data(n_small=150)
    table = np.column_stack([domains == "city", domains == "rural", X[:, 0] > 0])
    model = ax.AgnosticClassifierCV([0.1, 0.01], cv=3).fit(X, y, domains=table)
    held = np.column_stack([model.cv_results_[f"test_loss_{k}"] for k in range(3)])
    np.testing.assert_allclose(held.max(axis=1), model.cv_results_["worst_test_loss"])
    sizes = table.sum(axis=0)
    np.testing.assert_allclose(held @ sizes / sizes.sum(), model.cv_results_["pooled_test_loss"])
    np.testing.assert_allclose(model.ordinary_.mixture_, sizes / sizes.sum())
    assert model.robustness_ > 0


def test_weights_of_zero_leave_rows_out() -> None:
    X, y, domains = labels_data()
    turn = np.arange(len(y)) % 3
    keep = np.random.default_rng(0).random(len(y)) < 0.8
    models = []
    for index, weight in ((np.arange(len(y)), keep), (np.flatnonzero(keep), None)):
        folds = [
            (np.flatnonzero(turn[index] != k), np.flatnonzero(turn[index] == k)) for k in range(3)
        ]
        model = ax.AgnosticClassifierCV([0.1, 0.01], cv=folds)
        models.append(model.fit(X[index], y[index], domains=domains[index], sample_weight=weight))
    one, other = models
    assert (one.best_index_, one.gamma_) == (other.best_index_, other.gamma_)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-3)
    for name in ("worst", "se", "pooled"):
        a, b = (m.cv_results_[f"{name}_test_loss"] for m in models)
        np.testing.assert_allclose(a, b, rtol=2e-3)


def test_mixtures_in_words() -> None:
    X, y, domains = labels_data(n_small=200)
    words = ax.AgnosticClassifier("cvar:0.5").fit(X, y, domains=domains)
    same = ax.AgnosticClassifier(lambda sizes: ax.cvar(sizes / sizes.sum(), 0.5))
    np.testing.assert_array_equal(words.coef_, same.fit(X, y, domains=domains).coef_)
    ordinary = ax.AgnosticClassifierCV([0.1], mixtures="data", **AGNOSTIC)
    np.testing.assert_allclose(
        ordinary.fit(X, y, domains=domains).mixture_, [2 / 3, 1 / 3], rtol=1e-12
    )


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
    X, y, domains = labels_data()
    ax.AgnosticClassifierCV([1.0, 0.1]).fit(X, y, domains=domains)
    assert counts == {"validate_data": 1, "read": 1}


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"gammas": []}, r"gammas is \[\]"),
    ({"gammas": 0.1}, "gammas is 0.1; give a list"),
    ({"mus": "0"}, "mus is '0'; give a list"),
    ({"skewnesses": ()}, r"skewnesses is \(\)"),
    ({"skewnesses": (0.5,)}, "max_skewness is 0.5"),
    ({"gammas": [-1.0]}, "gamma is -1.0"),
    ({"price": -0.1}, "price is -0.1"),
    ({"price": "5 %"}, "price is '5 %'"),
    (
        {"baseline": [0.1, 0.2, 0.3]},
        r"baseline.*shape.*\(3,\).*2",
    ),
    ({"objective": "x"}, "objective is 'x'"),
    ({"objective": ax.Objective(gamma=0.1)}, "gamma is 0.1.*Objective"),
    ({"objective": ax.Objective(robustness=0.5)}, "robustness is 0.5.*Objective"),
    ({"objective": ax.Objective(w_radius=1.0)}, "w_radius is 1.0.*Objective"),
    ({"objective": PRODUCT}, "multiplicative is True.*Objective"),
    ({"cv": 1}, "cv is 1"),
    ({"cv": []}, r"cv is \[\]"),
    ({"baseline": "best"}, "baseline is 'best'"),
    ({"baseline": [0.1]}, "baseline has shape"),
    ({"mixtures": ax.Simplex(3)}, "mixtures is over 3 domains"),
    ({"robustness": 1.0}, "robustness is 1.0; give a list"),
    ({"robustness": (0.5, 1.5)}, "robustness is 1.5"),
    ({"anchor": "ordinal"}, "anchor is 'ordinal'"),
    ({"anchor": [1.0, 2.0]}, r"anchor has shape \(2,\)"),
]


@pytest.mark.parametrize(("parameters", "message"), FAULTS)
def test_faults_are_named(parameters: dict[str, Any], message: str) -> None:
    X, y, domains = labels_data(n_small=20)
    with pytest.raises(ValueError, match=message):
        ax.AgnosticClassifierCV(**parameters).fit(X, y, domains=domains)


def test_a_baseline_in_wrong_words_is_named_for_one_domain_too() -> None:
    X, y, _ = labels_data()
    with pytest.raises(ValueError, match="baseline is 'best'"):
        ax.AgnosticClassifierCV(baseline="best").fit(X, y)


def test_folds_that_lack_a_domain_are_named() -> None:
    X, y, domains = labels_data(n_small=20)
    order = np.argsort(domains)
    halves = [(order[::2], order[1::2]), (order[230:], order[:230])]
    with pytest.raises(ValueError, match=r"no.*'rural'.*test part.*2"):
        ax.AgnosticClassifierCV([0.1], cv=halves).fit(X, y, domains=domains)


# -- real data -----------------------------------------------------------------------------------


def test_adult_gains_on_new_doctorates() -> None:
    """The choice lowers the worst test loss below plain training's and below the free fit's."""
    data = datasets.load_adult(progress=False)
    doctorate = data.domains_test == "doctorate"

    def worst(model: Any) -> float:
        P = model.predict_proba(data.X_test)
        losses = [log_loss(data.y_test[rows], P[rows]) for rows in (doctorate, ~doctorate)]
        return float(max(losses))

    chosen = ax.AgnosticClassifierCV(price=np.inf).fit(data.X, data.y, domains=data.domains)
    with pytest.warns(OverfitWarning):
        free = ax.AgnosticClassifier(gamma=1e-5).fit(data.X, data.y, domains=data.domains)
    assert chosen.robustness_ > 0
    assert worst(chosen) < worst(free) - 0.03
    assert worst(chosen) < worst(chosen.ordinary_) - 0.03
