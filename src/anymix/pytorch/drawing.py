"""How many rows of each domain a batch gets, and with which chances.

    PerDomain      b/p rows of every domain                      π_k = 1
    Weighted       each row's domain K ~ q                       π_k = 1 − (1 − q_k)^b
    Proportional   b of all rows that are left in this epoch     π_k = 1 − C(m − m_k, b)/C(m, b)

`expected` is E[rows of domain k in a batch]: dividing by it, Σ_i (λ_k/expected_k) ∇ℓ_i is unbiased
for ∇_w Σ_k λ_k L_k(w) whatever q is. With q = λ that is the mean of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from anymix.errors import InputError, finite_number
from anymix.mixtures.checks import proportions, vector

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

__all__ = ["Drawing", "Drawn", "PerDomain", "Proportional", "Weighted"]

NOTHING = np.zeros(4, dtype=np.uint64)  # drawn and not used yet


class Drawn(NamedTuple):
    """How one batch, of all ranks together, was drawn.

    Parameters
    ----------
    counts : ndarray of shape (p,)
        Its rows of each domain.
    expected : ndarray of shape (p,)
        How many there are on average.
    inclusion : ndarray of shape (p,)
        π, the chance that there is any.
    q : ndarray of shape (p,) or None
        The chances of the domains, where each row's domain was drawn.
    before : ndarray of shape (p,) or None
        How many rows of each domain were used up before this batch.
    """

    counts: Counts
    expected: Array
    inclusion: Array
    q: Array | None = None
    before: Counts | None = None


class Drawing(Protocol):
    """What DomainBatches asks of a sampler; write your own with this method.

    Examples
    --------
    >>> drawing: Drawing = PerDomain()
    """

    def draw(self, sizes: Counts, b: int, t: int, seed: int, q: Array | None) -> Drawn | None:
        """The counts of batch t with b rows; None lets the batch be any b rows that are left.

        Parameters
        ----------
        sizes : ndarray of shape (p,)
            Rows of each domain.
        b : int
            Rows of the batch, those of all ranks together.
        t : int
            The number of the batch since the first epoch.
        seed : int
            Where chance comes from.
        q : ndarray of shape (p,) or None
            Chances to draw with again, when a run is resumed.
        """
        ...


@dataclass(frozen=True)
class PerDomain:
    """The same number of rows of every domain; what is left over goes round.

    Examples
    --------
    >>> import numpy as np
    >>> from anymix.pytorch import DomainBatches, PerDomain
    >>> batches = DomainBatches([0] * 8 + [1] * 2, batch_size=4, sampler=PerDomain())
    >>> [np.bincount(np.array([0] * 8 + [1] * 2)[batch]).tolist() for batch in batches]
    [[2, 2], [2, 2], [2, 2]]
    """

    def draw(self, sizes: Counts, b: int, t: int, seed: int, q: Array | None) -> Drawn:
        """b/p rows of each domain; of b mod p rows more, the next domains get one each."""
        p = len(sizes)
        if b < p:
            found = f"is {b} for {p} domains, ranks together"
            raise InputError("batch_size", found, "make it larger, or take Weighted(criterion)")
        before = self.taken(p, b, t)
        counts = self.taken(p, b, t + 1) - before
        return Drawn(counts, counts.astype(np.float64), np.ones(p), before=before)

    @staticmethod
    def taken(p: int, b: int, t: int) -> Counts:
        """How many rows of each domain the first t batches take."""
        each, extra = divmod(b, p)
        k = np.arange(p, dtype=np.int64)
        taken: Counts = t * each + (t * extra - k + p - 1) // p
        return taken


@dataclass(frozen=True, eq=False)
class Weighted:
    """The domain of each row by chances q, a mixture of λ and a little of every domain.

    q = (1 − uniform) λ + uniform / p. A domain with q_k = 0 would never be seen, and its λ_k could
    never return. The loss follows this sampler: it divides by q, so q need not be λ.

    Parameters
    ----------
    source : AgnosticLoss or array-like of shape (p,)
        Whose λ it is, now; or fixed weights, for a loss that follows the batches.
    uniform : float
        The part of all rows that does not ask for λ.

    Examples
    --------
    >>> from anymix import Simplex
    >>> from anymix.pytorch import AgnosticLoss, DomainBatches, Weighted
    >>> criterion = AgnosticLoss(Simplex(2), step=0.1)
    >>> batches = DomainBatches([0] * 8 + [1] * 2, batch_size=4, sampler=Weighted(criterion))
    >>> [len(batch) for batch in batches]
    [4, 4, 4]
    """

    source: Any
    uniform: float = 0.1

    def __post_init__(self) -> None:
        fix = "give a number in (0, 1]: with 0, a domain that λ leaves is never seen again"
        finite_number("uniform", self.uniform, fix, lambda x: 0 < x <= 1)
        object.__setattr__(self, "_bits", np.random.Generator(np.random.Philox(0)))

    def weights(self, p: int) -> Array:
        """q (p,), now."""
        if hasattr(self.source, "adversary"):
            lam: Array = self.source.adversary.mixture
            return (1 - self.uniform) * lam + self.uniform / p
        return proportions(vector("source", self.source, p))

    def draw(self, sizes: Counts, b: int, t: int, seed: int, q: Array | None) -> Drawn:
        """b times a domain by chances q."""
        q = self.weights(len(sizes)) if q is None else q
        counts = self._from(seed, t).multinomial(b, q / q.sum())
        return Drawn(counts, b * q, 1 - (1 - q) ** b, q)

    def _from(self, seed: int, t: int) -> np.random.Generator:
        """That of Philox(key=[seed, 0], counter=[0, 0, t, 0]): any t without those before.

        To set the numbers takes a tenth of the time of a new generator.
        """
        state = {
            "counter": np.array([0, 0, t, 0], dtype=np.uint64),
            "key": np.array([seed, 0], dtype=np.uint64),
        }
        found: np.random.Generator = self._bits  # type: ignore[attr-defined]
        found.bit_generator.state = {
            "bit_generator": "Philox", "state": state, "buffer": NOTHING, "buffer_pos": 4,
            "has_uint32": 0, "uinteger": 0,
        }  # fmt: skip
        return found


@dataclass(frozen=True)
class Proportional:
    """Every row once in an epoch, in random order, as RandomSampler does it.

    Examples
    --------
    >>> from anymix.pytorch import DomainBatches, Proportional
    >>> batches = DomainBatches([0] * 8 + [1] * 2, batch_size=4, sampler=Proportional())
    >>> sorted(row for batch in batches for row in batch)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def draw(self, sizes: Counts, b: int, t: int, seed: int, q: Array | None) -> None:
        """The batch is the next b rows of the epoch's order."""
        return


def of_all(sizes: Counts, counts: Counts) -> Drawn:
    """How b = Σ counts of all rows are drawn at random, each at most once.

    Parameters
    ----------
    sizes : ndarray of shape (p,)
        Rows of each domain.
    counts : ndarray of shape (p,)
        Those in the batch.
    """
    m, b = float(sizes.sum()), float(counts.sum())
    rest = m - sizes
    possible = np.maximum(rest - b, 0)  # C(rest, b)/C(m, b) = rest! (m−b)! / ((rest−b)! m!)
    log_missed = gammaln(rest + 1) + gammaln(m - b + 1) - gammaln(possible + 1) - gammaln(m + 1)
    missed = np.where(rest >= b, np.exp(np.minimum(log_missed, 0.0)), 0.0)
    return Drawn(counts, np.asarray(b * sizes / m, dtype=np.float64), 1 - missed)


def ids_of(domains: ArrayLike, n_domains: int | None = None) -> Counts:
    """The domain of each row, (n,), whole numbers from 0.

    Parameters
    ----------
    domains : array-like of shape (n,)
        What the caller gave.
    n_domains : int, optional
        How many domains there are; by default one more than the largest number.
    """
    ids = np.asarray(domains)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or ids.size == 0:
        found = f"has shape {ids.shape} and dtype {ids.dtype}"
        raise InputError("domains", found, "give the number 0, 1, … of each row's domain")
    if ids.min() < 0 or (n_domains is not None and ids.max() >= n_domains):
        bad = ids.min() if ids.min() < 0 else ids.max()
        raise InputError("domains", f"holds {bad}", f"give 0 to {(n_domains or ids.max() + 1) - 1}")
    return ids.astype(np.int64)
