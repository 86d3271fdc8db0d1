"""The exact solution of min_w max_{λ∈Λ} Φ(w, λ), with its certificate.

Sequential quadratic programming on the domains: at (w, λ), with losses L, Jacobian J = (∇L_k)ᵀ,
and H ≈ ∇²_w Φ(w, λ), the step d and the next mixture solve

    min_d max_{λ'∈Λ}  ⟨λ', L + J d − b⟩ − penalty(λ') + γ(R(w) + ⟨∇R(w), d⟩) + ½ dᵀH d.

With d eliminated this is a small exact quadratic program over Λ (`MixtureSet.minimize_quadratic`).
H is the true curvature for narrow data, and a preconditioned L-BFGS model of it for wide data.
Near the solution the constraint curvature may reject good steps (the Maratos effect), which a
second-order correction cures. Every iterate is compared by the agnostic objective itself.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg import cho_solve, eigh, solve_triangular

from anymix.mixtures import DirichletPrior, MixtureSet
from anymix.problem.linear import Evaluation, LinearDomains
from anymix.solvers.certificates import (
    Certificate,
    Here,
    Objective,
    Oracle,
    bracket,
    damped_cholesky,
    sharper_lower,
)
from anymix.solvers.conditioning import Conditioned, conditioned

Array = NDArray[np.float64]
Record = dict[str, Any]

__all__ = ["Solution", "solve"]

PATIENCE = 150  # iterations after which a Hessian is worth its price after all
MOST_DENSE = 3000  # parameters: beyond it no dense Hessian is formed


@dataclass(frozen=True)
class Solution:
    """The best model for the worst mixture, that mixture, and the proof.

    `objective` is max_λ Φ(w, λ); `history` has a record for every iteration (iteration, upper,
    lower, gap, worst_domain, mixture).

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
    mixtures: MixtureSet | None = None,
    gamma: float = 1e-3,
    mu: float = 0.0,
    norm: str = "squared",
    offsets: ArrayLike | None = None,
    tol: float = 1e-6,
    *,
    prior: DirichletPrior | None = None,
    start: Solution | ArrayLike | None = None,
    max_iter: int = 1000,
    verbose: bool = False,
) -> Solution:
    """min_w max_{λ∈Λ} Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄) + log p_Λ(λ), certified.

    Parameters
    ----------
    problem : LinearDomains, or any oracle of the same sums (clients, workers).
    mixtures : Λ; None is the whole simplex.
    gamma, norm : weight of R(w) = ½‖w‖² ("squared") or ‖w‖ ("plain"); the intercept is free.
    mu : weight of the χ² penalty that keeps λ near the sample proportions m̄.
    offsets : b_k, (p,); with b_k the best loss of domain k alone the solution is minimax regret.
    tol : stop when the duality gap is at most tol (times the loss of the best constant model where
        that is below 1, as in regression on small targets; never below rounding).
    prior : a DirichletPrior on λ instead of mu.
    start : an earlier Solution (warm start along a path), or a vector w.
    verbose : show a progress line.

    A gap above tol at the end raises a ConvergenceWarning that names it.

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
    _check_solver_input(problem, tol, max_iter)
    if isinstance(problem, LinearDomains):
        problem = problem.merged()
    objective = Objective.of(problem, mixtures, gamma, mu, norm, offsets, prior)
    tol *= problem.loss_scale
    inside = conditioned(problem)
    with _progress(verbose) as watch:
        if inside is None:
            solution = _solve(problem, objective, tol, start, max_iter, watch)
        else:
            solution = _solve_inside(inside, objective, tol, start, max_iter, watch)
    if not solution.converged:
        _warn(solution, tol)
    return solution


def _check_solver_input(problem: Oracle, tol: float, max_iter: int) -> None:
    if isinstance(problem, LinearDomains) and not problem.loss.is_smooth:
        raise ValueError(
            f"{problem.loss} has no curvature for the exact solver; use CrossEntropy, SquaredError "
            "or Huber here, or a stochastic solver"
        )
    if not (isinstance(tol, numbers.Real) and 0 < tol < np.inf):
        raise ValueError(f"tol is {tol!r}; give a positive number such as 1e-6")
    if not (isinstance(max_iter, numbers.Integral) and max_iter >= 1):
        raise ValueError(f"max_iter is {max_iter!r}; give a whole number, at least 1")


def _solve(
    problem: Oracle,
    objective: Objective,
    tol: float,
    start: Solution | ArrayLike | None,
    max_iter: int,
    watch: Callable[[Record], None],
) -> Solution:
    if objective.norm == "plain" and objective.gamma > 0:
        least = max(tol, 1e-12 * problem.loss_scale)  # nothing finer can be seen
        objective = replace(objective, smoothing=0.01 * least / objective.gamma)
    w, mixture = _start(problem, objective, start)
    iterates = _sqp(problem, objective, w, mixture)
    return _certified(objective, iterates, tol, max_iter, watch)


def _solve_inside(
    inside: Conditioned,
    objective: Objective,
    tol: float,
    start: Solution | ArrayLike | None,
    max_iter: int,
    watch: Callable[[Record], None],
) -> Solution:
    """The solution by way of the inner problem; its value is that of the w returned."""
    o, unit = objective, inside.unit
    options = inside.options(o.gamma, o.mu, o.norm, o.offsets, o.prior)
    inner = Objective.of(inside.problem, o.mixtures, *options)
    if isinstance(start, Solution):
        start = replace(start, w=inside.inward(start.w))
    elif start is not None:
        start = inside.inward(np.asarray(start, dtype=np.float64))
    found = _solve(inside.problem, inner, tol / unit, start, max_iter, watch)
    w = inside.outward(found.w)
    here = inside.problem.at(inside.inward(w))
    upper, lower = inner.upper(here), found.certificate.lower
    small = max(tol / unit, inner.resolution(here, upper))
    found_inside = bracket(upper, lower, small)
    certificate = Certificate(found_inside.upper * unit, found_inside.lower * unit)
    scaled = ("upper", "lower", "gap")
    return replace(
        found,
        w=w,
        domain_losses=here.losses * unit,
        objective=certificate.upper,
        certificate=certificate,
        history=[{k: v * unit if k in scaled else v for k, v in r.items()} for r in found.history],
        converged=found_inside.gap <= small,
    )


def _start(
    problem: Oracle, objective: Objective, start: Solution | ArrayLike | None
) -> tuple[Array, Array]:
    """Where to begin: as asked, or from the solution on some of the rows, or from zero."""
    if start is not None:
        return _asked(problem, objective, start)
    if isinstance(problem, LinearDomains) and problem.n_rows > max(4000, 40 * problem.n_features):
        coarse = problem.sample(0.07)
        if coarse.n_rows < 0.5 * problem.n_rows:
            w, mixture = _start(coarse, objective, None)
            noise = problem.n_parameters / coarse.n_rows  # no need to solve a sample any better
            for at in islice(_sqp(coarse, objective, w, mixture, rows=100), 30):
                if at.expected <= noise:
                    break
            return at.there.w, at.mixture
    return np.zeros(problem.n_parameters), objective.mixtures.center


def _asked(
    problem: Oracle, objective: Objective, start: Solution | ArrayLike
) -> tuple[Array, Array]:
    """The start asked for, unless zero is better: from far out the way is long."""
    here = problem.at(start.w if isinstance(start, Solution) else start)
    here = problem.at(_centred(problem, here.w))
    zero = problem.at(np.zeros(problem.n_parameters))
    here = min(here, zero, key=objective.upper)
    if isinstance(start, Solution):
        return here.w, objective.mixtures.project(start.mixture)
    return here.w, objective.best_response(here.losses)


def _centred(problem: Oracle, w: Array) -> Array:
    """w less the mean of its K blocks, which no loss sees and the regulariser does not want."""
    n_scores = getattr(problem, "n_scores", 1)
    if n_scores == 1:
        return w
    blocks: Array = w.reshape(n_scores, -1)
    centred: Array = blocks - blocks.mean(axis=0)
    return centred.ravel()


@dataclass(frozen=True)
class _Iterate:
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


def _sqp(
    problem: Oracle, objective: Objective, w: Array, mixture: Array, rows: int = 400
) -> Iterator[_Iterate]:
    """The iterates from (w, λ), until nothing lowers the objective any more.

    A Hessian comes from about so many rows per parameter, which makes it right to 1/√rows.
    """
    here = problem.at(w)
    jacobian, upper = here.jacobian(), objective.upper(here)
    curvature = _choose_curvature(problem, objective, rows)
    for k in count():
        if k == PATIENCE and problem.n_parameters <= MOST_DENSE:
            curvature = _Newton(
                problem, objective, rows
            )  # too ill-conditioned for a learnt curvature
        curvature.update(here, mixture)
        program = _Program(objective, curvature, jacobian, here.w)
        step, target, model = program.solve(here.losses, mixture)
        there, new_upper = _search(program, here, step, (mixture, target), upper, upper - model)
        expected = upper - model
        gradient = jacobian.T @ target
        yield _Iterate(
            here, there, step, target, gradient, new_upper, model, expected, curvature.refine
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


def _certified(
    objective: Objective,
    iterates: Iterator[_Iterate],
    tol: float,
    max_iter: int,
    watch: Callable[[Record], None],
) -> Solution:
    """Follow the iterates until the gap is at most tol, or to their end."""
    lower, proof = -np.inf, np.empty(0)  # the best lower value and the λ that proves it
    history: list[Record] = []
    tried = np.inf  # the decrease expected when a proof was last tried
    for at in iterates:
        n_iter, there, upper = len(history) + 1, at.there, at.upper
        small = max(tol, objective.resolution(there, upper))  # no gap is smaller than rounding
        close = abs(at.upper - at.model) <= 3 * small and at.expected <= 0.25 * tried
        if close or there is at.here or (n_iter == max_iter and not proof.size):
            bound, tried = _lower(objective, at, small), at.expected
            if bound > lower or not proof.size:
                lower, proof = bound, at.mixture
        history.append(_record(n_iter, at, lower))
        watch(history[-1])
        if upper - lower <= small or n_iter == max_iter:
            break
        del at  # the rows' numbers at `here` make room for the next step's
    certificate = bracket(upper, lower, small)
    return Solution(
        w=there.w,
        mixture=proof,
        domain_losses=there.losses,
        objective=upper,
        certificate=certificate,
        n_iter=n_iter,
        history=history,
        converged=certificate.gap <= small,
    )


def _lower(objective: Objective, at: _Iterate, small: float) -> float:
    """The proof from the model's step, or from an exact Newton step where only that is tight.

    H is not quite the curvature at λ: the step leaves g = ∇Φ + ∇²Φ·step of the gradient, which
    costs the bound |g|²/2γ. Where that matters the step is refined once, for less than the price
    of another iteration.
    """
    here, step = at.here, at.step
    if objective.gamma == 0 and len(step) > MOST_DENSE:
        return objective.lower(at.there, at.mixture)
    if objective.gamma == 0 or not isinstance(here, Evaluation):
        return sharper_lower(objective, at.there, at.mixture)  # far away, a step costs no look
    if at.there is here and len(step) <= MOST_DENSE:
        return sharper_lower(objective, here, at.mixture)
    if at.refine is not None:
        g = at.gradient + here.hessian_vector(at.mixture, step)
        g += objective.regularizer_gradient(here.w + step)
        if objective.norm == "plain" or float(g @ g) > 0.2 * objective.gamma * small:
            step = step - at.refine(g)
    return objective.lower(here, at.mixture, step)


@dataclass
class _Program:
    """The quadratic model of Φ around w as a program over Λ, for any losses L at w."""

    objective: Objective
    curvature: Any
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


def _dual_step(objective: Objective, c: Array, factor: Array, mixture: Array) -> Array:
    """argmin_{λ∈Λ} ½|Fᵀλ|² − ⟨c, λ⟩ + penalty(λ)."""
    diagonal = objective.chi2.hessian(mixture) if objective.mu > 0 else None
    if objective.prior is None:
        return objective.mixtures.minimize_quadratic(c, factor, diagonal, mixture)
    lam = np.maximum(mixture, 1e-12)
    for _ in range(50):  # Newton on the prior, which is not quadratic
        h, g = objective.prior.hessian(lam), objective.prior.gradient(lam)
        new = objective.mixtures.minimize_quadratic(c - g + h * lam, factor, h, mixture)
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


def _choose_curvature(problem: Oracle, objective: Objective, rows: int) -> Any:
    """The true curvature while a Hessian costs about as much as the passes it saves."""
    if not isinstance(problem, LinearDomains) or problem.n_parameters <= 600:
        return _Newton(problem, objective, rows)
    return _LimitedMemory(problem, objective)


class _Newton:
    """H = ∇²Φ(w, λ) itself."""

    def __init__(self, problem: Oracle, objective: Objective, rows: int) -> None:
        self.problem, self.objective, self.damping = problem, objective, 0.0
        self.n_rows = rows * problem.n_parameters

    def update(self, here: Here, mixture: Array) -> None:
        """H at (w, λ)."""
        self.hessian, self.worst = here.hessian(mixture, self.n_rows), float(here.losses.max())
        self.objective.add_regularizer_hessian(here.w, self.hessian)

    def learn(self, old_w: Array, w: Array, change: Array) -> None:
        """Nothing: the curvature is computed, not learnt."""

    def judge(self, ratio: float) -> None:
        """Damp more where the objective fell by less than a tenth of the model's promise."""
        if ratio < 0.1:
            self.damping = max(10 * self.damping, 1e-6)
        else:
            self.damping *= 0.1 if self.damping > 1e-8 else 0.0

    def restart(self) -> bool:
        """After no step went down: whether there is a more careful one."""
        self.damping, self.n_rows = max(1e3 * self.damping, 1e-4), 2**62
        return self.damping < 1e4

    def eliminate(self, jacobian: Array, r: Array) -> tuple[Array, Array, Callable[[Array], Array]]:
        """F with FFᵀ = J H⁻¹Jᵀ, J H⁻¹r, and λ ↦ −H⁻¹(Jᵀλ + r).

        Far out, losses that grow linearly have no curvature; there H is damped by ℓ'²/ℓ max x_j²,
        about the curvature of a parabola above them, with |J_kj| ≤ |ℓ'| max |x_j| for ℓ'.
        """
        diagonal = np.einsum("ii->i", self.hessian)
        if not np.all(diagonal > 0):
            self.damping = max(self.damping, 1e-4)
        if self.damping > 0:
            x = np.maximum(self.problem.reach, 1e-300)
            slope = float(np.max(np.abs(jacobian) / x))  # ℓ'
            diagonal += self.damping * slope**2 / max(self.worst, 1e-300) * x**2
        self.cholesky = C, _ = damped_cholesky(self.hessian)
        half = solve_triangular(C, np.column_stack([jacobian.T, r]), lower=True, check_finite=False)
        factor, t = half[:, :-1].T, half[:, -1]  # (p, D), (D,)

        def back(mixture: Array) -> Array:
            step = -solve_triangular(C, factor.T @ mixture + t, lower=True, trans=1)
            return _centred(self.problem, step)

        return factor, factor @ t, back

    def refine(self, v: Array) -> Array:
        """H⁻¹v."""
        return _centred(self.problem, cho_solve(self.cholesky, v, check_finite=False))


class _LimitedMemory:
    """H by L-BFGS: the last steps s and gradient changes y of the Lagrangian, over P ≈ H."""

    refresh = (0, 10, 40)  # iterations at which P is made anew, as the iterates settle
    memory = 30
    refine = None  # a step from here costs as much as the next iteration

    def __init__(self, problem: LinearDomains, objective: Objective) -> None:
        self.problem, self.objective = problem, objective
        self.pairs: list[tuple[Array, Array, float]] = []  # (s, y, 1/⟨s, y⟩)
        self.scale, self.age = 1.0, 0

    def update(self, here: Here, mixture: Array) -> None:
        """P at (w, λ), now and then."""
        if self.age in self.refresh:
            vars(self).pop("precondition", None)  # the new one needs the room of the old one
            self.precondition = _preconditioner(self.problem, self.objective, here, mixture)
        self.age += 1

    def learn(self, old_w: Array, w: Array, change: Array) -> None:
        """Take in the pair (s, y), y the change of ∇Φ(·, λ), if it shows positive curvature."""
        s = w - old_w
        gradient = self.objective.regularizer_gradient
        y = change + gradient(w) - gradient(old_w)
        product = float(s @ y)
        if product <= 1e-12 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            return
        self.pairs = [*self.pairs[1 - self.memory :], (s, y, 1 / product)]
        self.scale = product / float(y @ self.precondition(y[:, None])[:, 0])

    def judge(self, ratio: float) -> None:
        """Nothing: the pairs tell."""

    def restart(self) -> bool:
        """After no step went down: forget the pairs, if there are any."""
        found = bool(self.pairs)
        self.pairs, self.scale, self.age = [], 1.0, 0
        return found

    def inverse(self, V: Array) -> Array:
        """H⁻¹V for all columns of V at once: the two-loop recursion."""
        V = V.copy()
        shares = []
        for s, y, rho in reversed(self.pairs):
            share = rho * (s @ V)
            V -= np.outer(y, share)
            shares.append(share)
        V = self.scale * self.precondition(V)
        for (s, y, rho), share in zip(self.pairs, reversed(shares), strict=True):
            V += np.outer(s, share - rho * (y @ V))
        return V

    def eliminate(self, jacobian: Array, r: Array) -> tuple[Array, Array, Callable[[Array], Array]]:
        """As in _Newton."""
        Z = self.inverse(np.column_stack([jacobian.T, r]))  # (D, p + 1)
        Q = jacobian @ Z[:, :-1]
        values, vectors = eigh(0.5 * (Q + Q.T))
        factor = vectors * np.sqrt(np.maximum(values, 0.0))
        return factor, jacobian @ Z[:, -1], lambda mixture: -(Z[:, :-1] @ mixture + Z[:, -1])


def _preconditioner(
    problem: LinearDomains, objective: Objective, here: Any, mixture: Array
) -> Callable[[Array], Array]:
    """V ↦ P⁻¹V, P the Hessian's blocks from a sample of rows, or its diagonal if d is large.

    With K scores, adding one vector to all K blocks of w changes no loss; P⁻¹ is kept to the
    directions across these, without which the blocks misjudge the curvature badly.
    """
    blend = 0.5 * mixture + 0.5 * problem.reference  # no domain's curvature may be missing
    ridge = np.where(problem.penalized, _ridge(objective, here.w), 0.0).reshape(
        problem.n_scores, -1
    )
    if problem.n_features > 3000 or sparse.issparse(problem.X):
        diagonal = here.hessian_diagonal(blend).reshape(ridge.shape) + ridge
        if not np.any(diagonal):  # no curvature anywhere: that of residuals at the kink is max x²
            diagonal = problem.reach.reshape(ridge.shape) ** 2
        diagonal = np.maximum(diagonal, max(1e-6 * diagonal.mean(), 1e-300))[:, :, None]
        return lambda V: _across(lambda v: v / diagonal, V, problem.n_scores)
    blocks = here.hessian_blocks(blend, 12 * problem.n_features)
    factors = [damped_cholesky(h + np.diag(e)) for h, e in zip(blocks, ridge, strict=True)]

    def solve_blocks(v: Array) -> Array:
        return np.stack(
            [cho_solve(f, b, check_finite=False) for f, b in zip(factors, v, strict=True)]
        )

    return lambda V: _across(solve_blocks, V, problem.n_scores)


def _across(inverse: Callable[[Array], Array], V: Array, n_scores: int) -> Array:
    """Π P⁻¹ Π V with Π taking away the mean of the K blocks."""
    v = V.reshape(n_scores, -1, V.shape[1])
    if n_scores == 1:
        return inverse(v).reshape(V.shape)
    solved = inverse(v - v.mean(axis=0))
    solved -= solved.mean(axis=0)
    return solved.reshape(V.shape)


def _ridge(objective: Objective, w: Array) -> float:
    if objective.norm == "squared":
        return objective.gamma
    return objective.gamma / max(float(np.linalg.norm(w[objective.penalized])), 1e-3)


def _record(n_iter: int, at: _Iterate, lower: float) -> Record:
    return {
        "iteration": n_iter,
        "upper": at.upper,
        "lower": lower,
        "gap": at.upper - lower,
        "worst_domain": int(np.argmax(at.there.losses)),
        "mixture": at.mixture.tolist(),
    }


def _warn(solution: Solution, tol: float) -> None:
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"stopped after {solution.n_iter} iterations with gap {solution.certificate.gap:.2e} "
        f"above tol {tol:.2e}; raise max_iter or tol, centre or scale the columns, or raise gamma "
        "(with gamma = 0 there is no best model for separable data, and no proof where columns "
        "differ by rounding only)",
        ConvergenceWarning,
        stacklevel=3,
    )


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
