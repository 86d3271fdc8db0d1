"""Proposition 1 in closed form."""

import pytest

from anymix.reproduction import proposition1


def test_proposition_1_is_met_to_rounding() -> None:
    for paper, ours in proposition1().entries.values():
        assert ours == pytest.approx(paper, abs=1e-10)


def test_proposition_1_has_the_printed_closed_forms() -> None:
    papers = [paper for paper, _ in proposition1().entries.values()]
    assert papers == pytest.approx([0.25, 0.8369882, 0.5, 0.6931472, 0.1438410], abs=1e-7)
