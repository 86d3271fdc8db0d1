"""Advice on merging, rows to add, and how many steps."""

import math
from typing import Any, cast

import numpy as np
import pytest

from anymix.bounds import (
    Constants,
    advise_domains,
    confidence_widths,
    convergence,
    rows_needed,
    steps_needed,
)
from anymix.errors import InputError


def test_rows_needed_bring_the_width_down_and_no_fewer_do() -> None:
    sizes = np.array([50, 300, 5000])
    more = rows_needed(sizes, 0.04, 0.1, 2.0)
    assert more[2] == 0 or confidence_widths(sizes, 0.1, 2.0)[2] > 0.04
    after = confidence_widths(sizes + more, 0.1, 2.0)
    assert np.all(after <= 0.04 + 1e-12)
    before = confidence_widths(sizes + np.maximum(more - 1, 0), 0.1, 2.0)
    assert np.all(before[more > 0] > 0.04)


def test_one_domain_has_nothing_to_merge_with() -> None:
    assert advise_domains([5]).explain().startswith("There is one domain")


def test_domains_that_are_large_enough_stay() -> None:
    advice = advise_domains([5000, 4000], losses=[0.1, 0.1])
    assert not advice.is_merged
    assert advice.labels.tolist() == [0, 1]
    assert "Keep the 2 domains" in advice.explain()


def test_small_domains_go_to_the_nearest_that_they_cannot_be_told_from() -> None:
    advice = advise_domains(
        [3000, 3000, 40, 50], [0.1, 0.4, 0.12, 0.42], names=["p", "q", "r", "s"]
    )
    assert advice.groups == (("p", "r"), ("q", "s"))
    assert advice.after < advice.before
    assert "'p' + 'r'; 'q' + 's'" in advice.explain()


def test_a_small_domain_that_is_unlike_all_others_is_left_alone() -> None:
    advice = advise_domains([3000, 150], [0.05, 0.9])
    assert advice.groups == ((0,), (1,))
    assert advice.is_enough


def test_two_domains_are_never_merged() -> None:
    advice = advise_domains([3000, 150], [0.05, 0.06])
    assert advice.groups == ((0,), (1,))
    assert not advice.is_enough
    assert "no merger can be advised" in advice.explain()


def test_two_groups_at_least_are_left_and_the_price_is_told() -> None:
    rng = np.random.default_rng(0)
    for p in range(2, 12):
        advice = advise_domains(rng.integers(1, 40, p), width=0.01)
        assert len(advice.groups) == 2
        assert not advice.is_enough
        assert p == 2 or advice.price_in_words() in advice.explain()
    told = advise_domains([3000, 3000, 40, 50], [0.1, 0.4, 0.12, 0.42])
    assert told.is_enough
    assert len(told.price_in_words()) < len(advice.price_in_words())  # that rows are too few


def test_without_losses_the_smallest_are_merged_until_all_are_wide_enough() -> None:
    sizes = np.array([2000, 150, 60, 20, 5])
    advice = advise_domains(sizes, width=0.1)
    rows = np.bincount(advice.labels, sizes)
    p = len(advice.groups)
    assert p >= 2
    wide = np.sqrt(math.log(p / 0.05) / (2 * rows)) > 0.1
    assert advice.is_enough == (not wide.any())
    assert advice.groups[0] == (0,)


def test_many_domains_are_few_groups() -> None:
    r = np.random.default_rng(0)
    sizes, kind = r.integers(20, 80, 60), np.arange(60) % 2
    losses = np.where(kind == 0, 0.05, 0.95) + 0.03 * r.normal(size=60)
    advice = advise_domains(sizes, np.clip(losses, 0, 1))
    assert 2 <= len(advice.groups) <= 10
    for group in advice.groups:
        assert len({int(kind[k]) for k in group}) == 1  # never both kinds


def test_steps_needed_is_the_first_number_of_steps() -> None:
    c = Constants(2.0, 1.0, 1.5, 0.7, 0.2, 1.1, 1.0)
    for gap in (3.0, 0.1, 0.017):
        n = steps_needed(c, gap)
        assert convergence(c, n) <= gap * (1 + 1e-9)
        assert n == 1 or convergence(c, n - 1) > gap
    assert steps_needed(Constants(1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0), 0.1) == 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: advise_domains([5, 0]), "sizes has 0.0 at index 1"),
        (lambda: advise_domains([5, 5], [0.1]), r"losses has shape \(1,\)"),
        (lambda: advise_domains([5, 5], names=["a"]), "names has 1 entries"),
        (lambda: advise_domains([5, 5], delta=2), "delta is 2"),
        (lambda: rows_needed([5, 5], 0), "width is 0"),
        (lambda: confidence_widths([5, 5], loss_bound=0), "loss_bound is 0"),
        (lambda: steps_needed(Constants(1, 1, 1, 1, 1, 1, 1), 0), "gap is 0"),
        (lambda: advise_domains([10, 20], names=cast(Any, 5)), "names is 5; give 2, one a domain"),
        (lambda: advise_domains([10, 20], names="ab"), "names is 'ab'; give 2, one a domain"),
        (lambda: rows_needed([10, 20], width=1e-300), "width is 1e-300; give a number > 0, such"),
    ],
)
def test_what_cannot_be_is_refused(call: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        call()
