"""The pictures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited import two_models
from numpy.typing import NDArray
from reporting.fronts import a_front

from anymix.auditing import Audit, audit
from anymix.reporting import draw_frontier, picture
from anymix.reporting.arguments import checked_audits
from anymix.reporting.frontier_pictures import frontier_figure
from anymix.reporting.frontiers import checked_frontier
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
    lines = [line for line in right.lines if len(line.get_xdata()) == 41]
    ends = np.array([line.get_ydata()[[0, -1]] for line in lines])
    assert ends.tolist() == [a.domain_losses.tolist() for a in audits.values()]
    file = picture(audits, tmp_path / "losses.svg", title="5 $ < 6 $")
    assert "<svg" in file.read_text()


def test_the_ending_names_the_format() -> None:
    with pytest.raises(ValueError, match=r"path ends in '\.gif'"):
        picture(two_models(2), "never.gif")


@pytest.mark.parametrize("T", [1, 20])
@pytest.mark.parametrize("error", [None, np.inf])
def test_a_frontier_of_any_size_is_drawn(T: int, error: float, tmp_path: Path) -> None:
    front = a_front(T, error=error, chosen=T - 1)
    file = draw_frontier(front, tmp_path / "frontier.png", title="5 $ a_b $")
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_frontier_as_drawn_has_its_losses_errors_and_names() -> None:
    front = a_front(5, chosen=4)
    held = front.held_out
    assert held is not None
    (axes,) = frontier_figure(checked_frontier(front)).axes
    shown: Any = axes
    points, _, (along, up) = shown.containers[0].lines
    assert list(points.get_xdata()) == held.pooled.tolist()
    assert list(points.get_ydata()) == held.worst.tolist()
    assert np.allclose(np.ptp([s[:, 0] for s in along.get_segments()], axis=1), 2 * 0.005)
    assert np.allclose(np.ptp([s[:, 1] for s in up.get_segments()], axis=1), 2 * 0.02)
    assert list(shown.containers[1].lines[0].get_ydata()) == front.fitted.worst.tolist()
    names = {text.get_text().replace("\N{NO-BREAK SPACE}", " "): text.xy for text in shown.texts}
    assert names == {
        "ordinary": (held.pooled[0], held.worst[0]),
        "robust, taken\nt = 1": (held.pooled[4], held.worst[4]),
    }
    left, right = frontier_figure(checked_frontier(a_front(5, apart=3.0))).axes
    assert [len(each.containers) for each in (left, right)] == [1, 1]


def test_a_frontier_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"path ends in '\.gif'"):
        draw_frontier(a_front(), tmp_path / "never.gif")
    wrong: Any = 3
    with pytest.raises(ValueError, match="frontier is a int; give"):
        draw_frontier(wrong, tmp_path / "never.png")
    assert not any(tmp_path.iterdir())
