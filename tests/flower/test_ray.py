"""Flower's own simulation: the short run that `make test` makes, and a longer one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from flower.left_over import alive

from anymix import datasets
from anymix.flower.engines import federate
from anymix.problem.linear import LinearDomains
from anymix.solvers.exact import solve

THREE_WAYS = Path(__file__).parent / "three_ways"
ADULT = Path(__file__).parents[2] / "examples" / "federated_adult"


def test_ray_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """federated_solve, PerDomain and Weighted, in one run."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert federate(THREE_WAYS, "ray") == federate(THREE_WAYS, "local")
    if sys.platform == "linux":
        assert alive(str(tmp_path)) == []


@pytest.mark.ray
def test_workers_solve_what_one_machine_would_have_to_hold() -> None:
    result = federate(ADULT, "ray", {"num-clients": 8})
    data = datasets.load_adult()
    central = solve(LinearDomains(data.X, data.y, data.domains), tol=1e-9)
    assert result["gap"] <= 1e-6
    assert result["objective"] == pytest.approx(central.objective, abs=1e-6)
    assert result["rounds"] <= 20
    np.testing.assert_allclose(result["w"], central.w, atol=1e-3)
