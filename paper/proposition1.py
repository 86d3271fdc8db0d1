"""Proposition 1 and the figure of λ*: the best model for one mixture can be a bad one for another.

D1(x, 1) = 1 and D2(x, 0) = D2(x, 1) = ½; a model is p₀, its probability of label 0.

    best for the uniform mixture: p₀ = 1/4, worst loss log(4/√3)
    best for any mixture:         p₀ = 1/2, worst loss log 2

The figure: over the mixtures λ of two domains, the least risk r(λ) and three models.

    r(λ) = min_w Φ(w, λ),    Φ(w, λ) = Σ_k λ_k L_k(w) + γ R(w)

Φ(w, ·) is a line for each model w, which touches r where the model is best. Of all these lines,
the one that touches r at its top, λ*, has the least worst case.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from results import Array, draw, save_numbers
from rich.table import Table as Grid
from scipy.special import expit

import anymix as ax

COINS = ax.LinearDomains(np.zeros((4, 1)), [1, 1, 0, 1], ["D1", "D1", "D2", "D2"])  # no features


def proposition1() -> tuple[dict[str, tuple[float, float]], ax.Certificate]:
    """What is compared, its value in the paper and here; and the proof of the agnostic model."""
    uniform = ax.solve(COINS, ax.Point([0.5, 0.5]), gamma=0.0, tol=1e-12)
    agnostic = ax.solve(COINS, ax.Simplex(2), gamma=0.0, tol=1e-12)
    worst, least = (float(s.domain_losses.max()) for s in (uniform, agnostic))
    p0, p0_agnostic = (float(expit(-s.w[-1])) for s in (uniform, agnostic))
    return {
        "uniform model: p₀ = 1/4": (1 / 4, p0),
        "uniform model: worst loss log(4/√3)": (math.log(4 / math.sqrt(3)), worst),
        "agnostic model: p₀ = 1/2": (1 / 2, p0_agnostic),
        "agnostic model: worst loss log 2": (math.log(2), least),
        "gap between the two: log(2/√3)": (math.log(2 / math.sqrt(3)), worst - least),
    }, agnostic.certificate


def run(folder: Path) -> tuple[Grid, list[Path]]:
    entries, proof = proposition1()
    grid = Grid(title="Proposition 1", caption=str(proof))
    for heading in ("", "paper", "ours", "difference"):
        grid.add_column(heading, justify="right" if heading else "left")
    for name, (paper, ours) in entries.items():
        grid.add_row(name, f"{paper:.6f}", f"{ours:.6f}", f"{ours - paper:+.1e}")
    summary = {
        "experiment": "proposition1",
        "entries": {name: {"paper": a, "ours": b} for name, (a, b) in entries.items()},
        "certificate": {"lower": proof.lower, "upper": proof.upper},
    }
    lines = [[name, *values] for name, values in entries.items()]
    files = save_numbers(folder, "proposition1", summary, ["", "paper", "ours"], lines)
    return grid, [*files, draw_least_risks({"Proposition 1": (COINS, 0.0)}, folder)]


def draw_least_risks(problems: Mapping[str, tuple[ax.LinearDomains, float]], folder: Path) -> Path:
    """A panel for each problem of two domains, by its title, with its γ."""
    name = "proposition1.png" if len(problems) == 1 else "lambda_star.png"
    return draw(lambda panels: _draw(panels, problems), len(problems), folder / name, 5.0)


def least_risks(
    problem: ax.LinearDomains, gamma: float
) -> tuple[Array, Array, dict[str, ax.Solution]]:
    """Shares t of the first domain, r at λ = (t, 1 − t), and the three models of the figure."""
    problem = problem.merged()
    shares = np.linspace(0, 1, 41)

    def best(t: float) -> ax.Solution:
        return ax.solve(problem, ax.Point([t, 1 - t]), gamma=gamma)

    agnostic = ax.solve(problem, ax.Simplex(2), gamma=gamma)
    between = best(float(agnostic.mixture[0] + problem.reference[0]) / 2)
    ordinary = best(float(problem.reference[0]))
    models = {"λ_Ū, the data": ordinary, "a λ in between": between, "λ*": agnostic}
    return shares, np.array([best(t).objective for t in shares]), models


def _draw(panels: Any, problems: Mapping[str, tuple[ax.LinearDomains, float]]) -> None:
    for axes, (name, (problem, gamma)) in zip(panels, problems.items(), strict=True):
        shares, risks, models = least_risks(problem, gamma)
        axes.plot(shares, risks, color="0.35", label="least risk of any model")
        colors = ("tab:orange", "0.65", "tab:blue")
        for (label, model), color in zip(models.items(), colors, strict=True):
            t, losses = model.mixture[0], model.domain_losses
            regularizer = model.objective - model.mixture @ losses
            line = losses[::-1] + regularizer  # at t = 0 the second domain, at t = 1 the first
            label = f"model for {label}: worst case {line.max():.3f}"
            axes.plot([0, 1], line, color=color, linewidth=1, label=label)
            axes.plot([t], [line[0] + t * (line[1] - line[0])], "o", color=color, clip_on=False)
        share = f"share of {problem.domain_names[0]} in the mixture"
        axes.set(title=name, xlabel=share, ylabel="risk", xlim=(0, 1))
        axes.legend(frameon=False, fontsize="small")
