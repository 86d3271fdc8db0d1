"""Models side by side: what is said of them is what their intervals say."""

import numpy as np
import pytest

from anymix.auditing import Audit, audit
from anymix.auditing.side_by_side import KNOWN, ORDINARY, RECOMMENDED, SideBySide

N = (400, 100)


def found(ordinary: tuple[int, int], recommended: tuple[int, int], guess: int = 99) -> SideBySide:
    """0-1 losses of so many errors in domains 'a' and 'b'; errors are nested."""

    def of(errors: tuple[int, int]) -> Audit:
        said = np.concatenate([np.arange(n) >= e for n, e in zip(N, errors, strict=True)])
        return audit(np.ones(sum(N), int), said.astype(int), np.repeat(["a", "b"], N))

    names = {ORDINARY: ordinary, RECOMMENDED: recommended, KNOWN: recommended}
    return SideBySide({name: of(errors) for name, errors in names.items()}, of((399, guess)))


@pytest.mark.parametrize(
    ("recommended", "change", "of_all"),
    [
        ((40, 20), -1, -1),
        ((40, 59), 0, 0),  # one row more or less is luck
        ((120, 30), -1, 1),
        ((40, 95), 1, 1),
        ((40, 60), 0, 0),
    ],
)
def test_better_and_worse_are_what_paired_intervals_say(
    recommended: tuple[int, int], change: int, of_all: int
) -> None:
    both = found((40, 60), recommended)
    assert (both.change(RECOMMENDED), both.change_of_all(RECOMMENDED)) == (change, of_all)
    words = {-1: "better", 0: "not significantly different", 1: "worse"}
    if recommended != (40, 60):
        assert f"{words[change]} in 'b'" in both.advice()
        assert f"{words[of_all]} on all rows" in both.advice()


def test_the_same_model_is_kept() -> None:
    assert found((40, 60), (40, 60)).is_same(RECOMMENDED)
    assert not found((40, 60), (40, 59)).is_same(RECOMMENDED)


@pytest.mark.parametrize(("guess", "beaten"), [(49, True), (50, False), (70, False)])
def test_a_constant_guess_that_does_better_is_said(guess: int, beaten: bool) -> None:
    both = found((40, 60), (40, 50), guess)
    assert both.beaten_by_constant(RECOMMENDED) == beaten
    assert both.to_dict()["changes"][RECOMMENDED]["worse_than_constant"] == beaten
    assert ("constant" in both.advice()) == beaten


def test_json_and_table_have_every_model() -> None:
    both = found((40, 60), (40, 50))
    assert list(both.to_dict()["audits"]) == [ORDINARY, RECOMMENDED, KNOWN]
    heads, rows = both._cells()
    names = [RECOMMENDED, KNOWN]
    assert heads[2:] == ["0-1 loss ordinary", *names, "accuracy ordinary", *names]
    assert [row[0] for row in rows] == ["a", "b", "all rows", "worst mixture"]
    assert [row[2:5] for row in rows[:2]] == [["0.1000"] * 3, ["0.6000", "0.5000", "0.5000"]]
