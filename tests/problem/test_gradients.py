"""The problem whose parts tell no second derivatives: the same optimum, with a proof."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from flower.solving import LOSSES, table
from numpy.typing import NDArray

import anymix as ax
from anymix.errors import InputError
from anymix.mixtures import MixtureSet
from anymix.objective import Objective
from anymix.problem.gradients import GradientParts
from anymix.problem.part_sums import Question, Sums, answer
from anymix.solvers.exact import Solution
from anymix.solvers.gap_warning import GapWarning

Array = NDArray[np.float64]
SETS = {"simplex": ax.Simplex(3), "ball": ax.Chi2Ball(np.ones(3), 1.1)}


class Asked:
    """Three parts that know gradients alone, and how often they were asked."""

    def __init__(self, name: str, longest: float = np.inf, intercept: bool = True) -> None:
        X, y, d = table(name, n=300)
        loss = LOSSES[name]
        classes = np.unique(y) if loss.takes_classes else None
        options: dict[str, Any] = {"loss": loss, "intercept": intercept}
        self.whole = ax.LinearDomains(X, y, d, **options)
        self.rows = [
            ax.LinearDomains(X[i::3], y[i::3], d[i::3], classes=classes, **options)
            for i in range(3)
        ]  # fmt: skip
        self.n, self.longest, columns = 0, longest, np.c_[X, np.ones((300, int(intercept)))]
        self.gram = columns.T @ columns / 300

    def __call__(self, questions: Sequence[Question]) -> list[Sums]:
        self.n += 1
        if np.linalg.norm(questions[0].w) > self.longest:
            raise InputError("limits.norm", "refuses", "be shorter")
        assert set(questions[0].want) <= {*("losses", "jacobian"), *ABOUT}
        return [answer(part, q) for part, q in zip(self.rows, questions, strict=True)]

    def solve(
        self, mixtures: MixtureSet, gamma: float, norm: str = "squared", **options: Any
    ) -> Solution:
        names = self.whole.domain_names
        places = [np.searchsorted(names, part.domain_names) for part in self.rows]
        sizes, D = self.whole.sizes, self.whole.n_parameters
        parts = GradientParts(self, places, sizes, D, mixtures.center)
        parts.gram = self.gram if options.pop("gram", True) else None
        objective = Objective(mixtures, gamma=gamma, norm=norm)
        self.parts, self.phi = parts, objective.on(parts)
        parts.shrinkage = self.phi.shrinkage
        return ax.solve(parts, objective, tol=1e-6)


ABOUT = ("penalized", "kind", "powers", "targets")


@pytest.mark.parametrize("gram", [True, False])
@pytest.mark.parametrize("norm", ["squared", "plain"])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("mixtures", SETS)
def test_the_optimum_with_its_proof(mixtures: str, name: str, norm: str, gram: bool) -> None:
    asked, chosen = Asked(name), SETS[mixtures]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        found = asked.solve(chosen, 1e-3, norm, gram=gram)
    best = ax.solve(asked.whole, chosen, gamma=1e-3, norm=norm, tol=1e-9).certificate
    scale = asked.whole.loss_scale
    # ‖v‖ ≤ γ is a hard bound for the plain norm, at which the best lines end up
    assert found.certificate.gap <= (1e-6 if norm == "squared" else 1e-5) * max(scale, 1.0)
    assert found.certificate.lower <= best.upper + 1e-12
    assert best.lower - 1e-12 <= found.certificate.upper
    assert asked.n <= 40


@pytest.mark.parametrize("name", ["binary", "three", "huber"])
def test_no_lower_value_on_the_way_is_too_high(name: str) -> None:
    """Of any two looks or more, at mixtures about the one of the path."""
    asked, rng = Asked(name), np.random.default_rng(0)
    mixture = asked.solve(ax.Simplex(3), 1e-1).mixture
    parts, proved = asked.parts, 0
    looks = parts.looks
    for n in range(2, len(looks)):
        parts.looks = looks[:n]
        lam = 0.9 * mixture + 0.1 * rng.dirichlet(np.ones(3))
        lower = asked.phi.lower(parts.looks[-1], lam)
        fixed = ax.Hull(lam[None])
        assert lower <= ax.solve(asked.whole, fixed, gamma=1e-1, tol=1e-9).certificate.upper + 1e-12
        proved += lower > 0
    assert proved > 0


def test_without_an_intercept_one_look_proves_something() -> None:
    asked = Asked("binary", intercept=False)
    assert asked.solve(ax.Simplex(3), 1e-1).certificate.gap <= 1e-6
    asked.parts.looks = asked.parts.looks[:1]
    assert asked.phi.lower(asked.parts.looks[0], np.ones(3) / 3) > 0


def test_where_a_long_w_is_refused_steps_are_shorter() -> None:
    free = Asked("binary")
    w = free.solve(ax.Simplex(3), 1e-3).w
    first = np.linalg.norm(free.parts.looks[1].w)
    asked = Asked("binary", longest=max(float(np.linalg.norm(w)) * 1.05, 0.9 * float(first)))
    assert np.allclose(asked.solve(ax.Simplex(3), 1e-3).w, w, atol=1e-2)
    with pytest.raises(InputError) as raised:
        Asked("binary", longest=0.01).solve(ax.Simplex(3), 1e-3)
    assert raised.value.argument == "limits.norm"
