"""Sequential quadratic programming on the domains: the iterates of the exact solver.

At (w, λ), with losses L, Jacobian J = (∇L_k)ᵀ, and H ≈ ∇²_w Φ(w, λ), the step d and the next
mixture solve

    min_d max_{λ'∈Λ}  ⟨λ', L + J d − b⟩ − penalty(λ') + γ(R(w) + ⟨∇R(w), d⟩) + ½ dᵀH d.

With d eliminated this is a small exact quadratic program over Λ (`MixtureSet.minimize_quadratic`).
Near the solution the constraint curvature may reject good steps (the Maratos effect), which a
second-order correction cures. Every iterate is compared by the agnostic objective itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from anymix.objective import Phi
from anymix.problem.oracle import Here, Oracle
from anymix.solvers.curvature import Curvature, Newton, Steps, choose_curvature

Array = NDArray[np.float64]

__all__ = ["Iterate", "Trail", "Waypoint", "iterates"]

PATIENCE = 150  # iterations after which a Hessian is worth its price after all


@dataclass(frozen=True)
class Iterate:
    """One step of the method: from `here` along `step` to `there`, and the λ that chose it."""

    here: Here
    there: Here  # `here` itself when nothing goes down any more
    step: Array
    mixture: Array
    gradient: Array  # Σ_k λ_k ∇L_k at `here`
    upper: float  # the objective at `there`
    model: float  # what the quadratic model promised for `here` + `step`
    expected: float  # the decrease it promised
    refine: Callable[[Array], Array] | None  # v ↦ H⁻¹v, where that saves an iteration
    is_newton: bool  # whether H is the curvature itself, not one learnt or damped


@dataclass(frozen=True, eq=False)
class Waypoint:
    """A model about as good as the best one for the worst mixture, without a proof of that.

    Parameters
    ----------
    w : ndarray of shape (D,)
        The model.
    mixture : ndarray of shape (p,)
        About the worst mixture λ.
    domain_losses : ndarray of shape (p,)
        L_1(w), …, L_p(w).
    """

    w: Array
    mixture: Array
    domain_losses: Array


def iterates(
    problem: Oracle,
    objective: Phi,
    here: Here,
    mixture: Array,
    rows: int = 400,
    steps: Steps | None = None,
) -> Iterator[Iterate]:
    """The iterates from (w, λ), until nothing lowers the objective any more."""
    jacobian, upper = here.jacobian(), objective.upper(here)
    curvature = choose_curvature(problem, objective, rows, steps)
    for k in count():
        if k == PATIENCE and problem.n_parameters <= problem.hessian_up_to:
            # too ill-conditioned for a learnt curvature
            curvature = Newton(problem, objective, rows)
        curvature.update(here, mixture)
        program = _Program(objective, curvature, jacobian, here.w)
        step, target, model = program.solve(here.losses, mixture)
        there, new_upper = _search(program, here, step, (mixture, target), upper, upper - model)
        expected = upper - model
        gradient = jacobian.T @ target
        yield Iterate(
            here,
            there,
            step,
            target,
            gradient,
            new_upper,
            model,
            expected,
            curvature.refine,
            curvature.is_newton,
        )
        curvature.judge((upper - new_upper) / max(upper - model, 1e-300))
        upper, mixture = new_upper, target
        if there is not here:
            old_w, here = here.w, there  # what is known of the rows at the old w makes room
            new_jacobian = here.jacobian()
            curvature.learn(old_w, here.w, (new_jacobian - jacobian).T @ target)
            jacobian = new_jacobian
        elif not curvature.restart():
            return


@dataclass
class _Program:
    """The quadratic model of Φ around w as a program over Λ, for any losses L at w."""

    objective: Phi
    curvature: Curvature
    jacobian: Array  # (p, D)
    w: Array

    def __post_init__(self) -> None:
        self.r = self.objective.regularizer_gradient(self.w)  # (D,)
        self.factor, self.cross, self.back = self.curvature.eliminate(self.jacobian, self.r)

    def solve(self, losses: Array, mixture: Array) -> tuple[Array, Array, float]:
        """The step d, the mixture λ' and the model's value there."""
        target = _dual_step(
            self.objective, losses - self.objective.offsets - self.cross, self.factor, mixture
        )
        step = self.back(target)
        slope = self.jacobian.T @ target + self.r  # = −H d
        value = self.objective.worst_value(losses + self.jacobian @ step)
        value += self.objective.regularizer(self.w) + float(self.r @ step)
        return step, target, value - 0.5 * float(step @ slope)


def _dual_step(objective: Phi, c: Array, factor: Array, mixture: Array) -> Array:
    """argmin_{λ∈Λ} ½|Fᵀλ|² − ⟨c, λ⟩ + penalty(λ)."""
    mixtures, penalty = objective.mixtures, objective.penalty
    if penalty.is_quadratic:
        return mixtures.minimize_quadratic(c, factor, penalty.hessian(mixture), mixture)
    lam = np.maximum(mixture, 1e-12)
    for _ in range(50):  # Newton's method for a penalty that is not quadratic
        h, g = penalty.hessian(lam), penalty.gradient(lam)
        new = mixtures.minimize_quadratic(c - g + h * lam, factor, h, mixture)
        change = new - lam
        falling = change < 0
        t = min(1.0, float(np.min(-0.9 * lam[falling] / change[falling], initial=1.0)))
        lam = lam + t * change
        if np.max(np.abs(change)) <= 1e-13:
            break
    return lam


def _search(
    program: _Program,
    here: Here,
    step: Array,
    mixtures: tuple[Array, Array],
    upper: float,
    expected: float,
) -> tuple[Here, float]:
    """The first of w + d, its second-order correction, w + d/2, w + d/4, … that goes down.

    Gives that point and its objective, or the present ones if there is none.
    """
    if expected <= 1e-15 * abs(upper):
        return here, upper
    mixture, target = mixtures  # λ and the λ' of the next iteration
    there = here.moved(step, 1.0, target)
    value = program.objective.upper(there)
    if value <= upper - 1e-4 * expected:
        return there, value
    corrected, _, _ = program.solve(there.losses - program.jacobian @ step, mixture)
    there = here.moved(corrected, 1.0, target)
    value = program.objective.upper(there)
    if value <= upper - 1e-4 * expected:
        return there, value
    for k in range(1, 40):
        there = here.moved(step, 0.5**k, target)
        value = program.objective.upper(there)
        if value <= upper - 1e-4 * 0.5**k * expected:
            return there, value
    return here, upper


WIDEST = 2**16  # parameters of models of which something is kept
STEPS, PLACES = 12, 2  # kept; besides the end of the last model, places are the anchor and 0


class Trail:
    """Steps and places of other models of the same rows.

    The curvature of the losses is about the same there, and that of γR is added anew.

    Parameters
    ----------
    n_parameters : int or None
        D; nothing is kept of very wide models, or with None.
    """

    def __init__(self, n_parameters: int | None = None) -> None:
        self.is_kept = n_parameters is not None and n_parameters <= WIDEST
        self.steps: Steps = deque(maxlen=STEPS if self.is_kept else 0)
        self._places: deque[Here] = deque(maxlen=PLACES if self.is_kept else 0)
        self._end: Here | None = None

    def at(self, problem: Oracle, w: Array, mixture: Array) -> Here:
        """What is known of the rows at w: what was, or what is found out now."""
        if self._end is not None and np.array_equal(self._end.w, w):
            return self._end
        for here in self._places:
            if np.array_equal(here.w, w):
                return here
        here = problem.at(w, mixture)
        self._places.append(here)
        return here

    def followed(self, path: Iterator[Iterate]) -> Iterator[Iterate]:
        """The same iterates, of which the last is kept."""
        for at in path:
            self._end = at.there if self.is_kept else None
            yield at
            del at  # makes room
