"""What training rows alone promise: Theorem 1, its corollary, and the theorem for all mixtures.

With a loss in [0, M], with probability 1 − δ, for all models h of a class G and all λ ∈ Λ at once:

    L(h, λ) ≤ L̂(h, λ) + 2ℜ_m(G, λ) + Mε + M √( 𝔰(λ‖m̄)/(2m) · log(|Λ_ε|/δ) )         Theorem 1
    L(h, λ) ≤ L̂(h, λ) + Σ_k λ_k ( 2ℜ^k(G) + M √( log(p/δ)/(2m_k) ) )     the alternative, for Δ_p

(The printed proof of Theorem 1 ends with ℜ in place of 2ℜ; the theorem as stated is right.) These
hold for the rows that a model was trained on, and are wide. `held_out` is for rows not trained on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.auditing.guarantees import probability
from anymix.bounds.complexity import Complexity
from anymix.bounds.corner_search import largest_at
from anymix.errors import InputError, finite_number, finite_vector
from anymix.mixtures import MixtureSet
from anymix.mixtures.checks import positive
from anymix.mixtures.choosing import Mixtures, target_mixtures

Array = NDArray[np.float64]

__all__ = ["Bound", "generalization", "tightest"]

THEOREMS = ("1", "1, corners", "alternative")


@dataclass(frozen=True, eq=False)
class Bound:
    """An upper bound on max_{λ∈Λ} Σ λ_k L_k(h), summand by summand, that holds for all h at once.

    Attributes
    ----------
    empirical : float
        L̂(h, λ), the loss on the rows.
    complexity : float
        2ℜ_m(G, λ), for the choice of h among all models.
    cover : float
        Mε, for the mixtures between those of the cover Λ_ε.
    confidence : float
        The term with log(1/δ), for chance.
    distance : float
        M ℓ₁(D, D_Λ), for a target that is no mixture of the domains (the corollary).
    slack : float
        How much the value may be above the maximum over Λ, 0 where that was found exactly.
    mixture : ndarray of shape (p,)
        The λ at which these are taken, where their sum is largest.
    delta : float
        δ, how often the bound may fail.
    epsilon : float
        ε of the cover.
    theorem : str
        Which theorem: "1", "1, corners" or "alternative".
    search : str
        How the maximum over Λ was found.

    Examples
    --------
    >>> b = generalization([0.25, 0.25], [800, 800], Complexity.finite(1, [800, 800]), delta=0.1)
    >>> b.empirical, b.complexity, round(b.value - 0.25 - b.cover - b.confidence, 12)
    (0.25, 0.0, 0.0)
    """

    empirical: float
    complexity: float
    cover: float
    confidence: float
    distance: float
    slack: float
    mixture: Array
    delta: float
    epsilon: float
    theorem: str
    search: str

    @property
    def value(self) -> float:
        """The bound: the sum of all summands."""
        terms = (self.empirical, self.complexity, self.cover, self.confidence)
        return sum(terms) + self.distance + self.slack

    def explain(self) -> str:
        """The bound in words.

        Returns
        -------
        str
        """
        parts = [
            (self.empirical, "on the rows"),
            (self.complexity, "for the choice among all models (twice the complexity)"),
            (self.cover, "for the mixtures between those counted"),
            (self.confidence, "for chance"),
            (self.distance, "for a target off the mixtures"),
            (self.slack, "because the worst mixture is not known exactly"),
        ]
        said = " + ".join(f"{x:.4g} {why}" for x, why in parts if x > 0)
        return (
            f"With a probability of {1 - self.delta:.4g}, on every mixture the loss is at most "
            f"{self.value:.4g} = {said or '0'} (theorem {self.theorem}; {self.search})."
        )


def generalization(
    domain_losses: ArrayLike,
    sizes: ArrayLike,
    complexity: Complexity | float,
    mixtures: Mixtures = None,
    delta: float = 0.05,
    *,
    loss_bound: float = 1.0,
    epsilon: float | None = None,
    distance: float = 0.0,
    theorem: str = "1",
) -> Bound:
    """max_{λ∈Λ} of L̂(h, λ) + 2ℜ_m(G, λ) + Mε + M √(𝔰(λ‖m̄)/(2m) log(|Λ_ε|/δ)): Theorem 1.

    The whole right-hand side is maximised, not each summand. It is convex in λ, so it is largest at
    a corner of Λ. Where the corners can be listed all are tried, and that is the global maximum.
    For balls and boxes of more than twelve domains, the largest value found by climbing is shown,
    and `slack` lifts it to a proven upper bound of the maximum.

    Parameters
    ----------
    domain_losses : array-like of shape (p,)
        L̂_k, the mean losses on the rows, in [0, M].
    sizes : array-like of shape (p,)
        m_k > 0, the rows of each domain.
    complexity : Complexity or float
        ℜ_m(G, λ) as a function of λ, or one number that bounds it for all of Λ.
    mixtures : MixtureSet, function, str or None
        Λ; None is any mixture.
    delta : float
        δ in (0, 1), how often the bound may fail.
    loss_bound : float
        M > 0, what no loss can be above.
    epsilon : float or None
        ε ≥ 0 of the cover; None is 0 where Λ is finite (`Vertices`, `Point`), and 1/√m otherwise.
    distance : float
        ℓ₁(D, D_Λ) in [0, 2] of a target D that is no mixture of the domains.
    theorem : {"1", "1, corners", "alternative"}
        Theorem 1; the same for the N corners of Λ alone, ε = 0 and |Λ_0| = N, which is enough:
        the largest loss is at a corner; or the alternative theorem for all mixtures.

    Returns
    -------
    Bound

    Examples
    --------
    For one domain it is the bound of the textbook, L̂ + 2ℜ + M √(log(1/δ)/(2m)):

    >>> b = generalization([0.1], [50], 0.2, delta=np.exp(-1))
    >>> [round(x, 12) for x in (b.empirical, b.complexity, b.cover, b.confidence, b.value)]
    [0.1, 0.4, 0.0, 0.1, 0.6]
    """
    L, m, target = _read(domain_losses, sizes, mixtures)
    delta = probability("delta", delta)
    M = finite_number("loss_bound", loss_bound, "give a number > 0", lambda x: x > 0)
    if L.min() < 0 or L.max() > M:
        outside = f"has {L.min():.4g} to {L.max():.4g}, outside of [0, loss_bound] = [0, {M:g}]"
        raise InputError("domain_losses", outside, "give the largest loss that a row can have")
    off = finite_number("distance", distance, "give ℓ₁ in [0, 2]", lambda x: 0 <= x <= 2)
    c = _complexity(complexity, len(m))
    if str(theorem) not in THEOREMS:
        fix = "give '1', '1, corners' or 'alternative'"
        raise InputError("theorem", f"is {theorem!r}", fix)
    if theorem == "alternative":
        found = _alternative(L, m, c, target, delta, M)
    else:
        log_size, eps = _cover(target, epsilon, m, corners=theorem != "1")
        found = _theorem_1(L, m, c, target, M, eps, log_size + math.log(1 / delta))
        found = replace(found, delta=delta, theorem=theorem)
    return replace(found, distance=M * off)


def _theorem_1(
    L: Array, m: Array, c: Complexity | float, target: MixtureSet, M: float, eps: float, log: float
) -> Bound:
    def terms(lam: Array) -> tuple[float, float, float]:
        confidence = M * math.sqrt(float(lam**2 @ (1 / m)) * log / 2)
        return float(lam @ L), 2 * _at(c, lam), confidence

    best = largest_at(lambda lam: sum(terms(lam)), target)
    slack, search = 0.0, "every corner of Λ was tried, so the maximum is global"
    if not best.is_global:
        apart = float(target.maximize(L) @ L) + 2 * _worst(c, target)
        apart += M * math.sqrt(target.skewness(m) / float(m.sum()) * log / 2)
        slack = max(apart - best.value, 0.0)
        search = (
            f"climbed from many starts; no mixture is more than {slack:.2g} above the best found"
        )
    empirical, twice, confidence = terms(best.mixture)
    return Bound(
        empirical, twice, M * eps, confidence, 0.0, slack, best.mixture, 1.0, eps, "1", search
    )


def _alternative(
    L: Array, m: Array, c: Complexity | float, target: MixtureSet, delta: float, M: float
) -> Bound:
    """Σ λ_k (L̂_k + 2ℜ^k + M √(log(p/δ)/(2m_k))) is linear in λ, so its maximum is exact."""
    twice = 2 * (np.sqrt(c.squares) if isinstance(c, Complexity) else np.full(len(m), c))
    confidence = M * np.sqrt(math.log(len(m) / delta) / (2 * m))
    lam = target.maximize(L + twice + confidence)
    search = "linear in λ, so the maximum over Λ is global"
    empirical, doubled, chance = (float(lam @ term) for term in (L, twice, confidence))
    return Bound(empirical, doubled, 0.0, chance, 0.0, 0.0, lam, delta, 0.0, "alternative", search)


def tightest(
    domain_losses: ArrayLike,
    sizes: ArrayLike,
    complexity: Complexity | float,
    mixtures: Mixtures = None,
    delta: float = 0.05,
    *,
    loss_bound: float = 1.0,
    distance: float = 0.0,
) -> Bound:
    """The smallest of Theorem 1 (its best ε), its form for corners, and the alternative theorem.

    Each is taken at δ/N, N the number of them that apply, so all hold at once with probability
    1 − δ, and so does the smallest. ε is the one with the least Mε + confidence at the largest
    skewness, which no loss has a say in.

    Parameters
    ----------
    domain_losses : array-like of shape (p,)
        L̂_k, the mean losses on the rows, in [0, M].
    sizes : array-like of shape (p,)
        m_k > 0, the rows of each domain.
    complexity : Complexity or float
        ℜ_m(G, λ) as a function of λ, or one number that bounds it for all of Λ.
    mixtures : MixtureSet, function, str or None
        Λ; None is any mixture.
    delta : float
        δ in (0, 1), how often the bound may fail in all.
    loss_bound : float
        M > 0, what no loss can be above.
    distance : float
        ℓ₁(D, D_Λ) in [0, 2] of a target D that is no mixture of the domains.

    Returns
    -------
    Bound
        Its `delta` is δ.

    Examples
    --------
    >>> c = Complexity.vc(3, [2000, 500], spread=1.0)
    >>> b = tightest([0.1, 0.2], [2000, 500], c)
    >>> b.theorem, round(b.value, 2)
    ('alternative', 0.57)
    """
    _, m, target = _read(domain_losses, sizes, mixtures)
    delta = probability("delta", delta)
    theorems = ["1", "alternative"] + ["1, corners"] * (target.corners is not None)
    each = delta / len(theorems)
    options: dict[str, Any] = {"loss_bound": loss_bound, "distance": distance}
    eps = _best_epsilon(target, m, each)
    found = [
        generalization(
            *(domain_losses, sizes, complexity, target, each),
            epsilon=eps if name == "1" else None,
            theorem=name,
            **options,
        )
        for name in theorems
    ]
    return replace(min(found, key=lambda b: b.value), delta=delta)


def _best_epsilon(target: MixtureSet, m: Array, delta: float) -> float:
    """The least ε + √(𝔰/(2m) log(|Λ_ε|/δ)) on a grid of ε, 0 included."""
    total = float(m.sum())
    scale = target.skewness(m) / (2 * total)

    def width(eps: float) -> float:
        return eps + math.sqrt(scale * (target.log_cover_size(eps) + math.log(1 / delta)))

    tried: list[float] = [0.0, *(np.geomspace(1e-3, 1e3, 61) / math.sqrt(total)).tolist()]
    return min(tried, key=width)


def _cover(
    target: MixtureSet, epsilon: float | None, m: Array, *, corners: bool
) -> tuple[float, float]:
    """(log |Λ_ε|, ε)."""
    if corners:
        if target.corners is None:
            fix = "say theorem='1'; only listed corners can be counted"
            raise InputError("theorem", f"is '1, corners', but those of {target!r} are many", fix)
        return math.log(len(target.corners)), 0.0
    if epsilon is None:
        finite = math.isfinite(target.log_cover_size(0.0))
        epsilon = 0.0 if finite else 1 / math.sqrt(float(m.sum()))
    fix = "give a number > 0, such as 1/√m; 0 is for a finite Λ"
    eps = finite_number("epsilon", epsilon, fix, lambda x: x >= 0)
    log_size = target.log_cover_size(eps)
    if math.isinf(log_size):
        raise InputError("epsilon", f"is {eps:g}, and no finite cover of Λ is so fine", fix)
    return log_size, eps


def _read(
    domain_losses: ArrayLike, sizes: ArrayLike, mixtures: Mixtures
) -> tuple[Array, Array, MixtureSet]:
    m = positive("sizes", sizes)
    L = _not_negative("domain_losses", domain_losses, m.size)
    target = target_mixtures(mixtures, None, m)
    if target.n_domains != m.size:
        found = f"is over {target.n_domains} domains, but there are {m.size} sizes"
        raise InputError("mixtures", found, f"give a set over {m.size}")
    return L, m, target


def _not_negative(name: str, values: ArrayLike, n: int) -> Array:
    """n finite numbers ≥ 0."""
    array = finite_vector(name, values, n)
    if array.min() < 0:
        raise InputError(name, f"has the entry {array.min():.4g}", "give numbers ≥ 0")
    return array


def _complexity(complexity: Complexity | float, p: int) -> Complexity | float:
    if not isinstance(complexity, Complexity):
        fix = "give a Complexity or a number ≥ 0"
        return finite_number("complexity", complexity, fix, lambda x: x >= 0)
    if complexity.squares.size != p:
        found = f"is of {complexity.squares.size} domains, but there are {p} sizes"
        raise InputError("complexity", found, "make it of the same sizes")
    return complexity


def _at(c: Complexity | float, lam: Array) -> float:
    return math.sqrt(float(c.squares @ lam**2)) if isinstance(c, Complexity) else c


def _worst(c: Complexity | float, target: MixtureSet) -> float:
    return c.worst(target) if isinstance(c, Complexity) else c
