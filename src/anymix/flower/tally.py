"""What the server does with the replies: check each, clip it, and add them all up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import Message
from numpy.typing import NDArray

from anymix.flower.roster import Roster
from anymix.flower.wire import unpack

Array = NDArray[np.float64]

__all__ = ["Answer", "add_up", "clip", "enough", "read_answer", "rebalance"]


@dataclass(frozen=True)
class Answer:
    """A client's checked reply: Σ A_k ∇ and B_k · mean loss of each of its domains."""

    update: Array  # (n_parameters,)
    losses: Array  # (p,), 0 for the domains it was not asked about


def read_answer(
    reply: Message, n_parameters: int, roster: Roster, i: int, asked: NDArray[np.bool_]
) -> Answer:
    """The answer in the reply of member i, asked about the domains `asked` (p,).

    ValueError says what is wrong with it.
    """
    if reply.has_error():
        raise ValueError(f"the client failed: {reply.error.reason}")
    arrays, settings = unpack(reply.content)
    update, sums = arrays.get("update"), settings.get("sums")
    if update is None or update.shape != (n_parameters,) or update.dtype.kind != "f":
        found = None if update is None else (str(update.dtype), update.shape)
        raise ValueError(f"update is {found}; it must be {n_parameters} floats")
    places, counts = roster.places[i], roster.counts[i]
    n = len(places)
    if not (isinstance(sums, np.ndarray) and sums.shape == (2 * n,)):
        raise ValueError(f"sums is {sums!r}; it must be {n} losses and {n} counts")
    if not (np.isfinite(update).all() and np.isfinite(sums).all()):
        raise ValueError("update or sums has entries that are NaN or infinite")
    losses, rows = np.zeros((2, len(counts)))
    losses[places], rows[places] = sums[:n], sums[n:]
    if not np.array_equal(rows, asked * counts):
        raise ValueError(
            f"counts are {rows}; the client said it has {counts} and was asked for {asked}"
        )
    return Answer(update.astype(np.float64), asked * losses)


def clip(
    answer: Answer, losses: Array | None = None, update: float | None = None
) -> tuple[Answer, bool]:
    """Losses cut to 0..losses (p,), the update shortened to length `update`; was that needed?"""
    cut, shorter, changed = answer.losses, answer.update, False
    if losses is not None:
        cut = np.clip(cut, 0.0, losses)
        changed = not np.array_equal(cut, answer.losses)
    if update is not None and (length := float(np.linalg.norm(shorter))) > update:
        shorter, changed = shorter * (update / length), True
    return Answer(shorter, cut), changed


def rebalance(A: Array, here: NDArray[np.bool_]) -> Array | None:
    """Factors f of the clients that answered, Σ_c f_c A_ck = the mass asked for, for every k.

    The nearest to 1 in Σ_c |A_c| (f_c − 1)²: for clients of one domain, the mass asked for over the
    mass that answered. So a lost client makes its domain noisier, not lighter. None if that takes
    a factor below 0 or cannot be done.

    >>> A = np.array([[0.25, 0.0], [0.25, 0.0], [0.0, 0.5]])
    >>> rebalance(A, np.array([True, False, True]))
    array([2., 1.])
    """
    target, rest = A.sum(axis=0), A[here]
    mass = rest.sum(axis=1)
    D = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)
    lack = target - rest.sum(axis=0)
    shift = np.linalg.pinv((rest.T * D) @ rest, hermitian=True) @ lack
    f: Array = 1 + D * (rest @ shift)
    exact = np.allclose(f @ rest, target, rtol=1e-9, atol=1e-12)
    return f if exact and np.all(f >= 0) else None


def enough(A: Array, B: Array, here: NDArray[np.bool_], min_share: float) -> bool:
    """Whether at least min_share of the mass asked for, of every domain, is there."""
    whole, part = _totals(A, B), _totals(A[here], B[here])
    return bool(
        np.all(part >= min_share * whole * (1 - 1e-12)) and np.all((part > 0) == (whole > 0))
    )


def _totals(A: Array, B: Array) -> Array:
    return np.array([A.sum(axis=0), B.sum(axis=0)])


def add_up(
    answers: Mapping[int, Answer], asked: Sequence[int], A: Array, B: Array, min_share: float
) -> tuple[Array, Array] | None:
    """(Σ update, Σ losses) over the clients `asked`; None when too little of a domain answered.

    `answers` are by the row of the client in A and B, and added in that order, never in the order
    of the replies. With min_share = 1 everyone asked must have answered. Below that, the rest of a
    domain stands for its lost clients, see `rebalance`.
    """
    rows = sorted(answers)
    if not rows:
        return None
    updates = np.array([answers[i].update for i in rows])
    losses = np.array([answers[i].losses for i in rows])
    if rows == list(asked):
        return updates.sum(axis=0), losses.sum(axis=0)
    here = np.isin(np.arange(len(A)), rows)
    f = rebalance(A, here) if enough(A, B, here, min_share) else None
    if f is None:
        return None
    whole, part = B.sum(axis=0), B[here].sum(axis=0)
    scale = np.divide(whole, part, out=np.ones_like(part), where=part > 0)
    return f @ updates, losses.sum(axis=0) * scale
