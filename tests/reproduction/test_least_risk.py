"""The figure of λ*: its curve by another solver, and its file."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from toy_table import toy_data

from anymix.problem.linear import LinearDomains
from anymix.reproduction import draw_least_risky, least_risk, proposition1


def test_least_risk_is_greatest_at_the_agnostic_mixture() -> None:
    data = toy_data()
    problem = LinearDomains(data.X, data.y, data.domains)
    shares, risks, models = least_risk.least_risks(problem, 0.01)
    agnostic = models["λ*"]
    assert risks.max() == pytest.approx(agnostic.objective, abs=1e-3)  # minimax, on a grid
    assert abs(shares[risks.argmax()] - agnostic.mixture[0]) <= 1 / 40
    assert np.all(np.diff(risks, 2) <= 1e-5)  # concave
    for model in models.values():  # its line lies above r and touches it at its own mixture
        losses, regularizer = problem.losses(model.w), 0.01 * model.w[0] ** 2 / 2
        line = shares * losses[0] + (1 - shares) * losses[1] + regularizer
        assert np.all(line >= risks - 1e-5)
        touched = risk_at(problem, 0.01, model.mixture)
        assert model.mixture @ losses + regularizer == pytest.approx(touched, abs=1e-5)


def risk_at(problem: LinearDomains, gamma: float, mixture: NDArray[np.float64]) -> float:
    """r(λ) by another solver, for one feature."""

    def risk(w: NDArray[np.float64]) -> float:
        return float(mixture @ problem.losses(w) + gamma * w[0] ** 2 / 2)

    return float(minimize(risk, np.zeros(2)).fun)


def test_picture_of_least_risks(tmp_path: Path) -> None:
    problem = proposition1().problem
    files = draw_least_risky({"a": (problem, 0.0), "b": (problem, 0.1)}, tmp_path / "x" / "p.png")
    assert files == [tmp_path / "x" / "p.png"]
    assert files[0].read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_nothing_is_solved_for_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # makes the import fail
    monkeypatch.delattr(least_risk, "solve")
    data = toy_data()
    problem = LinearDomains(data.X, data.y, data.domains)
    assert draw_least_risky({"toy": (problem, 0.0)}, tmp_path / "p.png") == []
    assert not any(tmp_path.iterdir())
