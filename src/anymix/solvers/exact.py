"""The exact solution of min_w max_{λ∈Λ} Φ(w, λ), with its certificate.

The iterates of `sqp` are followed until the gap between what the model reaches and what no model
can beat is small. The problem is an oracle of sums (`problem.oracle`): rows here, or far away.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.mixtures.parsing import Mixtures
from anymix.objective import Objective, Parts, Phi, objective_of, refuse_parts
from anymix.problem.oracle import Conditioned, Here, Oracle
from anymix.solvers.certificates import (
    Certificate,
    bracket,
    certificate_at,
    certificate_of_product,
    sharper_lower,
    without_rounding,
)
from anymix.solvers.curvature import centred
from anymix.solvers.sqp import Iterate, Trail, Waypoint, iterates

Array = NDArray[np.float64]
Record = dict[str, Any]

__all__ = ["Record", "Solution", "check_solver_input", "solve", "starting_point", "with_mean_of"]

MOST_TURNS = 50  # of a prior that multiplies
TO_CLOSE_IT = (
    "raise max_iter or tol, centre or scale the columns, or raise gamma (with gamma = 0 there is "
    "no best model for separable data, and no proof where columns differ by rounding only)"
)


@dataclass(frozen=True)
class Solution:
    """The best model for the worst mixture, that mixture, and the proof.

    Attributes
    ----------
    w : ndarray of shape (D,)
        The model.
    mixture : ndarray of shape (p,)
        The mixture λ that proves the lower value.
    domain_losses : ndarray of shape (p,)
        L_1(w), …, L_p(w).
    objective : float
        What the model reaches, max_λ Φ(w, λ).
    certificate : Certificate
        The objective, and what no model can beat.
    n_iter : int
        Number of iterations.
    history : list of dict
        A record for every iteration: iteration, upper, lower, gap, worst_domain, mixture.
    converged : bool
        Whether the gap is as small as was asked for.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> problem = ax.LinearDomains(np.zeros((4, 1)), [1, 1, 0, 1], ["a", "a", "b", "b"])
    >>> solution = ax.solve(problem, gamma=0.0)
    >>> print(solution.certificate)
    agnostic objective 0.693147, no model below 0.693147 (gap ...)
    >>> solution.mixture.tolist(), solution.n_iter, len(solution.history)
    ([0.0, 1.0], 1, 1)
    """

    w: Array
    mixture: Array
    domain_losses: Array
    objective: float
    certificate: Certificate
    n_iter: int
    history: list[Record] = field(repr=False)
    converged: bool = True


def solve(
    problem: Oracle,
    mixtures: Objective | Mixtures = None,
    *,
    tol: float = 1e-6,
    start: Solution | Waypoint | ArrayLike | None = None,
    max_iter: int = 1000,
    verbose: bool = False,
    **parts: Unpack[Parts],
) -> Solution:
    """min_w max_{λ∈Λ} Σ_k λ_k (L_k(w) − b_k) + γ R(w − a) − μ χ²(λ‖m̄) + log p(λ), certified.

    A gap above tol at the end raises a ConvergenceWarning that names it.

    Parameters
    ----------
    problem : Oracle
        LinearDomains, or any oracle of the same sums (clients, workers).
    mixtures : Objective, MixtureSet, function, str or None
        What is to be minimised; or Λ alone (None is the whole simplex), and the rest by name.
    tol : float, default 1e-6
        Stop when the duality gap is at most tol (times the loss of the best constant model where
        that is below 1, as in regression on small targets; never below rounding).
    start : Solution or array-like of shape (D,), optional
        An earlier Solution (warm start along a path), or a vector w.
    max_iter : int, default 1000
        The largest number of iterations.
    verbose : bool, default False
        Show a progress line.
    **parts : Any
        Parts of an `Objective` by name: gamma (1e-3), mu, norm, prior, offsets, anchor, ...; not
        beside one.

    Returns
    -------
    Solution
        The model, the worst mixture and the certificate.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> X, y = np.zeros((4, 1)), [1, 1, 0, 1]           # domain a: always 1; b: half 0, half 1
    >>> problem = ax.LinearDomains(X, y, ["a", "a", "b", "b"])
    >>> uniform = ax.solve(problem, ax.Point([0.5, 0.5]), gamma=0.0)
    >>> agnostic = ax.solve(problem, ax.Simplex(2), gamma=0.0)
    >>> uniform.domain_losses.max().round(4), agnostic.domain_losses.max().round(4)
    (np.float64(0.837), np.float64(0.6931))
    >>> agnostic.certificate.gap < 1e-6
    True
    """
    objective = objective_of(mixtures, parts)
    check_solver_input(problem, tol, max_iter)
    problem = problem.merged()
    if objective.multiplicative:
        return _solve_product(problem, objective, tol, start, max_iter)
    phi = phi_to_solve(problem, objective)
    return solve_phi(problem, phi, tol, start, max_iter, verbose=verbose)


def phi_to_solve(problem: Oracle, objective: Objective) -> Phi:
    """Φ of a problem; the exact solver knows no ball."""
    refuse_parts(objective, "leave it out: the exact solver takes no ball", w_radius=None)
    return objective.on(problem)


def solve_phi(
    problem: Oracle,
    objective: Phi,
    tol: float,
    start: Solution | Waypoint | ArrayLike | None,
    max_iter: int,
    *,
    verbose: bool = False,
    trail: Trail | None = None,
) -> Solution:
    """The solution for merged rows; `trail` is what other models of the same rows have left."""
    tol *= problem.loss_scale
    inside = problem.conditioned()
    with _progress(verbose) as watch:
        if inside is None:
            found = _solve(problem, objective, tol, start, max_iter, watch, trail)
            solution = _said(problem, objective, found.w, found, tol)
        else:
            solution = _solve_inside(inside, objective, tol, start, max_iter, watch, trail)
    if not solution.converged:
        from anymix.solvers.gap_warning import warn_of_gap  # loads scikit-learn

        done, gap = f"{solution.n_iter} iterations", solution.certificate.gap
        warn_of_gap(done, gap, tol, TO_CLOSE_IT, level=4)  # whoever called the caller
    return solution


def check_solver_input(problem: Oracle, tol: float, max_iter: int) -> None:
    """Refuse losses without curvature, and numbers that say nothing."""
    if not problem.is_smooth:
        loss = getattr(problem, "loss", "the loss")
        fix = "use a loss with curvature such as CrossEntropy here, or a stochastic solver"
        raise InputError("", f"{loss} has no curvature for the exact solver", fix)
    if not (isinstance(tol, numbers.Real) and 0 < tol < np.inf):
        raise InputError("tol", f"is {tol!r}", "give a positive number such as 1e-6")
    if not (isinstance(max_iter, numbers.Integral) and max_iter >= 1):
        raise InputError("max_iter", f"is {max_iter!r}", "give a whole number, at least 1")


def _solve(
    problem: Oracle,
    objective: Phi,
    tol: float,
    start: Solution | Waypoint | ArrayLike | None,
    max_iter: int,
    watch: Callable[[Record], None],
    trail: Trail | None = None,
) -> _Found:
    least = max(tol, 1e-12 * problem.loss_scale)  # nothing finer can be seen
    objective = objective.smoothed(0.01 * least)
    trail = Trail() if trail is None else trail
    begin = starting_point(problem, objective, start, trail)
    path = trail.followed(iterates(problem, objective, *begin, steps=trail.steps))
    return _followed(problem, objective, path, tol, max_iter, watch)


def _said(problem: Oracle, objective: Phi, w: Array, found: _Found, tol: float) -> Solution:
    """All that is said of w, after a look at it that knows no other: steps leave their rounding."""
    here = problem.at(w)
    certificate = certificate_at(objective, here, found.lower)
    upper, gap = certificate.upper, certificate.gap
    found.history[-1] |= {"upper": upper, "lower": certificate.lower, "gap": gap}
    return Solution(
        w=w,
        mixture=found.mixture,
        domain_losses=here.losses,
        objective=upper,
        certificate=certificate,
        n_iter=len(found.history),
        history=found.history,
        converged=gap <= objective.resolution(here, upper, tol),
    )


def _solve_inside(
    inside: Conditioned,
    objective: Phi,
    tol: float,
    start: Solution | Waypoint | ArrayLike | None,
    max_iter: int,
    watch: Callable[[Record], None],
    trail: Trail | None = None,
) -> Solution:
    """The solution by way of the inner problem; its value is that of the w returned."""
    unit, inner = inside.scale * inside.scale, objective.inside(inside)
    if isinstance(start, Solution | Waypoint):
        start = replace(start, w=inside.inward(start.w))
    elif start is not None:
        start = inside.inward(np.asarray(start, dtype=np.float64))
    found = _solve(inside.problem, inner, tol / unit, start, max_iter, watch, trail)
    w = inside.outward(found.w)
    said = _said(inside.problem, inner, inside.inward(w), found, tol / unit)
    scaled = ("upper", "lower", "gap")
    return replace(
        said,
        w=w,
        domain_losses=said.domain_losses * unit,
        objective=said.objective * unit,
        certificate=Certificate(said.certificate.upper * unit, said.certificate.lower * unit),
        history=[{k: v * unit if k in scaled else v for k, v in r.items()} for r in said.history],
    )


def starting_point(
    problem: Oracle,
    objective: Phi,
    start: Solution | Waypoint | ArrayLike | None,
    trail: Trail | None = None,
) -> tuple[Here, Array]:
    """Where to begin: as asked, or from the solution on some of the rows, or from the anchor."""
    if start is not None:
        return _asked(problem, objective, start, Trail() if trail is None else trail)
    coarse = problem.coarse()
    if coarse is None:
        center = objective.mixtures.center
        return problem.at(objective.shrinkage.origin, center), center
    noise = problem.n_parameters / coarse.n_rows  # no need to solve a sample any better
    begin = starting_point(coarse, objective, None)
    for at in islice(iterates(coarse, objective, *begin, rows=100), 30):
        if at.expected <= noise:
            break
    return problem.at(at.there.w, at.mixture), at.mixture


def _asked(
    problem: Oracle, objective: Phi, start: Solution | Waypoint | ArrayLike, trail: Trail
) -> tuple[Here, Array]:
    """The start asked for, unless the anchor is better: from far out the way is long."""
    w = np.asarray(start.w if isinstance(start, Solution | Waypoint) else start, dtype=np.float64)
    origin = objective.shrinkage.origin
    if w.shape == origin.shape:
        w = with_mean_of(origin, w, problem.n_scores)
    if isinstance(start, Solution | Waypoint):
        mixture = objective.mixtures.project(start.mixture)
        places = [trail.at(problem, place, mixture) for place in (w, origin)]
        return min(places, key=objective.upper), mixture
    here = min(problem.at(w), problem.at(origin), key=objective.upper)
    return here, objective.best_response(here.losses)


def with_mean_of(origin: Array, w: Array, n_scores: int) -> Array:
    """w with the mean of its K blocks moved to where R wants it, for no loss sees that mean."""
    return w if n_scores == 1 else centred(n_scores, w - origin) + origin


@dataclass(frozen=True)
class _Found:
    """Where the iterates have led, the best lower value and the λ that proves it."""

    w: Array
    mixture: Array
    lower: float
    history: list[Record]


def _followed(
    problem: Oracle,
    objective: Phi,
    path: Iterator[Iterate],
    tol: float,
    max_iter: int,
    watch: Callable[[Record], None],
) -> _Found:
    """Follow the iterates until the gap is at most tol, or to their end."""
    lower, proof = -np.inf, np.empty(0)  # the best lower value and the λ that proves it
    history: list[Record] = []
    tried = np.inf  # the decrease expected when a proof was last tried
    for at in path:
        n_iter, there, upper = len(history) + 1, at.there, at.upper
        small = objective.resolution(there, upper, tol)  # no gap is smaller than rounding
        close = abs(at.upper - at.model) <= 3 * small and at.expected <= 0.25 * tried
        if close or there is at.here or (n_iter == max_iter and not proof.size):
            (bound, mixture), tried = _lower(problem, objective, at, small), at.expected
            if bound > lower or not proof.size:
                lower, proof = bound, mixture
        history.append(_record(n_iter, at, lower))
        watch(history[-1])
        if upper - lower <= small or n_iter == max_iter:
            break
        del at  # the rows' numbers at `here` make room for the next step's
    return _Found(there.w, proof, lower, history)


def _lower(problem: Oracle, objective: Phi, at: Iterate, small: float) -> tuple[float, Array]:
    """A lower value and the λ that proves it: the iterate's, or the same less its rounding."""
    bound, mixture = _lower_of(problem, objective, at, small), at.mixture
    if objective.gamma > 0 or at.upper - bound <= small or len(at.step) > problem.hessian_up_to:
        return bound, mixture
    cut = without_rounding(objective.mixtures, mixture)
    other = -np.inf if cut is None else sharper_lower(problem, objective, at.there, cut)
    return (bound, mixture) if cut is None or bound >= other else (other, cut)


def _lower_of(problem: Oracle, objective: Phi, at: Iterate, small: float) -> float:
    """The proof from the model's step, or from an exact Newton step where only that is tight.

    H is not quite the curvature at λ: the step leaves g = ∇Φ + ∇²Φ·step of the gradient, which
    costs the bound |g|²/2γ. Where that matters the step is refined once, for less than the price
    of another iteration. What rounding may have done is bounded by numbers known already, where
    that costs no more than a twentieth of the gap that is asked for.
    """
    here, step, mixture = at.here, at.step, at.mixture
    has_hessian = len(step) <= problem.hessian_up_to
    if objective.gamma == 0 and not has_hessian:
        return objective.lower(at.there, mixture)
    if problem.brings_curvature:  # then the tangent has its proof with it, and a step costs more
        bound = objective.lower(at.there, mixture)
        if at.upper - bound <= small:
            return bound
    if objective.gamma == 0 or problem.brings_curvature or (at.there is here and has_hessian):
        return sharper_lower(problem, objective, at.there, mixture)
    if at.refine is not None:
        g = at.gradient + here.hessian_vector(mixture, step)
        g += objective.regularizer_gradient(here.w + step)
        if objective.shrinkage.price(g) > 0.1 * small:
            step = step - at.refine(g)
    return objective.lower(here, mixture, step, spare=0.05 * small)


def _solve_product(
    problem: Oracle,
    objective: Objective,
    tol: float,
    start: Solution | Waypoint | ArrayLike | None,
    max_iter: int,
) -> Solution:
    """min_w max_{λ∈Λ} p(λ) L(w, λ) + γ R(w − a),  L(w, λ) = Σ_k λ_k L_k(w), with a certificate.

    The product need not be concave in λ, not even where p is (p = 2 λ_1 and L = (1, 0) give
    2 λ_1²). But for a log-concave p and losses ≥ 0 its logarithm log p(λ) + log L(w, λ) is, so the
    two players have a saddle point (w*, λ*) all the same (Sion, On general minimax theorems, 1958).
    There, with v = L(w*, λ*) and π = p(λ*), λ* also maximises L(w*, λ) + v log p(λ), and w* also
    minimises L(w, λ*) + (γ/π) R(w): it is the saddle point of an additive prior, v log p, with γ/π
    for γ. So the solver above finds it, once v and π are known; they are found by turns.
    """
    additive = replace(objective, multiplicative=False)
    phi = phi_to_solve(problem, additive)
    prior = phi.penalty
    lam = phi.best_response(np.zeros(problem.n_domains))
    here = problem.at(np.zeros(problem.n_parameters))
    v, π = float(lam @ here.losses), math.exp(-prior.value(lam))
    upper, lower, history = math.inf, -math.inf, list[Record]()
    best, mixture = here, lam
    for number in range(1, min(max_iter, MOST_TURNS) + 1):
        inner = replace(additive, gamma=objective.gamma / π, prior=prior.times(max(v, 1e-12)))
        found = solve_phi(problem, inner.on(problem), min(tol / π, 1e-6) / 10, start, 1000)
        start, here = None, problem.at(found.w)
        proof = certificate_of_product(problem, objective, here, found.mixture)
        if proof.upper < upper:
            upper, best = proof.upper, here
        if proof.lower > lower:
            lower, mixture = proof.lower, found.mixture
        history.append(
            {
                "iteration": number,
                "upper": upper,
                "lower": lower,
                "gap": upper - lower,
                "worst_domain": int(np.argmax(best.losses)),
                "mixture": mixture.tolist(),
            }
        )
        if upper - lower <= tol:
            break
        π = math.exp(-prior.value(found.mixture))
        v = math.sqrt(v * float(found.mixture @ here.losses))  # halfway, or it may swing
    known = bracket(upper, lower, 1e-9 * abs(upper))
    if known.gap > tol:
        from anymix.solvers.gap_warning import warn_of_gap  # loads scikit-learn

        fix = "raise max_iter or tol, or gamma"
        warn_of_gap(f"{len(history)} turns", known.gap, tol, fix, level=4)
    done = len(history), history, known.gap <= tol
    return Solution(best.w, mixture, best.losses, upper, known, *done)


def _record(n_iter: int, at: Iterate, lower: float) -> Record:
    return {
        "iteration": n_iter,
        "upper": at.upper,
        "lower": lower,
        "gap": at.upper - lower,
        "worst_domain": int(np.argmax(at.there.losses)),
        "mixture": at.mixture.tolist(),
    }


@contextmanager
def _progress(verbose: bool) -> Iterator[Callable[[Record], None]]:
    if not verbose:
        yield lambda _: None
        return
    from rich.progress import Progress, TextColumn

    with Progress(TextColumn("{task.description}")) as bar:
        task = bar.add_task("")
        yield lambda r: bar.update(
            task,
            description=f"iteration {r['iteration']}: upper {r['upper']:.8f}  lower "
            f"{r['lower']:.8f}  gap {r['gap']:.1e}  worst domain {r['worst_domain']}",
        )
