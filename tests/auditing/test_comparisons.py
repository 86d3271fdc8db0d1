"""Two models on the same rows."""

import json
import math
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy.special import expit
from scipy.stats import norm, ttest_rel

import anymix as ax
from anymix.auditing import Audit, audit, compare
from anymix.auditing.intervals import bounded
from anymix.auditing.measures import FLOOR
from anymix.errors import InputError


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def shown(thing: Any) -> str:
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        console.print(thing)
    return capture.get()


@pytest.fixture
def found() -> Audit:
    y, d = [1, 0, 1, 1, 0, 1], ["<b>north</b>", "[red]south", "[red]south"] * 2
    return audit(y, [0.9, 0.4, 0.4, 0.6, 0.7, 0.8], d)


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


def test_losses_with_different_bounds_are_not_compared() -> None:
    y, q, d = [1, 0, 1, 1], [0.9, 0.4, 0.3, 0.8], ["a", "a", "b", "b"]
    cut = audit(y, q, d, loss_bound=1.0)
    with pytest.raises(ValueError, match="different bounds of the losses"):
        compare(audit(y, q, d), cut)
    first, second = (audit(None, x, d, loss_bound=2.0) for x in ([0.1, 0.2, 1.0, 0.3], [0.1] * 4))
    assert np.all(
        np.abs(compare(first, second).difference_intervals) <= 2
    )  # as wide as losses can be


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
    low, high = found.joint_intervals[k]
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
    """Twenty rows on which two models agree: tail/4 = (1 − share)²⁰, each worth ±1 at most."""
    y, d = [0, 1] * 20, ["x", "y"] * 20
    a, b = audit(y, [0] * 40, d), audit(y, [0, 1] * 10 + [0, 0] * 10, d)
    found = compare(a, b).difference_intervals
    assert found[0, 0] == -found[0, 1]
    assert found[0, 1] == pytest.approx(1 - (0.025 / 4) ** (1 / 20))
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


LEVEL = 0.95


def covered(ends: Any, truth: float) -> float:
    return float(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])))


def test_bounded_interval_covers_rows_of_different_distributions() -> None:
    """Weighted, 10 strata of 5 rows with P(1) from 0 to 1."""
    p, w = np.repeat(np.linspace(0, 1, 10), 5), rng().dirichlet(np.ones(50))
    ends = [
        bounded((rng(seed).random(50) < p).astype(float), 0.95, 0.0, 1.0, w)[1:]
        for seed in range(400)
    ]
    assert covered(np.array(ends), float(w @ p)) >= 0.95


CONFIDENT = 1e-6  # says so where it happens to 2 % of the rows


def test_difference_of_log_losses_of_a_confident_classifier_is_covered() -> None:
    n = 20
    y, d = rng(11).random(200 * n) < 0.02, np.repeat(np.arange(200), n)
    careful, sure = (audit(y, np.full(len(y), q), d) for q in (0.02, CONFIDENT))
    pair = compare(careful, sure)
    truth = 0.02 * math.log(0.02 / CONFIDENT) + 0.98 * math.log(0.98 / (1 - CONFIDENT))
    assert covered(pair.difference_intervals, truth) >= LEVEL
    assert pair.difference_kind == "approximate"


@pytest.mark.parametrize(("n", "least"), [(20, 0.9), (200, 0.93)])
def test_differences_of_log_losses_of_two_sure_models_are_covered_and_narrow(
    n: int, least: float
) -> None:
    """Log-odds 2 s and 2.2 s where s is true: the truth by a sum over a grid of s ~ N(0, 2²)."""
    s = 2 * rng(n).normal(size=500 * n)
    y, d = rng(n + 1).random(len(s)) < expit(s), np.repeat(np.arange(500), n)
    a, b = (audit(y, expit(slope * s), d) for slope in (2.0, 2.2))
    grid = np.linspace(-18, 18, 7201)
    w = norm.pdf(grid, scale=2) * 36 / 7200
    gain = [
        np.logaddexp(0, -sign * 2.2 * grid) - np.logaddexp(0, -2 * sign * grid) for sign in (1, -1)
    ]
    truth = float(w @ (expit(grid) * gain[0] + expit(-grid) * gain[1]))
    found = compare(a, b).difference_intervals
    assert covered(found, truth) >= least
    rows = np.concatenate(b.row_losses) - np.concatenate(a.row_losses)
    assert np.median(np.ptp(found, axis=1)) < 5 * 1.96 * rows.std() / math.sqrt(n)


def test_rows_without_a_spread_have_the_guaranteed_difference_of_log_losses() -> None:
    """Two models that say the same of 50 rows, or 50 rows of which all are alike."""
    y = np.zeros(50, dtype=bool)
    same, other = audit(y, rng().random(50) / 2), audit(y, np.full(50, 0.3))
    bound = -math.log(FLOOR)
    for a, b in ((same, same), (other, audit(y, np.full(50, 0.4)))):
        pair = compare(a, b)
        d, shrunk = float(b.row_losses[0][0] - a.row_losses[0][0]), 0.025 ** (1 / 50)
        expected = [(d + bound) * shrunk - bound, bound - (bound - d) * shrunk]
        np.testing.assert_allclose(pair.difference_intervals[0], expected)
        assert np.ptp(expected) > 4  # 36 · 4/50 up and down
    low, high = compare(audit(y[:1], [0.3]), audit(y[:1], [0.4])).difference_intervals[0]
    assert -bound <= low < high <= bound


def test_the_first_interval_told_has_its_name_and_equal_metrics_are_said_once() -> None:
    y, q = np.arange(400) % 2, np.where(np.arange(400) % 2, 0.8, 0.2)
    d = np.repeat(["few", "many"], [40, 360])
    plain, sure = audit(y, 1 - q, d), audit(y, q, d)  # wrong everywhere; right everywhere
    low, high = (f"{end:.4f}" for end in plain.agnostic_interval)
    text = compare(plain, sure).summary()
    name = "95% interval (guaranteed)"
    assert f"0.2231 against 1.6094, {name} {low} to {high})" in text
    back = compare(sure, plain).summary()
    assert f"1.6094, {name} {low} to {high}, against 0.2231)" in back
    surer = audit(y, np.where(y, 0.9, 0.1), d)
    assert "and the same accuracy, 1.0000" in compare(sure, surer).summary()
