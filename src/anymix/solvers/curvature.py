"""H ≈ ∇²_w Φ(w, λ) for the steps of the exact solver: computed, or learnt from the steps before.

Both eliminate the step d = −H⁻¹(Jᵀλ + r) from the quadratic model, which leaves a program over λ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, eigh
from scipy.linalg.blas import dger
from scipy.linalg.lapack import dpotrs, dtrtrs

from anymix.objective import Phi
from anymix.problem.oracle import Here, Oracle
from anymix.solvers.certificates import damped_cholesky

Array = NDArray[np.float64]
Eliminated = tuple[Array, Array, Callable[[Array], Array]]
Steps = deque[tuple[Array, Array]]

__all__ = [
    "Curvature",
    "LimitedMemory",
    "Newton",
    "Steps",
    "centred",
    "choose_curvature",
]


class Curvature(Protocol):
    """What the solver asks of H."""

    def update(self, here: Here, mixture: Array) -> None:
        """H at (w, λ)."""
        ...

    def learn(self, old_w: Array, w: Array, change: Array) -> None:
        """Take in how the gradient of the losses changed from one w to the next."""
        ...

    def judge(self, ratio: float) -> None:
        """Take in how much of the decrease that the model promised there was."""
        ...

    def restart(self) -> bool:
        """After no step went down: whether there is another H to try."""
        ...

    def eliminate(self, jacobian: Array, r: Array) -> Eliminated:
        """F with FFᵀ = J H⁻¹Jᵀ, J H⁻¹r, and λ ↦ −H⁻¹(Jᵀλ + r)."""
        ...

    @property
    def refine(self) -> Callable[[Array], Array] | None:
        """v ↦ H⁻¹v, where that saves an iteration."""
        ...

    @property
    def is_newton(self) -> bool:
        """Whether H is the curvature itself, not one learnt or damped."""
        ...


def choose_curvature(
    problem: Oracle, objective: Phi, rows: int, steps: Steps | None = None
) -> Curvature:
    """The true curvature while a Hessian costs about as much as what it saves."""
    if problem.n_parameters <= problem.dense_up_to:
        return Newton(problem, objective, rows)
    return LimitedMemory(problem, objective, steps)


def centred(n_scores: int, w: Array) -> Array:
    """w less the mean of its K blocks, which no loss sees and the regulariser does not want."""
    if n_scores == 1:
        return w
    blocks: Array = w.reshape(n_scores, -1)
    middle: Array = blocks - blocks.mean(axis=0)
    return middle.ravel()


class Newton:
    """H = ∇²Φ(w, λ) itself."""

    def __init__(self, problem: Oracle, objective: Phi, rows: int) -> None:
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
        self.cholesky = C = damped_cholesky(self.hessian)[0]
        half, _ = dtrtrs(C, np.vstack([jacobian, r]).T, lower=1)  # (D, p + 1)
        factor, t = half[:, :-1].T, half[:, -1]  # (p, D), (D,)

        def back(mixture: Array) -> Array:
            step = -dtrtrs(C, factor.T @ mixture + t, lower=1, trans=1)[0]
            return centred(self.problem.n_scores, step)

        return factor, factor @ t, back

    @property
    def is_newton(self) -> bool:
        """Whether nothing was added to H."""
        return self.damping == 0

    def refine(self, v: Array) -> Array:
        """H⁻¹v."""
        return centred(self.problem.n_scores, dpotrs(self.cholesky, v, lower=1)[0])


class LimitedMemory:
    """H by L-BFGS: the last steps s and gradient changes y of the Lagrangian, over P ≈ H.

    It begins with what `steps` remember of another model of these rows, and leaves its own there.
    """

    refresh = (0, 10, 40)  # iterations at which P is made anew, as the iterates settle
    memory = 30
    refine = None  # a step from here costs as much as the next iteration
    is_newton = False

    def __init__(self, problem: Oracle, objective: Phi, steps: Steps | None = None) -> None:
        self.problem, self.objective = problem, objective
        self.pairs: list[tuple[Array, Array, float]] = []  # (s, y, 1/⟨s, y⟩)
        self.scale, self.age = 1.0, 0
        self.steps: Steps = deque(maxlen=0) if steps is None else steps
        if not objective.shrinkage.is_quadratic:  # then ∇R changes by more than s tells
            self.steps = deque(maxlen=0)
        for s, change in self.steps:
            self._add(s, change + self._regularizer_change(s))

    def update(self, here: Here, mixture: Array) -> None:
        """P at (w, λ), now and then."""
        if self.age in self.refresh:
            vars(self).pop("precondition", None)  # the new one needs the room of the old one
            self.precondition = _preconditioner(self.problem, self.objective, here, mixture)
            self._rescale()
        self.age += 1

    def learn(self, old_w: Array, w: Array, change: Array) -> None:
        """Take in the pair (s, y), y the change of ∇Φ(·, λ), if it shows positive curvature."""
        s = w - old_w
        gradient = self.objective.regularizer_gradient
        if self._add(s, change + gradient(w) - gradient(old_w)):
            self.steps.append((s, change))
            self._rescale()

    def _add(self, s: Array, y: Array) -> bool:
        product = float(s @ y)
        is_convex = product > 1e-12 * float(np.linalg.norm(s) * np.linalg.norm(y))
        if is_convex:
            self.pairs = [*self.pairs[1 - self.memory :], (s, y, 1 / product)]
        return is_convex

    def _regularizer_change(self, s: Array) -> Array:
        """∇R(w + s) − ∇R(w), the same at all w where R is quadratic."""
        gradient = self.objective.regularizer_gradient
        return gradient(s) - gradient(np.zeros_like(s))

    def _rescale(self) -> None:
        """P⁻¹ as large as the last pair says."""
        if self.pairs:
            _, y, rho = self.pairs[-1]
            self.scale = 1 / (rho * float(y @ self.precondition(y[:, None])[:, 0]))

    def judge(self, ratio: float) -> None:
        """Nothing: the pairs tell."""

    def restart(self) -> bool:
        """After no step went down: forget the pairs, if there are any."""
        found = bool(self.pairs)
        self.pairs, self.scale, self.age = [], 1.0, 0
        self.steps.clear()
        return found

    def inverse(self, V: Array) -> Array:
        """H⁻¹V for all columns of V at once: the two-loop recursion, each step in place."""
        V = np.array(V, order="F")
        shares = []
        for s, y, rho in reversed(self.pairs):
            share = rho * (s @ V)
            V = dger(-1.0, y, share, a=V, overwrite_a=1)  # V − y shareᵀ
            shares.append(share)
        V = np.asfortranarray(self.scale * self.precondition(V))
        for (s, y, rho), share in zip(self.pairs, reversed(shares), strict=True):
            V = dger(1.0, s, share - rho * (y @ V), a=V, overwrite_a=1)
        return V

    def eliminate(self, jacobian: Array, r: Array) -> tuple[Array, Array, Callable[[Array], Array]]:
        """As in Newton."""
        Z = self.inverse(np.column_stack([jacobian.T, r]))  # (D, p + 1)
        Q = jacobian @ Z[:, :-1]
        values, vectors = eigh(0.5 * (Q + Q.T))
        factor = vectors * np.sqrt(np.maximum(values, 0.0))
        return factor, jacobian @ Z[:, -1], lambda mixture: -(Z[:, :-1] @ mixture + Z[:, -1])


def _preconditioner(
    problem: Oracle, objective: Phi, here: Here, mixture: Array
) -> Callable[[Array], Array]:
    """V ↦ P⁻¹V, P the Hessian's blocks from a sample of rows, or its diagonal.

    With K scores, adding one vector to all K blocks of w changes no loss; P⁻¹ is kept to the
    directions across these, without which the blocks misjudge the curvature badly.
    """
    K = problem.n_scores
    blend = 0.5 * mixture + 0.5 * problem.reference  # no domain's curvature may be missing
    ridge = np.where(problem.penalized, objective.shrinkage.ridge(here.w), 0.0).reshape(K, -1)
    if not problem.has_blocks:
        diagonal = here.hessian_diagonal(blend).reshape(ridge.shape) + ridge
        if not np.any(diagonal):  # no curvature anywhere: that of residuals at the kink is max x²
            diagonal = problem.reach.reshape(ridge.shape) ** 2
        diagonal = np.maximum(diagonal, max(1e-6 * diagonal.mean(), 1e-300))[:, :, None]
        return lambda V: _across(lambda v: v / diagonal, V, K)
    blocks = here.hessian_blocks(blend, 12 * problem.n_parameters // K)
    factors = [damped_cholesky(h + np.diag(e)) for h, e in zip(blocks, ridge, strict=True)]

    def solve_blocks(v: Array) -> Array:
        return np.stack(
            [cho_solve(f, b, check_finite=False) for f, b in zip(factors, v, strict=True)]
        )

    return lambda V: _across(solve_blocks, V, K)


def _across(inverse: Callable[[Array], Array], V: Array, n_scores: int) -> Array:
    """Π P⁻¹ Π V with Π taking away the mean of the K blocks."""
    v = V.reshape(n_scores, -1, V.shape[1])
    if n_scores == 1:
        return inverse(v).reshape(V.shape)
    solved = inverse(v - v.mean(axis=0))
    solved -= solved.mean(axis=0)
    return solved.reshape(V.shape)
