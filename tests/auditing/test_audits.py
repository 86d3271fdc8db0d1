"""Audits against what other libraries measure, and what they refuse."""

import json
import math
import re
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from fairlearn.metrics import MetricFrame
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    mean_absolute_error,
    roc_auc_score,
    root_mean_squared_error,
)

import anymix as ax
from anymix.auditing import Audit, audit
from anymix.errors import InputError


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


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


p = 5


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
        ({"mixtures": ax.Simplex(3)}, "over 3 domains but the data have 2"),
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


@pytest.fixture
def found() -> Audit:
    y, d = [1, 0, 1, 1, 0, 1], ["<b>north</b>", "[red]south", "[red]south"] * 2
    return audit(y, [0.9, 0.4, 0.4, 0.6, 0.7, 0.8], d)
