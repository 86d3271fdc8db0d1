"""Conditions on audits."""

import numpy as np
import pytest

import anymix as ax
from anymix.auditing.conditions import condition
from anymix.errors import InputError

R = np.random.default_rng(0)
D = R.choice(["a", "b"], 400)
Y = R.random(400) < 0.5
Q = np.clip(np.where(Y, 0.7, 0.3) + 0.3 * R.normal(size=400), 0.02, 0.98)
FOUND = ax.audit(Y, Q, D, guarantee=0.1, mixtures=ax.Box([0.2, 0.2], [0.8, 0.8]))


def value(text: str) -> float:
    """The number that a condition is about."""
    return condition(f"{text} < 1")._value(FOUND)


def test_what_the_words_mean() -> None:
    accuracy = FOUND.metrics["accuracy"]
    low, high = sorted(accuracy)
    assert value("worst accuracy") == pytest.approx(0.8 * low + 0.2 * high)
    assert value("worst log loss") == value("Worst  loss") == FOUND.agnostic_loss
    assert value("average log_loss") == FOUND.pooled_loss
    assert value("average accuracy") == FOUND.pooled_metrics["accuracy"]
    assert value("worst auc") == FOUND.metrics["auc"].min()
    assert value("worst calibration error") == FOUND.metrics["calibration_error"].max()
    assert value("guaranteed worst log loss") == FOUND.guarantees["loss"].value
    assert value("guaranteed worst accuracy") == 1 - FOUND.guarantees["accuracy"].value
    assert value("guaranteed worst accuracy") < value("worst accuracy")
    values = ax.audit([1.5, 2.0, 3.5], [1.0, 2.5, 3.0], ["a", "a", "b"])
    rmse = condition("worst rmse > 0.1")._value(values)
    assert rmse == pytest.approx(values.metrics["rmse"].max())
    assert condition("worst mae >= 0.5").failure(values) is not None


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("worst accuracy < 100%", True),
        ("worst accuracy<0.1", False),
        ("worst accuracy > .5", True),
        ("average log loss <= 1e-3", False),
        ("average log loss >= 1e-3", True),
    ],
)
def test_when_it_fails(text: str, fails: bool) -> None:
    said = condition(text).failure(FOUND)
    assert (said is not None) == fails
    if said is not None:
        assert text.split()[0] in said
        assert "which is" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("accuracy < 0.7", "write it as in 'worst accuracy < 0.7'"),
        ("worst accuracy", "write it as in"),
        ("worst accuracy = 0.7", "write it as in"),
        ("worst accuracy < seven", "write it as in"),
        ("worst accuracy < 1e999", "write it as in"),
        ("worst accuracy < 0.7.1", "write it as in"),
        ("", "write it as in"),
        (
            "worst f1 < 0.7",
            "is about 'f1'; here there are: log loss, accuracy, auc, .* as in 'worst",
        ),
        ("worst accuracy < 0.7 and worst auc < 0.6", "write it as in"),
        ("worst accuracy !< 0.7", "write it as in"),
        ("guaranteed worst auc < 0.7", "guaranteed are the worst loss and the worst accuracy"),
        ("guaranteed average loss < 1", "guaranteed are the worst loss and the worst accuracy"),
    ],
)
def test_a_wrong_condition_shows_a_right_one(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        condition(text).failure(FOUND)


def test_auc_and_calibration_are_of_single_domains_in_the_set_and_say_so() -> None:
    bad = np.where(D == "a", 1 - Q, Q)  # 'a' is served badly, and in no mixture
    only = ax.audit(Y, bad, D, mixtures=ax.Point([0.0, 1.0]))
    asked = condition("worst auc < 0.99")
    assert asked._value(only) == only.metrics["auc"][1] > only.metrics["auc"][0]
    assert "worst AUC of a single domain is" in str(asked.failure(only))
    assert "single" not in str(condition("worst accuracy < 1").failure(only))
    calibration = condition("worst calibration error > 0")
    assert calibration._value(only) == only.metrics["calibration_error"][1]
    assert "of a single domain" in str(calibration.failure(only))


def test_nothing_is_guaranteed_that_was_not_asked_for() -> None:
    with pytest.raises(InputError, match="but nothing was guaranteed; audit with guarantee="):
        condition("guaranteed worst loss > 1").failure(ax.audit(Y, Q, D))
