"""What an audit says, to people and to machines."""

import json
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import anymix as ax
from anymix.auditing import Audit, audit, compare


def shown(thing: Any) -> str:
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        console.print(thing)
    return capture.get()


@pytest.fixture
def found() -> Audit:
    y, d = [1, 0, 1, 1, 0, 1], ["<b>north</b>", "[red]south", "[red]south"] * 2
    return audit(y, [0.9, 0.4, 0.4, 0.6, 0.7, 0.8], d)


def test_equal_losses_have_no_largest_one() -> None:
    text = audit([1, 0, 1, 0], [1, 0, 1, 0], list("aabb")).summary()
    assert "It is 0.0000 on every domain." in text
    assert "largest" not in text


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
    for number in (found.pooled_loss, found.agnostic_loss):
        assert f"{number:.4f}" in text
    assert "100% '[red]south'" in text
    assert "It is largest on '[red]south'" in text
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
        once = of_loss != "guaranteed"
        assert (f"rows as they are (95% interval ({of_loss}) " in found.summary()) == once
        assert (f"(95% interval ({of_worst}) " in found.summary()) == once
        assert f"95% interval ({of_worst})" in shown(found)  # the least sure one of the column
    alone = audit(y, [1, 0, 1, 0])
    assert alone.interval_kinds["agnostic_loss"] == "exact"
    assert alone.agnostic_interval == tuple(alone.intervals[0])
    assert compare(alone, alone).to_dict()["difference_kind"] == "guaranteed"


def test_a_guaranteed_interval_is_told_once_and_where_it_says_something() -> None:
    r = np.random.default_rng(0)
    q, d = r.uniform(0.05, 0.95, 4000), np.arange(4000) % 2
    y = (r.random(4000) < q).astype(int)
    many, few = audit(y, q, d), audit(y[:40], q[:40], d[:40])
    low, high = many.agnostic_interval
    assert many.summary().count("95% interval") == 1
    assert f"{low:.4f} to {high:.4f}" in many.summary()
    assert "too wide" not in shown(many)
    assert few.agnostic_interval[1] > 3  # of 20 rows each, as they may be as bad as 36
    assert "95% interval" not in few.summary()
    assert "too few rows for an interval that says something" in few.summary()
    assert shown(few).count("too wide") == 4  # two domains, all rows, the worst mixture
    assert few.to_dict()["agnostic_interval"] == list(few.agnostic_interval)  # for machines
    pair = compare(few, few).summary() + compare(many, many).summary()
    assert f"{few.agnostic_interval[1]:.4f}" not in pair
    assert f"{high:.4f}" in pair
    errors = audit(y[:6], np.ones(6, int), [0] * 6)
    assert errors.tells(0.0, (0.0, 1.0))  # exact ones are always told


@pytest.mark.parametrize(
    ("unit", "said"), [(1.0, "2.5000"), (1e-8, "2.5e-08"), (1e9, "2,500,000,000")]
)
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
