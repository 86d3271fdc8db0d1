"""Batches by domain for torch.utils.data.DataLoader: sharded, resumable, with known chances.

How many rows of each domain a batch gets, and with which chances.

    PerDomain      b/p rows of every domain                      π_k = 1
    Weighted       each row's domain K ~ q                       π_k = 1 − (1 − q_k)^b
    Proportional   b of all rows that are left in this epoch     π_k = 1 − C(m − m_k, b)/C(m, b)

`expected` is E[rows of domain k in a batch]: dividing by it, Σ_i (λ_k/expected_k) ∇ℓ_i is unbiased
for ∇_w Σ_k λ_k L_k(w) whatever q is. With q = λ that is the mean of the batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, final

import numpy as np
import torch.distributed as dist
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln
from torch.utils.data import Sampler

from anymix.errors import InputError, finite_number
from anymix.mixtures.checks import count, proportions, vector

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
AHEAD = 256  # batches that a loader may fetch ahead, beyond what a loss follows

__all__ = ["DomainBatches", "Drawing", "Drawn", "PerDomain", "Proportional", "Weighted"]

NOTHING = np.zeros(4, dtype=np.uint64)  # drawn and not used yet


class Drawn(NamedTuple):
    """How one batch, of all ranks together, was drawn."""

    counts: Counts  # (p,) its rows of each domain
    expected: Array  # (p,) how many there are on average
    inclusion: Array  # (p,) π, the chance that there is any
    q: Array | None = None  # (p,) chances of the domains, where each row's domain was drawn
    before: Counts | None = None  # (p,) how many rows of each domain were used up before this batch


class Drawing(Protocol):
    """What DomainBatches asks of a sampler; write your own with this method."""

    def draw(self, sizes: Counts, b: int, t: int, seed: int, q: Array | None) -> Drawn | None:
        """The counts of batch t with b rows; None lets the batch be any b rows that are left."""
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
    """How b = Σ counts of all rows are drawn at random, each at most once."""
    m, b = float(sizes.sum()), float(counts.sum())
    rest = m - sizes
    possible = np.maximum(rest - b, 0)  # C(rest, b)/C(m, b) = rest! (m−b)! / ((rest−b)! m!)
    log_missed = gammaln(rest + 1) + gammaln(m - b + 1) - gammaln(possible + 1) - gammaln(m + 1)
    missed = np.where(rest >= b, np.exp(np.minimum(log_missed, 0.0)), 0.0)
    return Drawn(counts, np.asarray(b * sizes / m, dtype=np.float64), 1 - missed)


def ids_of(domains: ArrayLike, n_domains: int | None = None) -> Counts:
    """The domain of each row, (n,), whole numbers from 0."""
    ids = np.asarray(domains)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or ids.size == 0:
        found = f"has shape {ids.shape} and dtype {ids.dtype}"
        raise InputError("domains", found, "give the number 0, 1, … of each row's domain")
    if ids.min() < 0 or (n_domains is not None and ids.max() >= n_domains):
        bad = ids.min() if ids.min() < 0 else ids.max()
        raise InputError("domains", f"holds {bad}", f"give 0 to {(n_domains or ids.max() + 1) - 1}")
    return ids.astype(np.int64)


# The rows of each domain in random order, pass after pass, from any place on.
#
# Row number c of domain k is at place c mod m_k of pass c div m_k; each pass has its own order. It
# comes from a generator that counts (Philox), set to (seed, domain, pass), so it can be made again
# for any pass without going through those before.


class Walk:
    """Where the next rows of each domain are."""

    def __init__(self, ids: Counts, p: int, seed: int) -> None:
        self.sizes: Counts = np.bincount(ids, minlength=p).astype(np.int64)
        self._starts = np.cumsum(self.sizes) - self.sizes
        self._rows: Counts = np.argsort(ids, kind="stable").astype(np.int64)
        self._order = self._rows.copy()
        self._begin = np.full(p, -1, dtype=np.int64)  # of the pass whose order is there: its first
        self._end = np.full(p, -1, dtype=np.int64)  # row number, and one more than its last
        self._seed = seed

    def take(self, position: Counts, counts: Counts) -> Counts:
        """The next counts[k] rows of every domain k, after position[k] of them; by domain."""
        if (position >= self._begin).all() and (position + counts <= self._end).all():
            return self._order[_ranges(self._starts + position - self._begin, counts)]
        found: list[Counts] = []
        owners = []
        asked = counts.nonzero()[0]
        at, left = position[asked], counts[asked]
        while len(asked):
            self._shuffle(asked, at)
            n = np.minimum(left, self._end[asked] - at)
            found.append(self._order[_ranges((self._starts - self._begin)[asked] + at, n)])
            owners.append(asked.repeat(n))
            more = (n < left).nonzero()[0]
            asked, at, left = asked[more], (at + n)[more], (left - n)[more]
        if not found:
            return np.zeros(0, dtype=np.int64)
        rows: Counts = np.concatenate(found)[np.argsort(np.concatenate(owners), kind="stable")]
        return rows

    def _shuffle(self, domains: Counts, at: Counts) -> None:
        """Make the orders of the passes that hold row numbers `at`, where they are not there."""
        other = (at < self._begin[domains]) | (at >= self._end[domains])
        for k, c in zip(domains[other].tolist(), at[other].tolist(), strict=True):
            m, number = int(self.sizes[k]), c // int(self.sizes[k])
            place = slice(self._starts[k], self._starts[k] + m)
            bits = np.random.Philox(key=[self._seed, 1], counter=[0, 0, k, number])
            self._order[place] = np.random.Generator(bits).permutation(self._rows[place])
            self._begin[k], self._end[k] = number * m, (number + 1) * m


def _ranges(first: Counts, n: Counts) -> Counts:
    """The n[k] whole numbers from first[k] on, for every k."""
    numbers: Counts = (first - n.cumsum() + n).repeat(n) + np.arange(n.sum())
    return numbers


@final
class DomainBatches(Sampler[list[int]]):
    """Lists of row numbers, one for each batch: `DataLoader(data, batch_sampler=batches)`.

    All ranks draw the same big batch from the same seed and each takes its own rows of it, so no
    two ranks have a row in common before a domain's rows are used up. A domain's rows come in
    random order, all of them before any comes again. Iterating again is a new epoch, which has as
    many batches as it takes for all rows.

    Parameters
    ----------
    domains : array-like of shape (n,)
        The domain of each row, 0, 1, …
    batch_size : int
        Rows of a batch of one rank.
    sampler : PerDomain, Weighted or Proportional, optional
        What a batch is made of; PerDomain() by default.
    seed : int
        Where chance comes from, the same on all ranks.
    rank, world_size : int, optional
        Which of how many processes this is; by default those of torch.distributed.
    n_domains : int, optional
        How many domains there are; by default one more than the largest number.
    drop_last : bool
        Leave out a last batch that is not full. Fewer rows than ranks are always left out.

    Attributes
    ----------
    epoch : int
        The number of the epoch under way, from 0; −1 before the first.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> domain = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1])
    >>> batches = DomainBatches(domain, batch_size=4)
    >>> loader = DataLoader(TensorDataset(domain), batch_sampler=batches)
    >>> [ids.tolist() for ids, in loader]                        # rows of both in every batch
    [[0, 0, 1, 1], [0, 0, 1, 1]]
    """

    def __init__(
        self,
        domains: ArrayLike,
        batch_size: int,
        sampler: Drawing | None = None,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        n_domains: int | None = None,
        drop_last: bool = False,
    ) -> None:
        ids = ids_of(domains, n_domains)
        self.n_domains = int(ids.max()) + 1 if n_domains is None else count("n_domains", n_domains)
        self.sampler: Drawing = PerDomain() if sampler is None else sampler
        self.rank, self.world_size = _place(rank, world_size)
        self.seed, self.batch_size = _seed(seed), count("batch_size", batch_size)
        self._ids, self._walk = ids, Walk(ids, self.n_domains, self.seed)
        self._length = self._n_batches(drop_last)
        if isinstance(self.sampler, PerDomain | Weighted):
            _some_rows(self._walk.sizes)
        self.epoch, self._batch, self._resume = -1, 0, False
        self._position = np.zeros(self.n_domains, dtype=np.int64)
        self._ahead: deque[Drawn] = deque(maxlen=AHEAD)
        self._given: deque[Any] = deque()
        self.followed = False
        if isinstance(self.sampler, Weighted) and hasattr(self.sampler.source, "follow"):
            self.sampler.source.follow(self)

    @property
    def followed(self) -> bool:
        """Whether a loss asks how each batch was drawn."""
        return self._ahead.maxlen is None

    @followed.setter
    def followed(self, value: bool) -> None:
        self._ahead = deque(self._ahead, maxlen=None if value else AHEAD)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self._length

    def set_epoch(self, epoch: int) -> None:
        """Let the next epoch have this number; unless the middle of one was loaded.

        Parameters
        ----------
        epoch : int
            Its number, from 0.
        """
        if not self._resume:
            self.epoch = int(epoch) - 1

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of this rank: those left of an epoch that was loaded, or a new epoch."""
        if not self._resume:
            self.epoch, self._batch = self.epoch + 1, 0
        self._resume = False
        self._ahead.clear()
        order = None
        while self._batch < self._length:
            drawn = self._draw(self._batch)
            if drawn is None:
                order = self._shuffled() if order is None else order
                rows = order[self._batch * self._b : (self._batch + 1) * self._b]
                drawn = self._of_order(rows)
            else:
                before = self._position if drawn.before is None else drawn.before
                rows = self._walk.take(before, drawn.counts)
                self._position = before + drawn.counts
            self._ahead.append(drawn)
            self._batch += 1
            yield rows[self.rank :: self.world_size].tolist()

    def next_drawn(self) -> Drawn:
        """How the oldest batch that was not asked for yet was drawn; a loss asks once a batch."""
        if not self._ahead:
            fix = "call the loss once for each batch of the sampler that it follows"
            raise InputError("losses", "are more than the batches drawn", fix)
        return self._ahead.popleft()

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """Where the epoch is, in plain numbers.

        Parameters
        ----------
        consumed : int, optional
            Batches of this epoch that your loop is done with. Not needed where a loss follows or
            the loader has no workers; workers fetch ahead, and only the loop knows.

        Returns
        -------
        dict
        """
        if consumed is None:
            consumed = self._batch - (len(self._ahead) if self.followed else 0)
        n_ahead = self._batch - consumed
        if not 0 <= n_ahead <= len(self._ahead):
            found = f"is {consumed} after {self._batch} batches, {len(self._ahead)} of them known"
            raise InputError("consumed", found, "count the batches of this epoch")
        ahead = list(self._ahead)[len(self._ahead) - n_ahead :]
        first = ahead[0].before if ahead else None
        again = [d.q.tolist() for d in ahead if d.q is not None]
        return {
            "seed": self.seed,
            "epoch": self.epoch,
            "batch": consumed,
            "position": (self._position if first is None else first).tolist(),
            "weights": again + [list(q) for q in self._given],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on where `state_dict` was taken.

        Parameters
        ----------
        state : mapping
            What `state_dict` gave, with the same rows, batch size, seed and number of ranks.
        """
        if state["seed"] != self.seed or len(state["position"]) != self.n_domains:
            found = f"has the seed {state['seed']} and {len(state['position'])} domains"
            raise InputError("state", found, f"these have {self.seed} and {self.n_domains}")
        self.epoch, self._batch = int(state["epoch"]), int(state["batch"])
        self._resume = self.epoch >= 0 and self._batch < self._length
        self._position = np.array(state["position"], dtype=np.int64)
        self._given = deque(np.array(q, dtype=np.float64) for q in state["weights"])
        self._ahead.clear()

    @property
    def _b(self) -> int:
        """Rows of the batch of all ranks."""
        return self.batch_size * self.world_size

    def _n_batches(self, drop_last: bool) -> int:
        whole, rest = divmod(len(self._ids), self._b)
        found = whole + (not drop_last and rest >= self.world_size)
        if found == 0:
            fix = "make it smaller"
            raise InputError("batch_size", f"is too large for {len(self._ids)} rows", fix)
        return found

    def _draw(self, batch: int) -> Drawn | None:
        t = max(self.epoch, 0) * self._length + batch
        q = self._given.popleft() if self._given else None
        drawn = self.sampler.draw(self._walk.sizes, self._b, t, self.seed, q)
        if drawn is None or drawn.before is not None:
            return drawn
        return Drawn(drawn.counts, drawn.expected, drawn.inclusion, drawn.q, self._position)

    def _shuffled(self) -> Counts:
        """All rows in the order of this epoch."""
        order: Counts = np.random.default_rng([self.seed, self.epoch]).permutation(len(self._ids))
        return order

    def _of_order(self, rows: Counts) -> Drawn:
        counts = np.bincount(self._ids[rows], minlength=self.n_domains).astype(np.int64)
        return of_all(self._walk.sizes, counts)


def _some_rows(sizes: Counts) -> None:
    if not sizes.all():
        k = int(np.argmin(sizes))
        raise InputError("domains", f"has no row of domain {k}", "leave out domains without rows")


def _seed(seed: int) -> int:
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or not 0 <= seed < 2**63:
        fix = "give a whole number from 0 to 2⁶³ − 1, the same on all ranks"
        raise InputError("seed", f"is {seed!r}", fix)
    return int(seed)


def _place(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """(rank, world_size), by default those of torch.distributed."""
    known = dist.is_available() and dist.is_initialized()
    if world_size is None:
        world_size = dist.get_world_size() if known else 1
    if rank is None:
        rank = dist.get_rank() if known else 0
    if not 0 <= rank < world_size:
        raise InputError("rank", f"is {rank} of {world_size}", "give 0 to world_size − 1")
    return rank, world_size
