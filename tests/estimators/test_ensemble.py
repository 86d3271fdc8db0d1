"""AgnosticEnsemble: scikit-learn's contract, held-out losses, the choice, and the right numbers."""

import pickle
import warnings
from typing import Any, Self

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import anymix as ax
from anymix.errors import InputError
from anymix.estimators import NothingGained
from anymix.estimators.ascent import moved

Array = NDArray[np.float64]


def tree() -> Any:
    return DecisionTreeClassifier(max_depth=4, min_samples_leaf=10, random_state=0)


def boosted(**options: Any) -> Any:
    return HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=7, random_state=0, **options)


def two_regions(seed: int = 0, n: int = 1000) -> tuple[Array, NDArray[Any], NDArray[Any]]:
    """What matters in the small region is another feature than in the large one."""
    rng = np.random.default_rng(seed)
    region = np.where(rng.random(n) < 0.12, "rural", "city")
    X = rng.normal(size=(n, 3)).round(1)  # few values: boosted trees then bin weighted rows fast
    x = np.where(region == "city", X[:, 0], X[:, 1])
    return X, np.where(x + 0.4 * rng.normal(size=n) > 0, "yes", "no"), region


def no_regions(seed: int = 0, n: int = 600) -> tuple[Array, NDArray[Any], NDArray[Any]]:
    """The domains are drawn without a look at the rest."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + rng.normal(size=n) > 0, rng.choice(["a", "b", "c"], size=n)


def loss_of(model: Any, X: Array, y: NDArray[Any]) -> Array:
    """The log loss of each row."""
    said = model.predict_proba(X)
    return np.asarray(-np.log(np.where(y == "yes", said[:, 1], said[:, 0])))


def quiet(model: Any, *data: Any, **options: Any) -> Any:
    """Fit, whatever the choice is."""
    with warnings.catch_warnings(action="ignore", category=NothingGained):
        return model.fit(*data, **options)


# -- scikit-learn's contract ---------------------------------------------------------------------


class InTwoDomains(ax.AgnosticEnsemble):
    """Every other row is in another domain, so that scikit-learn's checks see the whole fit."""

    def fit(  # type: ignore[override]
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> Self:
        n = len(np.asarray(y)) if y is not None else 2
        with warnings.catch_warnings(action="ignore", category=NothingGained):
            return super().fit(X, y, domains=np.arange(n) % 2, sample_weight=sample_weight)


FEW: dict[str, Any] = {"cv": 2, "n_steps": 1, "robustness": (1.0,)}


@pytest.mark.filterwarnings("ignore::anymix.estimators.NoDomainsWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        ax.AgnosticEnsemble(LogisticRegression()),
        ax.AgnosticEnsemble(Ridge()),
        InTwoDomains(DecisionTreeClassifier(max_depth=3, random_state=0), price=np.inf, **FEW),
        InTwoDomains(DecisionTreeRegressor(max_depth=3, random_state=0), combine="single", **FEW),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_it_is_what_its_estimator_is() -> None:
    X, y, _ = no_regions()
    classifier, regressor = (
        ax.AgnosticEnsemble(e) for e in (tree(), DecisionTreeRegressor(max_depth=2))
    )
    assert is_classifier(classifier)
    assert is_regressor(regressor)
    assert not hasattr(regressor, "predict_proba")
    assert classifier.fit(X, y, domains=None).score(X, y) == pytest.approx(
        tree().fit(X, y).score(X, y)
    )
    plain = DecisionTreeRegressor(max_depth=2).fit(X, X[:, 0])
    assert regressor.fit(X, X[:, 0], domains=None).score(X, X[:, 0]) == pytest.approx(
        plain.score(X, X[:, 0])
    )


def test_without_domains_it_is_the_estimator_itself() -> None:
    X, y, _ = no_regions()
    weight = np.arange(len(y)) % 3
    model = ax.AgnosticEnsemble(tree()).fit(X, y, domains=None, sample_weight=weight)
    plain = tree().fit(X, y, sample_weight=weight)
    assert np.array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert (model.n_fits_, model.frontier_, model.certificate_) == (1, None, None)


def test_clone_and_pickle() -> None:
    X, y, region = two_regions(n=400)
    model = quiet(ax.AgnosticEnsemble(tree(), **FEW), X, y, domains=region)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert not hasattr(clone(model), "estimator_")


def test_domains_arrive_by_metadata_routing() -> None:
    X, y, region = two_regions(n=300)
    steps = [ax.AgnosticEnsemble(make_pipeline(StandardScaler(), LogisticRegression()), **FEW)]
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = quiet(make_pipeline(*steps), X, y, domains=region)
        search = GridSearchCV(
            ax.AgnosticEnsemble(tree(), price=np.inf, **FEW),
            {"estimator__max_depth": [2, 4]},
            scoring=ax.agnostic_scorer("accuracy"),
            cv=2,
        )
        quiet(search, X, y, domains=region)
    assert pipe[-1].domain_names_.tolist() == ["city", "rural"]
    assert search.best_estimator_.domain_names_.tolist() == ["city", "rural"]


# -- what the estimator gets ---------------------------------------------------------------------


class Remembers(LogisticRegression):  # type: ignore[misc]
    """Keeps the weights of its last fit."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self.weights_ = sample_weight
        super().fit(X, y, sample_weight=sample_weight)
        return self


def test_rows_have_the_weights_of_the_mixture() -> None:
    X, y, region = two_regions()
    given = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    model = quiet(
        ax.AgnosticEnsemble(Remembers(), price=np.inf, combine="single"),
        X,
        y,
        domains=region,
        sample_weight=given,
    )
    assert model.best_index_ > 0
    weight = model.estimator_.weights_
    for k, name in enumerate(model.domain_names_):
        inside = region == name
        assert weight[inside].sum() / weight.sum() == pytest.approx(model.mixture_[k])
        assert np.ptp(weight[inside] / given[inside]) < 1e-9
    assert weight.sum() == pytest.approx(given.sum())


@pytest.mark.parametrize("nested", [False, True])
def test_weights_reach_the_last_step_of_a_pipeline(nested: bool) -> None:
    X, y, region = two_regions()
    last = make_pipeline(StandardScaler(), Remembers()) if nested else Remembers()
    pipe = make_pipeline(StandardScaler(), last)
    model = quiet(ax.AgnosticEnsemble(pipe, price=np.inf, combine="single"), X, y, domains=region)
    found = model.estimator_[-1][-1] if nested else model.estimator_[-1]
    assert found.weights_ is not None
    assert found.weights_[region == "rural"].mean() > found.weights_[region == "city"].mean()


def test_a_search_hands_the_weights_on() -> None:
    X, y, region = two_regions()
    search = GridSearchCV(Remembers(), {"C": [0.1, 1.0]}, cv=2)
    model = quiet(
        ax.AgnosticEnsemble(search, price=np.inf, combine="single", **FEW), X, y, domains=region
    )
    weight = model.estimator_.best_estimator_.weights_
    assert weight[region == "rural"].mean() > weight[region == "city"].mean()


def test_frames_with_categories_and_missing_values() -> None:
    X, y, region = two_regions(n=300)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.loc[::7, "a"] = np.nan
    frame["kind"] = pd.Categorical(np.where(X[:, 2] > 0, "u", "v"))
    estimator = boosted(categorical_features="from_dtype")
    model = quiet(ax.AgnosticEnsemble(estimator, **FEW), frame, y, domains=pd.Series(region))
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "kind"]
    assert model.predict_proba(frame).shape == (len(y), 2)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c", "kind"]])


def test_a_row_may_be_in_several_domains() -> None:
    X, y, region = two_regions()
    table = np.stack([region == "city", region == "rural", X[:, 2] > 0], axis=1)
    model = quiet(ax.AgnosticEnsemble(tree(), **FEW), X, y, domains=table)
    assert model.domain_losses_.shape == (3,)


def test_forests_say_zero_without_an_infinite_loss() -> None:
    X, y, region = two_regions(n=400)
    forest = RandomForestClassifier(n_estimators=5, random_state=0)
    model = quiet(ax.AgnosticEnsemble(forest, **FEW), X, y, domains=region)
    assert model.cv_results_["worst_test_loss"].max() < np.log(400)


# -- what rows held out say ----------------------------------------------------------------------


def test_the_losses_are_those_of_rows_that_were_held_out() -> None:
    X, y, region = two_regions(n=300)
    turn = np.arange(300) % 3
    folds = [(np.flatnonzero(turn != k), np.flatnonzero(turn == k)) for k in range(3)]
    model = quiet(ax.AgnosticEnsemble(tree(), cv=folds, loss="auto"), X, y, domains=region)
    said = np.empty((300, 2))
    for part, held in folds:
        said[held] = tree().fit(X[part], y[part]).predict_proba(X[held])
    for name in ("city", "rural"):
        inside = region == name
        right = np.where(y[inside] == "yes", said[inside, 1], said[inside, 0])
        expected = -np.log(np.maximum(right, 1 / 300)).mean()
        assert model.cv_results_[f"test_loss_{name}"][0] == pytest.approx(expected)
    fitted = model.frontier_.fitted.domains[0] @ [1, 1]
    assert fitted < model.frontier_.held_out.domains[0] @ [1, 1]  # trees know the rows fitted


def test_a_small_region_that_differs_gains_on_new_rows() -> None:
    X, y, region = two_regions(n=700)
    X_new, y_new, region_new = two_regions(seed=1, n=4000)
    rural = region_new == "rural"
    before = loss_of(boosted().fit(X, y), X_new[rural], y_new[rural])
    for combine in ("auto", "single", "average"):
        model = ax.AgnosticEnsemble(boosted(), combine=combine).fit(X, y, domains=region)
        gain = before - loss_of(model, X_new[rural], y_new[rural])
        assert model.best_index_ > 0
        assert gain.mean() > 4 * gain.std() / np.sqrt(len(gain))
        assert model.mixture_[1] > 0.15


def test_where_domains_mean_nothing_the_ordinary_model_is_kept() -> None:
    kept = 0
    for seed in range(4):
        X, y, domains = no_regions(seed)
        model = quiet(ax.AgnosticEnsemble(tree(), combine="single"), X, y, domains=domains)
        kept += model.best_index_ == 0
    assert kept >= 3
    X, y, domains = no_regions(0)
    with pytest.warns(NothingGained, match="ordinary model is kept"):
        model = ax.AgnosticEnsemble(tree(), combine="single").fit(X, y, domains=domains)
    assert np.array_equal(model.predict_proba(X), tree().fit(X, y).predict_proba(X))


def test_a_noisy_domain_that_no_weights_help_leaves_the_ordinary_model() -> None:
    """Its loss is larger, so mixtures are tried; the least loss of them all is luck."""
    models: list[Any] = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, domains = rng.normal(size=(400, 2)), np.repeat(["calm", "loud"], 200)
        y = X[:, 0] + np.where(domains == "loud", 2.0, 0.3) * rng.normal(size=400)
        tree_of_four = DecisionTreeRegressor(max_depth=2, random_state=0)
        model = ax.AgnosticEnsemble(tree_of_four, combine="single", random_state=seed)
        models.append(quiet(model, X, y, domains=domains))
    assert all(len(m.frontier_.robustness) > 1 for m in models)
    assert all(m.best_index_ == 0 for m in models)
    table = [m.cv_results_["expected_worst_test_loss"] for m in models]
    assert any(V.argmin() > 0 for V in table)


def test_an_average_is_judged_by_averaged_predictions() -> None:
    X, _, region = two_regions()
    y = np.where(region == "city", X[:, 0], X[:, 1])
    model = ax.AgnosticEnsemble(DecisionTreeRegressor(max_depth=4, random_state=0))
    L = quiet(
        model, X, y, domains=region
    ).frontier_.held_out.domains  # ordinary, average, single, ...
    averages, singles = L[1::2], np.vstack([L[:1], L[2::2]])
    for j, average in enumerate(averages, start=1):
        assert np.all(average < singles[: j + 1].mean(axis=0))  # Jensen's inequality
        assert np.all(np.abs(average - singles[j]) > 1e-6)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda y, p: np.where(p[:, 1] > 0.5, np.inf, 1.0), "loss.*inf"),
        (lambda y, p: np.full(len(y), np.nan), "loss.*nan"),
        (lambda y, p: 1.0, r"loss.*array of.*shape.*\(\)"),
    ],
    ids=["inf", "nan", "one number"],
)
def test_a_loss_that_is_no_number_is_named(loss: Any, said: str) -> None:
    X, y, region = two_regions(n=200)
    with pytest.raises(InputError, match=said):
        ax.AgnosticEnsemble(tree(), loss=loss).fit(X, y, domains=region)


def test_the_unit_of_a_loss_changes_no_choice() -> None:
    X, y, region = two_regions()

    def places(unit: float) -> tuple[int, Any]:
        def loss(y: Any, p: Any) -> Any:
            return unit * (1 - p[np.arange(len(y)), y])

        found = quiet(ax.AgnosticEnsemble(tree(), loss=loss), X, y, domains=region)
        return found.best_index_, found.cv_results_["worst_test_loss"] / unit

    one, huge = places(1.0), places(1e200)
    assert one[0] == huge[0] > 0
    np.testing.assert_allclose(one[1], huge[1])


def test_numbers_are_judged_by_half_the_squared_error() -> None:
    X, _, region = two_regions()
    y = np.where(region == "city", X[:, 0], X[:, 1])
    forest = DecisionTreeRegressor(max_depth=4, random_state=0)
    model = ax.AgnosticEnsemble(forest, price=np.inf).fit(X, y, domains=region)
    again = ax.AgnosticEnsemble(forest, price=np.inf, loss=lambda y, z: 0.5 * (y - z) ** 2)
    again.fit(X, y, domains=region)
    assert model.best_index_ > 0
    assert np.array_equal(
        model.cv_results_["worst_test_loss"], again.cv_results_["worst_test_loss"]
    )
    assert model.predict(X).shape == y.shape


def test_an_average_is_that_of_models_of_all_mixtures_up_to_the_chosen_one() -> None:
    X, y, region = two_regions()
    model = ax.AgnosticEnsemble(Remembers(), combine="average").fit(X, y, domains=region)
    assert len(model.estimators_) == model.best_index_ + 1 > 1
    assert model.estimators_[0].weights_ is None
    assert all(len(m.weights_) == len(y) for m in model.estimators_[1:])
    mean = np.mean([m.predict_proba(X) for m in model.estimators_], axis=0)
    assert np.allclose(model.predict_proba(X), mean)
    assert np.array_equal(model.predict(X), np.array(["no", "yes"])[mean.argmax(axis=1)])
    assert model.n_fits_ == 3 * len(model.frontier_.robustness) + len(model.estimators_)


# -- the certificate -----------------------------------------------------------------------------


def value_of_the_game(L: Array) -> float:
    """max_λ min_c Σ_k λ_k L_ck over the simplex, as one linear program."""
    C, p = L.shape
    found: Any = linprog(
        np.append(np.zeros(p), -1.0),
        A_ub=np.hstack([-L, np.ones((C, 1))]),
        b_ub=np.zeros(C),
        A_eq=np.append(np.ones(p), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, 1)] * p + [(None, None)],
    )
    return float(-found.fun)


@pytest.mark.parametrize("combine", ["auto", "single", "average"])
def test_the_gap_is_that_of_a_linear_program_over_the_candidates(combine: str) -> None:
    mixing_helps = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, domains = rng.normal(size=(400, 5)), rng.integers(0, 5, 400)
        y = X[np.arange(400), domains] > 0  # each domain has a feature of its own
        estimator = ax.AgnosticEnsemble(tree(), combine=combine, n_steps=3)
        model = quiet(estimator, X, y, domains=domains)
        L = model.frontier_.held_out.domains  # (C, p)
        certificate = model.certificate_
        assert certificate.upper == model.agnostic_loss_
        assert f"no draw among the {len(L)} candidates" in str(certificate)
        assert certificate.upper == pytest.approx(L[model.best_index_].max())
        assert certificate.lower == pytest.approx(value_of_the_game(L), abs=1e-6)
        mixing_helps += L.max(axis=1).min() - certificate.lower > 1e-3
    assert mixing_helps > 0  # a random draw beats every candidate somewhere: the test has teeth


def test_the_path_stays_in_the_mixtures_allowed() -> None:
    X, y, region = two_regions()
    target = ax.Box([0.0, 0.0], [1.0, 0.2])
    model = quiet(ax.AgnosticEnsemble(tree(), mixtures=target), X, y, domains=region)
    rural = model.cv_results_["mixture_rural"]
    m = np.mean(region == "rural")
    assert rural[0] == pytest.approx(m)
    assert rural[1:].min() > m
    assert rural.max() <= 0.2 + 1e-9
    half = model.cv_results_["param_robustness"] == 0.5
    assert rural[half].max() <= 0.5 * m + 0.1 + 1e-9
    ordinary = quiet(ax.AgnosticEnsemble(tree(), mixtures="data"), X, y, domains=region)
    assert len(ordinary.frontier_.robustness) == 1  # λ cannot move, so nothing else is fitted


def test_the_frontier_is_a_frame() -> None:
    X, y, region = two_regions()
    model = quiet(ax.AgnosticEnsemble(tree(), **FEW), X, y, domains=region)
    frame = model.frontier_.to_frame()
    assert frame["robustness"].tolist() == [0.0, 1.0, 1.0]
    assert model.cv_results_["param_n_models"].tolist() == [1, 2, 1]
    assert "gap" not in frame
    assert frame["chosen"].sum() == 1
    assert np.allclose(frame["held_out_worst"], model.cv_results_["worst_test_loss"])


def test_verbose_says_each_mixture(capsys: pytest.CaptureFixture[str]) -> None:
    X, y, region = two_regions(n=300)
    quiet(ax.AgnosticEnsemble(tree(), verbose=True, **FEW), X, y, domains=region)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("t = 0: {'city': ")


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (KNeighborsClassifier(), {}, "whose.*takes no.*sample_weight"),
        (LinearSVC(), {}, "a classifier without predict_proba"),
        (make_pipeline(StandardScaler(), KNeighborsClassifier()), {}, "takes no sample_weight"),
        ("trees", {}, "which has no fit"),
        (tree(), {"robustness": (0.0,)}, "robustness is 0.0"),
        (tree(), {"mixtures": ax.Simplex(3)}, "mixtures.*3.*2"),
        (tree(), {"cv": 1}, "cv is 1"),
        (tree(), {"n_steps": 0}, "n_steps is 0"),
        (tree(), {"combine": "vote"}, "combine is 'vote'"),
        (tree(), {"loss": "hinge"}, "loss is 'hinge'"),
        (tree(), {"price": -1}, "price is -1"),
        (tree(), {"cv": [([0, 1], [2, 3])]}, "cv.*every row.*once"),
    ],
)
def test_what_cannot_be_used_is_refused(estimator: Any, options: Any, message: str) -> None:
    X, y, region = two_regions(n=200)
    with pytest.raises(InputError, match=message):
        ax.AgnosticEnsemble(estimator, **options).fit(X, y, domains=region)


def test_a_domain_needs_a_row_in_every_fold() -> None:
    X, y, region = two_regions(n=200)
    region = region.astype("<U9")
    region[:1] = "mountains"
    with pytest.raises(InputError, match=r"domains.*'mountains'.*n_samples=1"):
        ax.AgnosticEnsemble(tree()).fit(X, y, domains=region)


@pytest.mark.parametrize(
    ("estimator", "options", "said"),
    [
        (StandardScaler(), {}, "StandardScaler.*has no predict"),
        (tree(), {"robustness": 0.5}, "robustness is 0.5"),
        (tree(), {"robustness": ()}, r"robustness is \(\)"),
    ],
    ids=["scaler", "number", "none"],
)
def test_what_cannot_be_tried_is_named(estimator: Any, options: Any, said: str) -> None:
    X, y, region = two_regions(n=100)
    with pytest.raises(InputError, match=said):
        ax.AgnosticEnsemble(estimator, **options).fit(X, y, domains=region)


def test_of_what_was_not_tried_nothing_is_said() -> None:
    """With the mixture of the data there is but the ordinary model: no warning."""
    X, y, region = two_regions(n=200)
    model = ax.AgnosticEnsemble(tree(), mixtures="data").fit(X, y, domains=region)
    assert model.best_index_ == 0


def test_the_warning_points_to_the_call() -> None:
    X, y, _ = two_regions(n=200)
    with pytest.warns(NothingGained) as caught:
        ax.AgnosticEnsemble(tree()).fit(X, y, domains=np.arange(200) % 2)
    assert caught[0].filename == __file__


def test_lengths_that_differ_are_refused() -> None:
    X, y, region = two_regions(n=200)
    with pytest.raises(InputError, match="y has 199 entries, and X 200 rows"):
        ax.AgnosticEnsemble(tree()).fit(X, y[1:], domains=region)
    with pytest.raises(InputError, match="domains"):
        ax.AgnosticEnsemble(tree()).fit(X, y, domains=region[1:])
    with pytest.raises(InputError, match="sample_weight"):
        ax.AgnosticEnsemble(tree()).fit(X, y, domains=region, sample_weight=np.ones(3))


def test_linear_models_agree_with_the_exact_solver() -> None:
    """With a linear model and many rows the path comes close to the exact minimax solution."""
    rng = np.random.default_rng(0)
    region = np.repeat(["a", "b"], [15000, 3000])
    X = rng.normal(size=(18000, 1))
    y = np.where(region == "a", X[:, 0], -X[:, 0]) + 0.1 * rng.normal(size=18000)
    exact = ax.AgnosticRegressor(gamma=0.0).fit(X, y, domains=region)
    model = ax.AgnosticEnsemble(LinearRegression(), n_steps=10, price=np.inf)
    model.fit(X, y, domains=region)
    assert model.agnostic_loss_ == pytest.approx(exact.agnostic_loss_, rel=0.03)  # rows' noise


def test_a_mixture_that_has_left_a_domain_stays_a_mixture() -> None:
    """The domain of weight 0 has by far the largest loss: e^move of the others was 0, 0/0 λ."""
    mixture, even = np.array([0.0, 0.25, 0.75]), np.full(3, 1 / 3)
    lam = moved(mixture, np.array([1000.0, 0.0, np.log(3)]), ax.Simplex(3), even)
    np.testing.assert_allclose(lam, [0, 0.1, 0.9], atol=1e-15)
