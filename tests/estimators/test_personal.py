"""Personal models: α is the best, few rows stay with the shared model, and nobody is worse off."""

import warnings
from typing import Any

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import anymix as ax
from anymix.errors import InputError
from anymix.estimators import OverfitWarning, PersonalizedCV
from anymix.problem.blending import best_blend, least_alpha

Array = NDArray[np.float64]
GRID = np.linspace(0, 1, 20001)


def values(a: Array, b: Array, kind: str, alphas: Array) -> Array:
    """ℓ of every row (columns) at every α (rows)."""
    m = np.outer(alphas, a) + np.outer(1 - alphas, b)
    with np.errstate(divide="ignore"):
        return -np.log(m) if kind == "log" else m**2 / 2


def pair(seed: int, kind: str, n: int, better: float = 0.0) -> tuple[Array, Array]:
    """What two models say of n rows; which is better depends on the seed."""
    rng = np.random.default_rng(seed)
    if kind == "squared":
        return rng.normal(size=n), rng.normal(size=n) * rng.uniform(0.5, 2)
    one, two = rng.uniform(0.2, 3, size=2)
    return rng.beta(one + better, 1, size=n), rng.beta(two, 1, size=n)


@pytest.mark.parametrize("kind", ["log", "squared"])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60))
def test_alpha_is_that_of_a_grid(kind: str, seed: int, n: int) -> None:
    a, b = pair(seed, kind, n)
    alpha, f = least_alpha(a, b, kind), values(a, b, kind, GRID).mean(axis=1)
    assert alpha == pytest.approx(GRID[f.argmin()], abs=1e-4)
    assert values(a, b, kind, np.array([alpha])).mean() <= f.min() + 1e-12


@pytest.mark.parametrize("kind", ["log", "squared"])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(10, 29), z=st.sampled_from([0.5, 1.0, 2.0]))
def test_the_shrunk_alpha_is_that_of_a_grid(kind: str, seed: int, n: int, z: float) -> None:
    a, b = pair(seed, kind, n)
    found, least = best_blend(a, b, kind, z), least_alpha(a, b, kind)
    grid = least + (1 - least) * np.linspace(0, 1, 5001)
    ell = values(a, b, kind, grid)
    more = ell - ell[0]
    near = more.mean(axis=1) <= z * more.std(axis=1, ddof=1) / np.sqrt(n)
    both = ell.mean(axis=1) <= min(found.own, found.shared)
    assert found.alpha == pytest.approx(grid[near & both].max(initial=least), abs=4e-4)
    assert least <= found.alpha <= 1
    assert found.loss <= min(found.own, found.shared) + 1e-12


def test_from_thirty_rows_on_alpha_is_the_best_itself() -> None:
    a, b = np.tile([0.5, 0.6], 15), np.tile([0.9, 0.3], 15)
    least = least_alpha(a, b, "log")
    assert 0 < least < best_blend(a[:29], b[:29], "log").alpha
    assert best_blend(a, b, "log").alpha == least


def test_what_is_impossible_or_alike() -> None:
    ones = np.full(12, 0.5)
    assert least_alpha(ones, ones, "log") == 1  # no difference: the shared model
    assert least_alpha(ones, np.zeros(12), "log") == 1
    assert least_alpha(np.zeros(12), ones, "log") == 0
    mixed = np.r_[0.0, ones[1:]]
    assert 0 < least_alpha(mixed, np.r_[0.9, 0.1 * ones[1:]], "log") < 1  # both ends are infinite
    assert best_blend(ones[:9], ones[:9] * 1.9, "log").alpha == 1  # below ten rows
    assert best_blend(ones, ones * 1.9, "log").alpha == 0


Rows = tuple[Array, NDArray[np.bool_], NDArray[np.intp]]


def clinics(seed: int, p: int = 8, d: int = 4) -> list[Rows]:
    """Rows to fit, to choose α by, and to test, of domains that differ; 50 to 400 each."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.uniform(np.log(50), np.log(400), size=p)).astype(int)
    w = rng.normal(size=d) + rng.normal(size=(p, d))

    def draw(n: NDArray[np.intp]) -> Rows:
        k = np.repeat(np.arange(p), n)
        X = rng.normal(size=(len(k), d))
        return X, np.sum(X * w[k], axis=1) + rng.logistic(size=len(k)) > 0, k

    return [draw(sizes), draw(sizes), draw(np.full(p, 1000))]


def log_losses(said: Array, y: NDArray[np.bool_]) -> Array:
    return np.asarray(-np.log(said[np.arange(len(y)), y.astype(int)]))


def one_run(seed: int) -> tuple[NDArray[np.bool_], float, bool]:
    """Which domains are served no worse than by both parents on the rows that chose α; on test
    rows the mean gain, and whether no domain is worse off beyond its standard error."""
    (X, y, k), held, (Xt, yt, kt) = clinics(seed)
    with warnings.catch_warnings(action="ignore", category=OverfitWarning):
        h = ax.AgnosticClassifier(gamma=0.01).fit(X, y, domains=k)
    own = {c: LogisticRegression().fit(X[k == c], y[k == c]) for c in range(8)}
    model = ax.Personalized(h, own).fit(held[0], held[1], domains=held[2])
    losses = model.held_out_losses_
    fine = losses["personal"] <= np.minimum(losses["agnostic"], losses["local"]) + 1e-12
    personal = log_losses(model.predict_proba(Xt, domains=kt), yt)
    gains = [(log_losses(h.predict_proba(Xt), yt) - personal)[kt == c] for c in range(8)]
    harmed = [g.mean() < -g.std(ddof=1) / np.sqrt(len(g)) for g in gains]
    return fine, float(np.mean(gains)), not any(harmed)


def check_runs(n_runs: int) -> None:
    fine, gains, unharmed = zip(*(one_run(seed) for seed in range(n_runs)), strict=True)
    print(
        f"no worse than both parents: {np.mean(fine):.1%} of domains; gain {np.mean(gains):.4f},"
        f" positive in {np.mean(np.array(gains) > 0):.0%} of {n_runs} runs; no domain harmed in "
        f"{np.mean(unharmed):.0%}"
    )
    assert np.mean(fine) >= 0.95
    assert np.mean(gains) > 0
    assert np.mean(unharmed) >= 0.9


def test_personal_models_beat_both_parents_and_harm_nobody() -> None:
    check_runs(5)


@pytest.mark.slow
def test_personal_models_beat_both_parents_and_harm_nobody_in_many_runs() -> None:
    check_runs(60)


def fitted() -> tuple[Any, Rows]:
    fit, held, _ = clinics(0)
    X, y, k = fit
    h = ax.AgnosticClassifier().fit(X, y, domains=k)
    own = {
        c: RandomForestClassifier(10, random_state=0).fit(X[k == c], y[k == c]) for c in range(7)
    }
    return ax.Personalized(h, own).fit(held[0], held[1], domains=held[2]), held


def test_probabilities_are_mixed_as_in_the_paper() -> None:
    model, (X, y, k) = fitted()
    said = model.predict_proba(X, domains=k)
    np.testing.assert_allclose(said.sum(axis=1), 1)
    for c in range(7):
        h, own = (m.predict_proba(X[k == c]) for m in (model.agnostic, model.local[c]))
        expected = model.alpha_[c] * h + (1 - model.alpha_[c]) * own
        np.testing.assert_allclose(said[k == c], expected, atol=1e-15)
    assert model.alpha_[7] == 1  # it has no own model
    assert np.isnan(model.held_out_losses_["local"][7])
    mean = [log_losses(said[k == c], y[k == c]).mean() for c in range(8)]
    np.testing.assert_allclose(mean, model.held_out_losses_["personal"])


def test_an_unknown_domain_is_served_by_the_shared_model() -> None:
    model, (X, _, _) = fitted()
    shared = model.agnostic.predict_proba(X[:3])
    for told in (None, [None, "new", np.nan]):
        np.testing.assert_array_equal(model.predict_proba(X[:3], domains=told), shared)
    one, same = (model.predict_proba(X[:2], domains=[c, c]) for c in (0, "0"))
    np.testing.assert_array_equal(one, same)  # '0' is 0, as people write it


def test_regressors_mix_their_values() -> None:
    rng = np.random.default_rng(0)
    k, X = np.repeat(["a", "b"], 200), rng.normal(size=(400, 2))
    y = X[:, 0] * np.where(k == "a", 1, -1) + rng.normal(size=400)
    model = PersonalizedCV(LinearRegression(), Ridge(), z=0.0).fit(X, y, domains=k)
    both = [m.predict(X) for m in (model.agnostic_, model.local_["a"])]
    mixed = model.alpha_[0] * both[0] + (1 - model.alpha_[0]) * both[1]
    np.testing.assert_allclose(model.predict(X, domains=k)[:200], mixed[:200])
    assert model.score(X, y, domains=k) > model.score(X, y) + 0.2


def test_folds_never_predict_rows_they_were_fitted_to() -> None:
    """A model that knows its rows by heart would be trusted blindly otherwise."""
    rng = np.random.default_rng(0)
    X, y, k = rng.normal(size=(300, 3)), rng.integers(2, size=300), np.arange(300) % 3
    forest = RandomForestClassifier(20, random_state=0)
    model = PersonalizedCV(LogisticRegression(), forest).fit(X, y, domains=k)
    assert model.local_[0].score(X[k == 0], y[k == 0]) > 0.95
    assert model.alpha_.min() > 0.5


def test_a_domain_of_one_class_or_few_rows_has_no_own_model() -> None:
    rng = np.random.default_rng(0)
    X, k = rng.normal(size=(80, 1)), np.repeat([0, 1, 2], [50, 29, 1])
    y = np.where(k == 1, 1, rng.integers(2, size=80))
    model = PersonalizedCV(LogisticRegression()).fit(X, y, domains=k)
    assert list(model.local_) == [0]
    np.testing.assert_array_equal(model.alpha_[1:], 1)


def test_domains_are_routed_through_a_pipeline() -> None:
    (X, y, k), _, _ = clinics(1)
    with sklearn.config_context(enable_metadata_routing=True):
        alone = PersonalizedCV(LogisticRegression()).fit(
            StandardScaler().fit_transform(X), y, domains=k
        )
        routed = make_pipeline(StandardScaler(), PersonalizedCV(LogisticRegression()))
        routed.fit(X, y, domains=k)
        np.testing.assert_array_equal(routed[-1].alpha_, alone.alpha_)
        said = routed.predict_proba(X, domains=k)
    np.testing.assert_array_equal(said, alone.predict_proba(routed[0].transform(X), domains=k))


def test_what_cannot_be_mixed_is_refused() -> None:
    model, (X, y, k) = fitted()
    with pytest.raises(InputError, match="has the class '5'"):
        model.fit(X, np.full(len(y), 5), domains=k)
    other = LogisticRegression().fit(X, np.where(y, "yes", "no"))
    with pytest.raises(InputError, match="local has a model"):
        ax.Personalized(model.agnostic, {0: other}).fit(X, y, domains=k)
    with pytest.raises(InputError, match=r"cv is 1.*n_samples"):
        PersonalizedCV(LogisticRegression(), cv=1).fit(X, y)


@pytest.mark.filterwarnings("ignore::anymix.estimators.NoDomainsWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [PersonalizedCV(LogisticRegression(), cv=2), PersonalizedCV(Ridge(), cv=2)]
)
def test_scikit_learn_agrees(estimator: Any, check: Any) -> None:
    check(estimator)


def test_missing_numbers_to_predict_are_refused() -> None:
    X, k = np.arange(40.0)[:, None], np.repeat(["a", "b"], 20)
    model = LinearRegression().fit(X, X[:, 0])
    y = np.where(np.arange(40) == 3, np.nan, X[:, 0])
    with pytest.raises(InputError, match=r"y.*missing"):
        ax.Personalized(model, {"a": model, "b": model}).fit(X, y, domains=k)
