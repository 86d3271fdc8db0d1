"""What follows y goes by name; weights of classes; folds of small domains."""

import pickle
import warnings
from inspect import signature
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.tree import DecisionTreeClassifier

import anymix as ax
from anymix.errors import InputError
from anymix.estimators import NoDomainsWarning, PersonalizedCV
from anymix.estimators.reading import FewerFolds, folds
from anymix.problem.losses import CrossEntropy
from anymix.problem.rows import Rows


def rows(n: int = 200, d: int = 3) -> tuple[Any, Any, Any]:
    r = np.random.default_rng(0)
    X, domains = r.normal(size=(n, d)), r.choice(["a", "b"], n, p=[0.8, 0.2])
    y = np.where(X[:, 0] + r.logistic(size=n) > 0.5, "yes", "no")
    return X, y, domains


@pytest.mark.parametrize(
    "model",
    [
        ax.AgnosticClassifier(),
        ax.AgnosticRegressor(),
        ax.AgnosticClassifierCV(),
        ax.AgnosticEnsemble(DecisionTreeClassifier()),
        ax.Personalized(None, {}),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_third_argument_without_a_name(model: Any) -> None:
    X, y, domains = rows()
    message = r"third argument without a name; write fit\(X, y, domains=\.\.\.\)"
    for refusal in (InputError, TypeError):
        with pytest.raises(refusal, match=message):
            model.fit(X, y, domains)


FITTED = [
    ax.AgnosticClassifier(),
    ax.AgnosticRegressor(),
    ax.AgnosticClassifierCV(gammas=[0.1]),
    ax.AgnosticRegressorCV(gammas=[0.1]),
    ax.AgnosticEnsemble(DecisionTreeClassifier(max_depth=2)),
    PersonalizedCV(LogisticRegression()),
]
fitted = pytest.mark.parametrize("model", FITTED, ids=lambda model: type(model).__name__)


def warned(fit: Any) -> list[str]:
    """The warnings of `NoDomainsWarning` that a call brings."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        fit()
    return [str(w.message) for w in caught if w.category is NoDomainsWarning]


@fitted
def test_a_fit_without_domains_warns_unless_they_are_said_to_be_none(model: Any) -> None:
    X, y, domains = rows(80)
    y = y if is_classifier(model) else X[:, 0]
    (said,) = warned(lambda: clone(model).fit(X, y))
    assert "domains=" in said
    assert not warned(lambda: clone(model).fit(X, y, domains=None))
    assert not warned(lambda: clone(model).fit(X, y, domains=domains))


def test_no_fit_that_is_meant_to_be_ordinary_warns() -> None:
    """Models inside others are fitted to rows of one domain, or weighted by a mixture."""
    X, y, domains = rows(80)
    inside = ax.AgnosticClassifier(gamma=0.1, domain_features="intercept")
    assert not warned(lambda: PersonalizedCV(inside).fit(X, y, domains=domains))
    robust = ax.AgnosticEnsemble(ax.AgnosticClassifier(gamma=0.1), robustness=[1.0], n_steps=1)
    assert not warned(lambda: robust.fit(X, y, domains=domains).keep_ordinary(X, y))


def test_a_cross_validation_without_params_says_how_to_pass_the_domains() -> None:
    X, y, domains = rows(80)
    model = ax.AgnosticClassifier(gamma=0.1)
    for said in warned(lambda: cross_val_score(model, X, y, cv=2)):
        assert 'params={"domains": d}' in said
    assert len(warned(lambda: cross_val_score(model, X, y, cv=2))) == 2
    assert not warned(lambda: cross_val_score(model, X, y, cv=2, params={"domains": domains}))
    search = GridSearchCV(model, {"gamma": [0.1]}, cv=2)
    assert len(warned(lambda: search.fit(X, y))) == 3
    assert not warned(lambda: search.fit(X, y, domains=domains))


@pytest.mark.parametrize("name", ["group", "sensitive_features", "domain", "other"])
@pytest.mark.parametrize("model", [ax.AnyMixClassifier(), ax.AnyMixRegressor()])
def test_the_one_fit_refuses_them_too(model: Any, name: str) -> None:
    """`groups` are rows of one patient there, as in scikit-learn; without domains it warns."""
    X, y, domains = rows(80)
    with pytest.raises(InputError) as caught:
        model.fit(X, y, **{name: domains})
    assert (caught.value.argument, "domains" in caught.value.fix) == (name, True)


def test_groups_are_no_domains() -> None:
    X, y, _ = rows(80)
    model = ax.AnyMixClassifier("linear", cv=2)
    assert len(warned(lambda: model.fit(X, y, groups=np.arange(80) // 2))) == 1


@pytest.mark.parametrize("name", ["groups", "group", "sensitive_features", "domain", "other"])
@fitted
def test_other_names_of_the_domains_are_refused(model: Any, name: str) -> None:
    X, y, domains = rows(80)
    with pytest.raises(InputError) as caught:
        model.fit(X, y, **{name: domains})
    assert isinstance(caught.value, TypeError)
    assert caught.value.argument == name
    assert "domains" in caught.value.fix
    assert "Selecting" not in str(caught.value)
    assert (
        list(signature(model.fit).parameters)
        == ["X", "y", "domains", "sample_weight"][: 3 if isinstance(model, PersonalizedCV) else 4]
    )


@pytest.mark.parametrize("weights", ["balanced", {"yes": 3.0, "no": 0.5}])
@pytest.mark.parametrize("model", [ax.AgnosticClassifier, ax.AgnosticClassifierCV])
def test_class_weight_is_a_weight_of_the_rows(model: Any, weights: Any) -> None:
    X, y, domains = rows()
    share = {name: np.mean(y == name) for name in ("yes", "no")}
    by_class = (
        {name: 1 / (2 * p) for name, p in share.items()} if weights == "balanced" else weights
    )
    own = np.linspace(0.5, 2, len(y))
    expected = np.array([by_class[name] for name in y]) * own
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        one = model(class_weight=weights).fit(X, y, domains=domains, sample_weight=own)
        two = model().fit(X, y, domains=domains, sample_weight=expected)
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=0, atol=1e-9)
    with pytest.raises(InputError, match="class_weight is"):
        model(class_weight="much").fit(X, y, domains=domains)


def test_a_small_domain_makes_fewer_folds() -> None:
    X, y, _ = rows(40)
    domains = np.array(["a"] * 37 + ["b"] * 3)
    _, codes = np.unique(y, return_inverse=True)
    read = Rows.read(X, codes, domains, CrossEntropy(), classes=np.array(["no", "yes"]))
    with pytest.warns(FewerFolds, match=r"cv is 5.*'b'.*3.*3"):
        dealt = folds(read, 5, 0)
    assert [sum(domains[test] == "b") for _, test in dealt] == [1, 1, 1]
    assert sorted(np.concatenate([test for _, test in dealt])) == list(range(40))


def test_fewer_folds_are_told_once() -> None:
    X, y, _ = rows(40)
    domains = np.array(["a"] * 37 + ["b"] * 3)
    search = ax.AgnosticClassifierCV(gammas=[0.1], robustness=[0.0, 1.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y, domains=domains)
    assert [w.category for w in caught].count(FewerFolds) == 1


def test_mixtures_of_the_docs_can_be_pickled() -> None:
    X, y, domains = rows()
    for mixtures in ("chi2:2.0", "cvar:0.5", ax.Simplex(2)):
        model = ax.AgnosticClassifier(mixtures, gamma=0.1).fit(X, y, domains=domains)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
