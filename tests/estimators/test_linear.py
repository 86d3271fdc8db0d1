"""AgnosticClassifier and AgnosticRegressor: scikit-learn's contract, and the right numbers."""

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

import anymix as ax
from anymix import datasets
from anymix.estimators.fitting import (
    OverfitWarning,
    _free_parameters,
    alone_solutions,
    overfit_message,
)
from anymix.estimators.reading import read_classes
from anymix.problem.dealing import hold_out, sorted_rows

Array = NDArray[np.float64]


def make_data(
    seed: int = 0, n_classes: int = 2, sizes: tuple[int, ...] = (600, 240, 160), d: int = 4
) -> tuple[Array, NDArray[Any], NDArray[Any]]:
    """Rows whose labels follow another direction in every domain, in random order."""
    rng = np.random.default_rng(seed)
    k = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = rng.normal(size=(len(k), d))
    effects = rng.normal(size=(len(sizes), n_classes, d))
    scores = np.einsum("nd,ncd->nc", X, effects[k]) + rng.gumbel(size=(len(k), n_classes))
    return (
        X,
        np.array(["no", "yes", "maybe", "never"])[scores.argmax(axis=1)],
        np.array(["b", "c", "a"])[k],
    )


def make_numbers(seed: int = 0) -> tuple[Array, Array, NDArray[Any]]:
    X, _, domains = make_data(seed)
    rng = np.random.default_rng(seed + 1)
    slope = np.where(domains == "a", 2.0, -1.0)
    return X, 3 + slope * X[:, 0] + X[:, 1] + rng.standard_t(df=3, size=len(X)), domains


# -- scikit-learn's contract ---------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::anymix.estimators.NoDomainsWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        ax.AgnosticClassifier(),
        ax.AgnosticRegressor(),
        ax.AgnosticRegressor(loss="huber"),
        ax.AgnosticClassifierCV(gammas=(0.1, 0.01), cv=2),
        ax.AgnosticRegressorCV(gammas=(0.1, 0.01), cv=2),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_clone_and_pickle_keep_everything() -> None:
    X, y, domains = make_data()
    model = ax.AgnosticClassifier(ax.Box([0.1] * 3, [0.8] * 3), gamma=0.01, max_skewness=3.0)
    fitted = clone(model).fit(X, y, domains=domains)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.certificate_ == fitted.certificate_
    assert again.domain_names_.tolist() == ["a", "b", "c"]


def test_the_same_numbers_every_time() -> None:
    X, y, domains = make_data()
    one, two = (ax.AgnosticClassifier().fit(X, y, domains=domains) for _ in range(2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.mixture_, two.mixture_)


def test_fit_asks_for_the_domains_and_set_fit_request_exists() -> None:
    for estimator in (ax.AgnosticClassifier(), ax.AgnosticRegressor(), ax.AgnosticClassifierCV()):
        assert estimator.get_metadata_routing().fit.requests["domains"] is True
        assert callable(estimator.set_fit_request)


def test_unfitted() -> None:
    with pytest.raises(NotFittedError):
        ax.AgnosticClassifier().predict([[0.0]])
    with pytest.raises(NotFittedError):
        ax.AgnosticRegressor().predict([[0.0]])


# -- against other packages and formulas ---------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_one_domain_is_logistic_regression(n_classes: int, intercept: bool) -> None:
    X, y, _ = make_data(n_classes=n_classes)
    gamma = 0.01
    peer = LogisticRegression(
        C=1 / (gamma * len(y)), tol=1e-10, max_iter=10_000, fit_intercept=intercept
    ).fit(X, y)
    ours = ax.AgnosticClassifier(gamma=gamma, tol=1e-12, fit_intercept=intercept).fit(
        X, y, domains=None
    )
    np.testing.assert_array_equal(ours.classes_, peer.classes_)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(ours.predict_log_proba(X), peer.predict_log_proba(X), atol=1e-5)
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))
    assert ours.score(X, y) == peer.score(X, y)
    assert ours.mixture_.tolist() == [1.0]
    assert ours.domain_names_.tolist() == ["all"]


def test_the_mixture_of_the_sample_is_logistic_regression_too() -> None:
    X, y, domains = make_data()
    pooled = ax.AgnosticClassifier(lambda sizes: ax.Point(sizes / sizes.sum()), tol=1e-12)
    pooled.fit(X, y, domains=domains)
    peer = LogisticRegression(C=1 / (1e-3 * len(y)), tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(pooled.coef_, peer.coef_, atol=1e-5)


def test_one_domain_is_ridge_regression() -> None:
    X, y, _ = make_numbers()
    peer = Ridge(alpha=0.1 * len(y)).fit(X, y)
    ours = ax.AgnosticRegressor(gamma=0.1, tol=1e-12).fit(X, y, domains=None)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-7)
    assert ours.intercept_ == pytest.approx(peer.intercept_, abs=1e-7)
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), atol=1e-7)
    assert ours.score(X, y) == pytest.approx(peer.score(X, y))


def test_huber_regression_by_another_optimiser() -> None:
    X, y, _ = make_numbers()
    delta, gamma = 0.5, 0.01

    def objective(w: Array) -> float:
        r = np.abs(X @ w[:-1] + w[-1] - y)
        loss = np.where(r <= delta, r**2 / 2, delta * (r - delta / 2)).mean()
        return float(loss + gamma / 2 * w[:-1] @ w[:-1])

    best = minimize(objective, np.zeros(X.shape[1] + 1), tol=1e-12)
    ours = ax.AgnosticRegressor(gamma=gamma, loss="huber", delta=delta, tol=1e-10).fit(
        X, y, domains=None
    )
    assert ours.certificate_.upper == pytest.approx(best.fun, abs=1e-8)
    np.testing.assert_allclose([*ours.coef_, ours.intercept_], best.x, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_losses_are_those_of_scikit_learn(n_classes: int) -> None:
    X, y, domains = make_data(n_classes=n_classes)
    model = ax.AgnosticClassifier().fit(X, y, domains=domains)
    P = model.predict_proba(X)
    losses = [log_loss(y[domains == k], P[domains == k]) for k in "abc"]
    np.testing.assert_allclose(model.domain_losses_, losses, atol=1e-9)
    assert model.agnostic_loss_ == pytest.approx(max(losses))
    penalty = 0.5e-3 * np.sum(model.coef_**2)
    assert model.certificate_.upper == pytest.approx(max(losses) + penalty, abs=1e-9)
    assert model.certificate_.gap <= 1e-6
    assert model.n_iter_ == len(model.history_) >= 1
    np.testing.assert_allclose(P.sum(axis=1), 1)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.floats(1e-4, 1.0), st.integers(2, 3))
def test_no_model_beats_the_certificate(seed: int, gamma: float, n_classes: int) -> None:
    X, y, domains = make_data(seed % 50, n_classes, sizes=(40, 30, 30))
    with warnings.catch_warnings(action="ignore", category=OverfitWarning):
        model = ax.AgnosticClassifier(gamma=gamma).fit(X, y, domains=domains)
    problem = ax.LinearDomains(X, y, domains)
    rng = np.random.default_rng(seed)
    w = model.solution_.w + rng.normal(size=problem.n_parameters) * 10.0 ** rng.uniform(-4, 1)
    worst = problem.losses(w).max() + gamma / 2 * np.sum(problem.unpack(w)[0] ** 2)
    assert worst >= model.certificate_.lower
    assert model.certificate_.upper <= worst + 1e-6


# -- every parameter reaches the solver ----------------------------------------------------------

OPTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"mixtures": ax.Vertices(3)}, {"mixtures": ax.Vertices(3)}),
    ({"mixtures": ax.Box([0.2] * 3, [0.5] * 3)}, {"mixtures": ax.Box([0.2] * 3, [0.5] * 3)}),
    (
        {"mixtures": lambda sizes: ax.cvar(sizes / sizes.sum(), 0.5)},
        {"mixtures": ax.cvar(np.array([160, 600, 240]) / 1000, 0.5)},
    ),
    ({"gamma": 0.1}, {"gamma": 0.1}),
    ({"gamma": 0.1, "objective": ax.Objective(norm="plain")}, {"gamma": 0.1, "norm": "plain"}),
    ({"mu": 0.05}, {"mu": 0.05}),
    ({"max_skewness": 1.3}, {"mixtures": ax.Chi2Ball([160, 600, 240], 1.3)}),
    (
        {"mixtures": ax.TVBall([1 / 3] * 3, 0.3), "max_skewness": 1.4},
        {"mixtures": ax.Chi2Ball([160, 600, 240], 1.4, base=ax.TVBall([1 / 3] * 3, 0.3))},
    ),
    ({"baseline": [0.5, 0.1, 0.2]}, {"offsets": [0.5, 0.1, 0.2]}),
    (
        {"objective": ax.Objective(prior=ax.DirichletPrior([2.0, 2.0, 3.0]))},
        {"prior": ax.DirichletPrior([2.0, 2.0, 3.0])},
    ),
    (
        {"objective": ax.Objective(prior=ax.DirichletPrior([2, 2, 3]), multiplicative=True)},
        {"prior": ax.DirichletPrior([2, 2, 3]), "multiplicative": True},
    ),
    ({"tol": 1e-10}, {"tol": 1e-10}),
]


@pytest.mark.parametrize(("ours", "solvers"), OPTIONS, ids=lambda o: ",".join(o) or "none")
def test_parameters_mean_what_they_mean_to_the_solver(
    ours: dict[str, Any], solvers: dict[str, Any]
) -> None:
    X, y, domains = make_data()
    model = ax.AgnosticClassifier(**ours).fit(X, y, domains=domains)
    problem = ax.LinearDomains(X, y, domains)
    assert problem.sizes.tolist() == [160, 600, 240]
    solution = ax.solve(problem, **solvers)
    assert model.certificate_.upper == pytest.approx(solution.objective, abs=1e-6)
    np.testing.assert_allclose(model.mixture_, solution.mixture, atol=1e-4)
    np.testing.assert_allclose(model.coef_, problem.unpack(solution.w)[0], atol=1e-3)


def test_max_skewness_is_kept_and_one_is_the_sample() -> None:
    X, y, domains = make_data()
    sizes = np.array([160, 600, 240])

    def skewness(r: float | None) -> float:
        mixture = ax.AgnosticClassifier(max_skewness=r).fit(X, y, domains=domains).mixture_
        return float(np.sum(mixture**2 / sizes) * sizes.sum())

    assert skewness(None) > 1.2
    assert skewness(1.2) == pytest.approx(1.2, abs=1e-6)
    capped = ax.AgnosticClassifier(max_skewness=1.0).fit(X, y, domains=domains)
    np.testing.assert_allclose(capped.mixture_, sizes / 1000, atol=1e-7)
    np.testing.assert_allclose(
        capped.coef_, ax.AgnosticClassifier().fit(X, y, domains=None).coef_, atol=1e-3
    )


def test_max_iter_and_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    X, y, domains = make_data()
    with pytest.warns(UserWarning, match="stopped after 1 iterations"):
        ax.AgnosticClassifier(max_iter=1).fit(X, y, domains=domains)
    assert not capsys.readouterr().out
    ax.AgnosticClassifier(verbose=True).fit(X, y, domains=domains)
    assert "gap" in capsys.readouterr().out


# -- kinds of input ------------------------------------------------------------------------------


def test_frames_equal_arrays() -> None:
    X, y, domains = make_data()
    names = ["age", "height", "weight", "income"]
    plain = ax.AgnosticClassifier().fit(X, y, domains=domains)
    frames: list[tuple[Any, Any, Any]] = [
        (pd.DataFrame(X, columns=names), pd.Series(y), pd.Series(domains)),
        (pd.DataFrame(X, columns=names), pd.Series(y), pd.Series(domains, dtype="category")),
        (pl.DataFrame(X, schema=names), pl.Series(y), pl.Series(domains)),
    ]
    for frame, labels, groups in frames:
        model = ax.AgnosticClassifier().fit(frame, labels, domains=groups)
        assert model.feature_names_in_.tolist() == names
        assert model.domain_names_.tolist() == ["a", "b", "c"]
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-9)
        np.testing.assert_array_equal(model.predict(frame), plain.predict(X))
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[names[::-1]])


def test_sparse_equals_dense() -> None:
    X, y, domains = make_data(n_classes=3)
    X = np.where(np.abs(X) > 1, X, 0.0)
    dense = ax.AgnosticClassifier(tol=1e-10).fit(X, y, domains=domains)
    for container in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        model = ax.AgnosticClassifier(tol=1e-10).fit(container(X), y, domains=domains)
        np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-5)
        np.testing.assert_allclose(
            model.decision_function(container(X)), model.decision_function(X), atol=1e-12
        )


def test_weights_are_repetitions_and_zero_leaves_out() -> None:
    X, y, domains = make_data()
    weight = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = ax.AgnosticClassifier(tol=1e-10).fit(X, y, domains=domains, sample_weight=weight)
    repeated = ax.AgnosticClassifier(tol=1e-10).fit(
        np.repeat(X, weight, axis=0), np.repeat(y, weight), domains=np.repeat(domains, weight)
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)
    np.testing.assert_allclose(weighted.mixture_, repeated.mixture_, atol=1e-5)
    np.testing.assert_allclose(weighted.domain_losses_, repeated.domain_losses_, atol=1e-7)


def test_a_row_in_two_domains_is_a_row_twice() -> None:
    X, y, domains = make_data()
    both = (domains == "a") & (X[:, 0] > 0)  # also in "b"
    table = pd.DataFrame({k: (domains == k) | (both & (k == "b")) for k in "abc"})
    overlapping = ax.AgnosticClassifier(tol=1e-10).fit(X, y, domains=table)
    twice = ax.AgnosticClassifier(tol=1e-10).fit(
        np.vstack([X, X[both]]),
        np.concatenate([y, y[both]]),
        domains=np.concatenate([domains, np.full(both.sum(), "b")]),
    )
    assert overlapping.domain_names_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(overlapping.coef_, twice.coef_, atol=1e-5)
    np.testing.assert_allclose(overlapping.domain_losses_, twice.domain_losses_, atol=1e-7)


def test_a_row_in_no_domain_does_not_count() -> None:
    X, y, domains = make_data()
    table = np.column_stack([domains == k for k in "ab"])
    inside = domains != "c"
    model = ax.AgnosticClassifier(tol=1e-10).fit(X, y, domains=table)
    peer = ax.AgnosticClassifier(tol=1e-10).fit(X[inside], y[inside], domains=domains[inside])
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
    with pytest.raises(ValueError, match=r"class 'outside' .*no row"):
        ax.AgnosticClassifier().fit(X, np.where(inside, y, "outside"), domains=table)


@pytest.mark.parametrize("kind", [int, bool, float, str])
def test_labels_of_any_kind(kind: type) -> None:
    X, y, domains = make_data()
    labels = (y == "yes").astype(kind)
    model = ax.AgnosticClassifier().fit(X, labels, domains=(domains == "a").astype(kind))
    assert set(model.predict(X).tolist()) <= set(labels.tolist())
    assert model.domain_names_.tolist() == sorted(set((domains == "a").astype(kind).tolist()))
    assert model.score(X, labels) > 0.5


def test_probabilities_of_extreme_rows_do_not_underflow() -> None:
    X, y, domains = make_data(n_classes=3)
    for labels in (y, y == "yes"):
        model = ax.AgnosticClassifier().fit(X, labels, domains=domains)
        log_p = model.predict_log_proba(1e4 * X)
        assert np.all(np.isfinite(log_p))
        np.testing.assert_allclose(np.exp(log_p), model.predict_proba(1e4 * X), atol=1e-12)


FAULTS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"domains": ["a"] * 999}, r"domains .*shape .*\(999,\) .*1000"),
    ({}, {"domains": [None] + ["a"] * 999}, "domains has missing entries"),
    ({}, {"domains": np.r_[np.nan, np.zeros(999)]}, "domains has 1 missing"),
    (
        {},
        {"domains": pd.DataFrame({"sex": ["f"] * 1000, "age": ["old"] * 1000})},
        "join label columns",
    ),
    ({}, {"sample_weight": -np.ones(1000)}, "sample_weight .*negative entry"),
    ({}, {"sample_weight": np.ones(3)}, "sample_weight has shape"),
    ({}, {"sample_weight": np.zeros(1000)}, "sample_weight .*zero .*every row"),
    ({}, {"sample_weight": "c"}, "domains .*no row .*'c'"),
    ({"mixtures": "all"}, {}, "mixtures is 'all'"),
    ({"mixtures": len}, {}, "mixtures is <built-in function len>"),
    ({"mixtures": ax.Simplex(2)}, {}, "mixtures .*2 .*3"),
    ({"max_skewness": 0.5}, {}, "max_skewness is 0.5"),
    ({"max_skewness": 1.1, "mixtures": ax.Point([1, 0, 0])}, {}, "max_skewness is 1.1"),
    ({"max_skewness": np.nan}, {}, "max_skewness is nan"),
    ({"baseline": "best"}, {}, "baseline is 'best'"),
    ({"baseline": [0.1, 0.2]}, {}, r"baseline has shape \(2,\)"),
    ({"baseline": [0.1, 0.2, np.nan]}, {}, "baseline has 1 missing"),
    ({"gamma": -1.0}, {}, "gamma is -1.0"),
    ({"mu": np.inf}, {}, "mu is inf"),
    ({"objective": "plain"}, {}, "objective is 'plain'"),
    ({"objective": ax.Objective(mu=0.1)}, {}, "mu is 0.1 .*Objective"),
    ({"objective": ax.Objective("data")}, {}, "mixtures is 'data' .*Objective"),
    ({"objective": ax.Objective(offsets=[0, 1, 2])}, {}, "offsets is .* Objective"),
    ({"tol": 0.0}, {}, "tol is 0.0"),
]


@pytest.mark.parametrize(("parameters", "arguments", "message"), FAULTS)
def test_faults_are_named(
    parameters: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    X, y, domains = make_data()
    arguments = {"domains": domains} | arguments
    if isinstance(arguments.get("sample_weight"), str):
        arguments["sample_weight"] = (domains != arguments["sample_weight"]).astype(float)
    with pytest.raises(ValueError, match=message):
        ax.AgnosticClassifier(**parameters).fit(X, y, **arguments)


def test_faults_of_the_target_are_named() -> None:
    X, y, domains = make_data()
    with pytest.raises(ValueError, match="only one class, 'yes'"):
        ax.AgnosticClassifier().fit(X, np.full(len(y), "yes"), domains=domains)
    with pytest.raises(ValueError, match=r"class 'no' .*no row"):
        ax.AgnosticClassifier().fit(X, y, sample_weight=y == "yes")
    with pytest.raises(ValueError, match="loss is 'absolute'"):
        ax.AgnosticRegressor(loss="absolute").fit(X, X[:, 0])
    with pytest.raises(ValueError, match="delta is -1"):
        ax.AgnosticRegressor(loss="huber", delta=-1).fit(X, X[:, 0])


# -- warm starts, baselines, held-out rows -------------------------------------------------------


def test_warm_start_takes_fewer_iterations_to_the_same_answer() -> None:
    X, y, domains = make_data(sizes=(900, 500, 300), d=10)
    warm = ax.AgnosticClassifier(gamma=0.011, warm_start=True).fit(X, y, domains=domains)
    first = warm.n_iter_
    warm.set_params(gamma=0.01).fit(X, y, domains=domains)
    cold = ax.AgnosticClassifier(gamma=0.01).fit(X, y, domains=domains)
    assert warm.n_iter_ < min(first, cold.n_iter_)
    assert warm.certificate_.upper == pytest.approx(cold.certificate_.upper, abs=2e-6)
    np.testing.assert_allclose(warm.coef_, cold.coef_, atol=1e-3)
    assert warm.fit(X, y, domains=domains).n_iter_ == 1


def test_warm_start_forgets_a_solution_of_another_shape() -> None:
    X, y, domains = make_data()
    model = ax.AgnosticClassifier(warm_start=True).fit(X, y, domains=domains)
    for columns, groups in ((X[:, :2], domains), (X[:, :2], domains == "a"), (X, None)):
        peer = ax.AgnosticClassifier().fit(columns, y, domains=groups)
        np.testing.assert_array_equal(model.fit(columns, y, domains=groups).coef_, peer.coef_)


def noisy_domain() -> tuple[Array, NDArray[Any], NDArray[Any]]:
    """Two domains that one model could serve well, and coin tosses."""
    rng = np.random.default_rng(3)
    domains = np.repeat(["city", "noise", "rural"], [400, 400, 200])
    X = rng.normal(size=(1000, 3))
    scores = np.where(domains == "city", 3 * X[:, 0] + X[:, 1], 3 * X[:, 0] - X[:, 1])
    y = np.where(domains == "noise", rng.random(1000), expit(scores)) > rng.random(1000)
    return X, y, domains


def expit(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


def test_regret_compares_with_the_best_model_of_each_domain() -> None:
    X, y, domains = noisy_domain()
    gamma = 0.001
    model = ax.AgnosticClassifier(gamma=gamma, baseline="regret").fit(X, y, domains=domains)
    for k, name in enumerate(model.domain_names_):
        rows = domains == name
        peer = LogisticRegression(C=1 / (gamma * rows.sum()), tol=1e-10).fit(X[rows], y[rows])
        best = log_loss(y[rows], peer.predict_proba(X[rows]))
        assert model.baseline_losses_[k] == pytest.approx(best, abs=1e-5)
    regret = model.domain_losses_ - model.baseline_losses_
    assert model.agnostic_loss_ == pytest.approx(regret.max())

    plain = ax.AgnosticClassifier(gamma=gamma).fit(X, y, domains=domains)
    assert plain.mixture_[1] > 0.9  # the noise owns λ
    assert np.all(model.domain_losses_[[0, 2]] < plain.domain_losses_[[0, 2]] - 0.05)
    penalty = gamma / 2 * (np.sum(plain.coef_**2) - np.sum(model.coef_**2))
    assert regret.max() <= (plain.domain_losses_ - model.baseline_losses_).max() + penalty + 1e-6
    np.testing.assert_array_equal(plain.baseline_losses_, 0)


def test_regret_of_a_regression() -> None:
    X, y, domains = make_numbers()
    model = ax.AgnosticRegressor(baseline="regret", gamma=0.0).fit(X, y, domains=domains)
    design = np.column_stack([X, np.ones(len(X))])
    for k, name in enumerate("abc"):
        rows = domains == name
        residual = np.linalg.lstsq(design[rows], y[rows])[1][0]
        assert model.baseline_losses_[k] == pytest.approx(residual / rows.sum() / 2, abs=1e-5)


def test_all_rows_are_not_copied() -> None:
    X, y, domains = make_data()
    rows = read_classes(ax.AgnosticClassifier(), X, y, domains, None, True)
    assert np.shares_memory(rows.to_fit().X, X)


def test_models_of_one_domain_start_where_they_are_told() -> None:
    X, y, domains = make_data()
    problem = ax.LinearDomains(X, y, domains)
    objective = ax.Objective(gamma=0.01)
    found = alone_solutions(problem, objective, tol=1e-8)
    again = alone_solutions(problem, objective, found, tol=1e-8)
    assert max(solution.n_iter for solution in again) == 1 < found[0].n_iter


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_held_out_rows_are_a_share_of_every_domain_and_class(
    fraction: float, n_classes: int
) -> None:
    X, y, domains = make_data(n_classes=n_classes)
    X = np.column_stack([np.arange(len(y)), X])  # the row's number, to find it again
    rows = read_classes(ax.AgnosticClassifier(), X, y, domains, None, True)
    order = sorted_rows(rows, np.random.default_rng(0))
    fitted, held = (rows.to_fit(part) for part in hold_out(order, fraction))
    assert sorted([*fitted.X[:, 0], *held.X[:, 0]]) == list(range(len(y)))
    ids = held.X[:, 0].astype(int)
    for k in "abc":
        assert abs(np.sum(domains[ids] == k) - fraction * np.sum(domains == k)) <= 1
        for c in np.unique(y):
            cell = (domains == k) & (y == c)
            assert abs(np.sum(cell[ids]) - fraction * np.sum(cell)) <= 1


# -- few rows for the worst mixture --------------------------------------------------------------


def small_domain(n_small: int) -> tuple[Array, NDArray[Any], NDArray[Any]]:
    """A small domain in which the large one's rule is wrong."""
    rng = np.random.default_rng(0)
    domains = np.repeat(["large", "small"], [2000, n_small])
    X = rng.normal(size=(len(domains), 10))
    y = np.where(domains == "large", X[:, 0], -X[:, 0]) + rng.normal(size=len(domains)) > 0
    return X, y, domains


def test_a_worst_mixture_on_few_rows_warns() -> None:
    X, y, domains = small_domain(30)
    with pytest.warns(OverfitWarning, match=r"domain .*'small' .*30 .*max_skewness"):
        ax.AgnosticClassifier().fit(X, y, domains=domains)
    with pytest.warns(OverfitWarning, match="few for"):
        ax.AgnosticRegressor().fit(
            X, X[:, 0] * np.where(domains == "large", 1, -1), domains=domains
        )


@pytest.mark.parametrize(
    "parameters",
    [
        {"gamma": 1.0},
        {"max_skewness": 2.0},
        {"mixtures": ax.Point([0.985, 0.015])},
        {"mu": 1.0},
    ],
    ids=str,
)
def test_each_cure_of_the_warning_cures(parameters: dict[str, Any]) -> None:
    X, y, domains = small_domain(30)
    ax.AgnosticClassifier(**parameters).fit(X, y, domains=domains)  # a warning would be an error


def test_enough_rows_or_ordinary_training_do_not_warn() -> None:
    X, y, domains = small_domain(600)
    ax.AgnosticClassifier().fit(X, y, domains=domains)
    X, y, _ = make_data(sizes=(20,), d=10)
    ax.AgnosticClassifier().fit(X, y, domains=None)


@pytest.mark.parametrize("norm", ["squared", "plain"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("gamma", [1e-4, 1e-2, 5e-2])
def test_free_parameters_are_at_least_the_trace(norm: str, n_classes: int, gamma: float) -> None:
    """tr H(H + γ∇²R)⁻¹, the usual effective number of parameters, from eigenvalues."""
    X, y, domains = make_data(n_classes=n_classes)
    problem = ax.LinearDomains(X @ np.diag([1, 2, 3, 0.1]), y, domains)
    solution = ax.solve(problem, gamma=gamma, norm=norm)
    w, H = solution.w, problem.hessian(solution.w, solution.mixture)
    length = np.linalg.norm(w[problem.penalized]) if norm == "plain" else 1.0
    ridge = np.diag(np.where(problem.penalized, gamma / length, 0.0))
    trace = np.trace(H @ np.linalg.pinv(H + ridge, rcond=1e-12))
    ours = _free_parameters(problem, solution, ax.Objective(gamma=gamma, norm=norm))
    assert trace - 1e-6 <= ours <= 2 * trace
    assert ours <= problem.n_parameters * (1 if n_classes == 2 else 2 / 3)


def test_shares_of_the_domains() -> None:
    """λ_k/m_k; with rows in two domains, those rows' weight counts in both."""
    X, y, domains = make_data()
    mixture = np.array([0.5, 0.2, 0.3])
    problem = ax.LinearDomains(X, y, domains)
    np.testing.assert_allclose(problem.row_shares(mixture), mixture / problem.sizes)
    everyone = ax.LinearDomains(X, y, np.ones((len(y), 3)))
    np.testing.assert_allclose(everyone.row_shares(mixture), 1 / len(y))


def test_equal_rows_count_one_by_one() -> None:
    """Rows of few categories are merged for the solver, but it is their number that matters."""
    domains, i = np.repeat(["a", "b", "coin"], 400), np.arange(1200)
    X = (i % 2)[:, None].astype(float)
    y = np.where(domains == "coin", i % 4 < 2, (X[:, 0] > 0) ^ (i % 7 == 0))
    model = ax.AgnosticClassifier().fit(X, y, domains=domains)  # a warning would be an error
    assert model.mixture_[2] > 0.9


@pytest.mark.parametrize("kind", ["labels", "memberships", "weights"])
def test_the_warning_does_not_change_when_equal_rows_are_merged(kind: str) -> None:
    """A table of categories: 20,000 rows of a domain are not the few different ones among them."""
    rng = np.random.default_rng(0)
    domains = np.repeat(["S", "T", "rare"], [20_000, 9_000, 40])
    X = rng.integers(0, 2, size=(len(domains), 5)).astype(float)
    y = X[:, 0] + (domains == "rare") * X[:, 1] + rng.normal(size=len(domains)) > 1
    weight = rng.choice([1.0, 3.0], size=len(y)) if kind == "weights" else None
    table = np.column_stack([domains == k for k in ("S", "T", "rare")] + [X[:, 2] > 0])
    groups = table if kind == "memberships" else domains
    problem = ax.LinearDomains(X, y, groups, sample_weight=weight)
    merged = problem.merged()
    assert merged.n_rows < 400 < problem.n_rows
    for mixture in np.eye(problem.n_domains):
        np.testing.assert_allclose(
            merged.row_shares(mixture), problem.row_shares(mixture), rtol=1e-12
        )
        objective = ax.Objective(ax.Point(mixture), gamma=1e-6)
        solution = ax.solve(merged, objective)
        messages = [overfit_message(p, solution, objective) for p in (problem, merged)]
        assert messages[0] == messages[1]
        assert (messages[0] is not None) == (mixture[2] == 1)  # only 40 rows are few


def test_the_warning_foretells_the_excess_loss() -> None:
    """E(L_k on new rows − L_k on those fitted) ≈ parameters λ_k/m_k, here within a third."""
    truth = np.array([1.0, -1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    excess, foretold = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(20_500, 8))
        y = rng.random(len(X)) < expit(X @ truth)
        train = ax.LinearDomains(X[:500], y[:500], np.repeat(["a", "little"], [400, 100]))
        objective = ax.Objective(ax.Point([0.4, 0.6]), gamma=1e-6)
        solution = ax.solve(train, objective)
        new = ax.LinearDomains(X[500:], y[500:], np.zeros(20_000)).losses(solution.w)[0]
        excess.append(new - solution.domain_losses)
        parameters = _free_parameters(train, solution, objective)
        foretold.append(parameters * train.row_shares(solution.mixture))
    mean, error = np.mean(excess, axis=0), np.std(excess, axis=0) / np.sqrt(60)
    np.testing.assert_allclose(mean / np.mean(foretold, axis=0), 1, rtol=1 / 3)
    assert mean[1] > 5 * error[1]
    message = overfit_message(train, solution, objective)
    assert message is not None
    for fact in ("0.6", "'little'", "100 rows", "9 free"):
        assert fact in message


# -- real data -----------------------------------------------------------------------------------


def test_adult_losses_meet_and_the_warning_shows() -> None:
    data = datasets.load_adult(progress=False)
    model = ax.AgnosticClassifier(gamma=1e-3)
    with pytest.warns(OverfitWarning, match=r"weight 0.8 .*'doctorate' with 413 rows"):
        model.fit(data.X, data.y, domains=data.domains)
    assert model.domain_names_.tolist() == ["doctorate", "non-doctorate"]
    assert abs(model.domain_losses_[0] - model.domain_losses_[1]) < 1e-5
    assert model.mixture_[0] == pytest.approx(0.80, abs=0.005)
    assert model.certificate_.gap <= 1e-6
