"""What is recommended is a value: every number against slow loops, and no sentences."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from out_of_fold_rows import drawn, with_experts
from scipy.stats import norm

import anymix as ax
from anymix.selection.one_fit import OutOfFold, cross_fitted, decide
from anymix.selection.recommendation import Recommendation, recommendation_of

Array = NDArray[np.float64]

NAMES = np.array(["x", "y", "z"])


def made(data: OutOfFold, price: float = math.inf) -> tuple[Recommendation, dict[str, Array]]:
    decision = decide(data, ax.Simplex(3), price)
    predicted = cross_fitted(data, ax.Simplex(3), price)
    found = recommendation_of(
        data, decision, predicted, decision.chosen, NAMES, {"fit": 1.5}, price
    )
    return found, predicted


@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("families", [1, 2])
def test_every_number(squared: bool, families: int) -> None:
    data = drawn(7, n=150, squared=squared, families=families)
    found, predicted = made(data)
    decision = decide(data, ax.Simplex(3), math.inf)
    assert found.names == tuple(predicted)
    assert {"reference", "recommended", "t=1/16", "t=1/2"} < set(found.names)
    assert found.reference == decision.reference
    assert found.chosen == decision.chosen
    assert found.with_domain == ("blend with domain" if families == 2 else "first with domain")
    assert found.blend == (decision.w, decision.w_domain)
    assert found.change == decision.change
    assert found.seconds == {"fit": 1.5}
    assert found.sizes.tolist() == [int(np.sum(data.k == k)) for k in range(3)]
    first = data.losses(predicted["first"])
    bound = norm.ppf(1 - 0.025 / 3)
    guess = data.losses(data.constant)
    for c, values in enumerate(predicted.values()):
        row, variance = data.losses(values), 0.0
        for k in range(3):
            mine = data.k == k
            apart = row[mine] - first[mine]
            error = apart.std(ddof=1) / math.sqrt(mine.sum())
            variance += (mine.mean() * error) ** 2
            assert found.losses[c, k] == pytest.approx(row[mine].mean())
            assert found.differences[c, k] == pytest.approx(apart.mean())
            assert found.errors[c, k] == pytest.approx(error)
            sign = np.sign(apart.mean()) if abs(apart.mean()) > bound * error else 0
            assert found.significance[c, k] == sign
            assert found.constant[k] == pytest.approx(guess[mine].mean())
        assert found.pooled[c] == pytest.approx(row.mean())
        assert found.pooled_differences[c] == pytest.approx((row - first).mean())
        assert found.pooled_errors[c] == pytest.approx(math.sqrt(variance))
        assert found.worst[c] == found.losses[c].argmax()


def test_weights_are_those_of_means() -> None:
    data = drawn(7, weighted=True)
    found, predicted = made(data)
    row = data.losses(predicted["blend"])
    c = found.place("blend")
    assert found.pooled[c] == pytest.approx(np.average(row, weights=data.weight))
    mine = data.k == 2
    assert found.losses[c, 2] == pytest.approx(np.average(row[mine], weights=data.weight[mine]))


def test_the_three_rows_of_the_table() -> None:
    found, _ = made(drawn(7))
    rows = found.table
    assert [row["model"] for row in rows] == ["first", found.chosen, "blend with domain"]
    for row, name in zip(rows, ("first", "recommended", "blend with domain"), strict=True):
        c = found.place(name)
        k = int(found.losses[c].argmax())
        who = found.significance[c]
        assert row == {
            "model": row["model"],
            "worst_domain": NAMES[k],
            "worst_loss": found.losses[c, k],
            "worst_difference": found.losses[c].max() - found.losses[0].max(),
            "pooled_loss": found.pooled[c],
            "pooled_difference": found.pooled_differences[c],
            "pooled_error": found.pooled_errors[c],
            "gains": NAMES[who < 0].tolist(),
            "pays": NAMES[who > 0].tolist(),
            "worse_than_constant": NAMES[found.losses[c] > found.constant].tolist(),
        }
    assert rows[2]["gains"]  # not all of these lists are empty
    assert rows[0]["worst_difference"] == 0


def test_three_rows_where_the_reference_is_kept() -> None:
    """Experts as bad as can be: the ordinary model is the recommended one."""
    found, _ = made(with_experts(drawn(7), 10.0), price=0.0)
    assert found.chosen == found.reference
    assert [row["model"] for row in found.table] == ["first", found.chosen, "blend with domain"]


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return texts(list(value.items()))
    if isinstance(value, (list, tuple)):
        return [text for each in value for text in texts(each)]
    return texts(value.tolist()) if isinstance(value, np.ndarray) else []


def test_it_holds_no_sentence() -> None:
    """Only names of models, domains and columns: of three words at most, without a full stop."""
    found, _ = made(drawn(7))
    held = [getattr(found, field.name) for field in fields(found)]
    said = texts([*held, found.table])
    assert "recommended" in said
    assert all(len(text.split()) <= 3 and "." not in text for text in said)


def test_the_reference_kept_has_its_own_figures() -> None:
    data = drawn(7, n=150)
    found, _ = made(data)
    kept = found.kept()
    own, recommended = kept.row("reference"), kept.row("recommended")
    assert kept.chosen == found.reference
    assert {**own, "model": ""} == {**recommended, "model": ""}
    assert own == found.row("reference")
    assert kept.table[1]["model"] == found.reference
    assert kept.row("t=1/4") == found.row("t=1/4")
