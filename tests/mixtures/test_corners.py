"""The corners of Λ: members among which every linear function has its maximum."""

import numpy as np
import pytest

import anymix as ax

SETS = {
    "simplex": ax.Simplex(15),
    "vertices": ax.Vertices(3),
    "point": ax.Point(np.full(20, 0.05)),
    "hull": ax.Hull([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4]]),
    "box": ax.Box([0.1, 0.0, 0.2, 0.0], [0.6, 0.5, 0.5, 0.3]),
    "cvar": ax.cvar([0.2, 0.3, 0.5], 0.4),
    "tv": ax.TVBall([0.3, 0.1, 0.2, 0.4], 0.25),
    "all of a tv ball": ax.TVBall([0.5, 0.5], 2.0),
    "two domains": ax.Chi2Ball([3, 9], 1.5),
    "shrunk": ax.Simplex(3).shrunk(0.3, [0.2, 0.3, 0.5]),
    "shrunk tv": ax.TVBall([0.3, 0.3, 0.4], 0.2).shrunk(0.5, [0.2, 0.3, 0.5]),
}


@pytest.mark.parametrize("name", SETS)
def test_every_linear_maximum_is_at_a_corner(name: str) -> None:
    target = SETS[name]
    corners = target.corners
    assert corners is not None
    assert all(target.contains(c) for c in corners)
    for losses in np.random.default_rng(0).normal(size=(100, target.n_domains)):
        best = float(target.maximize(losses) @ losses)
        assert np.max(corners @ losses) == pytest.approx(best, abs=1e-9)


def test_balls_and_large_boxes_have_no_list() -> None:
    assert ax.Chi2Ball([1, 2, 3], 1.5).corners is None
    assert ax.Box(np.zeros(13), np.full(13, 0.2)).corners is None
    assert ax.TVBall(np.full(13, 1 / 13), 0.2).corners is None
