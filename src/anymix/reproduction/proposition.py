"""Proposition 1: the best model for the average mixture can be a bad one for another.

D1(x, 1) = 1 and D2(x, 0) = D2(x, 1) = ½; a model is p₀, its probability of label 0.

    best for the uniform mixture: p₀ = 1/4, worst loss log(4/√3)
    best for any mixture:         p₀ = 1/2, worst loss log 2
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table as Grid
from scipy.special import expit

from anymix.mixtures import Point, Simplex
from anymix.problem.linear import LinearDomains
from anymix.reproduction.least_risk import draw_least_risky
from anymix.reproduction.saving import save_numbers
from anymix.solvers.exact import Solution, solve

__all__ = ["Proposition1", "proposition1"]


@dataclass(frozen=True, eq=False)
class Proposition1:
    """The two models of Proposition 1, beside what the paper proves.

    Attributes
    ----------
    problem : LinearDomains
        The domains D1 and D2, without features: the model is its intercept.
    uniform : Solution
        The best model for the uniform mixture.
    agnostic : Solution
        The best model for any mixture.

    Examples
    --------
    >>> found = proposition1()
    >>> {name: round(ours, 4) for name, (_, ours) in found.entries.items() if "worst" in name}
    {'uniform model: worst loss log(4/√3)': 0.837, 'agnostic model: worst loss log 2': 0.6931}
    """

    problem: LinearDomains
    uniform: Solution
    agnostic: Solution

    @property
    def entries(self) -> dict[str, tuple[float, float]]:
        """What is compared: its value in the paper, and here."""
        worst = float(self.uniform.domain_losses.max())
        least = float(self.agnostic.domain_losses.max())
        return {
            "uniform model: p₀ = 1/4": (1 / 4, _p0(self.uniform)),
            "uniform model: worst loss log(4/√3)": (math.log(4 / math.sqrt(3)), worst),
            "agnostic model: p₀ = 1/2": (1 / 2, _p0(self.agnostic)),
            "agnostic model: worst loss log 2": (math.log(2), least),
            "gap between the two: log(2/√3)": (math.log(2 / math.sqrt(3)), worst - least),
        }

    def as_dict(self) -> dict[str, Any]:
        """Everything that is compared, ready for JSON."""
        return {
            "experiment": "proposition1",
            "entries": {
                name: {"paper": paper, "ours": ours, "difference": ours - paper}
                for name, (paper, ours) in self.entries.items()
            },
            "certificate": {
                "lower": self.agnostic.certificate.lower,
                "upper": self.agnostic.certificate.upper,
            },
        }

    def grid(self) -> Grid:
        """A table for the terminal, with a line for each entry."""
        grid = Grid(title="Proposition 1")
        grid.add_column("")
        for heading in ("paper", "ours", "difference"):
            grid.add_column(heading, justify="right")
        for name, (paper, ours) in self.entries.items():
            grid.add_row(name, f"{paper:.6f}", f"{ours:.6f}", f"{ours - paper:+.1e}")
        return grid

    def save(self, folder: Path) -> list[Path]:
        """Write proposition1.json, .csv and .png, the picture of λ*.

        Parameters
        ----------
        folder : Path
            Where to write; made if it is not there.

        Returns
        -------
        list of Path
            The files; without matplotlib there is no picture.
        """
        entries = [[name, *values] for name, values in self.entries.items()]
        header = ["", "paper", "ours"]
        written = save_numbers(folder, "proposition1", self.as_dict(), header, entries)
        problems = {"Proposition 1": (self.problem, 0.0)}
        return written + draw_least_risky(problems, folder / "proposition1.png")


def proposition1() -> Proposition1:
    """Solve both problems of Proposition 1.

    Returns
    -------
    Proposition1
        The worst loss is log 2 at best, where the uniform mixture's model has log(4/√3).

    Examples
    --------
    >>> worst = proposition1().agnostic.domain_losses.max()
    >>> bool(abs(worst - math.log(2)) < 1e-6)
    True
    """
    X = np.zeros((4, 1))  # no features: the model is its intercept
    problem = LinearDomains(X, [1, 1, 0, 1], ["D1", "D1", "D2", "D2"])
    uniform = solve(problem, Point([0.5, 0.5]), gamma=0.0, tol=1e-12)
    agnostic = solve(problem, Simplex(2), gamma=0.0, tol=1e-12)
    return Proposition1(problem, uniform, agnostic)


def _p0(solution: Solution) -> float:
    """p₀, the probability that the model gives to label 0."""
    return float(expit(-solution.w[-1]))
