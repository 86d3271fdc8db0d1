"""How noisy each stochastic gradient is, in closed form, and which sampler suits a data set.

With g_ki = ∇ℓ of row i of domain k, v_k = Var_k(g) and u_k = Var_k(ℓ) inside domain k:

    PerDomain      Σ λ_k² v_k              ≤ ‖λ‖² σ_I²        σ_I² = max_k v_k
    Weighted       Σ λ_k v_k + σ_O²        ≤ σ_I² + σ_O²      σ_O² = Σ λ_k ‖∇L_k − ∇L‖²
    p-Weighted     that over p
    EveryDomain    Σ u_k                                       ≤ p M²
    UniformDomain  p Σ u_k + (p − 1) Σ (L_k − b_k)²            ≤ p² M²

A variance of a vector is the trace of its covariance. For batches of b, divide by b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from anymix.errors import InputError
from anymix.mixtures import Simplex
from anymix.mixtures.parsing import Mixtures
from anymix.objective import Objective, Parts, objective_of
from anymix.problem.linear import LinearDomains
from anymix.solvers.exact import solve
from anymix.solvers.samplers import PerDomain, Weighted

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

CHUNK = 2**20  # numbers that are held at once

__all__ = ["Advice", "Variances", "advise_sampler", "variances"]


@dataclass(frozen=True)
class Variances:
    """The variances of the stochastic gradients at one point (w, λ), for batches of one row.

    Attributes
    ----------
    intra : float
        σ_I² = max_k v_k, the largest variance of ∇ℓ inside a domain.
    outer : float
        σ_O² = Σ λ_k ‖∇L_k − ∇L‖², how far the domains' gradients are from each other.
    per_domain : float
        Σ λ_k² v_k, that of `PerDomain`, which looks at p rows.
    weighted : float
        Σ λ_k v_k + σ_O², that of `Weighted`, which looks at one row.
    p_weighted : float
        That of `Weighted(batch_size=p)`, which looks at as many rows as PerDomain does.
    uniform_domain : float
        p Σ u_k + (p − 1) Σ (L_k − b_k)², that of `UniformDomain` for the gradient in λ.
    every_domain : float
        Σ u_k, that of `EveryDomain` for the gradient in λ.

    Examples
    --------
    >>> import anymix as ax
    >>> problem = ax.LinearDomains([[1.0], [1.0]], [0.0, 2.0], ["a", "b"], ax.SquaredError(),
    ...                            intercept=False)
    >>> v = variances(problem, w=[1.0], mixture=[0.5, 0.5])  # ∇ℓ: 1 in a, −1 in b
    >>> v.intra, v.outer
    (0.0, 1.0)
    """

    intra: float
    outer: float
    per_domain: float
    weighted: float
    p_weighted: float
    uniform_domain: float
    every_domain: float


def variances(
    problem: LinearDomains,
    w: ArrayLike,
    mixture: ArrayLike,
    offsets: ArrayLike | None = None,
) -> Variances:
    """E‖δ − Eδ‖² at (w, λ) for the gradients δ of every sampler, computed exactly from all rows.

    Parameters
    ----------
    problem : LinearDomains
        The rows.
    w : array-like of shape (n_parameters,)
        The model at which the gradients are taken.
    mixture : array-like of shape (p,)
        λ, weights ≥ 0 that sum to 1.
    offsets : array-like of shape (p,) or None
        b, what is subtracted from the loss of each domain; None is 0.

    Returns
    -------
    Variances

    Examples
    --------
    >>> import anymix as ax
    >>> X, y, d = [[0.0], [2.0], [1.0], [1.0]], [0.0, 0.0, 1.0, 2.0], ["a", "a", "b", "b"]
    >>> problem = ax.LinearDomains(X, y, d, ax.SquaredError(), intercept=False)
    >>> v = variances(problem, w=[1.0], mixture=[0.5, 0.5])  # ∇ℓ: 0 and 4 in a, 0 and −1 in b
    >>> v.intra, v.outer, v.per_domain, v.weighted, v.p_weighted
    (4.0, 1.5625, 1.0625, 3.6875, 1.84375)
    """
    lam = _mixture(problem, mixture)
    b = Objective(offsets=offsets).on(problem).offsets
    here, p = problem.at(w), problem.n_domains
    jacobian = here.jacobian()  # (p, n_parameters)
    v = _gradient_variances(problem, here.slope.reshape(problem.n_rows, -1), jacobian)  # (p,)
    value = problem.loss.derivatives(here.scores, problem.y, 0)[0]
    k, i, share = _members(problem)
    u = np.bincount(k, share * (value[i] - here.losses[k]) ** 2, p)  # (p,)
    outer = float(lam @ np.sum((jacobian - lam @ jacobian) ** 2, axis=1))
    weighted = float(lam @ v) + outer
    return Variances(
        intra=float(v.max()),
        outer=outer,
        per_domain=float(lam**2 @ v),
        weighted=weighted,
        p_weighted=weighted / p,
        uniform_domain=float(p * u.sum() + (p - 1) * np.sum((here.losses - b) ** 2)),
        every_domain=float(u.sum()),
    )


def _mixture(problem: LinearDomains, mixture: ArrayLike) -> Array:
    lam = problem._check_mixture(mixture)
    if not Simplex(problem.n_domains).contains(lam):
        raise InputError("mixture", f"is {lam}", "give weights ≥ 0 that sum to 1")
    return lam


def _members(problem: LinearDomains) -> tuple[Indices, Indices, Array]:
    """Domain k, row i and share a_ki of every membership; the shares of a domain sum to 1."""
    shares = problem.average.tocoo()
    return shares.row, shares.col, shares.data


def _gradient_variances(problem: LinearDomains, slopes: Array, jacobian: Array) -> Array:
    """v_k = Σ_i a_ki ‖g_i − ∇L_k‖², g_i = s_i ⊗ (x_i, 1), (p,); slopes s (n, scores).

    The difference is squared, and not E‖g‖² − ‖E g‖² taken, which loses all digits where the
    gradients are large and alike. So it takes a pass over the rows, a few of them at a time.
    """
    memberships, n_scores = _members(problem), slopes.shape[1]
    means = jacobian.reshape(problem.n_domains, n_scores, -1)  # (p, scores, d or d + 1)
    spread = _sparse_spread if sparse.issparse(problem.X) else _dense_spread
    v = np.zeros(problem.n_domains)
    for score in range(n_scores):
        mean = means[:, score]
        v += spread(problem.X, *memberships, slopes[:, score], mean[:, : problem.n_features])
        if problem.intercept:
            k, i, share = memberships
            v += np.bincount(k, share * (slopes[i, score] - mean[k, -1]) ** 2, v.size)
    return v


def _dense_spread(X: Any, k: Indices, i: Indices, share: Array, s: Array, mean: Array) -> Array:
    """Σ_i a_ki ‖s_i x_i − mean_k‖², (p,)."""
    total, step = np.zeros(len(mean)), max(1, CHUNK // max(1, X.shape[1]))
    for start in range(0, k.size, step):
        part = slice(start, start + step)
        off = s[i[part], None] * X[i[part]] - mean[k[part]]  # (step, d)
        total += np.bincount(k[part], share[part] * np.einsum("ij,ij->i", off, off), total.size)
    return total


def _sparse_spread(X: Any, k: Indices, i: Indices, share: Array, s: Array, mean: Array) -> Array:
    """Σ_i a_ki ‖s_i x_i − mean_k‖², (p,), from the entries x_ij ≠ 0 alone.

    A row without an entry j adds mean_kj², so the weights of such rows are summed up for each j.
    """
    total, d = np.zeros(len(mean)), X.shape[1]
    lacking = np.zeros(mean.shape)  # Σ_i a_ki over the rows of domain k without an entry j
    rows = np.bincount(k, minlength=len(mean))
    has, weight = np.zeros(mean.size), np.zeros(mean.size)
    step = max(1, CHUNK // max(1, X.nnz // max(1, X.shape[0])))
    for start in range(0, k.size, step):
        part = slice(start, start + step)
        entries = X[i[part]].tocoo()
        at = k[part][entries.row]
        a, j = share[part][entries.row], entries.col
        off = s[i[part]][entries.row] * entries.data - mean[at, j]
        total += np.bincount(at, a * off**2, total.size)
        has += np.bincount(at * d + j, minlength=mean.size)
        weight += np.bincount(at * d + j, a, mean.size)
    some = has.reshape(mean.shape) < rows[:, None]  # if no row lacks j, 1 − weight is but rounding
    lacking[some] = np.maximum(1 - weight.reshape(mean.shape)[some], 0.0)
    return np.asarray(total + np.einsum("kj,kj->k", lacking, mean**2))


@dataclass(frozen=True)
class Advice:
    """Which sampler to take, why, and the numbers behind the choice.

    Attributes
    ----------
    sampler : PerDomain or Weighted
        The sampler to give to `stochastic_afl`.
    reason : str
        A sentence that says why.
    per_domain : float
        p Σ λ_k² v_k: the variance of PerDomain times the p rows that it looks at in a step.
    weighted : float
        Σ λ_k v_k + σ_O²: the variance of Weighted, which looks at one row.
    variances : Variances
        The variances of all samplers at the same point.

    Examples
    --------
    >>> import anymix as ax
    >>> problem = ax.LinearDomains([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], ["a", "a", "b", "b"])
    >>> advice = advise_sampler(problem, w=[0.0, 0.0], mixture=[0.5, 0.5])
    >>> advice.sampler, advice.per_domain <= advice.weighted
    (PerDomain(batch_size=1), True)
    """

    sampler: PerDomain | Weighted
    reason: str
    per_domain: float
    weighted: float
    variances: Variances


def advise_sampler(
    problem: LinearDomains,
    w: ArrayLike | None = None,
    mixture: ArrayLike | None = None,
    *,
    mixtures: Objective | Mixtures = None,
    **parts: Unpack[Parts],
) -> Advice:
    """PerDomain if p Σ λ_k² v_k ≤ Σ λ_k v_k + σ_O², else Weighted: least variance × rows touched.

    PerDomain touches p rows a step and Weighted one, so this compares them at equal cost, as the
    paper does with p-Weighted. Their companions for λ tie: rows × E‖δ_λ‖² is the same for both.

    All depends on λ: an even one favours PerDomain, one with few large entries Weighted.

    Parameters
    ----------
    problem : LinearDomains
        The rows.
    w : array-like of shape (n_parameters,) or None
        The model of a run or a solution. None solves a tenth of the rows to a gap of 0.01.
    mixture : array-like of shape (p,) or None
        λ of the same run or solution; give both or neither.
    mixtures : Objective, MixtureSet, function, str or None
        What that small solution minimises; or Λ alone, and the rest by name.
    **parts : Any
        Parts of an `Objective` by name: gamma (1e-3), mu, norm, ...; not beside one.

    Returns
    -------
    Advice

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> X, d = np.array([[0.0], [1.0], [2.0], [3.0]]), ["a", "a", "b", "b"]
    >>> problem = ax.LinearDomains(X, [0, 1, 0, 1], d)
    >>> print(advise_sampler(problem, w=[0.0, 0.0], mixture=[0.9, 0.1]).reason)
    Weighted: at equal cost its gradient has 0.85 times the variance of PerDomain's (λ acts like
    1.2 of the 2 domains)
    """
    w, lam = _point(problem, w, mixture, objective_of(mixtures, parts))
    v, p = variances(problem, w, lam), problem.n_domains
    per_domain, weighted = p * v.per_domain, v.weighted
    small, large = sorted((per_domain, weighted))
    name, other = ("PerDomain", "Weighted") if per_domain <= weighted else ("Weighted", "PerDomain")
    reason = (
        f"{name}: at equal cost its gradient has {small / large if large > 0 else 1.0:.2g} times "
        f"the variance of {other}'s (λ acts like {1 / float(lam @ lam):.1f} of the {p} domains)"
    )
    sampler = PerDomain() if name == "PerDomain" else Weighted()
    return Advice(sampler, reason, per_domain, weighted, v)


def _point(
    problem: LinearDomains,
    w: ArrayLike | None,
    mixture: ArrayLike | None,
    objective: Objective,
) -> tuple[Array, Array]:
    """(w, λ) as given, or near the solution."""
    if (w is None) != (mixture is None):
        raise InputError("", "only one of w and mixture is given", "give both, or neither")
    if w is not None and mixture is not None:
        return problem._check_w(w), _mixture(problem, mixture)
    if not problem.loss.is_smooth:
        raise InputError(
            "w and mixture",
            f"are None, and {problem.loss} has no exact solver to find them",
            "give those of a short run, such as iterate.w_average and iterate.mixture_average",
        )
    near = solve(problem.sample(0.1), objective, tol=1e-2)
    return near.w, near.mixture
