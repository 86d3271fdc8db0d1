"""Batches by domain for torch.utils.data.DataLoader: sharded, resumable, with known chances."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np
import torch.distributed as dist
from numpy.typing import ArrayLike, NDArray
from torch.utils.data import Sampler

from anymix.errors import InputError
from anymix.mixtures.checks import count
from anymix.pytorch.drawing import Drawing, Drawn, PerDomain, Weighted, ids_of, of_all
from anymix.pytorch.walks import Walk

Counts = NDArray[np.int64]
AHEAD = 256  # batches that a loader may fetch ahead, beyond what a loss follows

__all__ = ["DomainBatches"]


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
