"""The agnostic objective a second time, as one conic program for CVXPY, and problems to try it on.

min_w S(ℓ − b) + γ R(w)  subject to  ℓ_k ≥ L_k(w),    S(u) = max_{λ∈Λ} ⟨λ, u⟩ − penalty(λ),

with S written by its dual, set by set; a penalty or a χ² ball f over a base set enters as the
infimal convolution S(u) = min_v S_base(u − v) + f*(v). Nothing of the package is used but the
parameters of its sets and losses.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import gammaln, xlogy

from anymix.mixtures import (
    Box,
    Chi2Ball,
    DirichletPrior,
    Hull,
    KLBall,
    MixtureSet,
    Point,
    Polytope,
    Shrunk,
    Simplex,
    TVBall,
    Vertices,
    cvar,
)
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Hinge, Huber, Loss, SquaredError
from anymix.problem.poisson import Poisson

Array = NDArray[np.float64]
Cone = tuple[Any, list[Any]]  # an expression to minimise, and its constraints

TOLERANCES = (1e-11, 1e-10, 1e-9, 1e-8)  # the first that Clarabel reaches
WAYS: tuple[dict[str, Any], ...] = (  # tried in turn: each fails on some problems
    {"max_step_fraction": 0.9},
    {"max_step_fraction": 0.99},
    {"equilibrate_enable": False},
)


def minimax(
    X: Any,
    y: Any,
    memberships: Any,
    mixtures: MixtureSet,
    loss: Loss | None = None,
    *,
    gamma: float = 0.0,
    mu: float = 0.0,
    norm: str = "squared",
    offsets: Any = None,
    prior: DirichletPrior | None = None,
    intercept: bool = True,
    w_radius: float | None = None,
    anchor: Array | None = None,
) -> float:
    """min_w max_λ Φ(w, λ); memberships (n, p) are weights of the rows, y codes or numbers.

    An anchor is a flat vector of K blocks (coefficients, intercept), as `solve` takes it.
    """
    S = np.asarray(memberships, dtype=np.float64)
    p, sizes = S.shape[1], S.sum(axis=0)
    X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
    shares = (S / sizes).T  # (p, n)
    bounds, parameters = _losses(X, np.asarray(y), shares, loss or CrossEntropy(), intercept)
    losses, u = cp.Variable(p), parameters[0]
    b = np.zeros(p) if offsets is None else np.asarray(offsets)
    worst, constraints = _support(mixtures, losses - b, mu, sizes / sizes.sum(), prior)
    constraints += [losses[k] >= bounds[k] for k in range(p)]
    if anchor is not None:
        u = u - anchor.reshape(-1, X.shape[1] + intercept)[:, : X.shape[1]].T.ravel()
    if gamma > 0:
        worst += gamma * (0.5 * cp.sum_squares(u) if norm == "squared" else cp.norm(u))
    if w_radius is not None:
        constraints += [cp.norm(cp.hstack(parameters)) <= w_radius]
    return _solved(cp.Problem(cp.Minimize(worst), constraints))


def _solved(program: Any) -> float:
    for way, tol in product(WAYS, TOLERANCES):
        gaps = {f"tol_{name}": tol for name in ("gap_abs", "gap_rel", "feas")}
        with suppress(cp.SolverError):
            gaps |= {f"reduced_{name}": tol for name in gaps}
            program.solve(solver=cp.CLARABEL, **way, **gaps)
            if program.status == "optimal":
                return float(program.value)
    raise RuntimeError(f"the reference is {program.status}: choose an easier problem")


def _losses(
    X: Array, y: NDArray[Any], shares: Array, loss: Loss, intercept: bool
) -> tuple[list[Any], list[Any]]:
    """L_k(w) as p convex expressions, and the flat parameters: coefficients, then intercepts."""
    n, d = X.shape
    classes = int(y.max()) + 1 if isinstance(loss, CrossEntropy) else 2
    if classes > 2:
        u, shift = cp.Variable((d, classes)), cp.Variable((1, classes))
        z = X @ u + (np.ones((n, 1)) @ shift if intercept else 0)
        rows = cp.log_sum_exp(z, axis=1) - cp.sum(cp.multiply(np.eye(classes)[y], z), axis=1)
        flat = [cp.vec(u, order="C"), cp.vec(shift, order="C")]
        return [a @ rows for a in shares], flat if intercept else flat[:1]
    w, one = cp.Variable(d), cp.Variable(1)
    z, parameters = (X @ w + one, [w, one]) if intercept else (X @ w, [w])
    if isinstance(loss, SquaredError):
        seen = [(np.sqrt(a[a > 0]), np.flatnonzero(a)) for a in shares]
        return [0.5 * cp.sum_squares(cp.multiply(s, z[i] - y[i])) for s, i in seen], parameters
    if isinstance(loss, Huber):
        rows = 0.5 * cp.huber(z - y, loss.delta)
    elif isinstance(loss, Poisson):
        rows = cp.exp(z) - cp.multiply(y, z) + (xlogy(y, y) - y)
    elif isinstance(loss, Hinge):
        rows = cp.pos(1 - cp.multiply(2.0 * y - 1, z))
    else:
        rows = cp.logistic(z) - cp.multiply(y.astype(float), z)
    return [a @ rows for a in shares], parameters


def _support(
    mixtures: MixtureSet, u: Any, mu: float, reference: Array, prior: DirichletPrior | None
) -> Cone:
    """max_{λ∈Λ} ⟨λ, u⟩ − μ χ²(λ‖m̄) + log p(λ)."""
    p = mixtures.n_domains
    if mu > 0:
        v = cp.Variable(p)
        base, constraints = _support(mixtures, u - v, 0.0, reference, None)
        return base + cp.sum(cp.multiply(reference, cp.square(v))) / (4 * mu) + mu, constraints
    if prior is not None:
        return _with_prior(mixtures, u, reference, prior)
    if isinstance(mixtures, Simplex | Vertices):
        return cp.max(u), []
    if isinstance(mixtures, Point):
        return mixtures.mixture @ u, []
    if isinstance(mixtures, Shrunk):
        t, (base, constraints) = mixtures.t, _support(mixtures.base, u, 0.0, reference, None)
        return (1 - t) * (mixtures.reference @ u) + t * base, constraints
    if isinstance(mixtures, Hull):
        return cp.max(mixtures.points @ u), []
    if isinstance(mixtures, Box):
        t = cp.Variable()
        over = cp.pos(u - t)
        return t + mixtures.lower @ (u - t) + (mixtures.upper - mixtures.lower) @ over, []
    if isinstance(mixtures, KLBall):  # min over θ of θρ + θ log Σ c e^{u/θ}
        some = np.flatnonzero(mixtures.reference)
        t, theta, q = cp.Variable(), cp.Variable(nonneg=True), cp.Variable(len(some))
        x = u[some] - t + theta * np.log(mixtures.reference[some])
        cone = cp.ExpCone(x, theta * np.ones(len(some)), q)
        return t + mixtures.rho * theta, [cone, cp.sum(q) <= theta]
    if isinstance(mixtures, Polytope):  # the dual of a linear program
        t, y = cp.Variable(), cp.Variable(len(mixtures.b), nonneg=True)
        return t + mixtures.b @ y, [t + mixtures.A.T @ y >= u]
    if isinstance(mixtures, TVBall):
        t, s, c = cp.Variable(), cp.Variable(nonneg=True), mixtures.center
        return c @ u + mixtures.rho * s + c @ cp.pos(t - u), [t + s >= cp.max(u)]
    assert isinstance(mixtures, Chi2Ball)
    if mixtures.r == 1:  # the point m̄: no interior, where duality holds only in the limit
        return mixtures.center @ u, []
    m, v = mixtures.sizes / mixtures.sizes.sum(), cp.Variable(p)
    base, constraints = _support(mixtures.base, u - v, 0.0, reference, None)
    return base + np.sqrt(mixtures.r) * cp.norm(cp.multiply(np.sqrt(m), v)), constraints


def _with_prior(mixtures: MixtureSet, u: Any, reference: Array, prior: DirichletPrior) -> Cone:
    """f(λ) = −Σ a log λ on λ ≥ 0 has f*(v) = Σ a log a − a − a log(−v) on v ≤ 0."""
    a = prior.alpha - 1
    v = cp.Variable(mixtures.n_domains)
    base, constraints = _support(mixtures, u - v, 0.0, reference, None)
    k = np.flatnonzero(a > 0)
    constant = float(gammaln(prior.alpha.sum()) - gammaln(prior.alpha).sum())
    if len(k):
        base += float(np.sum(a[k] * np.log(a[k]) - a[k])) - a[k] @ cp.log(-v[k])
    return base + constant, [*constraints, v <= 0]


# -- problems ------------------------------------------------------------------------------------

SETS = ("simplex", "vertices", "point", "hull", "box", "cvar", "chi2", "chi2 in cvar", "tv")
LOSSES: tuple[tuple[Loss, int], ...] = (
    (CrossEntropy(), 2),
    (CrossEntropy(), 3),
    (SquaredError(), 0),
    (Huber(0.5), 0),
)
GAMMAS = (0.0, 1e-6, 1e-3, 1.0)


@dataclass(frozen=True)
class Case:
    """The data and the objective of one problem, for the package and for CVXPY."""

    X: Any
    y: NDArray[Any]
    memberships: Array  # (n, p), without the sample weights
    weight: Array | None
    loss: Loss
    intercept: bool
    mixtures: MixtureSet
    objective: dict[str, Any] = field(default_factory=dict)  # gamma, mu, norm, offsets, prior

    @property
    def problem(self) -> LinearDomains:
        p = self.memberships.shape[1]
        domains = self.memberships if p > 1 else np.zeros(len(self.y), dtype=int)
        return LinearDomains(
            self.X,
            self.y,
            domains,
            self.loss,
            intercept=self.intercept,
            sample_weight=self.weight,
        )

    def reference(self, w_radius: float | None = None) -> float:
        """min_w max_λ Φ by CVXPY."""
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        return minimax(
            self.X,
            self.y,
            self.memberships * weight[:, None],
            self.mixtures,
            self.loss,
            intercept=self.intercept,
            w_radius=w_radius,
            **self.objective,
        )


def random_case(seed: int) -> Case:
    """A small problem; consecutive seeds go through all sets, losses and γ in turn."""
    rng = np.random.default_rng(seed)
    name, (loss, classes) = SETS[seed % 9], LOSSES[seed // 9 % 4]
    n, d = int(rng.integers(40, 60)), int(rng.integers(1, 4))
    p = int(rng.choice([2, 3, 4, 6])) if rng.random() < 0.9 else 1
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < rng.choice([0.5, 1.0]))
    y = X @ rng.normal(size=d) + rng.standard_t(2, size=n)
    if classes:
        y = np.append(np.arange(classes), rng.integers(0, classes, n - classes))
    members = np.eye(p)[np.append(np.arange(p), rng.integers(0, p, n - p))]
    if rng.random() < 0.4 and p > 1:  # rows in several domains, or in none
        members = rng.random((n, p)) * (rng.random((n, p)) < 0.5) + members * (rng.random() < 0.5)
    weight = rng.uniform(0.1, 2.0, n) if rng.random() < 0.3 else None
    sizes = (members if weight is None else members * weight[:, None]).sum(axis=0)
    mixtures, penalty = _random_set(name, sizes, rng), _random_penalty(name, p, rng)
    return Case(
        X=sparse.csr_array(X) if rng.random() < 0.4 else X,
        y=y,
        memberships=members,
        weight=weight,
        loss=loss,
        intercept=bool(rng.random() < 0.7),
        mixtures=mixtures,
        objective={
            "gamma": GAMMAS[seed // 36 % 4],
            "norm": str(rng.choice(["squared", "plain"])),
            "offsets": 0.3 * rng.normal(size=p) if rng.random() < 0.3 else None,
            **penalty,
        },
    )


def _random_set(name: str, sizes: Array, rng: np.random.Generator) -> MixtureSet:
    p, m = len(sizes), sizes / sizes.sum()
    c = rng.dirichlet(np.ones(p))
    match name:
        case "simplex":
            return Simplex(p)
        case "vertices":
            return Vertices(p)
        case "point":
            return Point(c)
        case "hull":
            return Hull(rng.dirichlet(np.ones(p), size=int(rng.integers(1, 6))))
        case "box":
            return Box(c * rng.random(p), np.minimum(1, c + 0.5 * rng.random(p)))
        case "cvar":
            return cvar(m, rng.uniform(0.2, 1))
        case "chi2":
            return Chi2Ball(sizes, 1 + rng.choice([0, 0.01, 0.3, 2.0]))
        case "chi2 in cvar":
            return Chi2Ball(sizes, 1 + rng.choice([0.1, 0.3, 1.0]), cvar(m, 0.5))
        case _:
            return TVBall(c, rng.choice([0.0, 0.05, 0.3, 1.0]))


def _random_penalty(name: str, p: int, rng: np.random.Generator) -> dict[str, Any]:
    if name in ("simplex", "vertices", "point", "box", "cvar") and rng.random() < 0.3:
        return {"prior": DirichletPrior(1 + rng.choice([0, 0.01, 0.5, 2], size=p))}
    return {"mu": float(rng.choice([0, 0, 1e-3, 0.1, 1]))}
