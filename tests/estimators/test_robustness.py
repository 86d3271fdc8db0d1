"""robustness= and anchor= of the linear estimators: from ordinary training to the agnostic."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from regions import labels_data, numbers_data
from sklearn.linear_model import LogisticRegression, Ridge

import anymix as ax
from anymix.errors import InputError
from anymix.estimators.ordinary import ordinary_model
from anymix.estimators.reading import read_classes, read_numbers
from anymix.problem.losses import Huber, SquaredError

Array = NDArray[np.float64]
M = np.array([400, 160]) / 560  # m̄ of the two regions


def three_classes() -> tuple[Array, NDArray[Any], NDArray[Any]]:
    X, y, domains = labels_data(n_small=160)
    return X, np.where(X[:, 2] > 0.7, "maybe", y), domains


# -- robustness ----------------------------------------------------------------------------------


def test_no_robustness_is_plain_training() -> None:
    X, y, domains = labels_data(n_small=160)
    ours = ax.AgnosticClassifier(gamma=0.01, robustness=0.0, tol=1e-13).fit(X, y, domains=domains)
    peer = LogisticRegression(C=1 / (0.01 * len(y)), tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-6)
    np.testing.assert_allclose(ours.mixture_, M)
    assert ours.agnostic_loss_ == pytest.approx(ours.domain_losses_.max())  # Λ is still the simplex

    X, target, domains = numbers_data(n_small=160)
    line = ax.AgnosticRegressor(gamma=0.1, robustness=0, tol=1e-13).fit(X, target, domains=domains)
    ridge = Ridge(alpha=0.1 * len(target)).fit(X, target)
    np.testing.assert_allclose(line.coef_, ridge.coef_, atol=1e-6)
    assert line.intercept_ == pytest.approx(ridge.intercept_, abs=1e-6)


SETS: list[Any] = [ax.Simplex(2), ax.TVBall([0.5, 0.5], 0.2), ax.Chi2Ball([400, 160], 1.3)]


@pytest.mark.parametrize("base", SETS, ids=str)
@pytest.mark.parametrize("t", [0.0, 0.4, 1.0])
def test_robustness_is_a_shrunk_set(base: Any, t: float) -> None:
    X, y, domains = labels_data(n_small=160)
    model = ax.AgnosticClassifier(base, 0.05, robustness=t, tol=1e-11).fit(X, y, domains=domains)
    problem = ax.LinearDomains(X, y, domains)
    peer = ax.solve(problem, base.shrunk(t, M), gamma=0.05, tol=1e-11)
    assert model.certificate_.upper == pytest.approx(peer.objective, abs=2e-11)
    np.testing.assert_allclose(model.coef_, problem.unpack(peer.w)[0], atol=1e-4)
    np.testing.assert_allclose(model.mixture_, peer.mixture, atol=1e-4)
    L = model.domain_losses_
    assert model.agnostic_loss_ == pytest.approx(base.maximize(L) @ L)


@pytest.mark.parametrize(("name", "loss"), [("squared", SquaredError()), ("huber", Huber(0.5))])
def test_robustness_of_a_regression(name: str, loss: Any) -> None:
    X, y, domains = numbers_data(n_small=160)
    model = ax.AgnosticRegressor(gamma=0.05, robustness=0.6, loss=name, delta=0.5, tol=1e-11)
    model.fit(X, y, domains=domains)
    problem = ax.LinearDomains(X, y, domains, loss)
    peer = ax.solve(problem, ax.Simplex(2).shrunk(0.6, M), gamma=0.05, tol=1e-11)
    assert model.certificate_.upper == pytest.approx(peer.objective, abs=2e-11)
    np.testing.assert_allclose([*model.coef_, model.intercept_], peer.w, atol=1e-4)


# -- anchors -------------------------------------------------------------------------------------


def test_the_ordinary_anchor_is_the_tuned_ordinary_model() -> None:
    for data, make, loss in (
        (labels_data(n_small=160), ax.AgnosticClassifier, None),
        (numbers_data(n_small=160), ax.AgnosticRegressor, SquaredError()),
    ):
        X, y, domains = data
        options: dict[str, Any] = {"gamma": 0.3, "robustness": 0.8, "tol": 1e-11}
        model = make(anchor="ordinary", **options).fit(X, y, domains=domains)
        rows = (
            read_classes(make(), X, y, domains)
            if loss is None
            else read_numbers(make(), X, y, domains, None, True, loss)
        )
        gamma, ordinary = ordinary_model(rows, ax.Objective(), tol=1e-11)
        peer = ax.solve(
            rows.to_fit(),
            ax.Simplex(2).shrunk(0.8, M),
            gamma=0.3,
            anchor=ordinary.w,
            tol=1e-11,
        )
        assert model.certificate_.upper == pytest.approx(peer.objective, abs=1e-9)
        np.testing.assert_allclose(np.ravel(model.coef_), peer.w[:-1], atol=1e-4)
        zero = make(**options).fit(X, y, domains=domains)
        assert zero.certificate_.upper > model.certificate_.upper + 0.01
        chosen = make(gamma=gamma, robustness=0.0, tol=1e-11).fit(X, y, domains=domains)
        given = make(anchor=chosen.coef_, **options).fit(X, y, domains=domains)
        np.testing.assert_allclose(given.coef_, model.coef_, atol=1e-4)


def test_an_anchor_of_any_shape() -> None:
    X, y, domains = labels_data(n_small=160)
    a = np.array([2.0, -1.0, 0.5, 0.0, 0.0, 1.0])
    shapes: list[Any] = [a, a[None], [*a, 99.0], a.tolist()]  # an anchor's intercept is not used
    fits = [ax.AgnosticClassifier(gamma=1.0, anchor=s).fit(X, y, domains=domains) for s in shapes]
    for model in fits[1:]:
        np.testing.assert_array_equal(model.coef_, fits[0].coef_)
    problem = ax.LinearDomains(X, y, domains)
    peer = ax.solve(problem, gamma=1.0, anchor=np.append(a, 0.0))
    np.testing.assert_allclose(fits[0].coef_[0], peer.w[:-1], atol=1e-6)
    bare = ax.AgnosticClassifier(gamma=1.0, anchor=a, fit_intercept=False)
    assert bare.fit(X, y, domains=domains).intercept_.tolist() == [0.0]

    X, labels, domains = three_classes()
    A = np.random.default_rng(0).normal(size=(3, 6))
    flat = np.column_stack([A, [7.0, 8.0, 9.0]]).ravel()
    one, other = (
        ax.AgnosticClassifier(gamma=1.0, anchor=s, tol=1e-9).fit(X, labels, domains=domains)
        for s in (A, flat)
    )
    np.testing.assert_array_equal(one.coef_, other.coef_)
    problem = ax.LinearDomains(X, labels, domains)
    peer = ax.solve(problem, gamma=1.0, anchor=flat, tol=1e-9)
    assert one.certificate_.upper == pytest.approx(peer.objective, abs=2e-9)


def test_much_weight_leaves_the_coefficients_of_the_anchor_and_moves_the_intercept() -> None:
    """R does not see intercepts: at any γ they are the best for the worst mixture."""
    X, y, domains = numbers_data(n_small=160)
    y = y + np.where(domains == "rural", 4.0, 0.0)
    a = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    model = ax.AgnosticRegressor(gamma=1e8, anchor=np.append(a, 77.0)).fit(X, y, domains=domains)
    np.testing.assert_allclose(model.coef_, a, atol=1e-6)
    residual = y - X @ a
    shifts = np.linspace(0, 4, 40_001)
    worst = np.max(
        [
            0.5 * (residual[domains == k].var() + (residual[domains == k].mean() - shifts) ** 2)
            for k in ("city", "rural")
        ],
        axis=0,
    )
    assert model.intercept_ == pytest.approx(shifts[np.argmin(worst)], abs=2e-3)


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"robustness": 1.1}, "robustness is 1.1"),
    ({"anchor": "plain"}, "anchor is 'plain'"),
    ({"anchor": np.zeros(5)}, r"anchor has shape \(5,\)"),
    ({"anchor": np.zeros((2, 6))}, r"anchor has shape \(2, 6\)"),
    ({"anchor": [[0.0], [1.0, 2.0]]}, "anchor is no array"),
    ({"anchor": [0.0, np.nan, 0.0, 0.0, 0.0, 0.0]}, "anchor .*entry nan"),
    ({"anchor": [[0.0, 0.0, np.inf, 0.0, 0.0, 0.0]]}, "anchor .*entry inf"),
    ({"anchor": ["a"] * 6}, "anchor .*no list"),
    ({"mixtures": ax.Simplex(3), "robustness": 0.5}, "mixtures is over 3 domains"),
]


@pytest.mark.parametrize(("parameters", "message"), FAULTS)
def test_faults_are_named(parameters: dict[str, Any], message: str) -> None:
    X, y, domains = labels_data()
    with pytest.raises(InputError, match=message):
        ax.AgnosticClassifier(**parameters).fit(X, y, domains=domains)


def test_an_anchor_for_many_classes_names_its_shape() -> None:
    X, y, domains = three_classes()
    with pytest.raises(InputError, match=r"anchor has shape \(6,\)"):
        ax.AgnosticClassifier(anchor=np.zeros(6)).fit(X, y, domains=domains)
