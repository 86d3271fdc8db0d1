"""The weighted Rademacher complexity: how well a class of models can fit noise on a mixture.

    ℜ_m(G, λ) = E sup_h Σ_k λ_k/m_k Σ_i σ_ki ℓ(h(x_ki), y_ki),    ℜ_m(G, Λ) = max_{λ∈Λ} ℜ_m(G, λ)

Monte Carlo for models of which the supremum is known given the signs σ: linear ones in a ball,
those of a kernel, and a finite list. These are given the rows: without the expectation over them.
And upper bounds of the expected one in closed form, √(Σ_k q_k λ_k²), for all λ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.bounds.corner_search import largest_at
from anymix.errors import InputError, finite_number
from anymix.mixtures import MixtureSet, Point
from anymix.mixtures.checks import count, generator, matrix, one_mixture, positive
from anymix.mixtures.parsing import Mixtures, target_mixtures
from anymix.problem.arrays import pooled_rows, rows_of_domains

Array = NDArray[np.float64]
Parts = list[NDArray[np.intp]]

__all__ = [
    "Complexity",
    "Rademacher",
    "finite_rademacher",
    "kernel_rademacher",
    "linear_rademacher",
    "vc_complexity",
]


@dataclass(frozen=True, eq=False)
class Complexity:
    """ℜ_m(G, λ) ≤ √(Σ_k q_k λ_k²) for every mixture λ: what the theorems need of a class of models.

    A bound of the expected complexity: nothing in it may be read from the rows of the theorem.

    Parameters
    ----------
    squares : ndarray of shape (p,)
        q_k ≥ 0; √q_k bounds the complexity ℜ^k over domain k alone.

    Examples
    --------
    >>> c = Complexity.vc(10, [1000, 1000], spread=1.0)
    >>> round(c.at([0.5, 0.5]), 4), round(c.worst(None), 4)
    (0.1255, 0.1775)
    """

    squares: Array

    @classmethod
    def vc(cls, d: float, sizes: ArrayLike, spread: float = 2.0) -> Complexity:
        """q_k = spread²/4 · 2 d log(em/d)/m_k: the lemma on the VC dimension, for every λ."""
        m, d = positive("sizes", sizes), _dimension(d)
        total = float(m.sum())
        if total < d:
            found = f"is {d:g}, more than the {total:g} rows there are"
            raise InputError("d", found, "with so few rows nothing is known; give more rows")
        spread = finite_number("spread", spread, "give a number > 0", lambda x: x > 0)
        return cls(spread**2 / 4 * 2 * d * math.log(math.e * total / d) / m)

    @classmethod
    def linear(
        cls, sizes: ArrayLike, w_radius: float, x_radius: float, lipschitz: float = 1.0
    ) -> Complexity:
        """q_k = (L R r)²/m_k: models ‖w‖ ≤ R, an L-Lipschitz loss, ‖x‖ ≤ r whatever the rows."""
        scale = _positive("w_radius", w_radius) * _positive("x_radius", x_radius)
        return cls((_positive("lipschitz", lipschitz) * scale) ** 2 / positive("sizes", sizes))

    @classmethod
    def finite(cls, n_models: int, sizes: ArrayLike, loss_bound: float = 1.0) -> Complexity:
        """q_k = 2 M² log N/m_k: Massart's lemma for N models and losses in [0, M]."""
        M, N = _positive("loss_bound", loss_bound), count("n_models", n_models)
        return cls(2 * M**2 * math.log(N) / positive("sizes", sizes))

    def at(self, mixture: ArrayLike) -> float:
        """√(Σ q_k λ_k²), the bound at one mixture."""
        lam = one_mixture("mixture", mixture, self.squares.size)
        return math.sqrt(float(self.squares @ lam**2))

    def worst(self, mixtures: Mixtures) -> float:
        """max_{λ∈Λ} √(Σ q_k λ_k²), the minimax complexity, or an upper bound where Λ says so."""
        q = self.squares
        target = target_mixtures(mixtures, None, np.ones_like(q))
        if not q.any():
            return 0.0
        q = np.maximum(q, 1e-300)
        return math.sqrt(target.skewness(1 / q) / float(np.sum(1 / q)))


def vc_complexity(
    d: float, sizes: ArrayLike, mixtures: Mixtures = None, spread: float = 2.0
) -> float:
    """√(2 𝔰(Λ‖m̄) (d/m) log(em/d)) ≥ ℜ_m(G, Λ): the lemma, for losses in {−1, +1}.

    Times spread/2 for a loss of two values that differ by `spread`: ½ for the 0-1 loss. (The last
    lines of the printed proof divide by m once too often; the lemma as stated is right.)

    Parameters
    ----------
    d : float
        The VC dimension of the class of losses, at most m.
    sizes : array-like of shape (p,)
        m_k > 0, the rows of each domain; m is their sum.
    mixtures : MixtureSet, function, str or None
        Λ; None is any mixture.
    spread : float
        The difference of the two values of the loss: 2 for {−1, +1}, 1 for {0, 1}.

    Returns
    -------
    float

    Examples
    --------
    >>> import anymix as ax
    >>> round(vc_complexity(1, [1], ax.Point([1.0])), 6)  # √(2 log e)
    1.414214
    """
    m = positive("sizes", sizes)
    worst = target_mixtures(mixtures, None, m).skewness(m)
    return math.sqrt(worst / float(m.sum()) * float(Complexity.vc(d, m, spread).squares[0] * m[0]))


@dataclass(frozen=True, eq=False)
class Rademacher:
    """ℜ_S(G, λ), the complexity given the rows S, by T draws of all signs; what is proven of it.

    Another sign of row i in domain k, in one draw, moves the mean of T draws by at most
    2 λ_k b_i/(m_k T), where b_i ≥ |ℓ(h(x_i), y_i)| for all h. So (McDiarmid's inequality) for one λ

        ℜ_S(G, λ) ≤ mean + √(2 log(1/δ)/T · Σ_k λ_k² q_k),    q_k = Σ_i b_i²/m_k²

    with probability 1 − δ over the draws.

    Parameters
    ----------
    value : float
        The mean over the draws of signs.
    standard_error : float
        Of that mean: the truth is within two or three of them.
    upper : float
        An upper bound in closed form, given the rows too, without Monte Carlo.
    mixture : ndarray of shape (p,)
        The λ at which the value was found; for a set Λ the largest.
    sizes : ndarray of shape (p,)
        m_k, the rows of each domain.
    draws : function
        λ → the T draws, (T,).
    squares : ndarray of shape (p,)
        q_k of the bound above.
    closed : ndarray of shape (N, p)
        ℜ_S(G, λ) ≤ max_j √(Σ_k closed_jk λ_k²), where no row is in two domains.
    is_disjoint : bool
        Whether no row is in two domains.

    Examples
    --------
    >>> found = linear_rademacher([[1.0], [1.0]], ["a", "a"], [1.0], n_draws=4000, seed=0)
    >>> abs(found.value - 0.5) < 4 * found.standard_error, round(found.upper, 4)
    (True, 0.7071)
    """

    value: float
    standard_error: float
    upper: float
    mixture: Array
    sizes: Array
    draws: Callable[[Array], Array]
    squares: Array
    closed: Array
    is_disjoint: bool

    def _at_most(self, lam: Array, delta: float) -> float:
        """The smaller of the bound above and the closed form, which alone is left for δ = 0."""
        closed = math.sqrt(float(np.max(self.closed @ lam**2)))
        if delta == 0:
            return closed
        draws = self.draws(lam)
        off = math.sqrt(2 * math.log(1 / delta) / len(draws) * float(self.squares @ lam**2))
        return min(float(np.mean(draws)) + off, closed)

    def _worst(self, target: MixtureSet) -> float:
        """max_{λ∈Λ} of the closed form."""
        return max(Complexity(q).worst(target) for q in self.closed)


def linear_rademacher(
    X: ArrayLike,
    domains: Any = None,
    mixture: ArrayLike | MixtureSet | None = None,
    w_radius: float = 1.0,
    lipschitz: float = 1.0,
    n_draws: int = 1000,
    seed: int | np.random.Generator | None = 0,
) -> Rademacher:
    """L R E‖Σ_k λ_k/m_k Σ_i σ_ki x_ki‖ ≤ L R √(Σ_k λ_k²/m_k² Σ_i ‖x_ki‖²).

    For ⟨w, x⟩, ‖w‖ ≤ R, the supremum given the signs is a norm. A loss that is L-Lipschitz in
    ⟨w, x⟩ makes it at most L times as large (Talagrand's contraction).

    Parameters
    ----------
    X : array-like of shape (n, d)
        The rows; add a column of ones for an intercept.
    domains : array-like of shape (n,) or (n, p), or None
        The domain of each row; None is one domain.
    mixture : array-like of shape (p,), MixtureSet or None
        λ, or Λ for the largest over it; None is the mixture of the rows.
    w_radius : float
        R > 0, the largest ‖w‖.
    lipschitz : float
        L > 0, the Lipschitz constant of the loss in its score: 1 for logistic and hinge losses.
    n_draws : int
        How many draws of all signs.
    seed : int, Generator or None
        Where the signs come from.

    Returns
    -------
    Rademacher

    Examples
    --------
    >>> import anymix as ax
    >>> X, d = np.eye(4), ["a", "a", "a", "b"]
    >>> found = linear_rademacher(X, d, ax.Simplex(2), w_radius=2.0)
    >>> found.value, found.upper, found.mixture  # one row in 'b': no noise cancels
    (2.0, 2.0, array([0., 1.]))
    """
    rows = matrix("X", X)
    scale = _positive("w_radius", w_radius) * _positive("lipschitz", lipschitz)
    parts, target = _read(domains, mixture, len(rows))
    signs = _signs(n_draws, len(rows), seed)
    sums = np.stack([signs[:, i] @ (scale / len(i) * rows[i]) for i in parts], axis=1)  # (T, p, d)
    q = np.array([scale**2 * float(np.sum(rows[i] ** 2)) / len(i) ** 2 for i in parts])
    grams = np.einsum("tkd,tjd->tkj", sums, sums)  # (T, p, p)
    return _largest(partial(_lengths, grams), q, q[None], parts, len(rows), target)


def kernel_rademacher(
    gram: ArrayLike,
    domains: Any = None,
    mixture: ArrayLike | MixtureSet | None = None,
    norm: float = 1.0,
    lipschitz: float = 1.0,
    n_draws: int = 1000,
    seed: int | np.random.Generator | None = 0,
) -> Rademacher:
    """L B E √(aᵀKa) ≤ L B √(Σ_k λ_k²/m_k² Σ_i K_ii), a_ki = σ_ki λ_k/m_k, from a Gram matrix K.

    For functions of norm ‖f‖ ≤ B in the space of the kernel.

    Parameters
    ----------
    gram : array-like of shape (n, n)
        K_ij = k(x_i, x_j), symmetric without negative eigenvalues.
    domains : array-like of shape (n,) or (n, p), or None
        The domain of each row; None is one domain.
    mixture : array-like of shape (p,), MixtureSet or None
        λ, or Λ for the largest over it; None is the mixture of the rows.
    norm : float
        B > 0, the largest norm of a function.
    lipschitz : float
        L > 0, the Lipschitz constant of the loss in its score.
    n_draws : int
        How many draws of all signs.
    seed : int, Generator or None
        Where the signs come from.

    Returns
    -------
    Rademacher

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> round(kernel_rademacher(X @ X.T).value - linear_rademacher(X).value, 12)
    0.0
    """
    K = matrix("gram", gram)
    if K.shape[0] != K.shape[1] or not np.allclose(K, K.T, atol=1e-8 * np.abs(K).max()):
        raise InputError("gram", f"of shape {K.shape} is not symmetric", "give k(x_i, x_j)")
    least = float(np.linalg.eigvalsh(K)[0])
    if least < -1e-8 * np.abs(K).max() * len(K):
        fix = "give the Gram matrix of a kernel, which has none below 0"
        raise InputError("gram", f"has the eigenvalue {least:.4g}", fix)
    scale = _positive("norm", norm) * _positive("lipschitz", lipschitz)
    parts, target = _read(domains, mixture, len(K))
    signs = _signs(n_draws, len(K), seed)
    grams = np.empty((len(signs), len(parts), len(parts)))
    for j, rows in enumerate(parts):
        felt = signs[:, rows] @ (scale**2 / len(rows) * K[rows])  # (T, n)
        for k, i in enumerate(parts):
            grams[:, k, j] = np.einsum("ti,ti->t", signs[:, i], felt[:, i]) / len(i)
    q = np.array([scale**2 * float(np.trace(K[np.ix_(i, i)])) / len(i) ** 2 for i in parts])
    return _largest(partial(_lengths, grams), q, q[None], parts, len(K), target)


def finite_rademacher(
    losses: ArrayLike,
    domains: Any = None,
    mixture: ArrayLike | MixtureSet | None = None,
    n_draws: int = 1000,
    seed: int | np.random.Generator | None = 0,
) -> Rademacher:
    """E max_j Σ_k λ_k/m_k Σ_i σ_ki ℓ_jki ≤ √(2 log N) max_j √(Σ_k λ_k²/m_k² Σ_i ℓ_jki²).

    For a list of N models; the closed form is Massart's lemma.

    Parameters
    ----------
    losses : array-like of shape (N, n)
        The loss of every model on every row.
    domains : array-like of shape (n,) or (n, p), or None
        The domain of each row; None is one domain.
    mixture : array-like of shape (p,), MixtureSet or None
        λ, or Λ for the largest over it; None is the mixture of the rows.
    n_draws : int
        How many draws of all signs.
    seed : int, Generator or None
        Where the signs come from.

    Returns
    -------
    Rademacher

    Examples
    --------
    >>> finite_rademacher([[0.0, 1.0]]).upper  # one model fits no noise
    0.0
    """
    table = matrix("losses", losses)
    parts, target = _read(domains, mixture, table.shape[1])
    signs = _signs(n_draws, table.shape[1], seed)
    sums = np.stack([signs[:, i] @ table[:, i].T / len(i) for i in parts], axis=2)  # (T, N, p)
    each = np.array([np.sum(table[:, i] ** 2, axis=1) / len(i) ** 2 for i in parts]).T  # (N, p)
    massart = 2 * math.log(len(table)) * each
    most = np.max(np.abs(table), axis=0)
    q = np.array([np.sum(most[i] ** 2) / len(i) ** 2 for i in parts])
    return _largest(partial(_maxima, sums), q, massart, parts, table.shape[1], target)


def _lengths(grams: Array, lam: Array) -> Array:
    """√(λᵀ G λ) of each draw's Gram matrix G of the domains' sums, (T,)."""
    squares = np.einsum("k,tkj,j->t", lam, grams, lam)
    return np.asarray(np.sqrt(np.maximum(squares, 0)))


def _maxima(sums: Array, lam: Array) -> Array:
    """max_j of each draw's sums of N models, (T,)."""
    return np.asarray(np.max(sums @ lam, axis=1))


def _largest(
    draws: Callable[[Array], Array],
    squares: Array,
    closed: Array,
    parts: Parts,
    n: int,
    target: MixtureSet,
) -> Rademacher:
    """The draws at the λ ∈ Λ with the largest mean: it is convex in λ."""
    lam = largest_at(lambda lam: float(np.mean(draws(lam))), target).mixture
    there, sizes = draws(lam), np.array([float(len(i)) for i in parts])
    error = float(np.std(there, ddof=1)) / math.sqrt(len(there)) if len(there) > 1 else math.inf
    is_disjoint = len(pooled_rows(parts, n)) == sizes.sum()
    upper = max(_closed_form(q, target, is_disjoint) for q in closed)
    mean = float(np.mean(there))
    return Rademacher(mean, error, upper, lam, sizes, draws, squares, closed, is_disjoint)


def _closed_form(q: Array, target: MixtureSet, is_disjoint: bool) -> float:
    """max_Λ √(Σ q_k λ_k²); for domains that share rows max_Λ Σ λ_k √q_k, which is no less."""
    if is_disjoint:
        return Complexity(q).worst(target)
    roots = np.sqrt(q)
    return float(target.maximize(roots) @ roots)


def _read(domains: Any, mixture: ArrayLike | MixtureSet | None, n: int) -> tuple[Parts, MixtureSet]:
    """The rows of each domain, and Λ; one mixture is a set of one."""
    given = np.zeros(n, dtype=int) if domains is None else domains
    parts = list(rows_of_domains(given, n).values())
    sizes = np.array([len(i) for i in parts], dtype=np.float64)
    if mixture is None:
        return parts, Point(sizes / sizes.sum())
    if isinstance(mixture, MixtureSet):
        if mixture.n_domains != len(parts):
            found = f"is over {mixture.n_domains} domains, but the rows have {len(parts)}"
            raise InputError("mixture", found, f"give a set over {len(parts)}")
        return parts, mixture
    return parts, Point(one_mixture("mixture", mixture, len(parts)))


def _signs(n_draws: int, n: int, seed: int | np.random.Generator | None) -> Array:
    rng = generator("seed", seed)
    draws = rng.integers(0, 2, size=(count("n_draws", n_draws), n))
    return np.asarray(2.0 * draws - 1, dtype=np.float64)


def _dimension(d: Any) -> float:
    return finite_number("d", d, "give a VC dimension ≥ 1", lambda x: x >= 1)


def _positive(name: str, value: Any) -> float:
    return finite_number(name, value, "give a number > 0", lambda x: x > 0)
