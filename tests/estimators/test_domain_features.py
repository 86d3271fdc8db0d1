"""The domain as a feature: a plain fit on the wider matrix, and who serves unknown domains."""

from typing import Any

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import anymix as ax
from anymix.estimators import NoDomainsWarning
from anymix.estimators.domain_features import deviation_columns, members_of, widened
from anymix.problem.losses import CrossEntropy
from anymix.problem.rows import Rows

pytestmark = pytest.mark.filterwarnings(
    "ignore::anymix.estimators.fitting.OverfitWarning",
    "ignore::anymix.estimators.NothingGained",
)


def shops(n: int = 300, classes: int = 2) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    domains = rng.choice([3, 7, 9], n, p=[0.6, 0.3, 0.1])
    X = rng.normal(size=(n, 2))
    z = X[:, 0] + np.select([domains == 3, domains == 7], [1.0, -1.0], 2 * X[:, 1])
    return X, np.digitize(z + rng.logistic(size=n), np.linspace(-1, 1, classes + 1)[1:-1]), domains


@pytest.mark.parametrize("kind", ["intercept", "slopes"])
@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_a_plain_fit_of_the_wider_matrix(kind: str, classes: int) -> None:
    X, y, domains = shops(classes=classes)
    one_hot = (domains[:, None] == [3, 7, 9]).astype(float)
    by_hand = [X, one_hot]
    if kind == "slopes":
        by_hand += [X * one_hot[:, [k]] for k in range(3)]
    wide = np.hstack(by_hand)
    options: dict[str, Any] = {"gamma": 0.01, "tol": 1e-11}
    model = ax.AgnosticClassifier(domain_features=kind, **options).fit(X, y, domains=domains)
    peer = ax.AgnosticClassifier(**options).fit(wide, y, domains=domains)
    np.testing.assert_allclose(
        model.predict_proba(X, domains=domains), peer.predict_proba(wide), atol=1e-8
    )
    assert model.coef_.shape == (1 if classes == 2 else 3, 2)
    assert model.n_features_in_ == 2
    np.testing.assert_allclose(model.deviations_.intercepts.T, peer.coef_[:, 2:5], atol=1e-6)


def test_an_ordinary_model_with_the_domain_is_logistic_regression() -> None:
    X, y, domains = shops()
    model = ax.AgnosticClassifier(
        gamma=0.01, robustness=0.0, domain_features="intercept", tol=1e-11
    ).fit(X, y, domains=domains)
    wide = np.hstack([X, domains[:, None] == [3, 7, 9]])
    theirs = LogisticRegression(C=1 / (0.01 * len(y)), tol=1e-10, max_iter=1000).fit(wide, y)
    np.testing.assert_allclose(
        model.predict_proba(X, domains=domains), theirs.predict_proba(wide), atol=1e-6
    )


def test_unknown_and_missing_domains_are_served_by_the_shared_part() -> None:
    X, y, domains = shops()
    for make, target in ((ax.AgnosticClassifier, y), (ax.AgnosticRegressor, y + X[:, 1])):
        model = make(gamma=0.01, domain_features="slopes").fit(X, target, domains=domains)
        shared = model.predict(X, domains=[None] * len(X))
        with pytest.warns(NoDomainsWarning, match="domains="):
            np.testing.assert_array_equal(model.predict(X), shared)
        for odd in (4, None, np.nan, "nowhere"):
            np.testing.assert_array_equal(model.predict(X, domains=[odd] * len(X)), shared)
        assert not np.array_equal(model.predict(X, domains=domains), shared)
        by_words = model.predict(X, domains=domains.astype(str))  # '3' is 3
        np.testing.assert_array_equal(by_words, model.predict(X, domains=domains))


def test_memberships_and_sparse_rows() -> None:
    X, y, domains = shops()
    table = (domains[:, None] == [3, 7, 9]) | (X[:, [0]] > 1)  # some rows are in all three
    rows = Rows.read(X, y, table, CrossEntropy())
    dense = widened(rows, "slopes").X
    thin = widened(rows.with_features(sparse.csr_array(X)), "slopes").X
    np.testing.assert_allclose(thin.toarray(), dense)
    model = ax.AgnosticClassifier(gamma=0.01, domain_features="intercept")
    said = model.fit(X, y, domains=table).predict_proba(X, domains=table)
    again = members_of(table, model.domain_names_, len(X))
    z = X @ model.coef_[0] + model.intercept_ + (again @ model.deviations_.intercepts)[:, 0]
    np.testing.assert_allclose(said[:, 1], 1 / (1 + np.exp(-z)))
    assert deviation_columns(X, again, "slopes").shape == (len(X), 3 + 6)


def test_domains_reach_predict_by_routing() -> None:
    X, y, domains = shops()
    model = ax.AgnosticClassifierCV(domain_features="intercept")
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), model).fit(X, y, domains=domains)
        said = pipe.predict_proba(X, domains=domains)
        with pytest.warns(NoDomainsWarning, match="domains="):
            unknown = pipe.predict_proba(X)
    assert np.abs(said - unknown).max() > 0.05
    assert pipe[-1].score(StandardScaler().fit_transform(X), y, domains=domains) > 0.6


def test_a_new_fit_forgets_the_deviations() -> None:
    X, y, domains = shops()
    model = ax.AgnosticClassifier(gamma=0.1, domain_features="intercept")
    model.fit(X, y, domains=domains)
    model.set_params(domain_features=None).fit(X, y, domains=domains)
    assert not hasattr(model, "deviations_")


def test_faults_are_named() -> None:
    X, y, domains = shops()
    with pytest.raises(ValueError, match="domain_features is 'both'"):
        ax.AgnosticClassifier(domain_features="both").fit(X, y, domains=domains)
    model = ax.AgnosticClassifier(gamma=0.1, domain_features="intercept")
    model.fit(X, y, domains=domains)
    with pytest.raises(ValueError, match=r"domains has 3 .*300"):
        model.predict(X, domains=domains[:3])
    with pytest.raises(ValueError, match=r"domains has the columns \[0, 1\]"):
        model.predict(X, domains=np.ones((300, 2)))
