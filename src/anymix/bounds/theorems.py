"""What training rows alone promise: Theorem 1, its corollary, and the theorem for all mixtures.

With a loss in [0, M], with probability 1 − δ, for all models h of a class G at once,
max_{λ∈Λ} L(h, λ) is at most the maximum over Λ of

    L̂(h, λ) + 2ℜ_m(G, λ) + Mε + M √( 𝔰(λ‖m̄)/(2m) · log(|Λ_ε|/δ) )              Theorem 1
    L̂(h, λ) + Σ_k λ_k ( 2ℜ^k(G) + M √( log(p/δ)/(2m_k) ) )       the alternative, for Δ_p

Here ℜ_m = E_S ℜ_S, an expectation over the rows S. Given the rows, ℜ_S and 3M √… take the places of
ℜ_m and M √…: another row in domain k moves Ψ = sup_h L(h, λ) − L̂(h, λ) by at most M λ_k/m_k and
2ℜ_S by at most 2M λ_k/m_k, and E Ψ ≤ 2 E ℜ_S. McDiarmid's inequality for Ψ − 2ℜ_S does the rest,
for all λ ∈ Λ_ε (all k) at once as before.

Of a Monte Carlo ℜ_S an upper bound is taken, see `Rademacher`, at every corner of Λ (in every
domain) at once, with a twentieth of δ for the draws. The corners will do, as the sum of the true
terms is convex in λ; where they cannot be listed, the closed form is taken.

(The printed proof of Theorem 1 ends with ℜ in place of 2ℜ; the theorem as stated is right.) These
hold for the rows that a model was trained on, and are wide. `held_out` is for rows not trained on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.auditing.guarantees import probability
from anymix.bounds.complexity import Complexity, Rademacher
from anymix.bounds.corner_search import largest_at
from anymix.errors import InputError, finite_number, finite_vector
from anymix.mixtures import MixtureSet
from anymix.mixtures.checks import positive
from anymix.mixtures.parsing import Mixtures, target_mixtures

Array = NDArray[np.float64]
Class = Complexity | Rademacher | float

__all__ = ["Bound", "generalization", "tightest"]

THEOREMS = ("1", "1, corners", "alternative")
DRAWN = 1 / 20  # of δ, for the draws of a Monte Carlo complexity


@dataclass(frozen=True, eq=False)
class Bound:
    """An upper bound on max_{λ∈Λ} Σ λ_k L_k(h), summand by summand, that holds for all h at once.

    Attributes
    ----------
    empirical : float
        L̂(h, λ), the loss on the rows.
    complexity : float
        2ℜ_m(G, λ), for the choice of h among all models; or 2ℜ_S(G, λ), given the rows, and what
        its draws may be off.
    cover : float
        Mε, for the mixtures between those of the cover Λ_ε.
    confidence : float
        The term with log(1/δ), for chance; given the rows three times as large.
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
    given_rows : bool
        Whether the complexity is ℜ_S, given the rows, and not the expected one.

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
    given_rows: bool

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
        given = " given the rows" if self.given_rows else ""
        both = " in the losses and in the complexity" if self.given_rows else ""
        parts = [
            (self.empirical, "on the rows"),
            (self.complexity, f"for the choice among all models (twice the complexity{given})"),
            (self.cover, "for the mixtures between those counted"),
            (self.confidence, f"for chance{both}"),
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
    complexity: Complexity | Rademacher | float,
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
    complexity : Complexity, Rademacher or float
        A bound of the *expected* ℜ_m(G, λ) for every λ; or what `linear_rademacher` and its like
        found on these very rows, for whatever λ, which costs two confidence terms more; or a
        number, taken for a bound of the expected complexity on all of Λ, as `vc_complexity` is.
        The `value` of a Rademacher is no such number.
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
    c = _complexity(complexity, m)
    if str(theorem) not in THEOREMS:
        fix = "give '1', '1, corners' or 'alternative'"
        raise InputError("theorem", f"is {theorem!r}", fix)
    log_size, eps, n_drawn = _counted(theorem, target, epsilon, m)
    terms, share = _price(c)
    widths = terms * M * np.sqrt((log_size - math.log((1 - share) * delta)) / (2 * m))  # (p,)
    drawn = share * delta / n_drawn if n_drawn else 0.0  # 0: the closed form

    def at(lam: Array) -> float:
        return 2 * _at(c, lam, drawn)

    if theorem == "alternative":
        found = _alternative(L, at, widths, target)
    else:
        found = _theorem_1(L, at, widths, target, 2 * _worst(c, target))
    empirical, twice, confidence = found.terms
    return Bound(
        empirical=empirical,
        complexity=twice,
        cover=M * eps,
        confidence=confidence,
        distance=M * off,
        slack=found.slack,
        mixture=found.mixture,
        delta=delta,
        epsilon=eps,
        theorem=theorem,
        search=found.search,
        given_rows=isinstance(c, Rademacher),
    )


class _Found(NamedTuple):
    """The largest sum of three terms over Λ."""

    mixture: Array
    terms: tuple[float, float, float]
    slack: float
    search: str


def _price(c: Class) -> tuple[int, float]:
    """The confidence terms that a complexity takes, and the share of δ for its draws."""
    return (3, DRAWN) if isinstance(c, Rademacher) else (1, 0.0)


def _theorem_1(
    L: Array, at: Callable[[Array], float], widths: Array, target: MixtureSet, worst: float
) -> _Found:
    """max_{λ∈Λ} of L̂(λ) + 2ℜ(λ) + √(Σ λ_k² widths_k²)."""

    def terms(lam: Array) -> tuple[float, float, float]:
        return float(lam @ L), at(lam), math.sqrt(float(lam**2 @ widths**2))

    best = largest_at(lambda lam: sum(terms(lam)), target)
    slack, search = 0.0, "every corner of Λ was tried, so the maximum is global"
    if not best.is_global:
        apart = float(target.maximize(L) @ L) + worst + Complexity(widths**2).worst(target)
        slack = max(apart - best.value, 0.0)
        search = (
            f"climbed from many starts; no mixture is more than {slack:.2g} above the best found"
        )
    return _Found(best.mixture, terms(best.mixture), slack, search)


def _alternative(
    L: Array, at: Callable[[Array], float], widths: Array, target: MixtureSet
) -> _Found:
    """Σ λ_k (L̂_k + 2ℜ^k + widths_k) is linear in λ, so its maximum is exact."""
    twice = np.array([at(e) for e in np.eye(len(L))])
    lam = target.maximize(L + twice + widths)
    search = "linear in λ, so the maximum over Λ is global"
    return _Found(lam, (float(lam @ L), float(lam @ twice), float(lam @ widths)), 0.0, search)


def tightest(
    domain_losses: ArrayLike,
    sizes: ArrayLike,
    complexity: Complexity | Rademacher | float,
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
    complexity : Complexity, Rademacher or float
        As in `generalization`.
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
    eps = _best_epsilon(target, m, each, *_price(_complexity(complexity, m)))
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


def _best_epsilon(target: MixtureSet, m: Array, delta: float, terms: int, share: float) -> float:
    """The least ε + terms · √(𝔰/(2m) log(|Λ_ε|/δ)) on a grid of ε, 0 included."""
    total = float(m.sum())
    scale, log = target.skewness(m) / (2 * total), -math.log((1 - share) * delta)

    def width(eps: float) -> float:
        return eps + terms * math.sqrt(scale * (target.log_cover_size(eps) + log))

    tried: list[float] = [0.0, *(np.geomspace(1e-3, 1e3, 61) / math.sqrt(total)).tolist()]
    return min(tried, key=width)


def _counted(
    theorem: str, target: MixtureSet, epsilon: float | None, m: Array
) -> tuple[float, float, int]:
    """log |Λ_ε| or log p, ε, and how many mixtures a complexity is drawn at; 0 for too many."""
    if theorem == "alternative":
        return math.log(len(m)), 0.0, len(m)
    n_corners = 0 if target.corners is None else len(target.corners)
    if theorem == "1, corners":
        if not n_corners:
            fix = "say theorem='1'; only listed corners can be counted"
            raise InputError("theorem", f"is '1, corners', but those of {target!r} are many", fix)
        return math.log(n_corners), 0.0, n_corners
    if epsilon is None:
        finite = math.isfinite(target.log_cover_size(0.0))
        epsilon = 0.0 if finite else 1 / math.sqrt(float(m.sum()))
    fix = "give a number > 0, such as 1/√m; 0 is for a finite Λ"
    eps = finite_number("epsilon", epsilon, fix, lambda x: x >= 0)
    log_size = target.log_cover_size(eps)
    if math.isinf(log_size):
        raise InputError("epsilon", f"is {eps:g}, and no finite cover of Λ is so fine", fix)
    return log_size, eps, n_corners


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


def _complexity(c: Class, m: Array) -> Class:
    if isinstance(c, Rademacher):
        if not np.array_equal(c.sizes, m):
            found = f"is of rows of the sizes {c.sizes.tolist()}, but those given are {m.tolist()}"
            raise InputError("complexity", found, "take it on the rows of the losses")
        if not c.is_disjoint:
            found = "is of rows that are in two domains, and the theorem takes independent ones"
            raise InputError("complexity", found, "give each row one domain")
        return c
    if not isinstance(c, Complexity):
        fix = "give a Complexity, a Rademacher or a number ≥ 0"
        return finite_number("complexity", c, fix, lambda x: x >= 0)
    if c.squares.size != m.size:
        found = f"is of {c.squares.size} domains, but there are {m.size} sizes"
        raise InputError("complexity", found, "make it of the same sizes")
    return c


def _at(c: Class, lam: Array, drawn: float) -> float:
    if isinstance(c, Rademacher):
        return c._at_most(lam, drawn)
    return math.sqrt(float(c.squares @ lam**2)) if isinstance(c, Complexity) else c


def _worst(c: Class, target: MixtureSet) -> float:
    if isinstance(c, Rademacher):
        return c._worst(target)
    return c.worst(target) if isinstance(c, Complexity) else c
