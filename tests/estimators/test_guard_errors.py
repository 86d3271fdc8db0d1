"""How often the guard errs: on simulated tables it knows whether there was something to gain.

Where all domains share one truth no robust model can be better, and the ordinary one should be
kept; where a small domain follows a rule of its own, a robust one should be taken. Each in four of
five tables or more; about nine of ten were seen.
"""

import warnings
from typing import Any

import pytest
from regions import alike_data, different_data

import anymix as ax
from anymix.estimators.guarding import NothingGained

QUICK: dict[str, Any] = {"robustness": (0.5, 1.0), "repeats": 1, "cv": 3}


def kept(draw: Any, tables: int, classes: bool, shape: tuple[Any, ...] = (), **options: Any) -> int:
    """On how many of the tables the ordinary model is kept; their shape is (sizes, columns)."""
    make: Any = ax.AgnosticClassifierCV if classes else ax.AgnosticRegressorCV
    found = 0
    for seed in range(tables):
        X, y, domains = draw(seed, *shape, classes=classes)
        with warnings.catch_warnings(action="ignore", category=NothingGained):
            found += make(**options).fit(X, y, domains=domains).robustness_ == 0
    return found


def test_the_guard_is_right_on_most_of_a_few_tables() -> None:
    """12 + 12 of them, of which 8 must be right: at a chance of 0.85, all but 1 time in 50.

    The least loss (rule="min") keeps the ordinary model on 4 of 10 tables where all are alike, and
    then 8 of 12 are right 1 time in 20.
    """
    assert kept(alike_data, 12, classes=True, **QUICK) >= 8
    assert kept(different_data, 12, classes=True, **QUICK) <= 4


def test_many_domains_with_one_law_are_left_alone() -> None:
    """The worst of forty means is bad luck, which a timid model would lessen for all to pay."""
    assert kept(alike_data, 10, True, ((25,) * 40, 6), **QUICK) >= 9


@pytest.mark.slow
@pytest.mark.parametrize("classes", [True, False], ids=["classes", "numbers"])
def test_the_guard_is_right_on_four_of_five_tables(
    classes: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = (600, 200, 60), 10
    alike, different = (kept(draw, 200, classes, shape) for draw in (alike_data, different_data))
    with capsys.disabled():
        print(f" kept where alike {alike}/200, where one differs {different}/200", end=" ")
    assert alike >= 160
    assert different <= 40
