"""Many models of one problem, each from the one before it, as a search needs them: without proofs.

A search compares losses on rows held out, to which a proof about the rows fitted adds nothing. So
Newton's steps stop here when another one would hardly gain anything. And what all models of a
problem share is computed once, as is all that is known at the end of one and the start of the next.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from anymix.objective import Objective, Phi
from anymix.problem.oracle import Here, Oracle
from anymix.solvers.exact import (
    check_solver_input,
    phi_to_solve,
    solve_phi,
    starting_point,
    with_mean_of,
)
from anymix.solvers.sqp import Iterate, Trail, Waypoint, iterates

Array = NDArray[np.float64]

__all__ = ["Path"]

CARE = 0.3  # an estimate is not a proof; with this, models are as good as those proved
FEW = 20  # steps; where more are needed, only a proof says when to stop


class Path:
    """Models of one problem, each found quickly from another one.

    They are good to about `tol`. Where few of Newton's steps are not enough, or cannot be trusted,
    `solve` itself is asked.

    Examples
    --------
    >>> import anymix as ax
    >>> problem = ax.LinearDomains([[0.0]] * 4, [1, 1, 0, 1], ["a", "a", "b", "b"])
    >>> path = Path(problem)
    >>> first = path.model(ax.Objective(ax.Point([0.5, 0.5]), gamma=0.1))
    >>> second = path.model(ax.Objective(gamma=0.1), start=first)
    >>> float(first.domain_losses.max().round(2)), float(second.domain_losses.max().round(2))
    (0.84, 0.69)
    """

    def __init__(self, problem: Oracle, tol: float = 1e-4, max_iter: int = 1000) -> None:
        check_solver_input(problem, tol, max_iter)
        self.problem = problem.merged()
        self.asked, self.max_iter = tol, max_iter
        self.inside = self.problem.conditioned()
        self.inner = self.problem if self.inside is None else self.inside.problem
        self.unit = 1.0 if self.inside is None else self.inside.scale**2
        self.tol = tol * self.problem.loss_scale / self.unit
        self._trail = Trail(self.inner.n_parameters)
        self._last: tuple[Waypoint, Here] | None = None  # the model found last
        self._fork: tuple[Waypoint, Here] | None = None  # where several ways begin

    def model(self, objective: Objective, start: Waypoint | None = None) -> Waypoint:
        """About the least w, begun at another model of this path."""
        phi = phi_to_solve(self.problem, objective)
        at = self._settled(phi, start)
        if at is not None:
            return self._found(at.there, at.mixture)
        self._last = None  # makes room
        found = solve_phi(self.problem, phi, self.asked, start, self.max_iter, trail=self._trail)
        return Waypoint(found.w, found.mixture, found.domain_losses)

    def _settled(self, objective: Phi, start: Waypoint | None) -> Iterate | None:
        """The first of Newton's steps after which little is left; None if that takes too long.

        A learnt curvature, or that of a norm near its kink, may be far too large. Then it says
        too early that nothing is left, and a proof is needed.
        """
        inner, max_iter = self.inner, self.max_iter
        if inner.n_parameters > inner.dense_up_to or not objective.shrinkage.is_quadratic:
            return None
        if self.inside is not None:
            objective = objective.inside(self.inside)
        path = iterates(inner, objective, *self._begin(objective, start))
        for at in islice(path, min(FEW, max_iter)):
            inverse = at.refine if at.is_newton else None
            enough = CARE * objective.resolution(at.there, at.upper, self.tol)
            if inverse is not None and _left(objective, at, inverse) <= enough:
                return at
        return None

    def _begin(self, objective: Phi, start: Waypoint | None) -> tuple[Here, Array]:
        if start is None:
            return starting_point(self.inner, objective, None)
        here, mixture = self._known(start), objective.mixtures.project(start.mixture)
        if self.inner.n_scores == 1:
            return here, mixture
        w = with_mean_of(objective.shrinkage.origin, here.w, self.inner.n_scores)
        was_pulled_there = np.allclose(w, here.w, rtol=0, atol=1e-9)
        return here if was_pulled_there else self.inner.at(w), mixture

    def _known(self, start: Waypoint) -> Here:
        """What is known at a start: of the model found last, and of one other, it is kept."""
        if self._last is not None and self._last[0] is start:
            return self._last[1]
        if self._fork is None or self._fork[0] is not start:
            w = start.w if self.inside is None else self.inside.inward(start.w)
            self._fork = start, self.inner.at(w)
        return self._fork[1]

    def _found(self, here: Here, mixture: Array) -> Waypoint:
        w = here.w if self.inside is None else self.inside.outward(here.w)
        found = Waypoint(w, mixture, here.losses * self.unit)
        self._last = found, here
        return found


def _left(objective: Phi, at: Iterate, inverse: Callable[[Array], Array]) -> float:
    """About how much Φ can still fall: max_λ Φ(w, λ) − Φ(w, λ') + ½ gᵀH⁻¹g, g = ∇_w Φ(w, λ').

    The last part is what another Newton step would gain, for the λ' of the step before.
    """
    there, mixture = at.there, at.mixture
    value = objective.mixture_value(there.losses, mixture) + objective.regularizer(there.w)
    g = there.jacobian().T @ mixture + objective.regularizer_gradient(there.w)
    return at.upper - value + 0.5 * float(g @ inverse(g))
