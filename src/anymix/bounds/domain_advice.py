"""Few, large and pure domains: what the bound says about merging domains (Sections 3 and 6.1).

    bound(groups) = max_g ( L̂_g + M √(log(p/δ)/(2 m_g)) )

The alternative theorem for all mixtures, without its complexity: merging makes m_g larger and p
smaller, so that less is left to chance, but a merged domain is no longer protected on its own. So
only domains that are too small to say much, and that nothing tells from each other, are to be
merged, and never into fewer than two: one group has no mixture to protect against.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.auditing.guarantees import probability
from anymix.errors import InputError, finite_number, finite_vector
from anymix.mixtures.checks import positive
from anymix.problem.clusters import Clusters, best_clusters, impurities
from anymix.problem.divergences import Divergence

__all__ = [
    "DomainAdvice",
    "advise_domains",
    "clusters_by_bound",
    "confidence_widths",
    "rows_needed",
]

Array = NDArray[np.float64]
Groups = list[list[int]]


def confidence_widths(sizes: ArrayLike, delta: float = 0.05, loss_bound: float = 1.0) -> Array:
    """M √(log(p/δ)/(2 m_k)): how far chance may move the mean loss of each of p domains at once.

    Parameters
    ----------
    sizes : array-like of shape (p,)
        m_k > 0, the rows of each domain.
    delta : float
        δ in (0, 1), how often one of them may be further off.
    loss_bound : float
        M > 0, what no loss can be above.

    Returns
    -------
    ndarray of shape (p,)

    Examples
    --------
    >>> confidence_widths([50, 200], delta=2 * np.exp(-1))
    array([0.1 , 0.05])
    """
    m = positive("sizes", sizes)
    return np.asarray(_bound(loss_bound) * np.sqrt(_log(m.size, delta) / (2 * m)))


def rows_needed(
    sizes: ArrayLike, width: float, delta: float = 0.05, loss_bound: float = 1.0
) -> NDArray[np.int64]:
    """⌈M² log(p/δ)/(2 width²)⌉ − m_k, at least 0: rows to add until chance moves L̂_k by `width`.

    Parameters
    ----------
    sizes : array-like of shape (p,)
        m_k > 0, the rows that each domain has.
    width : float
        The width that is wanted, > 0.
    delta : float
        δ in (0, 1).
    loss_bound : float
        M > 0, what no loss can be above.

    Returns
    -------
    ndarray of int, shape (p,)

    Examples
    --------
    >>> rows_needed([50, 200, 900], width=0.05, delta=3 * np.exp(-2))
    array([350, 200,   0])
    """
    m = positive("sizes", sizes)
    M = _bound(loss_bound)
    fix = f"give a number > 0, such as {M / 20:g}"
    wanted = finite_number("width", width, fix, lambda x: x >= 1e-7 * M)
    enough = M**2 * _log(m.size, delta) / (2 * wanted**2)
    more = np.maximum(math.ceil(enough * (1 - 1e-12)) - np.floor(m), 0)
    return np.asarray(more, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class DomainAdvice:
    """Which domains to merge, and what that does to the bound.

    Attributes
    ----------
    groups : tuple of tuple
        The domains that stay or go together, by name.
    labels : ndarray of int, shape (p,)
        The group of each domain.
    before, after : float
        The bound of the worst domain as they are, and merged; without losses, its width.
    is_enough : bool
        Whether no group is left that is too wide and that nothing tells from the others.
    is_merged : bool
        Whether anything is to be merged.

    Examples
    --------
    >>> advise_domains([1000, 1000, 25], losses=[0.1, 0.5, 0.12]).groups
    ((0, 2), (1,))
    """

    groups: tuple[tuple[Any, ...], ...]
    labels: NDArray[np.intp]
    before: float
    after: float
    is_enough: bool

    @property
    def is_merged(self) -> bool:
        """Whether anything is to be merged."""
        return len(self.groups) < len(self.labels)

    def explain(self) -> str:
        """The advice in words.

        Returns
        -------
        str
        """
        if len(self.labels) == 1:
            return "There is one domain, and nothing to merge it with."
        if self.is_merged:
            return (
                f"{self.merged_in_words()}, and Hoeffding's bound of the worst one falls from "
                f"{self.before:.3g} to {self.after:.3g}. {self.price_in_words()}"
            )
        if not self.is_enough:
            return (
                "A domain has too few rows to say much, but no merger can be advised: it would "
                "leave one domain, and no mixture to protect against. Only more rows help."
            )
        return (
            f"Keep the {len(self.labels)} domains as they are: each is large enough, or its rows "
            "tell it from all others."
        )

    def merged_in_words(self) -> str:
        """What to merge, and how many domains are left.

        Returns
        -------
        str
        """
        merged = [g for g in self.groups if len(g) > 1]
        said = "; ".join(" + ".join(repr(str(name)) for name in g) for g in merged[:5])
        more = f" and {len(merged) - 5} more groups" if len(merged) > 5 else ""
        return f"Merge {said}{more}: {len(self.labels)} domains become {len(self.groups)}"

    def price_in_words(self) -> str:
        """What merging costs, and whether it is enough.

        Returns
        -------
        str
        """
        price = (
            "Merged domains are no longer protected one by one: one of them may be worse than its "
            "group."
        )
        few = "" if self.is_enough else " Even so rows are too few; only more of them help."
        return price + few


def advise_domains(
    sizes: ArrayLike,
    losses: ArrayLike | None = None,
    *,
    names: Sequence[Any] | None = None,
    width: float | None = None,
    delta: float = 0.05,
    loss_bound: float = 1.0,
) -> DomainAdvice:
    """Groups of width M √(log(p/δ)/(2 m_g)) ≤ `width`, of domains that cannot be told apart.

    The smallest group that is too wide is merged with the one whose loss is nearest, unless the
    rows tell some of their domains apart: L̂_j and L̂_k differ by more than the widths of j and k.
    Then it stays as it is. Without losses, nothing tells them apart. Two groups at least are left.

    Parameters
    ----------
    sizes : array-like of shape (p,)
        m_k > 0, the rows of each domain.
    losses : array-like of shape (p,) or None
        L̂_k in [0, M], mean losses; or any other number by which domains differ.
    names : sequence or None
        Names of the domains; None is 0, …, p − 1.
    width : float or None
        A domain within it is large enough; None is M/10.
    delta : float
        δ in (0, 1), how often the bound may fail.
    loss_bound : float
        M > 0, what no loss can be above.

    Returns
    -------
    DomainAdvice

    Examples
    --------
    >>> advice = advise_domains([5000, 30, 40], losses=[0.2, 0.2, 0.21], names=["a", "b", "c"])
    >>> advice.groups, advice.is_enough  # to merge 'c' as well would leave one domain
    ((('a', 'b'), ('c',)), False)
    >>> advise_domains([5000, 300, 40], width=0.1).groups
    ((0,), (1, 2))
    """
    m, M, delta = positive("sizes", sizes), _bound(loss_bound), probability("delta", delta)
    p = m.size
    given: Any = names
    listed = isinstance(given, Iterable) and not isinstance(given, str)
    called = tuple(range(p)) if given is None else tuple(given) if listed else ()
    if len(called) != p:
        found = f"has {len(called)} entries" if listed else f"is {names!r}"
        raise InputError("names", found, f"give {p}, one a domain")
    L = np.zeros(p) if losses is None else finite_vector("losses", losses, p)
    fix = "give a number > 0"
    goal = M / 10 if width is None else finite_number("width", width, fix, lambda x: x > 0)
    groups, is_enough = _merged(m, L, goal, delta, M)
    labels = np.empty(p, dtype=np.intp)
    for g, members in enumerate(groups):
        labels[members] = g
    named = tuple(tuple(called[k] for k in sorted(members)) for members in groups)
    single: Groups = [[k] for k in range(p)]
    before, after = (float(_bounds(some, m, L, delta, M).max()) for some in (single, groups))
    return DomainAdvice(named, labels, before, after, is_enough)


def _merged(m: Array, L: Array, goal: float, delta: float, M: float) -> tuple[Groups, bool]:
    """Merge the smallest group that is too wide with the nearest one, as long as three are left.

    And whether that was enough.
    """
    groups: Groups = [[k] for k in range(m.size)]
    rows, mean, own = m.copy(), L.copy(), confidence_widths(m, delta, M)
    low, high = L - own, L + own  # the numbers that all intervals of a group have in common
    there, alone = np.ones(m.size, dtype=bool), np.zeros(m.size, dtype=bool)
    while True:
        wide = M * np.sqrt(_log(int(there.sum()), delta) / (2 * rows)) > goal
        todo = np.flatnonzero(there & wide & ~alone)
        if not todo.size:
            break
        i = int(todo[np.argmin(rows[todo])])
        alike = there & (np.maximum(low, low[i]) <= np.minimum(high, high[i]))
        alike[i] = False
        alone[i] = not alike.any()  # the rows tell it from all others
        if alone[i]:
            continue
        if there.sum() == 2:
            break
        near = np.flatnonzero(alike)
        j = int(near[np.lexsort((rows[near], np.abs(mean[near] - mean[i])))[0]])
        mean[j] = (rows[i] * mean[i] + rows[j] * mean[j]) / (rows[i] + rows[j])
        rows[j] += rows[i]
        low[j], high[j] = max(low[i], low[j]), min(high[i], high[j])
        groups[j] += groups[i]
        there[i] = False
        alone[:] = False
    return sorted((sorted(groups[k]) for k in np.flatnonzero(there)), key=min), not todo.size


def _mean(members: list[int], m: Array, L: Array) -> float:
    return float(m[members] @ L[members] / m[members].sum())


def _bounds(groups: Groups, m: Array, L: Array, delta: float, M: float) -> Array:
    """L̂_g + M √(log(p/δ)/(2 m_g)) of each group."""
    rows = np.array([float(m[g].sum()) for g in groups])
    widths = M * np.sqrt(_log(len(groups), delta) / (2 * rows))
    return np.array([_mean(g, m, L) for g in groups]) + widths


def _log(p: int, delta: Any) -> float:
    return math.log(p / probability("delta", delta))


def _bound(loss_bound: Any) -> float:
    return finite_number("loss_bound", loss_bound, "give a number > 0", lambda x: x > 0)


MOST_BY_BOUND = 20  # clusters that are tried


def clusters_by_bound(
    X: Array,
    sizes: Array,
    divergence: Divergence,
    rng: np.random.Generator,
    n_init: int = 10,
    max_iter: int = 300,
) -> tuple[Clusters, Array]:
    """The best clusters of the K = 1, 2, … whose bound is least, and the bounds of all K.

        max_k ℓ₁_k + √(log(K/δ)/(2 m_k))

    is what the bounds add to the loss of the worst of K domains. ℓ₁_k is the impurity of cluster k,
    by which a client of its own may differ from it; the root is the confidence term of its rows.
    More clusters are purer and smaller. K = 1 has no mixture to protect against.
    """
    tried = [
        best_clusters(X, sizes, K, divergence, rng, n_init, max_iter)
        for K in range(1, min(len(X), MOST_BY_BOUND) + 1)
    ]
    rows = [np.asarray(np.bincount(c.labels, sizes), dtype=np.float64) for c in tried]
    bounds = [
        advise_domains(m, impurities(c, X, sizes, divergence)).before
        for c, m in zip(tried, rows, strict=True)
    ]
    return tried[int(np.argmin(bounds))], np.array(bounds)
