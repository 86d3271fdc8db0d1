"""The pictures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited import two_models
from numpy.typing import NDArray

from anymix.auditing import Audit, audit
from anymix.reporting import picture
from anymix.reporting.arguments import checked_audits
from anymix.reporting.pictures import figure_of


def zeros(p: int) -> dict[str, Audit]:
    return {"perfect": audit([1] * p, [1] * p, np.arange(p))}


def negative(p: int) -> dict[str, Audit]:
    losses: NDArray[np.float64] = -1 - np.arange(2.0 * p)
    return {"given": audit(None, losses, np.tile(np.arange(p), 2))}


@pytest.mark.parametrize("made", [two_models, zeros, negative])
@pytest.mark.parametrize("p", [1, 2, 3, 30])
def test_pictures_of_any_number_of_domains(tmp_path: Path, p: int, made: Any) -> None:
    audits = made(max(p, 2)) if made is two_models else made(p)
    p = len(next(iter(audits.values())).sizes)
    file = picture(audits, tmp_path / "losses.png", mixture=np.full(p, 1 / p), title="5 $ a_b $")
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_wide_interval_does_not_flatten_the_bars() -> None:
    found = audit(None, [0.3, 0.2, 0.4], ["a", "b", "b"])
    assert np.isinf(found.intervals[0]).all()
    left: Any = figure_of(checked_audits(found)).axes[0]
    intervals = left.collections[0].get_segments()
    assert np.isfinite(intervals).all()  # an infinite one would not be drawn at all
    assert -0.61 < left.get_xlim()[0] <= 0 < 0.3 < left.get_xlim()[1] < 0.61


def test_a_picture_shows_the_names_and_losses_as_drawn(tmp_path: Path) -> None:
    audits = two_models(2)
    shown = checked_audits(audits)
    axes: list[Any] = figure_of(shown, np.array([0.25, 0.75])).axes
    left, right = axes[:2]
    widths = sorted(patch.get_width() for patch in left.patches)
    assert widths == sorted(np.concatenate([a.domain_losses for a in audits.values()]).tolist())
    lines = [line for line in right.lines if list(line.get_xdata()) == [0, 1]]
    assert [list(line.get_ydata()) for line in lines] == [
        a.domain_losses.tolist() for a in audits.values()
    ]
    file = picture(audits, tmp_path / "losses.svg", title="5 $ < 6 $")
    assert "<svg" in file.read_text()


def test_the_ending_names_the_format() -> None:
    with pytest.raises(ValueError, match=r"path ends in '\.gif'"):
        picture(two_models(2), "never.gif")
