"""Proposition 1 in closed form; the curve of the figure of λ* by another solver."""

import numpy as np
import pytest
from numpy.typing import NDArray
from proposition1 import least_risks, proposition1
from scipy.optimize import minimize
from toy_table import toy_data

from anymix.problem.linear import LinearDomains


def test_least_risk_is_greatest_at_the_agnostic_mixture() -> None:
    data = toy_data()
    problem = LinearDomains(data.X, data.y, data.domains)
    shares, risks, models = least_risks(problem, 0.01)
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


def test_proposition_1_is_met_to_rounding() -> None:
    entries, proof = proposition1()
    for paper, ours in entries.values():
        assert ours == pytest.approx(paper, abs=1e-10)
    papers = [paper for paper, _ in entries.values()]
    assert papers == pytest.approx([0.25, 0.8369882, 0.5, 0.6931472, 0.1438410], abs=1e-7)
    assert 0 <= proof.gap <= 1e-10
