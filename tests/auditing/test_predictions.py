"""What predictions are read as."""

import math
from typing import Any

import numpy as np
import pytest

from anymix.auditing import Audit, audit


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


@pytest.fixture
def found() -> Audit:
    y, d = [1, 0, 1, 1, 0, 1], ["<b>north</b>", "[red]south", "[red]south"] * 2
    return audit(y, [0.9, 0.4, 0.4, 0.6, 0.7, 0.8], d)
