"""The figure of λ*: over the mixtures λ of two domains, the least risk r(λ) and three models.

    r(λ) = min_w Φ(w, λ),    Φ(w, λ) = Σ_k λ_k L_k(w) + γ R(w)

Φ(w, ·) is a line for each model w, which touches r where the model is best. Of all these lines,
the one that touches r at its top, λ*, has the least worst case.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.mixtures import Point, Simplex
from anymix.problem.linear import LinearDomains
from anymix.reproduction.saving import draw
from anymix.solvers.exact import Solution, solve

Array = NDArray[np.float64]

__all__ = ["draw_least_risky", "least_risks"]


def draw_least_risky(problems: Mapping[str, tuple[LinearDomains, float]], path: Path) -> list[Path]:
    """Draw where λ* lies in Λ for p = 2: the least risk r, and the lines of three models.

    The models are the best ones for λ*, for the mixture of the data, and for a λ in between.

    Parameters
    ----------
    problems : mapping of str to (LinearDomains, float)
        For each panel, by its title: a problem of two domains, and γ.
    path : Path
        The picture to write.

    Returns
    -------
    list of Path
        The file; empty, and nothing is solved, without matplotlib.

    Examples
    --------
    >>> import tempfile
    >>> problem = LinearDomains([[0.0]] * 4, [1, 1, 0, 1], ["D1", "D1", "D2", "D2"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = draw_least_risky({"two coins": (problem, 0.0)}, Path(folder) / "risk.png")
    ...     [path.name for path in written if path.stat().st_size > 1000]
    ['risk.png']
    """
    return draw(lambda panels: _draw_risks(panels, problems), len(problems), path, width=5.0)


def least_risks(problem: LinearDomains, gamma: float) -> tuple[Array, Array, dict[str, Solution]]:
    """The least risk over the mixtures of two domains, and the three models of the figure.

    Parameters
    ----------
    problem : LinearDomains
        A problem of two domains.
    gamma : float
        The weight γ of R(w).

    Returns
    -------
    shares : ndarray of shape (n,)
        Shares t of the first domain.
    risks : ndarray of shape (n,)
        r at λ = (t, 1 − t).
    models : dict of str to Solution
        By what they are best for.
    """
    problem = problem.merged()
    shares = np.linspace(0, 1, 41)

    def best(t: float) -> Solution:
        return solve(problem, Point([t, 1 - t]), gamma=gamma)

    agnostic = solve(problem, Simplex(2), gamma=gamma)
    ordinary = best(problem.reference[0])
    between = best(float(agnostic.mixture[0] + problem.reference[0]) / 2)
    models = {"λ_Ū, the data": ordinary, "a λ in between": between, "λ*": agnostic}
    return shares, np.array([best(t).objective for t in shares]), models


def _draw_risks(panels: Any, problems: Mapping[str, tuple[LinearDomains, float]]) -> None:
    for axes, (name, (problem, gamma)) in zip(panels, problems.items(), strict=True):
        shares, risks, models = least_risks(problem, gamma)
        first = problem.domain_names[0]
        axes.plot(shares, risks, color="0.35", label="least risk of any model")
        colors = ("tab:orange", "0.65", "tab:blue")
        for (label, model), color in zip(models.items(), colors, strict=True):
            t, losses = model.mixture[0], model.domain_losses
            regularizer = model.objective - model.mixture @ losses
            line = losses[::-1] + regularizer  # at t = 0 the second domain, at t = 1 the first
            label = f"model for {label}: worst case {line.max():.3f}"
            axes.plot([0, 1], line, color=color, linewidth=1, label=label)
            axes.plot([t], [line[0] + t * (line[1] - line[0])], "o", color=color, clip_on=False)
        axes.set(title=name, xlabel=f"share of {first} in the mixture", ylabel="risk", xlim=(0, 1))
        axes.legend(frameon=False, fontsize="small")
