"""The picture of a choice: what stands where."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anymix as ax
from anymix.reporting import draw_recommendation
from anymix.reporting.choice_pictures import choice_figure


@pytest.fixture(scope="module", params=["classes", "numbers"])
def choice(request: pytest.FixtureRequest) -> Any:
    rng = np.random.default_rng(0)
    d = np.repeat(["a", "b"], [300, 60])
    X = rng.normal(size=(360, 2)) + (d == "b")[:, None] * [0, 2]
    z = np.where(d == "a", X[:, 0], -X[:, 0]) + rng.normal(size=360)
    if request.param == "numbers":
        return ax.AnyMixRegressor("linear").fit(X, z, domains=d).recommendation_
    return ax.AnyMixClassifier("linear").fit(X, z > 0, domains=d).recommendation_


def test_points_price_and_ring_stand_where_the_numbers_are(choice: Any) -> None:
    axes = choice_figure(choice).axes[0]
    unit = np.sqrt if choice.squared else np.positive
    expected = {
        (round(float(x), 9), round(float(y), 9))
        for x, y in zip(unit(choice.pooled), unit(choice.losses.max(axis=1)), strict=True)
    }
    lines: dict[Any, Any] = {line.get_label(): line for line in axes.lines}
    labels = ("does not look at the domain", "infers the domain: the dial t", "is told the domain")
    drawn = [xy for name in labels for xy in lines[name].get_xydata()]
    assert len(drawn) == 1 + 4 + 1
    assert {(round(float(x), 9), round(float(y), 9)) for x, y in drawn} <= expected
    ring = lines["recommended"].get_xydata()[0]
    c = choice.place(choice.chosen)
    assert ring == pytest.approx([unit(choice.pooled[c]), unit(choice.losses[c].max())])
    price: Any = next(line for line in axes.lines if line.get_linestyle() == "--")
    most = 1.05 * unit(choice.pooled[choice.place("reference")])
    assert price.get_xdata() == pytest.approx([most, most])


def test_without_a_price_there_is_no_line(choice: Any) -> None:
    axes = choice_figure(replace(choice, price=np.inf)).axes[0]
    assert not [line for line in axes.lines if line.get_linestyle() == "--"]


def test_one_domain_is_drawn_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    model = ax.AnyMixRegressor("linear").fit(X, X[:, 0], domains=None)
    assert draw_recommendation(model.recommendation_, tmp_path / "one.png").stat().st_size > 1000
