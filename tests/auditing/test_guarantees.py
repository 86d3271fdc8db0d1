"""Guarantees for all mixtures: what is said, in which way, and what is refused."""

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import anymix as ax
from anymix.auditing.bounded import Bounded
from anymix.bounds import held_out
from anymix.errors import InputError


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


D = np.repeat(["a", "b", "c"], [30, 60, 200])
LOSSES = rng().beta(1, 6, 290)
SIZES = np.array([30.0, 60.0, 200.0])


def clopper_pearson(wrong: Any, tail: float) -> float:
    found = binomtest(int(wrong.sum()), len(wrong)).proportion_ci(1 - 2 * tail, "exact")
    return float(found.high)


def test_the_value_needs_no_union_over_the_domains() -> None:
    """Each domain at δ alone; all of them at once, with `upper`, at δ/p each."""
    wrong = LOSSES > 0.3
    found = held_out(wrong, D, delta=0.1)
    each = [clopper_pearson(wrong[d == D], 0.1) for d in "abc"]
    np.testing.assert_allclose(found.value, max(each))
    np.testing.assert_allclose(
        found.upper, [clopper_pearson(wrong[d == D], 0.1 / 3) for d in "abc"]
    )
    assert found.mixture.tolist() == (np.array(each) == max(each)).tolist()
    first = held_out([True] * 5 + [False] * 95, ["a"] * 50 + ["b"] * 50)
    assert first.value == pytest.approx(0.199, abs=5e-4)


def test_bounds_enclose_what_was_found() -> None:
    for mixtures in (ax.Simplex(3), ax.Box([0.1] * 3, [0.8] * 3), ax.Chi2Ball(SIZES, 1.1)):
        found = held_out(LOSSES, D, mixtures, 0.1)
        assert np.all(found.lower <= found.domain_losses)
        assert np.all(found.domain_losses <= found.upper)
        assert found.low <= found.agnostic_loss <= found.value
        assert mixtures.contains(found.mixture)
        union = float(mixtures.maximize(found.upper) @ found.upper)
        assert found.value < union


def test_errors_may_be_given_in_any_form() -> None:
    wrong = LOSSES > 0.3
    found = held_out(wrong, D, delta=0.1)
    y = np.array(["yes", "no"])[wrong.astype(int)]
    same = held_out((np.full(290, "yes"), y), D, delta=0.1)
    np.testing.assert_array_equal(same.upper, found.upper)
    assert same.loss == "0-1 loss"
    loose = held_out(wrong, D, delta=0.1, loss_bound=5.0)  # errors are at most 1 all the same
    np.testing.assert_array_equal(loose.upper, found.upper)


def test_small_sets_are_bounded_directly_and_more_tightly() -> None:
    """Against the worst mixture of bounds that hold for all domains at once."""
    n, d = 40, np.repeat(np.arange(20), 40)
    sizes, x = np.full(20, float(n)), rng(1).beta(1, 6, 800)
    ways = {}
    for mixtures in (
        ax.Point(sizes / sizes.sum()),
        ax.Chi2Ball(sizes, 1.02),
        ax.Hull(np.vstack((sizes / 800, np.repeat([0.09, 0.01], 10)))),
        ax.Box(np.full(20, 0.045), np.full(20, 0.055)),
    ):
        found = held_out(x, d, mixtures, 0.1)
        by_union = float(mixtures.maximize(found.upper) @ found.upper)
        assert found.value < 0.8 * by_union
        assert found.low <= found.agnostic_loss <= found.value
        ways[type(mixtures).__name__] = found.way
    assert ways == {"Point": "corners", "Chi2Ball": "center", "Hull": "corners", "Box": "center"}


def test_the_bound_around_the_centre_by_hand() -> None:
    n, p, delta = 400, 20, 0.1
    x = np.clip(0.5 + 0.1 * rng(9).normal(size=n * p), 0, 1)
    parts, sizes = x.reshape(p, n), np.full(p, float(n))
    ball, rows = ax.Chi2Ball(sizes, 1.02), Bounded(tuple(parts), 1.0, False, True)
    found = rows.agnostic(ball, delta)
    assert found.way == "center"
    L, c = parts.mean(axis=1), np.full(p, 1 / p)
    middle = rows.agnostic(ax.Point(c), delta / 2)
    shift = float((ball.maximize(L) - c) @ L)
    reach = math.sqrt(0.02 * math.log(2 / delta) / (2 * n * p))  # Σ (λ_k − c_k)²/n, χ² ≤ 0.02
    assert found.high == pytest.approx(middle.high + shift + reach, rel=1e-6)
    assert found.low >= middle.low - 1e-12


def test_each_corner_is_bounded_at_delta_alone() -> None:
    parts = (rng(10).beta(2, 3, 100), rng(11).beta(2, 3, 300))
    ends, rows = np.array([[0.3, 0.7], [0.4, 0.6]]), Bounded(parts, 1.0, False, True)
    found = rows.agnostic(ax.Hull(ends), 0.1)
    assert found.way == "corners"
    assert found.high == max(rows.agnostic(ax.Point(c), 0.1).high for c in ends)
    assert found.low == max(rows.agnostic(ax.Point(c), 0.05).low for c in ends)  # a union


def test_domains_that_share_rows_are_bounded_one_by_one() -> None:
    member = np.ones((50, 2), dtype=bool)
    x = rng(2).beta(1, 5, 50)
    found = held_out(x, member, ax.Point([0.5, 0.5]), 0.1)
    assert found.way == "union"
    assert found.value >= held_out(x, delta=0.1).value


def test_weights_count_rows_and_a_repeated_row_is_not_two() -> None:
    x, w = rng(3).beta(1, 5, 60), np.ones(60)
    w[:20] = 4
    found = held_out(x, weights=w, delta=0.1)
    assert found.domain_losses[0] == pytest.approx(np.average(x, weights=w))
    repeated = held_out(np.concatenate((x, x[:20], x[:20], x[:20])), delta=0.1)
    assert found.value - found.agnostic_loss > repeated.value - repeated.agnostic_loss
    scaled = held_out(x, weights=10 * w, delta=0.1)
    assert scaled.value == pytest.approx(found.value)
    shared = held_out(x, np.repeat(["a", "b"], 30), ax.Point([0.5, 0.5]), 0.1, weights=w)
    assert shared.way == "union"


def test_log_losses_have_a_stated_bound_or_are_cut() -> None:
    y = rng(4).random(400) < 0.3
    q = np.clip(0.3 + 0.2 * y + 0.1 * rng(5).normal(size=400), 0.001, 0.999)
    free = held_out((y, q), delta=0.05)
    assert free.loss_bound == pytest.approx(36.04, abs=0.01)
    cut = held_out((y, q), delta=0.05, clip=2.0)
    assert cut.loss == "log loss cut at 2"
    assert "log loss cut at 2" in cut.explain()
    assert cut.loss_bound == 2
    assert cut.value < free.value
    with pytest.raises(InputError, match=r"losses has the loss .*, above loss_bound = 0\.3"):
        held_out((y, q), loss_bound=0.3)


def test_it_says_what_holds_and_can_be_passed_on() -> None:
    found = held_out(LOSSES, D, delta=0.1)
    text = found.explain()
    for part in ("probability of 0.9", f"{found.value:.4f}", f"{found.low:.4f}", "100% 'a'"):
        assert part in text
    passed = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert passed["value"] == found.value
    assert passed["domains"]["b"] == [found.lower[1], found.upper[1]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delta": 0}, "delta is 0; give a probability"),
        ({"delta": 1}, "delta is 1"),
        ({"delta": "5%"}, "delta is '5%'"),
        ({"loss_bound": -1}, "loss_bound is -1"),
        ({"loss_bound": 0.01}, r"losses has the loss .*, above loss_bound = 0\.01; give"),
        ({"clip": 0}, "clip is 0"),
        ({"loss": []}, "loss is .*; give the name of a loss"),
        ({"mixtures": ax.Simplex(2)}, "mixtures is over 2 domains but the data have 3"),
        ({"weights": np.zeros(290)}, "weights is 0 in all of 'a'"),
        ({"weights": -np.ones(290)}, "weights has the entry -1"),
        ({"losses": LOSSES - 0.5}, "losses has the loss -0"),
        ({"losses": []}, "losses has no rows"),
        ({"losses": np.full(290, math.nan)}, "losses has"),
        ({"domains": D[:5]}, "domains has 5 rows"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        held_out(**({"losses": LOSSES, "domains": D} | options))


def test_an_audit_with_a_guarantee_says_the_same() -> None:
    y, q = rng(6).random(290) < 0.4, rng(7).uniform(0.05, 0.95, 290)
    found = ax.audit(y, q, D, guarantee=0.1, loss_bound=3.0)
    alone = held_out((y, q), D, delta=0.1, clip=3.0)
    assert found.guarantees["loss"].value == pytest.approx(alone.value)
    assert found.guarantees["loss"].loss == alone.loss == "log loss cut at 3"
    errors = held_out((q > 0.5) != y, D, delta=0.1)
    assert found.guarantees["accuracy"].value == pytest.approx(errors.value)
    text = found.summary()
    assert f"on every mixture the log loss is at most {alone.value:.4f}" in text
    assert f"the accuracy at least {1 - errors.value:.4f}" in text
    assert "Log losses above 3 count as 3" in text
    assert "It is largest on" in text
    assert "It is largest on" in ax.audit(y, q, D).summary()
    assert found.to_dict()["guarantees"]["loss"]["value"] == found.guarantees["loss"].value
    assert ax.audit(y, q, D).guarantees == {}


def test_a_declared_bound_makes_the_intervals_of_an_audit_guaranteed() -> None:
    """Rare large losses: 2 % are 1, 50 rows. The approximate intervals cover 63 % of the time."""
    x = (rng(8).random(50 * 300) < 0.02) * 0.9 + 0.001 * rng(9).random(50 * 300)
    d, truth = np.repeat(np.arange(300), 50), 0.02 * 0.9 + 0.0005
    known, unknown = ax.audit(None, x, d, loss_bound=1.0), ax.audit(None, x, d)
    assert known.interval_kinds["loss"] == "guaranteed"
    assert unknown.interval_kinds["loss"] == "approximate"

    def covered(ends: Any) -> float:
        return float(np.mean((ends[:, 0] <= truth) & (ends[:, 1] >= truth)))

    assert covered(known.intervals) >= 0.95
    assert covered(unknown.intervals) < 0.75
    with pytest.raises(InputError, match="above loss_bound"):
        ax.audit(None, 2 * x, d, loss_bound=1.0)
    with pytest.raises(InputError, match="loss_bound is None, and the half squared error"):
        ax.audit([1.5, 2.0], [1.0, 2.5], guarantee=0.05)
    with pytest.raises(InputError, match="guarantee is 2"):
        ax.audit([1, 0], [1, 1], guarantee=2)
