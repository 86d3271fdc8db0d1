import json
import math
import re
from inspect import signature
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from fairlearn.metrics import MetricFrame
from rich.console import Console
from scipy.sparse import csr_array
from scipy.stats import ttest_rel
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    mean_absolute_error,
    roc_auc_score,
    root_mean_squared_error,
)

import anymix as ax
from anymix.auditing import Audit, audit, compare
from anymix.auditing.agnostic import worst_case
from anymix.errors import InputError


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def shown(thing: Any) -> str:
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        console.print(thing)
    return capture.get()


# Numbers against other libraries ----------------------------------------------------------------


@pytest.fixture(scope="module")
def yes_no() -> tuple[Any, Any, Any]:
    r = rng(1)
    q = np.round(r.beta(2, 2, 600), 2)  # rounded: ties for the AUC
    return (r.random(600) < q).astype(int), q, r.choice(["a", "b", "c"], 600, p=[0.7, 0.25, 0.05])


def test_probabilities_as_scikit_learn_and_fairlearn_measure_them(yes_no: Any) -> None:
    y, q, d = yes_no
    found = audit(y, q, d)
    by_group = MetricFrame(
        metrics={"auc": roc_auc_score, "loss": log_loss}, y_true=y, y_pred=q, sensitive_features=d
    )
    assert found.kind == "probabilities"
    assert found.loss == "log"
    np.testing.assert_allclose(found.metrics["auc"], by_group.by_group["auc"])
    np.testing.assert_allclose(found.domain_losses, by_group.by_group["loss"])
    hits = [accuracy_score(y[d == k], q[d == k] > 0.5) for k in "abc"]
    np.testing.assert_allclose(found.metrics["accuracy"], hits)
    assert found.pooled_loss == pytest.approx(log_loss(y, q))
    assert found.pooled_metrics["auc"] == pytest.approx(roc_auc_score(y, q))


def test_calibration_error_bin_by_bin(yes_no: Any) -> None:
    y, q, d = yes_no
    for k, name in enumerate("abc"):
        yk, qk = y[d == name], q[d == name]
        error = 0.0
        for b in range(10):
            inside = (qk >= b / 10) & ((qk < (b + 1) / 10) | (b == 9))
            if inside.any():
                error += inside.mean() * abs(yk[inside].mean() - qk[inside].mean())
        assert audit(y, q, d).metrics["calibration_error"][k] == pytest.approx(error)


def test_a_probability_of_one_is_in_the_last_bin() -> None:
    assert audit([1, 1, 1, 0], [1.0, 1.0, 1.0, 0.5]).pooled_metrics["calibration_error"] == 0.125


def test_many_classes() -> None:
    r = rng(2)
    P = r.dirichlet([1, 1, 1], 300)
    y = np.array(["x", "y", "z"])[[r.choice(3, p=p) for p in P]]
    found = audit(y, P)
    assert found.pooled_loss == pytest.approx(log_loss(y, P))
    names = np.array(["x", "y", "z"])[P.argmax(axis=1)]
    assert found.pooled_metrics["accuracy"] == pytest.approx(accuracy_score(y, names))
    assert "auc" not in found.metrics
    # the most probable class is calibrated here, and far from it when all confidence is doubled
    assert found.pooled_metrics["calibration_error"] < 0.1
    sure = np.eye(3)[P.argmax(axis=1)]
    assert audit(y, sure).pooled_metrics["calibration_error"] > 0.2


def test_values_as_scikit_learn_measures_them() -> None:
    r = rng(3)
    y, z, d = r.normal(size=90), r.normal(size=90), np.repeat([2019, 2020, 2021], 30)
    found = audit(y, z, d)
    assert found.domain_names == (2019, 2020, 2021)
    for k, year in enumerate(found.domain_names):
        pair = y[d == year], z[d == year]
        assert found.metrics["mae"][k] == pytest.approx(mean_absolute_error(*pair))
        assert found.metrics["rmse"][k] == pytest.approx(root_mean_squared_error(*pair))
        assert found.domain_losses[k] == pytest.approx(root_mean_squared_error(*pair) ** 2 / 2)
    absolute = audit(y, z, d, loss="absolute")
    np.testing.assert_allclose(absolute.domain_losses, found.metrics["mae"])
    np.testing.assert_allclose(absolute.intervals, found.metric_intervals["mae"])


@pytest.mark.parametrize("seed", range(3))
def test_the_rows_fitted_have_the_losses_that_the_estimators_say(seed: int) -> None:
    r = rng(seed)
    X, d = r.normal(size=(400, 3)), r.choice(["u", "v", "w"], 400)
    z = X[:, 0] + (d == "v") * X[:, 1] + r.normal(size=400)
    mixtures = ax.TVBall([0.2, 0.3, 0.5], 0.3)
    classifier = ax.AgnosticClassifier(mixtures).fit(X, z > 0, domains=d)
    regressor = ax.AgnosticRegressor(mixtures).fit(X, z, domains=d)
    for model, truth, said in (
        (classifier, z > 0, classifier.predict_proba(X)),
        (regressor, z, regressor.predict(X)),
    ):
        found = audit(truth, said, d, mixtures=mixtures)
        np.testing.assert_allclose(found.domain_losses, model.domain_losses_)
        assert found.agnostic_loss == pytest.approx(model.agnostic_loss_)


# The worst mixture ------------------------------------------------------------------------------

p = 5
SIZES = np.array([10.0, 20.0, 30.0, 25.0, 15.0])
REFERENCE = SIZES / SIZES.sum()
POINTS = np.random.default_rng(5).dirichlet(np.ones(p), 4)
LOWER, UPPER = np.full(p, 0.05), np.array([0.1, 0.5, 0.4, 0.3, 0.9])


def linear_program(losses: Any, constraints: Any) -> float:
    mixture = cp.Variable(p)
    simplex = [mixture >= 0, cp.sum(mixture) == 1]
    program = cp.Problem(cp.Maximize(losses @ mixture), simplex + constraints(mixture))
    return float(program.solve(solver=cp.CLARABEL))


def hull(mixture: Any) -> list[Any]:
    theta = cp.Variable(len(POINTS))
    return [theta >= 0, cp.sum(theta) == 1, mixture == POINTS.T @ theta]


SETS: dict[str, tuple[Any, Any]] = {
    "none": (None, lambda m: []),
    "simplex": (ax.Simplex(p), lambda m: []),
    "vertices": (ax.Vertices(p), lambda m: []),
    "point": (ax.Point(POINTS[0]), lambda m: [m == POINTS[0]]),
    "hull": (ax.Hull(POINTS), hull),
    "box": (ax.Box(LOWER, UPPER), lambda m: [m >= LOWER, m <= UPPER]),
    "cvar": (lambda sizes: ax.cvar(sizes / sizes.sum(), 0.4), lambda m: [m <= REFERENCE / 0.4]),
    "tv": (ax.TVBall(REFERENCE, 0.2), lambda m: [cp.norm1(m - REFERENCE) / 2 <= 0.2]),
    "chi2": (
        lambda sizes: ax.Chi2Ball(sizes, 1.5),
        lambda m: [cp.sum_squares(cp.multiply(m, REFERENCE**-0.5)) <= 1.5],
    ),
    "chi2 of a box": (
        ax.Chi2Ball(SIZES, 1.3, base=ax.Box(LOWER, UPPER)),
        lambda m: [
            m >= LOWER,
            m <= UPPER,
            cp.sum_squares(cp.multiply(m, REFERENCE**-0.5)) <= 1.3,
        ],
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_agnostic_loss_is_that_of_a_linear_program(name: str) -> None:
    mixtures, constraints = SETS[name]
    d = np.repeat(np.arange(p), SIZES.astype(int))
    for seed in range(5):
        losses = rng(seed).exponential(size=len(d)) * (1 + d)[::-1]
        found = audit(None, losses, d, mixtures=mixtures)
        means = np.array([losses[d == k].mean() for k in range(p)])
        np.testing.assert_allclose(found.domain_losses, means)
        assert found.agnostic_loss == pytest.approx(linear_program(means, constraints), rel=1e-6)
        assert found.mixtures.contains(found.worst_mixture)
        assert found.pooled_loss == pytest.approx(REFERENCE @ means)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", SETS)
def test_ends_without_limit_count_only_where_a_mixture_has_the_domain(name: str, seed: int) -> None:
    """Nothing is known of two domains; the reference is a program without them."""
    mixtures, constraints = SETS[name]
    alone = rng(seed).permutation(p)[:2]
    target = mixtures(SIZES) if callable(mixtures) else mixtures or ax.Simplex(p)
    ends = 3 * rng(seed).normal(size=p)
    ends[alone] = 0.0
    # -inf of cvxpy: no mixture of the set does without the two
    expected = linear_program(ends, lambda m: [*constraints(m), m[alone] == 0])
    ends[alone] = -math.inf
    assert worst_case(target, ends) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert worst_case(target, -np.where(np.isinf(ends), ends, 0)) == math.inf  # all sets have one


def test_one_row_makes_the_agnostic_interval_infinite() -> None:
    losses, d = np.append(rng().exponential(size=50), 7.0), ["a"] * 50 + ["b"]
    low, high = audit(None, losses, d).agnostic_interval
    assert 0 < low < 1
    assert high == math.inf


def test_a_domain_that_no_mixture_has_does_not_count() -> None:
    losses = np.append(rng().exponential(size=50) + 5, 0.1)
    d = ["a"] * 50 + ["b"]
    alone = audit(None, losses[:50]).intervals[0]
    found = audit(None, losses, d, mixtures=ax.Point([1, 0]))
    np.testing.assert_allclose(found.agnostic_interval, alone)
    found = audit(None, losses, d, mixtures=ax.Point([0.9, 0.1]))
    assert found.agnostic_interval == (-math.inf, math.inf)


# Reading ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y_true", "y_pred", "kind", "loss"),
    [
        (["a", "b", "a"], ["a", "a", "a"], "labels", "zero_one"),
        ([0, 1, 2], [0, 2, 2], "labels", "zero_one"),
        ([0, 1, 1], [0.0, 1.0, 0.0], "labels", "zero_one"),
        ([False, True, True], [True, True, False], "labels", "zero_one"),
        (["a", "b", "a"], [0.1, 0.5, 1.0], "probabilities", "log"),
        ([0, 1, 1], [0.1, 0.5, 1.0], "probabilities", "log"),
        ([0, 0, 0], [0.1, 0.5, 1.0], "probabilities", "log"),
        ([0, 1, 1], [[1, 0], [0, 1], [1, 0]], "probabilities", "log"),
        ([0, 2, 2], [[0.5, 0, 0.5], [0, 1, 0], [1, 0, 0]], "probabilities", "log"),
        ([0, 1, 2], [0.1, 0.5, 1.0], "values", "squared"),
        ([0.5, 1, 2], [0, 1, 2], "values", "squared"),
        ([0.5, 1, 2], [0.1, 3.5, 1.0], "values", "squared"),
        (None, [0.1, 3.5, 1.0], "losses", "loss"),
    ],
)
def test_what_predictions_are(y_true: Any, y_pred: Any, kind: str, loss: str) -> None:
    found = audit(y_true, y_pred)
    assert (found.kind, found.loss) == (kind, loss)


def test_the_loss_may_be_chosen() -> None:
    y, q = [0, 1, 1, 1], [0.2, 0.4, 0.6, 0.5]
    assert audit(y, q, loss="zero_one").pooled_loss == 0.5  # of two equal classes, the first
    assert audit(y, [0, 1, 1, 3], loss="squared").pooled_loss == 0.5
    assert audit(y, [0, 1, 1, 0], loss="log").pooled_loss == pytest.approx(52 * math.log(2) / 4)
    assert audit(None, q, loss="perplexity").loss_title == "perplexity"


def test_classes_may_be_named_in_any_order() -> None:
    P = [[0.9, 0.1], [0.2, 0.8]]
    swapped = audit(["no", "yes"], P, classes=["yes", "no"])
    assert swapped.pooled_loss == pytest.approx(-(math.log(0.1) + math.log(0.2)) / 2)
    assert audit(["yes", "yes"], P, classes=["no", "yes"]).metrics["accuracy"] == 0.5


def test_the_loss_is_the_one_that_its_name_says() -> None:
    """Or there is none: values of classes, and shares of errors of quantities, mean nothing."""
    y, q, d = [0, 1, 1, 1], np.array([0.2, 0.4, 0.6, 0.9]), ["a", "a", "b", "b"]
    P = np.column_stack([1 - q, q])
    for loss in ("squared", "absolute"):
        with pytest.raises(ValueError, match=f"loss is '{loss}'.* there are 2 columns"):
            audit(y, P, d, loss=loss)
    np.testing.assert_allclose(audit(y, q, d, loss="squared").domain_losses, [0.1, 0.0425])
    for truth, said in (
        ([0, 1, 2], [0.5, 1.5, 9.5]),
        ([0.5, 1.5, 2.5], [0.5, 1.5, 5.5]),
        (["u", "v", "w"], [0.5, 0.2, 0.1]),
    ):
        with pytest.raises(ValueError, match="is true has 3 classes; give labels, 3 columns of"):
            audit(truth, said, ["a", "b", "b"], loss="zero_one")


@pytest.mark.parametrize("said", [[0.5, 1.5, 0.5], [1, 1, 1]])
def test_labels_may_be_fractions(said: list[float]) -> None:
    y = [0.5, 1.5, 1.0]
    found = audit(y, said, loss="zero_one")
    assert found.kind == "labels"
    assert found.pooled_loss == np.mean(np.not_equal(y, said))


P3 = [[0.7, 0.2, 0.1], [0.2, 0.7, 0.1]]


@pytest.mark.parametrize("y", [[1, 2], [1, 1], [2, 2], [0, 3], [-1, 0], ["0", "1"]])
def test_missing_classes_are_not_guessed(y: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"^classes is needed: .* probabilities of 3; name all 3"):
        audit(y, P3)
    for P in ([0.4, 0.7], [[0.4, 0.6], [0.5, 0.5]]):
        if len(set(y)) == 1:
            with pytest.raises(ValueError, match="probabilities of 2; name all 2, in the"):
                audit(y, P)


def test_classes_counted_from_0_need_no_names() -> None:
    losses = -np.log([0.7, 0.7])
    for y in ([0, 1], [0.0, 1.0]):
        assert audit(y, P3).pooled_loss == pytest.approx(losses.mean())
    assert audit([1, 2], P3, classes=[1, 2, 3]).pooled_loss == pytest.approx(losses.mean())
    assert audit([True, True], [0.7, 0.7]).pooled_loss == pytest.approx(losses.mean())
    assert audit([False], [0.3]).pooled_loss == pytest.approx(losses.mean())
    with pytest.raises(ValueError, match=r"true are \[False\], but there are probabilities of 3"):
        audit([False, False], P3)


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (["yes", "no"], ["Y", "N"]),
        (["yes", "no"], ["Y", "Y"]),
        (["True", "False"], ["yes", "no"]),
        ([True, False], [2, 3]),
        ([1, 2], [-1.0, 0.0]),
    ],
)
def test_labels_of_another_coding_are_no_errors_of_the_model(y: list[Any], said: list[Any]) -> None:
    with pytest.raises(
        ValueError, match=r"y_pred has the labels \[.*none of which is a true one \(\["
    ):
        audit(y, said)
    assert audit(y, said, classes=[*y, *said]).pooled_loss == 1
    assert audit(y[:1] * 2, said[:1] * 2).pooled_loss == 1  # of one label nothing can be told
    assert audit(y, [y[0], said[0]]).pooled_loss == 0.5


def test_probabilities_may_be_rounded_as_float32() -> None:
    over, under = np.float32(1 + 1.2e-7), np.float32(-1.2e-7)
    for P in (np.array([over, 0.5]), np.array([[under, over], [0.5, 0.5]])):
        found = audit([1, 0], P)
        assert found.kind == "probabilities"
        assert found.pooled_loss == pytest.approx(math.log(2) / 2)
        assert str(found.row_losses[0].min()) == "0.0"
    with pytest.raises(ValueError, match=r"from 0\.5 to 1\.00001, but what is true has 2 classes"):
        audit([1, 0], [1.00001, 0.5])
    with pytest.raises(ValueError, match=r"from -1e-05 to 1\.00001, which are no probabilities"):
        audit([1, 0], [[-0.00001, 1.00001], [0.5, 0.5]])


def test_given_losses_are_shares_of_errors_if_they_are_said_to_be() -> None:
    wrong = np.array([0, 1, 1, 0, 0, 0])
    assert audit(None, wrong == 1).loss_title == "0-1 loss"
    labels = audit(np.zeros(6, dtype=int), wrong)
    for found in (audit(None, wrong == 1), audit(None, wrong, loss="zero_one")):
        np.testing.assert_array_equal(found.intervals, labels.intervals)
    assert audit(None, wrong).loss == "loss"
    with pytest.raises(
        ValueError, match=r"y_pred has the loss 0\.3, but .*'zero_one'.*; give 0 for"
    ):
        audit(None, [0, 1, 0.3], loss="zero_one")


def same(a: Audit, b: Audit) -> bool:
    return json.dumps(a.to_dict()) == json.dumps(b.to_dict())


def test_every_kind_of_column_is_read_alike() -> None:
    r = rng()
    y, q, d = r.integers(0, 2, 50), r.random(50), r.choice(["a", "b"], 50)
    expected = audit(y, q, d)
    assert same(audit(y.tolist(), q.tolist(), d.tolist()), expected)
    assert same(audit(pd.Series(y), pd.Series(q), pd.Series(d, dtype="category")), expected)
    assert same(audit(pl.Series(y), pl.Series(q), pl.Series(d)), expected)
    assert same(audit(y[:, None], np.column_stack([1 - q, q]), d), expected)
    assert same(audit(y, pd.DataFrame({"no": 1 - q, "yes": q}), d), expected)
    assert same(audit(y, q, np.column_stack([d == "a", d == "b"])), audit(y, q, d == "b")) is False


def test_a_row_may_be_in_several_domains_and_counts_once_in_the_pool() -> None:
    member = pd.DataFrame({"old": [1, 1, 0, 0], "ill": [0, 1, 1, 0]}, dtype=bool)
    found = audit(None, [1.0, 2.0, 4.0, 100.0], member)
    assert found.domain_names == ("old", "ill")
    assert found.domain_losses.tolist() == [1.5, 3]
    assert found.pooled_loss == pytest.approx(7 / 3)
    assert found.n_rows == 3


def test_rows_in_no_domain_are_counted_and_said() -> None:
    member = np.array([[1, 0], [1, 1], [0, 1], [0, 0], [0, 0]], dtype=bool)
    found = audit(None, [1.0, 2.0, 4.0, 100.0, 100.0], member)
    assert found.n_outside == found.to_dict()["n_outside"] == 2
    assert found.pooled_loss == pytest.approx(7 / 3)
    assert "Rows in no domain, which count nowhere here: 2." in found.summary()
    assert "in no domain" not in audit(None, [1.0, 2.0], ["a", "b"]).summary()


@pytest.mark.parametrize(
    "table", [pd.DataFrame, pl.DataFrame, lambda t: csr_array(np.column_stack(list(t.values())))]
)
def test_domains_without_a_row_are_named(table: Any) -> None:
    yes, no = np.array([True, True, True]), np.array([False, False, False])
    for columns, empty in (
        ({"old": yes, "ill": no}, r"('ill'|1)"),
        ({"old": no, "ill": no}, r"('old', 'ill'|0, 1)"),
    ):
        with pytest.raises(ValueError, match=f"domains has no row in {empty}; leave such a column"):
            audit([0, 1, 1], [0, 1, 0], table(columns))
    assert audit([0, 1, 1], [0, 1, 0], table({"old": yes, "ill": yes})).sizes.tolist() == [3, 3]


FEATURES = {"sex": ["F", "F", "M", "M", "M"], "age": [1, 1, 1, 2, 2]}


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame])
def test_features_intersect(kind: Any) -> None:
    found = audit(None, [1.0, 2.0, 3.0, 4.0, 5.0], sensitive_features=kind(FEATURES))
    assert found.domain_names == ("sex=F, age=1", "sex=M, age=1", "sex=M, age=2")
    assert found.domain_losses.tolist() == [1.5, 3, 4.5]
    assert found.sizes.tolist() == [2, 1, 2]
    assert found.n_empty_cells == 1
    assert "1 combinations have no row at all" in found.summary()
    assert "'sex=M, age=1' (1)" in found.summary()


@pytest.mark.parametrize("kind", [list, lambda rows: np.array(rows, dtype=object)])
def test_features_without_names(kind: Any) -> None:
    rows = [list(row) for row in zip(*FEATURES.values(), strict=True)]
    found = audit(None, [1.0, 2.0, 3.0, 4.0, 5.0], sensitive_features=kind(rows))
    assert found.domain_names == ("F, 1", "M, 1", "M, 2")


def test_one_feature_is_a_domain_column() -> None:
    y = [1.0, 2.0, 3.0, 4.0, 5.0]
    for features in (FEATURES["age"], pd.Series(FEATURES["age"]), {"age": FEATURES["age"]}):
        assert same(audit(None, y, sensitive_features=features), audit(None, y, FEATURES["age"]))


def test_values_with_commas_stay_apart() -> None:
    found = audit(None, [1.0, 2.0], sensitive_features=[["a, b", "c"], ["a", "b, c"]])
    assert found.domain_names == ("('a', 'b, c')", "('a, b', 'c')")
    assert found.domain_losses.tolist() == [2, 1]


# found and fix are printed by the command too, where arguments have other names
NAMES_IN_CODE = re.compile(
    r"y_true|y_pred|sensitive_features|\b(loss|classes|domains|mixtures)=|--"
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y_true": [], "y_pred": []}, "y_pred has no rows"),
        ({"y_true": [1], "y_pred": "x"}, "y_pred has no rows"),
        ({"y_true": [1, 0], "y_pred": [1]}, "y_true has 2 rows, but 1 were predicted"),
        ({"y_pred": np.array(3)}, "y_pred has no rows"),
        ({"y_true": 3}, "y_true is 3; give one entry for each of the 2 rows"),
        ({"domains": 3}, "domains is 3; give one entry for each of the 2 rows"),
        ({"domains": "ab"}, "domains is 'ab'; give one entry"),
        ({"domains": np.array(3)}, r"domains is array\(3\); give one entry"),
        ({"sensitive_features": "ab"}, "sensitive_features is 'ab'; give one entry"),
        ({"sensitive_features": 3}, "sensitive_features is 3; give one entry"),
        ({"sensitive_features": {"s": "ab"}}, "sensitive_features is 'ab'; give one entry"),
        ({"sensitive_features": []}, "sensitive_features has 0 rows, but 2 were predicted"),
        ({"sensitive_features": {"a", "b"}}, r"sensitive_features has shape \(\)"),
        ({"sensitive_features": [["a", "b"], ["a"]]}, "sensitive_features has .*'list' entries"),
        ({"sensitive_features": np.zeros((2, 0))}, "sensitive_features has no columns"),
        ({"confidence": "0.95"}, "confidence is '0.95'; give one inside"),
        ({"confidence": None}, "confidence is None; give one inside"),
        ({"domains": ["a"]}, "domains has 1 rows, but 2 were predicted"),
        (
            {"sensitive_features": {"s": ["a"]}},
            "sensitive_features has 1 rows, but 2 were predicted",
        ),
        ({"sensitive_features": {}}, "sensitive_features has no columns"),
        ({"domains": [0, 1], "sensitive_features": [0, 1]}, "both given; give one"),
        ({"domains": ["a", None]}, "domains has missing entries"),
        ({"y_true": ["a", None], "y_pred": ["a", "a"]}, "y_true has missing entries"),
        ({"y_true": None, "y_pred": [0.5, math.nan]}, "y_pred has 1 missing or infinite"),
        ({"y_pred": [0.5, math.inf]}, "y_pred has 1 missing or infinite"),
        (
            {"y_true": [0.5, 1e200], "y_pred": [1, 2]},
            "y_pred differs from what is true by up to 1e.200, whose",
        ),
        ({"confidence": 95}, r"confidence is 95; give one inside \(0, 1\)"),
        ({"loss": "gini"}, "loss is 'gini'; give one of 'zero_one'"),
        ({"mixtures": ax.Simplex(3)}, "over 3 domains, but the rows have 2"),
        ({"mixtures": "all"}, "mixtures is 'all'"),
        ({"y_pred": [-1.5, 2.5]}, "from -1.5 to 2.5, but what is true has 2 classes"),
        (
            {"y_true": ["a", "b"], "y_pred": [2.5, 0.5]},
            "from 0.5 to 2.5, but what is true has 2 classes",
        ),
        ({"y_pred": [2, 3], "loss": "log"}, "which are no probabilities"),
        ({"y_pred": [[0.5, 0.4], [0.5, 0.5]]}, r"adds up to 0.9 \(row 0\)"),
        (
            {"y_true": [3, 3], "y_pred": [0.5, 0.6]},
            r"classes is needed: .*\[3\], but .* of 2; name all 2",
        ),
        (
            {"y_pred": [[0.5, 0.5]] * 2, "classes": ["x", "y"]},
            r"^classes is \['x', 'y'\]: .* name all 2",
        ),
        ({"y_true": ["a", "b"], "y_pred": [0, 1]}, "give both in the same form"),
        ({"y_pred": np.array([0.5, "x"], dtype=object)}, "y_pred mixes float and str"),
        ({"y_pred": [[0.5, 0.5]] * 2, "classes": 3}, r"^classes is \[3\]: .* name all 2"),
        ({"y_true": ["a", "b"], "loss": "squared"}, "y_true has entries that are not numbers"),
    ],
)
def test_bad_input_is_named_and_nothing_else(arguments: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"y_true": [1, 0], "y_pred": [1, 1]}
    if "sensitive_features" not in arguments:
        good["domains"] = ["a", "b"]
    if "y_pred" in arguments and np.shape(arguments["y_pred"])[:1] != (2,):
        good.pop("domains")
    with pytest.raises(InputError, match=message) as caught:
        audit(**good | arguments)
    assert caught.value.argument in signature(audit).parameters
    assert not NAMES_IN_CODE.search(f"{caught.value.found}; {caught.value.fix}")


# For people and machines ------------------------------------------------------------------------


@pytest.fixture
def found() -> Audit:
    y, d = [1, 0, 1, 1, 0, 1], ["<b>north</b>", "[red]south", "[red]south"] * 2
    return audit(y, [0.9, 0.4, 0.4, 0.6, 0.7, 0.8], d)


def test_frame_and_dict_hold_the_same_numbers(found: Audit) -> None:
    frame, rows = found.to_frame(), found.to_dict()["domains"]
    assert frame.index.tolist() == list(found.domain_names)
    assert frame["loss"].tolist() == found.domain_losses.tolist()
    for k, row in enumerate(rows):
        finite = {c: v for c, v in row.items() if c != "domain" and v is not None}
        assert finite == {c: frame.iloc[k][c] for c in finite}
    np.testing.assert_array_equal(
        frame[["accuracy_low", "accuracy_high"]], found.metric_intervals["accuracy"]
    )


def test_dict_is_strict_json(found: Audit) -> None:
    json.dumps(found.to_dict(), allow_nan=False)
    alone = audit([1, 0], [0.9, 0.4], ["a", "b"]).to_dict()
    json.dumps(alone, allow_nan=False)
    assert alone["domains"][0]["auc"] is None
    endless = audit([1.5, 0], [0.9, 0.4], ["a", "b"]).to_dict()
    json.dumps(endless, allow_nan=False)
    assert endless["agnostic_interval"][1] is None


def test_tables_show_names_as_they_are(found: Audit) -> None:
    table = shown(found)
    assert "<b>north</b>" in table
    assert "[red]south" in table
    assert f"{found.agnostic_loss:.4f}" in table
    page = found._repr_html_()
    assert "&lt;b&gt;north" in page
    assert "<b>" not in page
    assert f"{found.pooled_loss:.4f}" in page


def test_summary_says_the_numbers(found: Audit) -> None:
    text = found.summary()
    for number in (found.pooled_loss, found.agnostic_loss, *found.agnostic_interval):
        assert f"{number:.4f}" in text
    assert "100% '[red]south'" in text
    assert "6 rows in 2 domains" in text
    assert "Bias inside the data" in text
    alone = audit(None, [1.0, 2.0, 4.0]).summary()
    assert "worst mixture" not in alone


def test_the_kind_of_every_interval_is_said() -> None:
    y, q, d = [1, 0, 1, 1], np.array([0.9, 0.4, 0.3, 0.8]), ["a", "a", "b", "b"]
    for found, of_loss, of_worst in (
        (audit(y, q > 0.5, d), "exact", "guaranteed"),
        (audit(y, q, d), "guaranteed", "guaranteed"),
        (audit(q, q + 0.5, d), "approximate", "approximate"),
        (audit(None, q, d), "approximate", "approximate"),
    ):
        kinds = found.interval_kinds
        assert set(kinds) == {"loss", "pooled_loss", "agnostic_loss", *found.metrics}
        assert (kinds["loss"], kinds["pooled_loss"]) == (of_loss, of_loss)
        assert kinds["agnostic_loss"] == of_worst
        assert {kinds[m] for m in found.metrics} <= {"exact", "approximate"}
        assert found.to_dict()["interval_kinds"] == kinds
        assert f"rows as they are (95% interval ({of_loss}) " in found.summary()
        assert f"(95% interval ({of_worst}) " in found.summary()
        assert f"95% interval ({of_worst})" in shown(found)  # the least sure one of the column
    alone = audit(y, [1, 0, 1, 0])
    assert alone.interval_kinds["agnostic_loss"] == "exact"
    assert alone.agnostic_interval == tuple(alone.intervals[0])
    assert compare(alone, alone).to_dict()["difference_kind"] == "guaranteed"


@pytest.mark.parametrize(("unit", "said"), [(1.0, "2.5000"), (1e-8, "2.5e-08"), (1e9, "2.5e+09")])
def test_numbers_can_be_read_in_any_unit(unit: float, said: str) -> None:
    a = audit(None, unit * np.array([1.0, 2.0, 4.0, 3.0]))
    assert said in a.summary()
    assert said in shown(a)
    zero = audit(None, [0.0, 0.0, 0.0, 0.0])
    assert f"+{said}" in shown(compare(zero, a))


def test_summary_of_a_mixture_of_many() -> None:
    box = ax.Box(np.zeros(6), np.full(6, 0.25))
    text = audit(None, np.arange(6.0), list("abcdef"), mixtures=box).summary()
    assert "25% 'f'" not in text  # a tie of four is listed in the order of the names
    assert "25% 'c', 25% 'd', 25% 'e' and 25% others" in text


def test_comparison_is_the_difference_of_two_audits() -> None:
    d = ["x", "x", "x", "y"]
    a, b = audit(None, [0.0, 0.0, 0.3, 3.0], d), audit(None, [1.0, 1.0, 1.3, 0.5], d)
    found = compare(a, b)
    np.testing.assert_allclose(found.differences, [1.0, -2.5])
    assert found.price == pytest.approx((3.8 - 3.3) / 4)
    assert found.gain == pytest.approx(3.0 - 1.1)
    assert found.to_frame()["difference"].tolist() == found.differences.tolist()
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["gain"] == found.gain
    text = found.summary()
    assert "the loss of b is 0.1250 more than that of a (0.9500 against 0.8250)" in text
    assert "on the worst mixture it is 1.9000 less (1.1000, 95% interval" in text
    assert f"against 3.0000, {a.agnostic_interval[0]:.4f} to inf)." in text  # one row
    assert "Few rows, so little is known: 'x' (3), 'y' (1)." in text
    assert "pays most is 'x': 1.0000 more" in text
    assert "+1.0000" in shown(found)
    assert "-2.5000" in found._repr_html_()
    back = compare(b, a).summary()
    assert "0.1250 less than that of a" in back
    assert "it is 1.9000 more" in back


def test_differences_have_the_intervals_of_paired_rows() -> None:
    r = rng(6)
    d = np.repeat(["x", "y"], [40, 60])
    hard, noise = r.exponential(size=100), np.concatenate([r.normal(size=20), r.normal(size=30)])
    noise = np.concatenate([noise[:20], -noise[:20], noise[20:], -noise[20:]])  # no skewness
    a, b = (
        audit(None, hard, d, confidence=0.9),
        audit(None, hard + 0.1 * noise + 0.3, d[:], confidence=0.9),
    )
    found = compare(a, b)
    for k, name in enumerate("xy"):
        students = ttest_rel((hard + 0.1 * noise + 0.3)[d == name], hard[d == name])
        ends = students.confidence_interval(0.9)
        np.testing.assert_allclose(found.difference_intervals[k], [ends.low, ends.high])
    assert (
        np.ptp(found.difference_intervals, axis=1).max() < 0.3 * np.ptp(a.intervals, axis=1).min()
    )
    frame, rows = found.to_frame(), found.to_dict()["difference_intervals"]
    np.testing.assert_allclose(frame[["difference_low", "difference_high"]], list(rows.values()))
    k = int(np.argmax(found.differences))
    low, high = found.difference_intervals[k]
    assert f"more (90% interval (approximate) {low:.4f} to {high:.4f})" in found.summary()


def test_intervals_of_differences_cover() -> None:
    """Errors of two classifiers that share most of them: P(only b) − P(only a) = 0.12 − 0.05."""
    n, draws = 100, 1000
    u = rng(7).random(n * draws)
    d = np.repeat(np.arange(draws), n)
    both, only_b = u < 0.2, (u >= 0.2) & (u < 0.32)
    only_a = u > 0.95
    y = np.ones(n * draws, dtype=int)
    found = compare(audit(y, 1 - (both | only_a), d), audit(y, 1 - (both | only_b), d))
    low, high = found.difference_intervals.T
    assert np.mean((low <= 0.07) & (high >= 0.07)) >= 0.95
    students = 2 * 1.984 * math.sqrt((0.17 - 0.07**2) / n)
    assert np.median(high - low) < 2 * students


def test_equal_differences_bound_the_share_of_others() -> None:
    """Twenty rows on which two models agree: tail = (1 − share)²⁰, each worth ±1 at most."""
    y, d = [0, 1] * 20, ["x", "y"] * 20
    a, b = audit(y, [0] * 40, d), audit(y, [0, 1] * 10 + [0, 0] * 10, d)
    found = compare(a, b).difference_intervals
    assert found[0, 0] == -found[0, 1]
    assert 1 - 0.025 ** (1 / 20) <= found[0, 1] <= 1 - 0.0125 ** (1 / 20)
    assert -1 <= found[1, 0] < found[1, 1] < 0
    values = audit(np.arange(40) + 0.5, np.arange(40), d)
    assert np.isinf(compare(values, values).difference_intervals).all()


def test_a_row_in_two_domains_is_paired_in_both() -> None:
    member = np.array([[1, 0], [1, 1], [1, 1], [0, 1], [0, 0]], dtype=bool)
    x, z = np.array([1.0, 2, 4, 8, 99]), np.array([3.0, 3, 3, 3, 0])
    found = compare(audit(None, x, member), audit(None, z, member))
    for k, rows in enumerate(([0, 1, 2], [1, 2, 3])):
        expected = audit(None, (z - x)[rows]).intervals[0]
        np.testing.assert_allclose(found.difference_intervals[k], expected)


def test_compared_models_may_have_names() -> None:
    y, d = [1, 0, 1, 1], ["x", "x", "y", "y"]
    old, new = audit(y, [1, 0, 0, 0], d), audit(y, [1, 1, 1, 0], d)
    found = compare(old, new, names=("old", "new"))
    assert "the 0-1 loss of new is 0.0000 more than that of old" in found.summary()
    assert found.to_frame().columns.tolist() == [
        "old",
        "new",
        "difference",
        "difference_low",
        "difference_high",
    ]
    table = [line.split() for line in shown(found).splitlines()]
    assert ["y", "2", "1.0000", "0.5000", "-0.5000", "0.0000", "0.5000"] in table
    assert ["all", "rows", "4", "0.5000", "0.5000", "+0.0000", "0.5000", "0.5000"] in table
    assert ["worst", "mixture", "1.0000", "0.5000", "-0.5000", "-", "-"] in table


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (audit([1, 0], [1, 1], ["a", "c"]), "different domains"),
        (audit([1, 0, 0], [1, 1, 1], ["a", "b", "b"]), "different sizes"),
        (audit([1, 0], [0.5, 0.6], ["a", "b"]), "different losses: 'zero_one' and 'log'"),
        (audit([1, 0], [1, 1], ["a", "b"], mixtures=ax.Point([0.5, 0.5])), "different mixtures"),
        (audit([1, 0], [1, 1], ["a", "b"], confidence=0.9), "different confidences: 0.95 and 0.9"),
    ],
)
def test_audits_of_different_things_are_not_compared(other: Audit, message: str) -> None:
    with pytest.raises(InputError, match=f"^a and the other audit have {message}"):
        compare(audit([1, 0], [1, 1], ["a", "b"]), other)


def test_two_audits_and_two_names_are_compared() -> None:
    found = audit([1, 0], [1, 1], ["a", "b"])
    wrong: Any = 3
    with pytest.raises(InputError, match=r"^b is 3; give what audit\(\) returned"):
        compare(found, wrong)
    with pytest.raises(InputError, match=r"^a is 3; give what audit\(\) returned"):
        compare(wrong, found)
    for names in (("m", "m"), ("m",), ("k", "l", "m"), "km", 3):
        with pytest.raises(InputError, match=r"^names is .*; give two different names"):
            compare(found, found, names=names)  # type: ignore[arg-type]
    assert list(compare(found, found).to_dict()["audits"]) == ["a", "b"]


def test_a_difference_of_two_kinds_of_losses_holds_its_own_estimate() -> None:
    groups = list("aaabbb")
    first = audit([0, 1] * 3, [0.5] * 6, groups)
    second = audit(None, [50.0] * 6, groups, loss="log")
    found = compare(first, second)
    ends = found.difference_intervals
    np.testing.assert_array_less(ends[:, 0], found.differences)
    np.testing.assert_array_less(found.differences, ends[:, 1])
