"""The set Λ as it is shown: the extreme shares, and the border."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited import data_of, two_models

import anymix as ax
from anymix.reporting import report
from anymix.reporting.arguments import checked_audits

SETS = {
    "simplex": None,
    "point": lambda sizes: ax.Point(sizes / sizes.sum()),
    "cvar": lambda sizes: ax.cvar(sizes / sizes.sum(), 0.4),
    "chi2": lambda sizes: ax.Chi2Ball(sizes, 1.5),
    "tv": lambda sizes: ax.TVBall(sizes / sizes.sum(), 0.2),
    "hull": lambda sizes: ax.Hull([np.eye(len(sizes))[0], sizes / sizes.sum()]),
}


@pytest.mark.parametrize("mixtures", SETS.values(), ids=SETS)
@pytest.mark.parametrize("p", [2, 3, 6])
def test_limits_are_the_extreme_shares_in_the_set(p: int, mixtures: Any) -> None:
    found = two_models(p, mixtures)["plain"]
    limits = checked_audits(found).limits
    rng = np.random.default_rng(1)
    members = [found.mixtures.project(rng.normal(size=p)) for _ in range(200)]
    members += [found.mixtures.project(3 * s * e) for e in np.eye(p) for s in (-1, 1)]
    assert np.all(members >= limits[:, 0] - 1e-7)
    assert np.all(members <= limits[:, 1] + 1e-7)
    far = [found.mixtures.project(1e3 * e + 0.0)[k] for k, e in enumerate(np.eye(p))]
    assert np.allclose(far, limits[:, 1], atol=2e-3)  # a far target is projected on the extreme


def test_the_outline_is_the_border_of_the_set(tmp_path: Path) -> None:
    audits = two_models(3, lambda sizes: ax.Chi2Ball(sizes, 1.2))
    found = audits["plain"]
    border = np.array(data_of(report(audits, tmp_path / "report.html"))["outline"])
    m = found.sizes / found.sizes.sum()
    inner = border[np.all(border > 1e-6, axis=1)]
    assert len(inner) > 10
    assert np.allclose(np.sum(inner**2 / m, axis=1), 1.2)
    center = found.mixtures.center
    assert all(found.mixtures.contains(b, tol=1e-7) for b in border)
    assert not any(found.mixtures.contains(center + 1.01 * (b - center)) for b in inner)
